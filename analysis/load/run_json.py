"""Read the description of a run, run.json, of this and of earlier versions."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gostlab.analysis.load.json_safe import (
    MAX_SETTING_CHARS,
    Scalar,
    UnreadableFile,
    count,
    describe_long_value,
    flatten,
    format_value,
    mapping,
    number,
    objects,
    optional_count,
    optional_number,
    read_object,
    record,
    text,
)
from gostlab.results import is_number
from gostlab.results.metrics import data_direction, measured_window_s, measured_words
from gostlab.text_safety import replace_controls

FILE = "run.json"
DIRECTIONS = ("forward", "reverse")
# Keys that identify a run among its repetitions. NOT_SETTINGS adds keys that do not change its
# results: sampling options, and the sites of a star that no data of this run crosses.
IDENTITY_KEYS = frozenset({"schema", "experiment", "matrix", "factors", "repetition", "seed"})
NON_SETTING_KEYS = IDENTITY_KEYS | {"memory_mib", "sample_ms", "acks", "sites"}
# The only flow of a run by an earlier version; its other fields are taken from the run.
ONLY_FLOW = {"name": "flow1", "kind": "tcp"}
# Defaults of a direction of a path; earlier versions had no other values.
DEFAULT_DIRECTION: Mapping[str, Any] = {"ordered": False, "distribution": None}


@dataclass(frozen=True)
class FlowRecord:
    """One flow of the load: the request of run.json and the results of flows.json.

    A result is None if it was not measured. gostlab.spec.Flow is a request that this version
    accepts; this class also represents flows of earlier versions, which had fewer fields.
    """

    name: str
    kind: str  # tcp | udp | http | short | ping
    cc: str | None  # None for UDP
    streams: int
    direction: str  # upload | download
    start_s: float  # requested start, since the load began
    duration_s: float  # http: maximum duration
    rtt_ms: float  # idle RTT of the flow's path
    rate_bps: float | None = None  # udp: offered rate
    size_bytes: int | None = None  # http: file size
    goodput_mbit: float | None = None  # measured by the receiver
    started_s: float | None = None
    ended_s: float | None = None
    retransmits: int | None = None
    bytes: int | None = None
    # ping: median_ms, p95_ms, …
    round_trips: Mapping[str, float] | None = field(default=None, hash=False)
    fetches: tuple[Mapping[str, float], ...] = field(
        default=(), hash=False
    )  # short: one entry per download size

    @property
    def competes(self) -> bool:
        """Return whether a congestion control sends the flow; fairness covers these."""
        return self.kind not in ("udp", "ping")


@dataclass(frozen=True)
class RunDirection:
    """One direction of a run's path when the load begins."""

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
    """A change of the path during the load; None means unchanged."""

    at_s: float
    direction: str  # forward | reverse
    rate_bps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    loss: float | None = None  # mean probability
    link: str | None = None  # None: every link without a path of its own


def question(asked: Mapping[str, Any]) -> str:
    """Return a key that is equal for all repetitions of one run description."""
    return json.dumps(
        {name: value for name, value in asked.items() if name not in ("repetition", "seed")},
        sort_keys=True,
    )


def read_run_json(folder: Path) -> Mapping[str, Any]:
    """Return the content of run.json; {} if it cannot be read."""
    try:
        return read_object(folder / FILE)
    except UnreadableFile:
        return {}


# Fields of RunFolder that are copied from run.json.
COPIED_FIELDS = {
    **dict.fromkeys(("experiment", "matrix", "clock", "placement", "profile", "tunnel"), text),
    **dict.fromkeys(("repetition", "seed"), count),
    "duration_s": number,
}


def read_run_fields(folder: Path) -> dict[str, Any]:
    """Return the fields of RunFolder that run.json determines.

    Raises UnreadableFile.
    """
    run = read_object(folder / FILE)
    directions = directions_of(mapping(run, "path", FILE))
    links = mapping(run, "links", FILE) if run.get("links") else {}
    by_link = {link: directions_of(mapping(links, link, FILE)) for link in links}
    rtt_ms = sum(number(path, "delay_ms", FILE) for path in directions.values())
    changes = read_changes(run)
    flows = read_flows(run, rtt_ms)
    data_heading = data_direction(flows[0].direction)
    loaded = directions[data_heading]
    if run.get("hops"):  # chained paths: total RTT and lowest rate
        rtt_ms, crossed = (
            flows[0].rtt_ms,
            [loaded, *(path[data_heading] for path in by_link.values())],
        )
        rated = [path for path in crossed if optional_number(path, "rate_bps")]
        loaded = min(rated, key=lambda path: number(path, "rate_bps", FILE), default=loaded)
    streams = {flow.streams for flow in flows if flow.cc} or {flow.streams for flow in flows}
    own_rtts_ms = {flow.rtt_ms for flow in flows}
    return {
        **{key: read(run, key, FILE) for key, read in COPIED_FIELDS.items()},
        "factors": flatten(run.get("factors") or {}),
        "settings": flatten_settings(run, rtt_ms),
        "syscall_cost_us": optional_number(run, "syscall_cost_us") or 0.0,
        "cc": join_ccs(flows, text(run, "cc", FILE)),
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
        "path": read_path(directions),
        "links": tuple((replace_controls(link), read_path(path)) for link, path in by_link.items()),
        "measured_s": measured_window_s(run),
        "measured_words": measured_words(run),
        "loss_p": mean_loss(loaded.get("loss")),
        "jitter_ms": optional_number(loaded, "jitter_ms") or 0.0,
        "ordered": bool(loaded.get("ordered")),
        "acks": bool(run.get("acks")),
        "sites": tuple(
            map(replace_controls, mapping(run, "sites", FILE) if run.get("sites") else {})
        ),
    }


def directions_of(path: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return both directions of a path of run.json.

    Raises UnreadableFile.
    """
    return {direction: mapping(path, direction, FILE) for direction in DIRECTIONS}


def read_path(directions: Mapping[str, Mapping[str, Any]]) -> tuple[RunDirection, ...]:
    """Return both directions of a path as RunDirection objects.

    Raises UnreadableFile.
    """
    return tuple(
        record(
            RunDirection,
            values,
            FILE,
            name=direction,
            jitter_ms=optional_number(values, "jitter_ms") or 0.0,
            loss_p=mean_loss(values.get("loss")),
        )
        for direction, values in directions.items()
    )


def join_ccs(flows: Sequence[FlowRecord], setting: str) -> str:
    """Return the congestion controls of a run's flows, joined by "+".

    Each is listed once, in the order of the flows; a flow's `cc` overrides the run's setting, which
    is returned if no flow has one.
    """
    return "+".join(dict.fromkeys(flow.cc for flow in flows if flow.cc)) or setting


def flatten_settings(run: Mapping[str, Any], rtt_ms: float) -> tuple[tuple[str, Scalar], ...]:
    """Return the flattened settings of run.json that determine the result.

    Flows and changes are keyed by name. A value that a flow inherits from the run is listed once,
    for the run. So the only flow of a tunnel adds no setting, and a run of an earlier version,
    which had no flows, equals a current run with the same request.
    """
    run_settings = {
        key: value for key, value in run.items() if key not in NON_SETTING_KEYS | {"changes"}
    }
    path = {
        direction: without_defaults(values, DEFAULT_DIRECTION)
        if isinstance(values, dict)
        else values
        for direction, values in mapping(run, "path", FILE).items()
    }
    flows = run.get("flows") or []
    run_defaults = {
        key: run.get(key) for key in ("cc", "streams", "duration_s", "direction", "buffers")
    }
    inherited = {"kind": "tcp", "start_s": 0, "rtt_ms": rtt_ms, **run_defaults}
    omitted = {"name", *(("sender", "receiver") if len(flows) == 1 else ())}
    by_name = {
        str(flow.get("name")): {
            key: value
            for key, value in without_defaults(flow, inherited).items()
            if key not in omitted and value is not None
        }
        for flow in flows
    }
    changes: dict[str, dict[str, Any]] = {}
    for change in run.get("changes") or ():
        link = f"{change['link']}." if change.get("link") else ""
        at = changes.setdefault(f"{format_value(change['at_s'])} s.{link}{change['direction']}", {})
        at |= {key: change[key] for key in change if key not in ("at_s", "direction", "link")}
    settings = flatten({**run_settings, "path": path, "flows": by_name})
    changed = flatten(changes, "changes.")
    if sum(len(key) for key, _ in changed) > MAX_SETTING_CHARS:
        changed = (("changes", describe_long_value(run["changes"])),)
    return tuple(sorted(settings + changed, key=lambda pair: pair[0]))


def without_defaults(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the defaults."""
    return {key: value for key, value in values.items() if key not in usual or value != usual[key]}


def read_flows(run: Mapping[str, Any], rtt_ms: float) -> tuple[FlowRecord, ...]:
    """Return the flows of run.json.

    A run by an earlier version has a single unnamed flow. Raises UnreadableFile.
    """
    only_flow = {key: run.get(key) for key in ("cc", "streams", "duration_s", "direction")}
    rows = objects(run, "flows", FILE) if run.get("flows") else [{**only_flow, **ONLY_FLOW}]
    flows = tuple(
        record(
            FlowRecord,
            row,
            FILE,
            streams=int(optional_number(row, "streams") or 1),
            start_s=optional_number(row, "start_s") or 0.0,
            rtt_ms=rtt_ms if row.get("rtt_ms") is None else number(row, "rtt_ms", FILE),
        )
        for row in rows
    )
    if len({flow.name for flow in flows}) < len(flows):
        raise UnreadableFile(f"{FILE}: flows: two of one name")
    return flows


def read_changes(run: Mapping[str, Any]) -> tuple[PathChange, ...]:
    """Return the changes of the path in run.json, by time.

    Raises UnreadableFile.
    """
    rows = objects(run, "changes", FILE) if run.get("changes") else []
    losses = (None if row.get("loss") is None else mean_loss(row["loss"]) for row in rows)
    changes = (
        record(PathChange, row, FILE, loss=loss) for row, loss in zip(rows, losses, strict=True)
    )
    return tuple(sorted(changes, key=lambda change: change.at_s))


def mean_loss(loss: Any) -> float:
    """Return the mean loss probability of any loss model; 0 without loss.

    gemodel is the Gilbert-Elliott channel with tc-netem(8)'s p r 1-h 1-k: it enters the bad state
    with probability p and leaves it with r; packets are lost with 1-k in the good and 1-h in the
    bad state. It is in the bad state for p / (p + r) of the packets (Elliott, Bell System Technical
    Journal 42, 1963; Hasslinger & Hohlfeld, MMB 2008), so the mean is (p (1-h) + r (1-k)) / (p +
    r). With p + r = 0 the channel stays in the good state.
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
    """Return the requested or actual end of the last flow, whichever is earlier."""
    return min(
        max(flow.start_s + flow.duration_s for flow in flows),
        max(flow.ended_s or math.inf for flow in flows),
    )
