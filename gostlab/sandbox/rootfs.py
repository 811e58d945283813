"""The guest's view of the host beside its root file system (gostlab.install.rootfs).

All paths are the same wherever the lab and its parts lie.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gostlab import lazy
from gostlab.install.kernel_modules import Module
from gostlab.install.rootfs import Root, chosen_root
from gostlab.registry.folders import CODE, ROOT, TOPOLOGY_FILE, cache_folder
from gostlab.registry.folders import PYTHON_PATH as FROM_HERE
from gostlab.sandbox import root_of
from gostlab.sandbox.module_bundle import LAB
from gostlab.spec.run_spec import RunSpec

INIT = Path(__file__).with_name("guest_init.py")
# In the run's folder: links to what the guest sees, each by the name that it has in PLACES.
LINKS = ".host"
PLACES = "/run/host"  # in the guest (gostlab/sandbox/guest_init.py)
# The folder and file of what a run imports, and what says which sources it was made of.
KEPT, MODULES, MADE_OF = "kept", "modules", "made-of"
FORGOTTEN_AFTER_S = 86400.0
PYTHON_PATH = ":".join(dict.fromkeys((LAB, f"{LAB}/{ROOT.relative_to(CODE)}".removesuffix("/."))))
QUICK_IMPORTS = {"SETUPTOOLS_USE_DISTUTILS": "stdlib"}  # its Python is older than 3.12


@dataclass(frozen=True)
class OwnRoot:
    """The root of a guest."""

    root: Root
    parts: Mapping[str, Any]  # what a run is told of its programs, by their paths inside
    shown: Mapping[str, Path]  # the folders that the guest sees, by their names in PLACES
    alone: tuple[Path, ...] = ()  # the programs in them that are all that it may read there, if any

    @property
    def environ(self) -> dict[str, str]:
        """What a command's environment has on this root and not on the host's files."""
        return {"PYTHONPATH": PYTHON_PATH, **QUICK_IMPORTS}

    def inside(self, name: str) -> str:
        """Where the guest sees a shown folder."""
        return f"{PLACES}/{name}"

    def readable(self, modules: Sequence[Module]) -> list[Path]:
        """What its process may read of the host, besides the run's folder."""
        lone = {path.parent for path in self.alone}
        shown = (path for path in self.shown.values() if path not in lone)
        found = (self.root.tree, CODE, *shown, *self.alone, *(each.file for each in modules))
        return [path.resolve() for path in found]

    def lay_out(self, folder: Path, modules: Sequence[Module]) -> list[str]:
        """Link what the guest sees into a run's folder; the modules' files below PLACES. Raises
        OSError.
        """
        links = folder / LINKS
        shutil.rmtree(links, ignore_errors=True)
        (links / "init").mkdir(parents=True)
        (links / "root").symlink_to(self.root.tree.resolve())
        shutil.copyfile(INIT, links / "init/init.py")
        named = {f"module{number}": each.file.parent for number, each in enumerate(modules)}
        (links / "shown").mkdir()
        for name, path in {"lab": CODE, **self.shown, **named}.items():
            (links / "shown" / name).symlink_to(path.resolve())
        return [f"/module{number}/{each.file.name}" for number, each in enumerate(modules)]


def plain_root(**shown: Path) -> OwnRoot | None:
    """The own root for a guest that makes no run; None: the host's files. Raises MissingPart."""
    root = chosen_root()
    if root is None:
        return None
    return OwnRoot(root, {}, {**shown, **kept_modules(root)})


def own_root(handed: Mapping[str, Any], run: RunSpec) -> OwnRoot | None:
    """The own root for a run that is handed some parts; None: the host's files. Raises
    MissingPart.
    """
    root = root_of(run)
    if root is None:
        return None
    shown = {**kept_modules(root)}
    alone: list[Path] = []

    def inside(program: Mapping[str, Any]) -> dict[str, Any]:
        name = f"gost-{program['sha256'][:12]}"
        shown[name] = Path(program["path"]).parent
        alone.append(Path(program["path"]))
        return {**program, "path": f"{PLACES}/{name}/{Path(program['path']).name}"}

    gosts = {name: inside(one) for name, one in handed["gosts"].items()}
    tunnel = handed["tunnel"] and inside(handed["tunnel"])
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
    return OwnRoot(root, parts, shown, tuple(alone))


@cache
def kept_modules(root: Root) -> dict[str, Path]:
    """Return what a run imports (gostlab.sandbox.module_bundle), as a folder that a guest is shown.

    It lies in the cache, for each checkout and root; {} where it cannot lie there.
    """
    key = hashlib.sha256(f"{CODE}\0{root.tree}".encode()).hexdigest()[:12]
    folder = cache_folder() / "byte-code" / key
    file = folder / MODULES
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        forget_lost_labs(folder)
    except OSError:
        return {}
    # By each source's time and length: another version's may be older than those it replaces.
    stats = {each: each.stat() for each in (*CODE.glob("gostlab/**/*.py"), TOPOLOGY_FILE)}
    sources = sorted((str(each), at.st_mtime_ns, at.st_size) for each, at in stats.items())
    made_of = hashlib.sha256(repr(sources).encode("utf-8", "replace")).hexdigest()
    known = folder / MADE_OF
    if not (file.exists() and known.exists() and known.read_text("ascii") == made_of):
        argv, environ = root.python("-m", "gostlab.sandbox.module_bundle", file)
        environ |= {"PYTHONPATH": FROM_HERE, **QUICK_IMPORTS}
        if subprocess.run(argv, env=environ, capture_output=True, check=False).returncode == 0:
            lazy.replace(known, made_of.encode("ascii"))
        else:
            file.unlink(missing_ok=True)  # of other sources
    return {KEPT: folder}


def forget_lost_labs(folder: Path) -> None:
    """Note whose byte code a folder has, and remove those beside it whose lab is gone, or has
    another root by now, where nobody has used them for a day: a lab in a container may share the
    cache, and is not seen here. Raises OSError.
    """
    lately = folder.stat().st_mtime - FORGOTTEN_AFTER_S  # no clock that jumps in between
    with contextlib.suppress(FileExistsError):
        (folder / "of").symlink_to(CODE)
    for other in folder.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another lab is at it
            of = other / "of"
            lost = of.is_symlink() and (not of.exists() or of.samefile(CODE))
            if lost and other.stat().st_mtime < lately:
                shutil.rmtree(other, ignore_errors=True)
