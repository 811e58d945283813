# SPDX-License-Identifier: MIT
"""Show progress on standard error: a live display on a terminal, else a line per finished run."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gostlab.results.run_result import RunResult
from gostlab.scheduler.eta import ActiveRun
from gostlab.scheduler.executor import RunObserver
from gostlab.spec.labels import cell_label
from gostlab.spec.run_spec import RunSpec

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from gostlab.console import Console


def format_duration(seconds: float) -> str:
    """Format seconds as `3 min 20 s`, or `20 s`."""
    total_s = max(0, round(seconds))
    return f"{total_s // 60} min {total_s % 60:02d} s" if total_s >= 60 else f"{total_s} s"


class LineProgress(RunObserver):
    """Print a line per finished run on standard error."""

    def __init__(self) -> None:
        self._total = self._count = 0
        self._several = False  # whether runs are of several experiments

    def planned(self, runs: Sequence[RunSpec], done: Sequence[RunResult]) -> None:
        super().planned(runs, done)
        self._several = self._several or len({run.experiment for run in runs}) > 1

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        self._total, self._count = total, already
        if already and round_number == 1:
            self.say(f"{already} of {total} runs are finished already")
        if already < total:
            self.say(to_do_line(total - already, expected_s, again, round_number))

    def finished(self, done: RunResult, left_s: float) -> None:
        self._count += 1
        at = f"[{self._count}/{self._total}]"
        self.say(f"{at} {self.describe(done)} · {format_duration(left_s)} left")

    def describe(self, done: RunResult) -> str:
        """Return a line on how a run ended."""
        result = done.verdict if done.outcome == "ok" else f"{done.outcome}: {done.error}"
        prefix = f"{done.run.experiment}/" if self._several else ""
        return f"{prefix}{done.run.name}: {result} ({done.status.get('wall_s', 0):.1f} s)"


class VerboseProgress(LineProgress):
    """Print a line per run that starts, too."""

    def started(self, run: RunSpec) -> None:
        self.say(f"starting {f'{run.experiment}/' * self._several}{run.name}")


# States of runs in the grid, and their signs: blocks, or letters on a terminal without Unicode.
WAITING, RUNNING, OK, DEGRADED, NO_ANSWER = range(5)
ENDED = {"good": OK, "degraded": DEGRADED}  # any other state is NO_ANSWER
BLOCKS = ("·", "▸", "█", "▒", "✗")
LETTERS = (".", ">", "#", "%", "x")
STYLES = ("dim", "cyan", "green", "yellow", "red")
MAX_GRID_LINES = 12


class LiveDisplay(LineProgress):
    """Represent a live display on a terminal, with lines above it.

    `live_options` are passed to rich.live.Live, which requests the picture at once.
    """

    def __init__(self, title: str, console: "Console | None", **live_options: Any) -> None:
        from rich.live import Live

        from gostlab.console import Console

        super().__init__()
        self._title, self._console = title, console or Console()
        self._live = Live(console=self._console, get_renderable=self.picture, **live_options)

    def picture(self) -> "Group":
        raise NotImplementedError

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def stop(self) -> None:
        self._live.stop()


class ProgressBoard(LiveDisplay):
    """Show the state of every run: a row per matrix, a line per active run and the time left.

    With several experiments a row stands for an experiment. A line for every run that is not good
    stays above the display.
    """

    def __init__(self, title: str, console: "Console | None" = None) -> None:
        self._runs: list[RunSpec] = []
        self._states: dict[str, int] = {}
        self._moving: Sequence[ActiveRun] = ()
        self._left_s: float | None = None
        super().__init__(title, console, transient=True, auto_refresh=False)

    def planned(self, runs: Sequence[RunSpec], done: Sequence[RunResult]) -> None:
        super().planned(runs, done)
        known = {run.name for run in self._runs}
        self._runs += [run for run in runs if run.name not in known]
        self._states |= {end.run.name: ENDED.get(end.state, NO_ANSWER) for end in done}

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        super().begin(total, already, expected_s, again, round_number)
        self._left_s = expected_s
        if already < total:
            self._live.start()
            self._live.refresh()

    def started(self, run: RunSpec) -> None:
        self._states[run.name] = RUNNING

    def moved(self, moving: Sequence[ActiveRun], left_s: float) -> None:
        self._moving, self._left_s = moving, left_s
        self._live.refresh()

    def finished(self, done: RunResult, left_s: float) -> None:
        self._count += 1
        self._left_s = left_s
        self._states[done.run.name] = ENDED.get(done.state, NO_ANSWER)
        self._moving = [active for active in self._moving if active.run.name != done.run.name]
        if done.state != "good":
            self.say(self.describe(done))
        self._live.refresh()

    def picture(self) -> "Group":
        from rich.console import Group
        from rich.text import Text

        left = "" if self._left_s is None else f" · about {format_duration(self._left_s)} left"
        head = Text(f"{self._title} · {self._count} of {self._total}{left}", style="bold")
        width = self._console.width
        moving = (active_run_line(active, of=self._row_of(active.run)) for active in self._moving)
        lines = [*self.grid(width), *map(Text, moving)]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Group(head, *lines)

    def _row_of(self, run: RunSpec) -> str:
        return run.experiment if self._several else run.matrix

    def grid(self, width: int) -> "list[Text]":
        """Return a row per matrix or experiment with one sign per run.

        If a row has more runs than fit, a sign stands for several neighbours and shows the most
        urgent state. Beyond MAX_GRID_LINES rows, all runs share one row.
        """
        from rich.text import Text

        matrices: dict[str, list[int]] = {}
        for run in self._runs:
            state = self._states.get(run.name, WAITING)
            matrices.setdefault(self._row_of(run), []).append(state)
        if len(matrices) > MAX_GRID_LINES:
            states = [state for row in matrices.values() for state in row]
            matrices = {f"{len(matrices)} {'experiments' if self._several else 'matrices'}": states}
        signs = BLOCKS if "utf" in (self._console.encoding or "").lower() else LETTERS
        name_width = min(24, max(map(len, matrices), default=0))
        rows = []
        for name, states in matrices.items():
            row = Text(f"{name[:name_width]:{name_width}} ")
            for state in squeeze_states(states, max(8, width - name_width - 12)):
                row.append(signs[state], style=STYLES[state])
            over = sum(state >= OK for state in states)
            row.append(f" {over}/{len(states)}", style="dim")
            rows.append(row)
        return rows


def squeeze_states(states: Sequence[int], max_signs: int) -> list[int]:
    """Reduce states to at most `max_signs`, each for an equal number of neighbours.

    A sign shows the most urgent state of its neighbours: no result, then running, degraded,
    waiting, good.
    """
    if len(states) <= max_signs:
        return list(states)
    urgent = (NO_ANSWER, RUNNING, DEGRADED, WAITING, OK)
    ends = [round(index * len(states) / max_signs) for index in range(max_signs + 1)]
    return [min(states[start:end], key=urgent.index) for start, end in pairwise(ends)]


def active_run_line(moving: ActiveRun, of: str) -> str:
    """Return a line on an active run: its label, repetition, time on its clock, and speed.

    of: the matrix or experiment of the run.
    """
    cell = cell_label(moving.run.factors)
    label = f"{of}: {cell}" if cell else of
    progress = "starting"
    if moving.loaded_s is not None:
        progress = f"{max(0.0, moving.loaded_s):.0f} of {moving.run.length_s:.0f} s"
    speed = f" · {moving.speed:.2g} × real time" if moving.speed else ""
    return f"  {label}, run {moving.run.repetition} · {progress}{speed}"


def to_do_line(count: int, expected_s: float, again: int, round_number: int) -> str:
    """Return a line on the runs that a block is about to execute."""
    line = f"{count} {'run' if count == 1 else 'runs'} to do, about {format_duration(expected_s)}"
    if round_number > 1:
        line = f"round {round_number}, of cells that are not narrow enough: {line}"
    if again:
        line += f" ({again} of them begun before, or with damaged files)"
    return line


@contextmanager
def progress_on_stderr(title: str, *, quiet: bool, verbose: bool = False) -> Iterator[RunObserver]:
    """Give an observer for standard error: a live display, lines, or nothing if `quiet`."""
    if quiet:
        yield RunObserver()
        return
    if verbose:
        yield VerboseProgress()
        return
    if not sys.stderr.isatty():
        yield LineProgress()
        return
    board = ProgressBoard(title)
    try:
        yield board
    finally:
        board.stop()
