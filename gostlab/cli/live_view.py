# SPDX-License-Identifier: MIT
"""Draw runs on a terminal while they execute (`--live`): queues and flows' windows.

The picture follows the samples that a run writes. On the virtual clock a run is soon ahead of it;
the picture advances at a pace that people can watch, and waits if a run has no sample yet, so that
parallel runs are drawn at the same instant of their own clocks.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab import results
from gostlab.errors import BadInput
from gostlab.results.rows import SocketRow
from gostlab.results.run_result import RunResult
from gostlab.safe_read import open_plain
from gostlab.scheduler import summary
from gostlab.scheduler.executor import Levels, rank_of, run_folder
from gostlab.scheduler.progress import LiveDisplay
from gostlab.spec.labels import cell_label
from gostlab.spec.path_spec import DirectionSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.response_functions import bdp_bytes

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from gostlab.console import Console


MAX_RUNS = 4  # side by side
MAX_BYTES = 16 << 20  # maximum number of bytes to read from a file for one picture
MAX_VALUE = 1e15  # maximum of a plausible sample
FRAMES_PER_S = 10
FRAME_BYTES = 1514  # a full packet on the wire
WAN_LEGS = ("wan", "inner")  # legs with the congestion control that reacts to the path
# Bars in eighths of a character's height, or whole characters on a terminal without Unicode.
BLOCKS = " ▁▂▃▄▅▆▇█"
LETTERS = "        #"
FULL, HALF_FULL = 0.9, 0.5  # shares of a queue from which on it is red or yellow
MAX_QUEUE_ROWS, MIN_QUEUE_ROWS, WINDOW_ROWS = 8, 3, 4
WIDE = 60  # characters per run from which on its labels stand on one line
USUAL_SHARE, ABOVE_USUAL = 0.8, 1.25  # share of samples within a window's axis, and its margin
RATE_OVER_S = 1.0  # interval over which a flow's rate is averaged


@dataclass
class JsonLinesTail:
    """Read a growing file of JSON lines: all of them, or those that contain a text."""

    path: Path
    offset: int = 0
    containing: str = ""

    def rows(self) -> list[Any]:
        """Return the complete rows not read yet, or all rows if the file was replaced."""
        try:
            if self.path.stat().st_size == self.offset:
                return []
            with open_plain(self.path) as file:
                if file.seek(0, 2) < self.offset:
                    self.offset = 0
                file.seek(self.offset)
                data = file.read(MAX_BYTES)
        except OSError:  # the file does not exist yet
            return []
        complete = data[: data.rfind(b"\n") + 1]
        self.offset += len(complete)
        wanted = self.containing.encode()
        return results.valid_rows(line for line in complete.splitlines() if wanted in line)


def plausible_numbers(row: Any, names: Sequence[str]) -> list[float] | None:
    """Return some columns of a row, or None if one of them is no plausible measurement."""
    values = [row.get(name) or 0.0 for name in names]
    return values if all(0 <= value <= MAX_VALUE for value in values) else None


@dataclass(frozen=True)
class QueueSample:
    """Represent the bottleneck's queue at an instant."""

    at_s: float
    packets: float
    backlog_bytes: float
    drops: float


@dataclass(frozen=True)
class FlowSample:
    """Represent a flow at an instant: all its sockets that send across the path."""

    at_s: float
    window_pkts: float
    srtt_ms: float
    acked_bytes: float


@dataclass
class FollowedRun:
    """Represent a run with the samples that it has written so far."""

    run: RunSpec
    folder: Path
    ended: RunResult | None = None
    queue: list[QueueSample] = field(default_factory=list)
    # Samples by flow, then by host and leg, as a tunnel's data pass several sockets.
    flows: dict[str, dict[tuple[str, str], list[FlowSample]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._queues = JsonLinesTail(self.folder / "queues.jsonl")
        self._sockets = JsonLinesTail(self.folder / "sockets.jsonl")
        self._way = self.run.flows[0].data_direction
        self.flows = {flow.name: {} for flow in self.run.flows}

    @property
    def path(self) -> DirectionSpec:
        """Return the direction of the path that the data cross."""
        return self.run.path[self._way]

    def read(self) -> None:
        """Read the samples written since the last call."""
        for row in self._queues.rows():
            if row.get("role") == "bottleneck" and row.get("direction") == self._way:
                names = ("t_s", "backlog_pkts", "backlog_bytes", "drops")
                if values := plausible_numbers(row, names):
                    self.add_queued(QueueSample(*values))
        for row in self._sockets.rows():
            if row.get("leg") in WAN_LEGS and row.get("flow") in self.flows:
                self.add_in_flight(row)

    def add_queued(self, queued: QueueSample) -> None:
        """Add a sample of the queue; a run that was restarted replaces earlier samples."""
        if self.queue and queued.at_s < self.queue[-1].at_s:
            self.queue.clear()
        if (
            self.queue and queued.at_s == self.queue[-1].at_s
        ):  # several links: keep the fullest queue
            queued = max(queued, self.queue.pop(), key=lambda sample: sample.packets)
        self.queue.append(queued)

    def add_in_flight(self, row: SocketRow) -> None:
        """Add a socket's sample to those of the same host and instant."""
        sender = str(row.get("host")), str(row.get("leg"))
        samples = self.flows[str(row["flow"])].setdefault(sender, [])
        values = plausible_numbers(row, ("t_s", "cwnd_pkts", "srtt_ms", "bytes_acked"))
        if not values:
            return
        sample = FlowSample(*values)
        if samples and sample.at_s < samples[-1].at_s:
            samples.clear()
        if samples and sample.at_s == samples[-1].at_s:
            previous = samples.pop()
            window_pkts = sample.window_pkts + previous.window_pkts
            acked_bytes = sample.acked_bytes + previous.acked_bytes
            sample = FlowSample(
                sample.at_s, window_pkts, max(sample.srtt_ms, previous.srtt_ms), acked_bytes
            )
        samples.append(sample)

    @property
    def seen_s(self) -> float:
        """Return the time up to which the run can be drawn, in seconds."""
        if self.ended is not None:
            return math.inf
        return self.queue[-1].at_s if self.queue else 0.0

    def sender(self, flow: str) -> list[FlowSample]:
        """Return the samples of the host that sends a flow's data across the path."""
        return max(
            self.flows[flow].values(), key=lambda samples: samples[-1].acked_bytes, default=[]
        )


class LivePicture(LiveDisplay):
    """Show progress as a picture of the runs themselves.

    folder  the results folder
    pace    seconds of a run's clock per second of the picture
    levels  each matrix's factors with levels, which give the order of the runs
    """

    def __init__(
        self,
        title: str,
        folder: Path,
        pace: float = 1.0,
        levels: Levels | None = None,
        console: "Console | None" = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._pace, self._now, self._levels = folder, pace, now, levels or {}
        self._runs: dict[str, FollowedRun] = {}
        self._drawn_s = 0.0
        self._last_s: float | None = None
        self._lock = threading.Lock()
        super().__init__(title, console, refresh_per_second=FRAMES_PER_S, vertical_overflow="crop")

    def planned(self, runs: Sequence[RunSpec], done: Sequence[RunResult]) -> None:
        if len(runs) > MAX_RUNS:
            raise BadInput(
                f"--live: {len(runs)} runs, and {MAX_RUNS} can be watched: name fewer levels"
                " (--cc cubic,bbr), or one matrix (--matrix NAME)"
            )
        for run in sorted(runs, key=lambda run: rank_of(run, self._levels)):
            self._runs.setdefault(run.name, FollowedRun(run, run_folder(run, self._folder)))
        for end in done:
            self._runs[end.run.name].ended = end

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        super().begin(total, already, expected_s, again, round_number)
        self._live.start()

    def finished(self, done: RunResult, left_s: float) -> None:
        with self._lock:
            self._runs[done.run.name].ended = done
        if done.state != "good":
            super().finished(done, left_s)

    @property
    def length_s(self) -> float:
        return max((followed.run.length_s for followed in self._runs.values()), default=0.0)

    def play_out(self) -> None:
        """Wait until all samples of the runs have been drawn."""
        while self._runs and self._drawn_s < self.length_s:
            time.sleep(1 / FRAMES_PER_S)

    def picture(self) -> "Group":
        """Return the runs side by side, at the current instant of the picture."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            for followed in self._runs.values():
                followed.read()
            self.advance()
            panels = [self.panel(followed) for followed in self._runs.values()]
        grid = Table.grid(padding=(0, 2))
        for _ in panels:
            grid.add_column()
        if panels:
            grid.add_row(*panels)
        head = f"{self._title} · {self._drawn_s:.1f} of {self.length_s:g} s"
        pace = "" if self._pace == 1 else f" · {self._pace:g} × real time"
        return Group(Text(head + pace, style="bold", no_wrap=True, overflow="ellipsis"), grid)

    def advance(self) -> None:
        """Advance the picture by the time that has passed, up to the last common sample."""
        now_s = self._now()
        passed_s = 0.0 if self._last_s is None else now_s - self._last_s
        known_s = min((followed.seen_s for followed in self._runs.values()), default=0.0)
        wanted_s = self._drawn_s + passed_s * self._pace
        self._drawn_s = max(self._drawn_s, min(wanted_s, known_s, self.length_s))
        self._last_s = now_s

    # -- one run

    @property
    def width(self) -> int:
        count = max(1, len(self._runs))
        return max(24, (self._console.width - 2 * (count - 1) - 2) // count)

    def panel(self, followed: FollowedRun) -> "Group":
        """Return one run's panel: its path, its queue over time, and each flow's window."""
        from rich.console import Group
        from rich.text import Text

        windows = {flow.name: followed.sender(flow.name) for flow in followed.run.flows}
        active_flows = [name for name, samples in windows.items() if samples or len(windows) == 1]
        rows = [
            line for name in active_flows for line in self.flow_lines(followed, name, windows[name])
        ]
        path_lines = self.path_lines(followed)
        used = len(path_lines) + len(rows) + 6  # lines for the headings, the bar and the time axis
        lines = [
            Text(cell_label(followed.run.factors) or followed.run.cc, style="bold"),
            *path_lines,
            *self.queue_lines(followed, self._console.height - used),
            *rows,
        ]
        end = f"{self.length_s:g} s"
        lines.append(Text(f"      0{end:>{self.columns - 1}}", style="dim"))
        if followed.ended is not None and not followed.ended.counts:
            why = followed.ended.error or followed.ended.verdict
            lines.append(Text(f"no answer: {followed.ended.outcome}: {why}", style="red"))
        for line in lines:
            line.no_wrap = True
            line.truncate(self.width, overflow="ellipsis")
        return Group(*lines)

    def label_lines(self, *pieces: str, style: str) -> "list[Text]":
        """Return labels on one line, or on a line each if runs are narrow."""
        from rich.text import Text

        if self.width >= WIDE:
            return [Text(" · ".join(pieces), style=style)]
        return [Text(piece, style=style) for piece in pieces]

    def path_lines(self, followed: FollowedRun) -> "list[Text]":
        """Return the path's rate, round trip and BDP."""
        run = followed.run
        rate_bps, rtts_ms = followed.path.rate_bps, sorted({flow.rtt_ms for flow in run.flows})
        rtt_text = f"{' and '.join(f'{rtt_ms:g}' for rtt_ms in rtts_ms)} ms"
        if not rate_bps:
            return self.label_lines(rtt_text, style="dim")
        bdps = [bdp_bytes(rate_bps, rtt_ms / 1000) / FRAME_BYTES for rtt_ms in rtts_ms]
        bdp = [f"BDP {bdps[0]:.0f} packets"] if len(bdps) == 1 else []
        return self.label_lines(f"{rate_bps / 1e6:g} Mbit/s · {rtt_text}", *bdp, style="dim")

    def queue_lines(self, followed: FollowedRun, most_rows: int) -> "list[Text]":
        """Return the queue as a bar, and its length over time."""
        from rich.text import Text

        limit = followed.path.buffer_pkts or 1
        samples = [sample for sample in followed.queue if sample.at_s <= self._drawn_s]
        now = samples[-1] if samples else QueueSample(0, 0, 0, 0)
        rate_bps = followed.path.rate_bps
        share = min(1.0, now.packets / limit)
        ends = ("sender ▶▐", "▌▶") if self.blocks == BLOCKS else ("sender >[", "]>")
        length = self.width - len("".join(ends)) - 1
        bar = Text(ends[0])
        bar.append(self.blocks[-1] * round(share * length), style=queue_colour(share))
        bar.append(" " * (length - round(share * length)) + ends[1])
        delay_texts = (
            [f"{summary.format_ms(8000 * now.backlog_bytes / rate_bps)} ms to wait"]
            if rate_bps
            else []
        )
        queue_text = f"queue: {now.packets:.0f} of {limit} packets"
        labels = self.label_lines(
            queue_text, *delay_texts, f"{now.drops:.0f} dropped", style="bold"
        )
        labels[0].stylize(queue_colour(share), 0, len(queue_text))
        values = self.values_by_column([(sample.at_s, sample.packets) for sample in samples], max)
        styles = [queue_colour((value or 0) / limit) for value in values]
        rows = max(MIN_QUEUE_ROWS, min(MAX_QUEUE_ROWS, most_rows - len(labels)))
        return [bar, *labels, *self.chart(values, float(limit), rows, styles)]

    def flow_lines(
        self, followed: FollowedRun, name: str, samples: Sequence[FlowSample]
    ) -> "list[Text]":
        """Return a flow's current values, and its window over time."""
        drawn_samples = [sample for sample in samples if sample.at_s <= self._drawn_s]
        flow = next(flow for flow in followed.run.flows if flow.name == name)
        label = name if len(followed.run.flows) > 1 else flow.cc or followed.run.cc
        now = drawn_samples[-1] if drawn_samples else FlowSample(flow.start_s, 0, 0, 0)
        before = [sample for sample in drawn_samples if sample.at_s <= now.at_s - RATE_OVER_S]
        since = before[-1] if before else FlowSample(flow.start_s, 0, 0, 0)
        took_s = max(now.at_s - since.at_s, 1e-3)
        mbit = 8 * max(0.0, now.acked_bytes - since.acked_bytes) / took_s / 1e6
        labels = self.label_lines(
            f"{label}: window {now.window_pkts:.0f} packets",
            f"{summary.format_ms(now.srtt_ms)} ms RTT · {mbit:.1f} Mbit/s",
            style="bold",
        )
        # Take the minimum of each column: BBR's ProbeRTT lasts less than a column of a long run.
        values = self.values_by_column(
            [(sample.at_s, sample.window_pkts) for sample in drawn_samples], min
        )
        return [*labels, *self.chart(values, self.max_window, WINDOW_ROWS, ["cyan"] * len(values))]

    @property
    def max_window(self) -> float:
        """Return the common upper end of all window axes.

        A start-up's peak may exceed it, so that the sawtooth after it stays visible.
        """
        windows = sorted(
            sample.window_pkts
            for followed in self._runs.values()
            for senders in followed.flows.values()
            for samples in senders.values()
            for sample in samples
        )
        usual = windows[int(USUAL_SHARE * (len(windows) - 1))] if windows else 1.0
        return round_axis_end(min(windows[-1:] or [1.0], [ABOVE_USUAL * usual])[0])

    # -- over time

    @property
    def blocks(self) -> str:
        return BLOCKS if "utf" in (self._console.encoding or "").lower() else LETTERS

    @property
    def columns(self) -> int:
        """Return the width of a chart in characters."""
        return self.width - 7

    def values_by_column(
        self, samples: Sequence[tuple[float, float]], pick: Callable[[float, float], float]
    ) -> list[float | None]:
        """Return a picked value per column, or None after the current instant."""
        by_column: list[float | None] = [None] * self.columns
        per_s = self.columns / self.length_s if self.length_s else 0.0
        for at_s, value in samples:
            column = min(self.columns - 1, int(at_s * per_s))
            current = by_column[column]
            by_column[column] = value if current is None else pick(current, value)
        # A sample holds until the next one.
        last = None
        for column in range(min(self.columns, int(self._drawn_s * per_s) + 1)):
            last = by_column[column] = last if by_column[column] is None else by_column[column]
        return by_column

    def chart(
        self, values: Sequence[float | None], top: float, rows: int, styles: Sequence[str]
    ) -> "list[Text]":
        """Return a chart from 0 to `top`, with both as labels of its axis."""
        from rich.text import Text

        lines = []
        steps = len(BLOCKS) - 1
        for row in reversed(range(rows)):
            beside = {rows - 1: f"{top:.0f}", 0: "0"}.get(row, "")
            line = Text()
            line.append(f"{beside:>5} ", style="dim")
            letters = []
            for value in values:
                height = 0.0 if value is None else value / top * rows * steps
                letters.append(self.blocks[min(steps, max(0, round(height) - row * steps))])
            for style, same in groupby(zip(letters, styles, strict=True), key=itemgetter(1)):
                line.append("".join(letter for letter, _ in same), style=style)
            lines.append(line)
        return lines


def queue_colour(share: float) -> str:
    """Return the colour of a queue by its share of the limit."""
    return "red" if share >= FULL else "yellow" if share >= HALF_FULL else "green"


def round_axis_end(value: float) -> float:
    """Return the end of an axis that holds a value: 1, or a round number."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        step * power for step in (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if value <= step * power
    )


@contextmanager
def live_picture_on_stderr(
    title: str, folder: Path, pace: float, levels: Levels
) -> Iterator[LivePicture]:
    """Give a picture on standard error, shown until all is drawn. Raises BadInput."""
    if not sys.stderr.isatty():
        raise BadInput("--live: shows runs on a terminal, and standard error is none: leave it out")
    watched = LivePicture(title, folder, pace, levels)
    try:
        yield watched
        watched.play_out()
    finally:
        watched.stop()
