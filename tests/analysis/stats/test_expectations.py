# SPDX-License-Identifier: MIT
"""Whether runs are as their file says they must be, and by how much they are not."""

from pathlib import Path

import pytest
import synthetic

from gostlab.analysis.load.runs import load_results
from gostlab.analysis.stats.expectations import Judgement, cells_by_levels, evaluate_matrix
from gostlab.errors import BadInput
from gostlab.spec.expectations import read_expectations
from gostlab.spec.yaml_source import parse_document

write = synthetic.write_repetitions


def judged(results: Path, text: str, *, partial: bool = False) -> list[Judgement]:
    cells = cells_by_levels(load_results(results, "made-up").runs)
    expectations = read_expectations(parse_document(text, "mine.yaml"))
    return evaluate_matrix(expectations, cells, partial=partial)


def only(results: Path, text: str) -> Judgement:
    (judgement,) = judged(results, text)
    return judgement


def test_the_run_that_is_furthest_off_decides_and_is_named(tmp_path: Path) -> None:
    write(tmp_path, "bbr", 9.0, 6.0, 8.0)
    failed = only(tmp_path, 'goodput: ">= 8 Mbit/s"')
    assert (failed.state, failed.value, failed.run) == ("failed", "6 Mbit/s", "bbr-2")
    assert failed.reason == "2 Mbit/s (25 %) below 8 Mbit/s"
    passed = only(tmp_path, 'goodput: ">= 6 Mbit/s"')
    assert (passed.state, passed.reason) == ("passed", "at 6 Mbit/s")
    assert not only(tmp_path, 'goodput: "> 6 Mbit/s"').passed
    assert only(tmp_path, "goodput: 5 Mbit/s .. 9 Mbit/s").passed
    assert only(tmp_path, "goodput: 6 Mbit/s .. 8.5 Mbit/s").run == "bbr-1"


def test_runs_of_one_repetition_are_compared(tmp_path: Path) -> None:
    write(tmp_path, "cubic", 1.0, 10.0)
    write(tmp_path, "bbr", 3.0, 20.0)
    assert only(tmp_path, 'bbr.goodput: ">= 2 × cubic.goodput"').passed
    failed = only(tmp_path, 'bbr.goodput: ">= 2.5 × cubic.goodput"')
    assert failed.run == "bbr-2"
    assert failed.reason == "5 Mbit/s (20 %) below 25 Mbit/s, cubic.goodput is 10 Mbit/s"


def test_a_run_that_failed_or_is_invalid_meets_nothing_but_its_verdict(tmp_path: Path) -> None:
    write(tmp_path, "bbr", 9.0)
    run = synthetic.cell("bbr", 16, repetition=2)
    synthetic.write_run(tmp_path, run, outcome="failed", error="no route", name="bbr-2")
    failed = only(tmp_path, 'goodput: ">= 1 Mbit/s"')
    assert (failed.state, failed.run, failed.reason) == ("failed", "bbr-2", "failed: no route")
    assert only(tmp_path, "verdict: ok").value == "failed"


@pytest.mark.parametrize(("accepted", "state"), [("ok", "failed"), ("ok or degraded", "passed")])
def test_a_verdict_is_one_of_the_accepted(accepted: str, state: str, tmp_path: Path) -> None:
    write(tmp_path, "bbr", 9.0, verdict="degraded")
    judgement = only(tmp_path, f"verdict: {accepted}")
    assert (judgement.state, judgement.value) == (state, "degraded")


@pytest.mark.parametrize(
    ("goodputs", "bound", "state", "reason"),
    [
        ((9.0, 8.6, 8.8, 9.1, 8.9, 8.7), ">= 8 Mbit/s", "passed", "by 0.6 Mbit/s"),
        ((7.0, 7.2, 7.4, 7.1, 7.3, 7.5), ">= 8 Mbit/s", "failed", "missed by 0.5 Mbit/s"),
        ((7.0, 9.2, 7.4, 9.1, 8.3, 8.5), ">= 8 Mbit/s", "failed", "undecided"),
        ((9.0, 8.6, 8.8, 9.1, 8.9, 8.7), "8.85 Mbit/s ± 0.5 Mbit/s", "passed", "by 0.25 Mbit/s"),
    ],
)
def test_the_whole_interval_of_the_median_must_lie_within(
    goodputs: tuple[float, ...], bound: str, state: str, reason: str, tmp_path: Path
) -> None:
    write(tmp_path, "bbr", *goodputs)
    judgement = only(tmp_path, f'median goodput: "{bound}"')
    assert judgement.state == state and judgement.reason.startswith(reason)


def test_identical_runs_have_their_one_value_as_median(tmp_path: Path) -> None:
    write(tmp_path, "bbr", *(9.0,) * 6)
    assert only(tmp_path, 'median goodput: ">= 9 Mbit/s"').passed


def test_every_competing_flow_has_its_share(tmp_path: Path) -> None:
    run = synthetic.several({"cc": "cubic"}, {"cc": "bbr"})
    synthetic.write_run(tmp_path, run, name="two")
    found = judged(tmp_path, 'share: "50 % ± 50 %"')
    assert [each.name for each in found] == [
        "flow1: share: 50 % ± 50 %",
        "flow2: share: 50 % ± 50 %",
    ]


def test_what_was_not_measured_is_not_met(tmp_path: Path) -> None:
    write(tmp_path, "bbr", 9.0)
    assert only(tmp_path, 'ping_p95_ms: "<= 1 s"').reason == "this run has no ping_p95_ms"


def test_a_report_of_unfinished_results_says_what_is_not_judged(tmp_path: Path) -> None:
    write(tmp_path, "bbr", 9.0)
    (judgement,) = judged(tmp_path, 'bbr.goodput: ">= 3 × cubic.goodput"', partial=True)
    assert judgement.state == "not judged" and '"cubic" is no level' in judgement.reason
    with pytest.raises(BadInput):
        judged(tmp_path, 'bbr.goodput: ">= 3 × cubic.goodput"')
