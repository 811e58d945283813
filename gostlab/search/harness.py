# SPDX-License-Identifier: MIT
"""Make the runs that a search proposes: ordinary ones in results/NAME/, new or cached.

The proposals depend only on the answers and the seed, so that an interrupted search proposes the
same runs again and finds their results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from gostlab import api, sandbox
from gostlab.atomic_write import write_whole
from gostlab.results import EXPERIMENT_FILE
from gostlab.results.run_result import RunResult
from gostlab.scheduler.executor import RunObserver
from gostlab.scheduler.progress import format_duration
from gostlab.spec import preflight
from gostlab.spec.experiment import ExperimentFile, read_experiment
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import parse_document
from gostlab.terminal_escape import StatusLine


class SearchProgress(RunObserver):
    """Progress of a search on standard error: its stage, runs, and remaining time."""

    def __init__(self, most_runs: int, most_s: float, *, quiet: bool = False) -> None:
        self._most, self._quiet = most_runs, quiet
        self.most_s = most_s  # maximum total load duration of all runs
        self._done: dict[str, float] = {}  # load duration by run, for runs with an answer
        self._made_s = 0.0  # total load duration of the runs made by this process
        self._began_s = time.monotonic()
        self._line = StatusLine(sys.stderr)

    def say(self, text: str) -> None:
        """Print a line of the first batch of runs only; later batches repeat it."""
        if not self._done:
            self._note(text)

    def finished(self, done: RunResult, left_s: float) -> None:  # noqa: ARG002
        self._made_s += done.run.length_s
        self.answered([done])
        if not self._quiet:
            self._line.show(self._progress())
        if not done.counts:
            self._note(f"{done.run.name}: no answer: {done.error or done.verdict}")

    def answered(self, ends: Sequence[RunResult]) -> None:
        """Record that these runs have an answer, new or cached."""
        self._done |= {end.run.name: end.run.length_s for end in ends}

    def stage(self, what: str) -> None:
        self._note(f"{what} · {self._progress()}")

    def _note(self, text: str) -> None:
        if not self._quiet:
            self._line.keep(text)

    def _progress(self) -> str:
        left = ""
        if self._made_s:
            pace = (time.monotonic() - self._began_s) / self._made_s
            left_s = pace * max(0.0, self.most_s - sum(self._done.values()))
            left = f" · {format_duration(left_s)} left at most"
        return f"run {len(self._done)} of {self._most} at most{left}"


class SearchHarness:
    """The experiment of a search, and the runs that were made of it.

    Sandboxes for the next runs boot while the search works on the answers of the last ones; they
    end with the `with` block.
    """

    def __init__(
        self,
        verb: str,
        document: Mapping[str, object],
        results: Path,
        choice: sandbox.MachineChoice,
        progress: SearchProgress,
        **run_options: Any,
    ) -> None:
        """Save the experiment next to its runs. Raises BadInput, OSError.

        run_options  jobs, gost and retry_failed, as for an experiment's run()
        """
        self.file = save_experiment(results, document, verb)
        self.progress, self.machine = progress, choice
        self.complaint = ""  # why the last impossible run was refused
        self.runs: set[str] = set()  # names of all runs with an answer
        self._results, self._run_options = results, run_options
        self._gost: Path | None = run_options.pop("gost", None)
        self._kept: api.PartsAndStandby | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            self._kept.close()

    def make(self, runs: Iterable[RunSpec]) -> dict[str, Path]:
        """Make runs and return the folders of those that count, by name.

        Runs that fail a preflight check are not made. Raises the exceptions of a run.
        """
        once = {run.name: run for run in runs}
        refused, _ = preflight.survey_traps(list(once.values()))
        if refused:
            self.complaint = api.refusal_line(refused)
        for run, _ in refused:
            once.pop(run.name, None)
        if not once:
            return {}
        experiment = api.Experiment(file=self.file, machine=self.machine, runs=tuple(once.values()))
        self._kept = self._kept or api.PartsAndStandby.within(self._results, self._gost)
        started = experiment.run(
            self._results, progress=self.progress, kept=self._kept, **self._run_options
        )
        ends = started.wait().runs
        self.progress.answered(ends)
        self.runs |= {end.run.name for end in ends}
        return {end.run.name: end.folder for end in ends if end.counts}


def save_experiment(results: Path, document: Mapping[str, Any], verb: str) -> ExperimentFile:
    """Save the experiment of a search next to its runs and return it. Raises BadInput, OSError."""
    file = results / document["name"] / EXPERIMENT_FILE
    text = f"# The runs that ./lab {verb} made.\n{yaml.safe_dump(document, sort_keys=False)}"
    experiment = read_experiment(parse_document(text, verb), file)
    write_whole(file, text)
    return experiment
