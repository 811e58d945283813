"""Links in a row or in a net: which of them a flow crosses, and what those are together."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gostlab.registry import graph_topologies
from gostlab.registry.topologies import Topology

Path = Mapping[str, Any]  # as run.json has one: forward and reverse


def nodes_named(hosts: Iterable[str]) -> int:
    """How many nodes a network needs for some hosts (s1, r3): those they name, at least three."""
    return max(3, *(int(host[1:]) for host in hosts))


def links_crossed(
    topology: Topology, hops: int, nodes: int, sender: str, receiver: str
) -> list[tuple[str, bool]]:
    """The links between two hosts in order, each with whether it is crossed forward."""
    names = topology.link_names(hops, nodes)
    if not topology.shape:
        return [(name, True) for name in names]
    start, end = (int(host[1:]) for host in (sender, receiver))
    steps = graph_topologies.way(topology.shape, nodes, start, end)
    return [
        (f"n{one}-n{two}", True) if f"n{one}-n{two}" in names else (f"n{two}-n{one}", False)
        for one, two in steps
    ]


def touches(change: Mapping[str, Any], link: str, own: Iterable[str]) -> bool:
    """Whether a change is of a link: the one that it names, else each not in `own`."""
    return change["link"] == link if "link" in change else link not in own


def reversed_path(path: Path) -> dict[str, Any]:
    """A path as seen from its other end."""
    return {"forward": path["reverse"], "reverse": path["forward"]}


def paths_crossed(
    path: Path, own: Mapping[str, Path], crossed: Sequence[tuple[str, bool]]
) -> list[Path]:
    """The path of each link crossed, as the sender sees it; `own`: those other than the run's."""
    if not crossed:
        return [path]
    found = [(own.get(name, path), ahead) for name, ahead in crossed]
    return [each if ahead else reversed_path(each) for each, ahead in found]


def round_trip_ms(paths: Sequence[Path]) -> float:
    """The idle round trip over paths that lie one behind the other."""
    return math.fsum(each[way]["delay_ms"] for each in paths for way in ("forward", "reverse"))


def in_a_row(paths: Sequence[Path]) -> dict[str, Any]:
    """Paths in a row as one, for sizes: the least rate, and the sum of delays, jitters and room."""
    found = {}
    for way in ("forward", "reverse"):
        each = [path[way] for path in paths]
        rates = [one["rate_bps"] for one in each if one["rate_bps"] is not None]
        room = [one["buffer_pkts"] for one in each if one["buffer_pkts"] is not None]
        found[way] = {
            **each[0],
            "rate_bps": min(rates, default=None),
            "delay_ms": math.fsum(one["delay_ms"] for one in each),
            "jitter_ms": math.fsum(one["jitter_ms"] for one in each),
            "buffer_pkts": sum(room) if room else None,
        }
    return found


def memory_path(path: Path, links: Mapping[str, Path], hops: int) -> Path:
    """What the guest's memory has to hold at once, as one path."""
    if hops > 1:
        return in_a_row([path, links.get("hop2", path)])
    return in_a_row([path, *links.values()]) if links else path
