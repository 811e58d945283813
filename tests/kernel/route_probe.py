# SPDX-License-Identifier: MIT
"""Run in a guest: where a router sends packets while its routes change, one line of JSON.

Four namespaces: `src` and the exits `a` and `b`, each on a veth of the router's. Both exits have
the address that src sends to. A case says how many packets each exit got, and what they waited.
"""

import contextlib
import ctypes
import json
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

TO = "10.9.0.1"
PORTS = (7000, 7001)
SWITCH, KNOWN = (
    f"/sys/module/kernel/parameters/{name}" for name in ("tt_last_routes", "tt_routes_known")
)
libc = ctypes.CDLL(None, use_errno=True)


def sh(*commands: str) -> None:
    """Run commands in the namespace that this process is in."""
    words = ["sh", "-e", "-c", "\n".join(commands)]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


def enter(namespace: str) -> None:
    with open(f"/var/run/netns/{namespace}") as file:
        assert libc.setns(file.fileno(), 0) == 0


def inside(namespace: str, *commands: str) -> None:
    if commands:
        enter(namespace)
        sh(*commands)


def socket_in(namespace: str, kind: int = socket.SOCK_DGRAM) -> socket.socket:
    """A socket of another namespace, used from here."""
    enter(namespace)
    return socket.socket(socket.AF_INET, kind)


def lay_out(exit_of_routes: str) -> None:
    sh(*(f"ip netns add {name}" for name in ("src", "router", "a", "b")))
    for number, name in enumerate(("src", "a", "b"), start=1):
        sh(f"ip link add {name}0 netns {name} type veth peer name to-{name} netns router")
        inside(
            name,
            f"ip addr add 10.7.{number}.1/24 dev {name}0",
            f"ip link set {name}0 up",
            "ip link set lo up",
            f"ip route add default via 10.7.{number}.2",
        )
        inside(
            "router", f"ip addr add 10.7.{number}.2/24 dev to-{name}", f"ip link set to-{name} up"
        )
    for name in ("a", "b"):
        inside(name, f"ip addr add {TO}/32 dev lo")
    inside("src", "ip addr add 10.8.0.1/32 dev lo")
    inside("router", "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0")
    inside("router", f"ip route add {TO} via {VIA[exit_of_routes]}", SETTLE)


# The kernel handles a change of carrier in a work queue, some changes only a second later. Until
# then the peer of a veth that came up drops what it sends, such as an ARP reply, which is asked for
# again a second later.
SETTLE = "sleep 2.5"
VIA = {"a": "10.7.2.1", "b": "10.7.3.1"}
# A case's name, the packets of six that the exits a and b get, what the router is told before, and
# how they are sent.
CASES: list[tuple[str, list[int], list[str], dict[str, Any]]] = [
    ("first", [6, 0], [], {}),
    ("again", [6, 0], [], {}),
    ("replaced", [0, 6], [f"ip route replace {TO} via {VIA['b']}"], {}),
    ("deleted", [0, 0], [f"ip route del {TO}"], {}),
    ("wider", [6, 0], [f"ip route add 10.9.0.0/16 via {VIA['a']}"], {}),
    ("more specific", [0, 6], [f"ip route add {TO} via {VIA['b']} metric 9"], {}),
    ("better metric", [6, 0], [f"ip route add {TO} via {VIA['a']} metric 5"], {}),
    ("blackhole", [0, 0], [f"ip route add blackhole {TO} metric 1"], {}),
    ("no blackhole", [6, 0], [f"ip route del blackhole {TO} metric 1"], {}),
    ("another TOS", [0, 6], [f"ip route add {TO} tos 0x10 via {VIA['b']}"], {"sender": 2}),
    ("no TOS", [6, 0], [], {}),
    ("TOS deleted", [6, 0], [f"ip route del {TO} tos 0x10"], {"sender": 2}),
    ("filtered", [0, 0], ["sysctl -qw net.ipv4.conf.all.rp_filter=1"], {"sender": 1}),
    ("not filtered", [6, 0], ["sysctl -qw net.ipv4.conf.all.rp_filter=0"], {"sender": 1}),
    ("no forwarding", [0, 0], ["sysctl -qw net.ipv4.ip_forward=0"], {}),
    ("forwarding", [6, 0], ["sysctl -qw net.ipv4.ip_forward=1"], {}),
    ("one card does not", [0, 0], ["sysctl -qw net.ipv4.conf.to-src.forwarding=0"], {}),
    ("one card does", [6, 0], ["sysctl -qw net.ipv4.conf.to-src.forwarding=1"], {}),
    ("its own address", [0, 0], [f"ip addr add {TO}/32 dev lo"], {}),
    ("not its own", [6, 0], [f"ip addr del {TO}/32 dev lo"], {}),
    ("a source of its own", [0, 0], ["ip addr add 10.8.0.1/32 dev lo"], {"sender": 1}),
    ("a source of others", [6, 0], ["ip addr del 10.8.0.1/32 dev lo"], {"sender": 1}),
    ("exit down", [0, 6], ["ip link set to-a down"], {}),
    (
        "exit up",
        [6, 0],
        ["ip link set to-a up", SETTLE, f"ip route add {TO} via {VIA['a']} metric 5"],
        {},
    ),
    ("no carrier at the exit", [0, 0], ["ip netns exec a ip link set a0 down", SETTLE], {}),
    # With those that waited for the neighbour.
    ("carrier", [12, 0], ["ip netns exec a ip link set a0 up", SETTLE], {}),
    ("entry down and up", [6, 0], ["ip link set to-src down", "ip link set to-src up", SETTLE], {}),
    # Rules come last: a namespace that has had any has nothing remembered.
    (
        "ports",
        [3, 3],
        [
            "ip rule add ipproto udp dport 7001 table 100",
            f"ip route add {TO} via {VIA['b']} table 100",
        ],
        {"ports": PORTS},
    ),
    ("ports deleted", [6, 0], ["ip rule del table 100"], {"ports": PORTS}),
    ("sources", [0, 6], ["ip rule add from 10.8.0.1 table 100"], {"sender": 1}),
    ("other sources", [6, 0], [], {}),
    ("sources deleted", [6, 0], ["ip rule del table 100"], {"sender": 1}),
]


class Counted:
    """The sockets of one layout."""

    def __init__(self) -> None:
        self.exits = {(name, port): socket_in(name) for name in ("a", "b") for port in PORTS}
        for (_, port), each in self.exits.items():
            each.bind((TO, port))
        self.senders = [socket_in("src") for _ in range(3)]
        self.senders[1].bind(("10.8.0.1", 0))
        self.senders[2].setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x10)

    def sent(self, count: int = 6, sender: int = 0, ports: Sequence[int] = PORTS[:1]) -> list[int]:
        """Packets that [a, b] got of so many, and the ns that all of them took."""
        got, took = {"a": 0, "b": 0}, 0
        for number in range(count):
            at = struct.pack("q", time.monotonic_ns())
            # What a router answered to the last one is an error of the next.
            with contextlib.suppress(OSError):
                self.senders[sender].sendto(at, (TO, ports[number % len(ports)]))
            last = number == count - 1
            while ready := select.select(list(self.exits.values()), [], [], 0.02)[0]:
                for each in ready:
                    took += time.monotonic_ns() - struct.unpack("q", each.recv(8))[0]
                    got[next(name for (name, _), own in self.exits.items() if own is each)] += 1
                if not last:
                    break
        return [got["a"], got["b"], took]

    def close(self) -> None:
        for each in (*self.exits.values(), *self.senders):
            each.close()


def cases() -> dict[str, list[int]]:
    """Where packets go in each case."""
    lay_out("a")
    router = Counted()
    found: dict[str, list[int]] = {}
    for name, _, commands, how in CASES:
        inside("router", *commands)
        found[name] = router.sent(**how)
    router.close()
    enter("src")  # not to be who keeps it
    sh("ip netns del router")
    time.sleep(1)
    # Nothing keeps a namespace that is gone: its ends of the cables go with it.
    left = subprocess.run(
        "ip netns exec src ip -o link", shell=True, check=True, capture_output=True, text=True
    ).stdout
    found["namespace gone"] = [left.count("src0")]
    sh(*(f"ip netns del {name}" for name in ("src", "a", "b")))
    lay_out("b")
    router = Counted()
    found["anew"] = router.sent()
    return found


if __name__ == "__main__":
    with open(SWITCH, "w") as switch:
        switch.write(sys.argv[1])
    told = cases()
    with open(KNOWN) as file:
        known = int(file.read())
    print(json.dumps({"known": known, "cases": told}))
