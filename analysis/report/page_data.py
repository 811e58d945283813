"""What the page's scripts need: of every run its series, thinned and quantised, its checks, its
commands, and what tells it apart from others.

The page is readable without it: figures, tables and the list of runs stay where they are for a
reader without scripts, and on paper.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gostlab.analysis.load.cc_state import CcStateHistory, states, without_unit
from gostlab.analysis.load.events import event_labels
from gostlab.analysis.load.json_safe import printable
from gostlab.analysis.load.published import level
from gostlab.analysis.load.run_folder import RunFolder, object_in
from gostlab.analysis.load.series import (
    TimeSeries,
    acknowledged_rate,
    acks,
    flow_rates,
    non_wan_samples,
    over_sockets,
    queue_series,
    socket_series,
)
from gostlab.analysis.plotting.cc_state_axes import LINES, PANELS
from gostlab.analysis.stats.cells import cell_key
from gostlab.analysis.stats.text_table import cc_name
from gostlab.registry.palette import cc_colour
from gostlab.results import read_object
from gostlab.spec.labels import level_words

HERE = Path(__file__).resolve().parent
VENDOR = HERE.parent / "vendor"
# Of one line, on the page of an experiment; a page of one run has every sample.
MAX_POINTS = 2000
# All points of a page together; what comes of them is packed once more.
MAX_BYTES = 1_600_000
# Of a quantised value: a line is some 200 pixels high. Instants take all of 16 bits.
VALUE_STEPS, TIME_STEPS = 4095, 65_535
# Marks where the path changed; of a trace's thousands a line each hides everything else.
MAX_CHANGES = 400
MAX_WORDS = 300  # of one value of run.json or env.json


@dataclass(frozen=True)
class PanelLine:
    """A line of a panel: a flow's, or a leg of it."""

    name: str
    series: TimeSeries
    leg: str = ""  # app | exit; "": what crosses the WAN, or the queue
    colour: str = ""  # "": its flow's congestion control's
    gaps: bool = False  # NaN is a gap; else what is between two points is joined


@dataclass(frozen=True)
class InteractivePanel:
    """One axis over time and its lines."""

    title: str  # with the unit
    lines: tuple[PanelLine, ...]


def panels_of(run: RunFolder, *, every_ack: bool = False) -> list[InteractivePanel]:
    """A run over time: rate, window, round trip and queue, what the bottleneck dropped; per flow,
    and through a tunnel per leg. Panels without a line are left out. every_ack: window and round
    trip as acks.csv.gz has them, where it is there.
    """
    window_s = max(1.0, run.duration_s / 600)
    ends = non_wan_samples(run) if run.tunnel != "direct" else {}

    def lines(found: Mapping[str, TimeSeries], key: str = "") -> tuple[PanelLine, ...]:
        own = [PanelLine(name, series) for name, series in found.items()]
        for (flow, leg), rows in sorted(ends.items()):
            series = over_sockets(rows, key) if key else acknowledged_rate(rows)
            own.append(PanelLine(f"{flow}, {leg} leg", series, leg))
        return tuple(line for line in own if len(line.series) > 1)

    cwnd, srtt = (
        (at_every_ack(run, column) if every_ack else {}) or socket_series(run, column)
        for column in ("cwnd_pkts", "srtt_ms")
    )
    drops = queue_series(run, "drops")
    dropped = TimeSeries(drops.t_s, drops.value - drops.value[:1])  # since the load began
    panels = [
        InteractivePanel("Rate (Mbit/s)", lines(flow_rates(run, window_s))),
        InteractivePanel("Congestion window (segments)", lines(cwnd, "cwnd_pkts")),
        InteractivePanel("Round trip (ms)", lines(srtt, "srtt_ms")),
        InteractivePanel(
            "Bottleneck's queue (packets)", only(PanelLine("queue", queue_series(run)))
        ),
        InteractivePanel("Dropped there so far (packets)", only(PanelLine("drops", dropped))),
    ]
    return [panel for panel in panels if panel.lines]


def state_panels(run: RunFolder) -> list[InteractivePanel]:
    """What the congestion controls said of themselves: a panel per unit, and their states."""
    found = []
    for state in states(run):
        of = f" of {state.flow}" if len(run.flows) > 1 else ""
        for unit, (label, most) in PANELS.items():
            names = state.names(unit)[:most]
            lines = [
                PanelLine(without_unit(name), state.series(name), colour=colour, gaps=True)
                for name, (colour, _) in zip(names, LINES, strict=False)
            ]
            if lines:
                found.append(
                    InteractivePanel(f"Own state{of}: {' '.join(label.split())}", tuple(lines))
                )
        found += phase_panel(state, of)
    return found


def phase_panel(state: CcStateHistory, of: str) -> list[InteractivePanel]:
    """The states as numbers in the order in which they came, with the words in the title."""
    phases = state.phases()
    if not phases:
        return []
    numbers = {word: number for number, word in enumerate(dict.fromkeys(w for _, _, w in phases))}
    edges = [(at_s, float(numbers[word])) for *ends, word in phases for at_s in ends]
    said = ", ".join(f"{number} {word}" for word, number in numbers.items())
    line = PanelLine("state", TimeSeries(*np.array(edges).T), colour=LINES[0][0])
    return [InteractivePanel(f"Own state{of}: {said}", (line,))]


def only(line: PanelLine) -> tuple[PanelLine, ...]:
    """A panel's one line, if there is something of it."""
    return (line,) if len(line.series) > 1 else ()


def at_every_ack(run: RunFolder, column: str) -> dict[str, TimeSeries]:
    """A column of acks.csv.gz by flow; {} where there is none."""
    table = acks(run, tuple(dict.fromkeys(("t_s", "flow", "cwnd_pkts", column))))
    by_flow = table.dropna(subset=[column]).groupby("flow")
    return {str(flow): TimeSeries.of(rows, column) for flow, rows in by_flow}


def thinned(series: TimeSeries, most: int) -> TimeSeries:
    """At most so many points: of each stretch the least and the greatest, so no peak is lost."""
    count = len(series)
    if count <= most:
        return series
    kept: list[int] = []
    for part in np.array_split(np.arange(count), max(1, most // 2)):
        values = series.value[part]
        kept += sorted({int(part[np.argmin(values)]), int(part[np.argmax(values)])})
    return TimeSeries(series.t_s[kept], series.value[kept])


# -- numbers as bytes


@dataclass
class Columns:
    """All numbers of a page as one row of bytes; the same column stands there once."""

    content: bytearray = field(default_factory=bytearray)
    places: dict[bytes, int] = field(default_factory=dict)

    def place(self, column: bytes) -> int:
        if column not in self.places:
            self.places[column] = len(self.content)
            self.content += column
        return self.places[column]

    def quantised(self, values: np.ndarray, steps: int) -> dict[str, Any]:
        """value = lo + step × number: numbers of 16 bits, little-endian, each as its difference
        from the one before (modulo 2^16), which packs better.
        """
        low, high = float(np.min(values)), float(np.max(values))
        step = (high - low) / steps
        numbers = np.round((values - low) / step) if step else np.zeros(len(values))
        differences = np.diff(numbers.astype(np.int64), prepend=0) % 2**16
        at = self.place(differences.astype("<u2").tobytes())
        return {"lo": rounded(low), "step": rounded(step), "at": at, "n": len(values)}

    def exact(self, values: np.ndarray) -> dict[str, Any]:
        """The numbers as they are, in 64 bits."""
        return {"at": self.place(values.astype("<f8").tobytes()), "n": len(values)}


def rounded(value: float) -> float:
    """Nine digits: more than 16 bits hold."""
    return float(f"{value:.9g}")


def packed(value: Any, columns: Columns) -> str:
    """JSON and its columns for a data block: four bytes that say how long the JSON is (little-
    endian), the JSON, the columns; deflated, as base64. Whatever somebody's words are, they end no
    element.
    """
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
    whole = len(text).to_bytes(4, "little") + text + bytes(columns.content)
    squeeze = zlib.compressobj(9, wbits=-15)
    return base64.b64encode(squeeze.compress(whole) + squeeze.flush()).decode("ascii")


# -- runs


def run_json(
    run: RunFolder,
    panels: Sequence[InteractivePanel],
    most: int | None,
    told: Mapping[str, str],
    columns: Columns,
) -> Any:
    """One run for the page. most: points of a line; None: every sample, as it is."""
    ccs = {flow.name: flow.cc or "" for flow in run.flows}

    def line_json(line: PanelLine) -> Any:
        flow = line.name.partition(",")[0]
        if most is None:
            t_s, value = columns.exact(line.series.t_s), columns.exact(line.series.value)
        else:
            shown = thinned(line.series, most)
            t_s = columns.quantised(shown.t_s, TIME_STEPS)
            value = columns.quantised(shown.value, VALUE_STEPS)
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
        "levels": {name: level_words(name, value, cc_name) for name, value in run.factors},
        "told": dict(told),
        "checks": [
            [e.name, e.verdict, f"{e.asked} {e.unit}", f"{e.got} {e.unit}", e.reason]
            for e in run.checks
        ],
        "qdiscs": qdiscs_of(run),
        "commands": run.commands,
        "changes": [[at_s, ", ".join(words)] for at_s, words in marks],
        "panels": [
            {"title": panel.title, "lines": [line_json(line) for line in panel.lines]}
            for panel in panels
        ],
    }


def page_data(runs_by_anchor: Mapping[str, Sequence[RunFolder]]) -> str:
    """All runs of a page by their experiment's anchor, thinned, for a data block."""
    every = [run for runs in runs_by_anchor.values() for run in runs]
    panels = {run.folder: panels_of(run) for run in every if run.counts}
    lines = sum(len(panel.lines) for each in panels.values() for panel in each)
    # a point is two numbers of two bytes
    most = max(20, min(MAX_POINTS, MAX_BYTES // (4 * max(1, lines))))
    columns = Columns()
    found = {
        anchor: [
            run_json(run, panels.get(run.folder, ()), most, told, columns)
            for run, told in zip(runs, told_apart(runs), strict=True)
        ]
        for anchor, runs in runs_by_anchor.items()
    }
    return packed(found, columns)


def whole_run(anchor: str, run: RunFolder) -> str:
    """One run with every sample and ACK, and its congestion controls' own states; a data block."""
    columns = Columns()
    panels = [*panels_of(run, every_ack=True), *state_panels(run)] if run.state == "ok" else []
    return packed({anchor: [run_json(run, panels, None, everything(run), columns)]}, columns)


def qdiscs_of(run: RunFolder) -> list[list[str]]:
    """(device, what tc showed before the load and after it), as env.json has them."""
    env = read_object(run.folder / "env.json") or {}
    before, after = (object_in(env, name) for name in ("qdiscs_before", "qdiscs_after"))
    return [
        [printable(str(dev)), printable_lines(words), printable_lines(after.get(dev, ""))]
        for dev, words in sorted(before.items())
    ]


def printable_lines(words: Any) -> str:
    """Somebody's text, its lines kept."""
    return "\n".join(printable(line) for line in str(words).strip().splitlines())


CPU_AS_ASKED = ("cpus", "packet_ns")  # of a host's CPUs in env.json; the rest is counted


def told_apart(runs: Sequence[RunFolder]) -> list[dict[str, str]]:
    """Of each run what was asked of it, or made it, that is not the same in all."""
    every = [everything(run) for run in runs]
    names = dict.fromkeys(name for each in every for name in each)
    varied = [name for name in names if len({each.get(name) for each in every}) > 1]
    return [{name: each.get(name, "–") for name in varied} for each in every]


def everything(run: RunFolder) -> dict[str, str]:
    """What was asked of a run (run.json) and what made it (env.json), in words, and what came of
    it. Not what was counted until it ended: that differs between any two.
    """
    env = read_object(run.folder / "env.json") or {}
    for counted in ("qdiscs_after", "cc_state", "acks", "program_costs"):
        env.pop(counted, None)
    hosts = env.get("host_cpu")
    if isinstance(hosts, dict):
        env["host_cpu"] = {
            host: {name: used[name] for name in CPU_AS_ASKED if name in used}
            for host, used in hosts.items()
            if isinstance(used, dict)
        }
    return {
        **{name: level(value) for name, value in run.settings},
        "repetition": str(run.repetition),
        "seed": str(run.seed),
        "verdict": run.verdict or run.state,
        "goodput (Mbit/s)": "–" if run.goodput_mbit is None else f"{run.goodput_mbit:.4g}",
        **{f"env: {name}": words for name, words in flat(env)},
    }


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(name with dots, words) of everything in an object of JSON."""
    if isinstance(value, dict):
        inside = name and f"{name}."
        for key, each in value.items():
            yield from flat(each, inside + printable(str(key)))
    else:
        words = value if isinstance(value, str) else json.dumps(value)
        yield name, printable(" ".join(words.split()))[:MAX_WORDS]


# -- the scripts, and what may run


@cache
def scripts() -> tuple[str, ...]:
    files = (VENDOR / "uPlot.iife.min.js", HERE / "report.js")
    found = tuple(file.read_text(encoding="utf-8") for file in files)
    assert not any("</script" in script for script in found)
    return found


@cache
def style() -> str:
    """The page's style sheet, and the charts'."""
    files = (HERE / "report.css", VENDOR / "uPlot.min.css")
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def policy(with_scripts: Iterable[str]) -> str:
    """The page's Content-Security-Policy: nothing from elsewhere, only these scripts' hashes."""
    hashes = (hashlib.sha256(script.encode()).digest() for script in with_scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in hashes) or "'none'"
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src {allowed}; base-uri 'none'; form-action 'none'"
    )
