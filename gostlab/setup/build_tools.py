"""What the kernel and the relay are built with, for who may not install it: Debian's packages,
unpacked into the cache. A C compiler and make are the machine's own. Python's own library alone.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gostlab.declared.folders import cache_folder
from gostlab.setup.root import LIBRARIES, LOADER
from gostlab.setup.unpacked import fetch_with_libraries, unpack
from gostlab.setup.workbench import SetupError, Workbench, replacing

FOLDER = "build-tools"
COMPILERS = ("gcc", "make")
# Program -> the packages that it is in, besides its libraries.
TOOLS = {
    "flex": ("flex", "m4"),
    "bison": ("bison", "m4"),
    "bc": ("bc",),
    "xz": ("xz-utils",),
    "patch": ("patch",),
}
GO = "golang-go"
GO_ITSELF = r"golang-1\.\d+-(go|src)"  # what that package stands for


def build_path() -> str:
    """Where they are, to be searched last."""
    return str(cache_folder() / FOLDER / "bin")


def provide_build_tools(bench: Workbench, *, with_go: bool) -> str:
    """What this machine lacks of them. Raises SetupError."""
    missing = [name for name in COMPILERS if shutil.which(name) is None]
    if missing:
        raise SetupError(
            f"there is no {' and no '.join(missing)} here: have the packages gcc, libc6-dev and"
            " make installed"
        )
    wanted = [*TOOLS, *(["go"] if with_go else [])]
    machines = os.pathsep.join(each for each in os.get_exec_path() if each != build_path())
    lacking = [name for name in wanted if shutil.which(name, path=machines) is None]
    if not lacking:
        return f"{', '.join((*COMPILERS, *wanted))} are there"
    folder = bench.cache / FOLDER
    if all((folder / "bin" / name).is_file() for name in lacking):
        return f"{', '.join(lacking)} (unpacked before)"
    packages = list(dict.fromkeys(each for name in lacking for each in TOOLS.get(name, (GO,))))
    scratch = bench.cache / "build" / FOLDER
    files = fetch_with_libraries(bench, packages, scratch, more=GO_ITSELF)
    with replacing(folder) as finished:
        unpack(files, finished / "tree", bench.log("tools"))
        (finished / "bin").mkdir()
        for name in (*lacking, *(["m4"] if "m4" in packages else [])):
            started = finished / "bin" / name
            started.write_text(script(folder, finished, name), encoding="utf-8")
            started.chmod(0o755)
    shutil.rmtree(scratch)
    return f"{', '.join(lacking)} unpacked, the others are this machine's"


def script(folder: Path, unpacked: Path, name: str) -> str:
    """What starts a program of a folder, with the loader and libraries that it was built for.

    unpacked  where the folder is now
    """
    tree = folder / "tree"
    if name == "go":
        root = next(unpacked.glob("tree/usr/lib/go-*")).relative_to(unpacked)
        return f'#!/bin/sh\nexport GOROOT="{folder / root}"\nexec "$GOROOT/bin/go" "$@"\n'
    return (
        f'#!/bin/sh\nexport BISON_PKGDATADIR="{tree}/usr/share/bison" M4="{folder}/bin/m4"\n'
        f'exec "{tree / LOADER}" --library-path "{tree / LIBRARIES}" "{tree}/usr/bin/{name}" "$@"\n'
    )
