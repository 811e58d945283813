#!/usr/bin/env python3
"""One TCP connection that carries a number of bytes, or data in bursts: both ends of a flow.

    tcp_source.py serve PORT
    tcp_source.py ask ADDRESS PORT upload|download SECONDS bytes=N [cc=NAME]
    tcp_source.py ask ADDRESS PORT upload|download SECONDS on=S off=S [rate=BIT/S] [cc=NAME]

The client connects and sends a line of JSON: who sends, what, and until when. Each end prints a
line of JSON when the transfer is over, or the time is up: the sender its bursts, the receiver what
arrived and when. The instants are CLOCK_MONOTONIC's, which both ends read from one kernel. What has
not arrived by the end of the time does not count, and the connection is reset. Python's own library
alone, no import of the lab: it runs on a node, and by hand from commands.sh.
"""

import json
import select
import socket
import struct
import sys
import time
from typing import Any

CHUNK = bytes(16 * 1024)
# A socket is writable with less than this not yet sent, so that a burst ends when its time is up
# and not when a full send buffer has drained (tcp(7), TCP_NOTSENT_LOWAT).
UNSENT_BYTES = 32 * 1024
TCP_NOTSENT_LOWAT = 25
WRITE_S = 0.001  # a source at a rate writes a millisecond's data at a time, a segment at least
SEGMENT_BYTES = 1448
BIN_S = 0.01  # resolution of the arrivals
READ_BYTES = 128 * 1024
CONNECT_S = 60.0


def send_bytes(connection: socket.socket, size: int, until_s: float) -> None:
    """Write `size` bytes and close the sending direction. Raises TimeoutError at `until_s`."""
    while size:
        connection.settimeout(left(until_s))
        size -= connection.send(CHUNK[: min(size, len(CHUNK))])
    connection.shutdown(socket.SHUT_WR)


def send_bursts(
    connection: socket.socket, on_s: float, off_s: float, rate_bps: int | None, until_s: float
) -> list[dict[str, float]]:
    """Write for `on_s`, pause for `off_s`, until the time is up; return each burst."""
    connection.setblocking(False)
    started_s = time.monotonic()
    bursts: list[dict[str, float]] = []
    while (due_s := started_s + len(bursts) * (on_s + off_s)) < until_s:
        time.sleep(max(0.0, due_s - time.monotonic()))
        began_s = time.monotonic()
        end_s = min(due_s + on_s, until_s)
        written = send_until(connection, end_s, rate_bps)
        bursts.append({"due_s": due_s, "began_s": began_s, "end_s": end_s, "bytes": written})
    time.sleep(max(0.0, until_s - time.monotonic()))  # a source lasts to the end of its time
    return bursts


def send_until(connection: socket.socket, end_s: float, rate_bps: int | None) -> int:
    """Write as fast as TCP goes, or at a rate, until an instant; return the number of bytes."""
    began_s, written = time.monotonic(), 0
    write_bytes = len(CHUNK)
    if rate_bps:
        write_bytes = min(write_bytes, max(SEGMENT_BYTES, int(rate_bps / 8 * WRITE_S)))
    while (now_s := time.monotonic()) < end_s:
        if rate_bps:
            due_s = began_s + 8 * written / rate_bps
            if now_s < due_s:
                time.sleep(max(0.0, min(due_s, end_s) - now_s))
                continue
        _, writable, _ = select.select([], [connection], [], end_s - now_s)
        if writable:
            written += connection.send(CHUNK[:write_bytes])
    return written


def receive(connection: socket.socket, size: int | None, until_s: float) -> dict[str, object]:
    """Read to the end of the data, or until the time is up; return what arrived and when."""
    buffer, total, last_s = bytearray(READ_BYTES), 0, None
    bins: dict[int, int] = {}
    try:
        while size is None or total < size:
            connection.settimeout(left(until_s))
            count = connection.recv_into(buffer)
            last_s = time.monotonic() if count else last_s
            if not count or last_s is None:
                break
            total += count
            index = int(last_s / BIN_S)
            bins[index] = bins.get(index, 0) + count
    except (TimeoutError, ConnectionError):
        pass
    arrived = [[round(index * BIN_S, 6), count] for index, count in sorted(bins.items())]
    return {"bytes": total, "last_s": last_s, "arrived": arrived}


def left(until_s: float) -> float:
    """Return the seconds until an instant. Raises TimeoutError if there are none."""
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def carry(connection: socket.socket, asked: dict[str, Any], *, sends: bool) -> dict[str, Any]:
    """Do one end's part of a flow, and close the connection; return what the end reports."""
    until_s, size = asked["until_s"], asked["bytes"]
    report: dict[str, object] = {}
    if asked["cc"] and sends:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, asked["cc"].encode())
    try:
        if not sends:
            report = receive(connection, size, until_s)
        elif size is not None:
            send_bytes(connection, size, until_s)
            connection.settimeout(left(until_s))
            connection.recv(1)  # the receiver closes when it has all
        else:
            connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            timing = asked["on_s"], asked["off_s"], asked["rate_bps"]
            report = {"bursts": send_bursts(connection, *timing, until_s)}
    except (TimeoutError, ConnectionError):
        pass  # the receiver's report says what has not arrived
    if time.monotonic() >= until_s:  # reset it: what is still buffered does not count
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    return report


def read_line(connection: socket.socket) -> dict[str, Any]:
    """Return the client's line, and leave what follows it in the socket."""
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            raise ConnectionError("the client sent no request")
        line += byte
    request: dict[str, Any] = json.loads(line)
    return request


def serve(port: int) -> dict[str, object]:
    """Accept one connection and do its request's part."""
    with socket.create_server(("", port)) as listener:
        connection, _ = listener.accept()
        request = read_line(connection)
        return carry(connection, request, sends=request["sends"] == "server")


def ask(address: str, port: int, direction: str, seconds: float, **what: str) -> dict[str, object]:
    """Connect, send the request and do the client's part; `began_s` is before the connection."""
    began_s = time.monotonic()
    request = {
        "sends": "client" if direction == "upload" else "server",
        "until_s": began_s + seconds,
        "bytes": int(what["bytes"]) if "bytes" in what else None,
        "on_s": float(what.get("on", 0)),
        "off_s": float(what.get("off", 0)),
        "rate_bps": int(what["rate"]) if "rate" in what else None,
        "cc": what.get("cc", ""),
    }
    connection = socket.create_connection((address, port), min(seconds, CONNECT_S))
    connected_s = time.monotonic()
    connection.sendall(json.dumps(request).encode() + b"\n")
    report = carry(connection, request, sends=request["sends"] == "client")
    return {**report, "began_s": began_s, "connected_s": connected_s, "ended_s": time.monotonic()}


def main(argv: list[str]) -> None:
    """Run one end, and print its report."""
    if argv[1] == "serve":
        report = serve(int(argv[2]))
    else:
        what = dict(pair.split("=", 1) for pair in argv[6:])
        report = ask(argv[2], int(argv[3]), argv[4], float(argv[5]), **what)
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv)
    except OSError as error:
        sys.exit(f"tcp_source: {error}")
