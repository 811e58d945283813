"""WAN paths: one YAML file each in netem_profiles/, what was measured beside what was derived from
it.

    name: la-hamina
    source: {seed: thesis, table: "4.1, 4.2"}
    measured:                              # copied from the source, digit by digit; never changed
      - {cc: cubic, upload_mbit: 10.80, download_mbit: 1673.54, rtt_ms: 164.74}
    derived:                               # recomputed whenever the file is read
      method: rfc9438-inverse
      cc: cubic
      forward: {connections: 4, explained_by: loss, loss: 0.136%, …}
    assumptions: [which numbers above and below nobody measured]
    forward: {rate: 1957.25mbit, delay: 82.37ms, jitter: 0ms, loss: 0.136%, buffer: 1bdp}
    reverse: {…}

`forward` carries uploads (client or vantage point to target or site), `reverse` downloads.

A direction may also say `ordered: true` (jitter never lets a packet overtake another) and
`distribution: NAME.dist`: the jitter's shape, a file beside the profile in tc's own format (numbers
between blanks, lines with # are comments). netem draws a number t of it for every packet and delays
that by delay + jitter * t / 8192; without one, jitter is uniform.

A recorded path (./lab profile record) has `recorded`, what ping saw, in the place of `measured` and
`derived`; one from elsewhere (./lab profile import) has `imported`; one that was fitted to rates
(./lab fit) has `fitted`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from gostlab.registry.folders import PROFILES
from gostlab.spec import units
from gostlab.spec.fit_record import FitRecord
from gostlab.spec.value_types import (
    BUFFER,
    CPU_BURST,
    CPU_SHARE,
    HOST_CPUS,
    MACHINE_MEMORY,
    SHARE,
    TIME,
    per_host,
    read_delay,
    read_rate,
)
from gostlab.spec.yaml_source import (
    COUNT,
    MAX_BYTES,
    BadInput,
    KeySchema,
    Node,
    as_written,
    decimal,
    either,
    find_document,
    key,
    list_of,
    load_text,
    mapping_schema,
    names_in,
    one_of,
    parse_document,
    read_mapping,
    record,
    shown_path,
    takes,
    text_like,
    text_of,
    texts_of,
    whole_number,
    yes_no,
)
from gostlab.tcpmodel.buffer_sizing import lossless
from gostlab.tcpmodel.constants import DISTRIBUTION_SCALE, MAX_PERIOD, MTU_BYTES, period_factors
from gostlab.tcpmodel.response import cubic_loss, window_limit_bps

DIRECTIONS = ("forward", "reverse")
# netem: how long a delay table may be, what fits its 16 bits.
MAX_DISTRIBUTION = 16384
MAX_DISTRIBUTION_BYTES = 256 * 1024
MIN_ENTRY, MAX_ENTRY = -(2**15), 2**15 - 1

# What a connection can have in flight: half of Debian's 6 MiB of tcp_rmem becomes window.
DEBIAN_WINDOW_BYTES = 3 * 2**20
# A rate this near the cap is explained by the cap.
CAP_SHARE = 0.9
# A rate this near what all connections' windows allow is explained by them: a test of some ten
# seconds spends a good part of it opening the windows.
WINDOW_SHARE = 0.75
# Derived numbers are written with four digits.
DERIVED_TOLERANCE = 1e-3

PERCENT = SHARE.to(float)
FILE_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
TEXT_NAME = text_like(
    rf"{FILE_NAME}\.(md|txt)", "not the name of a text beside the profile (like my-paths.md)"
)
DISTRIBUTION_NAME = text_like(
    rf"{FILE_NAME}\.dist", "not the name of a file beside the profile (like my-path.dist)"
)
TEXTS = list_of(text_of)
SOURCE_FIELDS = {
    "seed": KeySchema(text_of, "the document that the numbers are from"),
    "table": KeySchema(text_of, "where in it"),
    "note": KeySchema(text_of, "what else to know of it"),
}


# -- what a path does to packets


# Loss on the delay line, as run.json has it, by its `model`: random, each packet with p; gemodel,
# Gilbert-Elliott, tc's p r 1-h 1-k; periodic, exactly every packets-th packet, p being 1/packets.
Loss = Mapping[str, Any]


def random_loss(p: float) -> Loss:
    return {"model": "random", "p": p}


NO_LOSS = random_loss(0.0)


@takes({"type": "integer", "minimum": 2, "maximum": MAX_PERIOD**2}, "packets")
def read_period(node: Node) -> int:
    """How many packets there are to each one lost. Raises BadInput."""
    packets = whole_number(2, MAX_PERIOD**2)(node)
    if period_factors(packets) is None:
        raise node.bad_value(
            f"not the product of two numbers up to {MAX_PERIOD}, each of which one tc action can"
            " count to"
        )
    return packets


GEMODEL_FIELDS = {
    "model": KeySchema(one_of("gemodel"), "Gilbert-Elliott: two states", required=True),
    "p": KeySchema(PERCENT, "from the good state to the bad, per packet", required=True),
    "r": KeySchema(PERCENT, "from the bad state to the good, per packet", required=True),
    "one_minus_h": KeySchema(PERCENT, "loss in the bad state", default=1.0),
    "one_minus_k": KeySchema(PERCENT, "loss in the good state", default=0.0),
}
PERIODIC_FIELDS = {
    "model": KeySchema(one_of("periodic"), "exactly every n-th packet", required=True),
    "packets": KeySchema(read_period, "n", required=True),
}
LOSS_FIELDS = {"gemodel": GEMODEL_FIELDS, "periodic": PERIODIC_FIELDS}


@takes({"anyOf": [mapping_schema(fields) for fields in LOSS_FIELDS.values()]})
def read_loss_model(node: Node) -> Loss:
    """A {model: gemodel, …} or {model: periodic, …}, as LOSS_FIELDS has them. Raises BadInput."""
    assert node.fields is not None
    if "model" not in node.fields:
        raise node.bad(f"model is missing (one of {', '.join(LOSS_FIELDS)})")
    model = one_of(*LOSS_FIELDS)(node.fields["model"])
    values = read_mapping(node, LOSS_FIELDS[model])
    if model == "periodic":
        values["p"] = 1 / values["packets"]
    return values


read_loss = either(PERCENT.to(random_loss), read_loss_model)
read_loss.unit = "%, or a model"


@dataclass(frozen=True)
class ProfileDirection:
    """One direction of a WAN path. `buffer` is as written: what a bdp is, both directions say. A
    rate of None is no limit, on the real clock alone.
    """

    rate_bps: int | None = key(read_rate, "of the bottleneck", "100mbit", named="rate")
    delay_s: Fraction = key(read_delay, "one way", "20ms", named="delay")
    jitter_s: Fraction = key(
        read_delay,
        "how far a packet's delay lies around the delay, each for itself",
        "2ms",
        default=Fraction(0),
        named="jitter",
    )
    loss: Loss = key(read_loss, "on the delay line, per packet", "0.1%", default=NO_LOSS)
    buffer: units.Buffer = key(
        BUFFER,
        "the bottleneck's queue",
        "1bdp",
        "a multiple of the BDP, packets, a size, or the time to send it",
    )
    # netem's delay table; until the profile's folder is known, the node with its file's name
    distribution: tuple[int, ...] | None = key(
        as_written(DISTRIBUTION_NAME.schema),
        "the jitter's shape: a table in tc's format, in a file beside the profile",
        "my-path.dist",
        default=None,
    )
    ordered: bool = key(yes_no, "whether jitter keeps the order of packets", "true", default=False)
    mtu_bytes: int = MTU_BYTES  # of the links: a buffer counts packets of this size

    @property
    def least_delay_s(self) -> Fraction:
        """The least delay that jitter can make of `delay_s`; below 0, netem would send at once."""
        least = -DISTRIBUTION_SCALE if self.distribution is None else min(self.distribution)
        return self.delay_s + self.jitter_s * Fraction(least, DISTRIBUTION_SCALE)

    def to_json(self, rtt_s: Fraction) -> dict[str, Any]:
        """As run.json has it. Without a rate, a buffer that needs one is none: null."""
        packets = None
        if self.rate_bps is not None or not self.buffer.needs_rate:
            packets = self.buffer.packets(self.rate_bps or 0, rtt_s, self.mtu_bytes)
        return {
            "rate_bps": self.rate_bps,
            "delay_ms": float(self.delay_s * 1000),
            "jitter_ms": float(self.jitter_s * 1000),
            "loss": dict(self.loss),
            "buffer_pkts": packets,
            "ordered": self.ordered,
            "distribution": None if self.distribution is None else list(self.distribution),
        }


def with_distribution(direction: ProfileDirection, node: Node, folder: Path) -> ProfileDirection:
    """A direction with the delay table that it names. Raises BadInput, also for too much jitter."""
    named: Any = direction.distribution
    if named is not None:
        file = beside(named, folder, DISTRIBUTION_NAME(named))
        direction = replace(direction, distribution=load_distribution(file))
        if not direction.jitter_s:
            raise node.bad("distribution without jitter: it is the shape of the jitter")
    if direction.least_delay_s < 0:
        short = units.show_time(float(-direction.least_delay_s))
        raise node.bad(
            "jitter is larger than delay: no packet arrives before it was sent"
            if direction.distribution is None
            else f"jitter and distribution reach {short} beyond delay: no packet arrives before it"
            " was sent"
        )
    return direction


def beside(node: Node, folder: Path, name: str) -> Path:
    """A file in the profile's folder. Raises BadInput if it is not there."""
    if not (folder / name).is_file():
        raise node.bad_value("no such file beside the profile")
    return folder / name


def load_distribution(path: Path) -> tuple[int, ...]:
    """A netem delay table in tc's format, more strictly than tc reads it, which ends a line
    silently at what is no number and takes 010 for 8. Raises BadInput, naming file and line.
    """
    shown = shown_path(path)
    table: list[int] = []
    for number, line in enumerate(load_text(path, MAX_DISTRIBUTION_BYTES).splitlines(), 1):
        for word in () if line.startswith("#") else line.split():
            where = f"{shown}:{number}: {units.quoted(word)}"
            if not re.fullmatch(r"0|-?[1-9][0-9]{0,8}", word):
                raise BadInput(f"{where}: not a whole number")
            if not MIN_ENTRY <= int(word) <= MAX_ENTRY:
                raise BadInput(f"{where}: not within 16 bits ({MIN_ENTRY} to {MAX_ENTRY})")
            table.append(int(word))
    if not 1 <= len(table) <= MAX_DISTRIBUTION:
        raise BadInput(
            f"{shown}: {len(table)} numbers in it: netem takes from 1 to {MAX_DISTRIBUTION}"
        )
    return tuple(table)


# -- where its numbers are from


@dataclass(frozen=True)
class MeasuredRow:
    """A row of a source's table, in the source's digits; all None where `missing` says why."""

    cc: str = key(text_of, "congestion control of the sender")
    upload_mbit: Decimal | None = key(decimal, "goodput of the upload", unit="Mbit/s", default=None)
    download_mbit: Decimal | None = key(
        decimal, "goodput of the download", unit="Mbit/s", default=None
    )
    rtt_ms: Decimal | None = key(decimal, "latency", unit="ms", default=None)
    node: str | None = key(text_of, "between whom", default=None)
    missing: str | None = key(text_of, "why there are no numbers", default=None)


def check_measured(node: Node, row: MeasuredRow) -> None:
    """A row has all of its numbers, or says why it has none. Raises BadInput."""
    numbers = (row.upload_mbit, row.download_mbit, row.rtt_ms)
    if row.missing is None and not all(numbers):
        raise node.bad(
            "upload_mbit, download_mbit and rtt_ms above 0 are needed (or missing: why there are"
            " none)"
        )
    if row.missing is not None and any(number is not None for number in numbers):
        raise node.bad("numbers in a row that says it is missing")


@dataclass(frozen=True)
class DerivedDirection:
    """What explains one measured rate: loss, all connections' windows together, or the rate cap."""

    connections: int = key(whole_number(1, 1000), "assumed of the speed test")
    explained_by: str = key(one_of("loss", "windows", "cap"), "what sets the measured rate")
    loss: float = key(PERCENT, "that explains it")
    loss_if_half: float = key(PERCENT, "with half the connections", default=0.0)
    loss_if_twice: float = key(PERCENT, "with twice the connections", default=0.0)


@dataclass(frozen=True)
class Derived:
    """What was computed from `measured`."""

    method: str = key(one_of("rfc9438-inverse"), "how it was derived")
    cc: str = key(one_of("cubic"), "the measured row that it is derived from")
    forward: DerivedDirection = key(record(DerivedDirection))
    reverse: DerivedDirection = key(record(DerivedDirection))


@dataclass(frozen=True)
class Recorded:
    """What ping saw of a path, and when."""

    host: str = key(text_of, "who was pinged")
    address: str | None = key(text_of, "its address then", default=None)
    date: str = key(text_of, "when it began, UTC")
    interval_s: Fraction = key(TIME, "between two pings", named="interval")
    sent: int = key(COUNT, "pings sent")
    answered: int = key(COUNT, "pings answered")
    lost: int = key(COUNT, "pings without an answer")
    bursts: int = key(COUNT, "losses in a row, counted once")
    longest_burst: int = key(COUNT, "the longest of them", unit="pings")
    duplicates: int = key(COUNT, "answers that came twice")
    errors: int = key(COUNT, "messages that a packet could not be delivered")
    overtaken: int = key(COUNT, "answers that came after a later ping's")
    rtt_min_ms: Decimal = key(decimal, "the least round trip", unit="ms")
    rtt_median_ms: Decimal = key(decimal, "the median round trip", unit="ms")
    rtt_mean_ms: Decimal = key(decimal, "the mean round trip", unit="ms")
    rtt_p95_ms: Decimal = key(decimal, "its 95th percentile", unit="ms")
    rtt_max_ms: Decimal = key(decimal, "the longest round trip", unit="ms")


def check_recorded(node: Node, recorded: Recorded) -> None:
    """What ping saw adds up. Raises BadInput."""
    together = recorded.answered + recorded.lost
    if together != recorded.sent:
        raise node.bad(f"answered and lost are {together} together, sent is {recorded.sent}")
    least, most = recorded.rtt_min_ms, recorded.rtt_max_ms
    if not least <= min(recorded.rtt_median_ms, recorded.rtt_mean_ms) <= most:
        raise node.bad("rtt_min_ms, rtt_median_ms, rtt_mean_ms and rtt_max_ms are not in order")


@dataclass(frozen=True)
class Imported:
    """Which files of somebody else's a path was made of, and how far its replay is from them."""

    format: str = key(text_of, "of the files")
    files: tuple[str, ...] = key(TEXTS, "what they were called")
    sha256: tuple[str, ...] = key(TEXTS, "their hashes, in that order")
    source: str = key(text_of, "where they are from")
    licence: str = key(text_of, "under which they may be used")
    length_s: Fraction = key(TIME, "what of them is replayed", named="length")
    bin_s: Fraction = key(TIME, "the rate is the same for so long", named="bin")
    changes: int = key(COUNT, "rows of the trace")
    capacity_error: Fraction = key(
        SHARE, "per 100 ms, how far the replayed capacity is from the recorded, on average"
    )
    ahead_bytes: int = key(
        COUNT,
        "the most that the replay has carried before or after the recording",
        unit="bytes",
        named="ahead",
    )


def check_imported(node: Node, imported: Imported) -> None:
    """Every file has a hash. Raises BadInput."""
    if len(imported.files) != len(imported.sha256):
        raise node.bad(f"{len(imported.files)} files, {len(imported.sha256)} hashes")


@dataclass(frozen=True)
class Machines:
    """The machines at a path's ends, each or by host; None: nobody says."""

    cpus: int | Mapping[str, int] | None = key(
        per_host(HOST_CPUS), "of each, or by host", "2", "CPUs", default=None
    )
    memory_mib: int | Mapping[str, int] | None = key(
        per_host(MACHINE_MEMORY), "of each, or by host", "3.8GiB", default=None, named="memory"
    )
    cpu_share_permille: int = key(
        CPU_SHARE,
        "how many CPUs' time each has in the long run, if less than all of its CPUs'",
        "1",
        "CPUs",
        default=0,
        named="cpu_share",
    )
    cpu_burst_us: int = key(
        CPU_BURST, "how much CPU time it may be ahead of that", "2s", default=0, named="cpu_burst"
    )


@dataclass(frozen=True)
class Profile:
    """A WAN path."""

    name: str = key(text_of, "the file's own name, without .yaml", "my-path")
    title: str = key(text_of, "the path in a line", default="")
    source: Mapping[str, str] = key(
        texts_of(SOURCE_FIELDS), "where its numbers are from", default={}
    )
    see: str = key(
        TEXT_NAME,
        "a text beside the profile, with what is true of several of them",
        "thesis-speed-tests.md",
        default="",
    )
    measured: tuple[MeasuredRow, ...] = key(
        list_of(record(MeasuredRow, check_measured)),
        "copied from the source, digit by digit; never changed",
        default=(),
    )
    derived: Derived | None = key(
        record(Derived),
        "recomputed whenever the file is read, and refused where it differs",
        default=None,
    )
    recorded: Recorded | None = key(record(Recorded, check_recorded), "what ping saw", default=None)
    imported: Imported | None = key(
        record(Imported, check_imported),
        "the recording of somebody else's that it was made of",
        default=None,
    )
    fitted: FitRecord | None = key(
        record(FitRecord), "the measured rates that it was fitted to", default=None
    )
    assumptions: tuple[str, ...] = key(TEXTS, "which numbers nobody measured", default=())
    notes: tuple[str, ...] = key(TEXTS, "what else to know", default=())
    forward: ProfileDirection = key(record(ProfileDirection), "what the client's data take")
    reverse: ProfileDirection = key(record(ProfileDirection), "the way back")
    machines: Machines = key(
        record(Machines), "what the path was measured between, if known", default=Machines()
    )
    path_on_disk: Path = Path()

    @property
    def rtt_ms(self) -> float:
        """The idle round trip, without what the rate takes to send a packet."""
        return float((self.forward.delay_s + self.reverse.delay_s) * 1000)


# -- from a file


def list_profiles() -> list[str]:
    return names_in(PROFILES)


def load_profile(name_or_path: str) -> Profile:
    """A profile by its name in netem_profiles/ or its file's path. Raises BadInput."""
    path = find_document(name_or_path, PROFILES, "profile")
    return profile_of(load_text(path, MAX_BYTES), path)


@lru_cache(maxsize=100)  # each cell of a matrix asks for the same
def profile_of(text: str, path: Path) -> Profile:
    return read_profile(parse_document(text, shown_path(path)), path)


def read_profile(document: Node, path: Path) -> Profile:
    """A profile from a document; `path`: its name, and where its tables are. Raises BadInput."""
    profile = replace(record(Profile)(document), path_on_disk=path)
    nodes = document.fields or {}
    if profile.see:
        beside(nodes["see"], path.parent, profile.see)
    profile = replace(
        profile,
        forward=with_distribution(profile.forward, nodes["forward"], path.parent),
        reverse=with_distribution(profile.reverse, nodes["reverse"], path.parent),
    )
    if profile.name != path.stem:
        raise nodes["name"].bad_value(f"a profile is named like its file ({path.stem})")
    if profile.derived is not None:
        check_derived(profile, profile.derived, nodes["derived"])
    return profile


def path_json(forward: ProfileDirection, reverse: ProfileDirection) -> dict[str, Any]:
    rtt_s = forward.delay_s + reverse.delay_s
    return {"forward": forward.to_json(rtt_s), "reverse": reverse.to_json(rtt_s)}


# -- what its measured rates say of its loss


def derive(rate_mbit: float, rtt_ms: float, connections: int, cap_mbit: float) -> DerivedDirection:
    """What explains the rate of a speed test with CUBIC, as the method rfc9438-inverse has it.

    A rate near the cap is the cap's; one near what the connections' windows allow is the windows';
    neither says anything of loss, so none is assumed. Any other rate is loss's, equally shared by
    the connections, by the inverse of RFC 9438's response function.
    """

    def loss_with(count: float) -> float:
        return cubic_loss(rate_mbit * 1e6 / count, rtt_ms / 1000)

    windows_bps = connections * window_limit_bps(DEBIAN_WINDOW_BYTES, rtt_ms / 1000)
    if rate_mbit >= CAP_SHARE * cap_mbit:
        return DerivedDirection(connections, "cap", 0.0, 0.0, 0.0)
    if rate_mbit * 1e6 >= WINDOW_SHARE * windows_bps:
        return DerivedDirection(connections, "windows", 0.0, 0.0, 0.0)
    losses = map(loss_with, (connections, connections / 2, connections * 2))
    return DerivedDirection(connections, "loss", *losses)


def check_derived(profile: Profile, derived: Derived, node: Node) -> None:
    """Recompute what a profile says was derived. Raises BadInput naming what differs."""
    row = next(
        (row for row in profile.measured if row.cc == derived.cc and row.missing is None), None
    )
    if row is None:
        raise node.bad(f"no measured row with cc {derived.cc} to derive from")
    for name, direction, rate_mbit in (
        ("forward", profile.forward, row.upload_mbit),
        ("reverse", profile.reverse, row.download_mbit),
    ):
        written: DerivedDirection = getattr(derived, name)
        if direction.rate_bps is None or rate_mbit is None or row.rtt_ms is None:
            raise node.bad(
                f"{name}: deriving needs the measured rate and RTT, and a rate cap in {name}.rate"
            )
        computed = derive(
            float(rate_mbit), float(row.rtt_ms), written.connections, direction.rate_bps / 1e6
        )
        if written.explained_by != computed.explained_by:
            raise node.bad(
                f"{name}.explained_by is {written.explained_by}, recomputed it is"
                f" {computed.explained_by}"
            )
        for field in ("loss", "loss_if_half", "loss_if_twice"):
            stands, should = getattr(written, field), getattr(computed, field)
            if abs(stands - should) > DERIVED_TOLERANCE * should:
                raise node.bad(
                    f"{name}.{field} is {share_text(stands)}, recomputed it is {share_text(should)}"
                )
        if direction.loss != random_loss(written.loss):
            raise node.bad(
                f"{name}.loss is {share_text(written.loss)}, but the path's {name}.loss is another"
            )


def share_text(share: float) -> str:
    """A share as a profile writes it: a percentage of four digits without an exponent."""
    return f"{Decimal(f'{100 * share:.4g}'):f}%"


def summary(profile: Profile) -> str:
    """A line for people."""
    parts = [f"{profile.rtt_ms:g} ms"]
    for name in DIRECTIONS:
        direction: ProfileDirection = getattr(profile, name)
        loss = (
            "no loss"
            if lossless(direction.loss)
            else f"{direction.loss['model']} loss {share_text(direction.loss['p'])}"
        )
        parts.append(
            f"{name} {units.show_rate(direction.rate_bps)}, {loss}, buffer {direction.buffer}"
        )
    return " · ".join(parts)
