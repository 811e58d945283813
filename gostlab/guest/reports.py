"""What each flow did, from the report of the program that carried it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.ask.flows import Flow
from gostlab.ask.run_description import RunDescription

# A udp flow's datagrams fill the MTU like a TCP segment with timestamps.
DATAGRAM_BYTES = 1448
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


def report_name(run: RunDescription, flow: Flow, end: str = "") -> str:
    """The file of a flow's own report: iperf3.json where a run has one flow, else with the flow's
    name.
    """
    own = f"-{flow.name}" if len(run.flows) > 1 else ""
    return f"wget{own}.log" if flow.kind == "http" else f"iperf3{own}{end}.json"


def result_of(flow: Flow, report: Path, started_s: float, ended_s: float) -> FlowResult:
    """What a flow's report says it did. Raises TrafficError if it does not say it."""
    started_s, ended_s = round(started_s, 6), round(ended_s, 6)
    try:
        text = report.read_text(encoding="utf-8", errors="replace")
        if flow.kind == "http":
            return fetched(flow, text, started_s, ended_s)
        read = of_datagrams if flow.kind == "udp" else of_stream
        return read(flow, json.loads(text)["end"], started_s, ended_s)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise TrafficError(
            f"{flow.name}: iperf3's report cannot be read ({type(error).__name__}: {error})"
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
    size, seconds = int(found[1]), ended_s - started_s
    return FlowResult(
        name=flow.name,
        kind=flow.kind,
        started_s=started_s,
        ended_s=ended_s,
        goodput_bps=8 * size / seconds,
        bytes=size,
        seconds=round(seconds, 6),
        retransmits=None,
    )


def failure_of(run: RunDescription, flow: Flow, folder: Path) -> str:
    """Which program failed, and what it said."""
    program = "wget" if flow.kind == "http" else "iperf3"
    which = f" ({flow.name})" if len(run.flows) > 1 else ""
    return f"{program} failed{which}: {last_said(folder / report_name(run, flow))}"


def last_said(report: Path) -> str:
    """iperf3's own error from its JSON, or the last line that a program printed."""
    text = report.read_text(encoding="utf-8", errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text.strip().splitlines()[-1] if text.strip() else SAID_NOTHING
