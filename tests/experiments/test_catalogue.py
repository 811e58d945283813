# SPDX-License-Identifier: MIT
"""Every experiment in the repository expands, and the thesis's own numbers stand in it exactly."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from gostlab.registry.folders import EXPERIMENTS
from gostlab.spec import experiment as experiments
from gostlab.spec.expand import expand
from gostlab.spec.experiment import ExperimentFile, Published, load_experiment
from gostlab.spec.preflight import survey_traps
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import DEFAULT_SYSCALL_COST_US
from gostlab.spec.yaml_source import BadInput
from tests.experiments.run_names import FORMS, kept, said_short
from tests.lab_command import said_by

STREAMS = (1, 4, 16, 128)
# The thesis's sections 4.2 and 4.3: receivers' goodput (Mbit/s) and Retr, by streams.
THESIS = {
    ("cubic", "gost+ws"): ((144, 63), (548, 210), (1430, 807), (470, 22894)),
    ("bbr", "gost+ws"): ((136, 58), (544, 219), (1830, 927), (376, 20606)),
    ("cubic", "gost+wss"): ((142, 47), (570, 221), (1490, 761), (478, 23343)),
    ("bbr", "gost+wss"): ((141, 54), (549, 258), (1820, 933), (467, 19292)),
}


# The lab's own. What somebody else puts into experiments/ has to run, and nothing more.
SHIPPED = list(kept())
LARGEST = "which-tunnel"  # 6,240 runs


@lru_cache(maxsize=2)
def expanded(path: Path) -> tuple[ExperimentFile, list[RunSpec], list[RunSpec]]:
    """An experiment, and its runs in both forms."""
    experiment = load_experiment(str(path))
    return experiment, expand(experiment), expand(experiment, quick=True)


def why_it_does_not_run(path: Path) -> list[str]:
    """What is wrong with an experiment's file, in words; nothing if it runs."""
    try:
        experiment, *forms = expanded(path)
    except BadInput as error:
        return [str(error)]
    wrong = [f"its name is {experiment.name}"] if experiment.name != path.stem else []
    wrong += [] if forms[0] else ["it has no runs"]
    for runs in forms:
        if len({run.name for run in runs}) != len(runs):
            wrong.append("two of its runs have one name")
        wrong += [f"{run.cell}: {guard.sentence}" for run, guard in survey_traps(runs)[0][:1]]
    return [f"{path.name}: {each}" for each in wrong]


def what_a_shipped_one_lacks(path: Path) -> list[str]:
    """What the lab's own experiments have beyond what runs, and this file has not."""
    experiment, full, quick = expanded(path)
    opening = path.read_text(encoding="utf-8").split("\nname:")[0].splitlines() or [""]
    runs = [*full, *quick]
    lacks = [] if experiment.question else ["a question"]
    if not (opening[0].startswith("# ") and opening[0].endswith("?")):
        lacks.append("a first line that is a comment with its question (# …?)")
    if not any("─" in line for line in opening):
        lacks.append("a drawing of its topology in the opening comment")
    lacks += [
        f"runs for the published figure of {number.matrix} {dict(number.factors)}"
        for number in experiment.published
        if not any(is_of(number, run.matrix, run.factors) for run in runs)
    ]
    return [f"{path.name} lacks {each}" for each in lacks]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(each, marks=pytest.mark.slow) if each == LARGEST else each
        for each in experiments.list_experiments()
    ],
)
def name(request: pytest.FixtureRequest) -> str:
    """An experiment of the folder; pytest asks all of one before the next."""
    return str(request.param)


def test_every_file_in_experiments_runs_and_ours_open_with_question_and_drawing(name: str) -> None:
    assert why_it_does_not_run(EXPERIMENTS / f"{name}.yaml") == []
    if name in SHIPPED:
        assert what_a_shipped_one_lacks(EXPERIMENTS / f"{name}.yaml") == []


def test_a_shipped_experiment_asks_what_it_asked(name: str) -> None:
    if name not in SHIPPED:
        pytest.skip("a private experiment")
    _, *forms = expanded(EXPERIMENTS / f"{name}.yaml")
    names = (sorted(run.name for run in runs) for runs in forms)
    assert dict(zip(FORMS, map(said_short, names), strict=True)) == kept()[name], (
        f"another question in {name}: `python3 -m tests.experiments.run_names {name}` prints its"
        " runs' names, here and in a checkout of before; without NAME it writes what is to stay"
    )


def test_no_run_name_is_of_an_experiment_that_is_gone() -> None:
    assert set(SHIPPED) <= set(experiments.list_experiments())


def test_what_is_committed_is_shipped() -> None:
    listed = said_by("git", "ls-files", "experiments/*.yaml", cwd=EXPERIMENTS.parent)
    if listed.returncode:
        pytest.skip("no git checkout")
    unlisted = {Path(line).stem for line in listed.stdout.splitlines()} - set(SHIPPED)
    assert not unlisted, "their runs' names are not kept: python3 -m tests.experiments.run_names"


MINE = """name: mine
title: CUBIC against BBR on my path
settings: {profile: la-hamina, duration: 20s}
matrices:
  - name: loss
    factors: {cc: [cubic, bbr], loss: [0%, 0.1%, 1%]}
    repetitions: 2
"""


def test_an_experiment_of_one_s_own_may_stand_in_experiments(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MINE)

    assert why_it_does_not_run(file) == []
    assert what_a_shipped_one_lacks(file) == [
        "mine.yaml lacks a question",
        "mine.yaml lacks a first line that is a comment with its question (# …?)",
        "mine.yaml lacks a drawing of its topology in the opening comment",
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("name: mine", "name: yours"), "its name is yours"),
        (("cubic, bbr", "cubic, bbrr"), "bbrr"),
        (("20s}", "20s, offloads: on, clock: real}"), "43 segments"),
    ],
)
def test_one_that_does_not_run_says_why(change: tuple[str, str], says: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MINE.replace(*change))

    [said, *_] = why_it_does_not_run(file)
    assert "mine.yaml" in said and says in said


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
    main = [run for run in runs if run.matrix == "main"]
    states = [run for run in runs if run.matrix == "states"]
    assert len(main) == 2 * 2 * 4 * 5
    as_measured = {
        (run.kernel, run.iperf3, run.mtu, run.host_cpus, run.cpu_share_permille, run.gost)
        for run in (*main, *states)
    }
    assert as_measured == {("5.10", "3.9", 1460, 2, 1000, "auto")}
    said = {(run.syscall_cost_us, run.clock, run.duration_s, run.placement) for run in main}
    assert said == {(DEFAULT_SYSCALL_COST_US, "virtual", 30.0, "endpoint")}
    assert {run.streams for run in states} == {128}
    assert max(run.repetition for run in states) == 20
    varied = {
        ("today", "kernel"): {"shipped"},
        ("cpu", "syscall_cost_us"): {0.0, 2.0, 5.0, 20.0},
        ("own-cpus", "host_cpus"): {0, 1, 2},
        ("own-cpus", "clock_reads"): {"free"},
        ("real-clock", "clock"): {"real"},
    }
    for (matrix, field), values in varied.items():
        assert {getattr(run, field) for run in runs if run.matrix == matrix} == values
    packets = {run.path.forward.buffer_pkts for run in runs if run.matrix == "buffer"}
    assert packets == {283, 849, 2829, 8488, 28292, 84877}


def is_of(number: Published, matrix: str, levels: Mapping[str, Any]) -> bool:
    """Whether a study's number is of a cell: the cell has all of its levels."""
    return number.matrix == matrix and number.factors.items() <= levels.items()
