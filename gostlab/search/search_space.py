# SPDX-License-Identifier: MIT
"""Define the search space of `./lab worst`: axes with a range or a list of levels."""

import re
from dataclasses import dataclass

from gostlab.search.parameters import FreeParameter, read_free
from gostlab.spec import settings
from gostlab.spec.units import quoted
from gostlab.spec.yaml_source import parse_document, suggest_name

# Default ranges for axes of which --over has only the name.
DEFAULT_RANGES = {
    "rate": "1mbit..100mbit",
    "rtt": "5ms..200ms",
    "loss": "0.001%..5%",
    "buffer": "0.1bdp..10bdp",
    "jitter": "0.1ms..20ms",
    "streams": "1..16",
    "queue": "fifo|codel|fq_codel|pie|red",
}
FORM = "NAME=FROM..TO or NAME=A|B|C (like rtt=10ms..100ms, queue=fifo|codel)"


@dataclass(frozen=True)
class SearchAxis:
    """A setting that is searched: a range of numbers, or levels."""

    sets: str
    free: FreeParameter | None = None
    levels: tuple[str, ...] = ()

    def text(self, value: float | str) -> str:
        """Return the setting's text for the optimiser's value, from 0 to 1, or a level."""
        return str(value) if self.free is None else self.free.text(float(value))

    @property
    def says(self) -> str:
        if self.free is None:
            return f"{self.sets}: {', '.join(self.levels)}"
        return f"{self.sets}: {self.free.text(0.0)} to {self.free.text(1.0)}, {self.free.scale}"


def read_axes(text: str) -> tuple[SearchAxis, ...]:
    """Parse an --over argument such as `rate,rtt=10ms..100ms,queue=fifo|codel`. Raises BadInput."""
    axes = [read_axis(word.strip()) for word in text.split(",")]
    for number, axis in enumerate(axes):
        if any(axis.sets == other.sets for other in axes[:number]):
            raise settings.BadInput(f"--over {quoted(text)}: {axis.sets} twice (write it once)")
    return tuple(axes)


def read_axis(word: str) -> SearchAxis:
    """Parse one axis of --over. Raises BadInput."""
    name, _, ends = word.partition("=")
    name = settings.setting_called(name)
    if settings.field_of(name) is None:
        raise settings.BadInput(
            f"--over {quoted(word)}: no such setting ({suggest_name(name, settings.known_names())})"
        )
    ends = ends or DEFAULT_RANGES.get(name.rpartition(".")[2], "")
    low, dots, high = ends.partition("..")
    if dots and low and high:
        return SearchAxis(name, read_range(name, low, high))
    levels = tuple(level.strip() for level in ends.split("|"))
    if not ends or not all(levels) or len(levels) < 2:
        raise settings.BadInput(f"--over {quoted(word)}: from where to where? Write {FORM}")
    for level in levels:
        settings.read_override(name, level, origin=f"--over {name}")
    return SearchAxis(name, levels=levels)


def read_range(name: str, low: str, high: str) -> FreeParameter:
    """Parse a range, which has a log scale if it begins above 0. Raises BadInput."""
    log = re.match(r"0(\.0*)?(?![\d.])", low) is None
    is_whole = re.fullmatch(r"\d+", low) is not None and re.fullmatch(r"\d+", high) is not None
    text = f"{{from: {low!r}, to: {high!r}, scale: {'log' if log else 'linear'}"
    document = parse_document(
        f"{text}, whole: {'true' if is_whole else 'false'}}}", f"--over {name}", line_numbers=False
    )
    return read_free(name, document)
