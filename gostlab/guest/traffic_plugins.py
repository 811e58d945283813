"""What carries the kinds of traffic, and what a flow's report says.

A kind is one file in gostlab/traffic/. It has, beside its declaration
(gostlab.registry.traffic):

    serve(order, flow, port) -> argv   the command of the end that waits
    ask(order, flow) -> argv           the command of the end that begins
    read(flow, report, ran)            the flow's row from its client's report; raises TrafficError,
                                       or KeyError, TypeError or ValueError for one it cannot read
    part(flow, report, from_s, to_s)   if it is no tcp and has no rows: what its receiver's report
                                       says of a part of its time
    rows(report)                       if it declares `rows`: of each measurement its seconds from
                                       the flow's start, and what was measured
"""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from gostlab.guest.flow_result import (
    SAID_NOTHING,
    SERVER,
    FlowResult,
    Ran,
    TrafficError,
    server_report,
)
from gostlab.registry.folders import TRAFFIC_KINDS
from gostlab.registry.static_loader import module_of
from gostlab.registry.traffic import TrafficKind, traffic_kind, traffic_kinds
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec

# All of them, and now: an import while a run's clock goes would take some of the run's time.
CARRIERS = {name: module_of(TRAFFIC_KINDS, kind.module) for name, kind in traffic_kinds().items()}
MAX_READ_BYTES = 2**24  # of a report, to find what was said last
MAX_WORDS = 300  # of that
# The words of an iperf3's client whose flow is over, after 10 s without its server's results: they
# come through the tunnel's queues, too. The server has them all the same.
NO_RESULTS = "unable to receive results"


def carrier(kind: TrafficKind) -> Any:
    return CARRIERS[kind.name]


def report_name(run: RunSpec, flow: FlowSpec, end: str = "") -> str:
    """The file of a flow's own report: iperf3.json where a run has one flow, else with the flow's
    name.
    """
    own = f"-{flow.name}" if len(run.flows) > 1 else ""
    first, last = flow.traffic.report
    return f"{first}{own}{end}{last}"


def result_of(
    flow: FlowSpec,
    report: Path,
    ran_s: tuple[float, float],
    window_s: tuple[float, float] = (0.0, math.inf),
) -> FlowResult:
    """What a flow's report says it did; of measurements of its own, those in a window of the load.
    ran_s: from when to when. Raises TrafficError if the report lacks it.
    """
    began_s, ended_s = ran_s
    ran = Ran(flow.name, flow.kind, round(began_s, 6), round(ended_s, 6), window_s, report)
    kind = flow.traffic
    try:
        # What a program of the user's own prints may be much, and says nothing to the lab.
        if flow.is_tcp and has_no_results(kind, report):
            of_server = server_report(report).read_text(encoding="utf-8")
            told: FlowResult = carrier(kind).read(flow, of_server[of_server.find("{") :], ran)
            return replace(told, counted_by=SERVER)
        text = "" if kind.is_counted else report.read_text(encoding="utf-8", errors="replace")
        result: FlowResult = carrier(kind).read(flow, text, ran)
        return result
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise TrafficError(
            f"{flow.name}: {kind.program}'s report cannot be read ({type(error).__name__}: {error})"
        ) from error


def measured_rows(flow: FlowResult, report: Path) -> list[dict[str, Any]]:
    """What a flow measured, a row each, in time from the start of the load."""
    found = carrier(traffic_kind(flow.kind)).rows(report.read_text(encoding="utf-8"))
    return [
        {"t_s": round(flow.started_s + at_s, 6), "flow": flow.name, **row} for at_s, row in found
    ]


def has_no_results(kind: TrafficKind, report: Path) -> bool:
    """Whether a client gave up on its server's results when its flow was over."""
    return kind.by_iperf3 and last_said(report).startswith(NO_RESULTS)


def failure_of(run: RunSpec, flow: FlowSpec, folder: Path) -> str:
    """Which program failed, and what it said."""
    which = f" ({flow.name})" if len(run.flows) > 1 else ""
    said = last_said(folder / report_name(run, flow))
    return f"{flow.traffic.program} failed{which}: {said}"


def last_said(report: Path) -> str:
    """iperf3's own error from its JSON, before which it may warn, or the last line that a program
    printed.
    """
    with report.open("rb") as file:
        file.seek(max(0, report.stat().st_size - MAX_READ_BYTES))
        text = file.read().decode("utf-8", errors="replace").strip()
    try:
        return str(json.loads(text[text.find("{") :])["error"])
    except (ValueError, KeyError, TypeError):
        return text.splitlines()[-1][:MAX_WORDS] if text else SAID_NOTHING
