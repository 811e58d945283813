"""iperf3, at both ends: tcp flows, and udp ones at a rate, beside the tunnel or through it."""

import json
from pathlib import Path

from gostlab.declared.controls import kernel_name
from gostlab.declared.traffic import TrafficKind
from gostlab.describe.physics.limits import UDP_BURST_PKTS
from gostlab.describe.resolve.flows import Flow
from gostlab.guest.order import Order
from gostlab.guest.reports import FlowResult, Part, Ran
from gostlab.setup.parts import OwnProgram, version_tuple

TRAFFIC = (
    TrafficKind(
        name="tcp",
        says="iperf3 by TCP",
        program="iperf3",
        report=("iperf3", ".json"),
        has_streams=True,
        by_iperf3=True,
        server_ends=True,
        charged=("iperf3/sender", "iperf3/receiver"),
    ),
    TrafficKind(
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
    ),
)
FIRST_WITH_THREADS = (3, 16)  # the first iperf3 that has one for each stream


def serve(order: Order, flow: Flow, port: int) -> list[str]:
    """One test, then it ends."""
    return [str(order.programs.iperf3.path), "-s", "-p", str(port), "-1", "-J"]


def ask(order: Order, flow: Flow) -> list[str]:
    """The thesis's command (section 4.2), with JSON out."""
    iperf3, (address, port) = order.programs.iperf3, order.tunnel.entries[flow.name]
    argv = [str(iperf3.path), "-c", address, "-p", str(port)]
    argv += ["-t", f"{flow.duration_s:g}", "-P", str(flow.streams), "-i", "1", "-J"]
    if flow.direction == "download":
        argv.append("-R")
    if not flow.is_tcp:
        return [*argv, "-u", "-b", offered(flow, iperf3), "-l", str(flow.datagram_bytes)]
    if flow.cc != order.node_cc.get(flow.data_sender, ""):
        argv += ["-C", kernel_name(str(flow.cc))]  # two flows of one host, each with its own
    return argv


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
    end = json.loads(report)["end"]
    if flow.is_tcp:
        received = end["sum_received"]
        return ran.result(
            goodput_bps=float(received["bits_per_second"]),
            bytes=int(received["bytes"]),
            seconds=float(received["seconds"]),
            retransmits=end["sum_sent"].get("retransmits"),
        )
    total = end["sum"]
    lost, sent, seconds = int(total["lost_packets"]), int(total["packets"]), float(total["seconds"])
    got = max(0, sent - lost) * flow.datagram_bytes
    return ran.result(
        goodput_bps=8 * got / seconds,
        bytes=got,
        seconds=seconds,
        lost_datagrams=lost,
        sent_datagrams=sent,
    )
