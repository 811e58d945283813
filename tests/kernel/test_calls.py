# SPDX-License-Identifier: MIT
"""Calls of a guest's programs where the host is in the way: somebody stops a guest's process, or a
filter denies seccomp(2) to the lab. Nothing of it is in the samples, to the bit.
"""

import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gostlab import sandbox
from gostlab.registry.kernels import SHIPPED, declared_kernels
from gostlab.spec.run_spec import RunSpec
from tests.lab_command import said_by
from tests.sandboxed import Done, Lab, describe, direction

pytestmark = pytest.mark.sandbox

PATH = direction(rate_bps=5_000_000, delay_ms=10.0, buffer_pkts=60)
OLDER = [name for name, each in declared_kernels().items() if each.version < (6, 16)]
NOTIFIED = [name for name in OLDER if "seccomp" in declared_kernels()[name].features]
LAB_UNDER_A_FILTER = """
import os, sys
from tests.sandbox.confined import filter_calls
filter_calls(namespaces=True, seccomp=False)
os.execv(sys.executable, [sys.executable, "-m", "gostlab", *sys.argv[1:]])
"""


def described(kernel: str) -> RunSpec:
    """A short run on a kernel."""
    return describe(PATH, PATH, cc="bbr", duration_s=1.0, tunnel="relay+ws", kernel=kernel)


@pytest.fixture(scope="module")
def undisturbed(lab: Lab) -> Callable[[str], Done]:
    """That run when nothing is in the way, once for all tests."""
    return cache(lambda kernel: lab.run(described(kernel)))


def stop_every_other_one(guest: sandbox.TimedProcess) -> int:
    """From its boot on stop half of a guest's processes for a while, then the other half, until its
    end: how many were stopped.
    """
    children = Path(f"/proc/{guest.group}/task/{guest.group}/children")
    stopped = 0
    for half in itertools.cycle((0, 1)):
        if guest.poll() is not None:
            break
        pids = sorted(map(int, children.read_text(encoding="ascii").split()))
        if len(pids) > 1:  # alone is the one with which a kernel finds out what the host can do
            stopped += sum(signalled(pid, signal.SIGSTOP) for pid in pids[half::2])
            time.sleep(0.01)
            for pid in pids:
                signalled(pid, signal.SIGCONT)
        time.sleep(0.02)
    return stopped


def signalled(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("kernel", [SHIPPED, *OLDER])
def test_a_process_that_somebody_stops_goes_on_as_if_nobody_had(
    lab: Lab, undisturbed: Callable[[str], Done], kernel: str
) -> None:
    guest, folder = lab.start(described(kernel))
    stopped = stop_every_other_one(guest)

    assert stopped > 4
    assert undisturbed(kernel).unlike(Done(folder)) == []


@pytest.mark.parametrize("kernel", NOTIFIED)
def test_by_ptrace_alone_the_samples_are_the_same(
    lab: Lab, undisturbed: Callable[[str], Done], kernel: str, tmp_path: Path
) -> None:
    """Where the host denies seccomp(2), as some containers' filters do."""
    lab.kernel_named(kernel)
    file = tmp_path / "run.json"
    file.write_text(json.dumps(described(kernel).to_json()), encoding="utf-8")

    done = said_by(sys.executable, "-c", LAB_UNDER_A_FILTER, "exec", file, tmp_path / "by-stop")

    assert done.returncode == 0, done.stderr
    assert undisturbed(kernel).unlike(Done(tmp_path / "by-stop")) == []
