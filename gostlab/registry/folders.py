"""Where the lab's files are: in its checkout or its installed package, and in the cache of what the
set-up made.

In a checkout what people write (experiments, profiles, labs) lies beside the code. A package has it
all within gostlab/, as pyproject.toml says.
"""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from gostlab.errors import COMMAND as COMMAND

CODE = Path(__file__).resolve().parents[2]  # where gostlab is imported from
IN_PACKAGE = CODE / "gostlab" / "data"
IS_PACKAGE = IN_PACKAGE.is_dir()
ROOT = IN_PACKAGE if IS_PACKAGE else CODE
# In a checkout gostlab/analysis is a symbolic link to the folder at the top.
ANALYSIS = CODE / "gostlab" / "analysis"
BROUGHT = CODE / "gostlab" / "brought"  # the parts in a package from `make wheel`
# Where a run's Python finds gostlab and topo.
PYTHON_PATH = os.pathsep.join(dict.fromkeys((str(CODE), str(ROOT))))
EXPERIMENTS = ROOT / "experiments"
PROFILES = ROOT / "netem_profiles"
MACHINES = ROOT / "machines"
MEASUREMENTS = ROOT / "measurements"
LABS = ROOT / "labs"
CONTROLS = ROOT / "cc"
KERNELS = ROOT / "kernel" / "versions"
TOPOLOGY_FILE = ROOT / "topo.py"
# The folders of plugins: every file there is found, and no other module names one.
TUNNELS = CODE / "gostlab" / "tunnels"
QDISCS = CODE / "gostlab" / "qdiscs"
TRAFFIC_KINDS = CODE / "gostlab" / "traffic"
FORMATS = CODE / "gostlab" / "importers"
DRAWINGS = ANALYSIS / "plots"
# Programs of the lab's own on a node. Python asks a call more for each folder of their path, and a
# run's clock may charge it: elsewhere they would give other results.
NODE_PROGRAMS = CODE / "gostlab" / "guest"
# Where a profile of the user's goes: into the checkout, or the current folder, never a package.
OWN_PROFILES = Path(PROFILES.name) if IS_PACKAGE else PROFILES


def from_root(path: Path) -> str:
    """A path as people see it: from the checkout's folder on."""
    for root in (ROOT, CODE):
        if (text := str(path)).startswith(f"{root}{os.sep}"):
            return text.removeprefix(f"{root}{os.sep}")
    return str(path)


def sources(*packages: str) -> Iterator[tuple[str, Path]]:
    """The Python of some packages, and topo.py: each file by its name in a checkout."""
    yield TOPOLOGY_FILE.name, TOPOLOGY_FILE
    for path in (path for package in packages for path in sorted((CODE / package).rglob("*.py"))):
        if not path.is_relative_to(IN_PACKAGE):
            yield path.relative_to(CODE).as_posix(), path


def places(folder: Path) -> list[Path]:
    """Where what people write is looked for; with a package also in the current folder."""
    return [folder, Path(folder.name)] if IS_PACKAGE and folder.parent == ROOT else [folder]


def cache_folder() -> Path:
    """The folder of everything that the set-up made.

    $GOSTLAB_CACHE, else gostlab in $XDG_CACHE_HOME or ~/.cache. Under sudo it is the calling
    user's, if that user has one: what `./lab setup` made is found again by `sudo python topo.py`.
    """
    named = os.environ.get("GOSTLAB_CACHE")
    if named:
        return Path(named).absolute()
    caller = os.environ.get("SUDO_USER")
    if caller and os.geteuid() == 0:
        try:
            callers = Path(pwd.getpwnam(caller).pw_dir) / ".cache" / "gostlab"
        except KeyError:
            pass
        else:
            if callers.is_dir():
                return callers
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and base.startswith("/") else home() / ".cache") / "gostlab"


def home() -> Path:
    """This user's home; for a user id that nobody knows (a container's), Debian's word for none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def own_cc_folder() -> Path:
    return cache_folder() / "cc"


def own_kernels_folder() -> Path:
    return cache_folder() / "kernels"
