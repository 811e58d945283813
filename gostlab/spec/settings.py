"""The settings of a run: what reads each from YAML, what it means, and what holds
where nobody wrote it.

Any setting may be a factor: then a list of levels stands in its place. Those of the path are of
both directions; `forward.loss` is of one. `cc` is everyone's; `cc.client` is of one end.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gostlab.errors import BadInput
from gostlab.registry.traffic import traffic_kinds
from gostlab.registry.tunnels import LEGS
from gostlab.spec import units, value_types
from gostlab.spec.cpu_cost_tables import read_machine
from gostlab.spec.profile import DIRECTIONS, read_loss
from gostlab.spec.value_types import CC, END, MAX_FLOWS
from gostlab.spec.yaml_source import (
    KeySchema,
    Node,
    Reader,
    as_written,
    by_name,
    field_schema,
    known_fields,
    list_of,
    mapping,
    mapping_of,
    mapping_schema,
    meant,
    one_of,
    parse_document,
    takes,
    text_like,
    text_of,
    unknown_key,
)

# What one system call costs on the virtual clock, µs, unless the experiment says otherwise.
DEFAULT_SYSCALL_COST_US = 5
MAX_CHANGES = 10_000
FLOW_NAME = re.compile(r"[a-z][a-z0-9_-]{0,15}")
NO_FLOW_NAMES = (*DIRECTIONS, "cc")  # forward.rate is the path's


@dataclass(frozen=True)
class Setting:
    """A setting's value, as read, as people wrote it, and where."""

    value: Any
    written: Any
    node: Node
    name: str  # the setting; a factor may have another name


Settings = Mapping[str, Setting]
Factors = Mapping[str, tuple[Setting, ...]]


# What a flow may have besides what the run says for all of its flows.
FLOW_FIELDS: Mapping[str, KeySchema] = {
    "kind": KeySchema(
        one_of(*traffic_kinds()),
        "; ".join(f"{kind.name}: {kind.says}" for kind in traffic_kinds().values()),
        "ping",
        default="tcp",
    ),
    "cc": KeySchema(CC, "congestion control", "bbr"),
    "ecn": KeySchema(
        one_of("off", "on", "l4s"),
        "whether its hosts ask for ECN, where that differs from the run's",
        "off",
    ),
    "streams": KeySchema(value_types.STREAMS, "connections side by side", "4"),
    "direction": KeySchema(value_types.DIRECTION, "who sends the data", "download"),
    "start": KeySchema(value_types.read_instant, "when it begins", "5s", default="0s"),
    "connect": KeySchema(
        one_of("before-load", "at-start"),
        "when its connections are made: at its start a full queue is in the first round trip that"
        " BBR sees, and its data begin round trips later",
        "at-start",
        default="before-load",
    ),
    "duration": KeySchema(
        value_types.read_duration, "how long it lasts; an http flow: at most", "20s"
    ),
    "rtt": KeySchema(value_types.read_rtt, "its own idle round trip (dumbbell)", "50ms"),
    "buffers": KeySchema(
        value_types.read_buffers, "TCP buffers of its two hosts", "bdp", unit="a preset or sizes"
    ),
    "rate": KeySchema(value_types.read_offered_rate, "what a udp flow offers", "20mbit"),
    "size": KeySchema(
        value_types.read_download_size, "what an http flow fetches", "100MB", unit="bytes"
    ),
    "sizes": KeySchema(
        list_of(value_types.read_download_size, least=1),
        "what a short flow fetches, one after another, in turn until its time is over",
        "[10kB, 100kB, 1MB]",
        unit="bytes",
    ),
    "interval": KeySchema(
        value_types.read_ping_interval,
        "how far a ping flow's requests are apart, without it 100 ms; how far the beginnings of a"
        " short flow's downloads are apart, without it one follows the other",
        "20ms",
    ),
    "through": KeySchema(
        one_of("path", "tunnel"),
        "whether a udp flow takes the path beside the run's tunnel, or the tunnel",
        "tunnel",
        default="path",
    ),
    "server": KeySchema(
        text_of,
        "what a command flow's receiver runs, in a shell: it listens on $HOST and $PORT, by TCP or"
        " UDP",
        '"nc -lk $HOST $PORT >/dev/null"',
        unit="a command",
    ),
    "client": KeySchema(
        text_of,
        "what its sender runs: it connects to $HOST and $PORT, and ends within $SECONDS",
        '"timeout $SECONDS nc $HOST $PORT </dev/zero; true"',
        unit="a command",
    ),
    "sender": KeySchema(value_types.HOST_NUMBER, "the number of its sender (dumbbell)", "1"),
    "receiver": KeySchema(value_types.HOST_NUMBER, "the number of its receiver (dumbbell)", "2"),
}


LINK_NAME = re.compile(r"hop[12]|n[0-9]{1,2}-n[0-9]{1,2}")


IN_MS = value_types.read_delay.to(lambda delay_s: float(delay_s * 1000))
CHANGE_FIELDS: Mapping[str, KeySchema] = {
    "at": KeySchema(value_types.read_instant, "when, after the load's start", "15s", required=True),
    "direction": KeySchema(
        one_of(*DIRECTIONS, "both"),
        "of which direction; without it, the one that carries the data",
        "both",
    ),
    "link": KeySchema(
        text_like(LINK_NAME.pattern, "no name of a link (like hop2, or n1-n2)"),
        "of which of several links, as under `links`; without it, of all that have no path of"
        " their own",
        "hop2",
    ),
    "rate": KeySchema(value_types.RATE, "the bottleneck's rate from then on", "50mbit"),
    "delay": KeySchema(IN_MS, "one way, from then on", "40ms"),
    "jitter": KeySchema(IN_MS, "from then on", "5ms"),
    "loss": KeySchema(read_loss, "from then on", "1%"),
}


CHANGE = mapping(CHANGE_FIELDS)


@takes({"type": "array", "items": CHANGE.schema, "maxItems": MAX_CHANGES})
def read_changes(node: Node) -> list[dict[str, Any]]:
    """Changes of the path while the load runs, in the order of time. Raises BadInput."""
    if node.items is None or len(node.items) > MAX_CHANGES:
        raise node.bad(
            f"not a list of at most {MAX_CHANGES} changes (like [{{at: 10s, rate: 50mbit}}])"
        )
    changes = [CHANGE(item) for item in node.items]
    for item, change in zip(node.items, changes, strict=True):
        if all(change[key] is None for key in ("rate", "delay", "jitter", "loss")):
            raise item.bad("a change of nothing (rate, delay, jitter or loss)")
    if [change["at"] for change in changes] != sorted(change["at"] for change in changes):
        raise node.bad("not in the order of time")
    return changes


@takes({"anyOf": [mapping_schema(FLOW_FIELDS), {"type": "null"}]})
def read_flow(node: Node) -> dict[str, Any]:
    """What a flow has that differs from the run. Raises BadInput."""
    given = {} if node.kind == "nothing" else known_fields(node, FLOW_FIELDS)
    return {name: FLOW_FIELDS[name].read(value) for name, value in given.items()}


FLOWS = by_name(
    re.compile(rf"(?!({'|'.join(NO_FLOW_NAMES)})$){FLOW_NAME.pattern}"),
    read_flow,
    "flow",
    "{late: {cc: cubic, start: 5s}}",
)


@takes({**FLOWS.schema, "maxProperties": MAX_FLOWS})
def read_flows(node: Node) -> dict[str, dict[str, Any]]:
    """Flows by name, each with the fields that differ from the run's. Raises BadInput."""
    flows = FLOWS(node)
    if len(flows) > MAX_FLOWS:
        raise node.bad(f"{len(flows)} flows ({MAX_FLOWS} at most)")
    return flows


# What a run may have in place of its profile's own, both ways; forward.X, reverse.X: one way.
PATH_FIELDS: Mapping[str, KeySchema] = {
    "rate": KeySchema(value_types.read_rate, "the bottleneck's rate", "100mbit"),
    "delay": KeySchema(
        value_types.read_delay, "one way, in each direction: a round trip is twice as long", "20ms"
    ),
    "jitter": KeySchema(
        value_types.read_delay,
        "how far each packet's delay lies around the delay, each way; no more than the delay",
        "2ms",
    ),
    "loss": KeySchema(read_loss, "per packet, in each direction: data and ACKs", "0.1%"),
    "buffer": KeySchema(
        value_types.BUFFER,
        "the bottleneck's queue, each way; 1bdp and more have room for TCP's first window, 10"
        " packets",
        "1bdp, 100pkts, 150kB, 300ms",
    ),
    "ordered": KeySchema(
        one_of("on", "off"),
        "whether jitter keeps the order of packets, wherever there is jitter: dense ones then wait"
        " for slower ones before them, and the round trip is longer",
        "on",
    ),
}


RTT = KeySchema(
    value_types.read_rtt, "the idle round trip, half of it each way, in place of delay", "100ms"
)
# What a link may have of its own.
LINK_FIELDS: Mapping[str, KeySchema] = {
    "profile": KeySchema(
        text_of,
        "its path, a name in netem_profiles/ or a file; without it, the run's path with what"
        " else is written here",
        "plain-100ms",
    ),
    **PATH_FIELDS,
    "rtt": RTT,
    **{f"{way}.{name}": each for way in DIRECTIONS for name, each in PATH_FIELDS.items()},
}


@takes({"anyOf": [text_of.schema, mapping_schema(LINK_FIELDS)]})
def read_link(node: Node) -> dict[str, Setting]:
    """What a link has of its own: a profile's name alone, or LINK_FIELDS. Raises BadInput."""
    fields = {"profile": node} if node.fields is None else known_fields(node, LINK_FIELDS)
    if not fields:
        raise node.bad("nothing of its own (a profile, or like {rtt: 20ms, loss: 1%})")
    return {
        name: Setting(LINK_FIELDS[name].read(each), json_text(each), each, name)
        for name, each in fields.items()
    }


# Where there is no default, the profile's own holds, or there is no such thing.
SETTINGS: Mapping[str, KeySchema] = {
    "topology": KeySchema(
        value_types.TOPOLOGY, "who is joined to whom", "dumbbell", default="tunnel"
    ),
    "hops": KeySchema(
        value_types.HOPS,
        "how many paths lie one behind the other (topology tunnel): with 2 a tunnel is a"
        " chain, client – gost – gost2 – target, and `direct` one connection over both; each is the"
        " run's path, and so the round trip twice as long",
        "2",
        default="1",
    ),
    "links": KeySchema(
        by_name(LINK_NAME, read_link, "link", "{hop2: plain-100ms}"),
        "links with a path of their own, by name: `hop1` and `hop2` of two hops, `n1-n2` of a"
        " ring, mesh or parking-lot; a profile, or what differs from the run's path",
        "{hop2: {rtt: 20ms, loss: 1%}}",
    ),
    "bottleneck": KeySchema(
        value_types.BOTTLENECKS,
        "what has the bottleneck's rate: under a token bucket (tbf, htb) a queue can act, under"
        " netem's rate none can",
        "tbf",
        default="netem",
    ),
    "queue": KeySchema(
        value_types.QUEUES,
        "what keeps the packets that wait at a bottleneck: `buffer` is its limit; another than"
        " fifo brings bottleneck: tbf; `aqm` is the same setting by another name",
        "fq_codel",
        default="fifo",
    ),
    "target": KeySchema(
        value_types.read_target,
        "how long packets may wait on average at a bottleneck's queue that has such a target"
        " (codel, fq_codel, pie, fq_pie, dualpi2); without it the kernel's own",
        "5ms",
    ),
    "ecn": KeySchema(
        one_of("off", "on", "losses", "l4s"),
        "whether hosts ask for ECN and bottleneck queues that can mark do so where they would"
        " drop; losses: what the delay line would lose is marked too; l4s: hosts ask for accurate"
        " ECN, and fq_codel marks ECT(1) that waits longer than 1 ms (dualpi2 always does)",
        "on",
        default="off",
    ),
    "pacing": KeySchema(
        one_of("internal", "fq"),
        "what paces senders: TCP itself, where a congestion control asks for it, or the qdisc"
        " fq on their card, which paces every one",
        "fq",
        default="internal",
    ),
    "loss_detection": KeySchema(
        one_of("rack", "dupacks"),
        "what TCP takes for lost: by time, as the kernel does by default (RACK, RFC 8985), or"
        " by duplicate ACKs, as Linux before 4.4 did (RFC 6675; dupacks: kernels before 6.17)",
        "dupacks",
        default="rack",
    ),
    "placement": KeySchema(
        one_of("endpoint", "gateway"),
        "where a tunnel's far end is: on the target, or on gost before it",
        "gateway",
        default="endpoint",
    ),
    "profile": KeySchema(
        text_of,
        "the path: a name in netem_profiles/, or a file",
        "plain-100ms",
        default="la-hamina",
    ),
    "tunnel": KeySchema(
        value_types.TUNNEL, "what carries the stream", "gost+wss", default="direct"
    ),
    "nagle": KeySchema(
        one_of("off", "on"),
        "whether a tunnel of GOST's family leaves Nagle's algorithm on across the path (no"
        " TCP_NODELAY): small writes then wait for the ACK of those before them",
        "on",
        default="off",
    ),
    "shared": KeySchema(
        one_of("off", "on", "auto"),
        "whether flows between the same hosts share the one connection of a tunnel that has"
        " one (ssh, gost+mws, gost+quic), each as streams of it; off: a tunnel for each flow;"
        " auto: on for the tunnels that have one",
        "on",
        default="off",
    ),
    "kcp_mode": KeySchema(
        one_of("auto", "normal", "fast", "fast2", "fast3"),
        "of gost+kcp: how soon it sends again what no ACK came for, as GOST names it; auto: nothing"
        " is said to GOST, unless something else of gost+kcp is written (then fast)",
        "fast3",
        default="auto",
    ),
    "kcp_window": KeySchema(
        value_types.one_for_all(value_types.KCP_WINDOW, auto=None),
        "of gost+kcp: the most packets under way, which is all that holds its rate; auto: as"
        " kcp_mode has it (then 1024)",
        "4096",
        unit="packets",
        default="auto",
    ),
    "kcp_parity": KeySchema(
        value_types.one_for_all(value_types.KCP_PARITY, auto=None),
        "of gost+kcp: how many packets of forward error correction go with each ten of data; auto:"
        " as GOST has it, 3",
        "0",
        unit="packets",
        default="auto",
    ),
    "sndbuf": KeySchema(
        value_types.read_socket_buffer,
        "OpenVPN's own send buffer, in place of the system's",
        "512KiB",
    ),
    "rcvbuf": KeySchema(
        value_types.read_socket_buffer,
        "OpenVPN's own receive buffer, in place of the system's",
        "512KiB",
    ),
    "tun_queue": KeySchema(
        value_types.TUN_QUEUES,
        "the queueing discipline of a VPN's own interface at both ends, with the kernel's"
        " parameters; default: the kernel's own choice, pfifo_fast for tun (OpenVPN, ssh+tun),"
        " none for WireGuard",
        "fq_codel",
        default="default",
    ),
    "mtu": KeySchema(
        value_types.MTU,
        "the MTU of every link; a VPN's own follows from it",
        "1280",
        unit="bytes",
        default="1500",
    ),
    "cc": KeySchema(
        value_types.read_cc,
        "congestion control: one for all, or by end: an end that is not named has the default;"
        " cc.END is of one end (a host, or a tunnel's leg: app, wan, exit, inner)",
        "bbr, {client: bbr, target: cubic}",
        default="cubic",
    ),
    "streams": KeySchema(value_types.STREAMS, "connections side by side", "16", default="1"),
    "duration": KeySchema(
        value_types.read_duration, "how long the load lasts", "60s", default="30s"
    ),
    "measure": KeySchema(
        value_types.read_window,
        "which part of the load the results are taken over, as published tables do: rates,"
        " retransmissions, RTT and queue; all: the whole of it",
        "40s..100s",
        unit="from when to when",
        default="all",
    ),
    "skip": KeySchema(
        value_types.read_instant, "the same, from then to the load's end", "40s", default="0s"
    ),
    "start_spread": KeySchema(
        value_types.read_start_spread,
        "each flow, and each end of a tunnel, starts so much later than asked at most: drawn from"
        " the repetition's seed, so that repetitions differ as real ones do; 0s: none does",
        "0s",
        default="20ms",
    ),
    "direction": KeySchema(
        value_types.DIRECTION,
        "who sends the data: the client uploads",
        "download",
        default="upload",
    ),
    "clock": KeySchema(
        one_of("virtual", "real"),
        "the guest's time: waits for the CPU, or does not",
        "real",
        default="virtual",
    ),
    "kernel": KeySchema(
        value_types.read_kernel,
        "the sandbox's kernel: shipped is what ./lab setup built; other versions of Linux and"
        " trees of your own are built by ./lab kernel add",
        "5.10",
        default="shipped",
    ),
    "syscall_cost": KeySchema(
        value_types.read_syscall_cost,
        "what a system call takes of the virtual clock",
        "20us",
        default=f"{DEFAULT_SYSCALL_COST_US}us",
    ),
    "machine": KeySchema(
        read_machine,
        "a measured machine, whose table says what each program's calls and bytes cost;"
        " uniform: syscall_cost and byte_cost for all, as also where one of those is written",
        "development",
        default="uniform",
    ),
    "byte_cost": KeySchema(
        value_types.read_byte_cost,
        "what each byte that a system call moves takes of the virtual clock, on top",
        "0.5ns",
        default="0ns",
    ),
    "clock_reads": KeySchema(
        one_of("charged", "free"),
        "whether a look at the clock is a system call, or free as on a real machine",
        "free",
        default="free",
    ),
    "read_on": KeySchema(
        one_of("on", "off"),
        default="on",
        says="whether the sandbox's kernel makes the reads of a program that does nothing between"
        " two reads; off: for a proof that the samples are the same",
        example="off",
    ),
    "host_cpus": KeySchema(
        value_types.per_host(value_types.HOST_CPUS, value_types.SHARED, value_types.AUTO),
        "CPUs of each host's own, of all hosts or by host; auto: as the profile knows its"
        " machines, else 1; shared: one CPU for all hosts together",
        "2, {client: 2, target: 4}",
        unit="CPUs",
        default="auto",
    ),
    "cpu_share": KeySchema(
        value_types.one_for_all(value_types.CPU_SHARE, auto=None, whole=0),
        "how many CPUs' time a host's CPUs have together in the long run, as a cloud's shared-core"
        " machine does; auto: as the profile knows its machines, else whole: all of them",
        "1",
        unit="CPUs",
        default="auto",
    ),
    "cpu_burst": KeySchema(
        value_types.one_for_all(value_types.CPU_BURST, auto=None),
        "how much CPU time a host may be ahead of its cpu_share; auto: as the profile knows its"
        " machines, else none",
        "2s",
        default="auto",
    ),
    "packet_cost": KeySchema(
        value_types.read_packet_cost,
        "what each packet that a host receives takes of its own CPUs",
        "1500ns",
        default="750ns",
    ),
    "gost": KeySchema(
        value_types.read_gost,
        "what runs GOST's tunnels: a GOST by its version (./lab gost add), relay: the lab's own, or"
        " auto: the GOST that --gost, GOSTLAB_GOST, PATH or the cache has, else relay",
        "3.2.6",
        default="auto",
    ),
    "iperf3": KeySchema(
        value_types.read_iperf3,
        "the iperf3 of tcp and udp flows: 3.18 has a thread for each stream, 3.12 and"
        " 3.9 one for all, the lab's own; system: whatever is installed",
        "3.12",
        default="3.18",
    ),
    "buffers": KeySchema(
        value_types.read_buffers,
        "TCP buffers: debian (6 and 4 MiB), system (the kernel's own), bdp (never the limit),"
        " a preset of the file, or sizes",
        "bdp, {rmem: [4KiB, 128KiB, 6MiB], wmem: [4KiB, 16KiB, 4MiB]}",
        unit="sizes",
        default="debian",
    ),
    "offloads": KeySchema(
        one_of("auto", "on", "off"),
        "whether packets travel in super-packets of up to 64 kB; auto: where it does no harm,"
        " which from Linux 6.6 on is nowhere (they enlarge receive windows)",
        "off",
        default="auto",
    ),
    "allow": KeySchema(
        value_types.read_traps,
        "traps to walk into on purpose, to repeat somebody's testbed with its own: super-packets,"
        " losses that take lumps of 64 kB; such runs are degraded, and every table says so",
        "super-packets",
    ),
    "receive": KeySchema(
        one_of("packet", "moderated"),
        "how end hosts' cards receive: an interrupt for each packet, or as real cards do,"
        " interrupts some time apart and packets merged (GRO)",
        "moderated",
        default="packet",
    ),
    "rx_usecs": KeySchema(
        value_types.read_rx_usecs,
        "with receive: moderated, the least time between a card's interrupts, which no packet"
        " waits longer than",
        "100us",
        default="50us",
    ),
    "sample": KeySchema(value_types.read_sample, "the samplers' interval", "100ms", default="1s"),
    "memory": KeySchema(
        value_types.read_memory,
        "the sandbox's memory; auto: what the run needs",
        "2GiB",
        default="auto",
    ),
    "tcp_memory": KeySchema(
        value_types.read_tcp_memory,
        "the most that all TCP sockets may hold together; ample: full buffers",
        "300MiB",
        default="ample",
    ),
    "host_tcp_memory": KeySchema(
        value_types.read_host_tcp_memory,
        "the most that each host's TCP sockets may hold; shared: one limit for all hosts",
        "365MiB",
        default="shared",
    ),
    "host_memory": KeySchema(
        value_types.per_host(value_types.MACHINE_MEMORY, value_types.SHARED, value_types.AUTO),
        "the memory of each host's machine, of which its TCP has the share that Linux gives"
        " it; auto: as the profile knows its machines; shared: one limit for all hosts",
        "3.8GiB, {client: 3.8GiB, target: 16GiB}",
        default="auto",
    ),
    **PATH_FIELDS,
    "rtt": RTT,
    "flows": KeySchema(
        read_flows,
        "flows by name, each with what differs from the run; FLOW.FIELD is one field of one",
        "{first: {cc: bbr}, late: {cc: cubic, start: 5s}}",
    ),
    "changes": KeySchema(
        read_changes,
        "what changes on the path while the load runs, in the order of time",
        "[{at: 15s, rate: 50mbit}, {at: 20s, loss: 1%, direction: both}]",
    ),
    "trace": KeySchema(
        text_of,
        "a CSV file of changes: time_s, direction, delay_ms, loss, rate_bps; of several links"
        " those change that have no path of their own",
        "my-path.csv",
    ),
    "sites": KeySchema(
        value_types.read_sites,
        "the profiles of a star's sites; the run's own is the one under test",
        "[client-tokyo, client-paris]",
    ),
    "acks": KeySchema(
        one_of("on", "off"),
        "whether to record the sender's window at every ACK",
        "on",
        default="off",
    ),
}


# Further names of a setting: what others call it. Both at once are refused.
ALIASES = {"aqm": "queue"}


def setting_called(name: str) -> str:
    """The setting that a name is of: itself, or what it is another name of."""
    return ALIASES.get(name, name)


DEFAULTS = {name: each.default for name, each in SETTINGS.items() if each.default is not None}


CC_OF_END = KeySchema(
    CC, "congestion control of one end: a host, or both ends of one of a tunnel's legs", "bbr"
)


# What else can be set: of one direction, of one end, of one flow.
NAMES_OF_PARTS = {
    **{f"^{way}\\.{name}$": each for way in DIRECTIONS for name, each in PATH_FIELDS.items()},
    f"^cc\\.({END.pattern})$": CC_OF_END,
    **{
        f"^(?!({'|'.join(DIRECTIONS)}|cc)\\.){FLOW_NAME.pattern}\\.{name}$": each
        for name, each in FLOW_FIELDS.items()
    },
}


def field_of(name: str) -> KeySchema | None:
    """What can be set by a name (loss, forward.loss, cc.client, flow2.rtt); None: nothing."""
    parts = (each for pattern, each in NAMES_OF_PARTS.items() if re.match(pattern, name))
    return SETTINGS.get(setting_called(name)) or next(parts, None)


def known_names() -> list[str]:
    """What an unknown name may have been meant for."""
    ways = (f"{way}.{name}" for way in DIRECTIONS for name in PATH_FIELDS)
    return [
        *SETTINGS,
        *ALIASES,
        *ways,
        *(f"cc.{end}" for end in ("client", "gost", "target", *LEGS)),
    ]


def read_level(name: str, node: Node) -> Setting:
    """One value of a setting. Raises BadInput."""
    found = field_of(name)
    assert found is not None, name
    value = found.read(node)
    is_cc = isinstance(value, str) and "cc" in (name.partition(".")[0], name.rpartition(".")[2])
    in_one_form = is_cc or name.rpartition(".")[2] == "streams"
    written = value if in_one_form else json_text(node)
    return Setting(value, written, node, setting_called(name))


def json_text(node: Node) -> Any:
    """What was written, without blanks: `10 Gbit` and `10Gbit` are one level."""
    return node.plain(lambda text: "".join(text.split()))


def show_level(written: Any) -> str:
    """A level for people, from how it was written: 0.1%, client bbr, target cubic."""
    if isinstance(written, Mapping):
        return ", ".join(f"{name} {show_level(value)}" for name, value in written.items())
    if isinstance(written, list | tuple):
        return " ".join(show_level(item) for item in written)
    return str(written)


def read_settings(node: Node) -> Settings:
    """Settings by name. Raises BadInput."""
    given = mapping_of(node)
    for name in given:
        if field_of(name) is None:
            raise unknown_key(node, name, known_names())
    check_said_once(node, given)
    return {setting_called(name): read_level(name, value) for name, value in given.items()}


def check_said_once(node: Node, given: Mapping[str, Any]) -> None:
    """No setting by two of its names. Raises BadInput."""
    for alias, name in ALIASES.items():
        if alias in given and name in given:
            raise node.bad(f"both {name} and {alias}, which are one setting (write one of them)")


def read_factors(node: Node) -> Factors:
    """Factors and their levels: a list, or {sets: NAME, levels: […]}. Raises BadInput."""
    found: dict[str, tuple[Setting, ...]] = {}
    check_said_once(node, mapping_of(node))
    for name, written in mapping_of(node).items():
        if written.fields is None and field_of(name) is None:
            raise unknown_key(node, name, known_names())
        found[name] = read_factor(name, written)
    return found


def read_factor(name: str, node: Node, sets: str | None = None) -> tuple[Setting, ...]:
    """A factor's levels; `sets`: the setting of one that is written again. Raises BadInput."""
    if node.fields is None:
        return read_levels(sets or name, node)
    setting, levels = (named_factor(node)[key] for key in ("sets", "levels"))
    target = setting.text or ""
    if field_of(target) is None:
        raise setting.bad_value(f"nothing that can be set ({meant(target, known_names())})")
    if field_of(name) is not None and not f".{target}".endswith(f".{name}"):
        raise setting.bad_value(
            f"a factor that is called {name} sets {name}, or one direction's (call it otherwise)"
        )
    return read_levels(target, levels)


# Read twice: first which setting, then the levels as that setting's.
named_factor = mapping(
    {
        name: KeySchema(as_written({}), says, required=True)
        for name, says in (("sets", "the setting that the levels are of"), ("levels", "its levels"))
    }
)


def settings_schema(of_value: Any) -> dict[str, Any]:
    """The JSON Schema of settings by name; `of_value` makes a value's from its field."""
    return {
        "type": "object",
        "properties": {
            **{name: of_value(each) for name, each in SETTINGS.items()},
            **{alias: of_value(SETTINGS[name]) for alias, name in ALIASES.items()},
        },
        "patternProperties": {name: of_value(each) for name, each in NAMES_OF_PARTS.items()},
        "additionalProperties": False,
    }


def levels_schema(each: KeySchema) -> dict[str, Any]:
    """The JSON Schema of a factor: its levels, or those of another setting."""
    return {
        "anyOf": [{"type": "array", "items": each.read.schema, "minItems": 1}, named_factor.schema],
        "description": each.says,
    }


def settings_schemas() -> dict[str, Any]:
    """What the readers below refer to."""
    factors = {**settings_schema(levels_schema), "additionalProperties": named_factor.schema}
    return {"settings": settings_schema(field_schema), "factors": factors}


SETTINGS_BY_NAME = Reader(read_settings, {"$ref": "#/$defs/settings"})
FACTORS = Reader(read_factors, {"$ref": "#/$defs/factors"})


def read_levels(name: str, node: Node) -> tuple[Setting, ...]:
    """A factor's levels, each once. Raises BadInput."""
    if node.items is None:
        raise node.bad(f"{node.kind} where a list ([a, b]) should be")
    levels = tuple(read_level(name, item) for item in node.items)
    if not levels:
        raise node.bad("at least 1 should be in this list")
    for index, level in enumerate(levels):
        if any(level.value == other.value for other in levels[:index]):
            raise level.node.bad_value("the same level twice")
    return levels


def parse_override(name: str, text: str, *, origin: str | None = None) -> Node:
    """The levels that --set gives, written as in YAML. Raises BadInput naming --set."""
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
    """The levels that --set gives a setting. Raises BadInput naming --set."""
    node = parse_override(name, text, origin=origin)
    if field_of(name) is None:
        raise node.bad(f"no such factor or setting ({meant(name, known_names())})")
    return read_levels(name, node)


@cache
def default_setting(name: str) -> Setting:
    """A setting that nobody wrote."""
    return read_level(name, Node("default", None, name, text=DEFAULTS[name]))


def merged(*layers: Settings) -> dict[str, Setting]:
    """Settings of several layers, a later one stronger than an earlier one: its `loss` takes the
    place of an earlier `forward.loss`. Within a layer the narrower word is the stronger one.
    """
    found: dict[str, Setting] = {}
    for layer in layers:
        wide = {setting.name for setting in layer.values()} & (PATH_FIELDS.keys() | {"cc"})
        found = {
            name: setting for name, setting in found.items() if widened(setting.name) not in wide
        }
        found.update(layer)
    return found


def widened(name: str) -> str | None:
    """The setting that a narrower one is of: loss of forward.loss, cc of cc.client; None."""
    first, _, last = name.partition(".")
    if first in DIRECTIONS and last in PATH_FIELDS:
        return last
    return "cc" if first == "cc" and last else None
