"""What a run can be asked for: every setting, who reads it from YAML, and what holds where nobody
wrote it.

Any setting may be a factor: then a list of levels stands in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

from gostlab.ask import units
from gostlab.ask.document import (
    BadInput,
    Field,
    Node,
    list_of,
    mapping_of,
    meant,
    one_of,
    parse_document,
    quantity,
    read_mapping,
    text_of,
    unknown_key,
    whole,
)
from gostlab.ask.profile import MAX_DELAY_S, read_delay, read_loss, read_rate
from gostlab.ask.sizing import MAX_BUFFER_BYTES, MAX_MEMORY_MIB, MIB
from gostlab.declared.topologies import topology_names
from gostlab.declared.tunnels import tunnel_names

# What one system call costs on the virtual clock, µs, unless the experiment says otherwise.
DEFAULT_SYSCALL_COST_US = 5
MAX_STREAMS = 128  # iperf3's own limit
# Those that Linux has had, in its tree or beside it; whether this kernel has one, only a run can
# say.
CONGESTION_CONTROLS = (
    "bbr",
    "bbr2",
    "bbr3",
    "bbrplus",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
)
MAX_FLOWS = 64
MAX_CHANGES = 10_000
MAX_SITES = 60


@dataclass(frozen=True)
class Setting:
    """A setting's value, as read, as people wrote it, and where."""

    value: Any
    written: Any
    node: Node


Settings = Mapping[str, Setting]
Factors = Mapping[str, tuple[Setting, ...]]


def read_topology(node: Node) -> str:
    """A topology that topo.py declares. Raises BadInput."""
    return one_of(*topology_names())(node)


def read_tunnel(node: Node) -> str:
    """A tunnel that a file in gostlab/guest/tunnels/ declares. Raises BadInput."""
    return one_of(*tunnel_names())(node)


def read_duration(node: Node) -> float:
    """A load's length: iperf3 takes whole seconds. Raises BadInput."""
    duration = quantity(units.seconds)(node)
    if duration.denominator != 1 or not 1 <= duration <= 86_400:
        raise node.bad_value("not whole seconds between 1s and 86400s")
    return float(duration)


def read_instant(node: Node) -> float:
    """A time within a run, seconds from the start of the load. Raises BadInput."""
    instant = quantity(units.seconds)(node)
    if not 0 <= instant <= 86_400:
        raise node.bad_value("not between 0s and 86400s")
    return float(instant)


def read_rtt(node: Node) -> Fraction:
    """A round trip, half of it each way. Raises BadInput."""
    rtt = quantity(units.seconds)(node)
    if rtt > 2 * MAX_DELAY_S:
        raise node.bad_value(f"longer than {2 * MAX_DELAY_S} s")
    return rtt


def read_offered_rate(node: Node) -> int:
    """The rate of a flow that knows no congestion control. Raises BadInput."""
    rate_bps = quantity(units.rate)(node)
    if not 1000 <= rate_bps <= 10**11:
        raise node.bad_value("not between 1kbit and 100gbit")
    return rate_bps


def read_download_size(node: Node) -> int:
    """What an HTTP server has to give, bytes. Raises BadInput."""
    size = quantity(units.size)(node)
    if not 1 <= size <= 10**11:
        raise node.bad_value("not between 1B and 100GB")
    return size


def read_flows(node: Node) -> dict[str, dict[str, Any]]:
    """Flows by name, each with the fields that differ from the run's. Raises BadInput."""
    flows: dict[str, dict[str, Any]] = {}
    for name, fields in mapping_of(node).items():
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,15}", name):
            raise node.bad(
                f"{units.quoted(name)}: a flow's name has lower-case letters, digits, - and _, 16"
                " at most"
            )
        given = (
            {}
            if fields.text is None and fields.fields is None and fields.items is None
            else mapping_of(fields)
        )
        for key in given:
            if key not in FLOW_FIELDS:
                raise unknown_key(fields, key, FLOW_FIELDS)
        flows[name] = {key: FLOW_FIELDS[key](value) for key, value in given.items()}
    if not 1 <= len(flows) <= MAX_FLOWS:
        raise node.bad(f"{len(flows)} flows (1 to {MAX_FLOWS})")
    return flows


def read_changes(node: Node) -> list[dict[str, Any]]:
    """Changes of the path while the load runs, in the order of time. Raises BadInput."""
    changes = [read_mapping(item, CHANGE_FIELDS) for item in node.items or ()]
    if node.items is None or len(changes) > MAX_CHANGES:
        raise node.bad(
            f"not a list of at most {MAX_CHANGES} changes (like [{{at: 10s, rate: 50mbit}}])"
        )
    for item, change in zip(node.items, changes, strict=True):
        if all(change[key] is None for key in ("rate", "delay", "jitter", "loss")):
            raise item.bad("a change of nothing (rate, delay, jitter or loss)")
    if [change["at"] for change in changes] != sorted(change["at"] for change in changes):
        raise node.bad("not in the order of time")
    return changes


def read_sites(node: Node) -> tuple[str, ...]:
    """The profiles of a star's sites, each once. Raises BadInput."""
    sites = list_of(text_of, least=1)(node)
    if len(sites) > MAX_SITES or len(set(sites)) < len(sites):
        raise node.bad(f"not a list of at most {MAX_SITES} profiles, each once")
    return sites


CHANGE_FIELDS = {
    "at": Field(read_instant, required=True),
    "direction": Field(one_of("forward", "reverse", "both")),
    "rate": Field(quantity(units.rate)),
    "delay": Field(read_delay),
    "jitter": Field(read_delay),
    "loss": Field(read_loss),
}


def read_syscall_cost(node: Node) -> float:
    """The virtual cost of a system call, µs. Raises BadInput."""
    cost_us = quantity(units.seconds)(node) * 10**6
    if cost_us > 1000:
        raise node.bad_value("more than 1 ms for one system call")
    return float(cost_us)


def read_sample(node: Node) -> float:
    """The samplers' interval, ms. Raises BadInput."""
    sample_ms = quantity(units.seconds)(node) * 1000
    if not 1 <= sample_ms <= 60_000:
        raise node.bad_value("not between 1ms and 60s")
    return float(sample_ms)


def read_buffers(node: Node) -> str | dict[str, list[int]]:
    """debian, system, bdp, or {rmem: [least, initial, most], wmem: …}. Raises BadInput."""
    if node.fields is None:
        return one_of("debian", "system", "bdp")(node)
    return read_mapping(
        node, {name: Field(read_buffer_sizes, required=True) for name in ("rmem", "wmem")}
    )


def read_buffer_sizes(node: Node) -> list[int]:
    """Three sizes as tcp_rmem and tcp_wmem have them. Raises BadInput."""
    sizes = list(list_of(quantity(units.size))(node))
    if len(sizes) != 3 or sizes != sorted(sizes) or sizes[0] < 4096 or sizes[2] > MAX_BUFFER_BYTES:
        raise node.bad(
            "not three sizes, least, initial, most, between 4KiB and 1GiB (like [4KiB, 128KiB,"
            " 6MiB])"
        )
    return sizes


def read_memory(node: Node) -> int | None:
    """auto (None), or MiB. Raises BadInput."""
    if node.text == "auto":
        return None
    mib = quantity(units.size)(node) // MIB
    if not 128 <= mib <= MAX_MEMORY_MIB:
        raise node.bad_value("not auto or between 128MiB and 64GiB")
    return int(mib)


def read_tcp_memory(node: Node) -> int | None:
    """ample (None), or MiB. Raises BadInput."""
    if node.text == "ample":
        return None
    mib = quantity(units.size)(node) // MIB
    if not 1 <= mib <= MAX_MEMORY_MIB:
        raise node.bad_value("not ample or between 1MiB and 64GiB")
    return int(mib)


# What a flow may be asked for besides what the run says for all of its flows. `sender` and
# `receiver` are numbers of a dumbbell's hosts, `rate` is a udp flow's offered rate, `size` an http
# flow's file.
FLOW_FIELDS: Mapping[str, Callable[[Node], Any]] = {
    "kind": one_of("tcp", "udp", "http"),
    "cc": one_of(*CONGESTION_CONTROLS),
    "streams": whole(1, MAX_STREAMS),
    "direction": one_of("upload", "download"),
    "start": read_instant,
    "duration": read_duration,
    "rtt": read_rtt,
    "buffers": read_buffers,
    "rate": read_offered_rate,
    "size": read_download_size,
    "sender": whole(1, MAX_FLOWS),
    "receiver": whole(1, MAX_FLOWS),
}
# What a run can be asked for, and who reads it. `delay` is one way, and of both directions, as are
# `rate` and `buffer`; `rtt` is twice the delay; `loss`, `jitter` and `ordered` are of the direction
# that the data takes. All of them stand in for the profile's own.
SETTINGS: Mapping[str, Callable[[Node], Any]] = {
    "topology": read_topology,
    "placement": one_of("endpoint", "gateway"),
    "profile": text_of,
    "tunnel": read_tunnel,
    "cc": one_of(*CONGESTION_CONTROLS),
    "streams": whole(1, MAX_STREAMS),
    "duration": read_duration,
    "direction": one_of("upload", "download"),
    "clock": one_of("virtual", "real"),
    "syscall_cost": read_syscall_cost,
    "buffers": read_buffers,
    "offloads": one_of("auto", "on", "off"),
    "sample": read_sample,
    "memory": read_memory,
    "tcp_memory": read_tcp_memory,
    "rate": read_rate,
    "delay": read_delay,
    "loss": read_loss,
    "buffer": quantity(units.buffer),
    "rtt": read_rtt,
    "jitter": read_delay,
    "ordered": one_of("on", "off"),
    "flows": read_flows,
    "changes": read_changes,
    "trace": text_of,
    "sites": read_sites,
    "acks": one_of("on", "off"),
}
# What nobody wrote. rate, delay, rtt, jitter, ordered, loss and buffer are the profile's then;
# there is one flow.
DEFAULTS = {
    "topology": "tunnel",
    "placement": "endpoint",
    "profile": "la-hamina",
    "tunnel": "direct",
    "cc": "cubic",
    "streams": "1",
    "duration": "30s",
    "direction": "upload",
    "clock": "virtual",
    "syscall_cost": f"{DEFAULT_SYSCALL_COST_US}us",
    "buffers": "debian",
    "offloads": "auto",
    "sample": "1s",
    "memory": "auto",
    "tcp_memory": "ample",
    "acks": "off",
}


def read_level(name: str, node: Node) -> Setting:
    """One value of a setting, or of a flow's field (`flow2.rtt`). Raises BadInput."""
    read = SETTINGS[name] if name in SETTINGS else FLOW_FIELDS[name.partition(".")[2]]
    value = read(node)
    return Setting(value, value if name.rpartition(".")[2] == "streams" else json_text(node), node)


def is_setting(name: str) -> bool:
    """Whether something of that name can be set: a setting, or a field of a flow, `flow2.rtt`."""
    flow, dot, field = name.partition(".")
    return name in SETTINGS or (bool(dot and flow) and field in FLOW_FIELDS)


def json_text(node: Node) -> Any:
    """What was written, without the blanks that mean nothing: `10 Gbit` and `10Gbit` are one
    level.
    """
    if node.fields is not None:
        return {key: json_text(value) for key, value in node.fields.items()}
    if node.items is not None:
        return [json_text(item) for item in node.items]
    return "".join((node.text or "").split())


def read_settings(node: Node) -> Settings:
    """Settings by name. Raises BadInput."""
    given = mapping_of(node)
    for name in given:
        if not is_setting(name):
            raise unknown_key(node, name, SETTINGS)
    return {name: read_level(name, value) for name, value in given.items()}


def read_factors(node: Node) -> Factors:
    """Factors and their levels. Raises BadInput."""
    given = mapping_of(node)
    found: dict[str, tuple[Setting, ...]] = {}
    for name, levels in given.items():
        if not is_setting(name):
            raise unknown_key(node, name, SETTINGS)
        found[name] = read_levels(name, levels)
    return found


def read_levels(name: str, node: Node) -> tuple[Setting, ...]:
    """A factor's levels, each once. Raises BadInput."""
    levels = list_of(lambda item: read_level(name, item), least=1)(node)
    for index, level in enumerate(levels):
        if any(level.value == other.value for other in levels[:index]):
            raise level.node.bad_value("the same level twice")
    return levels


def read_override(name: str, text: str, *, origin: str | None = None) -> tuple[Setting, ...]:
    """The levels that --set gives a factor or setting, written as in YAML. Raises BadInput naming
    --set.
    """
    origin = origin or f"--set {units.quoted(name)[1:-1]}"
    if not is_setting(name):
        raise BadInput(f"{origin}: no such factor or setting ({meant(name, SETTINGS)})")
    document = parse_document(f"[{text}\n]", origin, line_numbers=False)
    levels = tuple(replace(item, key="") for item in document.items or ())
    return read_levels(name, replace(document, items=levels))


@cache
def default_setting(name: str) -> Setting:
    """A setting that nobody wrote."""
    return read_level(name, Node("default", None, name, text=DEFAULTS[name]))
