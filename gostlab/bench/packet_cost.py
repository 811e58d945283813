"""What a packet costs this machine's own kernel: network namespaces in a row, joined by veths, each
packet alone, without netem, all on one CPU.

Nothing outlives the measurement: the namespaces hang on processes of a process namespace that ends
with it. It needs ethtool, and root or user namespaces.
"""

import itertools
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from gostlab.tcpmodel.constants import MTU_BYTES

# client – wan_a – wan_b – gost – target, as topo.py has them
NODES = ("client", "wan_a", "wan_b", "gost", "target")
PAIR = ("client", "target")
PACED_S, PAIR_S = 6, 10
# MTU less the headers of IPv4 (20) and TCP (20, and 12 of options for timestamps)
PAYLOAD_BYTES = MTU_BYTES - 52
# What the chain does when it is paced: iperf3's --fq-rate sends packet by packet, as BBR does, and
# the receiver is woken for each. A stream as fast as it goes is read in pieces of many packets.
PACED = "900M"
# Of a crowd: from when on, past its start, and for how long it is looked at.
CROWD_S = (7, 6)
FIRST_PORT = 5201
BUSY_BEFORE = 0.05  # of the CPU, by others: with more the paced figure is not taken
IDLE, SOFTIRQ = (3, 4), (6,)  # of a CPU's numbers in /proc/stat (proc(5)): idle and iowait; softirq
LUMPS_OFF = "tso off gso off gro off tx-udp-segmentation off"
ALL_OFF = "tso off gso off gro off rx off tx off"


def unshare_argv() -> list[str]:
    """What begins a command in namespaces of its own."""
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    own = ("--net", "--pid", "--fork", "--mount-proc", "--kill-child=KILL")
    return ["unshare", *as_root, *own]


def may_make_namespaces() -> bool:
    """Whether there is the right to them here."""
    return not subprocess.run(
        [*unshare_argv(), "true"], capture_output=True, check=False
    ).returncode


def row(nodes: Sequence[str], offloads: str) -> tuple[list[str], dict[str, str]]:
    """The lines of a shell that build the row, and what begins a command in each node."""
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
    """The shell script that builds the row, loads it from its first node to its last, and prints
    iperf3's report and then what the last node's and the first's devices have counted.

    iperf3  the program, quoted for a shell
    """
    lines, inside = row(nodes, offloads)
    first, last = inside[nodes[0]], inside[nodes[-1]]
    lines.append(f"{last} {iperf3} -s -1 -p 5201 >/dev/null & sleep 0.5")
    lines.append(f"{first} {iperf3} -c 10.9.{len(nodes) - 1}.2 -p 5201 -J {options}")
    lines += [f"{node} cat /proc/net/dev" for node in (last, first)]
    return "\n".join(lines)


def start(script_text: str, cpu: int) -> subprocess.Popen[str]:
    """A script in namespaces of its own, on one CPU."""
    return subprocess.Popen(
        ["taskset", "-c", str(cpu), *unshare_argv(), "sh", "-c", script_text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def received(process: subprocess.Popen[str]) -> tuple[float, float, int]:
    """For how long data came, s; how many full packets of it there were, and how many packets both
    ends received of any kind. Raises RuntimeError with what failed.
    """
    said, complaint = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"namespaces on this kernel: {complaint.strip()[-300:]}")
    report, end = json.JSONDecoder().raw_decode(said)
    data = report["end"]["sum_received"]
    devices = [line.split() for line in said[end:].splitlines() if ":" in line]
    packets = sum(int(words[2]) for words in devices if words[0].startswith(("left", "right")))
    return data["seconds"], data["bytes"] / PAYLOAD_BYTES, packets


def paced_packet_us(iperf3: str, cpu: int) -> float:
    """CPU µs per packet of a stream of PACED bit/s over five nodes, packet by packet. It needs a
    CPU that nobody else uses: it is what the CPU was not idle. Raises RuntimeError with what
    failed, or if others use the CPU.
    """
    refuse_busy(cpu)
    process = start(script(NODES, iperf3, f"-t {PACED_S} --fq-rate {PACED}"), cpu)
    time.sleep(2.0)  # the row is built, the window open
    share = busy_share(cpu, PACED_S - 3.0)
    seconds, packets, _ = received(process)
    return 1e6 * share * seconds / packets


def refuse_busy(cpu: int) -> None:
    """Raises RuntimeError if others use a CPU."""
    before = busy_share(cpu, 1.0)
    if before > BUSY_BEFORE:
        raise RuntimeError(f"CPU {cpu} is {before:.0%} busy with other work: once it is idle")


def crowd_packet_us(iperf3: str, cpu: int, flows: int, rate_bps: int) -> float:
    """CPU µs per data packet over five nodes where so many iperf3s have a rate together, packet by
    packet, past their starts. It needs a CPU that nobody else uses, as above. Raises RuntimeError.
    """
    refuse_busy(cpu)
    lines, inside = row(NODES, LUMPS_OFF)
    first, last = inside[NODES[0]], inside[NODES[-1]]
    ports = f"$(seq {FIRST_PORT} {FIRST_PORT + flows - 1})"
    client = f"{iperf3} -c 10.9.{len(NODES) - 1}.2 -C cubic --fq-rate {rate_bps // flows} -t 60 -p"
    lines += [
        f"for port in {ports}; do {last} {iperf3} -s -1 -p $port >/dev/null & done; sleep 2",
        f"for port in {ports}; do {first} {client} $port >/dev/null & done",
        *(f"sleep {wait_s}; {first} cat /proc/net/dev; echo" for wait_s in CROWD_S),
    ]
    process = start("\n".join(lines), cpu)
    assert process.stdout is not None
    sent = [sent_pkts(process.stdout)]
    share = busy_share(cpu, CROWD_S[1] - 0.5)
    sent.append(sent_pkts(process.stdout))
    complaint = process.communicate()[1]
    if process.returncode != 0:
        raise RuntimeError(f"namespaces on this kernel: {complaint.strip()[-300:]}")
    return 1e6 * share * CROWD_S[1] / (sent[1] - sent[0])


def sent_pkts(said: IO[str]) -> int:
    """What the row's first device has sent, by /proc/net/dev up to an empty line; 0 without it."""
    lines = list(itertools.takewhile(str.strip, said))  # all, so that the next are another's
    return next((int(line.split()[10]) for line in lines if "right1:" in line), 0)


def received_packet_us(iperf3: str, cpu: int) -> float:
    """CPU µs in soft interrupts per packet that a host receives, the figure behind `packet_cost`:
    data, ACKs, and what they send in turn, over a single link. A real card's driver is not in it.
    """
    before_s = stat_s(cpu, SOFTIRQ)
    *_, packets = received(start(script(PAIR, iperf3, f"-t {PAIR_S}", ALL_OFF), cpu))
    if packets < 1000:
        raise RuntimeError(f"only {packets} packets were received")
    return 1e6 * (stat_s(cpu, SOFTIRQ) - before_s) / packets


def busy_share(cpu: int, seconds: float) -> float:
    """The share of some seconds in which a CPU is not idle: their length less its idle time. What
    it was busy with is counted by ticks, which short work escapes.
    """
    began, idle_before_s = time.monotonic(), stat_s(cpu, IDLE)
    time.sleep(seconds)
    idle_after_s = stat_s(cpu, IDLE)
    return max(0.0, 1 - (idle_after_s - idle_before_s) / (time.monotonic() - began))


def stat_s(cpu: int, columns: Sequence[int]) -> float:
    """What a CPU has spent so far, s, by some of its numbers in /proc/stat."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    _, *numbers = next(line.split() for line in lines if line.startswith(f"cpu{cpu} "))
    return sum(int(numbers[column]) for column in columns) / os.sysconf("SC_CLK_TCK")
