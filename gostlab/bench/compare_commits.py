"""Two versions of the lab by turns: this one, and one of its history with its own kernel.

Each makes its runs by its own `./lab exec`, so that nothing of one is in the other. What a packet
costs is a slope: the CPU time of a long run less that of a short one, by the packets between, so
that what surrounds a run does not count.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab import safe_read
from gostlab.install.build_env import replacing
from gostlab.registry.folders import ROOT, cache_folder
from gostlab.results import read_series
from gostlab.sandbox import children_s

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
    """What is timed: one stream of a congestion control, per packet."""

    name: str
    cc: str
    settings: str  # rate: 1gbit
    short_s: float  # the two runs whose difference counts
    long_s: float
    packets: str = ""  # target of a packet's CPU time over what it took before
    speed: str = ""  # target of how many times as fast it is


@dataclass(frozen=True)
class Slope:
    """What a load's further seconds took."""

    cpu_s: float
    load_s: float
    packets: int

    @property
    def packet_us(self) -> float:
        """CPU µs per packet that the forward bottleneck sent."""
        return 1e6 * self.cpu_s / self.packets

    @property
    def times_real(self) -> float:
        """Seconds of load per second of CPU time."""
        return self.load_s / self.cpu_s


@dataclass(frozen=True)
class Version:
    """A version of the lab in a folder, and the runs that it makes of the benchmark's loads."""

    checkout: Path
    tasks: Mapping[str, Mapping[str, Any]]  # by matrix

    def slope(self, load: TimedLoad, place: int, scratch: Path) -> Slope:
        """What a load takes of it. Raises RuntimeError if a run fails."""
        short, long = (self.run(f"{word}{place}", scratch) for word in ("short", "long"))
        return Slope(long[0] - short[0], load.long_s - load.short_s, long[1] - short[1])

    def run(self, matrix: str, scratch: Path) -> tuple[float, int]:
        """Make a run: its CPU time, s, and the packets that its bottleneck sent."""
        count = len(list(scratch.iterdir()))
        task, folder = scratch / f"{count}.json", scratch / f"{count}-run"
        task.write_text(json.dumps(self.tasks[matrix]), encoding="utf-8")
        before_s = children_s()
        said = asked(self.checkout, "exec", str(task), str(folder))
        spent_s = children_s() - before_s
        status = safe_read.read_json(folder / "status.json")
        if status["outcome"] != "ok":
            raise RuntimeError(f"a run of the benchmark failed: {said}")
        return spent_s, packets_sent(folder)


def planned(checkout: Path, loads: Sequence[TimedLoad], scratch: Path) -> Version:
    """A version with what it makes of some loads. Raises RuntimeError."""
    file = scratch / "bench.yaml"
    matrices = [
        MATRIX.format(name=f"{word}{place}", seconds=seconds, settings=load.settings, cc=load.cc)
        for place, load in enumerate(loads)
        for word, seconds in (("short", load.short_s), ("long", load.long_s))
    ]
    file.write_text(EXPERIMENT.format(matrices="".join(matrices)), encoding="utf-8")
    words = ["run", str(file), "--machine", "sandbox", "--dry-run", "--json"]
    listed = json.loads(asked(checkout, *words))
    return Version(checkout, {task["run"]["matrix"]: task for task in listed})


def checked_out(commit: str, say: Callable[[str], None]) -> Path:
    """A version of the history in the cache, with its own kernel built. Raises RuntimeError."""
    folder = cache_folder() / "versions" / commit
    if not folder.is_dir():
        say(f"taking {commit} from git")
        with replacing(folder) as unpacked:
            git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "archive", commit]
            archive = subprocess.run(git, capture_output=True, check=False)
            if archive.returncode != 0:
                complaint = archive.stderr.decode(errors="replace").strip()
                raise RuntimeError(f"{commit}: git does not have it: {complaint}")
            subprocess.run(["tar", "-x", "-C", unpacked], input=archive.stdout, check=True)
    say(f"the kernel of {commit}: about four minutes on two idle CPUs, once")
    asked(folder, "setup", "--only", "kernel", "--only", "iperf3")
    return folder


def asked(checkout: Path, *words: str) -> str:
    """What a version's own `./lab` prints. Raises RuntimeError with its last line."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    argv = [str(checkout / "lab"), *words]
    done = subprocess.run(
        argv, cwd=checkout, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise RuntimeError(f"lab {words[0]} in {checkout}: {''.join(last)}")
    return done.stdout


def by_turns(
    load: TimedLoad, place: int, versions: Sequence[Version], turns: int, scratch: Path
) -> list[list[Slope]]:
    """What a load takes of each version, one after the other, each going first as often."""
    found: list[list[Slope]] = [[] for _ in versions]
    for turn in range(turns):
        order = list(range(len(versions)))
        for number in reversed(order) if turn % 2 else order:
            found[number].append(versions[number].slope(load, place, scratch))
    return found


def packets_sent(folder: Path, by_s: float = float("inf")) -> int:
    """What a run's forward bottleneck has sent, at its end or at an instant."""
    sent = (
        int(row["sent_pkts"])
        for row in read_series(folder, "queues")
        if (row["role"], row["direction"]) == ("bottleneck", "forward") and row["t_s"] <= by_s
    )
    return max(sent)
