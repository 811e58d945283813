# SPDX-License-Identifier: MIT
"""Run in a guest: what a program gets whose reads the kernel goes on with, and when.

`read_on_probe.py BYTES` reads blocks as iperf3's receiver does, from a peer in another process that
does what each case says. BYTES: the size of the reads that the kernel is told of. Prints one line
of JSON for each case: how each block ended (bytes, and the error if one ended it), on which
nanosecond, and how many reads the kernel made.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

TT_READ_ON, BLOCK, SEGMENT = 0x676F7374, 131072, 1000
MADE = Path("/sys/module/kernel/parameters/tt_reads_made")
BEGIN_ANEW = Path("/sys/module/kernel/parameters/tt_begin_anew")
RST_ON_CLOSE = struct.pack("ii", 1, 0)
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(BLOCK)


def block(fd: int, size: int = BLOCK) -> tuple[int, str]:
    """One block as Nread_no_select reads it: its bytes, and the error that ended it."""
    left = size
    while left:
        got = libc.read(fd, ctypes.byref(buffer, size - left), ctypes.c_size_t(left))
        if got < 0:
            return size - left, errno.errorcode[ctypes.get_errno()]
        if got == 0:
            break
        left -= got
    return size - left, ""


def sent(peer: socket.socket, count: int) -> None:
    """So many segments, some time apart."""
    for _ in range(count):
        peer.send(b"x" * SEGMENT)
        time.sleep(0.0003)


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)


def stop_and_go(reader: int) -> None:
    os.kill(reader, signal.SIGSTOP)
    time.sleep(0.01)
    os.kill(reader, signal.SIGCONT)


# The least reads that the kernel makes, and what the peer does: with its socket, and the reader's
# process.
CASES: dict[str, tuple[int, Callable[[socket.socket, int], object]]] = {
    "whole blocks": (200, lambda peer, _: sent(peer, 2 * BLOCK // SEGMENT + 40)),
    "end of stream": (5, lambda peer, _: sent(peer, 5)),
    "nothing at all": (0, lambda peer, _: None),
    "reset": (1, lambda peer, _: (sent(peer, 5), reset(peer))),
    "reset at once": (0, lambda peer, _: reset(peer)),
    "signal": (
        5,
        lambda peer, reader: (sent(peer, 5), os.kill(reader, signal.SIGUSR1), sent(peer, 5)),
    ),
    "stopped": (5, lambda peer, reader: (sent(peer, 5), stop_and_go(reader), sent(peer, 5))),
    "killed": (4, lambda peer, reader: (sent(peer, 5), os.kill(reader, signal.SIGKILL))),
    "time out": (5, lambda peer, _: (sent(peer, 5), time.sleep(0.2), sent(peer, 5))),
    "tick": (100, lambda peer, _: (sent(peer, 100), time.sleep(0.05), sent(peer, 100))),
}


def read_all(case: str, connection: socket.socket) -> Iterator[tuple[int, str, int]]:
    """Every block until the stream ends, and when each had been read."""
    fd = connection.fileno()
    if case == "time out":  # SO_RCVTIMEO, as a read that fails and can be made again
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100_000))
    while True:
        bytes_read, failed = block(fd)
        yield bytes_read, failed, time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if failed not in ("", "EAGAIN") or (bytes_read == 0 and not failed):
            return


def tried(case: str, size: int, seed: int) -> dict[str, object]:
    """One case, at a whole second of the virtual clock."""
    BEGIN_ANEW.write_text(f"{seed}")
    made = int(MADE.read_text())
    listener = socket.create_server(("127.0.0.1", 0))
    at_reader, at_peer = os.pipe(), os.pipe()
    reader = os.fork()
    if reader == 0:
        signal.signal(signal.SIGUSR1, lambda *_: None)  # restarts: Python's handler notes it alone
        signal.siginterrupt(signal.SIGUSR1, False)
        connection, _ = listener.accept()
        assert libc.prctl(TT_READ_ON, ctypes.c_ulong(size)) == 0
        os.write(at_reader[1], json.dumps(list(read_all(case, connection))).encode())
        os._exit(0)
    peer = socket.create_connection(listener.getsockname())
    begun = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    CASES[case][1](peer, reader)
    peer.close()
    _, status = os.waitpid(reader, 0)
    os.close(at_reader[1])
    blocks = json.loads(os.read(at_reader[0], 65536) or "[]")
    for fd in (at_reader[0], *at_peer):
        os.close(fd)
    listener.close()
    ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return {
        "status": status,
        "blocks": [[count, failed, at - begun] for count, failed, at in blocks],
        "took_ns": ended - begun,
        "made": int(MADE.read_text()) - made,
    }


if __name__ == "__main__":
    for number, name in enumerate(CASES):
        print(json.dumps({"case": name, **tried(name, int(sys.argv[1]), number)}), flush=True)
