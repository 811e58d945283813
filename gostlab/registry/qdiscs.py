"""The queueing disciplines that a bottleneck may be made of: what each file in
gostlab/qdiscs/ declares.

A bottleneck has a rate, by netem or by a token bucket (tbf, htb), and a queue. netem's rate keeps
every packet to itself, so that another queueing discipline under it never has one to decide on: a
queue other than first in, first out needs a token bucket.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gostlab.registry.folders import QDISCS
from gostlab.registry.static_loader import declared_in, one_called

BOTTLENECK, QUEUE = "bottleneck", "queue"


@dataclass(frozen=True)
class QdiscKind:
    """What a queueing discipline says of itself.

    name  as an experiment writes it
    says  what it is, in a few words
    """

    name: str
    says: str
    # the line of kernel/options that builds it: NET_SCH_…; NET_SCHED: every kernel has it
    option: str = ""
    module: str = ""  # the file in gostlab/qdiscs/, without .py
    use: str = QUEUE  # it keeps what waits for the rate | BOTTLENECK: it has the rate
    takes_queue: bool = False  # a bottleneck's: any queue may stand under it, not its own alone
    usual: bool = False  # of those the one that a queue brings where nobody names one
    # a bottleneck's: whether a packet that finds it empty waits its own time at the rate
    paces_idle: bool = False
    marks: bool = False  # whether it marks packets of ECN flows where it would drop them
    # where its statistics (linux/pkt_sched.h) count them: the offset of a 32-bit number in their
    # struct, and those of what it marks for another reason; or of attributes the one that holds a
    # list, and the number in each of its parts
    marks_at: int = -1
    marks_also: tuple[int, ...] = ()
    marks_in: tuple[int, ...] = ()
    flow_queues: int = 0  # how many queues it hashes flows into; 0: all share one
    has_target: bool = False  # of how long packets may wait
    since: tuple[int, ...] = ()  # the first Linux that has it, if one of kernel/versions has not
    kernel_name: str = ""  # what tc and the kernel call it, if not by its name
    spellings: tuple[str, ...] = ()  # further names by which an experiment may ask for it

    @property
    def in_kernel(self) -> str:
        """What tc and the kernel call it."""
        return self.kernel_name or self.name

    @property
    def wrong(self) -> str:
        """What it lacks and what to write there; "" if it is whole."""
        if self.use not in (BOTTLENECK, QUEUE):
            return f"use: {self.use!r} is neither {BOTTLENECK} nor {QUEUE}"
        if not self.option:
            return (
                'option is missing: write option="NET_SCH_…", the line of kernel/options that'
                ' builds it ("NET_SCHED" if every kernel has it)'
            )
        if self.marks != (self.marks_at >= 0 or len(self.marks_in) == 2):
            return (
                "a queue that marks needs marks=True and marks_at=…, where the struct of its"
                " statistics in linux/pkt_sched.h counts marked packets (marks_in=(…, …) if they"
                " are attributes)"
            )
        return ""


@cache
def qdisc_kinds(folder: Path = QDISCS) -> dict[str, QdiscKind]:
    """Every queueing discipline by name. Raises BadInput for half a one, or two of one name."""
    kinds = declared_in(folder, "QDISC", QdiscKind, "build", globals())
    return {name: kind for name, kind in kinds.items() if name == kind.name}


def names_for(use: str) -> tuple[str, ...]:
    """What an experiment may write as its bottleneck, or as its queue."""
    return tuple(name for name, kind in qdisc_kinds().items() if kind.use == use)


def spelled(use: str) -> dict[str, str]:
    """Every name by which one of them may be requested, and the one that it then has."""
    return {
        name: kind.name
        for kind in qdisc_kinds().values()
        if kind.use == use
        for name in (kind.name, *kind.spellings)
    }


def qdisc_kind(name: str) -> QdiscKind:
    """The queueing discipline of a name. Raises BadInput if there is none."""
    return one_called(name, qdisc_kinds(), "queueing discipline")


def bottleneck_kinds(bottleneck: str, queue: str) -> list[QdiscKind]:
    """What stands at a bottleneck, root first: its rate, and the queue if it takes one."""
    root = qdisc_kind(bottleneck)
    return [root, qdisc_kind(queue)] if root.takes_queue else [root]


@cache
def marking_kinds() -> dict[str, QdiscKind]:
    """Those that mark, by the kernel's name."""
    return {kind.in_kernel: kind for kind in qdisc_kinds().values() if kind.marks}
