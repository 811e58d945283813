"""`--live`: runs drawn on a terminal while they go on: the bottleneck's queue as it fills, and what
each flow has in flight.

The picture follows the samples that a run writes. On the virtual clock a run is soon ahead of it;
the picture goes at a pace that people can watch, and waits where a run has no sample yet, so that
runs beside each other are seen at the same instant of their own clocks.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gostlab import results
from gostlab.console import Console
from gostlab.errors import BadInput
from gostlab.safe_read import open_plain
from gostlab.scheduler import summary
from gostlab.scheduler.progress import LiveDisplay
from gostlab.scheduler.queue import Finished, Levels, rank_of, run_folder
from gostlab.spec.labels import cell_words
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.response import bdp_bytes

MAX_RUNS = 4  # side by side
MAX_BYTES = 16 << 20  # of a file, for one picture
MOST = 1e15  # of anything that is drawn
FRAMES_PER_S = 10
FRAME_BYTES = 1514  # a full packet on the wire
WAN_LEGS = ("wan", "inner")  # whose congestion control meets the path
# Eighths of a letter's height; without a terminal's blocks whole ones.
BLOCKS = " ▁▂▃▄▅▆▇█"
LETTERS = "        #"
FULL, HALF_FULL = 0.9, 0.5  # of a queue: from where on it is red, yellow
MAX_QUEUE_ROWS, MIN_QUEUE_ROWS, WINDOW_ROWS = 8, 3, 4
WIDE = 60  # letters of a run, from where on what is said of it stands on one line
USUAL_SHARE, ABOVE_USUAL = 0.8, 1.25  # the samples that a window's axis must hold, and room
RATE_OVER_S = 1.0  # what a flow's rate is taken over


@dataclass
class Tail:
    """A file of JSON lines that grows."""

    path: Path
    offset: int = 0

    def rows(self) -> list[dict[str, Any]]:
        """Its whole rows that were not read yet; all of them again where it was made anew."""
        try:
            with open_plain(self.path) as file:
                if file.seek(0, 2) < self.offset:
                    self.offset = 0
                file.seek(self.offset)
                data = file.read(MAX_BYTES)
        except OSError:  # not there yet
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return results.valid_rows(whole.splitlines())


def plausible(row: Mapping[str, Any], names: Sequence[str]) -> list[float] | None:
    """Return some columns of a row; None if no run can have measured one of them."""
    values = [row.get(name) or 0.0 for name in names]
    return values if all(0 <= value <= MOST for value in values) else None


@dataclass(frozen=True)
class Queued:
    """The bottleneck's queue at an instant."""

    at_s: float
    packets: float
    backlog_bytes: float
    drops: float


@dataclass(frozen=True)
class InFlight:
    """A flow at an instant: its sockets that send across the path, together."""

    at_s: float
    window_pkts: float
    srtt_ms: float
    acked_bytes: float


@dataclass
class Followed:
    """A run as far as its samples are written."""

    run: RunSpec
    folder: Path
    ended: Finished | None = None
    queue: list[Queued] = field(default_factory=list)
    # by flow, then by host and leg: a tunnel's data pass several sockets
    flows: dict[str, dict[tuple[str, str], list[InFlight]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._queues = Tail(self.folder / "queues.jsonl")
        self._sockets = Tail(self.folder / "sockets.jsonl")
        self._way = self.run.flows[0].data_way
        self.flows = {flow.name: {} for flow in self.run.flows}

    @property
    def path(self) -> Mapping[str, Any]:
        """The direction of the path that its data cross."""
        way: Mapping[str, Any] = self.run.path[self._way]
        return way

    def read(self) -> None:
        """What was written since it was read last."""
        for row in self._queues.rows():
            if row.get("role") == "bottleneck" and row.get("direction") == self._way:
                names = ("t_s", "backlog_pkts", "backlog_bytes", "drops")
                if values := plausible(row, names):
                    self.add_queued(Queued(*values))
        for row in self._sockets.rows():
            if row.get("leg") in WAN_LEGS and row.get("flow") in self.flows:
                self.add_in_flight(row)

    def add_queued(self, at: Queued) -> None:
        """One sample; of a run that was begun again the first one ends what was there."""
        if self.queue and at.at_s < self.queue[-1].at_s:
            self.queue.clear()
        if self.queue and at.at_s == self.queue[-1].at_s:  # of several links: the fullest
            at = max(at, self.queue.pop(), key=lambda each: each.packets)
        self.queue.append(at)

    def add_in_flight(self, row: Mapping[str, Any]) -> None:
        """One socket's sample, beside those of the same host and instant."""
        place = str(row.get("host")), str(row.get("leg"))
        known = self.flows[row["flow"]].setdefault(place, [])
        values = plausible(row, ("t_s", "cwnd_pkts", "srtt_ms", "bytes_acked"))
        if not values:
            return
        at = InFlight(*values)
        if known and at.at_s < known[-1].at_s:
            known.clear()
        if known and at.at_s == known[-1].at_s:
            last = known.pop()
            window_pkts = at.window_pkts + last.window_pkts
            acked_bytes = at.acked_bytes + last.acked_bytes
            at = InFlight(at.at_s, window_pkts, max(at.srtt_ms, last.srtt_ms), acked_bytes)
        known.append(at)

    @property
    def seen_s(self) -> float:
        """Up to where it can be drawn."""
        if self.ended is not None:
            return math.inf
        return self.queue[-1].at_s if self.queue else 0.0

    def sender(self, flow: str) -> list[InFlight]:
        """The samples of the host that sends a flow's data across the path."""
        return max(self.flows[flow].values(), key=lambda each: each[-1].acked_bytes, default=[])


class LivePicture(LiveDisplay):
    """Progress as a picture of the runs themselves.

    folder  where the results are
    pace    seconds of a run's own clock that pass in one of the picture
    levels  of each matrix's factors, in the order in which the runs stand beside each other
    """

    def __init__(
        self,
        title: str,
        folder: Path,
        pace: float = 1.0,
        levels: Levels | None = None,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._pace, self._now, self._levels = folder, pace, now, levels or {}
        self._runs: dict[str, Followed] = {}
        self._drawn_s = 0.0
        self._last_s: float | None = None
        self._lock = threading.Lock()
        super().__init__(title, console, refresh_per_second=FRAMES_PER_S, vertical_overflow="crop")

    def planned(self, runs: Sequence[RunSpec], done: Sequence[Finished]) -> None:
        if len(runs) > MAX_RUNS:
            raise BadInput(
                f"--live: {len(runs)} runs, and {MAX_RUNS} can be watched: name fewer levels"
                " (--cc cubic,bbr), or one matrix (--matrix NAME)"
            )
        for run in sorted(runs, key=lambda run: rank_of(run, self._levels)):
            self._runs.setdefault(run.name, Followed(run, run_folder(run, self._folder)))
        for end in done:
            self._runs[end.run.name].ended = end

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        super().begin(total, already, expected_s, again, round_number)
        self._live.start()

    def finished(self, done: Finished, left_s: float) -> None:
        with self._lock:
            self._runs[done.run.name].ended = done
        if done.state != "good":
            super().finished(done, left_s)

    @property
    def length_s(self) -> float:
        return max((each.run.length_s for each in self._runs.values()), default=0.0)

    def play_out(self) -> None:
        """Until all is drawn that the runs left."""
        while self._runs and self._drawn_s < self.length_s:
            time.sleep(1 / FRAMES_PER_S)

    def picture(self) -> Group:
        """The runs side by side, at the instant that is drawn now."""
        with self._lock:
            for each in self._runs.values():
                each.read()
            self.advance()
            panels = [self.panel(each) for each in self._runs.values()]
        grid = Table.grid(padding=(0, 2))
        for _ in panels:
            grid.add_column()
        if panels:
            grid.add_row(*panels)
        head = f"{self._title} · {self._drawn_s:.1f} of {self.length_s:g} s"
        pace = "" if self._pace == 1 else f" · {self._pace:g} × real time"
        return Group(Text(head + pace, style="bold", no_wrap=True, overflow="ellipsis"), grid)

    def advance(self) -> None:
        """The picture's instant: on by what has passed, and no further than every run is known."""
        now_s = self._now()
        passed_s = 0.0 if self._last_s is None else now_s - self._last_s
        known_s = min((each.seen_s for each in self._runs.values()), default=0.0)
        wanted_s = self._drawn_s + passed_s * self._pace
        self._drawn_s = max(self._drawn_s, min(wanted_s, known_s, self.length_s))
        self._last_s = now_s

    # -- one run

    @property
    def width(self) -> int:
        count = max(1, len(self._runs))
        return max(24, (self._console.width - 2 * (count - 1) - 2) // count)

    def panel(self, of: Followed) -> Group:
        """One run: its path, its queue over time, and each flow's window."""
        windows = {flow.name: of.sender(flow.name) for flow in of.run.flows}
        shown = [name for name, samples in windows.items() if samples or len(windows) == 1]
        rows = [line for name in shown for line in self.flow_lines(of, name, windows[name])]
        about = self.path_lines(of)
        used = len(about) + len(rows) + 6  # the heads, the bar, the time's axis
        lines = [
            Text(cell_words(of.run.factors) or of.run.cc, style="bold"),
            *about,
            *self.queue_lines(of, self._console.height - used),
            *rows,
        ]
        end = f"{self.length_s:g} s"
        lines.append(Text(f"      0{end:>{self.columns - 1}}", style="dim"))
        if of.ended is not None and not of.ended.counts:
            why = of.ended.status.get("error") or of.ended.verdict
            lines.append(Text(f"no answer: {of.ended.outcome}: {why}", style="red"))
        for line in lines:
            line.no_wrap = True
            line.truncate(self.width, overflow="ellipsis")
        return Group(*lines)

    def said(self, *pieces: str, style: str) -> list[Text]:
        """What is said of a run: on one line, or where runs are narrow on a line each."""
        if self.width >= WIDE:
            return [Text(" · ".join(pieces), style=style)]
        return [Text(piece, style=style) for piece in pieces]

    def path_lines(self, of: Followed) -> list[Text]:
        """The path's rate, round trip and BDP."""
        rate_bps, rtts_ms = of.path["rate_bps"], sorted({flow.rtt_ms for flow in of.run.flows})
        about = f"{' and '.join(f'{each:g}' for each in rtts_ms)} ms"
        if not rate_bps:
            return self.said(about, style="dim")
        bdps = [bdp_bytes(rate_bps, rtt_ms / 1000) / FRAME_BYTES for rtt_ms in rtts_ms]
        bdp = [f"BDP {bdps[0]:.0f} packets"] if len(bdps) == 1 else []
        return self.said(f"{rate_bps / 1e6:g} Mbit/s · {about}", *bdp, style="dim")

    def queue_lines(self, of: Followed, most_rows: int) -> list[Text]:
        """The queue as a bar that fills, and as it was over time."""
        limit = of.path["buffer_pkts"] or 1
        drawn = [each for each in of.queue if each.at_s <= self._drawn_s]
        now = drawn[-1] if drawn else Queued(0, 0, 0, 0)
        rate_bps = of.path["rate_bps"]
        share = min(1.0, now.packets / limit)
        ends = ("sender ▶▐", "▌▶") if self.blocks == BLOCKS else ("sender >[", "]>")
        length = self.width - len("".join(ends)) - 1
        bar = Text(ends[0])
        bar.append(self.blocks[-1] * round(share * length), style=colour(share))
        bar.append(" " * (length - round(share * length)) + ends[1])
        waits = (
            [f"{summary.ms(8000 * now.backlog_bytes / rate_bps)} ms to wait"] if rate_bps else []
        )
        held = f"queue: {now.packets:.0f} of {limit} packets"
        told = self.said(held, *waits, f"{now.drops:.0f} dropped", style="bold")
        told[0].stylize(colour(share), 0, len(held))
        values = self.in_columns([(each.at_s, each.packets) for each in drawn], max)
        styles = [colour((value or 0) / limit) for value in values]
        rows = max(MIN_QUEUE_ROWS, min(MAX_QUEUE_ROWS, most_rows - len(told)))
        return [bar, *told, *self.chart(values, float(limit), rows, styles)]

    def flow_lines(self, of: Followed, name: str, samples: Sequence[InFlight]) -> list[Text]:
        """One flow's numbers now, and its window over time."""
        drawn = [each for each in samples if each.at_s <= self._drawn_s]
        flow = next(each for each in of.run.flows if each.name == name)
        who = name if len(of.run.flows) > 1 else flow.cc or of.run.cc
        now = drawn[-1] if drawn else InFlight(flow.start_s, 0, 0, 0)
        before = [each for each in drawn if each.at_s <= now.at_s - RATE_OVER_S]
        since = before[-1] if before else InFlight(flow.start_s, 0, 0, 0)
        took_s = max(now.at_s - since.at_s, 1e-3)
        mbit = 8 * max(0.0, now.acked_bytes - since.acked_bytes) / took_s / 1e6
        told = self.said(
            f"{who}: window {now.window_pkts:.0f} packets",
            f"{summary.ms(now.srtt_ms)} ms RTT · {mbit:.1f} Mbit/s",
            style="bold",
        )
        # the least of each column: BBR's four packets last less than a column of a long run
        values = self.in_columns([(each.at_s, each.window_pkts) for each in drawn], min)
        return [*told, *self.chart(values, self.most_window, WINDOW_ROWS, ["cyan"] * len(values))]

    @property
    def most_window(self) -> float:
        """The axis of every window: what one flow has can be held against what another has. A
        start-up's peak may stand out above it, so that the saw after it can be seen.
        """
        places = [each for run in self._runs.values() for each in run.flows.values()]
        seen = sorted(at.window_pkts for known in places for each in known.values() for at in each)
        usual = seen[int(USUAL_SHARE * (len(seen) - 1))] if seen else 1.0
        return rounded_up(min(seen[-1:] or [1.0], [ABOVE_USUAL * usual])[0])

    # -- over time

    @property
    def blocks(self) -> str:
        return BLOCKS if "utf" in (self._console.encoding or "").lower() else LETTERS

    @property
    def columns(self) -> int:
        """Of a chart, letters."""
        return self.width - 7

    def in_columns(
        self, samples: Sequence[tuple[float, float]], pick: Callable[[float, float], float]
    ) -> list[float | None]:
        """What is picked of each column's time; None after the last drawn instant."""
        found: list[float | None] = [None] * self.columns
        per_s = self.columns / self.length_s if self.length_s else 0.0
        for at_s, value in samples:
            column = min(self.columns - 1, int(at_s * per_s))
            known = found[column]
            found[column] = value if known is None else pick(known, value)
        # between two samples the first one holds
        last = None
        for column in range(min(self.columns, int(self._drawn_s * per_s) + 1)):
            last = found[column] = last if found[column] is None else found[column]
        return found

    def chart(
        self, values: Sequence[float | None], top: float, rows: int, styles: Sequence[str]
    ) -> list[Text]:
        """Columns from 0 to `top`, with both written beside them."""
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


def colour(share: float) -> str:
    """Of a queue that is so full."""
    return "red" if share >= FULL else "yellow" if share >= HALF_FULL else "green"


def rounded_up(value: float) -> float:
    """The end of an axis that holds a value: 1, or a round number."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        step * power for step in (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if value <= step * power
    )


@contextmanager
def watched_on_stderr(
    title: str, folder: Path, pace: float, levels: Levels
) -> Iterator[LivePicture]:
    """The picture on standard error, which stays until all is drawn. Raises BadInput."""
    if not sys.stderr.isatty():
        raise BadInput("--live: shows runs on a terminal, and standard error is none: leave it out")
    watched = LivePicture(title, folder, pace, levels)
    try:
        yield watched
        watched.play_out()
    finally:
        watched.stop()
