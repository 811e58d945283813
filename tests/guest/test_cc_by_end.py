# SPDX-License-Identifier: MIT
"""Congestion control by end and by leg, as the kernel's own sockets show it."""

import pytest

from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

ENDPOINT = "cc: bbr, tunnel: gost+ws"
GATEWAY = f"{ENDPOINT}, placement: gateway"


@pytest.mark.parametrize(
    ("asked", "legs"),
    [
        ("cc: bbr, cc.target: reno", ["wan: client bbr, target reno"]),
        (
            f"{ENDPOINT}, cc.target: reno",
            ["app: client bbr", "wan: client bbr, target reno", "exit: target reno"],
        ),
        (
            f"{ENDPOINT}, cc.client: cubic, cc.target: reno, cc.wan: bbr",
            ["app: client cubic", "wan: client bbr, target bbr", "exit: target reno"],
        ),
        (
            f"{GATEWAY}, cc.gost: reno, cc.target: cubic",
            ["app: client bbr", "wan: client bbr, gost reno", "exit: gost reno, target cubic"],
        ),
        (
            f"{GATEWAY}, cc.exit: reno",
            ["app: client bbr", "wan: client bbr, gost bbr", "exit: gost reno, target reno"],
        ),
        (
            f"{GATEWAY}, direction: download, cc.client: reno, cc.target: cubic",
            ["app: client reno", "wan: gost bbr, client reno", "exit: target cubic, gost bbr"],
        ),
        # Inside a VPN another one than across the path: over UDP, and over TCP.
        ("tunnel: wireguard, cc: {inner: bbr}", ["inner: client bbr, target bbr"]),
        (
            "tunnel: openvpn+tcp, cc: {inner: reno, wan: bbr}",
            ["inner: client reno, target reno", "wan: client bbr, target bbr"],
        ),
    ],
)
def test_each_end_of_each_leg_has_its_own(lab: Lab, asked: str, legs: list[str]) -> None:
    """The data's sender comes first; a leg on loopback has one host."""
    done = lab.run(f"{{rate: 10mbit, buffer: 100pkts, duration: 1s, {asked}}}")

    found = []
    for leg in done.legs:
        ends = [(leg["sender"], leg["cc"])]
        ends += [] if leg["loopback"] else [(leg["receiver"], leg["receiver_cc"])]
        found.append(f"{leg['leg']}: " + ", ".join(f"{host} {' '.join(ccs)}" for host, ccs in ends))
    assert found == legs
    assert {verdict for name, verdict in done.verdicts.items() if name.startswith("cc_")} == {"ok"}
