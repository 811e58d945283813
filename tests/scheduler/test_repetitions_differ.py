# SPDX-License-Identifier: MIT
"""What is random in a host follows from its repetition's seed, whatever the congestion control."""

from dataclasses import replace

import pytest

from gostlab.guest.reset_clock import BEGIN_ANEW
from gostlab.registry.kernels import SHIPPED
from gostlab.results.duplicate_runs import samples_digest
from gostlab.spec.run_spec import RunSpec
from tests.sandboxed import Lab, describe, flow, written

pytestmark = pytest.mark.sandbox

# The initial sequence number of a connection, its timestamps' offset, the port that the kernel's
# hash chose, what programs get, and Python's own hash.
TELL = r"""
import os, socket
REPAIR, QUEUE, SEQUENCE, STAMP, SEND = 19, 20, 21, 24, 2
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
stamp = client.getsockopt(socket.IPPROTO_TCP, STAMP)
client.setsockopt(socket.IPPROTO_TCP, REPAIR, 1)
client.setsockopt(socket.IPPROTO_TCP, QUEUE, SEND)
sequence = client.getsockopt(socket.IPPROTO_TCP, SEQUENCE)
said = [sequence & 0xffffffff, stamp & 0xffffffff, client.getsockname()[1], os.urandom(8).hex()]
print("told", *said)
"""


def told(lab: Lab, seed: int) -> list[str]:
    """What a guest of a seed says after its run has begun anew, as every run does."""
    script = f"ip link set lo up; echo {seed} > {BEGIN_ANEW}; /usr/bin/python3 -c '{TELL}'"
    done = lab.command(script, seed=seed)
    (line,) = (line for line in done.log.splitlines() if line.startswith("told "))
    return line.split()[1:]


def test_sequence_numbers_timestamps_ports_and_random_bytes_are_the_seeds(lab: Lab) -> None:
    first, again, other = told(lab, 1001), told(lab, 1001), told(lab, 1002)
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True)), (first, other)


def test_a_runs_ports_differ_between_repetitions_and_not_between_paired_controls(lab: Lab) -> None:
    def port(seed: int, cc: str) -> int:
        done = lab.run(
            describe(seed=seed, cc=cc, duration_s=1.0, flows=[flow(cc=cc, duration_s=1.0)])
        )
        (connection,) = done.json("iperf3.json")["start"]["connected"]
        return int(connection["local_port"])

    assert port(1001, "cubic") == port(1001, "bbr") != port(1002, "cubic")


def lossless(seed: int, start_spread_s: float, *settings: str) -> RunSpec:
    """One flow of 1 s on a path that loses nothing and has no jitter."""
    plain = ("rate: 20mbit", "buffers: debian", "duration: 1s", *settings)
    run = written(f"{{{', '.join(plain)}}}")
    return replace(run, seed=seed, start_spread_s=start_spread_s)


@pytest.mark.parametrize("kernel", [SHIPPED, "5.10"])
@pytest.mark.parametrize("tunnel", ["direct", "gost+wss"])
def test_starts_a_fraction_of_a_millisecond_apart_are_different_runs(
    lab: Lab, kernel: str, tunnel: str
) -> None:
    """Seeds 1001 and 1003 draw 13.000 and 12.755 ms."""
    asked = (f"kernel: '{kernel}'", f"tunnel: {tunnel}")
    late, early = (lossless(seed, 0.02, *asked) for seed in (1001, 1003))
    apart_s = late.start_offset_s("flow1") - early.start_offset_s("flow1")
    assert 0.0002 < apart_s < 0.0003

    one, other = lab.run(late), lab.run(early)

    starts_s = [done.flows["flow1"]["started_s"] for done in (one, other)]
    assert starts_s[0] - starts_s[1] == pytest.approx(apart_s, abs=2e-6)
    assert samples_digest(one.folder) != samples_digest(other.folder)


def test_repetitions_that_start_at_one_instant_without_losses_have_equal_samples(lab: Lab) -> None:
    one, other = (lab.run(lossless(seed, 0.0)) for seed in (1001, 1002))

    assert one.samples["sockets.jsonl"] != other.samples["sockets.jsonl"]  # their ports
    assert samples_digest(one.folder) == samples_digest(other.folder)
