# SPDX-License-Identifier: MIT
"""What the command line makes of bad input: a sentence and an exit code, within seconds.

A case runs in this process, which Landlock holds to one folder and which gets no other process and
no connection; so nothing is run, installed or fetched.
"""

import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from gostlab.cli import main
from gostlab.install import landlock
from gostlab.registry.folders import cache_folder

# Prepare the files of a case in the current folder; return the words.
Family = Callable[[random.Random], list[str]]
MAX_CPU_S, MAX_WALL_S = 10.0, 120.0
MAX_MEMORY_BYTES = 3 << 30
MAX_WORDS = 20_000  # characters on standard error
SEED = 20261128
STATUSES = (0, 1, 2, 3)
# Of what a message may not show: Python's own names for what it did not expect.
PYTHON_ENVIRON = re.compile(
    r"Traceback \(most recent call last\)|^\w*(Error|Exception): ", re.MULTILINE
)


class Hang(BaseException):
    """A case has used its CPU time up."""


@dataclass(frozen=True)
class Fault:
    """A case that did not end in an answer or a sentence."""

    number: int
    words: list[str]
    what: str

    def __str__(self) -> str:
        return f"case {self.number}: ./lab {' '.join(map(ascii, self.words))[:1000]}\n{self.what}"


def faults(
    family: Family, seed: int, numbers: Sequence[int], scratch: Path, *, processes: bool = False
) -> list[Fault]:
    """Return what went wrong in the cases of a family, which run in a child of this process.

    processes  whether they may start others, held as they are
    """
    report = scratch / "faults.jsonl"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            hold(scratch, processes=processes)
            with report.open("a", encoding="utf-8") as file:
                for number in numbers:
                    fault = case(family, seed, number)
                    if fault:
                        file.write(f"{json.dumps(vars(fault))}\n")
                        file.flush()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = report.read_text("utf-8").splitlines() if report.exists() else []
    found = [Fault(**json.loads(line)) for line in lines]
    if status != 0:
        last = max(map(int, (path.name for path in scratch.glob("[0-9]*"))), default=-1)
        found.append(Fault(last, [], f"the process ended with {status}"))
    return found


def hold(scratch: Path, *, processes: bool) -> None:
    """Let this process write in one folder only, and start and reach nothing."""
    temporary = scratch / "tmp"
    temporary.mkdir(exist_ok=True)
    tempfile.tempdir = str(temporary)
    os.environ["GOSTLAB_CACHE"] = str(cache_folder())  # to be read
    os.environ["TMPDIR"] = str(temporary)
    os.environ["HOME"] = str(temporary)
    os.setpgrp()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    landlock.gain_no_rights()
    writable = {scratch: tuple(landlock.WRITING), Path("/dev/null"): ("write_file",)}
    if processes:
        writable[Path("/dev/shm")] = tuple(landlock.WRITING)  # a pool's semaphores
    landlock.enter_landlock(landlock.landlock_abi(), landlock.WRITING, writable)
    if not processes:
        os.fork = os.posix_spawn = refuse
        subprocess.Popen = NoProcess  # type: ignore[misc]
    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.getaddrinfo = refuse
    os.killpg = refuse
    time.sleep = lambda _: None


def refuse(*_: object, **__: object) -> NoReturn:
    """What a machine at its limit of processes says."""
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


class NoProcess(subprocess.Popen[Any]):
    """A process that cannot be started."""

    def __init__(self, *_: object, **__: object) -> None:
        refuse()


def case(family: Family, seed: int, number: int) -> Fault | None:
    """Run one case in a folder of its own, which is removed afterwards."""
    folder = Path(tempfile.gettempdir()).parent / str(number)
    folder.mkdir()
    with chdir(folder):
        words: list[str] = []
        try:
            words = family(random.Random(f"{seed} {number}"))
        except Exception as error:  # the cases after it are run all the same
            what: str | None = f"the case was not made: {error!r}"
        else:
            what = complaint(words)
    with suppress(OSError):
        shutil.rmtree(folder)
    return Fault(number, words, what) if what else None


def complaint(words: Sequence[str]) -> str | None:
    """Return what is wrong with how ./lab takes these words; None: nothing."""
    printed, told = Output(), Output()
    began = time.monotonic()
    status: object = None
    signal.signal(signal.SIGPROF, hang)
    try:
        with redirect_stdout(printed), redirect_stderr(told):
            signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
            signal.setitimer(signal.ITIMER_REAL, MAX_WALL_S)
            try:
                status = main.main(list(words))
            except SystemExit as end:  # argparse's
                status = end.code
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)[-12:]
        shown = "".join(traceback.format_list(frames))
        return f"{type(error).__name__}: {ascii(str(error))[:500]}\n{shown}"
    text = told.getvalue()
    if status not in STATUSES:
        return f"exit code {status} after {time.monotonic() - began:.0f} s: {text[-500:]!a}"
    if PYTHON_ENVIRON.search(text):
        return f"exit code {status}: {text[-1000:]!a}"
    if len(text) > MAX_WORDS:
        return f"exit code {status}: {len(text)} characters on standard error"
    if status == 2 and not text.strip():
        return "exit code 2 without a word"
    return None


def hang(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Hang(f"{MAX_CPU_S:g} s of CPU time")


class Output(StringIO):
    """Standard output as a terminal has it: UTF-8."""

    def write(self, text: str) -> int:
        text.encode("utf-8")
        return super().write(text)
