# SPDX-License-Identifier: MIT
"""Declare the queueing disciplines of a bottleneck, from the files in gostlab/qdiscs/.

A bottleneck has a rate, by netem or by a token bucket (tbf, htb), and a queue. netem's rate queues
every packet itself, so that another queueing discipline under it never has a packet to decide on: a
queue other than first in, first out requires a token bucket.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gostlab.registry.folders import QDISCS
from gostlab.registry.plugin_loader import PluginDeclaration, declarations_by_name, find_by_name

BOTTLENECK, QUEUE = "bottleneck", "queue"


@dataclass(frozen=True)
class QdiscKind(PluginDeclaration):
    r"""Represent the declaration of a queueing discipline.

    name  as an experiment writes it
    says  what it is, in a few words
    """

    name: str
    says: str
    # The option in kernel/kconfig.fragment that builds it, NET_SCH_…; NET_SCHED if every kernel
    # has it.
    option: str = ""
    module: str = ""  # The module, in dotted form.
    use: str = QUEUE  # QUEUE (it queues packets) | BOTTLENECK (it enforces the rate).
    # Whether any queue may be attached to a bottleneck, not only its own.
    takes_queue: bool = False
    usual: bool = False  # Whether a queue implies this bottleneck if the experiment names none.
    # Whether a packet that finds the bottleneck empty waits its own transmission time.
    paces_idle: bool = False
    marks: bool = False  # Whether it marks packets of ECN flows instead of dropping them.
    # The position of marked packets in its statistics (linux/pkt_sched.h): the offset of a 32-bit
    # number in their struct, and the offsets of packets marked for other reasons; or the attribute
    # that holds a list, and the number in each of its items.
    marks_at: int = -1
    marks_also: tuple[int, ...] = ()
    marks_in: tuple[int, ...] = ()
    flow_queues: int = 0  # The number of queues that it hashes flows into; 0 means one for all.
    has_target: bool = False  # Whether it has a target for the time that packets wait.
    since: tuple[int, ...] = ()  # The first Linux that has it, if one of kernel/versions lacks it.
    kernel_name: str = ""  # The name in tc and the kernel, if it differs.
    spellings: tuple[str, ...] = ()  # The aliases by which an experiment may name it.

    @property
    def in_kernel(self) -> str:
        """Return the name in tc and the kernel."""
        return self.kernel_name or self.name

    @property
    def wrong(self) -> str:
        """Return what is missing and what to write, or "" for a complete declaration."""
        if self.use not in (BOTTLENECK, QUEUE):
            return f"use: {self.use!r} is neither {BOTTLENECK} nor {QUEUE}"
        if not self.option:
            return (
                'option is missing: write option="NET_SCH_…", the option in kernel/kconfig.fragment'
                ' that builds it ("NET_SCHED" if every kernel has it)'
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
    """Return every queueing discipline by name. Raises BadInput for an incomplete one."""
    qdiscs = declarations_by_name(folder, "QDISC", QdiscKind, "build")
    return {name: qdisc for name, qdisc in qdiscs.items() if name == qdisc.name}


def qdisc_names(use: str) -> tuple[str, ...]:
    """Return the valid names of bottlenecks, or of queues, in an experiment."""
    return tuple(name for name, qdisc in qdisc_kinds().items() if qdisc.use == use)


def names_by_spelling(use: str) -> dict[str, str]:
    """Return the name of the discipline for each of its names and aliases."""
    return {
        name: qdisc.name
        for qdisc in qdisc_kinds().values()
        if qdisc.use == use
        for name in (qdisc.name, *qdisc.spellings)
    }


def qdisc_kind(name: str) -> QdiscKind:
    """Return the queueing discipline of a name. Raises BadInput if there is none."""
    return find_by_name(name, qdisc_kinds(), "queueing discipline")


def bottleneck_kinds(bottleneck: str, queue: str) -> list[QdiscKind]:
    """Return the disciplines of a bottleneck, root first: its rate, and any queue."""
    root = qdisc_kind(bottleneck)
    return [root, qdisc_kind(queue)] if root.takes_queue else [root]


@cache
def marking_kinds() -> dict[str, QdiscKind]:
    """Return the disciplines that mark, by the kernel's name."""
    return {qdisc.in_kernel: qdisc for qdisc in qdisc_kinds().values() if qdisc.marks}
