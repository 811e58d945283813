# SPDX-License-Identifier: MIT
"""video: segments of a bit-rate ladder from nginx, chosen by throughput, and their playback."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TypedDict

from gostlab.guest.flow_result import FlowResult, FlowRun, Playback, TrafficError
from gostlab.guest.load_context import LoadContext
from gostlab.registry.folders import NODE_PROGRAMS
from gostlab.registry.traffic import DOWNLOAD, TrafficKind
from gostlab.spec.flow import FlowSpec
from gostlab.tcpmodel.mean_median import mean
from gostlab.traffic import _nginx

TRAFFIC = TrafficKind(
    name="video",
    says="segments of a bit-rate ladder, chosen by throughput and played",
    program="the player",
    report=("video", ".jsonl"),
    may=("ladder", "segment", "playback_buffer"),
    implied_by=("ladder",),
    direction=DOWNLOAD,
    by_nginx=True,
    pauses=True,
    is_greedy=False,
    client="/usr/bin/python3",
    charged=("nginx", ""),
    rows="segments",
)
PLAYER = str(NODE_PROGRAMS / "video_client.py")


class Segment(TypedDict):
    """One segment, as gostlab.guest.video_client prints it."""

    at_s: float  # request, since the player's start
    bitrate_bps: int
    size_bytes: int
    seconds: float  # from the request to the last byte
    stalled_s: float  # how long playing stalled meanwhile
    buffer_s: float  # seconds of video to play then


def server_command(context: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    sizes = {str(rate): round(rate * flow.segment_s / 8) for rate in flow.ladder_bps}
    return _nginx.server_argv(context, flow, port, sizes)


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    address, port = context.tunnel.entries[flow.name]
    times_s = (flow.duration_s, flow.segment_s, flow.playback_buffer_s)
    timing = [f"{seconds:g}" for seconds in times_s]
    return [TRAFFIC.client, PLAYER, address, str(port), *timing, *map(str, flow.ladder_bps)]


def parse_segments(report: str) -> list[Segment]:
    """Return the segments that a report lists."""
    lines = [json.loads(line) for line in report.splitlines() if line.startswith("{")]
    return [line for line in lines if "bitrate_bps" in line]


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    """Return the bytes that arrived, and the playback of the segments in the measured part.

    A segment lies in the part if it was requested in it. The stall that lasts when the time is up
    counts; its segment does not. Raises TrafficError if no segment arrived.
    """
    all_segments = parse_segments(report)
    if not all_segments:
        raise TrafficError(f"{flow.name}: no segment of its video arrived in its time")
    end = json.loads(report.strip().splitlines()[-1])
    segments = [segment for segment in all_segments if ran.is_measured(segment["at_s"])]
    first = all_segments[0]
    stalls_s = [segment["stalled_s"] for segment in segments]
    stalls_s += [end["stalled_s"]] if ran.is_measured(end["ended_s"]) else []
    stalls_s = [stalled_s for stalled_s in stalls_s if stalled_s]
    rates_bps = [segment["bitrate_bps"] for segment in segments]
    total = sum(
        segment["size_bytes"] * ran.share_measured(segment["at_s"], segment["seconds"])
        for segment in all_segments
    )
    total += end["bytes"] if ran.is_measured(end["ended_s"]) else 0
    playback = Playback(
        segments=len(segments),
        startup_s=round(first["at_s"] + first["seconds"], 6),
        stalls=len(stalls_s),
        stalled_s=round(sum(stalls_s), 6),
        mean_bitrate_bps=mean(rates_bps) if rates_bps else None,
        switches=sum(before != after for before, after in pairwise(rates_bps)),
    )
    return replace(ran.over_whole_time(round(total)), playback=playback)


def rows(report: str) -> list[tuple[float, Mapping[str, float | None]]]:
    return [
        (
            segment["at_s"],
            {
                name: segment[name]  # type: ignore[literal-required]
                for name in segment
                if name != "at_s"
            },
        )
        for segment in parse_segments(report)
    ]
