# SPDX-License-Identifier: MIT
"""ping: round trips measured by irtt, or by the lab's echo.

The echo runs where irtt is missing, or where UDP does not pass.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gostlab.guest.flow_result import (
    PING_BYTES,
    FlowResult,
    FlowRun,
    RoundTripsRow,
    TrafficError,
    percentile,
)
from gostlab.guest.load_context import LoadContext
from gostlab.registry.folders import NODE_PROGRAMS
from gostlab.registry.traffic import BOTH_WAYS, TrafficKind
from gostlab.spec.flow import FlowSpec
from gostlab.tcpmodel.mean_median import mean, median

TRAFFIC = TrafficKind(
    name="ping",
    says="round trips measured while others load the path",
    program="the ping",
    report=("ping", ".json"),
    may=("interval",),
    interval_ms=100.0,
    is_tcp=False,
    is_greedy=False,
    direction=BOTH_WAYS,
    prefers_udp=True,
    client="/usr/bin/python3",
    rows="pings",
)
ECHO = str(NODE_PROGRAMS / "rtt_echo.py")


def server_command(context: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    over = context.protocol_of(flow)
    if over == "udp" and context.programs.irtt:
        return [context.programs.irtt, "server", "-b", f"0.0.0.0:{port}", "-i", "0"]
    return [TRAFFIC.client, ECHO, "serve", over, str(port)]


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    address, port = context.tunnel.entries[flow.name]
    over = context.protocol_of(flow)
    if over != "udp" or not context.programs.irtt:
        timing = [f"{flow.interval_ms:g}", f"{flow.duration_s:g}"]
        return [TRAFFIC.client, ECHO, "ask", over, address, str(port), *timing]
    timing_args = f"-i {flow.interval_ms:g}ms -d {flow.duration_s:g}s -l {PING_BYTES}"
    args = f"client {timing_args} --stats=none --tstamp=none -Q -o - {address}:{port}"
    return [context.programs.irtt, *args.split()]


def parse_pings(report: Any) -> list[tuple[float, float | None]]:
    """Return all requests of an irtt report, or of the lab's echo.

    Each has its time in seconds from the first, and its round trip in ms, or None without an
    answer.
    """
    sent = report["round_trips"]
    if report.get("program") == "echo":
        return [(row["at_s"], row["rtt_ms"]) for row in sent]
    sent_ns = [row["timestamps"]["client"]["send"]["monotonic"] for row in sent]
    rtts_ns = [row["delay"].get("rtt") for row in sent]
    return [
        ((at_ns - sent_ns[0]) / 1e9, None if rtt_ns is None else rtt_ns / 1e6)
        for at_ns, rtt_ns in zip(sent_ns, rtts_ns, strict=True)
    ]


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    parsed = json.loads(report)
    pings = [ping for ping in parse_pings(parsed) if ran.is_measured(ping[0])]
    rtts_ms = [rtt_ms for _, rtt_ms in pings if rtt_ms is not None]
    if not rtts_ms:
        raise TrafficError(f"{flow.name}: none of {len(pings)} requests was answered")
    is_echo = parsed.get("program") == "echo"
    round_trips = RoundTripsRow(
        over=parsed["over"] if is_echo else "udp",
        program="echo" if is_echo else f"irtt {parsed['version']['irtt']}",
        sent=len(pings),
        lost=len(pings) - len(rtts_ms),
        min_ms=round(min(rtts_ms), 6),
        mean_ms=round(mean(rtts_ms), 6),
        median_ms=round(median(rtts_ms), 6),
        p95_ms=round(percentile(rtts_ms, 0.95), 6),
        p99_ms=round(percentile(rtts_ms, 0.99), 6),
        max_ms=round(max(rtts_ms), 6),
    )
    return replace(ran.over_whole_time(PING_BYTES * len(rtts_ms)), round_trips=round_trips)


def rows(report: str) -> list[tuple[float, Mapping[str, float | None]]]:
    return [(at_s, {"rtt_ms": rtt_ms}) for at_s, rtt_ms in parse_pings(json.loads(report))]
