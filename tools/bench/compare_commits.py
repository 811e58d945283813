# SPDX-License-Identifier: MIT
"""Compare this version of the lab with an earlier one that has its own kernel, by turns.

Each version makes its runs by its own `./lab exec`, so that they share no code. The cost of a
packet is a slope: the difference of the CPU times of a long and a short run, divided by the
difference of their packets, so that the overhead of a run cancels out.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab import safe_read
from gostlab.install.build_env import replaced_folder
from gostlab.registry.folders import ROOT, cache_folder
from gostlab.results import read_series
from gostlab.sandbox import children_cpu_s

EXPERIMENT = """name: bench
title: The benchmark's loads
settings: {{profile: plain-100ms, clock: virtual, offloads: off, buffers: bdp}}
matrices:
{matrices}"""
MATRIX = """  - name: {name}
    settings: {{duration: {seconds:g}s, {settings}}}
    factors: {{cc: [{cc}]}}
"""


@dataclass(frozen=True)
class TimedLoad:
    """A load to measure: one stream of a congestion control, per packet."""

    name: str
    cc: str
    settings: str  # settings besides rate: 1gbit
    short_s: float  # durations of the two runs whose difference is measured
    long_s: float
    packets: str = ""  # target of the CPU time per packet, relative to the version before
    speed: str = ""  # target of the speed, relative to the version before


@dataclass(frozen=True)
class Slope:
    """The CPU time and packets of a load's additional seconds."""

    cpu_s: float
    load_s: float
    packets: int

    @property
    def packet_us(self) -> float:
        """Return the CPU time per packet that the forward bottleneck sent, µs."""
        return 1e6 * self.cpu_s / self.packets

    @property
    def times_real(self) -> float:
        """Return the seconds of load per second of CPU time."""
        return self.load_s / self.cpu_s


@dataclass(frozen=True)
class Version:
    """A version of the lab in a folder, and its runs of the benchmark's loads."""

    checkout: Path
    tasks: Mapping[str, Mapping[str, object]]  # run descriptions by matrix

    def slope(self, load: TimedLoad, index: int, scratch: Path) -> Slope:
        """Return the slope of a load. Raises RuntimeError if a run fails."""
        short, long = (self.run(f"{word}{index}", scratch) for word in ("short", "long"))
        return Slope(long[0] - short[0], load.long_s - load.short_s, long[1] - short[1])

    def run(self, matrix: str, scratch: Path) -> tuple[float, int]:
        """Make a run and return its CPU time, s, and the packets that its bottleneck sent."""
        count = len(list(scratch.iterdir()))
        task, folder = scratch / f"{count}.json", scratch / f"{count}-run"
        task.write_text(json.dumps(self.tasks[matrix]), encoding="utf-8")
        before_s = children_cpu_s()
        output = run_lab(self.checkout, "exec", str(task), str(folder))
        spent_s = children_cpu_s() - before_s
        status = safe_read.read_json(folder / "status.json")
        if status["outcome"] != "ok":
            raise RuntimeError(f"a run of the benchmark failed: {output}")
        return spent_s, packets_sent(folder)


def compile_version(checkout: Path, loads: Sequence[TimedLoad], scratch: Path) -> Version:
    """Compile loads by a version. Raises RuntimeError."""
    file = scratch / "bench.yaml"
    matrices = [
        MATRIX.format(name=f"{word}{index}", seconds=seconds, settings=load.settings, cc=load.cc)
        for index, load in enumerate(loads)
        for word, seconds in (("short", load.short_s), ("long", load.long_s))
    ]
    file.write_text(EXPERIMENT.format(matrices="".join(matrices)), encoding="utf-8")
    args = ["run", str(file), "--machine", "sandbox", "--dry-run", "--json"]
    listed = json.loads(run_lab(checkout, *args))
    return Version(checkout, {task["run"]["matrix"]: task for task in listed})


def check_out(commit: str) -> Path:
    """Check out a commit into the cache and build its kernel. Raises RuntimeError."""
    folder = cache_folder() / "versions" / commit
    if not folder.is_dir():
        with replaced_folder(folder) as unpacked:
            git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "archive", commit]
            archive = subprocess.run(git, capture_output=True, check=False)
            if archive.returncode != 0:
                complaint = archive.stderr.decode(errors="replace").strip()
                raise RuntimeError(f"{commit}: git does not have it: {complaint}")
            subprocess.run(["tar", "-x", "-C", unpacked], input=archive.stdout, check=True)
    print(f"the kernel of {commit}: about four minutes on two idle CPUs, once", file=sys.stderr)
    run_lab(folder, "setup", "--only", "kernel", "--only", "iperf3")
    return folder


def run_lab(checkout: Path, *args: str) -> str:
    """Return the output of a version's `./lab`. Raises RuntimeError with its last line."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    argv = [str(checkout / "lab"), *args]
    done = subprocess.run(
        argv, cwd=checkout, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise RuntimeError(f"lab {args[0]} in {checkout}: {''.join(last)}")
    return done.stdout


def alternate(
    load: TimedLoad, index: int, versions: Sequence[Version], turns: int, scratch: Path
) -> list[list[Slope]]:
    """Return the slopes of a load by version, taken by turns with alternating order."""
    slopes: list[list[Slope]] = [[] for _ in versions]
    for turn in range(turns):
        order = list(range(len(versions)))
        for number in reversed(order) if turn % 2 else order:
            slopes[number].append(versions[number].slope(load, index, scratch))
    return slopes


def packets_sent(folder: Path, by_s: float = float("inf")) -> int:
    """Return the packets that a run's forward bottleneck has sent at its end or at an instant."""
    sent = (
        int(row["sent_pkts"])
        for row in read_series(folder, "queues")
        if (row["role"], row["direction"]) == ("bottleneck", "forward") and row["t_s"] <= by_s
    )
    return max(sent)
