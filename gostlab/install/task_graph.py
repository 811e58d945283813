"""The set-up's steps side by side: each in a process, as soon as what it waits for is done."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import TextIO

from gostlab.install.build_env import SetupError, Workbench
from gostlab.terminal_escape import PLAIN_LINE_S, OneLine

FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Step:
    """One step of the set-up."""

    name: str
    does: Callable[[Workbench], str]  # what is there then, in words; it raises SetupError
    after: tuple[str, ...] = ()  # the steps that it waits for, if they are taken at all
    needs: tuple[str, ...] = ()  # those of them without which it is not begun


class InstallProgress:
    """Says what the steps do: a line for each that is done, and how far the long ones are."""

    def __init__(self, total: int, quiet: bool, out: TextIO | None = None) -> None:
        self.total = total
        self.quiet = quiet
        self.line = OneLine(out or sys.stdout)
        self._done = 0
        self._began: dict[str, float] = {}
        self._said: dict[str, str] = {}
        self._next_plain_line: dict[str, float] = {}

    def begin(self, name: str) -> None:
        self._began[name] = time.monotonic()

    def say(self, name: str, text: str) -> None:
        """Overwritten on a terminal; elsewhere a line, but not more than one in half a minute."""
        if self.quiet:
            return
        now = time.monotonic()
        self._said[name] = text
        self._show()
        if not self.line.is_terminal and now >= self._next_plain_line.get(name, now):
            self.line.keep(f"{name}: {text}")
            self._next_plain_line[name] = now + PLAIN_LINE_S

    def end(self, name: str, text: str, word: str) -> None:
        self._done += 1
        self._said.pop(name, None)
        if self.quiet and word == "ok":
            return
        took = time.monotonic() - self._began.get(name, time.monotonic())
        long = f", {took:.0f} s" if took >= 1 else ""
        self.line.keep(f"[{self._done}/{self.total}] {name}: {text}  {word}{long}")
        self._show()

    def _show(self) -> None:
        self.line.show(" · ".join(f"{name}: {text}" for name, text in self._said.items()))


@dataclass
class Working:
    """The steps that are under way, by the end of the pipe on which each says how it goes."""

    bench: Workbench
    progress: InstallProgress
    steps: dict[Connection, tuple[Step, ForkProcess]] = field(default_factory=dict)

    def begin(self, step: Step) -> None:
        heard, said = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_work, args=(step, self.bench, said), name=step.name)
        self.progress.begin(step.name)
        process.start()
        said.close()  # so that its end is seen
        self.steps[heard] = step, process

    def hear(self) -> dict[str, str | None]:
        """Wait until some step says something; why those failed that ended, or None, by name."""
        ended: dict[str, str | None] = {}
        for heard in wait(list(self.steps)):
            assert isinstance(heard, Connection)
            step, process = self.steps[heard]
            try:
                word, text = heard.recv()
            except EOFError:
                process.join()
                word, text = "FAILED", f"it ended with status {process.exitcode}"
            if word == "…":
                self.progress.say(step.name, text)
                continue
            process.join()
            del self.steps[heard]
            self.progress.end(step.name, text, word)
            ended[step.name] = None if word == "ok" else text
        return ended

    def stop(self) -> None:
        """End what is under way, and wait until it is gone."""
        processes = [process for _, process in self.steps.values()]
        for process in processes:
            process.terminate()
        for process in processes:
            assert process.pid is not None
            # Not yet reaped, so that its number names no other group. The signal may find it
            # between the start of a program and the call that would end that program.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.join()


def take_steps(
    steps: Sequence[Step], progress: InstallProgress, bench: Workbench
) -> dict[str, str]:
    """Take steps, as many side by side as can be; by name why some failed or were not begun."""
    by_name = {step.name: step for step in steps}
    order = TopologicalSorter(
        {step.name: [name for name in step.after if name in by_name] for step in steps}
    )
    order.prepare()
    working = Working(bench, progress)
    failed: dict[str, str] = {}
    try:
        while order.is_active():
            for name in order.get_ready():
                lacks = [need for need in by_name[name].needs if need in failed]
                if lacks:
                    failed[name] = f"not begun, without {' and '.join(lacks)}"
                    order.done(name)
                    progress.end(name, failed[name], "FAILED")
                else:
                    working.begin(by_name[name])
            for name, why in (working.hear() if working.steps else {}).items():
                order.done(name)
                if why is not None:
                    failed[name] = why
    finally:
        working.stop()
    return failed


def _work(step: Step, bench: Workbench, said: Connection) -> None:
    """What a step's process does, and leads the group of what it starts."""
    os.setpgid(0, 0)

    def say(text: str) -> None:
        said.send(("…", text))

    own = replace(bench, say=say, notes=[], step=step.name)
    try:
        said.send(("ok", step.does(own)))
    except SetupError as error:
        said.send(("FAILED", "; ".join([str(error), *own.notes])))
    except OSError as error:
        said.send(("FAILED", f"{error.filename or own.cache}: {error.strerror or error}"))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
