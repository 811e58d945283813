"""Progress on standard error: a bar with time left on a terminal, a line per run elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from gostlab.matrix.schedule import Finished, Quiet


def clock_words(seconds: float) -> str:
    """`3 min 20 s`, or `20 s`."""
    whole = max(0, round(seconds))
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


class Lines(Quiet):
    """A line per run on standard error."""

    def __init__(self) -> None:
        self._total = self._count = 0

    def say(self, text: str) -> None:
        """A line outside the progress."""
        print(text, file=sys.stderr, flush=True)

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        self._total, self._count = total, already
        if already and round_number == 1:
            self.say(f"{already} of {total} runs are finished already")
        if already < total:
            self.say(to_do_line(total - already, expected_s, again, round_number))

    def finished(self, done: Finished, left_s: float) -> None:
        self._count += 1
        self.say(f"[{self._count}/{self._total}] {describe(done)} · {clock_words(left_s)} left")


class Bar(Lines):
    """A bar on a terminal, with a line above it for every run that is not simply good."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=None, left="")

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        super().begin(total, already, expected_s, again, round_number)
        if already < total:
            title = f"{self._title}, round {round_number}" if round_number > 1 else self._title
            self._bar.update(self._task, description=title)
            self._bar.update(
                self._task,
                total=total,
                completed=already,
                left=f"about {clock_words(expected_s)} left",
            )
            self._bar.start()

    def finished(self, done: Finished, left_s: float) -> None:
        self._count += 1
        self._bar.update(self._task, completed=self._count, left=f"{clock_words(left_s)} left")
        if done.outcome != "ok" or done.verdict != "ok":
            self.say(describe(done))

    def stop(self) -> None:
        """Take the bar away."""
        self._bar.stop()


def to_do_line(count: int, expected_s: float, again: int, round_number: int) -> str:
    """What a block of runs is about to do."""
    line = f"{count} {'run' if count == 1 else 'runs'} to do, about {clock_words(expected_s)}"
    if round_number > 1:
        line = f"round {round_number}, of cells that are not narrow enough: {line}"
    if again:
        line += f" ({again} of them were begun before, or their files are damaged)"
    return line


def describe(done: Finished) -> str:
    """A run's end in a line."""
    how = done.verdict if done.outcome == "ok" else f"{done.outcome}: {done.status.get('error')}"
    return f"{done.run.name}: {how} ({done.status.get('wall_s', 0):.1f} s)"


@contextmanager
def progress_on_stderr(title: str, *, quiet: bool) -> Iterator[Quiet]:
    """Progress in the form that fits standard error; none where it is to be quiet."""
    if quiet:
        yield Quiet()
        return
    if not sys.stderr.isatty():
        yield Lines()
        return
    bar = Bar(title)
    try:
        yield bar
    finally:
        bar.stop()
