"""The sandbox: a User-Mode Linux kernel as one unprivileged process, pinned to one CPU.

The host's files are its read-only root, the run's folder is the one writable place, its memory is
an unlinked file. It ends with its parent (PR_SET_PDEATHSIG), and its own children end with it.

The guest's read-only mount is its own kernel's word, and its root may mount the host's files once
more. So the process itself is held by the host's kernel, without root, in what it can have of
namespaces and Landlock (`Isolation`; SECURITY.md says what each of them keeps).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from gostlab import sandbox
from gostlab.errors import BadInput
from gostlab.install import landlock
from gostlab.install.kernel_modules import CompileError, Module, module_for
from gostlab.install.landlock import UNUSED, checked, gain_no_rights, libc
from gostlab.install.locate import MissingPart, kernel_record, seccomp_words
from gostlab.install.rootfs import FIRST_IN_ROOT
from gostlab.lazy import signals_wait
from gostlab.registry.folders import PYTHON_PATH
from gostlab.registry.kernels import SHIPPED, kernel_named
from gostlab.sandbox import (
    CHECKOUT,
    QUICK_IMPORTS,
    RUN,
    CannotBoot,
    MachineError,
    TimedProcess,
    guest_argv,
    start_logged,
)
from gostlab.sandbox.guest_memory import MEMORY_SLACK_MIB, MemoryPlace, memory_place, unfit
from gostlab.sandbox.host_limits import memory_left
from gostlab.sandbox.kernel_log import last_kernel_words, read_log
from gostlab.sandbox.readable_paths import named_by_commands, readable_as_root
from gostlab.sandbox.rootfs import LINKS, OwnRoot, own_root
from gostlab.spec.cpu_model import CpuModel, MachineModel
from gostlab.spec.run_spec import RunSpec

INIT = Path(__file__).with_name("guest_init.py")
GUEST_FOLDER = "/run/gostlab"
WEEK_S = 7 * 24 * 3600.0  # how long a prompt may stand
# The run's folder as the guest's kernel knows it: by a name that is the same for every run, because
# Linux stirs its command line into its random numbers, and two runs of one seed would otherwise
# differ by where they were written.
WORKING_FOLDER = "/proc/self/cwd"
PYTHON = "/usr/bin/python3"  # of a guest
# The lab's own Python writes no byte code, and takes its memory in one piece and not by calls, each
# of which takes time and whose number depends on how long its paths are.
OF_PYTHON = {
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONMALLOC": "malloc",
    "MALLOC_TOP_PAD_": f"{64 << 20}",
    "MALLOC_MMAP_THRESHOLD_": f"{1 << 30}",
    "MALLOC_TRIM_THRESHOLD_": f"{1 << 30}",
    "MALLOC_ARENA_MAX": "1",
}
# The guest's wall clock starts here on the virtual clock: a date that means nothing, the same for
# every run.
VIRTUAL_EPOCH_NS = 1_700_000_000_000_000_000
# A file that a guest's program opens is one that its kernel opens: a run of one flow has between 65
# and 100 at once, and with fewer its pings fail.
MIN_OPEN_FILES = 256
# A guest that shows whether any boots here.
TRIAL_MIB, TRIAL_LIMIT_S = 128, 30.0
# What the guest's kernel says when it cannot run here, and what that means.
SAID_BY_THE_KERNEL = {
    "noexec": (
        "{memory}, where the sandbox's memory is, is mounted noexec: name another folder with"
        " GOSTLAB_TMP"
    ),
    "setup_physmem - mapping": (
        "the sandbox's memory could not be mapped from {memory}, for lack of memory or of address"
        " space: ulimit -v unlimited, or ask for less (--set memory=…)"
    ),
    # A signal's frame then has no size of the registers' state, which the kernel looks for.
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
# A program of the guest's is a process of the host's: EAGAIN is its limit of those.
NO_PROCESS = ("clone failed, errno = 11", "clone failed: Resource temporarily unavailable")
NO_PROCESS_LEFT = (
    "the host had no process left for the guest's programs: end some, or raise the limit (ulimit"
    " -u, a control group's pids.max, docker run --pids-limit)"
)
# What env.json has of a kernel's record.
OF_A_KERNEL = (
    *("version", "hz", "source", "source_sha256", "sha256", "inputs_hash"),
    *("patches", "patches_refused", "options_missing"),
)
# What a signal that ended it means.
ENDED_BY = {
    signal.SIGBUS: (
        "there was no room left for the sandbox's memory in {memory}: make some, or name another"
        " folder with GOSTLAB_TMP"
    ),
    signal.SIGXCPU: "this process's limit of CPU time is used up: ulimit -t unlimited",
    signal.SIGXFSZ: "a file of the run met this process's limit of size: ulimit -f unlimited",
}

# -- the host's kernel: <linux/sched.h>, <linux/mount.h>, <linux/prctl.h>, <linux/capability.h>. The
# system calls' numbers are the same on every architecture, as of all that
# are younger than Linux 5.1.
CLONE_NEWIPC, CLONE_NEWNET = 0x08000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_PRIVATE = 1, 2, 4, 1 << 18
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24
ADDR_NO_RANDOMIZE = 0x0040000
# What root keeps of its rights: to read what is there, and to write a run's folder that belongs to
# somebody else.
CAPABILITIES_KEPT = {1, 2}  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
# In the run's folder. No symbolic link, which a reader could follow out of it, and no
# FIFO, at which he would wait; User-Mode Linux makes a socket (its console for the host) and, where
# it has no tmpfs of its own, its memory.
IN_FOLDER = "write_file remove_dir remove_file make_dir make_reg make_sock refer truncate".split()
IN_MEMORY = ("write_file", "remove_file", "make_reg", "truncate")
READ = tuple(landlock.READING)
SOCKETS = Path("/run")
# What a kernel that is not linked statically is started with.
LIBRARIES = tuple(Path(each) for each in ("/lib", "/lib64", "/usr/lib", "/usr/lib64"))
# What the kernel asks of the host itself.
ASKED = tuple(
    Path(each)
    for each in (
        *("/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"),
        *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/mounts", "/proc/sys/vm"),
    )
)
# User-Mode Linux tries a pseudo-terminal as it boots, and complains without.
AT_TERMINALS = ("write_file", "ioctl_dev")


# Mounts have no word for reading: where root has no Landlock, its sandbox is said to have none.
UNHELD_READING = ", and as root it may read every file of this machine"


@dataclass(frozen=True)
class Isolation:
    """How the host's kernel holds the sandbox's process."""

    # of mounts (all read-only but the run's folder, its memory a tmpfs that ends with it), network
    # (none) and IPC
    namespaces: bool
    landlock: int  # the ABI of the Landlock rules it is under; 0: none

    def __str__(self) -> str:
        held = (["read-only mounts and no network (namespaces)"] if self.namespaces else []) + (
            [f"Landlock ABI {self.landlock}"] if self.landlock else []
        )
        text = " and ".join(held) or "only the guest's own read-only mount"
        return text + UNHELD_READING * self.reads_all

    @property
    def reads_all(self) -> bool:
        """Whether a process held so may read every file of the machine."""
        return os.geteuid() == 0 and not self.landlock


def boot_words(
    model: MachineModel, *, seccomp: Sequence[str] = ("seccomp=on",), root: OwnRoot | None = None
) -> list[str]:
    """The kernel's command line, which names no folder but of the lab itself."""
    words = [
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
        words += [
            "time-travel=inf-cpu",
            f"time-travel-start={VIRTUAL_EPOCH_NS}",
            f"tt_syscall_ns={round(model.syscall_cost_us * 1000)}",
            *cpu_model_words(model.cpus),
            f"uml_seed={model.seed}",
            # the driver that hands the guest the host's /dev/random, which would be stirred in on
            # top of the seed
            "initcall_blacklist=rng_init",
        ]
    else:
        # Linux up to 6.1 makes its first random numbers of the jitter of its timer where nobody
        # says this: 5 s of CPU time before its first process goes on.
        words.append("random.trust_cpu=1")
    words += [f"{name}={value}" for name, value in OF_PYTHON.items()]
    first = FIRST_IN_ROOT if root else str(INIT)
    # The kernel joins these words and splits them again where it finds a space outside of quotes.
    return [*words, "--", "-S", f'"{first}"' if " " in first else first]


def cpu_model_words(model: CpuModel) -> list[str]:
    """The kernel's words for what each program pays; none for the defaults of any kernel."""
    words = []
    if model.host_cpus:
        words.append(f"tt_host_cpus={model.host_cpus}")
    if model.byte_cost_ns:
        words.append(f"tt_byte_ps={round(model.byte_cost_ns * 1000)}")
    if model.clock_reads_are_free:
        words.append("tt_vdso_clock=1")
    return words


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
    modules: Sequence[Module] = (),
    root: OwnRoot | None = None,
    named: Sequence[Path] = (),
    trial: bool = False,
) -> Guest:
    """Boot a guest that runs one command and powers off.

    folder    the host's folder that the guest may write, /run/gostlab inside; boot.json and
              log.txt go there
    environ   what the command has in its environment besides sandbox_environ's
    keep      host folders that must stay visible inside although the guest has its own /tmp
              and /run
    terminal  the guest's console is the caller's terminal, instead of log.txt
    modules   congestion controls that its kernel is to load before the command runs
    limit_s   after which it is ended: of CPU time on the virtual clock, else of the wall clock
    root      the lab's own root, on which nothing of `keep` is seen; None: the host's files
    named     what root's guest on the host's files may read besides the system's and `keep`
    trial     the command is the lab's own: why it did not boot is why none would
    Raises MachineError or OSError.
    """
    folder = folder.resolve()
    allow_open_files()
    isolation = available_isolation()
    (folder / ".uml").mkdir(exist_ok=True)
    words = boot_words(model, seccomp=seccomp_words(kernel), root=root)
    if root is None:
        kept = sorted({str(path.resolve()) for path in keep})
        files = [str(each.file.resolve()) for each in modules]
    else:
        kept, files = [], root.lay_out(folder, modules)
    memory = memory_place(model.memory_mib, folder, own_mounts=isolation.namespaces)
    orders = {
        "argv": list(argv),
        "environ": {**sandbox_environ(environ, root), "GOSTLAB_MEMORY": str(memory)},
        "keep": kept,
        "terminal": terminal,
        "modules": [
            {"cc": each.cc, "file": file, "arguments": each.arguments}
            for each, file in zip(modules, files, strict=True)
        ],
    }
    (folder / "boot.json").write_text(json.dumps(orders), encoding="utf-8")
    memory.enter()
    readable: list[Path] | None = None
    if root is not None:
        readable = [kernel.resolve(), *root.readable(modules)]
    elif os.geteuid() == 0:
        files_of_modules = (each.file for each in modules)
        readable = readable_as_root([kernel, CHECKOUT, *keep, *named, *files_of_modules])
    seen = [kernel, CHECKOUT, *keep, *named]
    held = partial(confine, isolation, folder, memory.folder, model.memory_mib, readable, seen)
    hold = partial(settle, held, folder, cpu, os.getpid())
    try:
        process = start_kernel([str(kernel), *words], folder, memory, hold, terminal=terminal)
    except (subprocess.SubprocessError, OSError) as error:
        memory.leave()
        raise MachineError(why_not_started(kernel, folder, isolation, error)) from error
    try_boot = None if trial else partial(check_boots, kernel, cpu=cpu, keep=keep, root=root)
    of_work = model.clock == "virtual"
    return Guest(process, limit_s, folder, memory, modules, of_work=of_work, try_boot=try_boot)


def check_boots(kernel: Path, *, cpu: int, keep: Sequence[Path], root: OwnRoot | None) -> None:
    """Boot a small guest that does nothing. Raises CannotBoot where its kernel says why it did not
    get to its first process.
    """
    with tempfile.TemporaryDirectory(prefix="gostlab-boot-") as scratch:
        folder, argv, model = Path(scratch), ["/bin/true"], MachineModel(TRIAL_MIB)
        asked: dict[str, Any] = {"cpu": cpu, "limit_s": TRIAL_LIMIT_S, "keep": keep, "root": root}
        try:
            boot(kernel, folder, argv, model, **asked, trial=True).wait()
        except CannotBoot:
            raise
        except (MachineError, OSError):
            return  # no room for one more guest says nothing of the others


def allow_open_files() -> None:
    """Let this process, and so a guest's kernel, open as many files as a run's programs may. Raises
    MachineError.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MIN_OPEN_FILES:
        if hard != resource.RLIM_INFINITY and hard < MIN_OPEN_FILES:
            raise MachineError(
                f"this process may have {hard} files open, and a guest's kernel needs"
                f" {MIN_OPEN_FILES}: ulimit -n 1024"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (MIN_OPEN_FILES, hard))


def why_not_started(kernel: Path, folder: Path, isolation: Isolation, error: Exception) -> str:
    """Why a kernel could not be executed, or not be held."""
    if not isinstance(error, OSError):
        said = read_log(folder)[-1:] or ["log.txt there says no more"]
        return f"{folder}: the host would not hold the sandbox in it ({isolation}): {said[0]}"
    if error.errno == errno.EACCES and os.access(kernel, os.R_OK):
        return (
            f"{kernel} cannot be executed: its file system is mounted noexec, or it has lost its"
            " mode: name a cache folder elsewhere with GOSTLAB_CACHE, and run ./lab setup"
        )
    return f"{kernel} cannot be executed: {error.strerror}: run ./lab setup"


def start_kernel(
    argv: list[str], folder: Path, memory: MemoryPlace, hold: Callable[[], None], *, terminal: bool
) -> subprocess.Popen[bytes]:
    """Start the guest's kernel, its console on log.txt or on the caller's terminal.

    hold  what becomes the kernel does this first, between fork and exec
    Raises OSError, or subprocess.SubprocessError if `hold` fails.
    """
    environ = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "TMPDIR": str(memory.folder),
    }
    # Between fork and exec nothing may wait for another thread: there is one.
    with signals_wait() as let_through:

        def first() -> None:
            let_through()
            hold()

        if terminal:
            return subprocess.Popen(argv, env=environ, preexec_fn=first)  # noqa: PLW1509
        return start_logged(argv, folder, environ, preexec_fn=first)


class Guest(TimedProcess):
    """A guest that runs. When it ends without having got to its end, `complaint` says why, where
    that can be told.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        limit_s: float,
        folder: Path,
        memory: MemoryPlace,
        modules: Sequence[Module] = (),
        *,
        of_work: bool = False,
        try_boot: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(process, limit_s, of_work=of_work)
        self._folder, self.memory, self._modules = folder, memory, modules
        self._try_boot = try_boot

    def poll(self) -> int | None:
        status = super().poll()
        if status is not None:
            self.memory.leave()
            said = "\n".join(read_log(self._folder)) if self.complaint is None else ""
            if any(words in said for words in NO_PROCESS):
                self.complaint, self.from_outside = NO_PROCESS_LEFT, True
            if self.complaint is None and not (self._folder / "exit").exists():
                cause = why_no_boot(status, self._folder, self.memory)
                if cause and self._try_boot is None:
                    raise CannotBoot(cause)
                self.complaint = why_it_ended(status, self.memory)
                if cause and self._try_boot is not None:
                    # A run's program, too, may write into the log what a kernel says.
                    self._try_boot()
                    told = f"its kernel ended, and other guests boot here ({cause})"
                    self.complaint = self._last_words() if self._modules else told
                elif self.complaint:
                    self.from_outside = True
                elif self._modules:
                    self.complaint = self._last_words()
        return status

    def _last_words(self) -> str:
        """What a kernel died of that had been given modules."""
        named = " and ".join(module.cc for module in self._modules)
        return f"the guest's kernel died with {named} in it: {last_kernel_words(self._folder)}"

    def kill(self) -> None:
        super().kill()
        self.memory.leave()


def why_no_boot(status: int, folder: Path, memory: MemoryPlace) -> str | None:
    """Why a guest's kernel did not get to its first process, by its exit status and what it said;
    None where neither tells.
    """
    said = "\n".join(read_log(folder))
    causes = [cause for words, cause in SAID_BY_THE_KERNEL.items() if words in said]
    if status == -signal.SIGSYS:
        causes.append(KILLED_BY_A_FILTER)
    return causes[0].format(memory=memory) if causes else None


def why_it_ended(status: int, memory: MemoryPlace) -> str | None:
    """Why a guest ended before its command did, by its exit status; None where that does not
    tell.
    """
    if status == -signal.SIGKILL:
        left = memory_left()
        return (
            f"killed from outside, as a rule for lack of memory ({left.limited_by} has"
            f" {left.free_mib} MiB left)"
        )
    return next(
        (cause.format(memory=memory) for number, cause in ENDED_BY.items() if status == -number),
        None,
    )


def sandbox_environ(extra: Mapping[str, str] = {}, root: OwnRoot | None = None) -> dict[str, str]:
    """The environment of a command in the guest."""
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "TMPDIR": "/tmp",
        "PYTHONPATH": PYTHON_PATH,
        **OF_PYTHON,
        **QUICK_IMPORTS,
        **(root.environ if root else {}),
        **extra,
    }


def start_run(
    kernel: Path,
    run: RunSpec,
    folder: Path,
    parts: Mapping[str, Any],
    keep: Sequence[Path],
    cpu: int,
    commit: str | None,
    *,
    prompt: str = "",
) -> TimedProcess:
    """Boot a guest that executes a run. prompt: the module that has the caller's terminal instead.
    Raises MachineError, MissingPart or OSError.
    """
    root = own_root(parts, run)
    if root is not None:
        parts = root.parts
    modules = modules_of(run, kernel)
    described = {module.cc: module.record for module in modules}
    handed = {**parts, "modules": described} if modules else dict(parts)
    if run.kernel != SHIPPED:
        handed["kernel"] = described_kernel(run.kernel, kernel)
    (folder / "parts.json").write_text(json.dumps(handed), encoding="utf-8")
    facts = host_facts(str(available_isolation()))
    if root is not None:
        facts["root"] = root.root.says()
    environ = {"GOSTLAB_COMMIT": json.dumps(commit), "GOSTLAB_HOST": json.dumps(facts)}
    if prompt:
        environ["TERM"] = os.environ.get("TERM", "dumb")
    return boot(
        kernel,
        folder,
        guest_argv(prompt or RUN, GUEST_FOLDER),
        MachineModel.of(run),
        environ=environ,
        keep=[CHECKOUT, *keep],
        cpu=cpu,
        limit_s=WEEK_S if prompt else sandbox.time_limit_s(run),
        terminal=bool(prompt),
        modules=modules,
        root=root,
        named=named_by_commands(run),
    )


def described_kernel(name: str, kernel: Path) -> dict[str, Any]:
    """What a run on a kernel that is not the shipped one must know of it."""
    lacks = kernel_named(name).lacks
    record = {key: value for key, value in kernel_record(kernel).items() if key in OF_A_KERNEL}
    return {**record, "name": name, "lacks": list(lacks)}


def modules_of(run: RunSpec, kernel: Path) -> list[Module]:
    """The congestion controls of a run that are modules, compiled. Raises MachineError."""
    try:
        found = [module_for(cc, kernel) for cc in run.congestion_controls]
    except CompileError as error:
        raise MachineError(f"a congestion control does not compile: {error}") from error
    except (BadInput, MissingPart, OSError) as error:
        raise MachineError(str(error)) from error
    return [module for module in found if module is not None]


def host_facts(isolation: str) -> dict[str, Any]:
    """The host as far as a real-clock result depends on it, and what kept the run from it; the
    container's image and a cluster's worker, where their makers have named them.
    """
    cpu = re.search(r"^model name\s*:\s*(.*?)\s*$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    named = {"image": os.environ.get("GOSTLAB_IMAGE"), "worker": os.environ.get("GOSTLAB_WORKER")}
    return {
        "kernel": os.uname().release,
        "cpu": cpu[1] if cpu else "unknown",
        "cpus": os.cpu_count(),
        "isolation": isolation,
        **{name: value for name, value in named.items() if value},
    }


# -- isolation


@cache
def available_isolation() -> Isolation:
    """The most that this host's kernel grants this process: tried once, in a child that ends with
    the question.
    """
    abi = landlock.abi()
    for isolation in (Isolation(True, abi), Isolation(False, abi)):
        with tempfile.TemporaryDirectory(prefix="gostlab-") as scratch:
            Path(scratch, ".uml").mkdir()
            child = os.fork()
            if child == 0:
                try:
                    folder = Path(scratch).resolve()
                    confine(isolation, folder, folder / ".uml", 1)
                    if isolation.namespaces and unfit(folder / ".uml", 0):
                        os._exit(1)
                    os._exit(0)
                except OSError:
                    os._exit(1)
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
                return isolation
    return Isolation(False, 0)


def settle(held: Callable[[], None], folder: Path, cpu: int, parent: int) -> None:
    """What becomes the sandbox, between fork and exec: on one CPU, as unpinned every guest system
    call would wake another core; held to its folder; and ended with its parent, whatever ends that.
    Raises OSError, said on stderr.
    """
    try:
        os.sched_setaffinity(0, {cpu})
        # A guest's kernel before 7.x has as much memory, and has it there, as the host's kernel
        # happens to place its heap: without this no run on it repeats. The later ones ask for it
        # themselves. A container's filter may refuse it.
        libc.personality(ctypes.c_ulong(ADDR_NO_RANDOMIZE))
        held()
        os.chdir(folder)  # as it is mounted by now: WORKING_FOLDER
        # Last, as a change of rights undoes it; and the parent may be gone by now.
        checked(libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), *UNUSED), "pdeathsig")
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
    seen: Sequence[Path] = (),
) -> None:
    """Hold this process and all that comes of it to one folder and that of its memory. Raises
    OSError.

    readable  all that it may read of the host (None: what its user may)
    seen      what must not be covered
    """
    if isolation.namespaces:
        enter_namespaces(folder, memory_mib)
        cover_sockets([folder, memory, *(readable or ()), *seen])
    drop_rights()
    if isolation.landlock:
        enter_landlock(isolation, folder, memory, readable)


def enter_namespaces(folder: Path, memory_mib: int) -> None:
    """Every mount read-only but the folder, a tmpfs for the memory, no network. A user who
    is not root gets it as the root of a user namespace that has nobody else, and loses that with
    the exec. Raises OSError.
    """
    kinds = landlock.CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC
    landlock.enter_namespaces(kinds, of_users=os.geteuid() != 0)
    set_mounts("/", AT_RECURSIVE, readonly=True)
    landlock.bind(folder, folder)
    set_mounts(str(folder), 0, readonly=False)
    mount_memory(os.fsencode(folder / ".uml"), memory_mib + MEMORY_SLACK_MIB)
    terminals, flags = b"/dev/pts", ctypes.c_ulong(MS_NOSUID)
    done = libc.mount(b"devpts", terminals, b"devpts", flags, b"ptmxmode=0666")
    checked(done, "/dev/pts")
    landlock.bind(Path("/dev/pts/ptmx"), Path("/dev/ptmx"))


def cover_sockets(needed: Iterable[Path]) -> None:
    """Cover the folder of the host's sockets (Docker's, D-Bus's), to which Landlock does not deny
    a connection, where nothing needed lies in it. Raises OSError.
    """
    if SOCKETS.is_dir() and not any(path.is_relative_to(SOCKETS) for path in needed):
        flags = ctypes.c_ulong(MS_RDONLY | MS_NOSUID | MS_NODEV)
        done = libc.mount(b"tmpfs", os.fsencode(SOCKETS), b"tmpfs", flags, b"mode=0755")
        checked(done, str(SOCKETS))


def mount_memory(where: bytes, size_mib: int) -> None:
    """A tmpfs for the guest's memory, in the host's large pages where it has some: 0.93 of the CPU
    time of a stream at 1 Gbit/s. Raises OSError.
    """
    for more in (",huge=always", ""):
        options = f"mode=0700,size={size_mib}M{more}".encode()
        flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV)
        done = libc.mount(b"tmpfs", where, b"tmpfs", flags, options)
        if done == 0 or ctypes.get_errno() != errno.EINVAL:
            break  # a kernel without large pages does not know the word
    checked(done, os.fsdecode(where))


def set_mounts(path: str, flags: int, *, readonly: bool) -> None:
    """mount_setattr(2): a mount, or with AT_RECURSIVE all below it, private and read-only or not.
    Raises OSError.
    """
    attributes = (ctypes.c_uint64 * 4)(
        MOUNT_ATTR_RDONLY * readonly, MOUNT_ATTR_RDONLY * (not readonly), MS_PRIVATE, 0
    )
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    at = AT_FDCWD, os.fsencode(path), ctypes.c_uint(flags)
    checked(libc.syscall(SYS_MOUNT_SETATTR, *at, attributes, size), path)


def drop_rights() -> None:
    """No program that is executed from here on gains rights (set-user-id), and root's are few.
    Raises OSError.
    """
    capability = 0
    while os.geteuid() == 0 and (
        capability in CAPABILITIES_KEPT
        or libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), *UNUSED) == 0
    ):
        capability += 1  # to the first that this kernel does not know
    gain_no_rights()


def enter_landlock(
    isolation: Isolation, folder: Path, memory: Path, readable: Sequence[Path] | None
) -> None:
    """Writing in the folder only, reading there and what is readable, no TCP, no signals to
    processes outside. Needs no_new_privs. Raises OSError.
    """
    rights = landlock.WRITING
    allowed: dict[Path, Sequence[str]] = {memory: IN_MEMORY, folder: IN_FOLDER}
    allowed |= dict.fromkeys((Path("/dev/ptmx"), Path("/dev/pts")), AT_TERMINALS)
    if readable is not None:
        rights = {**rights, **landlock.READING}
        more = (*allowed, *readable, *LIBRARIES, *ASKED)
        allowed = {path: (*allowed.get(path, ()), *READ) for path in more}
    landlock.enter(isolation.landlock, rights, allowed)
