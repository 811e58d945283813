# SPDX-License-Identifier: MIT
"""The rows of a series are decoded once, unless its file changes or other series need the space."""

from pathlib import Path

import pytest

from gostlab import results
from gostlab.results import RowCache

LINE = '{"t_s": 1.0}\n'


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are decoded, in their order."""
    names: list[str] = []
    read_lines = results.safe_read.read_lines
    monkeypatch.setattr(
        results.safe_read, "read_lines", lambda path: names.append(path.name) or read_lines(path)
    )
    return names


def write(folder: Path, name: str, rows: int) -> Path:
    (folder / name).write_text(LINE * rows)
    return folder / name


def test_a_series_is_decoded_once_and_again_if_it_changes(
    tmp_path: Path, decoded: list[str]
) -> None:
    cache = RowCache(max_bytes=1000)
    file = write(tmp_path, "a", 1)
    assert cache.read_rows(file, "t_s") == cache.read_rows(file, "t_s") == [{"t_s": 1.0}]
    assert decoded == ["a"]
    write(tmp_path, "a", 2)
    assert len(cache.read_rows(file, "t_s")) == 2
    assert cache.read_rows(file, "at_s") == []
    assert decoded == ["a"] * 3


def test_a_list_of_rows_is_the_callers(tmp_path: Path) -> None:
    cache = RowCache(max_bytes=1000)
    file = write(tmp_path, "a", 2)
    cache.read_rows(file, "t_s").clear()
    assert len(cache.read_rows(file, "t_s")) == 2


def test_the_series_read_longest_ago_makes_space(tmp_path: Path, decoded: list[str]) -> None:
    cache = RowCache(max_bytes=5 * len(LINE))
    files = [write(tmp_path, name, rows) for name, rows in (("a", 2), ("b", 3), ("c", 3))]
    for at in (0, 1, 0, 2, 0, 1):
        cache.read_rows(files[at], "t_s")
    assert decoded == ["a", "b", "c", "b"]


def test_a_series_larger_than_the_cache_is_read_each_time_and_displaces_no_other(
    tmp_path: Path, decoded: list[str]
) -> None:
    cache = RowCache(max_bytes=len(LINE))
    small, large = write(tmp_path, "a", 1), write(tmp_path, "b", 2)
    for file in (small, large, large, small):
        assert cache.read_rows(file, "t_s")
    assert decoded == ["a", "b", "b"]
