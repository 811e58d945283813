"""Every lab that is broken on purpose does something else than requested, and denies it."""

import pytest

from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.validation.fault_injection import BROKEN, Fault, faulty_runs

QUICK = expand(load_experiment("validation"), quick=True)


@pytest.mark.parametrize("lab", BROKEN, ids=lambda lab: lab.name)
def test_a_broken_lab_does_something_else_in_some_run_and_says_what_was_asked(lab: Fault) -> None:
    assert any(lab.do(run) != run for run in QUICK)
    for run in QUICK:
        done = lab.do(run)
        assert (done.matrix, done.factors, done.seed) == (run.matrix, run.factors, run.seed)


def test_a_loss_twice_as_high_is_so_in_both_models() -> None:
    double = next(lab for lab in BROKEN if lab.name == "loss-doubled")
    done = {run.name: double.do(run).path["forward"]["loss"] for run in QUICK}
    for run in QUICK:
        asked = run.path["forward"]["loss"]
        assert done[run.name]["p"] == 2 * asked["p"]
        if "packets" in asked:
            assert done[run.name]["packets"] == asked["packets"] / 2


def test_runs_are_those_that_differ_of_the_first_repetitions_each_apart() -> None:
    runs = faulty_runs(QUICK, 1)
    assert {run.experiment for run in runs} == {lab.experiment for lab in BROKEN}
    assert len({(run.experiment, run.name) for run in runs}) == len(runs)
    assert faulty_runs(QUICK, 0) == []
    buffers = [run for run in runs if run.experiment == "broken-rate-lower"]
    assert len(buffers) == len(QUICK)
