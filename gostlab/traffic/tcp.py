# SPDX-License-Identifier: MIT
"""tcp: iperf3 by TCP, as fast as TCP goes or at an application's rate."""

import json
from dataclasses import replace

from gostlab.guest.flow_result import FlowResult, FlowRun
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
    may=("connect", "rate"),
    has_streams=True,
    by_iperf3=True,
    server_ends=True,
    charged=("iperf3/sender", "iperf3/receiver"),
)
# A write of an application at a rate: SEGMENT_BYTES at least, iperf3's usual block at most.
WRITE_S, SEGMENT_BYTES, MAX_WRITE_BYTES = 0.001, 1448, 128 * 1024
server_command = server_argv


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    argv = client_argv(context, flow)
    if flow.rate_bps:
        # iperf3's rate is per stream, and it paces its writes by itself: not by the qdisc fq.
        rate_bps = flow.rate_bps // flow.streams
        argv += ["-b", str(rate_bps), "-l", str(write_bytes(rate_bps))]
    if flow.cc != context.node_cc.get(flow.data_sender, ""):
        # Another flow's congestion control is the host's default.
        argv += ["-C", kernel_name(str(flow.cc))]
    return argv


def write_bytes(rate_bps: int) -> int:
    """Return the size of an application's writes at a rate: about a millisecond's data each.

    iperf3 looks at its rate every millisecond, and its usual writes of 128 KiB would be bursts.
    """
    return min(max(SEGMENT_BYTES, int(rate_bps / 8 * WRITE_S)), MAX_WRITE_BYTES)


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    end = json.loads(report)["end"]
    received = end["sum_received"]
    result = ran.result(
        goodput_bps=float(received["bits_per_second"]),
        size_bytes=int(received["bytes"]),
        seconds=float(received["seconds"]),
        retransmits=end["sum_sent"].get("retransmits"),
    )
    if not flow.rate_bps:
        return result
    return replace(result, offered_bps=float(end["sum_sent"]["bits_per_second"]))
