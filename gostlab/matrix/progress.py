"""Progress for people: a bar with time left on a terminal, plain lines elsewhere, nothing when
asked to be quiet.
"""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from gostlab.ask.run_description import RunDescription
from gostlab.matrix.schedule import Finished


def clock_words(seconds: float) -> str:
    """`3 min 20 s`, or `20 s`."""
    whole = max(0, round(seconds))
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


class Quiet:
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        pass

    def started(self, run: RunDescription) -> None:
        pass

    def finished(self, done: Finished, left_s: float) -> None:
        pass


class Lines(Quiet):
    """A line per run on standard error."""

    def __init__(self) -> None:
        self._total = self._count = 0
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """A line outside the progress."""
        print(text, file=sys.stderr, flush=True)

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        self._total, self._count = total, already
        self._began = time.monotonic()
        if already and round_number == 1:
            self.say(f"{already} of {total} runs are finished already")
        if already < total:
            self.say(
                (
                    f"round {round_number}, of cells that are not narrow enough: "
                    if round_number > 1
                    else ""
                )
                + f"{total - already} {'run' if total - already == 1 else 'runs'} to do, about"
                f" {clock_words(expected_s)}"
                + (
                    f" ({again} of them were begun before, or their files are damaged)"
                    if again
                    else ""
                )
            )

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
        if done.status.get("outcome") != "ok" or done.verdict != "ok":
            self.say(describe(done))

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def describe(done: Finished) -> str:
    """A run's end in a line."""
    outcome = done.status.get("outcome")
    words = done.verdict if outcome == "ok" else f"{outcome}: {done.status.get('error')}"
    return f"{done.run.name}: {words} ({done.status.get('wall_s', 0):.1f} s)"


def console_progress(title: str, *, quiet: bool) -> Quiet:
    """What fits this terminal."""
    if quiet:
        return Quiet()
    return Bar(title) if sys.stderr.isatty() else Lines()
