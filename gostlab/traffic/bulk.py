# SPDX-License-Identifier: MIT
"""bulk: up to thousands of TCP connections by one light process per end."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from gostlab.guest.flow_result import FlowResult, FlowRun, stream_shares
from gostlab.guest.load_context import LoadContext
from gostlab.registry.congestion_controls import kernel_name
from gostlab.registry.folders import NODE_PROGRAMS
from gostlab.registry.traffic import MAX_STREAMS, TrafficKind
from gostlab.spec.flow import FlowSpec

PYTHON = "/usr/bin/python3"
PROGRAM = str(NODE_PROGRAMS / "bulk_tcp.py")
TRAFFIC = TrafficKind(
    name="bulk",
    says="up to thousands of TCP connections by one process per end",
    program="the bulk sender",
    report=("bulk", ".json"),
    has_streams=True,
    max_streams=MAX_STREAMS,
    server_ends=True,
    control_bytes=64,  # a client that receives sends bulk_tcp.HELLO
    pays_calls=False,
    client=PYTHON,
)


class EndReport(TypedDict, total=False):
    """The report of a flow's end, as gostlab.guest.bulk_tcp prints it; instants in s."""

    began_s: float  # client: before it connected
    connected_s: float  # client
    from_s: float  # before its first write or read
    ended_s: float
    ended_early: int
    retransmitted: int  # sender
    received: list[int]  # receiver


def server_command(context: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    return [PYTHON, PROGRAM, "serve", str(port)]


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    address, port = context.tunnel.entries[flow.name]
    argv = [PYTHON, PROGRAM, "ask", address, str(port), flow.direction]
    argv += [f"{flow.duration_s:g}", str(flow.streams)]
    if flow.cc != context.node_cc.get(flow.data_sender, ""):
        # Another flow's congestion control is the host's default.
        argv.append(f"cc={kernel_name(str(flow.cc))}")
    return argv


def read_report(report: Path) -> EndReport:
    """Return the last line of an end's output. Raises OSError, ValueError or IndexError."""
    parsed: EndReport = json.loads(report.read_text(encoding="utf-8").strip().splitlines()[-1])
    return parsed


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    """Return the receiver's bytes over the time from the sender's first write to the end."""
    client = read_report(ran.report)
    server = read_report(ran.report.with_name(f"{flow.traffic_type}-server-{flow.name}.log"))
    sender, receiver = (client, server) if flow.direction == "upload" else (server, client)
    seconds = receiver["ended_s"] - sender["from_s"]
    size_bytes = sum(receiver["received"])
    result = ran.result(
        goodput_bps=8 * size_bytes / seconds,
        size_bytes=size_bytes,
        seconds=round(seconds, 6),
        retransmits=sender["retransmitted"],
    )
    by_stream = stream_shares(
        [8 * count / seconds for count in receiver["received"]],
        connected_s=client["connected_s"] - client["began_s"],
        ended_early=max(client["ended_early"], server["ended_early"]),
    )
    started_s = round(ran.started_s + sender["from_s"] - client["began_s"], 6)
    return replace(result, started_s=started_s, by_stream=by_stream)
