# SPDX-License-Identifier: MIT
"""Read and write result folders, the only interface between measuring and analysing.

A folder is finished when it has status.json, which is written last and by rename. An unfinished run
is executed again. Folder names end in a hash of the inputs, so the same question finds its result.
"""

import errno
import fcntl
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TextIO, TypedDict, TypeGuard, cast, overload

from gostlab import __version__, safe_read
from gostlab.atomic_write import write_json
from gostlab.errors import BadInput, Complaint
from gostlab.results import format as result_format
from gostlab.results.format import SCHEMA
from gostlab.results.rows import HostRow, QueueRow, SocketRow
from gostlab.spec.run_spec import RunSpec

OUTCOMES = ("ok", "failed", "unsupported", "interrupted")
# The `cause` of a failed run that an exception inside gostlab ended. The failure says nothing about
# the requested experiment, so the run is executed again.
OWN_ERROR = "the lab's own error"
# The `cause` of a failed run that this machine ended: a full disk, too little memory, a limit, a
# kill. The run is executed again.
FROM_OUTSIDE = "ended from outside"
STATUS = "status.json"
MAX_ERROR = 2000  # maximum length of a run's error message, in characters
# A run's last log lines are shorter than this; with less free space they could not be written.
MIN_FREE_BYTES = 2**20
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


# The meanings of run.json, oldest first. A change that makes the same run.json give other numbers
# (a kernel patch, a default, a tool's option) adds a sentence that describes the change. Results
# from before it are then outdated: they no longer count as finished, and their runs are executed
# again.
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
    "namespaces are made before a seed's random numbers begin, and several flows' connections by"
    " events; the idle path is pinged by the run itself, after a load until its queue has drained",
    "samplers make fewer calls, and what watches a load is woken by what happens in it alone",
    "a host's CPU has no say in how programs find their libraries",
)
EPOCH = len(EPOCHS)
EXPERIMENT_FILE = "experiment.yaml"  # the copy of the experiment's file in its results folder
ARCHIVE_FOLDER = ".older"  # the subfolder that archives results of earlier epochs
PART_LOCK = ".making"  # the lock file in a temporary run folder while the run executes
# A temporary run folder has no lock only just after its creation and just before its final rename.
PART_WITHOUT_LOCK_S = 600.0


# Exceptions that reading a damaged or incomplete run folder may raise. Readers of run folders catch
# them and treat the value as unknown.
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


class RunStatus(TypedDict, total=False):
    """Represent the end of a run: the contents of status.json (format.toml)."""

    outcome: str
    error: str | None
    cause: str | None
    guest_s: float | None
    schema: int
    epoch: int
    wall_s: float
    finished: str
    files: dict[str, int]
    sha256: dict[str, str | None]


class ResultsError(Complaint):
    """Report that a results folder cannot be used, and what to do about it."""

    exit_status = 1


def finish_run_folder(
    folder: Path,
    wall_s: float,
    complaint: str | None,
    *,
    from_outside: bool = False,
    run: RunSpec | None = None,
) -> RunStatus:
    """Write status.json, the last file of a run's folder, and return its contents.

    A run that left no outcome.json (its machine died or was ended: `complaint`) has failed, as has
    one whose programs removed or replaced a file that it must leave behind.

        run  the run of this folder: run.json must match it, and a good run's files must all exist
    Raises OSError.
    """
    status = read_outcome(folder)
    if status is None:
        message = f"ended without a word: {last_log_line(folder)}"
        is_outside = from_outside or not complaint
        if os.path.lexists(folder / "outcome.json"):  # written by rename, so it is never incomplete
            message, is_outside = "a program of the run replaced outcome.json", False
        if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
            message = f"the disk under {folder} is full: free some space"
            is_outside = True
        status = failed_status(complaint or message, FROM_OUTSIDE if is_outside else None)
    elif complaint and from_outside and status["outcome"] == "failed":
        status = failed_status(complaint, FROM_OUTSIDE)
    for name in ("outcome.json", "status.json"):
        remove_tree(folder / name)
    changed = run is not None and read_object(folder / "run.json") != run.to_json()
    if run is not None and changed:
        remove_tree(folder / "run.json")
        write_json(folder / "run.json", run.to_json())
    # `clean_folder` has removed the machine's internal files: the remaining ones are the results.
    files = known_files(folder)
    if run is not None and status["outcome"] == "ok":
        names = {file.name for file in files} - ({"run.json"} if changed else set())
        lacking = [name for name in needed_files() if name not in names]
        if lacking:
            message = "a program of the run removed or replaced"
            status = failed_status(f"{message} {', '.join(lacking)}"[:MAX_ERROR])
    status |= {
        "schema": SCHEMA,
        "epoch": EPOCH,
        "wall_s": round(wall_s, 3),
        "finished": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    status["files"] = {file.name: safe_read.plain_size(file) for file in files}
    status["sha256"] = {file.name: file_sha256(file) for file in files}
    write_json(folder / "status.json", status)
    return status


def replace_unreadable(folder: Path, run: RunSpec, wall_s: float, error: Exception) -> RunStatus:
    """Replace an unreadable run folder by a failed one, and return its status.

    Raises OSError; re-raises `error` if it is the disk's fault and not the run's.
    """
    if isinstance(error, OSError) and error.errno in OF_THE_DISK:
        raise error
    remove_tree(folder)
    folder.mkdir()
    message = f"its folder could not be read: {type(error).__name__}: {error}"[:MAX_ERROR]
    return finish_run_folder(folder, wall_s, message, run=run)


def failed_status(error: str, cause: str | None = None) -> RunStatus:
    """Return the outcome of a run that failed."""
    return {"outcome": "failed", "error": error, "cause": cause, "guest_s": None}


def read_outcome(folder: Path) -> RunStatus | None:
    """Return the outcome that a run's guest wrote, with types checked, or None if there is none."""
    outcome = read_object(folder / "outcome.json")
    if outcome is None or outcome.get("outcome") not in OUTCOMES:
        return None
    error, guest_s = outcome.get("error"), outcome.get("guest_s")
    return {
        "outcome": outcome["outcome"],
        "error": None if error is None else str(error)[:MAX_ERROR],
        "cause": OWN_ERROR if outcome.get("cause") == OWN_ERROR else None,
        "guest_s": guest_s if is_number(guest_s) else None,
    }


def known_files(folder: Path) -> list[Path]:
    """Return the regular files of a run's folder that the result format names. Raises OSError."""
    is_known = result_format.name_pattern().fullmatch
    names = sorted(name for name in os.listdir(folder) if is_known(name))
    return [path for name in names if safe_read.is_plain(path := folder / name)]


def needed_files() -> list[str]:
    """Return the names of the files that every good run's folder has, except status.json."""
    return [entry.name for entry in result_format.files() if entry.needed and entry.name != STATUS]


def remove_tree(path: Path) -> None:
    """Remove a file or a folder of any depth and modes, without following links. Raises OSError."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except FileNotFoundError:  # another process removed it
        pass
    except (OSError, RecursionError):
        # The tree is deeper than shutil.rmtree supports, or its modes forbid access to its owner.
        for argv in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*argv, "--", path], stderr=subprocess.DEVNULL, check=False)
        if os.path.lexists(path):
            raise OSError(errno.EACCES, "cannot be removed", str(path)) from None


def last_log_line(folder: Path) -> str:
    """Return the last line of a run's log that is not empty or the guest's reboot message."""
    lines = read_log(folder / "log.txt")
    messages = [line.strip() for line in lines if line.strip() and "reboot:" not in line]
    return messages[-1] if messages else "its log is empty"


def read_log(path: Path) -> list[str]:
    """Return the last lines of a log, or an empty list if it cannot be read."""
    try:
        data, _ = safe_read.read_tail(path, LOG_BYTES)
    except OSError:
        return []
    return data.decode("utf-8", "replace").split("\n")


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None if the file is missing or holds anything else.

    The guest may have written arbitrary data.
    """
    try:
        value = safe_read.read_json(path)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_run(folder: Path) -> RunSpec | None:
    """Return the description of a run's folder, or None if run.json cannot be read."""
    try:
        return RunSpec.from_json(safe_read.read_json(folder / "run.json"))
    except (OSError, ValueError, BadInput):
        return None


MAX_FLOAT = int(sys.float_info.max)
LOG_BYTES = 64 << 10  # how much of a log's end read_log reads
# The columns of all series by the type of their values (tests compare them with format.toml).
TEXT_COLUMNS = frozenset("cc dev direction end flow host leg link local node peer role".split())
NUMBER_COLUMNS = frozenset(
    [
        *("applied_s", "at_s", "backlog_bytes", "backlog_pkts", "bitrate_bps", "buffer_s"),
        *("busy_ms", "bytes_acked"),
        *("bytes_received", "cpu_busy_s", "cpu_idle_s", "cwnd_pkts", "data_segments_out"),
        *("delay_ms", "delivered_pkts", "delivery_rate_bps", "drops", "jitter_ms", "lost_pkts"),
        *("marked_pkts", "marks", "min_rtt_ms", "mss", "pacing_rate_bps", "rate_bps"),
        *("reord_seen", "reordering", "rto_ms", "rtt_ms", "rttvar_ms", "rwnd_limited_ms"),
        *("seconds", "segments_out", "segments_retransmitted", "sent_bytes", "sent_pkts"),
        *("size_bytes", "snd_wnd_bytes", "sndbuf_limited_ms", "srtt_ms", "ssthresh_pkts"),
        *("stalled_s", "t_s"),
        *("tcp_memory_mib", "unacked_pkts"),
    ]
)
# The names of a run's series: each is in NAME.jsonl, but acks are in acks.csv.gz.
SAMPLES = ("sockets", "queues", "hosts", "changes", "pings", "fetches", "segments", "acks")


@overload
def read_series(folder: Path, name: Literal["sockets"]) -> list[SocketRow]: ...
@overload
def read_series(folder: Path, name: Literal["queues"]) -> list[QueueRow]: ...
@overload
def read_series(folder: Path, name: Literal["hosts"]) -> list[HostRow]: ...
@overload
def read_series(folder: Path, name: str, clock: str = "t_s") -> list[Any]: ...
def read_series(folder: Path, name: str, clock: str = "t_s") -> list[Any]:
    """Return the valid rows of sockets.jsonl, queues.jsonl, hosts.jsonl or changes.jsonl.

    The column `clock` holds a row's time (`at_s` in changes.jsonl). A missing file gives an empty
    list.
    """
    try:
        return row_cache.read_rows(folder / f"{name}.jsonl", clock)
    except OSError:
        return []


class RowCache:
    """Cache the rows of the series that were read last, since many metrics read the same one."""

    def __init__(self, max_bytes: int) -> None:
        """max_bytes: maximum total size of the files, whose rows take some 2.5 times as much."""
        self._max_bytes = max_bytes
        # (mtime, ctime, size) and rows of a file, by path and clock; the one read last is last
        self._series: dict[tuple[Path, str], tuple[tuple[int, int, int], list[Any]]] = {}
        self._lock = Lock()

    def read_rows(self, path: Path, clock: str) -> list[Any]:
        """Return the valid rows of a file, decoded again only if it has changed. Raises OSError."""
        state = path.stat()
        stamp = (state.st_mtime_ns, state.st_ctime_ns, state.st_size)
        cached = self._series.get((path, clock))
        if cached is None or cached[0] != stamp:
            cached = stamp, valid_rows(safe_read.read_lines(path), clock)
        with self._lock:
            self._series.pop((path, clock), None)
            if state.st_size <= self._max_bytes:
                self._series[path, clock] = cached
            total = sum(size for (*_, size), _ in self._series.values())
            while total > self._max_bytes:
                (*_, size), _ = self._series.pop(next(iter(self._series)))
                total -= size
        return list(cached[1])


row_cache = RowCache(64 << 20)


BLOCK_LINES = 4096


def valid_rows(lines: Iterable[bytes], clock: str = "t_s") -> list[Any]:
    """Return the rows of a series up to the first line that is truncated or not a valid row."""
    rows: list[Any] = []
    remaining = iter(lines)
    while block := list(islice(remaining, BLOCK_LINES)):
        decoded = decode_block(block)
        if decoded is None or not are_rows(decoded, clock):
            decoded = valid_rows_one_by_one(block, clock)
        rows += decoded
        if len(decoded) < len(block):
            break
    return rows


def decode_block(lines: Sequence[bytes]) -> list[Any] | None:
    """Return the values of lines of JSON, decoded as one array; None if they are not one each."""
    try:
        values = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        return None
    return values if len(values) == len(lines) else None


def are_rows(values: Sequence[Any], clock: str) -> bool:
    """Return whether all values are valid rows: each column of those with the same names is."""
    if any(type(value) is not dict for value in values):
        return False
    by_names: dict[tuple[str, ...], list[Iterable[Any]]] = {}
    for row in values:
        by_names.setdefault(tuple(row), []).append(row.values())
    return all(
        clock in names
        and all(
            is_column(name, column) and (name != clock or None not in column)
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        )
        for names, rows in by_names.items()
    )


def is_column(name: str, values: Sequence[Any]) -> bool:
    """Return whether all values of a column have its type, or are null; others have any."""
    given = [value for value in values if value is not None] if None in values else values
    types = set(map(type, given))
    if name in NUMBER_COLUMNS:
        return types <= NUMBER_TYPES and are_finite(given)
    if name in TEXT_COLUMNS:
        return types <= {str} and "".join(given).isprintable()
    if name not in OBJECT_COLUMNS:
        return True
    if not types <= {dict}:
        return False
    inner = [value for row in given for value in row.values()]
    if set(map(type, inner)) <= NUMBER_TYPES and are_finite(inner):
        return True
    return all(map(OBJECT_COLUMNS[name], inner))


NUMBER_TYPES = {int, float}


def valid_rows_one_by_one(lines: Iterable[bytes], clock: str) -> list[Any]:
    """Return what valid_rows does, in more time."""
    rows = []
    for line in lines:
        try:
            row = decode_line(line)
        except (ValueError, RecursionError):
            break
        if not are_rows([row], clock):
            break
        rows.append(row)
    return rows


def decode_line(line: bytes) -> Any:
    """Return the value of a line of JSON. Raises ValueError, RecursionError."""
    try:
        value, end = LINE_DECODER.raw_decode(text := line.decode())
        if end == len(text) or text[end:] == "\n":
            return value
    except ValueError:
        pass
    return json.loads(line)  # other white space or encodings


LINE_DECODER = json.JSONDecoder()


def are_finite(numbers: Iterable[Any]) -> bool:
    """Return whether ints and floats are finite in double precision."""
    listed = list(numbers)
    try:
        if math.isfinite(sum(listed)):  # an infinity or a NaN stays in a sum
            return True
    except OverflowError:
        pass
    return all(map(is_number, listed))  # finite ones may have an infinite sum


def is_number_or_null(value: object) -> bool:
    return value is None or is_number(value)


def is_scalar(value: object) -> bool:
    """Return whether a value is a string, a finite number, a boolean or null."""
    return isinstance(value, str | bool) or is_number_or_null(value)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is an int or a float, finite in double precision, and no bool."""
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) is int and -MAX_FLOAT <= value <= MAX_FLOAT


# Columns whose values are objects, and the check for the values inside them.
OBJECT_COLUMNS: Mapping[str, Callable[[object], bool]] = {
    "loss": is_scalar,
    "bbr": is_number_or_null,
    **dict.fromkeys(["host_busy_s", "host_packets_s", "host_tcp_memory_mib"], is_number),
}


def read_status(folder: Path) -> RunStatus | None:
    """Return the status of a finished folder, or None if it is unfinished or half-written."""
    status = read_object(folder / "status.json")
    if status is None or status.get("outcome") not in OUTCOMES:
        return None
    return cast("RunStatus", status)


def is_finished(folder: Path, run: RunSpec) -> bool:
    """Return whether the folder holds this run's complete and undamaged result.

    A run that an internal error or this machine ended is not finished, nor is a result of another
    epoch, in which the same run.json had another meaning.
    """
    status = None if folder.is_symlink() else read_status(folder)
    if status is None or ended_by_environment(status) or epoch_of(status) != EPOCH:
        return False
    return (
        read_object(folder / "run.json") == run.to_json()
        and damage_of_folder(folder, status) is None
    )


def damage_of_folder(folder: Path, status: Mapping[str, object]) -> str | None:
    """Return in one line how a finished folder differs from when its run finished, or None.

    Early versions recorded no checksums, or no file lengths either.
    """
    lengths, digests = status.get("files", {}), status.get("sha256", {})
    if not isinstance(lengths, dict) or not isinstance(digests, dict):
        return "status.json: no lengths and sums of files"
    for name in {**lengths, **digests}:
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
        if name in digests and file_sha256(file) != digests[name]:
            return f"{name:.80}: changed since the run finished"
    return None


def file_sha256(file: Path) -> str | None:
    """Return the SHA-256 of a file in hexadecimal, or None if it cannot be read."""
    try:
        state = file.stat()
        return cached_sha256(str(file), state.st_mtime_ns, state.st_ctime_ns, state.st_size)
    except OSError:
        return None


@lru_cache(maxsize=100_000)
def cached_sha256(path: str, _mtime_ns: int, _ctime_ns: int, _size: int) -> str:
    """Return a file's SHA-256, read again only when its times or size change. Raises OSError."""
    with safe_read.open_plain(Path(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def epoch_of(status: Mapping[str, object]) -> int:
    """Return the epoch of a finished run: an index of EPOCHS, counted from 1."""
    epoch = status.get("epoch", 1)
    return epoch if isinstance(epoch, int) else 0


def older_epoch_line(results: Path, runs: Sequence[RunSpec]) -> str | None:
    """Return a line on the runs that are finished but of another epoch, or None if none is."""
    statuses = [
        read_status(results / run.experiment / run.name) or {"epoch": EPOCH} for run in runs
    ]
    epochs = [epoch_of(status) for status in statuses if epoch_of(status) != EPOCH]
    if not epochs:
        return None
    return (
        f"{len(epochs)} finished runs are of another lab and are run again"
        f" ({changed_since(epochs)}); the old ones are kept in {ARCHIVE_FOLDER}/"
    )


def changed_since(epochs: Collection[int]) -> str:
    """Return the changes to the meaning of run.json after the first of some epochs."""
    return "; ".join(EPOCHS[max(0, min(epochs)) :]) or "this lab is the older one"


def builds_line(results: Path, runs: Sequence[RunSpec]) -> str | None:
    """Return a line on the gostlab builds that made the finished runs, or None.

    None means that one build of this version made them all. The line helps a reader who wonders
    whether a small difference comes from the build.
    """
    makers = Counter(
        build_of(environment)
        for run in runs
        if is_finished(results / run.experiment / run.name, run)
        and (environment := read_object(results / run.experiment / run.name / "env.json"))
    )
    if not makers or (len(makers) == 1 and next(iter(makers)).startswith(f"{__version__} ")):
        return None
    listed = ", ".join(f"{count} by {maker}" for maker, count in makers.most_common())
    return f"finished before, and kept: {listed}; this is {__version__}"


def relay_line(results: Path, runs: Sequence[RunSpec]) -> str | None:
    """Return a line on finished runs of the lab's relay that a GOST made, or None for none.

    Before relay+… meant the lab's own relay, a machine with a GOST took that.
    """
    folders = [results / run.experiment / run.name for run in runs if run.gost_program == "relay"]
    by_gost = 0
    for folder in folders:
        tunnel = (read_object(folder / "env.json") or {}).get("tunnel")
        by_gost += isinstance(tunnel, dict) and tunnel.get("kind") == "gost"
    return (
        f"finished before, and kept: {by_gost} of relay+… by a GOST, which relay+… meant once:"
        " another results folder makes them with the lab's relay"
        if by_gost
        else None
    )


def build_of(environment: Mapping[str, object]) -> str:
    """Return the build that made a result: version, commit, kernel and a custom root."""
    lab = environment.get("lab")
    lab = lab if isinstance(lab, dict) else {}
    host = environment.get("host")
    root = host.get("root") if isinstance(host, dict) else None
    custom = f", root {root['hash'][:12]}" if root else ""
    built_by = f"{lab.get('commit')}, kernel {environment.get('kernel')}{custom}"
    return f"{lab.get('version')} ({built_by})"


def ended_by_environment(status: Mapping[str, object]) -> bool:
    """Return whether an internal error or this machine, and not the run itself, ended it."""
    return status.get("cause") in (OWN_ERROR, FROM_OUTSIDE)


def failure_line(folder: Path, status: Mapping[str, object]) -> str:
    """Return one line on why a run failed and what to do."""
    message = f"{folder.name}: {status.get('outcome')}: {status.get('error')}"
    if ended_by_environment(status):
        return (
            f"{message} ({status['cause']}, and no answer: all of it is in {folder / 'log.txt'};"
            " the same command runs it again)"
        )
    return f"{message} (see {folder / 'log.txt'}; --retry-failed runs it again)"


def create_run_folder(results: Path, run: RunSpec) -> Path:
    """Create an empty folder with run.json for a run, and return it.

    An unfinished folder of the same name is replaced; one that another epoch finished is archived
    in ARCHIVE_FOLDER.
    """
    folder = results / run.experiment / run.name
    if os.path.lexists(folder):
        free_run_path(folder)
    folder.mkdir(parents=True)
    write_json(folder / "run.json", run.to_json())
    return folder


def free_run_path(folder: Path) -> None:
    """Free a run's path, archiving a result of another epoch in ARCHIVE_FOLDER. Raises OSError."""
    status = None if folder.is_symlink() else read_status(folder)
    if status is not None and epoch_of(status) != EPOCH:
        archived = folder.parent / ARCHIVE_FOLDER / f"epoch-{epoch_of(status)}" / folder.name
        archived.parent.mkdir(parents=True, exist_ok=True)
        remove_tree(archived)
        folder.rename(archived)
    if folder.is_symlink() or not folder.is_dir():
        remove_tree(folder)
    else:
        # Rename the folder away in one step: another process may be about to use its path.
        doomed = folder.with_name(f".{folder.name[:160]}.part-old-{os.getpid()}")
        remove_tree(doomed)
        folder.rename(doomed)
        remove_tree(doomed)


def is_settled(folder: Path, run: RunSpec, *, retry_failed: bool) -> bool:
    """Return whether a run needs no execution: it is finished, and good if `retry_failed`."""
    if not is_finished(folder, run):
        return False
    return not retry_failed or (read_status(folder) or {}).get("outcome") == "ok"


@dataclass(frozen=True)
class InPlaceRunFolder:
    """Represent a folder in which a run executes, held by the owner of the experiment's results."""

    folder: Path

    def settle(self, run: RunSpec, *, retry_failed: bool = False) -> None:
        """Do nothing: the folder is at its final path already."""

    def discard(self) -> None:
        """Do nothing: the folder stays unfinished, and the next execution replaces it."""


@dataclass(frozen=True)
class PartialRunFolder(InPlaceRunFolder):
    """Represent a temporary folder in which a run executes, renamed to its path when finished.

    Any number of processes, on any machines that share a file system, may execute the same run: a
    complete folder appears at the path or none, and the first result stays. A lock in the folder
    shows that its process is alive; folders of dead processes are removed by the next one.
    """

    target: Path
    _lock: TextIO

    def settle(self, run: RunSpec, *, retry_failed: bool = False) -> None:
        """Rename the finished folder to its path, or remove it if a result is there already.

        Raises OSError.
        """
        remove_tree(self.folder / PART_LOCK)
        # Try the rename first: it succeeds only on a free path, so a result that another process
        # put there between the check and the rename stays.
        for last in (False,) * 9 + (True,):
            if is_settled(self.target, run, retry_failed=retry_failed):
                break
            try:
                self.folder.rename(self.target)
            except OSError:
                if last:
                    raise
                if not is_settled(self.target, run, retry_failed=retry_failed):
                    free_run_path(self.target)
            else:
                sync_folder(self.target.parent)
                break
        self.discard()

    def discard(self) -> None:
        """Remove the folder unless it was renamed to its path; may be called twice."""
        with suppress(OSError):
            remove_tree(self.folder)
        self._lock.close()


def create_sibling_folder(target: Path, run: RunSpec) -> PartialRunFolder:
    """Create a locked temporary folder with run.json next to a run's path. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name[:160]}.part-"
    with os.scandir(target.parent) as entries:  # glob takes ten times as long among 10,000 runs
        parts = [Path(entry) for entry in entries if entry.name.startswith(prefix)]
    for part in parts:
        if is_abandoned(part):
            with suppress(OSError):
                remove_tree(part)
    folder = target.with_name(f"{prefix}{os.uname().nodename[:30]}-{os.urandom(4).hex()}")
    folder.mkdir()
    # The lock file gets its name only once it is locked: an unlocked one marks an abandoned folder.
    unnamed = folder / f"{PART_LOCK}-begun"
    lock = unnamed.open("w", encoding="ascii")
    fcntl.flock(lock, fcntl.LOCK_EX)
    unnamed.rename(folder / PART_LOCK)
    write_json(folder / "run.json", run.to_json())
    return PartialRunFolder(folder, target, lock)


def is_abandoned(part: Path) -> bool:
    """Return whether no process works in a temporary run folder any more.

    Its lock is then free, or has been missing for longer than PART_WITHOUT_LOCK_S.
    """
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
    """Sync a folder's entries to disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def experiment_lock(results: Path, experiment: str, *, shared: bool = False) -> Iterator[None]:
    """Lock an experiment's results for this process, or `shared` with others.

    Processes that share the lock must execute every run in a temporary folder. Raises ResultsError
    if another process holds the lock, or the folder cannot be written.
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
def shared_experiment_lock(target: Path) -> Iterator[None]:
    """Lock the experiment that a run's folder belongs to, if any, against `./lab run`.

    Only the results of an experiment have a lock file. Raises ResultsError if `./lab run` works
    there.
    """
    if not (target.parent / ".lock").exists():
        yield
        return
    with experiment_lock(target.parent.parent, target.parent.name, shared=True):
        yield


def require_free_space(results: Path, needed_bytes: int) -> None:
    """Raise ResultsError if the disk under a results folder has less free space than needed."""
    free = shutil.disk_usage(results).free
    if free < needed_bytes:
        raise ResultsError(
            f"{results}: {free / 1e6:.0f} MB free, {needed_bytes / 1e6:.0f} MB needed: free some"
            " space; finished runs are kept, and the same command goes on from there"
        )


def clean_folder(folder: Path) -> None:
    """Remove the launcher's and the machine's internal files from a run's folder."""
    for name in ("boot.json", "parts.json", "exit", "capture.ko", ".uml", ".host", ".copies"):
        remove_tree(folder / name)
