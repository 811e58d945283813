"""What a recording says of a path, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class Unreadable(Exception):
    """A recording that lacks what its format needs; the message names file and line."""


@contextmanager
def readable(recording: Recording, form: str) -> Iterator[None]:
    """Raises Unreadable where what is read of a recording is not there, or of another kind."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        told = f"{type(error).__name__}: {error}"
        raise Unreadable(f"{recording.shown}: not {form} ({told})") from None


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
    """What recordings say of one direction of a path, or of both ways together.

    length_s        how long the recording is
    sendable        when a packet of `sendable_bytes` (IP) could have been sent, in seconds, rising
    rate_bps        the one rate that it says, where it says no more than one; on the wire
    probes          delays of packets in the order of time; `one_way` says whose they are
    assumptions     what is not in the recording, in sentences
    """

    length_s: float
    sendable_s: Sequence[float] = ()
    sendable_bytes: int = 1500
    rate_bps: int | None = None
    probes: Sequence[Probe] = ()
    one_way: bool = False
    reverse_probes: Sequence[Probe] = ()  # the other direction's own, where they were told apart
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A format.

    files       what its files are, in order, for people
    recognises  whether a text looks like the first of them
    read        raises Unreadable
    vague       how easily a file of another format looks like it: the higher, the later it is tried
    """

    name: str
    says: str
    files: tuple[str, ...]
    recognises: Callable[[str], bool]
    read: Callable[[Sequence[Recording]], Observed]
    vague: int = 0
