# SPDX-License-Identifier: MIT
"""Parse what fping prints for one host: `fping -C N HOST`, with or without -q and -D."""

import re
from collections.abc import Sequence

from gostlab.importers.base import (
    Evidence,
    ImportFormat,
    PathRecording,
    Probe,
    Recording,
    UnreadableRecording,
)

PROBE = re.compile(
    r"(?:\[(?P<at>\d+\.\d+)\]\s)?(?P<host>\S+)\s+: \[(?P<number>\d+)\], (?:\d+ bytes, "
    r"(?P<rtt>[0-9.]+) ms|timed out).*"
)
SUMMARY = re.compile(r"(?P<host>\S+)\s+:(?P<rtts>(?: (?:-|[0-9]+(?:\.[0-9]+)?))+)")
PERIOD_S = 1.0


def read(recordings: Sequence[Recording]) -> PathRecording:
    """Return the RTT or the loss of each packet. Raises UnreadableRecording."""
    [recording] = recordings
    lines = [line.strip() for line in recording.text.splitlines()]
    matches = [match for line in lines if (match := PROBE.fullmatch(line))]
    summaries = [match for line in lines if (match := SUMMARY.fullmatch(line))]
    hosts = list(dict.fromkeys(match["host"] for match in (*matches, *summaries)))
    if len(hosts) != 1:
        raise UnreadableRecording(
            f"{recording.label}: {len(hosts)} hosts ({', '.join(hosts):.60}): keep the lines of one"
        )
    sent_s: list[float | None] = []
    if matches:
        rtts = [match["rtt"] for match in matches]
        sent_s = [
            float(match["at"]) - float(match["rtt"] or 0) / 1000
            if match["at"] and match["rtt"]
            else None
            for match in matches
        ]
        numbers = [int(match["number"]) for match in matches]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise UnreadableRecording(f"{recording.label}: lines are missing or there are two runs")
        field = "the line of each packet"
    elif len(summaries) == 1:
        rtts = [None if word == "-" else word for word in summaries[0]["rtts"].split()]
        field = "the line of the host"
    else:
        raise UnreadableRecording(f"{recording.label}: {len(summaries)} runs: keep one")
    known = [(number, at_s) for number, at_s in enumerate(sent_s) if at_s is not None]
    period_s, source = PERIOD_S, "fping's default of 1 s"
    if len(known) > 1:
        (low, begin_s), (high, end_s) = known[0], known[-1]
        period_s, source = (end_s - begin_s) / (high - low), "-D's time stamps"
    probes = [
        Probe(number * period_s, None if rtt is None else float(rtt), lost=rtt is None)
        for number, rtt in enumerate(rtts)
    ]
    lost = rtts.count(None)
    if lost == len(rtts):
        raise UnreadableRecording(f"{recording.label}: no answer in it")
    return PathRecording(
        len(probes) * period_s,
        round_trips=probes,
        evidence=(
            Evidence(f"{len(rtts) - lost} RTTs", field, "round trip"),
            Evidence(f"{lost} losses", field, "round trip"),
            Evidence(f"packets {period_s:.4g} s apart", source, ""),
        ),
        assumptions=()
        if known
        else (
            "Packets were sent 1 s apart, fping's default: the recording has no time (fping -D"
            " has).",
        ),
    )


def recognises(text: str) -> bool:
    """Return whether one of the first lines is a packet's, or all are hosts'."""
    lines = [line.strip() for line in text[:20_000].splitlines() if line.strip()]
    return any(PROBE.fullmatch(line) for line in lines[:20]) or bool(
        lines and all(SUMMARY.fullmatch(line) for line in lines)
    )


DESCRIPTION = "what `fping -C` prints for a host"
FORMAT = ImportFormat("fping", DESCRIPTION, ("fping's text",), recognises, read)
