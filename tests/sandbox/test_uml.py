# SPDX-License-Identifier: MIT
"""The sandbox: boots, keeps to its folder, ends with whoever started it and leaves nothing
behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from gostlab import results, sandbox
from gostlab.registry.kernels import SHIPPED, declared_kernels
from gostlab.sandbox import MachineError, uml
from gostlab.sandbox.memory_file import choose_memory_folder
from tests.lab_command import said_by
from tests.offspring import adopt_orphans, all_gone, mounts_in
from tests.sandboxed import STARTING, Done, Lab, booting, kill_a_guests_parent
from tests.terminal import terminal

pytestmark = pytest.mark.sandbox


@pytest.fixture(autouse=True)
def orphans() -> None:
    """What a killed parent leaves would be ours, whatever else runs on the machine."""
    adopt_orphans()


def test_it_boots_ticks_at_debians_250_hz_and_says_the_commands_exit_status(lab: Lab) -> None:
    done = lab.command(
        "echo hello from $(hostname); zcat /proc/config.gz | grep CONFIG_HZ=; exit 7"
    )

    assert "hello from gostlab" in done.log and "CONFIG_HZ=250" in done.log
    assert (done.folder / "exit").read_text() == "7\n"


def test_it_boots_from_a_checkout_whose_path_has_a_space(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init = tmp_path / "my lab" / "init.py"
    init.parent.mkdir()
    shutil.copyfile(uml.INIT, init)
    monkeypatch.setattr(uml, "INIT", init)

    assert "hello" in lab.command("echo hello", keep=[init.parent]).log


ENDS = "import sys\n{}\n"


@pytest.mark.parametrize(
    ("end", "status", "says"),
    [
        ("print(sys.argv[1:], __name__)", 0, "['one', 'two'] __main__"),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no such path')", 1, "no such path"),
        ("sys.exit(None)", 0, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import no_such_module_at_all", 1, "No module named 'no_such_module_at_all'"),
    ],
)
def test_a_module_ends_as_python_has_it_end(lab: Lab, end: str, status: int, says: str) -> None:
    folder = lab.folder()
    (folder / "ends.py").write_text(ENDS.format(end), encoding="utf-8")
    words = ["/usr/bin/python3", "-m", "ends", "one", "two"]
    lab.boot(words, folder, environ={"PYTHONPATH": "/run/gostlab"}).wait()
    assert (folder / "exit").read_text() == f"{status}\n"
    assert says in Done(folder).log


def test_the_virtual_clock_waits_for_nobody(lab: Lab) -> None:
    began = time.monotonic()
    done = lab.command("sleep 36000; cat /proc/uptime")

    guest_s = float(done.log.split()[0])
    assert guest_s >= 36000
    # Ten hours pass in far less than ten minutes, however busy the host is.
    assert time.monotonic() - began < guest_s / 60


def test_a_system_call_costs_what_was_asked(lab: Lab) -> None:
    script = """python3 -c "
import os, time
begin = time.monotonic_ns()
for _ in range(10000): os.getppid()
print('each', (time.monotonic_ns() - begin) / 10000)
" """
    done = lab.command(script, syscall_cost_us=20.0)

    assert float(done.log.split("each")[1].split()[0]) == pytest.approx(20_000, rel=0.01)


def test_it_ends_with_a_killed_parent(lab: Lab) -> None:
    folder = kill_a_guests_parent(lab, lab.kernel, "exec sleep 1000", after_s=0.5)

    assert not all_gone()
    assert not mounts_in(folder)


# A kernel, and how often its guest's parent is killed.
KILLS = [(SHIPPED, 12), *((name, 5) for name in declared_kernels() if name != "7.3")]


@pytest.mark.parametrize(("kernel", "kills"), KILLS)
def test_a_guest_killed_while_it_starts_processes_leaves_none(
    lab: Lab, kernel: str, kills: int
) -> None:
    """A process asks to be ended with its kernel only once it runs: one in forty such kills left
    one behind, and 25 in forty did on Linux 5.10, as a program of the host's.
    """
    for number in range(kills):
        at_s = 0.01 + 0.005 * number
        kill_a_guests_parent(lab, lab.kernel_named(kernel), STARTING, after_s=at_s)
        assert not all_gone(), number


def limited(lab: Lab, command: str, clock: str = "virtual", limit_s: float = 2.0) -> uml.Guest:
    """A guest that runs a command and is ended after so long."""
    return lab.boot(["/bin/sh", "-c", command], clock=clock, limit_s=limit_s)


def test_a_host_that_has_no_process_left_is_to_blame_and_not_the_run(
    lab: Lab, tmp_path: Path
) -> None:
    """The guest's programs are processes of the host; its kernel prints what the host refused."""
    guest = limited(lab, "echo 'start_userspace : clone failed, errno = 11'")
    guest.wait()
    assert guest.complaint == uml.NO_PROCESS_LEFT and guest.from_outside

    ended = {"outcome": "failed", "error": "Mininet cannot build topology tunnel"}
    results.write_json(tmp_path / "outcome.json", ended)
    status = results.finish_run_folder(
        tmp_path, 1.0, guest.complaint, from_outside=guest.from_outside
    )
    assert (status["error"], status["cause"]) == (guest.complaint, results.FROM_OUTSIDE)


@pytest.mark.parametrize(
    ("command", "clock", "limit_s", "says"),
    [
        ("exec sleep 1000", "real", 1.0, "1 s by the wall clock"),
        ("while :; do :; done", "virtual", 2.0, "s of CPU time, its limit"),  # of work alone
    ],
)
def test_its_clocks_limit_ends_it_and_says_so(
    lab: Lab, command: str, clock: str, limit_s: float, says: str
) -> None:
    guest = limited(lab, command, clock, limit_s)

    guest.wait()

    assert says in (guest.complaint or "")
    assert not all_gone()


def test_a_guest_that_gets_little_of_a_busy_machine_goes_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "STANDSTILL_CPU_S", 0.005)  # others may have the machine as well
    guest = limited(lab, "sleep 36000; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    for _ in range(12):  # a quarter of the time, well beyond its limit by the wall clock
        for order, pause_s in ((signal.SIGSTOP, 0.24), (signal.SIGCONT, 0.08)):
            if guest.poll() is None:
                os.killpg(guest._process.pid, order)
                time.sleep(pause_s)
    guest.wait()

    assert guest.complaint is None
    assert (guest._folder / "exit").read_text() == "0\n"


def test_a_guest_that_does_nothing_is_ended(lab: Lab) -> None:
    guest = limited(lab, "while :; do :; done")
    time.sleep(0.3)
    os.killpg(guest._process.pid, signal.SIGSTOP)
    guest._worked_s = sandbox.group_cpu_s(guest._process.pid)

    guest.wait()

    assert "did nothing for 2 s" in (guest.complaint or "")
    assert not all_gone()


def test_too_few_open_files_are_refused_and_a_soft_limit_is_raised() -> None:
    code = (
        "import resource; from gostlab.sandbox import uml;"
        " resource.setrlimit(resource.RLIMIT_NOFILE, ({}, {})); uml.allow_open_files();"
        " print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    raised = said_by(sys.executable, "-c", code.format(40, 400))
    assert raised.stdout.strip() == str(uml.MIN_OPEN_FILES)
    refused = said_by(sys.executable, "-c", code.format(40, 40))
    assert "this process may have 40 files open" in refused.stderr and "ulimit -n" in refused.stderr


@pytest.mark.parametrize("above", ["with a space", 'a,b"c\\d\ne', "/dev/shm"])
def test_a_folder_of_any_name_and_one_in_the_hosts_memory_work(lab: Lab, above: str) -> None:
    """/dev/shm is covered inside, and where the guest's own memory would go without a place of its
    own.
    """
    (lab.scratch / above).mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=lab.scratch / above, prefix="gostlab-test-") as place:
        lab.boot(["/bin/sh", "-c", "echo hi > /run/gostlab/hi"], Path(place)).wait()

        assert (Path(place) / "hi").read_text() == "hi\n"


def test_a_cpu_without_xsave_is_named_and_no_filter_blamed(tmp_path: Path) -> None:
    """As QEMU's Westmere has it say."""
    (tmp_path / "log.txt").write_text(
        "Checking that seccomp filters can be installed...failed to fetch registers: -22\n"
        "SECCOMP userspace requested but not functional!\n"
    )
    cause = uml.explain_boot_failure(
        1, tmp_path, choose_memory_folder(64, tmp_path, own_mounts=False)
    )
    assert cause and "XSAVE" in cause and "seccomp" not in cause


def test_more_memory_than_there_is_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="MiB of memory available"):
        choose_memory_folder(2**30, tmp_path, own_mounts=True)
    with pytest.raises(MachineError, match=r"nowhere to keep .* /dev/shm has \d+ of \d+ MiB free"):
        choose_memory_folder(2**30, tmp_path, own_mounts=False)


def test_it_has_the_callers_terminal(lab: Lab) -> None:
    script = "tty; read word; echo heard $word"
    words = booting(lab, lab.kernel, lab.folder(), script, limit_s=30, terminal=True)
    with terminal(*words) as (_, shown):
        assert "/dev/tty0" in shown.read_until("/dev/tty0")
        shown.type("you")
        assert "heard you" in shown.read_until()
