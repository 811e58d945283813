"""Machines: where a run happens. Each starts a run in a folder and gives a Job to watch.

`sandbox` boots the lab's own kernel as an unprivileged process; `native` uses the host's kernel as
root.
"""

import gzip
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gostlab.errors import Complaint
from gostlab.install.locate import (
    RELAY,
    SYSTEM_PATH,
    MissingPart,
    Parts,
    file_sha256,
    find_program,
    kernel_for,
    tunnel_binary,
    why_not_through,
)
from gostlab.install.rootfs import Root, chosen_root
from gostlab.registry.folders import CODE
from gostlab.registry.iperf3_versions import OWN, SYSTEM
from gostlab.registry.kernels import SHIPPED
from gostlab.registry.programs import OF_FLOWS
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.spec.run_spec import RunSpec

# Mininet asks distutils to compare two versions, and setuptools answers in its place: 300 modules
# of setuptools in every run, if Python's own (until 3.12) is not requested.
CHECKOUT = CODE
QUICK_IMPORTS = {"SETUPTOOLS_USE_DISTUTILS": "stdlib"} if sys.version_info < (3, 12) else {}
RUN = "gostlab.guest.run"  # the module that executes one
# The folders that every guest has for itself (gostlab/sandbox/guest_init.py).
OWN_FOLDERS = ("/run", "/tmp", "/var/tmp", "/dev/shm")
# A run that works uses more CPU time than this in five minutes, even where others leave it little.
STANDSTILL_S = 0.1


class MachineError(Complaint):
    """A machine cannot be used here; the message says why and what to do."""


class CannotBoot(MachineError):
    """The sandbox's kernel does not get to its first process here, so no run would."""


class Job(Protocol):
    """A run that has been started."""

    def poll(self) -> int | None:
        """The exit status, None while it runs, ends it when its wall-clock limit has passed. Raises
        CannotBoot where that is why it ended, and a guest of the lab's own does not boot either.
        """

    def kill(self) -> None:
        """End it now and everything it started."""

    @property
    def from_outside(self) -> bool:
        """Whether what ended it has nothing to do with it: no memory, a limit, a kill."""

    @property
    def complaint(self) -> str | None:
        """Why the machine itself gave up, if it did."""


class TimedProcess:
    """A started process with a limit of time. `complaint` says why it was ended, if it was.

    limit_s  seconds of the wall clock; with `of_work`, of CPU time: a machine with other work, or
             one that stopped the process for a while, does not end it. Only one that has used no
             CPU at all for that long is ended by the wall clock.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], limit_s: float, *, of_work: bool = False
    ) -> None:
        self._process = process
        self._limit_s = limit_s
        self._of_work = of_work
        self._worked_s = 0.0
        self._deadline = time.monotonic() + limit_s
        self.complaint: str | None = None
        self.at_its_limit = False
        self.from_outside = False  # whether it was ended by what has nothing to do with it

    @property
    def group(self) -> int:
        """Its process group's number."""
        return self._process.pid

    def poll(self) -> int | None:
        """The process's exit status; None while it runs. Past its limit it is ended."""
        status = self._process.poll()
        if status is None and time.monotonic() > self._deadline:
            self.complaint = self._why_at_its_limit()
            if self.complaint is not None:
                self.at_its_limit = True
                self.kill()
                return self._process.returncode
        return status

    def _why_at_its_limit(self) -> str | None:
        """Why it is to be ended; None if it may go on, to the next deadline."""
        if not self._of_work:
            return f"ended after {self._limit_s:.0f} s by the wall clock, its limit"
        before_s, self._worked_s = self._worked_s, group_cpu_s(self._process.pid)
        if self._worked_s >= self._limit_s:
            return f"ended after {self._worked_s:.0f} s of CPU time, its limit"
        if self._worked_s - before_s < STANDSTILL_S:
            return f"ended: it did nothing for {self._limit_s:.0f} s by the wall clock"
        # It cannot use up what is left of its limit in less time than that.
        self._deadline = time.monotonic() + max(1.0, self._limit_s - self._worked_s)
        return None

    def wait(self) -> int:
        """Wait to the end, minding the limit; what ends the waiting ends it, too."""
        try:
            while self.poll() is None:
                time.sleep(0.01)
        finally:
            self.kill()
        return int(self._process.returncode)

    def kill(self) -> None:
        """End it now, and everything of it: a guest's processes end with its kernel, a native run's
        with the first process of their PID namespace.
        """
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:  # on the caller's terminal it has no group of its own
                self._process.kill()
        self._process.wait()


def group_cpu_s(group: int) -> float:
    """The CPU time, seconds, that a process group has used, with the ended children of those that
    still run.
    """
    ticks = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything; what follows it is numbers.
            words = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(words[2]) == group:
            ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Choice:
    """The machine that was taken, and why."""

    name: str
    reason: str


def has_netem(root: Path, release: str) -> bool:
    """Whether a kernel has sch_netem as far as the files under `root` say."""
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
    # =m without the module's file is of no use.
    return "CONFIG_NET_SCH_NETEM=y\n" in config


def host_has_netem() -> bool:
    """Whether this kernel has sch_netem, built in, loaded or loadable. Loads nothing."""
    if has_netem(Path("/"), platform.release()):
        return True
    # A kernel without a modules folder may have it built in: ask it, in a namespace that ends with
    # the question.
    if os.geteuid() != 0:
        return False
    asked = subprocess.run(
        ["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return asked.returncode == 0


def choose(asked: str) -> Choice:
    """native, sandbox or auto -> the machine to use. Raises MachineError if native is requested and
    cannot be.
    """
    root, netem = os.geteuid() == 0, host_has_netem()
    if asked == "native":
        if not root:
            raise MachineError(
                "--machine native needs root: use sudo, or --machine sandbox, which does not"
            )
        if not netem:
            raise MachineError(
                f"--machine native needs sch_netem, which this kernel ({platform.release()}) lacks:"
                " use --machine sandbox"
            )
        return Choice("native", "requested")
    if asked == "sandbox":
        return Choice("sandbox", "requested")
    if root and netem:
        return Choice("native", "root, and this kernel has netem")
    return Choice("sandbox", "this kernel has no netem" if not netem else "not root")


def hand_over(parts: Parts) -> dict[str, Any]:
    """parts.json: what a run needs to know of what set-up made, as plain data. Its `tunnel` is the
    program of GOST's tunnels, None where there is none, as is a program of flows.
    """
    of_flows = {name: find_program(name, parts.programs) for name in OF_FLOWS}
    binary = tunnel_binary(parts) if parts.gost or parts.relay else None
    return {
        "path_dirs": [str(path) for path in parts.iproute2.dirs],
        "tc_lib_dir": str(parts.iproute2.tc_lib_dir) if parts.iproute2.tc_lib_dir else None,
        "iperf3": {version: one.to_json() for version, one in parts.iperf3.items()},
        **{name: found and str(found.path) for name, found in of_flows.items()},
        "tunnel": binary and binary.to_json(),
        "gosts": {
            **({RELAY: tunnel_binary(parts, RELAY).to_json()} if parts.relay else {}),
            **{name: one.to_json() for name, one in parts.gosts.items()},
        },
        "programs": {name: one.to_json() for name, one in parts.programs.items()},
    }


def root_of(run: RunSpec) -> Root | None:
    """The root that a run's guest boots on; None: the host's files. Raises MissingPart."""
    return None if run.machine != "sandbox" or run.is_of_the_host else chosen_root()


def require_programs(runs: Iterable[RunSpec], parts: Parts) -> None:
    """Whether every run's root, iperf3 and tunnel's program are there. Raises MissingPart."""
    unlike: dict[tuple[Any, ...], RunSpec] = {}
    for run in runs:
        iperf3 = run.iperf3 if any(flow.traffic.by_iperf3 for flow in run.flows) else None
        nagle = run.tunnel_options.get("nagle")
        unlike[root_of(run), iperf3, run.tunnel, run.gost, nagle] = run
    for (root, iperf3, *_), run in unlike.items():
        require_programs_in(root, run, iperf3, parts)
    through_gost = (run.gost for run in unlike.values() if tunnel_kind(run.tunnel).program == GOST)
    for name in dict.fromkeys(through_gost):
        binary = tunnel_binary(parts, name)
        if file_sha256(binary.path) != binary.sha256:
            raise MissingPart(
                f"gost: {name}: {binary.path} is not what was added: ./lab gost add it again"
            )


def require_programs_in(root: Root | None, run: RunSpec, iperf3: str | None, parts: Parts) -> None:
    """The same for a run on a root, with an iperf3 if anything of it needs one."""
    path = root.search_path if root else search_path()
    own_iperf3s = root.record["iperf3"] if root else parts.iperf3
    if iperf3 == SYSTEM and shutil.which("iperf3", path=path) is None:
        raise MissingPart(
            "iperf3: system: no iperf3 is installed: install it, or ask for one of the lab's"
            f" own ({', '.join(OWN)})"
        )
    if iperf3 not in (None, SYSTEM, *own_iperf3s):
        raise MissingPart(
            f"iperf3: {iperf3}: the lab's own is not there: run ./lab setup, or ask for"
            " iperf3: system, whatever is installed"
        )
    kind = tunnel_kind(run.tunnel)
    if kind.program == GOST:
        binary = tunnel_binary(parts, run.gost)
        if why := why_not_through(kind, binary, parts.gosts, run.tunnel_options):
            raise MissingPart(why)
    for program in kind.programs:
        found = shutil.which(program, path=path) if root else find_program(program, parts.programs)
        if found is None:
            raise MissingPart(
                f"tunnel {run.tunnel}: its program {program} is not there: run ./lab setup"
            )


def require_kernels(runs: Iterable[RunSpec], parts: Parts) -> None:
    """Whether all kernels are there; the shipped one shows at its boot. Raises MissingPart."""
    asked = {run.kernel: None for run in runs if run.machine == "sandbox"}
    for name in (each for each in asked if each != SHIPPED):
        kernel_for(name, parts)


def search_path() -> str:
    """Where a run looks for programs."""
    return f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"


def kept_visible(parts: Parts) -> list[Path]:
    """The folders and files outside the checkout that a guest must see although it has its own
    /tmp and /run.
    """
    return [
        *([parts.relay.parent] if parts.relay else []),
        *([seen_with(parts.gost)] if parts.gost else []),
        *(one.path for one in parts.gosts.values()),
        *(one.path.parent for one in parts.iperf3.values()),
        *{one.path.parents[1] for one in parts.programs.values()},
        *parts.iproute2.dirs,
    ]


def seen_with(program: Path) -> Path:
    """What a guest must see of a user's own program: its folder, but for one that the guest has for
    itself, of which it sees the program alone.
    """
    return program if str(program.parent) in OWN_FOLDERS else program.parent


def start_logged(
    argv: Sequence[str], folder: Path, environ: Mapping[str, str], **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, what it says in a run's log.txt. Raises OSError."""
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
    """The command that has a module do what a folder describes."""
    return ["/usr/bin/python3", "-m", module, folder]


def time_limit_s(run: RunSpec) -> float:
    """How long a run may take before it is ended, far more than any should: seconds of CPU time on
    the virtual clock, of the wall clock on the real one.

    About 20 µs per full-size packet at the path's rate on the virtual clock with a cost, ten times
    that for safety; five times its length on the real clock; never less than five minutes.
    """
    rate_bps = max(run.path[name]["rate_bps"] or 0 for name in ("forward", "reverse"))
    packets = rate_bps / 12000 * run.length_s
    return float(
        max(300.0, 5 * run.length_s + 60, packets * 200e-6 if run.clock == "virtual" else 0.0)
    )


def usable_cpus() -> Sequence[int]:
    """The CPUs this process may use."""
    return sorted(os.sched_getaffinity(0))


def children_s() -> float:
    """CPU time of all processes so far that this one has started and seen end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
