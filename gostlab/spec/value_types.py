# SPDX-License-Identifier: MIT
"""Declare the readers and bounds of settings' values and of flows' fields."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from gostlab.registry import congestion_controls, iperf3_versions, kernels
from gostlab.registry.qdiscs import BOTTLENECK, QUEUE, names_by_spelling, qdisc_names
from gostlab.registry.topologies import topologies
from gostlab.registry.traffic import MAX_STREAMS
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.spec import units
from gostlab.spec.yaml_source import (
    KeySchema,
    Node,
    Reader,
    bounded_quantity,
    by_name_reader,
    decimal,
    list_of,
    mapping_reader,
    one_of,
    one_of_names,
    quantity_reader,
    scalar_or_mapping,
    suggest_name,
    takes,
    text_matching,
    text_of,
    whole_number,
)
from gostlab.tcpmodel.run_limits import MIB, SUPER_PACKETS

# An end with its own congestion control is a host, or one of a tunnel's legs.
END = re.compile(r"[a-z][a-z0-9_]{0,15}")
BUFFER_PRESETS = ("debian", "system", "bdp")
SHARED, AUTO = "shared", "auto"
MAX_FLOWS = 1000
MAX_HOSTS = 64  # The maximum at either end of a bottleneck.
MAX_HOST_CPUS = 64  # The limit of the kernel (kernel/src, MAX_CPUS).
MAX_SITES = 60
MAX_DELAY_S = 10  # The limit keeps packets in flight countable.

RATE = quantity_reader(units.parse_rate, units.RATE_PATTERN, "bit/s")
TIME = quantity_reader(units.parse_seconds, units.TIME_PATTERN, "a time")
SHARE = quantity_reader(units.parse_share, units.SHARE_PATTERN, "%")
SIZE = quantity_reader(units.parse_size, units.SIZE_PATTERN, "a size")
BUFFER = quantity_reader(
    units.parse_buffer,
    units.BUFFER_PATTERN,
    "a multiple of the BDP, packets, a size, or a time at the bottleneck's rate",
)
SECONDS = quantity_reader(partial(units.parse_seconds, usual="s"), units.TIME_PATTERN, "a time")
MICROSECONDS = quantity_reader(
    partial(units.parse_seconds, usual="us"), units.TIME_PATTERN, "a time"
)
IN_MIB = Fraction(1, MIB)

# The names that topo.py and the plugins in gostlab/tunnels/ and qdiscs/ declare.
TOPOLOGY = one_of_names(topologies)
TUNNEL = one_of_names(tunnel_kinds)
BOTTLENECKS = one_of_names(partial(qdisc_names, BOTTLENECK))
BOTH = "both"
DIRECTION = one_of("upload", "download", BOTH)
STREAMS = whole_number(1, MAX_STREAMS)
HOST_NUMBER = whole_number(1, MAX_HOSTS)
MTU = whole_number(1280, 9000)  # IPv6's minimum, and jumbo frames.
HOPS = whole_number(1, 2)
SNAPLEN = whole_number(54, 65535)  # Ethernet, IPv4 and TCP without options; the limit of libpcap.
KCP_WINDOW = whole_number(16, 65535)  # The range of the window field of a KCP segment.
KCP_PARITY = whole_number(0, 10)
KCP_DATA = whole_number(1, 70)
KCP_MTU = whole_number(200, 1472)
# iperf3 accepts whole seconds only.
read_duration = bounded_quantity(SECONDS, "1s", "86400s", float, step="1s", unit="whole seconds")
read_instant = bounded_quantity(SECONDS, "0s", "86400s", float)

TRAP = one_of(SUPER_PACKETS)
TRAPS = list_of(TRAP)


@takes({"anyOf": [TRAP.schema, TRAPS.schema]})
def read_traps(node: Node) -> tuple[str, ...]:
    """Return the traps to allow on purpose: one, or a list. Raises BadInput."""
    return (TRAP(node),) if node.text is not None else TRAPS(node)


@takes({"type": "string", "pattern": units.INTERVAL_PATTERN})
def read_window(node: Node) -> tuple[float, float]:
    """Return the bounds of a part of the load: 40s..100s, or all (0, inf). Raises BadInput."""
    text = text_of(node)
    if text == "all":
        return 0.0, math.inf
    parts = text.split("..")
    if len(parts) != 2:
        raise node.bad_value("neither all nor from when to when (like 40s..100s)")
    from_s, to_s = (read_instant(replace(node, text=part.strip())) for part in parts)
    if from_s >= to_s:
        raise node.bad_value("it ends before it begins (like 40s..100s)")
    return from_s, to_s


read_delay = bounded_quantity(TIME, "0s", f"{MAX_DELAY_S}s", Fraction)
read_rtt = bounded_quantity(TIME, "0s", f"{2 * MAX_DELAY_S}s", Fraction)
read_offered_rate = bounded_quantity(RATE, "1kbit", "100gbit", int)
read_download_size = bounded_quantity(SIZE, "1B", "100GB", int, unit="bytes")
read_burst = bounded_quantity(TIME, "10ms", "3600s", float)
read_segment = bounded_quantity(TIME, "100ms", "60s", float)
read_playback_buffer = bounded_quantity(TIME, "200ms", "600s", float)
read_target = bounded_quantity(TIME, "0.1ms", "1s", float, per=1000)
read_ping_interval = bounded_quantity(TIME, "10ms", "60s", float, per=1000)
read_start_spread = bounded_quantity(TIME, "0s", "10s", float)
read_sample = bounded_quantity(TIME, "1ms", "60s", float, per=1000)
read_socket_buffer = bounded_quantity(SIZE, "4KiB", "1GiB", int)
read_syscall_cost = bounded_quantity(MICROSECONDS, "0us", "1ms", float, per=10**6)
read_byte_cost = bounded_quantity(TIME, "0ns", "1us", float, per=10**9, step="0.001ns")
read_packet_cost = bounded_quantity(TIME, "0ns", "1ms", int, per=10**9, step="1ns")
# The maximum is the kernel's (veth-rx-coalescing, VETH_MAX_RX_USECS).
read_rx_usecs = bounded_quantity(TIME, "1us", "10ms", int, per=10**6, step="1us")
read_memory = bounded_quantity(SIZE, "128MiB", "64GiB", int, per=IN_MIB, words={AUTO: None})
read_tcp_memory = bounded_quantity(SIZE, "1MiB", "64GiB", int, per=IN_MIB, words={"ample": None})
read_host_tcp_memory = bounded_quantity(SIZE, "1MiB", "64GiB", int, per=IN_MIB, words={SHARED: 0})


@takes(list_of(read_offered_rate, least=1).schema)
def read_ladder(node: Node) -> tuple[int, ...]:
    """Return the bit rates of a video's segments, which must rise. Raises BadInput."""
    rates = tuple(list_of(read_offered_rate, least=1)(node))
    if any(before >= after for before, after in pairwise(rates)):
        raise node.bad("its bit rates do not rise (like [1mbit, 2mbit, 4mbit])")
    return rates


@takes({"type": "string", "pattern": rf"^\s*unlimited\s*$|{units.RATE_PATTERN}"}, RATE.unit)
def read_rate(node: Node) -> int | None:
    """Return a rate, or None for `unlimited`. Raises BadInput."""
    text = text_of(node)
    if text == "unlimited":
        return None
    if not re.search(r"[0-9]", text):
        raise node.bad_value("not a rate (like 100mbit), or unlimited for none")
    return RATE(node)


# Aliases of a queue are converted to its name: tc's pfifo becomes fifo.
QUEUES = one_of_names(lambda: names_by_spelling(QUEUE)).to(
    lambda name: names_by_spelling(QUEUE)[name]
)
# The qdiscs that tc installs without a parameter; red requires its limit.
TUN_QUEUES = one_of("default", "fifo", "fq", "fq_codel", "codel", "cake", "pie", "fq_pie", "sfq")


@takes(list_of(text_of, least=1).schema)
def read_sites(node: Node) -> tuple[str, ...]:
    """Return the profiles of a star's sites, which must differ. Raises BadInput."""
    sites = list_of(text_of, least=1)(node)
    if len(sites) > MAX_SITES or len(set(sites)) < len(sites):
        raise node.bad(f"not a list of at most {MAX_SITES} profiles, each once")
    return sites


# The names of ./lab gost list; YAML may read a version as a number.
read_gost = Reader(
    text_matching(
        r"[A-Za-z0-9][A-Za-z0-9._+-]{0,31}",
        "not the name of a GOST (./lab gost list), relay or auto",
    ),
    {"type": ["string", "number"]},
)
read_iperf3 = Reader(
    one_of(*iperf3_versions.NAMES),
    {"enum": [*iperf3_versions.NAMES, *map(float, iperf3_versions.OWN)]},
)


# -- TCP's buffers


@takes({"type": "array", "items": SIZE.schema, "minItems": 3, "maxItems": 3})
def read_buffer_sizes(node: Node) -> list[int]:
    """Return three sizes in the order of tcp_rmem and tcp_wmem. Raises BadInput."""
    sizes = list(list_of(SIZE)(node))
    if len(sizes) != 3 or sizes != sorted(sizes) or sizes[0] < 4096 or sizes[2] > 2**30:
        raise node.bad(
            "not three sizes, min, initial, max, between 4KiB and 1GiB (like [4KiB, 128KiB, 6MiB])"
        )
    return sizes


BUFFER_SIZES = mapping_reader(
    {
        name: KeySchema(
            read_buffer_sizes,
            f"for {use}, as tcp_{name}: min, initial, max",
            example,
            required=True,
        )
        for name, use, example in (
            ("rmem", "receiving", "[4KiB, 128KiB, 6MiB]"),
            ("wmem", "sending", "[4KiB, 16KiB, 4MiB]"),
        )
    }
)
# A file's presets are replaced by their sizes before this reader runs.
read_buffers = scalar_or_mapping(Reader(one_of(*BUFFER_PRESETS), text_of.schema), BUFFER_SIZES)


# -- values for all hosts or by host


def one_for_all(read: Reader[int], **words: Any) -> Reader[Any]:
    """Return a reader of one value for all hosts, or of a word with a fixed meaning.

    The value None stands for the value of the profile's machines.
    """
    return Reader(
        lambda node: words[node.text] if node.text in words else read(node),
        {"anyOf": [{"enum": list(words)}, read.schema]},
        read.unit,
    )


def per_host(read: Reader[int], *words: str) -> Reader[Any]:
    for_all = one_for_all(read, **{word: word for word in words}) if words else read
    return scalar_or_mapping(for_all, by_name_reader(END, read, "host", "{client: 2, target: 4}"))


HOST_CPUS = whole_number(1, MAX_HOST_CPUS)


@takes({"type": "number", "minimum": 0.01, "maximum": MAX_HOST_CPUS})
def CPU_SHARE(node: Node) -> int:
    """Return a host's long-run CPU time in thousandths of one CPU. Raises BadInput."""
    permille = decimal(node) * 1000
    if not 10 <= permille <= 1000 * MAX_HOST_CPUS or permille % 1:
        raise node.bad_value(f"not within 0.01 and {MAX_HOST_CPUS} CPUs, to the thousandth")
    return int(permille)


CPU_BURST = bounded_quantity(SECONDS, "0s", "3600s", int, per=10**6, step="1us")


MACHINE_MEMORY = bounded_quantity(SIZE, "64MiB", "1024GiB", int, per=IN_MIB)


# -- congestion controls and kernels


@takes(
    {
        "anyOf": [
            {
                "enum": sorted(
                    (*congestion_controls.IN_LINUX, *congestion_controls.shipped_controls())
                )
            },
            {"type": "string", "pattern": congestion_controls.PATTERN},
            {
                "type": "object",
                "patternProperties": {f"^{congestion_controls.NAME.pattern}$": {"type": "object"}},
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ]
    }
)
def CC(node: Node) -> str:
    """Return a congestion control: cubic, mycc(alpha=3) or {mycc: {alpha: 3}}. Raises BadInput."""
    if node.fields is not None:
        [(name, values)] = node.fields.items() if len(node.fields) == 1 else [("", node)]
        if not name or values.fields is None:
            raise node.bad("not one congestion control with parameters (like {mycc: {alpha: 3}})")
        parameters = ";".join(f"{key}={text_of(value)}" for key, value in values.fields.items())
        text = f"{name}({parameters})"
    else:
        text = text_of(node)
    try:
        control = congestion_controls.parse_control(text)
        if congestion_controls.unknown_controls_accepted():
            return str(control)
        if control.name not in (known := congestion_controls.known_names()):
            raise node.bad_value(f"not known here ({suggest_name(control.name, known)})")
        congestion_controls.find_control(control)
    except congestion_controls.BadInput as error:
        raise error if str(error).startswith(node.where) else node.bad(str(error)) from None
    return str(control)


CC_BY_END = by_name_reader(END, CC, "host, or leg of a tunnel", "{client: bbr, target: cubic}")


@takes({"anyOf": [CC.schema, CC_BY_END.schema]})
def read_cc(node: Node) -> str | dict[str, str]:
    """Return one congestion control for all, or one per end: {client: bbr}. Raises BadInput."""
    values = list((node.fields or {}).values())
    parameters = values[0].fields if len(values) == 1 else None
    has_parameters = parameters is not None and all(
        value.fields is None for value in parameters.values()
    )
    return CC(node) if node.fields is None or has_parameters else CC_BY_END(node)


@takes({"type": ["string", "number"]})
def read_kernel(node: Node) -> str:
    """Return the name of an existing kernel: shipped, 5.10, or a user's. Raises BadInput."""
    name, known = text_of(node), kernels.known_names()
    if name not in known and not congestion_controls.unknown_controls_accepted():
        raise node.bad_value(f"no such kernel ({', '.join(known)}; ./lab kernel list)")
    return name
