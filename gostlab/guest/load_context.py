"""What the load of a run needs to know and to do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from gostlab.guest.environment import Programs
from gostlab.guest.network import Command, Network
from gostlab.guest.tunnel_context import Tunnel
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec


@dataclass(frozen=True)
class LoadContext:
    """What the load of a run needs to know and to do."""

    network: Network
    run: RunSpec
    tunnel: Tunnel
    programs: Programs
    node_cc: Mapping[str, str]  # each node's own congestion control
    # the size of the reads of an iperf3 receiver that its kernel goes on with; None: it need not be
    # told
    reads_on: int | None
    folder: Path  # where every report goes
    scratch: Path  # where nginx may write
    begin: Callable[[], None]  # called just before the load starts
    # applies one of the run's changes, and says what it did: a line each in changes.jsonl
    change: Callable[[Mapping[str, Any]], list[dict[str, Any]]]

    def start(self, command: Command, *, recorded: bool = True) -> Popen[bytes]:
        """Start one end of a flow. Raises NetworkError."""
        reads_on = self.reads_on if command.charged_as == "iperf3/receiver" else None
        return self.network.start(command, self.folder, recorded=recorded, reads_on=reads_on)

    def protocol_of(self, flow: FlowSpec) -> str:
        """What a flow's server listens for: UDP for requests that prefer it, wherever the run's
        tunnel carries datagrams; else TCP (a udp test begins with a connection to its port).
        """
        prefers_udp = flow.traffic.prefers_udp
        return "udp" if prefers_udp and "udp" in tunnel_kind(self.run.tunnel).carries else "tcp"
