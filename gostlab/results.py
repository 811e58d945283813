"""Result folders: the only interface between measuring and analysing.

A folder is finished when it has status.json, which is written last and by rename. What is not
finished is run again. Names end in a hash of the inputs, so the same question finds its answer.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gostlab import __version__
from gostlab.ask.run_description import RunDescription
from gostlab.result_format import SCHEMA

OUTCOMES = ("ok", "failed", "unsupported", "interrupted")
# The `cause` of a failed run that an exception of the lab's own ended. It says nothing about what
# was asked, so it is no answer: the run is run again.
OWN_ERROR = "the lab's own error"


# What a run.json means, in the lab's order of time. Whoever changes what the lab does for the same
# run.json, so that its numbers are others (a kernel patch, a default, a tool's option), adds the
# sentence that says what changed. Results of before are then older: they are not taken for answers
# any more, and their runs are run again.
EPOCHS = ("as version 0.1 ran it",)
EPOCH = len(EPOCHS)
EXPERIMENT_FILE = "experiment.yaml"  # the copy in an experiment's results
OLDER = ".older"  # where an experiment's older results are kept


class ResultsError(Exception):
    """A results folder cannot be used; the message says why and what to do."""


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people and programs, whole or not at all (by rename)."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    # "x": made here and now; a link that a run left under this name would be followed out of its
    # folder.
    with part.open("x", encoding="utf-8") as file:
        json.dump(value, file, indent=2, sort_keys=True, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def finish(folder: Path, wall_s: float, complaint: str | None) -> dict[str, Any]:
    """Turn how a run ended into status.json, the last file of a folder; returns its contents.

    A run that left no outcome.json (the machine died, or was ended: `complaint`) has failed.
    """
    path = folder / "outcome.json"
    status = read_object(path)
    if status is None or status.get("outcome") not in OUTCOMES:
        status = {
            "outcome": "failed",
            "error": complaint or f"the machine ended without a word: {last_words(folder)}",
            "guest_s": None,
        }
    status |= {
        "schema": SCHEMA,
        "epoch": EPOCH,
        "wall_s": round(wall_s, 3),
        "finished": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    path.unlink(missing_ok=True)
    # The machine's own files are gone by now (`clean_folder`): these are the answer, whole as long
    # as they are this long.
    status["files"] = {
        file.name: file.stat().st_size for file in sorted(folder.iterdir()) if file.is_file()
    }
    write_json(folder / "status.json", status)
    return dict(status)


def last_words(folder: Path) -> str:
    """The last line of a run's log that says something."""
    try:
        lines = (folder / "log.txt").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    return next(
        (line.strip() for line in reversed(lines) if line.strip() and "reboot:" not in line),
        "its log is empty",
    )


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object; None if it is not there, or anything else (the guest may write what it
    likes).
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_series(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of sockets.jsonl, queues.jsonl, hosts.jsonl or changes.jsonl; a line that was cut
    short, or has no `t_s`, ends the series. Empty where there is no such file.
    """
    rows: list[dict[str, Any]] = []
    try:
        with (folder / f"{name}.jsonl").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                row = json.loads(line)
                if not isinstance(row, dict) or not is_number(row.get("t_s")):
                    break
                rows.append(row)
    except (OSError, ValueError, RecursionError):
        return rows
    return rows


def is_number(value: object) -> bool:
    """A finite number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_status(folder: Path) -> dict[str, Any] | None:
    """The status of a finished folder; None if it is unfinished or half-written."""
    status = read_object(folder / "status.json")
    return status if status is not None and status.get("outcome") in OUTCOMES else None


def is_finished(folder: Path, run: RunDescription) -> bool:
    """Whether the folder holds this run's answer, whole: every file as long as when it finished.
    (Runs of an older lab say no lengths.) What the lab's own error ended is no answer, nor is what
    an older lab measured that meant something else by the same run.json.
    """
    status = None if folder.is_symlink() else read_status(folder)
    if status is None or ended_by_own_error(status) or epoch_of(status) != EPOCH:
        return False
    lengths = status.get("files", {})
    return (
        read_object(folder / "run.json") == run.to_json()
        and isinstance(lengths, dict)
        and all(length_of(folder / name) == length for name, length in lengths.items())
    )


def epoch_of(status: Mapping[str, Any]) -> int:
    """What a finished run's lab meant by run.json: a number of EPOCHS, from 1."""
    epoch = status.get("epoch", 1)
    return epoch if isinstance(epoch, int) else 0


def older_line(results: Path, runs: Sequence[RunDescription]) -> str | None:
    """How many of some runs are finished by a lab that meant something else, and what has changed
    since, in one line; None if none.
    """
    found = [read_status(results / run.experiment / run.name) or {"epoch": EPOCH} for run in runs]
    epochs = [epoch_of(status) for status in found if epoch_of(status) != EPOCH]
    if not epochs:
        return None
    return (
        f"{len(epochs)} finished runs are of another lab and are run again"
        f" ({changed_since(epochs)}); the old ones are kept in {OLDER}/"
    )


def changed_since(epochs: Collection[int]) -> str:
    """What changed in the meaning of a run after the first of some epochs."""
    return "; ".join(EPOCHS[max(0, min(epochs)) :]) or "this lab is the older one"


def makers_line(results: Path, runs: Sequence[RunDescription]) -> str | None:
    """Which builds of the lab made the finished ones of some runs, in one line; None unless there
    are several, or one of another version than this.

    They are answers all the same: what a run means has not changed since (EPOCHS). The line is for
    whoever wonders whether a small difference is the build's.
    """
    makers = Counter(
        maker_of(environment)
        for run in runs
        if is_finished(results / run.experiment / run.name, run)
        and (environment := read_object(results / run.experiment / run.name / "env.json"))
    )
    if not makers or (len(makers) == 1 and next(iter(makers)).startswith(f"{__version__} ")):
        return None
    listed = ", ".join(f"{count} by {maker}" for maker, count in makers.most_common())
    return f"finished before, and kept: {listed}; this is {__version__}"


def maker_of(environment: Mapping[str, Any]) -> str:
    """The lab that made a result: version, commit, kernel."""
    lab = environment.get("lab")
    lab = lab if isinstance(lab, dict) else {}
    return f"{lab.get('version')} ({lab.get('commit')}, kernel {environment.get('kernel')})"


def ended_by_own_error(status: Mapping[str, Any]) -> bool:
    """Whether an exception of the lab itself ended the run: a bug, or a fault of the
    environment.
    """
    return status.get("cause") == OWN_ERROR


def failure_line(folder: Path, status: Mapping[str, Any]) -> str:
    """What became of a failed run, and what to do, in one line."""
    said = f"{folder.name}: {status.get('outcome')}: {status.get('error')}"
    if ended_by_own_error(status):
        return (
            f"{said} ({OWN_ERROR}, and no answer: all of it is in {folder / 'log.txt'}; the same"
            " command runs it again)"
        )
    return f"{said} (see {folder / 'log.txt'}; --retry-failed runs it again)"


def length_of(path: Path) -> int | None:
    """A file's length in bytes; None if it is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def prepare(results: Path, run: RunDescription) -> Path:
    """An empty folder for a run, with its run.json; an unfinished one of the same name is
    replaced, one that an older lab finished is kept in OLDER.
    """
    folder = results / run.experiment / run.name
    status = None if folder.is_symlink() else read_status(folder)
    if status is not None and epoch_of(status) != EPOCH:
        keep_older(folder, epoch_of(status))
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    write_json(folder / "run.json", run.to_json())
    return folder


def keep_older(folder: Path, epoch: int) -> None:
    """Move an older lab's finished run out of the way."""
    kept = folder.parent / OLDER / f"epoch-{epoch}" / folder.name
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(kept, ignore_errors=True)
    folder.rename(kept)


@contextmanager
def owned(results: Path, experiment: str) -> Iterator[None]:
    """Hold an experiment's results for this process alone.

    Raises ResultsError if another scheduler has them, or the folder cannot be written.
    """
    folder = results / experiment
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a+", encoding="ascii")
    except OSError as error:
        raise ResultsError(
            f"{folder}: {error.strerror}: results cannot be written there (see --results)"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise ResultsError(
                f"{folder}: another run of this experiment (process {lock.read().strip() or '?'})"
                " is writing here: wait for it or choose another --results"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def keep_experiment(results: Path, experiment: str, file: Path) -> Path:
    """Keep an experiment's file with its results, byte for byte; the copy. The report is made from
    it, whatever becomes of the file. Raises OSError.

    Runs of an earlier form of the file stay beside it: each has its own run.json, and the newest
    copy says what they are called and how they are drawn.
    """
    copy = results / experiment / EXPERIMENT_FILE
    content = file.read_bytes()
    part = copy.with_name(copy.name + ".part")
    part.write_bytes(content)
    part.replace(copy)
    return copy


def check_space(results: Path, needed_bytes: int) -> None:
    """Raises ResultsError if the disk under a results folder has less than is needed."""
    free = shutil.disk_usage(results).free
    if free < needed_bytes:
        raise ResultsError(
            f"{results}: {free / 1e6:.0f} MB free, {needed_bytes / 1e6:.0f} MB needed: free some"
            " space; finished runs are kept, and the same command goes on from there"
        )


def environment_file(folder: Path, values: Mapping[str, Any]) -> None:
    """env.json: what produced the numbers."""
    write_json(folder / "env.json", values)


def clean_folder(folder: Path) -> None:
    """Remove what only the launcher and the machine needed from a run's folder."""
    for name in ("boot.json", "parts.json", "exit"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / ".uml", ignore_errors=True)
