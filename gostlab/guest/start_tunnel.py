"""The tunnel that a run names, started.

A tunnel is one file in gostlab/tunnels/. It declares `TUNNEL = TunnelKind(...)`
(gostlab.registry.tunnels) and defines `start(launch)`, which starts the far end and the near end,
waits until both listen, and gives the entry and the legs. That is all: nothing else names it.
GOST's transports are `gost_relay(...)`, all in one file.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gostlab.guest import tsc_trap
from gostlab.guest.network import Network
from gostlab.guest.reset_clock import begin_anew
from gostlab.guest.tunnel_context import (
    Launch,
    Tunnel,
    TunnelError,
    TunnelProcesses,
    pairs_of,
    stop,
)
from gostlab.install.locate import AUTO, OwnProgram, TunnelBinary, tunnel_program, why_not_through
from gostlab.registry.folders import TUNNELS
from gostlab.registry.static_loader import module_of
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.run_spec import RunSpec


@contextmanager
def start_tunnel(
    network: Network, run: RunSpec, program: TunnelBinary | None, folder: Path, scratch: Path
) -> Iterator[Tunnel]:
    """Start the run's tunnel and stop it on leaving: a pair of ends, or one for each flow that
    needs a pair of its own. `scratch`: where it may write what is no result. Raises TunnelError or
    NetworkError.
    """
    kind = tunnel_kind(run.tunnel)
    start = module_of(TUNNELS, kind.module).start
    # Its timers and random numbers follow from its start, and from no call of the lab's before it.
    if not kind.is_direct:
        begin_anew(run.clock, run.seed)
    ends = TunnelProcesses(folder)
    started = []
    try:
        for number, (flow, flows) in enumerate((pairs_of(run) or {"": []}).items()):
            mark = f"-{flow}" if number else ""
            launch = Launch(
                network,
                run,
                program,
                way=run.tunnel_way(flows[0]) if flows else ("", ""),
                ends=ends,
                scratch=scratch / f"tunnel{mark}",
                flow=flow,
                flows=flows,
                number=number,
                mark=mark,
            )
            started.append(start(launch))
        yield replace(joined(run, started), ends=ends)
    finally:
        for process in ends.values():
            stop(process)


def joined(run: RunSpec, pairs: Sequence[Tunnel]) -> Tunnel:
    """All pairs of a run's tunnel as one: each flow's entry is that of the pair it takes."""
    entries = dict(pairs[0].entries)
    is_vpn = tunnel_kind(run.tunnel).is_vpn
    for (first, flows), pair in zip(pairs_of(run).items(), pairs, strict=False):
        for flow in flows:
            # datagrams beside a forwarder's stream go to that one's port
            beside = flow.traffic.prefers_udp and not is_vpn
            entries[flow.name] = pair.entries[first if beside else flow.name]
    carried = {flow.name for flow in run.flows if flow.is_tcp}
    legs = tuple(leg for pair in pairs for leg in pair.legs if leg.flow in carried)
    return Tunnel(entries, legs)


def program_of(run: RunSpec, parts: Mapping[str, Any]) -> TunnelBinary | None:
    """The run's tunnel's program; None without tunnel. Raises TunnelError if it is not there."""
    kind = tunnel_kind(run.tunnel)
    if kind.is_direct:
        return None
    handed = parts.get("tunnel") if run.gost == AUTO else parts.get("gosts", {}).get(run.gost)
    provided = TunnelBinary(**{**handed, "path": Path(handed["path"])}) if handed else None
    own = parts.get("programs", {}).items()
    found = tunnel_program(kind, provided, {name: OwnProgram.from_json(one) for name, one in own})
    if found is None:
        missing = " or ".join(kind.programs or (kind.program,))
        raise TunnelError(f"{kind.name}: its program {missing} is not there: run ./lab setup")
    if why := why_not_through(kind, found, options=run.tunnel_options):
        raise TunnelError(why)
    if run.clock == "virtual" and tsc_trap.go_seeds_from_tsc(found.version):
        return replace(found, cycle_counter_at=tsc_trap.place_in(found.path))
    return found
