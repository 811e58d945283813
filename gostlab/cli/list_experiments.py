"""List every experiment with the runs and seconds of its two forms, and their wall time here."""

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab import api, results, sandbox
from gostlab.install.locate import MissingPart
from gostlab.scheduler.eta import expected_load_s, expected_s
from gostlab.spec.expand import expand
from gostlab.spec.experiment import list_experiments, load_experiment
from gostlab.spec.run_spec import RunSpec


@dataclass(frozen=True)
class CatalogueForm:
    """Represent the quick or the full form of an experiment, and how much of it has been run."""

    experiment: str
    quick: bool
    runs: int
    finished: int
    load_s: float  # load time of all runs in sequence, s
    # wall time on the CPUs; missing runs at the pace of the finished ones; None: none is finished
    wall_s: float | None

    @property
    def sentence(self) -> str:
        """Format the form for people: `45, 11.6 h → 2.5 min`."""
        if self.wall_s is None:
            took = "not run yet"
        elif self.finished < self.runs:
            took = f"about {span(self.wall_s)} ({self.finished} done)"
        else:
            took = span(self.wall_s)
        return f"{self.runs}, {span(self.load_s)} → {took}"


def survey(folder: Path, cpus: int | None = None) -> list[CatalogueForm]:
    """Return both forms of every experiment, with the wall time of its results on some CPUs.

    A form's wall time is the sum of its runs' wall times divided by the CPUs (default: this
    machine's); runs on the real clock execute alone. Raises BadInput if an experiment's file is
    wrong.
    """
    cpus = cpus or len(sandbox.usable_cpus())
    return [
        survey_form(folder, expand(load_experiment(name), quick=quick), quick, cpus)
        for name in list_experiments()
        for quick in (True, False)
    ]


def survey_form(folder: Path, runs: Sequence[RunSpec], quick: bool, cpus: int) -> CatalogueForm:
    """Return one form; missing runs are estimated, corrected by the error for finished runs."""

    def share(run: RunSpec) -> float:
        return 1.0 if run.clock == "real" else 1.0 / cpus

    folders = {run.name: folder / run.experiment / run.name for run in runs}
    finished = [run for run in runs if results.is_finished(folders[run.name], run)]
    lasted_s = {run.name: loaded_s(folders[run.name]) for run in finished}
    guessed_s = sum(expected_load_s(run) for run in finished if lasted_s[run.name])
    correction = sum(lasted_s.values()) / guessed_s if guessed_s else 1.0
    missing_s = sum(expected_load_s(run) for run in runs if run.name not in lasted_s)
    load_s = sum(lasted_s.values()) + correction * missing_s
    took_s = sum(
        share(run) * (results.read_status(folders[run.name]) or {}).get("wall_s", 0.0)
        for run in finished
    )
    expected_finished_s = sum(share(run) * expected_s(run) for run in finished)
    expected_all_s = sum(share(run) * expected_s(run) for run in runs)
    wall_s = took_s * expected_all_s / expected_finished_s if finished else None
    return CatalogueForm(runs[0].experiment, quick, len(runs), len(finished), load_s, wall_s)


def loaded_s(folder: Path) -> float:
    """Return how long a finished run's load lasted, or 0 without a load."""
    flows = (results.read_object(folder / "flows.json") or {}).get("flows") or ()
    return max((float(flow["ended_s"]) for flow in flows), default=0.0)


# -- by a sample

COSTS = "costs.json"  # in the sample's folder: the CPU time of each sampled run, s
SURE = 1.96  # standard deviations of a 95 % interval


@dataclass(frozen=True)
class Stratum:
    """Represent a matrix of an experiment, and the cost of its sampled runs."""

    experiment: str
    matrix: str
    expected_s: Sequence[float]  # the scheduler's estimate for every run
    took_s: Mapping[int, float]  # CPU time of the sampled runs, by number

    @property
    def ratio(self) -> float | None:
        """Return actual over estimated time of the sampled runs, or None without samples."""
        guessed_s = sum(self.expected_s[number] for number in self.took_s)
        return sum(self.took_s.values()) / guessed_s if guessed_s else None

    @property
    def spread(self) -> list[float]:
        """Return the relative deviation of each sampled run from that ratio."""
        if not self.ratio:
            return []
        return [
            took_s / (self.ratio * self.expected_s[number]) - 1
            for number, took_s in self.took_s.items()
        ]


@dataclass(frozen=True)
class Estimate:
    """Represent the estimated CPU time of some runs."""

    name: str
    runs: int
    taken: int
    guessed: int  # runs of matrices without a sample, estimated by the others
    cpu_s: float
    half_s: float | None  # half-width of the 95 % interval; None: too few samples

    def row(self, cpus: int) -> str:
        sure = "" if self.half_s is None else f" ± {self.half_s / 60:.2g}"
        guess = f" ({self.guessed} by the others)" if self.guessed else ""
        return (
            f"| {self.name} | {self.runs} | {self.taken}{guess} | {self.cpu_s / 60:.3g}{sure} min |"
            f" {span(self.cpu_s / cpus)} |"
        )


def take_sample(
    names: Sequence[str],
    folder: Path,
    per_matrix: int,
    *,
    quick: bool,
    seed: int,
    say: Callable[[str], object],
) -> list[Stratum]:
    """Run a random sample of each matrix, one run after the other, and measure the CPU time.

    Runs sampled earlier in this folder are not executed again. A run on the real clock costs its
    length. A run that is not possible here is skipped. Raises BadInput, MachineError, ResultsError,
    OSError.
    """
    costs = Costs(folder)
    strata = []
    for name in names:
        by_matrix: dict[str, list[RunSpec]] = {}
        for run in expand(load_experiment(name), quick=quick):
            by_matrix.setdefault(run.matrix, []).append(run)
        for matrix, runs in by_matrix.items():
            generator = random.Random(f"{seed} {name} {matrix}")
            chosen = generator.sample(range(len(runs)), min(per_matrix, len(runs)))
            took_s = {number: costs.of(runs[number], say) for number in chosen}
            known_s = {number: cost_s for number, cost_s in took_s.items() if cost_s is not None}
            strata.append(Stratum(name, matrix, [expected_s(run) for run in runs], known_s))
    return strata


class Costs:
    """Store the cost of runs in a folder, next to their results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.took_s: dict[str, float] = dict(results.read_object(folder / COSTS) or {})

    def of(self, run: RunSpec, say: Callable[[str], object]) -> float | None:
        """Return a run's CPU time in s, measured now if unknown; None if it cannot run here."""
        if run.clock == "real":
            return expected_s(run)
        if run.name not in self.took_s:
            target = self.folder / run.experiment / run.name
            target.parent.mkdir(parents=True, exist_ok=True)
            task = target.with_suffix(".task")
            task.write_text(json.dumps(run.to_json()), encoding="utf-8")
            before_s = sandbox.children_s()
            try:
                finished = api.execute(str(task), target)
            except MissingPart as error:
                say(f"{run.experiment} {run.name}: not taken: {error}")
                return None
            finally:
                task.unlink()
            spent_s = sandbox.children_s() - before_s
            if finished.outcome != "ok":
                say(f"{run.experiment} {run.name}: {finished.outcome}: not taken")
                return None
            self.took_s[run.name] = round(spent_s, 3)
            results.write_json(self.folder / COSTS, self.took_s)
            say(f"{run.experiment} {run.name}: {spent_s:.1f} s, {expected_s(run):.1f} expected")
        return self.took_s[run.name]


def estimated(strata: Sequence[Stratum]) -> list[Estimate]:
    """Return the estimated cost of each experiment, and of all together.

    Each matrix is estimated by the ratio of actual to expected time of its sample, with the
    relative spread of runs within a matrix.
    """
    names = dict.fromkeys(stratum.experiment for stratum in strata)
    groups = {name: [one for one in strata if one.experiment == name] for name in names}
    known = [stratum for stratum in strata if stratum.ratio is not None]
    guessed_s = sum(one.expected_s[number] for one in known for number in one.took_s)
    ratio_of_all = sum(sum(one.took_s.values()) for one in known) / guessed_s if guessed_s else 1.0
    degrees_of_freedom = sum(len(one.took_s) - 1 for one in known)
    squares = sum(value * value for one in known for value in one.spread)
    variance = squares / degrees_of_freedom if degrees_of_freedom else None
    named = (*groups.items(), ("all", strata))
    return [estimate(name, group, ratio_of_all, variance) for name, group in named]


def estimate(
    name: str, strata: Sequence[Stratum], ratio_of_all: float, variance: float | None
) -> Estimate:
    """Return the estimated total cost of some matrices.

    ratio_of_all  the ratio of all samples, for matrices without one
    variance      of a run within its matrix, relative to its expected time
    """
    cpu_s, square = 0.0, 0.0
    for stratum in strata:
        taken, runs = len(stratum.took_s), len(stratum.expected_s)
        stratum_s = (stratum.ratio or ratio_of_all) * sum(stratum.expected_s)
        cpu_s += stratum_s
        square += stratum_s**2 * (variance or 0.0) * (1 - taken / runs) / max(1, taken)
    half_s = None if variance is None else SURE * math.sqrt(square)
    runs = sum(len(stratum.expected_s) for stratum in strata)
    taken = sum(len(stratum.took_s) for stratum in strata)
    guessed = sum(len(stratum.expected_s) for stratum in strata if not stratum.took_s)
    return Estimate(name, runs, taken, guessed, cpu_s, half_s)


def sample_to_markdown(estimates: Sequence[Estimate], cpus: int) -> str:
    head = f"| experiment | runs | taken | CPU time | on {cpus} CPUs |"
    return "\n".join(
        [head, "|---|---|---|---|---|", *(row_estimate.row(cpus) for row_estimate in estimates)]
    )


# -- for people


def to_markdown(forms: Sequence[CatalogueForm]) -> str:
    """Return the table of all experiments in Markdown, one line each."""
    by_name: dict[str, dict[bool, CatalogueForm]] = {}
    for form in forms:
        by_name.setdefault(form.experiment, {})[form.quick] = form
    lines = ["| experiment | quick: runs, load → wall | full: runs, load → wall |", "|---|---|---|"]
    for name, both in by_name.items():
        lines.append(f"| `{name}` | {both[True].sentence} | {both[False].sentence} |")
    return "\n".join([*lines, f"| all | {total(forms, True)} | {total(forms, False)} |"])


def total(forms: Sequence[CatalogueForm], quick: bool) -> str:
    """Format the sum of one form over all experiments."""
    selected = [form for form in forms if form.quick == quick]
    known = [form.wall_s for form in selected if form.wall_s is not None]
    names = ("runs", "finished", "load_s")
    sums: dict[str, Any] = {name: sum(getattr(form, name) for form in selected) for name in names}
    total = CatalogueForm("all", quick, wall_s=sum(known) if known else None, **sums)
    return total.sentence + ("" if len(known) in (0, len(selected)) else ", without those not run")


def span(seconds: float) -> str:
    """Format a time: 45 s, 2.5 min, 17 min, 11.6 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 10:
        return f"{minutes:.2g} min"
    return f"{minutes:.0f} min" if minutes < 180 else f"{minutes / 60:.1f} h"
