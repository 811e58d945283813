"""What of an experiment is to be run: every run with its numbers, where, and what was warned of."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gostlab import sandbox
from gostlab.scheduler import queue
from gostlab.scheduler.exec_one import Task
from gostlab.scheduler.shard import Shard
from gostlab.spec import preflight
from gostlab.spec.adhoc import Question
from gostlab.spec.expand import expand, levels_in_order
from gostlab.spec.experiment import ExperimentFile as File
from gostlab.spec.experiment import Until
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import DEFAULTS
from gostlab.spec.yaml_source import BadInput


@dataclass(frozen=True)
class Plan:
    """An experiment and what of it is to be run, checked as far as that goes without running it."""

    file: File  # as it was read
    machine: sandbox.Choice
    runs: tuple[RunSpec, ...] = field(default_factory=tuple)  # the first block
    clock: str | None = None  # of every matrix; None: what the file says
    quick: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)
    matrices: tuple[str, ...] = ()  # only these; empty: all
    until: Mapping[str, Until] = field(default_factory=dict)  # what may go on after it
    warned: tuple[preflight.Warned, ...] = ()
    shard: Shard | None = None  # of so many processes that share the runs; None: all
    asked: Question | None = None  # that had no file: its text becomes one, with the results

    @property
    def notes(self) -> list[str]:
        """Lines on what was chosen as nobody wrote it, and on what never happens."""
        found = []
        for matrix in self.file.matrices:
            runs = [run for run in self.runs if run.matrix == matrix.name]
            swept = {each.name: each for levels in matrix.factors.values() for each in levels}
            written = {**self.file.settings, **matrix.settings, **swept}
            queues = any(run.queue != DEFAULTS["queue"] for run in runs)
            if queues and "bottleneck" not in {*written, *self.overrides}:
                found.append(f"{matrix.name}: bottleneck: tbf, chosen as a queue acts under it")
            ends_s = min((run.length_s for run in runs), default=math.inf)
            changes = written["changes"].value if "changes" in written else ()
            late_s = [at_s for change in changes if (at_s := float(change["at"])) >= ends_s]
            if late_s and "changes" not in self.overrides:
                found.append(
                    f"warning: {matrix.name}: the change at {late_s[0]:g} s never comes: the load"
                    f" is over at {ends_s:g} s"
                )
        return found

    @property
    def levels(self) -> dict[str, dict[str, list[str]]]:
        """Every matrix's factors and their levels, in the order in which people wrote them."""
        return levels_in_order(self.file, quick=self.quick, overrides=self.overrides)

    def tasks(self, results_folder: Path) -> list[Task]:
        return [Task(run, queue.run_folder(run, results_folder)) for run in self.runs]

    def described(self, repetitions_of: Mapping[str, int] = {}) -> list[RunSpec]:
        """The runs, those of some cells in so many repetitions. Raises BadInput."""
        return expand(
            self.file,
            quick=self.quick,
            overrides=self.overrides,
            machine=self.machine.name,
            clock=self.clock,
            repetitions_of=repetitions_of,
            matrices=self.matrices,
        )


def check_matrices(file: File, matrices: Collection[str], *, quick: bool) -> None:
    """Raises BadInput if an experiment's form has no such matrix."""
    known = sorted(each.name for each in file.matrices if each.is_in(quick=quick))
    for name in matrices:
        if name not in known:
            raise BadInput(f"--matrix {name}: {file.name} has {', '.join(known)}")


def refusal(errors: Sequence[tuple[RunSpec, preflight.Guard]]) -> str:
    """One line about runs that would mislead: the first, and how many other cells."""
    run, guard = errors[0]
    others = len({refused.cell for refused, _ in errors}) - 1
    return f"{run.cell}: {guard.sentence}" + (f" (and {others} more such cells)" if others else "")
