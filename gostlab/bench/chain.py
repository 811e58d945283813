"""What a packet costs this machine's own kernel: the lab's five nodes as network namespaces, joined
by veths, routing, packet by packet, without netem, all on one CPU.

Nothing outlives the measurement: the namespaces hang on processes of a process namespace that ends
with it.
"""

from __future__ import annotations

import itertools
import json
import subprocess

from gostlab.ask.limits import MTU_BYTES

# client – wan_a – wan_b – gost – target, as topo.py has them
NODES = ("client", "wan_a", "wan_b", "gost", "target")
SECONDS = 3
# MTU less the headers of IPv4 (20) and TCP (20, and 12 of options for timestamps)
PAYLOAD_BYTES = MTU_BYTES - 52


def script(iperf3: str) -> str:
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
    lines.append(
        f"nsenter -n -t $client {iperf3} -c 10.9.{len(NODES) - 1}.2 -p 5201 -t {SECONDS} -J"
    )
    return "\n".join(lines)


def packet_us(iperf3: str, cpu: int) -> float:
    """Wall µs per packet of a stream through the chain, as fast as one CPU carries it. Needs root.

    iperf3  the program, quoted for a shell
    Raises RuntimeError with what failed.
    """
    done = subprocess.run(
        [
            *("taskset", "-c", str(cpu)),
            *("unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"),
            *("sh", "-c", script(iperf3)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"five namespaces on this kernel: {done.stderr.strip()[-300:]}")
    received = json.loads(done.stdout)["end"]["sum_received"]
    return float(1e6 * received["seconds"] * PAYLOAD_BYTES / received["bytes"])
