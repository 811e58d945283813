# SPDX-License-Identifier: MIT
"""Parse what ping prints: of iputils, macOS and BSD, BusyBox and Windows, in any language.

Only numbers and their order are read, no words:

    64 bytes from 192.0.2.7: icmp_seq=1 ttl=52 time=31.2 ms      sequence, TTL, time
    Antwort von 192.0.2.7: Bytes=32 Zeit=31ms TTL=52             bytes, time, TTL

A packet without an answer was lost, whatever is printed about it. Windows has no sequence numbers:
each of its lines is a packet.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gostlab.importers.base import (
    Evidence,
    ImportFormat,
    PathRecording,
    Probe,
    Recording,
    UnreadableRecording,
)

STAMP = r"(?:\[(?P<at>\d{5,}\.\d+)\]\s*)?"
EQUALITY = r"[=＝]\s*(\d+(?:[.,]\d+)?)"
UNIX_ANSWER = re.compile(STAMP + r"\d+ .*?[=＝]\s*\d")
WINDOWS_ANSWER = re.compile(
    r"[=＝<]\s?(?P<time>\d+(?:[.,]\d+)?)\s?\D{0,8}\s*TTL[=＝]\d+\s*$|"
    r"^[^=<]*:\s[^=<]*(?P<sign>[=＝<])(?P<time6>\d+)\s?\D{1,8}$"
)
WINDOWS_BELOW = re.compile(r"<\s?\d+\s?\D{0,8}\s*(?:TTL[=＝]\d+\s*)?$")
BSD_HEAD = re.compile(r"PING\d* \S+ ?\(.*\): \d+ |PING6\(")
HEAD = re.compile(r"PING(?:\d* |6\()")
# "120 packets transmitted, 118 received, +2 errors, 1.7% packet loss": numbers in this order.
COUNTS = re.compile(r"^\D*(?P<sent>\d+)\D+(?P<received>\d+)\D.*?\d+(?:[.,]\d+)?\s?%.*$")
TOTAL_TIME = re.compile(r"%.*?(?P<ms>\d+)\s?\D{0,4}$")
WINDOWS_COUNTS = re.compile(r"(\d+)\D+(\d+)\D+(\d+)\D*\(\D*(\d+)\s?%")
DEFAULT_INTERVAL_S = 1.0
# Windows waits this long for an answer, and sends the next packet at once.
WINDOWS_TIMEOUT_S = 4.0
NO_ANSWER = "no answer in it: without a round trip there is no path (ping a host that answers)"
HALF_OF_SEQUENCE = 2**15
MAX_LINE, MAX_PACKETS = 300, 1_000_000


@dataclass(frozen=True)
class PingAnswer:
    seq: int  # since the first packet, beyond 65535 too
    rtt_ms: float
    at_s: float | None  # time of arrival, with -D


@dataclass(frozen=True)
class PingCounts:
    """ping's own summary, its last lines."""

    sent: int
    received: int
    total_s: float | None  # from the first packet to the last answer


def read(recordings: Sequence[Recording]) -> PathRecording:
    """Return the RTT or the loss of each packet. Raises UnreadableRecording."""
    [recording] = recordings
    lines = [line[:MAX_LINE].rstrip() for line in recording.text.splitlines()]
    if any(UNIX_ANSWER.match(line) and len(re.findall(EQUALITY, line)) >= 2 for line in lines):
        return read_unix(recording.label, lines)
    return read_windows(recording.label, lines)


# -- iputils, BSD and BusyBox


def read_unix(label: str, lines: Sequence[str]) -> PathRecording:
    """Return the packets of a ping that prints sequence numbers. Raises UnreadableRecording."""
    heads = [number for number, line in enumerate(lines, 1) if HEAD.match(line)]
    if len(heads) > 1:
        raise UnreadableRecording(f"{label}:{heads[1]}: a second ping begins: keep one in the file")
    answers: dict[int, PingAnswer] = {}
    duplicates, latest = 0, 0
    for number, line in enumerate(lines, 1):
        answer = parse_answer(line, latest, f"{label}:{number}")
        if answer is None:
            continue
        latest = max(latest, answer.seq)
        if answer.seq in answers:
            duplicates += 1
        else:
            answers[answer.seq] = answer
    if not answers:
        raise UnreadableRecording(f"{label}: {NO_ANSWER}")
    counts = parse_counts(lines)
    starts_at_0 = 0 in answers or any(BSD_HEAD.match(line) for line in lines)
    first = (0 if starts_at_0 else 1) if heads else min(answers)
    if not heads:
        # The counts include packets before the first line, which is missing.
        counts = None
    last = max(answers) if counts is None else first + counts.sent - 1
    if counts is not None and (last < max(answers) or counts.received != len(answers)):
        raise UnreadableRecording(
            f"{label}: ping counts {counts.received} answers of {counts.sent} packets, the lines"
            f" show {len(answers)}: lines are missing"
        )
    if last - first >= MAX_PACKETS:
        raise UnreadableRecording(
            f"{label}: packets {first} to {last}: more than {MAX_PACKETS}: keep a part"
        )
    times_s, interval, source = send_times_s(answers, first, last, counts)
    probes = [
        Probe(at_s, answers[seq].rtt_ms if seq in answers else None, lost=seq not in answers)
        for seq, at_s in zip(range(first, last + 1), times_s, strict=True)
    ]
    return path_of(probes, interval, source, duplicates=duplicates, has_counts=counts is not None)


def parse_answer(line: str, latest: int, position: str) -> PingAnswer | None:
    """Return the answer that a line tells of. Raises UnreadableRecording for one without time."""
    match = UNIX_ANSWER.match(line)
    numbers = re.findall(EQUALITY, line)
    if match is None or not numbers or not re.match(STAMP + r"\d+ ", line):
        return None
    if len(numbers) < 2 or (len(numbers) == 2 and "ttl=" in line.lower()):
        raise UnreadableRecording(
            f"{position}: an answer without its time (ping -s 16 or more has one)"
        )
    seq = int(float(numbers[0].replace(",", ".")))
    # Sequence numbers of 16 bits begin again.
    seq += round((latest - seq) / 2**16) * 2**16 if latest - seq > HALF_OF_SEQUENCE else 0
    at = match["at"]
    return PingAnswer(seq, float(numbers[-1].replace(",", ".")), float(at) if at else None)


def parse_counts(lines: Sequence[str]) -> PingCounts | None:
    """Return what ping counted, None if it was cut off."""
    for line in lines:
        counts = COUNTS.match(line)
        if counts is None or re.search(EQUALITY, line):
            continue
        total = TOTAL_TIME.search(line)
        total_s = int(total["ms"]) / 1000 if total else None
        return PingCounts(int(counts["sent"]), int(counts["received"]), total_s)
    return None


def send_times_s(
    answers: dict[int, PingAnswer], first: int, last: int, counts: PingCounts | None
) -> tuple[list[float], float, str]:
    """Return the send time of each packet since the first, the interval, and their source."""
    sent_s = {a.seq: a.at_s - a.rtt_ms / 1000 for a in answers.values() if a.at_s is not None}
    if len(sent_s) > 1:
        low, high = min(sent_s), max(sent_s)
        interval_s = max(1e-6, (sent_s[high] - sent_s[low]) / (high - low))
        begin_s = sent_s[low] - (low - first) * interval_s
        times_s: list[float] = []
        for seq in range(first, last + 1):
            at_s = sent_s.get(seq, begin_s + (seq - first) * interval_s) - begin_s
            times_s.append(max(at_s, times_s[-1] if times_s else 0.0))
        return times_s, interval_s, "-D's time stamps"
    interval_s, source = DEFAULT_INTERVAL_S, "ping's default of 1 s"
    packets = last - first + 1
    if counts is not None and counts.total_s and packets > 1:
        interval_s, source = counts.total_s / (packets - 1), "ping's total time"
    return [number * interval_s for number in range(packets)], interval_s, source


def path_of(
    probes: Sequence[Probe],
    interval_s: float,
    source: str,
    *,
    duplicates: int = 0,
    below_1_ms: int = 0,
    has_counts: bool = True,
) -> PathRecording:
    """Return the path of a ping's packets."""
    lost = sum(probe.lost for probe in probes)
    left_out = []
    if duplicates:
        left_out.append(f"{duplicates} duplicate answers")
    if not has_counts:
        left_out.append("packets after the last answer (ping did not print how many it sent)")
    sentences = []
    if below_1_ms:
        sentences.append(f"{below_1_ms} times below 1 ms are 0.5 ms: ping does not print them.")
    if source.startswith("ping's default"):
        sentences.append(
            "Packets were sent 1 s apart, ping's default: the recording has no time (ping -D has)."
        )
    field = "the line of each answer"
    return PathRecording(
        probes[-1].at_s + interval_s,
        round_trips=probes,
        evidence=(
            Evidence(f"{len(probes) - lost} RTTs", field, "round trip"),
            Evidence(f"{lost} losses", "packets without such a line", "round trip"),
            Evidence(f"packets {interval_s:.4g} s apart", source, ""),
        ),
        left_out=tuple(left_out),
        assumptions=tuple(sentences),
    )


# -- Windows


def read_windows(label: str, lines: Sequence[str]) -> PathRecording:
    """Return the packets of Windows' ping: the lines between its headline and an empty line.

    Raises UnreadableRecording.
    """
    answers = [number for number, line in enumerate(lines) if WINDOWS_ANSWER.search(line)]
    if not answers:
        raise UnreadableRecording(f"{label}: {NO_ANSWER}")
    begin = next((number for number in range(answers[0], -1, -1) if not lines[number].strip()), -1)
    # Below the empty line stands the headline, unless it wraps: it ends with a colon.
    begin += 1
    while begin < answers[0] and not lines[begin].rstrip().endswith((":", "：")):
        begin += 1
    begin += begin < answers[0]
    probes: list[Probe] = []
    at_s, below = 0.0, 0
    end = begin
    while end < len(lines) and lines[end].strip():
        line = lines[end]
        end += 1
        answer = WINDOWS_ANSWER.search(line)
        if answer is None:
            probes.append(Probe(at_s, None, lost=True))
            at_s += WINDOWS_TIMEOUT_S
            continue
        rtt_ms = float((answer["time"] or answer["time6"]).replace(",", "."))
        if WINDOWS_BELOW.search(line):
            rtt_ms, below = 0.5, below + 1
        probes.append(Probe(at_s, rtt_ms))
        at_s += DEFAULT_INTERVAL_S
    if answers[-1] >= end:
        raise UnreadableRecording(
            f"{label}:{answers[-1] + 1}: a second ping begins: keep one in the file"
        )
    answered = sum(not probe.lost for probe in probes)
    counts = WINDOWS_COUNTS.search(" ".join(lines[end:]))
    # Windows counts "host unreachable" as received.
    if counts and not (int(counts[1]) == len(probes) and int(counts[2]) >= answered):
        raise UnreadableRecording(
            f"{label}: ping counts {counts[2]} answers of {counts[1]} packets, the lines show"
            f" {answered} of {len(probes)}: lines are missing"
        )
    if probes and all(probe.lost for probe in probes):
        raise UnreadableRecording(f"{label}: {NO_ANSWER}")
    return path_of(
        probes,
        DEFAULT_INTERVAL_S,
        "Windows' 1 s, and 4 s after a lost one",
        below_1_ms=below,
        has_counts=counts is not None,
    )


def recognises(text: str) -> bool:
    """Return whether some of the first lines are a ping's headline or answers to it."""
    lines = [line[:MAX_LINE] for line in text[:20_000].splitlines()]
    return (
        any(HEAD.match(line) for line in lines[:5])
        or any(
            re.match(STAMP + r"\d+ \D*[^{}]*[=＝]\s*\d+ (?:ttl|hlim)[=＝]", line)
            or re.search(r"[=＝<]\s?\d+\s?\D{0,8}\s*TTL[=＝]\d+\s*$", line)
            for line in lines
        )
        or bool(
            lines
            and any(
                re.match(r"\S.* .*\[?[0-9a-f:.]+\]?.* 32 \D*[:：]$", line) for line in lines[:5]
            )
            and (
                any(WINDOWS_ANSWER.search(line) for line in lines)
                or WINDOWS_COUNTS.search(" ".join(lines))
            )
        )
    )


DESCRIPTION = "what ping prints, of Linux, macOS, BusyBox or Windows, in any language"
FORMAT = ImportFormat("ping", DESCRIPTION, ("ping's text",), recognises, read, any_bytes=True)
