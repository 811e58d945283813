"""Where the lab's files are: in its checkout, and in the cache of what the set-up made.

Python's own library alone.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "experiments"
PROFILES = ROOT / "netem_profiles"
MACHINES = ROOT / "machines"
MEASUREMENTS = ROOT / "measurements"
LABS = ROOT / "labs"
CONTROLS = ROOT / "cc"
KERNELS = ROOT / "kernel" / "versions"
TOPOLOGIES = ROOT / "topo.py"
TUNNELS = ROOT / "gostlab" / "guest" / "tunnels"
QDISCS = ROOT / "gostlab" / "guest" / "qdiscs"
TRAFFIC_KINDS = ROOT / "gostlab" / "guest" / "traffic_kinds"
FORMATS = ROOT / "gostlab" / "apps" / "paths" / "formats"
DRAWINGS = ROOT / "analysis" / "draw" / "drawings"


def from_root(path: Path) -> str:
    """A path as people see it: from the checkout's folder on."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


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
