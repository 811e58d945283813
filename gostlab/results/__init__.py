"""Result folders: the only interface between measuring and analysing.

A folder is finished when it has status.json, which is written last and by rename. What is not
finished is run again. Names end in a hash of the inputs, so the same question finds its answer.
"""

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

from gostlab import __version__, safe_read
from gostlab.errors import Complaint
from gostlab.results import format as result_format
from gostlab.results.format import SCHEMA
from gostlab.spec.run_spec import RunSpec

OUTCOMES = ("ok", "failed", "unsupported", "interrupted")
# The `cause` of a failed run that an exception of the lab's own ended. It says nothing about what
# was asked, so it is no answer: the run is run again.
OWN_ERROR = "the lab's own error"
# The same of one that this machine ended: a full disk, too little memory, a limit, a kill.
FROM_OUTSIDE = "ended from outside"
STATUS = "status.json"
MAX_ERROR = 2000  # characters of a run's error
# A run's last words are shorter: where less is free, they did not fit.
MIN_FREE_BYTES = 2**20
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


# What a run.json means, in the lab's order of time. A change to what the lab does for the same
# run.json, so that its numbers are others (a kernel patch, a default, a tool's option), adds the
# sentence that says what changed. Results of before are then older: they are not taken for answers
# any more, and their runs are run again.
EPOCHS = (
    "as version 0.1 ran it",
    "on Linux 5.10, 6.1 and 6.12 a seed's random numbers are the same in every folder",
    "everybody's sandbox boots on the lab's own Debian, and not on the machine's files",
    "no page fault has a say in what a program finds on its clock; a tunnel starts anew",
    "what comes before a load has no say in when its timers go off",
    "nor has what comes before a queue; a sample comes nearer to its instant, by fewer calls",
    "nor have the lab's own files, which a run reads at once; its idle time begins with it",
    "a timeout leaves bbr3 and bbr2 their window; Prague restarts after idle; ARP is patient;"
    " bytes and seconds of a measured part are of one interval, a udp flow's its receiver's;"
    " the relay's TLS ClientHello is as large as GOST's;"
    " flows start, and paths change, at their instant and not up to a millisecond after it",
)
EPOCH = len(EPOCHS)
EXPERIMENT_FILE = "experiment.yaml"  # the copy in an experiment's results
OLDER = ".older"  # where an experiment's older results are kept
PART_LOCK = ".making"  # in a run's folder while it is made beside its place
# A part is without its lock only while it is begun and while it takes its place.
PART_WITHOUT_LOCK_S = 600.0


# What a reader of a run's values may meet that stands on what the lab writes. Where it does, the
# run is damaged, or says nothing; no reader lets one of them out.
BROKEN_RECORDS = (
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)


class ResultsError(Complaint):
    """A results folder cannot be used; the message says why and what to do."""


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people and programs, whole or not at all, and see it reach the disk."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    write_whole(path, f"{text}\n", to_disk=True)


def write_whole(path: Path, content: str | bytes, *, to_disk: bool = False) -> Path:
    """Write a file, whole or not at all (by rename); the file. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: shards on several machines write the same at the same time. No link that a
    # run left in its folder is followed out of it.
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with part.open("xb") as file:
            # Half of a surrogate pair, of a name that is not UTF-8, becomes a question mark.
            data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
            file.write(data)
            if to_disk:
                file.flush()
                os.fsync(file.fileno())
        return part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def finish(
    folder: Path,
    wall_s: float,
    complaint: str | None,
    *,
    from_outside: bool = False,
    run: RunSpec | None = None,
) -> dict[str, Any]:
    """Turn how a run ended into status.json, the last file of a folder; returns its contents. A run
    that left no outcome.json (its machine died, or was ended: `complaint`) has failed, as has one
    whose programs removed or replaced what it must leave behind.

    run  whose folder it is: what run.json must say, and all that a good run leaves must be there
    Raises OSError.
    """
    status = read_outcome(folder)
    if status is None:
        words, is_outside = (
            f"ended without a word: {last_words(folder)}",
            from_outside or not complaint,
        )
        if os.path.lexists(folder / "outcome.json"):  # written by rename, so never half of one
            words, is_outside = "a program of the run replaced outcome.json", False
        if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
            words = f"the disk under {folder} is full: free some space"
            is_outside = True
        status = failure(complaint or words, FROM_OUTSIDE if is_outside else None)
    elif complaint and from_outside and status["outcome"] == "failed":
        status = failure(complaint, FROM_OUTSIDE)
    for name in ("outcome.json", "status.json"):
        remove(folder / name)
    changed = run is not None and read_object(folder / "run.json") != run.to_json()
    if run is not None and changed:
        remove(folder / "run.json")
        write_json(folder / "run.json", run.to_json())
    # The machine's own files are gone by now (`clean_folder`): these are the answer.
    kept = known_files(folder)
    if run is not None and status["outcome"] == "ok":
        names = {file.name for file in kept} - ({"run.json"} if changed else set())
        lacking = [name for name in needed_files() if name not in names]
        if lacking:
            words = "a program of the run removed or replaced"
            status = failure(f"{words} {', '.join(lacking)}"[:MAX_ERROR])
    status |= {
        "schema": SCHEMA,
        "epoch": EPOCH,
        "wall_s": round(wall_s, 3),
        "finished": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    status["files"] = {file.name: safe_read.plain_size(file) for file in kept}
    status["sha256"] = {file.name: sum_of(file) for file in kept}
    write_json(folder / "status.json", status)
    return dict(status)


def finish_anew(folder: Path, run: RunSpec, wall_s: float, error: Exception) -> Any:
    """Replace a folder that its run left unusable by one that says so; returns its status. Raises
    OSError; the error itself where it is the disk's and not the run's.
    """
    if isinstance(error, OSError) and error.errno in OF_THE_DISK:
        raise error
    remove(folder)
    folder.mkdir()
    words = f"its folder could not be read: {type(error).__name__}: {error}"[:MAX_ERROR]
    return finish(folder, wall_s, words, run=run)


def failure(error: str, cause: str | None = None) -> dict[str, Any]:
    """Return the outcome of a run that failed."""
    return {"outcome": "failed", "error": error, "cause": cause, "guest_s": None}


def read_outcome(folder: Path) -> dict[str, Any] | None:
    """Return what a run's guest says of its end, each value of its type; None if it says none."""
    found = read_object(folder / "outcome.json")
    if found is None or found.get("outcome") not in OUTCOMES:
        return None
    error, guest_s = found.get("error"), found.get("guest_s")
    return {
        "outcome": found["outcome"],
        "error": None if error is None else str(error)[:MAX_ERROR],
        "cause": OWN_ERROR if found.get("cause") == OWN_ERROR else None,
        "guest_s": guest_s if is_number(guest_s) else None,
    }


def known_files(folder: Path) -> list[Path]:
    """Return the plain files of a run's folder whose names are of the format. Raises OSError."""
    patterns = [re.compile(each.pattern) for each in result_format.files()]
    return [
        path
        for path in sorted(folder.iterdir())
        if any(each.fullmatch(path.name) for each in patterns) and safe_read.is_plain(path)
    ]


def needed_files() -> list[str]:
    """Return the names that every folder of a good run has, but for status.json."""
    return [each.name for each in result_format.files() if each.needed and each.name != STATUS]


def remove(path: Path) -> None:
    """Remove a file or a folder, however deep and whatever its modes; no link is followed. Raises
    OSError.
    """
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except FileNotFoundError:  # somebody else removes it
        pass
    except (OSError, RecursionError):
        # Deeper than Python's rmtree can go, or with modes that forbid its owner.
        for argv in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*argv, "--", path], stderr=subprocess.DEVNULL, check=False)
        if os.path.lexists(path):
            raise OSError(errno.EACCES, "cannot be removed", str(path)) from None


def last_words(folder: Path) -> str:
    """The last line of a run's log that says something."""
    lines = read_log(folder / "log.txt")
    said = [line.strip() for line in lines if line.strip() and "reboot:" not in line]
    return said[-1] if said else "its log is empty"


def read_log(path: Path) -> list[str]:
    """Return the last lines of a log, none of one that is not there."""
    try:
        data, _ = safe_read.read_tail(path, LOG_BYTES)
    except OSError:
        return []
    return data.decode("utf-8", "replace").split("\n")


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object; None if it is none, or not there (the guest may write what it likes)."""
    try:
        value = safe_read.read_json(path)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


MAX_FLOAT = int(sys.float_info.max)
LOG_BYTES = 64 << 10  # of a log's end
# The columns of all series by the type of their values (tests hold them against format.toml).
TEXT_COLUMNS = frozenset("cc dev direction end flow host leg link local node peer role".split())
NUMBER_COLUMNS = frozenset(
    [
        *("applied_s", "at_s", "backlog_bytes", "backlog_pkts", "busy_ms", "bytes_acked"),
        *("bytes_received", "cpu_busy_s", "cpu_idle_s", "cwnd_pkts", "data_segments_out"),
        *("delay_ms", "delivered_pkts", "delivery_rate_bps", "drops", "jitter_ms", "lost_pkts"),
        *("marked_pkts", "marks", "min_rtt_ms", "mss", "pacing_rate_bps", "rate_bps"),
        *("reord_seen", "reordering", "rto_ms", "rtt_ms", "rttvar_ms", "rwnd_limited_ms"),
        *("seconds", "segments_out", "segments_retransmitted", "sent_bytes", "sent_pkts"),
        *("size_bytes", "snd_wnd_bytes", "sndbuf_limited_ms", "srtt_ms", "ssthresh_pkts", "t_s"),
        *("tcp_memory_mib", "unacked_pkts"),
    ]
)
# What a run's samples are of: NAME.jsonl; acks are in acks.csv.gz.
SAMPLES = ("sockets", "queues", "hosts", "changes", "pings", "fetches", "acks")


def read_series(folder: Path, name: str, clock: str = "t_s") -> list[dict[str, Any]]:
    """The rows of sockets.jsonl, queues.jsonl, hosts.jsonl or changes.jsonl (whose `clock` is
    `at_s`), as far as they are whole. Empty where there is no such file.
    """
    try:
        return whole_rows(safe_read.read_lines(folder / f"{name}.jsonl"), clock)
    except OSError:
        return []


def whole_rows(lines: Iterable[bytes], clock: str = "t_s") -> list[dict[str, Any]]:
    """The rows of a series; a line that was cut short, or is no row with such a time, ends it."""
    rows: list[dict[str, Any]] = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict) or row.get(clock) is None or not is_row(row):
            break
        rows.append(row)
    return rows


def is_row(row: Mapping[str, Any]) -> bool:
    """Return whether the columns that the lab knows have values of their types, or null."""
    for name, value in row.items():
        if value is None:
            continue
        if name in NUMBER_COLUMNS:
            good = is_number(value)
        elif name in TEXT_COLUMNS:
            good = type(value) is str and value.isprintable()
        else:
            good = name not in OBJECT_COLUMNS or (
                type(value) is dict and all(map(OBJECT_COLUMNS[name], value.values()))
            )
        if not good:
            return False
    return True


def is_number_or_null(value: object) -> bool:
    return value is None or is_number(value)


def is_scalar(value: object) -> bool:
    """Return whether a value is a text, a finite number, a truth value or null."""
    return isinstance(value, str | bool) or is_number_or_null(value)


def is_number(value: object) -> bool:
    """Return whether a value is a number that is finite in double precision, and no truth value."""
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) is int and -MAX_FLOAT <= value <= MAX_FLOAT


# Those whose values are objects, and what the values inside must be.
OBJECT_COLUMNS = {
    "loss": is_scalar,
    "bbr": is_number_or_null,
    **dict.fromkeys(["host_busy_s", "host_packets_s", "host_tcp_memory_mib"], is_number),
}


def read_status(folder: Path) -> dict[str, Any] | None:
    """The status of a finished folder; None if it is unfinished or half-written."""
    status = read_object(folder / "status.json")
    return status if status is not None and status.get("outcome") in OUTCOMES else None


def is_finished(folder: Path, run: RunSpec) -> bool:
    """Whether the folder holds this run's answer, whole (`damage`). What the lab's own error or
    this machine ended is no answer, nor is what an older lab measured that meant something else by
    the same run.json.
    """
    status = None if folder.is_symlink() else read_status(folder)
    if status is None or is_no_answer(status) or epoch_of(status) != EPOCH:
        return False
    return read_object(folder / "run.json") == run.to_json() and damage(folder, status) is None


def damage(folder: Path, status: Mapping[str, Any]) -> str | None:
    """What of a finished folder is not as it was when the run finished, in a line; None for
    nothing. Runs of an older lab say no sums, or no lengths either.
    """
    lengths, sums = status.get("files", {}), status.get("sha256", {})
    if not isinstance(lengths, dict) or not isinstance(sums, dict):
        return "status.json: no lengths and sums of files"
    for name in {**lengths, **sums}:
        file = folder / name
        if "/" in name or name in ("", ".", "..") or not name.isprintable():
            return f"status.json: {name!r:.80}: no file of a run"
        try:
            length = safe_read.plain_size(file)
        except OSError as error:
            is_gone = error.errno == errno.ENOENT
            return f"{name:.80}: {'not there any more' if is_gone else error.strerror}"
        if name in lengths and length != lengths[name]:
            return f"{name:.80}: not as long as when the run finished"
        if name in sums and sum_of(file) != sums[name]:
            return f"{name:.80}: changed since the run finished"
    return None


def sum_of(file: Path) -> str | None:
    """The SHA-256 of a file's bytes; None where they cannot be read."""
    try:
        state = file.stat()
        return sum_as_of(str(file), state.st_mtime_ns, state.st_ctime_ns, state.st_size)
    except OSError:
        return None


@lru_cache(maxsize=100_000)
def sum_as_of(path: str, _mtime_ns: int, _ctime_ns: int, _size: int) -> str:
    """The same, read once as long as the file's times and size stay. Raises OSError."""
    with safe_read.open_plain(Path(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def epoch_of(status: Mapping[str, Any]) -> int:
    """What a finished run's lab meant by run.json: a number of EPOCHS, from 1."""
    epoch = status.get("epoch", 1)
    return epoch if isinstance(epoch, int) else 0


def older_line(results: Path, runs: Sequence[RunSpec]) -> str | None:
    """How many finished runs an older lab meant otherwise, and what has changed; None if none."""
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


def makers_line(results: Path, runs: Sequence[RunSpec]) -> str | None:
    """Which builds of the lab made the finished ones of some runs, for who wonders whether a small
    difference is theirs; None unless there are several, or one of another version than this.
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
    """The lab that made a result: version, commit, kernel, a root of its own."""
    lab = environment.get("lab")
    lab = lab if isinstance(lab, dict) else {}
    host = environment.get("host")
    root = host.get("root") if isinstance(host, dict) else None
    own = f", root {root['hash'][:12]}" if root else ""
    return f"{lab.get('version')} ({lab.get('commit')}, kernel {environment.get('kernel')}{own})"


def is_no_answer(status: Mapping[str, Any]) -> bool:
    """Whether the lab itself (a bug, a fault of the environment) or this machine ended the run."""
    return status.get("cause") in (OWN_ERROR, FROM_OUTSIDE)


def failure_line(folder: Path, status: Mapping[str, Any]) -> str:
    """What became of a failed run, and what to do, in one line."""
    said = f"{folder.name}: {status.get('outcome')}: {status.get('error')}"
    if is_no_answer(status):
        return (
            f"{said} ({status['cause']}, and no answer: all of it is in {folder / 'log.txt'}; the"
            " same command runs it again)"
        )
    return f"{said} (see {folder / 'log.txt'}; --retry-failed runs it again)"


def prepare(results: Path, run: RunSpec) -> Path:
    """An empty folder for a run, with its run.json; an unfinished one of the same name is
    replaced, one that an older lab finished is kept in OLDER.
    """
    folder = results / run.experiment / run.name
    make_way(folder)
    folder.mkdir(parents=True)
    write_json(folder / "run.json", run.to_json())
    return folder


def make_way(folder: Path) -> None:
    """Free a run's place: what an older lab finished is kept in OLDER. Raises OSError."""
    status = None if folder.is_symlink() else read_status(folder)
    if status is not None and epoch_of(status) != EPOCH:
        kept = folder.parent / OLDER / f"epoch-{epoch_of(status)}" / folder.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        remove(kept)
        folder.rename(kept)
    if folder.is_symlink() or not folder.is_dir():
        remove(folder)
    else:
        # Out of the way in one step: another process may be about to take the place.
        doomed = folder.with_name(f".{folder.name[:160]}.part-old-{os.getpid()}")
        remove(doomed)
        folder.rename(doomed)
        remove(doomed)


def is_settled(folder: Path, run: RunSpec, *, retry_failed: bool) -> bool:
    """Whether a folder has a run's answer: a good one, if failed ones are to be run again."""
    if not is_finished(folder, run):
        return False
    return not retry_failed or (read_status(folder) or {}).get("outcome") == "ok"


@dataclass(frozen=True)
class Making:
    """A folder in which a run is made: where it stays, by the one who holds its experiment."""

    folder: Path

    def settle(self, run: RunSpec, *, retry_failed: bool = False) -> None:
        """It is there already."""

    def discard(self) -> None:
        """It is left unfinished, which the next run of the same replaces."""


@dataclass(frozen=True)
class PartialRunFolder(Making):
    """A folder in which a run is made, beside the place that it takes when it is finished.

    So any number of processes, on any machines of a file system, may make the same run: the place
    is there whole or not at all, and the first has it. A lock in the folder says that its
    maker lives; parts of dead ones are taken away by the next.
    """

    place: Path
    _lock: TextIO

    def settle(self, run: RunSpec, *, retry_failed: bool = False) -> None:
        """Let the finished folder take its place, unless another's answer is there: then that one
        stays and this one goes. Raises OSError.
        """
        remove(self.folder / PART_LOCK)
        # The rename comes first, as it takes only a free place: whose answer came between the look
        # and the rename keeps it.
        for last in (False,) * 9 + (True,):
            if is_settled(self.place, run, retry_failed=retry_failed):
                break
            try:
                self.folder.rename(self.place)
            except OSError:
                if last:
                    raise
                if not is_settled(self.place, run, retry_failed=retry_failed):
                    make_way(self.place)
            else:
                sync_folder(self.place.parent)
                break
        self.discard()

    def discard(self) -> None:
        """Take it away, if it has not taken its place. It may be called twice."""
        with suppress(OSError):
            remove(self.folder)
        self._lock.close()


def prepare_beside(place: Path, run: RunSpec) -> PartialRunFolder:
    """An empty folder beside a run's place, with its run.json. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = f".{place.name[:160]}.part-"
    with os.scandir(place.parent) as entries:  # glob takes ten times as long among 10,000 runs
        found = [Path(entry) for entry in entries if entry.name.startswith(beside)]
    for left in found:
        if is_abandoned(left):
            with suppress(OSError):
                remove(left)
    folder = place.with_name(f"{beside}{os.uname().nodename[:30]}-{os.urandom(4).hex()}")
    folder.mkdir()
    # It has its name only when it is held: unheld, the part would be taken for a dead one's.
    unnamed = folder / f"{PART_LOCK}-begun"
    lock = unnamed.open("w", encoding="ascii")
    fcntl.flock(lock, fcntl.LOCK_EX)
    unnamed.rename(folder / PART_LOCK)
    write_json(folder / "run.json", run.to_json())
    return PartialRunFolder(folder, place, lock)


def is_abandoned(part: Path) -> bool:
    """Whether nobody makes a part any more: its lock is free, or missing for longer than it is."""
    try:
        with (part / PART_LOCK).open("r+", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except FileNotFoundError:
        with suppress(OSError):
            return time.time() - part.stat().st_mtime > PART_WITHOUT_LOCK_S
        return False
    except OSError:
        return False


def sync_folder(folder: Path) -> None:
    """Have a folder's names on the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def owned(results: Path, experiment: str, *, shared: bool = False) -> Iterator[None]:
    """Hold an experiment's results for this process alone, or `shared` with others that make every
    run beside its place. Raises ResultsError if they are another's, or cannot be written.
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
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
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


@contextmanager
def shared_with_runs(place: Path) -> Iterator[None]:
    """Keep a `run` away from the experiment that a run's place is in, if it is in one (only there
    is a lock). Raises ResultsError if one is at work there.
    """
    if not (place.parent / ".lock").exists():
        yield
        return
    with owned(place.parent.parent, place.parent.name, shared=True):
        yield


def check_space(results: Path, needed_bytes: int) -> None:
    """Raises ResultsError if the disk under a results folder has less than is needed."""
    free = shutil.disk_usage(results).free
    if free < needed_bytes:
        raise ResultsError(
            f"{results}: {free / 1e6:.0f} MB free, {needed_bytes / 1e6:.0f} MB needed: free some"
            " space; finished runs are kept, and the same command goes on from there"
        )


def clean_folder(folder: Path) -> None:
    """Remove what only the launcher and the machine needed from a run's folder."""
    for name in ("boot.json", "parts.json", "exit", ".uml", ".host"):
        remove(folder / name)
