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
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from gostlab.ask import units
from gostlab.ask.document import (
    BadInput,
    Field,
    Node,
    Reader,
    decimal,
    find_document,
    list_of,
    load_document,
    mapping,
    mapping_schema,
    names_in,
    one_of,
    quantity,
    read_mapping,
    shown_path,
    takes,
    text_of,
    texts_of,
    whole,
    yes_no,
)
from gostlab.ask.fitted import FITTED, Fitted
from gostlab.ask.limits import MTU_BYTES
from gostlab.ask.machines import MACHINES, UNKNOWN_MACHINES, Machines
from gostlab.ask.response import cubic_loss, window_limit_bps

FOLDER = Path(__file__).resolve().parents[2] / "netem_profiles"
DIRECTIONS = ("forward", "reverse")
MAX_DELAY_S = 10
# netem: a table's number that stands for one jitter, how long a table may be, what fits its 16
# bits.
DISTRIBUTION_SCALE = 8192
MAX_DISTRIBUTION = 16384
MAX_DISTRIBUTION_BYTES = 256 * 1024
LEAST_ENTRY, MOST_ENTRY = -(2**15), 2**15 - 1
# The most that one tc action counts to; two in a row count to the product.
MAX_PERIOD = 10_000

# What one connection can have in flight: Debian's tcp_rmem ends at 6 MiB, half of which becomes
# window.
DEBIAN_WINDOW_BYTES = 3 * 2**20
# A rate this near the cap is explained by the cap.
CAP_SHARE = 0.9
# A rate this near what all connections' windows allow is explained by them: a test of some ten
# seconds spends a good part of it opening the windows.
WINDOW_SHARE = 0.75
# Derived numbers are written with four digits.
DERIVED_TOLERANCE = 1e-3


@dataclass(frozen=True)
class LossModel:
    """Loss on the delay line: random, each packet with p; gemodel, Gilbert-Elliott, tc's p r 1-h
    1-k; or periodic, exactly every packets-th packet, p being 1/packets.
    """

    model: str
    p: float
    r: float = 0.0
    one_minus_h: float = 0.0
    one_minus_k: float = 0.0
    packets: int = 0

    def to_json(self) -> dict[str, Any]:
        """As run.json has it."""
        if self.model == "random":
            return {"model": "random", "p": self.p}
        if self.model == "periodic":
            return {"model": "periodic", "p": self.p, "packets": self.packets}
        return {
            "model": "gemodel",
            "p": self.p,
            "r": self.r,
            "one_minus_h": self.one_minus_h,
            "one_minus_k": self.one_minus_k,
        }

    @property
    def lossless(self) -> bool:
        """Whether nothing is ever lost."""
        return lossless(self.to_json())


def lossless(loss: Mapping[str, Any]) -> bool:
    """Whether a loss model, as run.json has it, never loses anything."""
    return not (loss["p"] or loss.get("one_minus_k"))


NO_LOSS = LossModel("random", 0.0)


@dataclass(frozen=True)
class Direction:
    """One direction of a WAN path. `buffer` is as written: what a bdp is, only both directions
    say.
    """

    rate_bps: int | None  # None: no limit, possible only on the real clock
    delay_s: Fraction  # one way
    jitter_s: Fraction
    loss: LossModel
    buffer: units.Buffer
    distribution: tuple[int, ...] | None = None  # netem's delay table; None: jitter is uniform
    ordered: bool = False
    mtu_bytes: int = MTU_BYTES  # of the links: a buffer counts packets of this size

    @property
    def least_delay_s(self) -> Fraction:
        """The least delay that jitter can make of `delay_s`; below 0, netem would send at once."""
        least = -DISTRIBUTION_SCALE if self.distribution is None else min(self.distribution)
        return self.delay_s + self.jitter_s * Fraction(least, DISTRIBUTION_SCALE)

    def to_json(self, rtt_s: Fraction) -> dict[str, Any]:
        """As run.json has it. A buffer of a rate's BDP or time, where there is no rate, is
        no buffer: null.
        """
        packets = None
        if self.rate_bps is not None or not self.buffer.needs_rate:
            packets = self.buffer.packets(self.rate_bps or 0, rtt_s, self.mtu_bytes)
        return {
            "rate_bps": self.rate_bps,
            "delay_ms": float(self.delay_s * 1000),
            "jitter_ms": float(self.jitter_s * 1000),
            "loss": self.loss.to_json(),
            "buffer_pkts": packets,
            "ordered": self.ordered,
            "distribution": None if self.distribution is None else list(self.distribution),
        }


@dataclass(frozen=True)
class Measured:
    """One row of a source's table. Numbers keep the source's digits; all None where `missing` says
    why.
    """

    cc: str
    upload_mbit: Decimal | None
    download_mbit: Decimal | None
    rtt_ms: Decimal | None
    node: str | None
    missing: str | None


@dataclass(frozen=True)
class DerivedDirection:
    """What explains one measured rate: loss, the windows of all connections together, or the rate
    cap.
    """

    connections: int
    explained_by: str  # loss | windows | cap
    loss: float
    loss_if_half: float  # with half, and twice, the connections assumed
    loss_if_twice: float


@dataclass(frozen=True)
class Derived:
    """What was computed from `measured`."""

    method: str
    cc: str
    forward: DerivedDirection
    reverse: DerivedDirection


@dataclass(frozen=True)
class Recorded:
    """What ping saw of a path, and when."""

    host: str
    address: str | None
    date: str  # UTC, when it began
    interval_s: Fraction
    sent: int
    answered: int
    lost: int
    bursts: int  # of losses in a row
    longest_burst: int
    duplicates: int
    errors: int  # messages that a packet could not be delivered
    overtaken: int  # answers that came after a later packet's
    rtt_min_ms: Decimal
    rtt_median_ms: Decimal
    rtt_mean_ms: Decimal
    rtt_p95_ms: Decimal
    rtt_max_ms: Decimal


@dataclass(frozen=True)
class Imported:
    """Which files of somebody else's a path was made of, and how far its replay is from them."""

    format: str
    files: tuple[str, ...]
    sha256: tuple[str, ...]
    source: str
    licence: str
    length_s: Fraction
    bin_s: Fraction  # the rate is the same for so long
    changes: int  # rows of the trace
    capacity_error: Fraction  # per 100 ms, a share: the mean of replayed less recorded, absolute
    ahead_bytes: int  # the most that the replay has carried before or after the recording


@dataclass(frozen=True)
class Profile:
    """A WAN path."""

    name: str
    title: str
    source: Mapping[str, str]
    see: str  # a text beside it, with what is true of several profiles; "": none
    measured: tuple[Measured, ...]
    derived: Derived | None
    recorded: Recorded | None
    imported: Imported | None
    fitted: Fitted | None
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    forward: Direction
    reverse: Direction
    machines: Machines
    path_on_disk: Path

    @property
    def rtt_ms(self) -> float:
        """The idle round trip, without what the rate takes to send a packet."""
        return float((self.forward.delay_s + self.reverse.delay_s) * 1000)


def list_profiles() -> list[str]:
    """The names in netem_profiles/."""
    return names_in(FOLDER)


def find_profile(name_or_path: str) -> Path:
    """The file of a profile. Raises BadInput, saying what there is."""
    return find_document(name_or_path, FOLDER, "profile")


def load_profile(name_or_path: str) -> Profile:
    """Read and check a profile by its name in netem_profiles/ or its file's path. Raises
    BadInput.
    """
    path = find_profile(name_or_path)
    try:
        status = path.stat()
    except (OSError, ValueError):
        return read_profile(load_document(path), path)
    return read_unchanged(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=100)
def read_unchanged(path: Path, _mtime_ns: int, _size: int) -> Profile:
    """A profile, read again only when its file has changed: a matrix asks for the same one in every
    cell.
    """
    return read_profile(load_document(path), path)


def read_profile(document: Node, path: Path) -> Profile:
    """A profile from a document, its derived numbers recomputed; `path` says what it should be
    called and where its distributions are. Raises BadInput.
    """
    profile = Profile(**read_mapping(document, profile_fields(path.parent)), path_on_disk=path)
    assert document.fields is not None
    if profile.name != path.stem:
        raise document.fields["name"].bad_value(f"a profile is named like its file ({path.stem})")
    if profile.derived is not None:
        check_derived(profile, profile.derived, document.fields["derived"])
    return profile


def path_json(forward: Direction, reverse: Direction) -> dict[str, Any]:
    """A path as run.json has it."""
    rtt_s = forward.delay_s + reverse.delay_s
    return {"forward": forward.to_json(rtt_s), "reverse": reverse.to_json(rtt_s)}


def derive(rate_mbit: float, rtt_ms: float, connections: int, cap_mbit: float) -> DerivedDirection:
    """What explains the rate of a speed test with CUBIC, as the method rfc9438-inverse has it.

    A rate near the cap is the cap's; one near what the connections' windows allow is the windows';
    neither says anything of loss, so none is assumed. Any other rate is loss's, equally shared by
    the connections, by the inverse of RFC 9438's response function.
    """

    def loss_with(count: float) -> float:
        return cubic_loss(rate_mbit * 1e6 / count, rtt_ms / 1000)

    if rate_mbit >= CAP_SHARE * cap_mbit:
        return DerivedDirection(connections, "cap", 0.0, 0.0, 0.0)
    if rate_mbit * 1e6 >= WINDOW_SHARE * connections * window_limit_bps(
        DEBIAN_WINDOW_BYTES, rtt_ms / 1000
    ):
        return DerivedDirection(connections, "windows", 0.0, 0.0, 0.0)
    return DerivedDirection(
        connections,
        "loss",
        loss_with(connections),
        loss_with(connections / 2),
        loss_with(connections * 2),
    )


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
        for key in ("loss", "loss_if_half", "loss_if_twice"):
            stands, should = getattr(written, key), getattr(computed, key)
            if abs(stands - should) > DERIVED_TOLERANCE * should:
                raise node.bad(
                    f"{name}.{key} is {share_text(stands)}, recomputed it is {share_text(should)}"
                )
        if direction.loss != LossModel("random", written.loss):
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
        direction: Direction = getattr(profile, name)
        loss = (
            "no loss"
            if direction.loss.lossless
            else f"{direction.loss.model} loss {share_text(direction.loss.p)}"
        )
        parts.append(
            f"{name} {units.show_rate(direction.rate_bps)}, {loss}, buffer {direction.buffer}"
        )
    return " · ".join(parts)


@takes({"type": "string", "pattern": rf"^\s*unlimited\s*$|{units.RATE_PATTERN}"})
def read_rate(node: Node) -> int | None:
    """A rate, or `unlimited`. Raises BadInput."""
    text = text_of(node)
    if text == "unlimited":
        return None
    if not re.search(r"[0-9]", text):
        raise node.bad_value("not a rate (like 100mbit), or unlimited for none")
    return RATE(node)


@takes({"type": "string", "pattern": units.TIME_PATTERN})
def read_delay(node: Node) -> Fraction:
    """A delay of at most 10 s, so that packets in flight stay countable. Raises BadInput."""
    delay = TIME(node)
    if delay > MAX_DELAY_S:
        raise node.bad_value(f"longer than {MAX_DELAY_S} s")
    return delay


@takes({"type": "integer", "minimum": 2, "maximum": MAX_PERIOD**2})
def read_period(node: Node) -> int:
    """How many packets there are to each one lost. Raises BadInput."""
    packets = whole(2, MAX_PERIOD**2)(node)
    if period_factors(packets) is None:
        raise node.bad_value(
            f"not the product of two numbers up to {MAX_PERIOD}, each of which one tc action can"
            " count to"
        )
    return packets


RATE = quantity(units.rate, units.RATE_PATTERN)
TIME = quantity(units.seconds, units.TIME_PATTERN)
SHARE = quantity(units.share, units.SHARE_PATTERN)
BUFFER = quantity(units.buffer, units.BUFFER_PATTERN)
GEMODEL_FIELDS = {
    "model": Field(one_of("gemodel"), required=True, says="Gilbert-Elliott: two states"),
    "p": Field(SHARE, required=True, says="from the good state to the bad, per packet", unit="%"),
    "r": Field(SHARE, required=True, says="from the bad state to the good, per packet", unit="%"),
    "one_minus_h": Field(SHARE, default=Fraction(1), says="loss in the bad state", unit="%"),
    "one_minus_k": Field(SHARE, default=Fraction(0), says="loss in the good state", unit="%"),
}
PERIODIC_FIELDS = {
    "model": Field(one_of("periodic"), required=True, says="exactly every n-th packet"),
    "packets": Field(read_period, required=True, says="n", unit="packets"),
}
LOSS_FIELDS = {"gemodel": GEMODEL_FIELDS, "periodic": PERIODIC_FIELDS}


@takes(
    {
        "anyOf": [
            SHARE.schema,
            mapping_schema(GEMODEL_FIELDS),
            mapping_schema(PERIODIC_FIELDS),
        ]
    }
)
def read_loss(node: Node) -> LossModel:
    """`1.5%`, {model: gemodel, p: …, r: …, one_minus_h: …, one_minus_k: …} or {model: periodic,
    packets: …}.

    Raises BadInput.
    """
    if node.fields is None:
        return LossModel("random", float(SHARE(node)))
    if "model" not in node.fields:
        raise node.bad(f"model is missing (one of {', '.join(LOSS_FIELDS)})")
    model = one_of(*LOSS_FIELDS)(node.fields["model"])
    values = read_mapping(node, LOSS_FIELDS[model])
    if model == "periodic":
        return LossModel("periodic", 1 / values["packets"], packets=values["packets"])
    p, r, one_minus_h, one_minus_k = (
        float(values[key]) for key in ("p", "r", "one_minus_h", "one_minus_k")
    )
    return LossModel("gemodel", p, r, one_minus_h, one_minus_k)


def period_factors(packets: int) -> tuple[int, int] | None:
    """Two numbers, the larger one first, that two tc actions in a row count to, every one of the
    first's packets being one to the second; None where there are none.
    """
    for one in range(min(packets, MAX_PERIOD), 0, -1):
        if packets % one == 0:
            other = packets // one
            return (one, other) if other <= MAX_PERIOD else None
    return None


def direction_in(folder: Path) -> Reader[Direction]:
    """Reads one direction of a path whose distribution is in `folder`."""

    def read_direction(node: Node, values: Mapping[str, Any]) -> Direction:
        name: Node | None = values["distribution"]
        direction = Direction(
            rate_bps=values["rate"],
            delay_s=values["delay"],
            jitter_s=values["jitter"],
            loss=values["loss"],
            buffer=values["buffer"],
            distribution=None if name is None else distribution_beside(name, folder),
            ordered=values["ordered"],
        )
        if direction.distribution is not None and not direction.jitter_s:
            raise node.bad("distribution without jitter: it is the shape of the jitter")
        if direction.least_delay_s < 0 and direction.distribution is None:
            raise node.bad("jitter is larger than delay: no packet arrives before it was sent")
        if direction.least_delay_s < 0:
            short = units.show_time(float(-direction.least_delay_s))
            raise node.bad(
                f"jitter and distribution reach {short} beyond delay: no packet arrives before it"
                " was sent"
            )
        return direction

    return mapping(DIRECTION_FIELDS, read_direction)


def text_beside(folder: Path) -> Reader[str]:
    """Reads the name of a text in `folder`."""

    @takes({"type": "string", "pattern": f"^{TEXT_NAME}$"})
    def read_name(node: Node) -> str:
        name = text_of(node)
        if not re.fullmatch(TEXT_NAME, name):
            raise node.bad_value("not the name of a text beside the profile (like my-paths.md)")
        if not (folder / name).is_file():
            raise node.bad_value("no such file beside the profile")
        return name

    return read_name


def distribution_beside(node: Node, folder: Path) -> tuple[int, ...]:
    """The delay table that a file beside the profile holds. Raises BadInput."""
    name = text_of(node)
    if not re.fullmatch(DISTRIBUTION_NAME, name):
        raise node.bad_value("not the name of a file beside the profile (like my-path.dist)")
    if not (folder / name).is_file():
        raise node.bad_value("no such file beside the profile")
    return load_distribution(folder / name)


def load_distribution(path: Path) -> tuple[int, ...]:
    """A netem delay table in tc's format, more strictly than tc reads it, which ends a line
    silently at what is no number and takes 010 for 8. Raises BadInput, naming file and line.
    """
    shown = shown_path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DISTRIBUTION_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{shown}: {error.strerror or error}") from None
    if len(data) > MAX_DISTRIBUTION_BYTES:
        raise BadInput(f"{shown}: larger than any table should be ({MAX_DISTRIBUTION_BYTES} bytes)")
    table: list[int] = []
    for number, line in enumerate(data.decode("ascii", errors="replace").splitlines(), 1):
        if line.startswith("#"):
            continue
        for word in line.split():
            if not re.fullmatch(r"0|-?[1-9][0-9]{0,8}", word):
                raise BadInput(f"{shown}:{number}: {units.quoted(word)}: not a whole number")
            if not LEAST_ENTRY <= int(word) <= MOST_ENTRY:
                raise BadInput(
                    f"{shown}:{number}: {word}: not within 16 bits ({LEAST_ENTRY} to {MOST_ENTRY})"
                )
            table.append(int(word))
        if len(table) > MAX_DISTRIBUTION:
            raise BadInput(
                f"{shown}:{number}: more than {MAX_DISTRIBUTION} numbers, the most that netem takes"
            )
    if not table:
        raise BadInput(f"{shown}: no numbers in it")
    return tuple(table)


def read_recorded(node: Node, values: dict[str, Any]) -> Recorded:
    """What ping saw. Raises BadInput where its numbers do not add up."""
    recorded = Recorded(interval_s=values.pop("interval"), **values)
    if recorded.answered + recorded.lost != recorded.sent:
        raise node.bad(
            f"answered and lost are {recorded.answered + recorded.lost} together, sent is"
            f" {recorded.sent}"
        )
    if (
        not recorded.rtt_min_ms
        <= min(recorded.rtt_median_ms, recorded.rtt_mean_ms)
        <= recorded.rtt_max_ms
    ):
        raise node.bad("rtt_min_ms, rtt_median_ms, rtt_mean_ms and rtt_max_ms are not in order")
    return recorded


def read_imported(node: Node, values: dict[str, Any]) -> Imported:
    """Which files a path was made of. Raises BadInput where a file has no hash."""
    if len(values["files"]) != len(values["sha256"]):
        raise node.bad(f"{len(values['files'])} files, {len(values['sha256'])} hashes")
    return Imported(
        length_s=values.pop("length"),
        bin_s=values.pop("bin"),
        ahead_bytes=values.pop("ahead"),
        **values,
    )


def read_measured(node: Node, values: Mapping[str, Any]) -> Measured:
    """One row of a table. Raises BadInput."""
    row = Measured(**values)
    numbers = (row.upload_mbit, row.download_mbit, row.rtt_ms)
    if row.missing is None and not all(number is not None and number > 0 for number in numbers):
        raise node.bad(
            "upload_mbit, download_mbit and rtt_ms above 0 are needed (or missing: why there are"
            " none)"
        )
    if row.missing is not None and any(number is not None for number in numbers):
        raise node.bad("numbers in a row that says it is missing")
    return row


def read_derived_direction(_node: Node, values: Mapping[str, Any]) -> DerivedDirection:
    """What was derived of one direction."""
    return DerivedDirection(
        values["connections"],
        values["explained_by"],
        *(float(values[key]) for key in ("loss", "loss_if_half", "loss_if_twice")),
    )


TEXT_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(md|txt)"
DISTRIBUTION_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.dist"
DIRECTION_FIELDS = {
    "rate": Field(
        read_rate, required=True, says="of the bottleneck", unit="bit/s", example="100mbit"
    ),
    "delay": Field(read_delay, required=True, says="one way", unit="a time", example="20ms"),
    "jitter": Field(
        read_delay,
        default=Fraction(0),
        says="how far a packet's delay lies around the delay, each for itself",
        unit="a time",
        example="2ms",
    ),
    "loss": Field(
        read_loss,
        default=NO_LOSS,
        says="on the delay line, per packet",
        unit="%, or a model",
        example="0.1%",
    ),
    "buffer": Field(
        BUFFER,
        required=True,
        says="the bottleneck's queue",
        unit="a multiple of the BDP, packets, a size, or the time to send it",
        example="1bdp",
    ),
    "distribution": Field(
        Reader(lambda node: node, {"type": "string", "pattern": f"^{DISTRIBUTION_NAME}$"}),
        says="the jitter's shape: a table in tc's format, in a file beside the profile",
        example="my-path.dist",
    ),
    "ordered": Field(
        yes_no, default=False, says="whether jitter keeps the order of packets", example="true"
    ),
}
MEASURED_FIELDS = {
    "cc": Field(text_of, required=True, says="congestion control of the sender"),
    "upload_mbit": Field(decimal, says="goodput of the upload", unit="Mbit/s"),
    "download_mbit": Field(decimal, says="goodput of the download", unit="Mbit/s"),
    "rtt_ms": Field(decimal, says="latency", unit="ms"),
    "node": Field(text_of, says="between whom"),
    "missing": Field(text_of, says="why there are no numbers"),
}
DERIVED_DIRECTION_FIELDS = {
    "connections": Field(whole(1, 1000), required=True, says="assumed of the speed test"),
    "explained_by": Field(
        one_of("loss", "windows", "cap"), required=True, says="what sets the measured rate"
    ),
    "loss": Field(SHARE, required=True, says="that explains it", unit="%"),
    "loss_if_half": Field(SHARE, default=Fraction(0), says="with half the connections", unit="%"),
    "loss_if_twice": Field(SHARE, default=Fraction(0), says="with twice the connections", unit="%"),
}
DERIVED_DIRECTION = mapping(DERIVED_DIRECTION_FIELDS, read_derived_direction)
DERIVED_FIELDS = {
    "method": Field(one_of("rfc9438-inverse"), required=True, says="how it was derived"),
    "cc": Field(one_of("cubic"), required=True, says="the measured row that it is derived from"),
    "forward": Field(DERIVED_DIRECTION, required=True),
    "reverse": Field(DERIVED_DIRECTION, required=True),
}
COUNT = whole(0, 10**9)
RECORDED_FIELDS = {
    "host": Field(text_of, required=True, says="who was pinged"),
    "address": Field(text_of, says="its address then"),
    "date": Field(text_of, required=True, says="when it began, UTC"),
    "interval": Field(TIME, required=True, says="between two pings", unit="a time"),
    "sent": Field(COUNT, required=True, says="pings sent"),
    "answered": Field(COUNT, required=True, says="pings answered"),
    "lost": Field(COUNT, required=True, says="pings without an answer"),
    "bursts": Field(COUNT, required=True, says="losses in a row, counted once"),
    "longest_burst": Field(COUNT, required=True, says="the longest of them", unit="pings"),
    "duplicates": Field(COUNT, required=True, says="answers that came twice"),
    "errors": Field(COUNT, required=True, says="messages that a packet could not be delivered"),
    "overtaken": Field(COUNT, required=True, says="answers that came after a later ping's"),
    "rtt_min_ms": Field(decimal, required=True, says="the least round trip", unit="ms"),
    "rtt_median_ms": Field(decimal, required=True, says="the median round trip", unit="ms"),
    "rtt_mean_ms": Field(decimal, required=True, says="the mean round trip", unit="ms"),
    "rtt_p95_ms": Field(decimal, required=True, says="its 95th percentile", unit="ms"),
    "rtt_max_ms": Field(decimal, required=True, says="the longest round trip", unit="ms"),
}
IMPORTED_FIELDS = {
    "format": Field(text_of, required=True, says="of the files"),
    "files": Field(list_of(text_of), required=True, says="what they were called"),
    "sha256": Field(list_of(text_of), required=True, says="their hashes, in that order"),
    "source": Field(text_of, required=True, says="where they are from"),
    "licence": Field(text_of, required=True, says="under which they may be used"),
    "length": Field(TIME, required=True, says="what of them is replayed", unit="a time"),
    "bin": Field(TIME, required=True, says="the rate is the same for so long", unit="a time"),
    "changes": Field(COUNT, required=True, says="rows of the trace"),
    "capacity_error": Field(
        SHARE,
        required=True,
        says="per 100 ms, how far the replayed capacity is from the recorded, on average",
        unit="%",
    ),
    "ahead": Field(
        COUNT,
        required=True,
        says="the most that the replay has carried before or after the recording",
        unit="bytes",
    ),
}
SOURCE_FIELDS = {
    "seed": Field(text_of, says="the document that the numbers are from"),
    "table": Field(text_of, says="where in it"),
    "note": Field(text_of, says="what else to know of it"),
}
TEXTS = list_of(text_of)


def profile_fields(folder: Path) -> dict[str, Field]:
    """The keys of a profile whose distributions are in `folder`."""
    direction = direction_in(folder)
    return {
        "name": Field(
            text_of, required=True, says="the file's own name, without .yaml", example="my-path"
        ),
        "title": Field(text_of, default="", says="the path in a line"),
        "source": Field(texts_of(SOURCE_FIELDS), default={}, says="where its numbers are from"),
        "see": Field(
            text_beside(folder),
            default="",
            says="a text beside the profile, with what is true of several of them",
            example="thesis-speed-tests.md",
        ),
        "measured": Field(
            list_of(mapping(MEASURED_FIELDS, read_measured)),
            default=(),
            says="copied from the source, digit by digit; never changed",
        ),
        "derived": Field(
            mapping(DERIVED_FIELDS, lambda _node, values: Derived(**values)),
            says="recomputed whenever the file is read, and refused where it differs",
        ),
        "recorded": Field(mapping(RECORDED_FIELDS, read_recorded), says="what ping saw"),
        "imported": Field(
            mapping(IMPORTED_FIELDS, read_imported),
            says="the recording of somebody else's that it was made of",
        ),
        "fitted": Field(FITTED, says="the measured rates that it was fitted to"),
        "assumptions": Field(TEXTS, default=(), says="which numbers nobody measured"),
        "notes": Field(TEXTS, default=(), says="what else to know"),
        "forward": Field(direction, required=True, says="what the client's data take"),
        "reverse": Field(direction, required=True, says="the way back"),
        "machines": Field(
            MACHINES, default=UNKNOWN_MACHINES, says="what the path was measured between, if known"
        ),
    }


__all__ = (
    "BadInput",
    "Derived",
    "Direction",
    "LossModel",
    "Measured",
    "Profile",
    "Recorded",
    "derive",
    "list_profiles",
    "load_distribution",
    "load_profile",
    "lossless",
    "path_json",
    "period_factors",
    "read_profile",
    "summary",
)
