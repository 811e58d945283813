"""The cost of a system call: what strace prints is read, a relay that does not start is said, and
nothing stays behind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gostlab.bench import callcost
from gostlab.setup.parts import find_parts
from tests.integration.offspring import offspring

SUMMARY = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.20    0.350000           9     36000       {errors} write
 38.80    0.221886           8     27000           read
------ ----------- ----------- --------- --------- ----------------
100.00    0.571886           9     63000       {errors} total
"""


@pytest.mark.parametrize("errors", ["  ", "12"])
def test_the_calls_are_those_of_the_last_line(errors: str) -> None:
    assert callcost.calls(SUMMARY.format(errors=errors)) == 63000


def test_a_tracer_that_counted_nothing_is_said() -> None:
    with pytest.raises(RuntimeError, match="counted nothing"):
        callcost.calls("")


def test_a_relay_that_does_not_start_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    relay = tmp_path / "relay-that-cannot"
    relay.write_text("#!/bin/sh\nexit 3\n")
    relay.chmod(0o755)
    with pytest.raises(RuntimeError, match="nothing listens on port"):
        callcost.call_us(relay, "150M", tmp_path)
    assert not [each for each in offspring() if "iperf3" in each.command]


def test_a_stream_crosses_the_relay_and_its_ends_are_gone_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    relay = find_parts().relay
    if relay is None:
        pytest.skip("./lab setup has not built the relay")
    monkeypatch.setattr(callcost, "SECONDS", 2)
    with callcost.near_end(relay, ()) as (process, port):
        before = callcost.cpu_s(process.pid)
        assert callcost.load(port, "20M") == pytest.approx(20e6 / 8 * callcost.SECONDS, rel=0.1)
        assert callcost.cpu_s(process.pid) >= before
    assert process.poll() is not None
