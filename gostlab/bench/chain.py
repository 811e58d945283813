"""What a packet costs this machine's own kernel: the lab's five nodes as network namespaces, joined
by veths, routing, packet by packet, without netem, all on one CPU.

Nothing outlives the measurement: the namespaces hang on processes of a process namespace that ends
with it.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from pathlib import Path

from gostlab.ask.limits import MTU_BYTES

# client – wan_a – wan_b – gost – target, as topo.py has them
NODES = ("client", "wan_a", "wan_b", "gost", "target")
SECONDS = 3
# MTU less the headers of IPv4 (20) and TCP (20, and 12 of options for timestamps)
PAYLOAD_BYTES = MTU_BYTES - 52


# What the chain does when it is paced: iperf3's --fq-rate sends packet by packet, as BBR does, and
# the receiver is woken for each. A stream as fast as it goes is read in pieces of many packets.
PACED = "900M"
PACED_S = 6
BUSY_BEFORE = 0.05  # of the CPU, by others: with more the paced figure is not taken


def script(iperf3: str, seconds: float = SECONDS, more: str = "") -> str:
    """The shell script that builds the chain, loads it and prints iperf3's report."""
    lines = ["set -e"]
    for node in NODES:
        lines.append(f"unshare -n sleep 60 & {node}=$!")
    lines.append("sleep 0.2")
    for link, (one, two) in enumerate(itertools.pairwise(NODES), 1):
        lines.append(
            f"ip link add right{link} netns ${one} type veth peer name left{link} netns ${two}"
        )
        for node, device, host in ((one, f"right{link}", 1), (two, f"left{link}", 2)):
            inside = f"nsenter -n -t ${node}"
            lines.append(f"{inside} ip addr add 10.9.{link}.{host}/24 dev {device}")
            lines.append(f"{inside} ip link set {device} up")
            lines.append(
                f"{inside} ethtool -K {device} tso off gso off gro off tx-udp-segmentation off"
            )
    for number, node in enumerate(NODES):
        inside = f"nsenter -n -t ${node}"
        if 0 < number < len(NODES) - 1:
            lines.append(f"{inside} sysctl -qw net.ipv4.ip_forward=1")
        for link in range(1, len(NODES)):
            if link > number + 1:
                lines.append(f"{inside} ip route add 10.9.{link}.0/24 via 10.9.{number + 1}.2")
            elif link < number:
                lines.append(f"{inside} ip route add 10.9.{link}.0/24 via 10.9.{number}.1")
    lines.append(f"nsenter -n -t $target {iperf3} -s -1 -p 5201 >/dev/null & sleep 0.3")
    options = f"-c 10.9.{len(NODES) - 1}.2 -p 5201 -t {seconds:g} -J {more}"
    lines.append(f"nsenter -n -t $client {iperf3} {options}")
    return "\n".join(lines)


def start(script_text: str, cpu: int) -> subprocess.Popen[str]:
    """A script in namespaces of its own, on one CPU."""
    return subprocess.Popen(
        [
            *("taskset", "-c", str(cpu)),
            *("unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"),
            *("sh", "-c", script_text),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def received(process: subprocess.Popen[str]) -> dict[str, float]:
    """The end of a chain's report: seconds and bytes. Raises RuntimeError with what failed."""
    said, complaint = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"five namespaces on this kernel: {complaint.strip()[-300:]}")
    return dict(json.loads(said)["end"]["sum_received"])


def packet_us(iperf3: str, cpu: int) -> float:
    """Wall µs per packet of a stream through the chain, as fast as one CPU carries it. Needs root.

    iperf3  the program, quoted for a shell
    Raises RuntimeError with what failed.
    """
    end = received(start(script(iperf3), cpu))
    return 1e6 * end["seconds"] * PAYLOAD_BYTES / end["bytes"]


def paced_packet_us(iperf3: str, cpu: int) -> float:
    """CPU µs per packet of a stream of PACED bit/s through the chain, packet by packet. Needs root,
    and a CPU that nobody else uses: it is what the CPU was not idle.

    iperf3  the program, quoted for a shell
    Raises RuntimeError with what failed, or if others use the CPU.
    """
    before = busy_share(cpu, 1.0)
    if before > BUSY_BEFORE:
        raise RuntimeError(f"CPU {cpu} is {before:.0%} busy with other work: once it is idle")
    process = start(script(iperf3, PACED_S, f"--fq-rate {PACED}"), cpu)
    time.sleep(2.0)  # the chain is built, the window open
    share = busy_share(cpu, PACED_S - 3.0)
    end = received(process)
    return 1e6 * share * end["seconds"] * PAYLOAD_BYTES / end["bytes"]


def busy_share(cpu: int, seconds: float) -> float:
    """The share of some seconds in which a CPU is not idle: their length less its idle time in
    /proc/stat. What it was busy with is counted there by ticks, which short work escapes.
    """

    def idle_s() -> float:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        words = next(line.split() for line in lines if line.startswith(f"cpu{cpu} "))
        return (int(words[4]) + int(words[5])) / os.sysconf("SC_CLK_TCK")

    began, idle_before_s = time.monotonic(), idle_s()
    time.sleep(seconds)
    idle_after_s = idle_s()
    return max(0.0, 1 - (idle_after_s - idle_before_s) / (time.monotonic() - began))
