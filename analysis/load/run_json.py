# SPDX-License-Identifier: MIT
"""Read the description of a run, run.json, into the fields that the analysis compares."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gostlab.analysis.load.untrusted_json import (
    MAX_SETTING_CHARS,
    Scalar,
    UnreadableFile,
    describe_long_value,
    flatten,
    format_value,
    read_json_object,
)
from gostlab.registry.traffic import traffic_kinds
from gostlab.spec.flow import FlowSpec
from gostlab.spec.path_spec import DIRECTIONS, LossSpec, PathSpec
from gostlab.text_safety import replace_controls

FILE = "run.json"
# Keys that identify a run among its repetitions. NON_SETTING_KEYS adds keys that do not change its
# results: sampling options, and the sites of a star that no data of this run crosses.
IDENTITY_KEYS = frozenset({"schema", "experiment", "matrix", "factors", "repetition", "seed"})
NON_SETTING_KEYS = IDENTITY_KEYS | {"memory_mib", "sample_ms", "acks", "sites", "changes"}
NON_SETTING_KEYS |= {"capture", "snaplen_bytes"}
# Values of a direction of a path that are no settings.
DEFAULT_DIRECTION = {"ordered": False, "distribution": None}
# Values that a flow inherits from the run.
INHERITED = ("cc", "streams", "duration_s", "direction", "buffers")


@dataclass(frozen=True)
class FlowRecord:
    """One flow of the load: the request of run.json and the results of flows.json.

    A result is None if it was not measured.
    """

    name: str
    traffic_type: str  # a type of traffic: tcp, udp, …
    cc: str | None  # None for UDP
    streams: int
    direction: str  # upload | download
    start_s: float  # requested start, since the load began
    duration_s: float  # http: maximum duration
    rtt_ms: float  # idle RTT of the flow's path
    rate_bps: float | None = None  # udp: offered rate; tcp, onoff: their application's rate
    size_bytes: int | None = None  # http: file size; transfer: its size
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
    # transfer, onoff, video, ping: gostlab.results.metrics.FLOW_MEASURES
    measures: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def competes(self) -> bool:
        """Return whether the flow takes all of the rate that it gets; fairness covers these."""
        declaration = traffic_kinds().get(self.traffic_type)
        return (declaration is None or declaration.is_greedy) and self.rate_bps is None


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


def question_key(run_json: Mapping[str, object]) -> str:
    """Return a key that is equal for all repetitions of one run description."""
    return json.dumps(
        {name: value for name, value in run_json.items() if name not in ("repetition", "seed")},
        sort_keys=True,
    )


def read_run_json(folder: Path) -> Mapping[str, object]:
    """Return the content of run.json; {} if it cannot be read."""
    try:
        return read_json_object(folder / FILE)
    except UnreadableFile:
        return {}


def to_directions(path: PathSpec) -> tuple[RunDirection, ...]:
    return tuple(
        RunDirection(
            name,
            path[name].rate_bps,
            path[name].delay_ms,
            path[name].jitter_ms,
            mean_loss(path[name].loss),
            path[name].buffer_pkts,
        )
        for name in DIRECTIONS
    )


def to_flow_records(flows: Sequence[FlowSpec]) -> tuple[FlowRecord, ...]:
    """Return the flows without results. Raises UnreadableFile if two have one name."""
    if len({flow.name for flow in flows}) < max(1, len(flows)):
        raise UnreadableFile(f"{FILE}: flows: none, or two of one name")
    return tuple(
        FlowRecord(
            name=replace_controls(flow.name),
            traffic_type=replace_controls(flow.traffic_type),
            cc=None if flow.cc is None else replace_controls(flow.cc),
            streams=flow.streams,
            direction=flow.direction,
            start_s=flow.start_s,
            duration_s=flow.duration_s,
            rtt_ms=flow.rtt_ms,
            rate_bps=flow.rate_bps,
            size_bytes=flow.size_bytes,
        )
        for flow in flows
    )


def flatten_settings(run_json: Mapping[str, Any], rtt_ms: float) -> tuple[tuple[str, Scalar], ...]:
    """Return the flattened settings of run.json that determine the result.

    Flows and changes are keyed by name. A value that a flow inherits from the run is listed once,
    for the run. So the only flow of a tunnel adds no setting.
    """
    run_settings = {key: value for key, value in run_json.items() if key not in NON_SETTING_KEYS}
    path = {
        direction: without_defaults(values, DEFAULT_DIRECTION)
        for direction, values in run_json["path"].items()
    }
    flows = run_json["flows"]
    inherited = {key: run_json[key] for key in INHERITED}
    inherited |= {"kind": "tcp", "start_s": 0, "rtt_ms": rtt_ms}
    omitted = {"name", *(("sender", "receiver") if len(flows) == 1 else ())}
    by_name = {
        flow["name"]: {
            key: value
            for key, value in without_defaults(flow, inherited).items()
            if key not in omitted and value is not None
        }
        for flow in flows
    }
    changes: dict[str, dict[str, object]] = {}
    for change in run_json["changes"]:
        link = f"{change['link']}." if change.get("link") else ""
        at = changes.setdefault(f"{format_value(change['at_s'])} s.{link}{change['direction']}", {})
        at |= {key: change[key] for key in change if key not in ("at_s", "direction", "link")}
    settings = flatten({**run_settings, "path": path, "flows": by_name})
    changed = flatten(changes, "changes.")
    if sum(len(key) for key, _ in changed) > MAX_SETTING_CHARS:
        changed = (("changes", describe_long_value(run_json["changes"])),)
    return tuple(sorted(settings + changed, key=lambda pair: pair[0]))


def without_defaults(
    values: Mapping[str, object], usual: Mapping[str, object]
) -> dict[str, object]:
    """Return the values that differ from the defaults."""
    return {key: value for key, value in values.items() if key not in usual or value != usual[key]}


def mean_loss(loss: LossSpec) -> float:
    """Return the mean loss probability of any loss model.

    gemodel is the Gilbert-Elliott channel with tc-netem(8)'s p r 1-h 1-k: it enters the bad state
    with probability p and leaves it with r; packets are lost with 1-k in the good and 1-h in the
    bad state. It is in the bad state for p / (p + r) of the packets (Elliott, Bell System Technical
    Journal 42, 1963; Hasslinger & Hohlfeld, MMB 2008), so the mean is (p (1-h) + r (1-k)) / (p +
    r). With p + r = 0 the channel stays in the good state.
    """
    if loss.model != "gemodel":
        return loss.p
    r, bad, good = (value or 0.0 for value in (loss.r, loss.one_minus_h, loss.one_minus_k))
    return (loss.p * bad + r * good) / (loss.p + r) if loss.p + r else good


def load_duration_s(flows: Sequence[FlowRecord]) -> float:
    """Return the requested or actual end of the last flow, whichever is earlier."""
    return min(
        max(flow.start_s + flow.duration_s for flow in flows),
        max(flow.ended_s or math.inf for flow in flows),
    )
