# SPDX-License-Identifier: MIT
"""Lay out a guest's root file system (gostlab.install.rootfs) and its view of the host.

All paths are the same wherever the lab and its parts lie.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gostlab.errors import LAB_IN_GUEST
from gostlab.install.kernel_modules import KernelModule
from gostlab.install.parts_json import PartsJson, TunnelJson
from gostlab.install.rootfs import GuestRoot, require_root
from gostlab.registry.folders import CODE, ROOT, TOPOLOGY_FILE, cache_folder
from gostlab.registry.folders import PYTHON_PATH as HOST_PYTHON_PATH
from gostlab.registry.installed_plugins import PLUGINS
from gostlab.sandbox import root_of_run
from gostlab.spec.run_spec import RunSpec

INIT = Path(__file__).with_name("guest_init.py")
# Folder of a run with links to what the guest sees; the names are those in HOST_FOLDERS.
LINKS = ".host"
HOST_FOLDERS = "/run/host"  # path in the guest (gostlab/sandbox/guest_init.py)
BUNDLE_FOLDER = "kept"  # name of the module bundle in HOST_FOLDERS
UNUSED_AFTER_S = 86400.0
PYTHON_PATH = ":".join(
    dict.fromkeys((LAB_IN_GUEST, f"{LAB_IN_GUEST}/{ROOT.relative_to(CODE)}".removesuffix("/.")))
)
QUICK_IMPORTS = {"SETUPTOOLS_USE_DISTUTILS": "stdlib"}  # the guest's Python is older than 3.12


@dataclass(frozen=True)
class OwnRoot:
    """The root of a guest and the host folders that it sees."""

    root: GuestRoot
    parts: Mapping[str, object]  # the programs of a run by their paths in the guest
    shared: Mapping[str, Path]  # the visible host folders by their names in HOST_FOLDERS
    programs: tuple[Path, ...] = ()  # the only readable files of their folders

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment variables that only guests with this root have."""
        return {"PYTHONPATH": PYTHON_PATH, **QUICK_IMPORTS}

    def inside(self, name: str) -> str:
        """Return the path of a shared folder in the guest."""
        return f"{HOST_FOLDERS}/{name}"

    @cached_property
    def link_targets(self) -> dict[str, str]:
        """Return the targets of the links that every guest with this root has."""
        visible = {f"shown/{name}": path for name, path in {"lab": CODE, **self.shared}.items()}
        return {
            name: str(path.resolve()) for name, path in {"root": self.root.tree, **visible}.items()
        }

    def readable(self, modules: Sequence[KernelModule]) -> list[Path]:
        """Return the host paths that the guest may read besides the run's folder."""
        program_folders = {path.parent for path in self.programs}
        shared = (path for path in self.shared.values() if path not in program_folders)
        paths = (
            self.root.tree,
            CODE,
            *shared,
            *self.programs,
            *(module.file for module in modules),
        )
        return [path.resolve() for path in paths]

    def lay_out(self, folder: Path, modules: Sequence[KernelModule]) -> list[str]:
        """Link what the guest sees into a run's folder.

        Returns the modules' files by their paths below HOST_FOLDERS. Raises OSError.
        """
        links = f"{folder}/{LINKS}"
        shutil.rmtree(links, ignore_errors=True)
        os.mkdir(links)
        for name in ("init", "shown"):
            os.mkdir(f"{links}/{name}")
        shutil.copyfile(INIT, f"{links}/init/init.py")
        for name, target in self.link_targets.items():
            os.symlink(target, f"{links}/{name}")
        for number, module in enumerate(modules):
            os.symlink(module.file.parent.resolve(), f"{links}/shown/module{number}")
        return [f"/module{number}/{module.file.name}" for number, module in enumerate(modules)]


def root_without_run(**shared: Path) -> OwnRoot:
    """Return the root of a guest without a run. Raises MissingPart."""
    root = require_root()
    return OwnRoot(root, {}, {**shared, **bundle_folder(root)})


def root_for_run(handed: PartsJson, run: RunSpec, sources: str | None = None) -> OwnRoot | None:
    """Return the root for a run with these parts; None: the host's files.

    sources: the digest of the lab's sources, if it is known. Raises MissingPart.
    """
    root = root_of_run(run)
    if root is None:
        return None
    shared = {**bundle_folder(root, sources)}
    programs: list[Path] = []

    def share(program: TunnelJson) -> TunnelJson:
        name = f"gost-{program['sha256'][:12]}"
        shared[name] = Path(program["path"]).parent
        programs.append(Path(program["path"]))
        return {**program, "path": f"{HOST_FOLDERS}/{name}/{Path(program['path']).name}"}

    gosts = {name: share(program) for name, program in handed["gosts"].items()}
    tunnel = handed["tunnel"] and share(handed["tunnel"])
    parts = {
        **handed,
        "path_dirs": [],
        "tc_lib_dir": None,
        "nginx": "/usr/sbin/nginx",
        "irtt": "/usr/bin/irtt",
        "iperf3": root.record["iperf3"],
        "tunnel": tunnel,
        "gosts": gosts,
        "programs": {},
    }
    return OwnRoot(root, parts, shared, tuple(programs))


def bundle_folder(root: GuestRoot, sources: str | None = None) -> dict[str, Path]:
    """Return the folder of the module bundle (gostlab.sandbox.python_bundle) of a root.

    The cache has one per checkout, root and sources; {} if the cache is not writable. sources:
    their digest, if it is known.
    """
    return provide_bundle(root, sources_digest() if sources is None else sources)


def sources_digest() -> str:
    """Return a digest of paths, times and sizes of the lab's sources.

    The sources of another version may be older than these.
    """
    stamps = [stamp_of(str(TOPOLOGY_FILE), os.stat(TOPOLOGY_FILE))]
    folders = [str(CODE / "gostlab")]
    while folders:  # Path.glob takes twice the time, which every run would spend
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    stamps.append(stamp_of(entry.path, entry.stat()))
                elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return hashlib.sha256("\n".join(sorted(stamps)).encode("utf-8", "replace")).hexdigest()


def stamp_of(path: str, stat: os.stat_result) -> str:
    return f"{path}\0{stat.st_mtime_ns}\0{stat.st_size}"


def provide_bundle(root: GuestRoot, digest: str) -> dict[str, Path]:
    """Return `bundle_folder` of sources with a digest, which are bundled if they are not yet."""
    key = hashlib.sha256(f"{CODE}\0{root.tree}\0{digest}".encode()).hexdigest()[:12]
    folder = cache_folder() / "byte-code" / key
    try:
        if not folder.is_dir():
            make_bundle(root, folder)
            remove_orphaned_bundles(folder)
        os.utime(folder)
    except (OSError, subprocess.SubprocessError):
        return {}
    return {BUNDLE_FOLDER: folder}


def make_bundle(root: GuestRoot, folder: Path) -> None:
    """Bundle the modules in a folder. Raises OSError or SubprocessError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder.parent) as scratch:
        part = Path(scratch) / "bundle"
        argv, environ = root.python("-P", "-m", "gostlab.sandbox.python_bundle", part)
        # Other packages' plugins are not among the lab's modules.
        environ |= {"PYTHONPATH": HOST_PYTHON_PATH, **QUICK_IMPORTS, PLUGINS: "[]"}
        subprocess.run(argv, env=environ, capture_output=True, check=True)
        (part / "of").symlink_to(CODE)
        with contextlib.suppress(OSError):  # another lab has made it meanwhile
            part.rename(folder)


def remove_orphaned_bundles(folder: Path) -> None:
    """Remove the orphaned bundles beside one.

    A bundle is orphaned if its checkout is gone or has another root or other sources by now, and it
    was not used for a day: a lab in a container may share the cache, and its checkout is not
    visible here. Raises OSError.
    """
    oldest_used_s = (
        folder.stat().st_mtime - UNUSED_AFTER_S
    )  # the file system's clock, which is also that of the others
    for other in folder.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another lab removes it at this moment
            checkout = other / "of"
            is_orphaned = checkout.is_symlink() and (
                not checkout.exists() or checkout.samefile(CODE)
            )
            if is_orphaned and other.stat().st_mtime < oldest_used_s:
                shutil.rmtree(other, ignore_errors=True)
