"""How long runs take on this machine: a model of the work, corrected by what finished runs took."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from gostlab import results
from gostlab.ask.document import BadInput
from gostlab.ask.run_description import RunDescription
from gostlab.declared.tunnels import tunnel_kind
from gostlab.machine.sandbox import host_facts

# Newer runs tell more of how busy the machine is now, and reading more takes longer than a guess
# is worth.
MOST_REMEMBERED = 300

Guess = Callable[[RunDescription], float]


def expected_s(run: RunDescription) -> float:
    """A guess of a run's wall time from what it asks, on a machine that nobody has measured.

    Virtual clock: about 19 µs per packet that path and windows can carry (docs/speed.md), 7 µs with
    offloads, half as much again through a tunnel, and 3.5 s around it; loss and other flows make it
    less or more, by 3 times. Real clock: its length.
    """
    if run.clock == "real":
        return run.length_s + 5
    per_packet_s = 7e-6 if run.offloads else 19e-6
    if not tunnel_kind(run.tunnel).is_direct:
        per_packet_s *= 1.5
    return 3.5 + packets_carried(run) * per_packet_s


def packets_carried(run: RunDescription) -> float:
    """How many full packets path, windows and sizes let through at most."""
    ways = [run.path[name] for name in ("forward", "reverse")]
    rtt_s = max(0.001, sum(way["delay_ms"] for way in ways) / 1000)
    windows_bps = 0.0
    for flow in run.flows:
        known = isinstance(flow.buffers, Mapping)
        windows_bps += flow.streams * flow.buffers["rmem"][2] * 4 / rtt_s if known else 1e10
    rate_bps = min(windows_bps, *(way["rate_bps"] or 1e10 for way in ways))
    asked_bits = 8 * sum(flow.size_bytes or 1e15 for flow in run.flows)
    return min(rate_bps * run.length_s, asked_bits) / 12000


@dataclass(frozen=True)
class Past:
    """A run that this machine has finished."""

    run: RunDescription
    wall_s: float


def remembered(folder: Path, most: int = MOST_REMEMBERED) -> list[Past]:
    """The newest runs in a results folder that ended well on a machine like this one."""
    facts = host_facts("")
    here = {name: facts[name] for name in ("cpu", "cpus", "kernel")}
    found = (past_run(status.parent, here) for status in newest_first(folder))
    return list(islice((past for past in found if past is not None), most))


def newest_first(folder: Path) -> list[Path]:
    """Every finished run's status.json, the youngest first."""
    dated = []
    for status in folder.glob("*/*/status.json"):
        try:
            dated.append((status.stat().st_mtime, status))
        except OSError:  # taken away meanwhile
            continue
    return [status for _, status in sorted(dated, reverse=True)]


def past_run(folder: Path, here: Mapping[str, object]) -> Past | None:
    """What a finished run took; None if it did not end well, or on another machine."""
    status = results.read_object(folder / "status.json") or {}
    host = (results.read_object(folder / "env.json") or {}).get("host")
    if status.get("outcome") != "ok" or not results.is_number(status.get("wall_s")):
        return None
    if not isinstance(host, dict) or any(host.get(name) != here[name] for name in here):
        return None
    try:
        run = RunDescription.from_json(results.read_object(folder / "run.json") or {})
    except BadInput:  # an older lab's
        return None
    return Past(run, float(status["wall_s"]))


def learned(past: Sequence[Past]) -> Guess:
    """The model, corrected by finished runs: those of the same cell say what it takes; else those
    of the same experiment, else all on the same clock, say how far the model is off.
    """
    by_cell = grouped(past, cell_digest)
    by_experiment = grouped(past, lambda run: (run.experiment, run.clock))
    by_clock = grouped(past, lambda run: run.clock)

    def guess(run: RunDescription) -> float:
        if alike := by_cell.get(cell_digest(run)):
            return median(one.wall_s for one in alike)
        alike = by_experiment.get((run.experiment, run.clock)) or by_clock.get(run.clock) or []
        return expected_s(run) * (how_far_off(alike) if alike else 1.0)

    return guess


def grouped(
    past: Sequence[Past], key: Callable[[RunDescription], Hashable]
) -> dict[Hashable, list[Past]]:
    """Finished runs by what they have in common."""
    found: dict[Hashable, list[Past]] = {}
    for one in past:
        found.setdefault(key(one.run), []).append(one)
    return found


def cell_digest(run: RunDescription) -> str:
    """What two repetitions of a cell have in common, whatever order their factors were read in."""
    return run.cell.rpartition("-")[2]


def how_far_off(past: Sequence[Past]) -> float:
    """What some runs took together, over what the model said: the sum is what is promised."""
    return sum(one.wall_s for one in past) / sum(expected_s(one.run) for one in past)
