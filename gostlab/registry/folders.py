# SPDX-License-Identifier: MIT
"""Define the paths of gostlab's files, in a checkout or an installed package, and of its cache.

In a checkout, user-editable files (experiments, profiles, labs) are beside the code. A package has
all files within gostlab/, as pyproject.toml defines.
"""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from gostlab.errors import COMMAND as COMMAND
from gostlab.errors import PACKAGE

CODE = PACKAGE.parent  # The folder that gostlab is imported from.
IN_PACKAGE = CODE / "gostlab" / "data"
IS_PACKAGE = IN_PACKAGE.is_dir()
ROOT = IN_PACKAGE if IS_PACKAGE else CODE
# In a checkout gostlab/analysis is a symbolic link to the folder at the top.
ANALYSIS = CODE / "gostlab" / "analysis"
BROUGHT = CODE / "gostlab" / "brought"  # The parts bundled with a package from `make wheel`.
# The path on which a run's Python finds gostlab and topo.
PYTHON_PATH = os.pathsep.join(dict.fromkeys((str(CODE), str(ROOT))))
EXPERIMENTS = ROOT / "experiments"
PROFILES = ROOT / "netem_profiles"
MACHINES = ROOT / "machines"
MEASUREMENTS = ROOT / "measurements"
LABS = ROOT / "labs"
CONTROLS = ROOT / "cc"
KERNELS = ROOT / "kernel" / "versions"
KERNEL_MODULES = ROOT / "kernel" / "modules"
TOPOLOGY_FILE = ROOT / "topo.py"
# The folders of plugins: every file is found by listing, and no other module names one.
TUNNELS = CODE / "gostlab" / "tunnels"
QDISCS = CODE / "gostlab" / "qdiscs"
TRAFFIC_KINDS = CODE / "gostlab" / "traffic"
FORMATS = CODE / "gostlab" / "importers"
DRAWINGS = ANALYSIS / "plots"
# In the lab's own root: the first program of a guest.
FIRST_IN_ROOT = "/usr/lib/gostlab/first.py"
# The programs that gostlab runs on a node. Python makes one more system call per component of their
# path, which a run's clock may charge: another path would change results.
NODE_PROGRAMS = CODE / "gostlab" / "guest"
# The folder of the user's profiles: in the checkout, or in the current folder, never in a package.
OWN_PROFILES = Path(PROFILES.name) if IS_PACKAGE else PROFILES


def from_root(path: Path) -> str:
    """Return a path relative to the checkout, for messages."""
    for root in (ROOT, CODE):
        if (text := str(path)).startswith(f"{root}{os.sep}"):
            return text.removeprefix(f"{root}{os.sep}")
    return str(path)


def sources(*packages: str) -> Iterator[tuple[str, Path]]:
    """Yield the Python files of some packages, and topo.py, each with its name in a checkout."""
    yield TOPOLOGY_FILE.name, TOPOLOGY_FILE
    for path in (path for package in packages for path in sorted((CODE / package).rglob("*.py"))):
        if not path.is_relative_to(IN_PACKAGE):
            yield path.relative_to(CODE).as_posix(), path


def search_paths(folder: Path) -> list[Path]:
    """Return the folders in which to search a user's files; a package adds the current one."""
    return [folder, Path(folder.name)] if IS_PACKAGE and folder.parent == ROOT else [folder]


def cache_folder() -> Path:
    """Return the folder of everything that the installation made.

    It is $GOSTLAB_CACHE, else gostlab in $XDG_CACHE_HOME or ~/.cache. Under sudo it is the calling
    user's, if that user has one: `sudo python topo.py` then finds what `./lab setup` made.
    """
    configured = os.environ.get("GOSTLAB_CACHE")
    if configured:
        return Path(configured).absolute()
    caller = os.environ.get("SUDO_USER")
    if caller and os.geteuid() == 0:
        try:
            caller_folder = Path(pwd.getpwnam(caller).pw_dir) / ".cache" / "gostlab"
        except KeyError:
            pass
        else:
            if caller_folder.is_dir():
                return caller_folder
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and base.startswith("/") else home() / ".cache") / "gostlab"


def home() -> Path:
    """Return this user's home, or /nonexistent for an unknown user id (as in a container)."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def own_cc_folder() -> Path:
    return cache_folder() / "cc"


def own_kernels_folder() -> Path:
    return cache_folder() / "kernels"
