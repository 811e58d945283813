"""Plans' runs are made: what each needs is looked for first, then they are made one per CPU or
worker, and each one's end is given as it is known.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from gostlab import results, sandbox
from gostlab.analysis.stats import coexistence, statistics
from gostlab.api.plan import Plan
from gostlab.install import locate
from gostlab.registry.folders import IS_PACKAGE
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.results.metrics import measured_words
from gostlab.sandbox import native, uml
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.scheduler import exec_one, queue
from gostlab.scheduler.batch_result import Outcome
from gostlab.scheduler.queue import Finished, Standing
from gostlab.scheduler.summary import CellSummary, CompetitionSummary, Scatter, cell_summaries
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

MIN_SAID_OF = 5  # runs: of fewer no spread says anything, and scipy need not be read

# Elsewhere than on this machine's CPUs: where runs may be started, and how. It is told how to say
# something to a watcher.
Gathered = Callable[
    [Callable[[str], None]], AbstractContextManager[tuple[Collection[queue.Slot], queue.Starter]]
]
RunGenerator = Generator[Finished, None, list[Outcome]]


def make(
    plans: Sequence[Plan],
    folder: Path,
    *,
    jobs: int | None,
    gost: Path | None,
    retry_failed: bool,
    progress: queue.RunObserver,
    workers: Gathered | None,
    look: Callable[[], None],
    held: ExitStack,
) -> RunGenerator:
    """What makes the runs of plans that have no answer yet in a results folder, once it is asked
    for their ends; it returns what became of each plan's. While the last run of one ends, the next
    one's begin.

    look: called while runs are waited for; what it raises ends them. held: until all are made. The
    others, and what is raised, are Experiment.run's.
    """
    check_jobs(jobs)
    names = [plan.file.name for plan in plans]
    runs = [run for plan in plans for run in plan.runs]
    found = locate.find_parts(gost)
    sandbox.require_programs(runs, found)
    sandbox.require_kernels(runs, found)
    starters = {name: starter(name, found) for name in {plan.machine.name for plan in plans}}

    def start(run: RunSpec, place: Path, slot: queue.Slot) -> sandbox.Job:
        return starters[run.machine](run, place, slot)

    def more(ends: Sequence[Finished]) -> list[RunSpec]:
        return [run for plan in plans for run in one_more(plan, ends)]

    def making() -> RunGenerator:
        folder.mkdir(parents=True, exist_ok=True)
        shared = any(plan.shard for plan in plans)
        with held:
            for name in names:
                held.enter_context(results.experiment_lock(folder, name, shared=shared))
            slots: Collection[queue.Slot]
            begin: queue.Starter = start
            if workers is None:
                slots = held.enter_context(claimed_cpus(1 if set(starters) == {"native"} else jobs))
            else:
                slots, begin = held.enter_context(workers(progress.say))
            for plan in plans:
                progress.say(heading(plan, found, len(slots), folder))
                keep_file(plan, folder)
                older = results.older_line(folder, plan.runs)
                makers = results.makers_line(folder, plan.runs)
                for line in (*(each.line for each in plan.warned), *plan.notes, older, makers):
                    if line:
                        progress.say(line)
            ends = yield from queue.ends_of(
                runs,
                folder.resolve(),
                slots,
                begin,
                progress,
                retry_failed=retry_failed,
                more=more,
                look=look,
                beside=shared or workers is not None,
            )
        return [outcome_of(plan, ends) for plan in plans]

    return making()


def own_ends(plan: Plan, ends: Sequence[Finished]) -> list[Finished]:
    """Those of a plan's runs."""
    return [end for end in ends if end.run.experiment == plan.file.name]


def one_more(plan: Plan, ends: Sequence[Finished]) -> list[RunSpec]:
    """Another run of each cell that wants it."""
    own = own_ends(plan, ends)
    wanted = {at.cell: at.repetitions + 1 for at in standings(plan, own) if at.wants_more}
    there = {end.run.name for end in own}
    described = plan.described(wanted) if wanted else []
    return [run for run in described if run.cell in wanted and run.name not in there]


def outcome_of(plan: Plan, ends: Sequence[Finished]) -> Outcome:
    """What became of a plan's runs."""
    own = own_ends(plan, ends)
    wide = [standing for standing in standings(plan, own) if not standing.narrow]
    return Outcome(plan.file.name, tuple(own), plan.warned, tuple(wide), plan.levels)


def heading(plan: Plan, found: locate.Parts, at_a_time: int, folder: Path) -> str:
    """What is said of a plan before its runs are made."""
    parts_of_loads = dict.fromkeys(measured_words(run.to_json()) for run in plan.runs)
    return (
        f"{plan.file.title}{f' · shard {plan.shard}' if plan.shard else ''}\n"
        f"machine: {plan.machine.name} ({plan.machine.reason}) · {at_a_time} at a time ·"
        f" {gost_words(plan.runs, found)} · taken over {' or '.join(parts_of_loads)} ·"
        f" results: {folder}"
    )


def keep_file(plan: Plan, folder: Path) -> None:
    """Keep an experiment's file with its results, byte for byte; of a question its text. The report
    is made from it, whatever becomes of the file. Raises OSError.

    Runs of an earlier form of the file stay beside it: each has its own run.json, and the newest
    copy says what they are called and how they are drawn.
    """
    content = plan.asked.text if plan.asked else plan.file.path_on_disk.read_bytes()
    results.write_whole(folder / plan.file.name / results.EXPERIMENT_FILE, content)


def check_jobs(jobs: int | None) -> None:
    """Raises BadInput for less than one at a time."""
    if jobs is not None and jobs < 1:
        raise BadInput(f"--jobs {jobs}: at least 1")


def gost_words(runs: Sequence[RunSpec], found: locate.Parts) -> str:
    """What runs GOST's tunnels of some runs, and why, in a few words."""
    kinds = [(run.gost, tunnel_kind(run.tunnel).program == GOST) for run in runs]
    asked = list(dict.fromkeys(gost for gost, is_gosts in kinds if is_gosts))
    told = [
        f"{locate.tunnel_binary(found, gost).version}"
        + (f" ({found.tunnel_why})" if gost == locate.AUTO else "")
        for gost in asked
    ]
    return f"GOST's tunnels: {', '.join(told)}" if told else "no tunnel of GOST's"


def starter(machine_name: str, found: locate.Parts) -> queue.Starter:
    """How a run is started on a CPU. Raises MissingPart."""
    handed, commit = sandbox.hand_over(found), checkout_commit()
    if machine_name == "native":
        return lambda run, place, _cpu: native.start_run(run, place, handed, commit)
    keep = sandbox.kept_visible(found)

    def start_sandbox(run: RunSpec, place: Path, cpu: int) -> sandbox.Job:
        kernel = locate.kernel_for(run.kernel, found)
        return uml.start_run(kernel, run, place, handed, keep, cpu, commit)

    return start_sandbox


def execute(
    file: str, folder: Path | None = None, *, gost: Path | None = None, retry_failed: bool = False
) -> Finished:
    """Make the run that a file describes (a run.json, an entry of `run --dry-run --json`, or - for
    standard input) in a folder, beside it and renamed into place; how it ended. A run that is there
    is not made again.

    Raises BadInput, MissingPart, MachineError, ResultsError, OSError.
    """
    task = exec_one.read_task(file, folder)
    if results.is_settled(task.folder, task.run, retry_failed=retry_failed):
        return queue.end_in(task.folder, task.run)
    if task.run.machine == "native":
        sandbox.choose("native")
    found = locate.find_parts(gost)
    sandbox.require_programs([task.run], found)
    sandbox.require_kernels([task.run], found)
    return exec_one.execute(task, starter(task.run.machine, found), retry_failed=retry_failed)


def standings(plan: Plan, own: Sequence[Finished]) -> list[Standing]:
    """How far a plan's cells are that repeat until they are narrow enough."""
    if not plan.until:
        return []

    return queue.standings(own, plan.until, statistics.relative_halfwidth, statistics.states_of)


def summary(outcome: Outcome) -> list[CellSummary]:
    """What each cell of a matrix came to. Reads the runs' samples: about 0.1 s for a run of many
    streams. Raises OSError.
    """

    def scatter_of(values: Sequence[float]) -> Scatter:
        if len(values) < MIN_SAID_OF:
            return Scatter(None, ())

        found = statistics.summarise(values)
        interval = found.interval if found else None
        ends = (interval.low, interval.high) if interval else None
        return Scatter(ends, found.states if found else ())

    return cell_summaries(outcome.in_order, scatter_of)


def contests(outcome: Outcome) -> list[CompetitionSummary]:
    """What each cell came to whose flows compete, flow by flow. Raises OSError."""
    runs = queue.by_cell(outcome.in_order).values()
    found = [[coexistence.contest_of(end.folder) for end in queue.distinct(ends)] for ends in runs]
    return [
        CompetitionSummary(cell, tuple(filter(None, its)))
        for cell, its in zip(summary(outcome), found, strict=True)
    ]


def checkout_commit() -> str | None:
    """The commit of the lab's checkout, with + if it is changed; None outside one."""
    git = shutil.which("git")
    if git is None or IS_PACKAGE:
        return None
    words = [git, "-c", f"safe.directory={sandbox.CHECKOUT}", "-C", str(sandbox.CHECKOUT)]
    words += ["describe", "--always", "--exclude=*", "--dirty=+"]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout.strip() or None
