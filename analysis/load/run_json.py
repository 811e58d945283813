"""What a run was asked to be: run.json, of this lab and of older ones."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gostlab.analysis.load.json_safe import (
    LONGEST_SETTING,
    Scalar,
    UnreadableFile,
    count,
    flatten,
    mapping,
    number,
    objects,
    optional_count,
    optional_number,
    printable,
    read_object,
    record,
    shown,
    summed,
    text,
)
from gostlab.results import is_number
from gostlab.results.metrics import data_direction, measured_window_s, measured_words

FILE = "run.json"
WAYS = ("forward", "reverse")
# What says who a run is among its repetitions, and what does not change its answer: how it is
# watched, and the sites of a star that no data of this run crosses.
WHO = frozenset({"schema", "experiment", "matrix", "factors", "repetition", "seed"})
NOT_SETTINGS = WHO | {"memory_mib", "sample_ms", "acks", "sites"}
# The one flow of an older lab, beside what it takes from the run.
LONE_FLOW = {"name": "flow1", "kind": "tcp"}
# What a direction of a path does unless run.json says otherwise; older labs could do nothing else.
PLAIN_DIRECTION: Mapping[str, Any] = {"ordered": False, "distribution": None}


@dataclass(frozen=True)
class FlowRecord:
    """One flow of the load: what was asked of it, from run.json, and what it did, from flows.json
    (None: not measured).

    gostlab.spec has its own Flow, which is what this lab can ask for. This one is what a folder
    says: of an older lab's too, which knew fewer fields, and with the answer beside the question.
    """

    name: str
    kind: str  # tcp | udp | http | short | ping
    cc: str | None  # None: udp has none
    streams: int
    direction: str  # upload | download
    start_s: float  # since the load began, as asked
    duration_s: float  # http: the longest it may take
    rtt_ms: float  # its own idle round trip
    rate_bps: float | None = None  # udp: the rate offered
    size_bytes: int | None = None  # http: the file's
    goodput_mbit: float | None = None  # the receiver's
    started_s: float | None = None
    ended_s: float | None = None
    retransmits: int | None = None
    bytes: int | None = None
    # ping: median_ms, p95_ms, …
    round_trips: Mapping[str, float] | None = field(default=None, hash=False)
    fetches: tuple[Mapping[str, float], ...] = field(default=(), hash=False)  # short: by size

    @property
    def competes(self) -> bool:
        """Whether a congestion control sends it: what fairness is about."""
        return self.kind not in ("udp", "ping")


@dataclass(frozen=True)
class RunDirection:
    """One direction of a run's path as the load begins, as a folder says it."""

    name: str  # forward | reverse
    rate_bps: float | None
    delay_ms: float
    jitter_ms: float
    loss_p: float  # mean probability
    buffer_pkts: int | None

    @property
    def rate_mbit(self) -> float | None:
        return None if self.rate_bps is None else self.rate_bps / 1e6


@dataclass(frozen=True)
class PathChange:
    """A change of the path during the load, as a folder says it; None: left as it was."""

    at_s: float
    direction: str  # forward | reverse
    rate_bps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    loss: float | None = None  # mean probability
    link: str | None = None  # of several; None: of all that have no path of their own


def question(asked: Mapping[str, Any]) -> str:
    """What a run asks, whichever repetition it is: equal for equal questions."""
    return json.dumps(
        {name: value for name, value in asked.items() if name not in ("repetition", "seed")},
        sort_keys=True,
    )


def read_asked(folder: Path) -> Mapping[str, Any]:
    """run.json's contents; nothing where there is none to read."""
    try:
        return read_object(folder / FILE)
    except UnreadableFile:
        return {}


# The fields of a Run that run.json has as they are.
AS_ASKED = {
    **dict.fromkeys(("experiment", "matrix", "clock", "placement", "profile", "tunnel"), text),
    **dict.fromkeys(("repetition", "seed"), count),
    "duration_s": number,
}


def asked_for(folder: Path) -> dict[str, Any]:
    """The fields of a Run that run.json gives. Raises Unreadable."""
    run = read_object(folder / FILE)
    ways = ways_of(mapping(run, "path", FILE))
    links = mapping(run, "links", FILE) if run.get("links") else {}
    by_link = {link: ways_of(mapping(links, link, FILE)) for link in links}
    rtt_ms = sum(number(each, "delay_ms", FILE) for each in ways.values())
    changes = read_changes(run)
    flows = read_flows(run, rtt_ms)
    heading = data_direction(flows[0].direction)
    loaded = ways[heading]
    if run.get("hops"):  # paths in a row: the whole round trip, and the slowest one's rate
        rtt_ms, crossed = flows[0].rtt_ms, [loaded, *(each[heading] for each in by_link.values())]
        rated = [each for each in crossed if optional_number(each, "rate_bps")]
        loaded = min(rated, key=lambda each: number(each, "rate_bps", FILE), default=loaded)
    streams = {flow.streams for flow in flows if flow.cc} or {flow.streams for flow in flows}
    own_rtts_ms = {flow.rtt_ms for flow in flows}
    return {
        **{key: read(run, key, FILE) for key, read in AS_ASKED.items()},
        "factors": flatten(run.get("factors") or {}),
        "settings": settings_of(run, rtt_ms),
        "syscall_cost_us": optional_number(run, "syscall_cost_us") or 0.0,
        "cc": ccs_of(flows, text(run, "cc", FILE)),
        "streams": streams.pop() if len(streams) == 1 else count(run, "streams", FILE),
        "direction": flows[0].direction,
        "rate_bps": optional_number(loaded, "rate_bps"),
        "rtt_ms": own_rtts_ms.pop() if len(own_rtts_ms) == 1 else rtt_ms,
        "buffer_pkts": optional_count(loaded, "buffer_pkts", FILE),
        "offloads": bool(run.get("offloads")),
        "mtu_bytes": count(run, "mtu", FILE) if run.get("mtu") else 1500,
        "topology": text(run, "topology", FILE) if "topology" in run else "tunnel",
        "flows": flows,
        "changes": changes,
        "path": read_path(ways),
        "links": tuple((printable(link), read_path(each)) for link, each in by_link.items()),
        "measured_s": measured_window_s(run),
        "measured_words": measured_words(run),
        "loss_p": mean_loss(loaded.get("loss")),
        "jitter_ms": optional_number(loaded, "jitter_ms") or 0.0,
        "ordered": bool(loaded.get("ordered")),
        "acks": bool(run.get("acks")),
        "sites": tuple(map(printable, mapping(run, "sites", FILE) if run.get("sites") else {})),
    }


def ways_of(path: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Both directions of a path of run.json. Raises Unreadable."""
    return {way: mapping(path, way, FILE) for way in WAYS}


def read_path(ways: Mapping[str, Mapping[str, Any]]) -> tuple[RunDirection, ...]:
    """The same as Directions. Raises Unreadable."""
    return tuple(
        record(
            RunDirection,
            asked,
            FILE,
            name=way,
            jitter_ms=optional_number(asked, "jitter_ms") or 0.0,
            loss_p=mean_loss(asked.get("loss")),
        )
        for way, asked in ways.items()
    )


def ccs_of(flows: Sequence[FlowRecord], setting: str) -> str:
    """The congestion controls that a run's flows really use, each once in the order of the flows,
    joined by "+"; the run's setting where no flow has one. A flow's own `cc` overrides the setting.
    """
    return "+".join(dict.fromkeys(flow.cc for flow in flows if flow.cc)) or setting


def settings_of(run: Mapping[str, Any], rtt_ms: float) -> tuple[tuple[str, Scalar], ...]:
    """What run.json (read by read_flows and read_changes) asks that decides the answer, flattened:
    flows and changes by name.

    What a flow takes from the run as it is, is said once: by the run. So the one flow of a tunnel
    adds nothing, and a run of an older lab, which knew no flows, stands beside one that was asked
    the same.
    """
    kept = {key: value for key, value in run.items() if key not in NOT_SETTINGS | {"changes"}}
    path = {
        way: but(asked, PLAIN_DIRECTION) if isinstance(asked, dict) else asked
        for way, asked in mapping(run, "path", FILE).items()
    }
    flows = run.get("flows") or []
    of_the_run = {
        key: run.get(key) for key in ("cc", "streams", "duration_s", "direction", "buffers")
    }
    own = {"kind": "tcp", "start_s": 0, "rtt_ms": rtt_ms, **of_the_run}
    unsaid = {"name", *(("sender", "receiver") if len(flows) == 1 else ())}
    by_name = {
        str(flow.get("name")): {
            key: value
            for key, value in but(flow, own).items()
            if key not in unsaid and value is not None
        }
        for flow in flows
    }
    changes: dict[str, dict[str, Any]] = {}
    for each in run.get("changes") or ():
        where = f"{each['link']}." if each.get("link") else ""
        at = changes.setdefault(f"{shown(each['at_s'])} s.{where}{each['direction']}", {})
        at |= {key: each[key] for key in each if key not in ("at_s", "direction", "link")}
    told = flatten({**kept, "path": path, "flows": by_name})
    changed = flatten(changes, "changes.")
    if sum(len(key) for key, _ in changed) > LONGEST_SETTING:
        changed = (("changes", summed(run["changes"])),)
    return tuple(sorted(told + changed, key=lambda pair: pair[0]))


def but(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Values without those that are what they usually are."""
    return {key: value for key, value in values.items() if key not in usual or value != usual[key]}


def read_flows(run: Mapping[str, Any], rtt_ms: float) -> tuple[FlowRecord, ...]:
    """The flows that run.json asks for; of an older lab's, which had one and did not name it, that
    one. Raises Unreadable.
    """
    lone = {key: run.get(key) for key in ("cc", "streams", "duration_s", "direction")}
    asked = objects(run, "flows", FILE) if run.get("flows") else [{**lone, **LONE_FLOW}]
    flows = tuple(
        record(
            FlowRecord,
            row,
            FILE,
            streams=int(optional_number(row, "streams") or 1),
            start_s=optional_number(row, "start_s") or 0.0,
            rtt_ms=rtt_ms if row.get("rtt_ms") is None else number(row, "rtt_ms", FILE),
        )
        for row in asked
    )
    if len({flow.name for flow in flows}) < len(flows):
        raise UnreadableFile(f"{FILE}: flows: two of one name")
    return flows


def read_changes(run: Mapping[str, Any]) -> tuple[PathChange, ...]:
    """The path's changes that run.json asks for, by time. Raises Unreadable."""
    rows = objects(run, "changes", FILE) if run.get("changes") else []
    losses = (None if row.get("loss") is None else mean_loss(row["loss"]) for row in rows)
    found = (
        record(PathChange, row, FILE, loss=loss) for row, loss in zip(rows, losses, strict=True)
    )
    return tuple(sorted(found, key=lambda change: change.at_s))


def mean_loss(loss: Any) -> float:
    """The mean probability that a packet is lost, whatever the model; 0 of none.

    gemodel is the Gilbert-Elliott channel with tc-netem(8)'s p r 1-h 1-k: from the good state to
    the bad with p, back with r, lost with 1-k in the good and 1-h in the bad. It is in the bad
    state for p / (p + r) of the packets (Elliott, Bell System Technical Journal 42, 1963;
    Hasslinger & Hohlfeld, MMB 2008), so the mean is (p (1-h) + r (1-k)) / (p + r). A channel that
    never changes stays good, as it begins.
    """
    if is_number(loss):
        return float(loss)
    if not isinstance(loss, Mapping):
        return 0.0
    p = optional_number(loss, "p") or 0.0
    if loss.get("model") != "gemodel":
        return p
    r, bad, good = (
        optional_number(loss, key) or 0.0 for key in ("r", "one_minus_h", "one_minus_k")
    )
    return (p * bad + r * good) / (p + r) if p + r else good


def load_s(flows: Sequence[FlowRecord]) -> float:
    """When the last flow was asked to end, or did if that was sooner."""
    return min(
        max(flow.start_s + flow.duration_s for flow in flows),
        max(flow.ended_s or math.inf for flow in flows),
    )
