# SPDX-License-Identifier: MIT
"""Run install tasks in parallel, each in its own process, as soon as its dependencies are done."""

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

from gostlab.install.build_env import InstallContext, SetupError
from gostlab.terminal_escape import PLAIN_LINE_S, StatusLine

FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class SetupStep:
    """A task of the set-up."""

    name: str
    does: Callable[[InstallContext], str]  # returns a text on the result; raises SetupError
    after: tuple[str, ...] = ()  # steps that must end before, if they are run at all
    needs: tuple[str, ...] = ()  # those steps whose failure prevents this one


class InstallProgress:
    """The progress output: a line for each task that is done, and the state of long ones."""

    def __init__(self, total: int, quiet: bool, out: TextIO | None = None) -> None:
        self.total = total
        self.quiet = quiet
        self.line = StatusLine(out or sys.stdout)
        self._done = 0
        self._began: dict[str, float] = {}
        self._status: dict[str, str] = {}
        self._next_plain_line: dict[str, float] = {}

    def begin(self, name: str) -> None:
        self._began[name] = time.monotonic()

    def say(self, name: str, text: str) -> None:
        """Report progress: overwritten on a terminal; else at most one line per half a minute."""
        if self.quiet:
            return
        now = time.monotonic()
        self._status[name] = text
        self._show()
        if not self.line.is_terminal and now >= self._next_plain_line.get(name, now):
            self.line.keep(f"{name}: {text}")
            self._next_plain_line[name] = now + PLAIN_LINE_S

    def end(self, name: str, text: str, word: str) -> None:
        self._done += 1
        self._status.pop(name, None)
        if self.quiet and word == "ok":
            return
        took = time.monotonic() - self._began.get(name, time.monotonic())
        long = f", {took:.0f} s" if took >= 1 else ""
        self.line.keep(f"[{self._done}/{self.total}] {name}: {text}  {word}{long}")
        self._show()

    def _show(self) -> None:
        self.line.show(" · ".join(f"{name}: {text}" for name, text in self._status.items()))


@dataclass
class RunningTasks:
    """The running tasks, by the pipes on which they report."""

    bench: InstallContext
    progress: InstallProgress
    steps: dict[Connection, tuple[SetupStep, ForkProcess]] = field(default_factory=dict)

    def begin(self, step: SetupStep) -> None:
        receiver, sender = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_work, args=(step, self.bench, sender), name=step.name)
        self.progress.begin(step.name)
        process.start()
        sender.close()  # otherwise the end of the process would not close the pipe
        self.steps[receiver] = step, process

    def hear(self) -> dict[str, str | None]:
        """Wait for reports; return the failure or None of each task that ended, by name."""
        ended: dict[str, str | None] = {}
        for receiver in wait(list(self.steps)):
            assert isinstance(receiver, Connection)
            step, process = self.steps[receiver]
            try:
                word, text = receiver.recv()
            except EOFError:
                process.join()
                word, text = "FAILED", f"it ended with status {process.exitcode}"
            if word == "…":
                self.progress.say(step.name, text)
                continue
            process.join()
            del self.steps[receiver]
            self.progress.end(step.name, text, word)
            ended[step.name] = None if word == "ok" else text
        return ended

    def stop(self) -> None:
        """End the running tasks, and wait for their end."""
        processes = [process for _, process in self.steps.values()]
        for process in processes:
            process.terminate()
        for process in processes:
            assert process.pid is not None
            # The process is not yet reaped, so that its ID names no other group. It may have died
            # after starting a program, before it could end that program.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.join()


def run_steps(
    steps: Sequence[SetupStep], progress: InstallProgress, bench: InstallContext
) -> dict[str, str]:
    """Run tasks in parallel; return why some failed or were not started, by name."""
    by_name = {step.name: step for step in steps}
    order = TopologicalSorter(
        {step.name: [name for name in step.after if name in by_name] for step in steps}
    )
    order.prepare()
    working = RunningTasks(bench, progress)
    failed: dict[str, str] = {}
    try:
        while order.is_active():
            for name in order.get_ready():
                failed_needs = [need for need in by_name[name].needs if need in failed]
                if failed_needs:
                    failed[name] = f"not begun, without {' and '.join(failed_needs)}"
                    order.done(name)
                    progress.end(name, failed[name], "FAILED")
                else:
                    working.begin(by_name[name])
            for name, reason in (working.hear() if working.steps else {}).items():
                order.done(name)
                if reason is not None:
                    failed[name] = reason
    finally:
        working.stop()
    return failed


def _work(step: SetupStep, bench: InstallContext, sender: Connection) -> None:
    """Run a task in its process, which leads the group of all that it starts."""
    os.setpgid(0, 0)

    def say(text: str) -> None:
        sender.send(("…", text))

    task_bench = replace(bench, say=say, notes=[], step=step.name)
    try:
        sender.send(("ok", step.does(task_bench)))
    except SetupError as error:
        sender.send(("FAILED", "; ".join([str(error), *task_bench.notes])))
    except OSError as error:
        sender.send(("FAILED", f"{error.filename or task_bench.cache}: {error.strerror or error}"))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
