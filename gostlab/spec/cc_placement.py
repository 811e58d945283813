"""Congestion control by end: one for all, or who sends with which.

An end is a host (`client`, `target`, `gost`, a dumbbell's `s1`) with all of its sockets, or one of
a tunnel's legs (`app`, `wan`, `exit`; of a chain `wan2`; of a VPN `inner`) with the sockets at both
of its ends. What is said of a leg is stronger than what is said of a host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gostlab.registry.tunnels import LEGS
from gostlab.spec import settings
from gostlab.spec.flow import cc_at
from gostlab.spec.request import RunRequest
from gostlab.spec.workload import RequestedFlow, wan_sender


@dataclass(frozen=True)
class CcPlacement:
    """The congestion control of every end, in one form, however it was written: `of_the_rest` is
    what the first flow's data are sent with across the WAN, and only what differs is named.
    """

    of_the_rest: str
    by_end: Mapping[str, str]  # hosts and legs with another; {}: all the same

    def sent_with(self, flow: RequestedFlow, asked: RunRequest) -> str:
        """What a flow's data meet the path with: of a VPN over UDP the inner connection's."""
        leg = asked.tunnel.path_leg if flow.takes_tunnel else "wan"
        return cc_at(self.of_the_rest, self.by_end, wan_sender(flow, asked), leg)


def resolve_ends(
    asked: RunRequest, flows: Sequence[RequestedFlow], hosts: Sequence[str]
) -> CcPlacement:
    """What was asked of each end: by `cc: bbr`, `cc: {client: bbr}` or `cc.client`. Raises BadInput
    for one that is neither among `hosts` nor a leg.
    """
    narrow = {name[3:]: each for name, each in asked.written.items() if name.startswith("cc.")}
    node = next(iter(narrow.values())).node if narrow else asked.node("cc")
    named, rest = {}, asked["cc"]
    if isinstance(rest, Mapping):
        named, rest = dict(rest), settings.default_setting("cc").value
    named |= {end: each.value for end, each in narrow.items()}
    if not named:
        return CcPlacement(rest, {})
    for flow in flows:
        if "cc" in flow.fields:
            raise flow.bad("cc of its own, and cc by end besides (one of them)")
    kind, legs = asked.tunnel, asked.tunnel.legs_over(asked["hops"])
    for end in named:
        if end in LEGS and end not in legs and kind.is_direct:
            raise node.bad(f"{end}: a leg of a tunnel, and this run has none (tunnel: direct)")
        if end in LEGS and end not in legs:
            raise node.bad(
                f"{end}: tunnel {kind.name} has no such leg (it has {' and '.join(legs)})"
            )
        if end not in LEGS and end not in hosts:
            raise node.bad(
                f"{end}: no connection ends on such a host here (they end on {', '.join(hosts)})"
            )
    first = CcPlacement(rest, named).sent_with(flows[0], asked)
    by_host = {host: named.get(host, rest) for host in hosts}
    by_leg = {leg: cc for leg, cc in named.items() if leg in LEGS}
    differing = {host: cc for host, cc in by_host.items() if cc != first}
    if not differing and set(by_leg.values()) == {first}:
        by_leg = {}
    return CcPlacement(first, dict(sorted({**differing, **by_leg}.items())))
