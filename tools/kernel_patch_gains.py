# SPDX-License-Identifier: MIT
"""Measure what each speed patch of Linux 7.3 gains, by leaving it out.

    python3 -m tools.kernel_patch_gains SOURCE FOLDER [--rounds N] [--patches NAME …]

SOURCE is an unpacked source of Linux 7.3; all trees, kernels and runs lie in FOLDER. The kernel is
built with all patches, and then without each speed patch: in a copy of the built tree the patch is
reversed, and what it touches is compiled again. A patch that later ones build on is reversed after
them, and compared with the kernel that lacks those alone. All kernels are built without a profile
of branches, which would fit the full set only.

A round runs every load on every kernel, pinned to one CPU; each kernel without a patch runs next to
the one with it, and every second round goes backwards. The metric is the CPU time of the sandbox
(user + system, all of its processes), so that other work on the machine hardly counts. The samples
of the two kernels are compared byte by byte. GAINS holds all measurements;
tools.kernel_patch_table shows them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from gostlab.install import kernel_build, kernels, locate
from gostlab.registry.folders import ROOT
from gostlab.registry.kernels import Patch, shipped_declaration
from gostlab.spec.expand import single_run
from gostlab.spec.run_spec import RunSpec
from tools.bench.harness import Bench

GAINS = ROOT / "tools" / "kernel_patch_gains.json"
ALL_PATCHES = "all-patches"
# Speed patch -> the patches that build on it, in the order in which they are reversed.
DEPENDENTS: Mapping[str, tuple[str, ...]] = {
    "um-skas-avoid-futex-wakeups": ("um-yield-to-stub-while-waiting", "um-stub-keep-physmem-fd"),
    "um-memcpy-erms": (),
    "um-mcmodel-small": (),
    "um-time-travel-read-ahead-of-user": (),
    "um-inline-irqflags": (),
    "netem-prefetch": (),
    "um-time-travel-timer-direct": (),
    "ipv4-last-route": (),
    "um-prefault": (),
    "hostfs-cache-dirs": (),
    "um-stub-keep-physmem-fd": (),
    "hostfs-readahead": (),
    "um-yield-to-stub-while-waiting": (),
}
# Headers that nearly every file includes and in which these patches only declare: they stay as they
# are, so that little is compiled again.
ONLY_DECLARATIONS = (
    "arch/um/include/asm/processor-generic.h",
    "arch/um/include/shared/skas/mm_id.h",
)
# Load -> settings of its run beside profile plain-100ms and BBR.
LOADS: Mapping[str, Mapping[str, str]] = {
    "1 s": {"duration": "1s", "rate": "100mbit"},
    "20 s, no offloads": {"duration": "20s", "rate": "100mbit", "offloads": "off"},
    "16 streams, 5 s": {"duration": "5s", "rate": "100mbit", "streams": "16"},
    "relay+ws, 1 s": {"duration": "1s", "rate": "100mbit", "tunnel": "relay+ws"},
}
# Files of a run that depend on the kernel's own bytes or on the machine.
NOT_SAMPLES = ("env.json", "status.json", "outcome.json", "run.json", "parts.json")


@dataclass
class Gain:
    """The measurements of one patch: one CPU time, s, per load and round."""

    reversed_with: list[str] = field(default_factory=list)  # dependents that both kernels lack
    with_s: dict[str, list[float]] = field(default_factory=dict)
    without_s: dict[str, list[float]] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)  # LOAD: FILE of unequal samples

    def ratios(self, load: str) -> list[float]:
        """Return the CPU time without the patch relative to that with it, per round."""
        pairs = zip(self.without_s[load], self.with_s[load], strict=True)
        return [without / having for without, having in pairs]


def read_gains() -> dict[str, Gain]:
    """Return the saved measurements by patch; empty if there are none."""
    return {name: Gain(**record) for name, record in (locate.read_json(GAINS) or {}).items()}


def save_gains(gains: Mapping[str, Gain]) -> None:
    text = json.dumps(
        {name: asdict(gain) for name, gain in gains.items()}, indent=1, sort_keys=True
    )
    # One line per list.
    text = re.sub(r"\[[^\[\]]*\]", lambda match: " ".join(match[0].split()), text)
    GAINS.write_text(text + "\n", encoding="utf-8")


# -- kernels


def prepare(source: Path, tree: Path) -> None:
    """Copy a source, patch and configure the copy. Raises SystemExit."""
    if tree.is_dir():
        return
    shutil.copytree(source, tree, symlinks=True)
    shutil.copytree(ROOT / "kernel" / "src", tree, dirs_exist_ok=True)
    for patch in shipped_declaration().series:
        if not kernels.patch_applies(tree, patch):
            raise SystemExit(f"{patch.label} does not apply to {source}")
    kernels.write_options(tree, (), ())
    run_make(tree, "KCONFIG_ALLCONFIG=.gostlab-options", "allnoconfig")


def run_make(tree: Path, *words: str) -> None:
    """Run make in a kernel's tree with the environment of kernel/build.sh."""
    environment = kernel_build.build_environment(os.environ)
    names = {"ARCH": "um", "KBUILD_BUILD_USER": "gostlab", "KBUILD_BUILD_HOST": "gostlab"}
    names |= {"KBUILD_BUILD_VERSION": "1", "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970"}
    jobs = f"--jobs={os.cpu_count()}"
    argv = ["make", "--silent", jobs, *words]
    subprocess.run(argv, cwd=tree, env={**environment, **names}, check=True)


def built_kernel(tree: Path, target: Path) -> Path:
    """Build a tree unless its kernel exists; return the kernel."""
    if not target.is_file():
        run_make(tree, "modules_prepare", "linux")
        argv = ["strip", "--strip-debug", f"--output-file={target}", "linux"]
        subprocess.run(argv, cwd=tree, check=True)
    return target


def kernel_without(folder: Path, names: Sequence[str]) -> Path:
    """Build the kernel without some patches, reversed in this order. Raises SystemExit."""
    target = folder / "-".join(["without", *names] if names else [ALL_PATCHES])
    if target.is_file() or not names:
        return built_kernel(folder / "tree", target)
    series: dict[str, Patch] = {patch.name: patch for patch in shipped_declaration().series}
    copy = folder / f"tree-{target.name}"
    shutil.rmtree(copy, ignore_errors=True)
    # make compares times of files, so cp has to preserve them.
    subprocess.run(["cp", "--archive", "--reflink=auto", folder / "tree", copy], check=True)
    for name in names:
        reverse(copy, series[name])
    built_kernel(copy, target)
    shutil.rmtree(copy)
    return target


def reverse(tree: Path, patch: Patch) -> None:
    """Take a patch out of a tree, but for ONLY_DECLARATIONS. Raises SystemExit."""
    files = re.split(r"(?m)^(?=diff --git )", patch.diff())
    left = tuple(f"diff --git a/{name} " for name in ONLY_DECLARATIONS)
    diff = "".join(text for text in files if not text.startswith(left))
    argv = [*kernels.PATCH, "--reverse", "--directory", str(tree)]
    if subprocess.run(argv, input=diff, text=True).returncode != 0:
        raise SystemExit(f"{patch.label} cannot be reversed: later patches need it (DEPENDENTS)")


# -- runs


@dataclass(frozen=True)
class Pair:
    """A patch, the kernel that lacks it, and the kernel that differs from it by the patch alone."""

    patch: str
    having: Path
    lacking: Path


@dataclass(frozen=True)
class Measurement:
    cpu_s: float
    samples: Mapping[str, bytes]


def build_pairs(folder: Path, names: Sequence[str]) -> list[Pair]:
    """Build all kernels. Raises SystemExit."""
    return [
        Pair(
            patch=name,
            having=kernel_without(folder, DEPENDENTS[name]),
            lacking=kernel_without(folder, [*DEPENDENTS[name], name]),
        )
        for name in names
    ]


def kernels_by_turns(pairs: Sequence[Pair]) -> list[Path]:
    """Return the order of a round: every kernel without a patch is next to the one with it.

    Two patches that are compared with the same kernel share its run: A, all, B, C, all, D.
    """
    order: list[Path] = []
    for pair in pairs:
        shares_last_run = order[-1:] == [pair.having]
        order += [pair.lacking] if shares_last_run else [pair.lacking, pair.having]
    return order


def nearest(order: Sequence[Path], kernel: Path, index: int) -> int:
    """Return the index of a kernel's run that is nearest to another run."""
    places = [position for position, candidate in enumerate(order) if candidate == kernel]
    return min(places, key=lambda position: abs(position - index))


def load_run(settings: Mapping[str, str]) -> RunSpec:
    """Compile a load's run."""
    return single_run(
        profile="plain-100ms", cc="bbr", machine="sandbox", clock="virtual", overrides=settings
    )


def measure_run(kernel: Path, run: RunSpec, scratch: Path) -> Measurement:
    """Make a run on a kernel in an empty folder."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    os.environ["GOSTLAB_KERNEL"] = str(kernel)
    timed = Bench(scratch, 1).time(run)
    return Measurement(cpu_s=timed.cpu_s, samples=read_samples(timed.folder))


def read_samples(folder: Path) -> dict[str, bytes]:
    """Return the files of a run that no speed patch may change."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in NOT_SAMPLES and path.suffix != ".log"
    }


def differing_files(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    """Return the names of files that are not equal in both runs."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def measure_round(
    pairs: Sequence[Pair], gains: Mapping[str, Gain], scratch: Path, backwards: bool
) -> None:
    """Run every load on every kernel, and add the measurements to `gains`."""
    order = kernels_by_turns(pairs)[:: -1 if backwards else 1]
    for load, settings in LOADS.items():
        run = load_run(settings)
        taken = [measure_run(kernel, run, scratch) for kernel in order]
        for pair in pairs:
            index = order.index(pair.lacking)
            lacking, having = taken[index], taken[nearest(order, pair.having, index)]
            gain = gains[pair.patch]
            gain.without_s.setdefault(load, []).append(round(lacking.cpu_s, 3))
            gain.with_s.setdefault(load, []).append(round(having.cpu_s, 3))
            files = differing_files(having.samples, lacking.samples)
            new = {f"{load}: {name}" for name in files} - {*gain.differing}
            gain.differing += sorted(new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="an unpacked source of Linux 7.3")
    parser.add_argument("folder", type=Path, help="folder for trees, kernels and runs")
    parser.add_argument("--rounds", type=int, default=5, help="runs per load and kernel")
    parser.add_argument(
        "--add", action="store_true", help="add the rounds to the saved ones of the same kernels"
    )
    parser.add_argument("--patches", nargs="*", choices=sorted(DEPENDENTS), default=[*DEPENDENTS])
    args = parser.parse_args()
    folder = args.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    prepare(args.source.absolute(), folder / "tree")
    pairs = build_pairs(folder, args.patches)
    gains = read_gains()
    for name in args.patches:
        if not (args.add and name in gains):
            gains[name] = Gain(reversed_with=[*DEPENDENTS[name]])
    for index in range(args.rounds):
        measure_round(pairs, gains, folder / "run", backwards=index % 2 == 1)
        save_gains(gains)
        print(f"round {index + 1} of {args.rounds}", flush=True)
    for name in args.patches:
        medians = (f"{load} {median(gains[name].ratios(load)):.3f}" for load in LOADS)
        print(f"{name}: {', '.join(medians)}; {len(gains[name].differing)} files differ")


if __name__ == "__main__":
    main()
