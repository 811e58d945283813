# SPDX-License-Identifier: MIT
"""Declare the types of traffic, from the files in gostlab/traffic/.

A type is one file: `TRAFFIC = TrafficKind(...)` describes it; `server_command` and `client_command`
are the commands of its two ends, and `read` parses its client's report.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gostlab.registry.folders import TRAFFIC_KINDS
from gostlab.registry.plugin_loader import PluginDeclaration, declarations_by_name, find_by_name

# Maximum numbers of a flow's parallel connections: iperf3's, and a bulk flow's, whose server takes
# them when all are made: so many wait in a listener's queue (net.core.somaxconn: 4,096).
IPERF3_STREAMS, MAX_STREAMS = 128, 4_000
# A socket that has sent fewer bytes sends no data: it is the other end's, or iperf3's control
# connection, whose report of 128 streams takes half of it.
CONTROL_BYTES = 50_000
EITHER, DOWNLOAD, BOTH_WAYS = "either", "download", "both ways"


@dataclass(frozen=True)
class TrafficKind(PluginDeclaration):
    r"""Represent the declaration of a type of traffic.

    name     as an experiment writes it
    says     what it is, in a few words
    program  what carries it, as an error names it
    """

    name: str
    says: str
    program: str
    report: tuple[str, ...] = ("", ".json")  # The prefix and the suffix of its report's name.
    must: tuple[str, ...] = ()  # The required fields among those of this type alone.
    may: tuple[str, ...] = ()  # The optional fields among those of this type alone.
    # The fields that make a flow without a kind one of this kind.
    implied_by: tuple[str, ...] = ()
    # The default interval between requests; 0 means one after another.
    interval_ms: float = 0.0
    is_tcp: bool = True  # Whether a congestion control sends its data.
    takes_tunnel: bool = True  # Background traffic bypasses the tunnel.
    has_streams: bool = False  # Whether it may have several parallel connections.
    max_streams: int = IPERF3_STREAMS  # The maximum number of them.
    direction: str = EITHER  # EITHER | DOWNLOAD | BOTH_WAYS; only with EITHER a flow may choose.
    by_iperf3: bool = False  # Whether the run's iperf3 carries it.
    by_nginx: bool = False  # Whether a web server has its data.
    prefers_udp: bool = False  # Whether its requests are datagrams if the tunnel carries datagrams.
    server_ends: bool = False  # Whether its server ends with its flow.
    is_counted: bool = False  # Whether gostlab counts its bytes, because its program reports none.
    # Whether its programs are the host's, in a guest with the host's files.
    of_the_host: bool = False
    # Whether its application may pause: its socket's busy time then does not date its first byte.
    pauses: bool = False
    # The most that a connection sends that carries no data.
    control_bytes: int = CONTROL_BYTES
    # Whether each of its reads and writes is a call that a host's CPU pays for.
    pays_calls: bool = True
    is_brief: bool = False  # Whether its connections may end between two samples.
    is_sized: bool = False  # Whether its result is how long a number of bytes takes.
    # Whether it takes all of the rate that it gets, so that its share can be fair or not.
    is_greedy: bool = True
    until_done: bool = False  # Whether its duration is a maximum.
    client: str = ""  # The program of the machine that is its client.
    # The names under which the sender's and the receiver's program are charged.
    charged: tuple[str, ...] = ("", "")
    rows: str = ""  # The file of its measurements, one per row, without .jsonl; "" means none.
    module: str = ""  # The module, in dotted form.


@cache
def traffic_kinds(folder: Path = TRAFFIC_KINDS) -> dict[str, TrafficKind]:
    """Return every type of traffic by name. Raises BadInput for an incomplete one."""
    return declarations_by_name(folder, "TRAFFIC", TrafficKind, "client_command")


def kind_of_fields(fields: Collection[str]) -> TrafficKind:
    """Return the type of traffic of a flow that names none: what its fields imply, else tcp."""
    kinds = traffic_kinds()
    implied = (
        declaration for declaration in kinds.values() if set(declaration.implied_by) & set(fields)
    )
    return next(implied, kinds["tcp"])


def traffic_kind(name: str) -> TrafficKind:
    """Return the type of traffic of a name. Raises BadInput if there is none."""
    return find_by_name(name, traffic_kinds(), "kind of traffic")
