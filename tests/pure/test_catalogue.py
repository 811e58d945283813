"""Every experiment in the repository expands, and the thesis's own numbers stand in it exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gostlab.ask import experiment as experiments
from gostlab.ask.experiment import Published, load_experiment
from gostlab.ask.resolve import expand
from gostlab.ask.settings import DEFAULT_SYSCALL_COST_US

STREAMS = (1, 4, 16, 128)
# The thesis's sections 4.2 and 4.3: receivers' goodput (Mbit/s) and Retr, by streams.
THESIS = {
    ("cubic", "gost+ws"): ((144, 63), (548, 210), (1430, 807), (470, 22894)),
    ("bbr", "gost+ws"): ((136, 58), (544, 219), (1830, 927), (376, 20606)),
    ("cubic", "gost+wss"): ((142, 47), (570, 221), (1490, 761), (478, 23343)),
    ("bbr", "gost+wss"): ((141, 54), (549, 258), (1820, 933), (467, 19292)),
}


@pytest.mark.parametrize("name", experiments.list_experiments())
@pytest.mark.parametrize("quick", [False, True])
def test_every_experiment_expands_to_runs_of_its_own_name(name: str, quick: bool) -> None:
    experiment = load_experiment(name)
    runs = expand(experiment, quick=quick)
    assert runs
    assert {run.experiment for run in runs} == {experiment.name} == {name}
    assert len({run.name for run in runs}) == len(runs)
    assert experiment.question


@pytest.mark.parametrize("name", experiments.list_experiments())
def test_every_experiment_opens_with_its_question_and_a_drawing(name: str) -> None:
    opening = load_experiment(name).path_on_disk.read_text(encoding="utf-8").split("\nname:")[0]
    assert opening.startswith("# ") and opening.splitlines()[0].endswith("?")
    assert "─" in opening


@pytest.mark.parametrize("name", experiments.list_experiments())
def test_every_published_number_has_its_runs(name: str) -> None:
    experiment = load_experiment(name)
    runs = expand(experiment)
    assert all(
        any(is_of(number, run.matrix, run.factors) for run in runs)
        for number in experiment.published
    )


@pytest.mark.parametrize("cc", ["cubic", "bbr"])
@pytest.mark.parametrize("tunnel", ["gost+ws", "gost+wss"])
def test_the_thesis_numbers_are_in_the_tunnel_experiment(cc: str, tunnel: str) -> None:
    experiment = load_experiment("thesis-tunnel")
    assert len(experiment.published) == 16
    for streams, (goodput_mbit, retr) in zip(STREAMS, THESIS[cc, tunnel], strict=True):
        levels = {"cc": cc, "tunnel": tunnel, "streams": streams}
        [number] = [each for each in experiment.published if is_of(each, "main", levels)]
        assert (number.goodput_mbit, number.retr) == (goodput_mbit, retr)


def test_the_tunnel_experiment_is_the_thesis_matrix_and_what_explains_it() -> None:
    runs = expand(load_experiment("thesis-tunnel"))
    by_matrix = {
        name: [run for run in runs if run.matrix == name]
        for name in ("main", "cpu", "real-clock", "buffer")
    }
    assert len(by_matrix["main"]) == 2 * 3 * 4 * 3
    assert {run.duration_s for run in runs if run.matrix != "cpu"} == {30.0}
    assert {(run.clock, run.syscall_cost_us) for run in by_matrix["main"]} == {
        ("virtual", float(DEFAULT_SYSCALL_COST_US))
    }
    assert {(run.streams, run.syscall_cost_us) for run in by_matrix["cpu"]} == {
        (streams, cost) for streams in (16, 128) for cost in (0.0, 2.0, 5.0, 20.0)
    }
    assert {(run.streams, run.clock) for run in by_matrix["real-clock"]} == {
        (16, "real"),
        (128, "real"),
    }
    assert {run.path["forward"]["buffer_pkts"] for run in by_matrix["buffer"]} == {
        275,
        826,
        2754,
        8261,
        27538,
        82614,
    }
    assert {run.placement for run in runs} == {"endpoint"}


def is_of(number: Published, matrix: str, levels: Mapping[str, Any]) -> bool:
    """Whether a study's number is of a cell: the cell has all of its levels."""
    return number.matrix == matrix and number.factors.items() <= levels.items()
