"""`./lab profile import FILE`: the words, and what is said of them."""

from __future__ import annotations

import argparse
import gzip
import stat
import zlib
from fractions import Fraction
from pathlib import Path

from gostlab.importers.base import Format, Recording
from gostlab.profile_import import write_imported
from gostlab.profile_import.formats import FORMATS
from gostlab.profile_import.profile_writer import add_place, check_place, name_of, time_of
from gostlab.spec import profile as profiles
from gostlab.spec import units
from gostlab.spec.profile import share_text
from gostlab.spec.value_types import RATE
from gostlab.spec.yaml_source import BadInput, shown_path

MAX_BYTES = 100 * 2**20
DEFAULT_BIN = "20ms"
SHORTEST_BIN_S, LONGEST_BIN_S = Fraction(1, 1000), Fraction(10)
LONGEST_S, LONGEST_RTT_S = Fraction(24 * 3600), Fraction(20)
NOT_SAID = "not said"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    formats = "; ".join(f"{each.name}: {each.says}" for each in FORMATS.values())
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="may be gzipped")
    parser.add_argument("--format", choices=FORMATS, help=f"default: by its content ({formats})")
    for name, says in (
        ("--source", "where the recording is from, for the file"),
        ("--licence", "under which it may be used, for the file"),
    ):
        parser.add_argument(name, default=NOT_SAID, help=says)
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
    observed = order.format.read(order.recordings)
    replay = write_imported.replay_of(order, observed)
    path = write_imported.write_import(order, observed, replay)
    loaded = profiles.load_profile(str(path))
    print(f"{order.name}: {profiles.summary(loaded)}")
    print(*(f"assumed: {sentence}" for sentence in loaded.assumptions), sep="\n")
    if len(replay.trace):
        print(
            f"{len(replay.trace)} changes in {units.show_s(replay.length_s)}, capacity"
            f" {share_text(replay.error.share)} from the recorded per 100 ms, on average; use it as"
            f" profile: {order.name}, trace: {order.name}.csv, bottleneck: tbf"
        )
    print(path)
    return 0


def read_order(arguments: argparse.Namespace) -> write_imported.ImportOrder:
    """The command line's words, checked, and the files' texts. Raises BadInput."""
    recordings = tuple(read_recording(path) for path in arguments.files)
    chosen = FORMATS[arguments.format] if arguments.format else guessed(recordings)
    if len(recordings) != len(chosen.files):
        takes = f"{len(chosen.files)} files ({', '.join(chosen.files)})"
        raise BadInput(f"{chosen.name} takes {takes}, not {len(recordings)}")
    name = name_of(arguments.name, arguments.files[0].name.split(".")[0])
    rate, rtt, length = arguments.rate, arguments.rtt, arguments.length
    if rate is not None:
        RATE.of("--rate", rate)
    bin_s = time_of("--bin", arguments.bin, SHORTEST_BIN_S, LONGEST_BIN_S)
    order = write_imported.ImportOrder(
        name=name,
        format=chosen,
        recordings=recordings,
        source=arguments.source,
        licence=arguments.licence,
        way=arguments.way,
        rate=rate,
        rtt_s=None if rtt is None else time_of("--rtt", rtt, Fraction(0), LONGEST_RTT_S),
        bin_s=bin_s,
        length_s=None if length is None else time_of("--for", length, bin_s, LONGEST_S),
        out=arguments.out,
    )
    check_place(order.out, name, (".yaml", ".csv"), force=arguments.force)
    return order


def read_recording(path: Path) -> Recording:
    """A file's text, unpacked where it is gzipped. Raises BadInput."""
    shown = shown_path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"{shown}: not a file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if data[:2] == b"\x1f\x8b":
            with gzip.open(path) as packed:
                data = packed.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise BadInput(f"{shown}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise BadInput(f"{shown}: larger than any recording should be ({MAX_BYTES >> 20} MiB)")
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
