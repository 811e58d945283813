"""What a run can be asked for: every setting, who reads it from YAML, what it means, and what holds
where nobody wrote it.

Any setting may be a factor: then a list of levels stands in its place. Those of the path are of
both directions; `forward.loss` is of one. `cc` is everyone's; `cc.client` is of one end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gostlab.ask import units
from gostlab.ask.costs import read_machine
from gostlab.ask.document import (
    Field,
    Node,
    Reader,
    list_of,
    mapping,
    mapping_of,
    mapping_schema,
    meant,
    one_of,
    parse_document,
    takes,
    text_of,
    unknown_key,
)
from gostlab.ask.machines import read_host_cpus, read_host_memory
from gostlab.ask.profile import (
    BUFFER,
    DIRECTIONS,
    RATE,
    read_delay,
    read_loss,
    read_rate,
)
from gostlab.ask.values import (
    BOTTLENECKS,
    CC,
    DIRECTION,
    END,
    HOPS,
    HOST_NUMBER,
    MAX_FLOWS,
    MTU,
    STREAMS,
    TOPOLOGY,
    TUNNEL,
    read_buffers,
    read_byte_cost,
    read_cc,
    read_download_size,
    read_duration,
    read_host_tcp_memory,
    read_instant,
    read_iperf3,
    read_kernel,
    read_memory,
    read_offered_rate,
    read_packet_cost,
    read_ping_interval,
    read_queue,
    read_rtt,
    read_rx_usecs,
    read_sample,
    read_sites,
    read_socket_buffer,
    read_syscall_cost,
    read_tcp_memory,
)
from gostlab.declared.tunnels import LEGS

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


# What a flow may be asked for besides what the run says for all of its flows.
FLOW_FIELDS: Mapping[str, Field] = {
    "kind": Field(
        one_of("tcp", "udp", "http", "short", "ping"),
        default="tcp",
        says="iperf3 by TCP, iperf3 by UDP at a rate, a file fetched by wget from nginx, short"
        " downloads one after another, or round trips measured while others load the path",
        example="ping",
    ),
    "cc": Field(CC, says="congestion control", example="bbr"),
    "streams": Field(STREAMS, says="connections side by side", example="4"),
    "direction": Field(DIRECTION, says="who sends the data", example="download"),
    "start": Field(read_instant, default="0s", says="when it begins", unit="a time", example="5s"),
    "duration": Field(
        read_duration,
        says="how long it lasts; an http flow: at most",
        unit="whole seconds",
        example="20s",
    ),
    "rtt": Field(
        read_rtt, says="its own idle round trip (dumbbell)", unit="a time", example="50ms"
    ),
    "buffers": Field(
        read_buffers, says="TCP buffers of its two hosts", unit="a preset or sizes", example="bdp"
    ),
    "rate": Field(read_offered_rate, says="what a udp flow offers", unit="bit/s", example="20mbit"),
    "size": Field(
        read_download_size, says="what an http flow fetches", unit="bytes", example="100MB"
    ),
    "sizes": Field(
        list_of(read_download_size, least=1),
        says="what a short flow fetches, one after another, in turn until its time is over",
        unit="bytes",
        example="[10kB, 100kB, 1MB]",
    ),
    "interval": Field(
        read_ping_interval,
        says="how far a ping flow's requests are apart; without it 100 ms",
        unit="a time",
        example="20ms",
    ),
    "sender": Field(HOST_NUMBER, says="the number of its sender (dumbbell)", example="1"),
    "receiver": Field(HOST_NUMBER, says="the number of its receiver (dumbbell)", example="2"),
}


LINK_NAME = re.compile(r"hop[12]|n[0-9]{1,2}-n[0-9]{1,2}")


@takes({"type": "string", "pattern": f"^({LINK_NAME.pattern})$"})
def read_link_name(node: Node) -> str:
    """What a link is called, whether the run has it or not. Raises BadInput."""
    if not LINK_NAME.fullmatch(text_of(node)):
        raise node.bad_value("no name of a link (like hop2, or n1-n2)")
    return text_of(node)


CHANGE_FIELDS: Mapping[str, Field] = {
    "at": Field(
        read_instant,
        required=True,
        says="when, after the load's start",
        unit="a time",
        example="15s",
    ),
    "direction": Field(
        one_of(*DIRECTIONS, "both"),
        says="of which direction; without it, the one that carries the data",
        example="both",
    ),
    "link": Field(
        read_link_name,
        says="of which of several links, as under `links`; without it, of all that have no path of"
        " their own",
        example="hop2",
    ),
    "rate": Field(RATE, says="the bottleneck's rate from then on", unit="bit/s", example="50mbit"),
    "delay": Field(read_delay, says="one way, from then on", unit="a time", example="40ms"),
    "jitter": Field(read_delay, says="from then on", unit="a time", example="5ms"),
    "loss": Field(read_loss, says="from then on", unit="%, or a model", example="1%"),
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


@takes(
    {
        "type": "object",
        "patternProperties": {
            f"^(?!({'|'.join(NO_FLOW_NAMES)})$){FLOW_NAME.pattern}$": {
                "anyOf": [mapping_schema(FLOW_FIELDS), {"type": "null"}]
            }
        },
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": MAX_FLOWS,
    }
)
def read_flows(node: Node) -> dict[str, dict[str, Any]]:
    """Flows by name, each with the fields that differ from the run's. Raises BadInput."""
    flows: dict[str, dict[str, Any]] = {}
    for name, fields in mapping_of(node).items():
        if not FLOW_NAME.fullmatch(name):
            raise node.bad(
                f"{units.quoted(name)}: a flow's name has lower-case letters, digits, - and _, 16"
                " at most"
            )
        if name in NO_FLOW_NAMES:
            raise node.bad(f"{name}: no name for a flow, as {name}.… means something else")
        given = {} if fields.kind == "nothing" else mapping_of(fields)
        for key in given:
            if key not in FLOW_FIELDS:
                raise unknown_key(fields, key, FLOW_FIELDS)
        flows[name] = {key: FLOW_FIELDS[key].read(value) for key, value in given.items()}
    if not 1 <= len(flows) <= MAX_FLOWS:
        raise node.bad(f"{len(flows)} flows (1 to {MAX_FLOWS})")
    return flows


# What a run may have in place of its profile's own, in both directions; forward.X and reverse.X are
# of one.
PATH_FIELDS: Mapping[str, Field] = {
    "rate": Field(read_rate, says="the bottleneck's rate", unit="bit/s", example="100mbit"),
    "delay": Field(
        read_delay,
        says="one way, in each direction: a round trip is twice as long",
        unit="a time",
        example="20ms",
    ),
    "jitter": Field(
        read_delay,
        says="how far each packet's delay lies around the delay, each way",
        unit="a time",
        example="2ms",
    ),
    "loss": Field(
        read_loss,
        says="per packet, in each direction: data and ACKs",
        unit="%, or a model",
        example="0.1%",
    ),
    "buffer": Field(
        BUFFER,
        says="the bottleneck's queue, each way",
        unit="a multiple of the BDP, packets, a size, or a time at the bottleneck's rate",
        example="1bdp, 100pkts, 150kB, 300ms",
    ),
    "ordered": Field(
        one_of("on", "off"),
        says="whether jitter keeps the order of packets, wherever there is jitter",
        example="on",
    ),
}


RTT = Field(
    read_rtt,
    says="the idle round trip, half of it each way, in place of delay",
    unit="a time",
    example="100ms",
)
# What a link may have of its own.
LINK_FIELDS: Mapping[str, Field] = {
    "profile": Field(
        text_of,
        says="its path, a name in netem_profiles/ or a file; without it, the run's path with what"
        " else is written here",
        example="plain-100ms",
    ),
    **PATH_FIELDS,
    "rtt": RTT,
    **{f"{way}.{name}": each for way in DIRECTIONS for name, each in PATH_FIELDS.items()},
}


@takes(
    {
        "type": "object",
        "patternProperties": {
            f"^({LINK_NAME.pattern})$": {"anyOf": [text_of.schema, mapping_schema(LINK_FIELDS)]}
        },
        "additionalProperties": False,
        "minProperties": 1,
    }
)
def read_links(node: Node) -> dict[str, dict[str, Setting]]:
    """The links that have a path of their own, each as what it has in place of the run's: a
    profile's name alone, or LINK_FIELDS. Raises BadInput.
    """
    found: dict[str, dict[str, Setting]] = {}
    given = mapping_of(node)
    for link, written in given.items():
        if not LINK_NAME.fullmatch(link):
            raise node.bad(f"{units.quoted(link)}: no name of a link (like hop2, or n1-n2)")
        fields = {"profile": written} if written.fields is None else dict(written.fields)
        for name in fields:
            if name not in LINK_FIELDS:
                raise unknown_key(written, name, LINK_FIELDS)
        if not fields:
            raise written.bad("nothing of its own (a profile, or like {rtt: 20ms, loss: 1%})")
        found[link] = {
            name: Setting(LINK_FIELDS[name].read(each), json_text(each), each, name)
            for name, each in fields.items()
        }
    if not found:
        raise node.bad("no link with a path of its own (like {hop2: plain-100ms})")
    return found


# Where there is no default, the profile's own holds, or there is no such thing.
SETTINGS: Mapping[str, Field] = {
    "topology": Field(
        TOPOLOGY,
        default="tunnel",
        says="who is joined to whom",
        example="dumbbell",
    ),
    "hops": Field(
        HOPS,
        default="1",
        says="how many paths lie one behind the other (topology tunnel): with 2 a tunnel is a"
        " chain, client – gost – gost2 – target, and `direct` one connection over both",
        example="2",
    ),
    "links": Field(
        read_links,
        says="links with a path of their own, by name: `hop1` and `hop2` of two hops, `n1-n2` of a"
        " ring, mesh or parking-lot; a profile, or what differs from the run's path",
        example="{hop2: {rtt: 20ms, loss: 1%}}",
    ),
    "bottleneck": Field(
        BOTTLENECKS,
        default="netem",
        says="what has the bottleneck's rate: under a token bucket (tbf) a queue can act, under"
        " netem's rate none can",
        example="tbf",
    ),
    "queue": Field(
        read_queue,
        default="fifo",
        says="what keeps the packets that wait at a bottleneck of tbf: `buffer` is its limit; `aqm`"
        " is the same setting by another name",
        example="fq_codel",
    ),
    "ecn": Field(
        one_of("off", "on", "losses"),
        default="off",
        says="whether hosts ask for ECN and bottleneck queues that can mark do so where they would"
        " drop; losses: what the delay line would lose is marked too",
        example="on",
    ),
    "pacing": Field(
        one_of("internal", "fq"),
        default="internal",
        says="what paces senders: TCP itself, where a congestion control asks for it, or the qdisc"
        " fq on their card, which paces every one",
        example="fq",
    ),
    "loss_detection": Field(
        one_of("rack", "dupacks"),
        default="rack",
        says="what TCP takes for lost: by time, as the kernel does by itself (RACK, RFC 8985), or"
        " by duplicate ACKs, as Linux before 4.4 did (RFC 6675; dupacks: kernels before 6.17)",
        example="dupacks",
    ),
    "placement": Field(
        one_of("endpoint", "gateway"),
        default="endpoint",
        says="where a tunnel's far end is: on the target, or on gost before it",
        example="gateway",
    ),
    "profile": Field(
        text_of,
        default="la-hamina",
        says="the path: a name in netem_profiles/, or a file",
        example="plain-100ms",
    ),
    "tunnel": Field(TUNNEL, default="direct", says="what carries the stream", example="gost+wss"),
    "nagle": Field(
        one_of("off", "on"),
        default="off",
        says="whether a tunnel of GOST's family leaves Nagle's algorithm on across the path (no"
        " TCP_NODELAY): small writes then wait for the ACK of those before them",
        example="on",
    ),
    "shared": Field(
        one_of("off", "on"),
        default="off",
        says="whether flows between the same hosts share the one connection of a tunnel that has"
        " one (ssh, gost+mws, gost+mwss), each as streams of it; off: a tunnel for each flow",
        example="on",
    ),
    "sndbuf": Field(
        read_socket_buffer,
        says="OpenVPN's own send buffer, in place of the system's",
        unit="a size",
        example="512KiB",
    ),
    "rcvbuf": Field(
        read_socket_buffer,
        says="OpenVPN's own receive buffer, in place of the system's",
        unit="a size",
        example="512KiB",
    ),
    "mtu": Field(
        MTU,
        default="1500",
        says="the MTU of every link; a VPN's own follows from it",
        unit="bytes",
        example="1280",
    ),
    "cc": Field(
        read_cc,
        default="cubic",
        says="congestion control: one for all, or by end, where who is not named has the default;"
        " cc.END is of one end (a host, or a tunnel's leg: app, wan, exit, inner)",
        example="bbr, {client: bbr, target: cubic}",
    ),
    "streams": Field(STREAMS, default="1", says="connections side by side", example="16"),
    "duration": Field(
        read_duration,
        default="30s",
        says="how long the load lasts",
        unit="whole seconds",
        example="60s",
    ),
    "direction": Field(
        DIRECTION,
        default="upload",
        says="who sends the data: the client uploads",
        example="download",
    ),
    "clock": Field(
        one_of("virtual", "real"),
        default="virtual",
        says="the guest's time: waits for the CPU, or does not",
        example="real",
    ),
    "kernel": Field(
        read_kernel,
        default="shipped",
        says="the sandbox's kernel: shipped is what ./lab setup built; other versions of Linux and"
        " trees of your own are built by ./lab kernel add",
        example="5.10",
    ),
    "syscall_cost": Field(
        read_syscall_cost,
        default=f"{DEFAULT_SYSCALL_COST_US}us",
        says="what a system call takes of the virtual clock",
        unit="a time",
        example="20us",
    ),
    "machine": Field(
        read_machine,
        default="uniform",
        says="a measured machine, whose table says what each program's calls and bytes cost;"
        " uniform: syscall_cost and byte_cost for all, as also where one of those is written",
        example="development",
    ),
    "byte_cost": Field(
        read_byte_cost,
        default="0ns",
        says="what each byte that a system call moves takes of the virtual clock, on top",
        unit="a time",
        example="0.5ns",
    ),
    "clock_reads": Field(
        one_of("charged", "free"),
        default="free",
        says="whether a look at the clock is a system call, or free as on a real machine",
        example="free",
    ),
    "host_cpus": Field(
        read_host_cpus,
        default="auto",
        says="CPUs of each host's own, of all hosts or by host; auto: as the profile knows its"
        " machines, else 1; shared: one CPU for all hosts together",
        unit="CPUs",
        example="2, {client: 2, target: 4}",
    ),
    "packet_cost": Field(
        read_packet_cost,
        default="750ns",
        says="what each packet that a host receives takes of its own CPUs",
        unit="a time",
        example="1500ns",
    ),
    "iperf3": Field(
        read_iperf3,
        default="3.18",
        says="the iperf3 of tcp and udp flows: 3.18 has a thread for each stream, 3.12 and"
        " 3.9 one for all, the lab's own; system: whatever is installed",
        example="3.12",
    ),
    "buffers": Field(
        read_buffers,
        default="debian",
        says="TCP buffers: debian (6 and 4 MiB), system (the kernel's own), bdp (never the limit),"
        " a preset of the file, or sizes",
        unit="sizes",
        example="bdp, {rmem: [4KiB, 128KiB, 6MiB], wmem: [4KiB, 16KiB, 4MiB]}",
    ),
    "offloads": Field(
        one_of("auto", "on", "off"),
        default="auto",
        says="whether packets travel in lumps of up to 64 kB; auto: where it does no harm",
        example="off",
    ),
    "receive": Field(
        one_of("packet", "moderated"),
        default="packet",
        says="how end hosts' cards receive: an interrupt for each packet, or as real cards do,"
        " interrupts some time apart and packets merged (GRO)",
        example="moderated",
    ),
    "rx_usecs": Field(
        read_rx_usecs,
        default="50us",
        says="with receive: moderated, the least time between a card's interrupts, which no packet"
        " waits longer than",
        unit="a time",
        example="100us",
    ),
    "sample": Field(
        read_sample, default="1s", says="the samplers' interval", unit="a time", example="100ms"
    ),
    "memory": Field(
        read_memory,
        default="auto",
        says="the sandbox's memory; auto: what the run needs",
        unit="a size",
        example="2GiB",
    ),
    "tcp_memory": Field(
        read_tcp_memory,
        default="ample",
        says="the most that all TCP sockets may hold together; ample: full buffers",
        unit="a size",
        example="300MiB",
    ),
    "host_tcp_memory": Field(
        read_host_tcp_memory,
        default="shared",
        says="the most that each host's TCP sockets may hold; shared: one limit for all hosts",
        unit="a size",
        example="365MiB",
    ),
    "host_memory": Field(
        read_host_memory,
        default="auto",
        says="the memory of each host's machine, of which its TCP has the share that Linux gives"
        " it; auto: as the profile knows its machines; shared: one limit for all hosts",
        unit="a size",
        example="3.8GiB, {client: 3.8GiB, target: 16GiB}",
    ),
    **PATH_FIELDS,
    "rtt": RTT,
    "flows": Field(
        read_flows,
        says="flows by name, each with what differs from the run; FLOW.FIELD is one field of one",
        example="{first: {cc: bbr}, late: {cc: cubic, start: 5s}}",
    ),
    "changes": Field(
        read_changes,
        says="what changes on the path while the load runs, in the order of time",
        example="[{at: 15s, rate: 50mbit}, {at: 20s, loss: 1%, direction: both}]",
    ),
    "trace": Field(
        text_of,
        says="a CSV file of changes: time_s, direction, delay_ms, loss, rate_bps; of several links"
        " those change that have no path of their own",
        example="my-path.csv",
    ),
    "sites": Field(
        read_sites,
        says="the profiles of a star's sites; the run's own is the one under test",
        example="[client-tokyo, client-paris]",
    ),
    "acks": Field(
        one_of("on", "off"),
        default="off",
        says="whether to record the sender's window at every ACK",
        example="on",
    ),
}


# Further names of a setting: what others call it. Both at once are refused.
ALIASES = {"aqm": "queue"}


def setting_called(name: str) -> str:
    """The setting that a name is of: itself, or what it is another name of."""
    return ALIASES.get(name, name)


DEFAULTS = {name: each.default for name, each in SETTINGS.items() if each.default is not None}


CC_OF_END = Field(
    CC,
    says="congestion control of one end: a host, or both ends of one of a tunnel's legs",
    example="bbr",
)


def field_of(name: str) -> Field | None:
    """What can be set by a name: a setting, `forward.loss`, `cc.client`, or a field of a flow,
    `flow2.rtt`. None: nothing.
    """
    first, dot, last = name.partition(".")
    if not dot:
        return SETTINGS.get(setting_called(name))
    if first in DIRECTIONS:
        return PATH_FIELDS.get(last)
    if first == "cc":
        return CC_OF_END if END.fullmatch(last) else None
    return FLOW_FIELDS.get(last) if first else None


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
    """What was written, without the blanks that mean nothing: `10 Gbit` and `10Gbit` are one level.
    A preset is its name.
    """
    if node.text is not None:
        return "".join(node.text.split())
    if node.fields is not None:
        return {key: json_text(value) for key, value in node.fields.items()}
    return [json_text(item) for item in node.items or ()]


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
    """Factors and their levels: a list, of the setting of that name, or {sets: NAME, levels: […]}
    of another. Raises BadInput.
    """
    found: dict[str, tuple[Setting, ...]] = {}
    check_said_once(node, mapping_of(node))
    for name, written in mapping_of(node).items():
        if written.fields is None and field_of(name) is None:
            raise unknown_key(node, name, known_names())
        found[name] = read_factor(name, written)
    return found


def read_factor(name: str, node: Node, sets: str | None = None) -> tuple[Setting, ...]:
    """A factor's levels. `sets`: what a factor of that name sets already, where it is written
    again. Raises BadInput.
    """
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
        name: Field(Reader(lambda node: node, {}), required=True, says=says)
        for name, says in (("sets", "the setting that the levels are of"), ("levels", "its levels"))
    }
)


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
    """The levels that --set gives a factor or setting, written as in YAML. Raises BadInput naming
    --set.
    """
    origin = origin or f"--set {units.quoted(name)[1:-1]}"
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
    """The setting that a narrower one is a part of: loss of forward.loss, cc of cc.client; None of
    any other.
    """
    first, _, last = name.partition(".")
    if first in DIRECTIONS and last in PATH_FIELDS:
        return last
    return "cc" if first == "cc" and last else None
