"""What runs need of the set-up: which kernels, programs and servers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gostlab.registry.iperf3_versions import OWN
from gostlab.registry.kernels import SHIPPED
from gostlab.registry.programs import OF_FLOWS
from gostlab.registry.tunnels import tunnel_kinds


@dataclass(frozen=True)
class RunRequirements:
    """What some runs need. Debian's packages are every run's."""

    kernels: tuple[str, ...] = ()  # by name
    iperf3s: tuple[str, ...] = ()  # of the lab's own, by version
    gosts: tuple[str, ...] = ()  # what they call the GOST of their tunnels: auto, relay, a name
    tunnels: tuple[str, ...] = ()  # the kinds whose programs are Debian's, by name
    programs: tuple[str, ...] = ()  # of flows, by name
    root: bool = False  # whether one boots on the lab's own root
    iproute2: bool = False  # whether one's sandbox has this machine's files, and so its tc

    @property
    def any(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    @property
    def words(self) -> str:
        """For people: kernel 5.10, iperf3 3.9, relay."""
        named = [f"kernel {name}" if name != SHIPPED else "kernel" for name in self.kernels]
        named += [f"iperf3 {version}" for version in self.iperf3s]
        named += ["relay"] if self.gosts else []
        named += [*self.tunnels, *self.programs]
        named += [name for name in ("root", "iproute2") if getattr(self, name)]
        return ", ".join(named)


def from_json(values: Mapping[str, Any]) -> RunRequirements:
    read: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return RunRequirements(**read)


def everything() -> RunRequirements:
    """All that the set-up brings where nobody says what for."""
    unpacked = [kind.name for kind in dict.fromkeys(tunnel_kinds().values()) if kind.unpacked]
    programs = tuple(unpacked), tuple(OF_FLOWS)
    return RunRequirements((SHIPPED,), tuple(OWN), ("auto", "relay"), *programs, root=True)


# What `./lab try` needs when nothing but its defaults is requested.
A_QUESTION = RunRequirements((SHIPPED,), (next(iter(OWN)),), root=True)
