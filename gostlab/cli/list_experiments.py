# SPDX-License-Identifier: MIT
"""List every experiment with the runs and seconds of its two forms, and their wall time here."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab import results, sandbox
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
    load_s: float  # estimated load time of all runs in sequence, s
    # wall time on the CPUs; missing runs at the pace of the finished ones; None: none is finished
    wall_s: float | None

    @property
    def sentence(self) -> str:
        """Format the form for people: `45, 11.6 h → 2.5 min`."""
        if self.wall_s is None:
            took = "not run yet"
        elif self.finished < self.runs:
            took = f"about {format_span(self.wall_s)} ({self.finished} done)"
        else:
            took = format_span(self.wall_s)
        return f"{self.runs}, {format_span(self.load_s)} → {took}"


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
    """Return one form of an experiment; its wall time is scaled up from the finished runs."""

    def cpu_share(run: RunSpec) -> float:
        return 1.0 if run.clock == "real" else 1.0 / cpus

    folders = {run.name: folder / run.experiment / run.name for run in runs}
    finished = [run for run in runs if results.is_finished(folders[run.name], run)]
    took_s = sum(
        cpu_share(run) * (results.read_status(folders[run.name]) or {}).get("wall_s", 0.0)
        for run in finished
    )
    expected_finished_s = sum(cpu_share(run) * expected_s(run) for run in finished)
    expected_all_s = sum(cpu_share(run) * expected_s(run) for run in runs)
    wall_s = took_s * expected_all_s / expected_finished_s if finished else None
    load_s = sum(map(expected_load_s, runs))
    return CatalogueForm(runs[0].experiment, quick, len(runs), len(finished), load_s, wall_s)


def to_markdown(forms: Sequence[CatalogueForm]) -> str:
    """Return the table of all experiments in Markdown, one line each."""
    by_name: dict[str, dict[bool, CatalogueForm]] = {}
    for form in forms:
        by_name.setdefault(form.experiment, {})[form.quick] = form
    lines = ["| experiment | quick: runs, load → wall | full: runs, load → wall |", "|---|---|---|"]
    for name, both in by_name.items():
        lines.append(f"| `{name}` | {both[True].sentence} | {both[False].sentence} |")
    return "\n".join([*lines, f"| all | {format_sum(forms, True)} | {format_sum(forms, False)} |"])


def format_sum(forms: Sequence[CatalogueForm], quick: bool) -> str:
    """Format the sum of one form over all experiments."""
    selected = [form for form in forms if form.quick == quick]
    known = [form.wall_s for form in selected if form.wall_s is not None]
    form_sum = CatalogueForm(
        experiment="all",
        quick=quick,
        runs=sum(form.runs for form in selected),
        finished=sum(form.finished for form in selected),
        load_s=sum(form.load_s for form in selected),
        wall_s=sum(known) if known else None,
    )
    incomplete = len(known) not in (0, len(selected))
    return form_sum.sentence + (", without those not run" if incomplete else "")


def format_span(seconds: float) -> str:
    """Format a time: 45 s, 2.5 min, 17 min, 11.6 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 10:
        return f"{minutes:.2g} min"
    return f"{minutes:.0f} min" if minutes < 180 else f"{minutes / 60:.1f} h"
