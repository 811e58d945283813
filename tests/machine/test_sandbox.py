"""The sandbox: boots, keeps to its folder, ends with whoever started it and leaves nothing
behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gostlab import machine
from gostlab.machine import MachineError, sandbox
from gostlab.machine.memory import memory_place
from tests.offspring import adopt_orphans, all_gone, mounts_in, sandboxes
from tests.sandboxed import STARTING, Lab, kill_a_guests_parent

pytestmark = pytest.mark.sandbox


@pytest.fixture(autouse=True)
def orphans() -> None:
    """What a killed parent leaves would be ours, whatever else runs on the machine."""
    adopt_orphans()


def test_it_boots_runs_and_powers_off(lab: Lab) -> None:
    done = lab.command("echo hello from $(hostname)")

    assert "hello from gostlab" in done.log
    assert (done.folder / "exit").read_text() == "0\n"


def test_it_says_the_commands_exit_status(lab: Lab) -> None:
    assert (lab.command("exit 7").folder / "exit").read_text() == "7\n"


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


def test_the_kernel_ticks_at_250_hz_as_debians(lab: Lab) -> None:
    assert "CONFIG_HZ=250" in lab.command("zcat /proc/config.gz | grep CONFIG_HZ=").log


def test_the_hosts_files_are_read_only_but_for_the_runs_folder(lab: Lab) -> None:
    done = lab.command(
        "touch /etc/gostlab-was-here; touch /home/x /root/x /usr/x; echo kept > /run/gostlab/kept"
    )

    assert not Path("/etc/gostlab-was-here").exists()
    assert done.log.count("Read-only file system") >= 3
    assert (done.folder / "kept").read_text() == "kept\n"


def test_the_hosts_network_is_not_there(lab: Lab) -> None:
    done = lab.command("ls /sys/class/net; ip route")

    assert "eth" not in done.log and "default" not in done.log


def test_it_ends_with_a_killed_parent(lab: Lab) -> None:
    folder = kill_a_guests_parent(lab, lab.kernel, "exec sleep 1000", after_s=0.5)

    assert not all_gone()
    assert not mounts_in(folder)


def test_a_guest_killed_while_it_starts_processes_leaves_none(lab: Lab) -> None:
    """A process asks to be ended with its kernel only once it runs: one in forty such kills left
    one behind.
    """
    for number in range(12):
        kill_a_guests_parent(lab, lab.kernel, STARTING, after_s=0.2 + 0.01 * number)
        assert not all_gone(), number


def limited(lab: Lab, command: str, clock: str = "virtual") -> sandbox.Guest:
    """A guest that runs a command and is ended after two seconds."""
    return sandbox.boot(
        lab.kernel,
        lab.folder(),
        ["/bin/sh", "-c", command],
        sandbox.sandbox_environ(),
        keep=[],
        cpu=lab.cpu,
        memory_mib=256,
        clock=clock,
        syscall_cost_us=0,
        seed=1,
        limit_s=2.0,
    )


def test_a_wall_clock_limit_ends_it_and_says_so(lab: Lab) -> None:
    guest = limited(lab, "exec sleep 1000", clock="real")

    guest.wait()

    assert "2 s by the wall clock" in (guest.complaint or "")
    assert not all_gone()


def test_on_the_virtual_clock_the_limit_is_of_work(lab: Lab) -> None:
    guest = limited(lab, "while :; do :; done")

    guest.wait()

    assert "s of CPU time, its limit" in (guest.complaint or "")
    assert not all_gone()


def test_a_guest_that_gets_little_of_a_busy_machine_goes_on(lab: Lab) -> None:
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
    guest._worked_s = machine.group_cpu_s(guest._process.pid)

    guest.wait()

    assert "did nothing for 2 s" in (guest.complaint or "")
    assert not all_gone()


def test_a_folder_the_kernels_command_line_cannot_carry_is_refused(
    lab: Lab, tmp_path: Path
) -> None:
    folder = tmp_path / "a,b"
    folder.mkdir()

    with pytest.raises(MachineError, match="comma"):
        sandbox.boot_words(folder, memory_mib=64, clock="real", syscall_cost_us=0, seed=1)


def test_a_folder_with_a_space_works(lab: Lab) -> None:
    folder = lab.scratch / "with a space"
    folder.mkdir()
    guest = sandbox.boot(
        lab.kernel,
        folder,
        ["/bin/sh", "-c", "echo hi > /run/gostlab/hi"],
        sandbox.sandbox_environ(),
        keep=[],
        cpu=lab.cpu,
        memory_mib=256,
        clock="virtual",
        syscall_cost_us=0,
        seed=1,
        limit_s=60,
    )
    guest.wait()

    assert (folder / "hi").exists()


def test_a_folder_in_the_hosts_memory_works(lab: Lab) -> None:
    """/dev/shm is covered inside, and where the guest's own memory would go without a place of its
    own.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="gostlab-test-") as place:
        guest = sandbox.boot(
            lab.kernel,
            Path(place),
            ["/bin/sh", "-c", "echo hi > /run/gostlab/hi"],
            sandbox.sandbox_environ(),
            keep=[],
            cpu=lab.cpu,
            memory_mib=256,
            clock="virtual",
            syscall_cost_us=0,
            seed=1,
            limit_s=60,
        )
        guest.wait()

        assert (Path(place) / "hi").read_text() == "hi\n"


def test_more_memory_than_there_is_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="MiB of memory available"):
        memory_place(2**30, tmp_path, own_mounts=True)
    with pytest.raises(MachineError, match=r"nowhere to keep .* /dev/shm has \d+ of \d+ MiB free"):
        memory_place(2**30, tmp_path, own_mounts=False)


def test_it_has_the_callers_terminal(lab: Lab) -> None:
    folder = lab.folder()
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\nfrom pathlib import Path\nfrom"
        " gostlab.machine import sandbox\nsandbox.boot(Path(sys.argv[2]), Path(sys.argv[3]),"
        " ['/bin/sh', '-c', 'tty; read word; echo heard $word'], sandbox.sandbox_environ(),"
        f" keep=[], cpu={lab.cpu}, memory_mib=256, clock='real', syscall_cost_us=0, seed=1,"
        " limit_s=30, terminal=True).wait()\n"
    )
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(machine.CHECKOUT), str(lab.kernel), str(folder)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    with suppress(OSError):  # its end closes the terminal
        while chunk := os.read(ours, 1000):
            said += chunk
            if b"/dev/tty0" in said and b"heard" not in said:
                os.write(ours, b"you\n" if b"you" not in said else b"")
    process.wait()
    os.close(ours)

    assert b"/dev/tty0" in said and b"heard you" in said, said


def test_sigint_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    results = tmp_path / "results"
    process = subprocess.Popen(
        [
            "env",
            "--default-signal=INT",
            sys.executable,
            "-m",
            "gostlab",
            "run",
            "thesis-tunnel",
            "--quick",
            "--results",
            str(results),
            "--machine",
            "sandbox",
        ],
        cwd=machine.CHECKOUT,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not sandboxes():
        time.sleep(0.05)
    time.sleep(0.5)

    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "interrupted" in words and "Traceback" not in words
    assert not all_gone()
