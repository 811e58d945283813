# SPDX-License-Identifier: MIT
"""Execute the runs of plans, one per CPU or worker, after checking what they need.

Each run's end is given as soon as it is known.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from gostlab import results, sandbox
from gostlab.api.plan import Plan
from gostlab.atomic_write import write_whole
from gostlab.install import locate
from gostlab.install.parts_json import PartsJson
from gostlab.registry.folders import IS_PACKAGE
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.results.metrics import RunCluster, format_window
from gostlab.results.run_result import RunResult
from gostlab.sandbox import native, uml
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.sandbox.host_limits import cpus_allowed
from gostlab.sandbox.rootfs import sources_digest
from gostlab.sandbox.standby import StandbyPool
from gostlab.scheduler import exec_one, executor
from gostlab.scheduler.cell_result import CellResult, CellStatistics, cells_of
from gostlab.scheduler.experiment_result import ExperimentResult
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

# Why a run without a named GOST uses the relay.
RELAYS_SPELLING = "relay+… is the lab's own, gost+… takes a GOST"
MIN_RUNS_TO_COPY = 4  # with fewer the template, which runs nothing itself, costs what it saves
MIN_RUNS_FOR_SPREAD = 5  # fewer runs have no meaningful spread

# Opens other workers than this machine's CPUs: returns their slots and how to start runs there. Its
# argument shows a line to the user.
Gathered = Callable[
    [Callable[[str], None]],
    AbstractContextManager[tuple[Collection[executor.Slot], executor.Starter]],
]
FinishedRuns = Generator[RunResult, None, list[ExperimentResult]]


class RunStarter(Protocol):
    """Start a run in a folder, on a CPU."""

    def __call__(
        self, run: RunSpec, target: Path, cpu: Any, sources: str | None = None, /
    ) -> sandbox.Job:
        """Return the run's job. sources: the digest of the lab's sources, if it is known."""


@dataclass
class PartsAndStandby:
    """Keep from one experiment to the next what is looked for once, until `close`.

    These are the parts, the commit of the checkout, and the standby guests.
    """

    parts: locate.Parts
    standby: StandbyPool
    # By machine: the digest of the lab's sources, and how to start runs of them.
    _starters: dict[str, tuple[str, RunStarter]] = field(default_factory=dict)

    def starter(self, machine_name: str) -> executor.Starter:
        """Return the function that starts a run on a CPU."""

        def start(run: RunSpec, target: Path, slot: executor.Slot) -> sandbox.Job:
            sources = sources_digest()
            return self.starter_of(machine_name, sources)(run, target, slot, sources)

        return start

    def starter_of(self, machine_name: str, sources: str) -> RunStarter:
        """Return what starts runs of the lab's sources, which have a digest.

        It is kept, with the commit that git named, until the sources change.
        """
        known_digest, known = self._starters.get(machine_name, ("", None))
        if known is None or known_digest != sources:
            known = run_starter(machine_name, self.parts, self.standby)
            self._starters[machine_name] = sources, known
        return known

    @classmethod
    def within(cls, results_folder: Path, gost: Path | None = None) -> PartsAndStandby:
        """Find the parts for runs in a folder. Raises MissingPart."""
        return cls(locate.find_parts(gost), StandbyPool(results_folder, guest_cpus()))

    def close(self) -> None:
        """End the standby guests."""
        self.standby.close()


def execute_plans(
    plans: Sequence[Plan],
    folder: Path,
    *,
    jobs: int | None,
    gost: Path | None,
    retry_failed: bool,
    progress: executor.RunObserver,
    workers: Gathered | None,
    look: Callable[[], None],
    held: ExitStack,
    wake_fd: int | None = None,
    kept: PartsAndStandby | None = None,
) -> FinishedRuns:
    """Return a generator that executes the missing runs of plans and gives their ends.

    Requirements are checked at once; runs begin when the generator is iterated. Its return value is
    the result of each plan. The runs of all plans share the slots.

    look: called while waiting for runs; an exception that it raises ends them. wake_fd: a file
    descriptor that is readable when `look` is to be called at once. held: an ExitStack that is
    closed when all runs are done. kept: replaces `gost`, and boots guests ahead. The other
    arguments, and the exceptions, are those of Experiment.run.
    """
    check_jobs(jobs)
    names = [plan.file.name for plan in plans]
    runs = [run for plan in plans for run in plan.runs]
    parts = kept.parts if kept else locate.find_parts(gost)
    standby = kept.standby if kept else pool_of(runs, folder, held) if workers is None else None
    sandbox.require_programs(runs, parts)
    sandbox.require_kernels(runs, parts)
    machine_names = {plan.machine.name for plan in plans}
    starters = {
        name: kept.starter(name) if kept else run_starter(name, parts, standby)
        for name in machine_names
    }

    def start(run: RunSpec, target: Path, slot: executor.Slot) -> sandbox.Job:
        return starters[run.machine](run, target, slot)

    def more(ends: Sequence[RunResult]) -> list[RunSpec]:
        return [run for plan in plans for run in next_repetitions(plan, ends)]

    def making() -> FinishedRuns:
        folder.mkdir(parents=True, exist_ok=True)
        shared = any(plan.shard for plan in plans)
        with held:
            for name in names:
                held.enter_context(results.experiment_lock(folder, name, shared=shared))
            slots: Collection[executor.Slot]
            begin: executor.Starter = start
            if workers is None:
                slots = held.enter_context(claimed_cpus(1 if machine_names == {"native"} else jobs))
            else:
                slots, begin = held.enter_context(workers(progress.say))
            for plan in plans:
                progress.say(plan_heading(plan, parts, len(slots), folder))
                save_experiment_file(plan, folder)
                older = results.older_epoch_line(folder, plan.runs)
                makers = results.builds_line(folder, plan.runs)
                relays = results.relay_line(folder, plan.runs)
                for line in (
                    *(warning.line for warning in plan.warned),
                    *plan.notes,
                    older,
                    makers,
                    relays,
                ):
                    if line:
                        progress.say(line)
            ends = yield from executor.execute_runs(
                runs,
                folder.resolve(),
                slots,
                begin,
                progress,
                retry_failed=retry_failed,
                more=more,
                look=look,
                wake_fd=wake_fd,
                none_waits=standby.refill if standby else lambda: None,
                beside=shared or workers is not None,
            )
        return [experiment_result(plan, ends) for plan in plans]

    return making()


def pool_of(runs: Sequence[RunSpec], folder: Path, held: ExitStack) -> StandbyPool | None:
    """Return a pool that copies the guests of runs, until a stack is closed; None for few runs."""
    if sum(run.machine == "sandbox" for run in runs) < MIN_RUNS_TO_COPY:
        return None
    pool = StandbyPool(folder, guest_cpus(), ahead=False)
    held.callback(pool.close)
    return pool


def guest_cpus() -> Sequence[int]:
    """Return the CPUs for guests that boot ahead."""
    return list(sandbox.usable_cpus())[: cpus_allowed()]


def results_of_plan(plan: Plan, ends: Sequence[RunResult]) -> list[RunResult]:
    """Return the ends of a plan's runs."""
    return [end for end in ends if end.run.experiment == plan.file.name]


def next_repetitions(plan: Plan, ends: Sequence[RunResult]) -> list[RunSpec]:
    """Return another run of each cell whose stopping rule requires one."""
    plan_ends = results_of_plan(plan, ends)
    repetitions = {
        cell.runs[0].run.cell: len(cell.runs) + 1
        for cell in cells_with_rule(plan, plan_ends)
        if cell.wants_more
    }
    present = {end.run.name for end in plan_ends}
    described = plan.expand_runs(repetitions) if repetitions else []
    return [run for run in described if run.cell in repetitions and run.name not in present]


def experiment_result(plan: Plan, ends: Sequence[RunResult]) -> ExperimentResult:
    """Return the result of a plan's runs."""
    plan_ends = results_of_plan(plan, ends)
    wide = tuple(cell for cell in cells_with_rule(plan, plan_ends) if not cell.is_narrow)
    return ExperimentResult(plan.file.name, tuple(plan_ends), plan.warned, wide, plan.levels)


def plan_heading(plan: Plan, parts: locate.Parts, job_count: int, folder: Path) -> str:
    """Return the lines that describe a plan before its runs are executed."""
    windows = dict.fromkeys(format_window(run.window_s) for run in plan.runs)
    return (
        f"{plan.file.title}{f' · shard {plan.shard}' if plan.shard else ''}\n"
        f"machine: {plan.machine.name} ({plan.machine.reason}) · {job_count} at a time ·"
        f" {describe_gosts(plan.runs, parts)} · taken over {' or '.join(windows)} ·"
        f" results: {folder}"
    )


def save_experiment_file(plan: Plan, folder: Path) -> None:
    """Copy an experiment's file to its results, byte for byte, or write a question's text.

    The report is made from this copy, even if the file changes later. Runs of an earlier form of
    the file stay next to it: each has its own run.json, and the newest copy defines their names and
    plots. Raises OSError.
    """
    content = plan.question.text if plan.question else plan.file.path_on_disk.read_bytes()
    write_whole(folder / plan.file.name / results.EXPERIMENT_FILE, content)


def check_jobs(jobs: int | None) -> None:
    """Raise BadInput if the number of parallel jobs is less than one."""
    if jobs is not None and jobs < 1:
        raise BadInput(f"--jobs {jobs}: at least 1")


def describe_gosts(runs: Sequence[RunSpec], parts: locate.Parts) -> str:
    """Return which GOST binaries the tunnels of some runs use, and why."""
    tunnels = [run for run in runs if tunnel_kind(run.tunnel).program == GOST]
    reasons = {run.gost_program: "" for run in tunnels} | {
        run.gost_program: parts.tunnel_why if run.gost_program == locate.AUTO else RELAYS_SPELLING
        for run in tunnels
        if run.gost == locate.AUTO
    }
    versions = [
        f"{locate.tunnel_binary(parts, gost).version}" + (f" ({why})" if why else "")
        for gost, why in reasons.items()
    ]
    return f"GOST's tunnels: {', '.join(versions)}" if versions else "no tunnel of GOST's"


def run_starter(
    machine_name: str, parts: locate.Parts, standby: StandbyPool | None = None
) -> RunStarter:
    """Return the function that starts a run on a CPU.

    What every run is given is found at the first start, while git is asked for the commit.
    """
    commit = CommitQuery()
    visible = sandbox.visible_paths(parts)

    @cache
    def handed_over() -> PartsJson:
        return sandbox.build_parts_json(parts)

    def start_native(
        run: RunSpec, target: Path, _cpu: Any, _sources: str | None = None, /
    ) -> sandbox.Job:
        commit.start()
        return native.start_run(run, target, handed_over(), commit.answer())

    def start_sandbox(
        run: RunSpec, target: Path, cpu: Any, sources: str | None = None, /
    ) -> sandbox.Job:
        commit.start()
        kernel, binaries = locate.kernel_for(run.kernel, parts), handed_over()
        boot = uml.run_boot(kernel, run, binaries, visible, sources=sources)
        boot.write_parts(target, commit.answer())
        return standby.start(boot, target, cpu) if standby else boot.boot(target, cpu)

    return start_native if machine_name == "native" else start_sandbox


def execute_run_file(
    file: str, folder: Path | None = None, *, gost: Path | None = None, retry_failed: bool = False
) -> RunResult:
    """Execute the run that a file describes in a folder, unless it is finished already.

    Returns how it ended. file: a run.json, an entry of `run --dry-run --json`, or - for standard
    input. The run executes in a temporary folder that is renamed into place. Raises BadInput,
    MissingPart, MachineError, ResultsError, OSError.
    """
    task = exec_one.read_task(file, folder)
    if results.is_settled(task.folder, task.run, retry_failed=retry_failed):
        return RunResult.read(task.folder, task.run)
    if task.run.machine == "native":
        sandbox.choose_machine("native")
    parts = locate.find_parts(gost)
    sandbox.require_programs([task.run], parts)
    sandbox.require_kernels([task.run], parts)
    return exec_one.execute(task, run_starter(task.run.machine, parts), retry_failed=retry_failed)


def cells_with_rule(plan: Plan, plan_ends: Sequence[RunResult]) -> list[CellResult]:
    """Return the cells of a plan that have a stopping rule, by name.

    They depend only on the finished runs, so an interrupted matrix reaches the same end as an
    uninterrupted one.
    """
    repeated = [end for end in plan_ends if end.run.matrix in plan.until]
    if not repeated:
        return []
    by_repetition = sorted(repeated, key=lambda end: end.run.repetition)
    cells = cells_of(by_repetition, cell_statistics(), plan.until)
    return sorted(cells, key=lambda cell: cell.runs[0].run.cell)


def cell_statistics() -> CellStatistics:
    """Return the statistics of the analysis."""
    from gostlab.analysis.stats import statistics

    def interval(values: Sequence[float]) -> tuple[float, float] | None:
        spread = statistics.summarise(values) if len(values) >= MIN_RUNS_FOR_SPREAD else None
        return (spread.interval.low, spread.interval.high) if spread and spread.interval else None

    def states(values: Sequence[float]) -> tuple[RunCluster, ...]:
        return statistics.run_clusters(values) if len(values) >= MIN_RUNS_FOR_SPREAD else ()

    return CellStatistics(interval, states, statistics.relative_halfwidth)


def cell_results(result: ExperimentResult) -> list[CellResult]:
    """Return the cells of an experiment, in the order of its file."""
    return cells_of(result.in_order, cell_statistics())


def contest_cells(result: ExperimentResult) -> list[CellResult]:
    """Return the cells of an experiment whose flows compete, flow by flow. Raises OSError."""
    from gostlab.analysis.stats import coexistence

    return [
        replace(
            cell,
            contests=tuple(
                filter(None, (coexistence.read_contest(run.folder) for run in cell.counted))
            ),
        )
        for cell in cell_results(result)
    ]


class CommitQuery:
    """Ask git once for the commit of gostlab's checkout, in parallel with other work."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process: subprocess.Popen[str] | None = None
        self._asked = False
        self._commit: str | None = None

    def start(self) -> None:
        """Start git, unless it was started before. Raises OSError."""
        with self._lock:
            git = None if self._asked or IS_PACKAGE else shutil.which("git")
            self._asked = True
            if git is None:
                return
            argv = [git, "-c", f"safe.directory={sandbox.CHECKOUT}", "-C", str(sandbox.CHECKOUT)]
            argv += ["describe", "--always", "--exclude=*", "--dirty=+"]
            self._process = subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )

    def answer(self) -> str | None:
        """Return the commit, with + if the checkout is changed, or None without one."""
        with self._lock:
            self.start()
            if self._process is not None:
                self._commit = self._process.communicate()[0].strip() or None
                self._process = None
            return self._commit
