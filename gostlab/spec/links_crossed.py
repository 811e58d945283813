# SPDX-License-Identifier: MIT
"""Compute the links that a flow crosses in a chain or graph, and their paths."""

from collections.abc import Iterable, Mapping, Sequence

from gostlab.registry import graph_topologies
from gostlab.registry.topologies import Topology
from gostlab.spec.path_spec import PathSpec, combine_in_series


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
    steps = graph_topologies.shortest_path(topology.shape, nodes, start, end)
    return [
        (f"n{one}-n{two}", True) if f"n{one}-n{two}" in names else (f"n{two}-n{one}", False)
        for one, two in steps
    ]


def paths_crossed(
    path: PathSpec, own_paths: Mapping[str, PathSpec], crossed: Sequence[tuple[str, bool]]
) -> list[PathSpec]:
    """Return the path of each crossed link, as the sender sees it; some links have their own."""
    if not crossed:
        return [path]
    link_paths = [(own_paths.get(name, path), is_forward) for name, is_forward in crossed]
    return [
        link_path if is_forward else link_path.reversed() for link_path, is_forward in link_paths
    ]


def memory_path(path: PathSpec, links: Mapping[str, PathSpec], hops: int) -> PathSpec:
    """Return the path whose content the guest's memory must hold."""
    if hops > 1:
        return combine_in_series([path, links.get("hop2", path)])
    return combine_in_series([path, *links.values()]) if links else path
