# SPDX-License-Identifier: MIT
"""command: a user-supplied program: a server, and a client whose end is the flow's end."""

from gostlab.guest.flow_result import MAX_FILE_MIB, FlowResult, FlowRun, TrafficError
from gostlab.guest.load_context import LoadContext
from gostlab.registry.traffic import TrafficKind
from gostlab.spec.flow import FlowSpec

TRAFFIC = TrafficKind(
    name="command",
    says="a program of your own",
    program="the command",
    report=("command", ".log"),
    must=("server", "client"),
    may=("files",),
    is_counted=True,
    of_the_host=True,
)
BLOCKS_OF_MIB = 2048  # ulimit counts in blocks of 512 bytes
ANY = "0.0.0.0"


def server_command(context: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    return shell_argv(context, flow, flow.server, ANY, port)


def client_command(context: LoadContext, flow: FlowSpec) -> list[str]:
    host_cc = context.node_cc.get(flow.data_sender, flow.cc)
    if flow.cc != host_cc:
        raise TrafficError(
            f"{flow.name}: a program's sockets have their host's congestion control, and"
            f" {flow.data_sender} has {host_cc}, not {flow.cc}: give the flow hosts of its own"
        )
    return shell_argv(context, flow, flow.client, *context.tunnel.entries[flow.name])


def shell_argv(
    context: LoadContext, flow: FlowSpec, command: str, host: str, port: int
) -> list[str]:
    """Return a shell command that runs in a folder per flow, with the variables it may use."""
    folder = context.scratch / f"command-{flow.name}"
    variables = {"HOST": host, "PORT": str(port), "SECONDS": f"{flow.duration_s:g}"}
    if flow.files:
        variables["FILES"] = context.programs.files[flow.name]
    assignments = [f"{name}={value}" for name, value in variables.items()]
    limit = f"ulimit -f {MAX_FILE_MIB * BLOCKS_OF_MIB}"
    script = f'mkdir -p "$0" && cd "$0" && {limit} && eval "$1"'
    return ["env", *assignments, "/bin/sh", "-c", script, str(folder), command]


def read(flow: FlowSpec, report: str, ran: FlowRun) -> FlowResult:
    """Return when the flow ran; the lab counts its data (gostlab.guest.socket_accounting)."""
    return ran.over_whole_time(0)
