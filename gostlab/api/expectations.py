# SPDX-License-Identifier: MIT
"""Judge an experiment's expectations, and write them as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from gostlab.api.plan import Plan
from gostlab.atomic_write import write_whole
from gostlab.spec.expectations import Expectation
from gostlab.spec.experiment import ExperimentFile
from gostlab.spec.labels import cell_label
from gostlab.spec.yaml_source import BadInput

if TYPE_CHECKING:
    from gostlab.analysis.stats.expectations import Judgement
    from gostlab.results.run_result import RunResult
    from gostlab.scheduler.experiment_result import ExperimentResult

# Characters that XML 1.0 does not allow.
NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def expectations_of(file: ExperimentFile) -> dict[str, tuple[Expectation, ...]]:
    """Return an experiment's expectations by matrix."""
    return {matrix.name: matrix.expect for matrix in file.matrices if matrix.expect}


def judge(plan: Plan, outcome: ExperimentResult) -> list[Judgement]:
    """Judge the expectations of a plan's matrices over the runs of its outcome.

    A shard has none: its runs are a part of each cell's. Raises BadInput.
    """
    expectations = expectations_of(plan.file)
    if not expectations or plan.shard is not None:
        return []

    from gostlab.analysis.load.run_folder import RunFolder, load_run
    from gostlab.analysis.stats.expectations import evaluate_expectations

    runs = []
    for end in outcome.in_order:
        if end.run.matrix not in expectations:
            continue
        run = load_run(end.folder)
        if not isinstance(run, RunFolder):
            raise BadInput(f"{end.folder}: its run cannot be read, nor judged: {run.error}")
        runs.append(run)
    return evaluate_expectations(expectations, runs)


def write_junit(
    file: Path, outcomes: Sequence[ExperimentResult], judged: Mapping[str, Sequence[Judgement]]
) -> Path:
    """Write a JUnit report: a suite per experiment, a case per cell and per expectation.

    A cell's case fails if one of its runs did, and is skipped if this kernel cannot execute it.
    `judged` has the judgements by experiment. Raises OSError.
    """
    root = ElementTree.Element("testsuites", name="gostlab")
    for outcome in outcomes:
        suite = ElementTree.SubElement(root, "testsuite", name=outcome.experiment)
        add_cell_cases(suite, outcome)
        for judgement in judged.get(outcome.experiment, ()):
            classname = f"{outcome.experiment}.{judgement.matrix}"
            case = add_case(suite, classname, f"{judgement.cell}: {judgement.name}")
            add_junit_properties(
                case, value=judgement.value, run=judgement.run, folder=judgement.folder
            )
            if not judgement.passed:
                value = f"{judgement.value}: " if judgement.value else ""
                add_text(
                    case,
                    "failure",
                    f"{judgement.name}: {value}{judgement.reason}",
                    judgement.folder,
                )
    return write_suites(file, root)


def write_suites(file: Path, root: ElementTree.Element) -> Path:
    """Write test suites with the counts of their cases. Raises OSError."""
    tags = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    for suite in root:
        for name, tag in tags.items():
            suite.set(name, str(len(suite.findall(f".//{tag}"))))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return write_whole(file, text + b"\n")


def add_cell_cases(suite: ElementTree.Element, outcome: ExperimentResult) -> None:
    """Add a case per cell: whether all of its runs ended with a result that counts."""
    cells: dict[str, list[RunResult]] = {}
    for end in outcome.in_order:
        cells.setdefault(end.run.cell, []).append(end)
    for ends in cells.values():
        run = ends[0].run
        name = f"{cell_label(run.factors) or run.matrix}: its runs"
        case = add_case(suite, f"{outcome.experiment}.{run.matrix}", name)
        seconds = sum(float(end.status.get("wall_s") or 0) for end in ends)
        case.set("time", f"{seconds:.3f}")
        for end in ends:
            reason = str(end.status.get("error") or end.verdict)
            if end.state == "unsupported":
                add_text(case, "skipped", f"{end.run.name}: {reason}", str(end.folder))
            elif end.state == "failed":
                add_text(case, "error", f"{end.run.name}: {reason}", str(end.folder))
            elif end.state == "invalid":
                add_text(case, "failure", f"{end.run.name}: invalid", str(end.folder))
            if len(case):
                break  # a case has one result


def add_case(suite: ElementTree.Element, classname: str, name: str) -> ElementTree.Element:
    attributes = {"classname": clean_for_xml(classname), "name": clean_for_xml(name)}
    return ElementTree.SubElement(suite, "testcase", attributes)


def add_junit_properties(case: ElementTree.Element, **values: str) -> None:
    properties = ElementTree.SubElement(case, "properties")
    for name, value in values.items():
        if value:
            ElementTree.SubElement(properties, "property", name=name, value=clean_for_xml(value))


def add_text(case: ElementTree.Element, tag: str, message: str, text: str) -> None:
    ElementTree.SubElement(case, tag, message=clean_for_xml(message)).text = clean_for_xml(text)


def clean_for_xml(text: str) -> str:
    """Replace characters that XML does not allow."""
    return NOT_IN_XML.sub("?", text)
