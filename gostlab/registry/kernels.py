"""Kernels that a run can have: the one that the set-up builds, versions of Linux that are declared
in kernel/versions, and trees of the user's own.

A folder kernel/versions/NAME with a kernel.toml makes NAME a level of `kernel`
(kernel/versions/6.12/kernel.toml says what stands in one). What a kernel can do for a run follows
from its version and from the patches that it took; what it cannot is refused where somebody asks
for it, and said of every run on it.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gostlab.errors import BadInput
from gostlab.registry.congestion_controls import strangers_welcome
from gostlab.registry.folders import KERNELS, from_root, own_kernels_folder
from gostlab.registry.static_loader import records

DECLARATION = "kernel.toml"
RECORD = "kernel.json"  # beside a kernel that is built
SHIPPED = "shipped"  # the one that ./lab setup builds
SHIPPED_VERSION = (7,)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,31}")
ALL_PATCHES = "*"


@dataclass(frozen=True)
class Feature:
    """Something that a kernel can do for a run, and what gives it."""

    says: str  # in words, after "it has no"
    patch: str | None = None  # its number in kernel/patches
    since: tuple[int, ...] = ()  # the first version that has it by itself
    clock: str | None = None  # the only one that it matters on


# Without one of the first five it answers another question than the default machine model's.
FEATURES: Mapping[str, Feature] = {
    "hz": Feature("tick of 250 Hz, but one of 100", "0001"),
    "time travel": Feature("virtual clock", since=(5, 7), clock="virtual"),
    "costs": Feature("cost per system call and no CPUs of a host's own", "0002", clock="virtual"),
    "seeds": Feature("randomness from the run's seed", "0003", clock="virtual"),
    "free clock": Feature("clock that is read without a system call", "0005", clock="virtual"),
    "packet cost": Feature("cost per packet", "0008", clock="virtual"),
    "idle": Feature("idle that keeps its wake-ups", "0030", since=(6, 1), clock="real"),
    "host memory": Feature("TCP memory of each host's own", "0006"),
    "program costs": Feature("costs of a program's own", "0007", clock="virtual"),
    "reading on": Feature("reads made for a program (it is slower)", "0015", clock="virtual"),
    "moderated": Feature("cards whose interrupts are some time apart", "0009"),
    "ssthresh": Feature("ssthresh of the socket's own at every ACK", "0004"),
    "tbf": Feature("token bucket that keeps its fill when its rate changes", "0020"),
    "netem seed": Feature("seed of netem's own (its losses follow from the run's)", since=(6, 6)),
    "dualpi2": Feature("qdisc dualpi2", since=(6, 17)),
    "accurate ecn": Feature("accurate ECN (RFC 9768)", since=(7, 0)),
    "seccomp": Feature("calls without ptrace (each costs more of this machine)", "0037", (6, 16)),
}
# Without these a run is another one than it would be on the shipped kernel.
DECIDING = ("hz", "time travel", "costs", "seeds", "free clock", "packet cost", "idle")


@dataclass(frozen=True)
class Kernel:
    """A kernel that an experiment may name."""

    name: str
    version: tuple[int, ...]  # of a declared one: as far as it is said, (6, 12)
    features: frozenset[str]
    sha256: str = ""  # of a user's own: what it was made of
    origin: str = ""  # of a user's own: the tree or tarball

    @property
    def own(self) -> bool:
        return bool(self.origin)

    @property
    def lacks(self) -> tuple[str, ...]:
        return tuple(name for name in FEATURES if name not in self.features)


@dataclass(frozen=True)
class Patch:
    """A patch of a series."""

    file: Path
    only: tuple[str, ...] = ()  # the files that are taken of it; empty: all

    @property
    def number(self) -> str:
        """0005 of 0005-um-vdso-clock-on-the-virtual-clock.patch."""
        return self.file.name[:4]

    def text(self) -> str:
        """What `patch -p1` is given."""
        text = self.file.read_text(encoding="utf-8")
        if not self.only:
            return text
        parts = re.split(r"(?m)^(?=--- )", text)[1:]
        kept = [part for part in parts if touched(part) in self.only]
        if len(kept) != len(self.only):
            raise BadInput(f"{from_root(self.file)} does not touch all of {', '.join(self.only)}")
        return "".join(kept)


def touched(part: str) -> str:
    """The file that one file's part of a patch is of."""
    found = re.search(r"^\+\+\+ b/(\S+)", part, re.MULTILINE)
    return found[1] if found else ""


@dataclass(frozen=True, kw_only=True)
class Declared(Kernel):
    """A version of Linux that the lab can build."""

    file: Path
    package: str
    series: tuple[Patch, ...]
    more: tuple[str, ...]  # options, NAME=value
    may_be_missing: tuple[str, ...]  # options, NAME


def features_of(version: tuple[int, ...], patches: Iterable[str]) -> frozenset[str]:
    """What a kernel of a version can do that took these patches, by their numbers."""
    taken = set(patches)
    return frozenset(
        name
        for name, feature in FEATURES.items()
        if feature.patch in taken or (feature.since and version >= feature.since)
    )


def patch_named(word: str, folder: Path, only: tuple[str, ...] = ()) -> Patch:
    """0002: of kernel/patches; 6.12/0005: of a version's folder. Raises BadInput."""
    where, _, number = word.rpartition("/")
    home = folder / where if where else folder.parent / "patches"
    found = sorted(home.glob(f"{number}-*.patch"))
    if len(found) != 1:
        raise BadInput(
            f"{from_root(home)}: {len(found)} patches {number}-*.patch, where one should be"
        )
    return Patch(found[0], only)


def read_declared(file: Path) -> Declared:
    """A kernel.toml. Raises BadInput."""
    try:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{from_root(file)}: {error}") from None
    known = {"package", "series", "only", "more", "may_be_missing"}
    wrong = sorted(set(read) - known) or sorted({"package", "series"} - set(read))
    if wrong:
        raise BadInput(f"{from_root(file)}: {wrong[0]}: unknown, or missing")
    folder = file.parents[1]
    only = read.get("only", {})
    words = read["series"]
    if words == [ALL_PATCHES]:
        words = sorted(path.name[:4] for path in (folder.parent / "patches").glob("*.patch"))
    series = tuple(patch_named(word, folder, tuple(only.get(word, ()))) for word in words)
    version = tuple(int(word) for word in file.parent.name.split("."))
    return Declared(
        name=file.parent.name,
        version=version,
        features=features_of(version, (patch.number for patch in series)),
        file=file,
        package=read["package"],
        series=series,
        more=tuple(read.get("more", ())),
        may_be_missing=tuple(read.get("may_be_missing", ())),
    )


@cache
def declared_kernels(folder: Path = KERNELS) -> dict[str, Declared]:
    """The versions of Linux that the lab can build by name, the newest first. Raises BadInput."""
    found = [read_declared(file) for file in folder.glob(f"*/{DECLARATION}")]
    return {each.name: each for each in sorted(found, key=lambda each: each.version, reverse=True)}


def own_kernels() -> dict[str, Kernel]:
    """The user's kernels by name. A folder that is half there is none."""

    def read(_: Path, record: Any) -> Kernel:
        version = tuple(int(word) for word in re.findall(r"\d+", record["version"])[:3])
        features = features_of(version, record["patches"])
        return Kernel(record["name"], version, features, record["inputs_hash"], record["origin"])

    return {each.name: each for each in records(own_kernels_folder(), RECORD, read)}


def known_names() -> tuple[str, ...]:
    """What an experiment may write."""
    return (SHIPPED, *declared_kernels(), *own_kernels())


def version_of(name: str) -> tuple[int, ...]:
    """Return the version of a kernel by its name, that of the shipped one if nobody here has it."""
    if name != SHIPPED and name in (own := own_kernels()):
        return own[name].version
    if re.fullmatch(r"\d+(\.\d+)*", name):  # of kernel/versions, which a guest does not see
        return tuple(map(int, name.split(".")))
    return SHIPPED_VERSION


def kernel_named(name: str) -> Kernel:
    """A kernel by what an experiment calls it. Raises BadInput."""
    if name in declared_kernels():
        return declared_kernels()[name]
    if name != SHIPPED and name in (own := own_kernels()):
        return own[name]
    # The one that the set-up builds takes every patch, or it is not built.
    if name == SHIPPED or strangers_welcome():
        return Kernel(name, SHIPPED_VERSION, frozenset(FEATURES))
    raise BadInput(
        f"no kernel {name} (there are {', '.join(known_names())}; one of your own:"
        " ./lab kernel add TREE --name NAME)"
    )
