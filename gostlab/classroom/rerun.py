"""A run of a hand-in beside the same run made anew by the grader."""

import math
from collections.abc import Iterator
from pathlib import Path

from gostlab.classroom.raw_metrics import BROKEN_RECORDS, Records, goodput_mbit, sent_again
from gostlab.results import file_sha256, read_object

# Where bits differ: docs/explanation/repeatability.md has what was measured.
GOODPUT_TOLERANCE = 0.01
COUNT_TOLERANCE = 0.10
COUNT_SIGMAS = 2  # of a count's own chance, its square root
# What samplers and programs wrote while the load ran; the rest follows from them, or says when and
# where the run was made.
COMPARED = ("sockets.jsonl", "queues.jsonl", "legs.json", "flows.json")
MAKERS = ("kernel", "kernel_build", "iperf3", "iproute2", "python", "mininet")


def compare(handed_in: Records, again: Records) -> tuple[bool, tuple[str, ...]]:
    """Whether two are the same bit for bit or, where bits differ, near enough by their numbers; and
    that in words.
    """
    name = handed_in.run.name
    mine, anew = handed_in.folder, again.folder
    differing = [file for file in COMPARED if file_sha256(mine / file) != file_sha256(anew / file)]
    if not differing:
        return True, (f"{name}: the same, bit for bit",)
    try:
        far = list(far_apart(handed_in, again))
    except BROKEN_RECORDS as error:
        far = [f"cannot be compared ({type(error).__name__}: {error})"]
    others = other_makers(mine, anew)
    made = f"; made by other programs: {'; '.join(others)}" if others else ""
    near = (
        f"goodput within {100 * GOODPUT_TOLERANCE:g} %, counts within {100 * COUNT_TOLERANCE:g} %"
    )
    said = f"{name}: bits differ ({', '.join(differing)}){made}"
    return not far, (said, f"{name}: {'; '.join(far) or near}")


def far_apart(handed_in: Records, again: Records) -> Iterator[str]:
    """Numbers that no other machine explains. Raises BROKEN_RECORDS."""
    for flow in handed_in.run.flows:
        one, other = (goodput_mbit(records, flow.name) for records in (handed_in, again))
        if not math.isclose(one, other, rel_tol=GOODPUT_TOLERANCE):
            yield f"{flow.name}: {one:.4g} Mbit/s handed in, {other:.4g} made anew"
        one, other = (sent_again(records, flow.name) for records in (handed_in, again))
        by_chance = COUNT_SIGMAS * math.sqrt(max(one, other))
        if abs(one - other) > max(by_chance, COUNT_TOLERANCE * max(one, other)):
            yield f"{flow.name}: {one:.0f} segments sent again handed in, {other:.0f} made anew"


def other_makers(one: Path, other: Path) -> list[str]:
    """What made the two, where it differs."""
    first, second = (read_object(folder / "env.json") or {} for folder in (one, other))
    found = [
        f"{name} {first.get(name)!s:.60}, here {second.get(name)!s:.60}"
        for name in MAKERS
        if first.get(name) != second.get(name)
    ]
    hosts = [values.get("host") for values in (first, second)]
    cpus = [host.get("cpu") if isinstance(host, dict) else None for host in hosts]
    return found + ([f"CPU {cpus[0]!s:.60}, here {cpus[1]!s:.60}"] if cpus[0] != cpus[1] else [])
