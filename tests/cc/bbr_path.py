# SPDX-License-Identifier: MIT
"""In a guest: one connection over a path that changes when the control's state does.

python3 bbr_path.py FOLDER     prints nothing; FOLDER has scenarios.json, by name, and gets of each,
one after the other: NAME.rows, a line per ACK, as the module shows its state, and NAME.netstat, the
sender's TCP counters before and after

Two hosts and a router: the data's queue has the rate, the ACKs' the delay. Keys of a scenario: cc,
seconds, path and acks (netem's words), app (what the program sends: [[from_s, bit/s or null for all
it can], ...]), when: a list of {state, after_s, path, acks, app}: once the control is in that state
after that time, the path, or what the program sends from then on, becomes this.
"""

import ctypes
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

CLONE_NEWNET = 0x40000000
TCP_NOTSENT_LOWAT = 25
KNOWS = "net.ipv4.ip_forward=1 net.ipv4.tcp_no_metrics_save=1"
LUMP_BYTES = 5 * 1448
OWN_COUNTERS = Path("/proc/thread-self/net/netstat")
LOOK_S = 0.1  # how often the states are read where nothing depends on them


def sh(words: str, typed: str = "") -> None:
    subprocess.run(words.split(), input=typed, text=True, check=True)


def shape(dev: str, words: str, verb: str = "replace") -> None:
    sh(f"ip netns exec r tc qdisc {verb} dev {dev} root {words}")


def lay_out() -> None:
    devices = {"a": {"a0": "1.1"}, "r": {"ra": "1.2", "rb": "2.2"}, "b": {"b0": "2.1"}}
    pairs = [f"link add {one}0 netns {one} type veth peer name r{one} netns r" for one in "ab"]
    sh("ip -batch -", "\n".join([*(f"netns add {name}" for name in devices), *pairs]))
    for name, addresses in devices.items():
        up = [
            f"addr add 10.0.{own}/24 dev {dev}\nlink set {dev} up" for dev, own in addresses.items()
        ]
        way = {"a": ["route add default via 10.0.1.2"], "b": ["route add default via 10.0.2.2"]}
        sh(f"ip -n {name} -batch -", "\n".join(["link set lo up", *up, *way.get(name, [])]))
        for dev in addresses:
            sh(f"ip netns exec {name} ethtool -K {dev} tso off gso off gro off")
        sh(f"ip netns exec {name} sysctl -qw {KNOWS}")
    for dev in devices["r"]:
        shape(dev, "pfifo")  # to be taken away by the first scenario


def begin(scenario: dict) -> None:
    """The path of a scenario, with nothing left in its queues."""
    lines = []
    for dev, key in (("rb", "path"), ("ra", "acks")):
        lines += [f"qdisc del dev {dev} root", f"qdisc add dev {dev} root {scenario[key]}"]
    sh("ip netns exec r tc -batch -", "\n".join(lines))


def enter(name: str) -> None:
    with open(f"/run/netns/{name}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def connect(cc: str) -> tuple[socket.socket, socket.socket]:
    enter("b")
    sink = socket.create_server(("10.0.2.1", 5001))
    enter("a")
    source = socket.socket()
    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    source.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    # What the program wants to send it can still leave: little of it waits in the socket.
    source.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1 << 16)
    source.connect(("10.0.2.1", 5001))
    source.setblocking(False)
    # What it has not sent by its end is not to be in the next one's way.
    source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return source, sink.accept()[0]


def wanted_bytes(app: list, at_s: float) -> float:
    """How much the program has wanted to send by then; without end where it wants all it can."""
    total = 0.0
    for (start, rate), (end, _) in zip(app, [*app[1:], (1e9, 0)], strict=True):
        if at_s > start:
            if rate is None:
                return float("inf") if at_s < end else total
            total += rate / 8 * (min(at_s, end) - start)
    return total


def carry(scenario: dict, rows_file: Path, counters: Path) -> None:
    shown = os.open(f"/proc/gostlab-cc_{scenario['cc']}", os.O_RDONLY)
    source, sink = connect(scenario["cc"])
    before = OWN_COUNTERS.read_text()
    app, when = scenario.get("app", [[0, None]]), list(scenario.get("when", []))
    watching = "app" in scenario or "when" in scenario
    block, sent, base, began = bytes(1 << 16), 0, 0, time.monotonic()
    app_from = looked_s = 0.0
    with rows_file.open("wb") as rows:
        while (at_s := time.monotonic() - began) < scenario["seconds"]:
            wanted = base + wanted_bytes(app, at_s - app_from)
            room = int(min(wanted - sent, len(block)))
            if wanted == float("inf"):
                base, room = sent, len(block)  # what was sent without a limit is not owed again
            # A program writes in lumps: a byte at a time would be a packet each.
            source_of = [source] if room >= LUMP_BYTES else []
            readable, writable, _ = select.select(
                [sink], source_of, [], 0.002 if watching else 0.05
            )
            if readable:
                sink.recv(1 << 18)
            if writable:
                sent += source.send(block[:room])
            due = [each for each in when if each["after_s"] <= at_s]
            if not due and at_s - looked_s < LOOK_S:
                continue
            looked_s = at_s
            piece = os.read(shown, 1 << 20)
            rows.write(piece)
            state = last_state(piece)
            for order in due:
                if order.get("state") not in (None, state):
                    continue
                when.remove(order)
                for dev, key in (("rb", "path"), ("ra", "acks")):
                    if key in order:
                        shape(dev, order[key], "change" if "tbf" not in order[key] else "replace")
                if "app" in order:
                    app, app_from, base = order["app"], at_s, sent
        rows.write(os.read(shown, 1 << 20))
    counters.write_text(before + OWN_COUNTERS.read_text())


def main(argv: list[str]) -> None:
    folder = Path(argv[1])
    lay_out()
    for name, scenario in json.loads((folder / "scenarios.json").read_text()).items():
        parameters = Path(f"/sys/module/cc_{scenario['cc']}/parameters")
        (parameters / "gostlab_every_ack").write_text("1")
        begin(scenario)
        child = os.fork()
        if not child:  # whose namespace is another, and whose sockets end with it
            carry(scenario, folder / f"{name}.rows", folder / f"{name}.netstat")
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"{name} failed")


WORDS = ("STARTUP", "DRAIN", "DOWN", "CRUISE", "REFILL", "UP", "PROBE_RTT")


def last_state(piece: bytes) -> str | None:
    """The state in the last line of a piece; None for an empty one."""
    lines = piece.rstrip().rsplit(b"\n", 1)
    _, tab, values = lines[-1].partition(b"\t")
    return WORDS[int(values.split()[0])] if tab else None


if __name__ == "__main__":
    main(sys.argv)
