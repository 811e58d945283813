"""Implement `./lab profile import FILE`: arguments, checks and output."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import stat
import sys
import zlib
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from gostlab.importers.base import Format, Recording, SpecifiedPath
from gostlab.profile_import import write_imported, write_specified
from gostlab.profile_import.formats import FORMATS
from gostlab.profile_import.profile_writer import (
    ImportedProfile,
    add_output_arguments,
    check_output,
    parse_time,
    profile_name,
)
from gostlab.registry.folders import cache_folder
from gostlab.spec import profile as profiles
from gostlab.spec import units
from gostlab.spec.profile import share_text
from gostlab.spec.value_types import RATE
from gostlab.spec.yaml_source import BadInput, shown_path

MAX_BYTES = 100 * 2**20
DEFAULT_BIN = "20ms"
MIN_BIN_S, MAX_BIN_S = Fraction(1, 1000), Fraction(10)
MAX_LENGTH_S, MAX_RTT_S = Fraction(24 * 3600), Fraction(20)
STDIN = Path("-")
UNKNOWN_SOURCE = "not said"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    formats = "; ".join(f"{format.name}: {format.description}" for format in FORMATS.values())
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="may be gzipped; - is standard input"
    )
    parser.add_argument("--format", choices=FORMATS, help=f"default: by its content ({formats})")
    for name, text in (
        ("--source", "origin of the recording, noted in the profile"),
        ("--licence", "licence of the recording, noted in the profile"),
    ):
        parser.add_argument(name, default=UNKNOWN_SOURCE, help=text)
    parser.add_argument(
        "--way",
        choices=profiles.DIRECTIONS,
        default="forward",
        help="direction of the recording (default: forward, that of uploads)",
    )
    parser.add_argument("--rate", help="rate of the path, if the recording has none")
    parser.add_argument("--rtt", help="idle RTT of the path, if the recording has no delay")
    parser.add_argument(
        "--bin",
        default=DEFAULT_BIN,
        help=f"interval of constant rate (default: {DEFAULT_BIN}); shorter: more exact, slower",
    )
    parser.add_argument(
        "--for",
        dest="length",
        help="length to import (default: all); a shorter capacity trace is repeated",
    )
    add_output_arguments(parser)


def run_import(arguments: argparse.Namespace) -> int:
    """Run `./lab profile import FILE` and return the exit code. Raises BadInput."""
    order = read_options(arguments)
    check_output(order.out, order.name, (".yaml", ".csv"), force=arguments.force)
    imported = import_path(order)
    print(*imported.lines, imported.path, sep="\n")
    return 0


def import_path(order: write_imported.ImportOrder) -> ImportedProfile:
    """Write the profile of a path, and return it. Raises BadInput."""
    observed = order.format.read(order.recordings)
    if isinstance(observed, SpecifiedPath):
        return write_specified.write_specified(order, observed)
    replay = write_imported.compile_replay(order, observed)
    path = write_imported.write_import(order, observed, replay)
    loaded = profiles.load_profile(str(path))
    lines = [f"{order.name}: {profiles.summary(loaded)}"]
    lines += [f"assumed: {sentence}" for sentence in loaded.assumptions]
    settings = {}
    if len(replay.trace):
        settings = {"trace": str(path.with_suffix(".csv")), "bottleneck": "tbf"}
        lines.append(
            f"{len(replay.trace)} changes in {units.show_s(replay.length_s)}, capacity"
            f" {share_text(replay.error.share)} from the recorded per 100 ms, on average; use it as"
            f" profile: {order.name}, trace: {order.name}.csv, bottleneck: tbf"
        )
    return ImportedProfile(path, tuple(lines), settings)


def read_asked_path(files: str, given: Mapping[str, str]) -> ImportedProfile:
    """Import the files of `./lab try --path`, a question with further settings. Raises BadInput.

    Its rate and round trip are what a recording may lack. The profile is in the cache, in a folder
    of its content: the same files are the same question.
    """
    for name in ("profile", "trace"):
        if name in given:
            raise BadInput(f"--path and --{name}: both are the path (name one of them)")
    names = [files] if Path(files).is_file() else files.split(",")
    for name in ("rate", "rtt"):
        if name in given and "," not in given[name]:
            names += [f"--{name}", given[name]]
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    order = read_options(parser.parse_args(names))
    content = "".join([*names[1:], *(recording.text for recording in order.recordings)])
    digest = hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    folder = cache_folder() / "paths" / digest
    folder.mkdir(parents=True, exist_ok=True)
    return import_path(replace(order, out=folder))


def read_options(arguments: argparse.Namespace) -> write_imported.ImportOrder:
    """Check the command line and read the files. Raises BadInput."""
    recordings = tuple(read_recording(path) for path in arguments.files)
    format = FORMATS[arguments.format] if arguments.format else guess_format(recordings)
    if len(recordings) != len(format.files):
        expected = f"{len(format.files)} files ({', '.join(format.files)})"
        raise BadInput(f"{format.name} takes {expected}, not {len(recordings)}")
    name = profile_name(arguments.name, default_name(arguments.files[0]))
    rate, rtt, length = arguments.rate, arguments.rtt, arguments.length
    if rate is not None:
        RATE.of("--rate", rate)
    bin_s = parse_time("--bin", arguments.bin, MIN_BIN_S, MAX_BIN_S)
    return write_imported.ImportOrder(
        name=name,
        format=format,
        recordings=recordings,
        source=arguments.source,
        licence=arguments.licence,
        recorded_direction=arguments.way,
        rate=rate,
        rtt_s=None if rtt is None else parse_time("--rtt", rtt, Fraction(0), MAX_RTT_S),
        bin_s=bin_s,
        length_s=None if length is None else parse_time("--for", length, bin_s, MAX_LENGTH_S),
        out=arguments.out,
    )


def default_name(path: Path) -> str:
    return "imported" if path == STDIN else path.name.split(".")[0]


def read_recording(path: Path) -> Recording:
    """Return a file's text, decompressed if it is gzipped. Raises BadInput."""
    if path == STDIN:
        return Recording("standard input", sys.stdin.read(MAX_BYTES))
    label = shown_path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"{label}: not a file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if data[:2] == b"\x1f\x8b":
            with gzip.open(path) as compressed:
                data = compressed.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise BadInput(f"{label}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise BadInput(f"{label}: larger than any recording should be ({MAX_BYTES >> 20} MiB)")
    try:
        return Recording(label, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{label}:{line}: not UTF-8 text") from None


def guess_format(recordings: tuple[Recording, ...]) -> Format:
    """Return the format that the files look like. Raises BadInput."""
    if len(recordings) == 2:
        return FORMATS["leoreplayer"]
    for candidate in FORMATS.values():
        if candidate.recognises(recordings[0].text):
            return candidate
    raise BadInput(
        f"{recordings[0].label}: looks like none of {', '.join(FORMATS)}: name it by --format"
    )
