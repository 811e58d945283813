"""Replay a finished run's commands.sh in the sandbox and compare the result with the run."""

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

# The first line of a commands.sh that can be replayed, written by gostlab.guest.command_log.
FORMAT = "# format: 2"
# A replay does not sample queues, and a shell starts the flows, so packets leave microseconds
# earlier or later and an overflowing queue drops others. Two goodputs agree if they are this close,
# or as close as two samples of the flow's own seconds (a false alarm in 16,000, if those were
# independent and normal).
GOODPUT_TOLERANCE = 0.05
SIGMAS = 4.0
# The maximum tolerance. It also applies if no seconds are reported (by wget, or for a short flow)
# and the path has loss, jitter or other flows.
MAX_TOLERANCE = 0.30
# Two counts of lost packets agree if they are this close, or within chance: an overflowing queue
# drops up to its length at once, so the variance of a count is up to that many times the count.
COUNT_TOLERANCE = 0.10
# Packets that an overflowing queue drops are retransmitted and acknowledged one by one.
CARRIED_TOLERANCE = 0.5
START_TOLERANCE_S = 0.1  # maximum difference of the times at which a flow begins
# Two counts of samples in which a socket was sending agree if they are this close, or within
# MAX_TOLERANCE: samples may miss a short period.
SEEN_TOLERANCE = 5
IPV6_OFF = "net.ipv6.conf.{}.disable_ipv6"
FIRST_EPHEMERAL = 32768  # first port of net.ipv4.ip_local_port_range


@dataclass(frozen=True)
class ComparedMetric:
    """A metric of the run with its replay's value."""

    figure: str  # name of the metric
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
    notes: tuple[str, ...] = ()  # differences before the load

    @property
    def same(self) -> bool:
        return bool(self.compared) and all(metric.same for metric in self.compared)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "same": self.same}

    @property
    def lines(self) -> list[str]:
        """Return lines for people, the last with the overall result."""
        differing = sum(not metric.same for metric in self.compared)
        return [
            *(f"note: {note}" for note in self.notes),
            *(metric.line for metric in self.compared),
            f"{self.run}: {'same' if self.same else 'differs'}"
            f" ({len(self.compared) - differing} of {len(self.compared)} figures are the same)",
        ]


def replay(folder: Path, *, on_own_root: bool = True) -> RunReplay:
    """Replay a run's commands.sh in the sandbox and compare the results.

    Without `on_own_root` the sandbox boots on the host's files. Raises BadInput if the folder holds
    no finished run, ResultsError if the script does not finish, MissingPart, MachineError or
    OSError.
    """
    run, parts = finished_run(folder), locate.find_parts()
    kernel = locate.kernel_for(run.kernel, parts)
    root = own_root(sandbox.hand_over(parts), run) if on_own_root else None
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
            keep=[sandbox.CHECKOUT, *sandbox.kept_visible(parts)],
            cpu=cpu,
            limit_s=sandbox.time_limit_s(run),
            modules=uml.compile_modules(run, kernel),
            root=root,
        )
        guest.wait()
        replayed = results.read_object(work / "replay.json")
        message = guest.complaint or results.last_log_line(work)
    if replayed is None:
        raise ResultsError(f"{folder}: the replay's machine ended and gave no reason: {message}")
    if "error" in replayed:
        raise ResultsError(f"{folder}: {replayed['error']}")
    try:
        return compare_replay(folder, run, replayed, kernel, root)
    except results.BROKEN_RECORDS as error:
        raise BadInput(f"{folder}: not as the lab writes it ({error!r:.200})") from error


def compare_replay(
    folder: Path, run: RunSpec, replayed: Mapping[str, Any], kernel: Path, root: Any
) -> RunReplay:
    """Compare a run's folder with the output of its replay. Raises BROKEN_RECORDS."""
    # The script's reports cover the whole duration of the flows.
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
    if not notes:  # Another kernel or root has other defaults.
        compared += compare_settings(environment, replayed)
    compared += compare_senders(results.read_series(folder, "sockets"), replayed["senders"])
    return RunReplay(run.name, tuple(compared), notes)


def finished_run(folder: Path) -> RunSpec:
    """Return the run of a result folder that can be replayed. Raises BadInput."""
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
    """Return notes on differences between the run's and the replay's environments."""
    notes = []
    here = kernel.parent.name.partition("-")[0]
    if run.machine != "sandbox":
        notes.append("the run was on a machine's own kernel, the replay in the sandbox")
    elif environment.get("kernel") not in (None, here):
        notes.append(f"the run's kernel was {environment['kernel']}, the replay's is {here}")
    recorded = environment.get("host", {}).get("root")
    if recorded != (root and root.root.says()):
        notes.append("the run's root and the replay's are two: GOSTLAB_ROOT, own or host")
    return tuple(notes)


def compare(
    run: RunSpec,
    flows: Mapping[str, Any],
    environment: Mapping[str, Any],
    replayed: Mapping[str, Any],
) -> tuple[ComparedMetric, ...]:
    """Compare the flows, the installed path and the bytes that it carried.

    `flows` and `environment` are the run's flows.json and env.json, `replayed` is replay.json.
    """
    again = {flow["name"]: flow for flow in replayed["flows"]}
    # A full bottleneck may drop as many packets as it holds at once.
    burst = max(1, *(direction["buffer_pkts"] or 1 for direction in run.path.values()))
    compared: list[ComparedMetric] = []
    for flow in flows["flows"]:
        tolerance = goodput_tolerance(run, replayed["uncertainty"].get(flow["name"]))
        compared += compare_flow(flow, again.get(flow["name"], {}), tolerance, burst)
    return (*compared, *compare_paths(environment, replayed))


def goodput_tolerance(run: RunSpec, uncertainty: float | None) -> float:
    """Return the tolerance of two goodputs as a share, from the uncertainty of one of them."""
    if uncertainty is not None:
        by_chance = SIGMAS * math.sqrt(2) * uncertainty
        return min(MAX_TOLERANCE, max(GOODPUT_TOLERANCE, by_chance))
    steady = all(
        lossless(direction["loss"]) and not direction["jitter_ms"]
        for direction in run.path.values()
    )
    return GOODPUT_TOLERANCE if steady and len(run.flows) == 1 else MAX_TOLERANCE


def compare_flow(
    flow: Mapping[str, Any], again: Mapping[str, Any], tolerance: float, burst: int
) -> list[ComparedMetric]:
    """Compare a flow's times, goodput and counts, except counts that the lab itself takes."""
    name, took_s = flow["name"], flow["ended_s"] - flow["started_s"]
    start_s, again_took_s = again["started_s"], again["ended_s"] - again["started_s"]
    at_once = math.isclose(start_s, flow["started_s"], abs_tol=START_TOLERANCE_S)
    as_long = math.isclose(again_took_s, took_s, rel_tol=tolerance)
    compared = [
        ComparedMetric(f"{name}: start", flow["started_s"], start_s, "s", at_once),
        ComparedMetric(f"{name}: time", took_s, again_took_s, "s", as_long),
    ]
    if flow.get("counted_by"):
        return compared
    got, wanted = again["goodput_bps"], flow["goodput_bps"]
    close = math.isclose(got, wanted, rel_tol=tolerance)
    compared.append(ComparedMetric(f"{name}: goodput", wanted, got, "bit/s", close))
    for key in ("retransmits", "lost_datagrams"):
        if flow.get(key) is not None:
            count, other = flow[key], again.get(key)
            figure = f"{name}: {key.replace('_', ' ')}"
            same = other is not None and counts_agree(count, other, burst)
            compared.append(ComparedMetric(figure, count, other, "packets", same))
    return compared


def counts_agree(one: int, other: int, burst: int) -> bool:
    """Return whether two counts may come from one process that counts up to `burst` at once."""
    by_chance = SIGMAS * math.sqrt(burst * (one + other))
    return abs(one - other) <= max(by_chance, COUNT_TOLERANCE * max(one, other))


def compare_paths(
    environment: Mapping[str, Any], replayed: Mapping[str, Any]
) -> list[ComparedMetric]:
    """Compare the qdiscs of every device, as tc shows them before and after the load."""
    compared = []
    for device in sorted({*environment.get("qdiscs_before", {}), *replayed["qdiscs_before"]}):
        (before, after), (again_before, again_after) = (
            [snapshot.get(f"qdiscs_{when}", {}).get(device, "") for when in ("before", "after")]
            for snapshot in (environment, replayed)
        )
        path = parse_qdiscs(before), parse_qdiscs(again_before)
        same = bool(path[0]) and path[0] == path[1]
        compared.append(ComparedMetric(f"{device}: path as installed", path[0], path[1], "", same))
        left = parse_qdiscs(after), parse_qdiscs(again_after)
        if left != path:
            same = left[0] == left[1]
            compared.append(
                ComparedMetric(f"{device}: path after the load", left[0], left[1], "", same)
            )
        one, other = parse_counters(after), parse_counters(again_after)
        same = one.keys() == other.keys() and all(
            math.isclose(one[what], other[what], rel_tol=CARRIED_TOLERANCE, abs_tol=1)
            for what in one
        )
        texts = [", ".join(f"{counts[what]} {what}" for what in counts) for counts in (one, other)]
        compared.append(ComparedMetric(f"{device}: carried", texts[0], texts[1], "", same))
    return compared


def parse_counters(output: str) -> dict[str, int]:
    """Parse what a device has sent, and what its filters have dropped, from tc's output."""
    counters: dict[str, int] = {}
    for qdisc, size, packets, dropped in re.findall(
        r"^qdisc (\S+) .*\n Sent (\d+) bytes (\d+) pkt \(dropped (\d+)", output, re.MULTILINE
    ):
        if qdisc == "clsact":
            counters["dropped by filters"] = int(dropped)
        elif not counters:  # The first match is the root qdisc.
            counters |= {"bytes": int(size), "packets": int(packets)}
    return counters


def parse_qdiscs(output: str) -> str:
    """Return the qdiscs and classes in tc's output, without statistics and generated handles."""
    return "; ".join(
        re.sub(r"\s+", " ", re.sub(r"\b8[0-9a-f]{3}:", "", line)).strip()
        for line in output.splitlines()
        if line.startswith(("qdisc ", "class "))
    )


def compare_settings(
    environment: Mapping[str, Any], replayed: Mapping[str, Any]
) -> list[ComparedMetric]:
    """Compare the nodes' sysctls and offloads, and that no interface has IPv6."""
    compared = []
    run, again = settings(environment), settings(replayed)
    for device in environment.get("offloads", {}):
        run[node_of(device)][IPV6_OFF.format(device)] = "1"
    for node, values in run.items():
        others = again.get(node, {})
        differing = [name for name in values if values[name] != others.get(name)]
        one, other = (
            ", ".join(f"{name} {host.get(name)}" for name in differing) for host in (values, others)
        )
        if not differing:
            one = other = f"{len(values)} read back"
        compared.append(ComparedMetric(f"{node}: settings", one, other, "", not differing))
    return compared


def settings(environment: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the sysctls and offloads of env.json by node."""
    by_node = {node: dict(values) for node, values in environment.get("sysctls", {}).items()}
    for device, offloads in environment.get("offloads", {}).items():
        offload_texts = {f"{device} {name}": "on" if on else "off" for name, on in offloads.items()}
        by_node.setdefault(node_of(device), {}).update(offload_texts)
    return by_node


def node_of(device: str) -> str:
    """Return NODE of a device NODE-ethN."""
    return device.rpartition("-")[0]


def compare_senders(
    rows: Iterable[Mapping[str, Any]], replayed: Mapping[str, int]
) -> list[ComparedMetric]:
    """Compare the sockets that sent data by their numbers of streams and congestion controls.

    `rows` are of sockets.jsonl, `replayed` has the number of samples per sender.
    """
    compared = []
    for sender, seen in sorted(Counter(map(sender_of, rows)).items()):
        again = replayed.get(sender, 0)
        same = math.isclose(again, seen, rel_tol=MAX_TOLERANCE, abs_tol=SEEN_TOLERANCE)
        compared.append(
            ComparedMetric(f"{sender}: samples in which it sent", seen, again, "samples", same)
        )
    return compared


def sender_of(row: Mapping[str, Any]) -> str:
    """Return the properties of a socket in sockets.jsonl that stay the same when it is reopened."""
    ends = []
    for end in ("local", "peer"):
        address, _, port = row[end].rpartition(":")
        ends.append(row[end] if int(port) < FIRST_EPHEMERAL else address)
    return f"{row['host']}: {ends[0]} to {ends[1]} by {row['cc']}"
