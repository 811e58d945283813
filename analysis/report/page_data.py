# SPDX-License-Identifier: MIT
"""Encode runs for the page's scripts: thinned and quantised series, checks, commands.

The page is readable without it: figures, tables and the list of runs remain for a reader without
scripts, and on paper.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.cc_state import CcStateHistory, read_cc_states, strip_unit_suffix
from gostlab.analysis.load.events import event_labels
from gostlab.analysis.load.run_folder import RunFolder, nested_object
from gostlab.analysis.load.series import (
    TimeSeries,
    acknowledged_rate,
    aggregate_sockets,
    flow_rates,
    non_wan_socket_samples,
    queue_series,
    socket_series,
)
from gostlab.analysis.load.study import format_level
from gostlab.analysis.load.time_sequences import join_bars, thin_steps, time_sequences
from gostlab.analysis.plotting.cc_state_axes import LINES, PANELS
from gostlab.analysis.plotting.style import FAINT
from gostlab.analysis.stats.cells import cell_key
from gostlab.analysis.stats.table_formats import cc_name
from gostlab.analysis.stats.throughput_model import payload_mbit
from gostlab.registry.palette import cc_colour
from gostlab.results import read_object
from gostlab.results.samples import read_acks
from gostlab.spec.labels import level_label
from gostlab.text_safety import replace_controls

if TYPE_CHECKING:
    import numpy as np

HERE = Path(__file__).resolve().parent
VENDOR = HERE.parent / "vendor"
# Maximum points of a line on an experiment's page; a run's page has every sample.
MAX_POINTS = 2000
# Maximum size of all points of a page before compression.
MAX_BYTES = 1_600_000
# Steps of quantised values: a line is some 200 pixels high. Times use all 16 bits.
VALUE_STEPS, TIME_STEPS = 4095, 65_535
# Maximum marks of path changes; thousands of a trace would hide everything else.
MAX_CHANGES = 400
# Maximum bars of a time–sequence graph; neighbours are joined beyond.
MAX_BARS = 20_000
MAX_WORDS = 300  # maximum characters of a value of run.json or env.json


@dataclass(frozen=True)
class PanelLine:
    """A line of a panel: a flow or one of its legs."""

    name: str
    series: TimeSeries
    leg: str = ""  # app | exit; "" for the WAN or the queue
    colour: str = ""  # "": colour of the flow's congestion control
    gaps: bool = False  # NaN interrupts the line


@dataclass(frozen=True)
class InteractivePanel:
    """One axis over time and its lines."""

    title: str  # with the unit
    lines: tuple[PanelLine, ...]
    from_zero: bool = False  # the axis begins at zero
    limits: tuple[tuple[str, float], ...] = ()  # (name, value) of horizontal lines


def panels_of(run: RunFolder, *, every_ack: bool = False) -> list[InteractivePanel]:
    """Return a run's panels over time: rate, window, RTT, queue and drops.

    Lines are per flow, and with a tunnel per leg; panels without a line are omitted. A path that
    does not change has its full rate, BDP, idle RTT and queue limit as horizontal lines. every_ack:
    read window and RTT from acks.csv.gz if it exists.
    """
    window_s = max(1.0, run.duration_s / 600)
    ends = non_wan_socket_samples(run) if run.tunnel != "direct" else {}

    def lines(found: Mapping[str, TimeSeries], key: str = "") -> tuple[PanelLine, ...]:
        panel_lines = [PanelLine(name, series) for name, series in found.items()]
        for (flow, leg), rows in sorted(ends.items()):
            series = aggregate_sockets(rows, key) if key else acknowledged_rate(rows)
            panel_lines.append(PanelLine(f"{flow}, {leg} leg", series, leg))
        return tuple(line for line in panel_lines if len(line.series) > 1)

    cwnd, srtt = (
        (ack_series(run, column) if every_ack else {}) or socket_series(run, column)
        for column in ("cwnd_pkts", "srtt_ms")
    )
    drops = queue_series(run, "drops")
    dropped = TimeSeries(drops.t_s, drops.value - drops.value[:1])  # since the load began
    panels = [
        InteractivePanel("Rate (Mbit/s)", lines(flow_rates(run, window_s))),
        InteractivePanel("Congestion window (segments)", lines(cwnd, "cwnd_pkts")),
        InteractivePanel("Round trip (ms)", lines(srtt, "srtt_ms")),
        InteractivePanel(
            "Bottleneck's queue (packets)", single_line(PanelLine("queue", queue_series(run)))
        ),
        InteractivePanel(
            "Dropped there so far (packets)", single_line(PanelLine("drops", dropped))
        ),
    ]
    limits = path_limits(run)
    return [
        replace(panel, from_zero=True, limits=limits.get(panel.title, ()))
        for panel in panels
        if panel.lines
    ]


def path_limits(run: RunFolder) -> dict[str, tuple[tuple[str, float], ...]]:
    """Return the limits of a path that does not change, by the panel's title."""
    limits = {
        "Rate (Mbit/s)": (
            "full link",
            None if run.rate_bps is None else payload_mbit(run.rate_bps, run.mtu_bytes),
        ),
        "Congestion window (segments)": ("BDP", run.bdp_pkts),
        "Round trip (ms)": ("idle", run.rtt_ms),
        "Bottleneck's queue (packets)": ("limit", run.buffer_pkts),
    }
    return {
        title: ((name, float(value)),)
        for title, (name, value) in limits.items()
        if value and not run.changes
    }


def state_panels(run: RunFolder) -> list[InteractivePanel]:
    """Return the panels of the congestion controls' own states, one per unit."""
    panels = []
    for state in read_cc_states(run):
        of = f" of {state.flow}" if len(run.flows) > 1 else ""
        for unit, (label, most) in PANELS.items():
            names = state.names(unit)[:most]
            lines = [
                PanelLine(strip_unit_suffix(name), state.series(name), colour=colour, gaps=True)
                for name, (colour, _) in zip(names, LINES, strict=False)
            ]
            if lines:
                panels.append(
                    InteractivePanel(f"Own state{of}: {' '.join(label.split())}", tuple(lines))
                )
        panels += phase_panel(state, of)
    return panels


def sequence_panels(run: RunFolder) -> list[InteractivePanel]:
    """Return the time–sequence graph of each connection that was captured, or whose ACKs were.

    A segment is a bar from its first byte to its last.
    """
    panels = []
    for graph in time_sequences(run):
        lines = [
            PanelLine(name, bars_as_line(rows), colour=colour, gaps=True)
            for name, rows, colour in (
                ("segments" if graph.is_captured else "sent", graph.segments, LINES[0][0]),
                ("retransmissions", graph.retransmissions, LINES[2][0]),
                ("SACK blocks", graph.sacks, LINES[1][0]),
            )
        ]
        lines += [
            PanelLine(name, steps_as_line(rows), colour=colour)
            for name, rows, colour in (
                ("ACKs", graph.acks, LINES[3][0]),
                ("receive window", graph.window, FAINT),
            )
        ]
        title = f"Time–sequence graph (MB) of {graph.name}"
        panels.append(InteractivePanel(title, tuple(line for line in lines if len(line.series))))
    return panels


def bars_as_line(rows: np.ndarray) -> TimeSeries:
    """Return vertical bars as a line with gaps: from byte to byte at a time, then nothing.

    The points of a page have different times, so those of a bar are a ns apart.
    """
    import numpy as np

    rows = join_bars(rows, MAX_BARS)
    points = np.arange(3 * len(rows)) * 1e-9
    t_s = np.repeat(rows[:, 0], 3)
    t_s = np.maximum.accumulate(t_s - points) + points
    value = np.column_stack([rows[:, 1:] / 1e6, np.full(len(rows), np.nan)]).ravel()
    return TimeSeries(t_s, value)


def steps_as_line(rows: np.ndarray) -> TimeSeries:
    """Return an acknowledgement's or a window's line in MB."""
    rows = thin_steps(rows, MAX_BARS)
    return TimeSeries(rows[:, 0], rows[:, 1] / 1e6)


def phase_panel(state: CcStateHistory, of: str) -> list[InteractivePanel]:
    """Return the phases as numbers in the order of occurrence, with names in the title."""
    import numpy as np

    phases = state.phases()
    if not phases:
        return []
    numbers = {word: number for number, word in enumerate(dict.fromkeys(w for _, _, w in phases))}
    edges = [(at_s, float(numbers[word])) for *ends, word in phases for at_s in ends]
    legend = ", ".join(f"{number} {word}" for word, number in numbers.items())
    line = PanelLine("state", TimeSeries(*np.array(edges).T), colour=LINES[0][0])
    return [InteractivePanel(f"Own state{of}: {legend}", (line,))]


def single_line(line: PanelLine) -> tuple[PanelLine, ...]:
    """Return the line of a panel if it has points."""
    return (line,) if len(line.series) > 1 else ()


def ack_series(run: RunFolder, column: str) -> dict[str, TimeSeries]:
    """Return a column of acks.csv.gz by flow; {} without the file."""
    table = read_acks(run.folder, tuple(dict.fromkeys(("t_s", "flow", "cwnd_pkts", column))))
    by_flow = table.dropna(subset=[column]).groupby("flow")
    return {str(flow): TimeSeries.from_table(rows, column) for flow, rows in by_flow}


def thin_out(series: TimeSeries, most: int) -> TimeSeries:
    """Reduce a series to at most so many points, keeping the extremes of each part."""
    import numpy as np

    count = len(series)
    if count <= most:
        return series
    selected: list[int] = []
    for part in np.array_split(np.arange(count), max(1, most // 2)):
        values = series.value[part]
        selected += sorted({int(part[np.argmin(values)]), int(part[np.argmax(values)])})
    return TimeSeries(series.t_s[selected], series.value[selected])


# -- numbers as bytes


@dataclass
class ColumnStore:
    """All numbers of a page as one byte string; equal columns are stored once."""

    content: bytearray = field(default_factory=bytearray)
    places: dict[bytes, int] = field(default_factory=dict)

    def intern(self, column: bytes) -> int:
        if column not in self.places:
            self.places[column] = len(self.content)
            self.content += column
        return self.places[column]

    def quantised(self, values: np.ndarray, steps: int) -> dict[str, object]:
        """Encode values as 16-bit numbers: value = lo + step × number.

        Numbers are little-endian and differences from their predecessors (modulo 2^16), which
        compresses better.
        """
        import numpy as np

        low, high = float(np.min(values)), float(np.max(values))
        step = (high - low) / steps
        numbers = np.round((values - low) / step) if step else np.zeros(len(values))
        differences = np.diff(numbers.astype(np.int64), prepend=0) % 2**16
        at = self.intern(differences.astype("<u2").tobytes())
        return {
            "lo": round_to_nine_digits(low),
            "step": round_to_nine_digits(step),
            "at": at,
            "n": len(values),
        }

    def exact(self, values: np.ndarray) -> dict[str, object]:
        """Encode values as 64-bit floats."""
        return {"at": self.intern(values.astype("<f8").tobytes()), "n": len(values)}


def round_to_nine_digits(value: float) -> float:
    """Round to nine digits, which exceeds 16 bits."""
    return float(f"{value:.9g}")


def pack(value: Any, columns: ColumnStore) -> str:
    """Encode JSON and its columns for a data block.

    The block is the length of the JSON (four bytes, little-endian), the JSON and the columns;
    deflated, as base64. So no text in it can end an element.
    """
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
    content = len(text).to_bytes(4, "little") + text + bytes(columns.content)
    squeeze = zlib.compressobj(9, wbits=-15)
    return base64.b64encode(squeeze.compress(content) + squeeze.flush()).decode("ascii")


# -- runs


def encode_run(
    run: RunFolder,
    panels: Sequence[InteractivePanel],
    most: int | None,
    differences: Mapping[str, str],
    columns: ColumnStore,
) -> Any:
    """Return one run for the page. most: points of a line; None: every sample, exactly."""
    ccs = {flow.name: flow.cc or "" for flow in run.flows}

    def line_json(line: PanelLine) -> Any:
        flow = line.name.partition(",")[0]
        if most is None:
            t_s, value = columns.exact(line.series.t_s), columns.exact(line.series.value)
        else:
            thin = thin_out(line.series, most)
            t_s = columns.quantised(thin.t_s, TIME_STEPS)
            value = columns.quantised(thin.value, VALUE_STEPS)
        return {
            "name": line.name,
            "leg": line.leg,
            "colour": line.colour or cc_colour(ccs.get(flow) or run.cc),
            **({"gaps": True} if line.gaps else {}),
            "t": t_s,
            "v": value,
        }

    marks = sorted(event_labels(run).items())[:MAX_CHANGES]

    return {
        "name": run.name,
        "matrix": run.matrix,
        "cell": cell_key(run),
        "levels": {name: level_label(name, value, cc_name) for name, value in run.factors},
        "told": dict(differences),
        "checks": [
            [e.name, e.verdict, f"{e.requested} {e.unit}", f"{e.got} {e.unit}", e.reason]
            for e in run.checks
        ],
        "qdiscs": qdiscs_of(run),
        "commands": run.commands,
        "changes": [[at_s, ", ".join(labels)] for at_s, labels in marks],
        "panels": [
            {
                "title": panel.title,
                "lines": [line_json(line) for line in panel.lines],
                "zero": panel.from_zero,
                "limits": [list(limit) for limit in panel.limits],
            }
            for panel in panels
        ],
    }


def encode_runs(runs_by_anchor: Mapping[str, Sequence[RunFolder]]) -> str:
    """Encode all runs of a page, by their experiment's anchor, thinned."""
    all_runs = [run for runs in runs_by_anchor.values() for run in runs]
    panels = {run.folder: panels_of(run) for run in all_runs if run.counts}
    lines = sum(len(panel.lines) for run_panels in panels.values() for panel in run_panels)
    # a point has two numbers of two bytes
    most = max(20, min(MAX_POINTS, MAX_BYTES // (4 * max(1, lines))))
    columns = ColumnStore()
    by_anchor = {
        anchor: [
            encode_run(run, panels.get(run.folder, ()), most, differences, columns)
            for run, differences in zip(runs, differing_values(runs), strict=True)
        ]
        for anchor, runs in runs_by_anchor.items()
    }
    return pack(by_anchor, columns)


def encode_whole_run(anchor: str, run: RunFolder) -> str:
    """Encode one run with every sample and ACK, and its congestion controls' states."""
    columns = ColumnStore()
    panels = (
        [*panels_of(run, every_ack=True), *state_panels(run), *sequence_panels(run)]
        if run.state == "ok"
        else []
    )
    return pack({anchor: [encode_run(run, panels, None, run_values(run), columns)]}, columns)


def qdiscs_of(run: RunFolder) -> list[list[str]]:
    """Return (device, tc output before the load, after it) from env.json."""
    env = read_object(run.folder / "env.json") or {}
    before, after = (nested_object(env, name) for name in ("qdiscs_before", "qdiscs_after"))
    return [
        [replace_controls(str(dev)), printable_lines(text), printable_lines(after.get(dev, ""))]
        for dev, text in sorted(before.items())
    ]


def printable_lines(text: Any) -> str:
    """Return text without control characters, keeping its lines."""
    return "\n".join(replace_controls(line) for line in str(text).strip().splitlines())


REQUESTED_CPU_KEYS = (
    "cpus",
    "packet_ns",
)  # requested values of a host's CPUs in env.json; others are counters


def differing_values(runs: Sequence[RunFolder]) -> list[dict[str, str]]:
    """Return the settings and environment of each run that differ between runs."""
    values_by_run = [run_values(run) for run in runs]
    names = dict.fromkeys(name for values in values_by_run for name in values)
    varied = [name for name in names if len({values.get(name) for values in values_by_run}) > 1]
    return [{name: values.get(name, "–") for name in varied} for values in values_by_run]


def run_values(run: RunFolder) -> dict[str, str]:
    """Return a run's settings (run.json), environment (env.json) and result as text.

    Counters at the end of a run are omitted: they differ between any two.
    """
    env = read_object(run.folder / "env.json") or {}
    for counted in ("qdiscs_after", "cc_state", "acks", "program_costs", "capture"):
        env.pop(counted, None)
    hosts = env.get("host_cpu")
    if isinstance(hosts, dict):
        env["host_cpu"] = {
            host: {name: used[name] for name in REQUESTED_CPU_KEYS if name in used}
            for host, used in hosts.items()
            if isinstance(used, dict)
        }
    return {
        **{name: format_level(value) for name, value in run.settings},
        "repetition": str(run.repetition),
        "seed": str(run.seed),
        "verdict": run.verdict or run.state,
        "goodput (Mbit/s)": "–" if run.goodput_mbit is None else f"{run.goodput_mbit:.4g}",
        **{f"env: {name}": text for name, text in flatten_json(env)},
    }


def flatten_json(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Flatten a JSON object to (dotted name, text)."""
    if isinstance(value, dict):
        inside = name and f"{name}."
        for key, item in value.items():
            yield from flatten_json(item, inside + replace_controls(str(key)))
    else:
        text = value if isinstance(value, str) else json.dumps(value)
        yield name, replace_controls(" ".join(text.split()))[:MAX_WORDS]


# -- the scripts, and what may run


@cache
def page_scripts() -> tuple[str, ...]:
    files = (VENDOR / "uPlot.iife.min.js", HERE / "report.js")
    texts = tuple(file.read_text(encoding="utf-8") for file in files)
    assert not any("</script" in script for script in texts)
    return texts


@cache
def style_sheets() -> str:
    """Return the style sheets of the page and the charts."""
    files = (HERE / "report.css", VENDOR / "uPlot.min.css")
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def content_security_policy(with_scripts: Iterable[str]) -> str:
    """Return the Content-Security-Policy: no external resources, only these scripts."""
    hashes = (hashlib.sha256(script.encode()).digest() for script in with_scripts)
    allowed = (
        " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes) or "'none'"
    )
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src {allowed}; base-uri 'none'; form-action 'none'"
    )
