# SPDX-License-Identifier: MIT
"""What the lab does with files, as functions: nothing printed, each refusal names what to do."""

from pathlib import Path

import pytest

from gostlab import api
from gostlab.api import run as making
from gostlab.spec.yaml_source import BadInput

MINE = """name: mine
title: On my path
question: Does it work for me?
settings: {profile: plain-100ms, duration: 5s}
matrices:
  - {name: main, factors: {cc: [cubic, bbr], loss: [0%, 1%]}, draw: [bars]}
  - {name: other, factors: {streams: [1, 2]}, until: {halfwidth: 5%, most: 9}}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(MINE)
    return file


def test_a_plan_has_the_runs_and_changes_nothing(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = api.Experiment.from_file(mine, machine="sandbox")

    assert len(plan.runs) == 4 + 2 * 6 and set(plan.until) == {"other"}
    assert list(tmp_path.iterdir()) == [mine]
    assert capsys.readouterr() == ("", "")


def test_a_plan_of_one_matrix_has_only_its_runs_and_rules(mine: Path) -> None:
    plan = api.Experiment.from_file(
        mine, machine="sandbox", matrices=["main"], settings={"cc": ["bbr", "reno"]}
    )

    assert {run.matrix for run in plan.runs} == {"main"} and not plan.until
    assert {run.cc for run in plan.runs} == {"bbr", "reno"}
    with pytest.raises(BadInput, match="mine has main, other"):
        api.Experiment.from_file(mine, machine="sandbox", matrices=["mian"])


def test_a_report_takes_the_path_of_an_experiment_s_file(mine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    (folder / "mine").mkdir(parents=True)

    assert (
        api.select_experiments(folder, [str(mine)])
        == api.select_experiments(folder, ["mine"])
        == ["mine"]
    )
    assert api.select_experiments(folder, []) == ["mine"]


def test_results_that_are_not_there_are_said_with_the_command_that_makes_them(
    mine: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=rf"no results of mine there .*: \./lab run {mine}$"):
        api.select_experiments(tmp_path, [str(mine)])
    with pytest.raises(BadInput, match="no such file"):
        api.select_experiments(tmp_path, ["./nowhere.yaml"])


def test_the_newest_form_of_an_experiment_s_file_lies_with_its_results(
    mine: Path, tmp_path: Path
) -> None:
    plan = api.Experiment.from_file(mine, machine="sandbox")
    copy = tmp_path / "mine/experiment.yaml"
    for text in (MINE, MINE.replace("On my path", "On another path") + "# without a line feed"):
        mine.write_text(text)
        making.save_experiment_file(plan, tmp_path)
        assert copy.read_bytes() == mine.read_bytes()
    assert [each.name for each in (tmp_path / "mine").iterdir()] == ["experiment.yaml"]
