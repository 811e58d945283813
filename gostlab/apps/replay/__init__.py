"""A finished run's commands.sh, replayed in the sandbox and held against the run."""

import json
import math
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gostlab import machine, results
from gostlab.describe.file.document import BadInput
from gostlab.describe.file.units import show_rate
from gostlab.describe.physics.sizing import lossless
from gostlab.describe.resolve.cpu_model import MachineModel
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.machine import sandbox
from gostlab.machine.cpus import claimed_cpus
from gostlab.machine.own_root import OwnRoot, own_root
from gostlab.results import ResultsError
from gostlab.setup import parts

# The first line of a commands.sh that can be replayed (gostlab.guest.commands writes it).
FORMAT = "# format: 2"
# Nobody samples sockets and queues while a script is replayed, and a shell starts the flows: some
# packets leave microseconds earlier or later, and where a queue overflows others are lost. So two
# goodputs are the same if they are this close, or as close as two drawn from the flow's own seconds
# are (a false alarm in 16,000, if those were independent and normal).
GOODPUT_TOLERANCE = 0.05
SIGMAS = 4.0
# The most that is allowed; also where no seconds are reported (by wget, or of a short flow) and the
# path loses, jitters or has other flows on it.
MOST_TOLERANCE = 0.30
# Two counts of lost packets are the same if they are this close, or as close as chance puts them:
# a queue that overflows loses up to as many packets at once as it holds, so that the variance of a
# count is up to so many times the count.
COUNT_TOLERANCE = 0.10


@dataclass(frozen=True)
class Compared:
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
            off = f"{100 * (self.replay / self.run - 1):+.1f} %" if self.run else "of nothing"
            return (
                f"{show_rate(self.replay)} in the replay, {show_rate(self.run)} in the run ({off})"
            )
        if self.same and isinstance(self.run, str):
            return self.run
        return f"{self.replay} in the replay, {self.run} in the run"


@dataclass(frozen=True)
class Replay:
    run: str
    compared: tuple[Compared, ...]
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


def replay(folder: Path, *, on_own_root: bool = True) -> Replay:
    """Repeat a run by its folder's commands.sh in the sandbox, and compare. on_own_root: else it
    boots on the host's files. Raises BadInput if the folder holds no finished run, ResultsError if
    the script does not come to its end, MissingPart, MachineError or OSError.
    """
    run, found = finished_run(folder), parts.find_parts()
    kernel = parts.kernel_for(run.kernel, found)
    root = own_root(machine.hand_over(found), run) if on_own_root else None
    with (
        tempfile.TemporaryDirectory(prefix="gostlab-replay-") as scratch,
        claimed_cpus(1) as (cpu,),
    ):
        work = Path(scratch)
        shutil.copyfile(folder / "commands.sh", work / "commands.sh")
        (work / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        guest = sandbox.boot(
            kernel,
            work,
            machine.guest_argv(f"{__name__}.in_guest", sandbox.GUEST_FOLDER),
            MachineModel.of(run),
            keep=[machine.CHECKOUT, *machine.kept_visible(found)],
            cpu=cpu,
            limit_s=machine.time_limit_s(run),
            modules=sandbox.modules_of(run, kernel),
            root=root,
        )
        guest.wait()
        replayed = results.read_object(work / "replay.json")
        words = guest.complaint or results.last_words(work)
    if replayed is None:
        raise ResultsError(f"{folder}: the replay's machine ended and gave no reason: {words}")
    if "error" in replayed:
        raise ResultsError(f"{folder}: {replayed['error']}")
    # what they did in all of their time, as the script's reports tell it
    rows = (results.read_object(folder / "flows.json") or {"flows": []})["flows"]
    flows = {"flows": [{**row, **row.get("whole", {})} for row in rows]}
    environment = results.read_object(folder / "env.json") or {}
    return Replay(
        run.name,
        compare(run, flows, environment, replayed),
        notes_on(run, environment, kernel, root),
    )


def finished_run(folder: Path) -> RunDescription:
    """The run of a result folder that can be replayed. Raises BadInput."""
    status = results.read_status(folder)
    if status is None:
        raise BadInput(f"{folder}: no finished run there (a result folder, RESULTS/EXPERIMENT/RUN)")
    if status["outcome"] != "ok":
        raise BadInput(
            f"{folder}: the run {status['outcome']}, there is nothing to compare a replay with"
        )
    try:
        head = (folder / "commands.sh").read_text(encoding="utf-8")[:1000]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{folder}: commands.sh cannot be read: {error}") from None
    if FORMAT not in head:
        older = "its commands.sh is an older lab's, which cannot be replayed"
        raise BadInput(f"{folder}: {older}: run the experiment again")
    return RunDescription.from_json(results.read_object(folder / "run.json") or {})


def notes_on(
    run: RunDescription, environment: Mapping[str, Any], kernel: Path, root: OwnRoot | None
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
    run: RunDescription,
    flows: Mapping[str, Any],
    environment: Mapping[str, Any],
    replayed: Mapping[str, Any],
) -> tuple[Compared, ...]:
    """Goodput and retransmissions of each flow, and the path as it was installed.

    flows, environment   flows.json and env.json of the run
    replayed             replay.json
    """
    again = {flow["name"]: flow for flow in replayed["flows"]}
    # As many packets may be lost at once as the bottleneck holds.
    burst = max(1, *(way["buffer_pkts"] or 1 for way in run.path.values()))
    found: list[Compared] = []
    for flow in flows["flows"]:
        tolerance = goodput_tolerance(run, replayed["uncertainty"].get(flow["name"]))
        found += compare_flow(flow, again.get(flow["name"], {}), tolerance, burst)
    before = environment.get("qdiscs_before", {})
    return (*found, *compare_paths(before, replayed["qdiscs_before"]))


def goodput_tolerance(run: RunDescription, uncertainty: float | None) -> float:
    """How far apart two goodputs of one flow may be, as a share. `uncertainty`: of one of them."""
    if uncertainty is not None:
        by_chance = SIGMAS * math.sqrt(2) * uncertainty
        return min(MOST_TOLERANCE, max(GOODPUT_TOLERANCE, by_chance))
    steady = all(lossless(way["loss"]) and not way["jitter_ms"] for way in run.path.values())
    return GOODPUT_TOLERANCE if steady and len(run.flows) == 1 else MOST_TOLERANCE


def compare_flow(
    flow: Mapping[str, Any], again: Mapping[str, Any], tolerance: float, burst: int
) -> list[Compared]:
    """A flow's goodput and what it counted; of one that the lab itself counted how long it took."""
    if flow.get("counted_by"):
        took_s, wanted_s = again.get("seconds"), flow["seconds"]
        close = took_s is not None and math.isclose(took_s, wanted_s, rel_tol=tolerance)
        return [Compared(f"{flow['name']}: time", wanted_s, took_s, "s", close)]
    got, wanted = again.get("goodput_bps"), flow["goodput_bps"]
    close = got is not None and math.isclose(got, wanted, rel_tol=tolerance)
    found = [Compared(f"{flow['name']}: goodput", wanted, got, "bit/s", close)]
    for name in ("retransmits", "lost_datagrams"):
        if flow.get(name) is not None:
            count, other = flow[name], again.get(name)
            figure = f"{flow['name']}: {name.replace('_', ' ')}"
            same = other is not None and counts_agree(count, other, burst)
            found.append(Compared(figure, count, other, "packets", same))
    return found


def counts_agree(one: int, other: int, burst: int) -> bool:
    """Whether two counts may be of one process, seen twice, that counts up to `burst` at once."""
    by_chance = SIGMAS * math.sqrt(burst * (one + other))
    return abs(one - other) <= max(by_chance, COUNT_TOLERANCE * max(one, other))


def compare_paths(before: Mapping[str, str], again: Mapping[str, str]) -> list[Compared]:
    """Every device's qdiscs, as tc showed them before the load."""
    found = []
    for device in sorted({*before, *again}):
        one, other = installed(before.get(device, "")), installed(again.get(device, ""))
        same = bool(one) and one == other
        found.append(Compared(f"{device}: path as installed", one, other, "", same))
    return found


def installed(shown: str) -> str:
    """The qdiscs and classes that tc shows, without statistics and the kernel's own handles."""
    return "; ".join(
        re.sub(r"\s+", " ", re.sub(r"\b8[0-9a-f]{3}:", "", line)).strip()
        for line in shown.splitlines()
        if line.startswith(("qdisc ", "class "))
    )
