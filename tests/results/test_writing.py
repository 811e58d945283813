# SPDX-License-Identifier: MIT
"""Files of the results, written whole."""

import errno
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gostlab.atomic_write import write_json

TIMES = 100


def test_two_that_write_the_same_file_at_once_both_do_and_it_is_whole(tmp_path: Path) -> None:
    """As two `./lab grade` of a class into one folder."""
    file = tmp_path / "record.json"

    def write(number: int) -> None:
        for _ in range(TIMES):
            write_json(file, {"by": number, "long": "x" * 10_000})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(2)))

    assert json.loads(file.read_text(encoding="utf-8"))["by"] in (0, 1)
    assert list(tmp_path.iterdir()) == [file]


def test_a_full_disk_leaves_the_file_as_it_was_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "status.json"
    write_json(file, {"status": "ok"})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_json(file, {"status": "failed"})

    assert [each.name for each in tmp_path.iterdir()] == ["status.json"]
    assert json.loads(file.read_text(encoding="utf-8")) == {"status": "ok"}
