# SPDX-License-Identifier: MIT
"""Represent a result folder as frozen dataclasses: request, measurements, environment."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gostlab.analysis.load.run_json import (
    FILE,
    FlowRecord,
    RunDirection,
    flatten_settings,
    load_duration_s,
    mean_loss,
    to_directions,
    to_flow_records,
)
from gostlab.analysis.load.untrusted_json import (
    Scalar,
    UnreadableFile,
    finite_number,
    flatten,
    format_value,
    read_json_object,
    read_log_tail,
    read_record,
    read_text_head,
)
from gostlab.errors import BadInput
from gostlab.results import (
    BROKEN_RECORDS,
    EPOCH,
    OUTCOMES,
    damage_of_folder,
    epoch_of,
    read_run,
    read_series,
)
from gostlab.results.metrics import (
    BOTTLENECK_FULL,
    bottleneck_utilisation,
    flow_measures,
    format_window,
    idle_share,
    path_leg,
    total_goodput_bps,
)
from gostlab.spec.path_spec import ChangeSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.verdict import VERDICTS, Check
from gostlab.text_safety import replace_controls

# Heading of the executed steps in commands.sh (gostlab.guest.command_log).
STEPS_HEADING = "# -- what the lab did\n\n"
# States of a run. The first four are outcomes of status.json; a folder without it is unfinished;
# corrupt is a finished run whose files cannot be read.
STATES = ("ok", "failed", "unsupported", "interrupted", "unfinished", "corrupt")
LEGS = (
    "app",
    "wan",
    "exit",
)  # a VPN over UDP has the single leg inner; it crosses the path like wan
CHAIN_LEGS = ("wan2", "join")  # more legs of a chain: its second path and its middle
# A CPU with a smaller idle share is saturated; a bottleneck with a greater used share is full.
IDLE_SHARE_LOW = 0.05
LINK_SHARE_FULL = BOTTLENECK_FULL


@dataclass(frozen=True)
class LegRecord:
    """The sending sockets of one TCP hop, from legs.json."""

    leg: str  # app | wan | exit | wan2 | join
    sender: str
    cc: tuple[str, ...]
    segments_out: int
    segments_retransmitted: int
    marked_pkts: int | None = None  # reported by the receivers (ECN)
    flow: str = ""

    @property
    def name(self) -> str:
        return self.leg


@dataclass(frozen=True)
class LegsRecord:
    """The content of legs.json."""

    legs: tuple[LegRecord, ...]
    nstat: Mapping[str, Mapping[str, object]]  # node -> counter -> value


@dataclass(frozen=True)
class FlowResultRecord:
    """The measurements of one flow, from flows.json."""

    name: str
    error: str | None = None
    goodput_bps: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    retransmits: int | None = None
    bytes: int | None = None
    round_trips: Mapping[str, object] | None = None
    fetches: tuple[Mapping[str, object], ...] | None = None
    transfer: Mapping[str, object] | None = None
    on_off: Mapping[str, object] | None = None
    playback: Mapping[str, object] | None = None
    by_stream: Mapping[str, object] | None = None


@dataclass(frozen=True)
class FlowsRecord:
    """The content of flows.json."""

    flows: tuple[FlowResultRecord, ...]


@dataclass(frozen=True)
class CheckRecord:
    """One check of fidelity.json; its values are of any type."""

    name: str
    verdict: str
    asked: object = None
    got: object = None
    unit: object = None
    reason: object = None


@dataclass(frozen=True)
class FidelityRecord:
    """The content of fidelity.json."""

    verdict: str
    checks: tuple[CheckRecord, ...]


@dataclass(frozen=True)
class Environment:
    """The software and machine that produced a run, from env.json."""

    kernel: str
    hz: str
    machine: str
    clock: str
    syscall_cost_us: float | None
    lab: str  # version and commit
    iproute2: str
    iperf3: str
    mininet: str
    tunnel: str  # version of the tunnel program; "none" for direct
    tunnel_kind: str  # gost | relay | none
    tunnel_sha256: str
    host: str

    @property
    def synthetic(self) -> bool:
        """Return whether the values were made up for a test."""
        return self.lab.split(" ")[0] == "fixture"


@dataclass(frozen=True)
class RunFolder:
    """One run, as read from its folder; missing values are None, never 0."""

    folder: Path
    state: str  # one of STATES
    error: str | None  # one line if the state is not ok
    experiment: str
    matrix: str
    factors: tuple[tuple[str, Scalar], ...]
    # all keys of run.json that determine the result, flattened, sorted
    settings: tuple[tuple[str, Scalar], ...]
    plugins: tuple[str, ...]  # packages of its plugins, with their versions
    repetition: int
    seed: int
    clock: str
    syscall_cost_us: float
    placement: str
    profile: str
    tunnel: str
    cc: str  # used by the flows; "bbr+cubic" for several
    streams: int
    duration_s: float
    direction: str
    rate_bps: float | None  # in the data direction
    rtt_ms: float
    buffer_pkts: int | None
    mtu_bytes: int
    offloads: bool
    topology: str = "tunnel"
    flows: tuple[FlowRecord, ...] = ()
    changes: tuple[ChangeSpec, ...] = ()  # by time
    path: tuple[RunDirection, ...] = ()  # forward, reverse
    # (link, directions) for each link with a path of its own
    links: tuple[tuple[str, tuple[RunDirection, ...]], ...] = ()
    measured_s: tuple[float, float] = (0.0, math.inf)  # part of the load that results cover
    measured_words: str = "the whole load"
    loss_p: float = 0.0  # mean in the data direction when the load begins
    jitter_ms: float = 0.0  # in the data direction
    ordered: bool = False  # whether jitter in the data direction preserves packet order
    acks: bool = False  # whether acks.csv.gz was requested
    sites: tuple[str, ...] = ()  # star: profiles of all sites; `profile` is under test
    verdict: str | None = None
    checks: tuple[Check, ...] = ()
    goodput_mbit: float | None = None  # total of the flows, without background UDP
    retr: int | None = None  # count by iperf3; with a tunnel its sockets are on the loopback
    legs: tuple[LegRecord, ...] = ()
    nstat: tuple[tuple[str, int], ...] = ()  # (node, TcpRetransSegs of its namespace)
    idle_share: float | None = None  # idle share of the guest's CPU in the median second
    idle_share_load: float | None = None  # whole load, with connecting and draining
    link_share: float | None = None  # used share of the bottleneck's rate in the median second
    wall_s: float | None = None
    environment: Environment | None = None
    epoch: int = EPOCH  # meaning of run.json (gostlab.results.EPOCHS)
    commands: str = field(default="", repr=False)
    log_tail: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        return replace_controls(self.folder.name)

    @property
    def counts(self) -> bool:
        """Return whether summaries include the run: finished and not invalid."""
        return self.state == "ok" and self.verdict != "invalid"

    @property
    def rate_mbit(self) -> float | None:
        return None if self.rate_bps is None else self.rate_bps / 1e6

    @property
    def bdp_pkts(self) -> float | None:
        """Return the bandwidth-delay product in packets of MTU size; None without a rate."""
        if self.rate_bps is None:
            return None
        return self.rate_bps * self.rtt_ms / 1000 / 8 / self.mtu_bytes

    @property
    def buffer_bdp(self) -> float | None:
        """Return the bottleneck's buffer as a multiple of the BDP."""
        if self.buffer_pkts is None or not self.bdp_pkts:
            return None
        return self.buffer_pkts / self.bdp_pkts

    @property
    def load_s(self) -> float:
        return load_duration_s(self.flows) if self.flows else self.duration_s

    @property
    def measures_part(self) -> bool:
        return self.measured_s != (0.0, math.inf)

    @property
    def competitors(self) -> list[FlowRecord]:
        """Return the flows with a congestion control."""
        return [flow for flow in self.flows if flow.competes]

    def flow(self, name: str) -> FlowRecord | None:
        return next((flow for flow in self.flows if flow.name == name), None)

    def retransmitted(self, leg: str) -> int | None:
        """Return the segments retransmitted by a leg's senders; None without the leg."""
        return sum_known(
            leg_record.segments_retransmitted for leg_record in self.sockets_of_leg(leg)
        )

    def segments(self, leg: str) -> int | None:
        """Return the segments sent by a leg's senders; None without the leg."""
        return sum_known(leg_record.segments_out for leg_record in self.sockets_of_leg(leg))

    def sockets_of_leg(self, leg: str) -> list[LegRecord]:
        """Return the sockets of a leg; `wan` selects a UDP VPN's inner leg."""
        path_leg_name = path_leg(leg_record.name for leg_record in self.legs)
        return [
            leg_record
            for leg_record in self.legs
            if leg_record.name == (path_leg_name if leg == "wan" else leg)
        ]


@dataclass(frozen=True)
class UnidentifiedRun:
    """A folder without a readable run description."""

    folder: Path
    error: str

    @property
    def name(self) -> str:
        return replace_controls(self.folder.name)


def sum_known(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the known values; None if there are none."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def load_run(folder: Path, *, has_utilisation: bool = True) -> RunFolder | UnidentifiedRun:
    """Read one folder; faults are part of the result and raise nothing.

    has_utilisation: whether `link_share` and `idle_share` are computed, from the samples.
    """
    try:
        run = read_request(folder)
    except (UnreadableFile, *BROKEN_RECORDS) as error:
        return UnidentifiedRun(folder, describe_damage(error, "run.json"))
    if not (folder / "status.json").exists():
        return run
    try:
        status = read_json_object(folder / "status.json")
        run = add_status(run, status)
        fault = damage_of_folder(folder, status)
        if fault:
            raise UnreadableFile(fault)
        if run.state != "ok":
            return add_checks(run)
        run = add_results(run)
        return add_utilisation(run) if has_utilisation else run
    except (UnreadableFile, *BROKEN_RECORDS) as error:
        return replace(run, state="corrupt", error=describe_damage(error, "its files"))


def read_request(folder: Path) -> RunFolder:
    """Return a run as run.json requests it, unfinished. Raises UnreadableFile."""
    run_json = read_json_object(folder / FILE)
    try:
        run = RunSpec.from_json(run_json)
    except BadInput as error:
        raise UnreadableFile(replace_controls(str(error))) from None
    flows = to_flow_records(run.flows)
    loaded, rtt_ms = run.path[run.data_direction], run.path.rtt_ms
    if run.hops > 1:  # chained paths: total RTT and lowest rate
        rtt_ms = flows[0].rtt_ms
        crossed = [loaded, *(path[run.data_direction] for path in run.links.values())]
        loaded = min(crossed, key=lambda direction: direction.rate_bps or math.inf)
    streams = {flow.streams for flow in flows if flow.cc} or {flow.streams for flow in flows}
    rtts_ms = {flow.rtt_ms for flow in flows}
    ccs = dict.fromkeys(flow.cc for flow in flows if flow.cc)  # each congestion control once
    return RunFolder(
        folder=folder,
        state="unfinished",
        error="no status.json: it is running or was cut off",
        experiment=replace_controls(run.experiment),
        matrix=replace_controls(run.matrix),
        factors=flatten(run.factors),
        settings=flatten_settings(run_json, run.path.rtt_ms),
        plugins=tuple(
            replace_controls(f"{plugin.package} {plugin.version}") for plugin in run.plugins
        ),
        repetition=run.repetition,
        seed=run.seed,
        clock=replace_controls(run.clock),
        syscall_cost_us=run.syscall_cost_us,
        placement=replace_controls(run.placement),
        profile=replace_controls(run.profile),
        tunnel=replace_controls(run.tunnel),
        cc="+".join(ccs) or replace_controls(run.cc),
        streams=streams.pop() if len(streams) == 1 else run.streams,
        duration_s=run.duration_s,
        direction=flows[0].direction,
        rate_bps=loaded.rate_bps,
        rtt_ms=rtts_ms.pop() if len(rtts_ms) == 1 else rtt_ms,
        buffer_pkts=loaded.buffer_pkts,
        mtu_bytes=run.mtu,
        offloads=run.offloads,
        topology=replace_controls(run.topology),
        flows=flows,
        changes=tuple(sorted(run.changes, key=lambda change: change.at_s)),
        path=to_directions(run.path),
        links=tuple(
            (replace_controls(link), to_directions(path)) for link, path in run.links.items()
        ),
        measured_s=run.window_s,
        measured_words=format_window(run.window_s),
        loss_p=mean_loss(loaded.loss),
        jitter_ms=loaded.jitter_ms,
        ordered=loaded.ordered,
        acks=run.acks,
        sites=tuple(map(replace_controls, run.sites or {})),
        commands=executed_steps(read_text_head(folder / "commands.sh")),
        log_tail=read_log_tails(folder),
    )


def describe_damage(error: Exception, where: str) -> str:
    """Describe the fault of a run in one line, from its reader's error."""
    if isinstance(error, UnreadableFile):
        return str(error)
    message = replace_controls(f"{type(error).__name__}: {error}")[:200]
    return f"{where}: not as the lab writes it ({message})"


def add_status(run: RunFolder, status: Mapping[str, object]) -> RunFolder:
    """Return a run with the contents of status.json. Raises UnreadableFile."""
    state = status.get("outcome")
    if state not in OUTCOMES:
        raise UnreadableFile(f"status.json: outcome {state!r:.40} is not one that the lab writes")
    reason = replace_controls(str(status.get("error") or "no reason given"))
    return replace(
        run,
        state=str(state),
        error=None if state == "ok" else reason,
        wall_s=finite_number(status.get("wall_s")),
        epoch=epoch_of(status),
    )


def executed_steps(commands: str) -> str:
    """Return the executed steps in commands.sh, without its function definitions."""
    return commands.partition(STEPS_HEADING)[2] or commands


def add_results(run: RunFolder) -> RunFolder:
    """Return a successful run with its results. Raises UnreadableFile."""
    folder = run.folder
    flows = read_measured_flows(folder, run.flows)
    fidelity = read_record(folder / "fidelity.json", FidelityRecord)
    if fidelity.verdict not in VERDICTS:
        raise UnreadableFile(f"fidelity.json: verdict {fidelity.verdict!r:.40} is not the lab's")
    idle_checks = [check for check in fidelity.checks if check.name == "cpu_idle_share"]
    whole_load = next((finite_number(check.got) for check in idle_checks), None)
    legs = read_record(folder / "legs.json", LegsRecord)
    counts = ((node, counters.get("TcpRetransSegs")) for node, counters in legs.nstat.items())
    competing = [flow for flow in flows if flow.competes]
    return replace(
        run,
        flows=flows,
        goodput_mbit=read_total_goodput_mbit(folder),
        retr=sum_known(flow.retransmits for flow in competing or flows),
        verdict=fidelity.verdict,
        checks=to_checks(fidelity),
        idle_share_load=whole_load,
        legs=legs.legs,
        nstat=tuple(sorted((node, count) for node, count in counts if isinstance(count, int))),
        environment=read_environment(read_json_object(folder / "env.json")),
    )


def add_utilisation(run: RunFolder) -> RunFolder:
    """Return a successful run with the used shares of its CPU and its bottleneck."""
    folder, until_s = run.folder, load_duration_s(run.flows)
    idle = idle_share(read_series(folder, "hosts"), until_s=until_s)
    spec, queues = read_run(folder), read_series(folder, "queues")
    return replace(
        run,
        idle_share=run.idle_share_load if idle is None else idle,
        link_share=None if spec is None else bottleneck_utilisation(spec, queues, until_s),
    )


def read_total_goodput_mbit(folder: Path) -> float:
    """Return the total goodput of the flows, as printed on the terminal. Raises UnreadableFile."""
    try:
        return total_goodput_bps(read_json_object(folder / "flows.json")["flows"]) / 1e6
    except BROKEN_RECORDS as error:
        message = replace_controls(str(error))
        raise UnreadableFile(f"flows.json: no goodput of its flows: {message}") from None


def read_measured_flows(folder: Path, flows: tuple[FlowRecord, ...]) -> tuple[FlowRecord, ...]:
    """Add the measurements of flows.json to the flows. Raises UnreadableFile."""
    results = {row.name: row for row in read_record(folder / "flows.json", FlowsRecord).flows}
    measured = []
    for flow in flows:
        row = results.get(flow.name)
        if row is None or row.error or row.goodput_bps is None:
            fault = (row.error or "no goodput") if row else "it is missing"
            raise UnreadableFile(f"flows.json: {flow.name}: {fault}")
        measured.append(
            replace(
                flow,
                goodput_mbit=row.goodput_bps / 1e6,
                started_s=row.started_s,
                ended_s=row.ended_s,
                retransmits=row.retransmits,
                bytes=row.bytes,
                round_trips=None if row.round_trips is None else numeric_values(row.round_trips),
                fetches=tuple(filter(None, map(numeric_values, row.fetches or ()))),
                measures=flow_measures(vars(row)),
            )
        )
    return tuple(measured)


def numeric_values(values: Mapping[str, object]) -> dict[str, float]:
    numbers = {key: finite_number(value) for key, value in values.items()}
    return {key: number for key, number in numbers.items() if number is not None}


def add_checks(run: RunFolder) -> RunFolder:
    """Return an unsuccessful run with its checks and environment, as far as it has them."""
    try:
        fidelity = read_record(run.folder / "fidelity.json", FidelityRecord)
        run = replace(run, checks=to_checks(fidelity))
        return replace(run, environment=read_environment(read_json_object(run.folder / "env.json")))
    except UnreadableFile:  # the failure of the run is already reported
        return run


def to_checks(fidelity: FidelityRecord) -> tuple[Check, ...]:
    return tuple(
        Check(
            check.name,
            check.verdict,
            *map(format_value, (check.asked, check.got, check.unit, check.reason)),
        )
        for check in fidelity.checks
    )


def nested_object(holder: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return the object under a key; {} if there is none."""
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def read_environment(env: Mapping[str, object]) -> Environment:
    """Parse env.json; missing values become "unknown"."""
    lab, host, tunnel = (nested_object(env, key) for key in ("lab", "host", "tunnel"))
    known = ("kernel", "hz", "machine", "clock", "iproute2", "iperf3", "mininet")
    return Environment(
        **{key: format_value(env.get(key), "unknown") for key in known},
        syscall_cost_us=finite_number(env.get("syscall_cost_us")),
        lab=" ".join(format_value(lab[key]) for key in ("version", "commit") if lab.get(key))
        or "unknown",
        tunnel=format_value(tunnel.get("version"), "unknown") if tunnel else "none",
        tunnel_kind=format_value(tunnel.get("kind"), "unknown") if tunnel else "none",
        tunnel_sha256=format_value(tunnel.get("sha256")),
        host=" · ".join(format_value(host[key]) for key in ("cpu", "kernel") if host.get(key))
        or "unknown",
    )


def read_log_tails(folder: Path) -> str:
    """Return the last lines of log.txt and of the tunnel ends' logs."""
    files = [folder / "log.txt", *sorted(folder.glob("tunnel-*.log"))]
    tails = [(path.name, tail) for path in files if (tail := read_log_tail(path)).strip()]
    return "\n\n".join(tail if name == "log.txt" else f"== {name}\n{tail}" for name, tail in tails)
