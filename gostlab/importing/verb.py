"""`./lab profile import FILE`: the words, and what is said of them."""

from __future__ import annotations

import argparse
import gzip
import re
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from gostlab.ask import profile as profiles
from gostlab.ask import units
from gostlab.ask.document import BadInput, shown_path
from gostlab.ask.profile import share_text
from gostlab.ask.units import quoted
from gostlab.importing.files import ImportOrder, make, show_s, write_import
from gostlab.importing.formats import FORMATS
from gostlab.importing.seen import Format, Recording, Unreadable
from gostlab.recording.whole import add_place

MOST_BYTES = 100 * 2**20
DEFAULT_BIN = "20ms"
SHORTEST_BIN_S, LONGEST_BIN_S = Fraction(1, 1000), 10
LONGEST_S = 24 * 3600
NOT_SAID = "not said"

Quantity = TypeVar("Quantity")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `./lab profile import` takes."""
    formats = "; ".join(f"{each.name}: {each.says}" for each in FORMATS.values())
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="may be gzipped")
    parser.add_argument("--format", choices=FORMATS, help=f"default: as the file looks ({formats})")
    parser.add_argument("--name", help="the profile's name (default: made of the file's)")
    parser.add_argument(
        "--source", default=NOT_SAID, help="where the recording is from, for the file"
    )
    parser.add_argument(
        "--licence", default=NOT_SAID, help="under which it may be used, for the file"
    )
    parser.add_argument(
        "--way",
        choices=profiles.DIRECTIONS,
        default="forward",
        help="the direction it is of (default: forward, what uploads take)",
    )
    parser.add_argument("--rate", help="the path's rate, where the recording has none")
    parser.add_argument("--rtt", help="the idle round trip, where the recording has no delay")
    parser.add_argument(
        "--bin",
        default=DEFAULT_BIN,
        help=f"how long a rate stays the same (default: {DEFAULT_BIN}); finer is closer and slower",
    )
    parser.add_argument(
        "--for",
        dest="length",
        help="how much of it (default: all); beyond its end a capacity trace begins anew",
    )
    add_place(parser)


def import_verb(arguments: argparse.Namespace) -> int:
    """`./lab profile import FILE`; returns the exit code. Raises BadInput."""
    order = read_order(arguments)
    try:
        seen = order.format.read(order.recordings)
    except Unreadable as error:
        raise BadInput(str(error)) from None
    made = make(order, seen)
    path = write_import(order, seen, made)
    loaded = profiles.load_profile(str(path))
    print(f"{order.name}: {profiles.summary(loaded)}")
    if made.steps or made.back:
        print(
            f"{len(made.steps) + len(made.back)} changes in {show_s(made.length_s)}, capacity"
            f" {share_text(made.error.share)} from the recorded per 100 ms, on average; use it as"
            f" profile: {order.name}, trace: {order.name}.csv, bottleneck: tbf"
        )
    print(path)
    return 0


def read_order(arguments: argparse.Namespace) -> ImportOrder:
    """The command line's words, checked, and the files' texts. Raises BadInput."""
    recordings = tuple(read_recording(path) for path in arguments.files)
    chosen = FORMATS[arguments.format] if arguments.format else guessed(recordings)
    if len(recordings) != len(chosen.files):
        raise BadInput(
            f"{chosen.name} takes {len(chosen.files)} files ({', '.join(chosen.files)}), not"
            f" {len(recordings)}"
        )
    stem = arguments.files[0].name.split(".")[0].lower()
    name = arguments.name or re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:60].strip("-")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,59}", name):
        raise BadInput(
            f"--name {quoted(name)}: not a profile's name (small letters, digits and -, up to 60)"
        )
    if arguments.rate is not None:
        checked("--rate", arguments.rate, units.rate)
    bin_s = time_of("--bin", arguments.bin, SHORTEST_BIN_S, LONGEST_BIN_S)
    order = ImportOrder(
        name,
        chosen,
        recordings,
        arguments.source,
        arguments.licence,
        arguments.way,
        arguments.rate,
        None if arguments.rtt is None else time_of("--rtt", arguments.rtt, Fraction(0), 20),
        bin_s,
        None if arguments.length is None else time_of("--for", arguments.length, bin_s, LONGEST_S),
        arguments.out,
        arguments.force,
    )
    check_place(order)
    return order


def time_of(option: str, text: str, least_s: Fraction, most_s: Fraction | int) -> Fraction:
    """An option's time. Raises BadInput."""
    time_s = checked(option, text, units.seconds)
    if not least_s <= time_s <= most_s:
        raise BadInput(
            f"{option} {quoted(text)}: not within {show_s(least_s)} to {show_s(Fraction(most_s))}"
        )
    return Fraction(time_s)


def checked(option: str, text: str, reader: Callable[[str], Quantity]) -> Quantity:
    """An option's quantity. Raises BadInput."""
    try:
        return reader(text)
    except units.UnitError as error:
        raise BadInput(f"{option} {quoted(error.text)}: {error.problem}") from None


def read_recording(path: Path) -> Recording:
    """A file's text, unpacked where it is gzipped. Raises BadInput."""
    shown = shown_path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if data[:2] == b"\x1f\x8b":
            with gzip.open(path) as packed:
                data = packed.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise BadInput(f"{shown}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MOST_BYTES:
        raise BadInput(f"{shown}: larger than any recording should be ({MOST_BYTES >> 20} MiB)")
    try:
        return Recording(shown, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{shown}:{line}: not UTF-8 text") from None


def guessed(recordings: tuple[Recording, ...]) -> Format:
    """The format that a file looks like. Raises BadInput."""
    if len(recordings) == 2:
        return FORMATS["leoreplayer"]
    for each in FORMATS.values():
        if each.recognises(recordings[0].text):
            return each
    raise BadInput(
        f"{recordings[0].shown}: looks like none of {', '.join(FORMATS)}: say which by --format"
    )


def check_place(order: ImportOrder) -> None:
    """Raises BadInput if the profile could not be written where it should be."""
    if not order.out.is_dir():
        raise BadInput(f"--out {order.out}: no such folder")
    for taken in (order.out / f"{order.name}{ending}" for ending in (".yaml", ".csv")):
        if taken.exists() and not order.force:
            raise BadInput(
                f"--name {order.name}: {taken} is there already (choose another, or --force to"
                " replace it)"
            )
