# SPDX-License-Identifier: MIT
"""The lab's own echo, as a ping flow has it where irtt does not fit: both ends, on this machine."""

import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from gostlab.bench.cpu_costs import free_ports
from gostlab.guest import rtt_echo

KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def asked(protocol: str, port: int, interval_ms: int, duration_s: float) -> dict[str, Any]:
    words = ("ask", protocol, "127.0.0.1", str(port), str(interval_ms), str(duration_s))
    done = subprocess.run(
        [sys.executable, rtt_echo.__file__, *words], capture_output=True, check=True, timeout=60
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("protocol", KINDS)
def test_every_request_is_answered_and_leaves_when_it_is_due(protocol: str) -> None:
    [port] = free_ports(1)
    words = (sys.executable, rtt_echo.__file__, "serve", protocol, str(port))
    with subprocess.Popen(words) as server:
        try:
            wait_for(protocol, port)
            said = asked(protocol, port, 100, 0.5)
        finally:
            server.kill()

    assert (said["program"], said["over"]) == ("echo", protocol)
    trips = said["round_trips"]
    assert len(trips) == 5 and trips[0]["at_s"] == 0
    assert all(each["at_s"] >= n * 0.1 - 0.02 for n, each in enumerate(trips))
    assert trips[-1]["rtt_ms"] is not None


def wait_for(protocol: str, port: int) -> None:
    """Until somebody answers there."""
    for _ in range(600):
        with socket.socket(socket.AF_INET, KINDS[protocol]) as sock, suppress(OSError):
            sock.settimeout(0.1)
            sock.connect(("127.0.0.1", port))
            sock.send(b"x")
            if sock.recv(1):
                return
        time.sleep(0.1)


@pytest.mark.slow
def test_a_datagram_that_nobody_answers_has_no_round_trip() -> None:
    [port] = free_ports(1)
    assert {each["rtt_ms"] for each in asked("udp", port, 20, 0.1)["round_trips"]} == {None}
