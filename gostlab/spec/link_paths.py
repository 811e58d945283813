"""Compute the links that a flow crosses in a chain or graph, and their combined path."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gostlab.registry import graph_topologies
from gostlab.registry.topologies import Topology

Path = Mapping[str, Any]  # The keys are forward and reverse, as in run.json.


def nodes_named(hosts: Iterable[str]) -> int:
    """Return the number of nodes that contains the named hosts (s1, r3), at least three."""
    return max(3, *(int(host[1:]) for host in hosts))


def links_crossed(
    topology: Topology, hops: int, nodes: int, sender: str, receiver: str
) -> list[tuple[str, bool]]:
    """Return the links between two hosts in order, each with whether it is crossed forward."""
    names = topology.link_names(hops, nodes)
    if not topology.shape:
        return [(name, True) for name in names]
    start, end = (int(host[1:]) for host in (sender, receiver))
    steps = graph_topologies.way(topology.shape, nodes, start, end)
    return [
        (f"n{one}-n{two}", True) if f"n{one}-n{two}" in names else (f"n{two}-n{one}", False)
        for one, two in steps
    ]


def touches(change: Mapping[str, Any], link: str, own_links: Iterable[str]) -> bool:
    """Return whether a change concerns a link: by its name, or else as a link not in `own`."""
    return change["link"] == link if "link" in change else link not in own_links


def reversed_path(path: Path) -> dict[str, Any]:
    """Return a path as seen from its other end."""
    return {"forward": path["reverse"], "reverse": path["forward"]}


def paths_crossed(
    path: Path, own_paths: Mapping[str, Path], crossed: Sequence[tuple[str, bool]]
) -> list[Path]:
    """Return the path of each crossed link, as the sender sees it; `own` are links' own paths."""
    if not crossed:
        return [path]
    link_paths = [(own_paths.get(name, path), is_forward) for name, is_forward in crossed]
    return [
        link_path if is_forward else reversed_path(link_path)
        for link_path, is_forward in link_paths
    ]


def round_trip_ms(paths: Sequence[Path]) -> float:
    """Return the idle round trip over paths in series."""
    return math.fsum(
        path[direction]["delay_ms"] for path in paths for direction in ("forward", "reverse")
    )


def in_a_row(paths: Sequence[Path]) -> dict[str, Any]:
    """Combine paths in series: the minimum rate, and the sums of delays, jitters and buffers."""
    combined = {}
    for direction in ("forward", "reverse"):
        states = [path[direction] for path in paths]
        rates = [state["rate_bps"] for state in states if state["rate_bps"] is not None]
        buffers = [state["buffer_pkts"] for state in states if state["buffer_pkts"] is not None]
        combined[direction] = {
            **states[0],
            "rate_bps": min(rates, default=None),
            "delay_ms": math.fsum(state["delay_ms"] for state in states),
            "jitter_ms": math.fsum(state["jitter_ms"] for state in states),
            "buffer_pkts": sum(buffers) if buffers else None,
        }
    return combined


def memory_path(path: Path, links: Mapping[str, Path], hops: int) -> Path:
    """Return the path whose content the guest's memory must hold."""
    if hops > 1:
        return in_a_row([path, links.get("hop2", path)])
    return in_a_row([path, *links.values()]) if links else path
