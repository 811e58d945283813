"""The catalogue: every experiment, how many runs its two forms have, how many seconds they load,
and how long that took here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab import machine, results
from gostlab.declared.errors import BadInput
from gostlab.describe.file.experiment import list_experiments, load_experiment
from gostlab.describe.resolve.expand import expand
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.runs.pace import expected_load_s, expected_s


@dataclass(frozen=True)
class Form:
    """The quick or the full form of an experiment, and what of it has been run."""

    experiment: str
    quick: bool
    runs: int
    finished: int
    load_s: float  # what the same seconds take in real time, one run after the other
    wall_s: (
        float | None
    )  # on so many CPUs; of what is finished, and the rest at its pace; None: nothing is finished

    def to_json(self) -> dict[str, object]:
        return dict(vars(self))

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


def survey(folder: Path, cpus: int | None = None) -> list[Form]:
    """Every experiment of the lab in its two forms, and how long its results in a folder took on so
    many CPUs (default: this machine's).

    A form's wall time is its runs' own, added up and divided by the CPUs; runs on the real clock
    have the machine for themselves. Raises BadInput if an experiment's file is wrong.
    """
    if cpus is not None and cpus < 1:
        raise BadInput(f"--cores {cpus}: at least 1")
    cpus = cpus or len(machine.usable_cpus())
    return [
        survey_form(folder, expand(load_experiment(name), quick=quick), quick, cpus)
        for name in list_experiments()
        for quick in (True, False)
    ]


def survey_form(folder: Path, runs: Sequence[RunDescription], quick: bool, cpus: int) -> Form:
    """One form. What is missing, load and wall time, is guessed by the scheduler, set right by how
    wrong it was about the finished runs.
    """

    def share(run: RunDescription) -> float:
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
    return Form(
        runs[0].experiment,
        quick,
        len(runs),
        len(finished),
        load_s,
        took_s * expected_all_s / expected_finished_s if finished else None,
    )


def loaded_s(folder: Path) -> float:
    """How long a finished run's load lasted, which a download decides itself; 0 if there was
    none.
    """
    flows = (results.read_object(folder / "flows.json") or {}).get("flows") or ()
    return max((float(flow["ended_s"]) for flow in flows), default=0.0)


def to_markdown(forms: Sequence[Form]) -> str:
    """The table for people, a line per experiment."""
    by_name: dict[str, dict[bool, Form]] = {}
    for form in forms:
        by_name.setdefault(form.experiment, {})[form.quick] = form
    rows = [
        f"| `{name}` | {found[True].sentence} | {found[False].sentence} |"
        for name, found in by_name.items()
    ]
    return "\n".join(
        [
            "| experiment | quick: runs, load → wall | full: runs, load → wall |",
            "|---|---|---|",
            *rows,
            f"| all | {total(forms, True)} | {total(forms, False)} |",
        ]
    )


def total(forms: Sequence[Form], quick: bool) -> str:
    """The sum of one form over all experiments, in words."""
    found = [form for form in forms if form.quick == quick]
    known = [form.wall_s for form in found if form.wall_s is not None]
    whole = Form(
        "all",
        quick,
        sum(form.runs for form in found),
        sum(form.finished for form in found),
        sum(form.load_s for form in found),
        sum(known) if known else None,
    )
    return whole.sentence + ("" if len(known) in (0, len(found)) else ", without those not run")


def span(seconds: float) -> str:
    """A time for people: 45 s, 2.5 min, 17 min, 11.6 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 10:
        return f"{minutes:.2g} min"
    return f"{minutes:.0f} min" if minutes < 180 else f"{minutes / 60:.1f} h"
