"""The set-up: brings every part of the lab to this machine, once.

Debian's packages go where Debian puts them. Everything else stays in the lab's cache folder (see
gostlab.setup.parts) and is keyed by what it was made from, so that a second set-up only looks. A
set-up that was cut off goes on where it was. Nothing is started, and the machine's apt
configuration and sysctls stay.

Uses Python's own library alone: it runs before the packages are there.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from gostlab.declared import folders
from gostlab.declared.errors import BadInput
from gostlab.declared.tunnels import tunnel_packages
from gostlab.setup import archive, gosts, modules, parts, system
from gostlab.setup.iperf3_fetch import provide_iperf3
from gostlab.setup.kernel_build import provide_kernel
from gostlab.setup.relay_build import provide_relay
from gostlab.setup.unpacked import provide_tunnels
from gostlab.setup.workbench import (
    HashMismatch,
    SetupError,
    Workbench,
    last_complaint,
    locked,
    replacing,
    run_logged,
    write_json,
)

# -- what the lab is made of

LAB_PACKAGES = (
    "mininet iperf3 iproute2 ethtool iputils-ping procps wget python3-matplotlib python3-pandas"
    " python3-scipy python3-yaml python3-jinja2 python3-rich python3-jsonschema python3-pyroute2"
    " python3-pytest python3-argcomplete"
).split()
BUILD_PACKAGES = (
    "gcc libc6-dev make flex bison bc xz-utils patch"  # the sandbox's kernel
    " patchelf"  # the lab's own iperf3s
    " golang-go ca-certificates"  # the relay
).split()
TEST_PACKAGES = (
    "shellcheck python3-venv python3-pytest-xdist"
    " chromium"  # the report's page as people see it
    " python3-distributed openssl"  # a cluster, and its certificates
).split()
# What `./lab bench` counts and times this machine's own system calls with; without them it leaves
# those figures out.
BENCH_PACKAGES = ["linux-perf", "util-linux"]
# The same as programs and modules, for a machine that is not Debian's.
PROGRAMS = (
    "mnexec iperf3 tc ip ss ethtool ping sysctl wget gcc make flex bison bc xz patch patchelf go"
).split()
MODULES = "mininet matplotlib pandas scipy yaml jinja2 rich jsonschema pyroute2 pytest".split()

# Pinned, so that a new release of a checker turns nobody's build red.
TEST_TOOLS = ("ruff==0.17.5", "mypy==2.4.1", "types-PyYAML==6.0.12.20261113")

GOST_VERSION = "3.2.6"  # the version whose source and documents the relay was written from
RETRY_GOST_AFTER_S = 3600.0


# -- packages


def missing_packages(wanted: Sequence[str]) -> list[str]:
    """Those of Debian's packages that are not installed."""
    argv = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *wanted]
    return not_installed(
        wanted, subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    )


def not_installed(wanted: Sequence[str], dpkg_answer: str) -> list[str]:
    """Those that dpkg-query's answer does not call installed; it has lines like "flex installed",
    for some names several.
    """
    installed = {
        line.split()[0] for line in dpkg_answer.splitlines() if line.endswith(" installed")
    }
    return [name for name in wanted if name not in installed]


def wanted_packages(*extra: str) -> list[str]:
    """Debian's packages that lab, relay and kernel need, and the tunnels theirs, each once; and a
    `python`, which a stock Debian lacks, for `sudo python topo.py`.
    """
    python = [] if shutil.which("python") else ["python-is-python3"]
    return list(
        dict.fromkeys([*LAB_PACKAGES, *BUILD_PACKAGES, *tunnel_packages(), *python, *extra])
    )


def install_packages(bench: Workbench, *extra: str) -> str:
    """Install what is missing, and nothing recommended (Mininet's Open vSwitch would start a
    service).
    """
    wanted = wanted_packages(*extra)
    if shutil.which("dpkg-query") is None or shutil.which("apt-get") is None:
        missing = missing_programs()
        if missing:
            raise SetupError(
                "this machine has no apt-get; install these with its own package manager: "
                + ", ".join(missing)
            )
        return "no Debian here, but every program is there"
    missing = missing_packages(wanted)
    if not missing:
        return f"all {len(wanted)} are installed"
    log = bench.log("packages")
    bench.say(f"installing {' '.join(missing)}")
    install = ["install", "--yes", "--no-install-recommends", *missing]
    # A fresh image has no lists; old lists name files that the mirror has replaced.
    log.unlink(missing_ok=True)
    is_fresh = any(Path("/var/lib/apt/lists").glob("*_Packages*")) is False
    if is_fresh:
        _apt_get(["update"], log)
    try:
        _apt_get(install, log)
    except SetupError:
        if is_fresh:
            raise
        _apt_get(["update"], log)
        _apt_get(install, log)
    still_missing = missing_packages(missing)
    if still_missing:
        raise SetupError(
            f"apt-get did not install {' '.join(still_missing)}; its output is in {log}"
        )
    return f"installed {len(missing)} of {len(wanted)}"


def missing_programs() -> list[str]:
    """The programs and Python modules that the lab needs and that are not there."""
    search_path = os.environ.get("PATH", "") + ":" + parts.SYSTEM_PATH
    return [
        *(name for name in PROGRAMS if shutil.which(name, path=search_path) is None),
        *(f"Python's {name}" for name in MODULES if importlib.util.find_spec(name) is None),
    ]


def as_root_argv(is_root: bool, has_sudo: bool, is_terminal: bool) -> list[str]:
    """What to put before a command that needs root. Raises SetupError where nothing would do."""
    if is_root:
        return []
    if not has_sudo:
        raise SetupError(
            "packages are missing, and only root may install them: run ./lab setup as root once "
            "(or install sudo)"
        )
    return ["sudo"] if is_terminal else ["sudo", "--non-interactive"]


def _apt_get(arguments: list[str], log: Path) -> None:
    as_root = as_root_argv(os.geteuid() == 0, shutil.which("sudo") is not None, sys.stdin.isatty())
    apt = "env DEBIAN_FRONTEND=noninteractive apt-get --quiet -o DPkg::Lock::Timeout=300"
    argv = [*as_root, *apt.split(), *arguments]
    with open(log, "a", encoding="utf-8") as output:
        output.write(f"$ {' '.join(argv)}\n")
        output.flush()
        done = subprocess.run(
            argv,
            stdin=None if sys.stdin.isatty() else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        raise SetupError(f"apt-get {arguments[0]} failed: {last_complaint(log)} (all of it: {log})")


# -- iproute2


def provide_iproute2(bench: Workbench) -> str:
    """A private iproute2 where the system's is too old to set netem's seed."""
    found = parts.find_iproute2(bench.cache)
    if found.is_new_enough:
        return f"{found.version} ({'private to the lab' if found.dirs else 'the system has it'})"
    too_old = f"the system's iproute2 is {found.version}"
    oldest = _dotted(parts.OLDEST_IPROUTE2)
    mirror = archive.find_mirror()
    if mirror is None:
        raise SetupError(
            f"{too_old}, and there is no Debian mirror to take a newer one from: "
            f"install iproute2 {oldest} or newer"
        )
    # One from a newer suite may want libraries that this system does not have.

    def works(folder: Path) -> bool:
        return parts.look_at_iproute2(folder).is_new_enough

    candidate = unpack_private(bench, mirror, "iproute2", parts.OLDEST_IPROUTE2, works)
    if candidate is None:
        raise SetupError(f"{too_old}, and the mirror has none ≥ {oldest} that runs here")
    return f"{candidate.version} from {candidate.suite}, private to the lab"


def unpack_private(
    bench: Workbench,
    mirror: archive.Mirror,
    package: str,
    oldest: tuple[int, ...],
    works: Callable[[Path], bool],
) -> archive.Candidate | None:
    """Unpack one of Debian's packages for the lab alone, from the nearest suite whose version works
    here; None if none does.

    What is unpacked and not installed starts nothing and replaces nothing on the machine.
    """
    apt = archive.PrivateApt(bench.cache / "build" / "apt", mirror)
    # One suite at a time: the nearest one is the likeliest to run here.
    suites = [[suite] for group in archive.suite_groups(mirror.codename) for suite in group]
    for candidate in apt.look_for(archive.Wanted(package, package, oldest), suites, bench.say):
        bench.say(f"fetching {candidate}")
        file = apt.download(candidate, bench.cache / "build" / package)
        folder = bench.cache / package / _dotted(candidate.upstream)
        with replacing(folder) as unpacked:
            run_logged(["dpkg-deb", "--extract", file, unpacked], bench.log(package))
        shutil.rmtree(file.parent)
        if works(folder):
            return candidate
        shutil.rmtree(folder)
    bench.notes += apt.complaints
    return None


# -- web server


def provide_nginx(bench: Workbench) -> str:
    """The server of the download experiments: the system's nginx, else Debian's package unpacked
    for the lab alone.

    Not installed, because installing it starts a web server on the machine.
    """
    found = parts.find_nginx(bench.cache)
    if found is not None:
        return f"{parts.nginx_version(found)} ({found})"
    mirror = archive.find_mirror()
    if mirror is None:
        raise SetupError("there is no nginx, and no Debian mirror to take one from: install it")
    candidate = unpack_private(
        bench, mirror, "nginx", (1,), lambda _: parts.find_nginx(bench.cache) is not None
    )
    if candidate is None:
        raise SetupError("there is no nginx, and the mirror has none that runs here")
    return f"{candidate.version} from {candidate.suite}, private to the lab"


# -- tunnel programs


def provide_gost(bench: Workbench) -> str:
    """Fetch GOST, if its release page answers; the relay takes its place where it does not."""
    found = parts.find_parts()
    if found.gost is not None:
        return f"{found.gost_says} ({found.gost})"
    own_relay = "the lab's own relay is used; every result names it"
    failure = bench.cache / "gost" / "unreachable.json"
    unreachable = f"GOST's release page cannot be reached: {own_relay}"
    if failed_lately(failure, time.time()):
        return f"{unreachable} (tried within the hour)"
    bench.say("fetching")
    failure.parent.mkdir(exist_ok=True)
    try:
        added = gosts.add(GOST_VERSION, cache=bench.cache)
    except BadInput:
        return f"no release for {platform.machine()} is pinned: {own_relay}"
    except HashMismatch:
        raise
    except SetupError as error:
        write_json(failure, {"at": time.time(), "reason": str(error)})
        return unreachable
    failure.unlink(missing_ok=True)
    return f"{added.said} fetched"


def failed_lately(record: Path, now_s: float) -> bool:
    """Was a failure recorded less than an hour ago?"""
    at = (parts.read_json(record) or {}).get("at")
    return at is not None and 0 <= now_s - float(at) < RETRY_GOST_AFTER_S


# -- test tools


def provide_test_tools(bench: Workbench) -> str:
    """Ruff and mypy, which Debian 12 lacks or has too old, in a Python environment of their own."""
    folder = bench.cache / "tools"
    complete = folder / "complete"
    wanted = "\n".join(TEST_TOOLS)
    if complete.is_file() and complete.read_text(encoding="utf-8") == wanted:
        return f"{' '.join(TEST_TOOLS)} (installed before)"
    bench.say(f"installing {' '.join(TEST_TOOLS)}")
    log = bench.log("test-tools")
    shutil.rmtree(folder, ignore_errors=True)
    run_logged([sys.executable, "-m", "venv", folder], log)
    words = ["install", "--quiet", "--disable-pip-version-check", *TEST_TOOLS]
    run_logged([folder / "bin" / "pip", *words], log)
    complete.write_text(wanted, encoding="utf-8")
    return " ".join(TEST_TOOLS)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


# -- the whole

Step = Callable[[Workbench], str]


def steps(with_test: bool, with_gost: bool, with_bench: bool = False) -> dict[str, Step]:
    """The set-up's steps in their order."""
    extra = (*(TEST_PACKAGES if with_test else ()), *(BENCH_PACKAGES if with_bench else ()))

    def packages(bench: Workbench) -> str:
        return install_packages(bench, *extra)

    return {
        "packages": packages,
        "iproute2": provide_iproute2,
        "iperf3": provide_iperf3,
        "nginx": provide_nginx,
        "tunnels": provide_tunnels,
        "relay": provide_relay,
        **({"gost": provide_gost} if with_gost else {}),
        **({"test-tools": provide_test_tools} if with_test else {}),
        # The longest comes last: whatever else is wrong has been said by then.
        "kernel": provide_kernel,
        "congestion controls": provide_controls,
    }


def provide_controls(bench: Workbench) -> str:
    """Compile the lab's own congestion controls for the sandbox's kernel."""
    for kernel in parts.built_kernels(bench.cache):
        try:
            return modules.provide_shipped(kernel, bench.say)
        except (modules.CompileError, parts.MissingPart) as error:
            raise SetupError(str(error)) from error
    return "none: another kernel is named by GOSTLAB_KERNEL"


class Progress:
    """Says on standard output what the set-up does: a line per step, and how far a long one is."""

    def __init__(self, total: int, quiet: bool) -> None:
        self.total = total
        self.quiet = quiet
        self.is_terminal = sys.stdout.isatty()
        self._head = ""
        self._started = 0.0
        self._next_plain_line = 0.0

    def begin(self, number: int, name: str) -> None:
        self._head = f"[{number}/{self.total}] {name}: "
        self._started = time.monotonic()
        self._next_plain_line = self._started

    def say(self, text: str) -> None:
        """Overwritten on a terminal; elsewhere a line, but not more than one in half a minute."""
        if self.quiet:
            return
        now = time.monotonic()
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + (self._head + text)[:width], end="", flush=True)
        elif now >= self._next_plain_line:
            print(self._head + text, flush=True)
            self._next_plain_line = now + 30

    def end(self, text: str, word: str) -> None:
        if self.quiet and word == "ok":
            return
        took = time.monotonic() - self._started
        clear = "\r\033[K" if self.is_terminal else ""
        long = f", {took:.0f} s" if took >= 1 else ""
        print(f"{clear}{self._head}{text}  {word}{long}", flush=True)


def _hand_to_owner(cache: Path) -> None:
    """What root made in another user's cache folder (by sudo) becomes that user's."""
    owner = cache.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    for folder, _, files in os.walk(cache):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            if os.lstat(path).st_uid == 0:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def main(argv: Sequence[str] | None = None) -> int:
    """`./lab setup`. Exit status: 0 all is there, 1 a step failed, 2 bad arguments, 130
    interrupted.
    """
    every_step = list(steps(with_test=True, with_gost=True))
    parser = argparse.ArgumentParser(
        prog="lab setup",
        description="Bring every part of the lab to this machine. Run again, it only looks.",
        epilog="example: ./lab setup --only kernel --jobs 4",
    )
    add = parser.add_argument
    only_help = f"only this step (may be given again): {', '.join(every_step)}"
    add("--only", action="append", choices=every_step, metavar="STEP", help=only_help)
    jobs_help = "compile with so many processes (default: one per CPU)"
    add("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help=jobs_help)
    with_help = "test: what `make test` needs, too; bench: what `./lab bench` counts with"
    extras = ["test", "bench"]
    add("--with", dest="extras", action="append", default=[], choices=extras, help=with_help)
    system_help = f"as root: for all users of this machine, in {system.DEFAULT}"
    add("--system", action="store_true", help=system_help)
    add("--no-gost", action="store_true", help="do not fetch GOST")
    add("--no-kernel", action="store_true", help="no kernel: a run builds the one that it asks for")
    add("--quiet", action="store_true", help="say only what failed")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1:
        parser.error("--jobs must be at least 1")

    only = arguments.only or []
    chosen = steps(
        "test" in arguments.extras or "test-tools" in only,
        not arguments.no_gost,
        "bench" in arguments.extras,
    )
    if arguments.no_kernel:
        for name in ("kernel", "congestion controls"):
            del chosen[name]
    if only:
        chosen = {name: step for name, step in chosen.items() if name in only}
    progress = Progress(len(chosen), arguments.quiet)
    cache = folders.cache_folder()
    if arguments.system:
        shared = system.system_folder()
        if os.geteuid() != 0:
            parser.error("--system needs root: what all users run, nobody else may have written")
        if shared is None:
            parser.error("--system: GOSTLAB_SYSTEM is set to nothing: unset it, or name a folder")
        # What is made here is for everybody to read, whatever root's umask is.
        os.umask(0o022)
        cache = shared
    signal.signal(signal.SIGTERM, _exit_on_signal)
    try:
        for folder in ("log", "build"):
            (cache / folder).mkdir(parents=True, exist_ok=True)
        with locked(cache, print) as lock_fd:
            failed = _take_steps(
                chosen, progress, Workbench(cache, arguments.jobs, progress.say, lock_fd)
            )
            shutil.rmtree(cache / "build" / "apt", ignore_errors=True)
            if arguments.system:
                system.seal(cache)
            else:
                _hand_to_owner(cache)
    except KeyboardInterrupt:
        print("\nset-up: interrupted; the next one goes on from here", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"set-up: {error.filename or cache}: {error.strerror or error}", file=sys.stderr)
        return 1
    complaint = system.why_not_trusted(cache) if arguments.system else None
    if complaint:
        print(
            f"set-up: no user's lab will trust these parts: {complaint}: chown root, chmod go-w",
            file=sys.stderr,
        )
        return 1
    if failed:
        print(f"set-up: failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    if not arguments.quiet:
        print(f"set-up: {'done' if only else 'everything is there'} ({cache})")
    return 0


def _take_steps(chosen: dict[str, Step], progress: Progress, bench: Workbench) -> list[str]:
    """Take the steps in order; returns the names of those that failed."""
    failed: list[str] = []
    for number, (name, step) in enumerate(chosen.items(), 1):
        progress.begin(number, name)
        bench.notes.clear()
        try:
            progress.end(step(bench), "ok")
        except (SetupError, archive.ArchiveError) as error:
            progress.end("; ".join([str(error), *bench.notes]), "FAILED")
            failed.append(name)
            if name == "packages":  # the other steps are made with them
                break
    return failed


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
