# SPDX-License-Identifier: MIT
"""Open and decode files of a run's folder, whose author is not trusted.

No other module opens them. Only a plain file of a possible size is opened: no link is followed, no
FIFO waited for, no device touched. Decoded values are those that gostlab itself can write: numbers
that are finite in double precision, text that UTF-8 can encode.
"""

import errno
import json
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

# The maximum size of a file, by its name and then by its last suffix. The largest files that
# gostlab writes are run.json with a trace of 10^5 steps (10 MB), an iperf3 report of 128 streams
# over an hour (140 MB) and their samples (1.5 GB).
MAX_BYTES_BY_NAME = dict.fromkeys(
    [
        *("status.json", "outcome.json", "run.json", "fidelity.json", "legs.json", "flows.json"),
        *("env.json", "assignment.json", "predictions.json"),
    ],
    64 << 20,
)
MAX_BYTES_BY_SUFFIX = {".json": 512 << 20, ".gz": 1 << 30, ".c": 4 << 20}
MAX_BYTES = 4 << 30
MAX_LINE_BYTES = 4 << 20  # The maximum length of a line in a series.
MAX_DIGITS = 308  # The maximum number of digits of an integer; more digits exceed every double.
FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def max_bytes(name: str) -> int:
    """Return the maximum size of a file of this name."""
    suffix = name[name.rfind(".") :] if "." in name else ""
    return MAX_BYTES_BY_NAME.get(name) or MAX_BYTES_BY_SUFFIX.get(suffix, MAX_BYTES)


def open_plain(path: Path) -> BufferedReader:
    """Open a plain file to be read. Raises OSError, with what is wrong in `strerror`."""
    try:
        descriptor = os.open(path, FLAGS)
    except ValueError:  # A NUL or a surrogate in the name raises ValueError.
        raise OSError(errno.EINVAL, "no name of a file", str(path)) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # The path is a symbolic link or a socket.
            raise OSError(errno.EINVAL, "not a plain file", str(path)) from None
        raise
    try:
        reject_special_files(os.fstat(descriptor), path)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def reject_special_files(state: os.stat_result, path: Path) -> None:
    """Reject anything but a plain file of a possible size with OSError."""
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    if state.st_size > max_bytes(path.name):
        raise OSError(errno.EFBIG, "larger than any such file", str(path))


def plain_size(path: Path) -> int:
    """Return a plain file's length in bytes. Raises OSError."""
    try:
        state = path.lstat()
    except ValueError:
        raise OSError(errno.EINVAL, "no name of a file", str(path)) from None
    reject_special_files(state, path)
    return state.st_size


def is_plain(path: Path) -> bool:
    """Return whether a path is a plain file of a possible size."""
    try:
        plain_size(path)
    except OSError:
        return False
    return True


def read_bytes(path: Path, limit: int = -1) -> bytes:
    """Return a plain file's content, or its first bytes. Raises OSError."""
    with open_plain(path) as file:
        return file.read(limit)


def read_named(path: Path) -> bytes:
    """Return the content of a plain file that a person named; links count. Raises OSError."""
    try:
        if path.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        return read_bytes(Path(os.path.realpath(path)))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def read_tail(path: Path, size: int) -> tuple[bytes, bool]:
    """Return a plain file's last bytes, and whether there are others before. Raises OSError."""
    with open_plain(path) as file:
        before = max(0, file.seek(0, os.SEEK_END) - size)
        file.seek(before)
        return file.read(size), before > 0


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield a plain file's lines; one that is too long comes in pieces. Raises OSError."""
    with open_plain(path) as file:
        while line := file.readline(MAX_LINE_BYTES):
            yield line


def bounded_int(digits: str) -> int:
    """Return the integer that JSON writes. Raises ValueError for one that is above every double."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


DECODER = json.JSONDecoder(parse_int=bounded_int)


def decode(data: bytes) -> Any:
    """Return the value that JSON of UTF-8 describes. Raises ValueError."""
    text = data.decode("utf-8")
    try:
        value = DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair") from None
    return value


def read_json(path: Path) -> Any:
    """Return the value in a JSON file. Raises OSError, ValueError."""
    return decode(read_bytes(path))
