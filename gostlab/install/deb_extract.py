# SPDX-License-Identifier: MIT
"""Unpack programs of Debian's packages for the lab alone, without installing them.

An unpacked program starts no service and replaces nothing on the machine. It refers to its own
dynamic loader and libraries, so that it is the same program wherever it runs.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gostlab.atomic_write import write_json
from gostlab.install import apt as archive
from gostlab.install import locate
from gostlab.install.build_env import InstallContext, SetupError, replaced_folder, run_logged
from gostlab.registry.iperf3_versions import OWN, Iperf3Kind
from gostlab.registry.traffic_programs import OF_FLOWS
from gostlab.registry.tunnels import tunnel_kinds

MERGED = ("bin", "sbin", "lib", "lib64")  # symbolic links into usr
LOADER = "ld-linux-*.so.*"
TO_END_A_THREAD = "libgcc_s.so.1"  # for pthread_exit(3) and pthread_cancel(3)
# Folders of libraries and programs in Debian's packages (newer ones have only usr/).
LIBRARY_FOLDERS = ("lib/*-linux-gnu", "usr/lib/*-linux-gnu", "lib", "usr/lib")
PROGRAM_FOLDERS = ("usr/bin", "usr/sbin", "bin", "sbin")


def provide_programs(
    bench: InstallContext, tunnels: Iterable[str] | None = None, of_flows: Iterable[str] = OF_FLOWS
) -> str:
    """Unpack the programs of tunnels (None: all) and flows that are missing. Raises SetupError."""
    known = tunnel_kinds()
    kinds = known.values() if tunnels is None else [known[name] for name in tunnels]
    wanted = {
        declaration.programs: declaration.unpacked for declaration in kinds if declaration.unpacked
    }
    wanted |= {(name,): (OF_FLOWS[name],) for name in of_flows}
    names = {name for programs in wanted for name in programs}
    missing = missing_programs(names, bench.cache)
    packages = [
        package for programs in wanted if missing & {*programs} for package in wanted[programs]
    ]
    if packages and archive.find_mirror() is None:
        # Everything else works without them: a run that needs one reports it as missing.
        names_text = ", ".join(sorted(missing))
        return (
            f"no Debian mirror to take {names_text} from: what needs them waits until they are here"
        )
    if packages:
        unpack_packages(bench, dict.fromkeys(packages))
    if unresolved := missing_programs(names, bench.cache):
        raise SetupError(f"{', '.join(sorted(unresolved))}: not in Debian's packages as they came")
    unpacked_programs = locate.find_programs(bench.cache)
    private = f", {len(unpacked_programs)} of them private to the lab" if unpacked_programs else ""
    return f"{', '.join(sorted(names))}{private}"


def missing_programs(names: Iterable[str], cache: Path) -> set[str]:
    """Return those programs that neither the machine nor the lab has."""
    unpacked_programs = locate.find_programs(cache)
    return {name for name in names if locate.find_program(name, unpacked_programs) is None}


def unpack_packages(bench: InstallContext, packages: Iterable[str]) -> None:
    """Fetch packages with libraries, and unpack each one's programs. Raises SetupError."""
    packages = list(packages)
    scratch = bench.cache / "build" / "programs"
    shutil.rmtree(scratch, ignore_errors=True)
    log = bench.log("tunnels")
    files = fetch_with_libraries(bench, packages, scratch / "packages")
    unpack(files, scratch / "contents", log)
    libraries = {path.name: path for path in shared_libraries(scratch / "contents")}
    for package in packages:
        [file] = [file for file in files if file.name.startswith(f"{package}_")]
        alone = scratch / package
        unpack([file], alone, log)
        version = file.name.split("_")[1].partition("%3a")[2] or file.name.split("_")[1]
        save_programs(bench, alone, libraries, package, version)
    shutil.rmtree(scratch)


def fetch_with_libraries(
    bench: InstallContext, packages: Sequence[str], into: Path, suite: str = "", more: str = "$."
) -> list[Path]:
    """Fetch packages of a suite, their libraries, and what matches `more`. Raises SetupError."""
    apt = archive.private_apt(bench.apt_folder, ", ".join(packages))
    bench.say(f"fetching {', '.join(packages)}")
    apt.read_suites([suite or apt.mirror.codename])
    return apt.download_current(apt.with_libraries(packages, more), into)


def unpack(files: Iterable[Path], tree: Path, log: Path, left_out: Iterable[str] = ()) -> None:
    """Unpack packages into one tree whose merged folders are links. Raises SetupError."""
    for name in MERGED:
        (tree / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (tree / name).is_symlink():
            (tree / name).symlink_to(f"usr/{name}")
    extract = ["tar", "--extract", "--keep-directory-symlink", "--no-same-owner", "--directory"]
    script = f'dpkg-deb --fsys-tarfile "$0" | {" ".join(extract)} "$@"'
    excluded = [f"--exclude={pattern}" for pattern in left_out]
    shell: list[str | Path] = ["bash", "-o", "pipefail", "-c", script]
    for file in files:
        run_logged([*shell, file, tree, "--anchored", *excluded], log)


def save_programs(
    bench: InstallContext,
    package_tree: Path,
    libraries: dict[str, Path],
    package: str,
    version: str,
) -> None:
    """Save one package's programs with the libraries that they need. Raises SetupError."""
    log = bench.log("tunnels")
    folder = bench.cache / "programs" / package / version
    candidates = [
        path
        for program_folder in PROGRAM_FOLDERS
        for path in sorted(package_tree.glob(f"{program_folder}/*"))
    ]
    programs = [path for path in candidates if is_program(path)]
    with replaced_folder(folder) as finished:
        (finished / "bin").mkdir()
        (finished / "lib").mkdir()
        for program in programs:
            shutil.copy2(program, finished / "bin" / program.name)
        for name in needed_libraries(programs, libraries):
            shutil.copy2(libraries[name], finished / "lib" / name)
        digests = {
            path.name: folder_sha256(finished, path) for path in sorted(finished.glob("bin/*"))
        }
        for program in sorted(finished.glob("bin/*")):
            set_loader(program, finished / "lib", folder / "lib", log)
        record = {"package": package, "version": version, "linking": locate.LINKING}
        write_json(finished / "package.json", {**record, "sha256": digests})


def is_program(path: Path) -> bool:
    """Return whether a file is a compiled program, neither a script nor a link."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == locate.ELF


def needed_libraries(
    programs: Sequence[Path],
    libraries: dict[str, Path],
    patchelf: Sequence[str | Path] = ("patchelf",),
) -> list[str]:
    """Return the loader and the libraries that programs need, directly or indirectly.

    The library that libc opens to end a thread is one of them. Raises SetupError.
    """
    wanted = {TO_END_A_THREAD} & libraries.keys()
    pending = [*programs, *(libraries[name] for name in wanted)]
    while pending:
        for name in named_libraries(pending.pop(), patchelf):
            if name in libraries and name not in wanted:
                wanted.add(name)
                pending.append(libraries[name])
    return sorted(wanted | {name for name in libraries if re.match(r"ld-linux-.*\.so", name)})


def named_libraries(binary: Path, patchelf: Sequence[str | Path]) -> list[str]:
    """Return the libraries that a program or library names itself (ELF's DT_NEEDED).

    Raises SetupError if the file cannot be read as an ELF file that names any.
    """
    process = subprocess.run([*patchelf, "--print-needed", binary], capture_output=True, text=True)
    if process.returncode != 0:
        raise SetupError(f"{binary}: patchelf: {process.stderr.strip() or process.returncode}")
    return process.stdout.split()


def shared_libraries(contents: Path) -> Iterator[Path]:
    """Yield every shared library that was unpacked, including the loader."""
    for folder in LIBRARY_FOLDERS:
        for path in sorted(contents.glob(f"{folder}/*.so*")):
            if path.is_file():
                yield path


def set_loader(
    program: Path,
    unpacked: Path,
    folder: Path,
    log: Path,
    patchelf: Sequence[str | Path] = ("patchelf",),
) -> None:
    """Set a program's loader and libraries by their paths.

    Before any folder's library the loader looks for one made for this CPU's level (ld.so(8),
    glibc-hwcaps): on a CPU with AVX-512 a program that searches makes two system calls more, which
    take virtual time. A library that the program names by its path is not searched for. The search
    path remains for libraries that are opened later.

    The libraries are in `unpacked` now and in `folder` later. Raises SetupError.
    """
    libraries = {path.name: path for path in unpacked.iterdir()}
    loader = next(unpacked.glob(LOADER)).name
    named = named_libraries(program, patchelf)
    replaced: list[str | Path] = []
    added: list[str | Path] = []
    for name in needed_libraries([program], libraries, patchelf):
        if name in named:
            replaced += ["--replace-needed", name, folder / name]
        elif name != loader:
            added += ["--add-needed", folder / name]
    # An RPATH, unlike a RUNPATH, is also used for the libraries that libraries need.
    search: list[str | Path] = ["--force-rpath", "--set-rpath", folder]
    # patchelf 0.14 makes wrong names of several changes at once.
    for options in (["--set-interpreter", folder / loader], search, replaced, added):
        if options:
            run_logged([*patchelf, *options, program], log)


def folder_sha256(folder: Path, program: Path | None = None) -> str:
    """Return the SHA-256 of the names and digests in a folder; `program`: only of this program."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if program is None or path == program or path.parent.name == "lib":
            digest.update(f"{path.relative_to(folder)} {locate.file_sha256(path)}\n".encode())
    return digest.hexdigest()


# -- iperf3s


def provide_iperf3(bench: InstallContext, versions: Sequence[str] = tuple(OWN)) -> str:
    """Unpack the lab's own iperf3s. Raises SetupError if a mandatory one is missing."""
    provided, failed = [], []
    for iperf3 in (OWN[version] for version in versions):
        existing = locate.find_own_iperf3(iperf3.version, bench.cache)
        try:
            provided.append(existing.version if existing else unpack_iperf3(bench, iperf3))
        except SetupError as error:
            if not iperf3.may_lack:
                failed.append(f"iperf3 {iperf3.version}: {error}")
    if failed:
        raise SetupError("; ".join(failed))
    return f"{', '.join(provided)}, private to the lab"


def unpack_iperf3(bench: InstallContext, kind: Iperf3Kind) -> str:
    """Fetch and unpack one iperf3 and return its version. Raises SetupError."""
    apt = archive.private_apt(bench.apt_folder, "it", ": runs here need iperf3: system")
    bench.say(f"fetching iperf3 {kind.version} from {kind.suite}")
    version = locate.version_tuple(kind.version)
    offered = apt.find_matching("iperf3", version, [[kind.suite]])
    candidate = next((one for one in offered if one.upstream == version), None)
    if candidate is None:
        bench.notes += apt.complaints
        raise SetupError(f"the mirror's {kind.suite} does not have it")
    packages = bench.cache / "build" / f"iperf3-{kind.version}"
    shutil.rmtree(packages, ignore_errors=True)
    files = apt.download_current([candidate.package, *kind.libraries], packages)
    folder, log = bench.cache / "iperf3" / kind.version, bench.log("iperf3")
    with replaced_folder(folder) as finished:
        contents = packages / "contents"
        unpack(files, contents, log)
        sha256 = save_iperf3(contents, finished)
        set_loader(finished / "iperf3", finished / "lib", folder / "lib", log)
        names = sorted(file.name for file in files)
        record = {"version": candidate.version, "linking": locate.LINKING}
        write_json(finished / "iperf3.json", {**record, "packages": names, "sha256": sha256})
    shutil.rmtree(packages)
    if locate.find_own_iperf3(kind.version, bench.cache) is None:
        shutil.rmtree(folder)
        raise SetupError(f"{candidate} was unpacked but does not run here")
    return candidate.version


def save_iperf3(contents: Path, folder: Path) -> str:
    """Save an unpacked iperf3 and all of its libraries unchanged; return their digest."""
    (folder / "lib").mkdir(parents=True)
    shutil.copy2(contents / "usr/bin/iperf3", folder / "iperf3")
    for library in shared_libraries(contents):
        shutil.copy2(library, folder / "lib" / library.name)
    return folder_sha256(folder)
