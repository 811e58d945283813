# SPDX-License-Identifier: MIT
"""Make timed runs of the benchmark in a scratch folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gostlab import safe_read, sandbox
from gostlab.install.locate import find_parts, require_kernel
from gostlab.sandbox import uml
from gostlab.sandbox.rootfs import root_without_run
from gostlab.spec.cpu_model import MachineModel
from gostlab.spec.expand import single_run
from gostlab.spec.run_spec import RunSpec
from tools.bench.metrics import FAILURES, BenchMetric, failed_metric, print_metric


@dataclass(frozen=True)
class Taken:
    cpu_s: float  # CPU time of the guest's processes
    folder: Path


class Bench:
    """Make and time the benchmark's runs in a scratch folder."""

    def __init__(self, scratch: Path, repeat: int, before: str | None = None) -> None:
        self._scratch = scratch
        self.repeat = repeat
        self.before = before
        self.parts = find_parts()
        self._kernel = require_kernel(self.parts)
        self._handed = sandbox.build_parts_json(self.parts)
        self.cpus = list(sandbox.usable_cpus())
        self._count = 0

    def metric(self, name: str, unit: str, target: str, take: Callable[[], float]) -> BenchMetric:
        """Return a metric that is measured several times."""
        try:
            return print_metric(
                BenchMetric(name, unit, target, [take() for _ in range(self.repeat)])
            )
        except FAILURES as error:
            return failed_metric(name, unit, target, error)

    @property
    def iperf3(self) -> str:
        """Return the path of the iperf3 that the benchmark's runs use."""
        installed = self.parts.iperf3.get(load(1.0).iperf3)
        return str(installed.path) if installed else "iperf3"

    def folder(self) -> Path:
        self._count += 1
        folder = self._scratch / str(self._count)
        folder.mkdir()
        return folder

    def boot_s(self) -> float:
        """Boot, run `true` and power off; return the wall time, s."""
        began = time.monotonic()
        guest = uml.boot(
            self._kernel,
            self.folder(),
            ["/bin/true"],
            MachineModel(1024),
            cpu=self.cpus[0],
            limit_s=60,
            root=root_without_run(),
        )
        if guest.wait() != 0:
            raise RuntimeError("the sandbox did not boot")
        return time.monotonic() - began

    def start(self, run: RunSpec, cpu: int) -> tuple[sandbox.TimedProcess, Path]:
        folder = self.folder()
        (folder / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        keep = sandbox.visible_paths(self.parts)
        return uml.start_run(self._kernel, run, folder, self._handed, keep, cpu, None), folder

    def time(self, *runs: RunSpec) -> Taken:
        """Time one run, or several in parallel with a CPU each. Raises RuntimeError."""
        before_s = sandbox.children_cpu_s()
        started = [self.start(run, cpu) for run, cpu in zip(runs, self.cpus, strict=False)]
        for guest, _ in started:
            guest.wait()
        spent_s = sandbox.children_cpu_s() - before_s
        for _, folder in started:
            check(folder)
        return Taken(spent_s, started[0][1])


def load(duration_s: float, cc: str = "bbr", **settings: str) -> RunSpec:
    """Compile the benchmark's run: one stream over 100 ms, per packet, at the default call cost."""
    return single_run(
        profile="plain-100ms",
        cc=cc,
        machine="sandbox",
        clock="virtual",
        overrides={"duration": f"{duration_s:g}s", "offloads": "off", "buffers": "bdp", **settings},
    )


def check(folder: Path) -> None:
    """Raise RuntimeError with the run's message if it did not end well."""
    outcome = safe_read.read_json(folder / "outcome.json")
    if outcome["outcome"] != "ok":
        raise RuntimeError(f"a run of the benchmark failed: {outcome['error']}")
