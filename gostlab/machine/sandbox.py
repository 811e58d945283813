"""The sandbox: a User-Mode Linux kernel as one unprivileged process, pinned to one CPU.

The host's files are its read-only root, the run's folder is the one writable place, its memory is an
unlinked file. It ends with its parent (PR_SET_PDEATHSIG), and its own children end with it.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gostlab.experiment import RunDescription
from gostlab.machine import CHECKOUT, MachineError, Watched, run_argv, wall_limit_s

INIT = Path(__file__).with_name("init.py")
GUEST_FOLDER = "/run/gostlab"
# The guest's wall clock starts here on the virtual clock: a date that means nothing, the same for every run.
VIRTUAL_EPOCH_NS = 1_700_000_000_000_000_000
# Characters that the kernel's command line or hostfs's mount option would take for their own.
UNSAFE = set("\"\\,\n\t")


def boot_words(folder: Path, *, memory_mib: int, clock: str, syscall_cost_us: float, seed: int) -> list[str]:
    """The kernel's command line. Raises MachineError for a folder whose name it cannot carry."""
    if set(str(folder)) & UNSAFE:
        raise MachineError(f"{folder}: the sandbox cannot mount a folder with a comma, quote, backslash or control "
                           "character in its name: choose another --results")
    words = [f"mem={memory_mib}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={INIT}",
             "con=null", "con0=fd:0,fd:1", "quiet", "seccomp=on", f"uml_dir={folder}/.uml/",
             f'GOSTLAB_BOOT="{folder}"']
    if clock == "virtual":
        words += ["time-travel=inf-cpu", f"time-travel-start={VIRTUAL_EPOCH_NS}",
                  f"tt_syscall_ns={round(syscall_cost_us * 1000)}", f"uml_seed={seed}"]
    return words


def boot(kernel: Path, folder: Path, argv: Sequence[str], environ: Mapping[str, str], *, keep: Sequence[Path],
         cpu: int, memory_mib: int, clock: str, syscall_cost_us: float, seed: int, limit_s: float,
         terminal: bool = False) -> Watched:
    """Boot a guest that runs one command and powers off.

    folder    the host's folder that the guest may write, /run/gostlab inside; boot.json and log.txt go there
    keep      host folders that must stay visible inside although the guest has its own /tmp and /run
    terminal  the guest's console is the caller's terminal, instead of log.txt
    Raises MachineError or OSError.
    """
    folder = folder.resolve()
    words = boot_words(folder, memory_mib=memory_mib, clock=clock, syscall_cost_us=syscall_cost_us, seed=seed)
    check_memory(memory_mib)
    orders = {"argv": list(argv), "environ": dict(environ), "keep": sorted({str(path.resolve()) for path in keep}),
              "terminal": terminal}
    (folder / "boot.json").write_text(json.dumps(orders), encoding="utf-8")
    (folder / ".uml").mkdir(exist_ok=True)
    # setpriv: the guest ends with us, whatever ends us. One CPU: unpinned, every guest system call wakes another core.
    command = ["setpriv", "--pdeathsig", "KILL", "taskset", "-c", str(cpu), str(kernel), *words]
    quiet_environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)}
    if terminal:
        process = subprocess.Popen(command, env=quiet_environ)
    else:
        with (folder / "log.txt").open("ab") as log:
            process = subprocess.Popen(command, env=quiet_environ, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True)
    return Watched(process, limit_s)


def check_memory(memory_mib: int) -> None:
    """The guest's memory is a file in /dev/shm: refuse what does not fit, or the guest would die of SIGBUS."""
    free_mib = shutil.disk_usage("/dev/shm").free // 2**20 if Path("/dev/shm").is_dir() else 0
    if free_mib < memory_mib:
        raise MachineError(f"/dev/shm has {free_mib} MiB free, the sandbox needs {memory_mib} MiB: enlarge it "
                           f"(mount -o remount,size={2 * memory_mib}M /dev/shm) or run fewer --jobs")


def sandbox_environ(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """The environment of a command in the guest."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", "TMPDIR": "/tmp",
            "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **extra}


def start_run(kernel: Path, run: RunDescription, folder: Path, parts: Mapping[str, Any], keep: Sequence[Path],
              cpu: int, commit: str | None) -> Watched:
    """Boot a guest that executes a run. Raises MachineError or OSError."""
    (folder / "parts.json").write_text(json.dumps(parts), encoding="utf-8")
    environ = sandbox_environ({"GOSTLAB_COMMIT": json.dumps(commit), "GOSTLAB_HOST": json.dumps(host_facts())})
    return boot(kernel, folder, run_argv(GUEST_FOLDER), environ, keep=[CHECKOUT, *keep], cpu=cpu,
                memory_mib=run.memory_mib, clock=run.clock, syscall_cost_us=run.syscall_cost_us, seed=run.seed,
                limit_s=wall_limit_s(run))


def host_facts() -> dict[str, Any]:
    """The host as far as a real-clock result depends on it."""
    model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "unknown")
    return {"kernel": os.uname().release, "cpu": model, "cpus": os.cpu_count()}

