# SPDX-License-Identifier: MIT
"""Provide the work environment of install tasks.

Programs run with their output in a log, downloads must have the pinned digest, and folders get
their final name only when all of their content is there, so that an interrupted task leaves nothing
that looks complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gostlab.errors import Complaint
from gostlab.install import locate

if TYPE_CHECKING:
    from http.client import HTTPResponse

CONNECT_TIMEOUT_S = 5.0


class SetupError(Complaint):
    """An error of an install task; the message has the reason and a remedy."""

    exit_status = 1


class HashMismatch(SetupError):
    """An error for a downloaded file with another digest than pinned; the file is deleted."""


@dataclass
class InstallContext:
    """The environment of an install task."""

    cache: Path
    jobs: int
    say: Callable[[str], None]  # reports progress; on a terminal it overwrites itself
    lock_fd: int  # passed to long builds, so that the lock lasts as long as they do
    notes: list[str] = field(default_factory=list)  # reported with the step's failure, if it fails
    step: str = "setup"  # name of the task

    @property
    def apt_folder(self) -> Path:
        """Return the folder of this task's private apt: tasks run in parallel."""
        return self.cache / "build" / f"apt-{self.step.replace(' ', '-')}"

    def log(self, name: str) -> Path:
        return self.cache / "log" / f"{name}.log"


@contextlib.contextmanager
def lock_folder(
    cache: Path, say: Callable[[str], None], lock_name: str = "setup.lock"
) -> Iterator[int]:
    """Lock a cache folder against other set-ups; yield the lock's file descriptor."""
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
    """Check that a folder's file system has enough free space. Raises SetupError."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise SetupError(
            f"{folder} needs {needed_bytes / 1e9:.1f} GB for {purpose}, and its disk has "
            f"{free / 1e9:.1f} GB free: make room, or set GOSTLAB_CACHE to a folder on another"
        )


@contextlib.contextmanager
def replaced_folder(folder: Path, *, shared: bool = False) -> Iterator[Path]:
    """Yield a folder to fill, which replaces `folder` when the block ends.

    `shared`: another process may do this at the same time; the first one wins.
    """
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
        process = subprocess.run(
            argv, cwd=cwd, env=environment, stdin=stdin, stdout=output, stderr=subprocess.STDOUT
        )
    if process.returncode != 0:
        raise SetupError(
            f"{Path(argv[0]).name} failed: {likely_error_line(log)} (all of it: {log})"
        )


def likely_error_line(log: Path) -> str:
    """Return the line of a log that most likely states the failure."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    error_pattern = re.compile(
        r"\berror\b|\bmissing\b|^E: |^kernel: |No space left|Permission denied", re.I
    )
    return ([line for line in lines if error_pattern.search(line)] or lines or ["no output"])[-1]


def fetch_file(url: str, into: Path, sha256: str) -> None:
    """Download a file with this SHA-256. Raises OSError if it cannot be reached, HashMismatch."""
    partial = into.with_name(into.name + ".part")
    try:
        with _open_url(url) as answer, open(partial, "wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)
        actual = locate.file_sha256(partial)
        if actual != sha256:
            raise HashMismatch(
                f"{url} is not the file that was pinned: its SHA-256 is {actual}, not {sha256} "
                "(it has been deleted)"
            )
        partial.rename(into)
    finally:
        partial.unlink(missing_ok=True)


def _open_url(url: str) -> HTTPResponse:
    """Call urlopen with a timeout on the name look-up, too. Raises OSError."""
    import urllib.request

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
