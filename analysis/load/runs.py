# SPDX-License-Identifier: MIT
"""Read all result folders of an experiment, and tabulate them.

Each folder becomes a RunFolder or an UnidentifiedRun; none is omitted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.run_folder import CHAIN_LEGS, LEGS, RunFolder, UnidentifiedRun, load_run
from gostlab.analysis.load.run_json import RunDirection, question_key, read_run_json
from gostlab.analysis.load.series import latency_of_run
from gostlab.analysis.load.study import format_level
from gostlab.results.metrics import Latency

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ExperimentFolders:
    """The result folders of an experiment."""

    experiment: str
    runs: tuple[RunFolder, ...]
    broken: tuple[UnidentifiedRun, ...]

    @property
    def synthetic(self) -> bool:
        """Return whether any value was made up for a test."""
        return any(run.environment is not None and run.environment.synthetic for run in self.runs)


def load_results(
    results: Path, experiment: str, asking: Collection[str] | None = None
) -> ExperimentFolders:
    """Read every run folder of an experiment, by name.

    An absent folder contains no run. asking: only the runs that match one of these questions (see
    `question_key`); other folders are not read.
    """
    folder = results / experiment
    try:
        folders = sorted(
            path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
        )
    except (FileNotFoundError, NotADirectoryError):
        folders = []
    loaded = [
        load_run(path)
        for path in folders
        if asking is None or question_key(read_run_json(path)) in asking
    ]
    return ExperimentFolders(
        experiment,
        tuple(run for run in loaded if isinstance(run, RunFolder)),
        tuple(run for run in loaded if isinstance(run, UnidentifiedRun)),
    )


def to_frame(runs: Iterable[RunFolder]) -> pd.DataFrame:
    """Return a table with one row per run; units are in the column names.

    A factor without a column of its own (`load.cc`, `buffer`) gets one, with levels as written in
    the experiment's file. Unknown values are empty.
    """
    import pandas as pd

    rows = [add_factor_levels(run_row(run), run) for run in runs]
    return pd.DataFrame(rows, columns=None if rows else ["run", "state", "verdict", "goodput_mbit"])


def to_csv(frame: pd.DataFrame) -> str:
    """Return CSV with up to six significant digits per number."""
    formatted = frame.apply(lambda column: column.map(format_shortest))
    return str(formatted.to_csv(index=False, lineterminator="\n"))


def format_shortest(value: Any) -> Any:
    """Format a number with the fewest digits (1432.13, 0.168, 1967000000)."""
    if isinstance(value, bool) or not isinstance(value, float) or not math.isfinite(value):
        return value
    return f"{value:.0f}" if abs(value) >= 1e6 else f"{value:.6g}"


def add_factor_levels(row: dict[str, object], run: RunFolder) -> dict[str, object]:
    """Add the levels of those factors that a run's row lacks."""
    return row | {key: format_level(value) for key, value in run.factors if key not in row}


# Requested and measured attributes of a run that become columns of the same name.
REQUESTED = (
    *("state", "verdict", "matrix", "topology", "tunnel", "cc", "streams", "repetition", "seed"),
    *("clock", "syscall_cost_us", "profile", "placement", "direction", "duration_s", "rate_mbit"),
    *("rtt_ms", "loss_p", "jitter_ms", "ordered"),
)
MEASURED = ("buffer_pkts", "buffer_bdp", "goodput_mbit")


def flows_differ(run: RunFolder, name: str) -> bool:
    """Return whether a run's flows differ in an attribute."""
    return len({getattr(flow, name) for flow in run.competitors}) > 1


def run_row(run: RunFolder) -> dict[str, object]:
    several = run.flows if len(run.flows) > 1 else ()
    chain = {f"{leg}_retransmitted": run.retransmitted(leg) for leg in CHAIN_LEGS}
    environment = run.environment
    return {
        "run": run.name,
        **{name: getattr(run, name) for name in REQUESTED},
        **{name: None for name in ("streams", "rtt_ms") if flows_differ(run, name)},
        **direction_columns(run.path),
        "flows": len(run.flows),
        **{name: getattr(run, name) for name in MEASURED},
        **{
            f"{name}:{flow.name}": getattr(flow, name)
            for name in ("cc", "streams", "rtt_ms")
            for flow in several
        },
        **{f"goodput_mbit:{flow.name}": flow.goodput_mbit for flow in several},
        **delay_columns(latency_of_run(run) if run.state == "ok" else None),
        "iperf3_retr": run.retr,
        **{f"{leg}_retransmitted": run.retransmitted(leg) for leg in LEGS},
        **{
            name: retransmitted
            for name, retransmitted in chain.items()
            if retransmitted is not None
        },
        "wan_segments_out": run.segments("wan"),
        "idle_share": run.idle_share,
        "idle_share_whole_load": run.idle_share_load,
        "link_share": run.link_share,
        "tunnel_program": environment.tunnel if environment else None,
        "kernel": environment.kernel if environment else None,
        "lab": environment.lab if environment else None,
        "error": run.error,
    }


PATH_COLUMNS = ("rate_mbit", "delay_ms", "jitter_ms", "loss_p", "buffer_pkts")


def direction_columns(path: Sequence[RunDirection]) -> dict[str, float | None]:
    """Return the columns of both directions; forward is sent by the client."""
    return {
        f"{direction.name}_{name}": getattr(direction, name)
        for direction in path
        for name in PATH_COLUMNS
    }


def delay_columns(delays: Latency | None) -> dict[str, float | None]:
    """Return the delays under load in ms; None without data."""
    return {
        f"{name}_{quantile}_ms": getattr(getattr(delays, f"{name}_ms", None), quantile, None)
        for name in ("srtt", "queue_delay")
        for quantile in ("median", "p95")
    }
