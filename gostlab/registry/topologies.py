"""The topologies: what each class in topo.py declares of itself.

A topology is one class there. Its plain attributes are read without importing it, as that would
need Mininet; no other module compares topologies by name.
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.registry import graph_topologies, static_loader
from gostlab.registry.folders import TOPOLOGY_FILE, from_root

SIZES = ("senders", "receivers", "sites", "nodes", "hops")


@dataclass(frozen=True)
class Topology:
    """What a topology says of itself.

    name      as an experiment writes it
    says      what it is, in a few words
    sender    the host that a flow runs from; `s{}` where there are several: s1, s2, …
    receiver  the host that it runs to; `r{}` where there are several
    """

    name: str
    says: str
    sender: str
    receiver: str
    # what the class is built with: of senders and receivers the largest number that a flow names,
    # of nodes the largest of both, how many sites, how many hops (paths one behind the other)
    size: tuple[str, ...] = ()
    most_hosts: int = 64  # the largest number that a host's name may have
    # of nodes that are joined by links like one another: chain, ring or mesh (declared.graphs); a
    # flow's round trip is that of all links it crosses
    shape: str = ""
    # whether a flow may have a round trip of its own, by the delay lines before its two hosts
    own_rtts: bool = False
    # whether every receiver is a site with a profile of its own: flows run to that of the run's
    path_per_site: bool = False
    shapes_return: bool = True  # whether the path back is delayed too; else the way out has it all
    most_hops: int = 1  # how many paths may lie one behind the other, a host behind each
    tunnel_near: str = ""  # where a tunnel begins; `s{}`: on its flow's sender; "": none fits
    tunnel_endpoint: str = ""  # where it ends with `placement: endpoint`; `r{}`: on the receiver
    # and with `placement: gateway`: the host behind the first path; behind the second one it has a
    # 2 in its name, and the first is a chain's middle
    tunnel_gateway: str = ""

    @property
    def numbers_hosts(self) -> bool:
        """Whether a flow may say which sender and receiver it runs between."""
        return "{}" in self.sender and not self.path_per_site

    @property
    def tunnel_by_flow(self) -> bool:
        """Whether a tunnel runs between its flow's own hosts."""
        return "{}" in self.tunnel_near

    def gateways(self, hops: int = 1) -> tuple[str, ...]:
        """The hosts behind the paths that lie one behind the other, where tunnels may end."""
        names = (f"{self.tunnel_gateway}{'' if hop == 1 else hop}" for hop in range(1, hops + 1))
        return tuple(names) if self.tunnel_gateway else ()

    def tunnel_way(self, placement: str, hops: int, sender: str, receiver: str) -> tuple[str, ...]:
        """The hosts of a tunnel's ends, the near one first; () where none fits."""
        if self.tunnel_by_flow:
            return (sender, receiver) if placement == "endpoint" else ()
        gateways = self.gateways(hops)
        last = gateways[-1:] if placement == "gateway" else (self.tunnel_endpoint,)
        return (self.tunnel_near, *gateways[: hops - 1], *last) if all(last) and last else ()

    def tunnel_nodes(self, hops: int = 1) -> tuple[str, ...]:
        """The hosts that a tunnel may end on, of those that are not a flow's own."""
        if not self.tunnel_near or self.tunnel_by_flow:
            return ()
        return (self.tunnel_near, self.tunnel_endpoint, *self.gateways(hops))

    def link_names(self, hops: int, nodes: int) -> tuple[str, ...]:
        """What the links are called that may have a path of their own; () where all share one."""
        if self.shape:
            return tuple(f"n{one}-n{two}" for one, two in graph_topologies.links(self.shape, nodes))
        return tuple(f"hop{hop}" for hop in range(1, hops + 1)) if self.most_hops > 1 else ()

    @property
    def wrong(self) -> str:
        """What of it does not fit; "" if nothing."""
        for word in self.size:
            if word not in SIZES:
                return f"size: {word!r} is none of {', '.join(SIZES)}"
        if bool(self.tunnel_near) != bool(self.tunnel_endpoint):
            return "tunnel_near and tunnel_endpoint belong together"
        return ""


@cache
def topologies(file: Path = TOPOLOGY_FILE) -> dict[str, Topology]:
    """Every topology by name, in topo.py's order. Raises BadInput for half a declaration."""
    if "TOPOLOGY" in static_loader.DECLARED:
        kept = (Topology(**values) for values in static_loader.DECLARED["TOPOLOGY"])
        return {topology.name: topology for topology in kept}
    classes = [
        node for node in static_loader.parse_source(file).body if isinstance(node, ast.ClassDef)
    ]
    found: dict[str, Topology] = {}
    for node in classes:
        if any(isinstance(base, ast.Name) and base.id == "Topo" for base in node.bases):
            topology = read_topology(file, node)
            if topology.name in found:
                raise BadInput(f"{from_root(file)}: two topologies are called {topology.name}")
            found[topology.name] = topology
    return found


def topology_of(name: str) -> Topology:
    """The topology of a name. Raises BadInput if there is none."""
    return static_loader.one_called(name, topologies(), "topology")


def read_topology(file: Path, node: ast.ClassDef) -> Topology:
    """What a class declares. Raises BadInput."""
    origin = f"{from_root(file)}:{node.lineno}: {node.name}"
    values = {
        name: static_loader.literal_of(file, f"{node.name}.{name}", value)
        for name, value in static_loader.assigned(node.body).items()
    }
    if "build" not in static_loader.functions(node.body):
        raise BadInput(f"{origin}: no function build(): it cannot be built")
    topology = static_loader.declared_as(Topology, origin, values)
    static_loader.check_written(file, node.body)
    return topology
