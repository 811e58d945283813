# SPDX-License-Identifier: MIT
"""Write the results of test cases: a table, JSON, JUnit XML and one page with all pictures."""

from __future__ import annotations

import base64
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from gostlab.api.expectations import add_case, add_text, clean_for_xml, write_suites
from gostlab.atomic_write import write_whole
from gostlab.cc_cases.case import FAILED, NOT_APPLICABLE, PASSED, CaseResult
from gostlab.registry.folders import ANALYSIS
from gostlab.scheduler import summary

if TYPE_CHECKING:
    from gostlab.console import Console

STYLES = {PASSED: "green", FAILED: "bold red", NOT_APPLICABLE: "dim"}
TEMPLATE = "page.html.j2"


def counts_line(results: Sequence[CaseResult]) -> str:
    """Return how many cases passed, failed and are not applicable."""
    counts = Counter(result.outcome.state for result in results)
    return ", ".join(f"{counts[state]} {state}" for state in (PASSED, FAILED, NOT_APPLICABLE))


def print_table(results: Sequence[CaseResult]) -> None:
    """Print a row per case, then the number of each state."""
    from rich.text import Text

    console: Console = summary.console_on(sys.stdout)
    table = summary.plain_table()
    for heading in ("case", "", "value", "bound", "source", "s"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "s" else "left")
    for result in results:
        state = result.outcome.state
        table.add_row(
            result.case.name,
            Text(state, style=STYLES[state]),
            result.value,
            result.bound,
            result.case.source,
            f"{result.seconds:.1f}" if result.seconds else "",
        )
    console.print(table)
    console.print(counts_line(results))


def write_junit(file: Path, label: str, results: Sequence[CaseResult]) -> Path:
    """Write a JUnit report: a case per test case, skipped if not applicable. Raises OSError."""
    root = ElementTree.Element("testsuites", name="gostlab")
    suite = ElementTree.SubElement(root, "testsuite", name=clean_for_xml(label))
    for result in results:
        case = add_case(suite, label, f"{result.case.name}: {result.case.title}")
        case.set("time", f"{result.seconds:.3f}")
        message = f"{result.value} ({result.bound or result.case.source})"
        if result.outcome.state == FAILED:
            add_text(case, "failure", message, "\n".join(map(str, result.folders)))
        elif result.outcome.state == NOT_APPLICABLE:
            ElementTree.SubElement(case, "skipped", message=clean_for_xml(message))
    return write_suites(file, root)


def write_page(file: Path, label: str, kernel: str, results: Sequence[CaseResult]) -> Path:
    """Write one page with the table and every picture. Raises OSError."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    style = (ANALYSIS / "report" / "report.css").read_text(encoding="utf-8")
    text = environment.get_template(TEMPLATE).render(
        style=Markup(style),
        label=label,
        kernel=kernel,
        counts=counts_line(results),
        results=results,
        image=image_uri,
    )
    return write_whole(file, text.encode("utf-8", "replace"))


def image_uri(file: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"
