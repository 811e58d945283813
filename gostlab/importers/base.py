"""What a recording says of a path, whatever its format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.errors import BadInput

# What a reader meets where a JSON file has something else than it expects; a number of 400 digits
# is an OverflowError.
UNEXPECTED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


class UnreadableRecording(BadInput):
    """A recording that lacks what its format needs; the message names file and line."""


@dataclass(frozen=True)
class Recording:
    """One file, as text: `shown` is how messages and the profile name it."""

    shown: str
    text: str


@dataclass(frozen=True)
class Probe:
    """What one packet met. delay_ms None: lost."""

    at_s: float
    delay_ms: float | None


@dataclass(frozen=True)
class Observed:
    """What recordings say of one direction of a path, or of both ways together."""

    length_s: float
    sendable_s: Sequence[float] = ()  # when a packet of so many bytes could have been sent, rising
    sendable_bytes: int = 1500  # of IP
    rate_bps: int | None = None  # the one rate that it says, on the wire
    probes: Sequence[Probe] = ()  # in the order of time
    one_way: bool = False  # whose the probes' delays are
    reverse_probes: Sequence[Probe] = ()  # the other direction's own, where they were told apart
    assumptions: tuple[str, ...] = ()  # what is not in the recording, in sentences


@dataclass(frozen=True)
class Format:
    name: str
    says: str
    files: tuple[str, ...]  # what they are, in order, for people
    recognises: Callable[[str], bool]  # whether a text looks like the first of them
    read: Callable[[Sequence[Recording]], Observed]  # raises Unreadable
    vague: int = 0  # the easier another format's file looks like it, the later it is tried


def json_format(
    name: str, says: str, file: str, keys: Sequence[str], read: Callable[[Any], Observed]
) -> Format:
    """A format whose one file is a JSON object, known by some of its keys. read: what the object
    says; where something is missing, or of another kind, it is not of this format.
    """

    def recognises(text: str) -> bool:
        return text.lstrip().startswith("{") and all(f'"{key}"' in text for key in keys)

    def read_text(recordings: Sequence[Recording]) -> Observed:
        shown = recordings[0].shown
        try:
            return read(json.loads(recordings[0].text))
        except UnreadableRecording as error:
            raise UnreadableRecording(f"{shown}: {error}") from None
        except UNEXPECTED as error:
            told = f"{type(error).__name__}: {error}"
            raise UnreadableRecording(f"{shown}: not {file} ({told})") from None

    return Format(name, says, (file,), recognises, read_text)
