# SPDX-License-Identifier: MIT
"""iperf3's server held by ptrace on this machine's own loopback."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gostlab.bench.cpu_costs import free_ports, wait_for
from gostlab.guest.iperf3_hold import HeldServer, can_hold

pytestmark = pytest.mark.skipif(not can_hold(), reason="not x86-64")


@contextmanager
def serving() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    [port] = free_ports(1)
    words = ["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        wait_for(port, server)
        yield server, port
    finally:
        server.kill()
        server.wait()


def nothing() -> None:
    """Nothing is amiss."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("streams", "options"), [(3, ["-b", "1M"]), (2, ["-u", "-b", "1M"]), (1, ["-R", "-b", "20M"])]
)
def test_no_data_pass_before_the_release_and_all_of_the_time_after_it(
    streams: int, options: list[str]
) -> None:
    with serving() as (server, port):
        held = HeldServer.seize(server.pid, streams, by_datagrams="-u" in options)
        argv = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", "1", "-P", str(streams)]
        client = subprocess.Popen([*argv, *options], stdout=subprocess.DEVNULL)
        held.hold(nothing)
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(1.25)
        held.release()
        began_s = time.monotonic()
        assert client.wait(10) == 0
        assert time.monotonic() - began_s > 0.95
        assert server.wait(10) == 0


def test_a_server_that_dies_before_it_is_held_says_so() -> None:
    with serving() as (server, _):
        held = HeldServer.seize(server.pid, 1, by_datagrams=False)
        os.kill(server.pid, signal.SIGKILL)  # Popen.kill() would take its stop for its end
        with pytest.raises(ProcessLookupError):
            held.hold(nothing)
        held.release()


def test_waiting_for_a_server_ends_with_what_its_check_raises() -> None:
    def broken() -> None:
        raise RuntimeError("the client is gone")

    with serving() as (server, _):
        held = HeldServer.seize(server.pid, 1, by_datagrams=False)
        with pytest.raises(RuntimeError):
            held.hold(broken)
        held.release()
