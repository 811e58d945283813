# SPDX-License-Identifier: MIT
"""Declare the topologies, from the classes in topo.py.

A topology is one class, whose attributes declare it; no other module compares topologies by name.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gostlab.errors import BadInput
from gostlab.registry import graph_topologies
from gostlab.registry.folders import TOPOLOGY_FILE, from_root
from gostlab.registry.installed_plugins import TOPOLOGIES, installed
from gostlab.registry.plugin_loader import (
    PluginDeclaration,
    find_by_name,
    import_file,
    import_installed,
    plugin_of,
)

SIZES = ("senders", "receivers", "sites", "nodes", "hops")


@dataclass(frozen=True)
class Topology(PluginDeclaration):
    r"""Represent the declaration of a topology.

    name      as an experiment writes it
    says      what it is, in a few words
    sender    the host that a flow runs from; `s{}` where there are several: s1, s2, …
    receiver  the host that it runs to; `r{}` where there are several
    """

    name: str
    says: str
    sender: str
    receiver: str
    # The sizes that the class is built with: the maximum number of a sender or receiver that a flow
    # names, of nodes the maximum of both, the number of sites, the number of hops (paths in
    # series).
    size: tuple[str, ...] = ()
    most_hosts: int = 64  # The maximum number in a host's name.
    # The shape of nodes joined by equal links: chain, ring or mesh (registry.graph_topologies); a
    # flow's round trip is that of all links it crosses.
    shape: str = ""
    # Whether a flow may have its own round trip, by the delay lines in front of its two hosts.
    own_rtts: bool = False
    # Whether every receiver is a site with its own profile; flows run to the site of the run's
    # profile.
    path_per_site: bool = False
    # Whether the return path is delayed, too; otherwise the forward path has the whole delay.
    shapes_return: bool = True
    most_hops: int = 1  # The maximum number of paths in series, with a host behind each.
    # The near end of a tunnel; `s{}` is the flow's sender; "" means no tunnel.
    tunnel_near: str = ""
    # The far end of a tunnel with `placement: endpoint`; `r{}` is the flow's receiver.
    tunnel_endpoint: str = ""
    # The far end of a tunnel with `placement: gateway`: the host behind the first path. The host
    # behind the second path has a 2 in its name, and the first host is then the middle of a chain.
    tunnel_gateway: str = ""

    @property
    def numbers_hosts(self) -> bool:
        """Return whether a flow may set its sender and receiver."""
        return "{}" in self.sender and not self.path_per_site

    @property
    def tunnel_by_flow(self) -> bool:
        """Return whether a tunnel runs between its flow's own hosts."""
        return "{}" in self.tunnel_near

    def gateways(self, hops: int = 1) -> tuple[str, ...]:
        """Return the hosts behind paths in series, where tunnels may end."""
        names = (f"{self.tunnel_gateway}{'' if hop == 1 else hop}" for hop in range(1, hops + 1))
        return tuple(names) if self.tunnel_gateway else ()

    def tunnel_ends(self, placement: str, hops: int, sender: str, receiver: str) -> tuple[str, ...]:
        """Return the hosts of a tunnel's ends, the near end first; () if no tunnel fits."""
        if self.tunnel_by_flow:
            return (sender, receiver) if placement == "endpoint" else ()
        gateways = self.gateways(hops)
        last = gateways[-1:] if placement == "gateway" else (self.tunnel_endpoint,)
        return (self.tunnel_near, *gateways[: hops - 1], *last) if all(last) and last else ()

    def tunnel_nodes(self, hops: int = 1) -> tuple[str, ...]:
        """Return the hosts that a tunnel may end on, except for a flow's own hosts."""
        if not self.tunnel_near or self.tunnel_by_flow:
            return ()
        return (self.tunnel_near, self.tunnel_endpoint, *self.gateways(hops))

    def link_names(self, hops: int, nodes: int) -> tuple[str, ...]:
        """Return the names of links that may have their own path; () if all links share one."""
        if self.shape:
            return tuple(f"n{one}-n{two}" for one, two in graph_topologies.links(self.shape, nodes))
        return tuple(f"hop{hop}" for hop in range(1, hops + 1)) if self.most_hops > 1 else ()

    @property
    def wrong(self) -> str:
        """Return a contradiction in the declaration, or ""."""
        for size in self.size:
            if size not in SIZES:
                return f"size: {size!r} is none of {', '.join(SIZES)}"
        if bool(self.tunnel_near) != bool(self.tunnel_endpoint):
            return "tunnel_near and tunnel_endpoint belong together"
        return ""


@cache
def topology_classes(file: Path = TOPOLOGY_FILE) -> dict[str, type[Any]]:
    """Return the class of every topology by name, in the file's order. Raises BadInput."""
    classes, by_name = import_file(file), {}
    plugins = installed(TOPOLOGIES) if file == TOPOLOGY_FILE else ()
    for module in (classes, *map(import_installed, plugins)):
        for topology in vars(module).values():
            if (
                isinstance(topology, type)
                and classes.Topo in topology.__mro__[1:]
                and topology.__module__ == module.__name__
            ):
                name = vars(topology).get("name", "")
                if name in by_name:
                    raise BadInput(
                        f"{origin_of_class(file, topology)}: two topologies are called {name}"
                    )
                by_name[name] = topology
    return by_name


def origin_of_class(file: Path, topology: type[Any]) -> str:
    """Return the file of a topology's class, or its package, for messages."""
    plugin = plugin_of(TOPOLOGIES, topology.__module__)
    return from_root(file) if plugin is None else f"plugin {plugin}"


@cache
def topologies(file: Path = TOPOLOGY_FILE) -> dict[str, Topology]:
    """Return every topology by name, in topo.py's order. Raises BadInput."""
    return {name: declaration_of_class(file, cls) for name, cls in topology_classes(file).items()}


def topology_of(name: str) -> Topology:
    """Return the topology of a name. Raises BadInput if there is none."""
    return find_by_name(name, topologies(), "topology")


def declaration_of_class(file: Path, topology: type[Any]) -> Topology:
    """Return the declaration of a class. Raises BadInput."""
    origin = f"{origin_of_class(file, topology)}: {topology.__name__}"
    attributes = {key: value for key, value in vars(topology).items() if key[0] != "_"}
    if not callable(attributes.pop("build", None)):
        raise BadInput(f"{origin}: no function build(): it cannot be built")
    try:
        return Topology(**attributes)
    except (BadInput, TypeError) as error:
        raise BadInput(f"{origin}: {error}") from None
