# SPDX-License-Identifier: MIT
"""Implement `./lab cc test`: its options, and what it prints and writes."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from gostlab.cli import common
from gostlab.terminal_escape import StepOutput

SUMMARY = "run the test cases of BBR's draft, RFC 5681, RFC 9438 and RFC 9743 on one"


def add_test_action(actions: argparse._SubParsersAction[common.ArgumentParser]) -> None:
    """Declare `test` among the actions of `./lab cc`."""
    action = actions.add_parser("test", help=SUMMARY, description=SUMMARY)
    for add_argument in (
        common.declare_argument(
            "what", nargs="?", metavar="NAME", help="bbr, cubic, …; or your own C file"
        ),
        common.declare_repeatable_option(
            "--only", "CASE", "a case, or those of a document: bbr-a1, bbr, rfc9743"
        ),
        common.declare_repeatable_option(
            "--standard", "NAME", "a document that a file of your own claims: bbr, rfc5681, rfc9438"
        ),
        common.declare_flag("--list", "list the cases and run nothing"),
        common.declare_argument(
            "--junit", type=Path, metavar="FILE", help="write the cases as JUnit XML, too"
        ),
        common.jobs_option(),
        common.results_option("folder of the results, and of the page"),
        common.JSON,
    ):
        add_argument(action)


def test_cc(arguments: argparse.Namespace) -> int:
    """Run `./lab cc test`; return 1 if a case fails."""
    from gostlab.cc_cases import case_report, run_cases
    from gostlab.cc_cases.case import FAILED
    from gostlab.errors import BadInput

    cases = run_cases.select_cases(arguments.only)
    if arguments.list:
        lines = [f"{case.name:24} {case.title} ({case.source})" for case in cases]
        listed = [vars(case) for case in cases]
        common.print_either(arguments, listed, "\n".join(lines))
        return common.EXIT_OK
    if arguments.what is None:
        raise BadInput("cc test: of which congestion control? (./lab cc test bbr, or FILE.c)")
    steps = StepOutput()
    with run_cases.tested_control(arguments.what, arguments.standard) as subject:
        try:
            results = run_cases.run_cases(
                subject,
                cases,
                arguments.results,
                jobs=arguments.jobs,
                say=steps,
                progress=not arguments.json,
            )
        finally:
            steps.clear()
        folder = arguments.results / f"{subject.experiment}-pictures"
        pictured = [
            replace(result, picture=run_cases.draw_picture(result, folder)) for result in results
        ]
    page = case_report.write_page(
        folder.with_name(f"{subject.experiment}.html"),
        subject.label,
        run_cases.kernel_version(),
        pictured,
    )
    if arguments.junit:
        case_report.write_junit(arguments.junit, subject.label, pictured)
    if arguments.json:
        common.print_json([result.to_json() for result in pictured])
    else:
        case_report.print_table(pictured)
        print(f"page: {page}")
    failed = any(result.outcome.state == FAILED for result in pictured)
    return common.EXIT_FAILED if failed else common.EXIT_OK
