# SPDX-License-Identifier: MIT
"""Turn a run's samples into curves, while it goes on or when it has ended.

A point of a curve has the number of its sampling instant: 1 is one interval after the load's begin.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from gostlab.cli.live_view import JsonLinesTail
from gostlab.results import is_number
from gostlab.results.metrics import bottleneck_rate_bps, path_leg
from gostlab.results.rows import BbrState, SocketRow
from gostlab.spec.run_spec import RunSpec

# BBR's states by its pacing and its window gain, as tcp_bbr.c sets them. A gain in between is of
# ProbeBW's steady phases.
STARTUP_GAIN, PROBE_RTT_WINDOW_GAIN = 2.0, 1.2
BOTTLENECK = "bottleneck"  # a queue's role
CWND, SRTT, GOODPUT, UNACKED, STATE = "cwnd_pkts", "srtt_ms", "mbit", "unacked_pkts", "bbr"


def bbr_state(gains: BbrState) -> str:
    """Return the state of BBR's machine that has these gains (Cardwell et al., ACM Queue 2016).

    Startup paces at 2/ln 2 and Drain at its inverse, both with the window of Startup. ProbeRTT's
    window gain is 1. ProbeBW paces at 1.25, 0.75 (BBRv3: 0.9), or 1 times the bandwidth.
    """
    pacing, window = gains.get("pacing_gain", 1.0), gains.get("cwnd_gain", 2.0)
    if pacing >= STARTUP_GAIN:
        return "Startup"
    if window > STARTUP_GAIN and pacing < 0.6:
        return "Drain"
    if window < PROBE_RTT_WINDOW_GAIN:
        return "ProbeRTT"
    if pacing > 1.05:
        return "Up"
    return "Down" if pacing < 0.95 else "Cruise"


@dataclass
class SocketSum:
    """Add up the sockets of a flow at one sampling instant."""

    delivered_bytes: float = 0.0
    cwnd_pkts: float = 0.0
    unacked_pkts: float = 0.0
    srtt_ms: list[float] = field(default_factory=list)
    state: str | None = None


@dataclass
class RunCurves:
    """Follow the samples of one run; `read` returns what is new."""

    run: RunSpec
    folder: Path

    def __post_init__(self) -> None:
        self._interval_s = self.run.sample_ms / 1000
        # most rows are of other queues, and no curve needs them
        self._queues = JsonLinesTail(
            self.folder / "queues.jsonl", containing=json.dumps(BOTTLENECK)
        )
        self._sockets = JsonLinesTail(self.folder / "sockets.jsonl")
        self._pings = JsonLinesTail(self.folder / "pings.jsonl")
        self._kinds = {flow.name: flow for flow in self.run.flows}
        self._last_index = round(self.run.length_s / self._interval_s)
        self._delivered: dict[str, dict[Any, float]] = defaultdict(dict)
        self._counted: dict[str, int] = {}
        self._drops: dict[Any, tuple[int, int]] = {}
        self._rates: dict[str, float | None] = {}  # by link, if no rate ever changes
        # rows of the latest instant, which may be incomplete
        self._held: list[dict[str, object]] = []
        self.seen_s = 0.0

    def read(self, *, ended: bool = False) -> dict[str, object]:
        """Return the points since the last call, or {} if there are none.

        ended: whether the run has ended, so that the latest instant is complete.
        """
        flows: dict[str, dict[str, list[Any]]] = {}
        self.add_sockets(flows, ended=ended)
        self.add_pings(flows)
        queue = self.read_queue()
        if not flows and not queue["at"]:
            return {}
        return {"t_s": self.seen_s, "flows": flows, "queue": queue}

    def index_of(self, t_s: object) -> int | None:
        """Return the number of a sampling instant within the load, or None."""
        if not is_number(t_s):
            return None
        index = round(float(t_s) / self._interval_s)
        return index if 0 < index <= self._last_index else None

    def add_sockets(self, flows: dict[str, dict[str, list[Any]]], *, ended: bool) -> None:
        rows = [*self._held, *self._sockets.rows()]
        if not rows:
            return
        newest = None if ended else rows[-1].get("t_s")
        self._held = [row for row in rows if newest is not None and row.get("t_s") == newest]
        by_time: dict[object, list[dict[str, object]]] = defaultdict(list)
        for row in rows:
            by_time[row.get("t_s")].append(row)
        if newest is not None:
            del by_time[newest]
        by_instant: dict[int, list[dict[str, object]]] = defaultdict(list)
        for t_s, at_time in by_time.items():
            if (index := self.index_of(t_s)) is not None:
                by_instant[index] += at_time
        for index, at_instant in by_instant.items():
            for name, total in self.sum_by_flow(cast("list[SocketRow]", at_instant)).items():
                # A socket that closes has another window than one that sends.
                if index * self._interval_s < self._kinds[name].end_s:
                    self.add_point(flows.setdefault(name, empty_curves()), name, index, total)
            self.seen_s = max(self.seen_s, index * self._interval_s)

    def sum_by_flow(self, rows: Iterable[SocketRow]) -> dict[str, SocketSum]:
        """Return the sums of the sockets that send each flow's data across the path."""
        all_rows = list(rows)
        crossing = path_leg(str(row.get("leg")) for row in all_rows)
        sums: dict[str, SocketSum] = {}
        for row in all_rows:
            flow = self._kinds.get(row.get("flow") or self.run.flows[0].name)
            if flow is None or row.get("leg") != crossing:
                continue
            if row.get("end", "near") != ("near" if flow.direction == "upload" else "far"):
                continue
            total = sums.setdefault(flow.name, SocketSum())
            delivered = number(row, "delivered_pkts") * number(row, "mss")
            socket = (row.get("host"), row.get("local"), row.get("peer"))
            before = self._delivered[flow.name].get(socket, 0.0)
            total.delivered_bytes += max(0.0, delivered - before)
            self._delivered[flow.name][socket] = delivered
            total.cwnd_pkts += number(row, "cwnd_pkts")
            total.unacked_pkts += number(row, "unacked_pkts")
            if srtt_ms := number(row, "srtt_ms"):
                total.srtt_ms.append(srtt_ms)
            bbr = row.get("bbr")
            if isinstance(bbr, dict) and total.state is None:
                total.state = bbr_state(bbr)
        return sums

    def add_point(
        self, curves: dict[str, list[Any]], name: str, index: int, total: SocketSum
    ) -> None:
        # A flow's first sample counts all that was delivered since the flow's start.
        since = self._counted.get(name, round(self._kinds[name].start_s / self._interval_s))
        self._counted[name] = index
        interval_s = max(1, index - since) * self._interval_s
        curves["at"].append(index)
        curves[GOODPUT].append(rounded(8 * total.delivered_bytes / interval_s / 1e6))
        srtt_ms = sum(total.srtt_ms) / len(total.srtt_ms) if total.srtt_ms else None
        curves[SRTT].append(rounded(srtt_ms))
        curves[CWND].append(total.cwnd_pkts)
        curves[UNACKED].append(total.unacked_pkts)
        curves[STATE].append(total.state)

    def add_pings(self, flows: dict[str, dict[str, list[Any]]]) -> None:
        for row in self._pings.rows():
            index, rtt_ms = self.index_of(row.get("t_s")), row.get("rtt_ms")
            flow = self._kinds.get(str(row.get("flow")))
            if index is None or flow is None or not is_number(rtt_ms):
                continue
            curves = flows.setdefault(flow.name, empty_curves())
            if curves["at"] and curves["at"][-1] == index:
                curves[SRTT][-1] = max(curves[SRTT][-1], rtt_ms)
                continue
            curves["at"].append(index)
            curves[SRTT].append(rounded(rtt_ms))
            for name in (GOODPUT, CWND, UNACKED, STATE):
                curves[name].append(None)

    def rate_bps(self, at_s: float, link: str) -> float | None:
        """Return the rate of a bottleneck, found once if it never changes."""
        if self.run.changes:
            return bottleneck_rate_bps(self.run, at_s, link)
        if link not in self._rates:
            self._rates[link] = bottleneck_rate_bps(self.run, at_s, link)
        return self._rates[link]

    def read_queue(self) -> dict[str, list[Any]]:
        """Return the delay, drops and marks of the bottleneck in the data direction.

        Of several bottlenecks it is the fullest at each instant, and the sum of their drops.
        """
        direction = self.run.data_direction
        points: dict[int, tuple[float, int, int]] = {}
        for row in self._queues.rows():
            if row.get("direction") != direction or row.get("role") != BOTTLENECK:
                continue
            index = self.index_of(row.get("t_s"))
            if index is None:
                continue
            device = (row.get("node"), row.get("dev"))
            rate_bps = self.rate_bps(float(row["t_s"]), row.get("link", ""))
            delay_ms = 8000 * number(row, "backlog_bytes") / rate_bps if rate_bps else 0.0
            drops, marks = int(number(row, "drops")), int(number(row, "marks"))
            before_drops, before_marks = self._drops.get(device, (0, 0))
            self._drops[device] = drops, marks
            previous = points.get(index, (0.0, 0, 0))
            points[index] = (
                max(previous[0], delay_ms),
                previous[1] + max(0, drops - before_drops),
                previous[2] + max(0, marks - before_marks),
            )
            self.seen_s = max(self.seen_s, index * self._interval_s)
        return {
            "at": list(points),
            "delay_ms": [rounded(delay) for delay, _, _ in points.values()],
            "drops": [drops for _, drops, _ in points.values()],
            "marks": [marks for _, _, marks in points.values()],
        }


def empty_curves() -> dict[str, list[Any]]:
    return {"at": [], GOODPUT: [], SRTT: [], CWND: [], UNACKED: [], STATE: []}


def number(row: Mapping[str, object], name: str) -> float:
    """Return a number of a row, or 0 if it has none that is finite and positive."""
    value = row.get(name)
    return float(value) if is_number(value) and value > 0 else 0.0


def rounded(value: float | None) -> float | None:
    """Return a number as the page draws it: four significant digits."""
    return None if value is None else float(f"{value:.4g}")
