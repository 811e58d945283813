# SPDX-License-Identifier: MIT
"""Measure the cost of a packet in this machine's kernel, over a row of network namespaces.

The namespaces are joined by veths and have no netem. Each packet is sent alone, and everything runs
on one CPU. The namespaces belong to processes of a PID namespace and end with it. The measurement
needs ethtool, and root or user namespaces.
"""

import itertools
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from gostlab.tcpmodel.run_limits import MTU_BYTES

# The nodes are in a row, as in topo.py.
NODES = ("client", "wan_a", "wan_b", "gost", "target")
PAIR = ("client", "target")
PACED_S, PAIR_S = 6, 10
# MTU without the headers of IPv4 (20) and TCP (20, and 12 for timestamps)
PAYLOAD_BYTES = MTU_BYTES - 52
# iperf3's --fq-rate paces single packets, as BBR does, and wakes the receiver for each. A stream at
# full rate is read in pieces of many packets.
PACED = "900M"
BUSY_BEFORE = 0.05  # maximum CPU share of other processes
IDLE, SOFTIRQ = (3, 4), (6,)  # columns of /proc/stat (proc(5)): idle and iowait; softirq
LUMPS_OFF = "tso off gso off gro off tx-udp-segmentation off"
ALL_OFF = "tso off gso off gro off rx off tx off"


def unshare_argv() -> list[str]:
    """Return the command prefix that creates separate namespaces."""
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    options = ("--net", "--pid", "--fork", "--mount-proc", "--kill-child=KILL")
    return ["unshare", *as_root, *options]


def may_make_namespaces() -> bool:
    """Return whether this process may create namespaces."""
    return not subprocess.run(
        [*unshare_argv(), "true"], capture_output=True, check=False
    ).returncode


def row(nodes: Sequence[str], offloads: str) -> tuple[list[str], dict[str, str]]:
    """Return the shell lines that build the row, and the command prefix of each node."""
    lines = ["set -e", *(f"unshare -n sleep 60 & {node}=$!" for node in nodes), "sleep 0.3"]
    inside = {node: f"nsenter -n -t ${node}" for node in nodes}
    for link, (one, two) in enumerate(itertools.pairwise(nodes), 1):
        lines.append(
            f"ip link add right{link} netns ${one} type veth peer name left{link} netns ${two}"
        )
        for node, device, host in ((one, f"right{link}", 1), (two, f"left{link}", 2)):
            lines += [
                f"{inside[node]} ip addr add 10.9.{link}.{host}/24 dev {device}",
                f"{inside[node]} ip link set {device} up",
                f"{inside[node]} ethtool -K {device} {offloads} >/dev/null",
            ]
    for number, node in enumerate(nodes):
        if 0 < number < len(nodes) - 1:
            lines.append(f"{inside[node]} sysctl -qw net.ipv4.ip_forward=1")
        for link in range(1, len(nodes)):
            if link > number + 1:
                lines.append(
                    f"{inside[node]} ip route add 10.9.{link}.0/24 via 10.9.{number + 1}.2"
                )
            elif link < number:
                lines.append(f"{inside[node]} ip route add 10.9.{link}.0/24 via 10.9.{number}.1")
    return lines, inside


def script(nodes: Sequence[str], iperf3: str, options: str, offloads: str = LUMPS_OFF) -> str:
    """Return the shell script that builds and loads the row, and prints iperf3's report.

    It then prints the counters of the last and the first node's devices. `iperf3` is quoted for a
    shell.
    """
    lines, inside = row(nodes, offloads)
    first, last = inside[nodes[0]], inside[nodes[-1]]
    lines.append(f"{last} {iperf3} -s -1 -p 5201 >/dev/null & sleep 0.5")
    lines.append(f"{first} {iperf3} -c 10.9.{len(nodes) - 1}.2 -p 5201 -J {options}")
    lines += [f"{node} cat /proc/net/dev" for node in (last, first)]
    return "\n".join(lines)


def start(script_text: str, cpu: int) -> subprocess.Popen[str]:
    """Start a script in separate namespaces on one CPU."""
    return subprocess.Popen(
        ["taskset", "-c", str(cpu), *unshare_argv(), "sh", "-c", script_text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def received(process: subprocess.Popen[str]) -> tuple[float, float, int]:
    """Return the seconds of data, its full packets, and all packets that both ends received.

    Raises RuntimeError with the error message.
    """
    output, complaint = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"namespaces on this kernel: {complaint.strip()[-300:]}")
    report, end = json.JSONDecoder().raw_decode(output)
    data = report["end"]["sum_received"]
    devices = [line.split() for line in output[end:].splitlines() if ":" in line]
    packets = sum(int(fields[2]) for fields in devices if fields[0].startswith(("left", "right")))
    return data["seconds"], data["bytes"] / PAYLOAD_BYTES, packets


def paced_packet_us(iperf3: str, cpu: int) -> float:
    """Return the CPU time per packet of a paced stream over five nodes, µs.

    It is the time in which the CPU was not idle, so no other process may use the CPU. Raises
    RuntimeError with the error message, or if others use the CPU.
    """
    refuse_busy(cpu)
    process = start(script(NODES, iperf3, f"-t {PACED_S} --fq-rate {PACED}"), cpu)
    time.sleep(2.0)  # By then the row is built and the window open.
    share = busy_share(cpu, PACED_S - 3.0)
    seconds, packets, _ = received(process)
    return 1e6 * share * seconds / packets


def refuse_busy(cpu: int) -> None:
    """Raise RuntimeError if other processes use a CPU."""
    before = busy_share(cpu, 1.0)
    if before > BUSY_BEFORE:
        raise RuntimeError(f"CPU {cpu} is {before:.0%} busy with other work: once it is idle")


def received_packet_us(iperf3: str, cpu: int) -> float:
    """Return the soft-interrupt time per packet that a host receives over one link, µs.

    It is the source of `packet_cost`, and includes data, ACKs and their replies, but no NIC driver.
    """
    before_s = stat_s(cpu, SOFTIRQ)
    *_, packets = received(start(script(PAIR, iperf3, f"-t {PAIR_S}", ALL_OFF), cpu))
    if packets < 1000:
        raise RuntimeError(f"only {packets} packets were received")
    return 1e6 * (stat_s(cpu, SOFTIRQ) - before_s) / packets


def busy_share(cpu: int, seconds: float) -> float:
    """Return the share of a period in which a CPU is not idle.

    It uses the idle time, because busy time is counted in ticks, which miss short work.
    """
    began, idle_before_s = time.monotonic(), stat_s(cpu, IDLE)
    time.sleep(seconds)
    idle_after_s = stat_s(cpu, IDLE)
    return max(0.0, 1 - (idle_after_s - idle_before_s) / (time.monotonic() - began))


def stat_s(cpu: int, columns: Sequence[int]) -> float:
    """Return the time of some columns of a CPU in /proc/stat, s."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    _, *numbers = next(line.split() for line in lines if line.startswith(f"cpu{cpu} "))
    return sum(int(numbers[column]) for column in columns) / os.sysconf("SC_CLK_TCK")
