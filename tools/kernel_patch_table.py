"""Generate the table of the kernel's patches in kernel/README.md, and measure what each gains.

    python3 -m tools.kernel_patch_table                        write the table
    python3 -m tools.kernel_patch_table measure SOURCE FOLDER  measure the speed patches first

`measure` builds Linux 7.3 from an unpacked SOURCE in FOLDER with all patches, and then without each
speed patch: a patch is taken back, what it touches is compiled again, and the patch is put in
again. It makes short runs and long ones on both kernels by turns, and compares their samples, which
no speed patch may change. All kernels are built without a profile of branches, which would fit the
whole set alone. The gains are saved in tools/kernel_patch_gains.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from gostlab.install import kernel_build, kernels, locate
from gostlab.registry.folders import ROOT
from gostlab.registry.kernels import Patch, declared_kernels, shipped_declaration
from tools.bench.compare_commits import packets_sent
from tools.bench.harness import Bench, load

README = ROOT / "kernel" / "README.md"
GAINS = ROOT / "tools" / "kernel_patch_gains.json"
BEGIN, END = "<!-- table: tools/kernel_patch_table.py -->", "<!-- end of table -->"
# Patches for speed, and those that have to be taken back before one can be.
SPEED: Mapping[str, tuple[str, ...]] = {
    "um-skas-avoid-futex-wakeups": ("um-yield-to-stub-while-waiting",),
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
    "um-reuse-stub-processes": (),
    "um-yield-to-stub-while-waiting": (),
}
SHORT_S, LONG_S = 1.0, 10.0
# Files of a run that depend on the kernel's own bytes or on the machine.
NOT_SAMPLES = ("env.json", "status.json", "outcome.json", "run.json")


def subject(patch: Patch) -> str:
    """Return the subject of a patch's message."""
    head = patch.file.read_text(encoding="utf-8").partition("\n\n")[0].replace("\n ", " ")
    match = re.search(r"^Subject: \[PATCH\] (.*)$", head, re.MULTILINE)
    return match[1] if match else ""


def table(gains: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table of all patches in Markdown."""
    versions = declared_kernels()
    first: dict[str, Patch] = {}
    for declared in versions.values():
        for patch in declared.series:
            first.setdefault(patch.name, patch)
    lines = ["| patch | subject | kernels | a packet | a short run |", "|---|---|---|---|---|"]
    for name, patch in first.items():
        having = [
            version
            for version, declared in versions.items()
            if name in {one.name for one in declared.series}
        ]
        gain = gains.get(name)
        ratios = (
            [f"{gain[key]:.2f}" for key in ("packet", "short_run")]
            if gain
            else ["not measured" if name in SPEED else "–"] * 2
        )
        lines.append(
            f"| `{name}` | {subject(patch)} | {', '.join(having)} | {' | '.join(ratios)} |"
        )
    return "\n".join(lines)


def write_table() -> None:
    """Replace the table in kernel/README.md."""
    gains = locate.read_json(GAINS) or {}
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{BEGIN}\n{table(gains)}\n{END}{after}", encoding="utf-8")


# -- measuring


def prepare(source: Path, tree: Path) -> None:
    """Copy a source, and let build.sh's steps patch and configure the copy."""
    if tree.is_dir():
        return
    shutil.copytree(source, tree, symlinks=True)
    shutil.copytree(ROOT / "kernel" / "src", tree, dirs_exist_ok=True)
    for patch in shipped_declaration().series:
        if not kernels.applies(tree, patch):
            raise SystemExit(f"{patch.label} does not apply to {source}")
    kernels.write_options(tree, (), ())
    run_make(tree, "KCONFIG_ALLCONFIG=.gostlab-options", "allnoconfig")


def run_make(tree: Path, *words: str) -> None:
    """Run make in a kernel's tree."""
    environment = kernel_build.build_environment(os.environ)
    names = {"ARCH": "um", "KBUILD_BUILD_USER": "gostlab", "KBUILD_BUILD_HOST": "gostlab"}
    names |= {"KBUILD_BUILD_VERSION": "1", "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970"}
    jobs = f"--jobs={os.cpu_count()}"
    argv = ["make", "--silent", jobs, *words]
    subprocess.run(argv, cwd=tree, env={**environment, **names}, check=True)


def built_kernel(tree: Path, target: Path) -> Path:
    """Build the tree as it is, and copy the kernel."""
    if not target.is_file():
        run_make(tree, "modules_prepare", "linux")
        subprocess.run(["strip", "--strip-debug", f"--output-file={target}", "linux"], cwd=tree)
    return target


def without(tree: Path, folder: Path, name: str) -> Path:
    """Build the kernel without a patch, and those that stand on it."""
    target = folder / name
    series = {patch.name: patch for patch in shipped_declaration().series}
    taken_back = [series[each] for each in (*SPEED[name], name)]
    if target.is_file():
        return target
    for patch in taken_back:
        if not kernels.applies(tree, patch, "--reverse"):
            raise SystemExit(f"{patch.label} cannot be taken back")
    try:
        return built_kernel(tree, target)
    finally:
        for patch in reversed(taken_back):
            kernels.applies(tree, patch)


def bench_with(kernel: Path, scratch: Path) -> Bench:
    """Return a benchmark on a kernel."""
    scratch.mkdir(parents=True, exist_ok=True)
    os.environ["GOSTLAB_KERNEL"] = str(kernel)
    return Bench(scratch, 1)


def samples(folder: Path) -> dict[str, bytes]:
    """Return the files of a run that no speed patch may change."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.name not in NOT_SAMPLES and not path.name.endswith(".log")
    }


def compare(
    everything: Path, less: Path, scratch: Path, name: str, repeat: int
) -> dict[str, float]:
    """Measure two kernels by turns; return the ratios of CPU time with the patch to without."""
    ratios: dict[str, list[float]] = {"packet": [], "short_run": []}
    shutil.rmtree(scratch, ignore_errors=True)
    benches = [
        bench_with(kernel, scratch / word)
        for word, kernel in (("with", everything), ("without", less))
    ]
    for _ in range(repeat):
        short = [bench.time(load(SHORT_S)) for bench in benches]
        long = [bench.time(load(LONG_S, rate="1gbit")) for bench in benches]
        for one, other in (short, long):
            differing = [
                file
                for file, content in samples(one.folder).items()
                if samples(other.folder).get(file) != content
            ]
            if differing:
                print(f"{name}: other samples without it: {', '.join(differing)}", file=sys.stderr)
        # The same samples have the same packets, so the difference of the times is theirs.
        costs = [
            (rest.cpu_s - start.cpu_s) / packets_sent(rest.folder)
            for start, rest in zip(short, long, strict=True)
        ]
        ratios["packet"].append(costs[0] / costs[1])
        ratios["short_run"].append(short[0].cpu_s / short[1].cpu_s)
    return {key: round(median(values), 3) for key, values in ratios.items()} | {
        f"{key}_spread": round(max(values) - min(values), 3) for key, values in ratios.items()
    }


def measure(source: Path, folder: Path, repeat: int, names: Sequence[str]) -> None:
    """Measure the named speed patches, and save their gains."""
    tree = folder / "tree"
    prepare(source, tree)
    everything = built_kernel(tree, folder / "all-patches")
    gains = locate.read_json(GAINS) or {}
    for name in names:
        less = without(tree, folder, name)
        gains[name] = compare(everything, less, folder / "runs", name, repeat)
        print(name, gains[name], flush=True)
        GAINS.write_text(json.dumps(gains, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command")
    asked = commands.add_parser("measure", help="measure the speed patches, then write the table")
    asked.add_argument("source", type=Path, help="an unpacked source of Linux 7.3")
    asked.add_argument("folder", type=Path, help="a folder for the tree, the kernels and the runs")
    asked.add_argument("--repeat", type=int, default=5, help="measurements of each (default: 5)")
    asked.add_argument("--patch", nargs="*", choices=sorted(SPEED), default=list(SPEED))
    arguments = parser.parse_args()
    if arguments.command == "measure":
        folder = arguments.folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        measure(arguments.source.absolute(), folder, arguments.repeat, arguments.patch)
    write_table()


if __name__ == "__main__":
    main()
