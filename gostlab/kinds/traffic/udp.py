"""udp: iperf3 by UDP at a rate, beside the tunnel or through it."""

import json
from pathlib import Path

from gostlab.declared.traffic import TrafficKind
from gostlab.describe.physics.limits import UDP_BURST_PKTS
from gostlab.describe.resolve.flows import Flow
from gostlab.guest.order import Order
from gostlab.guest.reports import FlowResult, Part, Ran
from gostlab.kinds.traffic.iperf3 import client_argv, server_argv
from gostlab.setup.parts import OwnProgram, version_tuple

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


def ask(order: Order, flow: Flow) -> list[str]:
    rate = offered(flow, order.programs.iperf3)
    return [*client_argv(order, flow), "-u", "-b", rate, "-l", str(flow.datagram_bytes)]


def offered(flow: Flow, iperf3: OwnProgram) -> str:
    """A udp flow's rate in iperf3's words. One without threads sends so many datagrams back to
    back; one with them sleeps between any two, and in bursts would take no notice of the rate.
    """
    rate_bps = (flow.rate_bps or 0) // flow.streams  # iperf3's is each stream's
    return (
        f"{rate_bps}"
        if version_tuple(iperf3.version) >= FIRST_WITH_THREADS
        else f"{rate_bps}/{UDP_BURST_PKTS}"
    )


def part(report: Path, from_s: float, to_s: float) -> Part:
    """From the receiver's intervals; of one that lies in it in part, as much as its share."""
    got = lost = sent = 0.0
    for each in json.loads(report.read_text(encoding="utf-8"))["intervals"]:
        told = each["sum"]
        inside_s = min(told["end"], to_s) - max(told["start"], from_s)
        share = max(0.0, inside_s) / told["seconds"] if told["seconds"] else 0.0
        got += share * told["bytes"]
        lost += share * told["lost_packets"]
        sent += share * told["packets"]
    return Part(round(got), None, round(lost), round(sent))


def read(flow: Flow, report: str, ran: Ran) -> FlowResult:
    total = json.loads(report)["end"]["sum"]
    lost, sent, seconds = int(total["lost_packets"]), int(total["packets"]), float(total["seconds"])
    got = max(0, sent - lost) * flow.datagram_bytes
    return ran.result(
        goodput_bps=8 * got / seconds,
        bytes=got,
        seconds=seconds,
        lost_datagrams=lost,
        sent_datagrams=sent,
    )
