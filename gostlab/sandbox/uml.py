# SPDX-License-Identifier: MIT
"""Boot the sandbox: a User-Mode Linux kernel as one unprivileged process, pinned to one CPU.

The host's files are its read-only root, the run's folder is the only writable one, its memory is an
unlinked file. The sandbox ends with its parent (PR_SET_PDEATHSIG), and its child processes end with
it.

The read-only mount is enforced by the guest's own kernel only, and the guest's root may mount the
host's files again. So the process itself is confined by the host's kernel, without root, by the
available namespaces and Landlock (`Isolation`; SECURITY.md describes what each of them protects).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from gostlab import sandbox
from gostlab.errors import BadInput
from gostlab.install import landlock
from gostlab.install.kernel_modules import CompileError, KernelModule, module_for, provide_capture
from gostlab.install.landlock import UNUSED, gain_no_rights, libc, raise_on_failure
from gostlab.install.locate import MissingPart, kernel_record, read_built_record, seccomp_args
from gostlab.install.parts_json import KernelJson, PartsJson
from gostlab.registry.folders import FIRST_IN_ROOT, PYTHON_PATH
from gostlab.registry.kernels import SHIPPED, declared_kernels, kernel_named, shipped_declaration
from gostlab.sandbox import (
    CHECKOUT,
    QUICK_IMPORTS,
    RUN,
    CannotBoot,
    ChildProcess,
    MachineError,
    TimedProcess,
    guest_argv,
    held_syscall,
    plugin_environ,
    require_own_files,
    require_plugins,
    start_logged,
)
from gostlab.sandbox.guest_init import REBOOTED
from gostlab.sandbox.host_limits import available_memory
from gostlab.sandbox.kernel_log import explain_kernel_death, read_log
from gostlab.sandbox.memory_file import (
    FOLDER_VARIABLE,
    MEMORY_SLACK_MIB,
    MemoryPlace,
    choose_memory_folder,
    explain_unfit,
)
from gostlab.sandbox.readable_paths import paths_in_commands, readable_as_root
from gostlab.sandbox.rootfs import LINKS, OwnRoot, root_for_run
from gostlab.spec.cpu_model import CpuModel, MachineModel
from gostlab.spec.run_spec import RunSpec

INIT = Path(__file__).with_name("guest_init.py")
GUEST_FOLDER = "/run/gostlab"
COPY_PATCH = "um-template"
COPIES = ".copies"  # in a folder: the folders of the guest's copies (gostlab.sandbox.guest_cloning)
CAPTURE_MODULE = "capture.ko"  # in a run's folder, until the guest has loaded it
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
WEEK_S = 7 * 24 * 3600.0  # time limit of an interactive prompt
# Name of the run's folder for the guest's kernel. It is the same for every run, because Linux mixes
# its command line into its random numbers: two runs of one seed in different folders would differ.
WORKING_FOLDER = "/proc/self/cwd"
PYTHON = "/usr/bin/python3"  # path in a guest
# Python in a guest writes no byte code, and allocates its memory in one piece: system calls take
# time, and their number would depend on the length of its paths.
PYTHON_ENVIRON = {
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONMALLOC": "malloc",
    "MALLOC_TOP_PAD_": f"{64 << 20}",
    "MALLOC_MMAP_THRESHOLD_": f"{1 << 30}",
    "MALLOC_TRIM_THRESHOLD_": f"{1 << 30}",
    "MALLOC_ARENA_MAX": "1",
}
# Start of the guest's wall clock on the virtual clock: an arbitrary date, the same for every run.
VIRTUAL_EPOCH_NS = 1_700_000_000_000_000_000
# The guest's kernel opens every file that a program of the guest opens: a run of one flow has 65 to
# 100 open files, and with fewer its pings fail.
MIN_OPEN_FILES = 256
# Seed of a kernel that boots before its run's seed is set.
BOOT_SEED = 1
# Memory and time limit of a test guest, which shows whether guests boot here.
TRIAL_MIB, TRIAL_LIMIT_S = 128, 30.0
# Messages of a guest's kernel that cannot run here, and their causes.
KERNEL_MESSAGES = {
    "noexec": (
        "{memory}, where the sandbox's memory is, is mounted noexec: name another folder with"
        " GOSTLAB_TMP"
    ),
    "setup_physmem - mapping": (
        "the sandbox's memory could not be mapped from {memory}, for lack of memory or of address"
        " space: ulimit -v unlimited, or ask for less (--set memory=…)"
    ),
    # Without XSAVE a signal frame lacks the size of the register state, which the kernel reads.
    "failed to fetch registers": (
        "this machine's CPU has no XSAVE, which the sandbox's kernel needs: a virtual machine may"
        " have a plain model (qemu64, kvm64) and wants its host's (cpu mode host-passthrough)"
    ),
    "SECCOMP userspace requested but not functional": (
        "this host, or the container's filter of system calls, denies seccomp(2) filters, which"
        " the sandbox's kernel runs its programs with: docker run --security-opt"
        " seccomp=unconfined, or ask the machine's administrator"
    ),
}
KILLED_BY_A_FILTER = (
    "a filter of system calls (seccomp) around this process killed the sandbox's kernel:"
    " docker run --security-opt seccomp=unconfined, or ask the machine's administrator"
)
# Every process of the guest is a process of the host; EAGAIN reports the host's process limit.
NO_PROCESS = ("clone failed, errno = 11", "clone failed: Resource temporarily unavailable")
NO_PROCESS_LEFT = (
    "the host had no process left for the guest's programs: end some, or raise the limit (ulimit"
    " -u, a control group's pids.max, docker run --pids-limit)"
)
# The keys of a kernel's record that env.json has.
KERNEL_KEYS = (
    *("version", "hz", "source", "source_sha256", "sha256", "inputs_hash"),
    *("patches", "patches_refused", "options_missing"),
)
# Causes of the signals that may end a guest.
SIGNAL_CAUSES = {
    signal.SIGBUS: (
        "there was no room left for the sandbox's memory in {memory}: make some, or name another"
        " folder with GOSTLAB_TMP"
    ),
    signal.SIGXCPU: "this process's limit of CPU time is used up: ulimit -t unlimited",
    signal.SIGXFSZ: "a file of the run met this process's limit of size: ulimit -f unlimited",
}

# -- constants of the host's kernel: <linux/sched.h>, <linux/mount.h>, <linux/prctl.h>,
# <linux/capability.h>. System calls younger than Linux 5.1 have the same numbers on every
# architecture.
CLONE_NEWIPC, CLONE_NEWNET = 0x08000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_PRIVATE = 1, 2, 4, 1 << 18
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24
ADDR_NO_RANDOMIZE = 0x0040000
# Capabilities that root keeps: to read files, and to write a run's folder of another user.
RETAINED_CAPABILITIES = {1, 2}  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
# Landlock rights in the run's folder. Symbolic links are denied, because a reader could follow one
# out of the folder, and FIFOs, at which a reader would block. User-Mode Linux creates a socket (its
# console for the host) and, without a tmpfs of its own, its memory file.
FOLDER_RIGHTS = (
    "write_file remove_dir remove_file make_dir make_reg make_sock refer truncate".split()
)
MEMORY_RIGHTS = ("write_file", "remove_file", "make_reg", "truncate")
READ_RIGHTS = tuple(landlock.READING)
SOCKETS = Path("/run")
# Library folders that a dynamically linked kernel needs.
LIBRARIES = tuple(Path(path) for path in ("/lib", "/lib64", "/usr/lib", "/usr/lib64"))
# Host files that User-Mode Linux itself reads.
UML_FILES = tuple(
    Path(path)
    for path in (
        *("/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"),
        *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/mounts", "/proc/sys/vm"),
    )
)
# User-Mode Linux opens a pseudo-terminal as it boots, and logs an error without one.
TERMINAL_RIGHTS = ("write_file", "ioctl_dev")


# Namespaces cannot restrict reading: without Landlock, root's sandbox is reported as unrestricted.
UNRESTRICTED_READING = ", and as root it may read every file of this machine"


@dataclass(frozen=True)
class Isolation:
    """The confinement of the sandbox's process by the host's kernel."""

    # Mount namespace (all read-only but the run's folder, the memory on a tmpfs that ends with it),
    # network namespace (without interfaces) and IPC namespace.
    namespaces: bool
    landlock: int  # ABI version of the Landlock rules; 0: none

    def __str__(self) -> str:
        means = (["read-only mounts and no network (namespaces)"] if self.namespaces else []) + (
            [f"Landlock ABI {self.landlock}"] if self.landlock else []
        )
        text = " and ".join(means) or "only the guest's own read-only mount"
        return text + UNRESTRICTED_READING * self.reads_all

    @property
    def reads_all(self) -> bool:
        """Return whether the sandbox's process may read every file of the machine."""
        return os.geteuid() == 0 and not self.landlock


def kernel_args(
    model: MachineModel, *, seccomp: Sequence[str] = ("seccomp=on",), root: OwnRoot | None = None
) -> list[str]:
    """Return the kernel's command line, which names only folders of the lab itself."""
    args = [
        f"mem={model.memory_mib}M",
        "root=/dev/root",
        "rootfstype=hostfs",
        f"rootflags={f'{WORKING_FOLDER}/{LINKS}/root' if root else '/'}",
        "ro",
        f"init={PYTHON}",
        "con=null",
        "con0=fd:0,fd:1",
        "quiet",
        *seccomp,
        f"uml_dir={WORKING_FOLDER}/.uml/",
        f"GOSTLAB_BOOT={WORKING_FOLDER}",
    ]
    if model.clock == "virtual":
        args += [
            "time-travel=inf-cpu",
            f"time-travel-start={VIRTUAL_EPOCH_NS}",
            f"tt_syscall_ns={round(model.syscall_cost_us * 1000)}",
            *cpu_model_args(model.cpus),
            f"uml_seed={model.seed}",
            # This driver reads the host's /dev/random, which would be mixed in besides the seed.
            "initcall_blacklist=rng_init",
        ]
    else:
        # Without this, Linux up to 6.1 collects its first random numbers from timer jitter: 5 s of
        # CPU time before its first process continues.
        args.append("random.trust_cpu=1")
    args += [f"{name}={value}" for name, value in PYTHON_ENVIRON.items()]
    init = FIRST_IN_ROOT if root else str(INIT)
    # The kernel joins these arguments and splits them again at spaces outside of quotes.
    return [*args, "--", "-S", f'"{init}"' if " " in init else init]


def cpu_model_args(model: CpuModel) -> list[str]:
    """Return the kernel arguments of the CPU model, none for the defaults of any kernel."""
    args = []
    if model.host_cpus:
        args.append(f"tt_host_cpus={model.host_cpus}")
    if model.byte_cost_ns:
        args.append(f"tt_byte_ps={round(model.byte_cost_ns * 1000)}")
    if model.clock_reads_are_free:
        args.append("tt_vdso_clock=1")
    return args


def boot(
    kernel: Path,
    folder: Path,
    argv: Sequence[str],
    model: MachineModel,
    *,
    cpu: int,
    limit_s: float,
    environ: Mapping[str, str] = {},
    keep: Sequence[Path] = (),
    terminal: bool = False,
    modules: Sequence[KernelModule] = (),
    root: OwnRoot | None = None,
    named: Sequence[Path] = (),
    capture: Path | None = None,
    trial: bool = False,
    hold: held_syscall.ListenerChannel | None = None,
    copies: int = 0,
    living_copies: int = 0,
) -> Guest:
    """Boot a guest that runs one command and powers off.

    folder    the only host folder that the guest may write, /run/gostlab inside; boot.json and
              log.txt are written there
    environ   variables of the command's environment besides those of guest_environ
    keep      host folders that must stay visible inside although the guest has its own /tmp
              and /run
    terminal  the guest's console is the caller's terminal, instead of log.txt
    modules   congestion controls that the kernel loads before the command runs
    limit_s   time limit: CPU time on the virtual clock, else wall-clock time
    root      the lab's own root, in which nothing of `keep` is visible; None: the host's files
    named     further host paths that root's guest on the host's files may read
    capture   the module that records packets, if the kernel is to load it
    trial     the command is the lab's own: if this guest does not boot, no guest does
    hold      the guest waits at its held call (gostlab.sandbox.held_syscall) for `Guest.resume`
    copies    number of copies that are made of the guest (gostlab.sandbox.guest_cloning), and of
              those that live at a time

    Raises MachineError or OSError.
    """
    folder = folder.resolve()
    allow_open_files()
    isolation = available_isolation()
    (folder / ".uml").mkdir(exist_ok=True)
    args = kernel_args(model, seccomp=seccomp_args(kernel), root=root)
    if root is None:
        visible = sorted({str(path.resolve()) for path in keep})
        files = [str(module.file.resolve()) for module in modules]
    else:
        visible, files = [], root.lay_out(folder, modules)
    memory = choose_memory_folder(model.memory_mib, folder, own_mounts=isolation.namespaces)
    boot_orders = {
        "argv": list(argv),
        "environ": {**guest_environ(environ, root), "GOSTLAB_MEMORY": str(memory)},
        "keep": visible,
        "terminal": terminal,
        "modules": [
            {"cc": module.cc, "file": file, "arguments": module.arguments}
            for module, file in zip(modules, files, strict=True)
        ],
    }
    if capture is not None:
        # The module is loaded from the run's folder: a mount of its own would lengthen the list of
        # mounts, which programs of the run may read.
        shutil.copyfile(capture, folder / CAPTURE_MODULE)
        boot_orders["capture"] = CAPTURE_MODULE
    (folder / "boot.json").write_text(json.dumps(boot_orders), encoding="utf-8")
    memory.enter()
    readable: list[Path] | None = None
    if root is not None:
        readable = [kernel.resolve(), *root.readable(modules)]
    elif os.geteuid() == 0:
        files_of_modules = (module.file for module in modules)
        readable = readable_as_root([kernel, CHECKOUT, *keep, *named, *files_of_modules])
    needed = [kernel, CHECKOUT, *keep, *named]
    copy_folders = [folder / COPIES / str(number + 1) for number in range(copies)]
    for copy_folder in copy_folders:
        copy_folder.mkdir(parents=True, exist_ok=True)
    confine_guest = partial(
        confine,
        isolation,
        folder,
        memory.folder,
        model.memory_mib * (1 + living_copies),
        readable,
        needed,
        copy_folders,
    )
    before_exec = partial(confine_child, confine_guest, folder, cpu, os.getpid(), hold)
    try:
        process = start_kernel([str(kernel), *args], folder, memory, before_exec, terminal=terminal)
    except (subprocess.SubprocessError, OSError) as error:
        memory.leave()
        raise MachineError(explain_start_failure(kernel, folder, isolation, error)) from error
    try_boot = None if trial else partial(boot_test_guest, kernel, cpu=cpu, keep=keep, root=root)
    of_work = model.clock == "virtual"
    guest = Guest(process, limit_s, folder, memory, modules, of_work=of_work, try_boot=try_boot)
    if hold is not None:
        guest.held = hold.receive(process.pid)
    return guest


def boot_test_guest(kernel: Path, *, cpu: int, keep: Sequence[Path], root: OwnRoot | None) -> None:
    """Boot a small guest that does nothing.

    Raises CannotBoot with the cause if its kernel did not reach its first process.
    """
    with tempfile.TemporaryDirectory(prefix="gostlab-boot-") as scratch:
        folder, argv, model = Path(scratch), ["/bin/true"], MachineModel(TRIAL_MIB)
        try:
            boot(
                kernel,
                folder,
                argv,
                model,
                cpu=cpu,
                limit_s=TRIAL_LIMIT_S,
                keep=keep,
                root=root,
                trial=True,
            ).wait()
        except CannotBoot:
            raise
        except (MachineError, OSError):
            return  # a lack of memory for this guest does not prove that none boots


def allow_open_files() -> None:
    """Raise the limit of open files to what a run needs. Raises MachineError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MIN_OPEN_FILES:
        if hard != resource.RLIM_INFINITY and hard < MIN_OPEN_FILES:
            raise MachineError(
                f"this process may have {hard} files open, and a guest's kernel needs"
                f" {MIN_OPEN_FILES}: ulimit -n 1024"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (MIN_OPEN_FILES, hard))


def explain_start_failure(
    kernel: Path, folder: Path, isolation: Isolation, error: Exception
) -> str:
    """Return why a kernel could not be executed or confined."""
    if not isinstance(error, OSError):
        lines = read_log(folder)[-1:] or ["log.txt there says no more"]
        return f"{folder}: the host would not hold the sandbox in it ({isolation}): {lines[0]}"
    if error.errno == errno.EACCES and os.access(kernel, os.R_OK):
        return (
            f"{kernel} cannot be executed: its file system is mounted noexec, or it has lost its"
            " mode: name a cache folder elsewhere with GOSTLAB_CACHE, and run ./lab setup"
        )
    return f"{kernel} cannot be executed: {error.strerror}: run ./lab setup"


def start_kernel(
    argv: list[str],
    folder: Path,
    memory: MemoryPlace,
    before_exec: Callable[[], None],
    *,
    terminal: bool,
) -> subprocess.Popen[bytes]:
    """Start the guest's kernel, its console on log.txt or on the caller's terminal.

    before_exec called in the child process between fork and exec

    Raises OSError, or subprocess.SubprocessError if `before_exec` fails.
    """
    environ = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        # The folder may be renamed before the kernel opens its memory (gostlab.sandbox.standby).
        "TMPDIR": f"{WORKING_FOLDER}/.uml" if memory.is_in_run_folder else str(memory.folder),
    }
    # The child has only one thread between fork and exec and must not wait for another.
    with signals_blocked() as let_through:

        def run_before_exec() -> None:
            let_through()
            before_exec()

        if terminal:
            return subprocess.Popen(argv, env=environ, preexec_fn=run_before_exec)  # noqa: PLW1509
        return start_logged(argv, folder, environ, preexec_fn=run_before_exec)


@contextmanager
def signals_blocked() -> Iterator[Callable[[], object]]:
    """Block signals within a `with` block; Python drops what their handlers raise in a fork.

    Gives a function that unblocks the signals in the forked child.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    let_through = partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)
    try:
        yield let_through
    finally:
        let_through()


class Guest(TimedProcess):
    """A running guest. If it ends early, `complaint` is the cause if it is known."""

    def __init__(
        self,
        process: ChildProcess,
        limit_s: float,
        folder: Path,
        memory: MemoryPlace,
        modules: Sequence[KernelModule] = (),
        *,
        of_work: bool = False,
        try_boot: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(process, limit_s, of_work=of_work)
        self._folder, self.memory, self._modules = folder, memory, modules
        self._try_boot = try_boot
        self._as_booted = partial(
            Guest, limit_s=limit_s, modules=modules, of_work=of_work, try_boot=try_boot
        )
        self.held: held_syscall.HeldCall | None = None  # the call at which the guest waits
        self.at_end: Callable[[], None] | None = None  # called once, when the guest has ended
        self._is_resumed = False
        self._events: select.epoll | None = None

    @property
    def folder(self) -> Path:
        """Return the guest's folder."""
        return self._folder

    def copied(self, process: ChildProcess, folder: Path, memory: MemoryPlace) -> Guest:
        """Return the guest of a process that is a copy of this one's."""
        return self._as_booted(process, folder=folder, memory=memory)

    def resume(self, folder: Path, limit_s: float) -> None:
        """Let a guest that waits at its held call continue in a folder, to which its own was moved.

        One that has not made the call yet continues when it does: `end_fd` is readable then, and
        `poll` answers the call. limit_s: the time limit from now on.
        """
        self._folder, self._is_resumed = folder, True
        self.restart_limit(limit_s)
        if not self._answer_held_call() and self.held is not None and self.end_fd is not None:
            self._events = select.epoll()
            for descriptor in (self.end_fd, self.held.descriptor):
                self._events.register(descriptor, select.EPOLLIN)
            self.end_fd = self._events.fileno()

    def _answer_held_call(self) -> bool:
        """Let a resumed guest continue if it has made its held call; return whether it has."""
        if self.held is None or not self._is_resumed or not self.held.answer():
            return False
        self.held = None  # the listener is closed, which removes it from `_events`
        return True

    def poll(self) -> int | None:
        self._answer_held_call()
        status = super().poll()
        if status is not None and self.at_end is not None:
            at_end, self.at_end = self.at_end, None
            at_end()
        if status is not None:
            self.memory.leave()
            log = "\n".join(read_log(self._folder)) if self.complaint is None else ""
            if any(message in log for message in NO_PROCESS):
                self.complaint, self.from_outside = NO_PROCESS_LEFT, True
            if self.complaint is None and not (self._folder / "exit").exists():
                cause = explain_boot_failure(status, self._folder, self.memory)
                if cause and self._try_boot is None:
                    raise CannotBoot(cause)
                self.complaint = explain_exit(status, self.memory)
                if cause and self._try_boot is not None:
                    # A program of the run may have written the kernel's message into the log.
                    self._try_boot()
                    other_cause = f"its kernel ended, and other guests boot here ({cause})"
                    self.complaint = self._explain_module_crash() if self._modules else other_cause
                elif self.complaint:
                    self.from_outside = True
                elif self._modules:
                    self.complaint = self._explain_module_crash()
                elif REBOOTED in log:
                    self.complaint = REBOOTED
        return status

    def _explain_module_crash(self) -> str:
        """Return why a kernel died that had loaded modules."""
        names = " and ".join(module.cc for module in self._modules)
        return f"the guest's kernel died with {names} in it: {explain_kernel_death(self._folder)}"

    def kill(self) -> None:
        super().kill()
        if self.held is not None:
            self.held.close()
        self.memory.leave()


def explain_boot_failure(status: int, folder: Path, memory: MemoryPlace) -> str | None:
    """Return why a guest's kernel did not reach its first process, None if unknown.

    The exit status and the log are searched for known causes.
    """
    log = "\n".join(read_log(folder))
    causes = [cause for message, cause in KERNEL_MESSAGES.items() if message in log]
    if status == -signal.SIGSYS:
        causes.append(KILLED_BY_A_FILTER)
    return causes[0].format(memory=memory) if causes else None


def explain_exit(status: int, memory: MemoryPlace) -> str | None:
    """Return why a guest ended before its command, by its exit status; None if unknown."""
    if status == -signal.SIGKILL:
        left = available_memory()
        return (
            f"killed from outside, as a rule for lack of memory ({left.limited_by} has"
            f" {left.free_mib} MiB left)"
        )
    return next(
        (
            cause.format(memory=memory)
            for number, cause in SIGNAL_CAUSES.items()
            if status == -number
        ),
        None,
    )


def guest_environ(extra: Mapping[str, str] = {}, root: OwnRoot | None = None) -> dict[str, str]:
    """Return the environment of a command in the guest."""
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "TMPDIR": "/tmp",
        "PYTHONPATH": PYTHON_PATH,
        **PYTHON_ENVIRON,
        **QUICK_IMPORTS,
        **(root.environ if root else {}),
        **extra,
    }


@dataclass(frozen=True)
class RunBoot:
    """Hold what a run's guest is given at boot, before it reads the run's description."""

    kernel: Path
    argv: tuple[str, ...]
    model: MachineModel
    environ: Mapping[str, str]
    keep: tuple[Path, ...]
    modules: tuple[KernelModule, ...]
    root: OwnRoot | None
    named: tuple[Path, ...]
    limit_s: float
    terminal: bool
    capture: Path | None
    parts: PartsJson  # read with the run's description
    has_copies: bool = False  # whether the kernel makes copies of itself

    def write_parts(self, folder: Path, commit: str | None) -> None:
        """Write parts.json into a run's folder. Raises OSError."""
        parts: PartsJson = {**self.parts, "commit": commit}
        (folder / "parts.json").write_text(json.dumps(parts), encoding="utf-8")

    def boot(
        self,
        folder: Path,
        cpu: int,
        hold: held_syscall.ListenerChannel | None = None,
        *,
        copies: int = 0,
        living_copies: int = 0,
    ) -> Guest:
        """Boot a guest in a run's folder, which is copied if `copies`.

        Raises MachineError or OSError.
        """
        held = () if hold is None else (str(held_syscall.HELD_LENGTH),)
        return boot(
            self.kernel,
            folder,
            [*self.argv, *held],
            self.model,
            environ=self.environ,
            keep=self.keep,
            cpu=cpu,
            limit_s=self.limit_s,
            terminal=self.terminal,
            modules=self.modules,
            root=self.root,
            named=self.named,
            capture=self.capture,
            hold=hold,
            copies=copies,
            living_copies=living_copies,
        )

    @property
    def can_wait(self) -> bool:
        """Return whether a guest may boot before its run is known.

        Its clock must stand still meanwhile, and its random numbers must be reset afterwards.
        """
        is_pinned = self.model.seed == BOOT_SEED
        return is_pinned and self.root is not None and not self.terminal and not self.named

    @property
    def can_copy(self) -> bool:
        """Return whether a guest that waits can be copied (gostlab.sandbox.guest_cloning)."""
        return self.has_copies and self.can_wait

    @property
    def key(self) -> Hashable:
        """Return a value that differs if guests differ before they read the run's description.

        A file that was changed at its path differs, too. Raises OSError.
        """
        assert self.root is not None
        files = [self.kernel, *(module.file for module in self.modules)]
        files += [self.capture] if self.capture is not None else []
        stats = [os.stat(file) for file in files]
        return (
            tuple(map(str, files)),
            tuple((at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns) for at in stats),
            tuple(kernel_args(self.model, seccomp=seccomp_args(self.kernel), root=self.root)),
            self.argv,
            tuple(sorted(self.environ.items())),
            tuple((module.cc, module.arguments) for module in self.modules),
            self.root.root.tree,
            tuple(sorted(self.root.shared.items())),
            self.root.programs,
            os.environ.get(FOLDER_VARIABLE),
        )


def run_boot(
    kernel: Path,
    run: RunSpec,
    parts: PartsJson,
    keep: Sequence[Path],
    *,
    prompt: str = "",
    sources: str | None = None,
) -> RunBoot:
    """Return how the guest of a run boots.

    prompt: the module that gets the caller's terminal instead. sources: the digest of the lab's
    sources, if it is known. Raises MachineError, MissingPart or OSError.
    """
    own_files = require_own_files(run)
    plugins = require_plugins(run)
    keep = [*keep, *own_files.values(), *plugins.values()]
    root = root_for_run(parts, run, sources)
    if root is not None:
        parts = cast(PartsJson, root.parts)
        root = replace(root, shared={**root.shared, **plugins})
    python_path = root.environ["PYTHONPATH"] if root else PYTHON_PATH
    folders = [root.inside(name) if root else str(path) for name, path in plugins.items()]
    modules = compile_modules(run, kernel)
    capture = capture_module(kernel) if run.capture != "off" else None
    run_parts = parts.copy()
    if own_files:
        run_parts["files"] = {name: str(folder) for name, folder in own_files.items()}
    if modules:
        run_parts["modules"] = {module.cc: module.record for module in modules}
    if run.kernel != SHIPPED:
        run_parts["kernel"] = kernel_facts(run.kernel, kernel)
    facts = host_facts(str(available_isolation()))
    if root is not None:
        facts["root"] = root.root.says()
    environ = {"GOSTLAB_HOST": json.dumps(facts), **plugin_environ(run, python_path, folders)}
    if prompt:
        environ["TERM"] = os.environ.get("TERM", "dumb")
    return RunBoot(
        kernel,
        tuple(guest_argv(prompt or RUN, GUEST_FOLDER)),
        boot_model(run, kernel),
        environ,
        (CHECKOUT, *keep),
        tuple(modules),
        root,
        tuple(paths_in_commands(run)),
        WEEK_S if prompt else sandbox.time_limit_s(run),
        bool(prompt),
        capture,
        run_parts,
        makes_copies(run.kernel, kernel),
    )


def boot_model(run: RunSpec, kernel: Path) -> MachineModel:
    """Return the machine that a run's kernel boots as.

    A kernel whose random numbers a run resets to its seed (gostlab.guest.reset_clock) boots with
    the same seed for every run: what it does before is then the same, too.
    """
    model = MachineModel.of(run)
    is_reset = run.clock == "virtual" and has_lab_patches(run.kernel, kernel)
    return replace(model, seed=BOOT_SEED) if is_reset else model


def has_lab_patches(name: str, kernel: Path) -> bool:
    """Return whether a kernel was built by the lab from one of its own series of patches."""
    return read_built_record(kernel) is not None and (name == SHIPPED or name in declared_kernels())


def makes_copies(name: str, kernel: Path) -> bool:
    """Return whether a kernel makes copies of itself.

    Those without COPY_PATCH (5.10, 6.1, 6.12) do not: their processes of the host are of another
    make. Their guests boot, each.
    """
    if not has_lab_patches(name, kernel):
        return False
    declared = shipped_declaration() if name == SHIPPED else declared_kernels()[name]
    return any(patch.name == COPY_PATCH for patch in declared.series)


def start_run(
    kernel: Path,
    run: RunSpec,
    folder: Path,
    parts: PartsJson,
    keep: Sequence[Path],
    cpu: int,
    commit: str | None,
    *,
    prompt: str = "",
) -> Guest:
    """Boot a guest that executes a run.

    prompt: the module that gets the caller's terminal instead. Raises MachineError, MissingPart or
    OSError.
    """
    boot = run_boot(kernel, run, parts, keep, prompt=prompt)
    boot.write_parts(folder, commit)
    return boot.boot(folder, cpu)


def kernel_facts(name: str, kernel: Path) -> KernelJson:
    """Return what env.json has of a kernel that is not the shipped one."""
    lacks = kernel_named(name).lacks
    record = {key: value for key, value in kernel_record(kernel).items() if key in KERNEL_KEYS}
    return cast(KernelJson, {**record, "name": name, "lacks": list(lacks)})


def capture_module(kernel: Path) -> Path:
    """Return the module that records packets, compiled if necessary. Raises MachineError."""
    try:
        return provide_capture(kernel)
    except (CompileError, MissingPart, OSError) as error:
        raise MachineError(f"the capture cannot be compiled for this kernel: {error}") from error


def compile_modules(run: RunSpec, kernel: Path) -> list[KernelModule]:
    """Compile the congestion controls of a run that are modules. Raises MachineError."""
    try:
        modules = [module_for(cc, kernel) for cc in run.congestion_controls]
    except CompileError as error:
        raise MachineError(f"a congestion control does not compile: {error}") from error
    except (BadInput, MissingPart, OSError) as error:
        raise MachineError(str(error)) from error
    return [module for module in modules if module is not None]


class HostFacts(TypedDict):
    """The host below a guest: an entry of env.json."""

    kernel: str
    cpu: str
    cpus: int | None
    isolation: str
    image: NotRequired[str]
    worker: NotRequired[str]
    root: NotRequired[Mapping[str, str]]


@cache
def cpu_name() -> str:
    """Return the name of the host's CPU, by /proc/cpuinfo."""
    text = Path("/proc/cpuinfo").read_text()
    match = re.search(r"^model name\s*:\s*(.*?)\s*$", text, re.MULTILINE)
    return match[1] if match else "unknown"


def host_facts(isolation: str) -> HostFacts:
    """Return the facts of the host on which a real-clock result depends, and the isolation.

    The container's image and the cluster's worker are included if their environment names them.
    """
    facts: HostFacts = {
        "kernel": os.uname().release,
        "cpu": cpu_name(),
        "cpus": os.cpu_count(),
        "isolation": isolation,
    }
    if image := os.environ.get("GOSTLAB_IMAGE"):
        facts["image"] = image
    if worker := os.environ.get("GOSTLAB_WORKER"):
        facts["worker"] = worker
    return facts


# -- isolation


@cache
def available_isolation() -> Isolation:
    """Return the strongest isolation that this host's kernel grants this process.

    It is tried once, in a child process.
    """
    abi = landlock.landlock_abi()
    for isolation in (Isolation(True, abi), Isolation(False, abi)):
        with tempfile.TemporaryDirectory(prefix="gostlab-") as scratch:
            Path(scratch, ".uml").mkdir()
            child = os.fork()
            if child == 0:
                try:
                    folder = Path(scratch).resolve()
                    confine(isolation, folder, folder / ".uml", 1)
                    if isolation.namespaces and explain_unfit(folder / ".uml", 0):
                        os._exit(1)
                    os._exit(0)
                except OSError:
                    os._exit(1)
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
                return isolation
    return Isolation(False, 0)


def confine_child(
    confine_self: Callable[[], None],
    folder: Path,
    cpu: int,
    parent: int,
    hold: held_syscall.ListenerChannel | None = None,
) -> None:
    """Prepare the child process between fork and exec.

    It is pinned to one CPU, as every system call of an unpinned guest would wake another core;
    confined to its folder; and ends with its parent, however that ends. With `hold`, its held call
    is answered by the parent. Raises OSError after writing it to stderr.
    """
    try:
        os.sched_setaffinity(0, {cpu})
        # In guest kernels before 7.x, size and position of the memory depend on the address of the
        # heap, which the host's kernel randomizes: without this no run on them is repeatable. Later
        # ones disable the randomization themselves. A container's seccomp filter may deny it.
        libc.personality(ctypes.c_ulong(ADDR_NO_RANDOMIZE))
        confine_self()
        os.chdir(folder)  # WORKING_FOLDER, in the new mount namespace
        if hold is not None:
            hold.install()
        # This is last, as a change of credentials resets it; and the parent may have ended by now.
        raise_on_failure(
            libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), *UNUSED), "pdeathsig"
        )
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
    except OSError as error:
        os.write(2, f"{error.filename or 'cpu affinity'}: {error.strerror}\n".encode())
        raise


def confine(
    isolation: Isolation,
    folder: Path,
    memory: Path,
    memory_mib: int,
    readable: Sequence[Path] | None = None,
    needed: Sequence[Path] = (),
    copy_folders: Sequence[Path] = (),
) -> None:
    """Confine this process and its descendants to one folder and that of its memory.

    readable      all host paths that it may read; None: those of its user
    needed        paths that must not be covered
    copy_folders  subfolders that stay writable when they are moved

    Raises OSError.
    """
    if isolation.namespaces:
        enter_namespaces(folder, memory_mib)
        cover_sockets([folder, memory, *(readable or ()), *needed])
    drop_rights()
    if isolation.landlock:
        enter_landlock(isolation, [folder, *copy_folders], memory, readable)


def enter_namespaces(folder: Path, memory_mib: int) -> None:
    """Make every mount read-only but the folder, mount a tmpfs for the memory, cut the network.

    A user who is not root does this as root of a user namespace without other users, and loses
    these rights with exec. Raises OSError.
    """
    flags = landlock.CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC
    landlock.enter_namespaces(flags, of_users=os.geteuid() != 0)
    set_mounts("/", AT_RECURSIVE, readonly=True)
    landlock.bind_mount(folder, folder)
    set_mounts(str(folder), 0, readonly=False)
    mount_memory(os.fsencode(folder / ".uml"), memory_mib + MEMORY_SLACK_MIB)
    terminals, mount_flags = b"/dev/pts", ctypes.c_ulong(MS_NOSUID)
    result = libc.mount(b"devpts", terminals, b"devpts", mount_flags, b"ptmxmode=0666")
    raise_on_failure(result, "/dev/pts")
    landlock.bind_mount(Path("/dev/pts/ptmx"), Path("/dev/ptmx"))


def cover_sockets(needed: Iterable[Path]) -> None:
    """Cover the folder of the host's sockets (Docker's, D-Bus's) unless it is needed.

    Landlock does not deny connecting to them. Raises OSError.
    """
    if SOCKETS.is_dir() and not any(path.is_relative_to(SOCKETS) for path in needed):
        flags = ctypes.c_ulong(MS_RDONLY | MS_NOSUID | MS_NODEV)
        result = libc.mount(b"tmpfs", os.fsencode(SOCKETS), b"tmpfs", flags, b"mode=0755")
        raise_on_failure(result, str(SOCKETS))


def mount_memory(mount_point: bytes, size_mib: int) -> None:
    """Mount a tmpfs for the guest's memory, in huge pages of the host if possible.

    With huge pages a stream at 1 Gbit/s needs 0.93 of the CPU time. Raises OSError.
    """
    for huge in (",huge=always", ""):
        options = f"mode=0700,size={size_mib}M{huge}".encode()
        flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV)
        result = libc.mount(b"tmpfs", mount_point, b"tmpfs", flags, options)
        if result == 0 or ctypes.get_errno() != errno.EINVAL:
            break  # EINVAL: this kernel does not support the option
    raise_on_failure(result, os.fsdecode(mount_point))


def set_mounts(path: str, flags: int, *, readonly: bool) -> None:
    """Make a mount private and read-only or writable by mount_setattr(2).

    With AT_RECURSIVE in `flags` the mounts below it are included. Raises OSError.
    """
    attributes = (ctypes.c_uint64 * 4)(
        MOUNT_ATTR_RDONLY * readonly, MOUNT_ATTR_RDONLY * (not readonly), MS_PRIVATE, 0
    )
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    at = AT_FDCWD, os.fsencode(path), ctypes.c_uint(flags)
    raise_on_failure(libc.syscall(SYS_MOUNT_SETATTR, *at, attributes, size), path)


def drop_rights() -> None:
    """Disable gaining rights by exec (set-user-ID), and drop most capabilities of root.

    Raises OSError.
    """
    capability = 0
    while os.geteuid() == 0 and (
        capability in RETAINED_CAPABILITIES
        or libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), *UNUSED) == 0
    ):
        capability += 1  # up to the first capability unknown to this kernel
    gain_no_rights()


def enter_landlock(
    isolation: Isolation, folders: Sequence[Path], memory: Path, readable: Sequence[Path] | None
) -> None:
    """Restrict writing to the folders, and reading to them and the readable paths.

    TCP and signals to processes outside are denied. Needs no_new_privs. Raises OSError.
    """
    rights = landlock.WRITING
    allowed: dict[Path, Sequence[str]] = {memory: MEMORY_RIGHTS}
    allowed |= dict.fromkeys(folders, FOLDER_RIGHTS)
    allowed |= dict.fromkeys((Path("/dev/ptmx"), Path("/dev/pts")), TERMINAL_RIGHTS)
    if readable is not None:
        rights = {**rights, **landlock.READING}
        paths = (*allowed, *readable, *LIBRARIES, *UML_FILES)
        allowed = {path: (*allowed.get(path, ()), *READ_RIGHTS) for path in paths}
    landlock.enter_landlock(isolation.landlock, rights, allowed)
