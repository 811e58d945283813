"""In a guest: one connection over a path that changes when the control's state does.

python3 bbr_path.py SCENARIO.json OUT     prints nothing; OUT gets a line per ACK, as the module shows
its state, OUT.netstat the sender's TCP counters

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
import subprocess
import sys
import time
from pathlib import Path

CLONE_NEWNET = 0x40000000
NAMES = ("a", "r", "b")
TCP_NOTSENT_LOWAT = 25
LUMP_BYTES = 5 * 1448


def sh(words: str) -> None:
    subprocess.run(words.split(), check=True)


def shape(dev: str, words: str, verb: str = "replace") -> None:
    sh(f"ip netns exec r tc qdisc {verb} dev {dev} root {words}")


def lay_out(scenario: dict) -> None:
    for name in NAMES:
        sh(f"ip netns add {name}")
        sh(f"ip -n {name} link set lo up")
    for one, net in (("a", 1), ("b", 2)):
        sh(f"ip link add {one}0 netns {one} type veth peer name r{one} netns r")
        for space, dev, host in ((one, f"{one}0", 1), ("r", f"r{one}", 2)):
            sh(f"ip -n {space} addr add 10.0.{net}.{host}/24 dev {dev}")
            sh(f"ip -n {space} link set {dev} up")
            sh(f"ip netns exec {space} ethtool -K {dev} tso off gso off gro off")
        sh(f"ip -n {one} route add default via 10.0.{net}.2")
        sh(f"ip netns exec {one} sysctl -qw net.ipv4.tcp_no_metrics_save=1")
    sh("ip netns exec r sysctl -qw net.ipv4.ip_forward=1")
    shape("rb", scenario["path"], "add")
    shape("ra", scenario["acks"], "add")


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


def main(argv: list[str]) -> None:
    scenario, out = json.loads(Path(argv[1]).read_text()), Path(argv[2])
    lay_out(scenario)
    shown = os.open(f"/proc/gostlab-cc_{scenario['cc']}", os.O_RDONLY)
    Path(f"/sys/module/cc_{scenario['cc']}/parameters/gostlab_every_ack").write_text("1")
    source, sink = connect(scenario["cc"])
    app, when = scenario.get("app", [[0, None]]), list(scenario.get("when", []))
    block, sent, base, began = bytes(1 << 16), 0, 0, time.monotonic()
    app_from = 0.0
    with out.open("wb") as rows:
        while (at_s := time.monotonic() - began) < scenario["seconds"]:
            wanted = base + wanted_bytes(app, at_s - app_from)
            room = int(min(wanted - sent, len(block)))
            if wanted == float("inf"):
                base, room = sent, len(block)  # what was sent without a limit is not owed again
            # A program writes in lumps: a byte at a time would be a packet each.
            source_of = [source] if room >= LUMP_BYTES else []
            readable, writable, _ = select.select([sink], source_of, [], 0.002)
            if readable:
                sink.recv(1 << 18)
            if writable:
                sent += source.send(block[:room])
            piece = os.read(shown, 1 << 18)
            rows.write(piece)
            state = last_state(piece)
            for order in [each for each in when if each["after_s"] <= at_s]:
                if order.get("state") not in (None, state):
                    continue
                when.remove(order)
                for dev, key in (("rb", "path"), ("ra", "acks")):
                    if key in order:
                        shape(dev, order[key], "change" if "tbf" not in order[key] else "replace")
                if "app" in order:
                    app, app_from, base = order["app"], at_s, sent
        rows.write(os.read(shown, 1 << 20))
    enter("a")
    out.with_name(out.name + ".netstat").write_text(
        Path("/proc/thread-self/net/netstat").read_text()
    )


WORDS = ("STARTUP", "DRAIN", "DOWN", "CRUISE", "REFILL", "UP", "PROBE_RTT")


def last_state(piece: bytes) -> str | None:
    """The state in the last line of a piece; None for an empty one."""
    lines = piece.rstrip().rsplit(b"\n", 1)
    _, tab, values = lines[-1].partition(b"\t")
    return WORDS[int(values.split()[0])] if tab else None


if __name__ == "__main__":
    main(sys.argv)
