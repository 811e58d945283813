# SPDX-License-Identifier: MIT
"""Declare the settings of a run: their readers, descriptions and defaults.

Any setting may be a factor: then it is a list of levels. A path setting holds in both directions;
`forward.loss` holds in one. `cc` holds for all ends; `cc.client` holds for one end.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache
from typing import Any, TypedDict, cast

from gostlab.errors import BadInput
from gostlab.registry.traffic import traffic_kinds
from gostlab.registry.tunnels import LEGS
from gostlab.spec import units, value_types
from gostlab.spec.cpu_cost_tables import read_machine
from gostlab.spec.impairments import (
    read_outage,
    read_period_s,
    read_policer,
    read_reorder,
    read_share_of_packets,
    read_slot,
)
from gostlab.spec.path_spec import (
    DIRECTIONS,
    FORWARD,
    LossSpec,
    PolicerSpec,
    ReorderSpec,
    ShareSpec,
    SlotSpec,
)
from gostlab.spec.profile import read_loss
from gostlab.spec.value_types import CC, END, MAX_FLOWS
from gostlab.spec.yaml_source import (
    JsonSchema,
    KeySchema,
    Node,
    Reader,
    as_written,
    by_name_reader,
    field_schema,
    key,
    keys_of,
    known_fields,
    list_of,
    mapping_of,
    mapping_reader,
    mapping_schema,
    one_of,
    parse_document,
    record_reader,
    suggest_name,
    takes,
    text_matching,
    text_of,
    unknown_key,
)
from gostlab.tcpmodel.delay_tables import TABLE_NAMES, delay_table
from gostlab.tcpmodel.socket_buffers import Buffers

# The default cost of one system call on the virtual clock, in µs.
DEFAULT_SYSCALL_COST_US = 5
MAX_CHANGES = 10_000
FLOW_NAME = re.compile(r"[a-z][a-z0-9_-]{0,15}")
NO_FLOW_NAMES = (*DIRECTIONS, "cc")  # forward.rate is a setting of the path.


@dataclass(frozen=True)
class Setting:
    """Represent a setting's value as read, as the user wrote it, and its position in the file."""

    value: Any
    written: Any
    node: Node
    name: str  # The name of the setting; a factor may have another name.


Settings = Mapping[str, Setting]
Factors = Mapping[str, tuple[Setting, ...]]


class FlowFields(TypedDict, total=False):
    """A flow's own fields, which override the run's settings; FLOW_FIELDS describes them."""

    kind: str
    cc: str
    ecn: str
    streams: int
    direction: str
    start: float  # s
    connect: str
    duration: float  # s
    rtt: Fraction  # s
    buffers: Buffers
    rate: int  # bit/s
    size: int  # bytes
    sizes: tuple[int, ...]  # bytes
    bytes: int
    on: float  # s
    off: float  # s
    ladder: tuple[int, ...]  # bit/s
    segment: float  # s
    playback_buffer: float  # s
    interval: float  # ms
    through: str
    server: str
    client: str
    files: tuple[Node, ...]
    sender: int
    receiver: int


def read_file_name(node: Node) -> Node:
    """Return the node of a path: what it is relative to is the folder of the node's file."""
    text_of(node)
    return node


FLOW_FIELDS: Mapping[str, KeySchema] = {
    "kind": KeySchema(
        one_of(*traffic_kinds()),
        "; ".join(f"{traffic.name}: {traffic.says}" for traffic in traffic_kinds().values())
        + "; bytes implies transfer, on and off onoff, ladder video",
        "ping",
        default="tcp",
    ),
    "cc": KeySchema(CC, "congestion control", "bbr"),
    "ecn": KeySchema(
        one_of("off", "on", "l4s"),
        "whether the flow's hosts negotiate ECN (default: as the run's ecn)",
        "off",
    ),
    "streams": KeySchema(value_types.STREAMS, "number of parallel connections", "4"),
    "direction": KeySchema(
        value_types.DIRECTION,
        "who sends the data; both: two flows at once, NAME-up and NAME-down",
        "download",
    ),
    "start": KeySchema(
        value_types.read_instant, "start of the flow, after the load's start", "5s", default="0s"
    ),
    "connect": KeySchema(
        one_of("before-load", "at-start"),
        "when to connect: before-load, or at-start of the flow; with at-start, BBR's "
        "first round trip may see a full queue, and the flow's data start some round "
        "trips later",
        "at-start",
        default="before-load",
    ),
    "duration": KeySchema(
        value_types.read_duration, "duration of the flow; for an http flow, its maximum", "20s"
    ),
    "rtt": KeySchema(value_types.read_rtt, "idle round-trip time of this flow (dumbbell)", "50ms"),
    "buffers": KeySchema(
        value_types.read_buffers,
        "TCP buffers of the flow's two hosts",
        "bdp",
        unit="a preset or sizes",
    ),
    "rate": KeySchema(
        value_types.read_offered_rate,
        "rate that a udp flow sends at; tcp: rate of the application, which offers no more "
        "(default: as fast as TCP goes)",
        "20mbit",
    ),
    "size": KeySchema(
        value_types.read_download_size, "size of an http flow's download", "100MB", unit="bytes"
    ),
    "sizes": KeySchema(
        list_of(value_types.read_download_size, least=1),
        "sizes of a short flow's downloads, made in turn until its time is over",
        "[10kB, 100kB, 1MB]",
        unit="bytes",
    ),
    "bytes": KeySchema(
        value_types.read_download_size,
        "size of a transfer over one connection, in the flow's direction; its completion time is "
        "measured, and its duration is the maximum",
        "10MB",
        unit="bytes",
    ),
    "on": KeySchema(
        value_types.read_burst,
        "onoff flow: how long it sends, at its rate or as fast as TCP goes",
        "2s",
    ),
    "off": KeySchema(value_types.read_burst, "onoff flow: how long it then pauses", "3s"),
    "ladder": KeySchema(
        value_types.read_ladder,
        "bit rates of a video flow's segments, in rising order (default: 300kbit, 750kbit, "
        "1200kbit, 1850kbit, 2850kbit, 4300kbit)",
        "[1mbit, 2mbit, 4mbit]",
        unit="bit/s",
    ),
    "segment": KeySchema(
        value_types.read_segment, "video flow: length of a segment (default: 2 s)", "4s"
    ),
    "playback_buffer": KeySchema(
        value_types.read_playback_buffer,
        "video flow: maximum of video that waits to be played, two segments or more (default: "
        "20 s)",
        "30s",
    ),
    "interval": KeySchema(
        value_types.read_ping_interval,
        "ping flow: interval between requests (default: 100 ms); short flow: interval "
        "between the starts of downloads (default: each follows the one before)",
        "20ms",
    ),
    "through": KeySchema(
        one_of("path", "tunnel"),
        "whether a udp flow bypasses the run's tunnel (path) or goes through it (tunnel)",
        "tunnel",
        default="path",
    ),
    "server": KeySchema(
        text_of,
        "shell command of a command flow's receiver: it must listen on $HOST and $PORT, "
        "by TCP or UDP",
        '"nc -lk $HOST $PORT >/dev/null"',
        unit="a command",
    ),
    "client": KeySchema(
        text_of,
        "shell command of a command flow's sender: it must connect to $HOST and $PORT, "
        "and end within $SECONDS",
        '"timeout $SECONDS nc $HOST $PORT </dev/zero; true"',
        unit="a command",
    ),
    "files": KeySchema(
        list_of(Reader(read_file_name, text_of.schema), least=1),
        "files and folders of yours that the commands find at $FILES, copied as they are now; "
        "relative to the file of the experiment",
        "[build/server, server.conf]",
        unit="a list of paths",
    ),
    "sender": KeySchema(value_types.HOST_NUMBER, "number of the flow's sender (dumbbell)", "1"),
    "receiver": KeySchema(value_types.HOST_NUMBER, "number of the flow's receiver (dumbbell)", "2"),
}


LINK_NAME = re.compile(r"hop[12]|n[0-9]{1,2}-n[0-9]{1,2}")
CAPTURES = ("off", "wan", "links", "legs")


@takes({"anyOf": [{"enum": list(CAPTURES)}, {"type": "string", "pattern": LINK_NAME.pattern}]})
def read_capture(node: Node) -> str:
    """Return what to capture: off, wan, links, legs, or the name of a link. Raises BadInput."""
    text = text_of(node)
    if text not in CAPTURES and not LINK_NAME.fullmatch(text):
        raise node.bad_value(
            f"nothing that can be captured ({', '.join(CAPTURES[1:])}, or a link: hop2, n1-n2)"
        )
    return text


IN_MS = value_types.read_delay.to(lambda delay_s: float(delay_s * 1000))


# A change to no policer.
NO_POLICER = PolicerSpec(rate_bps=0, burst_bytes=0)
# The fields of a change that are no new value of a direction.
UNCHANGED = ("at_s", "direction", "link", "outage_s")


@dataclass(frozen=True)
class RequestedChange:
    """Represent a change of the path as requested; None: the default, or no change."""

    at_s: float = key(
        value_types.read_instant, "time of the change, after the load's start", "15s", named="at"
    )
    direction: str | None = key(
        one_of(*DIRECTIONS, "both"),
        "direction that changes (default: the direction that carries the data)",
        "both",
        default=None,
    )
    link: str | None = key(
        text_matching(LINK_NAME.pattern, "no name of a link (like hop2, or n1-n2)"),
        "link that changes, named as under `links` (default: all links without their own path)",
        "hop2",
        default=None,
    )
    rate_bps: int | None = key(
        value_types.RATE, "new rate of the bottleneck", "50mbit", default=None, named="rate"
    )
    delay_ms: float | None = key(IN_MS, "new one-way delay", "40ms", default=None, named="delay")
    jitter_ms: float | None = key(IN_MS, "new jitter", "5ms", default=None, named="jitter")
    loss: LossSpec | None = key(read_loss, "new loss", "1%", default=None)
    policer: PolicerSpec | None = key(
        read_policer.to(lambda policer: policer or NO_POLICER),
        "new policer, or off",
        "{rate: 5mbit, burst: 15kB}",
        default=None,
    )
    reorder: ReorderSpec | None = key(
        read_reorder.to(lambda reorder: reorder or ReorderSpec(share=0.0)),
        "new reordering",
        "1%",
        "%, or a mapping",
        default=None,
    )
    duplicate: ShareSpec | None = key(
        read_share_of_packets.to(lambda share: share or ShareSpec(share=0.0)),
        "new share of packets that arrive twice",
        "1%",
        "%, or a mapping",
        default=None,
    )
    corrupt: ShareSpec | None = key(
        read_share_of_packets.to(lambda share: share or ShareSpec(share=0.0)),
        "new share of packets in which one bit is flipped",
        "1%",
        "%, or a mapping",
        default=None,
    )
    slot: SlotSpec | None = key(
        read_slot.to(lambda slot: slot or SlotSpec()),
        "new slots, or off",
        "{min: 2ms, max: 8ms}",
        "a time, or a mapping",
        default=None,
    )
    outage_s: float | None = key(
        read_period_s,
        "time from the change on in which nothing passes; the new values hold after it (a"
        " handover)",
        "80ms",
        default=None,
        named="outage",
    )

    @property
    def new_values(self) -> dict[str, object]:
        """Return the values that change, by their names in a ChangeSpec."""
        names = [item.name for item in fields(self) if item.name not in UNCHANGED]
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


def check_change(node: Node, change: RequestedChange) -> None:
    """Reject a change without a new value. Raises BadInput."""
    if not change.new_values and change.outage_s is None:
        raise node.bad("a change of nothing (rate, delay, jitter, loss, outage, …)")


CHANGE = record_reader(RequestedChange, check_change)
CHANGE_FIELDS = keys_of(RequestedChange)


@takes({"type": "array", "items": CHANGE.schema, "maxItems": MAX_CHANGES})
def read_changes(node: Node) -> list[RequestedChange]:
    """Return the changes of the path during the load, in order of time. Raises BadInput."""
    if node.items is None or len(node.items) > MAX_CHANGES:
        raise node.bad(
            f"not a list of at most {MAX_CHANGES} changes (like [{{at: 10s, rate: 50mbit}}])"
        )
    changes = [CHANGE(item) for item in node.items]
    if [change.at_s for change in changes] != sorted(change.at_s for change in changes):
        raise node.bad("not in the order of time")
    return changes


@takes({"anyOf": [mapping_schema(FLOW_FIELDS), {"type": "null"}]})
def read_flow(node: Node) -> FlowFields:
    """Return the fields of a flow that differ from the run's. Raises BadInput."""
    given = {} if node.type_phrase == "nothing" else known_fields(node, FLOW_FIELDS)
    values = {name: FLOW_FIELDS[name].read(value) for name, value in given.items()}
    return cast(FlowFields, values)


FLOWS = by_name_reader(
    re.compile(rf"(?!({'|'.join(NO_FLOW_NAMES)})$){FLOW_NAME.pattern}"),
    read_flow,
    "flow",
    "{late: {cc: cubic, start: 5s}}",
)


# Sets of flows that have a name. rrul is the load of Flent's test rrul_be: four TCP connections in
# each direction, and requests that measure the round trip meanwhile.
FLOW_PRESETS: Mapping[str, Mapping[str, FlowFields]] = {
    "rrul": {"tcp": {"streams": 4, "direction": "both"}, "ping": {"kind": "ping"}}
}


@takes({"anyOf": [{"enum": [*FLOW_PRESETS]}, {**FLOWS.schema, "maxProperties": MAX_FLOWS}]})
def read_flows(node: Node) -> dict[str, FlowFields]:
    """Return flows by name, each with the fields that differ from the run's. Raises BadInput.

    A name of FLOW_PRESETS stands for its flows.
    """
    if node.text is not None:
        preset = one_of(*FLOW_PRESETS)(node)
        return {name: fields.copy() for name, fields in FLOW_PRESETS[preset].items()}
    flows = FLOWS(node)
    if len(flows) > MAX_FLOWS:
        raise node.bad(f"{len(flows)} flows ({MAX_FLOWS} at most)")
    return flows


UNIFORM = "uniform"
# The settings that override the profile's in both directions; forward.X and reverse.X override one
# direction.
PATH_FIELDS: Mapping[str, KeySchema] = {
    "rate": KeySchema(value_types.read_rate, "rate of the bottleneck", "100mbit"),
    "delay": KeySchema(
        value_types.read_delay,
        "one-way delay of each direction; the round trip takes twice as long",
        "20ms",
    ),
    "jitter": KeySchema(
        value_types.read_delay,
        "variation of each packet's delay around the delay, in each direction; at most the delay",
        "2ms",
    ),
    "loss": KeySchema(
        read_loss, "loss probability per packet, in each direction: of data and ACKs", "0.1%"
    ),
    "buffer": KeySchema(
        value_types.BUFFER,
        "size of the bottleneck's queue, in each direction; 10 packets (IW10) or more from 1bdp on",
        "1bdp, 100pkts, 150kB, 300ms",
    ),
    "ordered": KeySchema(
        one_of("on", "off"),
        "whether jitter preserves the order of packets; if on, fast packets wait for "
        "slower ones before them, and the round trip is longer",
        "on",
    ),
    "distribution": KeySchema(
        one_of(UNIFORM, *TABLE_NAMES).to(
            lambda name: None if name == UNIFORM else delay_table(name)
        ),
        "shape of the jitter, as tc names it; a table of your own is a profile's",
        "pareto",
    ),
    "policer": KeySchema(
        read_policer,
        "policer before the bottleneck's queue, in each direction: drops what exceeds its rate,"
        " and queues nothing; off: none",
        "{rate: 10mbit, burst: 15kB}",
    ),
    "reorder": KeySchema(
        read_reorder,
        "share of packets that leave the delay line at once, without the delay, in each"
        " direction; distance: packets from one of them to the next at least",
        "{share: 1%, distance: 5}",
        unit="%, or a mapping",
    ),
    "duplicate": KeySchema(
        read_share_of_packets,
        "share of packets that arrive twice, in each direction",
        "0.1%",
        unit="%, or a mapping",
    ),
    "corrupt": KeySchema(
        read_share_of_packets,
        "share of packets in which one bit is flipped, in each direction",
        "0.1%",
        unit="%, or a mapping",
    ),
    "slot": KeySchema(
        read_slot,
        "slots in which packets leave the delay line together, in each direction, as of Wi-Fi's"
        " and LTE's aggregation: the time from one to the next, and how much one sends; off: none",
        "{min: 2ms, max: 8ms, packets: 32}",
        unit="a time, or a mapping",
    ),
    "outage": KeySchema(
        read_outage,
        "times in which nothing passes, in each direction: from when, how long, and how often;"
        " off: none",
        "{at: 10s, for: 500ms}",
    ),
}


# The settings of which one text may have two values: those of reverse and forward.
TWO_VALUED = ("rate", "delay", "jitter", "loss", "buffer", "duplicate", "corrupt", "reorder")
# A slash between two values; 10mbit/s has one that is none.
BETWEEN_VALUES = re.compile(r"/(?!s\s*(?:/|$))")


@dataclass(frozen=True)
class PerDirection:
    """Represent a value of each direction, as of an access link: down (reverse) and up."""

    down: Any
    up: Any

    def of(self, direction: str) -> Any:
        return self.up if direction == FORWARD else self.down


def of_direction(value: Any, direction: str) -> Any:
    """Return a setting's value in one direction; most are equal in both."""
    return value.of(direction) if isinstance(value, PerDirection) else value


def per_direction(read: Reader[Any]) -> Reader[Any]:
    """Return a reader of one value, or of DOWN/UP."""

    def read_one_or_two(node: Node) -> Any:
        parts = BETWEEN_VALUES.split(node.text or "")
        if len(parts) == 1:
            return read(node)
        if len(parts) > 2:
            raise node.bad_value("more than two values (DOWN/UP, like 100mbit/20mbit)")
        down, up = (read(replace(node, text=part.strip())) for part in parts)
        return down if down == up else PerDirection(down, up)

    two_values = {"type": "string", "pattern": r"^\s*[^/]+(/s)?\s*/\s*[^/]+(/s)?\s*$"}
    return Reader(
        read_one_or_two,
        lambda: {"anyOf": [*read.schema.get("anyOf", [read.schema]), two_values]},
        read.unit,
    )


# The settings of a path as they hold in both directions.
BOTH_WAYS_FIELDS = {
    name: replace(field, read=per_direction(field.read)) if name in TWO_VALUED else field
    for name, field in PATH_FIELDS.items()
}
RTT = KeySchema(
    value_types.read_rtt,
    "idle round-trip time, half of it in each direction; replaces delay",
    "100ms",
)
# The fields of a link with its own path.
LINK_FIELDS: Mapping[str, KeySchema] = {
    "profile": KeySchema(
        text_of,
        "path of the link, a name in netem_profiles/ or a file (default: the run's path); "
        "further fields override it",
        "plain-100ms",
    ),
    **BOTH_WAYS_FIELDS,
    "rtt": RTT,
    **{
        f"{direction}.{name}": field
        for direction in DIRECTIONS
        for name, field in PATH_FIELDS.items()
    },
}


@takes({"anyOf": [text_of.schema, mapping_schema(LINK_FIELDS)]})
def read_link(node: Node) -> dict[str, Setting]:
    """Return a link's own fields: LINK_FIELDS, or a profile's name alone. Raises BadInput."""
    fields = {"profile": node} if node.fields is None else known_fields(node, LINK_FIELDS)
    if not fields:
        raise node.bad("nothing of its own (a profile, or like {rtt: 20ms, loss: 1%})")
    return {
        name: Setting(LINK_FIELDS[name].read(value), written_value(value), value, name)
        for name, value in fields.items()
    }


# A setting without a default takes the profile's value, or is absent.
SETTINGS: Mapping[str, KeySchema] = {
    "topology": KeySchema(
        value_types.TOPOLOGY, "arrangement of hosts and links", "dumbbell", default="tunnel"
    ),
    "hops": KeySchema(
        value_types.HOPS,
        "number of paths in series (topology tunnel); with 2, a tunnel is a chain client "
        "– gost – gost2 – target, and `direct` is one connection over both; each hop has "
        "the run's path, so that the round trip is twice as long",
        "2",
        default="1",
    ),
    "links": KeySchema(
        by_name_reader(LINK_NAME, read_link, "link", "{hop2: plain-100ms}"),
        "links with their own path, by name: `hop1` and `hop2` of two hops, `n1-n2` of a "
        "ring, mesh or parking-lot; the value is a profile, or the fields that differ "
        "from the run's path",
        "{hop2: {rtt: 20ms, loss: 1%}}",
    ),
    "bottleneck": KeySchema(
        value_types.BOTTLENECKS,
        "qdisc that enforces the bottleneck's rate; a queue discipline is effective under "
        "a token bucket (tbf, htb), but not under netem's rate",
        "tbf",
        default="netem",
    ),
    "queue": KeySchema(
        value_types.QUEUES,
        "queue discipline of the bottleneck, whose limit is `buffer`; any but fifo "
        "implies bottleneck: tbf; `aqm` is an alias",
        "fq_codel",
        default="fifo",
    ),
    "target": KeySchema(
        value_types.read_target,
        "target delay of the bottleneck's queue, for codel, fq_codel, pie, fq_pie and "
        "dualpi2 (default: the kernel's)",
        "5ms",
    ),
    "ecn": KeySchema(
        one_of("off", "on", "losses", "l4s"),
        "whether hosts negotiate ECN and bottleneck queues that support ECN mark instead "
        "of dropping; losses: packets that netem would lose are marked, too; l4s: hosts "
        "negotiate accurate ECN, and fq_codel marks ECT(1) packets that wait longer than "
        "1 ms (dualpi2 always does)",
        "on",
        default="off",
    ),
    "pacing": KeySchema(
        one_of("internal", "fq"),
        "who paces senders: internal (TCP, if the congestion control requests it), or the "
        "qdisc fq on their NIC, which paces every sender",
        "fq",
        default="internal",
    ),
    "loss_detection": KeySchema(
        one_of("rack", "dupacks"),
        "loss detection of TCP: by time, as is the kernel's default (RACK, RFC 8985), or "
        "by duplicate ACKs, as Linux before 4.4 did (RFC 6675; requires a kernel before "
        "6.17)",
        "dupacks",
        default="rack",
    ),
    "placement": KeySchema(
        one_of("endpoint", "gateway"),
        "position of a tunnel's far end: on the target, or on a gost host in front of it",
        "gateway",
        default="endpoint",
    ),
    "profile": KeySchema(
        text_of, "path: a name in netem_profiles/, or a file", "plain-100ms", default="la-hamina"
    ),
    "tunnel": KeySchema(
        value_types.TUNNEL, "tunnel that carries the flows", "gost+wss", default="direct"
    ),
    "nagle": KeySchema(
        one_of("off", "on"),
        "whether a tunnel of GOST's family leaves Nagle's algorithm enabled across the "
        "path (no TCP_NODELAY); small writes then wait for the ACK of earlier data",
        "on",
        default="off",
    ),
    "shared": KeySchema(
        one_of("off", "on", "auto"),
        "whether flows between the same hosts share one connection of a tunnel that "
        "multiplexes (ssh, gost+mws, gost+quic); off: one tunnel per flow; auto: on for "
        "tunnels that multiplex",
        "on",
        default="off",
    ),
    "kcp_mode": KeySchema(
        one_of("auto", "normal", "fast", "fast2", "fast3"),
        "gost+kcp: retransmission mode, as GOST names it; auto: GOST's default, or fast "
        "if another option of gost+kcp is set",
        "fast3",
        default="auto",
    ),
    "kcp_window": KeySchema(
        value_types.one_for_all(value_types.KCP_WINDOW, auto=None),
        "gost+kcp: maximum number of packets in flight, the only limit of its rate; auto: "
        "the window of kcp_mode (with a mode, 1024)",
        "4096",
        unit="packets",
        default="auto",
    ),
    "kcp_parity": KeySchema(
        value_types.one_for_all(value_types.KCP_PARITY, auto=None),
        "gost+kcp: packets of forward error correction per kcp_data packets; auto: GOST's "
        "default, 3",
        "0",
        unit="packets",
        default="auto",
    ),
    "kcp_data": KeySchema(
        value_types.one_for_all(value_types.KCP_DATA, auto=None),
        "gost+kcp: data packets per group of forward error correction, to which kcp_parity adds; "
        "auto: GOST's default, 10",
        "5",
        unit="packets",
        default="auto",
    ),
    "kcp_mtu": KeySchema(
        value_types.one_for_all(value_types.KCP_MTU, auto=None),
        "gost+kcp: size of its UDP payloads; auto: GOST's default, 1350",
        "1200",
        unit="bytes",
        default="auto",
    ),
    "sndbuf": KeySchema(
        value_types.read_socket_buffer, "OpenVPN's send buffer (default: the system's)", "512KiB"
    ),
    "rcvbuf": KeySchema(
        value_types.read_socket_buffer, "OpenVPN's receive buffer (default: the system's)", "512KiB"
    ),
    "tun_queue": KeySchema(
        value_types.TUN_QUEUES,
        "queueing discipline of a VPN's interface at both ends, with the kernel's "
        "parameters; default: the kernel's choice, pfifo_fast for tun (OpenVPN, ssh+tun), "
        "none for WireGuard; OpenVPN's tun drops below it, so a discipline that does not shape "
        "changes nothing",
        "fq_codel",
        default="default",
    ),
    "mtu": KeySchema(
        value_types.MTU,
        "MTU of every link; the MTU of a VPN is derived from it",
        "1280",
        unit="bytes",
        default="1500",
    ),
    "cc": KeySchema(
        value_types.read_cc,
        "congestion control: one for all ends, or by end (an end that is not named has "
        "the default); cc.END sets one end (a host, or a tunnel's leg: app, wan, exit, "
        "inner)",
        "bbr, {client: bbr, target: cubic}",
        default="cubic",
    ),
    "streams": KeySchema(value_types.STREAMS, "number of parallel connections", "16", default="1"),
    "duration": KeySchema(value_types.read_duration, "duration of the load", "60s", default="30s"),
    "measure": KeySchema(
        value_types.read_window,
        "part of the load over which results are computed (rates, retransmissions, RTT "
        "and queue), as in published tables; all: the whole load",
        "40s..100s",
        unit="from when to when",
        default="all",
    ),
    "skip": KeySchema(
        value_types.read_instant,
        "begin of the measured part of the load, which then extends to the load's end",
        "40s",
        default="0s",
    ),
    "start_spread": KeySchema(
        value_types.read_start_spread,
        "maximum random delay of the start of each flow and each tunnel end, drawn from "
        "the repetition's seed so that repetitions differ as real ones do; 0s: no delay",
        "0s",
        default="20ms",
    ),
    "direction": KeySchema(
        value_types.DIRECTION,
        "direction of the data: upload (the client sends), download, or both at once: "
        "flows NAME-up and NAME-down",
        "both",
        default="upload",
    ),
    "clock": KeySchema(
        one_of("virtual", "real"),
        "clock of the guest: virtual (stops while a program waits for the CPU) or real",
        "real",
        default="virtual",
    ),
    "kernel": KeySchema(
        value_types.read_kernel,
        "kernel of the sandbox: shipped (built by ./lab setup), another version of Linux "
        "or your own tree (added by ./lab kernel add)",
        "5.10",
        default="shipped",
    ),
    "syscall_cost": KeySchema(
        value_types.read_syscall_cost,
        "cost of a system call on the virtual clock",
        "20us",
        default=f"{DEFAULT_SYSCALL_COST_US}us",
    ),
    "machine": KeySchema(
        read_machine,
        "measured machine whose table gives the cost of each program's calls and bytes; "
        "uniform: syscall_cost and byte_cost for all programs (implied if one of them is "
        "set)",
        "development",
        default="uniform",
    ),
    "byte_cost": KeySchema(
        value_types.read_byte_cost,
        "additional cost of each byte that a system call moves, on the virtual clock",
        "0.5ns",
        default="0ns",
    ),
    "clock_reads": KeySchema(
        one_of("charged", "free"),
        "whether a clock read costs a system call (charged), or nothing (free), as on a "
        "real machine",
        "free",
        default="free",
    ),
    "read_on": KeySchema(
        one_of("on", "off"),
        default="on",
        says="whether the sandbox's kernel performs the reads of a program that does nothing "
        "between two reads; off: to prove that the samples are equal",
        example="off",
    ),
    "host_cpus": KeySchema(
        value_types.per_host(value_types.HOST_CPUS, value_types.SHARED, value_types.AUTO),
        "CPUs per host: one value, or by host; auto: as the profile says of its machines, "
        "else 1; shared: one CPU for all hosts together",
        "2, {client: 2, target: 4}",
        unit="CPUs",
        default="auto",
    ),
    "cpu_share": KeySchema(
        value_types.one_for_all(value_types.CPU_SHARE, auto=None, whole=0),
        "long-run CPU time of a host, in CPUs, as of a cloud's shared-core machine; auto: "
        "as the profile says of its machines, else whole (all CPUs of the host)",
        "1",
        unit="CPUs",
        default="auto",
    ),
    "cpu_burst": KeySchema(
        value_types.one_for_all(value_types.CPU_BURST, auto=None),
        "CPU time by which a host may exceed its cpu_share in a burst; auto: as the "
        "profile says of its machines, else none",
        "2s",
        default="auto",
    ),
    "packet_cost": KeySchema(
        value_types.read_packet_cost,
        "CPU time that a host spends on each packet that it receives",
        "1500ns",
        default="750ns",
    ),
    "gost": KeySchema(
        value_types.read_gost,
        "program of GOST's tunnels: a GOST version (./lab gost add), relay (bundled with "
        "gostlab), or auto (of relay+TRANSPORT the relay; of gost+TRANSPORT the GOST of "
        "--gost, GOSTLAB_GOST, PATH or the cache, else the relay)",
        "3.2.6",
        default="auto",
    ),
    "iperf3": KeySchema(
        value_types.read_iperf3,
        "iperf3 of tcp and udp flows: 3.18 (one thread per stream), 3.12 or 3.9 (one "
        "thread for all streams), all built by gostlab; system: the installed iperf3",
        "3.12",
        default="3.18",
    ),
    "buffers": KeySchema(
        value_types.read_buffers,
        "TCP buffers: debian (6 and 4 MiB), system (the kernel's defaults), bdp (large "
        "enough never to limit), a preset of the file, or sizes",
        "bdp, {rmem: [4KiB, 128KiB, 6MiB], wmem: [4KiB, 16KiB, 4MiB]}",
        unit="sizes",
        default="debian",
    ),
    "offloads": KeySchema(
        one_of("auto", "on", "off"),
        "whether packets travel in super-packets of up to 64 kB; auto: if it does no "
        "harm, which from Linux 6.6 on is never the case (they enlarge receive windows)",
        "off",
        default="auto",
    ),
    "allow": KeySchema(
        value_types.read_traps,
        "traps to allow on purpose, to reproduce a testbed that has them: super-packets "
        "(losses drop super-packets of 64 kB); such runs are degraded, and every table "
        "says so",
        "super-packets",
    ),
    "receive": KeySchema(
        one_of("packet", "moderated"),
        "how end hosts' NICs receive: packet (an interrupt per packet), or moderated "
        "(interrupt coalescing and GRO, as real NICs do)",
        "moderated",
        default="packet",
    ),
    "rx_usecs": KeySchema(
        value_types.read_rx_usecs,
        "with receive: moderated, the minimum interval between a NIC's interrupts, which "
        "is also a packet's maximum wait",
        "100us",
        default="50us",
    ),
    "sample": KeySchema(value_types.read_sample, "sampling interval", "100ms", default="1s"),
    "memory": KeySchema(
        value_types.read_memory,
        "memory of the sandbox; auto: as much as the run needs",
        "2GiB",
        default="auto",
    ),
    "tcp_memory": KeySchema(
        value_types.read_tcp_memory,
        "maximum memory of all TCP sockets together; ample: enough for full buffers",
        "300MiB",
        default="ample",
    ),
    "host_tcp_memory": KeySchema(
        value_types.read_host_tcp_memory,
        "maximum memory of each host's TCP sockets; shared: one limit for all hosts",
        "365MiB",
        default="shared",
    ),
    "host_memory": KeySchema(
        value_types.per_host(value_types.MACHINE_MEMORY, value_types.SHARED, value_types.AUTO),
        "memory of each host's machine, of which TCP gets the share that Linux assigns; "
        "auto: as the profile says of its machines; shared: one limit for all hosts",
        "3.8GiB, {client: 3.8GiB, target: 16GiB}",
        default="auto",
    ),
    **BOTH_WAYS_FIELDS,
    "rtt": RTT,
    "flows": KeySchema(
        read_flows,
        "flows by name, each with the fields that differ from the run's; FLOW.FIELD sets "
        "one field of one flow; rrul: tcp, four connections each way, and ping",
        "{first: {cc: bbr}, late: {cc: cubic, start: 5s}}",
    ),
    "changes": KeySchema(
        read_changes,
        "changes of the path during the load, in order of time",
        "[{at: 15s, rate: 50mbit}, {at: 20s, loss: 1%, direction: both}]",
    ),
    "trace": KeySchema(
        text_of,
        "CSV file of changes with the columns time_s, direction, delay_ms, loss, "
        "rate_bps; they apply to all links without their own path",
        "my-path.csv",
    ),
    "sites": KeySchema(
        value_types.read_sites,
        "profiles of a star's sites; the run's own profile is the one under test",
        "[client-tokyo, client-paris]",
    ),
    "acks": KeySchema(
        one_of("on", "off"),
        "whether to record the sender's window at every ACK",
        "on",
        default="off",
    ),
    "capture": KeySchema(
        read_capture,
        "packets to record in pcapng files of the run's folder, without a change of any sample: "
        "wan (at both ends of the path that the flows take), links (at both ends of every link of "
        "the topology), legs (of each TCP connection that a stream consists of), or one of "
        "several links by its name",
        "wan",
        default="off",
    ),
    "snaplen": KeySchema(
        value_types.SNAPLEN,
        "maximum length of a captured packet; the headers of TCP over IPv4 with SACK fit in 96",
        "1514",
        unit="bytes",
        default="96",
    ),
}


# Alternative names of settings. Setting both names is an error.
ALIASES = {"aqm": "queue"}


def setting_called(name: str) -> str:
    """Return the setting that a name or alias refers to."""
    return ALIASES.get(name, name)


DEFAULTS = {name: field.default for name, field in SETTINGS.items() if field.default is not None}


CC_OF_END = KeySchema(
    CC, "congestion control of one end: a host, or both ends of one of a tunnel's legs", "bbr"
)


# The names that set one direction, one end or one flow.
NAMES_OF_PARTS = {
    **{
        f"^{direction}\\.{name}$": field
        for direction in DIRECTIONS
        for name, field in PATH_FIELDS.items()
    },
    f"^cc\\.({END.pattern})$": CC_OF_END,
    **{
        f"^(?!({'|'.join(DIRECTIONS)}|cc)\\.){FLOW_NAME.pattern}\\.{name}$": field
        for name, field in FLOW_FIELDS.items()
    },
}


def field_of(name: str) -> KeySchema | None:
    """Return the field that a name sets (loss, forward.loss, cc.client, flow2.rtt), or None."""
    parts = (field for pattern, field in NAMES_OF_PARTS.items() if re.match(pattern, name))
    return SETTINGS.get(setting_called(name)) or next(parts, None)


def known_names() -> list[str]:
    """Return the candidates for the correction of an unknown name."""
    narrowed = (f"{direction}.{name}" for direction in DIRECTIONS for name in PATH_FIELDS)
    return [
        *SETTINGS,
        *ALIASES,
        *narrowed,
        *(f"cc.{end}" for end in ("client", "gost", "target", *LEGS)),
    ]


def read_level(name: str, node: Node) -> Setting:
    """Return one value of a setting. Raises BadInput."""
    field = field_of(name)
    assert field is not None, name
    value = field.read(node)
    is_cc = isinstance(value, str) and "cc" in (name.partition(".")[0], name.rpartition(".")[2])
    in_one_form = is_cc or name.rpartition(".")[2] == "streams"
    written = value if in_one_form else written_value(node)
    return Setting(value, written, node, setting_called(name))


def written_value(node: Node) -> Any:
    """Return what the user wrote without blanks, so that `10 Gbit` and `10Gbit` are one level."""
    return node.to_plain_values(lambda text: "".join(text.split()))


def show_level(written: Any) -> str:
    """Return a level as text: 0.1%, client bbr, target cubic."""
    if isinstance(written, Mapping):
        return ", ".join(f"{name} {show_level(value)}" for name, value in written.items())
    if isinstance(written, list | tuple):
        return " ".join(show_level(item) for item in written)
    return str(written)


def read_settings(node: Node) -> Settings:
    """Return settings by name. Raises BadInput."""
    given = mapping_of(node)
    for name in given:
        if field_of(name) is None:
            raise unknown_key(node, name, known_names())
    reject_duplicate_aliases(node, given)
    return {setting_called(name): read_level(name, value) for name, value in given.items()}


def reject_duplicate_aliases(node: Node, given: Collection[str]) -> None:
    """Reject a setting that is written under two of its names. Raises BadInput."""
    for alias, name in ALIASES.items():
        if alias in given and name in given:
            raise node.bad(f"both {name} and {alias}, which are one setting (write one of them)")


def read_factors(node: Node) -> Factors:
    """Return factors and their levels: a list, or {sets: NAME, levels: […]}. Raises BadInput."""
    factors: dict[str, tuple[Setting, ...]] = {}
    reject_duplicate_aliases(node, mapping_of(node))
    for name, written in mapping_of(node).items():
        if written.fields is None and field_of(name) is None:
            raise unknown_key(node, name, known_names())
        factors[name] = read_factor(name, written)
    return factors


def read_factor(name: str, node: Node, sets: str | None = None) -> tuple[Setting, ...]:
    """Return a factor's levels; `sets` names the setting of a repeated factor. Raises BadInput."""
    if node.fields is None:
        return read_levels(sets or name, node)
    setting, levels = (named_factor(node)[key] for key in ("sets", "levels"))
    target = setting.text or ""
    if field_of(target) is None:
        raise setting.bad_value(f"nothing that can be set ({suggest_name(target, known_names())})")
    if field_of(name) is not None and not f".{target}".endswith(f".{name}"):
        raise setting.bad_value(
            f"a factor that is called {name} sets {name}, or one direction's (call it otherwise)"
        )
    return read_levels(target, levels)


# A named factor is read twice: first its setting, then its levels with that setting's reader.
named_factor = mapping_reader(
    {
        name: KeySchema(as_written({}), description, required=True)
        for name, description in (
            ("sets", "the setting that the levels are of"),
            ("levels", "its levels"),
        )
    }
)


def settings_schema(of_value: Callable[[KeySchema], JsonSchema]) -> JsonSchema:
    """Return the JSON Schema of settings by name; `of_value` maps a field to its value's schema."""
    return {
        "type": "object",
        "properties": {
            **{name: of_value(field) for name, field in SETTINGS.items()},
            **{alias: of_value(SETTINGS[name]) for alias, name in ALIASES.items()},
        },
        "patternProperties": {name: of_value(field) for name, field in NAMES_OF_PARTS.items()},
        "additionalProperties": False,
    }


def levels_schema(field: KeySchema) -> JsonSchema:
    """Return the JSON Schema of a factor: its levels, or those of another setting."""
    return {
        "anyOf": [
            {"type": "array", "items": field.read.schema, "minItems": 1},
            named_factor.schema,
        ],
        "description": field.says,
    }


def settings_schemas() -> JsonSchema:
    """Return the JSON Schemas that the readers below refer to."""
    factors = {**settings_schema(levels_schema), "additionalProperties": named_factor.schema}
    return {"settings": settings_schema(field_schema), "factors": factors}


SETTINGS_BY_NAME = Reader(read_settings, {"$ref": "#/$defs/settings"})
FACTORS = Reader(read_factors, {"$ref": "#/$defs/factors"})


def read_levels(name: str, node: Node) -> tuple[Setting, ...]:
    """Return a factor's levels, which must differ. Raises BadInput."""
    if node.items is None:
        raise node.bad(f"{node.type_phrase} where a list ([a, b]) should be")
    levels = tuple(read_level(name, item) for item in node.items)
    if not levels:
        raise node.bad("at least 1 should be in this list")
    for index, level in enumerate(levels):
        if any(level.value == other.value for other in levels[:index]):
            raise level.node.bad_value("the same level twice")
    return levels


def parse_override(name: str, text: str, *, origin: str | None = None) -> Node:
    """Parse the levels that --set gives, written as in YAML. Raises BadInput naming --set."""
    origin = origin or f"--set {units.quoted(name)[1:-1]}"
    if re.search(r"^\s*,|,\s*,", text):
        raise BadInput(f"{origin} {units.quoted(text)}: nothing beside a comma (write A,B)")
    if comma := units.DECIMAL_COMMA.fullmatch(text):
        one = ".".join(comma.groups())
        raise BadInput(
            f"{origin} {units.quoted(text)}: write {one} if it is one number, or a unit"
            " for each of two"
        )
    document = parse_document(f"[{text}\n]", origin, line_numbers=False)
    return replace(document, items=tuple(replace(item, key="") for item in document.items or ()))


def read_override(name: str, text: str, *, origin: str | None = None) -> tuple[Setting, ...]:
    """Return the levels that --set gives a setting. Raises BadInput naming --set."""
    node = parse_override(name, text, origin=origin)
    if field_of(name) is None:
        raise node.bad(f"no such factor or setting ({suggest_name(name, known_names())})")
    return read_levels(name, node)


@cache
def default_setting(name: str) -> Setting:
    return read_level(name, Node("default", None, name, text=DEFAULTS[name]))


def merge_layers(*layers: Settings) -> dict[str, Setting]:
    """Merge settings of several layers; a later layer overrides an earlier one.

    A later `loss` replaces an earlier `forward.loss`. Within a layer the narrower name is the
    stronger one.
    """
    result: dict[str, Setting] = {}
    for layer in layers:
        wide = {setting.name for setting in layer.values()} & (PATH_FIELDS.keys() | {"cc"})
        result = {
            name: setting
            for name, setting in result.items()
            if broader_setting(setting.name) not in wide
        }
        result.update(layer)
    return result


def broader_setting(name: str) -> str | None:
    """Return the setting that a narrower name is part of (loss of forward.loss), or None."""
    first, _, last = name.partition(".")
    if first in DIRECTIONS and last in PATH_FIELDS:
        return last
    return "cc" if first == "cc" and last else None
