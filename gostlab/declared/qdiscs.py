"""The queueing disciplines that a bottleneck may be made of: what each file in
gostlab/guest/qdiscs/ declares.

A bottleneck has a rate, by netem or by a token bucket, and a queue. netem's rate keeps every packet
to itself, so that another queueing discipline under it never has one to decide on: a queue other
than first in, first out needs the token bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gostlab.declared.errors import BadInput
from gostlab.declared.source import ROOT, declared_in
from gostlab.declared.source import show as show_path

FOLDER = ROOT / "gostlab" / "guest" / "qdiscs"
BOTTLENECK, QUEUE = "bottleneck", "queue"


@dataclass(frozen=True)
class QdiscKind:
    """What a queueing discipline says of itself.

    name         as an experiment writes it
    says         what it is, in a few words
    use          BOTTLENECK: it has the rate; QUEUE: it keeps what waits for the rate
    takes_queue  a bottleneck's: whether any queue may stand under it; else it is its own
    paces_idle   a bottleneck's: whether a packet that finds it empty waits its own time at the rate
    marks        whether it marks packets of who asks for it (ECN) where it would drop them
    spellings    further names by which an experiment may ask for the same
    module       the file in gostlab/guest/qdiscs/, without .py
    """

    name: str
    says: str
    module: str = ""
    use: str = QUEUE
    takes_queue: bool = False
    paces_idle: bool = False
    marks: bool = False
    spellings: tuple[str, ...] = ()


@cache
def qdisc_kinds(folder: Path = FOLDER) -> dict[str, QdiscKind]:
    """Every queueing discipline by name. Raises BadInput for half a one, or two of one name."""
    found: dict[str, QdiscKind] = {}
    constants = {"BOTTLENECK": BOTTLENECK, "QUEUE": QUEUE}
    for kind in declared_in(folder, "QDISC", QdiscKind, "build", constants):
        if kind.name in found:
            raise BadInput(
                f"{show_path(folder)}: {kind.module}.py and {found[kind.name].module}.py are both"
                f" called {kind.name}"
            )
        if kind.use not in (BOTTLENECK, QUEUE):
            raise BadInput(
                f"{show_path(folder)}: {kind.module}.py: use: {kind.use!r} is neither"
                f" {BOTTLENECK} nor {QUEUE}"
            )
        found[kind.name] = kind
    return found


def names_for(use: str) -> tuple[str, ...]:
    """What an experiment may write as its bottleneck, or as its queue."""
    return tuple(name for name, kind in qdisc_kinds().items() if kind.use == use)


def spelled(use: str) -> dict[str, str]:
    """Every name by which one of them may be asked for, and the one that it then has."""
    return {
        name: kind.name
        for kind in qdisc_kinds().values()
        if kind.use == use
        for name in (kind.name, *kind.spellings)
    }


def qdisc_kind(name: str) -> QdiscKind:
    """The queueing discipline of a name. Raises BadInput if there is none."""
    kinds = qdisc_kinds()
    if name not in kinds:
        raise BadInput(f"no such queueing discipline: {name} (there are {', '.join(kinds)})")
    return kinds[name]
