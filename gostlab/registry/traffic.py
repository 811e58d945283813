"""The kinds of traffic that a flow may be: what each file in gostlab/traffic/ declares.

A kind is one file there: `TRAFFIC = TrafficKind(...)` says what it is; `serve` and `ask` are the
commands of its two ends, and `read` says what its client's report tells.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gostlab.registry.folders import TRAFFIC_KINDS
from gostlab.registry.static_loader import declared_in, one_called

EITHER, DOWNLOAD, BOTH_WAYS = "either", "download", "both ways"


@dataclass(frozen=True)
class TrafficKind:
    """What a kind of traffic says of itself.

    name     as an experiment writes it
    says     what it is, in a few words
    program  what carries it, as an error names it
    """

    name: str
    says: str
    program: str
    report: tuple[str, ...] = ("", ".json")  # how its own report's name begins and ends
    must: tuple[str, ...] = ()  # the fields of its flows alone that have to be written
    may: tuple[str, ...] = ()  # and that may be
    # how far its requests are apart, where a flow does not say; 0: one after another
    interval_ms: float = 0.0
    is_tcp: bool = True  # whether a congestion control sends its data
    takes_tunnel: bool = True  # background traffic takes the path alone
    has_streams: bool = False  # whether it may have several connections side by side
    direction: str = EITHER  # | DOWNLOAD | BOTH_WAYS (then the flow has no choice)
    by_iperf3: bool = False  # whether the run's iperf3 carries it
    by_nginx: bool = False  # whether a web server has its data
    prefers_udp: bool = False  # whether its requests are datagrams where the tunnel carries those
    server_ends: bool = False  # whether its server ends with its flow
    is_counted: bool = False  # whether the lab counts what it did, as its program tells nothing
    of_the_host: bool = False  # whether its programs are this machine's, in a guest with its files
    is_brief: bool = False  # whether its connections may end between two samples
    until_done: bool = False  # whether its duration is the most that it may take
    client: str = ""  # a program of the machine's that its client is
    charged: tuple[str, ...] = ("", "")  # what the sender's and the receiver's program pay as
    rows: str = ""  # the file of what it measured, a row each, without .jsonl; "": none
    module: str = ""  # the file in gostlab/traffic/, without .py
    wrong = ""  # a declaration that can be read is whole


@cache
def traffic_kinds(folder: Path = TRAFFIC_KINDS) -> dict[str, TrafficKind]:
    """Every kind of traffic by name. Raises BadInput for half a one."""
    return declared_in(folder, "TRAFFIC", TrafficKind, "ask", globals())


def traffic_kind(name: str) -> TrafficKind:
    """The kind of traffic of a name. Raises BadInput if there is none."""
    return one_called(name, traffic_kinds(), "kind of traffic")
