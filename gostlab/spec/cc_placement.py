# SPDX-License-Identifier: MIT
"""Assign congestion controls to ends: one for all, or different ones.

An end is a host (`client`, `target`, `gost`, a dumbbell's `s1`) with all of its sockets, or a
tunnel's leg (`app`, `wan`, `exit`; of a chain `wan2`; of a VPN `inner`) with the sockets at both of
its ends. The congestion control of a leg overrides that of a host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gostlab.registry.tunnels import LEGS
from gostlab.spec import settings
from gostlab.spec.flow import cc_at
from gostlab.spec.run_request import RunRequest
from gostlab.spec.workload import RequestedFlow, wan_sender


@dataclass(frozen=True)
class CcPlacement:
    """Represent the congestion control of every end, in a canonical form.

    `of_the_rest` is that of the first flow's data across the WAN; only ends that differ are named.
    """

    of_the_rest: str
    by_end: Mapping[str, str]  # The hosts and legs that differ from of_the_rest.

    def sent_with(self, flow: RequestedFlow, request: RunRequest) -> str:
        """Return the congestion control of a flow's data on the path.

        With a VPN over UDP, it is that of the inner connection.
        """
        leg = request.tunnel.path_leg if flow.takes_tunnel else "wan"
        return cc_at(self.of_the_rest, self.by_end, wan_sender(flow, request), leg)


def resolve_ends(
    request: RunRequest, flows: Sequence[RequestedFlow], hosts: Sequence[str]
) -> CcPlacement:
    """Return the congestion control of each end, of `cc: bbr`, `cc: {client: bbr}` or `cc.client`.

    Raises BadInput for an end that is neither among `hosts` nor a leg.
    """
    narrow = {
        name[3:]: setting for name, setting in request.written.items() if name.startswith("cc.")
    }
    node = next(iter(narrow.values())).node if narrow else request.node("cc")
    named, default = {}, request["cc"]
    if isinstance(default, Mapping):
        named, default = dict(default), settings.default_setting("cc").value
    named |= {end: setting.value for end, setting in narrow.items()}
    if not named:
        return CcPlacement(default, {})
    for flow in flows:
        if "cc" in flow.fields:
            raise flow.bad("cc of its own, and cc by end besides (one of them)")
    tunnel, legs = request.tunnel, request.tunnel.legs_over(request["hops"])
    for end in named:
        if end in LEGS and end not in legs and tunnel.is_direct:
            raise node.bad(f"{end}: a leg of a tunnel, and this run has none (tunnel: direct)")
        if end in LEGS and end not in legs:
            raise node.bad(
                f"{end}: tunnel {tunnel.name} has no such leg (it has {' and '.join(legs)})"
            )
        if end not in LEGS and end not in hosts:
            raise node.bad(
                f"{end}: no connection ends on such a host here (they end on {', '.join(hosts)})"
            )
    first = CcPlacement(default, named).sent_with(flows[0], request)
    by_host = {host: named.get(host, default) for host in hosts}
    by_leg = {leg: cc for leg, cc in named.items() if leg in LEGS}
    differing = {host: cc for host, cc in by_host.items() if cc != first}
    if not differing and set(by_leg.values()) == {first}:
        by_leg = {}
    return CcPlacement(first, dict(sorted({**differing, **by_leg}.items())))
