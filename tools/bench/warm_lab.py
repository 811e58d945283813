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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import gostlab
from gostlab.api import run as run_module
from gostlab.registry.folders import ROOT
from tools.bench.harness import Bench
from tools.bench.metrics import BenchMetric, print_metric

RATES = {"10mbit": "10 Mbit/s", "50mbit": "50 Mbit/s", "100mbit": "100 Mbit/s"}
MAX_WAIT_S = 120.0
SEVERAL_RUNS = 40
LOAD_S = 10
SAMPLES = "hosts.jsonl"  # the sampler flushes it at each sample, and the other files in blocks
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
    metrics += map(print_metric, measure_several(bench))
    name = "./lab try with the answer there: CPU time"
    return [*metrics, bench.metric(name, "s", "≤ 0.5", CachedAnswer(bench.folder()).cpu_s)]


def measure_several(bench: Bench) -> Iterator[BenchMetric]:
    """Yield the CPU time of short runs in copies of one sandbox, over that with a boot for each."""
    booted_s, lab_s, run_s = [], [], []
    for _ in range(bench.repeat):
        with every_run_boots():
            booted_s.append(several_cpu_s(bench, in_lab=False))
        lab_s.append(several_cpu_s(bench, in_lab=True))
        run_s.append(several_cpu_s(bench, in_lab=False))
    for copied_s, where in ((lab_s, "in a lab"), (run_s, "by ./lab run")):
        ratios = [copied / booted for copied, booted in zip(copied_s, booted_s, strict=True)]
        name = f"{SEVERAL_RUNS} runs of one second {where}, over a boot for each: CPU time"
        yield BenchMetric(name, "×", "≤ 0.6", ratios)


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
    standby.settle()
    while not standby.ready or standby.ready < standby.waiting:
        if time.monotonic() > deadline:
            raise RuntimeError("no sandbox waits: this machine holds no calls, or lacks memory")
        time.sleep(0.01)


def timed(run: gostlab.Run, results: Path, execute: Callable[[], gostlab.Result]) -> Answer:
    """Execute a run, and return how long its answer took."""
    folder = results / run.description.experiment / run.description.name
    first: list[float] = []
    watcher = threading.Thread(target=watch_samples, args=(folder / SAMPLES, first), daemon=True)
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


def several_cpu_s(bench: Bench, *, in_lab: bool) -> float:
    """Return the CPU time of short runs on all CPUs, with that of this process."""
    experiment = gostlab.Experiment.of(
        cc="cubic", rate="1mbit", duration="1s", repeat=SEVERAL_RUNS, machine="sandbox"
    )
    began_s, results = used_cpu_s(), bench.folder()
    if in_lab:
        with gostlab.Lab(results) as lab:
            lab.execute(experiment).wait()
    else:
        experiment.run(results).wait()
    return used_cpu_s() - began_s


@contextmanager
def every_run_boots() -> Iterator[None]:
    """Let runs outside of a lab boot a sandbox each within a `with` block."""
    min_runs = run_module.MIN_RUNS_TO_COPY
    run_module.MIN_RUNS_TO_COPY = sys.maxsize
    try:
        yield
    finally:
        run_module.MIN_RUNS_TO_COPY = min_runs


def used_cpu_s() -> float:
    """Return the CPU time of this process and of its ended children."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)
