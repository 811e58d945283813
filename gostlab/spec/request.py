"""What is asked of a run: every setting with what holds, and which of them somebody wrote."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gostlab.registry.topologies import Topology, topologies, topology_of
from gostlab.registry.tunnels import TunnelKind, tunnel_kind
from gostlab.spec.settings import Setting, Settings
from gostlab.spec.yaml_source import Node


@dataclass(frozen=True)
class RunRequest:
    """The settings of one run, as its kernel can have them."""

    settings: Mapping[str, Setting]  # all, defaults included
    written: Settings  # those that somebody wrote, and the narrower ones: forward.loss, cc.client

    def __getitem__(self, name: str) -> Any:
        return self.settings[name].value

    def node(self, name: str) -> Node:
        """Where a setting stands; a flow's or a path's too, where it is written."""
        return (self.written.get(name) or self.settings[name]).node

    @property
    def topology(self) -> Topology:
        return topology_of(self["topology"])

    @property
    def tunnel(self) -> TunnelKind:
        return tunnel_kind(self["tunnel"])

    @property
    def is_virtual(self) -> bool:
        return bool(self["clock"] == "virtual")


def topologies_with(fits: Callable[[Topology], Any]) -> str:
    """The names of the topologies that something fits, for people."""
    return " or ".join(each.name for each in topologies().values() if fits(each))
