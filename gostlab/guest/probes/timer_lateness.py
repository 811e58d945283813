"""Measure the errors of the real clock during a load: late timers and late departures.

On the virtual clock the guest's time waits for its CPU, so neither can be late for want of the
host's CPU; nothing here runs then.
"""

import gc
import mmap
import os
import re
import signal
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from gostlab.guest.probes.tcp_probe import TRACEFS, trace_instance
from gostlab.guest.workload import grace_s
from gostlab.spec.run_spec import RunSpec

TICK_S = 0.01
# Ten minutes of ticks: the rest of a longer run is not checked.
MAX_TICKS = 60_000
# Departures are traced for half a second in the middle of the load, and for at most this many
# packets.
TRACED_S = 0.5
MAX_PACKETS = 20_000
# Two events per packet, of at most 100 bytes each. A full ring drops later events, so that its
# contents have no gaps.
RING_KIB = 2 * MAX_PACKETS * 100 // 1024
QDISC_EVENTS = ("net_dev_queue", "net_dev_start_xmit")
LINE = re.compile(
    r"\s(?P<t>\d+\.\d+): (?P<event>net_dev_queue|net_dev_start_xmit): dev=(?P<dev>\S+)"
    r" .*?skbaddr=(?P<skb>\S+)"
    r".*? len=(?P<len>\d+)"
)


class QdiscEvent(NamedTuple):
    """A packet that enters a device's queue or leaves it for the device."""

    at_s: float
    leaves: bool
    skb: str  # identifies the packet while it is in the queue
    bytes: int


class DepartureGap(NamedTuple):
    """Two successive departures from a queue that was not empty in between; seconds."""

    got_s: float
    due_s: float


class Ticker:
    """A process that sleeps to every multiple of 10 ms and records how late it woke.

    It takes about 1 % of a sandbox's CPU. It is a process and not a thread, as Python's threads
    would wait for each other's samples.
    """

    def __init__(self, length_s: float) -> None:
        self._ticks = min(MAX_TICKS, int(length_s / TICK_S) + 1)
        # The memory holds the ticker's start, and then a lateness per tick.
        self._memory = mmap.mmap(-1, 8 * (1 + self._ticks))
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._tick()
            finally:
                os._exit(0)

    def _tick(self) -> None:
        gc.disable()
        began_s = time.monotonic()
        struct.pack_into("=d", self._memory, 0, began_s)
        for count in range(1, self._ticks + 1):
            due_s = began_s + count * TICK_S
            left_s = due_s - time.monotonic()
            if left_s > 0:
                time.sleep(left_s)
            struct.pack_into("=d", self._memory, 8 * count, time.monotonic() - due_s)

    def end(self, from_s: float) -> list[float]:
        """Stop, and return how late each instant since `from_s` was, ms.

        Instants that were never reached count, too.
        """
        now_s = time.monotonic()
        self.close()
        began_s, *late_s = struct.unpack(f"={1 + self._ticks}d", self._memory[:])
        return lateness_ms(began_s, late_s, from_s, now_s)

    def close(self) -> None:
        """End the process, if it still runs."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0


def lateness_ms(
    began_s: float, late_s: Sequence[float], from_s: float, until_s: float
) -> list[float]:
    """Return how late the ticks of an interval were, ms.

    A tick that was never written (0) is as late as the end.
    """
    due = ((began_s + count * TICK_S, late) for count, late in enumerate(late_s, 1))
    return [1000 * (late or until_s - due_s) for due_s, late in due if from_s <= due_s < until_s]


class DepartureTrace:
    """A trace instance for packets that enter and leave one device's queue for a short time."""

    def __init__(self, instance: Path, device: str, from_s: float, rate_bps: float) -> None:
        self._instance, self._device = instance, device
        self._from_s, self._rate_bps = from_s, rate_bps
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="departures", daemon=True)

    def start(self) -> None:
        """Set up the trace, and wait for the instant in a thread. Raises OSError."""
        (self._instance / "trace_clock").write_text("mono")
        (self._instance / "buffer_size_kb").write_text(str(RING_KIB))
        (self._instance / "options/overwrite").write_text("0")
        for event in QDISC_EVENTS:
            (self._instance / f"events/net/{event}/filter").write_text(f'name == "{self._device}"')
        self._thread.start()

    def _sample(self) -> None:
        if not self._stop.wait(self._from_s):
            # The event of entering is enabled first: a packet with only a departure was in the
            # queue before.
            self._enable(QDISC_EVENTS, "1")
            self._stop.wait(TRACED_S)
            self._enable(QDISC_EVENTS[::-1], "0")

    def _enable(self, events: Iterable[str], value: str) -> None:
        for event in events:
            (self._instance / f"events/net/{event}/enable").write_text(value)

    def end(self) -> list[DepartureGap]:
        """Stop, and return the gaps between departures."""
        self.close()
        with (self._instance / "trace").open(encoding="ascii", errors="replace") as lines:
            return backlogged_gaps(parse_events(lines, self._device), self._rate_bps)

    def close(self) -> None:
        """End the thread, if it runs."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()


def parse_events(lines: Iterable[str], device: str) -> list[QdiscEvent]:
    """Parse the events of one device's queue."""
    matches = (LINE.search(line) for line in lines)
    events = [
        QdiscEvent(
            float(match["t"]), match["event"] == QDISC_EVENTS[1], match["skb"], int(match["len"])
        )
        for match in matches
        if match is not None and match["dev"] == device
    ]
    return events[: 2 * MAX_PACKETS]


def backlogged_gaps(events: Sequence[QdiscEvent], rate_bps: float) -> list[DepartureGap]:
    """Return the gaps before packets that were queued when the one before left.

    Each gap has its time at the rate.
    """
    entered: dict[str, float] = {}
    gaps, last_s = [], None
    for packet in events:
        if not packet.leaves:
            entered[packet.skb] = packet.at_s
            continue
        entered_s = entered.pop(packet.skb, None)
        if last_s is not None and (entered_s is None or entered_s < last_s):
            gaps.append(DepartureGap(packet.at_s - last_s, 8 * packet.bytes / rate_bps))
        last_s = packet.at_s
    return gaps


def trace_window(run: RunSpec, link: str = "") -> tuple[float, float] | str:
    """Return when departures are traced, seconds from the load's start, and their rate in bit/s.

    The time is the middle of the load. Returns a reason if nothing is traced. `link` is the
    bottleneck's.
    """
    from_s = max(0.0, (run.length_s - TRACED_S) / 2)
    rate_bps = run.path_of_link(link)[run.data_direction].rate_bps
    for at_s, changed_bps in run.rate_changes(link, run.data_direction):
        if from_s - TRACED_S < at_s < from_s + TRACED_S:
            return "the bottleneck's rate changes in the middle of the load"
        if at_s <= from_s:
            rate_bps = changed_bps
    return (from_s, rate_bps) if rate_bps else "the path has no bottleneck"


class LatenessProbes:
    """Both measurements of a load.

    `open_lateness_probes` forks, so it is called before any thread starts.

    late_ms  lateness of every tick
    gaps     gaps between departures, or why there are none
    """

    def __init__(self, run: RunSpec, trace: DepartureTrace | None, why_not: str) -> None:
        self._ticker = Ticker(max(flow.end_s + grace_s(run, flow) for flow in run.flows))
        self._started_s = 0.0
        self._trace = trace
        self.late_ms: Sequence[float] = ()
        self.gaps: Sequence[DepartureGap] | str = why_not

    def start(self) -> None:
        self._started_s = time.monotonic()
        if self._trace:
            try:
                self._trace.start()
            except OSError as error:
                self._trace = None
                self.gaps = f"the kernel refused its tracepoints: {error.strerror}"

    def end(self) -> None:
        """Stop both measurements, after the load."""
        self.late_ms = self._ticker.end(self._started_s)
        if self._trace:
            self.gaps = self._trace.end()

    def close(self) -> None:
        """End what still runs."""
        self._ticker.close()
        if self._trace:
            self._trace.close()


@contextmanager
def open_lateness_probes(
    run: RunSpec, device: str, link: str = ""
) -> Iterator[LatenessProbes | None]:
    """Open a run's measurements for the bottleneck's device; None on the virtual clock."""
    if run.clock == "virtual":
        yield None
        return
    window, trace, why_not = trace_window(run, link), None, ""
    with ExitStack() as undo:
        if isinstance(window, str):
            why_not = window
        elif not all((TRACEFS / f"events/net/{event}").is_dir() for event in QDISC_EVENTS):
            why_not = f"this kernel has no {TRACEFS}/events/net"
        else:
            try:
                instance = undo.enter_context(trace_instance("departures"))
                trace = DepartureTrace(instance, device, *window)
            except OSError as error:
                why_not = f"the kernel refused a trace instance: {error.strerror}"
        watch = LatenessProbes(run, trace, why_not)
        undo.callback(watch.close)
        yield watch
