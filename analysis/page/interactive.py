"""What the page's scripts need: every run's series, thinned and quantised, and what tells runs
apart.

The page is whole without it: figures, tables and lists stay where they are for a reader without
scripts, and on paper.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from analysis.judge.table import cc_name
from analysis.read.description import data_direction
from analysis.read.folder import Run
from analysis.read.series import Series, flow_rates, queue_series, socket_series
from analysis.read.study import level
from gostlab.ask.words import level_words
from gostlab.declared.colours import cc_colour
from gostlab.results import is_number, read_series

HERE = Path(__file__).resolve().parent
VENDOR = HERE.parent / "vendor"
# Of one line, on the page of an experiment; a page of one run has every sample.
MOST_POINTS = 2000
# All series of a page together, before they are base64.
MOST_BYTES = 1_600_000
STEPS = 65_535  # of a quantised value


@dataclass(frozen=True)
class Panel:
    """One axis over time and its lines, by flow."""

    title: str  # with the unit
    lines: Mapping[str, Series]


def panels_of(run: Run) -> list[Panel]:
    """A run over time: rate, window, round trip and queue, what the bottleneck dropped. Panels
    without a line are left out.
    """
    window_s = max(1.0, run.duration_s / 600)
    panels = [
        Panel("Rate (Mbit/s)", flow_rates(run, window_s)),
        Panel("Congestion window (segments)", socket_series(run, "cwnd_pkts")),
        Panel("Round trip (ms)", socket_series(run, "srtt_ms")),
        Panel("Bottleneck's queue (packets)", {"queue": queue_series(run)}),
        Panel("Dropped there so far (packets)", {"drops": drop_series(run)}),
    ]
    shown = [
        Panel(panel.title, {name: line for name, line in panel.lines.items() if len(line) > 1})
        for panel in panels
    ]
    return [panel for panel in shown if panel.lines]


def drop_series(run: Run) -> Series:
    """What the bottleneck has dropped since the load began, in the direction of the data."""
    at: dict[float, float] = {}
    for row in read_series(run.folder, "queues"):
        here = (row.get("role"), row.get("direction"))
        if here == ("bottleneck", data_direction(run.direction)) and is_number(row.get("drops")):
            at[row["t_s"]] = at.get(row["t_s"], 0.0) + row["drops"]
    instants = sorted(at)
    first = at[instants[0]] if instants else 0.0
    return Series(np.array(instants), np.array([at[t_s] - first for t_s in instants]))


def thinned(series: Series, most: int) -> Series:
    """At most so many points: of each stretch of time the least and the greatest value, so that no
    peak is lost.
    """
    count = len(series)
    if count <= most:
        return series
    kept: list[int] = []
    for part in np.array_split(np.arange(count), max(1, most // 2)):
        values = series.value[part]
        kept += sorted({int(part[np.argmin(values)]), int(part[np.argmax(values)])})
    return Series(series.t_s[kept], series.value[kept])


def packed(values: np.ndarray) -> dict[str, Any]:
    """Numbers in 16 bits each, little-endian, as base64: value = lo + step × number."""
    low, high = float(np.min(values)), float(np.max(values))
    step = (high - low) / STEPS
    numbers = np.round((values - low) / step) if step else np.zeros(len(values))
    coded = base64.b64encode(numbers.astype("<u2").tobytes()).decode("ascii")
    return {"lo": rounded(low), "step": rounded(step), "of": coded}


def rounded(value: float) -> float:
    """Nine digits: more than 16 bits hold."""
    return float(f"{value:.9g}")


def run_json(run: Run, panels: Sequence[Panel], most: int, told: Mapping[str, str]) -> Any:
    """One run for the page."""
    ccs = {flow.name: flow.cc or "" for flow in run.flows}
    return {
        "name": run.name,
        "matrix": run.matrix,
        "levels": {name: level_words(name, value, cc_name) for name, value in run.factors},
        "told": dict(told),
        "changes": sorted({change.at_s for change in run.changes}),
        "panels": [
            {
                "title": panel.title,
                "lines": [
                    {
                        "name": name,
                        "colour": cc_colour(ccs.get(name) or run.cc),
                        "t": packed(line.t_s),
                        "v": packed(line.value),
                    }
                    for name, line in ((n, thinned(each, most)) for n, each in panel.lines.items())
                ],
            }
            for panel in panels
        ],
    }


def page_json(runs_by_anchor: Mapping[str, Sequence[Run]], most: int = MOST_POINTS) -> str:
    """All runs of a page, by the anchor of their experiment, as JSON that no mark-up can end."""
    panels = {
        run.folder: panels_of(run) for runs in runs_by_anchor.values() for run in runs if run.counts
    }
    lines = sum(len(panel.lines) for each in panels.values() for panel in each)
    # a point is two numbers of two bytes
    most = max(20, min(most, MOST_BYTES // (4 * max(1, lines))))
    found = {
        anchor: [
            run_json(run, panels.get(run.folder, ()), most, told)
            for run, told in zip(runs, told_apart(runs), strict=True)
        ]
        for anchor, runs in runs_by_anchor.items()
    }
    return as_data(found)


def as_data(value: Any) -> str:
    """JSON for a data block: whatever somebody's words are, they end no element."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def told_apart(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Of each run what was asked of it or made it that is not the same in all: for a comparison of
    two.
    """
    every = [everything(run) for run in runs]
    names = dict.fromkeys(name for each in every for name in each)
    varied = [name for name in names if len({each.get(name) for each in every}) > 1]
    return [{name: each.get(name, "–") for name in varied} for each in every]


def everything(run: Run) -> dict[str, str]:
    """What was asked of a run and what made it, in words."""
    made = run.environment
    environment = (
        {}
        if made is None
        else {
            name: str(getattr(made, name))
            for name in ("kernel", "tunnel", "tunnel_sha256", "iperf3", "lab", "host")
        }
    )
    return {
        **{name: level(value) for name, value in run.settings},
        "repetition": str(run.repetition),
        "seed": str(run.seed),
        "verdict": run.verdict or run.state,
        "goodput (Mbit/s)": "–" if run.goodput_mbit is None else f"{run.goodput_mbit:.4g}",
        **environment,
    }


# -- the scripts, and what may run


@cache
def scripts() -> tuple[str, ...]:
    """The page's scripts: the charts' library, and the page's own."""
    files = (VENDOR / "uPlot.iife.min.js", HERE / "report.js")
    found = tuple(file.read_text(encoding="utf-8") for file in files)
    assert not any("</script" in script for script in found)
    return found


@cache
def chart_style() -> str:
    """The charts' style sheet."""
    return (VENDOR / "uPlot.min.css").read_text(encoding="utf-8")


def policy(with_scripts: Iterable[str]) -> str:
    """The page's Content-Security-Policy: nothing from elsewhere, and of scripts only these, by
    their hashes.
    """
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
        for script in with_scripts
    ]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src {allowed}; base-uri 'none'; form-action 'none'"
    )
