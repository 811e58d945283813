"""Tunnels: how a kind of tunnel is started on the network, where the client then connects, which
leg is which.

A kind is one function in KINDS: it starts the far end and the near end, waits until both listen,
and gives the entry and the legs. Adding a tunnel is adding a function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen, TimeoutExpired

from gostlab.ask.run_description import RunDescription
from gostlab.guest.network import Network
from gostlab.setup.parts import TunnelBinary

# The thesis's ports: iperf3 listens on 80 on the target, both ends of the tunnel on 443.
SINK_PORT = 80
TUNNEL_PORT = 443
LISTEN_TIMEOUT_S = 10.0


class TunnelError(Exception):
    """A tunnel end did not start, or did not live to the end of the run."""


@dataclass(frozen=True)
class Leg:
    """One TCP hop between application and sink, seen at both ends.

    The near end is the socket that connected (its peer's port is `port`), the far end the one that
    accepted.
    """

    name: str  # app | wan | exit
    near: str  # node of the connecting socket
    far: str  # node of the accepting socket
    port: int  # the port connected to
    loopback: bool = False
    flow: str = "flow1"


Ends = dict[str, "Popen[bytes]"]  # node -> the tunnel's process there


@dataclass(frozen=True)
class Tunnel:
    """A running tunnel, or none: where each flow connects, and the TCP connections that this
    makes.
    """

    entries: Mapping[str, tuple[str, int]]  # flow -> address and port to connect to
    legs: tuple[Leg, ...]  # of tcp and http flows
    ends: Ends = field(default_factory=dict)

    def check_alive(self) -> None:
        """Raises TunnelError naming the end that is gone."""
        check_alive(self.ends)


def check_alive(ends: Ends) -> None:
    """Raises TunnelError naming the end that is gone."""
    for node, process in ends.items():
        if process.poll() is not None:
            raise TunnelError(
                f"the tunnel's end on {node} died (exit status {process.returncode}); "
                f"its words are in tunnel-{node}.log"
            )


def wait_until_listening(
    network: Network,
    node: str,
    port: int,
    *,
    protocol: str = "tcp",
    alive: Callable[[], None] = lambda: None,
) -> None:
    """Wait until a node listens on a port, asking ss. Raises TunnelError after 10 s (of the run's
    clock).
    """
    flag = "-Hltn" if protocol == "tcp" else "-Hlun"
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while time.monotonic() < deadline:
        if network.read(node, ["ss", flag, f"sport = :{port}"], logged=False).strip():
            return
        alive()
        time.sleep(0.02)
    raise TunnelError(
        f"{node}: nothing listens on {protocol} port {port} after {LISTEN_TIMEOUT_S:.0f} s"
    )


def sink_ports(run: RunDescription) -> dict[str, int]:
    """The port that each flow's sink listens on: 80, and one more for each further flow to the same
    host.
    """
    ports: dict[str, int] = {}
    for flow in run.flows:
        ports[flow.name] = SINK_PORT + sum(
            other.receiver == flow.receiver for other in run.flows if other.name in ports
        )
    return ports


def start_direct(
    network: Network, run: RunDescription, binary: TunnelBinary | None, folder: Path, ends: Ends
) -> Tunnel:
    """No tunnel: each flow's own connections cross the WAN."""
    ports = sink_ports(run)
    return Tunnel(
        {flow.name: (network.ip(flow.receiver), ports[flow.name]) for flow in run.flows},
        tuple(
            Leg("wan", flow.sender, flow.receiver, ports[flow.name], flow=flow.name)
            for flow in run.flows
            if flow.kind != "udp"
        ),
        ends,
    )


def start_gost(
    network: Network, run: RunDescription, binary: TunnelBinary | None, folder: Path, ends: Ends
) -> Tunnel:
    """relay+ws or relay+wss, with the thesis's own commands on both ends (sections 4.2 and 4.3)."""
    if binary is None:
        raise TunnelError("neither GOST nor the lab's relay was found: run ./lab setup")
    inside = next(
        flow.name for flow in run.flows if flow.kind != "udp"
    )  # background traffic takes the path, not the tunnel
    ports = sink_ports(run)
    listener = run.tunnel.removeprefix("gost+")
    far = "target" if run.placement == "endpoint" else "gost"
    sink = (
        f"127.0.0.1:{ports[inside]}"
        if far == "target"
        else f"{network.ip('target')}:{ports[inside]}"
    )
    program = str(binary.path)
    start_end(
        network, ends, folder, far, [program, "-L", f"relay+{listener}://:{TUNNEL_PORT}/{sink}"]
    )
    start_end(
        network,
        ends,
        folder,
        "client",
        [
            program,
            "-L",
            f"udp://:{TUNNEL_PORT}",
            "-L",
            f"tcp://:{TUNNEL_PORT}",
            "-F",
            f"relay+{listener}://{network.ip(far)}:{TUNNEL_PORT}",
        ],
    )
    for node, protocol in ((far, "tcp"), ("client", "tcp"), ("client", "udp")):
        wait_until_listening(
            network, node, TUNNEL_PORT, protocol=protocol, alive=lambda: check_alive(ends)
        )
    entries = {flow.name: (network.ip(flow.receiver), ports[flow.name]) for flow in run.flows}
    return Tunnel(
        {**entries, inside: ("127.0.0.1", TUNNEL_PORT)},
        (
            Leg("app", "client", "client", TUNNEL_PORT, loopback=True, flow=inside),
            Leg("wan", "client", far, TUNNEL_PORT, flow=inside),
            Leg("exit", far, "target", ports[inside], loopback=far == "target", flow=inside),
        ),
        ends,
    )


def start_end(network: Network, ends: Ends, folder: Path, node: str, argv: list[str]) -> None:
    """Start one end; its words go to tunnel-NODE.log. Raises TunnelError if its port is taken."""
    if network.read(node, ["ss", "-Hltn", f"sport = :{TUNNEL_PORT}"], logged=False).strip():
        raise TunnelError(
            f"{node}: port {TUNNEL_PORT} is in use already, the tunnel cannot listen there"
        )
    with (folder / f"tunnel-{node}.log").open("wb") as output:
        # MPTCP off: Go >= 1.24 listens with it, and another protocol than the one under study would
        # carry the stream.
        ends[node] = network.start(
            node,
            argv,
            stdout=output,
            stdout_name=f"tunnel-{node}.log",
            environ={"GODEBUG": "multipathtcp=0"},
        )


Kind = Callable[[Network, RunDescription, "TunnelBinary | None", Path, Ends], Tunnel]
KINDS: dict[str, Kind] = {"direct": start_direct, "gost+ws": start_gost, "gost+wss": start_gost}


@contextmanager
def start_tunnel(
    network: Network, run: RunDescription, binary: TunnelBinary | None, folder: Path
) -> Iterator[Tunnel]:
    """Start the run's tunnel and stop it on leaving. Raises TunnelError or NetworkError."""
    ends: Ends = {}
    try:
        yield KINDS[run.tunnel](network, run, binary, folder, ends)
    finally:
        for process in ends.values():
            stop(process)


def stop(process: Popen[bytes], patience_s: float = 3.0) -> None:
    """SIGTERM, then SIGKILL; always reaped."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except TimeoutExpired:
            process.kill()
    process.wait()
