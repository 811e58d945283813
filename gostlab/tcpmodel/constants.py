"""Numbers that bound a run, wherever it is requested, guarded or carried out."""

MIB = 2**20
MAX_BUFFER_BYTES = 2**30  # TCP's window scale ends there
# netem: a delay table's number that stands for one jitter.
DISTRIBUTION_SCALE = 8192
# A trap that a run may walk into on purpose: the setting `allow`.
SUPER_PACKETS = "super-packets"
# The MTU of the lab's links; a buffer counts packets of this size.
MTU_BYTES = 1500
# TCP's first window, which leaves at once (RFC 6928).
FIRST_WINDOW_PKTS = 10
# What a path without a rate is taken to carry.
UNLIMITED_BPS = 10**10
# The delay line must never drop; a large limit of netem's tree costs nothing until it is used.
DELAY_LIMIT_PKTS = 1_000_000
# How many datagrams of a udp flow go out back to back by an iperf3 without threads: one at a time,
# it asks the clock and waits by select() between any two, and the CPU for that would decide the
# rate.
UDP_BURST_PKTS = 8
# A flow of fewer round trips is mostly its own beginning.
MIN_ROUND_TRIPS = 20
# The most that one tc action counts to; two in a row count to the product.
MAX_PERIOD = 10_000


def period_factors(packets: int) -> tuple[int, int] | None:
    """Two numbers, larger first, that two tc actions in a row count to; None: there are none."""
    for one in range(min(packets, MAX_PERIOD), 0, -1):
        if packets % one == 0:
            other = packets // one
            return (one, other) if other <= MAX_PERIOD else None
    return None
