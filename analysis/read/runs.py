"""Result folders, read: the only thing the analysis knows about a run.

Every folder under results/EXPERIMENT becomes a `Run` or a `Broken`; none is left out. What a folder
holds is written down in gostlab.results; here only plain JSON is read, so results of an older lab
stay readable.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

# How a run stands. The first four are status.json's; a folder without it is unfinished; corrupt is
# a finished run whose own files cannot be read, and it counts as nothing else.
STATES = ("ok", "failed", "unsupported", "interrupted", "unfinished", "corrupt")
VERDICTS = ("ok", "degraded", "invalid")
LEGS = ("app", "wan", "exit")
# A CPU with less idle time than this has none left; a bottleneck used more than this is full.
IDLE_SHARE_LOW = 0.05
LINK_SHARE_FULL = 0.95
LOG_TAIL_BYTES = 8_000
COMMANDS_BYTES = 40_000
# A setting with more text than this is named by its sum: a delay table, a trace of changes.
LONGEST_SETTING = 100
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

Scalar = str | float | bool | None


class Unreadable(Exception):
    """A file of a result folder is missing, cut short or not what it should be; the message names
    it.
    """


@dataclass(frozen=True)
class Check:
    """One line of fidelity.json."""

    name: str
    verdict: str
    asked: str
    got: str
    unit: str
    reason: str


@dataclass(frozen=True)
class Leg:
    """One TCP hop's sending sockets, from legs.json."""

    name: str  # app | wan | exit
    sender: str
    cc: tuple[str, ...]
    segments_out: int
    segments_retransmitted: int
    flow: str = ""  # whose it is; empty where an older lab did not say


@dataclass(frozen=True)
class Flow:
    """One flow of the load: what was asked of it, from run.json, and what it did, from flows.json
    (None: not measured).
    """

    name: str
    kind: str  # tcp | udp | http
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

    @property
    def competes(self) -> bool:
        """Whether a congestion control sends it: what fairness is about. UDP sends what it is told
        to.
        """
        return self.kind != "udp"


@dataclass(frozen=True)
class Change:
    """A change of the path during the load; None: left as it was."""

    at_s: float
    direction: str  # forward | reverse
    rate_bps: float | None = None
    delay_ms: float | None = None
    jitter_ms: float | None = None
    loss: float | None = None  # mean probability


@dataclass(frozen=True)
class Environment:
    """What produced a run's numbers, from env.json."""

    kernel: str
    hz: str
    machine: str
    clock: str
    syscall_cost_us: float | None
    lab: str  # version and commit
    iproute2: str
    iperf3: str
    mininet: str
    tunnel: str  # version of the program that was the tunnel; "none" for direct
    tunnel_kind: str  # gost | relay | none
    tunnel_sha256: str
    host: str

    @property
    def synthetic(self) -> bool:
        """Whether these numbers were made up for a test."""
        return self.lab.split(" ")[0] == "fixture"


@dataclass(frozen=True)
class Run:
    """One run, as its folder tells it. What it did not leave behind is None, never 0."""

    folder: Path
    state: str  # one of STATES
    error: str | None  # a line, where the state is not ok
    experiment: str
    matrix: str
    factors: tuple[tuple[str, Scalar], ...]
    settings: tuple[
        tuple[str, Scalar], ...
    ]  # all of run.json that decides the answer, flattened, sorted
    repetition: int
    seed: int
    clock: str
    syscall_cost_us: float
    placement: str
    profile: str
    tunnel: str
    cc: str
    streams: int
    duration_s: float
    direction: str
    rate_bps: float | None  # of the direction the data takes
    rtt_ms: float
    buffer_pkts: int | None
    mtu_bytes: int
    offloads: bool
    topology: str = "tunnel"
    flows: tuple[Flow, ...] = ()
    changes: tuple[Change, ...] = ()  # by time
    loss_p: float = (
        0.0  # mean probability of loss in the direction the data takes, as the load begins
    )
    jitter_ms: float = 0.0  # of the same direction
    ordered: bool = False  # whether jitter leaves packets in order there
    acks: bool = False  # whether acks.csv.gz was asked for
    sites: tuple[str, ...] = ()  # star: the profiles laid out; `profile` is the one under test
    verdict: str | None = None
    checks: tuple[Check, ...] = ()
    goodput_mbit: float | None = (
        None  # of its flows together; UDP beside them is no answer to the question
    )
    retr: int | None = None  # iperf3's own count: its sockets, which in a tunnel are the loopback's
    legs: tuple[Leg, ...] = ()
    nstat: tuple[tuple[str, int], ...] = ()  # node -> TcpRetransSegs of its namespace
    idle_share: float | None = None  # of the guest's CPU, in the median second of the load
    idle_share_load: float | None = None  # over the whole load, connecting and draining included
    link_share: float | None = None  # of the bottleneck's rate, in the median second of the load
    wall_s: float | None = None
    environment: Environment | None = None
    commands: str = field(default="", repr=False)
    log_tail: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """The folder's name."""
        return printable(self.folder.name)

    @property
    def counts(self) -> bool:
        """Whether it goes into summaries: finished, and an answer to the question."""
        return self.state == "ok" and self.verdict != "invalid"

    @property
    def bdp_pkts(self) -> float | None:
        """The path's bandwidth-delay product in packets of MTU size; None without a rate."""
        return (
            None
            if self.rate_bps is None
            else self.rate_bps * self.rtt_ms / 1000 / 8 / self.mtu_bytes
        )

    @property
    def buffer_bdp(self) -> float | None:
        """The bottleneck's buffer as a multiple of the BDP."""
        if self.buffer_pkts is None or not self.bdp_pkts:
            return None
        return self.buffer_pkts / self.bdp_pkts

    @property
    def load_s(self) -> float:
        """How long the load lasted."""
        return load_s(self.flows) if self.flows else self.duration_s

    def flow(self, name: str) -> Flow | None:
        """The flow of that name."""
        return next((flow for flow in self.flows if flow.name == name), None)

    def retransmitted(self, leg: str) -> int | None:
        """Segments that a leg's sending sockets sent again; None where the run has no such leg."""
        found = [each.segments_retransmitted for each in self.legs if each.name == leg]
        return sum(found) if found else None

    def segments(self, leg: str) -> int | None:
        """Segments that a leg's sending sockets sent; None where the run has no such leg."""
        found = [each.segments_out for each in self.legs if each.name == leg]
        return sum(found) if found else None


@dataclass(frozen=True)
class Broken:
    """A folder that does not even say which run it is."""

    folder: Path
    error: str

    @property
    def name(self) -> str:
        """The folder's name."""
        return printable(self.folder.name)


@dataclass(frozen=True)
class Results:
    """An experiment's folders."""

    experiment: str
    runs: tuple[Run, ...]
    broken: tuple[Broken, ...]

    @property
    def synthetic(self) -> bool:
        """Whether any of its numbers were made up for a test."""
        return any(run.environment is not None and run.environment.synthetic for run in self.runs)


def load_results(results: Path, experiment: str, asking: Collection[str] | None = None) -> Results:
    """Every run folder of an experiment, in the order of their names. An absent folder has none.

    asking: only the runs that answer one of these questions (see `question`); the others are left
    out, unread.
    """
    folder = results / experiment
    try:
        found = sorted(
            path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
        )
    except (FileNotFoundError, NotADirectoryError):
        found = []
    loaded = [
        load_run(path) for path in found if asking is None or question(read_asked(path)) in asking
    ]
    return Results(
        experiment,
        tuple(run for run in loaded if isinstance(run, Run)),
        tuple(run for run in loaded if isinstance(run, Broken)),
    )


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


def load_run(folder: Path) -> Run | Broken:
    """Read one folder. What is wrong with it is in the answer; nothing is raised for a folder's
    contents.
    """
    try:
        asked = asked_for(folder)
    except Unreadable as error:
        return Broken(folder, str(error))
    told: dict[str, Any] = {
        "commands": head_of(folder / "commands.sh"),
        "log_tail": logs_of(folder),
    }
    if not (folder / "status.json").exists():
        return Run(
            folder=folder,
            state="unfinished",
            error="no status.json: it is running or was cut off",
            **asked,
            **told,
        )
    try:
        status = read_object(folder / "status.json")
        state = text(status, "outcome", "status.json")
        if state not in ("ok", "failed", "unsupported", "interrupted"):
            raise Unreadable(f"status.json: outcome {state!r} is not one that the lab writes")
        told["wall_s"] = optional_number(status, "wall_s")
        complaint = printable(str(status["error"])) if status.get("error") else None
        if state == "ok":
            return Run(
                folder=folder,
                state=state,
                error=None,
                **{**asked, **told, **measured(folder, asked)},
            )
    except Unreadable as error:
        return Run(folder=folder, state="corrupt", error=str(error), **asked, **told)
    return Run(
        folder=folder,
        state=state,
        error=complaint or "no reason given",
        **asked,
        **told,
        **left_behind(folder),
    )


def asked_for(folder: Path) -> dict[str, Any]:
    """The fields of a Run that run.json gives. Raises Unreadable."""
    name = "run.json"
    run = read_object(folder / name)
    path = mapping(run, "path", name)
    changes = read_changes(run.get("changes") or [])
    sites = mapping(run, "sites", name) if run.get("sites") else {}
    directions = {key: mapping(path, key, name) for key in ("forward", "reverse")}
    heading = text(run, "direction", name)
    loaded = directions[data_direction(heading)]
    rtt_ms = sum(number(each, "delay_ms", name) for each in directions.values())
    flows = read_flows(run, rtt_ms)
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
        "cc": text(run, "cc", name),
        "streams": int(number(run, "streams", name)),
        "duration_s": number(run, "duration_s", name),
        "direction": heading,
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
        "loss_p": mean_loss(loaded.get("loss")),
        "jitter_ms": optional_number(loaded, "jitter_ms") or 0.0,
        "ordered": bool(loaded.get("ordered")),
        "acks": bool(run.get("acks")),
        "sites": tuple(printable(str(site)) for site in sites),
    }


def data_direction(heading: str) -> str:
    """Which direction of the path a run's or a flow's data takes."""
    return "reverse" if heading == "download" else "forward"


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
        at = changes.setdefault(f"{shown(each['at_s'])} s.{each['direction']}", {})
        at.update({key: value for key, value in each.items() if key not in ("at_s", "direction")})
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


def measured(folder: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Run that a good one must have left behind. Raises Unreadable."""
    flows = measured_flows(folder, asked["flows"])
    asking = [flow for flow in flows if flow.competes] or list(flows)
    resent = [flow.retransmits for flow in asking if flow.retransmits is not None]
    fidelity = read_object(folder / "fidelity.json")
    verdict = text(fidelity, "verdict", "fidelity.json")
    if verdict not in VERDICTS:
        raise Unreadable(f"fidelity.json: verdict {verdict!r} is not one that the lab gives")
    checks = read_checks(fidelity)
    whole = next(
        (
            float(row["got"])
            for row in fidelity["checks"]
            if row.get("name") == "cpu_idle_share" and is_number(row.get("got"))
        ),
        None,
    )
    idle = idle_share(folder, load_s(flows))
    legs, nstat = read_legs(read_object(folder / "legs.json"))
    return {
        "flows": flows,
        "goodput_mbit": math.fsum(flow.goodput_mbit or 0.0 for flow in asking),
        "retr": sum(resent) if resent else None,
        "verdict": verdict,
        "checks": checks,
        "idle_share": whole if idle is None else idle,
        "idle_share_load": whole,
        "link_share": link_share(folder, asked, load_s(flows)),
        "legs": legs,
        "nstat": nstat,
        "environment": read_environment(read_object(folder / "env.json")),
    }


def measured_flows(folder: Path, flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    """The flows with what they did, from flows.json; an older lab's, from iperf3's report. Raises
    Unreadable.
    """
    name = "flows.json"
    if not (folder / name).exists() and "flows" not in read_object(folder / "run.json"):
        return (replace(flows[0], **reported_by_iperf3(folder)),)
    rows = read_object(folder / name).get("flows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable(f"{name}: flows: not a list of flows")
    by_name = {row.get("name"): row for row in rows}
    found = []
    for flow in flows:
        row = by_name.get(flow.name)
        if row is None:
            raise Unreadable(f"{name}: {flow.name} is missing")
        if row.get("error"):
            raise Unreadable(f"{name}: {flow.name}: {printable(str(row['error']))}")
        found.append(
            replace(
                flow,
                goodput_mbit=number(row, "goodput_bps", name) / 1e6,
                started_s=optional_number(row, "started_s"),
                ended_s=optional_number(row, "ended_s"),
                retransmits=optional_count(row, "retransmits", name),
                bytes=optional_count(row, "bytes", name),
            )
        )
    return tuple(found)


def reported_by_iperf3(folder: Path) -> dict[str, Any]:
    """What iperf3's report says of the one flow of an older lab. Raises Unreadable."""
    name = "iperf3.json"
    report = read_object(folder / name)
    if report.get("error"):
        raise Unreadable(f"{name}: {printable(str(report['error']))}")
    end = mapping(report, "end", name)
    received = mapping(end, "sum_received", name)
    return {
        "goodput_mbit": number(received, "bits_per_second", name) / 1e6,
        "retransmits": optional_count(mapping(end, "sum_sent", name), "retransmits", name),
    }


def left_behind(folder: Path) -> dict[str, Any]:
    """What a run that did not end well left of the same: reasons and environment, never a number to
    compare.
    """
    found: dict[str, Any] = {}
    try:
        fidelity = read_object(folder / "fidelity.json")
        found["checks"] = read_checks(fidelity)
        found["environment"] = read_environment(read_object(folder / "env.json"))
    except Unreadable:
        pass  # its own failure is what matters, and that is told
    return found


def read_checks(fidelity: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks of fidelity.json. Raises Unreadable."""
    rows = fidelity.get("checks")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable("fidelity.json: checks: not a list of checks")
    return tuple(
        Check(
            *(shown(row.get(key)) for key in ("name", "verdict", "asked", "got", "unit", "reason"))
        )
        for row in rows
    )


def read_legs(legs: Mapping[str, Any]) -> tuple[tuple[Leg, ...], tuple[tuple[str, int], ...]]:
    """Legs, and every node's own count of retransmitted segments. Raises Unreadable."""
    rows = legs.get("legs")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable("legs.json: legs: not a list of legs")
    counted = legs.get("nstat")
    nodes = counted if isinstance(counted, dict) else {}
    return (
        tuple(
            Leg(
                text(row, "leg", "legs.json"),
                shown(row.get("sender")),
                tuple(shown(name) for name in row.get("cc") or ()),
                int(number(row, "segments_out", "legs.json")),
                int(number(row, "segments_retransmitted", "legs.json")),
                shown(row.get("flow")),
            )
            for row in rows
        ),
        tuple(
            sorted(
                (printable(node), int(counters["TcpRetransSegs"]))
                for node, counters in nodes.items()
                if isinstance(counters, dict) and isinstance(counters.get("TcpRetransSegs"), int)
            )
        ),
    )


def idle_share(folder: Path, duration_s: float) -> float | None:
    """The CPU's idle share in the median interval of the load, from hosts.jsonl; None without two
    samples.

    Not the share of the whole: while connections open and the last data drain the CPU rests, and a
    run that had none left for all of its seconds between would look as if it had.
    """
    rows = [
        row
        for row in load_series(folder, "hosts")
        if row["t_s"] <= duration_s
        and is_number(row.get("cpu_busy_s"))
        and is_number(row.get("cpu_idle_s"))
    ]
    shares = []
    for first, second in pairwise(rows):
        idle = second["cpu_idle_s"] - first["cpu_idle_s"]
        spent = idle + second["cpu_busy_s"] - first["cpu_busy_s"]
        if spent > 0:
            shares.append(idle / spent)
    return median(shares) if shares else None


def load_s(flows: Sequence[Flow]) -> float:
    """When the last flow was asked to end, or did if that was sooner: a download is over when the
    file is there.
    """
    return min(
        max(flow.start_s + flow.duration_s for flow in flows),
        max(flow.ended_s or math.inf for flow in flows),
    )


def link_share(folder: Path, asked: Mapping[str, Any], until_s: float) -> float | None:
    """How much of the bottleneck's rate was used in the median interval of the load; None without a
    rate or samples.

    Where there are several bottlenecks (a star has one per site), it is the one that sent most.
    """
    if not asked["rate_bps"]:
        return None
    heading = data_direction(asked["direction"])
    queues: dict[Any, list[dict[str, Any]]] = {}
    for row in load_series(folder, "queues"):
        if (
            row["t_s"] <= until_s
            and is_number(row.get("sent_bytes"))
            and (row.get("role"), row.get("direction")) == ("bottleneck", heading)
        ):
            queues.setdefault((row.get("node"), row.get("dev")), []).append(row)
    rows = max(queues.values(), key=lambda each: each[-1]["sent_bytes"], default=[])
    rates = [
        (0.0, asked["rate_bps"]),
        *(
            (each.at_s, each.rate_bps)
            for each in asked["changes"]
            if each.direction == heading and each.rate_bps
        ),
    ]
    shares = [
        8
        * (second["sent_bytes"] - first["sent_bytes"])
        / (second["t_s"] - first["t_s"])
        / next((rate for at_s, rate in reversed(rates) if at_s <= first["t_s"]), asked["rate_bps"])
        for first, second in pairwise(rows)
        if second["t_s"] > first["t_s"]
    ]
    return median(shares) if shares else None


def read_environment(env: Mapping[str, Any]) -> Environment:
    """What env.json says; a part that it does not name is "unknown"."""

    def part(value: Any) -> Mapping[str, Any]:
        return value if isinstance(value, dict) else {}

    lab, host = part(env.get("lab")), part(env.get("host"))
    tunnel = part(env.get("tunnel"))
    return Environment(
        kernel=shown(env.get("kernel"), "unknown"),
        hz=shown(env.get("hz"), "unknown"),
        machine=shown(env.get("machine"), "unknown"),
        clock=shown(env.get("clock"), "unknown"),
        syscall_cost_us=optional_number(env, "syscall_cost_us"),
        lab=" ".join(shown(lab.get(key)) for key in ("version", "commit") if lab.get(key))
        or "unknown",
        iproute2=shown(env.get("iproute2"), "unknown"),
        iperf3=shown(env.get("iperf3"), "unknown"),
        mininet=shown(env.get("mininet"), "unknown"),
        tunnel=shown(tunnel.get("version"), "unknown") if tunnel else "none",
        tunnel_kind=shown(tunnel.get("kind"), "unknown") if tunnel else "none",
        tunnel_sha256=shown(tunnel.get("sha256")),
        host=" · ".join(shown(host.get(key)) for key in ("cpu", "kernel") if host.get(key))
        or "unknown",
    )


def load_series(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of sockets.jsonl, queues.jsonl or hosts.jsonl; a line that was cut short ends the
    series.
    """
    rows: list[dict[str, Any]] = []
    try:
        with (folder / f"{name}.jsonl").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                row = json.loads(line)
                if not isinstance(row, dict) or not is_number(row.get("t_s")):
                    break
                rows.append(row)
    except (OSError, ValueError):
        return rows
    return rows


def load_intervals(folder: Path) -> list[tuple[float, float]]:
    """(end of the interval in s, Mbit/s sent) from iperf3's report; empty where it has none."""
    try:
        rows = read_object(folder / "iperf3.json").get("intervals") or []
        return [
            (number(row["sum"], "end", ""), number(row["sum"], "bits_per_second", "") / 1e6)
            for row in rows
        ]
    except (Unreadable, TypeError, KeyError):
        return []


def to_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run, for people who want to go on from here; see the units in the names."""
    rows = [
        {
            "run": run.name,
            "state": run.state,
            "verdict": run.verdict,
            "matrix": run.matrix,
            "topology": run.topology,
            "tunnel": run.tunnel,
            "cc": run.cc,
            "streams": run.streams,
            "repetition": run.repetition,
            "seed": run.seed,
            "clock": run.clock,
            "syscall_cost_us": run.syscall_cost_us,
            "profile": run.profile,
            "placement": run.placement,
            "direction": run.direction,
            "duration_s": run.duration_s,
            "rate_mbit": None if run.rate_bps is None else run.rate_bps / 1e6,
            "rtt_ms": run.rtt_ms,
            "loss_p": run.loss_p,
            "jitter_ms": run.jitter_ms,
            "ordered": run.ordered,
            "flows": len(run.flows),
            "buffer_pkts": run.buffer_pkts,
            "buffer_bdp": run.buffer_bdp,
            "goodput_mbit": run.goodput_mbit,
            **(
                {f"goodput_mbit:{flow.name}": flow.goodput_mbit for flow in run.flows}
                if len(run.flows) > 1
                else {}
            ),
            "iperf3_retr": run.retr,
            **{f"{leg}_retransmitted": run.retransmitted(leg) for leg in LEGS},
            "wan_segments_out": run.segments("wan"),
            "idle_share": run.idle_share,
            "idle_share_whole_load": run.idle_share_load,
            "link_share": run.link_share,
            "tunnel_program": run.environment.tunnel if run.environment else None,
            "kernel": run.environment.kernel if run.environment else None,
            "lab": run.environment.lab if run.environment else None,
            "error": run.error,
        }
        for run in runs
    ]
    return pd.DataFrame(rows, columns=None if rows else ["run", "state", "verdict", "goodput_mbit"])


# -- the edge: bytes of others to values of ours


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object. Raises Unreadable, naming the file and what is wrong."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise Unreadable(f"{path.name}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        size = path.stat().st_size
        raise Unreadable(
            f"{path.name}: "
            + ("it is empty" if size == 0 else f"not JSON ({printable(str(error))})")
        ) from error
    if not isinstance(value, dict):
        raise Unreadable(f"{path.name}: not an object")
    return value


def mapping(holder: Mapping[str, Any], key: str, file: str) -> Mapping[str, Any]:
    """An object inside one. Raises Unreadable."""
    value = holder.get(key)
    if not isinstance(value, dict):
        raise Unreadable(f"{file}: {key} is missing")
    return value


def text(holder: Mapping[str, Any], key: str, file: str) -> str:
    """A string inside an object. Raises Unreadable."""
    value = holder.get(key)
    if not isinstance(value, str):
        raise Unreadable(f"{file}: {key} is missing")
    return printable(value)


def number(holder: Mapping[str, Any], key: str, file: str) -> float:
    """A finite number inside an object. Raises Unreadable."""
    value = holder.get(key)
    if not is_number(value):
        raise Unreadable(f"{file}: {key} is missing or no number")
    return float(value)  # type: ignore[arg-type]


def optional_number(holder: Mapping[str, Any], key: str) -> float | None:
    """A finite number inside an object, or None."""
    value = holder.get(key)
    return float(value) if is_number(value) else None  # type: ignore[arg-type]


def optional_count(holder: Mapping[str, Any], key: str, file: str) -> int | None:
    """A count, or None where it is null or absent. Raises Unreadable for anything else."""
    return None if holder.get(key) is None else int(number(holder, key, file))


def is_number(value: object) -> bool:
    """A finite number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def flatten(value: Mapping[str, Any], prefix: str = "") -> tuple[tuple[str, Scalar], ...]:
    """Nested objects as sorted (dotted key, value) pairs, so that two descriptions can be
    compared.
    """
    pairs: list[tuple[str, Scalar]] = []
    for key, inner in value.items():
        name = f"{prefix}{printable(str(key))}"
        if isinstance(inner, Mapping):
            pairs += flatten(inner, f"{name}.")
        elif isinstance(inner, str):
            pairs.append((name, printable(inner)))
        elif inner is None or isinstance(inner, bool | int | float):
            pairs.append((name, float(inner) if inner is not None and is_number(inner) else inner))
        else:
            words = printable(json.dumps(inner, sort_keys=True))
            pairs.append((name, words if len(words) <= LONGEST_SETTING else summed(inner)))
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def summed(values: Any) -> str:
    """A long list as a short word that no other list has: how many values, and a sum of them."""
    words = json.dumps(values, sort_keys=True, default=str)
    return f"{len(values)} values, {zlib.crc32(words.encode('utf-8', 'replace')):08x}"


def shown(value: object, missing: str = "") -> str:
    """A value of JSON as a person reads it."""
    if value is None:
        return missing
    if isinstance(value, list):
        return ", ".join(shown(each) for each in value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    return printable(str(value))


ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)


def printable(words: str) -> str:
    """Text without what would break a page, a figure or a terminal: control characters, halves of
    pairs.
    """
    return UNPRINTABLE.sub("\ufffd", ESCAPES.sub("", words.replace("\r\n", "\n")))


def head_of(path: Path) -> str:
    """The first bytes of a text file; empty where it is not there."""
    try:
        with path.open("rb") as file:
            data = file.read(COMMANDS_BYTES + 1)
    except OSError:
        return ""
    words = printable(data[:COMMANDS_BYTES].decode("utf-8", errors="replace"))
    return words + ("\n[cut: the rest is in the folder]" if len(data) > COMMANDS_BYTES else "")


def tail_of(path: Path) -> str:
    """The last lines of a text file; empty where it is not there."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            data = file.read()
    except OSError:
        return ""
    lines = printable(data.decode("utf-8", errors="replace")).rstrip().split("\n")
    cut = size > LOG_TAIL_BYTES
    return "\n".join((["[…]"] if cut else []) + lines[1 if cut else 0 :][-40:])


def logs_of(folder: Path) -> str:
    """The end of log.txt and of the tunnel ends' own logs."""
    named = [
        (path.name, tail_of(path))
        for path in [folder / "log.txt", *sorted(folder.glob("tunnel-*.log"))]
    ]
    said = [(name, words) for name, words in named if words.strip()]
    return "\n\n".join(
        words if name == "log.txt" else f"== {name}\n{words}" for name, words in said
    )
