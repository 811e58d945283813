"""The lab's own iperf3s: Debian's packages, unpacked with the libraries that they were built with.

Each names its own dynamic loader and finds its own libraries, so that it is the same program on
every release of Debian, and nothing is installed. Python's own library alone.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from gostlab.declared.iperf3 import OWN, Iperf3Kind
from gostlab.setup import archive, parts
from gostlab.setup.workbench import SetupError, Workbench, replacing, run_logged, write_json

LOADER = "ld-linux-*.so.*"
# Where Debian's packages keep libraries; the newer ones in usr/ alone.
LIBRARY_FOLDERS = ("lib/*-linux-gnu", "usr/lib/*-linux-gnu", "lib", "usr/lib")


def provide_iperf3(bench: Workbench) -> str:
    """Every iperf3 of the lab's own. Raises SetupError naming those that are not to be had."""
    got, failed = [], []
    for kind in OWN.values():
        found = parts.find_own_iperf3(kind.version, bench.cache)
        try:
            got.append(found.version if found else _unpack(bench, kind))
        except (SetupError, archive.ArchiveError) as error:
            failed.append(f"iperf3 {kind.version}: {error}")
    if failed:
        raise SetupError("; ".join(failed))
    return f"{' and '.join(got)}, private to the lab"


def _unpack(bench: Workbench, kind: Iperf3Kind) -> str:
    """Fetch and unpack one; returns its version. Raises SetupError or ArchiveError."""
    mirror = archive.find_mirror()
    if mirror is None:
        raise SetupError("there is no Debian mirror to take it from: runs here need iperf3: system")
    bench.say(f"fetching iperf3 {kind.version} from {kind.suite}")
    apt = archive.PrivateApt(bench.cache / "build" / "apt", mirror)
    wanted = archive.Wanted("iperf3", "iperf3", parts.version_tuple(kind.version))
    candidate = next(
        (one for one in apt.look_for(wanted, [[kind.suite]]) if one.upstream == wanted.oldest), None
    )
    if candidate is None:
        bench.notes += apt.complaints
        raise SetupError(f"the mirror's {kind.suite} does not have it")
    packages = bench.cache / "build" / f"iperf3-{kind.version}"
    shutil.rmtree(packages, ignore_errors=True)
    files = apt.download_current([candidate.package, *kind.libraries], packages)
    folder = parts.own_iperf3_folder(kind.version, bench.cache)
    with replacing(folder) as finished:
        contents = packages / "contents"
        for file in files:
            run_logged(["dpkg-deb", "--extract", file, contents], bench.log("iperf3"))
        (finished / "lib").mkdir()
        shutil.copy2(contents / "usr/bin/iperf3", finished / "iperf3")
        for library in _libraries(contents):
            shutil.copy2(library, finished / "lib" / library.name)
        sha256 = _sum_of(finished)
        _bind(finished, folder, bench)
        write_json(
            finished / "iperf3.json",
            {
                "version": candidate.version,
                "packages": sorted(file.name for file in files),
                "sha256": sha256,
            },
        )
    shutil.rmtree(packages)
    if parts.find_own_iperf3(kind.version, bench.cache) is None:
        shutil.rmtree(folder)
        raise SetupError(f"{candidate} was unpacked but does not run here")
    return candidate.version


def _libraries(contents: Path) -> Iterator[Path]:
    """Every shared library that was unpacked, the loader among them."""
    for folder in LIBRARY_FOLDERS:
        for path in sorted(contents.glob(f"{folder}/*.so*")):
            if path.is_file():
                yield path


def _bind(unpacked: Path, folder: Path, bench: Workbench) -> None:
    """Let the program start with its own loader and libraries, in the folder where it will be."""
    loader = next((unpacked / "lib").glob(LOADER)).name
    words: list[str | Path] = ["--set-interpreter", folder / "lib" / loader]
    # An RPATH, not a RUNPATH: it holds for what the libraries need too.
    words += ["--force-rpath", "--set-rpath", "$ORIGIN/lib"]
    run_logged(["patchelf", *words, unpacked / "iperf3"], bench.log("iperf3"))


def _sum_of(folder: Path) -> str:
    """SHA-256 of the program and its libraries: of a line each with its name and sum."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(folder)} {parts.file_sha256(path)}\n".encode())
    return total.hexdigest()
