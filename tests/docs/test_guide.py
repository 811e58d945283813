"""docs/experiment.md: its examples are files that can be run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gostlab.describe.file.experiment import load_experiment
from gostlab.describe.guards import survey
from gostlab.describe.resolve.expand import expand
from tests.examples import PAGE, examples, experiments, write_examples

README = PAGE.parents[1] / "README.md"


def test_there_are_three_examples() -> None:
    assert experiments() == ["mine.yaml", "two-buffers.yaml", "five-controls.yaml"]
    assert set(examples()) == {*experiments(), "my-path.yaml", "five-controls.py"}


@pytest.mark.parametrize("name", experiments())
def test_an_example_can_be_run(name: str, tmp_path: Path) -> None:
    write_examples(tmp_path)
    experiment = load_experiment(str(tmp_path / name))

    full, quick = (expand(experiment, quick=form) for form in (False, True))

    assert experiment.question.endswith("?") and experiment.name == Path(name).stem
    assert survey(full)[0] == survey(quick)[0] == []
    assert sum(run.length_s for run in quick) <= 60


def test_the_readme_s_experiment_runs_as_it_stands(tmp_path: Path) -> None:
    lines = (README.read_text("utf-8").split("\n    name: mine\n")[1]).split("\n\n")[0]
    file = tmp_path / "mine.yaml"
    file.write_text("    name: mine\n" + lines)

    runs = expand(load_experiment(str(file)))

    assert {run.cc for run in runs} == {"cubic", "bbr"} and survey(runs)[0] == []


def test_the_grid_is_what_its_heading_says(tmp_path: Path) -> None:
    write_examples(tmp_path)
    runs = expand(load_experiment(str(tmp_path / "five-controls.yaml")))

    assert len({run.cc for run in runs}) == 5
    assert len(runs) == 5 * 4 * 3 * 6
