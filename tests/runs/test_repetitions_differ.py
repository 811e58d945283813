"""What is random in a host follows from its repetition's seed, whatever the congestion control."""

import pytest

from gostlab.guest.anew import BEGIN_ANEW
from tests.sandboxed import Lab, describe, flow

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
