# SPDX-License-Identifier: MIT
r"""Read traces: CSV files of a path's delay, loss and rate over time, beside the profiles.

    time_s,delay_ms,loss,rate_bps
    0,84.2,0,
    2,,,50000000

COLUMN_SAYS describes the columns. Traces are read strictly: whatever the text, the only error
raised is BadInput with file and line.
"""

import re
from pathlib import Path

from gostlab.errors import require_bounds
from gostlab.spec.path_spec import DIRECTIONS, ChangeSpec, random_loss
from gostlab.spec.units import MAX_RATE_BPS, MIN_RATE_BPS, quoted
from gostlab.spec.value_types import MAX_DELAY_S
from gostlab.spec.yaml_source import BadInput, display_path, load_text, suggest_name

MAX_ROWS = 100_000
MAX_BYTES = 100 * MAX_ROWS
MAX_TIME_S = 10**7
# The columns that may change, and the range of their values.
RANGES = {
    "delay_ms": (0.0, 1000.0 * MAX_DELAY_S),
    "loss": (0.0, 1.0),
    "rate_bps": (float(MIN_RATE_BPS), float(MAX_RATE_BPS)),
}
COLUMN_SAYS = {
    "time_s": "seconds after the load's start: 0 in the first row, then increasing (required)",
    "direction": "forward or reverse (default: forward)",
    "delay_ms": "new one-way delay in ms; empty: no change",
    "loss": "new loss probability per packet, from 0 to 1",
    "rate_bps": "new rate of the bottleneck in bit/s",
}
COLUMNS = tuple(COLUMN_SAYS)


def changes_of(path: Path) -> tuple[ChangeSpec, ...]:
    """Return the changes of a trace, sorted by time. Raises BadInput."""
    return parse_trace(load_text(path, MAX_BYTES), display_path(path))


def parse_trace(text: str, origin: str) -> tuple[ChangeSpec, ...]:
    """Return the changes of a trace's text. Raises BadInput."""
    header, *lines = text.rstrip("\n").split("\n")
    columns = read_header(header, origin)
    if len(lines) > MAX_ROWS:
        raise BadInput(f"{origin}: {len(lines)} rows: more than {MAX_ROWS}")
    if not lines:
        raise BadInput(f"{origin}: no rows below the header")
    changes: list[ChangeSpec] = []
    latest: dict[str, float] = {}
    for line_number, line in enumerate(lines, 2):
        change = read_row(line, columns, f"{origin}:{line_number}")
        at_s, direction = change.at_s, change.direction
        if not changes and at_s != 0:
            raise BadInput(f"{origin}:{line_number}: time_s begins at {at_s:g}, not at 0")
        # Rows of the two directions may share a time; within one direction, time increases.
        if at_s < max(latest.values(), default=0) or at_s <= latest.get(direction, -1):
            raise BadInput(f"{origin}:{line_number}: time_s {at_s:g} does not rise")
        latest[direction] = at_s
        changes.append(change)
    return tuple(changes)


def read_header(line: str, origin: str) -> list[str]:
    """Return the columns of a header. Raises BadInput."""
    columns = [word.strip() for word in line.split(",")]
    for name in columns:
        if name not in COLUMNS:
            raise BadInput(
                f"{origin}:1: {quoted(name)}: unknown column ({suggest_name(name, COLUMNS)})"
            )
        if columns.count(name) > 1:
            raise BadInput(f"{origin}:1: column {name} is there twice")
    if "time_s" not in columns:
        raise BadInput(f"{origin}:1: column time_s is missing (like time_s,delay_ms,loss,rate_bps)")
    if not set(columns) & set(RANGES):
        raise BadInput(f"{origin}:1: no column says what changes (one of {', '.join(RANGES)})")
    return columns


def read_row(line: str, columns: list[str], where: str) -> ChangeSpec:
    """Return the change of a row. Raises BadInput."""
    values = [word.strip() for word in line.split(",")]
    if len(values) != len(columns):
        raise BadInput(f"{where}: {len(values)} fields under {len(columns)} columns")
    fields = dict(zip(columns, values, strict=True))
    direction = fields.get("direction", DIRECTIONS[0])
    if direction not in DIRECTIONS:
        raise BadInput(f"{where}: direction {quoted(direction)}: not {' or '.join(DIRECTIONS)}")
    at_s = read_number("time_s", fields["time_s"], (0.0, float(MAX_TIME_S)), where)
    changed = {
        name: read_number(name, fields[name], bounds, where)
        for name, bounds in RANGES.items()
        if fields.get(name)
    }
    if not changed:
        raise BadInput(f"{where}: nothing changes in this row")
    rate_bps, loss = changed.get("rate_bps"), changed.get("loss")
    if rate_bps is not None and rate_bps != int(rate_bps):
        raise BadInput(
            f"{where}: rate_bps {quoted(fields['rate_bps'])}: not a whole number of bits per second"
        )
    return ChangeSpec(
        at_s=at_s,
        direction=direction,
        rate_bps=None if rate_bps is None else int(rate_bps),
        delay_ms=changed.get("delay_ms"),
        loss=None if loss is None else random_loss(loss),
    )


def read_number(column: str, text: str, bounds: tuple[float, float], where: str) -> float:
    """Return a number within bounds. Raises BadInput."""
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?(e-?[0-9]{1,2})?", text):
        hint = " (a share from 0 to 1)" if column == "loss" and "%" in text else ""
        raise BadInput(f"{where}: {column} {quoted(text)}: not a plain number{hint}")
    return require_bounds(f"{where}: {column} {quoted(text)}", float(text), *bounds, "{:g}".format)
