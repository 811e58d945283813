"""Declare the kernels of a run: the default build, versions in kernel/versions, and user trees.

A folder kernel/versions/NAME with a kernel.toml makes NAME a level of `kernel`
(kernel/versions/6.12/kernel.toml explains the keys). The features of a kernel follow from its
version and from the patches that applied; a run that requires a missing feature is rejected, and
other runs report what is missing.
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
from gostlab.registry.plugins import records

DECLARATION = "kernel.toml"
RECORD = "kernel.json"  # The record beside a built kernel.
SHIPPED = "shipped"  # The kernel that ./lab setup builds.
SHIPPED_VERSION = (7,)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,31}")
ALL_PATCHES = "*"


@dataclass(frozen=True)
class Feature:
    """Represent a feature of a kernel for a run, and its origin."""

    says: str  # The feature in words, after "it has no".
    patch: str | None = None  # The number of its patch in kernel/patches.
    since: tuple[int, ...] = ()  # The first version that has the feature without a patch.
    clock: str | None = None  # The only clock that it affects.


# Without one of the first five, a kernel answers another question than the default machine model.
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
# Without these features a run differs from its equivalent on the shipped kernel.
DECIDING = ("hz", "time travel", "costs", "seeds", "free clock", "packet cost", "idle")


@dataclass(frozen=True)
class Kernel:
    """Represent a kernel that an experiment may name."""

    name: str
    version: tuple[int, ...]  # A declared version may be short: (6, 12).
    features: frozenset[str]
    sha256: str = ""  # The checksum of a user kernel's source.
    origin: str = ""  # The tree or tarball of a user's kernel.

    @property
    def own(self) -> bool:
        return bool(self.origin)

    @property
    def lacks(self) -> tuple[str, ...]:
        return tuple(name for name in FEATURES if name not in self.features)


@dataclass(frozen=True)
class Patch:
    """Represent a patch of a series."""

    file: Path
    only: tuple[str, ...] = ()  # The files of the patch that are applied; empty means all.

    @property
    def number(self) -> str:
        """Return the patch's number: 0005 of 0005-um-vdso-clock-on-the-virtual-clock.patch."""
        return self.file.name[:4]

    def text(self) -> str:
        """Return the input of `patch -p1`."""
        text = self.file.read_text(encoding="utf-8")
        if not self.only:
            return text
        parts = re.split(r"(?m)^(?=--- )", text)[1:]
        selected = [part for part in parts if patched_file(part) in self.only]
        if len(selected) != len(self.only):
            raise BadInput(f"{from_root(self.file)} does not touch all of {', '.join(self.only)}")
        return "".join(selected)


def patched_file(part: str) -> str:
    """Return the file that one file's part of a patch changes."""
    match = re.search(r"^\+\+\+ b/(\S+)", part, re.MULTILINE)
    return match[1] if match else ""


@dataclass(frozen=True, kw_only=True)
class Declared(Kernel):
    """Represent a version of Linux that gostlab can build."""

    file: Path
    package: str
    series: tuple[Patch, ...]
    more: tuple[str, ...]  # Further options, as NAME=value.
    may_be_missing: tuple[str, ...]  # Options that may be missing, by NAME.


def features_of(version: tuple[int, ...], patches: Iterable[str]) -> frozenset[str]:
    """Return the features of a kernel by its version and the numbers of its patches."""
    applied = set(patches)
    return frozenset(
        name
        for name, feature in FEATURES.items()
        if feature.patch in applied or (feature.since and version >= feature.since)
    )


def patch_named(label: str, folder: Path, only: tuple[str, ...] = ()) -> Patch:
    """Return the patch 0002 of kernel/patches, or 6.12/0005 of a version. Raises BadInput."""
    version, _, number = label.rpartition("/")
    directory = folder / version if version else folder.parent / "patches"
    files = sorted(directory.glob(f"{number}-*.patch"))
    if len(files) != 1:
        raise BadInput(
            f"{from_root(directory)}: {len(files)} patches {number}-*.patch, where one should be"
        )
    return Patch(files[0], only)


def read_declared(file: Path) -> Declared:
    """Return the declaration in a kernel.toml. Raises BadInput."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{from_root(file)}: {error}") from None
    known = {"package", "series", "only", "more", "may_be_missing"}
    invalid = sorted(set(values) - known) or sorted({"package", "series"} - set(values))
    if invalid:
        raise BadInput(f"{from_root(file)}: {invalid[0]}: unknown, or missing")
    folder = file.parents[1]
    only = values.get("only", {})
    labels = values["series"]
    if labels == [ALL_PATCHES]:
        labels = sorted(path.name[:4] for path in (folder.parent / "patches").glob("*.patch"))
    series = tuple(patch_named(label, folder, tuple(only.get(label, ()))) for label in labels)
    version = tuple(int(label) for label in file.parent.name.split("."))
    return Declared(
        name=file.parent.name,
        version=version,
        features=features_of(version, (patch.number for patch in series)),
        file=file,
        package=values["package"],
        series=series,
        more=tuple(values.get("more", ())),
        may_be_missing=tuple(values.get("may_be_missing", ())),
    )


@cache
def declared_kernels(folder: Path = KERNELS) -> dict[str, Declared]:
    """Return the versions of Linux that gostlab can build, newest first. Raises BadInput."""
    declared = [read_declared(file) for file in folder.glob(f"*/{DECLARATION}")]
    return {
        kernel.name: kernel
        for kernel in sorted(declared, key=lambda kernel: kernel.version, reverse=True)
    }


def own_kernels() -> dict[str, Kernel]:
    """Return the user's kernels by name, without incomplete ones."""

    def read(_: Path, record: Any) -> Kernel:
        version = tuple(int(part) for part in re.findall(r"\d+", record["version"])[:3])
        features = features_of(version, record["patches"])
        return Kernel(record["name"], version, features, record["inputs_hash"], record["origin"])

    return {kernel.name: kernel for kernel in records(own_kernels_folder(), RECORD, read)}


def known_names() -> tuple[str, ...]:
    """Return the valid names of a kernel in an experiment."""
    return (SHIPPED, *declared_kernels(), *own_kernels())


def version_of(name: str) -> tuple[int, ...]:
    """Return the version of a kernel by name, or that of the shipped one for an unknown name."""
    if name != SHIPPED and name in (user_kernels := own_kernels()):
        return user_kernels[name].version
    # The name of a folder in kernel/versions, which the guest has no access to.
    if re.fullmatch(r"\d+(\.\d+)*", name):
        return tuple(map(int, name.split(".")))
    return SHIPPED_VERSION


def kernel_named(name: str) -> Kernel:
    """Return a kernel by its name in an experiment. Raises BadInput."""
    if name in declared_kernels():
        return declared_kernels()[name]
    if name != SHIPPED and name in (user_kernels := own_kernels()):
        return user_kernels[name]
    # The default kernel has every patch, or its build fails.
    if name == SHIPPED or strangers_welcome():
        return Kernel(name, SHIPPED_VERSION, frozenset(FEATURES))
    raise BadInput(
        f"no kernel {name} (there are {', '.join(known_names())}; one of your own:"
        " ./lab kernel add TREE --name NAME)"
    )
