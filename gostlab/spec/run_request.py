# SPDX-License-Identifier: MIT
"""Represent the settings requested of a run, with defaults, and which of them are explicit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gostlab.registry.topologies import Topology, topologies, topology_of
from gostlab.registry.tunnels import TunnelKind, tunnel_kind
from gostlab.spec.settings import Setting, Settings
from gostlab.spec.yaml_source import Node


@dataclass(frozen=True)
class RunRequest:
    """Represent the settings of one run, as its kernel supports them."""

    settings: Mapping[str, Setting]  # All settings, including defaults.
    written: Settings  # The explicit settings, including narrower ones: forward.loss, cc.client.

    def __getitem__(self, name: str) -> Any:
        return self.settings[name].value

    def node(self, name: str) -> Node:
        """Return the node of a setting; a flow's or a path's too, if it is explicit."""
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
    """Return the names of the topologies that satisfy a condition, as text."""
    return " or ".join(topology.name for topology in topologies().values() if fits(topology))
