"""How large a run's socket buffers and memory must be, and whether packets may travel in lumps."""

import copy
import math
from collections.abc import Mapping
from typing import Any

from gostlab.describe.physics.limits import MAX_BUFFER_BYTES, MIB, MTU_BYTES, UNLIMITED_BPS
from gostlab.describe.physics.response import bdp_bytes, window_limit_bps

# Debian 11's and 12's on a machine of 1 GiB or more: least, initial, most. The kernel's own follow
# its memory (and from 6.16 end at 32 MiB), so a sandbox of another size would be another machine:
# hence written down.
DEBIAN_BUFFERS = {"rmem": [4096, 131072, 6 * MIB], "wmem": [4096, 16384, 4 * MIB]}
# Below this share of the rate no queue builds that would care for lumps of up to 64 kB.
OFFLOAD_SHARE = 0.9
# Kernel memory that one full-size packet takes: its data, sk_buff and page rounding.
PACKET_MEMORY_BYTES = 2500
# More flows are counted together: each for itself they would need more memory than there is.
MANY_FLOWS = 64
FLOW_MEMORY_MIB = 5  # of a flow's programs, beyond BASE_MEMORY_MIB
BASE_MEMORY_MIB = 384  # kernel, Mininet's shells, iperf3, the tunnel's two ends
MAX_MEMORY_MIB = 64 * 1024

Buffers = str | Mapping[str, list[int]]


def lossless(loss: Mapping[str, Any]) -> bool:
    """Whether a loss model, as run.json has it, never loses anything."""
    return not (loss["p"] or loss.get("one_minus_k"))


def round_trip_s(path: Mapping[str, Any]) -> float:
    return float(path["forward"]["delay_ms"] + path["reverse"]["delay_ms"]) / 1000


def bytes_in_path(path: Mapping[str, Any]) -> float:
    """What the fuller direction can hold, in flight and queued."""
    return max(
        bdp_bytes(direction["rate_bps"] or UNLIMITED_BPS, round_trip_s(path))
        + (direction["buffer_pkts"] or 0) * MTU_BYTES
        for direction in path.values()
    )


def resolve_buffers(buffers: Buffers, path: Mapping[str, Any]) -> Buffers:
    """Socket buffers as numbers, but for `system`. `bdp`: half of a receive buffer is window, and a
    packet's overhead counts for sending, hence four times what path and queue can hold.
    """
    if buffers == "debian":
        return copy.deepcopy(DEBIAN_BUFFERS)
    if buffers == "bdp":
        most = min(MAX_BUFFER_BYTES, math.ceil(4 * bytes_in_path(path)))
        return {
            name: [least, initial, max(most, debian)]
            for name, (least, initial, debian) in DEBIAN_BUFFERS.items()
        }
    return buffers


def offloads_do_no_harm(
    path: Mapping[str, Any], data_direction: str, streams: int, buffers: Buffers
) -> bool:
    """Whether packets may travel in lumps: nothing is lost or reordered, and all streams' windows
    stay so far below the rate that the bottleneck's queue decides nothing.
    """
    if any(
        not lossless(direction["loss"]) or direction["jitter_ms"] for direction in path.values()
    ):
        return False
    rate_bps = path["forward" if data_direction == "upload" else "reverse"]["rate_bps"]
    window = window_bytes(buffers, streams)
    if math.isinf(window) or round_trip_s(path) == 0:  # nobody knows the windows
        return False
    limit_bps = window_limit_bps(window, round_trip_s(path))
    return rate_bps is None or limit_bps < OFFLOAD_SHARE * rate_bps


def window_bytes(buffers: Buffers, streams: int) -> float:
    """All streams' windows: half a receive buffer each (tcp_adv_win_scale's default), no more than
    is kept for sending. Infinite where the kernel's own sizes are used.
    """
    if isinstance(buffers, str):
        return math.inf
    return float(streams * min(buffers["rmem"][2] / 2, buffers["wmem"][2]))


def tcp_memory_needed_mib(
    streams: int, legs: int, buffers: Buffers, path: Mapping[str, Any]
) -> int:
    """Memory of all TCP sockets when every buffer of every leg is as full as it can be: above
    Debian's about four times what the path can hold. iperf3 has a control connection besides.
    """
    sizes = DEBIAN_BUFFERS if isinstance(buffers, str) else buffers
    connections = streams + 1
    debian = connections * (DEBIAN_BUFFERS["rmem"][2] + DEBIAN_BUFFERS["wmem"][2])
    leg = min(
        connections * (sizes["rmem"][2] + sizes["wmem"][2]), max(debian, 4 * bytes_in_path(path))
    )
    return 64 + math.ceil(legs * leg / MIB)


def tcp_memory_shared_mib(flows: int, path: Mapping[str, Any]) -> int:
    """Memory of sockets that do not fill buffers: four times the path's content, and a MiB each."""
    return 64 + flows + math.ceil(4 * bytes_in_path(path) / MIB)


def memory_needed_mib(tcp_memory_mib: int, path: Mapping[str, Any]) -> int:
    """The sandbox's memory: base, what sockets hold, packets in flight and in queues; in steps of
    64 MiB.

    Sockets hold no more than half of TCP's limit: from there on the kernel lets no window grow
    (measured: 0.9 to 1.2 GiB of 3.9 GiB with 128 streams), and the run is marked.
    """
    packets = sum(
        bdp_bytes(direction["rate_bps"] or UNLIMITED_BPS, direction["delay_ms"] / 1000) / MTU_BYTES
        + min(direction["buffer_pkts"] or 0, 10**6)
        for direction in path.values()
    )
    needed = BASE_MEMORY_MIB + tcp_memory_mib + packets * PACKET_MEMORY_BYTES / MIB
    return int(min(MAX_MEMORY_MIB, 64 * math.ceil(needed / 64)))


def tcp_memory_of_machine_mib(memory_mib: int) -> int:
    """The most that TCP may hold on a machine of so much memory: the last of tcp_mem's three
    limits, 3/32 of it (Linux, tcp_init_mem: the second is a sixteenth of the memory that buffers
    may have, the first three quarters of that, the last twice the first).
    """
    return memory_mib * 3 // 32
