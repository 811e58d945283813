# SPDX-License-Identifier: MIT
"""Compare runs with the exact results of a file, whose diff shows a change of one bit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gostlab.atomic_write import write_whole
from gostlab.errors import BadInput
from gostlab.pytest_plugin.runner import CheckedRun
from gostlab.results.duplicate_runs import samples_digest

# Metrics that tell a reader of the diff what changed; the digest covers every sample.
METRICS = ("goodput", "retr", "wan", "srtt_median_ms", "srtt_p95_ms", "queue_delay_p95_ms")
ADVICE = "if that is meant: pytest --gostlab-update, and review the diff"
Entry = dict[str, str | float | None]


@dataclass
class Baseline:
    """Represent the exact results of tests by their id, and those to add."""

    path: Path
    entries: dict[str, list[Entry]]
    added: dict[str, list[Entry]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a baseline file, which need not exist. Raises BadInput."""
        if not path.exists():
            return cls(path, {})
        try:
            entries = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: no baseline of gostlab's: {error}") from None
        if not isinstance(entries, dict):
            raise BadInput(f"{path}: no baseline of gostlab's: not an object")
        return cls(path, entries)

    def add(self, test: str, runs: Sequence[CheckedRun]) -> None:
        if runs:
            self.added[test] = [exact_results(run) for run in runs]

    def differences(self, test: str, runs: Sequence[CheckedRun], *, is_needed: bool) -> list[str]:
        """Return a line for each difference of a test's runs from the baseline."""
        if test not in self.entries:
            missing = is_needed and f"{self.path.name} has no results of this test: {ADVICE}"
            return [missing] if missing else []
        expected, actual = self.entries[test], [exact_results(run) for run in runs]
        lines = [
            f"{after['run']}: {name} was {before.get(name)!r} and is {after.get(name)!r}"
            for before, after in zip(expected, actual, strict=False)
            for name in dict.fromkeys((*before, *after))
            if before.get(name) != after.get(name)
        ]
        if len(expected) != len(actual):
            lines.append(f"{len(actual)} runs, and {len(expected)} in {self.path.name}")
        return [*lines, f"not as in {self.path.name}: {ADVICE}"] if lines else []

    def write(self) -> None:
        """Write the file with what was added, sorted, one value per line. Raises OSError."""
        if self.added:
            entries = {**self.entries, **self.added}
            text = json.dumps(entries, indent=1, sort_keys=True, ensure_ascii=False)
            write_whole(self.path, f"{text}\n")


def exact_results(run: CheckedRun) -> Entry:
    """Return a run's name, a digest of its samples, and some metrics, exactly."""
    digest = samples_digest(run.folder)
    return {
        "run": run.name,
        "samples": None if digest is None else f"{digest % 2**256:064x}",
        "verdict": run.verdict,
        **{name: run.value(name) for name in METRICS},
    }
