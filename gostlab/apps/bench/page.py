"""docs/speed.md: what the benchmark printed, and how it was taken."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gostlab import machine
from gostlab.apps.bench.figures import HEAD, PASS, Figure
from gostlab.machine import sandbox

PAGE = """# How fast the lab is

<!-- Written by ./lab bench --write docs/speed.md: what is typed into this page is lost. -->

{when}, {cpu}, {cpus} CPUs, {busy}. n times each, this version and {before} by turns. A packet's
figure is the CPU time that a long run takes more than a short one, over the packets between. {met}

<!-- from: ./lab bench -->

{table}

The native nodes are five network namespaces in a row on this machine's own kernel, on one CPU,
without netem. `./lab bench --part NAME` takes more: {more}.

[What was tried for speed](tried.md). What experiments take: `./lab catalogue`.
"""


def to_page(figures: Sequence[Figure], before: str, busy: float, more: Sequence[str]) -> str:
    """The page in Markdown.

    before  the version that this one is compared with
    busy    the load of the machine as the benchmark began (1 a CPU)
    more    the parts that are taken only where they are named
    """
    host = sandbox.host_facts("")
    judged = [figure for figure in figures if figure.target]
    missed = [figure.name for figure in judged if figure.verdict != PASS]
    met = f"{len(judged) - len(missed)} of {len(judged)} targets are met."
    return PAGE.format(
        when=time.strftime("%d %B %Y").lstrip("0"),
        cpu=host["cpu"],
        cpus=len(machine.usable_cpus()),
        busy=f"with a load of {busy:.1f} by other work" if busy > 0.3 else "with no other work",
        before=before,
        met=met,
        table="\n".join([HEAD, *(figure.row for figure in figures)]),
        more=", ".join(more),
    )
