# SPDX-License-Identifier: MIT
r"""Read WAN paths: one YAML file each in netem_profiles/, with measured and derived values.

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

A direction may also set `ordered: true` (jitter never reorders packets) and the jitter's shape:
`distribution: pareto` (or normal, or paretonormal, as tc names them) or `distribution: NAME.dist`,
a file beside the profile in tc's own format (numbers separated by blanks, comment lines with #).
netem draws an entry t of the table for every packet and delays the packet by delay + jitter * t /
8192; without a table, jitter is uniform. spec.impairments has what else may happen to packets.

A recorded path (./lab profile record) has `recorded`, the summary of ping's measurements, instead
of `measured` and `derived`; one imported from another tool (./lab profile import) has `imported`;
one fitted to rates (./lab fit) has `fitted`.
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
from gostlab.spec.impairments import (
    CORRELATION,
    PERCENT,
    read_outage,
    read_policer,
    read_reorder,
    read_share_of_packets,
    read_slot,
    reject_full_correlation,
)
from gostlab.spec.path_spec import (
    DIRECTIONS,
    NO_LOSS,
    UNIFORM_JITTER,
    DirectionSpec,
    LossSpec,
    OutageSpec,
    PathSpec,
    PolicerSpec,
    ReorderSpec,
    ShareSpec,
    SlotSpec,
    random_loss,
)
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
    display_path,
    find_document,
    key,
    list_of,
    load_text,
    mapping_schema,
    names_in,
    one_of,
    parse_document,
    read_mapping,
    record_reader,
    scalar_or_mapping,
    takes,
    text_matching,
    text_of,
    texts_of,
    whole_number,
    yes_no,
)
from gostlab.tcpmodel.delay_tables import TABLE_NAMES, delay_table
from gostlab.tcpmodel.response_functions import cubic_loss, window_limit_bps
from gostlab.tcpmodel.run_limits import DISTRIBUTION_SCALE, MAX_PERIOD, MTU_BYTES, period_factors

# netem's limits: the length of a delay table, and its entries of 16 bits.
MAX_DISTRIBUTION = 16384
MAX_DISTRIBUTION_BYTES = 256 * 1024
MIN_ENTRY, MAX_ENTRY = -(2**15), 2**15 - 1

# The maximum data in flight of a connection: half of Debian's tcp_rmem of 6 MiB becomes window.
DEBIAN_WINDOW_BYTES = 3 * 2**20
# A rate above this share of the cap is explained by the cap.
CAP_SHARE = 0.9
# A rate above this share of what all connections' windows allow is explained by the windows: a test
# of some ten seconds spends a good part of its time opening them.
WINDOW_SHARE = 0.75
# The tolerance of derived values, which are written with four digits.
DERIVED_TOLERANCE = 1e-3

FILE_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
TEXT_NAME = text_matching(
    rf"{FILE_NAME}\.(md|txt)", "not the name of a text beside the profile (like my-paths.md)"
)
DISTRIBUTION_NAME = text_matching(
    rf"{FILE_NAME}\.dist", "not the name of a file beside the profile (like my-path.dist)"
)
TEXTS = list_of(text_of)
SOURCE_FIELDS = {
    "seed": KeySchema(text_of, "document that the numbers are from"),
    "table": KeySchema(text_of, "table or section of the document"),
    "note": KeySchema(text_of, "further information on the source"),
}


# -- the path's effect on packets


@takes({"type": "integer", "minimum": 2, "maximum": MAX_PERIOD**2}, "packets")
def read_period(node: Node) -> int:
    """Return the number of packets per lost packet. Raises BadInput."""
    packets = whole_number(2, MAX_PERIOD**2)(node)
    if period_factors(packets) is None:
        raise node.bad_value(
            f"not the product of two numbers up to {MAX_PERIOD}, each of which one tc action can"
            " count to"
        )
    return packets


GEMODEL_FIELDS = {
    "model": KeySchema(
        one_of("gemodel"), "Gilbert-Elliott, a model with two states", required=True
    ),
    "p": KeySchema(
        PERCENT, "transition probability from the good state to the bad, per packet", required=True
    ),
    "r": KeySchema(
        PERCENT, "transition probability from the bad state to the good, per packet", required=True
    ),
    "one_minus_h": KeySchema(PERCENT, "loss probability in the bad state", default=1.0),
    "one_minus_k": KeySchema(PERCENT, "loss probability in the good state", default=0.0),
}
PERIODIC_FIELDS = {
    "model": KeySchema(one_of("periodic"), "loss of exactly every n-th packet", required=True),
    "packets": KeySchema(read_period, "n", required=True),
}
STATE_FIELDS = {
    "model": KeySchema(
        one_of("state"),
        "netem's Markov chain: good (1), good within a burst (2), lost in a burst (3), lost alone"
        " (4); pij leads from state i to j, per packet",
        required=True,
    ),
    "p13": KeySchema(PERCENT, "probability that a burst of losses begins", required=True),
    "p31": KeySchema(PERCENT, "probability that it ends (default: 100% - p13)"),
    "p32": KeySchema(PERCENT, "probability that good packets follow within a burst", default=0.0),
    "p23": KeySchema(PERCENT, "probability that these are followed by losses", default=1.0),
    "p14": KeySchema(PERCENT, "probability of one loss alone", default=0.0),
}
RANDOM_FIELDS = {
    "model": KeySchema(one_of("random"), "each packet by a random number", required=True),
    "p": KeySchema(PERCENT, "loss probability per packet", required=True),
    "correlation": CORRELATION,
}
LOSS_FIELDS = {
    "random": RANDOM_FIELDS,
    "gemodel": GEMODEL_FIELDS,
    "state": STATE_FIELDS,
    "periodic": PERIODIC_FIELDS,
}


@takes({"anyOf": [mapping_schema(fields) for fields in LOSS_FIELDS.values()]})
def read_loss_model(node: Node) -> LossSpec:
    """Return a loss with one of the models in LOSS_FIELDS. Raises BadInput."""
    assert node.fields is not None
    if "model" not in node.fields:
        raise node.bad(f"model is missing (one of {', '.join(LOSS_FIELDS)})")
    model = one_of(*LOSS_FIELDS)(node.fields["model"])
    values = read_mapping(node, LOSS_FIELDS[model])
    if model == "periodic":
        values["p"] = 1 / values["packets"]
    if model == "state":
        return state_loss(node, values)
    reject_full_correlation(node, values)
    return LossSpec(**values)


def state_loss(node: Node, values: Mapping[str, Any]) -> LossSpec:
    """Return a loss of four states, which must all be left again. Raises BadInput."""
    p13, p32, p23, p14 = (values[name] for name in ("p13", "p32", "p23", "p14"))
    p31 = 1 - p13 if values["p31"] is None else values["p31"]
    for one, other, total in (("p13", "p14", p13 + p14), ("p31", "p32", p31 + p32)):
        if total > 1 + 1e-9:
            raise node.bad(f"{one} and {other} are {100 * total:g}% together: more than 100%")
    if p13 and not p31 + p32:
        raise node.bad("p31 and p32 are 0%: no burst of losses would ever end")
    if p13 and p32 and not p23:
        raise node.bad("p23 is 0%: after the first burst no packet would be lost any more")
    return LossSpec(model="state", p=p13, r=p31, p32=p32, p23=p23, p14=p14)


read_loss = scalar_or_mapping(PERCENT.to(random_loss), read_loss_model)
read_loss.unit = "%, or a model"


@dataclass(frozen=True)
class ProfileDirection:
    """Represent one direction of a WAN path.

    `buffer` stays as written, because a BDP depends on both directions. A rate of None is no limit,
    which only the real clock allows.
    """

    rate_bps: int | None = key(read_rate, "rate of the bottleneck", "100mbit", named="rate")
    delay_s: Fraction = key(read_delay, "one-way delay", "20ms", named="delay")
    jitter_s: Fraction = key(
        read_delay,
        "variation of each packet's delay around the delay, independent per packet",
        "2ms",
        default=Fraction(0),
        named="jitter",
    )
    loss: LossSpec = key(
        read_loss, "loss probability per packet, on the delay line", "0.1%", default=NO_LOSS
    )
    buffer: units.BufferSize = key(
        BUFFER,
        "size of the bottleneck's queue",
        "1bdp",
        "a multiple of the BDP, packets, a size, or the time to send it",
    )
    # netem's delay table, or the node with its file's name until the profile's folder is known.
    distribution: tuple[int, ...] | None = key(
        as_written({"anyOf": [{"enum": [*TABLE_NAMES]}, DISTRIBUTION_NAME.schema]}),
        "shape of the jitter: one of tc's names ("
        f"{', '.join(TABLE_NAMES)}), or a table in tc's format in a file beside the profile",
        "pareto",
        default=None,
    )
    ordered: bool = key(
        yes_no, "whether jitter preserves the order of packets", "true", default=False
    )
    policer: PolicerSpec | None = key(
        read_policer,
        "policer before the bottleneck's queue: drops what exceeds its rate, and queues nothing",
        "{rate: 10mbit, burst: 15kB}",
        default=None,
    )
    reorder: ReorderSpec | None = key(
        read_reorder,
        "share of packets that leave at once, without the delay",
        "{share: 1%, distance: 5}",
        "%, or a mapping",
        default=None,
    )
    duplicate: ShareSpec | None = key(
        read_share_of_packets,
        "share of packets that arrive twice",
        "0.1%",
        "%, or a mapping",
        default=None,
    )
    corrupt: ShareSpec | None = key(
        read_share_of_packets,
        "share of packets in which one bit is flipped",
        "0.1%",
        "%, or a mapping",
        default=None,
    )
    slot: SlotSpec | None = key(
        read_slot,
        "slots in which packets leave together, as of Wi-Fi's and LTE's aggregation",
        "{min: 2ms, max: 8ms, packets: 32}",
        "a time, or a mapping",
        default=None,
    )
    outages: tuple[OutageSpec, ...] = key(
        read_outage,
        "times in which nothing passes",
        "{at: 10s, for: 500ms}",
        default=(),
        named="outage",
    )
    mtu_bytes: int = MTU_BYTES  # The MTU of the links; a buffer counts packets of this size.

    @property
    def least_delay_s(self) -> Fraction:
        """Return the minimum delay with jitter; below 0, netem would send packets at once."""
        min_entry = min(self.distribution or UNIFORM_JITTER)
        return self.delay_s + self.jitter_s * Fraction(min_entry, DISTRIBUTION_SCALE)

    def compiled(self, rtt_s: Fraction) -> DirectionSpec:
        """Return the direction in numbers; a buffer that needs a rate is None without one."""
        packets = None
        if self.rate_bps is not None or not self.buffer.needs_rate:
            packets = self.buffer.packets(self.rate_bps or 0, rtt_s, self.mtu_bytes)
        return DirectionSpec(
            rate_bps=self.rate_bps,
            delay_ms=float(self.delay_s * 1000),
            jitter_ms=float(self.jitter_s * 1000),
            loss=self.loss,
            buffer_pkts=packets,
            ordered=self.ordered,
            distribution=self.distribution,
            policer=self.policer,
            reorder=self.reorder,
            duplicate=self.duplicate,
            corrupt=self.corrupt,
            slot=self.slot,
            outages=self.outages,
        )


def with_distribution(direction: ProfileDirection, node: Node, folder: Path) -> ProfileDirection:
    """Return a direction with its delay table. Raises BadInput, also for too much jitter."""
    name_node: Any = direction.distribution
    if name_node is not None:
        table = (
            delay_table(name_node.text)
            if name_node.text in TABLE_NAMES
            else load_distribution(sibling_file(name_node, folder, DISTRIBUTION_NAME(name_node)))
        )
        direction = replace(direction, distribution=table)
        if not direction.jitter_s:
            raise node.bad("distribution without jitter: it is the shape of the jitter")
    if direction.least_delay_s < 0:
        excess = units.show_time(float(-direction.least_delay_s))
        raise node.bad(
            "jitter is larger than delay: no packet arrives before it was sent"
            if direction.distribution is None
            else f"jitter and distribution reach {excess} beyond delay: no packet arrives before it"
            " was sent"
        )
    return direction


def sibling_file(node: Node, folder: Path, name: str) -> Path:
    """Return a file in the profile's folder. Raises BadInput if it does not exist."""
    if not (folder / name).is_file():
        raise node.bad_value("no such file beside the profile")
    return folder / name


def load_distribution(path: Path) -> tuple[int, ...]:
    """Return a netem delay table in tc's format. Raises BadInput with file and line.

    It is stricter than tc, which silently ends a line at anything but a number and reads 010 as 8.
    """
    label = display_path(path)
    table: list[int] = []
    for line_number, line in enumerate(load_text(path, MAX_DISTRIBUTION_BYTES).splitlines(), 1):
        for entry in () if line.startswith("#") else line.split():
            position = f"{label}:{line_number}: {units.quoted(entry)}"
            if not re.fullmatch(r"0|-?[1-9][0-9]{0,8}", entry):
                raise BadInput(f"{position}: not a whole number")
            if not MIN_ENTRY <= int(entry) <= MAX_ENTRY:
                raise BadInput(f"{position}: not within 16 bits ({MIN_ENTRY} to {MAX_ENTRY})")
            table.append(int(entry))
    if not 1 <= len(table) <= MAX_DISTRIBUTION:
        raise BadInput(
            f"{label}: {len(table)} numbers in it: netem takes from 1 to {MAX_DISTRIBUTION}"
        )
    return tuple(table)


# -- the source of the numbers


@dataclass(frozen=True)
class MeasuredRow:
    """Represent a row of a source's table; all None where `missing` gives a reason."""

    cc: str = key(text_of, "congestion control of the sender")
    upload_mbit: Decimal | None = key(decimal, "goodput of the upload", unit="Mbit/s", default=None)
    download_mbit: Decimal | None = key(
        decimal, "goodput of the download", unit="Mbit/s", default=None
    )
    rtt_ms: Decimal | None = key(decimal, "latency", unit="ms", default=None)
    node: str | None = key(text_of, "hosts between which it was measured", default=None)
    missing: str | None = key(text_of, "reason why there are no numbers", default=None)


def check_measured(node: Node, row: MeasuredRow) -> None:
    """Require all numbers of a row, or a reason why it has none. Raises BadInput."""
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
    """Represent the cause of a measured rate: loss, the connections' windows, or the rate cap."""

    connections: int = key(whole_number(1, 1000), "assumed number of connections of the speed test")
    explained_by: str = key(one_of("loss", "windows", "cap"), "cause of the measured rate")
    loss: float = key(PERCENT, "loss probability that explains it")
    loss_if_half: float = key(PERCENT, "loss probability with half the connections", default=0.0)
    loss_if_twice: float = key(PERCENT, "loss probability with twice the connections", default=0.0)


@dataclass(frozen=True)
class Derived:
    """Represent the values that were computed from `measured`."""

    method: str = key(one_of("rfc9438-inverse"), "method of the derivation")
    cc: str = key(one_of("cubic"), "congestion control of the measured row that it is derived from")
    forward: DerivedDirection = key(record_reader(DerivedDirection))
    reverse: DerivedDirection = key(record_reader(DerivedDirection))


@dataclass(frozen=True)
class Recorded:
    """Represent the summary of a ping recording of a path."""

    host: str = key(text_of, "host that was pinged")
    address: str | None = key(text_of, "address of the host at that time", default=None)
    date: str = key(text_of, "start of the recording, UTC")
    interval_s: Fraction = key(TIME, "interval between two pings", named="interval")
    sent: int = key(COUNT, "number of pings sent")
    answered: int = key(COUNT, "number of pings answered")
    lost: int = key(COUNT, "number of pings without an answer")
    bursts: int = key(COUNT, "number of loss bursts (consecutive losses)")
    longest_burst: int = key(COUNT, "length of the longest loss burst", unit="pings")
    duplicates: int = key(COUNT, "number of duplicate answers")
    errors: int = key(COUNT, "number of messages that a packet could not be delivered")
    overtaken: int = key(COUNT, "number of answers that arrived after a later ping's")
    rtt_min_ms: Decimal = key(decimal, "minimum round trip", unit="ms")
    rtt_median_ms: Decimal = key(decimal, "median round trip", unit="ms")
    rtt_mean_ms: Decimal = key(decimal, "mean round trip", unit="ms")
    rtt_p95_ms: Decimal = key(decimal, "95th percentile of the round trip", unit="ms")
    rtt_max_ms: Decimal = key(decimal, "maximum round trip", unit="ms")


def check_recorded(node: Node, recorded: Recorded) -> None:
    """Reject counts and round trips that contradict each other. Raises BadInput."""
    total = recorded.answered + recorded.lost
    if total != recorded.sent:
        raise node.bad(f"answered and lost are {total} together, sent is {recorded.sent}")
    min_ms, max_ms = recorded.rtt_min_ms, recorded.rtt_max_ms
    if not min_ms <= min(recorded.rtt_median_ms, recorded.rtt_mean_ms) <= max_ms:
        raise node.bad("rtt_min_ms, rtt_median_ms, rtt_mean_ms and rtt_max_ms are not in order")


@dataclass(frozen=True)
class Imported:
    """Represent the imported recording of a path, and its replay's deviation from it."""

    format: str = key(text_of, "format of the files")
    files: tuple[str, ...] = key(TEXTS, "names of the files")
    sha256: tuple[str, ...] = key(TEXTS, "SHA-256 hashes of the files, in that order")
    source: str = key(text_of, "source of the files")
    licence: str = key(text_of, "licence of the files")
    length_s: Fraction = key(TIME, "length of the part that is replayed", named="length")
    bin_s: Fraction = key(TIME, "interval over which the rate is constant", named="bin")
    changes: int = key(COUNT, "number of rows of the trace")
    capacity_error: Fraction = key(
        SHARE, "mean deviation of the replayed capacity from the recorded one, per 100 ms"
    )
    ahead_bytes: int = key(
        COUNT,
        "maximum amount that the replay has carried before or after the recording",
        unit="bytes",
        named="ahead",
    )


def check_imported(node: Node, imported: Imported) -> None:
    """Require a hash for every file. Raises BadInput."""
    if len(imported.files) != len(imported.sha256):
        raise node.bad(f"{len(imported.files)} files, {len(imported.sha256)} hashes")


@dataclass(frozen=True)
class Machines:
    """Represent the machines at a path's ends, for all or by host; None if unknown."""

    cpus: int | Mapping[str, int] | None = key(
        per_host(HOST_CPUS), "CPUs of each machine, or by host", "2", "CPUs", default=None
    )
    memory_mib: int | Mapping[str, int] | None = key(
        per_host(MACHINE_MEMORY),
        "memory of each machine, or by host",
        "3.8GiB",
        default=None,
        named="memory",
    )
    cpu_share_permille: int = key(
        CPU_SHARE,
        "long-run CPU time of each machine, if less than all of its CPUs",
        "1",
        "CPUs",
        default=0,
        named="cpu_share",
    )
    cpu_burst_us: int = key(
        CPU_BURST,
        "CPU time by which a machine may exceed its cpu_share in a burst",
        "2s",
        default=0,
        named="cpu_burst",
    )


@dataclass(frozen=True)
class Profile:
    """Represent a WAN path."""

    name: str = key(text_of, "name of the file without .yaml", "my-path")
    title: str = key(text_of, "title of the path, in one line", default="")
    source: Mapping[str, str] = key(texts_of(SOURCE_FIELDS), "source of the numbers", default={})
    see: str = key(
        TEXT_NAME,
        "text beside the profile that concerns several profiles",
        "thesis-speed-tests.md",
        default="",
    )
    measured: tuple[MeasuredRow, ...] = key(
        list_of(record_reader(MeasuredRow, check_measured)),
        "rows copied from the source, digit by digit; never changed",
        default=(),
    )
    derived: Derived | None = key(
        record_reader(Derived),
        "values recomputed whenever the file is read; an error if they differ",
        default=None,
    )
    recorded: Recorded | None = key(
        record_reader(Recorded, check_recorded), "summary of the ping recording", default=None
    )
    imported: Imported | None = key(
        record_reader(Imported, check_imported),
        "recording of another tool that the path was made of",
        default=None,
    )
    fitted: FitRecord | None = key(
        record_reader(FitRecord), "measured rates that the path was fitted to", default=None
    )
    assumptions: tuple[str, ...] = key(TEXTS, "numbers that nobody measured", default=())
    notes: tuple[str, ...] = key(TEXTS, "further information", default=())
    forward: ProfileDirection = key(record_reader(ProfileDirection), "what the client's data take")
    reverse: ProfileDirection = key(
        record_reader(ProfileDirection), "direction of the client's data"
    )
    machines: Machines = key(
        record_reader(Machines),
        "machines between which the path was measured, if known",
        default=Machines(),
    )
    path_on_disk: Path = Path()

    @property
    def rtt_ms(self) -> float:
        """Return the idle round trip, without the transmission time of a packet."""
        return float((self.forward.delay_s + self.reverse.delay_s) * 1000)


# -- files


def list_profiles() -> list[str]:
    return names_in(PROFILES)


def load_profile(name_or_path: str) -> Profile:
    """Return a profile by its name in netem_profiles/ or its file's path. Raises BadInput."""
    path = find_document(name_or_path, PROFILES, "profile")
    return profile_of(load_text(path, MAX_BYTES), path)


@lru_cache(maxsize=100)  # Each cell of a matrix requests the same profile.
def profile_of(text: str, path: Path) -> Profile:
    return read_profile(parse_document(text, display_path(path)), path)


def read_profile(document: Node, path: Path) -> Profile:
    """Return a profile from a document; its tables are beside `path`. Raises BadInput."""
    profile = replace(record_reader(Profile)(document), path_on_disk=path)
    nodes = document.fields or {}
    if profile.see:
        sibling_file(nodes["see"], path.parent, profile.see)
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


def compile_path(forward: ProfileDirection, reverse: ProfileDirection) -> PathSpec:
    rtt_s = forward.delay_s + reverse.delay_s
    return PathSpec(forward.compiled(rtt_s), reverse.compiled(rtt_s))


# -- loss derived from measured rates


def derive(rate_mbit: float, rtt_ms: float, connections: int, cap_mbit: float) -> DerivedDirection:
    """Return the cause of a CUBIC speed test's rate, by the method rfc9438-inverse.

    A rate near the cap is explained by the cap; one near what the connections' windows allow, by
    the windows: neither is evidence of loss, so no loss is assumed. Any other rate is explained by
    loss, equal on all connections, by the inverse of RFC 9438's response function.
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
    """Recompute a profile's derived values. Raises BadInput naming the difference."""
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
            actual, expected = getattr(written, field), getattr(computed, field)
            if abs(actual - expected) > DERIVED_TOLERANCE * expected:
                raise node.bad(
                    f"{name}.{field} is {share_text(actual)}, recomputed it is"
                    f" {share_text(expected)}"
                )
        if direction.loss != random_loss(written.loss):
            raise node.bad(
                f"{name}.loss is {share_text(written.loss)}, but the path's {name}.loss is another"
            )


def share_text(share: float) -> str:
    """Return a share as a profile writes it: a percentage of four digits without an exponent."""
    return f"{Decimal(f'{100 * share:.4g}'):f}%"


def summary(profile: Profile) -> str:
    """Summarize a profile in one line of text."""
    parts = [f"{profile.rtt_ms:g} ms"]
    for name in DIRECTIONS:
        direction: ProfileDirection = getattr(profile, name)
        loss = (
            "no loss"
            if direction.loss.is_lossless
            else f"{direction.loss.model} loss {share_text(direction.loss.p)}"
        )
        parts.append(
            f"{name} {units.show_rate(direction.rate_bps)}, {loss}, buffer {direction.buffer}"
        )
    return " · ".join(parts)


def summary_json(profile: Profile) -> dict[str, object]:
    """Summarize a profile for programs: its file, round-trip time, and each direction."""
    directions: dict[str, ProfileDirection] = {name: getattr(profile, name) for name in DIRECTIONS}
    return {
        "name": profile.name,
        "file": str(profile.path_on_disk),
        "rtt_ms": float(profile.rtt_ms),
        **{
            name: {
                "rate_bps": direction.rate_bps,
                "loss_model": direction.loss.model,
                "loss": float(direction.loss.p),
                "buffer": str(direction.buffer),
            }
            for name, direction in directions.items()
        },
    }
