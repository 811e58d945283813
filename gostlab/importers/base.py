# SPDX-License-Identifier: MIT
"""Define the types of an importer: recordings, probes, the recorded path, and the format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gostlab.errors import BadInput
from gostlab.spec import units
from gostlab.spec.path_spec import PolicerSpec, ReorderSpec, ShareSpec, SlotSpec

# The exceptions of reading a JSON document of an unexpected shape; a number of 400 digits raises
# OverflowError.
UNEXPECTED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
# TCP carries 1448 bytes of payload in a full-sized segment's frame of 1514 bytes, which the
# emulated queues count; the rest is headers.
PAYLOAD_SHARE = 1448 / 1514
# The first seconds of a TCP flow are slow start, on any path whose RTT is not very long.
SLOW_START_S = 2.0
# A sender with a rate limit of its own that gets more than this share of it does not measure the
# path's rate.
LIMITED_SHARE = 0.95


class UnreadableRecording(BadInput):
    """A recording that lacks what its format needs; the message names file and line."""


@dataclass(frozen=True)
class Recording:
    """One file as text; `label` is its name in messages and in the profile.

    Bytes that are not UTF-8 are surrogates: text.encode("utf-8", "surrogateescape") has them back.
    """

    label: str
    text: str


@dataclass(frozen=True)
class Probe:
    """One probe packet; delay_ms is None if it was lost or its delay was not measured."""

    at_s: float
    delay_ms: float | None
    lost: bool = False


@dataclass(frozen=True)
class DirectionRecording:
    """One direction of a path; None, 0 and empty stand for what was not recorded."""

    rate_bps: int | None = None  # constant rate on the wire
    offered_bps: int | None = None  # rate to which the sender limited itself, on the wire
    sendable_s: Sequence[float] = ()  # send times of packets of sendable_bytes, in (0, period_s]
    sendable_bytes: int = 1500  # length of the IP packet
    period_s: float | None = None  # after which sendable_s begins again; None: PathRecording's
    probes: Sequence[Probe] = ()  # one-way delays and losses, sorted by time
    jitter_ms: float = 0.0  # constant, of packets that keep their order
    loss_share: float = 0.0  # constant loss


@dataclass(frozen=True)
class Evidence:
    """The source of one value that an importer took."""

    value: str  # "rate 50.2 Mbit/s"
    field: str  # name of the field, series, column or line in the file
    direction: str  # "forward", "reverse" or "round trip"; empty if the value has none
    end: str = ""  # "sent by the client", "received by the server", "offered", …

    def __str__(self) -> str:
        """Return the value with its source, a part of a sentence."""
        end = f", {self.end}" if self.end else ""
        direction = f" {self.direction}" if self.direction else ""
        return f"{self.value}{direction} (from {self.field}{end})"


@dataclass(frozen=True)
class PathRecording:
    """A path as an importer read it: what was recorded, from where, and what was left out.

    `forward` is the direction of uploads, from the client to the server. Where a recording does not
    tell its direction, it is forward.
    """

    length_s: float
    forward: DirectionRecording = DirectionRecording()
    reverse: DirectionRecording = DirectionRecording()
    round_trips: Sequence[Probe] = ()  # RTTs, and losses of unknown direction, sorted by time
    rtt_ms: float | None = None  # constant idle RTT
    loss_share: float = 0.0  # constant loss of unknown direction
    evidence: tuple[Evidence, ...] = ()
    left_out: tuple[str, ...] = ()  # noun phrases
    assumptions: tuple[str, ...] = ()  # sentences on values that are not recorded

    def swapped(self) -> PathRecording:
        """Return the path with its directions exchanged."""
        opposite = {"forward": "reverse", "reverse": "forward"}
        return replace(
            self,
            forward=self.reverse,
            reverse=self.forward,
            evidence=tuple(
                replace(one, direction=opposite.get(one.direction, one.direction))
                for one in self.evidence
            ),
        )


@dataclass(frozen=True)
class SpecifiedDirection:
    """The shaping that somebody set for one direction of a path."""

    device: str
    position: str  # FILE:LINE
    rate_bps: int | None
    delay_s: Fraction  # one way
    jitter_s: Fraction
    distribution: str  # name of tc's delay table; "" is uniform
    # () none, (p,) random, gemodel's (p, r, 1-h, 1-k), or state's (p13, p31, p32, p23, p14)
    loss: tuple[Fraction, ...]
    buffer: str  # in the words of a profile; "" if no line determines it
    buffer_from: str  # how the buffer follows from the lines
    ordered: bool
    loss_correlation: Fraction = Fraction(0)
    policer: PolicerSpec | None = None
    reorder: ReorderSpec | None = None
    duplicate: ShareSpec | None = None
    corrupt: ShareSpec | None = None
    slot: SlotSpec | None = None


@dataclass(frozen=True)
class SpecifiedPath:
    """A path that was set rather than observed; None is a direction that nothing shapes."""

    forward: SpecifiedDirection | None
    reverse: SpecifiedDirection | None
    settings: Mapping[str, str]  # settings of a run that belong to it, as bottleneck: tbf
    left_out: tuple[str, ...]  # FILE:LINE: what has no equivalent


@dataclass(frozen=True)
class ImportFormat:
    name: str
    description: str
    files: tuple[str, ...]  # labels of the files, in order
    recognises: Callable[[str], bool]  # tests whether a text looks like the first file
    # Raises UnreadableRecording.
    read: Callable[[Sequence[Recording]], PathRecording | SpecifiedPath]
    vague: int = 0  # formats with a larger value are tried later
    optional_files: int = 0  # how many of the last files may be missing
    any_bytes: bool = False  # whether the files need not be UTF-8


# -- JSON


def refuse_repeated(name: str, first: Any, second: Any) -> Any:
    """Raise UnreadableRecording: nobody knows which value of a repeated key is right."""
    raise UnreadableRecording(f"key {name} is twice in one object: keep the right one")


def parse_json(text: str, merge_repeated: Callable[[str, Any, Any], Any] = refuse_repeated) -> Any:
    """Parse a JSON document; merge_repeated(key, first, second) is a repeated key's value.

    Raises UnreadableRecording for a second document, and one that ends too soon.
    """

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, object]:
        document: dict[str, object] = {}
        for name, value in pairs:
            repeated = name in document
            document[name] = merge_repeated(name, document[name], value) if repeated else value
        return document

    try:
        return json.loads(text, object_pairs_hook=to_object)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise UnreadableRecording(
                f"a second report begins in line {error.lineno}: keep one in the file"
            ) from None
        if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
            raise UnreadableRecording(
                f"the document is cut off in line {error.lineno}: nothing of it can be taken"
            ) from None
        raise


def json_format(
    name: str,
    description: str,
    file: str,
    keys: Sequence[str],
    read: Callable[[Any], PathRecording],
    parse: Callable[[str], Any] = parse_json,
) -> ImportFormat:
    """Return a format whose only file is a JSON object, recognised by some of its keys.

    `read` interprets the object. Where a value is missing or of another type, the file is rejected
    as not of this format.
    """

    def recognises(text: str) -> bool:
        return text.lstrip().startswith("{") and all(f'"{key}"' in text for key in keys)

    def read_text(recordings: Sequence[Recording]) -> PathRecording:
        label = recordings[0].label
        try:
            return read(parse(recordings[0].text))
        except UnreadableRecording as error:
            raise UnreadableRecording(f"{label}: {error}") from None
        except UNEXPECTED as error:
            reason = f"{type(error).__name__}: {error}"
            raise UnreadableRecording(f"{label}: not {file} ({reason})") from None

    return ImportFormat(name, description, (file,), recognises, read_text)


# -- numbers


def wire_bps(payload_bps: float) -> int:
    """Return the rate on the wire of a TCP goodput."""
    return round(payload_bps / PAYLOAD_SHARE)


def rate_evidence(payload_bps: float, field: str, direction: str, end: str) -> Evidence:
    """Return the evidence of a rate that TCP's goodput was converted to."""
    rate = units.show_rate(wire_bps(payload_bps))
    return Evidence(f"rate {rate}", field, direction, f"{end}, plus headers")


def weighted_midmean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the mean of the middle half of the weight, between the first and third quartile."""
    low, high, position, total = sum(weights) / 4, 3 * sum(weights) / 4, 0.0, 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        total += value * max(0.0, min(high, position + weight) - max(low, position))
        position += weight
    return total / (high - low)
