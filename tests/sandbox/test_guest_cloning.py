# SPDX-License-Identifier: MIT
"""Sandboxes that are copies of one that has booted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab import results, sandbox
from gostlab.install import landlock
from gostlab.sandbox import guest_cloning, held_syscall, standby, uml
from gostlab.sandbox.host_limits import AvailableMemory
from gostlab.sandbox.standby import StandbyPool
from tests.lab_command import ROOT
from tests.offspring import all_gone, sandboxes
from tests.sandbox.test_standby import PATIENCE_S, boot_of, contents, direct, executed, wait_until
from tests.sandboxed import Lab
from tests.skips import require_root_tree


@pytest.fixture(autouse=True)
def root_and_hold() -> None:
    require_root_tree()
    if not held_syscall.is_available():
        pytest.skip("no seccomp listener here")


@pytest.fixture
def pool(lab: Lab, tmp_path: Path) -> Iterator[StandbyPool]:
    """A pool with a template for runs like `direct`, and nothing else."""
    made = StandbyPool(tmp_path / "results", sandbox.usable_cpus())
    made.prepare(boot_of(lab, direct()))
    wait_until(lambda: made.ready)
    yield made
    made.close()
    assert all_gone(PATIENCE_S) == []
    assert not (tmp_path / "results" / standby.FOLDER).exists()


def started(lab: Lab, tmp_path: Path, pool: StandbyPool, seed: int = 1) -> tuple[uml.Guest, Path]:
    """Start a run in a copy; return its guest and folder."""
    run = direct(seed)
    folder = results.create_run_folder(tmp_path / "results", run)
    boot = boot_of(lab, run)
    boot.write_parts(folder, None)
    return pool.start(boot, folder, sandbox.usable_cpus()[0]), folder


@pytest.mark.sandbox
def test_twenty_copies_of_one_template_have_the_same_files_as_a_cold_run(
    lab: Lab, tmp_path: Path, pool: StandbyPool
) -> None:
    [booted], cold = sandboxes(), contents(executed(lab, direct(), tmp_path / "cold"))
    for number in range(20):
        warm = executed(lab, direct(), tmp_path / "results" / f"{number}", pool)
        assert contents(warm) == cold
    assert pool.taken == 20 and booted in sandboxes()


@pytest.mark.sandbox
def test_copies_side_by_side_have_the_same_files_as_a_cold_run(
    lab: Lab, tmp_path: Path, pool: StandbyPool
) -> None:
    cold = contents(executed(lab, direct(), tmp_path / "cold"))
    runs = [started(lab, tmp_path / f"{number}", pool) for number in range(4)]
    for guest, folder in runs:
        assert guest.wait() == 0
        assert contents(folder) == cold


@pytest.mark.sandbox
def test_short_runs_that_follow_one_another_boot_no_guest_each(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each run took the template that still boots, none was ever copied."""
    booted: list[Path] = []
    boot = uml.RunBoot.boot

    def count(self: uml.RunBoot, folder: Path, *more: object, **options: object) -> uml.Guest:
        booted.append(folder)
        return boot(self, folder, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(uml.RunBoot, "boot", count)
    made = StandbyPool(tmp_path / "results", sandbox.usable_cpus(), ahead=False)
    for seed in range(1, 9):
        guest, folder = started(lab, tmp_path, made, seed)
        assert guest.wait() == 0, (folder / "log.txt").read_text("utf-8")
    made.close()
    assert len(booted) == 3 and made.taken == 6  # two runs and the template
    assert all_gone(PATIENCE_S) == []


INTRUDER = """
import ctypes, os, sys

with open("/sys/module/kernel/parameters/tt_hold", "w") as file:
    file.write(sys.argv[1])
with open("/run/gostlab/other") as file:
    other = file.read()
os.mkdir("/run/other")
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"none", b"/run/other", b"hostfs", 0, other.encode()):
    raise OSError(ctypes.get_errno(), "mount")
answers = []
for folder in ("/run/gostlab", "/run/other"):
    try:
        open(f"{folder}/new", "w").close()
        answers.append("written")
    except OSError as error:
        answers.append(type(error).__name__)
with open("/run/gostlab/answers", "w") as file:
    print(*answers, file=file)
"""


@pytest.mark.sandbox
@pytest.mark.skipif(landlock.landlock_abi() < 1, reason="no Landlock here")
def test_a_copy_may_not_write_to_the_folder_of_another(lab: Lab, tmp_path: Path) -> None:
    boot = replace(boot_of(lab, direct()), argv=("/usr/bin/python3", "-c", INTRUDER))
    cpu, channel = sandbox.usable_cpus()[0], held_syscall.ListenerChannel()
    (tmp_path / "template").mkdir()
    booted = guest_cloning.boot_template(boot, tmp_path / "template", cpu, channel)
    wait_until(lambda: booted.is_ready)
    copies = [booted.copy(cpu) for _ in range(2)]
    for copy, other in zip(copies, reversed(copies), strict=True):
        (copy.folder / "other").write_text(f"{other.folder}", encoding="utf-8")
        copy.resume(copy.folder, PATIENCE_S)
        assert copy.wait() == 0
        assert (copy.folder / "answers").read_text("utf-8") == "written PermissionError\n"
    booted.guest.kill()
    assert all_gone(PATIENCE_S) == []


@pytest.mark.sandbox
def test_a_killed_copy_is_the_end_of_its_run_alone(
    lab: Lab, tmp_path: Path, pool: StandbyPool
) -> None:
    [booted] = sandboxes()
    guest, _ = started(lab, tmp_path / "1", pool)
    os.killpg(guest.group, signal.SIGKILL)
    guest.wait()
    assert guest.complaint and "killed from outside" in guest.complaint

    pool.refill()
    pool.settle()
    for copy in [each for each in sandboxes() if each != booted]:  # they wait
        copy.kill()
    executed(lab, direct(), tmp_path / "results", pool)
    assert booted in sandboxes() and pool.taken >= 1


@pytest.mark.sandbox
def test_a_killed_template_leaves_the_runs_of_its_copies_alone(
    lab: Lab, tmp_path: Path, pool: StandbyPool
) -> None:
    [booted] = sandboxes()
    guest, folder = started(lab, tmp_path / "1", pool)
    booted.kill()
    assert guest.wait() == 0, (folder / "log.txt").read_text("utf-8")
    executed(lab, direct(), tmp_path / "results", pool)


@pytest.mark.sandbox
def test_a_failure_to_copy_boots(
    lab: Lab, tmp_path: Path, pool: StandbyPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        guest_cloning, "available_memory", lambda: AvailableMemory(8, "this machine")
    )
    executed(lab, direct(), tmp_path / "results", pool)
    assert pool.taken == 0


@pytest.mark.sandbox
def test_a_copy_that_cannot_begin_is_reaped_and_the_run_boots(
    lab: Lab, tmp_path: Path, pool: StandbyPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out = guest_cloning.Template._lay_out

    def without_folder(self: guest_cloning.Template, folder: Path) -> None:
        lay_out(self, folder)
        folder.rename(folder.with_name("elsewhere"))

    monkeypatch.setattr(guest_cloning.Template, "_lay_out", without_folder)
    executed(lab, direct(), tmp_path / "results", pool)
    assert pool.taken == 0


@pytest.mark.sandbox
def test_a_template_that_is_used_up_makes_room_for_another(
    lab: Lab, tmp_path: Path, pool: StandbyPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_cloning, "MAX_COPIES", 2)
    for seed in range(1, 8):
        executed(lab, direct(seed), tmp_path / "results", pool)
        wait_until(lambda: pool.ready == pool.waiting)
    assert pool.taken >= 5


@pytest.mark.sandbox
def test_more_than_can_live_at_a_time_boot(
    lab: Lab, tmp_path: Path, pool: StandbyPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_cloning, "MAX_LIVING_COPIES", 1)
    runs = [started(lab, tmp_path / f"{number}", pool)[0] for number in range(3)]
    assert [guest.wait() for guest in runs] == [0, 0, 0]


MATRIX = """
import sys
import gostlab

experiment = gostlab.Experiment.of(
    cc="cubic", rate="5mbit", duration="1s", repeat=1000, machine="sandbox"
)
with experiment.run(sys.argv[1]) as running:
    for result in running:
        print(result.outcome, flush=True)
"""


@pytest.mark.sandbox
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_matrix_after_the_end_of_its_process(
    number: signal.Signals, tmp_path: Path
) -> None:
    argv = ["env", "--default-signal=INT", sys.executable, "-c", MATRIX, tmp_path / "results"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(8)] == ["ok\n"] * 8
        process.send_signal(number)
        process.wait()
    assert all_gone(PATIENCE_S) == []
