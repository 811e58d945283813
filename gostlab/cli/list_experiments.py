"""The catalogue: every experiment, its two forms' runs and seconds, and how long they take here."""

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
    """The quick or the full form of an experiment, and what of it has been run."""

    experiment: str
    quick: bool
    runs: int
    finished: int
    load_s: float  # what the same seconds take in real time, one run after the other
    # on so many CPUs; of what is finished, and the rest at its pace; None: nothing is finished
    wall_s: float | None

    @property
    def sentence(self) -> str:
        """For people: `45, 11.6 h → 2.5 min`."""
        if self.wall_s is None:
            took = "not run yet"
        elif self.finished < self.runs:
            took = f"about {span(self.wall_s)} ({self.finished} done)"
        else:
            took = span(self.wall_s)
        return f"{self.runs}, {span(self.load_s)} → {took}"


def survey(folder: Path, cpus: int | None = None) -> list[CatalogueForm]:
    """Every experiment of the lab in its two forms, and how long its results in a folder took on so
    many CPUs (default: this machine's).

    A form's wall time is its runs' own, added up and divided by the CPUs; runs on the real clock
    have the machine for themselves. Raises BadInput if an experiment's file is wrong.
    """
    cpus = cpus or len(sandbox.usable_cpus())
    return [
        survey_form(folder, expand(load_experiment(name), quick=quick), quick, cpus)
        for name in list_experiments()
        for quick in (True, False)
    ]


def survey_form(folder: Path, runs: Sequence[RunSpec], quick: bool, cpus: int) -> CatalogueForm:
    """One form; what is missing is guessed, set right by how wrong that was of finished runs."""

    def share(run: RunSpec) -> float:
        return 1.0 if run.clock == "real" else 1.0 / cpus

    places = {run.name: folder / run.experiment / run.name for run in runs}
    finished = [run for run in runs if results.is_finished(places[run.name], run)]
    lasted_s = {run.name: loaded_s(places[run.name]) for run in finished}
    guessed_s = sum(expected_load_s(run) for run in finished if lasted_s[run.name])
    off = sum(lasted_s.values()) / guessed_s if guessed_s else 1.0
    missing_s = sum(expected_load_s(run) for run in runs if run.name not in lasted_s)
    load_s = sum(lasted_s.values()) + off * missing_s
    took_s = sum(
        share(run) * (results.read_status(places[run.name]) or {}).get("wall_s", 0.0)
        for run in finished
    )
    expected_finished_s = sum(share(run) * expected_s(run) for run in finished)
    expected_all_s = sum(share(run) * expected_s(run) for run in runs)
    wall_s = took_s * expected_all_s / expected_finished_s if finished else None
    return CatalogueForm(runs[0].experiment, quick, len(runs), len(finished), load_s, wall_s)


def loaded_s(folder: Path) -> float:
    """How long a finished run's load lasted, which a download decides itself; 0: it had none."""
    flows = (results.read_object(folder / "flows.json") or {}).get("flows") or ()
    return max((float(flow["ended_s"]) for flow in flows), default=0.0)


# -- by a sample

COSTS = "costs.json"  # in the sample's folder: the CPU time of each run that was taken, s
SURE = 1.96  # standard deviations: 95 %


@dataclass(frozen=True)
class Stratum:
    """A matrix of an experiment, and what some of its runs took."""

    experiment: str
    matrix: str
    expected_s: Sequence[float]  # the scheduler's guess of every run
    took_s: Mapping[int, float]  # of those that were taken, by number

    @property
    def ratio(self) -> float | None:
        """What the runs that were taken took, over the guess; None if none was."""
        guessed_s = sum(self.expected_s[number] for number in self.took_s)
        return sum(self.took_s.values()) / guessed_s if guessed_s else None

    @property
    def spread(self) -> list[float]:
        """How far each run that was taken is from that ratio, as a share."""
        if not self.ratio:
            return []
        return [
            took_s / (self.ratio * self.expected_s[number]) - 1
            for number, took_s in self.took_s.items()
        ]


@dataclass(frozen=True)
class Estimate:
    """The CPU time that some runs would take."""

    name: str
    runs: int
    taken: int
    guessed: int  # runs of whose matrix none was taken: their ratio is the others'
    cpu_s: float
    half_s: float | None  # of the interval that has it 95 times of 100; None: too few were taken

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
    """Run some runs of each matrix, drawn by a seed, one after the other, and count their CPU time.

    What was taken before, in this folder, is not run again. A run on the real clock has its length.
    A run that is not possible here is not taken. Raises BadInput, MachineError, ResultsError,
    OSError.
    """
    costs = Costs(folder)
    found = []
    for name in names:
        by_matrix: dict[str, list[RunSpec]] = {}
        for run in expand(load_experiment(name), quick=quick):
            by_matrix.setdefault(run.matrix, []).append(run)
        for matrix, runs in by_matrix.items():
            drawn = random.Random(f"{seed} {name} {matrix}")
            chosen = drawn.sample(range(len(runs)), min(per_matrix, len(runs)))
            took_s = {number: costs.of(runs[number], say) for number in chosen}
            known_s = {number: each for number, each in took_s.items() if each is not None}
            found.append(Stratum(name, matrix, [expected_s(run) for run in runs], known_s))
    return found


class Costs:
    """What runs took, kept in a folder with their results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.took_s: dict[str, float] = dict(results.read_object(folder / COSTS) or {})

    def of(self, run: RunSpec, say: Callable[[str], object]) -> float | None:
        """A run's CPU time, s: taken now, if it was not before; None if it cannot be."""
        if run.clock == "real":
            return expected_s(run)
        if run.name not in self.took_s:
            place = self.folder / run.experiment / run.name
            place.parent.mkdir(parents=True, exist_ok=True)
            task = place.with_suffix(".task")
            task.write_text(json.dumps(run.to_json()), encoding="utf-8")
            before_s = sandbox.children_s()
            try:
                end = api.execute(str(task), place)
            except MissingPart as error:
                say(f"{run.experiment} {run.name}: not taken: {error}")
                return None
            finally:
                task.unlink()
            spent_s = sandbox.children_s() - before_s
            if end.outcome != "ok":
                say(f"{run.experiment} {run.name}: {end.outcome}: not taken")
                return None
            self.took_s[run.name] = round(spent_s, 3)
            results.write_json(self.folder / COSTS, self.took_s)
            say(f"{run.experiment} {run.name}: {spent_s:.1f} s, {expected_s(run):.1f} expected")
        return self.took_s[run.name]


def estimated(strata: Sequence[Stratum]) -> list[Estimate]:
    """What each experiment takes, and all of them: each matrix by the ratio of what its sample took
    to what was expected of it, with the relative spread that runs have within a matrix.
    """
    names = dict.fromkeys(stratum.experiment for stratum in strata)
    groups = {name: [each for each in strata if each.experiment == name] for name in names}
    known = [each for each in strata if each.ratio is not None]
    guessed_s = sum(each.expected_s[number] for each in known for number in each.took_s)
    ratio_of_all = (
        sum(sum(each.took_s.values()) for each in known) / guessed_s if guessed_s else 1.0
    )
    free = sum(len(each.took_s) - 1 for each in known)
    squares = sum(value * value for each in known for value in each.spread)
    variance = squares / free if free else None
    named = (*groups.items(), ("all", strata))
    return [estimate(name, each, ratio_of_all, variance) for name, each in named]


def estimate(
    name: str, strata: Sequence[Stratum], ratio_of_all: float, variance: float | None
) -> Estimate:
    """The sum of some matrices.

    ratio_of_all  the ratio of all that was taken, for matrices of which nothing was
    variance  of a run within its matrix, relative to what it should take
    """
    cpu_s, square = 0.0, 0.0
    for each in strata:
        taken, runs = len(each.took_s), len(each.expected_s)
        mine_s = (each.ratio or ratio_of_all) * sum(each.expected_s)
        cpu_s += mine_s
        square += mine_s**2 * (variance or 0.0) * (1 - taken / runs) / max(1, taken)
    half_s = None if variance is None else SURE * math.sqrt(square)
    runs = sum(len(each.expected_s) for each in strata)
    taken = sum(len(each.took_s) for each in strata)
    guessed = sum(len(each.expected_s) for each in strata if not each.took_s)
    return Estimate(name, runs, taken, guessed, cpu_s, half_s)


def sample_to_markdown(estimates: Sequence[Estimate], cpus: int) -> str:
    head = f"| experiment | runs | taken | CPU time | on {cpus} CPUs |"
    return "\n".join([head, "|---|---|---|---|---|", *(each.row(cpus) for each in estimates)])


# -- for people


def to_markdown(forms: Sequence[CatalogueForm]) -> str:
    """The table for people, a line per experiment."""
    by_name: dict[str, dict[bool, CatalogueForm]] = {}
    for form in forms:
        by_name.setdefault(form.experiment, {})[form.quick] = form
    lines = ["| experiment | quick: runs, load → wall | full: runs, load → wall |", "|---|---|---|"]
    for name, found in by_name.items():
        lines.append(f"| `{name}` | {found[True].sentence} | {found[False].sentence} |")
    return "\n".join([*lines, f"| all | {total(forms, True)} | {total(forms, False)} |"])


def total(forms: Sequence[CatalogueForm], quick: bool) -> str:
    """The sum of one form over all experiments, in words."""
    found = [form for form in forms if form.quick == quick]
    known = [form.wall_s for form in found if form.wall_s is not None]
    added = ("runs", "finished", "load_s")
    sums: dict[str, Any] = {name: sum(getattr(form, name) for form in found) for name in added}
    total = CatalogueForm("all", quick, wall_s=sum(known) if known else None, **sums)
    return total.sentence + ("" if len(known) in (0, len(found)) else ", without those not run")


def span(seconds: float) -> str:
    """A time for people: 45 s, 2.5 min, 17 min, 11.6 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 10:
        return f"{minutes:.2g} min"
    return f"{minutes:.0f} min" if minutes < 180 else f"{minutes / 60:.1f} h"
