"""tcp: iperf3 by TCP."""

import json

from gostlab.guest.flow_result import FlowResult, Ran
from gostlab.guest.load_context import LoadContext
from gostlab.registry.congestion_controls import kernel_name
from gostlab.registry.traffic import TrafficKind
from gostlab.spec.flow import FlowSpec
from gostlab.traffic._iperf3 import client_argv, server_argv

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
server_command = server_argv


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    argv = client_argv(context, flow)
    if flow.cc != context.node_cc.get(flow.data_sender, ""):
        # Another flow's congestion control is the host's default.
        argv += ["-C", kernel_name(str(flow.cc))]
    return argv


def read(flow: FlowSpec, report: str, ran: Ran) -> FlowResult:
    end = json.loads(report)["end"]
    received = end["sum_received"]
    return ran.result(
        goodput_bps=float(received["bits_per_second"]),
        size_bytes=int(received["bytes"]),
        seconds=float(received["seconds"]),
        retransmits=end["sum_sent"].get("retransmits"),
    )
