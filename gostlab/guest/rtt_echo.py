#!/usr/bin/env python3
"""Measure round trips of small requests, by TCP or UDP: ping flows without irtt run this.

    rtt_echo.py serve PROTOCOL PORT
    rtt_echo.py ask PROTOCOL ADDRESS PORT INTERVAL_MS DURATION_S

A request leaves every interval, whether the last one was answered or not, and carries its number;
the server sends it back. The client prints one JSON object: every request with its send time,
counted from the first, and its round trip (null: no answer). It imports only the standard library
and nothing of the lab: it runs on a node, and by hand from commands.sh.
"""

import json
import select
import socket
import struct
import sys
import threading
import time

BYTES = 64  # size of a request and of its answer, equal to irtt's here
HEADER = struct.Struct("!IQ")  # number of a request, and its send time in ns
PATIENCE_S = 4.0  # time to wait for answers after the last request


def serve(protocol: str, port: int) -> None:
    """Send back whatever arrives."""
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
    """Send back at once whatever arrives on a TCP connection."""
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
    """Send a request every interval, and return all requests with their round trips."""
    sent_times_ns: list[int] = []
    rtts_ms: dict[int, float] = {}
    count = max(1, round(duration_s / interval_s))
    began_ns, buffered, end_ns = time.monotonic_ns(), b"", None
    while end_ns is None or (len(rtts_ms) < count and time.monotonic_ns() < end_ns):
        due_ns = began_ns + int(len(sent_times_ns) * interval_s * 1e9) if end_ns is None else end_ns
        wait_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9)
        if select.select([sock], [], [], wait_s)[0]:
            try:
                data = sock.recv(65536)
            except ConnectionRefusedError:  # UDP, before a server listens
                continue
            if not data:
                raise SystemExit("the connection was closed")
            now_ns, buffered = time.monotonic_ns(), buffered + data
            while len(buffered) >= BYTES:
                number, sent_ns = HEADER.unpack_from(buffered)
                rtts_ms.setdefault(number, (now_ns - sent_ns) / 1e6)
                buffered = buffered[BYTES:]
        elif end_ns is None:
            now_ns = time.monotonic_ns()
            sock.send(HEADER.pack(len(sent_times_ns), now_ns).ljust(BYTES, b"\0"))
            sent_times_ns.append(now_ns)
            if len(sent_times_ns) == count:
                longest_ms = max(rtts_ms.values(), default=1000 * PATIENCE_S)
                end_ns = now_ns + int(max(interval_s, min(PATIENCE_S, 3 * longest_ms / 1e3)) * 1e9)
    return [
        {"at_s": round((sent_ns - sent_times_ns[0]) / 1e9, 6), "rtt_ms": rtts_ms.get(number)}
        for number, sent_ns in enumerate(sent_times_ns)
    ]


def main(argv: list[str]) -> None:
    """Run the server or the client."""
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
