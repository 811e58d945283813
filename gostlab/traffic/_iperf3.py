"""What tcp and udp flows have in common: both ends are the run's iperf3."""

from gostlab.guest.load_context import LoadContext
from gostlab.spec.flow import FlowSpec


def server_argv(order: LoadContext, flow: FlowSpec, port: int) -> list[str]:
    """The sink of a flow: one test, then it ends."""
    return [str(order.programs.iperf3.path), "-s", "-p", str(port), "-1", "-J"]


def client_argv(order: LoadContext, flow: FlowSpec) -> list[str]:
    """The command that makes a flow: the thesis's (section 4.2), with JSON out."""
    address, port = order.tunnel.entries[flow.name]
    argv = [str(order.programs.iperf3.path), "-c", address, "-p", str(port)]
    argv += ["-t", f"{flow.duration_s:g}", "-P", str(flow.streams), "-i", "1", "-J"]
    return [*argv, "-R"] if flow.direction == "download" else argv
