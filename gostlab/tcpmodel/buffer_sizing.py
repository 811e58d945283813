"""How large a run's socket buffers and memory must be, and whether packets may travel in lumps."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gostlab.tcpmodel.constants import MAX_BUFFER_BYTES, MIB, MTU_BYTES, UNLIMITED_BPS
from gostlab.tcpmodel.response import bdp_bytes, window_limit_bps

# Debian 11's and 12's on a machine of 1 GiB or more: least, initial, most. The kernel's own follow
# its memory (and from 6.16 end at 32 MiB), so a sandbox of another size would be another machine:
# hence written down.
DEBIAN_BUFFERS = {"rmem": [4096, 131072, 6 * MIB], "wmem": [4096, 16384, 4 * MIB]}
# Below this share of the rate no queue builds that would care for lumps of up to 64 kB.
OFFLOAD_SHARE = 0.9
# Of a send buffer, what a sender at the path's rate has in flight (socket_windows).
SEND_BUFFER_SHARE = 0.6
# The first Linux whose receive windows follow sk_buffs (tcp: use scaling_ratio, dfa2f0483360).
SCALING_RATIO_SINCE = (6, 6)
# What an sk_buff takes besides its data, as veth delivers it (measured for MTUs of 1280 to 9000).
SKB_OVERHEAD_BYTES = 832
# Kernel memory that one full-size packet takes: its data, sk_buff and page rounding.
PACKET_MEMORY_BYTES = 2500
# How many times what path and queue hold the sockets of one stream hold at most, and those of any
# number (tcp_memory_needed_mib has what was measured).
MEMORY_PER_STREAM = 8
MEMORY_PER_PATH = 16
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


def queue_never_decides(path: Mapping[str, Any], data_direction: str, window_bytes: float) -> bool:
    """Whether super-packets meet no queue: nothing is lost or reordered, and all streams' windows
    stay so far below the rate that the bottleneck's queue decides nothing.
    """
    if any(
        not lossless(direction["loss"]) or direction["jitter_ms"] for direction in path.values()
    ):
        return False
    rate_bps = path["forward" if data_direction == "upload" else "reverse"]["rate_bps"]
    if math.isinf(window_bytes) or round_trip_s(path) == 0:  # nobody knows the windows
        return False
    limit_bps = window_limit_bps(window_bytes, round_trip_s(path))
    return rate_bps is None or limit_bps < OFFLOAD_SHARE * rate_bps


@dataclass(frozen=True)
class Windows:
    """How many bytes the socket buffers of a flow let be in flight, all streams together.

    min_bytes  of a sender that never sends faster than the path carries, like BBR
    max_bytes  of any: the receive window
    """

    min_bytes: float
    max_bytes: float


def socket_windows(
    buffers: Buffers, streams: int, version: tuple[int, ...], mss_bytes: int, super_packets: bool
) -> Windows:
    """What buffers allow on a Linux of a version; infinite where they are the kernel's own.

    A writer that waits for its send buffer is woken when a third of it is free
    (sk_stream_write_space): a sender at the path's rate has two thirds of it in flight, less what
    sk_buffs take (measured: 0.56 to 0.67, n = 18). One that sends bursts exceeds it, up to the
    receive window: a super-packet that the congestion window splits goes on being filled, and only
    a new one is checked against the buffer (tcp_sendmsg_locked).
    """
    if isinstance(buffers, str):
        return Windows(math.inf, math.inf)
    share = receive_window_share(version, mss_bytes, super_packets)
    receive = streams * share * buffers["rmem"][2]
    return Windows(min(receive, streams * SEND_BUFFER_SHARE * buffers["wmem"][2]), receive)


def receive_window_share(version: tuple[int, ...], mss_bytes: int, super_packets: bool) -> float:
    """The share of a receive buffer that Linux offers as window.

    Before Linux 6.6 one half (tcp_adv_win_scale's default). Since then scaling_ratio / 256, which
    tcp_measure_rcv_mss() learns from the first full segment, its bytes by its sk_buff's truesize:
    0.63 of a buffer with packets of 1500 bytes, 0.77 where the first sk_buff has two segments.
    """
    if version < SCALING_RATIO_SINCE:
        return 0.5
    data = mss_bytes * (2 if super_packets else 1)
    return (256 * data // (data + SKB_OVERHEAD_BYTES)) / 256


def super_packets_enlarge_windows(version: tuple[int, ...]) -> bool:
    """Whether a receive window depends on how many segments an sk_buff has."""
    return version >= SCALING_RATIO_SINCE


def tcp_memory_needed_mib(
    streams: int, legs: int, buffers: Buffers, path: Mapping[str, Any]
) -> int:
    """tcp_mem's third number, twice the first, at which windows stop growing: enough for the
    sockets of all legs, of iperf3's control connection too. Buffers above Debian's fill on the leg
    that crosses the path (measured, both ends together: up to 5.7 times what path and queue hold
    with one stream, 15 times with 8 to 32, whatever the congestion control, loss and jitter).
    """
    sizes = DEBIAN_BUFFERS if isinstance(buffers, str) else buffers
    largest = sizes["rmem"][2] + sizes["wmem"][2]
    debian = DEBIAN_BUFFERS["rmem"][2] + DEBIAN_BUFFERS["wmem"][2]
    connections, held = streams + 1, bytes_in_path(path)
    leg = min(connections * largest, max(connections * debian, 4 * held))
    per_path = min(streams * MEMORY_PER_STREAM, MEMORY_PER_PATH)
    full = min(streams * largest, per_path * held) if largest > debian else 0
    return max(64 + math.ceil(legs * leg / MIB), math.ceil(2 * full / MIB))


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
