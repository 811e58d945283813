# SPDX-License-Identifier: MIT
"""short: downloads from nginx one after another, or at an interval, of alternating sizes."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

from gostlab.guest.flow_result import FetchTimes, FlowResult, FlowRun, percentile
from gostlab.guest.load_context import LoadContext
from gostlab.registry.folders import NODE_PROGRAMS
from gostlab.registry.traffic import DOWNLOAD, TrafficKind
from gostlab.spec.flow import FlowSpec
from gostlab.tcpmodel.mean_median import median
from gostlab.traffic._nginx import server_argv

TRAFFIC = TrafficKind(
    name="short",
    says="short downloads one after another",
    program="the downloads",
    report=("short", ".jsonl"),
    may=("sizes", "interval"),
    direction=DOWNLOAD,
    by_nginx=True,
    is_brief=True,
    client="/usr/bin/python3",
    charged=("nginx", "wget"),
    rows="fetches",
)
FETCHES = str(NODE_PROGRAMS / "short_downloads.py")


def server_command(context: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    return server_argv(context, flow, port, {str(size): size for size in flow.sizes_bytes})


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    address, port = context.tunnel.entries[flow.name]
    sizes = [str(size) for size in flow.sizes_bytes]
    every = [f"--every={flow.interval_ms / 1000:g}"] if flow.interval_ms else []
    return [TRAFFIC.client, FETCHES, *every, address, str(port), f"{flow.duration_s:g}", *sizes]


class Fetch(TypedDict):
    """One download, as gostlab.guest.short_downloads prints it."""

    at_s: float
    size_bytes: int
    seconds: float


def parse_fetches(report: str) -> list[Fetch]:
    """Return the downloads that a report lists."""
    return [json.loads(line) for line in report.splitlines() if line.startswith("{")]


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    by_size: dict[int, list[float]] = {}
    for fetch in parse_fetches(report):
        if ran.is_measured(fetch["at_s"]):
            by_size.setdefault(fetch["size_bytes"], []).append(fetch["seconds"])
    rows = [
        FetchTimes(
            size_bytes=size,
            count=len(took_s),
            median_s=round(median(took_s), 6),
            p95_s=round(percentile(took_s, 0.95), 6),
            max_s=max(took_s),
        )
        for size, took_s in sorted(by_size.items())
    ]
    # A download that lies partly in a window counts with that share of its bytes.
    total = sum(
        fetch["size_bytes"] * ran.share_measured(fetch["at_s"], fetch["seconds"])
        for fetch in parse_fetches(report)
    )
    return replace(ran.over_whole_time(round(total)), fetches=rows)


def rows(report: str) -> list[tuple[float, Mapping[str, float | None]]]:
    return [
        (fetch["at_s"], {"size_bytes": fetch["size_bytes"], "seconds": fetch["seconds"]})
        for fetch in parse_fetches(report)
    ]
