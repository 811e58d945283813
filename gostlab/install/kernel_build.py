# SPDX-License-Identifier: MIT
"""Build the sandbox's kernel from a verified source, and boot it once.

The source is Debian's newest linux-source ≥ 6.16 on the machine's own mirror, or else the tarball
that kernel/kernel-org.lock pins. The result is saved under its version and a hash of kernel/
(options, patches, script); the source is deleted.
"""

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gostlab.atomic_write import write_json
from gostlab.install import apt as archive
from gostlab.install import build_tools, locate
from gostlab.install.build_env import (
    InstallContext,
    SetupError,
    fetch_file,
    likely_error_line,
    replaced_folder,
    require_space,
    run_logged,
)
from gostlab.registry import folders
from gostlab.registry.kernels import shipped_declaration

# Measured with linux-source-7.3: 0.33 GB to fetch, 1.7 GB unpacked, 2.0 GB built.
BUILD_BYTES = 3_000_000_000
BUILD_WORDS = "about three minutes on two idle CPUs"
SOURCES = r"linux-source-\d+\.\d+"  # packages
SOURCE_DOES_NOT_FIT = 3  # build.sh's exit status
TAR_EXCLUDES = folders.ROOT / "kernel" / "tar-excludes"
OLDEST = locate.format_version(locate.OLDEST_KERNEL)


class SourceDoesNotFit(Exception):
    """An error for a patch or an option of kernel/ that does not fit a version."""


@dataclass(frozen=True)
class KernelSource:
    """The unpacked source of a kernel."""

    tree: Path
    origin: str  # "linux-source-7.3 7.3.4-1~bpo13+1 from trixie-backports"
    sha256: str  # digest of the downloaded file
    is_left_over: bool = False  # left by an interrupted build


def provide_kernel(bench: InstallContext) -> str:
    """Build the sandbox's kernel unless one of the same inputs exists."""
    named = os.environ.get("GOSTLAB_KERNEL")
    if named:
        version = locate.read_output([named, "--version"]).strip()
        if not version:
            raise SetupError(
                f"GOSTLAB_KERNEL names {named}, which is not a kernel that runs: "
                "unset it, or name one"
            )
        return f"{version} (GOSTLAB_KERNEL names {named})"
    for kernel in locate.built_kernels(bench.cache):
        origin = (
            "built before" if kernel.is_relative_to(bench.cache) else f"{kernel}, for all users"
        )
        return f"{locate.kernel_record(kernel)['version']} ({origin})"
    if platform.machine() != "x86_64":
        raise SetupError(
            f"User-Mode Linux is for x86_64, this machine is {platform.machine()}: no sandbox "
            "here; runs need --machine native, as root"
        )
    folder = bench.cache / "build" / f"kernel-{locate.kernel_inputs_hash()}"
    for abandoned in (bench.cache / "build").glob("kernel-*"):
        if abandoned != folder:
            shutil.rmtree(abandoned)
    require_space(
        bench.cache, BUILD_BYTES - _size_of(folder), "the kernel's source while it builds"
    )
    complaints = []
    for source in _sources(bench, folder):
        try:
            return _build(bench, folder, source)
        except SourceDoesNotFit as complaint:
            complaints.append(f"{source.origin}: {complaint}")
        except SetupError:
            # A killed build may leave an unusable tree: build once more, from scratch.
            if not source.is_left_over:
                raise
        shutil.rmtree(folder)
    raise SetupError("no kernel source fits: " + "; ".join(complaints))


# -- sources


def _sources(bench: InstallContext, folder: Path) -> Iterator[KernelSource]:
    """Yield sources to try: an interrupted build's, Debian's newest first, kernel.org's."""
    left = find_left_over_source(folder)
    if left is not None:
        yield left
    mirror = archive.find_mirror()
    if mirror is not None:
        apt = archive.PrivateApt(bench.apt_folder, mirror)
        suites = archive.suite_groups(mirror.codename)
        tried: set[str] = set()
        for candidate in apt.find_matching(SOURCES, locate.OLDEST_KERNEL, suites, bench.say):
            if candidate.package not in tried:
                tried.add(candidate.package)
                bench.say(f"fetching {candidate}, about 170 MB")
                package = apt.download(candidate, folder / "download")
                yield unpack_package(bench, folder, package, str(candidate))
        bench.notes += apt.complaints
    yield _fetch_pinned(bench, folder)


def find_left_over_source(folder: Path) -> KernelSource | None:
    """Return the source that an interrupted build left in its folder."""
    record = locate.read_json(folder / "source.json")
    if record is None:
        return None
    return KernelSource(folder / "source", record["origin"], record["sha256"], is_left_over=True)


def tar_exclude_args() -> list[str]:
    """Return tar's arguments that exclude the files that no build reads (kernel/tar-excludes)."""
    lines = TAR_EXCLUDES.read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    return ["--anchored", *(f"--exclude={pattern}" for pattern in patterns)]


def unpack_package(bench: InstallContext, folder: Path, package: Path, origin: str) -> KernelSource:
    """Unpack the source in one of Debian's packages. Raises SetupError."""
    sha256 = locate.file_sha256(package)
    bench.say(f"unpacking {origin}")
    contents = folder / "package"
    shutil.rmtree(contents, ignore_errors=True)
    run_logged(["dpkg-deb", "--extract", package, contents], bench.log("kernel-unpack"))
    tarball = next((contents / "usr" / "src").glob("linux-source-*.tar.*"), None)
    if tarball is None:
        raise SetupError(f"{origin} has no source tarball in it")
    return unpack_tarball(bench, folder, tarball, origin, sha256)


def _fetch_pinned(bench: InstallContext, folder: Path) -> KernelSource:
    none_in_apt = f"no apt mirror here offers a linux-source ≥ {OLDEST} that fits"
    lock = folders.ROOT / "kernel" / "kernel-org.lock"
    pin = locate.parse_pins(lock.read_text(encoding="utf-8"))
    if "sha256" not in pin:
        raise SetupError(
            f"{none_in_apt}, and kernel/kernel-org.lock pins no tarball: pin one there, or name a"
            " kernel with GOSTLAB_KERNEL"
        )
    origin = f"linux {pin['version']} from kernel.org"
    bench.say(f"fetching {origin}, about 150 MB")
    tarball = folder / "download" / f"linux-{pin['version']}.tar.xz"
    tarball.parent.mkdir(parents=True, exist_ok=True)
    try:
        fetch_file(pin["url"], tarball, pin["sha256"])
    except OSError as error:
        raise SetupError(f"{none_in_apt}, and kernel.org cannot be reached ({error})") from error
    bench.say(f"unpacking {origin}")
    return unpack_tarball(bench, folder, tarball, origin, pin["sha256"])


def unpack_tarball(
    bench: InstallContext, folder: Path, tarball: Path, origin: str, sha256: str
) -> KernelSource:
    """Unpack the files of a tarball that builds read; delete downloads. Raises SetupError."""
    tree = folder / "source"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    extract: list[str | Path] = ["tar", "--extract", "--strip-components=1", "--no-same-owner"]
    extract += tar_exclude_args()
    if tarball.name.endswith(".xz"):
        extract.append(
            "--use-compress-program=xz --threads=0"
        )  # Debian's tarballs have many blocks
    run_logged([*extract, "--file", tarball, "--directory", tree], bench.log("kernel-unpack"))
    for done_with in ("package", "download"):
        shutil.rmtree(folder / done_with, ignore_errors=True)
    # Written last: a tree without it was cut off while unpacking.
    write_json(folder / "source.json", {"origin": origin, "sha256": sha256})
    return KernelSource(tree, origin, sha256)


# -- building


def _build(bench: InstallContext, folder: Path, source: KernelSource) -> str:
    built = build_kernel(bench, folder, source, shipped_declaration().name)
    inputs = locate.kernel_inputs_hash()
    save_kernel(
        bench, source, built, bench.cache / "kernel" / f"{built.version}-{inputs}", inputs, {}
    )
    return f"{built.version} built from {source.origin}, boots in {built.boot_s:.1f} s"


@dataclass(frozen=True)
class BuiltKernel:
    """A kernel that boots, in its build folder."""

    file: Path
    version: str
    build_s: float
    boot_s: float


def build_kernel(
    bench: InstallContext, folder: Path, source: KernelSource, series: str
) -> BuiltKernel:
    """Build a source with a version's series and boot it. Raises SourceDoesNotFit or SetupError."""
    started = time.monotonic()
    file = folder / "linux"
    run_build_script(bench, source, file, series)
    build_s = time.monotonic() - started
    bench.say("booting it")
    version = locate.read_output([file, "--version"]).strip()
    boot_s = boot_time_s(file, folder)
    if not version or boot_s is None:
        raise SetupError(f"{source.origin}: built, but does not boot here: try {file} --version")
    return BuiltKernel(file, version, build_s, boot_s)


def save_kernel(
    bench: InstallContext,
    source: KernelSource,
    built: BuiltKernel,
    target: Path,
    inputs_hash: str,
    more: Mapping[str, object],
) -> None:
    """Save a kernel, its headers and its record (with `more`); delete its source."""
    with replaced_folder(target) as folder:
        shutil.copy2(built.file, folder / "linux")
        shutil.copy2(built.file.with_name(locate.HEADERS), folder / locate.HEADERS)
        record: dict[str, object] = {
            "version": built.version,
            "hz": locate.kernel_hz(built.file),
            "source": source.origin,
            "source_sha256": source.sha256,
            "sha256": locate.file_sha256(built.file),
            "inputs_hash": inputs_hash,
            "jobs": bench.jobs,
            "build_s": round(built.build_s, 1),
        }
        # The file names the profile of kernel/profiles that was used, or why none was.
        profile = built.file.with_name("profile")
        record |= {"profile": profile.read_text("utf-8").strip()} if profile.is_file() else {}
        write_json(folder / "kernel.json", {**record, **more})
    shutil.rmtree(built.file.parent)


def run_build_script(bench: InstallContext, source: KernelSource, built: Path, series: str) -> None:
    """Run build.sh and report its progress. Raises SourceDoesNotFit or SetupError."""
    script = folders.ROOT / "kernel" / "build.sh"
    argv: list[str | Path] = [script, source.tree, built, str(bench.jobs), series]
    log = bench.log("kernel-build")
    started = time.monotonic()
    objects = 0
    with open(log, "w", encoding="utf-8") as output:
        # The build has a session of its own, so that all of it can be ended. It inherits the lock,
        # so that another set-up waits until the last compiler of a killed one is gone.
        build = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=build_tools.enter_build_namespace,  # noqa: PLW1509 (a step has no threads)
            pass_fds=(bench.lock_fd,),
            env=build_environment(os.environ),
        )
        try:
            assert build.stdout is not None
            for line in build.stdout:
                output.write(line)
                objects += bool(re.match(r"\s+(CC|AS|LD|AR)\s", line))
                bench.say(
                    f"building {source.origin}, {BUILD_WORDS}: {objects} objects,"
                    f" {time.monotonic() - started:.0f} s"
                )
        finally:
            if build.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    build.wait(1)  # after the end of its output the build is about to exit
            if build.returncode is None:
                os.killpg(build.pid, signal.SIGTERM)
                build.wait()
    if build.returncode == SOURCE_DOES_NOT_FIT:
        raise SourceDoesNotFit(likely_error_line(log))
    if build.returncode != 0:
        raise SetupError(f"the kernel's build failed: {likely_error_line(log)} (all of it: {log})")


def build_environment(around: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of build.sh: the same compiler makes the same kernel everywhere."""
    # With LOCALVERSION unset, a tree in a git checkout gets the version 7.3.4+. Kconfig records the
    # versions of Rust and pahole in the kernel, though no option here needs them.
    return {**around, "LOCALVERSION": "", "GNUMAKEFLAGS": "RUSTC=false PAHOLE=false"}


BOOT_CHECK = """#!/bin/sh
mount -t proc proc /proc
echo "gostlab boots"
echo o >/proc/sysrq-trigger
sleep 10
"""

BOOT_TIMEOUT_S = 30.0


def boot_time_s(kernel: Path, scratch: Path) -> float | None:
    """Boot a kernel with a script that powers it off; None if it fails.

    The guest sees the host's files, and its memory is in `scratch`: a container's /dev/shm is often
    noexec.
    """
    init = scratch.absolute() / f"boot-check-{os.getpid()}"
    init.write_text(BOOT_CHECK, encoding="utf-8")
    init.chmod(0o755)
    started = time.monotonic()
    options = (
        "mem=64M root=/dev/root rootfstype=hostfs rootflags=/ ro con=null con0=null,fd:1 quiet"
    )
    boot: list[str | Path] = [
        kernel,
        *options.split(),
        f"init={init}",
        *locate.seccomp_args(kernel),
    ]
    try:
        output = locate.read_output(["env", f"TMPDIR={scratch.absolute()}", *boot], BOOT_TIMEOUT_S)
    finally:
        init.unlink()
    return time.monotonic() - started if "gostlab boots" in output else None


def _size_of(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) if folder.is_dir() else 0
