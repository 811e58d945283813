"""What a run can be asked for: every setting, who reads it from YAML, and what holds where nobody wrote it.

Any setting may be a factor: then a list of levels stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gostlab import units
from gostlab.document import (
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
from gostlab.profile import read_delay, read_loss, read_rate
from gostlab.sizing import MAX_BUFFER_BYTES, MAX_MEMORY_MIB, MIB

# What one system call costs on the virtual clock, µs, unless the experiment says otherwise.
DEFAULT_SYSCALL_COST_US = 5
MAX_STREAMS = 128  # iperf3's own limit
# Those that Linux has had, in its tree or beside it; whether this kernel has one, only a run can say.
# fmt: off
CONGESTION_CONTROLS = (
    "bbr", "bbr2", "bbr3", "bbrplus", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv",
    "reno", "scalable", "vegas", "veno", "westwood", "yeah",
)
# fmt: on
TUNNELS = ("direct", "gost+ws", "gost+wss")


@dataclass(frozen=True)
class Setting:
    """A setting's value, as read, as people wrote it, and where."""

    value: Any
    written: Any
    node: Node


Settings = Mapping[str, Setting]
Factors = Mapping[str, tuple[Setting, ...]]


def read_duration(node: Node) -> float:
    """A load's length: iperf3 takes whole seconds. Raises BadInput."""
    duration = quantity(units.seconds)(node)
    if duration.denominator != 1 or not 1 <= duration <= 86_400:
        raise node.bad_value("not whole seconds between 1s and 86400s")
    return float(duration)


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
    return read_mapping(node, {name: Field(read_buffer_sizes, required=True) for name in ("rmem", "wmem")})


def read_buffer_sizes(node: Node) -> list[int]:
    """Three sizes as tcp_rmem and tcp_wmem have them. Raises BadInput."""
    sizes = list(list_of(quantity(units.size))(node))
    if len(sizes) != 3 or sizes != sorted(sizes) or sizes[0] < 4096 or sizes[2] > MAX_BUFFER_BYTES:
        raise node.bad(
            "not three sizes, least, initial, most, between 4KiB and 1GiB (like [4KiB, 128KiB, 6MiB])"
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


# What a run can be asked for, and who reads it. `delay` is one way, and of both directions, as are `rate` and
# `buffer`; `loss` is of the direction that the data takes. All four stand in for the profile's own.
SETTINGS: Mapping[str, Callable[[Node], Any]] = {
    "topology": one_of("tunnel"),
    "placement": one_of("endpoint", "gateway"),
    "profile": text_of,
    "tunnel": one_of(*TUNNELS),
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
}
# What nobody wrote. rate, delay, loss and buffer are the profile's then.
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
}


def read_level(name: str, node: Node) -> Setting:
    """One value of a setting. Raises BadInput."""
    value = SETTINGS[name](node)
    return Setting(value, value if name == "streams" else json_text(node), node)


def json_text(node: Node) -> Any:
    """What was written, without the blanks that mean nothing: `10 Gbit` and `10Gbit` are one level."""
    if node.fields is not None:
        return {key: json_text(value) for key, value in node.fields.items()}
    if node.items is not None:
        return [json_text(item) for item in node.items]
    return "".join((node.text or "").split())


def read_settings(node: Node) -> Settings:
    """Settings by name. Raises BadInput."""
    given = mapping_of(node)
    for name in given:
        if name not in SETTINGS:
            raise unknown_key(node, name, SETTINGS)
    return {name: read_level(name, value) for name, value in given.items()}


def read_factors(node: Node) -> Factors:
    """Factors and their levels. Raises BadInput."""
    given = mapping_of(node)
    found: dict[str, tuple[Setting, ...]] = {}
    for name, levels in given.items():
        if name not in SETTINGS:
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
    """The levels that --set gives a factor or setting, written as in YAML. Raises BadInput naming --set."""
    origin = origin or f"--set {units.quoted(name)[1:-1]}"
    if name not in SETTINGS:
        raise BadInput(f"{origin}: no such factor or setting ({meant(name, SETTINGS)})")
    document = parse_document(f"[{text}\n]", origin, line_numbers=False)
    levels = tuple(replace(item, key="") for item in document.items or ())
    return read_levels(name, replace(document, items=levels))


@cache
def default_setting(name: str) -> Setting:
    """A setting that nobody wrote."""
    return read_level(name, Node("default", None, name, text=DEFAULTS[name]))
