"""What each flow did, from the report of the program that carried it."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gostlab.ask.flows import Flow
from gostlab.ask.run_description import RunDescription

# A udp flow's datagrams fill the MTU like a TCP segment with timestamps.
DATAGRAM_BYTES = 1448
PING_BYTES = 64  # of a ping flow's requests, and of their answers
SAID_NOTHING = "it said nothing"


class TrafficError(Exception):
    """A flow failed; the message is what the program said that carried it."""


@dataclass(frozen=True)
class FlowResult:
    """What one flow did: a row of flows.json. Times are seconds from the start of the load."""

    name: str
    kind: str
    started_s: float
    ended_s: float
    goodput_bps: float  # what the receiver got, payload
    bytes: int
    seconds: float  # over which the goodput is
    retransmits: int | None  # iperf3's Retr: its own sockets' segments sent again
    lost_datagrams: int | None = None  # udp
    sent_datagrams: int | None = None
    round_trips: Mapping[str, Any] | None = None  # ping
    fetches: Sequence[Mapping[str, Any]] | None = None  # short, by size

    def to_json(self) -> dict[str, Any]:
        """Its row: what only some kinds have is absent from the others."""
        return {
            key: value
            for key, value in asdict(self).items()
            if value is not None or key not in ("round_trips", "fetches")
        }


# A flow's own report: how the file's name begins and ends.
REPORTS: Mapping[str, tuple[str, str]] = {
    "tcp": ("iperf3", ".json"),
    "udp": ("iperf3", ".json"),
    "http": ("wget", ".log"),
    "short": ("short", ".jsonl"),
    "ping": ("ping", ".json"),
}


def report_name(run: RunDescription, flow: Flow, end: str = "") -> str:
    """The file of a flow's own report: iperf3.json where a run has one flow, else with the flow's
    name.
    """
    own = f"-{flow.name}" if len(run.flows) > 1 else ""
    first, last = REPORTS[flow.kind]
    return f"{first}{own}{end}{last}"


def result_of(flow: Flow, report: Path, started_s: float, ended_s: float) -> FlowResult:
    """What a flow's report says it did. Raises TrafficError if it does not say it."""
    started_s, ended_s = round(started_s, 6), round(ended_s, 6)
    try:
        text = report.read_text(encoding="utf-8", errors="replace")
        if flow.kind == "http":
            return fetched(flow, text, started_s, ended_s)
        if flow.kind == "short":
            return of_fetches(flow, fetches_in(text), started_s, ended_s)
        if flow.kind == "ping":
            return of_pings(flow, json.loads(text), started_s, ended_s)
        read = of_datagrams if flow.kind == "udp" else of_stream
        return read(flow, json.loads(text)["end"], started_s, ended_s)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise TrafficError(
            f"{flow.name}: {program_of(flow)}'s report cannot be read"
            f" ({type(error).__name__}: {error})"
        ) from error


def of_stream(flow: Flow, end: dict[str, Any], started_s: float, ended_s: float) -> FlowResult:
    """A tcp flow's row from iperf3's `end`. Raises KeyError, TypeError or ValueError."""
    received = end["sum_received"]
    return FlowResult(
        name=flow.name,
        kind=flow.kind,
        started_s=started_s,
        ended_s=ended_s,
        goodput_bps=float(received["bits_per_second"]),
        bytes=int(received["bytes"]),
        seconds=float(received["seconds"]),
        retransmits=end["sum_sent"].get("retransmits"),
    )


def of_datagrams(flow: Flow, end: dict[str, Any], started_s: float, ended_s: float) -> FlowResult:
    """A udp flow's row from iperf3's `end`. Raises KeyError, TypeError or ValueError."""
    total = end["sum"]
    lost, sent, seconds = int(total["lost_packets"]), int(total["packets"]), float(total["seconds"])
    got = max(0, sent - lost) * DATAGRAM_BYTES
    return FlowResult(
        name=flow.name,
        kind=flow.kind,
        started_s=started_s,
        ended_s=ended_s,
        goodput_bps=8 * got / seconds,
        bytes=got,
        seconds=seconds,
        retransmits=None,
        lost_datagrams=lost,
        sent_datagrams=sent,
    )


def fetched(flow: Flow, report: str, started_s: float, ended_s: float) -> FlowResult:
    """An http flow's row from wget's own line, `… URL [SIZE/SIZE] -> …`, and the time that wget
    ran. Raises TrafficError.
    """
    found = re.search(r"\[(\d+)/(\d+)\]", report)
    if found is None or int(found[1]) != flow.size_bytes:
        raise TrafficError(
            f"{flow.name}: wget did not fetch all of it: {report.strip()[-200:] or SAID_NOTHING}"
        )
    return of_all_its_time(flow, int(found[1]), started_s, ended_s)


def of_all_its_time(
    flow: Flow, size: int, started_s: float, ended_s: float, **more: Any
) -> FlowResult:
    """The row of a flow whose program tells no rate: what it got over all the time that it ran."""
    return FlowResult(
        name=flow.name,
        kind=flow.kind,
        started_s=started_s,
        ended_s=ended_s,
        goodput_bps=8 * size / (ended_s - started_s),
        bytes=size,
        seconds=round(ended_s - started_s, 6),
        retransmits=None,
        **more,
    )


# -- short flows


def fetches_in(text: str) -> list[dict[str, Any]]:
    """The downloads that a report tells of: at_s, size_bytes, seconds."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def of_fetches(
    flow: Flow, fetches: Sequence[Mapping[str, Any]], started_s: float, ended_s: float
) -> FlowResult:
    """A short flow's row from its downloads. Raises KeyError, TypeError or ValueError."""
    size = sum(each["size_bytes"] for each in fetches)
    by_size: dict[int, list[float]] = {}
    for each in fetches:
        by_size.setdefault(each["size_bytes"], []).append(each["seconds"])
    return of_all_its_time(
        flow,
        size,
        started_s,
        ended_s,
        fetches=[
            {
                "size_bytes": each,
                "count": len(took_s),
                "median_s": round(statistics.median(took_s), 6),
                "p95_s": round(percentile(took_s, 0.95), 6),
                "max_s": max(took_s),
            }
            for each, took_s in sorted(by_size.items())
        ],
    )


# -- ping flows


def pings_in(report: Mapping[str, Any]) -> list[tuple[float, float | None]]:
    """Every request of irtt's report, or of the lab's own echo: when it left, seconds from the
    first, and its round trip in ms, None where no answer came.
    """
    rows = report["round_trips"]
    if report.get("program") == "echo":
        return [(row["at_s"], row["rtt_ms"]) for row in rows]
    sent_ns = [row["timestamps"]["client"]["send"]["monotonic"] for row in rows]
    rtts_ns = [row["delay"].get("rtt") for row in rows]
    return [
        ((at_ns - sent_ns[0]) / 1e9, None if rtt_ns is None else rtt_ns / 1e6)
        for at_ns, rtt_ns in zip(sent_ns, rtts_ns, strict=True)
    ]


def of_pings(flow: Flow, report: Mapping[str, Any], started_s: float, ended_s: float) -> FlowResult:
    """A ping flow's row. Raises KeyError, TypeError, ValueError, or TrafficError if nothing came
    back.
    """
    pings = pings_in(report)
    rtts_ms = [rtt_ms for _, rtt_ms in pings if rtt_ms is not None]
    if not rtts_ms:
        raise TrafficError(f"{flow.name}: none of {len(pings)} requests was answered")
    echo = report.get("program") == "echo"
    return of_all_its_time(
        flow,
        PING_BYTES * len(rtts_ms),
        started_s,
        ended_s,
        round_trips={
            "over": report["over"] if echo else "udp",
            "program": "echo" if echo else f"irtt {report['version']['irtt']}",
            "sent": len(pings),
            "lost": len(pings) - len(rtts_ms),
            "min_ms": round(min(rtts_ms), 6),
            "mean_ms": round(statistics.fmean(rtts_ms), 6),
            "median_ms": round(statistics.median(rtts_ms), 6),
            "p95_ms": round(percentile(rtts_ms, 0.95), 6),
            "p99_ms": round(percentile(rtts_ms, 0.99), 6),
            "max_ms": round(max(rtts_ms), 6),
        },
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that no more than 1 - share of all lie above (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def measured_rows(run: RunDescription, flow: FlowResult, folder: Path) -> list[dict[str, Any]]:
    """What a ping or a short flow measured, one row each, in time from the start of the load."""
    text = (folder / report_name(run, flow_of(run, flow.name))).read_text(encoding="utf-8")
    if flow.kind == "ping":
        return [
            {"t_s": round(flow.started_s + at_s, 6), "flow": flow.name, "rtt_ms": rtt_ms}
            for at_s, rtt_ms in pings_in(json.loads(text))
        ]
    return [
        {
            "t_s": round(flow.started_s + each["at_s"], 6),
            "flow": flow.name,
            "size_bytes": each["size_bytes"],
            "seconds": each["seconds"],
        }
        for each in fetches_in(text)
    ]


def flow_of(run: RunDescription, name: str) -> Flow:
    """The run's flow of that name."""
    return next(flow for flow in run.flows if flow.name == name)


def program_of(flow: Flow) -> str:
    """What carries a flow, as people say it."""
    return {"http": "wget", "short": "the downloads", "ping": "the ping"}.get(flow.kind, "iperf3")


def failure_of(run: RunDescription, flow: Flow, folder: Path) -> str:
    """Which program failed, and what it said."""
    program = program_of(flow)
    which = f" ({flow.name})" if len(run.flows) > 1 else ""
    return f"{program} failed{which}: {last_said(folder / report_name(run, flow))}"


def last_said(report: Path) -> str:
    """iperf3's own error from its JSON, or the last line that a program printed."""
    text = report.read_text(encoding="utf-8", errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text.strip().splitlines()[-1] if text.strip() else SAID_NOTHING
