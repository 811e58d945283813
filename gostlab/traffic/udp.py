"""udp: iperf3 by UDP at a rate, beside the tunnel or through it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from gostlab.guest.flow_result import FlowInterval, FlowResult, Ran, server_report, share_inside
from gostlab.guest.load_context import LoadContext
from gostlab.install.locate import OwnProgram, version_tuple
from gostlab.registry.traffic import TrafficKind
from gostlab.spec.flow import FlowSpec
from gostlab.tcpmodel.constants import UDP_BURST_PKTS
from gostlab.traffic._iperf3 import client_argv, server_argv

TRAFFIC = TrafficKind(
    name="udp",
    says="iperf3 by UDP at a rate",
    program="iperf3",
    report=("iperf3", ".json"),
    must=("rate",),
    may=("through",),
    is_tcp=False,
    takes_tunnel=False,
    has_streams=True,
    by_iperf3=True,
    server_ends=True,
    charged=("iperf3/sender", "iperf3/receiver"),
)
FIRST_WITH_THREADS = (3, 16)  # the first iperf3 that has one for each stream
serve = server_argv


def ask(order: LoadContext, flow: FlowSpec) -> list[str]:
    rate = offered(flow, order.programs.iperf3)
    return [*client_argv(order, flow), "-u", "-b", rate, "-l", str(flow.datagram_bytes)]


def offered(flow: FlowSpec, iperf3: OwnProgram) -> str:
    """A udp flow's rate in iperf3's words. One without threads sends so many datagrams back to
    back; one with them sleeps between any two, and in bursts would take no notice of the rate.
    """
    rate_bps = (flow.rate_bps or 0) // flow.streams  # iperf3's is each stream's
    return (
        f"{rate_bps}"
        if version_tuple(iperf3.version) >= FIRST_WITH_THREADS
        else f"{rate_bps}/{UDP_BURST_PKTS}"
    )


def intervals(report: Path) -> list[Mapping[str, Any]]:
    """Return what an iperf3 counted in each of its intervals. Raises OSError, ValueError, KeyError.

    Its sums at the end mix the sender's counts with the receiver's, and other ones in each version.
    """
    text = report.read_text(encoding="utf-8")
    found = [each["sum"] for each in json.loads(text[text.find("{") :])["intervals"]]
    if not found or length_s(found) <= 0:
        raise ValueError(f"{report.name}: no intervals")
    return found


def by_end(flow: FlowSpec, report: Path) -> tuple[Path, Path]:
    """Return the reports of the end that sends and of the one that receives."""
    ends = report, server_report(report)
    return ends if flow.direction == "upload" else (ends[1], ends[0])


def length_s(told: Sequence[Mapping[str, Any]]) -> float:
    return float(told[-1]["end"]) - float(told[0]["start"])


def part(flow: FlowSpec, report: Path, from_s: float, to_s: float) -> FlowInterval:
    """Count by the receiver's intervals; of one that lies in it in part, as much as its share."""
    # A server's clock begins half a round trip before its client's, a client's that much later.
    later_s = flow.rtt_ms / 2000 * (-1 if flow.direction == "upload" else 1)
    got = lost = sent = 0.0
    for each in intervals(by_end(flow, report)[1]):
        share = share_inside(each["start"] + later_s, each["seconds"], from_s, to_s)
        got += share * each["bytes"]
        lost += share * each["lost_packets"]
        sent += share * each["packets"]
    return FlowInterval(round(got), None, round(lost), round(sent))


def arriving_s(got: Sequence[Mapping[str, Any]], waits_s: float) -> float:
    """Return for how long data arrived at a receiver, by its intervals.

    A server waits for a round trip (`waits_s`) and for what is queued until the first data are
    there, and after the last ones for the word that they were the last, which a full queue may
    lose. So the first interval with data and the last one are as long as their bytes take at the
    rate of those between.
    """
    full = [each for each in got if each["bytes"]]
    if len(full) < 3:
        return length_s(got) - waits_s
    first, *inner, last = full
    rate = median(each["bytes"] / each["seconds"] for each in inner)
    ends_s = (min(each["seconds"], each["bytes"] / rate) for each in (first, last))
    return min(length_s(inner) + sum(ends_s), length_s(got) - waits_s)


def read(flow: FlowSpec, report: str, ran: Ran) -> FlowResult:
    """Take what arrived from the receiver, over the time in which it arrived, or was sent if that
    is longer: of few datagrams the last one arrives an interval before the next would.
    """
    sent, got = map(intervals, by_end(flow, ran.report))
    size_bytes, lost, all_sent = (
        sum(int(each[name]) for each in got) for name in ("bytes", "lost_packets", "packets")
    )
    offered_bps = 8 * sum(int(each["bytes"]) for each in sent) / length_s(sent)
    sending_s = 8 * all_sent * flow.datagram_bytes / offered_bps if offered_bps else 0.0
    waits_s = flow.rtt_ms / 1000 if flow.direction == "upload" else 0.0
    seconds = round(max(arriving_s(got, waits_s), sending_s, 1e-6), 6)
    return ran.result(
        goodput_bps=8 * size_bytes / seconds,
        bytes=size_bytes,
        seconds=seconds,
        lost_datagrams=lost,
        sent_datagrams=all_sent,
        offered_bps=offered_bps,
    )
