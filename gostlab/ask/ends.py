"""Congestion control by end: one for all, or who sends with which.

An end is a host (`client`, `target`, `gost`, a dumbbell's `s1`) with all of its sockets, or one of
a tunnel's legs (`app`, `wan`, `exit`; of a chain `wan2`; of a VPN `inner`) with the sockets at both
of its ends. What
is said of a leg is stronger than what is said of a host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from gostlab.ask.document import Node
from gostlab.declared.topologies import topology_of
from gostlab.declared.tunnels import LEGS, tunnel_kind

if TYPE_CHECKING:  # as in flows.py
    from gostlab.ask.settings import Setting, Settings


class Sending(Protocol):
    """What a flow says of who sends its data."""

    @property
    def takes_tunnel(self) -> bool: ...
    @property
    def sender(self) -> str: ...
    @property
    def receiver(self) -> str: ...
    @property
    def direction(self) -> str: ...


@dataclass(frozen=True)
class Ends:
    """The congestion control of every end."""

    of_the_rest: str
    by_end: Mapping[str, str]  # hosts and legs with another; {}: all the same
    node: Node

    def of(self, host: str, leg: str = "wan") -> str:
        """The congestion control of a host's sockets on a leg."""
        return cc_at(self.of_the_rest, self.by_end, host, leg)


def cc_at(of_the_rest: str, by_end: Mapping[str, str], host: str, leg: str) -> str:
    """The congestion control of a host's sockets on a leg: the leg's own, the host's, or that of
    the rest.
    """
    return by_end.get(leg) or by_end.get(host) or of_the_rest


def resolve_ends(cc: Setting, explicit: Settings) -> Ends:
    """What was asked of each end: by `cc: bbr`, `cc: {client: bbr, target: cubic}` or `cc.client`.
    Who is not named has the default.
    """
    from gostlab.ask.settings import default_setting

    narrow = {name[3:]: setting for name, setting in explicit.items() if name.startswith("cc.")}
    node = next(iter(narrow.values())).node if narrow else cc.node
    named = cc.value if isinstance(cc.value, Mapping) else {}
    rest = default_setting("cc").value if isinstance(cc.value, Mapping) else cc.value
    return Ends(rest, {**named, **{end: each.value for end, each in narrow.items()}}, node)


def settle_ends(ends: Ends, settings: Settings, flows: Sequence[Sending]) -> Ends:
    """The same in one form, however it was written: `of_the_rest` is what the first flow's data
    are sent with across the WAN, and only who differs is named. Raises BadInput for an end that is
    not there.
    """
    if not ends.by_end:
        return ends
    hosts = [host for flow in flows for host in (flow.sender, flow.receiver)]
    hosts = list(dict.fromkeys([*hosts, *tunnel_hosts(settings, flows)]))
    check_ends(ends, settings, hosts)
    rest = sent_with(ends, flows[0], settings)
    by_host = {host: ends.by_end.get(host, ends.of_the_rest) for host in hosts}
    legs = {leg: cc for leg, cc in ends.by_end.items() if leg in LEGS}
    differing = {host: cc for host, cc in by_host.items() if cc != rest}
    if not differing and set(legs.values()) == {rest}:
        legs = {}
    return replace(ends, of_the_rest=rest, by_end=dict(sorted({**differing, **legs}.items())))


def check_ends(ends: Ends, settings: Settings, hosts: Sequence[str]) -> None:
    """Every end with a congestion control of its own must be there. Raises BadInput."""
    kind = tunnel_kind(settings["tunnel"].value)
    legs = kind.legs_over(settings["hops"].value)
    for end in ends.by_end:
        if end in LEGS and end not in legs and kind.is_direct:
            raise ends.node.bad(f"{end}: a leg of a tunnel, and this run has none (tunnel: direct)")
        if end in LEGS and end not in legs:
            raise ends.node.bad(
                f"{end}: tunnel {kind.name} has no such leg (it has {' and '.join(legs)})"
            )
        if end not in LEGS and end not in hosts:
            raise ends.node.bad(
                f"{end}: no connection ends on such a host here (they end on {', '.join(hosts)})"
            )


def sent_with(ends: Ends, flow: Sending, settings: Settings) -> str:
    """The congestion control that a flow's data meet the path with: of a VPN over UDP that of the
    connection inside.
    """
    leg = tunnel_kind(settings["tunnel"].value).path_leg
    return ends.of(wan_sender(flow, settings), leg if flow.takes_tunnel else "wan")


def wan_sender(flow: Sending, settings: Settings) -> str:
    """The host that sends a flow's data across the WAN: of a chain, across its first path."""
    if flow.direction == "upload":
        return flow.sender
    behind = tunnel_hosts(settings, [flow])[1:]
    if tunnel_kind(settings["tunnel"].value).path_leg != "wan":
        behind = ()  # the connection inside goes from end to end
    return behind[0] if behind and flow.takes_tunnel else flow.receiver


def tunnel_hosts(settings: Settings, flows: Sequence[Sending]) -> tuple[str, ...]:
    """The hosts that the tunnels of some flows have an end on, along each one's way; () without a
    tunnel.
    """
    if tunnel_kind(settings["tunnel"].value).is_direct:
        return ()
    topology = topology_of(settings["topology"].value)
    placement, hops = settings["placement"].value, settings["hops"].value
    ways = (
        topology.tunnel_way(placement, hops, flow.sender, flow.receiver)
        for flow in flows
        if flow.takes_tunnel
    )
    return tuple(dict.fromkeys(host for way in ways for host in way))
