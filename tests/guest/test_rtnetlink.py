# SPDX-License-Identifier: MIT
"""Links, addresses and routes, made by netlink."""

import pytest

from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

SAYS = """
import os
from gostlab.guest.rtnetlink import LinkError, links_of
with links_of(os.getpid()) as links:
    links.set_up("lo")
    links.add_veth("one", os.getpid(), "other", os.getpid())
    links.set_mtu("one", 1460)
    links.add_address("one", "10.0.0.1/24")
    links.set_up("one")
    links.set_up("other")
    links.add_route("10.1.0.0/16", "via 10.0.0.2")
    for refused in (
        lambda: links.add_veth("one", os.getpid(), "third", os.getpid()),
        lambda: links.set_up("none"),
        lambda: links.set_mtu("one", 20),
        lambda: links.add_address("none", "10.0.0.1/24"),
        lambda: links.add_address("one", "10.0.0.300/24"),
        lambda: links.add_route("default", "via 192.168.0.1"),
        lambda: links.add_route("10.0.0.0/8", "past one"),
    ):
        try:
            refused()
        except LinkError as error:
            print("refused:", error)
"""
REFUSED = (
    ("ip link add one type veth peer name third", "File exists"),
    ("ip link set none up", "No such device"),
    ("ip link set one mtu 20", "mtu less than device minimum"),  # the kernel's own words
    ("ip addr add 10.0.0.1/24 dev none", "no interface with this name"),
    ("ip addr add 10.0.0.300/24 dev one", "not permitted"),
    ("ip route add default via 192.168.0.1", "Nexthop has invalid gateway"),
    ("ip route add 10.0.0.0/8 past one", "via ADDRESS, dev NAME"),
)


def test_what_is_made_is_what_ip_shows_and_what_is_refused_is_said_as_ip_is_told(lab: Lab) -> None:
    script = f"unshare -n sh -c 'python3 -c \"$0\"; ip addr show one; ip route' '{SAYS}'"
    log = lab.command(script).log
    assert "mtu 1460" in log
    assert "inet 10.0.0.1/24" in log
    assert "10.1.0.0/16 via 10.0.0.2 dev one" in log
    refused = [line.removeprefix("refused: ") for line in log.splitlines() if "refused:" in line]
    assert len(refused) == len(REFUSED)
    for line, (words, why) in zip(refused, REFUSED, strict=True):
        told, _, said = line.partition(": ")
        assert told == words
        assert said and why in said
