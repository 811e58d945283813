# SPDX-License-Identifier: MIT
"""Compute the sizes of socket buffers and memory, and whether super-packets do no harm."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

from gostlab.tcpmodel.run_limits import MAX_BUFFER_BYTES, MIB

# The sizes of Debian 11 and 12 on a machine of 1 GiB or more: min, initial, max. The kernel's
# defaults depend on its memory (and from 6.16 on end at 32 MiB), so they would vary with the
# sandbox's memory.
DEBIAN_BUFFERS = {"rmem": [4096, 131072, 6 * MIB], "wmem": [4096, 16384, 4 * MIB]}
# Below this share of the rate no queue builds that super-packets of up to 64 kB would affect.
OFFLOAD_SHARE = 0.9
# The share of a send buffer that a sender at the path's rate has in flight (socket_windows).
SEND_BUFFER_SHARE = 0.6
# The first Linux whose receive windows depend on sk_buffs (tcp: use scaling_ratio, dfa2f0483360).
SCALING_RATIO_SINCE = (6, 6)
# The overhead of an sk_buff besides its data, as veth delivers it (measured for MTUs of 1280 to
# 9000).
SKB_OVERHEAD_BYTES = 832
# The kernel memory of one full-size packet: its data, sk_buff and page rounding.
PACKET_MEMORY_BYTES = 2500
# The maximum memory of the sockets of one stream, and of any number of streams, in multiples of the
# content of path and queue (tcp_memory_needed_mib has the measurements).
MEMORY_PER_STREAM = 8
MEMORY_PER_PATH = 16
# More flows are counted together: counted singly they would need more memory than there is.
MANY_FLOWS = 64
MANY_STREAMS = 128  # A flow's streams are counted together if it has more.
FLOW_MEMORY_MIB = 5  # The memory of a flow's programs, beyond BASE_MEMORY_MIB.
BASE_MEMORY_MIB = 384  # The memory of kernel, Mininet's shells, iperf3, and the tunnel's two ends.
MAX_MEMORY_MIB = 64 * 1024

# "system" leaves the buffers unchanged; {rmem, wmem} are in bytes.
Buffers = str | Mapping[str, list[int]]


def resolve_buffers(buffers: Buffers, path_bytes: float) -> Buffers:
    """Return socket buffers as numbers, except for `system`; `path_bytes` are those of a full path.

    `bdp`: half of a receive buffer is window, and a packet's overhead counts in a send buffer,
    hence four times the content of path and queue.
    """
    if buffers == "debian":
        return copy.deepcopy(DEBIAN_BUFFERS)
    if buffers == "bdp":
        max_bytes = min(MAX_BUFFER_BYTES, math.ceil(4 * path_bytes))
        return {
            name: [min_bytes, initial_bytes, max(max_bytes, debian_bytes)]
            for name, (min_bytes, initial_bytes, debian_bytes) in DEBIAN_BUFFERS.items()
        }
    return buffers


@dataclass(frozen=True)
class Windows:
    """Represent the bytes that a flow's socket buffers allow in flight, all streams together.

    min_bytes applies to a sender that never sends faster than the path's rate, like BBR; max_bytes,
    the receive window, to any sender.
    """

    min_bytes: float
    max_bytes: float


def socket_windows(
    buffers: Buffers, streams: int, version: tuple[int, ...], mss_bytes: int, super_packets: bool
) -> Windows:
    """Return the windows that buffers allow on a Linux version; infinite for the kernel's defaults.

    A writer that waits for its send buffer is woken when a third of it is free
    (sk_stream_write_space): a sender at the path's rate has two thirds of it in flight, minus the
    overhead of sk_buffs (measured: 0.56 to 0.67, n = 18). A sender of bursts exceeds it, up to the
    receive window: a super-packet that the congestion window splits continues to be filled, and
    only a new one is checked against the buffer (tcp_sendmsg_locked).
    """
    if isinstance(buffers, str):
        return Windows(math.inf, math.inf)
    share = receive_window_share(version, mss_bytes, super_packets)
    receive = streams * share * buffers["rmem"][2]
    return Windows(min(receive, streams * SEND_BUFFER_SHARE * buffers["wmem"][2]), receive)


def receive_window_share(version: tuple[int, ...], mss_bytes: int, super_packets: bool) -> float:
    """Return the share of a receive buffer that Linux advertises as window.

    Before Linux 6.6 it is one half (tcp_adv_win_scale's default). Since then it is scaling_ratio /
    256, which tcp_measure_rcv_mss() learns from the first full segment, its bytes divided by its
    sk_buff's truesize: 0.63 of a buffer with packets of 1500 bytes, 0.77 if the first sk_buff has
    two segments.
    """
    if version < SCALING_RATIO_SINCE:
        return 0.5
    data = mss_bytes * (2 if super_packets else 1)
    return (256 * data // (data + SKB_OVERHEAD_BYTES)) / 256


def super_packets_enlarge_windows(version: tuple[int, ...]) -> bool:
    """Return whether a receive window depends on the number of segments of an sk_buff."""
    return version >= SCALING_RATIO_SINCE


def tcp_memory_needed_mib(streams: int, legs: int, buffers: Buffers, path_bytes: float) -> int:
    """Return the third value of tcp_mem that suffices for the sockets of all legs.

    It is twice the first value, at which windows stop growing, and includes iperf3's control
    connection. Buffers above Debian's fill on the leg that crosses the path (measured, both ends
    together: up to 5.7 times the content of path and queue with one stream, 15 times with 8 to 32,
    whatever the congestion control, loss and jitter). Very many streams do not fill their buffers.
    """
    if streams > MANY_STREAMS:
        return tcp_memory_shared_mib(streams, path_bytes)
    sizes = DEBIAN_BUFFERS if isinstance(buffers, str) else buffers
    largest = sizes["rmem"][2] + sizes["wmem"][2]
    debian = DEBIAN_BUFFERS["rmem"][2] + DEBIAN_BUFFERS["wmem"][2]
    connections = streams + 1
    leg = min(connections * largest, max(connections * debian, 4 * path_bytes))
    per_path = min(streams * MEMORY_PER_STREAM, MEMORY_PER_PATH)
    full = min(streams * largest, per_path * path_bytes) if largest > debian else 0
    return max(64 + math.ceil(legs * leg / MIB), math.ceil(2 * full / MIB))


def tcp_memory_shared_mib(flows: int, path_bytes: float) -> int:
    """Return the memory of sockets that do not fill buffers: 4 path contents, 1 MiB per flow."""
    return 64 + flows + math.ceil(4 * path_bytes / MIB)


def memory_needed_mib(tcp_memory_mib: int, path_pkts: float) -> int:
    """Return the sandbox's memory: base, sockets, and packets in flight and in queues.

    The result is a multiple of 64 MiB. Sockets hold no more than half of TCP's limit: above it the
    kernel lets no window grow (measured: 0.9 to 1.2 GiB of 3.9 GiB with 128 streams), and the run
    is marked.
    """
    needed = BASE_MEMORY_MIB + tcp_memory_mib + path_pkts * PACKET_MEMORY_BYTES / MIB
    return int(min(MAX_MEMORY_MIB, 64 * math.ceil(needed / 64)))


def tcp_memory_of_machine_mib(memory_mib: int) -> int:
    """Return the maximum memory of TCP on a machine: the last of tcp_mem's three limits.

    It is 3/32 of the memory (Linux, tcp_init_mem: the second limit is a sixteenth of the memory
    that buffers may have, the first three quarters of it, the last twice the first).
    """
    return memory_mib * 3 // 32
