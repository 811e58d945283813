# SPDX-License-Identifier: MIT
"""A report is made again only if something that it depends on has changed, or a file of its own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic

from gostlab.analysis.report import report_folder
from gostlab.api.report import report


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results whose files may be a moment old."""
    monkeypatch.setattr(report_folder, "CLOCK_TICK_NS", -(10**18))
    synthetic.write_run(tmp_path / "results", synthetic.cell("cubic", 1))
    synthetic.write_run(tmp_path / "results", synthetic.cell("bbr", 1))
    return tmp_path / "results"


def is_made(results: Path, out: Path) -> bool:
    """Return whether a report writes its page, and does not leave that of the time before."""
    before = (out / "report.html").stat().st_ino
    return report(results, out=out).stat().st_ino != before


def test_a_report_of_unchanged_results_is_left(results: Path, tmp_path: Path) -> None:
    said: list[list[str]] = [[], []]
    pages = [report(results, out=tmp_path / "out", say=lines.append) for lines in said]
    assert said[0] == said[1] and pages[0] == pages[1]
    assert not is_made(results, tmp_path / "out")


def change_a_run(results: Path, out: Path) -> None:
    file = next(results.glob("*/*/flows.json"))
    file.write_bytes(file.read_bytes() + b" ")


def touch_a_run(results: Path, out: Path) -> None:
    os.utime(next(results.glob("*/*/sockets.jsonl")))


def add_a_run(results: Path, out: Path) -> None:
    synthetic.write_run(results, synthetic.cell("bbr", 4))


def delete_a_figure(results: Path, out: Path) -> None:
    next(out.glob("figures/*.pdf")).unlink()


def write_into_a_table(results: Path, out: Path) -> None:
    next(out.glob("tables/*.csv")).write_text("mine\n")


def delete_the_manifest(results: Path, out: Path) -> None:
    (out / report_folder.MANIFEST).unlink()


def spoil_the_manifest(results: Path, out: Path) -> None:
    (out / report_folder.MANIFEST).write_text("[]")


@pytest.mark.parametrize(
    "change",
    [
        *(change_a_run, touch_a_run, add_a_run, delete_a_figure, write_into_a_table),
        *(delete_the_manifest, spoil_the_manifest),
    ],
)
def test_a_report_is_made_again_after(
    change: Callable[[Path, Path], None], results: Path, tmp_path: Path
) -> None:
    report(results, out=tmp_path / "out")
    change(results, tmp_path / "out")
    assert is_made(results, tmp_path / "out")
    assert not is_made(results, tmp_path / "out")


def test_a_report_is_left_when_something_is_written_beside_the_labs_files(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, packages = tmp_path / "checkout", tmp_path / "packages"
    for folder in (checkout, packages):
        folder.mkdir()
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(report_folder, "ROOT", checkout)
    report(results, out=tmp_path / "out")
    (checkout / "results").mkdir()
    assert not is_made(results, tmp_path / "out")
    (packages / "installed").mkdir()
    assert is_made(results, tmp_path / "out")


def test_a_report_is_made_again_by_another_lab(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "measurements").mkdir()
    monkeypatch.setattr(report_folder, "MEASUREMENTS", tmp_path / "measurements")
    report(results, out=tmp_path / "out")
    (tmp_path / "measurements" / "made-up.csv").write_text("matrix\n")
    assert is_made(results, tmp_path / "out")


def test_what_no_report_depends_on_changes_no_digest(results: Path) -> None:
    before = report_folder.digest_inputs(results, ["made-up"])
    (results / "other" / "run").mkdir(parents=True)
    (results / "made-up" / ".lock").write_text("1234")
    assert report_folder.digest_inputs(results, ["made-up"]) == before is not None
    assert report_folder.digest_inputs(results, ["other"]) != before


def test_results_that_changed_within_a_tick_of_the_clock_have_no_digest(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_folder, "CLOCK_TICK_NS", 10**18)
    assert report_folder.digest_inputs(results, ["made-up"]) is None
    report(results, out=tmp_path / "out")
    assert is_made(results, tmp_path / "out")
