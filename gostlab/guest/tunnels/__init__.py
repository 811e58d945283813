"""Tunnels: one file each, and what starts the one that a run asks for.

A file declares `TUNNEL = TunnelKind(...)` (gostlab.declared.tunnels) and defines `start(launch)`,
which starts the far end and the near end, waits until both listen, and gives the entry and the
legs. That is all: nothing else names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from gostlab.ask.run_description import RunDescription
from gostlab.declared.topologies import topology_of
from gostlab.declared.tunnels import tunnel_kind
from gostlab.guest.network import Network
from gostlab.guest.tunnels.launch import (
    Ends,
    Launch,
    Leg,
    Tunnel,
    TunnelError,
    sink_ports,
    stop,
    wait_until_listening,
)
from gostlab.setup.parts import OwnProgram, TunnelBinary, tunnel_program


@contextmanager
def start_tunnel(
    network: Network,
    run: RunDescription,
    program: TunnelBinary | None,
    folder: Path,
    scratch: Path,
) -> Iterator[Tunnel]:
    """Start the run's tunnel and stop it on leaving.

    program  what runs at both ends; None where there is no tunnel
    folder   where its ends' output goes
    scratch  where it may write what is no result
    Raises TunnelError or NetworkError.
    """
    kind, topology = tunnel_kind(run.tunnel), topology_of(run.topology)
    launch = Launch(
        network,
        run,
        program,
        near=topology.tunnel_near,
        far=topology.tunnel_far(run.placement),
        folder=folder,
        scratch=scratch / "tunnel",
    )
    try:
        yield import_module(f"{__name__}.{kind.module}").start(launch)
    finally:
        for process in launch.ends.values():
            stop(process)


def program_of(run: RunDescription, parts: Mapping[str, Any]) -> TunnelBinary | None:
    """The program of a run's tunnel, of what the machine handed over; None where there is no
    tunnel. Raises TunnelError if it is not there.
    """
    kind = tunnel_kind(run.tunnel)
    if kind.is_direct:
        return None
    handed = parts.get("tunnel")
    provided = TunnelBinary(**{**handed, "path": Path(handed["path"])}) if handed else None
    own = {
        name: OwnProgram(**{**one, "path": Path(one["path"])})
        for name, one in parts.get("programs", {}).items()
    }
    found = tunnel_program(kind, provided, own)
    if found is None:
        missing = " or ".join(kind.programs or (kind.program,))
        raise TunnelError(f"{kind.name}: its program {missing} is not there: run ./lab setup")
    return found


__all__ = (
    "Ends",
    "Launch",
    "Leg",
    "Tunnel",
    "TunnelError",
    "program_of",
    "sink_ports",
    "start_tunnel",
    "stop",
    "wait_until_listening",
)
