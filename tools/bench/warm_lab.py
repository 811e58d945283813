# SPDX-License-Identifier: MIT
"""Compare runs in a lab whose sandboxes have booted ahead with runs that boot their own.

The network of each run lasts LOAD_S, which a test in real time would take at least. Both are asked
in one process, by turns, so that other work on the machine slows both.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gostlab
from gostlab.registry.folders import ROOT
from tools.bench.harness import Bench
from tools.bench.metrics import BenchMetric, print_metric

RATES = {"10mbit": "10 Mbit/s", "50mbit": "50 Mbit/s", "100mbit": "100 Mbit/s"}
MAX_WAIT_S = 120.0
SEVERAL_RUNS = 20
LOAD_S = 10
ASKED = ("--rate", "5mbit", "--for", "1s", "--cc", "cubic", "--machine", "sandbox")


@dataclass(frozen=True)
class Answer:
    """Represent the time until a run's answer."""

    wall_s: float
    first_sample_s: float


def measure_lab(bench: Bench) -> list[BenchMetric]:
    """Measure LOAD_S of network at several rates, several short runs, and a cached answer."""
    metrics: list[BenchMetric] = []
    with gostlab.Lab(bench.folder()) as lab:
        for rate, label in RATES.items():
            pairs = [compare(lab, rate, number) for number in range(1, bench.repeat + 1)]
            warm, cold = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            name = f"{LOAD_S} s at {label} in a warm lab"
            ratios = [one.wall_s / other.wall_s for one, other in pairs]
            first_samples = [one.first_sample_s for one in warm]
            gains = [LOAD_S / one.wall_s for one in warm]
            rows = [
                BenchMetric(f"{name}, wall time", "s", "", [one.wall_s for one in warm]),
                BenchMetric(f"the {LOAD_S} s of a test in real time, over that", "×", "", gains),
                BenchMetric(f"{name}, first sample", "s", "", first_samples),
                BenchMetric(
                    "the same wall time, booted for the run", "s", "", [one.wall_s for one in cold]
                ),
                BenchMetric("a warm lab's wall time, over that", "×", "≤ 0.7", ratios),
            ]
            metrics += map(print_metric, rows)
    ratios = [
        several_cpu_s(bench, warm=True) / several_cpu_s(bench, warm=False)
        for _ in range(bench.repeat)
    ]
    # At the end of its runs a lab boots a sandbox per CPU for the next ones.
    name = f"{SEVERAL_RUNS} runs of one second in a lab, over without: CPU time"
    metrics.append(print_metric(BenchMetric(name, "×", "≤ 1.1", ratios)))
    name = "./lab try with the answer there: CPU time"
    return [*metrics, bench.metric(name, "s", "≤ 0.5", CachedAnswer(bench.folder()).cpu_s)]


class CachedAnswer:
    """The answer of `./lab try` to a question, in a results folder."""

    def __init__(self, results: Path) -> None:
        self._argv = [sys.executable, "-m", "gostlab", "try", *ASKED, "--results", str(results)]
        self.cpu_s()

    def cpu_s(self) -> float:
        """Ask, and return the CPU time. Raises RuntimeError."""
        began_s = used_cpu_s()
        done = subprocess.run(self._argv, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
        return used_cpu_s() - began_s


def compare(lab: gostlab.Lab, rate: str, seed: int) -> tuple[Answer, Answer]:
    """Return the answers of a warm lab and of one that boots for the run, to the same question."""
    wait_until_ready(lab)
    run = gostlab.Run(cc="cubic", rate=rate, duration=f"{LOAD_S}s", seed=seed, machine="sandbox")
    warm = timed(run, lab.results, lambda: lab.run(run))
    cold_results = lab.results / "cold"
    wait_until_ready(lab)
    return warm, timed(run, cold_results, lambda: run.run(cold_results, jobs=1))


def wait_until_ready(lab: gostlab.Lab) -> None:
    """Wait until every waiting sandbox has booted, as while a person looks at a result."""
    standby, deadline = lab.kept.standby, time.monotonic() + MAX_WAIT_S
    while not standby.ready or standby.ready < standby.waiting:
        if time.monotonic() > deadline:
            raise RuntimeError("no sandbox waits: this machine holds no calls, or lacks memory")
        time.sleep(0.01)


def timed(run: gostlab.Run, results: Path, execute: Callable[[], gostlab.Result]) -> Answer:
    """Execute a run, and return how long its answer took."""
    folder = results / run.description.experiment / run.description.name
    first: list[float] = []
    watcher = threading.Thread(
        target=watch_samples, args=(folder / "sockets.jsonl", first), daemon=True
    )
    watcher.start()
    began_s = time.monotonic()
    result = execute()
    wall_s = time.monotonic() - began_s
    watcher.join()
    if result.outcome != "ok":
        raise RuntimeError(f"{run.description.name}: {result.error}")
    return Answer(wall_s, first[0] - began_s if first else wall_s)


def watch_samples(file: Path, first: list[float]) -> None:
    """Append when a file of samples has its first one."""
    deadline = time.monotonic() + MAX_WAIT_S
    while not first and time.monotonic() < deadline:
        time.sleep(0.001)
        if file.exists() and file.stat().st_size:
            first.append(time.monotonic())


def several_cpu_s(bench: Bench, *, warm: bool) -> float:
    """Return the CPU time of short runs on all CPUs, with that of this process."""
    experiment = gostlab.Experiment.of(
        cc="cubic", rate="1mbit", duration="1s", repeat=SEVERAL_RUNS, machine="sandbox"
    )
    began_s, results = used_cpu_s(), bench.folder()
    if warm:
        with gostlab.Lab(results) as lab:
            lab.execute(experiment).wait()
    else:
        experiment.run(results).wait()
    return used_cpu_s() - began_s


def used_cpu_s() -> float:
    """Return the CPU time of this process and of its ended children."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)
