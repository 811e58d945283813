"""command: a program of the user's own: a server, and a client whose end is the flow's."""

from gostlab.guest.flow_result import MAX_FILE_MIB, FlowResult, Ran, TrafficError
from gostlab.guest.load_context import LoadContext
from gostlab.registry.traffic import TrafficKind
from gostlab.spec.flow import FlowSpec

TRAFFIC = TrafficKind(
    name="command",
    says="a program of your own",
    program="the command",
    report=("command", ".log"),
    must=("server", "client"),
    is_counted=True,
    of_the_host=True,
)
BLOCKS_OF_MIB = 2048  # of 512 bytes, which ulimit counts in
ANY = "0.0.0.0"


def serve(order: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    return shell(order, flow, flow.server, ANY, port)


def ask(order: LoadContext, flow: FlowSpec) -> list[str]:
    own = order.node_cc.get(flow.data_sender, flow.cc)
    if flow.cc != own:
        raise TrafficError(
            f"{flow.name}: a program's sockets have their host's congestion control, and"
            f" {flow.data_sender} has {own}, not {flow.cc}: give the flow hosts of its own"
        )
    return shell(order, flow, flow.client, *order.tunnel.entries[flow.name])


def shell(order: LoadContext, flow: FlowSpec, command: str, host: str, port: int) -> list[str]:
    """A command in a folder of its flow's, with what it may name."""
    folder = order.scratch / f"command-{flow.name}"
    said = {"HOST": host, "PORT": str(port), "SECONDS": f"{flow.duration_s:g}"}
    words = [f"{name}={value}" for name, value in said.items()]
    limit = f"ulimit -f {MAX_FILE_MIB * BLOCKS_OF_MIB}"
    script = f'mkdir -p "$0" && cd "$0" && {limit} && eval "$1"'
    return ["env", *words, "/bin/sh", "-c", script, str(folder), command]


def read(flow: FlowSpec, report: str, ran: Ran) -> FlowResult:
    """When it ran; what it did the lab counts itself (gostlab.guest.socket_accounting)."""
    return ran.over_all_its_time(0)
