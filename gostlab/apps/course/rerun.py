"""A run of a hand-in beside the same run made anew by the grader."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.apps.course.evidence import BROKEN_RECORDS, Records
from gostlab.results import read_object

# Where bits differ: docs/explanation/repeatability.md has what was measured.
GOODPUT_TOLERANCE = 0.01
COUNT_TOLERANCE = 0.10
COUNT_SIGMAS = 2  # of a count's own chance, its square root
# What samplers and programs wrote while the load ran; the rest follows from them, or says when and
# where the run was made.
COMPARED = ("sockets.jsonl", "queues.jsonl", "legs.json", "flows.json")
MAKERS = ("kernel", "kernel_build", "iperf3", "iproute2", "python", "mininet")


@dataclass(frozen=True)
class Compared:
    """A run and its rerun."""

    run: str
    same: bool
    lines: tuple[str, ...]


def compare(handed_in: Records, again: Records) -> Compared:
    """Bit for bit; where bits differ, whether the numbers are near enough."""
    name = handed_in.run.name
    differing = [
        file for file in COMPARED if digest(handed_in.folder / file) != digest(again.folder / file)
    ]
    if not differing:
        return Compared(name, True, (f"{name}: the same, bit for bit",))
    try:
        far = list(far_apart(handed_in, again))
    except BROKEN_RECORDS as error:
        far = [f"cannot be compared ({type(error).__name__}: {error})"]
    others = other_makers(handed_in.folder, again.folder)
    said = f"{name}: bits differ ({', '.join(differing)})" + (
        f"; made by other programs: {'; '.join(others)}" if others else ""
    )
    verdict = (
        "; ".join(far)
        if far
        else (
            f"goodput within {100 * GOODPUT_TOLERANCE:g} %,"
            f" counts within {100 * COUNT_TOLERANCE:g} %"
        )
    )
    return Compared(name, not far, (said, f"{name}: {verdict}"))


def far_apart(handed_in: Records, again: Records) -> Iterator[str]:
    """Numbers that no other machine explains. Raises BROKEN_RECORDS."""
    for flow in handed_in.run.flows:
        one, other = (
            8 * got / seconds for got, seconds in (handed_in.received(flow), again.received(flow))
        )
        if not math.isclose(one, other, rel_tol=GOODPUT_TOLERANCE):
            yield f"{flow.name}: {one / 1e6:.4g} Mbit/s handed in, {other / 1e6:.4g} made anew"
        counts = [
            sum(
                leg["segments_retransmitted"]
                for leg in records.legs
                if (leg["leg"], leg["flow"]) == ("wan", flow.name)
            )
            for records in (handed_in, again)
        ]
        by_chance = COUNT_SIGMAS * math.sqrt(max(counts))
        if abs(counts[0] - counts[1]) > max(by_chance, COUNT_TOLERANCE * max(counts)):
            yield f"{flow.name}: {counts[0]} segments sent again handed in, {counts[1]} made anew"


def other_makers(one: Path, other: Path) -> list[str]:
    """What made the two, where it differs."""
    first, second = (read_object(folder / "env.json") or {} for folder in (one, other))
    found = [
        f"{name} {first.get(name)!s:.60}, here {second.get(name)!s:.60}"
        for name in MAKERS
        if first.get(name) != second.get(name)
    ]
    cpus = [host_of(values).get("cpu") for values in (first, second)]
    return found + ([f"CPU {cpus[0]!s:.60}, here {cpus[1]!s:.60}"] if cpus[0] != cpus[1] else [])


def host_of(environment: Mapping[str, Any]) -> Mapping[str, Any]:
    host = environment.get("host")
    return host if isinstance(host, dict) else {}


def digest(path: Path) -> str:
    """A file's SHA-256; "" where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
