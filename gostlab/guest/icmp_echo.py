"""Measure round trips by ICMP echo requests (RFC 792), as ping does, without another process.

A program's start takes as long as a second of a slow network, and a run measures each pair of hosts
before and after its load.
"""

import itertools
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gostlab.guest.namespaces import entered_namespace

ECHO_REPLY, ECHO_REQUEST = 0, 8
SOL_RAW, ICMP_FILTER = 255, 1  # <linux/socket.h>, <linux/icmp.h>: a bit for each refused type
SO_TIMESTAMPNS = 35  # <asm-generic/socket.h>
TIMESPEC = struct.Struct("=qq")
ECHO = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence number
PAYLOAD_BYTES = 56
IP_HEADER_WORD_BYTES = 4
# Each measurement has an identifier of its own, as each ping has: a late or duplicated answer to
# the last one would otherwise be taken for an early one to this.
identifiers = itertools.cycle(range(1, 1 << 16))


def echo_rtts_ms(
    namespace: int, target: str, *, count: int, interval_s: float, wait_s: float
) -> list[float]:
    """Return the round-trip times of the requests that were answered, in ms.

    namespace   thread or process in the network namespace that sends
    interval_s  from one request to the next
    wait_s      for the last answer
    Raises OSError if the requests cannot be sent.
    """
    with open_echo_socket(namespace, target) as echo:
        identifier = next(identifiers)
        sent_ns: dict[int, int] = {}
        rtts_ms: dict[int, float] = {}
        begin_s = time.monotonic()
        for number in range(1, count + 1):
            due_s = begin_s + (number - 1) * interval_s
            while (left_s := due_s - time.monotonic()) > 0:
                receive(echo, identifier, left_s, sent_ns, rtts_ms)
            sent_ns[number] = time.clock_gettime_ns(time.CLOCK_REALTIME)
            echo.send(echo_request(identifier, number))
        end_s = time.monotonic() + wait_s
        while len(rtts_ms) < count and (left_s := end_s - time.monotonic()) > 0:
            receive(echo, identifier, left_s, sent_ns, rtts_ms)
    return [rtts_ms[number] for number in sorted(rtts_ms)]


@contextmanager
def open_echo_socket(namespace: int, target: str) -> Iterator[socket.socket]:
    """Open a socket that gets the echo replies of a host, and when they came. Raises OSError."""
    with entered_namespace(namespace):
        echo = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with echo:
        refused_types = ~(1 << ECHO_REPLY) & 0xFFFFFFFF
        echo.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", refused_types))
        echo.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        echo.connect((target, 0))
        yield echo


def echo_request(identifier: int, number: int) -> bytes:
    """Return an echo request as long as ping's, with its checksum (RFC 1071)."""
    payload = bytes(PAYLOAD_BYTES)
    total = sum(struct.unpack("!4H", ECHO.pack(ECHO_REQUEST, 0, 0, identifier, number)))
    total = (total & 0xFFFF) + (total >> 16)
    return ECHO.pack(ECHO_REQUEST, 0, ~total & 0xFFFF, identifier, number) + payload


def receive(
    echo: socket.socket,
    identifier: int,
    max_s: float,
    sent_ns: Mapping[int, int],
    rtts_ms: dict[int, float],
) -> None:
    """Wait for one answer, at most so long, and note its round trip by the kernel's time."""
    echo.settimeout(max_s)
    try:
        data, ancillary, _, _ = echo.recvmsg(2048, socket.CMSG_SPACE(TIMESPEC.size))
    except TimeoutError:
        return
    header_bytes = (data[0] & 15) * IP_HEADER_WORD_BYTES
    _, _, _, answered, number = ECHO.unpack_from(data, header_bytes)
    came_ns = [
        seconds * 1_000_000_000 + ns
        for level, option, value in ancillary
        if (level, option) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)
        for seconds, ns in TIMESPEC.iter_unpack(value)
    ]
    if answered == identifier and number in sent_ns and came_ns:
        rtts_ms.setdefault(number, (came_ns[0] - sent_ns[number]) / 1e6)
