"""A finished run's commands.sh, replayed in the sandbox and held against the run."""

import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gostlab import results, safe_read, sandbox
from gostlab.install import locate
from gostlab.results import ResultsError
from gostlab.sandbox import uml
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.sandbox.rootfs import OwnRoot, own_root
from gostlab.spec.cpu_model import MachineModel
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.units import show_rate
from gostlab.spec.yaml_source import BadInput
from gostlab.tcpmodel.buffer_sizing import lossless

# The first line of a commands.sh that can be replayed (gostlab.guest.command_log writes it).
FORMAT = "# format: 2"
# Nobody samples queues while a script is replayed, and a shell starts the flows: some packets leave
# microseconds earlier or later, and where a queue overflows others are lost. So two goodputs are
# the same if they are this close, or as close as two drawn from the flow's own seconds are (a false
# alarm in 16,000, if those were independent and normal).
GOODPUT_TOLERANCE = 0.05
SIGMAS = 4.0
# The most that is allowed; also where no seconds are reported (by wget, or of a short flow) and the
# path loses, jitters or has other flows on it.
MAX_TOLERANCE = 0.30
# Two counts of lost packets are the same if they are this close, or as close as chance puts them:
# a queue that overflows loses up to as many packets at once as it holds, so that the variance of a
# count is up to so many times the count.
COUNT_TOLERANCE = 0.10
# Packets that are lost where a queue overflows are sent again, and acknowledged one by one.
CARRIED_TOLERANCE = 0.5
START_TOLERANCE_S = 0.1  # two flows begin at one instant
# Two counts of how often somebody was seen sending are the same if they are this close, or within
# MAX_TOLERANCE: a short one falls between.
SEEN_TOLERANCE = 5
IPV6_OFF = "net.ipv6.conf.{}.disable_ipv6"
FIRST_EPHEMERAL = 32768  # ports (net.ipv4.ip_local_port_range)


@dataclass(frozen=True)
class ComparedMetric:
    """One figure of the run beside its replay's."""

    figure: str  # what it is of
    run: float | str | None
    replay: float | str | None
    unit: str
    same: bool

    @property
    def line(self) -> str:
        return f"{'same' if self.same else 'differs'}: {self.figure}: {self._words}"

    @property
    def _words(self) -> str:
        if isinstance(self.run, float) and isinstance(self.replay, float):
            if self.unit == "s":
                return f"{self.replay:.3f} s in the replay, {self.run:.3f} s in the run"
            off = f"{100 * (self.replay / self.run - 1):+.1f} %" if self.run else "of nothing"
            return (
                f"{show_rate(self.replay)} in the replay, {show_rate(self.run)} in the run ({off})"
            )
        if self.same and isinstance(self.run, str):
            return self.run
        return f"{self.replay} in the replay, {self.run} in the run"


@dataclass(frozen=True)
class RunReplay:
    run: str
    compared: tuple[ComparedMetric, ...]
    notes: tuple[str, ...] = ()  # what was not the same from the beginning

    @property
    def same(self) -> bool:
        return bool(self.compared) and all(each.same for each in self.compared)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "same": self.same}

    @property
    def lines(self) -> list[str]:
        """For people; the last line says how it came out."""
        differing = sum(not each.same for each in self.compared)
        return [
            *(f"note: {note}" for note in self.notes),
            *(each.line for each in self.compared),
            f"{self.run}: {'same' if self.same else 'differs'}"
            f" ({len(self.compared) - differing} of {len(self.compared)} figures are the same)",
        ]


def replay(folder: Path, *, on_own_root: bool = True) -> RunReplay:
    """Repeat a run by its folder's commands.sh in the sandbox, and compare. on_own_root: else it
    boots on the host's files. Raises BadInput if the folder holds no finished run, ResultsError if
    the script does not come to its end, MissingPart, MachineError or OSError.
    """
    run, found = finished_run(folder), locate.find_parts()
    kernel = locate.kernel_for(run.kernel, found)
    root = own_root(sandbox.hand_over(found), run) if on_own_root else None
    with (
        tempfile.TemporaryDirectory(prefix="gostlab-replay-") as scratch,
        claimed_cpus(1) as (cpu,),
    ):
        work = Path(scratch)
        for name in ("commands.sh", "env.json"):
            (work / name).write_bytes(safe_read.read_bytes(folder / name))
        (work / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        guest = uml.boot(
            kernel,
            work,
            sandbox.guest_argv(f"{__name__}.in_guest", uml.GUEST_FOLDER),
            MachineModel.of(run),
            keep=[sandbox.CHECKOUT, *sandbox.kept_visible(found)],
            cpu=cpu,
            limit_s=sandbox.time_limit_s(run),
            modules=uml.compile_modules(run, kernel),
            root=root,
        )
        guest.wait()
        replayed = results.read_object(work / "replay.json")
        words = guest.complaint or results.last_log_line(work)
    if replayed is None:
        raise ResultsError(f"{folder}: the replay's machine ended and gave no reason: {words}")
    if "error" in replayed:
        raise ResultsError(f"{folder}: {replayed['error']}")
    try:
        return compared_with(folder, run, replayed, kernel, root)
    except results.BROKEN_RECORDS as error:
        raise BadInput(f"{folder}: not as the lab writes it ({error!r:.200})") from error


def compared_with(
    folder: Path, run: RunSpec, replayed: Mapping[str, Any], kernel: Path, root: Any
) -> RunReplay:
    """Compare a run's folder with what its replay left. Raises BROKEN_RECORDS."""
    # what they did in all of their time, as the script's reports tell it
    rows = (results.read_object(folder / "flows.json") or {"flows": []})["flows"]
    launched = {
        flow.name: {"started_s": flow.start_s + run.start_offset_s(flow.name)}
        for flow in run.flows
        if flow.connects_at_start
    }
    flows = {
        "flows": [{**row, **row.get("whole", {}), **launched.get(row["name"], {})} for row in rows]
    }
    environment = results.read_object(folder / "env.json") or {}
    notes = notes_on(run, environment, kernel, root)
    compared = [*compare(run, flows, environment, replayed)]
    if not notes:  # another kernel or root has other defaults
        compared += compare_settings(environment, replayed)
    compared += compare_senders(results.read_series(folder, "sockets"), replayed["senders"])
    return RunReplay(run.name, tuple(compared), notes)


def finished_run(folder: Path) -> RunSpec:
    """The run of a result folder that can be replayed. Raises BadInput."""
    status = results.read_status(folder)
    if status is None:
        raise BadInput(f"{folder}: no finished run there (a result folder, RESULTS/EXPERIMENT/RUN)")
    if status["outcome"] != "ok":
        raise BadInput(
            f"{folder}: the run {status['outcome']}, there is nothing to compare a replay with"
        )
    try:
        head = safe_read.read_bytes(folder / "commands.sh", 1000).decode("utf-8", "replace")
    except OSError as error:
        raise BadInput(f"{folder}: commands.sh cannot be read: {error}") from None
    if FORMAT not in head:
        older = "its commands.sh is an older lab's, which cannot be replayed"
        raise BadInput(f"{folder}: {older}: run the experiment again")
    try:
        return RunSpec.from_json(results.read_object(folder / "run.json") or {})
    except results.BROKEN_RECORDS as error:
        raise BadInput(f"{folder}: run.json: not a run that a lab wrote: {error!r:.200}") from None


def notes_on(
    run: RunSpec, environment: Mapping[str, Any], kernel: Path, root: OwnRoot | None
) -> tuple[str, ...]:
    """What was not the same from the beginning."""
    notes = []
    here = kernel.parent.name.partition("-")[0]
    if run.machine != "sandbox":
        notes.append("the run was on a machine's own kernel, the replay in the sandbox")
    elif environment.get("kernel") not in (None, here):
        notes.append(f"the run's kernel was {environment['kernel']}, the replay's is {here}")
    said = environment.get("host", {}).get("root")
    if said != (root and root.root.says()):
        notes.append("the run's root and the replay's are two: GOSTLAB_ROOT, own or host")
    return tuple(notes)


def compare(
    run: RunSpec,
    flows: Mapping[str, Any],
    environment: Mapping[str, Any],
    replayed: Mapping[str, Any],
) -> tuple[ComparedMetric, ...]:
    """What each flow did, the path as it was installed and what it carried.

    flows, environment   flows.json and env.json of the run
    replayed             replay.json
    """
    again = {flow["name"]: flow for flow in replayed["flows"]}
    # As many packets may be lost at once as the bottleneck holds.
    burst = max(1, *(way["buffer_pkts"] or 1 for way in run.path.values()))
    found: list[ComparedMetric] = []
    for flow in flows["flows"]:
        tolerance = goodput_tolerance(run, replayed["uncertainty"].get(flow["name"]))
        found += compare_flow(flow, again.get(flow["name"], {}), tolerance, burst)
    return (*found, *compare_paths(environment, replayed))


def goodput_tolerance(run: RunSpec, uncertainty: float | None) -> float:
    """How far apart two goodputs of one flow may be, as a share. `uncertainty`: of one of them."""
    if uncertainty is not None:
        by_chance = SIGMAS * math.sqrt(2) * uncertainty
        return min(MAX_TOLERANCE, max(GOODPUT_TOLERANCE, by_chance))
    steady = all(lossless(way["loss"]) and not way["jitter_ms"] for way in run.path.values())
    return GOODPUT_TOLERANCE if steady and len(run.flows) == 1 else MAX_TOLERANCE


def compare_flow(
    flow: Mapping[str, Any], again: Mapping[str, Any], tolerance: float, burst: int
) -> list[ComparedMetric]:
    """When a flow ran, its goodput and what it counted, unless the lab itself counted that."""
    name, took_s = flow["name"], flow["ended_s"] - flow["started_s"]
    start_s, again_took_s = again["started_s"], again["ended_s"] - again["started_s"]
    at_once = math.isclose(start_s, flow["started_s"], abs_tol=START_TOLERANCE_S)
    as_long = math.isclose(again_took_s, took_s, rel_tol=tolerance)
    found = [
        ComparedMetric(f"{name}: start", flow["started_s"], start_s, "s", at_once),
        ComparedMetric(f"{name}: time", took_s, again_took_s, "s", as_long),
    ]
    if flow.get("counted_by"):
        return found
    got, wanted = again["goodput_bps"], flow["goodput_bps"]
    close = math.isclose(got, wanted, rel_tol=tolerance)
    found.append(ComparedMetric(f"{name}: goodput", wanted, got, "bit/s", close))
    for key in ("retransmits", "lost_datagrams"):
        if flow.get(key) is not None:
            count, other = flow[key], again.get(key)
            figure = f"{name}: {key.replace('_', ' ')}"
            same = other is not None and counts_agree(count, other, burst)
            found.append(ComparedMetric(figure, count, other, "packets", same))
    return found


def counts_agree(one: int, other: int, burst: int) -> bool:
    """Whether two counts may be of one process, seen twice, that counts up to `burst` at once."""
    by_chance = SIGMAS * math.sqrt(burst * (one + other))
    return abs(one - other) <= max(by_chance, COUNT_TOLERANCE * max(one, other))


def compare_paths(
    environment: Mapping[str, Any], replayed: Mapping[str, Any]
) -> list[ComparedMetric]:
    """Every device's qdiscs, as tc showed them before the load and after, and what they carried."""
    found = []
    for device in sorted({*environment.get("qdiscs_before", {}), *replayed["qdiscs_before"]}):
        (before, after), (again_before, again_after) = (
            [each.get(f"qdiscs_{when}", {}).get(device, "") for when in ("before", "after")]
            for each in (environment, replayed)
        )
        path = installed(before), installed(again_before)
        same = bool(path[0]) and path[0] == path[1]
        found.append(ComparedMetric(f"{device}: path as installed", path[0], path[1], "", same))
        left = installed(after), installed(again_after)
        if left != path:
            same = left[0] == left[1]
            found.append(
                ComparedMetric(f"{device}: path after the load", left[0], left[1], "", same)
            )
        one, other = carried(after), carried(again_after)
        same = one.keys() == other.keys() and all(
            math.isclose(one[what], other[what], rel_tol=CARRIED_TOLERANCE, abs_tol=1)
            for what in one
        )
        words = [", ".join(f"{each[what]} {what}" for what in each) for each in (one, other)]
        found.append(ComparedMetric(f"{device}: carried", words[0], words[1], "", same))
    return found


def carried(shown: str) -> dict[str, int]:
    """What a device has sent, and what its filters have dropped, by what tc shows of it."""
    found: dict[str, int] = {}
    for kind, size, packets, dropped in re.findall(
        r"^qdisc (\S+) .*\n Sent (\d+) bytes (\d+) pkt \(dropped (\d+)", shown, re.MULTILINE
    ):
        if kind == "clsact":
            found["dropped by filters"] = int(dropped)
        elif not found:  # the root
            found |= {"bytes": int(size), "packets": int(packets)}
    return found


def installed(shown: str) -> str:
    """The qdiscs and classes that tc shows, without statistics and the kernel's own handles."""
    return "; ".join(
        re.sub(r"\s+", " ", re.sub(r"\b8[0-9a-f]{3}:", "", line)).strip()
        for line in shown.splitlines()
        if line.startswith(("qdisc ", "class "))
    )


def compare_settings(
    environment: Mapping[str, Any], replayed: Mapping[str, Any]
) -> list[ComparedMetric]:
    """Every node's sysctls and offloads, as far as the run read them back, and that none of its
    interfaces has IPv6.
    """
    found = []
    run, again = settings(environment), settings(replayed)
    for device in environment.get("offloads", {}):
        run[node_of(device)][IPV6_OFF.format(device)] = "1"
    for node, values in run.items():
        others = again.get(node, {})
        differing = [name for name in values if values[name] != others.get(name)]
        one, other = (
            ", ".join(f"{name} {each.get(name)}" for name in differing) for each in (values, others)
        )
        if not differing:
            one = other = f"{len(values)} read back"
        found.append(ComparedMetric(f"{node}: settings", one, other, "", not differing))
    return found


def settings(environment: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The sysctls and offloads of env.json, by node."""
    found = {node: dict(values) for node, values in environment.get("sysctls", {}).items()}
    for device, offloads in environment.get("offloads", {}).items():
        words = {f"{device} {name}": "on" if on else "off" for name, on in offloads.items()}
        found.setdefault(node_of(device), {}).update(words)
    return found


def node_of(device: str) -> str:
    """The node of NODE-ethN."""
    return device.rpartition("-")[0]


def compare_senders(
    rows: Iterable[Mapping[str, Any]], replayed: Mapping[str, int]
) -> list[ComparedMetric]:
    """Which sockets of the flows sent data, by how many streams and which congestion control.

    rows      of sockets.jsonl
    replayed  how often each was seen, and others
    """
    found = []
    for sender, seen in sorted(Counter(map(sender_of, rows)).items()):
        again = replayed.get(sender, 0)
        same = math.isclose(again, seen, rel_tol=MAX_TOLERANCE, abs_tol=SEEN_TOLERANCE)
        found.append(
            ComparedMetric(f"{sender}: samples in which it sent", seen, again, "samples", same)
        )
    return found


def sender_of(row: Mapping[str, Any]) -> str:
    """A socket of sockets.jsonl, by what is the same when it is opened again."""
    ends = []
    for end in ("local", "peer"):
        address, _, port = row[end].rpartition(":")
        ends.append(row[end] if int(port) < FIRST_EPHEMERAL else address)
    return f"{row['host']}: {ends[0]} to {ends[1]} by {row['cc']}"
