# SPDX-License-Identifier: MIT
"""onoff: data in bursts over one TCP connection: on for a time, off for a time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gostlab.guest.flow_result import FlowResult, FlowRun, OnOff, share_inside
from gostlab.guest.load_context import LoadContext
from gostlab.registry.traffic import TrafficKind
from gostlab.spec.flow import FlowSpec
from gostlab.traffic._tcp_source import PYTHON, SourceReport, client_argv, read_reports, server_argv

TRAFFIC = TrafficKind(
    name="onoff",
    says="data in bursts over one TCP connection",
    program="the source",
    report=("onoff", ".json"),
    must=("on", "off"),
    may=("rate",),
    implied_by=("on", "off"),
    server_ends=True,
    pauses=True,
    is_greedy=False,
    client=PYTHON,
)
BIN_S = 0.01  # resolution of the arrivals that the receiver reports
server_command = server_argv


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    rate = [f"rate={flow.rate_bps}"] if flow.rate_bps else []
    return client_argv(context, flow, f"on={flow.on_s:g}", f"off={flow.off_s:g}", *rate)


def arrived_bytes(arrived: Sequence[tuple[float, int]], from_s: float, to_s: float) -> float:
    """Return the bytes that arrived in a time, with the share of what lies partly in it."""
    return sum(count * share_inside(at_s, BIN_S, from_s, to_s) for at_s, count in arrived)


def parse_bursts(both: SourceReport) -> list[Mapping[str, float]]:
    """Return each burst: its begin, lateness and length, and what arrived until the next one."""
    bursts, began_s = both["bursts"], both["began_s"]
    ends_s = [burst["began_s"] for burst in bursts[1:]] + [float("inf")]
    return [
        {
            "at_s": round(burst["began_s"] - began_s, 6),
            "late_s": round(burst["began_s"] - burst["due_s"], 6),
            "seconds": round(burst["end_s"] - burst["began_s"], 6),
            "written_bytes": burst["bytes"],
            "bytes": round(arrived_bytes(both["arrived"], burst["began_s"], end_s)),
        }
        for burst, end_s in zip(bursts, ends_s, strict=True)
    ]


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    """Return the receiver's bytes over all of the flow's time, bursts and pauses."""
    both = read_reports(flow, ran.report)
    from_s, to_s = (edge - ran.started_s + both["began_s"] for edge in ran.window_s)
    size_bytes = round(arrived_bytes(both["arrived"], from_s, to_s))
    bursts = [burst for burst in parse_bursts(both) if ran.is_measured(burst["at_s"])]
    on_s = sum(burst["seconds"] for burst in bursts)
    result = ran.result(
        goodput_bps=8 * size_bytes / flow.duration_s, size_bytes=size_bytes, seconds=flow.duration_s
    )
    on_off = OnOff(
        bursts=len(bursts),
        on_s=round(on_s, 6),
        max_late_s=max((burst["late_s"] for burst in bursts), default=0.0),
        on_bps=8 * sum(burst["bytes"] for burst in bursts) / on_s if on_s else 0.0,
    )
    return replace(result, on_off=on_off)
