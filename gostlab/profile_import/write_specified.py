# SPDX-License-Identifier: MIT
"""Write the profile of a path that somebody set, by tc or in Mininet."""

import hashlib
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from gostlab.importers.base import SpecifiedDirection, SpecifiedPath
from gostlab.importers.tc_lines import DISTRIBUTIONS
from gostlab.profile_import.find_importers import reader_package_notes
from gostlab.profile_import.profile_writer import (
    ImportedProfile,
    profile_text,
    source_lines,
    source_notes,
    write_profile,
)
from gostlab.profile_import.write_imported import ImportOrder
from gostlab.registry.folders import cache_folder
from gostlab.spec import units
from gostlab.spec.path_spec import ReorderSpec, ShareSpec
from gostlab.spec.profile import load_distribution, load_profile, summary
from gostlab.spec.yaml_source import BadInput
from gostlab.tcpmodel.delay_tables import TABLE_NAMES, delay_table, table_name_of
from gostlab.tcpmodel.run_limits import DISTRIBUTION_SCALE

# The rate of a direction that nothing shapes: more than any shaped one needs for its ACKs.
UNSHAPED_RATE_BPS = 10_000_000_000
# The folders of iproute2's delay tables, of this machine or of the lab's guests.
TABLE_FOLDERS = ("/usr/lib/tc", "/usr/lib/*/tc", "/usr/share/tc")
GUEST_TABLE_FOLDERS = ("iproute2/*/usr/lib/*/tc", "root/*/tree/usr/lib/*/tc")


def write_specified(order: ImportOrder, specified: SpecifiedPath) -> ImportedProfile:
    """Write the profile and its delay tables into order.out. Raises BadInput."""
    pair = (specified.forward, specified.reverse)
    directions = dict(
        zip(
            ("forward", "reverse"),
            pair[::-1] if order.recorded_direction == "reverse" else pair,
            strict=True,
        )
    )
    other_delay_s = delay_of_unshaped(order, directions)
    texts: dict[str, str | None] = {}
    document: dict[str, object] = {}
    taken: list[str] = []
    for name, direction in directions.items():
        if direction is None:
            delay = units.show_s(other_delay_s)
            document[name] = {"rate": f"{UNSHAPED_RATE_BPS}bit", "delay": delay, "buffer": "1bdp"}
            taken.append(
                f"{name}: nothing shapes it: no loss, {delay} (--rtt gives your path's own)"
            )
            continue
        suffix = ".dist" if name == "forward" or directions["forward"] is None else "-reverse.dist"
        table = clamped_table(direction)
        shape = table_name_of(table) if table is not None else None
        if table is not None and shape is None:
            texts[suffix] = table_text(direction, table)
            shape = f"{order.name}{suffix}"
        document[name] = direction_document(order, direction, shape)
        taken.append(f"{name}: {describe_source(order, direction)}")
    sources = source_lines(taken, specified.left_out)
    files = ", ".join(Path(recording.label).name for recording in order.recordings)
    digest = hashlib.sha256("".join(one.text for one in order.recordings).encode()).hexdigest()
    texts[".yaml"] = profile_text(
        ["A path that somebody set. Made by ./lab profile import."],
        {
            "name": order.name,
            "title": f"{order.name}, from {order.format.name}",
            "notes": [
                f"From {files}, SHA-256 {digest}.",
                *reader_package_notes(order.format),
                *source_notes(sources),
            ],
            **document,
        },
    )
    path = write_profile(order.out, order.name, texts)
    lines = [f"{order.name}: {summary(load_profile(str(path)))}", *sources]
    if specified.settings:
        with_it = ", ".join(f"{name}: {value}" for name, value in specified.settings.items())
        lines.append(f"with it: {with_it}")
    return ImportedProfile(path, tuple(lines), specified.settings)


def delay_of_unshaped(
    order: ImportOrder, directions: dict[str, SpecifiedDirection | None]
) -> Fraction:
    """Return the delay of the direction that nothing shapes. Raises BadInput."""
    shaped_s = sum((one.delay_s for one in directions.values() if one), Fraction(0))
    if order.rtt_s is None:
        return Fraction(0)
    if None not in directions.values():
        raise BadInput("--rtt: both directions have a delay of their own in the lines")
    if order.rtt_s < shaped_s:
        raise BadInput(
            f"--rtt {units.show_s(order.rtt_s)}: less than the {units.show_s(shaped_s)} that the"
            " lines add one way (the round trip that ping shows has both)"
        )
    return order.rtt_s - shaped_s


def direction_document(
    order: ImportOrder, direction: SpecifiedDirection, table_file: str | None
) -> dict[str, object]:
    """Return a direction as a profile writes it. Raises BadInput without a rate."""
    if direction.rate_bps is None and order.rate is None:
        raise BadInput(
            f"{direction.position}: {direction.device} has no rate: give the path's by --rate (like"
            " 50mbit)"
        )
    document: dict[str, object] = {
        "rate": f"{direction.rate_bps}bit" if direction.rate_bps else order.rate,
        "delay": units.show_s(direction.delay_s),
        "jitter": units.show_s(direction.jitter_s),
    }
    if table_file:
        document["distribution"] = table_file
    if direction.ordered:
        document["ordered"] = True
    loss = loss_document(direction.loss, direction.loss_correlation)
    document |= {"loss": loss, "buffer": direction.buffer or "1bdp"}
    return document | impairment_documents(direction)


def loss_document(loss: Sequence[Fraction], correlation: Fraction) -> str | dict[str, str]:
    shares = [percent_text(share) for share in loss]
    if correlation:
        return {"model": "random", "p": shares[0], "correlation": percent_text(correlation)}
    if len(shares) < 2:
        return shares[0] if shares else "0%"
    if len(shares) == 5:
        names: tuple[str, ...] = ("p13", "p31", "p32", "p23", "p14")
        return {"model": "state", **dict(zip(names, shares, strict=True))}
    names = ("p", "r", "one_minus_h", "one_minus_k")
    return {"model": "gemodel", **dict(zip(names, shares, strict=True))}


def impairment_documents(direction: SpecifiedDirection) -> dict[str, object]:
    """Return a direction's policer, reordering, duplicates, corruption and slots."""
    document: dict[str, object] = {}
    if policer := direction.policer:
        burst = f"{policer.burst_bytes}B"
        document["policer"] = {"rate": f"{policer.rate_bps}bit", "burst": burst}
    for name in ("reorder", "duplicate", "corrupt"):
        impairment: ReorderSpec | ShareSpec | None = getattr(direction, name)
        if impairment is None or not impairment.share:
            continue
        fields: dict[str, object] = {"share": float_percent(impairment.share)}
        if impairment.correlation:
            fields["correlation"] = float_percent(impairment.correlation)
        if isinstance(impairment, ReorderSpec) and impairment.distance > 1:
            fields["distance"] = impairment.distance
        document[name] = fields
    if slot := direction.slot:
        times = {"min": slot.min_ms, "max": slot.max_ms}
        if slot.delay_ms is not None:
            times = {"delay": slot.delay_ms, "jitter": slot.jitter_ms or 0.0}
        slots: dict[str, object] = {
            name: f"{units.show_ms(time_ms)}ms" for name, time_ms in times.items()
        }
        slots |= {"distribution": table_name_of(slot.distribution)} if slot.distribution else {}
        slots |= {"packets": slot.packets} if slot.packets else {}
        slots |= {"bytes": f"{slot.bytes}B"} if slot.bytes else {}
        document["slot"] = slots
    return document


def float_percent(share: float) -> str:
    """Return a share as a percentage with all of its digits."""
    return percent_text(Fraction(str(share)))


def percent_text(share: Fraction) -> str:
    """Return a share as a percentage with all of its digits."""
    percent = Decimal(100 * share.numerator) / Decimal(share.denominator)
    return f"{percent.normalize():f}%"


def describe_source(order: ImportOrder, direction: SpecifiedDirection) -> str:
    """Return what a direction was taken from, in one line."""
    rate = units.show_rate(direction.rate_bps) if direction.rate_bps else f"{order.rate} (--rate)"
    delay = f"{units.show_s(direction.delay_s)} one way"
    if direction.jitter_s:
        shape = direction.distribution or "uniform"
        delay += f" ± {units.show_s(direction.jitter_s)} {shape}"
        delay += ", in order" if direction.ordered else ""
    loss = " ".join(percent_text(share) for share in direction.loss) or "no"
    how = f" ({direction.buffer_from})" if direction.buffer_from else " (an assumption)"
    others = "".join(f", {name}" for name in impairment_documents(direction))
    return (
        f"{direction.device}, {direction.position}: {rate}, {delay}, {loss} loss, buffer"
        f" {direction.buffer or '1bdp'}{how}{others}"
    )


# -- delay tables


def clamped_table(direction: SpecifiedDirection) -> tuple[int, ...] | None:
    """Return the delay table that a direction needs, or None for uniform jitter within the delay.

    netem sends a packet at once if its delay would be negative: the table has no such entry.
    Raises BadInput.
    """
    if not direction.jitter_s:
        return None
    table = find_delay_table(direction) if direction.distribution else uniform_table()
    lowest = -math.floor(DISTRIBUTION_SCALE * direction.delay_s / direction.jitter_s)
    if not direction.distribution and direction.jitter_s <= direction.delay_s:
        return None
    return tuple(max(entry, lowest) for entry in table)


def uniform_table() -> tuple[int, ...]:
    return tuple(range(-DISTRIBUTION_SCALE, DISTRIBUTION_SCALE, 4))


def iproute2_distribution(table: Sequence[int]) -> str:
    """Return the name of iproute2's delay table that a table is, or "" for any other."""
    if known := table_name_of(tuple(table)):
        return known
    for name in DISTRIBUTIONS:
        path = find_table(name)
        if path and load_distribution(path) == tuple(table):
            return name
    return ""


def find_table(name: str) -> Path | None:
    """Return the file of one of iproute2's delay tables, of this machine or of the lab's guests."""
    roots = [Path("/").glob(f"{pattern[1:]}/{name}.dist") for pattern in TABLE_FOLDERS]
    roots += [cache_folder().glob(f"{pattern}/{name}.dist") for pattern in GUEST_TABLE_FOLDERS]
    return next((path for paths in roots for path in sorted(paths)), None)


def find_delay_table(direction: SpecifiedDirection) -> tuple[int, ...]:
    """Return one of iproute2's delay tables. Raises BadInput if it is not here."""
    if direction.distribution in TABLE_NAMES:
        return delay_table(direction.distribution)
    path = find_table(direction.distribution)
    if path:
        return load_distribution(path)
    raise BadInput(
        f"{direction.position}: distribution {direction.distribution}: its table is not"
        " here: ./lab setup brings iproute2's"
    )


def table_text(direction: SpecifiedDirection, table: Sequence[int]) -> str:
    rows = (table[start : start + 8] for start in range(0, len(table), 8))
    shape = direction.distribution or "uniform"
    return f"# iproute2's table {shape}, of delays from 0 on.\n" + "".join(
        " ".join(map(str, row)) + "\n" for row in rows
    )
