"""tcp: iperf3 by TCP."""

import json

from gostlab.declared.controls import kernel_name
from gostlab.declared.traffic import TrafficKind
from gostlab.describe.resolve.flows import Flow
from gostlab.guest.order import Order
from gostlab.guest.reports import FlowResult, Ran
from gostlab.kinds.traffic.iperf3 import client_argv, server_argv

TRAFFIC = TrafficKind(
    name="tcp",
    says="iperf3 by TCP",
    program="iperf3",
    report=("iperf3", ".json"),
    may=("connect",),
    has_streams=True,
    by_iperf3=True,
    server_ends=True,
    charged=("iperf3/sender", "iperf3/receiver"),
)
serve = server_argv


def ask(order: Order, flow: Flow) -> list[str]:
    argv = client_argv(order, flow)
    if flow.cc != order.node_cc.get(flow.data_sender, ""):
        argv += ["-C", kernel_name(str(flow.cc))]  # two flows of one host, each with its own
    return argv


def read(flow: Flow, report: str, ran: Ran) -> FlowResult:
    end = json.loads(report)["end"]
    received = end["sum_received"]
    return ran.result(
        goodput_bps=float(received["bits_per_second"]),
        bytes=int(received["bytes"]),
        seconds=float(received["seconds"]),
        retransmits=end["sum_sent"].get("retransmits"),
    )
