"""What a run was asked to be: run.json, of this lab and of older ones."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.read.values import (
    LONGEST_SETTING,
    Scalar,
    Unreadable,
    flatten,
    mapping,
    number,
    optional_count,
    optional_number,
    printable,
    read_object,
    shown,
    summed,
    text,
)
from gostlab.measures import data_direction
from gostlab.results import is_number

# What says who a run is among its repetitions, and what does not change its answer: how it is
# watched, and the sites of a star that no data of this run crosses.
NOT_SETTINGS = frozenset(
    {
        "schema",
        "experiment",
        "matrix",
        "factors",
        "repetition",
        "seed",
        "memory_mib",
        "sample_ms",
        "acks",
        "sites",
    }
)
# What a direction of a path does unless run.json says otherwise; older labs could do nothing else.
PLAIN_DIRECTION: Mapping[str, Any] = {"ordered": False, "distribution": None}


@dataclass(frozen=True)
class Flow:
    """One flow of the load: what was asked of it, from run.json, and what it did, from flows.json
    (None: not measured).

    gostlab.ask has its own Flow, which is what this lab can ask for. This one is what a folder
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
        """Whether a congestion control sends it: what fairness is about. UDP sends what it is told
        to.
        """
        return self.kind not in ("udp", "ping")


@dataclass(frozen=True)
class Direction:
    """One direction of a run's path as the load begins, as a folder says it."""

    name: str  # forward | reverse
    rate_bps: float | None
    delay_ms: float
    jitter_ms: float
    loss_p: float  # mean probability
    buffer_pkts: int | None


@dataclass(frozen=True)
class Change:
    """A change of the path during the load, as a folder says it; None: left as it was."""

    at_s: float
    direction: str  # forward | reverse
    rate_bps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    loss: float | None = None  # mean probability
    link: str | None = None  # of several; None: of all that have no path of their own


def question(asked: Mapping[str, Any]) -> str:
    """What a run asks, whichever of its repetitions it is, from the contents of run.json: equal for
    equal questions.
    """
    return json.dumps(
        {name: value for name, value in asked.items() if name not in ("repetition", "seed")},
        sort_keys=True,
    )


def read_asked(folder: Path) -> Mapping[str, Any]:
    """run.json's contents; nothing where there is none to read."""
    try:
        return read_object(folder / "run.json")
    except Unreadable:
        return {}


def asked_for(folder: Path) -> dict[str, Any]:
    """The fields of a Run that run.json gives. Raises Unreadable."""
    name = "run.json"
    run = read_object(folder / name)
    path = mapping(run, "path", name)
    changes = read_changes(run.get("changes") or [])
    sites = mapping(run, "sites", name) if run.get("sites") else {}
    links = mapping(run, "links", name) if run.get("links") else {}
    directions = {key: mapping(path, key, name) for key in ("forward", "reverse")}
    rtt_ms = sum(number(each, "delay_ms", name) for each in directions.values())
    flows = read_flows(run, rtt_ms)
    loaded = directions[data_direction(flows[0].direction)]
    if run.get("hops"):  # paths in a row: the whole round trip, and the slowest one's rate
        rtt_ms, loaded = flows[0].rtt_ms, slowest(run, loaded, data_direction(flows[0].direction))
    return {
        "experiment": text(run, "experiment", name),
        "matrix": text(run, "matrix", name),
        "factors": flatten(run.get("factors") or {}),
        "settings": settings_of(run, rtt_ms),
        "repetition": int(number(run, "repetition", name)),
        "seed": int(number(run, "seed", name)),
        "clock": text(run, "clock", name),
        "syscall_cost_us": optional_number(run, "syscall_cost_us") or 0.0,
        "placement": text(run, "placement", name),
        "profile": text(run, "profile", name),
        "tunnel": text(run, "tunnel", name),
        "cc": ccs_of(flows, text(run, "cc", name)),
        "streams": flows[0].streams if len(flows) == 1 else int(number(run, "streams", name)),
        "duration_s": number(run, "duration_s", name),
        "direction": flows[0].direction,
        "rate_bps": optional_number(loaded, "rate_bps"),
        "rtt_ms": rtt_ms,
        "buffer_pkts": (
            None if loaded.get("buffer_pkts") is None else int(number(loaded, "buffer_pkts", name))
        ),
        "offloads": bool(run.get("offloads")),
        "mtu_bytes": int(number(run, "mtu", name)) if run.get("mtu") else 1500,
        "topology": text(run, "topology", name) if "topology" in run else "tunnel",
        "flows": flows,
        "changes": changes,
        "path": tuple(read_direction(way, each, name) for way, each in directions.items()),
        "links": tuple(
            (printable(link), read_link(mapping(links, link, name), name)) for link in links
        ),
        "loss_p": mean_loss(loaded.get("loss")),
        "jitter_ms": optional_number(loaded, "jitter_ms") or 0.0,
        "ordered": bool(loaded.get("ordered")),
        "acks": bool(run.get("acks")),
        "sites": tuple(printable(str(site)) for site in sites),
    }


def slowest(run: Mapping[str, Any], loaded: Mapping[str, Any], way: str) -> Mapping[str, Any]:
    """Of a run's path and those of its links the direction with the least rate; their loss
    together is the data's. Raises Unreadable.
    """
    links = mapping(run, "links", "run.json") if run.get("links") else {}
    ways = [loaded, *(mapping(mapping(links, name, "links"), way, name) for name in links)]
    rates = [each for each in ways if optional_number(each, "rate_bps")]
    return min(rates, key=lambda each: number(each, "rate_bps", "run.json"), default=loaded)


def read_link(path: Mapping[str, Any], name: str) -> tuple[Direction, ...]:
    """The path of a link, as run.json has one. Raises Unreadable."""
    return tuple(
        read_direction(way, mapping(path, way, name), name) for way in ("forward", "reverse")
    )


def read_direction(way: str, asked: Mapping[str, Any], name: str) -> Direction:
    """One direction of run.json's path. Raises Unreadable."""
    buffer_pkts = asked.get("buffer_pkts")
    return Direction(
        name=way,
        rate_bps=optional_number(asked, "rate_bps"),
        delay_ms=number(asked, "delay_ms", name),
        jitter_ms=optional_number(asked, "jitter_ms") or 0.0,
        loss_p=mean_loss(asked.get("loss")),
        buffer_pkts=None if buffer_pkts is None else int(number(asked, "buffer_pkts", name)),
    )


def ccs_of(flows: Sequence[Flow], setting: str) -> str:
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
    kept = {
        key: value
        for key, value in run.items()
        if key not in NOT_SETTINGS | {"flows", "changes", "path"}
    }
    path = {
        name: (
            {
                key: value
                for key, value in direction.items()
                if key not in PLAIN_DIRECTION or value != PLAIN_DIRECTION[key]
            }
            if isinstance(direction, dict)
            else direction
        )
        for name, direction in mapping(run, "path", "run.json").items()
    }
    flows = run.get("flows") or []
    own = {
        "kind": "tcp",
        "start_s": 0,
        "rtt_ms": rtt_ms,
        **{key: run.get(key) for key in ("cc", "streams", "duration_s", "direction", "buffers")},
    }
    lone = {"sender", "receiver"} if len(flows) == 1 else set()
    by_name = {
        str(flow.get("name")): {
            key: value
            for key, value in flow.items()
            if key not in lone | {"name"} and value is not None and value != own.get(key)
        }
        for flow in flows
    }
    changes: dict[str, dict[str, Any]] = {}
    for each in run.get("changes") or ():
        where = f"{each['link']}." if each.get("link") else ""
        at = changes.setdefault(f"{shown(each['at_s'])} s.{where}{each['direction']}", {})
        known = ("at_s", "direction", "link")
        at.update({key: value for key, value in each.items() if key not in known})
    told = flatten({**kept, "path": path, "flows": by_name})
    changed = flatten(changes, "changes.")
    if sum(len(key) for key, _ in changed) > LONGEST_SETTING:
        changed = (("changes", summed(run["changes"])),)
    return tuple(sorted(told + changed, key=lambda pair: pair[0]))


def read_flows(run: Mapping[str, Any], rtt_ms: float) -> tuple[Flow, ...]:
    """The flows that run.json asks for; of an older lab's, which had one and did not name it, that
    one. Raises Unreadable.
    """
    own = {
        "name": "flow1",
        "kind": "tcp",
        "cc": run.get("cc"),
        "streams": run.get("streams"),
        "start_s": 0.0,
        "duration_s": run.get("duration_s"),
        "direction": run.get("direction"),
        "rtt_ms": rtt_ms,
    }
    rows = run.get("flows") or [own]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable("run.json: flows: not a list of flows")
    flows = tuple(
        Flow(
            name=text(row, "name", "run.json"),
            kind=text(row, "kind", "run.json"),
            cc=None if row.get("cc") is None else text(row, "cc", "run.json"),
            streams=int(optional_number(row, "streams") or 1),
            direction=text(row, "direction", "run.json"),
            start_s=optional_number(row, "start_s") or 0.0,
            duration_s=number(row, "duration_s", "run.json"),
            rtt_ms=rtt_ms if row.get("rtt_ms") is None else number(row, "rtt_ms", "run.json"),
            rate_bps=optional_number(row, "rate_bps"),
            size_bytes=optional_count(row, "size_bytes", "run.json"),
        )
        for row in rows
    )
    if len({flow.name for flow in flows}) < len(flows):
        raise Unreadable("run.json: flows: two of one name")
    return flows


def read_changes(rows: Any) -> tuple[Change, ...]:
    """The path's changes that run.json asks for, by time. Raises Unreadable."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable("run.json: changes: not a list of changes")
    found = (
        Change(
            number(row, "at_s", "run.json"),
            text(row, "direction", "run.json"),
            optional_number(row, "rate_bps"),
            optional_number(row, "delay_ms"),
            optional_number(row, "jitter_ms"),
            None if row.get("loss") is None else mean_loss(row["loss"]),
            None if row.get("link") is None else text(row, "link", "run.json"),
        )
        for row in rows
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


def load_s(flows: Sequence[Flow]) -> float:
    """When the last flow was asked to end, or did if that was sooner: a download is over when the
    file is there.
    """
    return min(
        max(flow.start_s + flow.duration_s for flow in flows),
        max(flow.ended_s or math.inf for flow in flows),
    )
