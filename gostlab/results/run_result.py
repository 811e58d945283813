# SPDX-License-Identifier: MIT
"""Represent how a run ended: its status, its verdict and its goodput."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab.results import RunStatus, read_object, read_status
from gostlab.results.metrics import goodput_bps
from gostlab.results.samples import read_samples
from gostlab.spec.run_spec import RunSpec

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RunResult:
    """Represent a run that has ended, now or earlier.

    verdict    how far its numbers can be trusted: ok, degraded or invalid; None if it has none
    """

    run: RunSpec
    folder: Path
    status: RunStatus
    verdict: str | None

    @classmethod
    def read(cls, folder: Path, run: RunSpec) -> RunResult:
        """Read how a run ended from its folder; an unfinished one has no outcome."""
        verdict = (read_object(folder / "fidelity.json") or {}).get("verdict")
        status = read_status(folder) or RunStatus()
        return cls(run, folder, status, None if verdict is None else str(verdict))

    @property
    def name(self) -> str:
        """Return the run's name."""
        return self.run.name

    @property
    def levels(self) -> Mapping[str, object]:
        """Return the factors' levels, as people write them: {"cc": "bbr"}."""
        return dict(self.run.factors)

    @property
    def repetition(self) -> int:
        """Return the number of the repetition, from 1."""
        return self.run.repetition

    @property
    def outcome(self) -> str | None:
        """Return ok, failed, unsupported (this kernel cannot do it) or interrupted."""
        return self.status.get("outcome")

    @property
    def error(self) -> str | None:
        """Return the reason in one line, if the outcome is not ok."""
        return self.status.get("error")

    @property
    def state(self) -> str:
        """Return good, degraded, invalid, unsupported or failed.

        degraded: something else influenced the result; invalid: the result does not answer the
        question; unsupported: this kernel cannot execute the run.
        """
        if self.outcome != "ok":
            return "unsupported" if self.outcome == "unsupported" else "failed"
        return {"ok": "good", "degraded": "degraded"}.get(self.verdict or "", "invalid")

    @property
    def counts(self) -> bool:
        """Return whether it answers the question and goes into summaries: good or degraded."""
        return self.state in ("good", "degraded")

    @cached_property
    def goodput_bps(self) -> float | None:
        """Return the total goodput of its flows in bit/s, or None if it has none."""
        return goodput_bps(self.folder) if self.outcome == "ok" else None

    @property
    def goodput_mbit(self) -> float | None:
        """Return the total goodput of its flows in Mbit/s, or None if it has none."""
        return None if self.goodput_bps is None else self.goodput_bps / 1e6

    def samples(self, of: str = "sockets") -> pd.DataFrame:
        """Return the run's samples over time, one row each.

        of: one of gostlab.SAMPLES. Raises BadInput.
        """
        return read_samples(self.folder, of)
