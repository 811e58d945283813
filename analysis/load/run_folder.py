"""One result folder as frozen dataclasses: what was asked, what was measured, what produced it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gostlab.analysis.load.json_safe import (
    Read,
    Scalar,
    UnreadableFile,
    head_of,
    mapping,
    number,
    objects,
    optional_count,
    optional_number,
    printable,
    read_log_tail,
    read_object,
    record,
    shown,
    text,
)
from gostlab.analysis.load.run_json import FlowRecord, PathChange, RunDirection, asked_for, load_s
from gostlab.results import BROKEN_RECORDS, EPOCH, damage, epoch_of, is_number, read_series
from gostlab.results.metrics import (
    BOTTLENECK_FULL,
    bottleneck_used,
    idle_share,
    path_leg,
    total_goodput_bps,
)
from gostlab.spec.checks import VERDICTS, Check

# Where a commands.sh comes to what the lab did (gostlab.guest.command_log).
STEPS = "# -- what the lab did\n\n"
# How a run stands. The first four are status.json's; a folder without it is unfinished; corrupt is
# a finished run whose own files cannot be read, and it counts as nothing else.
STATES = ("ok", "failed", "unsupported", "interrupted", "unfinished", "corrupt")
LEGS = ("app", "wan", "exit")  # a VPN over UDP has one, inner, which crosses the path: as wan
CHAIN_LEGS = ("wan2", "join")  # of a chain besides: across its second path, and in its middle
# A CPU with less idle time than this has none left; a bottleneck used more than this is full.
IDLE_SHARE_LOW = 0.05
LINK_SHARE_FULL = BOTTLENECK_FULL


@dataclass(frozen=True)
class LegRecord:
    """One TCP hop's sending sockets, from legs.json."""

    name: str  # app | wan | exit | wan2 | join
    sender: str
    cc: tuple[str, ...]
    segments_out: int
    segments_retransmitted: int
    marked_pkts: int = 0  # as its receivers say (ECN)
    flow: str = ""  # whose it is; empty where an older lab did not say


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
class RunFolder:
    """One run, as its folder tells it. What it did not leave behind is None, never 0."""

    folder: Path
    state: str  # one of STATES
    error: str | None  # a line, where the state is not ok
    experiment: str
    matrix: str
    factors: tuple[tuple[str, Scalar], ...]
    # all of run.json that decides the answer, flattened, sorted
    settings: tuple[tuple[str, Scalar], ...]
    repetition: int
    seed: int
    clock: str
    syscall_cost_us: float
    placement: str
    profile: str
    tunnel: str
    cc: str  # that its flows really use; of several "bbr+cubic"
    streams: int
    duration_s: float
    direction: str
    rate_bps: float | None  # of the direction the data takes
    rtt_ms: float
    buffer_pkts: int | None
    mtu_bytes: int
    offloads: bool
    topology: str = "tunnel"
    flows: tuple[FlowRecord, ...] = ()
    changes: tuple[PathChange, ...] = ()  # by time
    path: tuple[RunDirection, ...] = ()  # forward, reverse
    # the same of each link that has a path of its own
    links: tuple[tuple[str, tuple[RunDirection, ...]], ...] = ()
    measured_s: tuple[float, float] = (0.0, math.inf)  # of the load, what results are taken over
    measured_words: str = "the whole load"
    loss_p: float = 0.0  # mean, in the direction the data takes, as the load begins
    jitter_ms: float = 0.0  # of the same direction
    ordered: bool = False  # whether jitter leaves packets in order there
    acks: bool = False  # whether acks.csv.gz was requested
    sites: tuple[str, ...] = ()  # star: the profiles laid out; `profile` is the one under test
    verdict: str | None = None
    checks: tuple[Check, ...] = ()
    goodput_mbit: float | None = None  # of its flows together, without UDP beside them
    retr: int | None = None  # iperf3's own count: its sockets, which in a tunnel are the loopback's
    legs: tuple[LegRecord, ...] = ()
    nstat: tuple[tuple[str, int], ...] = ()  # node -> TcpRetransSegs of its namespace
    idle_share: float | None = None  # of the guest's CPU, in the median second of the load
    idle_share_load: float | None = None  # over the whole load, connecting and draining included
    link_share: float | None = None  # of the bottleneck's rate, in the median second of the load
    wall_s: float | None = None
    environment: Environment | None = None
    epoch: int = EPOCH  # what its lab meant by run.json (gostlab.results.EPOCHS)
    commands: str = field(default="", repr=False)
    log_tail: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        return printable(self.folder.name)

    @property
    def counts(self) -> bool:
        """Whether it goes into summaries: finished, and an answer to the question."""
        return self.state == "ok" and self.verdict != "invalid"

    @property
    def rate_mbit(self) -> float | None:
        return None if self.rate_bps is None else self.rate_bps / 1e6

    @property
    def bdp_pkts(self) -> float | None:
        """The path's bandwidth-delay product in packets of MTU size; None without a rate."""
        if self.rate_bps is None:
            return None
        return self.rate_bps * self.rtt_ms / 1000 / 8 / self.mtu_bytes

    @property
    def buffer_bdp(self) -> float | None:
        """The bottleneck's buffer as a multiple of the BDP."""
        if self.buffer_pkts is None or not self.bdp_pkts:
            return None
        return self.buffer_pkts / self.bdp_pkts

    @property
    def load_s(self) -> float:
        return load_s(self.flows) if self.flows else self.duration_s

    @property
    def measures_a_part(self) -> bool:
        return self.measured_s != (0.0, math.inf)

    @property
    def competitors(self) -> list[FlowRecord]:
        """The flows that a congestion control sends."""
        return [flow for flow in self.flows if flow.competes]

    def flow(self, name: str) -> FlowRecord | None:
        return next((flow for flow in self.flows if flow.name == name), None)

    def retransmitted(self, leg: str) -> int | None:
        """Segments that a leg's sending sockets sent again; None where the run has no such leg."""
        return sum_of(each.segments_retransmitted for each in self.of_leg(leg))

    def segments(self, leg: str) -> int | None:
        """Segments that a leg's sending sockets sent; None where the run has no such leg."""
        return sum_of(each.segments_out for each in self.of_leg(leg))

    def of_leg(self, leg: str) -> list[LegRecord]:
        """The sockets of a leg; `wan` is what crosses the path, in a VPN over UDP its inner one."""
        crossing = path_leg(each.name for each in self.legs)
        return [each for each in self.legs if each.name == (crossing if leg == "wan" else leg)]


@dataclass(frozen=True)
class UnidentifiedRun:
    """A folder that does not even say which run it is."""

    folder: Path
    error: str

    @property
    def name(self) -> str:
        return printable(self.folder.name)


def sum_of(counts: Iterable[int | None]) -> int | None:
    """The sum of those that are known; None if none is."""
    known = [each for each in counts if each is not None]
    return sum(known) if known else None


def load_run(folder: Path) -> RunFolder | UnidentifiedRun:
    """Read one folder; what is wrong with it is in the answer, and nothing is raised for it."""
    try:
        found = asked_for(folder)
    except (UnreadableFile, *BROKEN_RECORDS) as error:
        return UnidentifiedRun(folder, damage_of(error, "run.json"))
    found |= {"commands": steps_of(head_of(folder / "commands.sh")), "log_tail": logs_of(folder)}
    if not (folder / "status.json").exists():
        cut = "no status.json: it is running or was cut off"
        return RunFolder(folder=folder, state="unfinished", error=cut, **found)
    try:
        status = read_object(folder / "status.json")
        found |= ended(status)
        wrong = damage(folder, status)
        if wrong:
            raise UnreadableFile(wrong)
        is_ok = found["state"] == "ok"
        found |= measured(folder, found["flows"]) if is_ok else left_behind(folder)
    except (UnreadableFile, *BROKEN_RECORDS) as error:
        found |= {"state": "corrupt", "error": damage_of(error, "its files")}
    return RunFolder(folder=folder, **found)


def damage_of(error: Exception, where: str) -> str:
    """Return what is wrong with a run, in a line, by what its reader met."""
    if isinstance(error, UnreadableFile):
        return str(error)
    said = printable(f"{type(error).__name__}: {error}")[:200]
    return f"{where}: not as the lab writes it ({said})"


def ended(status: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Run that status.json gives. Raises Unreadable."""
    state = text(status, "outcome", "status.json")
    if state not in ("ok", "failed", "unsupported", "interrupted"):
        raise UnreadableFile(f"status.json: outcome {state!r} is not one that the lab writes")
    complaint = printable(str(status.get("error") or "no reason given"))
    return {
        "state": state,
        "error": None if state == "ok" else complaint,
        "wall_s": optional_number(status, "wall_s"),
        "epoch": epoch_of(status),
    }


def steps_of(commands: str) -> str:
    """What the lab did, of a commands.sh: without the functions that it begins with."""
    return commands.partition(STEPS)[2] or commands


def measured(folder: Path, asked: tuple[FlowRecord, ...]) -> dict[str, Any]:
    """The fields of a Run that a good one must have left behind. Raises Unreadable."""
    flows = measured_flows(folder, asked)
    fidelity = read_object(folder / "fidelity.json")
    verdict = text(fidelity, "verdict", "fidelity.json")
    if verdict not in VERDICTS:
        raise UnreadableFile(f"fidelity.json: verdict {verdict!r} is not one that the lab gives")
    checks = read_checks(fidelity)
    over_all = (row for row in fidelity["checks"] if row.get("name") == "cpu_idle_share")
    whole = next((float(row["got"]) for row in over_all if is_number(row.get("got"))), None)
    idle = idle_share(read_series(folder, "hosts"), until_s=load_s(flows))
    queues = read_series(folder, "queues")
    competing = [flow for flow in flows if flow.competes]
    return {
        "flows": flows,
        "goodput_mbit": together_mbit(folder, flows),
        "retr": sum_of(flow.retransmits for flow in competing or flows),
        "verdict": verdict,
        "checks": checks,
        "idle_share": whole if idle is None else idle,
        "idle_share_load": whole,
        "link_share": bottleneck_used(read_object(folder / "run.json"), queues, load_s(flows)),
        **read_legs(read_object(folder / "legs.json")),
        "environment": read_environment(read_object(folder / "env.json")),
    }


def together_mbit(folder: Path, flows: Sequence[FlowRecord]) -> float:
    """What the flows got together, as the terminal says it. Raises Unreadable."""
    rows = [{"kind": flow.kind, "goodput_bps": 1e6 * (flow.goodput_mbit or 0.0)} for flow in flows]
    if (folder / "flows.json").exists():
        rows = objects(read_object(folder / "flows.json"), "flows", "flows.json")
    try:
        return total_goodput_bps(rows) / 1e6
    except BROKEN_RECORDS as error:
        raise UnreadableFile(
            f"flows.json: no goodput of its flows: {printable(str(error))}"
        ) from None


# The fields of a Flow that flows.json has as they are.
MEASURED: Mapping[str, Read[Any]] = {
    **dict.fromkeys(("started_s", "ended_s"), optional_number),
    **dict.fromkeys(("retransmits", "bytes"), optional_count),
}


def measured_flows(folder: Path, flows: tuple[FlowRecord, ...]) -> tuple[FlowRecord, ...]:
    """The flows with what they did (an older lab's: iperf3's report). Raises Unreadable."""
    name = "flows.json"
    if not (folder / name).exists() and "flows" not in read_object(folder / "run.json"):
        return (replace(flows[0], **reported_by_iperf3(folder)),)
    rows = {row.get("name"): row for row in objects(read_object(folder / name), "flows", name)}
    found = []
    for flow in flows:
        row = rows.get(flow.name)
        if row is None:
            raise UnreadableFile(f"{name}: {flow.name} is missing")
        if row.get("error"):
            raise UnreadableFile(f"{name}: {flow.name}: {printable(str(row['error']))}")
        fetches = (numbers_of(each) for each in row.get("fetches") or ())
        did = {key: read(row, key, name) for key, read in MEASURED.items()}
        did["goodput_mbit"] = number(row, "goodput_bps", name) / 1e6
        did["round_trips"] = numbers_of(row.get("round_trips"))
        found.append(replace(flow, **did, fetches=tuple(each for each in fetches if each)))
    return tuple(found)


def numbers_of(value: Any) -> dict[str, float] | None:
    """The numbers of an object by name; None if it is none."""
    if not isinstance(value, dict):
        return None
    return {str(key): float(each) for key, each in value.items() if is_number(each)}


def reported_by_iperf3(folder: Path) -> dict[str, Any]:
    """What iperf3's report says of the one flow of an older lab. Raises Unreadable."""
    name = "iperf3.json"
    report = read_object(folder / name)
    if report.get("error"):
        raise UnreadableFile(f"{name}: {printable(str(report['error']))}")
    end = mapping(report, "end", name)
    received = mapping(end, "sum_received", name)
    return {
        "goodput_mbit": number(received, "bits_per_second", name) / 1e6,
        "retransmits": optional_count(mapping(end, "sum_sent", name), "retransmits", name),
    }


def left_behind(folder: Path) -> dict[str, Any]:
    """What a run that did not end well left: reasons and environment, never a number."""
    found: dict[str, Any] = {}
    try:
        found["checks"] = read_checks(read_object(folder / "fidelity.json"))
        found["environment"] = read_environment(read_object(folder / "env.json"))
    except UnreadableFile:
        pass  # its own failure is what matters, and that is told
    return found


def read_checks(fidelity: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks of fidelity.json, asked and got as text. Raises Unreadable."""
    keys = ("name", "verdict", "asked", "got", "unit", "reason")
    rows = objects(fidelity, "checks", "fidelity.json")
    return tuple(Check(*(shown(row.get(key)) for key in keys)) for row in rows)


def read_legs(told: Mapping[str, Any]) -> dict[str, Any]:
    """Legs, and every node's own count of retransmitted segments. Raises Unreadable."""
    file = "legs.json"
    legs = tuple(
        record(
            LegRecord,
            row,
            file,
            name=text(row, "leg", file),
            sender=shown(row.get("sender")),
            cc=tuple(map(shown, row.get("cc") or ())),
            marked_pkts=optional_count(row, "marked_pkts", file) or 0,
            flow=shown(row.get("flow")),
        )
        for row in objects(told, "legs", file)
    )
    again = {
        printable(node): counters["TcpRetransSegs"]
        for node, counters in object_in(told, "nstat").items()
        if isinstance(counters, dict) and isinstance(counters.get("TcpRetransSegs"), int)
    }
    return {"legs": legs, "nstat": tuple(sorted(again.items()))}


def object_in(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object inside one; empty where there is none."""
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def read_environment(env: Mapping[str, Any]) -> Environment:
    """What env.json says; a part that it does not name is "unknown"."""
    lab, host, tunnel = (object_in(env, key) for key in ("lab", "host", "tunnel"))
    known = ("kernel", "hz", "machine", "clock", "iproute2", "iperf3", "mininet")
    return Environment(
        **{key: shown(env.get(key), "unknown") for key in known},
        syscall_cost_us=optional_number(env, "syscall_cost_us"),
        lab=" ".join(shown(lab[key]) for key in ("version", "commit") if lab.get(key)) or "unknown",
        tunnel=shown(tunnel.get("version"), "unknown") if tunnel else "none",
        tunnel_kind=shown(tunnel.get("kind"), "unknown") if tunnel else "none",
        tunnel_sha256=shown(tunnel.get("sha256")),
        host=" · ".join(shown(host[key]) for key in ("cpu", "kernel") if host.get(key))
        or "unknown",
    )


def logs_of(folder: Path) -> str:
    """The end of log.txt and of the tunnel ends' own logs."""
    files = [folder / "log.txt", *sorted(folder.glob("tunnel-*.log"))]
    said = [(path.name, words) for path in files if (words := read_log_tail(path)).strip()]
    return "\n\n".join(
        words if name == "log.txt" else f"== {name}\n{words}" for name, words in said
    )
