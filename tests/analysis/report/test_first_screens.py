# SPDX-License-Identifier: MIT
"""The first screen of every experiment's report is whole, whatever its runs say.

The runs are of each experiment's quick form, and made up: alike, or far apart.
"""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import synthetic

from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import to_study
from gostlab.analysis.plotting.plot_registry import MatrixInput, find_drawing, plot_names
from gostlab.analysis.report.findings import MatrixSection, first_screen
from gostlab.analysis.report.headline import write_headline
from gostlab.analysis.stats import published_targets
from gostlab.analysis.stats.cells import to_matrices
from gostlab.registry.folders import EXPERIMENTS, LABS
from gostlab.spec.expand import expand
from gostlab.spec.experiment import ExperimentFile, load_experiment
from gostlab.spec.run_spec import RunSpec

FILES = [*sorted(EXPERIMENTS.glob("*.yaml")), *sorted(LABS.glob("*/experiment.yaml"))]
WORLDS: dict[str, Callable[[random.Random], float]] = {
    "alike": lambda chance: chance.uniform(0.9, 0.91),
    "apart": lambda chance: 10 ** chance.uniform(-3, -0.05),
}


def made_up(run: RunSpec, results: Path, share: Callable[[random.Random], float]) -> None:
    """A run's folder: its flows get shares of the rate."""
    chance = random.Random(run.name)
    most = run.path.forward.rate_bps / 1e6
    rates = {flow.name: share(chance) * most / len(run.flows) for flow in run.flows}
    asked = run.to_json()
    folder = synthetic.write_run(results, asked, goodput_mbit=sum(rates.values()), name=run.name)
    if len(rates) > 1:
        synthetic.write_over_time(folder, asked, rates, sample_s=1.0)


@cache
def asked(path: Path) -> tuple[ExperimentFile, list[RunSpec]]:
    """An experiment, and the runs of its quick form."""
    experiment = load_experiment(str(path))
    return experiment, expand(experiment, quick=True, machine="sandbox", clock="virtual")


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name + "-" + path.stem)
def test_the_first_screen_of_every_experiment(path: Path, world: str, tmp_path: Path) -> None:
    """The whole question, an answer of one whole sentence, a picture, what it rests on."""
    experiment, runs = asked(path)
    for run in runs:
        made_up(run, tmp_path, WORLDS[world])
    study, results = to_study(experiment.name, experiment), load_results(tmp_path, experiment.name)
    matrices = to_matrices(results.runs, study)
    sweeps = [MatrixInput(each, matrices, study, "") for each in matrices]
    headlines = [
        write_headline(matrix, find_drawing(plot_names(matrix)[0]).metrics) for matrix in matrices
    ]
    parts = [
        MatrixSection(sweep.title, headline=headline)
        for sweep, headline in zip(sweeps, headlines, strict=True)
    ]
    judged = published_targets.target_rows(study, matrices)

    first = first_screen(study, results, parts, judged)

    assert first.question == study.question and study.question.endswith("?")
    assert (
        not first.answer[0].islower() and first.answer.endswith(".") and "nan" not in first.answer
    )
    assert all(headlines)
    assert first.rests.startswith("n = ") and len(first.rests.splitlines()) == 1
