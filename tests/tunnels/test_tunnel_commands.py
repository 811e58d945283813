# SPDX-License-Identifier: MIT
"""What a tunnel of GOST's family is started with: GOST's own words (go-gost/gost 3.2), for a real
one as for the lab's relay, which stands in for it.
"""

from pathlib import Path
from typing import cast

import pytest

from gostlab.guest.network import Network
from gostlab.guest.tunnel_context import TunnelLaunch, TunnelProcesses, pairs_of
from gostlab.install.locate import TunnelBinary
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.run_spec import RunSpec
from gostlab.tunnels.gost import end_argv
from tests.spec.test_flow import one

ADDRESSES = {"client": "10.0.1.1", "gost": "10.0.3.2", "target": "10.0.4.2", "gost2": "10.0.7.2"}
GOST_3 = TunnelBinary(Path("/opt/gost"), "gost", "gost v3.2.6 (go1.25 linux/amd64)", "0" * 64)


class Addresses:
    """As much of a network as a command line needs."""

    def ip(self, node: str) -> str:
        return ADDRESSES[node]


def launch_of(run: RunSpec) -> TunnelLaunch:
    flow, flows = next(iter(pairs_of(run).items()))
    return TunnelLaunch(
        cast(Network, Addresses()),
        run,
        GOST_3,
        nodes=run.tunnel_ends(flows[0]),
        ends=TunnelProcesses(Path("/nowhere")),
        scratch=Path("/nowhere"),
        flow=flow,
        flows=flows,
    )


def commands(settings: str, scheme: str) -> list[str]:
    launch = launch_of(one(settings))
    return [" ".join(end_argv(launch, scheme, node, "")) for node in launch.nodes]


# The listeners and diallers that GOST 3 knows by these names; a typo would silently be plain TCP.
@pytest.mark.parametrize("transport", ["tcp", "tls", "ws", "wss", "mws", "mwss"])
def test_both_ends_are_started_as_the_thesis_starts_them(transport: str) -> None:
    tunnel, scheme = f"gost+{transport}", f"relay+{transport}"
    assert commands(f"{{tunnel: {tunnel}}}", scheme) == [
        f"/opt/gost -L udp://:443 -L tcp://:443 -F {scheme}://10.0.4.2:443",
        f"/opt/gost -L {scheme}://:443/127.0.0.1:80",
    ]
    kind = tunnel_kind(tunnel)
    assert tunnel_kind(scheme) is kind  # GOST's own name is the same tunnel
    assert kind.spellings[0] == scheme  # what its start is given


def test_a_gateway_leads_on_to_the_target() -> None:
    assert commands("{tunnel: gost+ws, placement: gateway}", "relay+ws") == [
        "/opt/gost -L udp://:443 -L tcp://:443 -F relay+ws://10.0.3.2:443",
        "/opt/gost -L relay+ws://:443/10.0.4.2:80",
    ]


def test_the_middle_of_a_chain_dials_the_target_through_the_far_end() -> None:
    # GOST 2 refuses an address at an end that has a fixed target: only the middle has one.
    assert commands("{hops: 2, tunnel: gost+wss}", "relay+wss") == [
        "/opt/gost -L udp://:443 -L tcp://:443 -F relay+wss://10.0.3.2:443",
        "/opt/gost -L relay+wss://:443/127.0.0.1:80 -F relay+wss://10.0.4.2:443",
        "/opt/gost -L relay+wss://:443",
    ]


def test_flows_that_share_a_connection_name_their_own_targets() -> None:
    near, far = commands("{tunnel: gost+mws, shared: 'on', flows: {a: {}, b: {}}}", "relay+mws")

    assert far == "/opt/gost -L relay+mws://:443"
    assert "-L tcp://:443/127.0.0.1:80 -L tcp://:2001/127.0.0.1:81 -F relay+mws" in near


def test_a_session_of_datagrams_outlives_its_first_answer() -> None:
    near, _ = commands("{tunnel: gost+ws, flows: {big: {}, lag: {kind: ping}}}", "relay+ws")

    assert "-L udp://:443?keepalive=true " in near
