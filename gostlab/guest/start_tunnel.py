"""Start the tunnel that a run names.

A tunnel is one file in gostlab/tunnels/. It declares `TUNNEL = TunnelKind(...)`
(gostlab.registry.tunnels) and defines `start(launch)`, which starts the far end and the near end,
waits until both listen, and returns the entry and the legs. Nothing else names the tunnel.
GOST's transports are `gost_relay(...)`, all in one file.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gostlab.guest import tsc_trap
from gostlab.guest.network import Network
from gostlab.guest.reset_clock import reset_virtual_clock
from gostlab.guest.tunnel_context import (
    Tunnel,
    TunnelError,
    TunnelLaunch,
    TunnelProcesses,
    pairs_of,
    stop_process,
)
from gostlab.install.locate import (
    AUTO,
    OwnProgram,
    TunnelBinary,
    explain_unusable_tunnel,
    tunnel_program,
)
from gostlab.install.parts_json import PartsJson, TunnelJson
from gostlab.registry.plugin_loader import plugin_module
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.run_spec import RunSpec


@contextmanager
def start_tunnel(
    network: Network, run: RunSpec, program: TunnelBinary | None, folder: Path, scratch: Path
) -> Iterator[Tunnel]:
    """Start the run's tunnel and stop it on leaving.

    It is a pair of ends, or one for each flow that needs its own pair. `scratch` is a folder for
    files that are no results. Raises TunnelError or NetworkError.
    """
    declaration = tunnel_kind(run.tunnel)
    start = plugin_module(declaration).start
    # Reset the clock, so that the tunnel's timers and random numbers do not depend on calls of the
    # lab before its start.
    if not declaration.is_direct:
        reset_virtual_clock(run.clock, run.seed)
    ends = TunnelProcesses(folder)
    started = []
    try:
        for number, (flow, flows) in enumerate((pairs_of(run) or {"": []}).items()):
            mark = f"-{flow}" if number else ""
            launch = TunnelLaunch(
                network,
                run,
                program,
                nodes=run.tunnel_ends(flows[0]) if flows else ("", ""),
                ends=ends,
                scratch=scratch / f"tunnel{mark}",
                flow=flow,
                flows=flows,
                number=number,
                mark=mark,
            )
            started.append(start(launch))
        yield replace(merge_pairs(run, started), ends=ends)
    finally:
        for process in ends.values():
            stop_process(process)


def merge_pairs(run: RunSpec, pairs: Sequence[Tunnel]) -> Tunnel:
    """Merge all pairs of a run's tunnel: each flow's entry is that of the pair it takes."""
    entries = dict(pairs[0].entries)
    is_vpn = tunnel_kind(run.tunnel).is_vpn
    for (first, flows), pair in zip(pairs_of(run).items(), pairs, strict=False):
        for flow in flows:
            # Datagrams go to the port of the forwarder's stream.
            uses_stream_port = flow.traffic.prefers_udp and not is_vpn
            entries[flow.name] = pair.entries[first if uses_stream_port else flow.name]
    carried = {flow.name for flow in run.flows if flow.is_tcp}
    legs = tuple(leg for pair in pairs for leg in pair.legs if leg.flow in carried)
    return Tunnel(entries, legs)


def to_tunnel_binary(part: TunnelJson) -> TunnelBinary:
    return TunnelBinary(
        path=Path(part["path"]),
        program=part["kind"],
        version=part["version"],
        sha256=part["sha256"],
        helpers=part.get("helpers", {}),
    )


def program_of(run: RunSpec, parts: PartsJson) -> TunnelBinary | None:
    """Return the tunnel's program, None without a tunnel. Raises TunnelError if it is missing."""
    declaration = tunnel_kind(run.tunnel)
    if declaration.is_direct:
        return None
    gost = run.gost_program
    part = parts.get("tunnel") if gost == AUTO else parts.get("gosts", {}).get(gost)
    provided = to_tunnel_binary(part) if part else None
    programs = parts.get("programs", {}).items()
    program = tunnel_program(
        declaration, provided, {name: OwnProgram.from_json(one) for name, one in programs}
    )
    if program is None:
        missing = " or ".join(declaration.programs or (declaration.program,))
        raise TunnelError(
            f"{declaration.name}: its program {missing} is not there: run ./lab setup"
        )
    if why := explain_unusable_tunnel(declaration, program, options=run.tunnel_options):
        raise TunnelError(why)
    if run.clock == "virtual" and tsc_trap.go_seeds_from_tsc(program.version):
        return replace(program, cycle_counter_at=tsc_trap.tsc_read_offset(program.path))
    return program
