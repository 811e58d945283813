"""Dispatch to traffic plugins and parse their clients' reports.

A plugin is one file in gostlab/traffic/. Besides its declaration (gostlab.registry.traffic) it
defines:

    server_command(context, flow, port) -> argv
    client_command(context, flow) -> argv
    read(flow, report, ran)            the flow's row from its client's report; raises TrafficError,
                                       or LookupError, TypeError or ValueError for one it cannot
                                       read
    part(flow, report, from_s, to_s)   if it is not tcp and has no rows: the receiver's counts in a
                                       part of the load
    rows(report)                       if it declares `rows`: each measurement's time in seconds
                                       from the flow's start, and its values
"""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from gostlab.guest.flow_result import (
    NO_OUTPUT,
    SERVER,
    FlowResult,
    FlowRun,
    TrafficError,
    server_report,
)
from gostlab.registry.plugin_loader import plugin_module
from gostlab.registry.traffic import TrafficKind, traffic_kind, traffic_kinds
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec

# All plugins are imported here: an import during the load would take some of the run's time.
CARRIERS = {name: plugin_module(declaration) for name, declaration in traffic_kinds().items()}
MAX_READ_BYTES = 2**24  # maximum number of bytes read to find a report's last line
MAX_LINE = 300  # maximum length of the last line in a message
# The error of an iperf3 client whose flow is over, and which had no results from its server for 10
# s: they queue behind the data in the tunnel. The server has them all the same.
NO_RESULTS = "unable to receive results"


def traffic_plugin(kind: TrafficKind) -> Any:
    return CARRIERS[kind.name]


def report_name(run: RunSpec, flow: FlowSpec, end: str = "") -> str:
    """Return the file name of a flow's report: iperf3.json if a run has one flow.

    With several flows the name contains the flow's.
    """
    suffix = f"-{flow.name}" if len(run.flows) > 1 else ""
    stem, extension = flow.traffic.report
    return f"{stem}{suffix}{end}{extension}"


def result_of(
    flow: FlowSpec,
    report: Path,
    ran_s: tuple[float, float],
    window_s: tuple[float, float] = (0.0, math.inf),
) -> FlowResult:
    """Return a flow's result from its report.

    `ran_s` is from when to when it ran. Of the flow's own measurements only those in `window_s` of
    the load count. Raises TrafficError if the report lacks the result.
    """
    began_s, ended_s = ran_s
    ran = FlowRun(
        flow.name, flow.traffic_type, round(began_s, 6), round(ended_s, 6), window_s, report
    )
    declaration = flow.traffic
    try:
        # A user-supplied program may print much, and nothing of it is parsed.
        if flow.is_tcp and has_no_results(declaration, report):
            server_text = server_report(report).read_text(encoding="utf-8")
            server_result: FlowResult = traffic_plugin(declaration).read(
                flow, server_text[server_text.find("{") :], ran
            )
            return replace(server_result, counted_by=SERVER)
        text = (
            "" if declaration.is_counted else report.read_text(encoding="utf-8", errors="replace")
        )
        result: FlowResult = traffic_plugin(declaration).read(flow, text, ran)
        return result
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise TrafficError(
            f"{flow.name}: {declaration.program}'s report cannot be read"
            f" ({type(error).__name__}: {error})"
        ) from error


def measured_rows(flow: FlowResult, report: Path) -> list[dict[str, float | str | None]]:
    """Return a flow's measurements, one row each, in time from the start of the load."""
    rows = traffic_plugin(traffic_kind(flow.traffic_type)).rows(report.read_text(encoding="utf-8"))
    return [
        {"t_s": round(flow.started_s + at_s, 6), "flow": flow.name, **row} for at_s, row in rows
    ]


def has_no_results(kind: TrafficKind, report: Path) -> bool:
    """Return whether a client had no results from its server when its flow was over."""
    return kind.by_iperf3 and last_output_line(report).startswith(NO_RESULTS)


def failure_of(run: RunSpec, flow: FlowSpec, folder: Path) -> str:
    """Return a message: which program failed, with the last line of its output."""
    label = f" ({flow.name})" if len(run.flows) > 1 else ""
    last_line = last_output_line(folder / report_name(run, flow))
    return f"{flow.traffic.program} failed{label}: {last_line}"


def last_output_line(report: Path) -> str:
    """Return iperf3's error from its JSON, or the last line of a program's output.

    Before the JSON there may be warnings.
    """
    with report.open("rb") as file:
        file.seek(max(0, report.stat().st_size - MAX_READ_BYTES))
        text = file.read().decode("utf-8", errors="replace").strip()
    try:
        return str(json.loads(text[text.find("{") :])["error"])
    except (ValueError, KeyError, TypeError):
        return text.splitlines()[-1][:MAX_LINE] if text else NO_OUTPUT
