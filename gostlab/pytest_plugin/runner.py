# SPDX-License-Identifier: MIT
"""Execute a test's runs, and describe them when the test fails."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gostlab import api
from gostlab.api.experiment import Levels, option_text
from gostlab.errors import COMMAND
from gostlab.results.run_result import RunResult
from gostlab.sandbox.cpu_claims import claim
from gostlab.sandbox.host_limits import cpus_allowed
from gostlab.scheduler.shard import Shard
from gostlab.spec.adhoc import option_of
from gostlab.spec.labels import cell_label

if TYPE_CHECKING:
    from gostlab.analysis.load.run_folder import RunFolder

POLL_S = 0.1
WHOLE = Shard(1, 1)  # processes that share results execute each run in a temporary folder


@dataclass(frozen=True)
class CheckedRun:
    """Represent a finished run; its metrics are attributes: run.goodput_mbit, run.jain.

    The value of an invalid run is no answer, and of a metric that it does not have is unknown: both
    raise AssertionError.
    """

    result: RunResult = field(repr=False)
    results: Path = field(repr=False)
    command: str  # the command line that makes the same run
    path: str  # the path and load in words

    @property
    def name(self) -> str:
        return self.result.name

    @property
    def folder(self) -> Path:
        return self.result.folder

    @property
    def verdict(self) -> str | None:
        return self.result.verdict

    @cached_property
    def measured(self) -> RunFolder:
        """Return the run as the report reads it."""
        from gostlab.analysis.load.run_folder import RunFolder, load_run

        run = load_run(self.folder)
        if not isinstance(run, RunFolder):
            raise AssertionError(f"{self.folder}: cannot be read: {run.error}")
        return run

    def value(self, metric: str) -> float | None:
        """Return a metric of the run, or of a flow (share:flow2); None if it has none."""
        from gostlab.analysis.stats.metrics import value_of

        return value_of(self.measured, metric)

    def known_value(self, metric: str) -> float:
        """Return a metric of the run or of a flow. Raises AssertionError."""
        __tracebackhide__ = True
        if not self.measured.counts:
            raise AssertionError(f"{self.name} is {self.verdict}: {metric} is no answer")
        value = self.value(metric)
        if value is None:
            raise AssertionError(f"{self.name} has no {metric}")
        return value

    def flow(self, name: str) -> FlowMetrics:
        """Return the metrics of one flow: run.flow("flow2").share."""
        return FlowMetrics(self, name)

    def __getattr__(self, name: str) -> float:
        from gostlab.analysis.stats.metrics import BY_KEY

        __tracebackhide__ = True
        if name not in BY_KEY:
            raise AttributeError(f"{name}: no metric of a run ({', '.join(sorted(BY_KEY))})")
        return self.known_value(name)


@dataclass(frozen=True)
class FlowMetrics:
    """Represent a flow of a run; its metrics are attributes."""

    run: CheckedRun
    name: str

    def __getattr__(self, metric: str) -> float:
        from gostlab.analysis.stats.metrics import BY_KEY

        __tracebackhide__ = True
        if metric not in BY_KEY:
            raise AttributeError(f"{metric}: no metric of a flow")
        return self.run.known_value(f"{metric}:{self.name}")


RUNS = pytest.StashKey[list[CheckedRun]]()


@dataclass
class Runner:
    """Execute runs in one results folder, with other processes in parallel.

    Without others, the sandbox of the next run boots when a run ends.
    """

    results: Path
    is_worker: bool  # an xdist worker, beside others
    parts: api.PartsAndStandby | None = None

    def of_test(self, item: pytest.Item) -> TestLab:
        return TestLab(self, item)

    def execute(self, experiment: api.Experiment) -> list[RunResult]:
        """Execute the missing runs of an experiment, and return all in the order of its cells.

        Raises MissingPart without a kernel or program: no test builds one.
        """
        folder = self.results
        commands = [f for run in experiment.runs for f in run.flows if f.traffic.of_the_host]
        if not all(flow.files for flow in commands):
            # Without `files` the hash may not cover all of the program under test.
            folder = Path(tempfile.mkdtemp(prefix="gostlab-uncached-"))
        shared = replace(experiment, shard=WHOLE)
        with self.turn():
            if self.is_worker:  # there is no CPU to boot sandboxes on meanwhile
                outcome = shared.run(folder, jobs=1).wait()
            else:
                self.parts = self.parts or api.PartsAndStandby.within(self.results)
                outcome = shared.run(folder, kept=self.parts).wait()
        return list(outcome.in_order)

    def close(self) -> None:
        """End the sandboxes that wait for a run."""
        if self.parts is not None:
            self.parts.close()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a CPU that no other worker's run uses; a single process has them all."""
        if not self.is_worker:
            yield
            return
        count = max(1, cpus_allowed() or 1)
        while True:
            for number in range(count):
                with claim(f"pytest-{number}") as is_mine:
                    if is_mine:
                        yield
                        return
            time.sleep(POLL_S)


RUNNER = pytest.StashKey[Runner]()


@dataclass(frozen=True)
class TestLab:
    """Represent the fixture `lab`: it executes runs that belong to one test."""

    __test__ = False  # pytest collects classes of this name
    runner: Runner
    item: pytest.Item

    def run(self, *, seed: int = 1, **settings: Levels) -> CheckedRun:
        """Execute one run, unless it is finished, and return it.

        Settings are those of `gostlab settings`, one level each, with the defaults of gostlab.Run.
        A failed run fails the test; one that this kernel cannot execute skips it. Raises BadInput.
        """
        experiment = api.Run(seed=seed, machine="sandbox", **settings).experiment
        (run,) = self.checked(experiment, settings, seed)
        return run

    def runs(self, *, repeat: int = 1, seed: int = 1, **settings: Levels) -> list[CheckedRun]:
        """Execute every combination of the levels of settings, `repeat` times; in their order."""
        experiment = api.Experiment.of(repeat=repeat, seed=seed, machine="sandbox", **settings)
        return self.checked(experiment, settings, seed)

    def checked(
        self, experiment: api.Experiment, settings: dict[str, Any], seed: int
    ) -> list[CheckedRun]:
        argv = [COMMAND, "try"]
        for name, level in settings.items():
            argv += [option_of(name), option_text(level)]
        argv += ["--seed", str(seed)] if seed != 1 else []
        results = self.runner.execute(experiment)
        question = experiment.question
        path = cell_label(question.key_settings) if question else experiment.name
        command = shlex.join(argv)
        return record_runs(self.item, results, self.runner.results, command, path)


def record_runs(
    item: pytest.Item, results: Sequence[RunResult], folder: Path, command: str, path: str
) -> list[CheckedRun]:
    """Return runs as a test sees them, which its report has if it fails."""
    runs = [
        CheckedRun(
            result=result,
            results=folder,
            command=command,
            path=", ".join(filter(None, (cell_label(result.levels), path))).replace("\xa0", " "),
        )
        for result in results
    ]
    item.stash.setdefault(RUNS, []).extend(runs)
    for result in results:
        if result.state == "unsupported":
            pytest.skip(f"{result.name}: not possible here: {result.error}")
        if result.state == "failed":
            pytest.fail(f"{result.name}: {result.outcome}: {result.error}", pytrace=False)
    return runs


def describe_run(run: CheckedRun) -> str:
    """Return path, verdict, command, folder and page of a run, a line each."""
    lines = [
        f"path:    {run.path}",
        f"verdict: {run.verdict}",
        f"again:   {run.command}",
        f"folder:  {run.folder}",
    ]
    try:
        page = api.write_run_page(run.folder.parent.parent, run.folder)
        lines.append(f"page:    {page.resolve().as_uri()}")
    except Exception as error:  # a page that cannot be written must not hide the failure
        lines.append(f"page:    none: {error}")
    return "\n".join(lines)
