"""Routes that the kernel remembers: packets go where they would without, whatever changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from gostlab.declared.kernels import SHIPPED
from gostlab.setup.parts import written_record
from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

PROBE = Path(__file__).with_name("route_probe.py")
# Packets that the exits a and b get, of six.
EXITS = {
    "first": [6, 0],
    "replaced": [0, 6],
    "deleted": [0, 0],
    "wider": [6, 0],
    "more specific": [0, 6],
    "better metric": [6, 0],
    "blackhole": [0, 0],
    "another TOS": [0, 6],
    "no TOS": [6, 0],
    "TOS deleted": [6, 0],
    "ports": [3, 3],
    "ports deleted": [6, 0],
    "sources": [0, 6],
    "other sources": [6, 0],
    "filtered": [0, 0],
    "not filtered": [6, 0],
    "no forwarding": [0, 0],
    "forwarding": [6, 0],
    "one card does not": [0, 0],
    "one card does": [6, 0],
    "its own address": [0, 0],
    "not its own": [6, 0],
    "a source of its own": [0, 0],
    "a source of others": [6, 0],
    "exit down": [0, 6],
    "exit up": [6, 0],
    "no carrier at the exit": [0, 0],
    "carrier": [12, 0],  # with those that waited for the neighbour to answer
    "entry down and up": [6, 0],
    "anew": [0, 6],
}


@pytest.mark.parametrize("kernel", [SHIPPED, "5.10"])
def test_packets_go_where_the_routes_of_the_moment_send_them(lab: Lab, kernel: str) -> None:
    on, off = (probe(lab, kernel, word) for word in ("Y", "N"))

    assert (on["known"] > 80, off["known"]) == (True, 0)
    assert on["cases"] == off["cases"]  # to the nanosecond
    assert {name: on["cases"][name][:2] for name in EXITS} == EXITS
    assert on["cases"]["namespace gone"] == [0]


def probe(lab: Lab, kernel: str, word: str) -> dict[str, Any]:
    log = lab.command(f"python3 -S {PROBE} {word}", kernel=kernel).log
    lines = [line for line in log.splitlines() if line.startswith('{"known"')]
    assert lines, log
    found: dict[str, Any] = json.loads(lines[0])
    return found


def test_the_kernels_record_says_by_which_profile_it_was_built(lab: Lab) -> None:
    record = written_record(lab.kernel)
    if record is None:
        pytest.skip("the kernel is one of the user's own")
    profile = str(record["profile"])
    assert profile.startswith((f"linux-{record['version']}-gcc-", "none: "))
