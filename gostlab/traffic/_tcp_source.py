# SPDX-License-Identifier: MIT
"""Build the command lines of transfers and on-off sources, and read their two ends' reports."""

import json
from pathlib import Path
from typing import TypedDict

from gostlab.guest.load_context import LoadContext
from gostlab.registry.congestion_controls import kernel_name
from gostlab.registry.folders import NODE_PROGRAMS
from gostlab.spec.flow import FlowSpec

PYTHON = "/usr/bin/python3"
PROGRAM = str(NODE_PROGRAMS / "tcp_source.py")


class Burst(TypedDict):
    """One burst as its sender reports it, in seconds of the monotonic clock."""

    due_s: float
    began_s: float
    end_s: float
    bytes: int


class SourceReport(TypedDict):
    """Represent the joint report of a flow's ends, in seconds of the monotonic clock."""

    began_s: float  # before the client connected
    bytes: int  # payload that the receiver got
    last_s: float | None  # when its last byte arrived
    arrived: list[tuple[float, int]]  # bytes by the begin of their hundredth of a second
    bursts: list[Burst]


def server_argv(context: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    return [PYTHON, PROGRAM, "serve", str(port)]


def client_argv(context: LoadContext, flow: FlowSpec, *what: str) -> list[str]:
    address, port = context.tunnel.entries[flow.name]
    argv = [PYTHON, PROGRAM, "ask", address, str(port), flow.direction, f"{flow.duration_s:g}"]
    argv += what
    if flow.cc != context.node_cc.get(flow.data_sender, ""):
        # Another flow's congestion control is the host's default.
        argv.append(f"cc={kernel_name(str(flow.cc))}")
    return argv


def read_reports(flow: FlowSpec, client_report: Path) -> SourceReport:
    """Return what both ends of a flow report. Raises OSError, ValueError or KeyError."""
    server_report = client_report.with_name(f"{flow.traffic_type}-server-{flow.name}.log")
    reports = [
        json.loads(path.read_text(encoding="utf-8").strip().splitlines()[-1])
        for path in (client_report, server_report)
    ]
    sender, receiver = reports if flow.direction == "upload" else reports[::-1]
    return {
        "began_s": float(reports[0]["began_s"]),
        "bytes": int(receiver["bytes"]),
        "last_s": receiver["last_s"],
        "arrived": [(float(at_s), int(count)) for at_s, count in receiver["arrived"]],
        "bursts": sender.get("bursts", []),
    }
