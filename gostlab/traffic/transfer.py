# SPDX-License-Identifier: MIT
"""transfer: a number of bytes over one TCP connection, and how long they take."""

from dataclasses import replace

from gostlab.guest.flow_result import FlowResult, FlowRun, Transfer
from gostlab.guest.load_context import LoadContext
from gostlab.registry.traffic import TrafficKind
from gostlab.spec.flow import FlowSpec
from gostlab.traffic._tcp_source import PYTHON, client_argv, read_reports, server_argv

TRAFFIC = TrafficKind(
    name="transfer",
    says="a number of bytes over one TCP connection",
    program="the transfer",
    report=("transfer", ".json"),
    must=("bytes",),
    implied_by=("bytes",),
    server_ends=True,
    is_brief=True,
    is_sized=True,
    client=PYTHON,
)
server_command = server_argv


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    return client_argv(context, flow, f"bytes={flow.size_bytes}")


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    """Return the receiver's bytes over the time from before the connection to the last byte.

    A transfer that has not finished is averaged over the flow's whole time.
    """
    both = read_reports(flow, ran.report)
    size_bytes = both["bytes"]
    completion_s = None
    if size_bytes == flow.size_bytes and both["last_s"] is not None:
        completion_s = round(both["last_s"] - both["began_s"], 6)
    seconds = completion_s or flow.duration_s
    result = ran.result(
        goodput_bps=8 * size_bytes / seconds, size_bytes=size_bytes, seconds=seconds
    )
    return replace(
        result, transfer=Transfer(size_bytes=flow.size_bytes or 0, completion_s=completion_s)
    )
