"""Many result folders: every one under results/EXPERIMENT, and a table of them.

Each becomes a `Run` or a `Broken`; none is left out.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from gostlab.analysis.load.published import level
from gostlab.analysis.load.run_folder import CHAIN_LEGS, LEGS, RunFolder, UnidentifiedRun, load_run
from gostlab.analysis.load.run_json import RunDirection, question, read_asked
from gostlab.analysis.load.series import latency
from gostlab.results.metrics import Latency


@dataclass(frozen=True)
class ExperimentFolders:
    """An experiment's folders."""

    experiment: str
    runs: tuple[RunFolder, ...]
    broken: tuple[UnidentifiedRun, ...]

    @property
    def synthetic(self) -> bool:
        """Whether any of its numbers were made up for a test."""
        return any(run.environment is not None and run.environment.synthetic for run in self.runs)


def load_results(
    results: Path, experiment: str, asking: Collection[str] | None = None
) -> ExperimentFolders:
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
    return ExperimentFolders(
        experiment,
        tuple(run for run in loaded if isinstance(run, RunFolder)),
        tuple(run for run in loaded if isinstance(run, UnidentifiedRun)),
    )


def to_frame(runs: Iterable[RunFolder]) -> pd.DataFrame:
    """One row per run, for people who want to go on from here; see the units in the names.

    A factor that has no column of its own under its name (`load.cc`, `buffer`) gets one, as the
    experiment's file writes it. What a run does not tell is empty.
    """
    rows = [with_factors(to_row(run), run) for run in runs]
    return pd.DataFrame(rows, columns=None if rows else ["run", "state", "verdict", "goodput_mbit"])


def to_csv(frame: pd.DataFrame) -> str:
    """CSV: every number with six significant digits at most, and no more than it needs."""
    shown = frame.apply(lambda column: column.map(short))
    return str(shown.to_csv(index=False, lineterminator="\n"))


def short(value: Any) -> Any:
    """A number as few digits say it (1432.13, 0.168, 1967000000); anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, float) or not math.isfinite(value):
        return value
    return f"{value:.0f}" if abs(value) >= 1e6 else f"{value:.6g}"


def with_factors(row: dict[str, Any], run: RunFolder) -> dict[str, Any]:
    """A run's row and the levels of those factors that it does not have yet."""
    return row | {key: level(value) for key, value in run.factors if key not in row}


# What a run's row has under the name that it has in the run.
ASKED = (
    *("state", "verdict", "matrix", "topology", "tunnel", "cc", "streams", "repetition", "seed"),
    *("clock", "syscall_cost_us", "profile", "placement", "direction", "duration_s", "rate_mbit"),
    *("rtt_ms", "loss_p", "jitter_ms", "ordered"),
)
GOT = ("buffer_pkts", "buffer_bdp", "goodput_mbit")


def differs(run: RunFolder, name: str) -> bool:
    """Whether a run's flows have different ones, so that the run has none."""
    return len({getattr(flow, name) for flow in run.competitors}) > 1


def to_row(run: RunFolder) -> dict[str, Any]:
    several = run.flows if len(run.flows) > 1 else ()
    chain = {f"{leg}_retransmitted": run.retransmitted(leg) for leg in CHAIN_LEGS}
    environment = run.environment
    return {
        "run": run.name,
        **{name: getattr(run, name) for name in ASKED},
        **{name: None for name in ("streams", "rtt_ms") if differs(run, name)},
        **direction_columns(run.path),
        "flows": len(run.flows),
        **{name: getattr(run, name) for name in GOT},
        **{
            f"{name}:{flow.name}": getattr(flow, name)
            for name in ("cc", "streams", "rtt_ms")
            for flow in several
        },
        **{f"goodput_mbit:{flow.name}": flow.goodput_mbit for flow in several},
        **delay_columns(latency(run) if run.state == "ok" else None),
        "iperf3_retr": run.retr,
        **{f"{leg}_retransmitted": run.retransmitted(leg) for leg in LEGS},
        **{name: again for name, again in chain.items() if again is not None},
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
    """Both directions of a path: forward is what the client sends."""
    return {
        f"{direction.name}_{name}": getattr(direction, name)
        for direction in path
        for name in PATH_COLUMNS
    }


def delay_columns(delays: Latency | None) -> dict[str, float | None]:
    """The delays under load, in ms; None where nothing tells."""
    return {
        f"{name}_{quantile}_ms": getattr(getattr(delays, f"{name}_ms", None), quantile, None)
        for name in ("srtt", "queue_delay")
        for quantile in ("median", "p95")
    }
