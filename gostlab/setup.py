"""The set-up: brings every part of the lab to this machine, once.

Debian's packages go where Debian puts them. Everything else stays in the lab's cache folder (see
gostlab.parts) and is keyed by what it was made from, so that a second set-up only looks. A set-up that
was cut off goes on where it was. Nothing is started, and the machine's apt configuration and sysctls stay.

Uses Python's own library alone: it runs before the packages are there.
"""
from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from types import FrameType

from gostlab import archive, parts

# -- what the lab is made of ------------------------------------------------------------------------------

LAB_PACKAGES = (
    "mininet", "iperf3", "iproute2", "ethtool", "iputils-ping", "procps",
    "python3-matplotlib", "python3-pandas", "python3-scipy", "python3-yaml", "python3-jinja2", "python3-rich",
    "python3-jsonschema", "python3-pyroute2", "python3-pytest",
)
BUILD_PACKAGES = (
    "gcc", "libc6-dev", "make", "flex", "bison", "bc", "xz-utils", "patch",      # the sandbox's kernel
    "golang-go", "ca-certificates",                                              # the relay
)
TEST_PACKAGES = ("shellcheck", "python3-venv")
# What else than a package says that a package's work is done: for machines that are not Debian's.
PROGRAMS = ("mnexec", "iperf3", "tc", "ip", "ss", "ethtool", "ping", "sysctl", "gcc", "make", "flex", "bison", "bc",
            "xz", "patch", "go")
MODULES = ("mininet", "matplotlib", "pandas", "scipy", "yaml", "jinja2", "rich", "jsonschema", "pyroute2", "pytest")

# Pinned, so that a new release of a checker turns nobody's build red.
TEST_TOOLS = ("ruff==0.17.5", "mypy==2.4.1", "types-PyYAML==6.0.12.20261113")

GOST_VERSION = "3.2.6"       # the version that the lab's facts about GOST were read from
GOST_SHA256 = {
    ("3.3.0", "amd64"): "676fb7f78d267b6ae73df719c0c7f2b565dde7147da935cfafbc1e1da558b6d5",
    ("3.3.0", "arm64"): "d03699e3f385d4ff5dad68046712adfcc7515325a064d2ab046e0bece30f8f8f",
    ("3.2.6", "amd64"): "b39037b0380ea001fb3c0c28441c2e10bfc694f90682739a65b53e55dce5238b",
    ("3.2.6", "arm64"): "f674c8f4a033dc1dfd4f0d5e9602fbe5b0d0f81307bf3794f44b5b5d6d622eae",
}
GOST_URL = "https://github.com/go-gost/gost/releases/download/v{version}/gost_{version}_linux_{machine}.tar.gz"
GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}

CONNECT_TIMEOUT_S = 5.0
RETRY_GOST_AFTER_S = 3600.0
# Measured with linux-source-7.3: package and tarball 0.33 GB, the tree 1.7 GB unpacked and 2.0 GB built.
KERNEL_BUILD_BYTES = 3_000_000_000
SOURCE_DOES_NOT_FIT = 3      # build.sh's exit status


class SetupError(Exception):
    """A step could not be done. The message says why, and what to do."""


class HashMismatch(SetupError):
    """A downloaded file is not the one that was pinned; it has been deleted."""


@dataclass
class Workbench:
    """What every step works with."""
    cache: Path
    jobs: int
    say: Callable[[str], None]           # progress within a step; on a terminal it overwrites itself
    lock_fd: int                         # handed to long builds, so that the lock lives as long as they do
    notes: list[str] = field(default_factory=list)


# -- packages ---------------------------------------------------------------------------------------------

def missing_packages(wanted: Sequence[str]) -> list[str]:
    """Those of Debian's packages that are not installed."""
    asked = subprocess.run(["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *wanted],
                           capture_output=True, text=True, check=False)
    return not_installed(wanted, asked.stdout)


def not_installed(wanted: Sequence[str], dpkg_answer: str) -> list[str]:
    """Reads the answer of dpkg-query: "name installed" per line (some names have several)."""
    installed = {line.split()[0] for line in dpkg_answer.splitlines() if line.endswith(" installed")}
    return [name for name in wanted if name not in installed]


def install_packages(bench: Workbench, *extra: str) -> str:
    """Install what is missing, and nothing recommended (Mininet's Open vSwitch would start a service)."""
    wanted = [*LAB_PACKAGES, *BUILD_PACKAGES, *extra]
    if shutil.which("dpkg-query") is None or shutil.which("apt-get") is None:
        missing = missing_programs()
        if missing:
            raise SetupError("this machine has no apt-get; install these with its own package manager: "
                             + ", ".join(missing))
        return "no Debian here, but every program is there"
    missing = missing_packages(wanted)
    if not missing:
        return f"all {len(wanted)} are installed"
    log = bench.cache / "log" / "packages.log"
    bench.say(f"installing {' '.join(missing)}")
    install = ["install", "--yes", "--no-install-recommends", *missing]
    # A fresh image has no lists; old lists name files that the mirror has replaced.
    up_to_date = not any(Path("/var/lib/apt/lists").glob("*_Packages*"))
    if up_to_date:
        _apt_get(["update"], log)
    try:
        _apt_get(install, log)
    except SetupError:
        if up_to_date:
            raise
        _apt_get(["update"], log)
        _apt_get(install, log)
    still_missing = missing_packages(missing)
    if still_missing:
        raise SetupError(f"apt-get did not install {' '.join(still_missing)}; its output is in {log}")
    return f"installed {len(missing)} of {len(wanted)}"


def missing_programs() -> list[str]:
    """The programs and Python modules that the lab needs and that are not there."""
    search_path = os.environ.get("PATH", "") + ":" + parts.SYSTEM_PATH
    return [*(name for name in PROGRAMS if shutil.which(name, path=search_path) is None),
            *(f"Python's {name}" for name in MODULES if importlib.util.find_spec(name) is None)]


def as_root_argv(is_root: bool, has_sudo: bool, is_terminal: bool) -> list[str]:
    """What to put before a command that needs root. Raises SetupError where nothing would do."""
    if is_root:
        return []
    if not has_sudo:
        raise SetupError("packages are missing, and only root may install them: run ./lab setup as root once "
                         "(or install sudo)")
    return ["sudo"] if is_terminal else ["sudo", "--non-interactive"]


def _apt_get(arguments: list[str], log: Path) -> None:
    as_root = as_root_argv(os.geteuid() == 0, shutil.which("sudo") is not None, sys.stdin.isatty())
    argv = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet",
            "-o", "DPkg::Lock::Timeout=300", *arguments]
    with open(log, "a", encoding="utf-8") as output:
        output.write(f"$ {' '.join(argv)}\n")
        output.flush()
        done = subprocess.run(argv, stdin=None if sys.stdin.isatty() else subprocess.DEVNULL,
                              stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise SetupError(f"apt-get {arguments[0]} failed: {_last_complaint(log)} (all of it: {log})")


# -- iproute2 ---------------------------------------------------------------------------------------------

def provide_iproute2(bench: Workbench) -> str:
    """A private iproute2 where the system's is too old to set netem's seed."""
    found = parts.find_iproute2(bench.cache)
    if found.is_new_enough:
        return f"{found.version} ({'private to the lab' if found.dirs else 'the system has it'})"
    mirror = archive.find_mirror()
    oldest = _dotted(parts.OLDEST_IPROUTE2)
    if mirror is None:
        raise SetupError(f"the system's iproute2 is {found.version}, and there is no Debian mirror to take a newer "
                         f"one from: install iproute2 {oldest} or newer")
    apt = archive.PrivateApt(bench.cache / "build" / "apt", mirror)
    # One suite at a time: the nearest one is the likeliest to run here.
    suites = [[suite] for group in archive.suite_groups(mirror.codename) for suite in group]
    for candidate in _candidates(bench, apt, "iproute2", "iproute2", parts.OLDEST_IPROUTE2, suites):
        bench.say(f"fetching {candidate}")
        package = apt.download(candidate, bench.cache / "build" / "iproute2")
        folder = bench.cache / "iproute2" / _dotted(candidate.upstream)
        with _replacing(folder) as unpacked:
            _run(["dpkg-deb", "--extract", package, unpacked], bench.cache / "log" / "iproute2.log")
            # One from a newer suite may want libraries that this system does not have.
            runs = parts.look_at_iproute2(unpacked).is_new_enough
        shutil.rmtree(bench.cache / "build" / "iproute2")
        if runs:
            return f"{candidate.version} from {candidate.suite}, private to the lab"
        shutil.rmtree(folder)
    raise SetupError(f"the system's iproute2 is {found.version}, and the mirror has none ≥ {oldest} that runs here")


# -- the sandbox's kernel ---------------------------------------------------------------------------------

@dataclass(frozen=True)
class Source:
    """A kernel's source, unpacked."""
    tree: Path
    origin: str                          # "linux-source-7.3 7.3.4-1~bpo13+1 from trixie-backports"
    sha256: str                          # of the file it came in


def provide_kernel(bench: Workbench) -> str:
    """Build the sandbox's kernel, unless one of the same options, patches and script is there."""
    named = os.environ.get("GOSTLAB_KERNEL")
    if named:
        return f"{parts.output_of([named, '--version']).strip() or 'nothing that runs'} (GOSTLAB_KERNEL names {named})"
    for kernel in parts.built_kernels(bench.cache):
        return f"{parts.kernel_record(kernel)['version']} (built before)"
    if platform.machine() != "x86_64":
        raise SetupError(f"User-Mode Linux is for x86_64, this machine is {platform.machine()}: no sandbox here; "
                         "runs need --machine native, as root")
    folder = bench.cache / "build" / f"kernel-{parts.kernel_inputs_hash()}"
    for abandoned in (bench.cache / "build").glob("kernel-*"):
        if abandoned != folder:
            shutil.rmtree(abandoned)
    require_space(bench.cache, KERNEL_BUILD_BYTES - _size_of(folder), "the kernel's source while it builds")
    complaints = []
    for source in _kernel_sources(bench, folder):
        try:
            return _build_kernel(bench, folder, source)
        except _SourceDoesNotFit as complaint:
            bench.say(f"{source.origin} does not fit: {complaint}")
            complaints.append(f"{source.origin}: {complaint}")
            shutil.rmtree(folder)
    raise SetupError("no kernel source fits: " + "; ".join(complaints))


class _SourceDoesNotFit(Exception):
    """A patch or an option of kernel/ is not for this version."""


def require_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raises SetupError if a folder's file system has less free than that."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise SetupError(f"{folder} needs {needed_bytes / 1e9:.1f} GB for {purpose} and has {free / 1e9:.1f} GB free: "
                         "make room, or set GOSTLAB_CACHE to a folder on a larger disk")


def _kernel_sources(bench: Workbench, folder: Path) -> Iterator[Source]:
    """Sources to try, best first: the one that a cut-off build left, Debian's newest first, kernel.org's pinned."""
    left = _read_source(folder)
    if left is not None:
        yield left
        if folder.exists():
            shutil.rmtree(folder)
    mirror = archive.find_mirror()
    if mirror is not None:
        apt = archive.PrivateApt(bench.cache / "build" / "apt", mirror)
        tried: set[str] = set()
        for candidate in _candidates(bench, apt, "linux-source-", r"linux-source-\d+\.\d+", parts.OLDEST_KERNEL,
                                     archive.suite_groups(mirror.codename)):
            if candidate.package in tried:
                continue
            tried.add(candidate.package)
            bench.say(f"fetching {candidate}, about 170 MB")
            package = apt.download(candidate, folder / "download")
            yield _unpack_debian_source(bench, folder, package, str(candidate))
    yield _fetch_pinned_source(bench, folder)


def _candidates(bench: Workbench, apt: archive.PrivateApt, prefix: str, pattern: str,
                oldest: tuple[int, ...], groups: list[list[str]]) -> Iterator[archive.Candidate]:
    """New enough packages, suite group by suite group; a group is only asked for when the ones before did not do."""
    complaint = ""
    found_any = False
    for suites in groups:
        bench.say(f"looking in {', '.join(suites)}")
        complaint = apt.update(suites) or complaint
        for candidate in archive.newest_first(apt.candidates(prefix, pattern), oldest):
            found_any = True
            yield candidate
    if not found_any and complaint:
        bench.notes.append(f"apt said of the mirror: {complaint.splitlines()[-1]}")


def _unpack_debian_source(bench: Workbench, folder: Path, package: Path, origin: str) -> Source:
    sha256 = parts.file_sha256(package)
    log = bench.cache / "log" / "kernel-unpack.log"
    bench.say(f"unpacking {origin}")
    contents = folder / "package"
    shutil.rmtree(contents, ignore_errors=True)
    _run(["dpkg-deb", "--extract", package, contents], log)
    package.unlink()
    tarball = next((contents / "usr" / "src").glob("linux-source-*.tar.*"))
    return _unpack_tarball(folder, tarball, origin, sha256, log)


def _fetch_pinned_source(bench: Workbench, folder: Path) -> Source:
    pin = read_pin((parts.ROOT / "kernel" / "pin").read_text(encoding="utf-8"))
    if "sha256" not in pin:
        raise SetupError(f"no apt mirror here offers linux-source ≥ {_dotted(parts.OLDEST_KERNEL)}, and kernel/pin "
                         "pins no tarball")
    bench.say(f"fetching linux {pin['version']} from kernel.org, about 150 MB")
    tarball = folder / "download" / f"linux-{pin['version']}.tar.xz"
    tarball.parent.mkdir(parents=True, exist_ok=True)
    try:
        fetch(pin["url"], tarball, pin["sha256"])
    except OSError as error:
        raise SetupError(f"no apt mirror here offers linux-source ≥ {_dotted(parts.OLDEST_KERNEL)}, and kernel.org "
                         f"cannot be reached ({error})") from error
    bench.say(f"unpacking linux {pin['version']}")
    return _unpack_tarball(folder, tarball, f"linux {pin['version']} from kernel.org", pin["sha256"],
                           bench.cache / "log" / "kernel-unpack.log")


def read_pin(text: str) -> dict[str, str]:
    """kernel/pin: `name=value` lines and comments."""
    return dict(re.findall(r"^(\w+)=(\S+)$", text, re.MULTILINE))


def _unpack_tarball(folder: Path, tarball: Path, origin: str, sha256: str, log: Path) -> Source:
    tree = folder / "source"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    _run(["tar", "--extract", "--file", tarball, "--directory", tree, "--strip-components=1", "--no-same-owner"], log)
    for leftover in ("package", "download"):
        shutil.rmtree(folder / leftover, ignore_errors=True)
    # Last: a tree without it was cut off while unpacking.
    _write_json(folder / "source.json", {"origin": origin, "sha256": sha256})
    return Source(tree, origin, sha256)


def _read_source(folder: Path) -> Source | None:
    try:
        record = json.loads((folder / "source.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Source(folder / "source", record["origin"], record["sha256"])


def _build_kernel(bench: Workbench, folder: Path, source: Source) -> str:
    started = time.monotonic()
    built = folder / "linux"
    log = bench.cache / "log" / "kernel-build.log"
    script = parts.ROOT / "kernel" / "build.sh"
    _run_build([script, source.tree, built, str(bench.jobs)], log, bench, source.origin)
    version = parts.output_of([built, "--version"]).strip()
    boot_s = boot_time(built)
    if not version or boot_s is None:
        raise SetupError(f"the kernel was built but does not boot here (try it: {built} --version); log: {log}")
    hz = re.search(r"^CONFIG_HZ=(\d+)$", parts.output_of([built, "--showconfig"]), re.MULTILINE)
    build_s = round(time.monotonic() - started, 1)
    with _replacing(bench.cache / "kernel" / f"{version}-{parts.kernel_inputs_hash()}") as finished:
        shutil.move(built, finished / "linux")
        _write_json(finished / "kernel.json", {
            "version": version, "hz": int(hz[1]) if hz else None, "source": source.origin,
            "source_sha256": source.sha256, "sha256": parts.file_sha256(finished / "linux"),
            "inputs_hash": parts.kernel_inputs_hash(), "build_s": build_s, "jobs": bench.jobs})
    shutil.rmtree(folder)
    return f"{version} built from {source.origin}, boots in {boot_s:.1f} s"


def _run_build(argv: list[str | Path], log: Path, bench: Workbench, origin: str) -> None:
    """Run build.sh, telling how far it is. Raises _SourceDoesNotFit or SetupError."""
    started = time.monotonic()
    objects = 0
    cut_off = False
    with open(log, "w", encoding="utf-8") as output:
        # A session of its own, so that all of it can be ended; the lock goes along, so that another set-up
        # waits until the last compiler of a killed one is gone.
        build = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, errors="replace", start_new_session=True, pass_fds=(bench.lock_fd,))
        try:
            assert build.stdout is not None
            for line in build.stdout:
                output.write(line)
                objects += bool(re.match(r"\s+(CC|AS|LD|AR)\s", line))
                bench.say(f"building {origin}: {objects} objects, {time.monotonic() - started:.0f} s")
            build.wait()
        except BaseException:
            cut_off = True
            raise
        finally:
            if cut_off:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(build.pid, signal.SIGTERM)
                build.wait()
    if build.returncode == SOURCE_DOES_NOT_FIT:
        raise _SourceDoesNotFit(_last_complaint(log))
    if build.returncode != 0:
        raise SetupError(f"the kernel's build failed: {_last_complaint(log)} (all of it: {log})")


BOOT_CHECK = """#!/bin/sh
mount -t proc proc /proc
echo "gostlab boots"
echo o >/proc/sysrq-trigger
sleep 10
"""


def boot_time(kernel: Path, timeout_s: float = 30.0) -> float | None:
    """Boot a kernel into a shell script that turns it off again; seconds, or None if it does not get there."""
    init = cache_scratch() / f"boot-check-{os.getpid()}"
    init.write_text(BOOT_CHECK, encoding="utf-8")
    init.chmod(0o755)
    started = time.monotonic()
    try:
        said = parts.output_of([kernel, "mem=64M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
                                f"init={init}", "con=null", "con0=null,fd:1", "quiet", "seccomp=on"], timeout_s)
    finally:
        init.unlink()
    return time.monotonic() - started if "gostlab boots" in said else None


def cache_scratch() -> Path:
    """A folder for files of the moment."""
    folder = parts.cache_folder() / "build"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# -- tunnel programs --------------------------------------------------------------------------------------

def provide_relay(bench: Workbench) -> str:
    """Build the lab's own relay from tunnel/."""
    source = parts.ROOT / "tunnel"
    folder = bench.cache / "relay" / parts.relay_inputs_hash()
    if (folder / "relay").is_file():
        return f"{parts.output_of([folder / 'relay', '-V']).strip()} (built before)"
    go = "/usr/bin/go" if os.access("/usr/bin/go", os.X_OK) else shutil.which("go")
    if go is None:
        raise SetupError("there is no Go to build the relay with: install golang-go")
    bench.say("building")
    # Which module proxy to ask is the environment's business. One toolchain: the one that is installed.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    with _replacing(folder) as finished:
        _run([go, "build", "-trimpath", "-buildvcs=false", "-o", finished / "relay", "."],
             bench.cache / "log" / "relay-build.log", cwd=source, environment=environment)
    said = parts.output_of([folder / "relay", "-V"]).strip()
    if not said:
        shutil.rmtree(folder)
        raise SetupError("the relay was built but does not answer -V")
    return said


def provide_gost(bench: Workbench) -> str:
    """Fetch GOST, if its release page answers; the relay takes its place where it does not."""
    found = parts.find_parts()
    if found.gost is not None:
        return f"{found.gost_version} ({found.gost})"
    own_relay = "the lab's own relay is used; every result names it"
    machine = GO_MACHINES.get(platform.machine())
    sha256 = GOST_SHA256.get((GOST_VERSION, machine or ""))
    if sha256 is None:
        return f"no release for {platform.machine()} is pinned: {own_relay}"
    failure = bench.cache / "gost" / "unreachable.json"
    unreachable = f"GOST's release page cannot be reached: {own_relay}"
    if failed_lately(failure, time.time()):
        return f"{unreachable} (tried within the hour)"
    bench.say("fetching")
    failure.parent.mkdir(exist_ok=True)
    tarball = bench.cache / "build" / f"gost_{GOST_VERSION}.tar.gz"
    tarball.parent.mkdir(exist_ok=True)
    try:
        fetch(GOST_URL.format(version=GOST_VERSION, machine=machine), tarball, sha256)
    except OSError as error:
        _write_json(failure, {"at": time.time(), "reason": str(error)})
        return unreachable
    with _replacing(bench.cache / "gost" / GOST_VERSION) as finished:
        with tarfile.open(tarball) as contents:
            contents.extract("gost", finished, filter="data")
        (finished / "gost").chmod(0o755)
    tarball.unlink()
    failure.unlink(missing_ok=True)
    return f"{GOST_VERSION} fetched, SHA-256 {sha256[:12]}…"


def failed_lately(record: Path, now_s: float) -> bool:
    """Was a failure recorded less than an hour ago?"""
    try:
        at = json.loads(record.read_text(encoding="utf-8"))["at"]
    except (OSError, ValueError, KeyError):
        return False
    return 0 <= now_s - float(at) < RETRY_GOST_AFTER_S


# -- test tools -------------------------------------------------------------------------------------------

def provide_test_tools(bench: Workbench) -> str:
    """Ruff and mypy, which Debian 12 lacks or has too old, in a Python environment of their own."""
    folder = bench.cache / "tools"
    complete = folder / "complete"
    wanted = "\n".join(TEST_TOOLS)
    if complete.is_file() and complete.read_text(encoding="utf-8") == wanted:
        return f"{' '.join(TEST_TOOLS)} (installed before)"
    bench.say(f"installing {' '.join(TEST_TOOLS)}")
    log = bench.cache / "log" / "test-tools.log"
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", folder], log)
    _run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *TEST_TOOLS], log)
    complete.write_text(wanted, encoding="utf-8")
    return " ".join(TEST_TOOLS)


# -- shared by the steps ----------------------------------------------------------------------------------

def fetch(url: str, into: Path, sha256: str) -> None:
    """Download a file that must have this SHA-256. Raises OSError if it cannot be reached, or HashMismatch."""
    partial = into.with_name(into.name + ".part")
    try:
        with _open_url(url) as answer, open(partial, "wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)
        got = parts.file_sha256(partial)
        if got != sha256:
            raise HashMismatch(f"{url} is not the file that was pinned (SHA-256 {got}, not {sha256}): deleted")
        partial.rename(into)
    finally:
        partial.unlink(missing_ok=True)


def _open_url(url: str) -> HTTPResponse:
    """urlopen with a limit on the name look-up too, which has none of its own. Raises OSError."""
    answers: list[HTTPResponse | OSError] = []

    def open_it() -> None:
        try:
            answers.append(urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S))
        except OSError as error:
            answers.append(error)

    thread = threading.Thread(target=open_it, daemon=True)
    thread.start()
    thread.join(2 * CONNECT_TIMEOUT_S)
    if not answers:
        raise TimeoutError(f"no answer within {2 * CONNECT_TIMEOUT_S:.0f} s")
    answer = answers[0]
    if isinstance(answer, OSError):
        raise answer
    return answer


@contextlib.contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes its name only when all of it is there."""
    partial = folder.with_name(folder.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _run(argv: Sequence[str | Path], log: Path, *, cwd: Path | None = None,
         environment: dict[str, str] | None = None) -> None:
    """Run a program with its output in a log. Raises SetupError."""
    with open(log, "w", encoding="utf-8") as output:
        done = subprocess.run(argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                              stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise SetupError(f"{Path(argv[0]).name} failed: {_last_complaint(log)} (all of it: {log})")


def _last_complaint(log: Path) -> str:
    """The line of a log that most likely says what went wrong."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b|^E: |^kernel: |No space left", line, re.IGNORECASE)]
    return (errors or lines or ["no output"])[-1]


def _write_json(path: Path, record: dict[str, object]) -> None:
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.rename(path)


def _size_of(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) if folder.is_dir() else 0


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


# -- the whole --------------------------------------------------------------------------------------------

Step = Callable[[Workbench], str]


def steps(with_test: bool, with_gost: bool) -> dict[str, Step]:
    """The set-up's steps in their order."""
    def packages(bench: Workbench) -> str:
        return install_packages(bench, *(TEST_PACKAGES if with_test else ()))

    chosen: dict[str, Step] = {"packages": packages, "iproute2": provide_iproute2, "relay": provide_relay}
    if with_gost:
        chosen["gost"] = provide_gost
    if with_test:
        chosen["test-tools"] = provide_test_tools
    # The longest comes last: whatever else is wrong has been said by then.
    chosen["kernel"] = provide_kernel
    return chosen


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
        print(f"{clear}{self._head}{text}  {word}{f', {took:.0f} s' if took >= 0.5 else ''}", flush=True)


@contextlib.contextmanager
def _locked(cache: Path, say: Callable[[str], None]) -> Iterator[int]:
    """One set-up at a time per cache folder; yields the lock's file descriptor."""
    with open(cache / "setup.lock", "a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            say(f"another set-up is at work (process {lock.read().strip() or 'unknown'}): waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield lock.fileno()


def _hand_to_owner(cache: Path) -> None:
    """What root made in another user's cache folder (by sudo) becomes that user's, who must be able to change it."""
    owner = cache.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    for folder, _, files in os.walk(cache):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            if os.lstat(path).st_uid == 0:
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def main(argv: Sequence[str] | None = None) -> int:
    """`./lab setup`. Exit status: 0 all is there, 1 a step failed, 2 bad arguments, 130 interrupted."""
    every_step = list(steps(with_test=True, with_gost=True))
    parser = argparse.ArgumentParser(
        prog="lab setup", description="Bring every part of the lab to this machine. Run again, it only looks.",
        epilog="example: ./lab setup --only kernel --jobs 4")
    parser.add_argument("--only", action="append", choices=every_step, metavar="STEP",
                        help=f"only this step (may be given again): {', '.join(every_step)}")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="compile with so many processes (default: one per CPU)")
    parser.add_argument("--with", dest="extras", action="append", default=[], choices=["test"],
                        help="test: also the tools that `make test` needs")
    parser.add_argument("--no-gost", action="store_true", help="do not fetch GOST")
    parser.add_argument("--quiet", action="store_true", help="say only what failed")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1:
        parser.error("--jobs must be at least 1")

    only = arguments.only or []
    chosen = steps("test" in arguments.extras or "test-tools" in only, not arguments.no_gost)
    if only:
        chosen = {name: step for name, step in chosen.items() if name in only}
    progress = Progress(len(chosen), arguments.quiet)
    cache = parts.cache_folder()
    signal.signal(signal.SIGTERM, _exit_on_signal)
    try:
        for folder in ("log", "build"):
            (cache / folder).mkdir(parents=True, exist_ok=True)
        with _locked(cache, print) as lock_fd:
            failed = _take_steps(chosen, progress, Workbench(cache, arguments.jobs, progress.say, lock_fd))
            shutil.rmtree(cache / "build" / "apt", ignore_errors=True)
            _hand_to_owner(cache)
    except KeyboardInterrupt:
        print("\nset-up: interrupted; the next one goes on from here", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"set-up: {error.filename or cache}: {error.strerror or error}", file=sys.stderr)
        return 1
    if failed:
        print(f"set-up: failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    if not arguments.quiet:
        print(f"set-up: everything is there ({cache})")
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
            if name == "packages":       # the other steps are made with them
                break
    return failed


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
