#!/usr/bin/env python3
"""Round trips of small requests, by TCP or UDP: what a ping flow runs where irtt does not fit.

    echo.py serve PROTOCOL PORT
    echo.py ask PROTOCOL ADDRESS PORT INTERVAL_MS DURATION_S

A request leaves every interval, whether the last one was answered or not, and carries its number;
the server sends it back. The client prints one JSON object: every request with the time it left,
counted from the first, and its round trip (null: no answer). Python's own library alone, no import
of the lab: it runs on a node, and by hand from commands.sh.
"""

import json
import select
import socket
import struct
import sys
import threading
import time

BYTES = 64  # per request and reply; the lab's irtt sends as many
HEADER = struct.Struct("!IQ")  # its number, and the nanosecond it left
PATIENCE_S = 4.0  # for answers after the last request


def serve(protocol: str, port: int) -> None:
    """Send back whatever comes."""
    if protocol == "udp":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("", port))
            while True:
                data, peer = sock.recvfrom(2048)
                sock.sendto(data, peer)
    listener = socket.create_server(("", port))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=send_back, args=(connection,), daemon=True).start()


def send_back(connection: socket.socket) -> None:
    """Send back at once whatever a TCP connection brings."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while data := connection.recv(4096):
            connection.sendall(data)


def connected(protocol: str, address: str, port: int) -> socket.socket:
    if protocol == "udp":
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect((address, port))
        return sock
    sock = socket.create_connection((address, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def measure(sock: socket.socket, interval_s: float, duration_s: float) -> list[dict[str, object]]:
    """Send a request every interval; every request and its round trip."""
    left: list[int] = []
    rtts_ms: dict[int, float] = {}
    count = max(1, round(duration_s / interval_s))
    began_ns, rest, end_ns = time.monotonic_ns(), b"", None
    while end_ns is None or (len(rtts_ms) < count and time.monotonic_ns() < end_ns):
        due_ns = began_ns + int(len(left) * interval_s * 1e9) if end_ns is None else end_ns
        wait_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9)
        if select.select([sock], [], [], wait_s)[0]:
            try:
                data = sock.recv(65536)
            except ConnectionRefusedError:  # UDP, before anybody listens
                continue
            if not data:
                raise SystemExit("the connection was closed")
            now_ns, rest = time.monotonic_ns(), rest + data
            while len(rest) >= BYTES:
                number, sent_ns = HEADER.unpack_from(rest)
                rtts_ms.setdefault(number, (now_ns - sent_ns) / 1e6)
                rest = rest[BYTES:]
        elif end_ns is None:
            now_ns = time.monotonic_ns()
            sock.send(HEADER.pack(len(left), now_ns).ljust(BYTES, b"\0"))
            left.append(now_ns)
            if len(left) == count:
                longest_ms = max(rtts_ms.values(), default=1000 * PATIENCE_S)
                end_ns = now_ns + int(max(interval_s, min(PATIENCE_S, 3 * longest_ms / 1e3)) * 1e9)
    return [
        {"at_s": round((sent_ns - left[0]) / 1e9, 6), "rtt_ms": rtts_ms.get(number)}
        for number, sent_ns in enumerate(left)
    ]


def main(argv: list[str]) -> None:
    """Either end."""
    if argv[1] == "serve":
        serve(argv[2], int(argv[3]))
    protocol, address, port, interval_ms, duration_s = argv[2:]
    with connected(protocol, address, int(port)) as sock:
        round_trips = measure(sock, float(interval_ms) / 1000, float(duration_s))
    json.dump({"program": "echo", "over": protocol, "round_trips": round_trips}, sys.stdout)
    print()


if __name__ == "__main__":
    try:
        main(sys.argv)
    except OSError as error:
        sys.exit(f"echo: {error}")
