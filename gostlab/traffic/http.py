"""http: a file fetched by wget from nginx."""

import re

from gostlab.guest.flow_result import SAID_NOTHING, FlowResult, Ran, TrafficError
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


def serve(order: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    return server_argv(order, flow, port, {DOCUMENT: flow.size_bytes or 0})


def ask(order: LoadContext, flow: FlowSpec) -> list[str]:
    address, port = order.tunnel.entries[flow.name]
    quiet = ["--no-proxy", "--tries=1", "--no-verbose"]
    return ["wget", *quiet, "-O", "/dev/null", f"http://{address}:{port}/{DOCUMENT}"]


def read(flow: FlowSpec, report: str, ran: Ran) -> FlowResult:
    """From wget's own line, `… URL [SIZE/SIZE] -> …`, and the time that wget ran."""
    found = re.search(r"\[(\d+)/(\d+)\]", report)
    if found is None or int(found[1]) != flow.size_bytes:
        raise TrafficError(
            f"{flow.name}: wget did not fetch all of it: {report.strip()[-200:] or SAID_NOTHING}"
        )
    return ran.over_all_its_time(int(found[1]))
