# SPDX-License-Identifier: MIT
"""`./lab cc test`: what it finds in congestion controls with a bug, and how it says so."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gostlab.cc_cases import run_cases
from gostlab.cc_cases.case import (
    BoundCheck,
    CaseOutcome,
    NeverHappened,
    NotShown,
    check_condition,
    check_near,
)
from gostlab.cli import main
from tests.sandboxed import Lab

FAULTY = Path(__file__).with_name("faulty.c")
GROWS, YIELDS = "rfc9743-fill", "rfc9743-loss"


def test_all_cases_of_the_draft_and_the_rfcs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["cc", "test", "--list", "--json"]) == 0
    cases = {case["name"]: case for case in json.loads(capsys.readouterr().out)}
    assert [f"bbr-a{number}" for number in range(1, 23)] == [n for n in cases if n[:4] == "bbr-"]
    assert {"rfc5681-half", "rfc9438-cubic", GROWS, YIELDS} <= set(cases)
    assert all(case["source"] and case["title"] for case in cases.values())


def test_a_document_selects_its_cases() -> None:
    assert len(run_cases.select_cases(["bbr"])) == 22
    assert [case.name for case in run_cases.select_cases(["bbr-a1"])] == ["bbr-a1"]


@pytest.mark.parametrize(
    ("cc", "standard", "applies"),
    [
        ("bbr3", "bbr", True),
        ("bbr", "bbr", False),
        ("cubic", "rfc9438", True),
        ("cubic", "rfc5681", False),
        ("reno", "rfc5681", True),
        ("fixedrate", "bbr", False),
    ],
)
def test_a_case_is_of_controls_that_claim_its_document(
    cc: str, standard: str, *, applies: bool
) -> None:
    cases = [case for case in run_cases.all_cases().values() if case.standard == standard]
    with run_cases.tested_control(cc) as subject:
        reasons = {run_cases.inapplicable_reason(case, subject) for case in cases}
    assert (reasons == {""}) == applies


def test_an_outcome_tells_the_first_check_that_failed() -> None:
    outcome = CaseOutcome.of(
        lambda: [
            check_near("a", 1.0, 1.0, 0.1),
            BoundCheck("b", 3, high=2),
            check_condition("c", 0),
        ]
    )
    assert outcome.state == "failed"
    assert outcome.decisive_finding is not None
    assert (outcome.decisive_finding.value, outcome.decisive_finding.bound) == ("b: 3", "≤ 2")


@pytest.mark.parametrize(
    ("error", "state"), [(NeverHappened("x"), "failed"), (NotShown("x"), "not applicable")]
)
def test_what_cannot_be_evaluated_has_a_reason(error: Exception, state: str) -> None:
    def evaluate() -> list[BoundCheck]:
        raise error

    outcome = CaseOutcome.of(evaluate)
    assert (outcome.state, outcome.reason) == (state, "x")


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("define", "case", "other"), [("#define NEVER_GROWS\n", GROWS, YIELDS), ("", YIELDS, GROWS)]
)
def test_a_bug_fails_its_case_and_no_other(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str], define: str, case: str, other: str
) -> None:
    file, junit = tmp_path / "mine.c", tmp_path / "junit.xml"
    file.write_text(define + FAULTY.read_text("utf-8"), "utf-8")
    only = ["--only", GROWS, "--only", YIELDS, "--only", "bbr-a1", "--json"]
    words = ["cc", "test", str(file), *only, "--results", str(tmp_path), "--junit", str(junit)]

    assert main.main(words) == 1

    said = {each["case"]: each for each in json.loads(capsys.readouterr().out)}
    assert said[case]["state"] == "failed" and said[other]["state"] == "passed"
    assert said["bbr-a1"]["state"] == "not applicable" and "GOSTLAB_SHOW" in said["bbr-a1"]["value"]
    assert Path(said[case]["picture"]).read_bytes()[:4] == b"\x89PNG"
    [suite] = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    [page] = tmp_path.glob("cc-test-*.html")
    assert page.read_text("utf-8").count('src="data:image/png') == 2
    began = {run: run.stat().st_mtime_ns for run in tmp_path.glob("cc-test-*/*/status.json")}
    assert main.main(words) == 1  # what is finished is not run again
    assert {run: run.stat().st_mtime_ns for run in began} == began


@pytest.mark.sandbox
def test_a_file_that_does_not_compile_ends_with_the_compilers_words(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.c"
    file.write_text("int broken(\n", "utf-8")
    assert main.main(["cc", "test", str(file), "--results", str(tmp_path)]) == 2
    assert "mine.c:1" in capsys.readouterr().err


@pytest.mark.slow
def test_the_legend_of_a_picture_covers_no_line() -> None:
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from gostlab.cc_cases import case_plots

    figure = Figure(layout="constrained")
    axes = figure.subplots()
    line = np.array([0.0, 1.0]), np.array([1.0, 1.0])
    case_plots.draw_lines(axes, "Window", {"window": line, "in flight": line})
    FigureCanvasAgg(figure).draw()
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 >= axes.get_window_extent().y1
