# SPDX-License-Identifier: MIT
"""Describe an experiment, run it, and give each result as soon as it is available.

experiment = gostlab.Experiment.of(cc=["cubic", "bbr"], loss="1%", repeat=5)
for result in experiment.run(jobs=2):
    print(result.levels["cc"], result.goodput_mbit)
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gostlab import sandbox as machines
from gostlab.api.expectations import expectations_of
from gostlab.api.plan import Plan, refusal_line, require_matrices
from gostlab.api.run import FinishedRuns, Gathered, PartsAndStandby, execute_plans
from gostlab.errors import SandboxOnly
from gostlab.results.run_result import RunResult
from gostlab.scheduler import progress as shown
from gostlab.scheduler.eta import ActiveRun
from gostlab.scheduler.executor import RunObserver
from gostlab.scheduler.experiment_result import ExperimentResult
from gostlab.scheduler.shard import Shard
from gostlab.spec import preflight
from gostlab.spec.adhoc import Question, to_question
from gostlab.spec.expectations import bind_all
from gostlab.spec.experiment import ExperimentFile as File
from gostlab.spec.experiment import load_experiment, stopping_rules, with_repetitions, with_seed
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

RESULTS = "results"
# One level of a setting, or several to compare: "1%", 4, ["cubic", "bbr"]
Levels = str | int | float | Mapping[str, object] | Sequence[Any]


@dataclass(frozen=True)
class Progress:
    """Represent the progress of an experiment.

    `left_s` is the estimated remaining time on this machine, in seconds.
    """

    done: int
    total: int
    left_s: float
    running: tuple[str, ...]  # names of the active runs


class Cancelled(Exception):
    """Report that the runs were cancelled while they were executed."""


class ProgressCallback(RunObserver):
    """Call a function with the progress."""

    def __init__(self, call: Callable[[Progress], object]) -> None:
        self._call = call
        self._done = self._total = 0
        self._running: tuple[str, ...] = ()

    def begin(self, total: int, already: int, expected_s: float, *_: int) -> None:
        self._done, self._total = already, total
        self._tell(expected_s)

    def moved(self, moving: Sequence[ActiveRun], left_s: float) -> None:
        self._running = tuple(active.run.name for active in moving)
        self._tell(left_s)

    def finished(self, done: RunResult, left_s: float) -> None:
        self._done += 1
        self._running = tuple(name for name in self._running if name != done.run.name)
        self._tell(left_s)

    def _tell(self, left_s: float) -> None:
        self._call(Progress(self._done, self._total, left_s, self._running))


class Running(Iterator[RunResult]):
    """Represent the runs of an experiment while they execute; iterate to get each result.

    Nothing runs before the loop begins, and between two results the active runs continue. Ctrl-C,
    an error inside `with`, `cancel` or `break` end the active runs and keep the finished ones; the
    same experiment continues from there.
    """

    def __init__(self, plan: Plan, begin: Callable[..., FinishedRuns]) -> None:
        """Prepare the runs; `begin` is `execute_plans` without its `look` and `wake_fd`."""
        self._plan = plan
        self._ends: list[RunResult] = []
        self._outcome: ExperimentResult | None = None
        self._stop = False
        self._wake_fd = os.eventfd(0)
        weakref.finalize(self, os.close, self._wake_fd)
        self._making = begin(look=self._look, wake_fd=self._wake_fd)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._making.close()

    def __next__(self) -> RunResult:
        """Return the next result. Raises StopIteration and the exceptions of executing a run."""
        if self._stop:
            self._making.close()
        try:
            end = next(self._making)
        except Cancelled:
            raise StopIteration from None
        except StopIteration as over:
            self._outcome = self._outcome or (over.value[0] if over.value else None)
            raise StopIteration from None
        self._ends.append(end)
        return end

    def cancel(self) -> None:
        """End the active runs when the next result is awaited; call it from any thread."""
        self._stop = True
        os.eventfd_write(self._wake_fd, 1)

    def _look(self) -> None:
        """Raise Cancelled if `cancel` was called."""
        if self._stop:
            raise Cancelled

    def wait(self) -> ExperimentResult:
        """Execute all remaining runs and return the outcome of every run.

        After `cancel` it has the runs up to then. Raises ResultsError, OSError, MachineError.
        """
        while True:
            try:
                next(self)
            except StopIteration:
                return self.outcome

    @property
    def outcome(self) -> ExperimentResult:
        """Return the outcome of the runs so far."""
        plan = self._plan
        return self._outcome or ExperimentResult(plan.file.name, tuple(self._ends), plan.warned)


@dataclass(frozen=True)
class Experiment(Plan):
    """Represent an experiment, parsed and expanded to its runs, with the guards' warnings."""

    @property
    def name(self) -> str:
        """Return the name of the experiment's results folder."""
        return self.file.name

    @classmethod
    def from_file(
        cls,
        experiment: str | Path | File,
        *,
        quick: bool = False,
        settings: Mapping[str, Levels] | None = None,
        matrices: Collection[str] = (),
        machine: str = "auto",
        clock: str | None = None,
        seed: int | None = None,
        repeat: int | None = None,
        shard: str | None = None,
    ) -> Experiment:
        """Read an experiment: a name in experiments/, or a YAML file's path.

            quick     whether to use its short form
            settings  factors and settings that override the file's, as `--set` takes them:
                      {"cc": ["bbr", "reno"], "loss": "1%"}
            matrices  the matrices to run (default: all)
            machine   native (this kernel, as root), sandbox, or auto
            clock     virtual or real, overrides the file's
            seed      overrides the file's
            repeat    runs of each cell, overrides the file's (and `until`)
            shard     "3/40": the third of forty parts
        Raises BadInput, also for a run that one of the guards refuses, and MachineError.
        """
        file = experiment if isinstance(experiment, File) else load_experiment(str(experiment))
        unexpanded = cls(
            file=with_repetitions(with_seed(file, seed), repeat),
            machine=machines.choose_machine(machine),
            clock=clock,
            quick=quick,
            overrides={name: option_text(levels) for name, levels in (settings or {}).items()},
            matrices=tuple(matrices),
            shard=None if shard is None else Shard.read(shard),
        )
        return unexpanded._expanded(may_choose=machine == "auto")

    @classmethod
    def of(
        cls, *, repeat: int = 1, seed: int = 1, machine: str = "auto", **settings: Levels
    ) -> Experiment:
        """Create an experiment without a file, as `./lab try` does.

        Settings are those of `./lab settings`; every level of a list is run and compared. Defaults
        are 100 Mbit/s, 100 ms, no loss, 1 BDP of buffer, 10 s, and CUBIC against BBR.

        repeat: runs of each combination. The same settings are the same experiment, whose results
        stay; a larger `repeat` adds runs. Raises what from_file does.
        """
        return cls.asking(question_of(settings, repeat, seed), machine)

    @classmethod
    def asking(cls, question: Question, machine: str = "auto") -> Experiment:
        """Create an experiment from a parsed question."""
        file = question.to_experiment(Path(f"{question.name}.yaml"))
        unexpanded = cls(file=file, machine=machines.choose_machine(machine), question=question)
        return unexpanded._expanded(may_choose=machine == "auto")

    def _expanded(self, *, may_choose: bool) -> Experiment:
        """Return the experiment with every run, checked.

        `may_choose`: whether another machine may be chosen if runs need it. Raises what from_file
        does.
        """
        require_matrices(self.file, self.matrices, quick=self.quick)
        native = self.machine.name == "native"
        if native and self.clock == "virtual":
            raise BadInput("--clock virtual needs the sandbox: this kernel's clock is the real one")
        chosen = replace(self, clock="real") if native else self
        try:
            runs = chosen.expand_runs()
        except SandboxOnly:
            if not may_choose:
                raise
            reason = "another kernel than this machine's is requested"
            chosen = replace(self, machine=machines.MachineChoice("sandbox", reason))
            runs = chosen.expand_runs()
        bind_all(expectations_of(self.file), runs)
        errors, warned = preflight.survey_traps(runs)
        if errors:
            raise BadInput(refusal_line(errors))
        rules = stopping_rules(self.file, quick=self.quick)
        if self.shard is not None:
            runs = self.shard.take(runs, rules)
        wanted = {name: rule for name, rule in rules.items() if name in (self.matrices or rules)}
        return replace(chosen, runs=tuple(runs), until=wanted, warned=tuple(warned))

    def run(
        self,
        results: str | Path = RESULTS,
        *,
        jobs: int | None = None,
        progress: bool | Callable[[Progress], object] | RunObserver = False,
        gost: Path | None = None,
        retry_failed: bool = False,
        workers: Gathered | None = None,
        kept: PartsAndStandby | None = None,
    ) -> Running:
        """Execute the missing runs in a results folder, and give every result, old and new.

            results   the folder; this experiment's results are in results/NAME
            jobs      number of parallel runs (None: one per CPU; one on this machine's own kernel)
            progress  True: on standard error, by rich on a terminal; or a function to call with
                      a Progress twice a second and at each end
            gost      the path of GOST's binary
            workers   other workers that execute the runs, in place of this machine's CPUs
            kept      what a Lab keeps for its runs (gostlab.Lab)
        No signal handler is set and the process is never ended. Raises BadInput, MissingPart and
        MachineError at once; while the loop goes on, ResultsError and OSError.
        """
        stack = ExitStack()
        watcher = progress if isinstance(progress, RunObserver) else RunObserver()
        if progress is True:
            watcher = stack.enter_context(shown.progress_on_stderr(self.name, quiet=False))
        elif callable(progress):
            watcher = ProgressCallback(progress)
        execute = partial(
            execute_plans,
            [self],
            Path(results),
            jobs=jobs,
            gost=gost,
            retry_failed=retry_failed,
            progress=watcher,
            workers=workers,
            held=stack,
            kept=kept,
        )
        return Running(self, execute)


def run_together(
    experiments: Sequence[Experiment], results: Path, *, progress: RunObserver, **options: Any
) -> list[ExperimentResult]:
    """Execute the runs of several experiments together, and return each one's outcome.

    `options` and the exceptions are those of Experiment.run and Running.wait.
    """
    options |= {"progress": progress, "look": lambda: None, "held": ExitStack()}
    making = execute_plans(experiments, results, **options)
    while True:
        try:
            next(making)
        except StopIteration as over:
            return list(over.value)


class Run:
    """Represent one run, described by settings as `./lab settings` lists them.

        gostlab.Run(cc="bbr", rate="100mbit", rtt="80ms", loss="1%", tunnel="gost+wss")

    Defaults are those of `Experiment.of`, with CUBIC. Raises BadInput, MachineError.
    """

    def __init__(self, *, seed: int = 1, machine: str = "auto", **settings: Levels) -> None:
        several = [name for name, level in settings.items() if is_list_of_levels(level)]
        if several:
            raise BadInput(
                f"{several[0]}: one level for a run (gostlab.Experiment.of compares several)"
            )
        if "flows" not in settings:
            settings = {"cc": "cubic", **settings}
        self.experiment = Experiment.asking(question_of(settings, 1, seed), machine)
        if len(self.experiment.runs) != 1:
            raise BadInput(
                f"{len(self.experiment.runs)} runs: one level of each setting for a run"
                " (gostlab.Experiment.of compares several)"
            )

    @property
    def description(self) -> RunSpec:
        """Return the resolved description of the run, as run.json has it."""
        return self.experiment.runs[0]

    def run(self, results: str | Path = RESULTS, **options: Any) -> RunResult:
        """Execute the run, unless it is finished, and return its result.

        The arguments and the exceptions are those of Experiment.run.
        """
        with self.experiment.run(results, **options) as running:
            return next(running)


def question_of(settings: Mapping[str, Levels], repeat: int, seed: int) -> Question:
    """Parse settings into a question. Raises BadInput."""
    given = {name: option_text(levels) for name, levels in settings.items()}
    try:
        return to_question(given, repetitions=repeat, seed=seed)
    except BadInput as error:
        raise BadInput(str(error).removeprefix("--")) from None


def is_list_of_levels(levels: Levels) -> bool:
    return isinstance(levels, Iterable) and not isinstance(levels, str | Mapping)


def option_text(levels: Any) -> str:
    """Format levels as an option takes them: 1%; cubic,bbr; 4; {"a": …} as JSON."""
    if isinstance(levels, bool):
        return "true" if levels else "false"
    if isinstance(levels, Mapping):
        return json.dumps(levels)
    return ",".join(map(option_text, levels)) if is_list_of_levels(levels) else str(levels)
