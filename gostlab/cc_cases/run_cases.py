# SPDX-License-Identifier: MIT
"""Run the test cases of a congestion control: scenarios in guests, matrices by the scheduler.

What is finished in the results folder is not run again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from gostlab import api, results
from gostlab.cc_cases import case_plots, scenarios
from gostlab.cc_cases.bbr_draft import BBR
from gostlab.cc_cases.bbr_draft import STANDARD as BBR_STANDARD
from gostlab.cc_cases.case import FAILED, NOT_APPLICABLE, Case, CaseFinding, CaseOutcome, CaseResult
from gostlab.cc_cases.window_cases import CUBIC, RENO, WINDOW
from gostlab.errors import BadInput
from gostlab.install import locate
from gostlab.install.kernel_modules import module_for
from gostlab.registry import congestion_controls
from gostlab.results.run_result import RunResult
from gostlab.spec.experiment import ExperimentFile, load_experiment

STANDARDS = (BBR_STANDARD, RENO, CUBIC)
CLAIMED_IN_LINUX = {"reno": (RENO,), "cubic": (CUBIC,)}
CASES_FILE = Path(__file__).with_name("cases.yaml")
SHOWN_STATES = "STARTUP|DRAIN|"
NAME_LETTERS, DIGEST_LETTERS = 8, 6


@dataclass(frozen=True)
class TestedControl:
    """Represent the congestion control under test."""

    label: str  # name or file, as the user gave it
    cc: str  # the level of `cc`
    source: str | None  # text of its C file; None for one of Linux's
    standards: tuple[str, ...]  # documents that it claims

    @property
    def experiment(self) -> str:
        """Return the name of its results' folder."""
        return "cc-test-" + re.sub(r"[^A-Za-z0-9-]", "-", self.cc)


@cache
def experiment_file() -> ExperimentFile:
    return load_experiment(str(CASES_FILE))


@cache
def all_cases() -> Mapping[str, Case]:
    """Return every case by name: of drafts, of RFCs on the window, and of cases.yaml."""
    expected = [
        Case(matrix.name, matrix.title, matrix.note, matrix.name, "")
        for matrix in experiment_file().matrices
        if matrix.expect
    ]
    others = {case.name: case for case in expected}
    return {**BBR.cases, **WINDOW.cases, **others}


def select_cases(wanted: Sequence[str]) -> list[Case]:
    """Return the cases whose names are or begin with these; all for none. Raises BadInput."""
    known = all_cases()
    for name in wanted:
        if not any(matches(case, name) for case in known):
            raise BadInput(f"--only {name}: no such case (./lab cc test --list)")
    return [
        case
        for name, case in known.items()
        if not wanted or any(matches(name, pattern) for pattern in wanted)
    ]


def matches(case: str, wanted: str) -> bool:
    """Return whether a case has a name, or is of a document: bbr, bbr-a1, rfc9743."""
    return case == wanted or case.startswith(f"{wanted}-")


# -- the congestion control


@contextmanager
def tested_control(what: str, standards: Sequence[str] = ()) -> Iterator[TestedControl]:
    """Provide a congestion control by name, or from a C file until the end of the block.

    Raises BadInput, CompileError, MissingPart, MachineError, OSError.
    """
    for standard in standards:
        if standard not in STANDARDS:
            raise BadInput(f"--standard {standard}: no such document ({', '.join(STANDARDS)})")
    if not (what.endswith(".c") or "/" in what):
        control = congestion_controls.find_control(congestion_controls.parse_control(what))
        source = None if control is None else congestion_controls.source_text(control.source)
        yield TestedControl(what, what, source, claimed_documents(what, source, standards))
        return
    path = Path(what)
    source = congestion_controls.source_text(path)
    registers = congestion_controls.REGISTERED.findall(source)
    if len(registers) > 1:
        raise BadInput(f"{what}: registers {' and '.join(registers)}: one control is tested")
    for name in registers:
        if not congestion_controls.NAME.fullmatch(name):
            raise BadInput(
                f"{what}: {name!r} in its struct tcp_congestion_ops: not a name for a congestion"
                f" control (at most {congestion_controls.MAX_CHARACTERS} letters, digits, _ . and"
                " -)"
            )
    digest = hashlib.sha256(source.encode()).hexdigest()[:DIGEST_LETTERS]
    # A name of its own: nothing that the user has added is replaced, and its results are found.
    stem = registers[0] if registers else re.sub(r"[^A-Za-z0-9]", "", path.stem) or "cc"
    name = f"{stem[:NAME_LETTERS]}.{digest}"
    with api.temporary_cc(path, name):
        yield TestedControl(what, name, source, claimed_documents(stem, source, standards))


def claimed_documents(name: str, source: str | None, standards: Sequence[str]) -> tuple[str, ...]:
    """Return the documents that a control claims: as the user says, or by what it is."""
    if standards:
        return tuple(standards)
    if source is None:
        return CLAIMED_IN_LINUX.get(name, ())
    return (BBR_STANDARD,) if SHOWN_STATES in source else ()


def inapplicable_reason(case: Case, subject: TestedControl) -> str:
    """Return why a case is not applicable, or an empty string."""
    if not case.standard:
        return ""
    if case.standard == BBR_STANDARD:
        if subject.source is None:
            return "Linux's own file shows no state of BBR's"
        if "GOSTLAB_SHOW" not in subject.source:
            return "its file shows no state of BBR's (GOSTLAB_SHOW in cc/gostlab_cc.h)"
    if case.standard not in subject.standards:
        document = "BBR's draft" if case.standard == BBR_STANDARD else case.standard.upper()
        return f"it does not claim {document} (--standard {case.standard})"
    return ""


# -- running


def run_cases(
    subject: TestedControl,
    cases: Sequence[Case],
    folder: Path,
    *,
    jobs: int | None,
    say: Callable[[str], None],
    progress: Any = False,
) -> list[CaseResult]:
    """Run what cases need and is missing, and return their results in the same order.

    Raises BadInput, MissingPart, MachineError, ResultsError, OSError.
    """
    wanted = [case for case in cases if not inapplicable_reason(case, subject)]
    runs = dict.fromkeys(case.run for case in wanted)
    traced = run_scenarios(
        subject, [n for n in runs if n in scenarios.SCENARIOS], folder, jobs, say
    )
    matrices = [name for name in runs if name not in scenarios.SCENARIOS]
    evaluated = {**traced}
    evaluated |= run_matrices(subject, matrices, folder, jobs, progress)
    return [
        evaluated[case.run](case)
        if case in wanted
        else CaseResult(case, CaseOutcome(NOT_APPLICABLE, (), inapplicable_reason(case, subject)))
        for case in cases
    ]


Evaluator = Callable[[Case], CaseResult]


def run_scenarios(
    subject: TestedControl,
    names: Sequence[str],
    folder: Path,
    jobs: int | None,
    say: Callable[[str], None],
) -> dict[str, Evaluator]:
    """Run scenarios and return how to evaluate a case of each."""
    if not names:
        return {}
    kernel = locate.require_kernel(locate.find_parts())
    module = module_for(subject.cc, kernel)
    if module is None:
        raise BadInput(f"{subject.label}: no module: it shows no state")
    with results.experiment_lock(folder, subject.experiment, shared=False):
        folders = {
            name: folder
            / subject.experiment
            / scenario_folder(name, subject.cc, module.control.sha256, module.arguments)
            for name in names
        }
        took_s = scenarios.run_scenarios(
            names, subject.cc, module, kernel, folders, jobs=jobs, say=say
        )

    def evaluator(name: str) -> Evaluator:
        trace = scenarios.read_trace(folders[name])

        def evaluate(case: Case) -> CaseResult:
            outcome = CaseOutcome.of(lambda: BBR.functions[case.name](trace))
            return CaseResult(case, outcome, took_s.get(name, 0.0), (folders[name],))

        return evaluate

    return {name: evaluator(name) for name in names}


def scenario_folder(name: str, cc: str, sha256: str, arguments: str) -> str:
    """Return a folder's name with a digest of what determines the scenario's rows."""
    sender = Path(scenarios.__file__).with_name("in_guest.py").read_text(encoding="utf-8")
    inputs = json.dumps([scenarios.scenario_json(name, cc), sha256, arguments, sender])
    digest = hashlib.sha256(inputs.encode()).hexdigest()[:8]
    return f"scenario-{name.replace(' ', '-')}-{digest}"


def run_matrices(
    subject: TestedControl, names: Collection[str], folder: Path, jobs: int | None, progress: Any
) -> dict[str, Evaluator]:
    """Run matrices of cases.yaml and return how to evaluate a case of each."""
    if not names:
        return {}
    file = replace(experiment_file(), name=subject.experiment)
    experiment = api.Experiment.from_file(
        file, settings={"cc": [subject.cc]}, matrices=names, machine="sandbox"
    )
    old = {end.run.name for end in cached_results(experiment, folder)}
    outcome = experiment.run(folder, jobs=jobs, progress=progress).wait()
    ends: dict[str, list[RunResult]] = {name: [] for name in names}
    for end in outcome.in_order:
        ends[end.run.matrix].append(end)
    judged = api.judge(experiment, outcome)

    def evaluate(case: Case) -> CaseResult:
        of_case = ends[case.run]
        spoilt = [end for end in of_case if not end.counts]
        seconds = sum(
            float(end.status.get("wall_s") or 0) for end in of_case if end.run.name not in old
        )
        if spoilt:
            reason = f"its run is {spoilt[0].state}: {spoilt[0].error or 'see fidelity.json'}"
            outcome = CaseOutcome(FAILED, (), reason)
        elif case.name in WINDOW.functions:
            outcome = CaseOutcome.of(lambda: WINDOW.functions[case.name](of_case[0]))
        else:
            outcome = CaseOutcome.judged(
                to_finding(judgement, several=len(of_case) > 1)
                for judgement in judged
                if judgement.matrix == case.run
            )
        return CaseResult(case, outcome, seconds, tuple(end.folder for end in of_case))

    return dict.fromkeys(names, evaluate)


def cached_results(experiment: api.Experiment, folder: Path) -> Iterator[RunResult]:
    """Yield the results that are in a folder already."""
    for task in experiment.tasks(folder):
        if results.is_finished(task.folder, task.run):
            yield RunResult.read(task.folder, task.run)


def draw_picture(result: CaseResult, folder: Path) -> Path | None:
    """Draw a case's picture into a folder; None if it did not run. Raises OSError."""
    if not result.folders:
        return None
    ends = {}
    for run_folder in result.folders:
        run = results.read_run(run_folder)
        if run is not None:
            ends[run_folder] = RunResult.read(run_folder, run)
    return case_plots.draw_case(result, folder / f"{result.case.name}.png", ends)


def kernel_version() -> str:
    return str(locate.kernel_record(locate.require_kernel(locate.find_parts()))["version"])


def to_finding(judged: Any, *, several: bool) -> CaseFinding:
    """Return a judged expectation as a finding."""
    where = f"{judged.cell}: " if several else ""
    value = judged.value or judged.reason
    metric, bound = re.split(r"\s*(?=[<>=])", judged.text, maxsplit=1)
    bound = bound.replace(">=", "≥").replace("<=", "≤")
    return CaseFinding(f"{where}{metric}: {value}", bound, judged.passed)
