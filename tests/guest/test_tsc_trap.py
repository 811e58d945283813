# SPDX-License-Identifier: MIT
"""Programs of an older Go, whose runtime reads the CPU's cycle counter: real ones, here."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from gostlab.guest import tsc_trap
from gostlab.guest.iperf3_hold import can_hold
from tests.lab_command import Gost

pytestmark = pytest.mark.skipif(not can_hold(), reason="not x86-64")
OLD, NEW = "3.0.0-rc8", "3.2.6"


@pytest.mark.parametrize(
    ("version", "seeds"),
    [
        ("gost 3.0.0-rc8, go1.19.8", True),
        ("gost 2.11.5, go1.21", True),
        ("relay 0.2, go1.22.1", False),
        ("gost 3.2.6, go1.26.8", False),
        ("socat 1.7.4.4", False),
    ],
)
def test_whose_random_numbers_the_counter_seeds(version: str, seeds: bool) -> None:
    assert tsc_trap.go_seeds_from_tsc(version) is seeds


@pytest.mark.parametrize("charged", [False, True], ids=["at once", "behind a shell"])
@pytest.mark.real_gost
def test_it_reads_0_in_memory_and_the_file_stays(gost: Gost, charged: bool) -> None:
    program = gost(OLD).path
    place = tsc_trap.tsc_read_offset(program)
    assert place is not None
    before = program.read_bytes()
    argv = [str(program), "-L", "tcp://127.0.0.1:0"]

    started = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@"', "sh", *argv] if charged else argv,
        **tsc_trap.STANDING_STILL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert tsc_trap.release_at_exec(started.pid, place, execs=2 if charged else 1)
        maps = Path(f"/proc/{started.pid}/maps").read_text(encoding="utf-8")
        address = tsc_trap.address_of(place, maps)
        assert address is not None
        with Path(f"/proc/{started.pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            assert memory.read(3) == tsc_trap.READS_ZERO
        assert started.poll() is None
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
    assert program.read_bytes() == before


@pytest.mark.parametrize(
    ("argv", "place", "execs", "status"),
    [(["/bin/sh", "-c", "exit 3"], 0, 2, 3), (["/bin/true"], 1 << 40, 1, 0)],
    ids=["never execs", "another at that place"],
)
def test_another_program_stays_as_it_is_and_ends_for_whoever_waits_for_it(
    argv: list[str], place: int, execs: int, status: int
) -> None:
    started = subprocess.Popen(argv, **tsc_trap.STANDING_STILL)

    assert not tsc_trap.release_at_exec(started.pid, place, execs=execs)
    assert started.wait(10) == status


def test_a_program_without_it_has_no_such_place(tmp_path: Path) -> None:
    assert tsc_trap.tsc_read_offset(Path(os.path.realpath("/bin/true"))) is None
    (tmp_path / "empty").touch()
    assert tsc_trap.tsc_read_offset(tmp_path / "empty") is None
