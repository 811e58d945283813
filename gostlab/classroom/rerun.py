# SPDX-License-Identifier: MIT
"""Compare a run of a hand-in with the grader's rerun of the same run."""

import math
from collections.abc import Iterator
from pathlib import Path

from gostlab.classroom.raw_metrics import (
    BROKEN_RECORDS,
    RawRecords,
    goodput_mbit,
    ping_ms,
    retransmitted_segments,
)
from gostlab.results import file_sha256, read_object

# Tolerances for runs that are not identical; docs/explanation/repeatability.md has measurements.
GOODPUT_TOLERANCE = 0.01
PING_TOLERANCE = 0.05  # the band of the labs' answers on a full queue
COUNT_TOLERANCE = 0.10
COUNT_SIGMAS = 2  # in units of the square root of the count
# These files have what was measured during the load; the other files are derived from them, or
# depend on time and machine.
COMPARED = ("sockets.jsonl", "queues.jsonl", "pings.jsonl", "legs.json", "flows.json")
MAKERS = ("kernel", "kernel_build", "iperf3", "iproute2", "python", "mininet")


def compare_with_rerun(handed_in: RawRecords, again: RawRecords) -> tuple[bool, tuple[str, ...]]:
    """Return whether two runs are identical or within the tolerances, and lines that explain it."""
    name = handed_in.run.name
    first_folder, again_folder = handed_in.folder, again.folder
    differing = [
        file
        for file in COMPARED
        if file_sha256(first_folder / file) != file_sha256(again_folder / file)
    ]
    if not differing:
        return True, (f"{name}: the same, bit for bit",)
    try:
        far = list(find_differences(handed_in, again))
    except BROKEN_RECORDS as error:
        far = [f"cannot be compared ({type(error).__name__}: {error})"]
    others = differing_programs(first_folder, again_folder)
    makers = f"; made by other programs: {'; '.join(others)}" if others else ""
    near = (
        f"goodput within {100 * GOODPUT_TOLERANCE:g} %, counts within {100 * COUNT_TOLERANCE:g} %"
    )
    difference = f"{name}: bits differ ({', '.join(differing)}){makers}"
    return not far, (difference, f"{name}: {'; '.join(far) or near}")


def find_differences(handed_in: RawRecords, again: RawRecords) -> Iterator[str]:
    """Yield differences beyond what another machine explains. Raises BROKEN_RECORDS."""
    for flow in handed_in.run.flows:
        if not flow.is_tcp:
            one, other = (ping_ms(records, flow.name, part="p95") for records in (handed_in, again))
            if not math.isclose(one, other, rel_tol=PING_TOLERANCE):
                yield f"{flow.name}: {one:.4g} ms (95 %) handed in, {other:.4g} in the rerun"
            continue
        one, other = (goodput_mbit(records, flow.name) for records in (handed_in, again))
        if not math.isclose(one, other, rel_tol=GOODPUT_TOLERANCE):
            yield f"{flow.name}: {one:.4g} Mbit/s handed in, {other:.4g} in the rerun"
        one, other = (retransmitted_segments(records, flow.name) for records in (handed_in, again))
        by_chance = COUNT_SIGMAS * math.sqrt(max(one, other))
        if abs(one - other) > max(by_chance, COUNT_TOLERANCE * max(one, other)):
            yield f"{flow.name}: {one:.0f} retransmissions handed in, {other:.0f} in the rerun"


def differing_programs(one: Path, other: Path) -> list[str]:
    """Return the differences between the programs and CPUs of two runs."""
    first, second = (read_object(folder / "env.json") or {} for folder in (one, other))
    differences = [
        f"{name} {first.get(name)!s:.60}, here {second.get(name)!s:.60}"
        for name in MAKERS
        if first.get(name) != second.get(name)
    ]
    hosts = [values.get("host") for values in (first, second)]
    cpus = [host.get("cpu") if isinstance(host, dict) else None for host in hosts]
    return differences + (
        [f"CPU {cpus[0]!s:.60}, here {cpus[1]!s:.60}"] if cpus[0] != cpus[1] else []
    )
