"""What the kernel and the relay are built with, for who may not install it: Debian's packages,
unpacked into the cache.

A tool starts with the loader that it was built for. A compiler names others by their paths: where
the machine has none, what compiles finds the unpacked /usr in the place of the machine's.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gostlab.install import landlock
from gostlab.install.build_env import SetupError, Workbench, replacing
from gostlab.install.deb_extract import fetch_with_libraries, unpack
from gostlab.install.rootfs import LIBRARIES, LOADER, SUITE
from gostlab.registry.folders import cache_folder

FOLDER = "build-tools"
COMPILERS = ("gcc", "make")
# Program -> the packages that it is in, besides its libraries.
TOOLS = {
    "flex": ("flex", "m4"),
    "bison": ("bison", "m4"),
    "bc": ("bc",),
    "xz": ("xz-utils",),
    "patch": ("patch",),
    "go": ("golang-go",),
}
# All that a build starts, where it is to find its compilers.
SYSTEM = (
    "gcc libc6-dev make bash coreutils dash diffutils findutils grep gzip hostname mawk perl-base"
    " sed tar"
).split()
# What packages stand for, and what compiling needs besides libraries.
MORE = r"golang-1\.\d+-(go|src)|((gcc|cpp|libctf|(lib)?binutils|linux-libc).*|lib.*-dev)"


def build_path() -> str:
    """Where they are, to be searched last."""
    return str(cache_folder() / FOLDER / "bin")


def lacking(programs: Sequence[str]) -> list[str]:
    """Those of some programs that this machine does not have."""
    machines = os.pathsep.join(each for each in os.get_exec_path() if each != build_path())
    return [name for name in programs if shutil.which(name, path=machines) is None]


def provide_build_tools(bench: Workbench, *, with_go: bool) -> str:
    """What this machine lacks of them. Raises SetupError."""
    wanted = [*COMPILERS, *(name for name in TOOLS if with_go or name != "go")]
    missing, compilers = lacking(wanted), lacking(COMPILERS)
    if not missing:
        return f"{', '.join(wanted)} are there"
    if compilers:
        missing = wanted
        check_namespaces(compilers)
    folder = bench.cache / FOLDER
    if all((folder / "bin" / name).is_file() for name in missing):
        return f"{', '.join(missing)} (unpacked before)"
    packages = [each for name in missing for each in TOOLS.get(name, ())]
    packages = list(dict.fromkeys([*packages, *(SYSTEM if compilers else [])]))
    scratch = bench.cache / "build" / FOLDER
    files = fetch_with_libraries(bench, packages, scratch, SUITE, MORE)
    bench.say("unpacking")
    with replacing(folder) as finished:
        unpack(files, finished / "tree", bench.log("tools"))
        (finished / "tree/usr/local").mkdir(exist_ok=True)
        if compilers:
            (finished / "tree/usr/bin/awk").symlink_to("mawk")
        (finished / "bin").mkdir()
        for name in (*missing, *(["m4"] if "m4" in packages else [])):
            started = finished / "bin" / name
            started.write_text(script(folder, finished, name), encoding="utf-8")
            started.chmod(0o755)
    shutil.rmtree(scratch)
    whose = "" if missing == wanted else ", the others are this machine's"
    return f"{', '.join(missing)} unpacked{whose}"


def script(folder: Path, unpacked: Path, name: str) -> str:
    """What starts a program of a folder (now: `unpacked`), with its own loader and libraries."""
    tree = folder / "tree"
    if name == "go":
        root = next(unpacked.glob("tree/usr/lib/go-*")).relative_to(unpacked)
        return f'#!/bin/sh\nexport GOROOT="{folder / root}"\nexec "$GOROOT/bin/go" "$@"\n'
    return (
        f'#!/bin/sh\nexport BISON_PKGDATADIR="{tree}/usr/share/bison" M4="{folder}/bin/m4"\n'
        f'exec "{tree / LOADER}" --library-path "{tree / LIBRARIES}" "{tree}/usr/bin/{name}" "$@"\n'
    )


def mounts_of_its_own() -> None:
    landlock.enter_namespaces(landlock.CLONE_NEWNS)


def check_namespaces(missing: Sequence[str]) -> None:
    """Raises SetupError where a user may not have namespaces to compile in."""
    try:
        subprocess.run(["true"], preexec_fn=mounts_of_its_own, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(
            f"there is no {' and no '.join(missing)} here, and this machine gives its users no"
            " namespaces to compile in: have the packages gcc, libc6-dev and make installed"
        ) from error


def enter() -> None:
    """In a process that will start what compiles: where this machine lacks compilers, it finds the
    unpacked /usr in the place of the machine's. Raises OSError.
    """
    tree = cache_folder() / FOLDER / "tree/usr"
    if lacking(COMPILERS) and (tree / "bin/gcc").exists():
        mounts_of_its_own()
        # The lab, or its Python, may be below it.
        landlock.bind(Path("/usr/local"), tree / "local")
        landlock.bind(tree, Path("/usr"))
