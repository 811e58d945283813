# SPDX-License-Identifier: MIT
"""Declare the kernels of a run: the default build, versions in kernel/versions, and user trees.

A folder kernel/versions/NAME with a kernel.toml and a series makes NAME a level of `kernel`
(kernel/README.md explains both). The features of a kernel follow from its version and from the
patches that applied; a run that requires a missing feature is rejected, and other runs report what
is missing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gostlab.errors import BadInput
from gostlab.registry.congestion_controls import unknown_controls_accepted
from gostlab.registry.folders import KERNELS, from_root, own_kernels_folder
from gostlab.registry.plugin_loader import read_records

DECLARATION = "kernel.toml"
SERIES = "series"  # The file beside it: the patches in order, relative to kernel/versions.
RECORD = "kernel.json"  # The record beside a built kernel.
SHIPPED = "shipped"  # The kernel that ./lab setup builds.
SHIPPED_VERSION = (7,)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,31}")


@dataclass(frozen=True)
class Feature:
    """Represent a feature of a kernel for a run, and its origin."""

    says: str  # The feature in words, after "it has no".
    patch: str | None = None  # The name of its patch in kernel/versions.
    since: tuple[int, ...] = ()  # The first version that has the feature without a patch.
    clock: str | None = None  # The only clock that it affects.


COSTS = "um-time-travel-cpu-cost"
# Without one of the first five, a kernel answers another question than the default machine model.
FEATURES: Mapping[str, Feature] = {
    "hz": Feature("tick of 250 Hz, but one of 100", "um-kconfig-hz"),
    "time travel": Feature("virtual clock", since=(5, 7), clock="virtual"),
    "costs": Feature("cost per system call and no CPUs of a host's own", COSTS, clock="virtual"),
    "seeds": Feature("randomness from the run's seed", "um-seed-random", clock="virtual"),
    "free clock": Feature(
        "clock that is read without a system call", "um-vdso-time-page", clock="virtual"
    ),
    "packet cost": Feature("cost per packet", COSTS, clock="virtual"),
    "idle": Feature(
        "idle that keeps its wake-ups", "um-idle-lost-wakeup", since=(6, 1), clock="real"
    ),
    "host memory": Feature("TCP memory of each host's own", "tcp-per-netns-mem"),
    "program costs": Feature("costs of a program's own", COSTS, clock="virtual"),
    "reading on": Feature(
        "reads made for a program (it is slower)",
        "um-time-travel-read-ahead-of-user",
        clock="virtual",
    ),
    "moderated": Feature("cards whose interrupts are some time apart", "veth-rx-coalescing"),
    "ssthresh": Feature("ssthresh of the socket's own at every ACK", "tcp-trace-snd-ssthresh"),
    "tbf": Feature(
        "token bucket that keeps its fill when its rate changes", "sch-tbf-keep-tokens-on-change"
    ),
    "netem seed": Feature("seed of netem's own (its losses follow from the run's)", since=(6, 6)),
    "dualpi2": Feature("qdisc dualpi2", since=(6, 17)),
    "accurate ecn": Feature("accurate ECN (RFC 9768)", since=(7, 0)),
    "seccomp": Feature(
        "calls without ptrace (each costs more of this machine)", "um-skas-seccomp-notify", (6, 16)
    ),
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
    def lacks(self) -> tuple[str, ...]:
        return tuple(name for name in FEATURES if name not in self.features)


@dataclass(frozen=True)
class Patch:
    """Represent a patch of a series."""

    file: Path

    @property
    def name(self) -> str:
        """Return the patch's name: um-seed-random of 7.3/um-seed-random.patch."""
        return self.file.stem

    @property
    def label(self) -> str:
        """Return its line in a series: 7.3/um-seed-random.patch."""
        return f"{self.file.parent.name}/{self.file.name}"

    def diff(self) -> str:
        """Return what it changes, without its message."""
        text = self.file.read_text(encoding="utf-8")
        return text[max(text.find("diff --git "), 0) :]


@dataclass(frozen=True, kw_only=True)
class DeclaredKernel(Kernel):
    """Represent a version of Linux that gostlab can build."""

    file: Path
    package: str
    series: tuple[Patch, ...]
    more: tuple[str, ...]  # Further options, as NAME=value.
    may_be_missing: tuple[str, ...]  # Options that may be missing, by NAME.


def features_of(version: tuple[int, ...], patches: Iterable[str]) -> frozenset[str]:
    """Return the features of a kernel by its version and the names of its patches."""
    applied = set(patches)
    return frozenset(
        name
        for name, feature in FEATURES.items()
        if feature.patch in applied or (feature.since and version >= feature.since)
    )


def read_series(file: Path) -> tuple[Patch, ...]:
    """Return the patches that a series lists. Raises BadInput."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadInput(f"{from_root(file)}: {error}") from None
    patches = []
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            patch = Patch(file.parents[1] / line)
            if not patch.file.is_file():
                raise BadInput(f"{from_root(file)}:{number}: no patch {line} in kernel/versions")
            patches.append(patch)
    return tuple(patches)


def read_declared(file: Path) -> DeclaredKernel:
    """Return the declaration in a kernel.toml. Raises BadInput."""
    import tomllib

    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{from_root(file)}: {error}") from None
    known = {"package", "more", "may_be_missing"}
    invalid = sorted(set(values) - known) or sorted({"package"} - set(values))
    if invalid:
        raise BadInput(f"{from_root(file)}: {invalid[0]}: unknown, or missing")
    series = read_series(file.with_name(SERIES))
    version = tuple(int(label) for label in file.parent.name.split("."))
    return DeclaredKernel(
        name=file.parent.name,
        version=version,
        features=features_of(version, (patch.name for patch in series)),
        file=file,
        package=values["package"],
        series=series,
        more=tuple(values.get("more", ())),
        may_be_missing=tuple(values.get("may_be_missing", ())),
    )


@cache
def declared_kernels(folder: Path = KERNELS) -> dict[str, DeclaredKernel]:
    """Return the versions of Linux that gostlab can build, newest first. Raises BadInput."""
    declared = [read_declared(file) for file in folder.glob(f"*/{DECLARATION}")]
    return {
        kernel.name: kernel
        for kernel in sorted(declared, key=lambda kernel: kernel.version, reverse=True)
    }


def shipped_declaration(folder: Path = KERNELS) -> DeclaredKernel:
    """Return the declaration of the version that ./lab setup builds: the newest."""
    return next(iter(declared_kernels(folder).values()))


def own_kernels() -> dict[str, Kernel]:
    """Return the user's kernels by name, without incomplete ones."""

    def read(_: Path, record: Any) -> Kernel:
        version = tuple(int(part) for part in re.findall(r"\d+", record["version"])[:3])
        features = features_of(version, record["patches"])
        return Kernel(record["name"], version, features, record["inputs_hash"], record["origin"])

    return {kernel.name: kernel for kernel in read_records(own_kernels_folder(), RECORD, read)}


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
    if name == SHIPPED or unknown_controls_accepted():
        return Kernel(name, SHIPPED_VERSION, frozenset(FEATURES))
    raise BadInput(
        f"no kernel {name} (there are {', '.join(known_names())}; one of your own:"
        " ./lab kernel add TREE --name NAME)"
    )
