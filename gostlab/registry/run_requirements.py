# SPDX-License-Identifier: MIT
"""Represent the parts that runs require: kernels, programs and servers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gostlab.registry.iperf3_versions import OWN
from gostlab.registry.kernels import SHIPPED
from gostlab.registry.traffic_programs import OF_FLOWS
from gostlab.registry.tunnels import tunnel_kinds


@dataclass(frozen=True)
class RunRequirements:
    """Represent the parts that some runs require, besides the Debian packages of every run."""

    kernels: tuple[str, ...] = ()  # The names of kernels.
    iperf3s: tuple[str, ...] = ()  # The versions of iperf3 that gostlab builds.
    gosts: tuple[str, ...] = ()  # The GOSTs of their tunnels: auto, relay, or a name.
    tunnels: tuple[str, ...] = ()  # The tunnels whose programs are Debian's, by name.
    programs: tuple[str, ...] = ()  # The programs of flows, by name.
    root: bool = False  # Whether a run boots from gostlab's own root file system.
    # Whether a run's sandbox has this machine's files, and therefore its tc.
    iproute2: bool = False

    @property
    def any(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    @property
    def names_line(self) -> str:
        """Return the parts as text: kernel 5.10, iperf3 3.9, relay."""
        named = [f"kernel {name}" if name != SHIPPED else "kernel" for name in self.kernels]
        named += [f"iperf3 {version}" for version in self.iperf3s]
        named += ["relay"] if self.gosts else []
        named += [*self.tunnels, *self.programs]
        named += [name for name in ("root", "iproute2") if getattr(self, name)]
        return ", ".join(named)


def from_json(values: Mapping[str, object]) -> RunRequirements:
    read: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return RunRequirements(**read)


def everything() -> RunRequirements:
    """Return all parts that the installation makes by default."""
    unpacked = [tunnel.name for tunnel in dict.fromkeys(tunnel_kinds().values()) if tunnel.unpacked]
    programs = tuple(unpacked), tuple(OF_FLOWS)
    return RunRequirements((SHIPPED,), tuple(OWN), ("auto", "relay"), *programs, root=True)


# The requirements of `./lab try` with its defaults.
A_QUESTION = RunRequirements((SHIPPED,), (next(iter(OWN)),), root=True)
