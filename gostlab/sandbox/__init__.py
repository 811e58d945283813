# SPDX-License-Identifier: MIT
"""Start runs: each starter executes a run in a folder and returns a Job to watch.

`sandbox` boots the lab's own kernel as an unprivileged process; `native` uses the host's kernel as
root.
"""

import gzip
import math
import os
import platform
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from gostlab.errors import Complaint
from gostlab.install.locate import (
    RELAY,
    SYSTEM_PATH,
    MissingPart,
    Parts,
    TunnelBinary,
    explain_unusable_tunnel,
    file_sha256,
    find_program,
    kernel_for,
    tunnel_binary,
)
from gostlab.install.parts_json import PartsJson, TunnelJson
from gostlab.install.rootfs import GuestRoot, require_root
from gostlab.registry.file_copies import copy_of, digest_of_files
from gostlab.registry.folders import CODE
from gostlab.registry.installed_plugins import PLUGINS, guest_plugins_value
from gostlab.registry.iperf3_versions import OWN, SYSTEM
from gostlab.registry.kernels import SHIPPED
from gostlab.registry.traffic_programs import OF_FLOWS
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.spec.command_files import changed_programs
from gostlab.spec.run_spec import RunSpec

CHECKOUT = CODE
# Mininet compares two versions by distutils. Unless Python's own (until 3.12) is requested,
# setuptools replaces it, which costs every run the import of 300 modules.
QUICK_IMPORTS = {"SETUPTOOLS_USE_DISTUTILS": "stdlib"} if sys.version_info < (3, 12) else {}
RUN = "gostlab.guest.run"  # the module that executes a run
# Every guest has a tmpfs of its own at these paths (gostlab/sandbox/guest_init.py).
OWN_FOLDERS = ("/run", "/tmp", "/var/tmp", "/dev/shm")
# A working run uses more CPU time than this in five minutes, even on a busy machine.
STANDSTILL_CPU_S = 0.1
POLL_S = 0.02  # interval between two looks at a job that has no `end_fd`
MAX_WAIT_S = 0.5  # interval between two looks at any process, which may be at its time limit


class MachineError(Complaint):
    """An error that prevents using a machine here; the message has the reason and a remedy."""


class CannotBoot(MachineError):
    """An error that prevents the sandbox's kernel from reaching its first process here."""


class Job(Protocol):
    """A run that has been started.

    A job may also have `end_fd`: a file descriptor that becomes readable when the run ends.
    """

    def poll(self) -> int | None:
        """Return the exit status, or None while the run goes on; end it after its time limit.

        Raises CannotBoot if the kernel did not boot and a test guest does not boot either.
        """

    def kill(self) -> None:
        """End the run now, and every process that it started."""

    @property
    def from_outside(self) -> bool:
        """Return whether an external cause ended the run: no memory, a limit, a kill."""

    @property
    def complaint(self) -> str | None:
        """Return why the machine itself ended the run, None if it did not."""


class ChildProcess(Protocol):
    """A child of this process: a subprocess.Popen, or one that has another origin."""

    pid: int

    @property
    def returncode(self) -> int | None:
        """Return the exit status that is known, None if none is."""

    def poll(self) -> int | None:
        """Return the exit status, None while the process runs."""

    def wait(self) -> int:
        """Wait for the end, and return the exit status."""

    def kill(self) -> None:
        """Kill the process."""


class TimedProcess:
    """A started process with a time limit. `complaint` is the reason if it was ended.

    limit_s  seconds of the wall clock; with `of_work`, of CPU time: a busy machine, or one that was
             suspended, does not end the process. Only if it used no CPU time at all for that long
             does the wall clock end it.
    """

    def __init__(self, process: ChildProcess, limit_s: float, *, of_work: bool = False) -> None:
        self._process = process
        self._limit_s = limit_s
        self._of_work = of_work
        self._worked_s = 0.0
        self._deadline = time.monotonic() + limit_s
        self.complaint: str | None = None
        self.at_its_limit = False
        self.from_outside = False  # whether an external cause ended the process
        self.end_fd = open_pidfd(process.pid)
        if self.end_fd is not None:
            weakref.finalize(self, os.close, self.end_fd)

    @property
    def group(self) -> int:
        """Return the process group ID."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether the process has not ended yet, whatever its time limit."""
        return self._process.poll() is None

    def restart_limit(self, limit_s: float) -> None:
        """Set the time limit anew, from now on."""
        self._limit_s, self._deadline = limit_s, time.monotonic() + limit_s

    def poll(self) -> int | None:
        """Return the exit status, None while the process runs; end it after its limit."""
        status = self._process.poll()
        if status is None and time.monotonic() > self._deadline:
            self.complaint = self._why_at_its_limit()
            if self.complaint is not None:
                self.at_its_limit = True
                self.kill()
                return self._process.returncode
        return status

    def _why_at_its_limit(self) -> str | None:
        """Return why the process must end, or None after extending the deadline."""
        if not self._of_work:
            return f"ended after {self._limit_s:.0f} s by the wall clock, its limit"
        before_s, self._worked_s = self._worked_s, group_cpu_s(self._process.pid)
        if self._worked_s >= self._limit_s:
            return f"ended after {self._worked_s:.0f} s of CPU time, its limit"
        if self._worked_s - before_s < STANDSTILL_CPU_S:
            return f"ended: it did nothing for {self._limit_s:.0f} s by the wall clock"
        # The process cannot use up the rest of its CPU time in less wall-clock time.
        self._deadline = time.monotonic() + max(1.0, self._limit_s - self._worked_s)
        return None

    def wait(self) -> int:
        """Wait until the process ends, at its limit or on an exception at the latest."""
        try:
            while self.poll() is None:
                wait_for_end([self], MAX_WAIT_S)
        finally:
            self.kill()
        return int(self._process.wait())

    def kill(self) -> None:
        """End the process and all of its descendants.

        A guest's processes end with its kernel, those of a native run with the first process of
        their PID namespace.
        """
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (
                ProcessLookupError
            ):  # on the caller's terminal the process has no group of its own
                self._process.kill()
        self._process.wait()


def open_pidfd(pid: int) -> int | None:
    """Return a file descriptor that becomes readable when a process ends (pidfd_open(2)).

    None if the host's kernel (before Linux 5.3) or a filter of system calls denies it.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def wait_for_end(jobs: Iterable[Job], max_s: float, wake_fd: int | None = None) -> None:
    """Wait until a job may have ended, `wake_fd` is readable, or `max_s` seconds have passed.

    A job without `end_fd` may have ended after POLL_S.
    """
    end_fds = [getattr(job, "end_fd", None) for job in jobs]
    known = [fd for fd in (*end_fds, wake_fd) if fd is not None]
    poller = select.poll()  # select(2) takes no descriptor above 1023
    for fd in known:
        poller.register(fd, select.POLLIN)
    timeout_s = POLL_S if None in end_fds or not end_fds else max_s
    poller.poll(math.ceil(timeout_s * 1000))


def group_cpu_s(group: int) -> float:
    """Return the CPU time that a process group has used, in seconds.

    The time of ended children of running processes is included.
    """
    ticks = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The process name, in parentheses, may contain anything; only numbers follow it.
            fields = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # the process has just ended
            continue
        if int(fields[2]) == group:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class MachineChoice:
    """The chosen machine and the reason."""

    name: str
    reason: str


def has_netem(root: Path, release: str) -> bool:
    """Return whether the files under `root` show that the kernel has sch_netem."""
    if (root / "sys/module/sch_netem").is_dir():
        return True
    for name in ("modules.builtin", "modules.dep"):
        try:
            if "/sch_netem.ko" in (root / "lib/modules" / release / name).read_text("utf-8"):
                return True
        except OSError:
            continue
    try:
        config = gzip.decompress((root / "proc/config.gz").read_bytes()).decode()
    except OSError:
        return False
    # With =m, netem needs the module file, which was looked for above.
    return "CONFIG_NET_SCH_NETEM=y\n" in config


def host_has_netem() -> bool:
    """Return whether this kernel has sch_netem, built in, loaded or loadable. Loads nothing."""
    if has_netem(Path("/"), platform.release()):
        return True
    # A kernel without a modules folder may have netem built in: add a qdisc in a temporary network
    # namespace.
    if os.geteuid() != 0:
        return False
    process = subprocess.run(
        ["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return process.returncode == 0


def choose_machine(requested: str) -> MachineChoice:
    """Return the machine for a request: native, sandbox or auto.

    Raises MachineError if native is requested and not possible.
    """
    if requested == "sandbox":  # without asking the kernel for netem, which may start a process
        return MachineChoice("sandbox", "requested")
    root, netem = os.geteuid() == 0, host_has_netem()
    if requested == "native":
        if not root:
            raise MachineError(
                "--machine native needs root: use sudo, or --machine sandbox, which does not"
            )
        if not netem:
            raise MachineError(
                f"--machine native needs sch_netem, which this kernel ({platform.release()}) lacks:"
                " use --machine sandbox"
            )
        return MachineChoice("native", "requested")
    if root and netem:
        return MachineChoice("native", "root, and this kernel has netem")
    return MachineChoice("sandbox", "this kernel has no netem" if not netem else "not root")


def tunnel_json(binary: TunnelBinary) -> TunnelJson:
    return cast(TunnelJson, binary.to_json())


def build_parts_json(parts: Parts) -> PartsJson:
    """Return the content of parts.json: the programs that a run needs, as plain data.

    `tunnel`, the program of GOST's tunnels, is None if there is none, and so is a missing program
    of flows.
    """
    programs = {name: find_program(name, parts.programs) for name in OF_FLOWS}
    paths = {name: str(program.path) if program else None for name, program in programs.items()}
    binary = tunnel_binary(parts) if parts.gost or parts.relay else None
    return {
        "path_dirs": [str(path) for path in parts.iproute2.dirs],
        "tc_lib_dir": str(parts.iproute2.tc_lib_dir) if parts.iproute2.tc_lib_dir else None,
        "iperf3": {version: one.to_json() for version, one in parts.iperf3.items()},
        "nginx": paths["nginx"],
        "irtt": paths["irtt"],
        "tunnel": tunnel_json(binary) if binary else None,
        "gosts": {
            **({RELAY: tunnel_json(tunnel_binary(parts, RELAY))} if parts.relay else {}),
            **{name: tunnel_json(gost) for name, gost in parts.gosts.items()},
        },
        "programs": {name: one.to_json() for name, one in parts.programs.items()},
    }


def root_of_run(run: RunSpec) -> GuestRoot | None:
    """Return the root of a run's guest, None for the host's files. Raises MissingPart."""
    return None if run.machine != "sandbox" or run.needs_host_files else require_root()


def require_programs(runs: Iterable[RunSpec], parts: Parts) -> None:
    """Check that every run's root, iperf3 and tunnel program exist. Raises MissingPart."""
    distinct: dict[tuple[Any, ...], RunSpec] = {}
    for run in runs:
        iperf3 = run.iperf3 if any(flow.traffic.by_iperf3 for flow in run.flows) else None
        nagle = run.tunnel_options.get("nagle")
        distinct[root_of_run(run), iperf3, run.tunnel, run.gost_program, nagle] = run
    for (root, iperf3, *_), run in distinct.items():
        require_programs_in(root, run, iperf3, parts)
    through_gost = (
        run.gost_program for run in distinct.values() if tunnel_kind(run.tunnel).program == GOST
    )
    for name in dict.fromkeys(through_gost):
        binary = tunnel_binary(parts, name)
        if file_sha256(binary.path) != binary.sha256:
            raise MissingPart(
                f"gost: {name}: {binary.path} is not what was added: ./lab gost add it again"
            )


def require_programs_in(
    root: GuestRoot | None, run: RunSpec, iperf3: str | None, parts: Parts
) -> None:
    """Check the programs of one run on a root. Raises MissingPart."""
    path = root.search_path if root else search_path()
    bundled_iperf3s = root.record["iperf3"] if root else parts.iperf3
    if iperf3 == SYSTEM and shutil.which("iperf3", path=path) is None:
        raise MissingPart(
            "iperf3: system: no iperf3 is installed: install it, or ask for one of the lab's"
            f" own ({', '.join(OWN)})"
        )
    if iperf3 not in (None, SYSTEM, *bundled_iperf3s):
        raise MissingPart(
            f"iperf3: {iperf3}: the lab's own is not there: run ./lab setup, or ask for"
            " iperf3: system, whatever is installed"
        )
    declaration = tunnel_kind(run.tunnel)
    if declaration.program == GOST:
        binary = tunnel_binary(parts, run.gost_program)
        if reason := explain_unusable_tunnel(declaration, binary, parts.gosts, run.tunnel_options):
            raise MissingPart(reason)
    for program in declaration.programs:
        location = (
            shutil.which(program, path=path) if root else find_program(program, parts.programs)
        )
        if location is None:
            raise MissingPart(
                f"tunnel {run.tunnel}: its program {program} is not there: run ./lab setup"
            )


def require_own_files(run: RunSpec) -> dict[str, Path]:
    """Return the folder of each command flow's own files, by the flow's name.

    Raises MachineError if a program or a file is not what the run was compiled with.
    """
    flows = [flow for flow in run.flows if flow.programs or flow.files]
    for flow in flows:
        if changed := changed_programs([flow.server, flow.client], flow.programs, flow.files):
            raise MachineError(f"{run.name}: {flow.name}: {changed}: ask for the run again here")
    return {flow.name: copy_of(digest_of_files(flow.files)) for flow in flows if flow.files}


def require_plugins(run: RunSpec) -> dict[str, Path]:
    """Return the folders of a run's plugins of other packages, by a name for each.

    Raises MachineError if one is not on this machine as the run was compiled with it.
    """
    for plugin in run.plugins:
        if not plugin.folder.is_dir():
            raise MachineError(
                f"{run.name}: plugin {plugin} is not on this machine as the run was asked for"
                f" ({plugin.sha256}): install it, and ask for the run again here"
            )
    return {f"plugin-{plugin.sha256}": plugin.folder for plugin in run.plugins}


def plugin_environ(run: RunSpec, python_path: str, folders: Sequence[str]) -> dict[str, str]:
    """Return the variables by which a run's Python finds its plugins, none without one."""
    if not run.plugins:
        return {}
    paths = os.pathsep.join([python_path, *folders])
    return {"PYTHONPATH": paths, PLUGINS: guest_plugins_value(run.plugins)}


def require_kernels(runs: Iterable[RunSpec], parts: Parts) -> None:
    """Check that all kernels exist but the shipped one, checked by its boot. Raises MissingPart."""
    requested = {run.kernel: None for run in runs if run.machine == "sandbox"}
    for name in (name for name in requested if name != SHIPPED):
        kernel_for(name, parts)


def search_path() -> str:
    """Return the PATH in which a run looks for programs."""
    return f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"


def visible_paths(parts: Parts) -> list[Path]:
    """Return the paths outside the checkout that a guest must see.

    A guest has its own /tmp and /run, which would cover them.
    """
    return [
        *([parts.relay.parent] if parts.relay else []),
        *([visible_path(parts.gost)] if parts.gost else []),
        *(one.path for one in parts.gosts.values()),
        *(one.path.parent for one in parts.iperf3.values()),
        *{one.path.parents[1] for one in parts.programs.values()},
        *parts.iproute2.dirs,
    ]


def visible_path(program: Path) -> Path:
    """Return the path that a guest must see of a user's own program.

    It is the program's folder, or the program alone if the guest has a tmpfs at that folder.
    """
    return program if str(program.parent) in OWN_FOLDERS else program.parent


def start_logged(
    argv: Sequence[str], folder: Path, environ: Mapping[str, str], **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, its output in a run's log.txt. Raises OSError."""
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            argv,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )


def guest_argv(module: str, folder: str) -> list[str]:
    """Return the command that runs a module on a folder."""
    return ["/usr/bin/python3", "-m", module, folder]


def time_limit_s(run: RunSpec) -> float:
    """Return the time limit of a run: CPU time on the virtual clock, else wall-clock time.

    It is far more than a run needs. On the virtual clock with a CPU cost, a full-size packet takes
    about 20 µs at the path's rate; ten times that for safety. On the real clock it is five times
    the run's length. It is never less than five minutes.
    """
    rate_bps = max(direction.rate_bps or 0 for direction in run.path)
    packets = rate_bps / 12000 * run.length_s
    return float(
        max(300.0, 5 * run.length_s + 60, packets * 200e-6 if run.clock == "virtual" else 0.0)
    )


def usable_cpus() -> Sequence[int]:
    """Return the CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def children_cpu_s() -> float:
    """Return the CPU time of all ended children of this process, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
