# SPDX-License-Identifier: MIT
"""Run one connection over a path that changes when the congestion control's state does.

    python3 -m gostlab.cc_cases.in_guest FOLDER

FOLDER has scenario.json and gets `rows`, a line per ACK as the module shows its state, and
`netstat`, the sender's TCP counters before and after, written last.

Two hosts and a router: the data's queue has the rate, the ACKs' queue the delay. Keys of a
scenario: cc (the kernel's name), module, seconds, path and acks (netem's arguments), app (what the
program sends: [[from_s, bit/s or null for all it can], ...]), when: a list of {state, after_s,
path, acks, app}: once the control is in that state after that time, the path, or what the program
sends from then on, becomes this.
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
from typing import Any, NotRequired, TypedDict

from gostlab.guest.reset_clock import reset_virtual_clock

CLONE_NEWNET = 0x40000000
TCP_NOTSENT_LOWAT = 25
SYSCTLS = "net.ipv4.ip_forward=1 net.ipv4.tcp_no_metrics_save=1"
MIN_WRITE_BYTES = 5 * 1448
SENDER_COUNTERS = Path("/proc/thread-self/net/netstat")
SEED = 1
READ_EVERY_S = 0.1  # interval of reads if nothing waits for a state
ROUTES = {"a": "route add default via 10.0.1.2", "b": "route add default via 10.0.2.2"}
ADDRESSES = {"a": {"a0": "1.1"}, "r": {"ra": "1.2", "rb": "2.2"}, "b": {"b0": "2.1"}}

# What the sender's program wants to send: [s, bit/s] from a time on; None: as much as it can.
AppRates = list[list[Any]]


class PathChange(TypedDict):
    """A change of a scenario, once: after a time, and in a state if it names one."""

    after_s: float
    state: NotRequired[str]
    path: NotRequired[str]  # tc's words
    acks: NotRequired[str]
    app: NotRequired[AppRates]


class Scenario(TypedDict):
    """The contents of scenario.json."""

    seconds: float
    path: str  # tc's words of the bottleneck, and of the way back
    acks: str
    app: NotRequired[AppRates]
    when: NotRequired[list[PathChange]]
    cc: str
    module: str


def run(command: str, stdin: str = "") -> None:
    subprocess.run(command.split(), input=stdin, text=True, check=True)


def build_network(scenario: Scenario) -> None:
    """Connect the namespaces a and b by the router r, and shape its two queues."""
    pairs = [f"link add {host}0 netns {host} type veth peer name r{host} netns r" for host in "ab"]
    run("ip -batch -", "\n".join([*(f"netns add {name}" for name in ADDRESSES), *pairs]))
    for name, addresses in ADDRESSES.items():
        lines = ["link set lo up"]
        for dev, address in addresses.items():
            lines += [f"addr add 10.0.{address}/24 dev {dev}", f"link set {dev} up"]
        lines += [ROUTES[name]] if name in ROUTES else []
        run(f"ip -n {name} -batch -", "\n".join(lines))
        for dev in addresses:
            run(f"ip netns exec {name} ethtool -K {dev} tso off gso off gro off")
        run(f"ip netns exec {name} sysctl -qw {SYSCTLS}")
    for dev, qdisc in (("rb", scenario["path"]), ("ra", scenario["acks"])):
        shape(dev, qdisc)


def shape(dev: str, qdisc: str, verb: str = "replace") -> None:
    run(f"ip netns exec r tc qdisc {verb} dev {dev} root {qdisc}")


def enter(namespace: str) -> None:
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def connect(cc: str) -> tuple[socket.socket, socket.socket]:
    """Return the sending and the receiving end of a connection; the caller is in namespace a."""
    enter("b")
    server = socket.create_server(("10.0.2.1", 5001))
    enter("a")
    sender = socket.socket()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    # Little of what the program writes waits in the socket, so that it can still stop.
    sender.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1 << 16)
    sender.connect(("10.0.2.1", 5001))
    sender.setblocking(False)
    # Unsent data is dropped at the end.
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sender, server.accept()[0]


def wanted_bytes(app: AppRates, at_s: float) -> float:
    """Return how much the program has wanted to send by then; infinite if all that it can."""
    total = 0.0
    for (start_s, rate), (end_s, _) in zip(app, [*app[1:], (1e9, 0)], strict=True):
        if at_s > start_s:
            if rate is None:
                return float("inf") if at_s < end_s else total
            total += rate / 8 * (min(at_s, end_s) - start_s)
    return total


def send(scenario: Scenario, rows_file: Path, counters_file: Path) -> None:
    """Send for the scenario's length, change the path when it says, and record every state."""
    states = os.open(f"/proc/gostlab-{scenario['module']}", os.O_RDONLY)
    sender, receiver = connect(scenario["cc"])
    before = SENDER_COUNTERS.read_text()
    app, when = scenario.get("app", [[0, None]]), list(scenario.get("when", []))
    select_s = 0.002 if "app" in scenario or "when" in scenario else 0.05
    block, sent, base, began_s = bytes(1 << 16), 0, 0, time.monotonic()
    app_from_s = read_at_s = 0.0
    with rows_file.open("wb") as rows:
        while (at_s := time.monotonic() - began_s) < scenario["seconds"]:
            wanted = base + wanted_bytes(app, at_s - app_from_s)
            if wanted == float("inf"):
                base, room = sent, len(block)
            else:
                room = int(min(wanted - sent, len(block)))
            writers = [sender] if room >= MIN_WRITE_BYTES else []
            readable, writable, _ = select.select([receiver], writers, [], select_s)
            if readable:
                receiver.recv(1 << 18)
            if writable:
                sent += sender.send(block[:room])
            due = [event for event in when if event["after_s"] <= at_s]
            if not due and at_s - read_at_s < READ_EVERY_S:
                continue
            read_at_s = at_s
            lines = os.read(states, 1 << 20)
            rows.write(lines)
            state = last_state(lines)
            for change in due:
                if change.get("state") not in (None, state):
                    continue
                when.remove(change)
                for dev, qdisc in (("rb", change.get("path")), ("ra", change.get("acks"))):
                    if qdisc is not None:
                        shape(dev, qdisc, "replace" if "tbf" in qdisc else "change")
                if "app" in change:
                    app, app_from_s, base = change["app"], at_s, sent
        rows.write(os.read(states, 1 << 20))
    counters_file.write_text(before + SENDER_COUNTERS.read_text())


def last_state(lines: bytes) -> str | None:
    """Return the state in the last of a module's lines, or None if it shows none."""
    head, tab, values = lines.decode("ascii").rstrip().rpartition("\n")[2].partition("\t")
    for name, value in zip(head.split(" ")[3:], values.split(), strict=False):
        key, _, arguments = name.partition("=")
        if tab and key == "state" and arguments:
            return arguments.split("|")[int(value)]
    return None


def main(argv: list[str]) -> int:
    folder = Path(argv[1])
    scenario: Scenario = json.loads((folder / "scenario.json").read_text())
    parameter = Path(f"/sys/module/{scenario['module']}/parameters/gostlab_every_ack")
    parameter.write_text("1")
    build_network(scenario)
    reset_virtual_clock("virtual", SEED)
    send(scenario, folder / "rows", folder / "netstat")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
