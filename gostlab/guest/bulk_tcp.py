#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many TCP connections of one process per end, as fast as TCP goes: both ends of a bulk flow.

    bulk_tcp.py serve PORT
    bulk_tcp.py ask ADDRESS PORT upload|download SECONDS STREAMS [cc=NAME]

The client makes all connections. The sender then says on the first one until when it sends, before
its data: an instant of CLOCK_MONOTONIC, which both ends read from one kernel. What has not arrived
by then does not count.
Each end prints a line of JSON, the receiver with the bytes of each connection by its number.

Each connection has a thread that is in one long call for most of its time: a write of CHUNK_BYTES,
or a read of everything (MSG_WAITALL) that discards it (MSG_TRUNC, tcp(7)). The kernel moves the
data; a program that waits for many sockets, as by epoll, would enter and leave it for each of them.

Python's own library alone, no import of the lab: it runs on a node, and by hand from commands.sh.
"""

import _thread
import ctypes
import json
import mmap
import os
import resource
import select
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import Any

Report = dict[str, Any]
# Every connection begins with its number and their count, whether the client sends, for how long,
# and the sender's congestion control. The sender then begins the first one with the end's instant.
HELLO, END = struct.Struct("!II?d16s"), struct.Struct("!d")
MAX_HANDSHAKES = 256  # connections that are being made at a time: more may overflow a queue
BACKLOG = 4096
CONNECT_S = 60.0
CHUNK_BYTES = 256 * 1024
# A connection takes more to send with less than half of this not yet sent (tcp(7),
# TCP_NOTSENT_LOWAT), and wakes its reader with so much to read (socket(7), SO_RCVLOWAT): ten
# packets at a time. Neither limits a window: the smallest is 64 KiB.
UNSENT_BYTES, UNREAD_BYTES = 32 * 1024, 16 * 1024
TCP_NOTSENT_LOWAT = 25
# Where a read would put the data if it did not discard them: addresses without memory.
SPACE_BYTES, MAP_NORESERVE = 1 << 30, 0x4000  # <asm-generic/mman.h>
STACK_BYTES = 64 * 1024
LONG_S = 3600.0
SPARE_FILES = 64
TCP_INFO_BYTES, TOTAL_RETRANS_AT = 104, 100  # <linux/tcp.h>: tcpi_total_retrans


def allow_files(count: int) -> None:
    """Raise this process's limit of open files to so many. Raises ValueError or OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(hard, count)))


def connect(address: str, port: int, streams: int) -> list[socket.socket]:
    """Return connections, of which at most MAX_HANDSHAKES are being made at a time.

    Raises OSError, or TimeoutError if that takes longer than CONNECT_S.
    """
    until_s = time.monotonic() + CONNECT_S
    connected: list[socket.socket] = []
    pending: dict[int, socket.socket] = {}
    with select.epoll() as ready:
        while len(connected) < streams:
            while len(pending) < min(MAX_HANDSHAKES, streams - len(connected)):
                connection = socket.socket()
                connection.setblocking(False)
                connection.connect_ex((address, port))
                pending[connection.fileno()] = connection
                ready.register(connection, select.EPOLLOUT)
            if time.monotonic() >= until_s:
                raise TimeoutError(
                    f"{len(connected)} of {streams} connections in {CONNECT_S:.0f} s"
                )
            for descriptor, _ in ready.poll(1.0):
                connection = pending.pop(descriptor)
                ready.unregister(descriptor)
                if error := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(error, os.strerror(error))
                connection.setblocking(True)
                connected.append(connection)
    return connected


def send_all(connection: socket.socket, chunk: bytes) -> int:
    """Write until the connection is shut down; return the segments that were retransmitted."""
    with suppress(ConnectionError):
        while True:
            connection.sendall(chunk)
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    return int.from_bytes(info[TOTAL_RETRANS_AT:TCP_INFO_BYTES], sys.byteorder)


def receive_all(connection: socket.socket, space: mmap.mmap) -> int:
    """Read until the connection is shut down; return the number of bytes."""
    total = 0
    with suppress(ConnectionError):
        while count := connection.recv_into(space, 0, socket.MSG_WAITALL | socket.MSG_TRUNC):
            total += count
    return total


def carry(connections: list[socket.socket], seconds: float, cc: bytes, *, sends: bool) -> Report:
    """Do one end's part of the data, and close the connections; return the end's report."""
    chunk = bytes(CHUNK_BYTES)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    space = mmap.mmap(-1, SPACE_BYTES, flags=flags)
    counts = [0] * len(connections)
    ended = threading.Semaphore(0)

    def move(number: int, connection: socket.socket) -> None:
        try:
            counts[number] = (
                send_all(connection, chunk) if sends else receive_all(connection, space)
            )
        finally:
            connection.close()
            ended_at_s.append(time.monotonic())
            ended.release()

    ended_at_s: list[float] = []
    if not sends:
        (until_s,) = END.unpack(read_exactly(connections[0], END.size))
    for connection in connections:
        if sends:
            connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            if cc:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc)
        else:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, UNREAD_BYTES)
    threading.stack_size(STACK_BYTES)
    from_s = time.monotonic()
    if sends:
        until_s = from_s + seconds
        connections[0].sendall(END.pack(until_s))
    descriptors = [connection.fileno() for connection in connections]
    for number, connection in enumerate(connections):
        _thread.start_new_thread(move, (number, connection))
    time.sleep(max(0.0, until_s - time.monotonic()))
    # All connections end at nearly one time: no other thread takes the interpreter meanwhile, and a
    # call by ctypes.PyDLL keeps it.
    sys.setswitchinterval(LONG_S)
    shutdown, how = ctypes.PyDLL(None).shutdown, socket.SHUT_WR if sends else socket.SHUT_RD
    for descriptor in descriptors:
        shutdown(descriptor, how)
    ended_s = time.monotonic()
    for _ in connections:
        ended.acquire()
    early = sum(at_s < until_s for at_s in ended_at_s)
    report = {"from_s": from_s, "ended_s": ended_s, "ended_early": early}
    return report | ({"retransmitted": sum(counts)} if sends else {"received": counts})


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes. Raises ConnectionError if the stream ends before."""
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionError("a connection ended before its first bytes")
    return data


def serve(port: int) -> Report:
    """Accept all connections of one client and do its request's part."""
    by_number: dict[int, socket.socket] = {}
    streams, client_sends, seconds, cc = 1, True, 0.0, b""
    with socket.create_server(("", port), backlog=BACKLOG) as listener:
        while len(by_number) < streams:
            connection, _ = listener.accept()
            hello = HELLO.unpack(read_exactly(connection, HELLO.size))
            number, streams, client_sends, seconds, cc = hello
            allow_files(streams + SPARE_FILES)
            by_number[number] = connection
    connections = [by_number[number] for number in range(streams)]
    return carry(connections, seconds, cc.rstrip(b"\0"), sends=not client_sends)


def ask(
    address: str, port: int, direction: str, seconds: float, streams: int, cc: str = ""
) -> Report:
    """Make the connections, send the request and do the client's part."""
    began_s = time.monotonic()
    allow_files(streams + SPARE_FILES)
    connections = connect(address, port, streams)
    sends = direction == "upload"
    for number, connection in enumerate(connections):
        connection.sendall(HELLO.pack(number, streams, sends, seconds, cc.encode()))
    connected_s = time.monotonic()
    report = carry(connections, seconds, cc.encode(), sends=sends)
    return {"began_s": began_s, "connected_s": connected_s, **report}


def main(argv: list[str]) -> None:
    """Run one end, and print its report."""
    if argv[1] == "serve":
        report = serve(int(argv[2]))
    else:
        named = dict(pair.split("=", 1) for pair in argv[7:])
        report = ask(argv[2], int(argv[3]), argv[4], float(argv[5]), int(argv[6]), **named)
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv)
    except OSError as error:
        sys.exit(f"bulk_tcp: {error}")
