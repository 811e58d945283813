"""Define the context in which the load of a run is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab.registry.tunnels import tunnel_kind

if TYPE_CHECKING:  # reading an experiment imports the plugins, and starts nothing
    from subprocess import Popen

    from gostlab.guest.environment import RunPrograms
    from gostlab.guest.network import BackgroundCommand, Network
    from gostlab.guest.shaping import ChangedQdisc
    from gostlab.guest.tunnel_context import Tunnel
    from gostlab.spec.flow import FlowSpec
    from gostlab.spec.path_spec import ChangeSpec
    from gostlab.spec.run_spec import RunSpec


@dataclass(frozen=True)
class LoadContext:
    """Everything that a traffic plugin needs to start its flow."""

    network: Network
    run: RunSpec
    tunnel: Tunnel
    programs: RunPrograms
    node_cc: Mapping[str, str]  # each node's default congestion control
    # Size of the reads of an iperf3 receiver that the kernel continues; None: the kernel needs no
    # setting.
    reads_on: int | None
    folder: Path  # folder of all reports
    scratch: Path  # folder that nginx may write to
    begin: Callable[[], None]  # called just before the load starts
    # Applies one of the run's changes and returns a row for changes.jsonl per device.
    change: Callable[[ChangeSpec], list[ChangedQdisc]]

    def start(self, command: BackgroundCommand, *, recorded: bool = True) -> Popen[bytes]:
        """Start one end of a flow. Raises NetworkError."""
        reads_on = self.reads_on if command.charged_as == "iperf3/receiver" else None
        return self.network.start(command, self.folder, recorded=recorded, reads_on=reads_on)

    def protocol_of(self, flow: FlowSpec) -> str:
        """Return the protocol on which a flow's server listens.

        It is UDP for requests that prefer it, if the run's tunnel carries datagrams; else TCP (a
        udp test begins with a connection to its port).
        """
        prefers_udp = flow.traffic.prefers_udp
        return "udp" if prefers_udp and "udp" in tunnel_kind(self.run.tunnel).carries else "tcp"
