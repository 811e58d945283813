# SPDX-License-Identifier: MIT
"""Declare the iperf3 versions of a run, because the load generator affects results.

Since 3.16, iperf3 has one thread per stream, each of which blocks in its own reads and writes;
older versions have one thread that serves all streams by select(). With 128 streams they behave
like two programs. gostlab therefore bundles both types, from Debian's packages and with their own
libraries, and uses the machine's iperf3 only on request.
"""

from dataclasses import dataclass

SYSTEM = "system"  # The installed iperf3.


@dataclass(frozen=True)
class Iperf3Kind:
    """Represent an iperf3 that gostlab bundles."""

    version: str  # The upstream version, which is its name in an experiment.
    suite: str  # The Debian release that has it.
    # The packages of the same release that it requires, including glibc.
    libraries: tuple[str, ...]
    may_lack: bool = False  # Debian's mirrors will remove an old release some day.
    paces_udp: bool = True  # Whether it sends UDP at the requested rate, on the virtual clock, too.
    # The size of reads after which its receiver only reads again until its buffer is full; 0 means
    # that it has no such reads. From 3.16 on a stream's thread has them (iperf_tcp_recv,
    # Nread_no_select: while (left) read(fd, buffer, left), the buffer is iperf3's default block).
    # Its control connection, whose Nread selects and reads the clock between two reads, uses other
    # sizes. Before 3.16, select() comes between any two reads.
    reads_on: int = 0


ALWAYS = ("libc6", "libgcc-s1", "libiperf0", "libsctp1")
OWN = {
    declaration.version: declaration
    for declaration in (
        Iperf3Kind(
            "3.18", "trixie", (*ALWAYS, "libssl3t64", "libzstd1", "zlib1g"), reads_on=131072
        ),
        Iperf3Kind("3.12", "bookworm", (*ALWAYS, "libssl3")),
        Iperf3Kind("3.9", "bullseye", (*ALWAYS, "libssl1.1"), may_lack=True, paces_udp=False),
    )
}
NAMES = (*OWN, SYSTEM)
