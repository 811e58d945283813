# SPDX-License-Identifier: MIT
"""Run in a guest: how long packets wait for a moderated card, and how long GRO keeps one.

Two namespaces on one veth. Prints one line of JSON: for `at_random`, UDP packets at random instants,
what each waited (µs, from its send call to the receiving stack's time stamp) and how long before it
the last one had been sent; for `lone_segment`, what a TCP segment without PSH waited for its reader.
"""

import ctypes
import itertools
import json
import random
import socket
import struct
import subprocess
import sys
import time

SO_TIMESTAMPNS = 35
MSG_MORE = 0x8000
PR_SET_TIMERSLACK = 29
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


def lay_out() -> None:
    sh("ip netns add one && ip netns add two")
    sh("ip link add one0 netns one type veth peer name two0 netns two")
    for name, number in (("one", 1), ("two", 2)):
        inside(
            name,
            # IPv6's own packets would be interrupts that nobody sent for.
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1",
            f"ip addr add 10.7.0.{number}/24 dev {name}0",
            f"ip link set {name}0 up",
            f"ethtool -K {name}0 tso off gso off gro off tx-udp-segmentation off",
        )


def at_random(count: int) -> dict[str, list[float]]:
    receiver, sender = socket_in("two", socket.SOCK_DGRAM), socket_in("one", socket.SOCK_DGRAM)
    receiver.bind(("10.7.0.2", 7))
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    sender.connect(("10.7.0.2", 7))
    sender.send(b"")  # the neighbours' addresses
    receiver.recv(16)
    time.sleep(0.01)
    libc.prctl(PR_SET_TIMERSLACK, 1)
    chance, sent, waited = random.Random(1), [], []
    for _ in range(count):
        time.sleep(chance.expovariate(1 / 60e-6))
        sent.append(time.time_ns())
        sender.send(struct.pack("q", sent[-1]))
    for at in sent:
        data, control, _, _ = receiver.recvmsg(16, 64)
        assert struct.unpack("q", data) == (at,)
        seconds, nanoseconds = struct.unpack("qq", control[0][2])
        waited.append((seconds * 10**9 + nanoseconds - at) / 1000)
    since = [(one - before) / 1000 for before, one in itertools.pairwise(sent)]
    return {"waited_us": waited[1:], "since_last_us": since}


def lone_segment(count: int) -> dict[str, list[float]]:
    listener, sender = socket_in("two", socket.SOCK_STREAM), socket_in("one", socket.SOCK_STREAM)
    listener.bind(("10.7.0.2", 8))
    listener.listen()
    sender.connect(("10.7.0.2", 8))
    receiver, _ = listener.accept()
    chance, waited = random.Random(1), []
    for _ in range(count):
        time.sleep(0.05 + chance.random() / 100)
        sent = time.monotonic_ns()
        sender.send(bytes(1448), MSG_MORE)
        assert receiver.recv(2000)
        waited.append((time.monotonic_ns() - sent) / 1000)
    return {"waited_us": waited}


if __name__ == "__main__":
    lay_out()
    for command in sys.argv[2:]:
        inside("two", command)
    measure = {"at_random": at_random, "lone_segment": lone_segment}[sys.argv[1]]
    print(json.dumps(measure(400 if sys.argv[1] == "at_random" else 40)))
