"""What the lab does, as functions: plan and run an experiment, report it, open a shell.

For scripts and for the command line (gostlab.apps.cli), which only reads words, calls these and
prints what they return. Nothing here prints or exits. Errors are BadInput (what was asked cannot
be), MissingPart and MachineError (this machine cannot do it), ResultsError and OSError.
"""

from __future__ import annotations

import glob
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from analysis.judge import cells, change, contest, statistics, table
from analysis.page import marked
from analysis.page import report as pages
from analysis.page import site as site_pages
from analysis.page import summary as summaries
from analysis.read import runs as answers
from gostlab import machine, results
from gostlab.declared import controls, folders
from gostlab.declared.errors import SandboxOnly
from gostlab.declared.folders import from_root
from gostlab.declared.kernels import FEATURES, SHIPPED, Kernel, declared_kernels, own_kernels
from gostlab.declared.needs import Needs
from gostlab.declared.tunnels import GOST, tunnel_kind
from gostlab.describe import guards
from gostlab.describe.file.document import BadInput, is_path
from gostlab.describe.file.experiment import (
    Experiment,
    Until,
    load_experiment,
    stopping_rules,
    with_repetitions,
    with_seed,
)
from gostlab.describe.file.question import Question
from gostlab.describe.file.settings import DEFAULTS
from gostlab.describe.resolve.expand import expand, levels_in_order, single_run
from gostlab.describe.resolve.needs import needs_of
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.machine import loading, native, sandbox, terminal
from gostlab.machine.cpus import claimed_cpus
from gostlab.results.measures import measured_words
from gostlab.runs import schedule, single
from gostlab.runs.contest import Standings
from gostlab.runs.outcome import Outcome
from gostlab.runs.schedule import Finished, Standing
from gostlab.runs.shard import Shard
from gostlab.runs.single import Task
from gostlab.runs.summary import CellSummary, Scatter, cell_summaries
from gostlab.setup import gosts, kernels, modules, parts, site_tools, steps
from gostlab.setup.parts import MissingPart
from gostlab.setup.workbench import SetupError, Workbench, locked

LEAST_SAID_OF = 5  # runs: of fewer no spread says anything, and scipy need not be read
REPORT = "report"  # the folder beside the experiments' in a results folder


# Elsewhere than on this machine's CPUs: where runs may be started, and how. It is told how to say
# something to a watcher.
Gathered = Callable[
    [Callable[[str], None]],
    AbstractContextManager[tuple[Collection[schedule.Slot], schedule.Starter]],
]


# -- run


@dataclass(frozen=True)
class Plan:
    """An experiment and what of it is to be run, checked as far as that goes without running it."""

    experiment: Experiment
    machine: machine.Choice
    clock: str | None  # of every matrix; None: what the file says
    quick: bool
    overrides: Mapping[str, str]
    matrices: tuple[str, ...]  # only these; empty: all
    runs: tuple[RunDescription, ...]  # the first block
    until: Mapping[str, Until]  # the matrices that may go on after it
    warned: tuple[guards.Warned, ...]
    shard: Shard | None = None  # of so many processes that share the runs; None: all

    @property
    def notes(self) -> list[str]:
        """Lines on what was chosen as nobody wrote it, and on what never happens."""
        found = []
        for matrix in self.experiment.matrices:
            runs = [run for run in self.runs if run.matrix == matrix.name]
            swept = {each.name: each for levels in matrix.factors.values() for each in levels}
            written = {**self.experiment.settings, **matrix.settings, **swept}
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
        return levels_in_order(self.experiment, quick=self.quick, overrides=self.overrides)

    def tasks(self, results_folder: Path) -> list[Task]:
        return [Task(run, schedule.place_of(run, results_folder)) for run in self.runs]

    def described(self, repetitions_of: Mapping[str, int]) -> list[RunDescription]:
        """The runs, when these cells are to have so many repetitions."""
        return expand(
            self.experiment,
            quick=self.quick,
            overrides=self.overrides,
            machine=self.machine.name,
            clock=self.clock,
            repetitions_of=repetitions_of,
            matrices=self.matrices,
        )


def plan(
    experiment: str | Experiment,
    *,
    quick: bool = False,
    overrides: Mapping[str, str] | None = None,
    matrices: Collection[str] = (),
    on: str = "auto",
    clock: str | None = None,
    seed: int | None = None,
    repeat: int | None = None,
    shard: str | None = None,
) -> Plan:
    """Read an experiment (a name in experiments/, a file's path, or one that is read) and expand
    it.

    overrides: factors and settings, as --set writes them. matrices: only these. on: the machine,
    native, sandbox or auto. clock: virtual or real, in place of the file's. seed: in place of the
    file's. repeat: runs of each cell, in place of the file's (and of `until`). shard: "3/40", the
    third of forty parts. Raises BadInput, also for a run that one of the guards refuses, and
    MachineError.
    """
    dealt = None if shard is None else Shard.read(shard)
    read = experiment if isinstance(experiment, Experiment) else load_experiment(experiment)
    read = with_repetitions(with_seed(read, seed), repeat)
    check_matrices(read, matrices, quick=quick)
    choice = machine.choose(on)
    if choice.name == "native" and clock == "virtual":
        raise BadInput("--clock virtual needs the sandbox: this kernel's clock is the real one")
    try:
        runs, clock_there = expand_on(choice, read, quick, overrides or {}, clock, matrices)
    except SandboxOnly:
        if on != "auto":
            raise
        choice = machine.Choice("sandbox", "another kernel than this machine's is requested")
        runs, clock_there = expand_on(choice, read, quick, overrides or {}, clock, matrices)
    clock = clock_there
    errors, warned = guards.survey(runs)
    if errors:
        raise BadInput(refusal(errors))
    rules = stopping_rules(read, quick=quick)
    if dealt is not None:
        runs = dealt.take(runs, rules)
    return Plan(
        experiment=read,
        machine=choice,
        clock=clock,
        quick=quick,
        overrides=overrides or {},
        matrices=tuple(matrices),
        runs=tuple(runs),
        until={name: rule for name, rule in rules.items() if not matrices or name in matrices},
        warned=tuple(warned),
        shard=dealt,
    )


def expand_on(
    choice: machine.Choice,
    experiment: Experiment,
    quick: bool,
    overrides: Mapping[str, str],
    clock: str | None,
    matrices: Collection[str],
) -> tuple[list[RunDescription], str | None]:
    """The runs of some matrices (or all) on a machine, and the clock that they are given. Raises
    BadInput.
    """
    there = "real" if choice.name == "native" else clock
    return expand(
        experiment,
        quick=quick,
        overrides=overrides,
        machine=choice.name,
        clock=there,
        matrices=matrices,
    ), there


def plan_question(question: Question, folder: Path, *, on: str = "auto") -> Plan:
    """A question without a file, as a plan whose results go to a results folder. Its text is
    written there by `run_question`. Raises what plan() does.
    """
    return plan(question.to_experiment(folder / question.name / results.EXPERIMENT_FILE), on=on)


def run_question(
    question: Question,
    asked: Plan,
    folder: Path,
    *,
    jobs: int | None = None,
    gost: Path | None = None,
    retry_failed: bool = False,
    progress: schedule.Quiet | None = None,
) -> Outcome:
    """Run a question's plan; its text becomes the experiment's file that lies with the results.
    Raises what run() does.
    """
    file = asked.experiment.path_on_disk
    file.parent.mkdir(parents=True, exist_ok=True)
    save_question(question, file)
    return run(asked, folder, jobs=jobs, gost=gost, retry_failed=retry_failed, progress=progress)


def save_question(question: Question, file: Path) -> None:
    """Write a question as an experiment's file, whole or not at all. Raises OSError."""
    part = file.with_name(file.name + ".part")
    part.write_text(question.text, encoding="utf-8")
    part.replace(file)


def check_matrices(experiment: Experiment, matrices: Collection[str], *, quick: bool) -> None:
    """Raises BadInput if an experiment's form has no such matrix."""
    known = sorted(each.name for each in experiment.matrices if each.is_in(quick=quick))
    for name in matrices:
        if name not in known:
            raise BadInput(f"--matrix {name}: {experiment.name} has {', '.join(known)}")


def refusal(errors: Sequence[tuple[RunDescription, guards.Guard]]) -> str:
    """One line about runs that would mislead: the first, and how many other cells."""
    run, guard = errors[0]
    others = len({refused.cell for refused, _ in errors}) - 1
    return f"{run.cell}: {guard.sentence}" + (f" (and {others} more such cells)" if others else "")


def run(
    plan: Plan,
    folder: Path,
    *,
    jobs: int | None = None,
    gost: Path | None = None,
    retry_failed: bool = False,
    progress: schedule.Quiet | None = None,
    workers: Gathered | None = None,
) -> Outcome:
    """Run what of a plan has no answer yet in a results folder; what became of all of it.

    jobs: runs side by side (default: one per CPU; 1 on this machine's own kernel). gost: the tunnel
    program. workers: others that make the runs, in place of this machine's CPUs. Raises BadInput,
    MissingPart, MachineError, ResultsError, OSError.
    """
    found = checked_parts(plan, jobs, gost)
    machine.require_kernels(plan.runs, found)
    start = starter(plan.machine.name, found)
    told = progress or schedule.Quiet()

    def more(ends: Sequence[Finished]) -> list[RunDescription]:
        wanted = schedule.more_repetitions(standings(plan, ends))
        there = {end.run.name for end in ends}
        described = plan.described(wanted) if wanted else []
        return [run for run in described if run.cell in wanted and run.name not in there]

    folder.mkdir(parents=True, exist_ok=True)
    shared = plan.shard is not None
    with ExitStack() as held:
        held.enter_context(results.owned(folder, plan.experiment.name, shared=shared))
        slots: Collection[schedule.Slot]
        if workers is None:
            own_jobs = jobs if plan.machine.name != "native" else 1
            slots = held.enter_context(claimed_cpus(own_jobs))
        else:
            slots, start = held.enter_context(workers(told.say))
        told.say(
            f"{plan.experiment.title}{f' · shard {plan.shard}' if plan.shard else ''}\n"
            f"machine: {plan.machine.name} ({plan.machine.reason}) · {len(slots)} at a time ·"
            f" {gost_words(plan.runs, found)} · taken over {taken_over(plan.runs)} ·"
            f" results: {folder}"
        )
        results.keep_experiment(folder, plan.experiment.name, plan.experiment.path_on_disk)
        older = results.older_line(folder, plan.runs)
        makers = results.makers_line(folder, plan.runs)
        for line in (*(warning.line for warning in plan.warned), *plan.notes, older, makers):
            if line:
                told.say(line)
        ends = schedule.run_all(
            plan.runs,
            folder.resolve(),
            slots,
            start,
            told,
            retry_failed=retry_failed,
            more=more,
            beside=shared or workers is not None,
        )
    wide = [standing for standing in standings(plan, ends) if not standing.narrow]
    return Outcome(plan.experiment.name, tuple(ends), plan.warned, tuple(wide), plan.levels)


def taken_over(runs: Sequence[RunDescription]) -> str:
    """Which part of their loads the results of some runs are of."""
    return " or ".join(dict.fromkeys(measured_words(run.to_json()) for run in runs))


def checked_parts(plan: Plan, jobs: int | None, gost: Path | None) -> parts.Parts:
    """What this machine has, all that a plan's runs need besides their kernels among it. Raises
    BadInput, MissingPart.
    """
    check_jobs(jobs)
    found = parts.find_parts(gost)
    machine.require_programs(plan.runs, found)
    return found


def check_jobs(jobs: int | None) -> None:
    """Raises BadInput for less than one at a time."""
    if jobs is not None and jobs < 1:
        raise BadInput(f"--jobs {jobs}: at least 1")


def gost_words(runs: Sequence[RunDescription], found: parts.Parts) -> str:
    """What runs GOST's tunnels of some runs, and why, in a few words."""
    kinds = [(run.gost, tunnel_kind(run.tunnel).program == GOST) for run in runs]
    asked = list(dict.fromkeys(gost for gost, is_gosts in kinds if is_gosts))
    told = [
        f"{parts.tunnel_binary(found, gost).version}"
        + (f" ({found.tunnel_why})" if gost == parts.AUTO else "")
        for gost in asked
    ]
    return f"GOST's tunnels: {', '.join(told)}" if told else "no tunnel of GOST's"


def add_gost(what: str, name: str | None = None) -> gosts.Added:
    """Keep a GOST (a file, or an official release by its version), as a level of `gost`. Raises
    BadInput, SetupError, OSError.
    """
    return gosts.add(what, name)


def remove_gost(name: str) -> Path:
    """Delete a GOST that was added; where it was. Raises BadInput."""
    return gosts.remove(name)


def gost_lines() -> list[str]:
    """Every GOST that an experiment may ask for, a line each, and which one is taken without."""
    found = parts.find_parts()
    lines = [
        f"{name:10} {one.version}  SHA-256 {one.sha256[:12]}…  {one.path}"
        for name, one in found.gosts.items()
    ]
    taken = parts.tunnel_binary(found)
    return [*lines, f"without gost: … runs take {taken.version} ({found.tunnel_why})"]


def starter(machine_name: str, found: parts.Parts) -> schedule.Starter:
    """How a run is started on a CPU. Raises MissingPart."""
    handed, commit = machine.hand_over(found), checkout_commit()
    if machine_name == "native":

        def start_here(run: RunDescription, place: Path, _cpu: int) -> machine.Job:
            return native.start_run(run, place, handed, commit)

        return start_here
    keep = machine.kept_visible(found)

    def start_sandbox(run: RunDescription, place: Path, cpu: int) -> machine.Job:
        kernel = parts.kernel_for(run.kernel, found)
        return sandbox.start_run(kernel, run, place, handed, keep, cpu, commit)

    return start_sandbox


# -- one run by its description


def execute(
    file: str, folder: Path | None = None, *, gost: Path | None = None, retry_failed: bool = False
) -> Finished:
    """Make the run that a file describes (a run.json, an entry of `run --dry-run --json`, or - for
    standard input) in a folder, beside it and renamed into place; how it ended. A run that is there
    is not made again.

    Raises BadInput, MissingPart, MachineError, ResultsError, OSError.
    """
    task = single.read_task(file, folder)
    if results.is_settled(task.folder, task.run, retry_failed=retry_failed):
        return schedule.end_in(task.folder, task.run)
    if task.run.machine == "native":
        machine.choose("native")
    found = parts.find_parts(gost)
    machine.require_programs([task.run], found)
    machine.require_kernels([task.run], found)
    return single.execute(task, starter(task.run.machine, found), retry_failed=retry_failed)


def standings(plan: Plan, ends: Sequence[Finished]) -> list[Standing]:
    """How far the cells are that repeat until they are narrow enough."""
    if not plan.until:
        return []

    return schedule.standings(ends, plan.until, statistics.relative_halfwidth, statistics.states_of)


def summary(outcome: Outcome) -> list[CellSummary]:
    """What each cell of a matrix came to. Reads the runs' samples: about 0.1 s for a run of many
    streams. Raises OSError.
    """

    def scatter_of(values: Sequence[float]) -> Scatter:
        if len(values) < LEAST_SAID_OF:
            return Scatter(None, ())

        found = statistics.summarise(values)
        interval = found.interval if found else None
        ends = (interval.low, interval.high) if interval else None
        return Scatter(ends, found.states if found else ())

    return cell_summaries(outcome.in_order, scatter_of)


def contests(outcome: Outcome) -> list[Standings]:
    """What each cell came to whose flows compete, flow by flow. Raises OSError."""
    folders: dict[str, list[Path]] = {}
    for end in outcome.in_order:
        folders.setdefault(end.run.cell, []).extend([end.folder] if end.counts else [])
    return [
        Standings(cell, tuple(found for each in its if (found := contest.contest_of(each))))
        for cell, its in zip(summary(outcome), folders.values(), strict=True)
    ]


def checkout_commit() -> str | None:
    """The commit of the lab's checkout, with + if it is changed; None outside one."""
    git = shutil.which("git")
    if git is None:
        return None
    base = [git, "-c", f"safe.directory={machine.CHECKOUT}", "-C", str(machine.CHECKOUT)]
    head, dirty = (
        subprocess.run([*base, *words], capture_output=True, text=True, check=False)
        for words in (
            ["rev-parse", "--short", "HEAD"],
            ["status", "--porcelain", "--untracked-files=no"],
        )
    )
    if head.returncode != 0:
        return None
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")


# -- congestion controls


def congestion_controls() -> list[str]:
    """Every congestion control that an experiment may name, a line each."""
    lines = [f"{', '.join(controls.IN_LINUX)}: Linux's own"]
    for control in controls.module_controls().values():
        takes = f" ({', '.join(control.parameters)})" if control.parameters else ""
        if not control.own:
            where = from_root(control.source)
        else:
            changed = "; changed since: ./lab cc add it again" * modules.has_changed(control)
            where = f"yours, from {control.origin}{changed}"
        lines.append(f"{control.name}{takes}: {where}")
    return lines


def add_cc(path: Path, name: str | None = None, *, keep: bool = True) -> modules.Added:
    """Compile a C file, load it into a sandbox, and keep it as a level of `cc`. Raises BadInput,
    CompileError, MissingPart, MachineError, OSError.
    """
    kernel = parts.require_kernel(parts.find_parts())
    return modules.check(path, name, kernel, partial(loading.registered, kernel), keep=keep)


@contextmanager
def borrowed_cc(path: Path, name: str) -> Iterator[controls.Control]:
    """A congestion control of somebody's, as a level of `cc` until the end of the block; nothing of
    it stays. Raises what add_cc does.
    """
    kernel = parts.require_kernel(parts.find_parts())
    control = add_cc(path, name).control
    try:
        yield control
    finally:
        shutil.rmtree(modules.module_folder(control, kernel), ignore_errors=True)
        with suppress(BadInput):  # another process has ranked the same file, and is done
            modules.remove(name)


def remove_cc(name: str) -> controls.Control:
    """Forget a congestion control of the user's. Raises BadInput."""
    return modules.remove(name)


# -- kernels


def add_kernel(
    what: str, name: str | None, *, jobs: int, say: Callable[[str], None]
) -> kernels.Added:
    """Build a declared version of Linux, or a tree or tarball of the user's under a name. Raises
    BadInput, SetupError, ArchiveError, OSError.
    """
    path = None if name is None and what in declared_kernels() else kernels.own_path(what, name)
    cache = folders.cache_folder()
    for folder in ("log", "build"):
        (cache / folder).mkdir(parents=True, exist_ok=True)
    # A lock of its own: the set-up touches nothing of this, and may take as long.
    with locked(cache, say, "kernels.lock") as lock_fd:
        bench = Workbench(cache, jobs, say, lock_fd)
        if path is None or name is None:
            return kernels.add_version(bench, what)
        return kernels.add_own(bench, path, name)


def missing_parts(plan: Plan, *, jobs: int | None = None, gost: Path | None = None) -> Needs:
    """What a plan's runs ask for, that the set-up can bring, and that is not there. Nobody waits
    for it and then learns that something else is amiss: that is looked for first. Raises BadInput,
    MissingPart.
    """
    check_jobs(jobs)
    found = parts.find_parts(gost)
    wanted = needs_of(plan.runs)
    missing = Needs(
        kernels=tuple(name for name in wanted.kernels if not has_kernel(name, found)),
        iperf3s=tuple(version for version in wanted.iperf3s if version not in found.iperf3),
        gosts=tuple(name for name in wanted.gosts if not has_gost(name, found)),
        tunnels=tuple(
            name for name in wanted.tunnels if not has_programs(tunnel_kind(name).programs, found)
        ),
        clients=tuple(name for name in wanted.clients if not has_programs([name], found)),
        nginx=wanted.nginx and found.nginx is None,
    )
    machine.require_programs((run for run in plan.runs if not waits_for(run, missing)), found)
    return missing


def waits_for(run: RunDescription, missing: Needs) -> bool:
    """Whether a run's iperf3 or tunnel is among what is missing."""
    kind = tunnel_kind(run.tunnel)
    by_gost = kind.program == GOST and run.gost in missing.gosts
    return run.iperf3 in missing.iperf3s or kind.name in missing.tunnels or by_gost


def has_kernel(name: str, found: parts.Parts) -> bool:
    """Whether a kernel is there, or is none that the lab could build."""
    if name == SHIPPED:
        return found.kernel is not None or "GOSTLAB_KERNEL" in os.environ
    return name not in declared_kernels() or parts.built_version(name) is not None


def has_gost(name: str, found: parts.Parts) -> bool:
    """Whether what a run calls a GOST is there, or is none that the set-up could bring."""
    if name == parts.AUTO:
        return found.gost is not None or found.relay is not None
    return name != parts.RELAY or found.relay is not None


def has_programs(names: Sequence[str], found: parts.Parts) -> bool:
    """Whether programs are there, the machine's or the lab's own."""
    return all(parts.find_program(name, found.programs) is not None for name in names)


def provide_parts(wanted: Needs, *, jobs: int, quiet: bool = False) -> None:
    """Fetch and build parts; it says how it goes, on standard output. Raises MissingPart,
    OSError.
    """
    try:
        steps.provide(wanted, jobs, quiet=quiet)
    except SetupError as error:
        raise MissingPart(str(error)) from None


def kernel_version(kernel: Path) -> str:
    """The version of a kernel that was built: 7.3.4."""
    return str(parts.kernel_record(kernel)["version"])


def kernel_lines() -> list[str]:
    """Every kernel that an experiment may name, a line each."""
    found = parts.find_parts()
    lines = [f"{SHIPPED}: {found.kernel_version or 'not built: ./lab setup'}"]
    for name, declared in declared_kernels().items():
        built = parts.built_version(name)
        if built is None:
            said = f"not built: ./lab kernel add {name}"
        else:
            said = str(parts.kernel_record(built)["version"])
        lines.append(f"{name}: {said}{without(declared.kernel)}")
    for name, own in own_kernels().items():
        version = ".".join(map(str, own.version))
        lines.append(f"{name}: {version}, yours, from {own.origin}{without(own)}")
    return lines


def without(kernel: Kernel) -> str:
    """What a kernel cannot do, for the end of a line."""
    words = [f"no {FEATURES[name].says}" for name in kernel.lacks]
    return f"; {', '.join(words)}" if words else ""


def remove_kernel(name: str) -> list[Path]:
    """Delete a kernel that was added; the folders that are gone. Raises BadInput, OSError."""
    return kernels.remove(name)


# -- read what has been run


def experiments_in(folder: Path) -> list[str]:
    """The experiments that a results folder has results of, by name."""
    if not folder.is_dir():
        return []
    return sorted(each.name for each in folder.iterdir() if each.is_dir() and each.name != REPORT)


def reported(folder: Path, experiments: Sequence[str]) -> list[str]:
    """The names of the experiments to report: those given, by name or by the path of their file,
    or all that have results. Raises BadInput if one has none.
    """
    found = experiments_in(folder)
    wanted = []
    for word in experiments:
        name = load_experiment(word).name if is_path(word) and word not in found else word
        if name not in found:
            raise BadInput(
                f"{folder}: no results of {name} there (found: {', '.join(found) or 'none'}):"
                f" ./lab run {word}"
            )
        wanted.append(name)
    if not (wanted or found):
        raise BadInput(f"{folder}: no results there: ./lab run thesis-tunnel --quick")
    return wanted or found


def report(
    folder: Path,
    experiments: Sequence[str] = (),
    out: Path | None = None,
    say: Callable[[str], object] = str,
) -> Path:
    """Write tables, figures and one page of some experiments' results; the page. `say` is told how
    far a study agrees with the lab.

    experiments: by name or by their file's path. What an experiment is called, asks and draws is
    said by the copy of its file that its last run left with the results, and by no other. out: the
    folder to write (default: `report` in the results folder). Raises BadInput, OSError.
    """
    wanted = reported(folder, experiments)

    return pages.write_report(folder, wanted, out or folder / REPORT, say)


def open_run(folder: Path, run: Path, out: Path | None = None) -> Path:
    """Write a page of one run with every sample, at every ACK where those were recorded; the page.

    run: its folder, or its name in the results of any experiment, or EXPERIMENT/name. out: the file
    (….html), or the folder for RUN.html (default: `report` in the results folder). Raises BadInput,
    OSError.
    """
    known = [each for each in (run, folder / run) if each.is_dir()][:1]
    if not known and run == Path(run.name):
        known = sorted(folder.glob(f"*/{glob.escape(run.name)}/run.json"))
    if len(known) != 1:
        among = " and ".join(str(each.parent) for each in known[:3])
        raise BadInput(
            f"{run}: several runs of that name: give its folder ({among})"
            if known
            else f"{run}: no run's folder, and no run of that name in {folder}"
        )
    found = known[0] if known[0].is_dir() else known[0].parent

    place = out or folder / REPORT
    page = place if place.suffix == ".html" else place / f"{found.resolve().name}.html"
    return pages.write_run(found, page)


def site(folder: Path, experiments: Sequence[str] = (), out: Path | None = None) -> Path:
    """Write the site's pages of what runs say, and build it; its first page.

    experiments: sections of the page of studies to make anew, the others stay (none: of all that
    have results, and of no others). out: the folder (default: site/ of the checkout). Raises
    BadInput, MissingPart, OSError.
    """
    wanted = reported(folder, experiments)

    generator = site_tools.find_generator()
    place = out or machine.CHECKOUT / "site"
    sources = site_pages.write_site(folder, wanted, place, keep=bool(experiments))
    return site_tools.build_site(generator, sources, place / "html")


def docs_pages(
    folder: Path, experiments: Sequence[str] = (), out: Path | None = None
) -> list[Path]:
    """Write what runs say into the pages of docs/: the page of results, and the tables between
    marks of the other pages; the pages that were written.

    experiments: sections of the page of results to make anew (none: of all that have results). out:
    the folder with the pages (default: docs/ of the checkout). Raises BadInput, OSError.
    """
    wanted = reported(folder, experiments)

    place = out or machine.CHECKOUT / "docs"
    results_page = place / "results.md"
    pages = sorted(page for page in place.rglob("*.md") if page != results_page)
    changed = marked.write_marked(pages, folder, machine.CHECKOUT)
    return [summaries.write_summary(folder, wanted, results_page), *changed]


# -- compare


def compare(before: Path, after: Path, threshold: float = 0.05) -> change.Changes:
    """What changed between two experiments' results folders (results/NAME each).

    threshold: a figure that moves by less, as a share, is the same. Raises BadInput, OSError.
    """
    if not 0 < threshold < 10:
        raise BadInput(f"--threshold {100 * threshold:g}%: not within 0% and 1000%")

    found = []
    for folder in (before, after):
        if not folder.is_dir():
            raise BadInput(f"{folder}: no such folder (an experiment's results: results/NAME)")
        place = folder.resolve()
        loaded = answers.load_results(place.parent, place.name)
        if not any(run.counts for run in loaded.runs):
            raise BadInput(f"{folder}: no run there counts (an experiment's results: results/NAME)")
        found.append(cells.to_matrices(loaded.runs))
    compared = change.changes(found[0], found[1], threshold)
    if not compared.rows and not compared.lost:
        raise BadInput(f"{before}, {after}: no cell of one is in the other: nothing to compare")
    return compared


def changes_table(found: change.Changes) -> table.Table:
    return change.to_table(found)


# -- a prompt in the lab


@dataclass(frozen=True)
class Shell:
    """Mininet's prompt in the lab, ready to be opened."""

    machine: machine.Choice
    run: RunDescription
    parts: parts.Parts

    def open(self) -> int:
        """Hand the terminal over; the prompt's exit status. Raises MissingPart, MachineError."""
        return terminal.open_shell(self.run, self.parts)


def shell(
    profile: str = "la-hamina",
    cc: str = "cubic",
    *,
    on: str = "auto",
    clock: str = "real",
    gost: Path | None = None,
    needs_terminal: bool = True,
) -> Shell:
    """A prompt on a path with a congestion control. Raises BadInput, MachineError, MissingPart."""
    choice = machine.choose(on)
    native_kernel = choice.name == "native"
    run = single_run(
        profile=profile, cc=cc, machine=choice.name, clock="real" if native_kernel else clock
    )
    if needs_terminal and not native_kernel and not sys.stdin.isatty():
        raise BadInput("shell needs a terminal to talk to (standard input is not one)")
    return Shell(choice, run, parts.find_parts(gost))
