# SPDX-License-Identifier: MIT
"""Compare the help of every verb, and one short run, with what tools/pin_behaviour.py pinned.

The other runs and the tables: `make pinned`.
"""

import json
from pathlib import Path

import pytest

from tools import pin_behaviour
from tools.pin_behaviour import Comparison, compare_help, compare_runs, make_runs

MATRIX = "changes"


@pytest.mark.slow
def test_every_verb_has_the_pinned_help() -> None:
    comparison = Comparison()
    compare_help(comparison)
    assert comparison.differences == []


def test_a_difference_is_named() -> None:
    comparison = Comparison()
    comparison.compare_all({"./lab a": "x", "./lab b": "y"}, {"./lab a": "z", "./lab c": "y"})
    assert comparison.differences == [
        "./lab a: differs from what is pinned",
        "./lab b: is pinned and no longer there",
        "./lab c: is not pinned",
    ]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a results folder for the run of MATRIX, which is made once."""
    return tmp_path_factory.mktemp("pinned")


@pytest.mark.sandbox
def test_a_run_has_the_pinned_files(results: Path) -> None:
    comparison = Comparison()
    compare_runs(comparison, results, [MATRIX])
    assert comparison.differences == []


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("section", "key", "differences"), [("files", "sockets.jsonl", 1), ("parts", "kernel", 0)]
)
def test_a_file_that_differs_is_named_unless_parts_differ(
    section: str,
    key: str,
    differences: int,
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, skipped = make_runs(results, [MATRIX])
    assert skipped == {}
    [pinned] = made.values()
    pinned["files"]["sockets.jsonl"] = "another"
    pinned[section][key] = "another"
    monkeypatch.setattr(pin_behaviour, "RUNS", tmp_path / "runs.json")
    pin_behaviour.RUNS.write_text(json.dumps(made), "utf-8")

    comparison = Comparison()
    compare_runs(comparison, results, [MATRIX])

    assert len(comparison.differences) == differences
    assert all("sockets.jsonl" in line for line in comparison.differences)
    assert len(comparison.notes) == 1 - differences
