"""Many result folders: every one under results/EXPERIMENT, and a table of them.

Each becomes a `Run` or a `Broken`; none is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.read.description import question, read_asked
from analysis.read.folder import LEGS, Broken, Run, load_run


@dataclass(frozen=True)
class Results:
    """An experiment's folders."""

    experiment: str
    runs: tuple[Run, ...]
    broken: tuple[Broken, ...]

    @property
    def synthetic(self) -> bool:
        """Whether any of its numbers were made up for a test."""
        return any(run.environment is not None and run.environment.synthetic for run in self.runs)


def load_results(results: Path, experiment: str, asking: Collection[str] | None = None) -> Results:
    """Every run folder of an experiment, in the order of their names. An absent folder has none.

    asking: only the runs that answer one of these questions (see `question`); the others are left
    out, unread.
    """
    folder = results / experiment
    try:
        found = sorted(
            path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
        )
    except (FileNotFoundError, NotADirectoryError):
        found = []
    loaded = [
        load_run(path) for path in found if asking is None or question(read_asked(path)) in asking
    ]
    return Results(
        experiment,
        tuple(run for run in loaded if isinstance(run, Run)),
        tuple(run for run in loaded if isinstance(run, Broken)),
    )


def to_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run, for people who want to go on from here; see the units in the names."""
    rows = [
        {
            "run": run.name,
            "state": run.state,
            "verdict": run.verdict,
            "matrix": run.matrix,
            "topology": run.topology,
            "tunnel": run.tunnel,
            "cc": run.cc,
            "streams": run.streams,
            "repetition": run.repetition,
            "seed": run.seed,
            "clock": run.clock,
            "syscall_cost_us": run.syscall_cost_us,
            "profile": run.profile,
            "placement": run.placement,
            "direction": run.direction,
            "duration_s": run.duration_s,
            "rate_mbit": None if run.rate_bps is None else run.rate_bps / 1e6,
            "rtt_ms": run.rtt_ms,
            "loss_p": run.loss_p,
            "jitter_ms": run.jitter_ms,
            "ordered": run.ordered,
            "flows": len(run.flows),
            "buffer_pkts": run.buffer_pkts,
            "buffer_bdp": run.buffer_bdp,
            "goodput_mbit": run.goodput_mbit,
            **(
                {f"goodput_mbit:{flow.name}": flow.goodput_mbit for flow in run.flows}
                if len(run.flows) > 1
                else {}
            ),
            "iperf3_retr": run.retr,
            **{f"{leg}_retransmitted": run.retransmitted(leg) for leg in LEGS},
            "wan_segments_out": run.segments("wan"),
            "idle_share": run.idle_share,
            "idle_share_whole_load": run.idle_share_load,
            "link_share": run.link_share,
            "tunnel_program": run.environment.tunnel if run.environment else None,
            "kernel": run.environment.kernel if run.environment else None,
            "lab": run.environment.lab if run.environment else None,
            "error": run.error,
        }
        for run in runs
    ]
    return pd.DataFrame(rows, columns=None if rows else ["run", "state", "verdict", "goodput_mbit"])
