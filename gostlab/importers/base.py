"""Define the types of an importer: recordings, probes, the observed path, and the format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gostlab.errors import BadInput

# The exceptions of reading a JSON document of an unexpected shape; a number of 400 digits raises
# OverflowError.
UNEXPECTED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


class UnreadableRecording(BadInput):
    """A recording that lacks what its format needs; the message names file and line."""


@dataclass(frozen=True)
class Recording:
    """One file as text; `label` is its name in messages and in the profile."""

    label: str
    text: str


@dataclass(frozen=True)
class Probe:
    """One probe packet; delay_ms is None if it was lost."""

    at_s: float
    delay_ms: float | None


@dataclass(frozen=True)
class Observed:
    """The properties of one direction of a path, or of both together, in recordings."""

    length_s: float
    sendable_s: Sequence[float] = ()  # send times of packets of sendable_bytes, ascending
    sendable_bytes: int = 1500  # length of the IP packet
    rate_bps: int | None = None  # constant rate on the wire, if the recording has one
    probes: Sequence[Probe] = ()  # sorted by time
    one_way: bool = False  # whether the delays are one-way delays (else RTTs)
    reverse_probes: Sequence[Probe] = ()  # if the directions were measured separately
    assumptions: tuple[str, ...] = ()  # sentences on values that are not recorded


@dataclass(frozen=True)
class SpecifiedDirection:
    """The shaping that somebody set for one direction of a path."""

    device: str
    position: str  # FILE:LINE
    rate_bps: int | None
    delay_s: Fraction  # one way
    jitter_s: Fraction
    distribution: str  # name of tc's delay table; "" is uniform
    loss: tuple[Fraction, ...]  # () none, (p,) random, or gemodel's (p, r, 1-h, 1-k)
    buffer: str  # in the words of a profile; "" if no line determines it
    buffer_from: str  # how the buffer follows from the lines
    ordered: bool


@dataclass(frozen=True)
class SpecifiedPath:
    """A path that was set rather than observed; None is a direction that nothing shapes."""

    forward: SpecifiedDirection | None
    reverse: SpecifiedDirection | None
    settings: Mapping[str, str]  # settings of a run that belong to it, as bottleneck: tbf
    left_out: tuple[str, ...]  # FILE:LINE: what has no equivalent


@dataclass(frozen=True)
class Format:
    name: str
    description: str
    files: tuple[str, ...]  # labels of the files, in order
    recognises: Callable[[str], bool]  # tests whether a text looks like the first file
    # Raises UnreadableRecording.
    read: Callable[[Sequence[Recording]], Observed | SpecifiedPath]
    vague: int = 0  # formats with a larger value are tried later


def json_format(
    name: str, description: str, file: str, keys: Sequence[str], read: Callable[[Any], Observed]
) -> Format:
    """Return a format whose only file is a JSON object, recognised by some of its keys.

    `read` interprets the object. Where a value is missing or of another type, the file is rejected
    as not of this format.
    """

    def recognises(text: str) -> bool:
        return text.lstrip().startswith("{") and all(f'"{key}"' in text for key in keys)

    def read_text(recordings: Sequence[Recording]) -> Observed:
        label = recordings[0].label
        try:
            return read(json.loads(recordings[0].text))
        except UnreadableRecording as error:
            raise UnreadableRecording(f"{label}: {error}") from None
        except UNEXPECTED as error:
            reason = f"{type(error).__name__}: {error}"
            raise UnreadableRecording(f"{label}: not {file} ({reason})") from None

    return Format(name, description, (file,), recognises, read_text)
