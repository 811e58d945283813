# SPDX-License-Identifier: MIT
"""Replay a finished run's commands.sh in the sandbox and compare the result with the run."""

import json
import math
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

from gostlab import results, safe_read, sandbox
from gostlab.install import locate
from gostlab.results import ResultsError
from gostlab.results.rows import FlowRow
from gostlab.sandbox import uml
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.sandbox.rootfs import OwnRoot, root_for_run
from gostlab.spec.cpu_model import MachineModel
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.units import show_rate
from gostlab.spec.yaml_source import BadInput

# The first line of a commands.sh that can be replayed, written by gostlab.guest.command_log.
FORMAT = "# format: 2"
# A shell starts the flows, so packets leave microseconds earlier or later and an overflowing queue
# drops others. Goodputs and times of a flow that is alone on a path without loss agree within the
# first tolerance, all others within the second.
STEADY_TOLERANCE, CHANCE_TOLERANCE = 0.05, 0.30
# Two counts of lost packets agree if they are this close, or within four standard deviations: an
# overflowing queue drops up to its length at once, so the variance of a count is up to that many
# times the count.
COUNT_TOLERANCE, SIGMAS = 0.10, 4.0
START_TOLERANCE_S = 0.1  # maximum difference of the times at which a flow begins


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

    def to_json(self) -> dict[str, object]:
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


def replay(folder: Path) -> RunReplay:
    """Replay a run's commands.sh in the sandbox and compare the results.

    Without `on_own_root` the sandbox boots on the host's files. Raises BadInput if the folder holds
    no finished run, ResultsError if the script does not finish, MissingPart, MachineError or
    OSError.
    """
    run, parts = finished_run(folder), locate.find_parts()
    kernel = locate.kernel_for(run.kernel, parts)
    root = root_for_run(sandbox.build_parts_json(parts), run)
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
            keep=[sandbox.CHECKOUT, *sandbox.visible_paths(parts)],
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
        return compare_replay(folder, run, cast("ReplayFile", replayed), kernel, root)
    except results.BROKEN_RECORDS as error:
        raise BadInput(f"{folder}: not as the lab writes it ({error!r:.200})") from error


class ReplayFile(TypedDict):
    """The contents of replay.json, if the script ran."""

    flows: list[FlowRow]
    qdiscs_before: dict[str, str]
    qdiscs_after: dict[str, str]


class RunEnvironment(TypedDict, total=False):
    """Represent the part of env.json that a replay compares."""

    kernel: str
    host: dict[str, object]
    qdiscs_before: dict[str, str]
    qdiscs_after: dict[str, str]


def compare_replay(
    folder: Path, run: RunSpec, replayed: ReplayFile, kernel: Path, root: Any
) -> RunReplay:
    """Compare a run's folder with the output of its replay. Raises BROKEN_RECORDS."""
    # The script's reports cover the whole duration of the flows.
    rows = (results.read_object(folder / "flows.json") or {"flows": []})["flows"]
    launched = {
        flow.name: {"started_s": flow.start_s + run.start_offset_s(flow.name)}
        for flow in run.flows
        if flow.connects_at_start
    }
    whole_rows = [
        cast("FlowRow", {**row, **row.get("whole", {}), **launched.get(row["name"], {})})
        for row in rows
    ]
    environment = cast("RunEnvironment", results.read_object(folder / "env.json") or {})
    again = {flow["name"]: flow for flow in replayed["flows"]}
    compared = [
        metric for flow in whole_rows for metric in compare_flow(run, flow, again[flow["name"]])
    ]
    compared += compare_paths(environment, replayed)
    return RunReplay(
        run.name, tuple(compared), environment_differences(run, environment, kernel, root)
    )


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


def environment_differences(
    run: RunSpec, environment: RunEnvironment, kernel: Path, root: OwnRoot | None
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
        notes.append("the run's root and the replay's are two: set this machine up from its commit")
    return tuple(notes)


def compare_flow(run: RunSpec, flow: FlowRow, again: FlowRow) -> list[ComparedMetric]:
    """Compare a flow's times, goodput and counts, except counts that the lab itself takes."""
    steady = run.path.is_steady and len(run.flows) == 1
    tolerance = STEADY_TOLERANCE if steady else CHANCE_TOLERANCE
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
    actual_bps, expected_bps = again["goodput_bps"], flow["goodput_bps"]
    close = math.isclose(actual_bps, expected_bps, rel_tol=tolerance)
    compared.append(ComparedMetric(f"{name}: goodput", expected_bps, actual_bps, "bit/s", close))
    # A full bottleneck may drop as many packets as it holds at once.
    burst = max(1, *(direction.buffer_pkts or 1 for direction in run.path))
    for label, count, other in (
        ("retransmits", flow.get("retransmits"), again.get("retransmits")),
        ("lost datagrams", flow.get("lost_datagrams"), again.get("lost_datagrams")),
    ):
        if count is not None:
            same = other is not None and counts_agree(count, other, burst)
            compared.append(ComparedMetric(f"{name}: {label}", count, other, "packets", same))
    return compared


def counts_agree(one: int, other: int, burst: int) -> bool:
    """Return whether two counts may come from one process that counts up to `burst` at once."""
    by_chance = SIGMAS * math.sqrt(burst * (one + other))
    return abs(one - other) <= max(by_chance, COUNT_TOLERANCE * max(one, other))


def compare_paths(environment: RunEnvironment, replayed: ReplayFile) -> Iterator[ComparedMetric]:
    """Compare the qdiscs of every device before the load, and after it if it changed them.

    `environment` is the run's env.json, `replayed` is replay.json.
    """
    for device in sorted({*environment.get("qdiscs_before", {}), *replayed["qdiscs_before"]}):
        before = [
            parse_qdiscs(outputs.get(device, ""))
            for outputs in (environment.get("qdiscs_before", {}), replayed["qdiscs_before"])
        ]
        after = [
            parse_qdiscs(outputs.get(device, ""))
            for outputs in (environment.get("qdiscs_after", {}), replayed.get("qdiscs_after", {}))
        ]
        same = bool(before[0]) and before[0] == before[1]
        yield ComparedMetric(f"{device}: path as installed", before[0], before[1], "", same)
        if after != before:
            same = after[0] == after[1]
            yield ComparedMetric(f"{device}: path after the load", after[0], after[1], "", same)


def parse_qdiscs(output: str) -> str:
    """Return the qdiscs and classes in tc's output, without statistics and generated handles."""
    return "; ".join(
        re.sub(r"\s+", " ", re.sub(r"\b8[0-9a-f]{3}:", "", line)).strip()
        for line in output.splitlines()
        if line.startswith(("qdisc ", "class "))
    )
