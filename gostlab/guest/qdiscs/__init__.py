"""Queueing disciplines: one file each, and the commands that install them and read them back.

A file declares `QDISC = QdiscKind(...)` (gostlab.declared.qdiscs) and defines `build(direction,
seed)`, which gives a `Qdisc`. That is all: nothing else names it.
"""

import json
import re
from collections.abc import Sequence
from importlib import import_module

from gostlab.declared.qdiscs import bottleneck_kinds
from gostlab.guest.qdiscs.qdisc import Direction, Qdisc, ShapingMismatch


def build_bottleneck(bottleneck: str, queue: str, direction: Direction, seed: int) -> list[Qdisc]:
    """A bottleneck's qdiscs from the root down: its rate, and its queue where that takes one."""
    return [
        import_module(f"{__name__}.{kind.module}").build(direction, seed)
        for kind in bottleneck_kinds(bottleneck, queue)
    ]


def install_argvs(device: str, qdiscs: Sequence[Qdisc], verb: str = "add") -> list[list[str]]:
    """The tc commands for a device: the first qdisc at the root, each further one under it."""
    positions = [["root"]]
    if len(qdiscs) > 1:
        positions = [
            ["root", "handle", "1:"],
            *(["parent", f"{n}:", "handle", f"{n + 1}:"] for n in range(1, len(qdiscs))),
        ]
    found = []
    for position, qdisc in zip(positions, qdiscs, strict=True):
        own = getattr(qdisc, "own_argv", None)
        if own is None:
            argv = ["tc", "qdisc", verb, "dev", device, *position, qdisc.kind, *qdisc.tc_options()]
            found.append(argv)
        elif verb != "change":  # what has a program of its own has nothing that changes
            found.append(own(verb, device, position))
    return found


def show_argv(device: str) -> list[str]:
    """The tc command that `parse_shown` reads."""
    return ["tc", "-j", "qdisc", "show", "dev", device]


def parse_shown(shown: str, asked: Sequence[Qdisc]) -> list[Qdisc]:
    """What a device has in the asked ones' places. Raises ShapingMismatch naming another kind."""
    # tc shows a qdisc that it does not know in words that are no JSON.
    entries = json.loads(re.sub(r"\{\[Unknown qdisc[^\]]*\]\s*\}", "{}", shown))
    installed = []
    for number, qdisc in enumerate(asked):
        there = [
            entry
            for entry in entries
            if (entry.get("root") if number == 0 else entry.get("parent") == f"{number}:")
        ]
        if not there or there[0].get("kind") != qdisc.kind:
            kinds = ", ".join(str(entry.get("kind")) for entry in there) or "nothing"
            raise ShapingMismatch(f"no {qdisc.kind} there, but {kinds}")
        installed.append(qdisc.installed(there[0].get("options", {})))
    return installed
