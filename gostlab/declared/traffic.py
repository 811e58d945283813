"""The kinds of traffic that a flow may be: what each file in gostlab/guest/traffic_kinds/ declares.

A kind is one file there: `TRAFFIC = TrafficKind(...)` says what it is; `serve` and `ask` are the
commands of its two ends, and `read` says what its client's report tells.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gostlab.declared.folders import TRAFFIC_KINDS
from gostlab.declared.source import by_name, declared_in, one_called

EITHER, DOWNLOAD, BOTH_WAYS = "either", "download", "both ways"


@dataclass(frozen=True)
class TrafficKind:
    """What a kind of traffic says of itself.

    name           as an experiment writes it
    says           what it is, in a few words
    program        what carries it, as an error names it
    report         how the name of a flow's own report begins and ends: ("iperf3", ".json")
    must, may      the fields of flows of this kind alone that have to be, or may be, written
    interval_ms    how far its requests are apart, where a flow does not say; 0: one after another
    is_tcp         whether a congestion control sends its data
    takes_tunnel   whether it goes through the run's tunnel; background traffic takes the path alone
    has_streams    whether it may have several connections side by side
    direction      EITHER, DOWNLOAD or BOTH_WAYS (then the flow has no choice)
    by_iperf3      whether the run's iperf3 carries it
    by_nginx       whether a web server has its data
    prefers_udp    whether its requests are datagrams wherever the run's tunnel carries those
    server_ends    whether its server ends with its flow
    is_counted     whether the lab counts what it did, as its program tells nothing
    of_the_host    whether its programs are this machine's: its guest has the host's files
    is_brief       whether its connections may end between two samples
    until_done     whether its duration is the most that it may take
    client         a program of the machine's that its client is
    charged        what its programs pay for calls as: the sender's, the receiver's
    rows           the file of what it measured, a row each, without .jsonl; "": none
    module         the file in gostlab/guest/traffic_kinds/, without .py
    """

    name: str
    says: str
    program: str
    report: tuple[str, ...] = ("", ".json")
    must: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    interval_ms: float = 0.0
    is_tcp: bool = True
    takes_tunnel: bool = True
    has_streams: bool = False
    direction: str = EITHER
    by_iperf3: bool = False
    by_nginx: bool = False
    prefers_udp: bool = False
    server_ends: bool = False
    is_counted: bool = False
    of_the_host: bool = False
    is_brief: bool = False
    until_done: bool = False
    client: str = ""
    charged: tuple[str, ...] = ("", "")
    rows: str = ""
    module: str = ""


@cache
def traffic_kinds(folder: Path = TRAFFIC_KINDS) -> dict[str, TrafficKind]:
    """Every kind of traffic by name. Raises BadInput for half a one."""
    constants = {"EITHER": EITHER, "DOWNLOAD": DOWNLOAD, "BOTH_WAYS": BOTH_WAYS}
    return by_name(declared_in(folder, "TRAFFIC", TrafficKind, "ask", constants), folder)


def traffic_kind(name: str) -> TrafficKind:
    """The kind of traffic of a name. Raises BadInput if there is none."""
    return one_called(name, traffic_kinds(), "kind of traffic")
