# SPDX-License-Identifier: MIT
"""Set up the lab: install every part on this machine, once.

Debian's packages are installed in the usual way. Everything else is in the lab's cache folder (see
gostlab.install.locate), keyed by its inputs, so that a second set-up only checks. An interrupted
set-up resumes where it stopped. No service is started, and the machine's apt configuration and
sysctls are unchanged.

Only Python's standard library is imported: the set-up runs before the packages are installed.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from gostlab import startup
from gostlab.atomic_write import write_json
from gostlab.errors import BadInput
from gostlab.install import apt as archive
from gostlab.install import (
    build_tools,
    gost_versions,
    kernel_modules,
    kernels,
    locate,
    shared_install,
    venvs,
)
from gostlab.install.build_env import (
    HashMismatch,
    InstallContext,
    SetupError,
    lock_folder,
    replaced_folder,
    run_logged,
)
from gostlab.install.deb_extract import provide_iperf3, provide_programs
from gostlab.install.kernel_build import provide_kernel
from gostlab.install.relay_build import provide_relay
from gostlab.install.rootfs import MACHINE, provide_root
from gostlab.install.task_graph import InstallProgress, SetupStep, run_steps
from gostlab.registry import folders, run_requirements
from gostlab.registry.kernels import SHIPPED
from gostlab.registry.run_requirements import RunRequirements
from gostlab.registry.tunnels import tunnel_packages

# -- the packages and tools

# Packages of runs on this machine's kernel; their Python is the machine's.
LAB_PACKAGES = ("mininet iperf3 iproute2 ethtool iputils-ping procps wget python3-yaml").split()
# Packages for building the sandbox's kernel, installed in a few seconds so that the build begins
# early.
TOOL_PACKAGES = "gcc libc6-dev make flex bison bc xz-utils patch".split()
BUILD_PACKAGES = [
    *TOOL_PACKAGES,
    "patchelf",  # sets the loader of the lab's own iperf3s
    *("golang-go", "ca-certificates"),  # build the relay
]
TEST_PACKAGES = (
    "python3-seccomp chromium chromium-driver"  # the latter render the report's page
    " openssl rsync openssh-client ngtcp2-client ngtcp2-server"  # programs for flows
    " gpg gpg-agent"  # sign a mirror with its own key
).split()
# Tools with which `./lab bench` counts and times system calls; without them it omits these metrics.
BENCH_PACKAGES = ["linux-perf", "util-linux"]
# The programs and Python modules of these packages, for a machine that does not run Debian.
PROGRAMS = (
    "mnexec iperf3 tc ip ss ethtool ping sysctl wget gcc make flex bison bc xz patch patchelf go"
).split()
MODULES = "mininet yaml".split()

GOST_VERSION = "3.2.6"  # the version that the relay was written after
RETRY_GOST_AFTER_S = 3600.0


# -- packages


def missing_packages(wanted: Sequence[str]) -> list[str]:
    """Return those Debian packages that are not installed."""
    argv = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *wanted]
    return not_installed(wanted, subprocess.run(argv, capture_output=True, text=True).stdout)


def not_installed(wanted: Sequence[str], dpkg_answer: str) -> list[str]:
    """Return the packages that dpkg-query's output ("flex installed") does not list."""
    installed = {
        line.split()[0] for line in dpkg_answer.splitlines() if line.endswith(" installed")
    }
    return [name for name in wanted if name not in installed]


def wanted_packages(*extra: str) -> list[str]:
    """Return the Debian packages of the lab, the relay, the kernel and the tunnels, each once.

    A stock Debian lacks a `python`, which `sudo python topo.py` needs.
    """
    python = [] if shutil.which("python") else ["python-is-python3"]
    return list(
        dict.fromkeys([*LAB_PACKAGES, *BUILD_PACKAGES, *tunnel_packages(), *python, *extra])
    )


def install_packages(bench: InstallContext, wanted: Sequence[str]) -> str:
    """Install missing packages without recommended ones: Open vSwitch would start a service."""
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
    log.unlink(missing_ok=True)
    try:
        _apt_get(install, log)
    except SetupError:
        # A fresh image has no lists; old lists name files that the mirror has replaced.
        _apt_get(["update"], log)
        _apt_get(install, log)
    still_missing = missing_packages(missing)
    if still_missing:
        raise SetupError(
            f"apt-get did not install {' '.join(still_missing)}; its output is in {log}"
        )
    return f"installed {len(missing)} of {len(wanted)}"


def missing_programs() -> list[str]:
    """Return the programs and Python modules that the lab needs and that are missing."""
    search_path = os.environ.get("PATH", "") + ":" + locate.SYSTEM_PATH
    return [
        *(name for name in PROGRAMS if shutil.which(name, path=search_path) is None),
        *(f"Python's {name}" for name in MODULES if importlib.util.find_spec(name) is None),
    ]


def _apt_get(arguments: list[str], log: Path) -> None:
    """Run apt-get and append its output to the log. Raises SetupError."""
    argv = ["apt-get", *arguments, "--quiet", "--option", "DPkg::Lock::Timeout=300"]
    stdin = None if sys.stdin.isatty() else subprocess.DEVNULL
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run_logged(argv, log, environment=environment, stdin=stdin, mode="a")


# -- iproute2


def provide_iproute2(bench: InstallContext) -> str:
    """Unpack a private iproute2 if the system's is too old to set netem's seed.

    It is from the nearest suite whose version runs here: one from a newer suite may need libraries
    that are missing.
    """
    installed = locate.find_iproute2(bench.cache)
    if installed.is_new_enough:
        origin = "private to the lab" if installed.dirs else "the system has it"
        return f"{installed.version} ({origin})"
    too_old = f"the system's iproute2 is {installed.version}"
    oldest = locate.format_version(locate.OLDEST_IPROUTE2)
    apt = archive.private_apt(
        bench.apt_folder, "iproute2", f" ({too_old}): install {oldest} or newer"
    )
    # Read one suite at a time: the nearest one is the likeliest to run here.
    suites = [[suite] for group in archive.suite_groups(apt.mirror.codename) for suite in group]
    for candidate in apt.find_matching("iproute2", locate.OLDEST_IPROUTE2, suites, bench.say):
        bench.say(f"fetching {candidate}")
        file = apt.download(candidate, bench.cache / "build" / "iproute2")
        folder = bench.cache / "iproute2" / locate.format_version(candidate.upstream)
        with replaced_folder(folder) as unpacked:
            run_logged(["dpkg-deb", "--extract", file, unpacked], bench.log("iproute2"))
        shutil.rmtree(file.parent)
        if locate.inspect_iproute2(folder).is_new_enough:
            return f"{candidate.version} from {candidate.suite}, private to the lab"
        shutil.rmtree(folder)
    bench.notes += apt.complaints
    raise SetupError(f"{too_old}, and the mirror has none ≥ {oldest} that runs here")


# -- tunnel programs


def provide_gost(bench: InstallContext) -> str:
    """Fetch GOST if its release page is reachable; otherwise the relay is used."""
    parts = locate.find_parts()
    if parts.gost is not None:
        return f"{parts.gost_says} ({parts.gost})"
    own_relay = "the lab's own relay is used; every result names it"
    failure = bench.cache / "gost" / "unreachable.json"
    unreachable = f"GOST's release page cannot be reached: {own_relay}"
    if failed_lately(failure, time.time()):
        return f"{unreachable} (tried within the hour)"
    bench.say("fetching")
    failure.parent.mkdir(exist_ok=True)
    try:
        added = gost_versions.add_gost(GOST_VERSION, cache=bench.cache)
    except BadInput:
        return f"no release for {platform.machine()} is pinned: {own_relay}"
    except HashMismatch:
        raise
    except SetupError as error:
        write_json(failure, {"at": time.time(), "reason": str(error)})
        return unreachable
    failure.unlink(missing_ok=True)
    return f"{added.version} fetched"


def failed_lately(record: Path, now_s: float) -> bool:
    """Return whether a failure was recorded less than an hour ago."""
    at = (locate.read_json(record) or {}).get("at")
    return at is not None and 0 <= now_s - float(at) < RETRY_GOST_AFTER_S


# -- the task list


def setup_steps(
    wanted: RunRequirements | None = None, extra: Sequence[str] = (), *, with_gost: bool = True
) -> list[SetupStep]:
    """Return the set-up's tasks.

    wanted  what runs need (None: everything)
    extra   test: what `make test` needs; bench: what `./lab bench` counts with; site: what
            `make results` builds with; dask: what a cluster needs
    """
    is_everything = wanted is None
    wanted = wanted or run_requirements.everything()
    with_tests, is_root = "test" in extra, os.geteuid() == 0
    with_go = bool({locate.AUTO, locate.RELAY} & set(wanted.gosts))
    tasks: list[SetupStep] = []

    def add(
        name: str,
        function: Callable[..., str],
        /,
        *needs: str,
        after: Sequence[str] = (),
        **options: Any,
    ) -> None:
        tasks.append(SetupStep(name, partial(function, **options), (*needs, *after), needs))

    if is_root:
        extra_packages = [*TEST_PACKAGES] if with_tests else []
        extra_packages += BENCH_PACKAGES if "bench" in extra else []
        add("tools", install_packages, wanted=TOOL_PACKAGES)
        add("packages", install_packages, "tools", wanted=wanted_packages(*extra_packages))
    else:
        add("tools", build_tools.provide_build_tools, with_go=with_go or with_tests)
    if not folders.IS_PACKAGE:  # pip has installed a package's
        add("python", venvs.provide_python, groups=venvs.GROUPS if with_tests else extra)
    on_own_root = wanted.root and platform.machine() == MACHINE
    on_files = is_root or with_tests  # native runs use this machine's files
    if on_own_root and not (on_files and is_everything):
        # The root has every program of a run; a run on this machine's files checks when it begins.
        wanted = replace(wanted, iperf3s=(), tunnels=(), programs=())
    if on_files or wanted.iproute2 or not on_own_root:
        add("iproute2", provide_iproute2, "packages")
    if wanted.iperf3s:
        add("iperf3", provide_iperf3, "packages", versions=wanted.iperf3s)
    if wanted.tunnels or wanted.programs:
        of = {"tunnels": wanted.tunnels, "of_flows": wanted.programs}
        add("tunnels", provide_programs, "packages", **of)
    if with_gost and locate.AUTO in wanted.gosts:
        add("gost", provide_gost)
    if with_go:
        builders = "packages" if is_root else "tools"  # these install Go
        wants_relay = locate.RELAY in wanted.gosts
        add("relay", relay_if_needed, builders, after=["gost"], asked=wants_relay)
    if with_tests:
        add("test-tools", venvs.provide_tools)
    if {"root", "test"} & set(extra) or on_own_root:
        add("root", provide_root)
    before: list[str] = []
    for name in wanted.kernels:  # builds are sequential, each with all CPUs
        if name == SHIPPED:
            add("kernel", provide_kernel, "tools", after=before)
        elif name in kernels.declared_names():
            add(f"kernel {name}", provide_version, "tools", after=before, name=name)
        else:  # a user's kernel exists, or the run reports it as missing
            continue
        before = [tasks[-1].name]
    if is_everything:  # otherwise a run compiles the congestion controls that it loads
        add("congestion controls", provide_controls, "kernel")
    return tasks


def provide_version(bench: InstallContext, name: str) -> str:
    """Build a declared version of Linux. Raises SetupError."""
    kernel = kernels.add_kernel(bench, name)
    how = "built before" if kernel.build_s is None else f"built in {kernel.build_s:.0f} s"
    return f"{kernel.version} ({how})"


def relay_if_needed(bench: InstallContext, asked: bool) -> str:
    """Build the relay unless there is a GOST and the relay is not requested."""
    parts = locate.find_parts()
    if parts.gost is not None and not asked:
        return f"not needed: {parts.gost_says} is there"
    return provide_relay(bench)


def provide_controls(bench: InstallContext) -> str:
    """Compile the lab's own congestion controls for the sandbox's kernel."""
    for kernel in locate.built_kernels(bench.cache):
        try:
            return kernel_modules.provide_shipped(kernel, bench.jobs, bench.say)
        except (kernel_modules.CompileError, locate.MissingPart) as error:
            raise SetupError(str(error)) from error
    return "none: another kernel is named by GOSTLAB_KERNEL"


def run_locked(
    chosen: Sequence[SetupStep], cache: Path, jobs: int, *, quiet: bool, out: TextIO | None = None
) -> dict[str, str]:
    """Run tasks under the set-up's lock; return why some failed, by name. Raises OSError."""
    for folder in ("log", "build"):
        (cache / folder).mkdir(parents=True, exist_ok=True)
    progress = InstallProgress(len(chosen), quiet, out)
    if build_tools.build_path() not in os.get_exec_path():
        os.environ["PATH"] = os.pathsep.join([*os.get_exec_path(), build_tools.build_path()])
    with lock_folder(cache, partial(print, file=out or sys.stdout, flush=True)) as lock_fd:
        try:
            return run_steps(chosen, progress, InstallContext(cache, jobs, print, lock_fd))
        finally:
            for apt in (cache / "build").glob("apt-*"):
                shutil.rmtree(apt, ignore_errors=True)
            _restore_ownership(cache)


def needs_of(experiment: str, cache: Path, *, quick: bool) -> RunRequirements:
    """Return what an experiment needs, computed by the environment's Python.

    `try` is an ad-hoc experiment. Raises SetupError.
    """
    if experiment == "try":
        return run_requirements.A_QUESTION
    python = sys.executable if folders.IS_PACKAGE else cache / venvs.PYTHON / "bin/python"
    args = ["-m", "gostlab.spec.requirements", experiment, *(["--quick"] if quick else [])]
    process = subprocess.run(
        [python, "-P", *args],
        env={**os.environ, "PYTHONPATH": str(folders.ROOT)},
        capture_output=True,
        text=True,
    )
    if process.returncode != 0:
        raise SetupError((process.stderr.strip().splitlines() or [f"{experiment}: unreadable"])[-1])
    return run_requirements.from_json(json.loads(process.stdout))


def _restore_ownership(cache: Path) -> None:
    """Change the owner of files that root (by sudo) created in another user's cache folder."""
    owner = cache.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    for folder, _, files in os.walk(cache):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            if os.lstat(path).st_uid == 0:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `./lab setup`: 0 success, 1 a task failed, 2 bad arguments, 130 interrupted."""
    arguments = read_arguments(argv)
    cache = folders.cache_folder()
    if arguments.system:
        # All users read these files, whatever root's umask is.
        os.umask(0o022)
        cache = shared_install.system_folder() or cache
    startup.raise_on_interrupt()
    signal.signal(signal.SIGTERM, _exit_on_signal)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        # The tasks are not in the terminal's process group, so they get no SIGHUP.
        signal.signal(signal.SIGHUP, _exit_on_signal)
    began = time.monotonic()
    try:
        failed = run_requested_tasks(arguments, cache)
        if arguments.system:
            shared_install.seal_folder(cache)
            if complaint := shared_install.why_not_trusted(cache):
                advice = "chown root, chmod go-w"
                raise SetupError(f"no user's lab will trust these parts: {complaint}: {advice}")
        if failed:
            raise SetupError(f"failed: {', '.join(failed)}")
    except KeyboardInterrupt:
        print("\nset-up: interrupted; the next one goes on from here", file=sys.stderr)
        return 130
    except (SetupError, locate.MissingPart) as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"set-up: {error.filename or cache}: {error.strerror or error}", file=sys.stderr)
        return 1
    if not arguments.quiet:
        scope = "everything" if not (arguments.only or arguments.experiment) else "what was asked"
        print(f"set-up: {scope} is there, {time.monotonic() - began:.0f} s ({cache})")
    return 0


def read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments of `./lab setup`; exit with 2 for a wrong one."""
    names = ["tools", "packages", *(step.name for step in setup_steps(extra=["test", "root"]))]
    parser = argparse.ArgumentParser(
        prog="lab setup",
        description="Bring the parts of the lab to this machine. Run again, it only looks.",
        epilog="example: ./lab setup --for thesis-tunnel --quick",
    )
    add = parser.add_argument
    for_help = "only what this experiment's runs need (try: what ./lab try needs)"
    add("--for", dest="experiment", metavar="EXPERIMENT", help=for_help)
    add("--quick", action="store_true", help="with --for: of its quick form")
    only_help = f"only this step (may be given again): {', '.join(dict.fromkeys(names))}"
    add(
        "--only",
        action="append",
        default=[],
        choices=dict.fromkeys(names),
        metavar="STEP",
        help=only_help,
    )
    jobs_help = "compile with so many processes (default: one per CPU)"
    add("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help=jobs_help)
    with_help = (
        "test: what `make test` needs, too; bench: what `./lab bench` counts with; site: what"
        " `make results` builds the site with; dask: what `./lab run --dask` needs (worst: no"
        " more than the default)"
    )
    extras = ["test", "bench", "site", "dask", "worst"]
    add("--with", dest="extras", action="append", default=[], choices=extras, help=with_help)
    system_help = f"as root: for all users of this machine, in {shared_install.DEFAULT}"
    add("--system", action="store_true", help=system_help)
    add("--no-gost", action="store_true", help="do not fetch GOST")
    add("--quiet", action="store_true", help="say only what failed")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1:
        parser.error("--jobs must be at least 1")
    if arguments.quick and not arguments.experiment:
        parser.error("--quick goes with --for EXPERIMENT")
    if arguments.system and os.geteuid() != 0:
        parser.error("--system needs root: what all users run, nobody else may have written")
    if arguments.system and shared_install.system_folder() is None:
        parser.error("--system: GOSTLAB_SYSTEM is set to nothing: unset it, or name a folder")
    return arguments


def run_requested_tasks(arguments: argparse.Namespace, cache: Path) -> dict[str, str]:
    """Run the requested tasks; return the failed ones. Raises SetupError, OSError."""
    jobs, quiet, only = arguments.jobs, arguments.quiet, arguments.only
    if os.geteuid() != 0:  # an ordinary user's only packages are Python's
        only = ["python" if name == "packages" else name for name in only]
    ours = {"test-tools": "test", "root": "root"}
    extras = [*arguments.extras, *(ours[name] for name in only if name in ours)]
    extras += ["root"] if arguments.system else []  # all users boot on it
    with_gost = not arguments.no_gost
    wanted = None
    if arguments.experiment:
        readers = [SetupStep("readers", venvs.provide_readers)]
        if not folders.IS_PACKAGE and (failed := run_locked(readers, cache, jobs, quiet=quiet)):
            return failed
        wanted = needs_of(arguments.experiment, cache, quick=arguments.quick)
    chosen = setup_steps(wanted, extras, with_gost=with_gost)
    if only:
        chosen = [step for step in chosen if step.name in only]
    return run_locked(chosen, cache, jobs, quiet=quiet)


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
