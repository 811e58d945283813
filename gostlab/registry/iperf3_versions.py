"""The iperf3s that a run can ask for: what carries its load is part of the question.

Since 3.16 iperf3 has a thread for each stream, each of which blocks in its own reads and writes;
before, one thread served all streams by select(). With 128 streams those are two programs. So the
lab brings one of each kind, from Debian's packages and with their own libraries, and takes the
machine's only where it is requested.
"""

from dataclasses import dataclass

SYSTEM = "system"  # whatever is installed


@dataclass(frozen=True)
class Iperf3Kind:
    """An iperf3 of the lab's own."""

    version: str  # upstream's, which is its name in an experiment
    suite: str  # Debian's release that has it
    libraries: tuple[str, ...]  # the packages of the same release that it needs, glibc among them
    may_lack: bool = False  # an old release leaves Debian's mirrors some day
    paces_udp: bool = True  # whether it sends UDP at the requested rate, on the virtual clock too
    # the size of the reads after which its receiver does nothing but read again until its buffer is
    # full; 0: it has none. From 3.16 on a stream's thread does (iperf_tcp_recv, Nread_no_select:
    # while (left) read(fd, buffer, left), the buffer is iperf3's default block). Its control
    # connection, whose Nread selects and looks at the clock between two reads, reads other sizes.
    # Before 3.16 select() is between any two reads.
    reads_on: int = 0


ALWAYS = ("libc6", "libgcc-s1", "libiperf0", "libsctp1")
OWN = {
    kind.version: kind
    for kind in (
        Iperf3Kind(
            "3.18", "trixie", (*ALWAYS, "libssl3t64", "libzstd1", "zlib1g"), reads_on=131072
        ),
        Iperf3Kind("3.12", "bookworm", (*ALWAYS, "libssl3")),
        Iperf3Kind("3.9", "bullseye", (*ALWAYS, "libssl1.1"), may_lack=True, paces_udp=False),
    )
}
NAMES = (*OWN, SYSTEM)
