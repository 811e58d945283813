# SPDX-License-Identifier: MIT
"""Represent the part of an experiment to run: every run, its machine, and the warnings."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gostlab import sandbox
from gostlab.scheduler import executor
from gostlab.scheduler.exec_one import RunTask
from gostlab.scheduler.shard import Shard
from gostlab.spec import preflight
from gostlab.spec.adhoc import Question
from gostlab.spec.expand import expand, levels_in_order
from gostlab.spec.experiment import ExperimentFile as File
from gostlab.spec.experiment import StoppingRule
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import DEFAULTS
from gostlab.spec.yaml_source import BadInput


@dataclass(frozen=True)
class Plan:
    """Represent an experiment and the part of it to run, checked without running it."""

    file: File  # the parsed experiment file
    machine: sandbox.MachineChoice
    runs: tuple[RunSpec, ...] = field(default_factory=tuple)  # runs of the first block
    clock: str | None = None  # clock of every matrix; None: the file's choice
    quick: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)
    matrices: tuple[str, ...] = ()  # matrices to run; empty: all
    until: Mapping[str, StoppingRule] = field(default_factory=dict)  # stopping rules by matrix
    warned: tuple[preflight.MatrixWarning, ...] = ()
    shard: Shard | None = None  # the part of the runs that this process executes; None: all
    question: Question | None = None  # a question without a file; its text is saved

    @property
    def notes(self) -> list[str]:
        """Return lines on settings chosen by default and on changes that never happen."""
        lines = []
        for matrix in self.file.matrices:
            runs = [run for run in self.runs if run.matrix == matrix.name]
            swept = {level.name: level for levels in matrix.factors.values() for level in levels}
            written = {**self.file.settings, **matrix.settings, **swept}
            queues = any(run.queue != DEFAULTS["queue"] for run in runs)
            if queues and "bottleneck" not in {*written, *self.overrides}:
                lines.append(f"{matrix.name}: bottleneck: tbf, chosen as a queue acts under it")
            ends_s = min((run.length_s for run in runs), default=math.inf)
            changes = written["changes"].value if "changes" in written else ()
            late_s = [at_s for change in changes if (at_s := change.at_s) >= ends_s]
            if late_s and "changes" not in self.overrides:
                lines.append(
                    f"warning: {matrix.name}: the change at {late_s[0]:g} s never comes: the load"
                    f" is over at {ends_s:g} s"
                )
        return lines

    @property
    def levels(self) -> dict[str, dict[str, list[str]]]:
        """Return every matrix's factors and their levels, in the order of the file."""
        return levels_in_order(self.file, quick=self.quick, overrides=self.overrides)

    def tasks(self, results_folder: Path) -> list[RunTask]:
        return [RunTask(run, executor.run_folder(run, results_folder)) for run in self.runs]

    def expand_runs(self, repetitions_of: Mapping[str, int] = {}) -> list[RunSpec]:
        """Return the runs; `repetitions_of` sets the repetitions of some cells. Raises BadInput."""
        return expand(
            self.file,
            quick=self.quick,
            overrides=self.overrides,
            machine=self.machine.name,
            clock=self.clock,
            repetitions_of=repetitions_of,
            matrices=self.matrices,
        )


def require_matrices(file: File, matrices: Collection[str], *, quick: bool) -> None:
    """Raise BadInput if an experiment's form has no such matrix."""
    known = sorted(matrix.name for matrix in file.matrices if matrix.is_in(quick=quick))
    for name in matrices:
        if name not in known:
            raise BadInput(f"--matrix {name}: {file.name} has {', '.join(known)}")


def refusal_line(errors: Sequence[tuple[RunSpec, preflight.Guard]]) -> str:
    """Return one line on runs that would mislead: the first, and the number of other cells."""
    run, guard = errors[0]
    others = len({refused.cell for refused, _ in errors}) - 1
    return f"{run.cell}: {guard.sentence}" + (f" (and {others} more such cells)" if others else "")
