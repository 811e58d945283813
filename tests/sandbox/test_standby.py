# SPDX-License-Identifier: MIT
"""Sandboxes that boot ahead and wait for their run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab import results, sandbox
from gostlab.registry.kernels import SHIPPED
from gostlab.sandbox import held_syscall, standby, uml
from gostlab.sandbox.host_limits import AvailableMemory
from gostlab.sandbox.rootfs import BUNDLE_FOLDER
from gostlab.sandbox.standby import StandbyPool
from gostlab.spec.run_spec import RunSpec
from tests.asked import runs_of
from tests.lab_command import ROOT
from tests.offspring import all_gone, sandboxes
from tests.sandboxed import Lab
from tests.skips import require_root_tree

EXPERIMENT = """
name: test
title: test
seed: 3
settings:
  {profile: plain-100ms, rate: 20mbit, rtt: 40ms, duration: 1s, sample: 100ms, cc: cubic}
matrices:
  - {name: direct}
  - {name: loss, settings: {cc: bbr, loss: 1%, jitter: 2ms}}
  - {name: relay, settings: {tunnel: gost+ws, gost: relay}}
  - name: dumbbell
    settings: {topology: dumbbell, flows: {bbr: {cc: bbr}, cubic: {cc: cubic, start: 300ms}}}
  - {name: module, settings: {cc: bbr3}}
  - {name: costs, settings: {host_cpus: 2, byte_cost: 0.1ns, clock_reads: free, queue: fq_codel}}
"""
PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def root_and_hold() -> None:
    require_root_tree()
    if not held_syscall.is_available():
        pytest.skip("no seccomp listener here")


Pools = Callable[..., StandbyPool]


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[Pools]:
    """Make pools for runs in the folder `results`, which are closed in the end."""
    made: list[StandbyPool] = []

    def pool(**options: float) -> StandbyPool:
        made.append(StandbyPool(tmp_path / "results", sandbox.usable_cpus(), **options))
        return made[-1]

    yield pool
    for each in made:
        each.close()
    assert not (tmp_path / "results" / standby.FOLDER).exists()


def boot_of(lab: Lab, run: RunSpec) -> uml.RunBoot:
    return uml.run_boot(lab.kernel_named(run.kernel), run, lab.handed, lab.keep)


def executed(lab: Lab, run: RunSpec, within: Path, pool: StandbyPool | None = None) -> Path:
    """Execute a run, by a pool if there is one; return its folder."""
    folder = results.create_run_folder(within, run)
    boot, cpu = boot_of(lab, run), sandbox.usable_cpus()[0]
    boot.write_parts(folder, None)
    guest = pool.start(boot, folder, cpu) if pool else boot.boot(folder, cpu)
    assert guest.wait() == 0, (folder / "log.txt").read_text("utf-8")
    if pool:
        pool.refill()
        pool.settle()
    return folder


def contents(folder: Path) -> dict[str, object]:
    """Return the files that a run has left, but for how long it took.

    `guest_s` counts from before the clock is reset. There the host has a say on kernels by ptrace.
    """
    files: dict[str, object] = {
        file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()
    }
    outcome = json.loads((folder / "outcome.json").read_text("utf-8"))
    return files | {"outcome.json": {**outcome, "guest_s": None}}


def direct(seed: int = 1) -> RunSpec:
    return replace(runs_of(EXPERIMENT)[0], seed=seed)


def keys_of(pool: StandbyPool) -> list[Hashable]:
    """Return the keys of the guests that wait, and of the templates."""
    return [each.key for each in (*pool._living(), *(one.standby for one in pool._templates))]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- the same samples


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("matrix", "kernel"),
    [
        *((matrix, SHIPPED) for matrix in "direct loss relay dumbbell module costs".split()),
        *((matrix, kernel) for matrix in ("loss", "relay") for kernel in ("6.12", "6.1", "5.10")),
    ],
)
def test_a_run_has_the_same_files_whether_its_guest_has_waited(
    matrix: str, kernel: str, lab: Lab, tmp_path: Path, pools: Pools
) -> None:
    [run] = [run for run in runs_of(EXPERIMENT) if run.matrix == matrix]
    run = replace(run, kernel=kernel)
    pool, another = pools(), replace(run, seed=99)
    cold = executed(lab, run, tmp_path / "cold")

    pool.prepare(boot_of(lab, another))
    wait_until(lambda: pool.ready)
    time.sleep(0.3)
    warm = executed(lab, run, tmp_path / "results", pool)

    assert pool.taken == 1
    files, expected = contents(warm), contents(cold)
    assert files.keys() == expected.keys()
    assert [name for name in files if files[name] != expected[name]] == []


@pytest.mark.sandbox
@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05])
def test_a_guest_may_be_taken_over_while_it_still_boots(
    after_s: float, lab: Lab, tmp_path: Path, pools: Pools
) -> None:
    pool = pools()
    pool.prepare(boot_of(lab, direct()))
    time.sleep(after_s)
    folder = executed(lab, direct(), tmp_path / "results", pool)
    assert pool.taken == 1
    assert json.loads((folder / "outcome.json").read_text("utf-8"))["outcome"] == "ok"


# -- what prevents its use


@pytest.fixture
def ready(lab: Lab, pools: Pools) -> StandbyPool:
    """A pool with one standby guest, for runs like `direct`."""
    pool = pools()
    pool.prepare(boot_of(lab, direct()))
    assert pool.waiting == 1
    return pool


@pytest.mark.sandbox
def test_a_guest_that_has_died_is_replaced_by_one_that_boots(
    lab: Lab, tmp_path: Path, ready: StandbyPool
) -> None:
    [standby_guest] = sandboxes()
    standby_guest.kill()
    wait_until(lambda: not sandboxes())

    executed(lab, direct(), tmp_path / "results", ready)

    assert (ready.taken, ready.waiting) == (0, 0)


@pytest.mark.sandbox
def test_changed_code_of_the_lab_is_not_run_by_a_guest_that_has_read_the_old_one(
    lab: Lab, tmp_path: Path, pools: Pools
) -> None:
    boot, pool = boot_of(lab, direct()), pools()
    assert boot.root is not None
    bundle = tmp_path / "other-sources"
    shutil.copytree(boot.root.shared[BUNDLE_FOLDER], bundle, symlinks=True)
    changed = replace(boot, root=replace(boot.root, shared={BUNDLE_FOLDER: bundle}))

    pool.prepare(boot)
    pool.prepare(changed)

    assert boot.key != changed.key
    assert keys_of(pool) == [boot.key, changed.key]


@pytest.mark.sandbox
def test_a_run_that_needs_another_guest_boots_it(
    lab: Lab, tmp_path: Path, ready: StandbyPool
) -> None:
    larger = replace(direct(), memory_mib=direct().memory_mib + 64)
    executed(lab, larger, tmp_path / "results", ready)
    assert ready.taken == 0


@pytest.mark.sandbox
def test_guests_of_a_kind_that_is_not_used_any_more_make_room(
    lab: Lab, tmp_path: Path, pools: Pools
) -> None:
    pool = pools()
    pool.prepare(boot_of(lab, replace(direct(), memory_mib=direct().memory_mib + 64)))
    for seed in range(1, 4):
        executed(lab, direct(seed), tmp_path / "results", pool)
    assert set(keys_of(pool)) == {boot_of(lab, direct()).key}
    assert pool.waiting == len(sandboxes()) <= len(sandbox.usable_cpus()) + 1


@pytest.mark.sandbox
def test_a_folder_on_another_file_system_is_left_as_it_was(
    lab: Lab, tmp_path: Path, ready: StandbyPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = Path.rename

    def across(self: Path, target: Path) -> Path:
        if self.name == "run":
            raise OSError(18, "Invalid cross-device link")
        return renamed(self, target)

    monkeypatch.setattr(Path, "rename", across)
    folder = executed(lab, direct(), tmp_path / "results", ready)
    assert ready.taken == 0 and (folder / "outcome.json").exists()


@pytest.mark.sandbox
def test_a_host_that_holds_no_calls_boots_each_guest(
    lab: Lab, tmp_path: Path, pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_syscall, "is_available", lambda: False)
    pool = pools()
    pool.prepare(boot_of(lab, direct()))
    executed(lab, direct(), tmp_path / "results", pool)
    assert (pool.taken, pool.waiting) == (0, 0)


def test_without_memory_to_spare_none_boots(
    lab: Lab, pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "available_memory", lambda: AvailableMemory(800, "this machine"))
    pool = pools()
    pool.prepare(boot_of(lab, direct()))
    assert pool.waiting == 0


@pytest.mark.sandbox
@pytest.mark.parametrize("kernel", [SHIPPED, "5.10"])
def test_there_is_one_for_each_cpu_at_most(
    lab: Lab, tmp_path: Path, pools: Pools, kernel: str
) -> None:
    pool = pools()
    for seed in range(1, 5):
        executed(lab, replace(direct(seed), kernel=kernel), tmp_path / "results", pool)
    wait_until(lambda: pool.ready == pool.waiting)
    pool.refill()
    pool.settle()
    cpus, copied = len(sandbox.usable_cpus()), kernel == SHIPPED
    assert pool.taken == 3 and pool.waiting == len(sandboxes()) == cpus + copied


# -- its end


@pytest.mark.sandbox
def test_it_ends_when_no_run_follows(lab: Lab, pools: Pools) -> None:
    pool = pools(idle_limit_s=0.5)
    pool.prepare(boot_of(lab, direct()))
    assert pool.waiting == 1
    wait_until(lambda: not sandboxes())
    assert pool.waiting == 0


LOOP = """
import sys
import gostlab

with gostlab.Lab(sys.argv[1], jobs=1) as lab:
    for seed in range(1, 1000):
        print(lab.run(cc="cubic", rate="5mbit", duration="1s", seed=seed).outcome, flush=True)
"""


@pytest.mark.sandbox
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_after_the_end_of_its_process(
    number: signal.Signals, tmp_path: Path, lab: Lab, pools: Pools
) -> None:
    # A shell that runs the tests in the background may have ignored SIGINT.
    argv = ["env", "--default-signal=INT", sys.executable, "-c", LOOP, tmp_path / "results"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ok\n"] * 2
        process.send_signal(number)
        process.wait()

    assert all_gone(PATIENCE_S) == []
    if number == signal.SIGKILL:  # its folders are removed by the next lab there
        left = {*(tmp_path / "results" / standby.FOLDER).iterdir()}
        assert left
        pools().prepare(boot_of(lab, direct()))
        assert not left & {*(tmp_path / "results" / standby.FOLDER).iterdir()}


@pytest.mark.sandbox
def test_a_closed_pool_leaves_its_runs_alone(lab: Lab, tmp_path: Path, ready: StandbyPool) -> None:
    """The thread that booted their guests lives on."""
    boot, folder = boot_of(lab, direct()), results.create_run_folder(tmp_path / "results", direct())
    boot.write_parts(folder, None)
    wait_until(lambda: ready.ready)
    guest = ready.start(boot, folder, sandbox.usable_cpus()[0])
    ready.close()
    assert ready.taken == 1 and guest.wait() == 0
    assert all_gone(PATIENCE_S) == []


@pytest.mark.sandbox
def test_a_pool_that_nobody_holds_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    pool = StandbyPool(tmp_path / "results", sandbox.usable_cpus())
    pool.prepare(boot_of(lab, direct()))
    assert sandboxes()
    del pool
    assert all_gone(PATIENCE_S) == []
    assert not (tmp_path / "results" / standby.FOLDER).exists()


@pytest.mark.sandbox
def test_a_forked_process_boots_its_own_and_ends_none_of_the_parents(
    lab: Lab, tmp_path: Path, ready: StandbyPool
) -> None:
    wait_until(lambda: ready.ready)
    [booted] = sandboxes()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ready.refill()
            executed_by_child = executed(lab, direct(), tmp_path / "other", ready)
            ready.close()
            status = 0 if (executed_by_child / "outcome.json").exists() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sandboxes() == [booted] and ready.waiting == 1
    executed(lab, direct(), tmp_path / "results", ready)
    assert ready.taken == 1


@pytest.mark.sandbox
def test_a_time_limit_ends_a_run_that_a_standby_guest_executes(
    lab: Lab, tmp_path: Path, ready: StandbyPool
) -> None:
    run = direct()
    folder = results.create_run_folder(tmp_path / "results", run)
    boot = replace(boot_of(lab, run), limit_s=0.0)
    boot.write_parts(folder, None)
    ready._cpus = ()  # no other guest boots

    guest = ready.start(boot, folder, sandbox.usable_cpus()[0])
    guest.wait()

    assert ready.taken == 1 and guest.complaint and "limit" in guest.complaint
    assert all_gone(PATIENCE_S) == []
