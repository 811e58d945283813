# SPDX-License-Identifier: MIT
"""Build the command lines of tcp and udp flows, whose ends are both the run's iperf3."""

from gostlab.guest.load_context import LoadContext
from gostlab.spec.flow import FlowSpec


def server_argv(context: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    """Return the command of a flow's sink, which ends after one test."""
    return [str(context.programs.iperf3.path), "-s", "-p", str(port), "-1", "-J"]


def client_argv(context: LoadContext, flow: FlowSpec) -> list[str]:
    """Return the command of a flow's client: the thesis's (section 4.2), with JSON output."""
    address, port = context.tunnel.entries[flow.name]
    argv = [str(context.programs.iperf3.path), "-c", address, "-p", str(port)]
    argv += ["-t", f"{flow.duration_s:g}", "-P", str(flow.streams), "-i", "1", "-J"]
    return [*argv, "-R"] if flow.direction == "download" else argv
