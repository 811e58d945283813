# SPDX-License-Identifier: MIT
"""Execute runs one after another without a wait for each sandbox to boot.

with gostlab.Lab() as lab:
    for rate in ("10mbit", "20mbit"):
        print(rate, lab.run(cc="bbr", rate=rate).goodput_mbit)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from gostlab import sandbox as machines
from gostlab.api.experiment import RESULTS, Experiment, Levels, Progress, Run, Running
from gostlab.api.run import PartsAndStandby, check_jobs
from gostlab.errors import BadInput
from gostlab.install import locate
from gostlab.results.run_result import RunResult
from gostlab.sandbox import uml
from gostlab.scheduler.executor import RunObserver


class Lab:
    """Keep sandboxes booted for the runs that follow.

    A run that finds a sandbox waiting does not wait for its boot, and has the same samples to the
    bit. Runs with the kernel, the congestion-control modules, the memory and the CPU costs of the
    last run find one; any other boots its own.

    A waiting sandbox uses no CPU time and about 60 MB of memory. There are at most two for each
    CPU: one for the next run, and one that is copied in place of another boot. They end 30 s after
    the last run, at `close`, and with this process, however that ends.
    What is installed is looked for once: a GOST that is added later is not seen.
    """

    def __init__(
        self, results: str | Path = RESULTS, *, jobs: int | None = None, gost: Path | None = None
    ) -> None:
        """Find the parts, and boot the first sandbox.

            results   the folder of the runs' results
            jobs      number of parallel runs (None: one per CPU)
            gost      the path of GOST's binary
        Raises BadInput, MissingPart.
        """
        check_jobs(jobs)
        self.results = Path(results)
        self._jobs = jobs
        self.kept = PartsAndStandby.within(self.results, gost)
        self._is_closed = False
        self._prepare_default()

    def _prepare_default(self) -> None:
        """Boot a sandbox for a run with default settings, unless this machine cannot."""
        parts = self.kept.parts
        default = Run(machine="sandbox").description
        kernel = locate.require_kernel(parts)
        handed, visible = machines.build_parts_json(parts), machines.visible_paths(parts)
        with suppress(machines.MachineError, OSError):  # the first run reports the cause
            self.kept.standby.prepare(uml.run_boot(kernel, default, handed, visible))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the waiting sandboxes. The lab executes no more runs."""
        self._is_closed = True
        self.kept.close()

    def run(self, run: Run | None = None, *, seed: int = 1, **settings: Levels) -> RunResult:
        """Execute one run, unless it is finished, and return its result.

        run: a gostlab.Run; or its settings, as gostlab.Run takes them. Raises what Run and
        Experiment.run do.
        """
        if run is not None and settings:
            raise BadInput("a run, or the settings of one: not both")
        run = run or Run(seed=seed, machine="sandbox", **settings)
        with self.execute(run.experiment) as running:
            return next(running)

    def execute(
        self,
        experiment: Experiment,
        *,
        progress: bool | Callable[[Progress], object] | RunObserver = False,
        retry_failed: bool = False,
    ) -> Running:
        """Execute the missing runs of an experiment, and give every result, old and new.

        The arguments and exceptions are those of Experiment.run.
        """
        if self._is_closed:
            raise BadInput("this lab is closed: its runs belong into the `with` block")
        return experiment.run(
            self.results,
            jobs=self._jobs,
            progress=progress,
            retry_failed=retry_failed,
            kept=self.kept,
        )
