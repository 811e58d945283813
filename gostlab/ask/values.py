"""The values of settings and of flows' fields: who reads each from YAML, within which bounds."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial

from gostlab.ask import units
from gostlab.ask.document import (
    Field,
    Node,
    list_of,
    mapping,
    meant,
    one_of,
    one_of_names,
    quantity,
    takes,
    text_of,
    whole,
)
from gostlab.ask.profile import (
    MAX_DELAY_S,
    RATE,
    TIME,
)
from gostlab.ask.sizing import MAX_BUFFER_BYTES, MAX_MEMORY_MIB, MIB
from gostlab.declared import controls, iperf3, kernels
from gostlab.declared.qdiscs import BOTTLENECK, QUEUE, names_for, spelled
from gostlab.declared.topologies import topology_names
from gostlab.declared.tunnels import tunnel_names

# An end that may have a congestion control of its own is a host, or one of a tunnel's legs.
END = re.compile(r"[a-z][a-z0-9_]{0,15}")
BUFFER_PRESETS = ("debian", "system", "bdp")
MAX_STREAMS = 128  # iperf3's own limit
MAX_FLOWS = 1000
MAX_HOSTS = 64  # at either end of a bottleneck
MAX_RX_US = 10_000  # the kernel's (kernel/patches, VETH_MOST_RX_USECS)
MAX_SITES = 60
# IPv6's least, and jumbo frames.
LEAST_MTU, MOST_MTU = 1280, 9000

SECONDS = quantity(partial(units.seconds, usual="s"), units.TIME_PATTERN)
MICROSECONDS = quantity(partial(units.seconds, usual="us"), units.TIME_PATTERN)
SIZE = quantity(units.size, units.SIZE_PATTERN)
# What topo.py declares, and what the files in gostlab/guest/tunnels/ and qdiscs/ do.
TOPOLOGY = one_of_names(topology_names)
TUNNEL = one_of_names(tunnel_names)
BOTTLENECKS = one_of_names(partial(names_for, BOTTLENECK))
DIRECTION = one_of("upload", "download")
STREAMS = whole(1, MAX_STREAMS)
HOST_NUMBER = whole(1, MAX_HOSTS)
MTU = whole(LEAST_MTU, MOST_MTU)
HOPS = whole(1, 2)


@takes(lambda: {"enum": list(spelled(QUEUE))})
def read_queue(node: Node) -> str:
    """A queue by the one name that it has here: tc's pfifo is fifo. Raises BadInput."""
    names = spelled(QUEUE)
    return names[one_of_names(lambda: tuple(names))(node)]


@takes(SECONDS.schema)
def read_duration(node: Node) -> float:
    """A load's length: iperf3 takes whole seconds. Raises BadInput."""
    duration = SECONDS(node)
    if duration.denominator != 1 or not 1 <= duration <= 86_400:
        raise node.bad_value("not whole seconds between 1s and 86400s")
    return float(duration)


@takes(SECONDS.schema)
def read_instant(node: Node) -> float:
    """A time within a run, seconds from the start of the load. Raises BadInput."""
    instant = SECONDS(node)
    if not 0 <= instant <= 86_400:
        raise node.bad_value("not between 0s and 86400s")
    return float(instant)


@takes(TIME.schema)
def read_rtt(node: Node) -> Fraction:
    """A round trip, half of it each way. Raises BadInput."""
    rtt = TIME(node)
    if rtt > 2 * MAX_DELAY_S:
        raise node.bad_value(f"longer than {2 * MAX_DELAY_S} s")
    return rtt


@takes(RATE.schema)
def read_offered_rate(node: Node) -> int:
    """The rate of a flow that knows no congestion control. Raises BadInput."""
    rate_bps = RATE(node)
    if not 1000 <= rate_bps <= 10**11:
        raise node.bad_value("not between 1kbit and 100gbit")
    return rate_bps


@takes(SIZE.schema)
def read_download_size(node: Node) -> int:
    """What an HTTP server has to give, bytes. Raises BadInput."""
    size = SIZE(node)
    if not 1 <= size <= 10**11:
        raise node.bad_value("not between 1B and 100GB")
    return size


@takes(TIME.schema)
def read_ping_interval(node: Node) -> float:
    """How far requests are apart, ms. Raises BadInput."""
    interval_ms = TIME(node) * 1000
    if not 10 <= interval_ms <= 60_000:
        raise node.bad_value("not between 10ms and 60s")
    return float(interval_ms)


@takes(SIZE.schema)
def read_socket_buffer(node: Node) -> int:
    """A socket buffer of a tunnel's own, bytes. Raises BadInput."""
    size = SIZE(node)
    if not 4096 <= size <= MAX_BUFFER_BYTES:
        raise node.bad_value("not between 4KiB and 1GiB")
    return int(size)


@takes(list_of(text_of, least=1).schema)
def read_sites(node: Node) -> tuple[str, ...]:
    """The profiles of a star's sites, each once. Raises BadInput."""
    sites = list_of(text_of, least=1)(node)
    if len(sites) > MAX_SITES or len(set(sites)) < len(sites):
        raise node.bad(f"not a list of at most {MAX_SITES} profiles, each once")
    return sites


@takes(MICROSECONDS.schema)
def read_syscall_cost(node: Node) -> float:
    """The virtual cost of a system call, µs. Raises BadInput."""
    cost_us = MICROSECONDS(node) * 10**6
    if cost_us > 1000:
        raise node.bad_value("more than 1 ms for one system call")
    return float(cost_us)


@takes(TIME.schema)
def read_byte_cost(node: Node) -> float:
    """The virtual cost of a byte that a system call moves, ns to the ps. Raises BadInput."""
    cost_ns = TIME(node) * 10**9
    if not 0 <= cost_ns <= 1000 or (1000 * cost_ns).denominator != 1:
        raise node.bad_value("not between 0ns and 1us, or finer than 0.001ns")
    return float(cost_ns)


@takes(TIME.schema)
def read_rx_usecs(node: Node) -> int:
    """The least time between a card's interrupts, whole µs. Raises BadInput."""
    rx_us = TIME(node) * 10**6
    if not 1 <= rx_us <= MAX_RX_US or rx_us.denominator != 1:
        raise node.bad_value(f"not whole microseconds between 1us and {MAX_RX_US}us")
    return int(rx_us)


@takes({"enum": [*iperf3.NAMES, *map(float, iperf3.OWN)]})
def read_iperf3(node: Node) -> str:
    """The name of an iperf3: a version is a number to YAML. Raises BadInput."""
    return one_of(*iperf3.NAMES)(node)


@takes(TIME.schema)
def read_packet_cost(node: Node) -> int:
    """The virtual cost of a packet that a host receives, whole ns. Raises BadInput."""
    cost_ns = TIME(node) * 10**9
    if not 0 <= cost_ns <= 10**6 or cost_ns.denominator != 1:
        raise node.bad_value("not between 0ns and 1ms, or finer than 1ns")
    return int(cost_ns)


@takes({"type": "string", "pattern": rf"^\s*shared\s*$|{units.SIZE_PATTERN}"})
def read_host_tcp_memory(node: Node) -> int:
    """shared (0), or MiB of each host's own. Raises BadInput."""
    if node.text == "shared":
        return 0
    mib = SIZE(node) // MIB
    if not 1 <= mib <= MAX_MEMORY_MIB:
        raise node.bad_value("not shared or between 1MiB and 64GiB")
    return int(mib)


@takes(TIME.schema)
def read_sample(node: Node) -> float:
    """The samplers' interval, ms. Raises BadInput."""
    sample_ms = TIME(node) * 1000
    if not 1 <= sample_ms <= 60_000:
        raise node.bad_value("not between 1ms and 60s")
    return float(sample_ms)


@takes({"type": "array", "items": SIZE.schema, "minItems": 3, "maxItems": 3})
def read_buffer_sizes(node: Node) -> list[int]:
    """Three sizes as tcp_rmem and tcp_wmem have them. Raises BadInput."""
    sizes = list(list_of(SIZE)(node))
    if len(sizes) != 3 or sizes != sorted(sizes) or sizes[0] < 4096 or sizes[2] > MAX_BUFFER_BYTES:
        raise node.bad(
            "not three sizes, least, initial, most, between 4KiB and 1GiB (like [4KiB, 128KiB,"
            " 6MiB])"
        )
    return sizes


BUFFER_SIZES = mapping(
    {
        "rmem": Field(
            read_buffer_sizes,
            required=True,
            says="for receiving, as tcp_rmem: least, initial, most",
            example="[4KiB, 128KiB, 6MiB]",
        ),
        "wmem": Field(
            read_buffer_sizes,
            required=True,
            says="for sending, as tcp_wmem: least, initial, most",
            example="[4KiB, 16KiB, 4MiB]",
        ),
    }
)


@takes({"anyOf": [text_of.schema, BUFFER_SIZES.schema]})
def read_buffers(node: Node) -> str | dict[str, list[int]]:
    """debian, system, bdp, a preset, or {rmem: [least, initial, most], wmem: …}. Raises
    BadInput.
    """
    return BUFFER_SIZES(node) if node.fields is not None else one_of(*BUFFER_PRESETS)(node)


@takes(
    {
        "anyOf": [
            {"enum": sorted((*controls.IN_LINUX, *controls.shipped_controls()))},
            {"type": "string", "pattern": controls.PATTERN},
            {
                "type": "object",
                "patternProperties": {f"^{controls.NAME.pattern}$": {"type": "object"}},
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ]
    }
)
def CC(node: Node) -> str:
    """A congestion control in its one form: cubic, or mycc(alpha=3), which may be written {mycc:
    {alpha: 3}} too. Raises BadInput.
    """
    if node.fields is not None:
        [(name, inside)] = node.fields.items() if len(node.fields) == 1 else [("", node)]
        if not name or inside.fields is None:
            raise node.bad("not one congestion control with parameters (like {mycc: {alpha: 3}})")
        said = ";".join(f"{key}={text_of(value)}" for key, value in inside.fields.items())
        text = f"{name}({said})"
    else:
        text = text_of(node)
    # Only who asks for runs needs what the set-up put where: whoever reads results does not.
    from gostlab.setup.parts import own_cc_folder

    try:
        asked = controls.parse_control(text)
        if asked.name not in (known := controls.known_names(own_cc_folder())):
            if controls.strangers_welcome():
                return str(asked)
            raise node.bad_value(f"not known here ({meant(asked.name, known)})")
        if not controls.strangers_welcome():
            controls.check_known(asked, own_cc_folder())
    except controls.BadInput as error:
        raise error if str(error).startswith(node.where) else node.bad(str(error)) from None
    return str(asked)


@takes(
    {
        "anyOf": [
            CC.schema,
            {
                "type": "object",
                "patternProperties": {f"^({END.pattern})$": CC.schema},
                "additionalProperties": False,
                "minProperties": 1,
            },
        ]
    }
)
def read_cc(node: Node) -> str | dict[str, str]:
    """One congestion control for all, or one per end: {client: bbr, target: cubic}. Raises
    BadInput.
    """
    if node.fields is None or is_one_with_parameters(node):
        return CC(node)
    if not node.fields:
        raise node.bad("no end with a congestion control (like {client: bbr, target: cubic})")
    for end in node.fields:
        if not END.fullmatch(end):
            raise node.bad(f"{units.quoted(end)}: no name of a host, or of a tunnel's leg")
    return {end: CC(value) for end, value in node.fields.items()}


def is_one_with_parameters(node: Node) -> bool:
    """Whether a mapping is one congestion control, {mycc: {alpha: 3}}, and not one per end."""
    values = list((node.fields or {}).values())
    if len(values) != 1 or values[0].fields is None:
        return False
    return all(value.fields is None for value in values[0].fields.values())


@takes({"type": ["string", "number"]})
def read_kernel(node: Node) -> str:
    """The name of a kernel that there is: shipped, 5.10, or one of the user's. Raises BadInput."""
    from gostlab.setup.parts import own_kernels_folder  # as in CC

    name = text_of(node)
    known = kernels.known_names(own_kernels_folder())
    if name not in known and not controls.strangers_welcome():
        raise node.bad_value(f"no such kernel ({', '.join(known)}; ./lab kernel list)")
    return name


@takes({"type": "string", "pattern": rf"^\s*auto\s*$|{units.SIZE_PATTERN}"})
def read_memory(node: Node) -> int | None:
    """auto (None), or MiB. Raises BadInput."""
    if node.text == "auto":
        return None
    mib = SIZE(node) // MIB
    if not 128 <= mib <= MAX_MEMORY_MIB:
        raise node.bad_value("not auto or between 128MiB and 64GiB")
    return int(mib)


@takes({"type": "string", "pattern": rf"^\s*ample\s*$|{units.SIZE_PATTERN}"})
def read_tcp_memory(node: Node) -> int | None:
    """ample (None), or MiB. Raises BadInput."""
    if node.text == "ample":
        return None
    mib = SIZE(node) // MIB
    if not 1 <= mib <= MAX_MEMORY_MIB:
        raise node.bad_value("not ample or between 1MiB and 64GiB")
    return int(mib)
