# SPDX-License-Identifier: MIT
"""http: a file fetched by wget from nginx."""

import re

from gostlab.guest.flow_result import NO_OUTPUT, FlowResult, FlowRun, TrafficError
from gostlab.guest.load_context import LoadContext
from gostlab.registry.traffic import DOWNLOAD, TrafficKind
from gostlab.spec.flow import FlowSpec
from gostlab.traffic._nginx import server_argv

TRAFFIC = TrafficKind(
    name="http",
    says="a file fetched by wget from nginx",
    program="wget",
    report=("wget", ".log"),
    must=("size",),
    has_streams=True,
    direction=DOWNLOAD,
    by_nginx=True,
    until_done=True,
    client="wget",
    charged=("nginx", "wget"),
)
DOCUMENT = "document"


def server_command(context: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    return server_argv(context, flow, port, {DOCUMENT: flow.size_bytes or 0})


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    address, port = context.tunnel.entries[flow.name]
    quiet = ["--no-proxy", "--tries=1", "--no-verbose"]
    return ["wget", *quiet, "-O", "/dev/null", f"http://{address}:{port}/{DOCUMENT}"]


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    """Parse wget's line `… URL [SIZE/SIZE] -> …`, and use the time that wget ran."""
    match = re.search(r"\[(\d+)/(\d+)\]", report)
    if match is None or int(match[1]) != flow.size_bytes:
        raise TrafficError(
            f"{flow.name}: wget did not fetch all of it: {report.strip()[-200:] or NO_OUTPUT}"
        )
    return ran.over_whole_time(int(match[1]))
