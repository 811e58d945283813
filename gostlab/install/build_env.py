"""The workbench: what every step of the set-up works with.

Programs run with their output in a log, downloads that must have a pinned sum, and folders that
take their name only when all of their content is there, so that a step which is cut off leaves
nothing that looks finished.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from typing import Literal

from gostlab.install import locate

CONNECT_TIMEOUT_S = 5.0


class SetupError(Exception):
    """A step could not be done. The message says why, and what to do."""


class HashMismatch(SetupError):
    """A downloaded file is not the one that was pinned; it has been deleted."""


@dataclass
class Workbench:
    """What every step works with."""

    cache: Path
    jobs: int
    say: Callable[[str], None]  # progress within a step; on a terminal it overwrites itself
    lock_fd: int  # handed to long builds, so that the lock lives as long as they do
    notes: list[str] = field(default_factory=list)  # said with the step's failure, if it fails
    step: str = "setup"  # the step that works with it

    @property
    def apt_folder(self) -> Path:
        """Where a private apt of this step's own may lie: steps work side by side."""
        return self.cache / "build" / f"apt-{self.step.replace(' ', '-')}"

    def log(self, name: str) -> Path:
        """The log of a step."""
        return self.cache / "log" / f"{name}.log"


@contextlib.contextmanager
def locked(cache: Path, say: Callable[[str], None], lock_name: str = "setup.lock") -> Iterator[int]:
    """One set-up at a time per cache folder; yields the lock's file descriptor."""
    with open(cache / lock_name, "a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            say(
                f"another set-up is at work (process {lock.read().strip() or 'unknown'}): waiting"
                " for it"
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield lock.fileno()


def require_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raises SetupError if a folder's file system has less free than that."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise SetupError(
            f"{folder} needs {needed_bytes / 1e9:.1f} GB for {purpose}, and its disk has "
            f"{free / 1e9:.1f} GB free: make room, or set GOSTLAB_CACHE to a folder on another"
        )


@contextlib.contextmanager
def replacing(folder: Path, *, shared: bool = False) -> Iterator[Path]:
    """A folder to fill, renamed when whole. `shared`: another may be at it; the first has it."""
    partial = folder.with_name(f"{folder.name}.part{os.getpid() if shared else ''}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if not shared:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial)
        if not shared:
            raise


def run_logged(
    argv: Sequence[str | Path],
    log: Path,
    *,
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
    stdin: int | None = subprocess.DEVNULL,
    mode: Literal["w", "a"] = "w",
) -> None:
    """Run a program with its output in a log. Raises SetupError."""
    with open(log, mode, encoding="utf-8") as output:
        done = subprocess.run(
            argv, cwd=cwd, env=environment, stdin=stdin, stdout=output, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        raise SetupError(f"{Path(argv[0]).name} failed: {last_complaint(log)} (all of it: {log})")


def last_complaint(log: Path) -> str:
    """The line of a log that most likely says what went wrong."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = re.compile(
        r"\berror\b|\bmissing\b|^E: |^kernel: |No space left|Permission denied", re.I
    )
    return ([line for line in lines if telling.search(line)] or lines or ["no output"])[-1]


def write_json(path: Path, record: Mapping[str, object]) -> None:
    """Write a record, by rename: it is there whole or not at all."""
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.rename(path)


def fetch(url: str, into: Path, sha256: str) -> None:
    """Download a file with this SHA-256. Raises OSError if it cannot be reached, HashMismatch."""
    partial = into.with_name(into.name + ".part")
    try:
        with _open_url(url) as answer, open(partial, "wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)
        got = locate.file_sha256(partial)
        if got != sha256:
            raise HashMismatch(
                f"{url} is not the file that was pinned: its SHA-256 is {got}, not {sha256} "
                "(it has been deleted)"
            )
        partial.rename(into)
    finally:
        partial.unlink(missing_ok=True)


def _open_url(url: str) -> HTTPResponse:
    """urlopen with a limit on the name look-up too, which has none of its own. Raises OSError."""
    answers: list[HTTPResponse | OSError] = []

    def open_it() -> None:
        try:
            answers.append(urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S))
        except OSError as error:
            answers.append(error)

    thread = threading.Thread(target=open_it, daemon=True)
    thread.start()
    thread.join(2 * CONNECT_TIMEOUT_S)
    if not answers:
        raise TimeoutError(f"no answer within {2 * CONNECT_TIMEOUT_S:.0f} s")
    answer = answers[0]
    if isinstance(answer, OSError):
        raise answer
    return answer
