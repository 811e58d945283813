# SPDX-License-Identifier: MIT
"""Implement `./lab profile import FILE`: arguments, checks and output."""

from __future__ import annotations

import argparse
import codecs
import gzip
import hashlib
import io
import re
import stat
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from gostlab.importers.base import ImportFormat, Recording, SpecifiedPath
from gostlab.importers.mahimahi import file_direction
from gostlab.profile_import import write_imported, write_specified
from gostlab.profile_import.find_importers import FORMATS
from gostlab.profile_import.profile_writer import (
    ImportedProfile,
    add_output_arguments,
    check_output,
    parse_time_option,
    profile_name,
)
from gostlab.registry.folders import cache_folder
from gostlab.spec import profile as profiles
from gostlab.spec import units
from gostlab.spec.profile import share_text
from gostlab.spec.value_types import RATE
from gostlab.spec.yaml_source import BadInput, display_path

MAX_BYTES = 100 * 2**20
DEFAULT_BIN = "20ms"
MIN_BIN_S, MAX_BIN_S = Fraction(1, 1000), Fraction(10)
MAX_RTT_S = Fraction(20)
UNKNOWN_SOURCE = "not said"
STDIN, STDIN_LABEL = Path("-"), "standard input"
GOST_CONFIG = re.compile(
    r'^\W*(?:services|chains|ServeNodes|ChainNodes)"?\s*:|^gost -', re.MULTILINE
)


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
        help="direction that the recording has as its upload, or its only one (default: forward)",
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
    recorded = order.format.read(order.recordings)
    if isinstance(recorded, SpecifiedPath):
        return write_specified.write_specified(order, recorded)
    replay = write_imported.compile_replay(order, recorded)
    path = write_imported.write_import(order, replay)
    loaded = profiles.load_profile(str(path))
    lines = [f"{order.name}: {profiles.summary(loaded)}", *replay.sources]
    lines += [f"assumed: {sentence}" for sentence in loaded.assumptions]
    settings = {}
    if len(replay.trace):
        settings = {"trace": str(path.with_suffix(".csv")), "bottleneck": "tbf"}
        capacity = (
            f", capacity {share_text(replay.error.share)} from the recorded per 100 ms, on average"
            if replay.trace["rate_bps"].any()
            else ""
        )
        lines.append(
            f"{len(replay.trace)} changes in {units.show_s(replay.length_s)}{capacity}; use it as"
            f" profile: {order.name}, trace: {order.name}.csv, bottleneck: tbf"
        )
    return ImportedProfile(path, tuple(lines), settings)


def import_for_question(files: str, given: Mapping[str, str]) -> ImportedProfile:
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
    check_files(format, recordings)
    name = profile_name(arguments.name, default_name(arguments.files[0]))
    rate, rtt, length = arguments.rate, arguments.rtt, arguments.length
    if rate is not None:
        RATE.of("--rate", rate)
    bin_s = parse_time_option("--bin", arguments.bin, MIN_BIN_S, MAX_BIN_S)
    return write_imported.ImportOrder(
        name=name,
        format=format,
        recordings=recordings,
        source=arguments.source,
        licence=arguments.licence,
        recorded_direction=arguments.way,
        rate=rate,
        rtt_s=None if rtt is None else parse_time_option("--rtt", rtt, Fraction(0), MAX_RTT_S),
        bin_s=bin_s,
        length_s=None
        if length is None
        else parse_time_option("--for", length, bin_s, write_imported.MAX_LENGTH_S),
        out=arguments.out,
    )


def default_name(path: Path) -> str:
    return "imported" if path == STDIN else path.name.split(".")[0]


def read_recording(path: Path) -> Recording:
    """Return a file's text, decompressed if it is gzipped; - is standard input. Raises BadInput."""
    label = STDIN_LABEL if path == STDIN else display_path(path)
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            if not stat.S_ISREG(path.stat().st_mode):
                raise BadInput(f"{label}: not a file")
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        if data[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(data)) as compressed:
                data = compressed.read(MAX_BYTES + 1)
    except EOFError:
        raise BadInput(f"{label}: its gzip data are cut off (copy or record it again)") from None
    except (OSError, zlib.error, ValueError) as error:
        raise BadInput(f"{label}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise BadInput(f"{label}: larger than any recording should be ({MAX_BYTES >> 20} MiB)")
    # PowerShell's > writes UTF-16.
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return Recording(label, data.decode("utf-16", "replace"))
    return Recording(label, data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape"))


def check_files(format: ImportFormat, recordings: Sequence[Recording]) -> None:
    """Require as many files as a format takes, of UTF-8 unless it takes others. Raises BadInput."""
    min_files = len(format.files) - format.optional_files
    if not min_files <= len(recordings) <= len(format.files):
        count = f"{min_files} or {len(format.files)}" if format.optional_files else f"{min_files}"
        plural = "" if count == "1" else "s"
        expected = f"{count} file{plural} ({', '.join(format.files)})"
        raise BadInput(f"{format.name} takes {expected}, not {len(recordings)}")
    for recording in () if format.any_bytes else recordings:
        if wrong := re.search("[\ud800-\udfff]", recording.text):
            line = recording.text.count("\n", 0, wrong.start()) + 1
            raise BadInput(f"{recording.label}:{line}: not UTF-8 text")


def guess_format(recordings: Sequence[Recording]) -> ImportFormat:
    """Return the format that the files look like. Raises BadInput."""
    if len(recordings) == 2 and all(map(is_trace, recordings)):
        return guess_pair(recordings)
    for candidate in FORMATS.values():
        if candidate.recognises(recordings[0].text):
            return candidate
    if len(recordings) == 2:
        return FORMATS["leoreplayer"]
    label, text = recordings[0].label, recordings[0].text
    if not text.strip():
        raise BadInput(f"{label}: empty (nothing was recorded, or it went to standard error)")
    if GOST_CONFIG.search(text):
        raise BadInput(f"{label}: a tunnel, not a path: ./lab try --gost-config FILE takes it")
    names = ", ".join(FORMATS)
    raise BadInput(
        f"{label}: looks like none of {names}: name it by --format; or record the"
        " path yourself (./lab profile record HOST)"
    )


def is_trace(recording: Recording) -> bool:
    return FORMATS["mahimahi"].recognises(recording.text)


def guess_pair(recordings: Sequence[Recording]) -> ImportFormat:
    """Return whose pair two files of ascending numbers are, by their names. Raises BadInput."""
    names = [recording.label.rpartition("/")[2].lower() for recording in recordings]
    if re.search(r"delay|latency|owd", names[1]):
        return FORMATS["leoreplayer"]
    if {file_direction(name) for name in names} == set(profiles.DIRECTIONS):
        return FORMATS["mahimahi"]
    raise BadInput(
        f"{' and '.join(names)}: an upload's and a download's trace (--format mahimahi), or"
        " capacity and delays (--format leoreplayer)?"
    )
