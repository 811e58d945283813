# SPDX-License-Identifier: MIT
"""What an experiment's file says of its runs is read from the copy beside them."""

import shutil
from pathlib import Path

import pytest
import synthetic
from synthetic import loaded

from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import PublishedClaim, claims_of, load_study
from gostlab.analysis.report.report import to_chapter
from gostlab.api.report import report
from gostlab.registry.folders import EXPERIMENTS
from tests.analysis.conftest import saved_here

FILE = """\
name: made-up
title: One of my own
question: Is it read?
study: {seed: a paper, sections: "4", note: N}
settings: {profile: ./gone.yaml}
matrices:
  - name: main
    title: The matrix
    factors: {cc: [cubic, bbr], streams: [1, 16]}
    draw: [bars, shares]
  - name: other
published:
  - {matrix: main, figure: jain, least: 0.9, source: s, why: its window}
  - {matrix: main, factors: {cc: cubic}, figure: goodput_mbit, value: 5, source: s}
  - {matrix: main, factors: {cc: cubic, streams: 16}, goodput_mbit: 1430, retr: 3, source: s}
"""


def keep(results: Path, text: str = FILE, name: str = "made-up") -> None:
    (results / name).mkdir(parents=True, exist_ok=True)
    (results / name / "experiment.yaml").write_text(text, encoding="utf-8")


def test_the_file_that_lies_with_the_results_says_what_they_are(tmp_path: Path) -> None:
    keep(tmp_path)
    study = load_study("made-up", tmp_path)
    assert (study.title, study.question, study.file_note) == ("One of my own", "Is it read?", "")
    assert (study.seed, study.sections, study.note) == ("a paper", "4", "N")
    assert study.matrix_title("main") == "The matrix" and study.matrix_title("other") == "other"
    assert study.requested_plots("main") == ("bars", "shares")
    assert study.requested_plots("other") == study.requested_plots("absent") == ()


def test_what_the_study_published_is_found_for_a_run(tmp_path: Path) -> None:
    keep(tmp_path)
    study = load_study("made-up", tmp_path)
    run = loaded(synthetic.write_run(tmp_path, synthetic.cell("cubic", 1)))
    fair, *_ = about = study.published_all_for(run)
    assert len(about) == 2 and fair.why == "its window"
    assert claims_of(fair) == (PublishedClaim("jain", None, 0.9),)
    found = study.published_for(run)
    assert found is not None and found.goodput_mbit == 5.0  # however written, never the band's
    many = loaded(synthetic.write_run(tmp_path, synthetic.cell("cubic", 16)))
    found = study.published_for(many)
    assert found is not None and (found.goodput_mbit, found.retr) == (1430.0, 3)
    assert claims_of(found) == (PublishedClaim("goodput_mbit", 1430.0), PublishedClaim("retr", 3.0))


def test_results_of_an_older_lab_are_read_with_the_file_of_today_and_it_says_so(
    tmp_path: Path,
) -> None:
    study = load_study("download", tmp_path)
    assert study.title == load_study("download").title != "download"
    assert "experiments/download.yaml as it is now" in study.file_note
    assert load_study("download").file_note == ""
    keep(tmp_path, (EXPERIMENTS / "download.yaml").read_text(encoding="utf-8"), "download")
    assert load_study("download", tmp_path).file_note == ""


def test_a_file_that_is_not_there_or_cannot_be_read_leaves_the_runs_their_names(
    tmp_path: Path,
) -> None:
    assert load_study("nowhere").title == "nowhere"
    assert "no nowhere" in load_study("nowhere", tmp_path).file_note
    keep(tmp_path, "name: made-up\nmatrices: {\n")
    study = load_study("made-up", tmp_path)
    assert study.title == "made-up" and "experiment.yaml:" in study.file_note


@pytest.mark.slow
def test_the_report_of_one_s_own_experiment_needs_nothing_but_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.write_run(tmp_path / "results", synthetic.cell("cubic", 1))
    keep(tmp_path / "results")
    shutil.move(tmp_path / "results", tmp_path / "moved")
    page = report(tmp_path / "moved", out=tmp_path / "out").read_text("utf-8")
    assert "One of my own" in page and "Is it read?" in page and "The matrix" in page
    begun = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    for figure in (tmp_path / "out/figures").iterdir():
        content = figure.read_bytes()
        assert content.startswith(begun[figure.suffix[1:]]) and len(content) > 1000
    (tmp_path / "moved/made-up/experiment.yaml").unlink()
    monkeypatch.setattr("gostlab.analysis.report.report.figures_saved", saved_here)
    page = report(tmp_path / "moved", out=tmp_path / "out").read_text("utf-8")
    assert "One of my own" not in page and "No experiment file was kept" in page
    study = load_study("made-up", tmp_path / "moved")
    chapter = to_chapter(study, load_results(tmp_path / "moved", "made-up"))
    assert chapter.study.file_note
