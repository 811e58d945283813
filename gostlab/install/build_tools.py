# SPDX-License-Identifier: MIT
"""Unpack Debian's build tools into the cache, for users who may not install them.

The kernel and the relay are built with them. A tool starts with the loader that it was built for. A
compiler refers to other programs by their paths: if the machine has none, the build sees the
unpacked /usr instead of the machine's.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gostlab.install import landlock
from gostlab.install.build_env import InstallContext, SetupError, replaced_folder
from gostlab.install.deb_extract import fetch_with_libraries, unpack
from gostlab.install.rootfs import LIBRARIES, LOADER, SUITE
from gostlab.registry.folders import cache_folder

FOLDER = "build-tools"
COMPILERS = ("gcc", "make")
# Program -> its packages, besides its libraries.
TOOLS = {
    "flex": ("flex", "m4"),
    "bison": ("bison", "m4"),
    "bc": ("bc",),
    "xz": ("xz-utils",),
    "patch": ("patch",),
    "go": ("golang-go",),
}
# Packages of all programs that a build starts if the machine has no compilers.
SYSTEM = (
    "gcc libc6-dev make bash coreutils dash diffutils findutils grep gzip hostname mawk perl-base"
    " sed tar"
).split()
# Dependencies of metapackages, and packages that compiling needs besides libraries.
MORE = r"golang-1\.\d+-(go|src)|((gcc|cpp|libctf|(lib)?binutils|linux-libc).*|lib.*-dev)"


def build_path() -> str:
    """Return the folder of the unpacked tools, which is last in PATH."""
    return str(cache_folder() / FOLDER / "bin")


def find_missing_programs(programs: Sequence[str]) -> list[str]:
    """Return those programs that this machine does not have."""
    machine_path = os.pathsep.join(
        folder for folder in os.get_exec_path() if folder != build_path()
    )
    return [name for name in programs if shutil.which(name, path=machine_path) is None]


def provide_build_tools(bench: InstallContext, *, with_go: bool) -> str:
    """Unpack the build tools that this machine lacks. Raises SetupError."""
    wanted = [*COMPILERS, *(name for name in TOOLS if with_go or name != "go")]
    missing, compilers = find_missing_programs(wanted), find_missing_programs(COMPILERS)
    if not missing:
        return f"{', '.join(wanted)} are there"
    if compilers:
        missing = wanted
        check_namespaces(compilers)
    folder = bench.cache / FOLDER
    if all((folder / "bin" / name).is_file() for name in missing):
        return f"{', '.join(missing)} (unpacked before)"
    packages = [package for name in missing for package in TOOLS.get(name, ())]
    packages = list(dict.fromkeys([*packages, *(SYSTEM if compilers else [])]))
    scratch = bench.cache / "build" / FOLDER
    files = fetch_with_libraries(bench, packages, scratch, SUITE, MORE)
    bench.say("unpacking")
    with replaced_folder(folder) as finished:
        unpack(files, finished / "tree", bench.log("tools"))
        (finished / "tree/usr/local").mkdir(exist_ok=True)
        if compilers:
            (finished / "tree/usr/bin/awk").symlink_to("mawk")
        (finished / "bin").mkdir()
        for name in (*missing, *(["m4"] if "m4" in packages else [])):
            wrapper = finished / "bin" / name
            wrapper.write_text(wrapper_script(folder, finished, name), encoding="utf-8")
            wrapper.chmod(0o755)
    shutil.rmtree(scratch)
    origin = "" if missing == wanted else ", the others are this machine's"
    return f"{', '.join(missing)} unpacked{origin}"


def wrapper_script(folder: Path, unpacked: Path, name: str) -> str:
    """Return a wrapper that starts an unpacked program with its own loader and libraries."""
    tree = folder / "tree"
    if name == "go":
        root = next(unpacked.glob("tree/usr/lib/go-*")).relative_to(unpacked)
        return f'#!/bin/sh\nexport GOROOT="{folder / root}"\nexec "$GOROOT/bin/go" "$@"\n'
    return (
        f'#!/bin/sh\nexport BISON_PKGDATADIR="{tree}/usr/share/bison" M4="{folder}/bin/m4"\n'
        f'exec "{tree / LOADER}" --library-path "{tree / LIBRARIES}" "{tree}/usr/bin/{name}" "$@"\n'
    )


def enter_mount_namespace() -> None:
    landlock.enter_namespaces(landlock.CLONE_NEWNS)


def check_namespaces(missing: Sequence[str]) -> None:
    """Check that this user may create the namespaces of a build. Raises SetupError."""
    try:
        subprocess.run(["true"], preexec_fn=enter_mount_namespace, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(
            f"there is no {' and no '.join(missing)} here, and this machine gives its users no"
            " namespaces to compile in: have the packages gcc, libc6-dev and make installed"
        ) from error


def enter_build_namespace() -> None:
    """Prepare a child process for a build: mount the unpacked /usr over the machine's.

    This is done only if the machine lacks compilers. Raises OSError.
    """
    tree = cache_folder() / FOLDER / "tree/usr"
    if find_missing_programs(COMPILERS) and (tree / "bin/gcc").exists():
        enter_mount_namespace()
        # The lab, or its Python, may be below /usr/local.
        landlock.bind_mount(Path("/usr/local"), tree / "local")
        landlock.bind_mount(tree, Path("/usr"))
