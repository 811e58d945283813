# SPDX-License-Identifier: MIT
"""Compare iperf3 reports of real machines with the lab's cells (`./lab compare RESULTS FILE`)."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gostlab import api
from gostlab.analysis.stats.cells import Cell
from gostlab.analysis.stats.statistics import Summary
from gostlab.apply.tuning_advice import no_cell_error
from gostlab.errors import BadInput
from gostlab.importers.base import UNEXPECTED, UnreadableRecording
from gostlab.importers.iperf3_json import IperfReport, parse_report, to_report, udp_end
from gostlab.profile_import.import_cli import read_recording
from gostlab.registry.congestion_controls import parse_control
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.labels import level_label

LOAD_DIRECTIONS = {"forward": "upload", "reverse": "download"}
INSIDE, OUTSIDE, UNKNOWN = "inside", "outside", "no interval"


@dataclass(frozen=True)
class OwnTest:
    """One direction of one iperf3 test on real machines."""

    label: str
    direction: str  # upload | download
    streams: int
    is_udp: bool
    cc: str  # congestion control of the sender; "" if the report lacks it
    goodput_mbit: float  # received
    rtt_ms: float | None  # mean of the sender's sockets
    sent_only: bool  # whether the report does not say what was received

    @property
    def description(self) -> str:
        sender = "UDP" if self.is_udp else self.cc or "unknown"
        return f"{self.label}: {format_load(sender, self.streams, self.direction)}"


@dataclass(frozen=True)
class OwnComparison:
    """One metric of one cell, in the lab and on real machines."""

    cell: str
    metric: str
    lab: float
    low: float | None  # 95 % interval of the lab's median, or its least and greatest run
    high: float | None
    lab_runs: int
    has_interval: bool
    yours: float  # median of the tests
    tests: int
    sent_only: bool  # whether a test is of what was sent, as its report has no end
    verdict: str

    @property
    def times(self) -> float:
        return self.yours / self.lab if self.lab else float("inf")


# -- the reports


def read_own_test(path: Path) -> OwnTest:
    """Return an iperf3 report of one direction. Raises BadInput."""
    recording = read_recording(path)
    try:
        document = parse_report(recording.text)
        if document.get("error") and not document.get("intervals"):
            raise BadInput(f"{recording.label}: iperf3 failed: {document['error']}")
        report = to_report(document)
        directions = [
            direction
            for direction, intervals in report.intervals.items()
            if any(one.payload_bytes for one in intervals)
        ]
        if len(directions) != 1:
            raise BadInput(
                f"{recording.label}: data in {len(directions)} directions: a cell of the lab has"
                " one (repeat it without --bidir)"
            )
        return parse_direction_test(recording.label, report, directions[0])
    except UnreadableRecording as error:
        raise BadInput(f"{recording.label}: {error}") from None
    except UNEXPECTED as error:
        raise BadInput(
            f"{recording.label}: not a whole report of `iperf3 -J`, which is all that compare reads"
        ) from error


def parse_direction_test(label: str, report: IperfReport, direction: str) -> OwnTest:
    """Return one direction of a report: what was received in it."""
    end = report.document.get("end") or {}
    ends = [
        stream for stream in end.get("streams", ()) if carries_direction(report, direction, stream)
    ]
    received = [received_bps(stream) for stream in ends]
    interrupted = not ends or None in received
    if interrupted:  # then only the intervals are there, of what this end sent or received
        some = [one for one in report.intervals[direction] if not one.omitted]
        received = [8 * sum(one.payload_bytes for one in some) / sum(one.seconds for one in some)]
    is_udp = report.test.get("protocol") == "UDP"
    sent_only = interrupted and report.is_sender(direction)
    if is_udp and sent_only:
        _field, received_rate_bps, _share, _jitter = udp_end(report, direction)
        received, sent_only = [received_rate_bps], False
    rtts_us = [
        float(stream["sender"]["mean_rtt"])
        for stream in ends
        if (stream.get("sender") or {}).get("mean_rtt")
    ]
    return OwnTest(
        label=label,
        direction=LOAD_DIRECTIONS[direction],
        streams=int(report.test.get("num_streams", 1)),
        is_udp=is_udp,
        cc=str(end.get("sender_tcp_congestion") or ""),
        goodput_mbit=sum(bps for bps in received if bps) / 1e6,
        rtt_ms=statistics.fmean(rtts_us) / 1000 if rtts_us else None,
        sent_only=sent_only,
    )


def carries_direction(report: IperfReport, direction: str, stream: Any) -> bool:
    """Return whether a stream of a report's end carried data in a direction."""
    parts = [stream[name] for name in ("sender", "receiver", "udp") if stream.get(name)]
    flags = [part["sender"] for part in parts if "sender" in part]
    sends = flags[0] if flags else report.is_client != report.reverse
    return bool(sends == report.is_client) == (direction == "forward")


def received_bps(stream: Any) -> float | None:
    """Return what arrived of a stream, or None if the report does not say."""
    if stream.get("udp"):
        udp = stream["udp"]
        arrived = 1 - int(udp["lost_packets"]) / max(1, int(udp["packets"]))
        return float(udp["bits_per_second"]) * arrived
    receiver = stream.get("receiver") or {}
    return float(receiver["bits_per_second"]) if receiver.get("bytes") else None


# -- the comparison


def compare_own(results: Path, files: Sequence[Path]) -> list[OwnComparison]:
    """Return every metric of the cells that the reports are tests of. Raises BadInput."""
    tests = [read_own_test(path) for path in files]
    cells = [cell for matrix in api.load(results).matrices for cell in matrix.cells]
    cells = [cell for cell in cells if cell.counted]
    if not cells:
        raise no_cell_error(results)
    for test in tests:
        if not any(is_test_of(test, cell) for cell in cells):
            known = "; ".join(dict.fromkeys(map(load_label, cells)))
            raise BadInput(f"{test.description}: no cell of {results} is so (they are: {known})")
    return [
        row
        for cell in cells
        if (matching := [test for test in tests if is_test_of(test, cell)])
        for row in compare_cell(cell, matching)
    ]


def load_label(cell: Cell) -> str:
    run = cell.example
    return format_load(run.cc if run.competitors else "UDP", run.streams, run.direction)


def format_load(cc: str, streams: int, direction: str) -> str:
    return f"{cc}, {level_label('streams', streams)}, {direction}"


def is_test_of(test: OwnTest, cell: Cell) -> bool:
    """Return whether a test has the direction, streams and congestion control of a cell.

    UDP is a test of cells without TCP alone.
    """
    run = cell.example
    same_load = (test.direction, test.streams) == (run.direction, run.streams)
    if test.is_udp or not run.competitors:
        return same_load and test.is_udp and any(flow.traffic_type == "udp" for flow in run.flows)
    return same_load and test.cc in ("", parse_control(run.cc).name)


def compare_cell(cell: Cell, tests: Sequence[OwnTest]) -> list[OwnComparison]:
    """Return the rows of one cell: goodput, and RTT if both sides have one."""
    declaration = tunnel_kind(cell.example.tunnel)
    # Through a forwarder iperf3's own socket does not cross the path.
    crosses = declaration.is_direct or declaration.is_vpn
    rtts_ms = [test.rtt_ms for test in tests if test.rtt_ms is not None and crosses]
    metrics = (
        ("goodput (Mbit/s)", cell.summary("goodput"), [test.goodput_mbit for test in tests]),
        ("RTT under load (ms)", cell.summary("srtt_median_ms"), rtts_ms),
    )
    return [
        replace(
            compare_metric(cell.label, metric, summary, values),
            sent_only=any(test.sent_only for test in tests),
        )
        for metric, summary, values in metrics
        if summary and values
    ]


def compare_metric(
    cell: str, metric: str, summary: Summary, values: Sequence[float]
) -> OwnComparison:
    """Return the lab's interval beside the median of the own values, and whether it is inside."""
    interval, yours = summary.interval, statistics.median(values)
    several = summary.n > 1
    low, high = (interval.low, interval.high) if interval else (None, None)
    if not interval and several:
        low, high = min(summary.values), max(summary.values)
    inside = low is not None and high is not None and low <= yours <= high
    verdict = (INSIDE if inside else OUTSIDE) if low is not None else UNKNOWN
    return OwnComparison(
        cell=cell,
        metric=metric,
        lab=summary.median,
        low=low,
        high=high,
        lab_runs=summary.n,
        has_interval=interval is not None,
        yours=yours,
        tests=len(values),
        sent_only=False,
        verdict=verdict,
    )


def format_interval(row: OwnComparison) -> str:
    """Return the lab's interval, or the range of its runs, as text."""
    if row.low is None or row.high is None:
        return f"n = {row.lab_runs}"
    spread = f"{row.low:.4g} – {row.high:.4g}"
    return spread if row.has_interval else f"{spread} (least – most, n = {row.lab_runs})"


def verdict_note(rows: Sequence[OwnComparison]) -> str:
    """Return a sentence that counts the verdicts, and says what is missing for an interval."""
    inside = sum(row.verdict == INSIDE for row in rows)
    note = f"{inside} of {len(rows)} inside the lab's interval."
    if any(not row.has_interval for row in rows):
        note += " Six runs of a cell give a 95 % interval (--repeat 6)."
    if any(row.sent_only for row in rows):
        note += " A report without an end says what was sent, not what was received."
    return note
