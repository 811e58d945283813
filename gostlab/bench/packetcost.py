"""What a packet costs the host that receives it, on this machine's own kernel: the figure behind
`packet_cost`.

    python3 -m gostlab.bench.packetcost      needs iperf3, ethtool, and root or user namespaces

Two network namespaces, a veth between them, offloads off, all of it on one CPU. iperf3 fills the
link by TCP, and all that CPU does in soft interrupts meanwhile (receiving data, receiving ACKs, and
what that sends in turn) is divided by the packets that were received. A real card's driver is not
in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODULE = "gostlab.bench.packetcost"
SECONDS = 10
OFFLOADS = [word for name in ("gro", "gso", "tso", "rx", "tx") for word in (name, "off")]
NEAR, FAR = "10.9.1.1", "10.9.1.2"


def packet_us() -> float:
    """CPU µs in soft interrupts per packet received. Raises OSError, subprocess.SubprocessError or
    RuntimeError where a program or a right is missing.
    """
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    done = subprocess.run(
        ["unshare", *as_root, "--net", sys.executable, "-m", MODULE, "inside"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=6 * SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"no packets to measure: {done.stderr.strip()[-300:]}")
    return float(json.loads(done.stdout)["us"])


def measure() -> float:
    """The figure, from within a network namespace of its own."""
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    with far_host() as far:
        inside = ["nsenter", "--net", "--target", str(far)]
        server = subprocess.Popen([*inside, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            busy_s, received = softirq_s(cpu), packets_received(inside)
            client = ["iperf3", "-c", FAR, "-t", str(SECONDS)]
            subprocess.run(client, stdout=subprocess.DEVNULL, check=True)
            busy_s = softirq_s(cpu) - busy_s
            received = packets_received(inside) - received
        finally:
            server.terminate()
            server.wait()
    if received < 1000:
        raise RuntimeError(f"only {received} packets were received")
    return 1e6 * busy_s / received


@contextmanager
def far_host() -> Iterator[int]:
    """A second namespace behind a veth; the process that holds it."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    inside = ["nsenter", "--net", "--target", str(holder.pid)]
    try:
        time.sleep(0.3)  # unshare must have left this namespace
        veth = ["name", "near0", "type", "veth", "peer", "name", "far0", "netns", str(holder.pid)]
        for argv in (
            ["ip", "link", "add", *veth],
            ["ip", "address", "add", f"{NEAR}/24", "dev", "near0"],
            ["ip", "link", "set", "dev", "near0", "up"],
            ["ethtool", "-K", "near0", *OFFLOADS],
            [*inside, "ip", "address", "add", f"{FAR}/24", "dev", "far0"],
            [*inside, "ip", "link", "set", "dev", "far0", "up"],
            [*inside, "ethtool", "-K", "far0", *OFFLOADS],
        ):
            subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
        yield holder.pid
    finally:
        holder.terminate()
        holder.wait()


def softirq_s(cpu: int) -> float:
    """What a CPU has spent in soft interrupts so far (proc(5): stat's seventh number)."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    numbers = next(line.split() for line in lines if line.startswith(f"cpu{cpu} "))
    return int(numbers[7]) / os.sysconf("SC_CLK_TCK")


def packets_received(inside: list[str]) -> int:
    """Packets that the link's two ends have received so far."""
    texts = [
        Path("/proc/net/dev").read_text(encoding="ascii"),
        subprocess.run(
            [*inside, "cat", "/proc/net/dev"], capture_output=True, text=True, check=True
        ).stdout,
    ]
    lines = [line.split() for text in texts for line in text.splitlines()]
    return sum(int(words[2]) for words in lines if words[0] in ("near0:", "far0:"))


if __name__ == "__main__":
    print(json.dumps({"us": measure()}) if sys.argv[1:] == ["inside"] else f"{packet_us():.3f} us")
