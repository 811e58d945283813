# SPDX-License-Identifier: MIT
"""udp: iperf3 by UDP at a rate, outside the tunnel or through it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from gostlab.guest.flow_result import FlowInterval, FlowResult, FlowRun, server_report, share_inside
from gostlab.guest.load_context import LoadContext
from gostlab.install.locate import OwnProgram, version_tuple
from gostlab.registry.traffic import TrafficKind
from gostlab.spec.flow import FlowSpec
from gostlab.tcpmodel.mean_median import median
from gostlab.tcpmodel.run_limits import UDP_BURST_PKTS
from gostlab.traffic._iperf3 import client_argv, server_argv

TRAFFIC = TrafficKind(
    name="udp",
    says="iperf3 by UDP at a rate",
    program="iperf3",
    report=("iperf3", ".json"),
    must=("rate",),
    may=("through",),
    is_tcp=False,
    is_greedy=False,
    takes_tunnel=False,
    has_streams=True,
    by_iperf3=True,
    server_ends=True,
    charged=("iperf3/sender", "iperf3/receiver"),
)
FIRST_WITH_THREADS = (3, 16)  # the first iperf3 with one thread per stream
server_command = server_argv


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    rate = offered_rate(flow, context.programs.iperf3)
    return [*client_argv(context, flow), "-u", "-b", rate, "-l", str(flow.datagram_bytes)]


def offered_rate(flow: FlowSpec, iperf3: OwnProgram) -> str:
    """Return a udp flow's rate as an argument of iperf3.

    An iperf3 without threads sends this many datagrams back to back. One with threads sleeps
    between any two, and would ignore the rate if it sent bursts.
    """
    rate_bps = (flow.rate_bps or 0) // flow.streams  # iperf3's rate is per stream
    return (
        f"{rate_bps}"
        if version_tuple(iperf3.version) >= FIRST_WITH_THREADS
        else f"{rate_bps}/{UDP_BURST_PKTS}"
    )


class UdpInterval(TypedDict):
    """The counts of an interval of an iperf3 report, all streams together."""

    start: float
    end: float
    seconds: float
    bytes: int
    lost_packets: int
    packets: int


def intervals(report: Path) -> list[UdpInterval]:
    """Return the counts of each interval of an iperf3 report. Raises OSError, ValueError, KeyError.

    Its totals at the end mix the sender's counts with the receiver's, differently in each version.
    """
    text = report.read_text(encoding="utf-8")
    sums = [interval["sum"] for interval in json.loads(text[text.find("{") :])["intervals"]]
    if not sums or length_s(sums) <= 0:
        raise ValueError(f"{report.name}: no intervals")
    return sums


def sender_and_receiver_reports(flow: FlowSpec, report: Path) -> tuple[Path, Path]:
    """Return the reports of the end that sends and of the one that receives."""
    ends = report, server_report(report)
    return ends if flow.direction == "upload" else (ends[1], ends[0])


def length_s(sums: Sequence[UdpInterval]) -> float:
    return float(sums[-1]["end"]) - float(sums[0]["start"])


def part(flow: FlowSpec, report: Path, from_s: float, to_s: float) -> FlowInterval:
    """Return the receiver's counts of a part of the load.

    An interval that lies partly in it counts with its share.
    """
    # A server's clock begins half a round trip before its client's for uploads, and as much after
    # it for downloads.
    offset_s = flow.rtt_ms / 2000 * (-1 if flow.direction == "upload" else 1)
    received_bytes = lost = sent = 0.0
    for interval in intervals(sender_and_receiver_reports(flow, report)[1]):
        share = share_inside(interval["start"] + offset_s, interval["seconds"], from_s, to_s)
        received_bytes += share * interval["bytes"]
        lost += share * interval["lost_packets"]
        sent += share * interval["packets"]
    return FlowInterval(round(received_bytes), None, round(lost), round(sent))


def arriving_s(received: Sequence[UdpInterval], waits_s: float) -> float:
    """Return for how long data arrived at a receiver, by its intervals.

    A server waits for a round trip (`waits_s`) and for queued data until the first data arrive.
    After the last data it waits for the end of the test, which a full queue may lose. So the first
    and the last interval with data are taken as long as their bytes take at the median rate of
    those between.
    """
    full = [interval for interval in received if interval["bytes"]]
    if len(full) < 3:
        return length_s(received) - waits_s
    first, *inner, last = full
    rate = median(interval["bytes"] / interval["seconds"] for interval in inner)
    ends_s = (min(interval["seconds"], interval["bytes"] / rate) for interval in (first, last))
    return min(length_s(inner) + sum(ends_s), length_s(received) - waits_s)


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    """Return the receiver's bytes over the time in which they arrived, or were sent if longer.

    Of few datagrams, the last one arrives one interval before the next one would.
    """
    sent, received = map(intervals, sender_and_receiver_reports(flow, ran.report))
    size_bytes = sum(int(interval["bytes"]) for interval in received)
    lost = sum(int(interval["lost_packets"]) for interval in received)
    all_sent = sum(int(interval["packets"]) for interval in received)
    offered_bps = 8 * sum(int(interval["bytes"]) for interval in sent) / length_s(sent)
    sending_s = 8 * all_sent * flow.datagram_bytes / offered_bps if offered_bps else 0.0
    waits_s = flow.rtt_ms / 1000 if flow.direction == "upload" else 0.0
    seconds = round(max(arriving_s(received, waits_s), sending_s, 1e-6), 6)
    return replace(
        ran.result(goodput_bps=8 * size_bytes / seconds, size_bytes=size_bytes, seconds=seconds),
        lost_datagrams=lost,
        sent_datagrams=all_sent,
        offered_bps=offered_bps,
    )
