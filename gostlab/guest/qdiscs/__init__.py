"""Queueing disciplines: one file each, and the commands that install them and read them back.

A file declares `QDISC = QdiscKind(...)` (gostlab.declared.qdiscs) and defines `build(direction,
seed)`, which gives a `Qdisc`. That is all: nothing else names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

from gostlab.declared.qdiscs import qdisc_kind
from gostlab.guest.qdiscs.qdisc import Qdisc, ShapingMismatch

SomeQdisc = TypeVar("SomeQdisc", bound=Qdisc)


def build_bottleneck(
    bottleneck: str, queue: str, direction: Mapping[str, Any], seed: int
) -> list[Qdisc]:
    """The queueing disciplines of a bottleneck, from the root down: what has its rate, and under
    that its queue where it takes one.
    """
    kind = qdisc_kind(bottleneck)
    names = (bottleneck, queue) if kind.takes_queue else (bottleneck,)
    return [
        import_module(f"{__name__}.{qdisc_kind(name).module}").build(direction, seed)
        for name in names
    ]


def install_argvs(device: str, qdiscs: Sequence[Qdisc], verb: str = "add") -> list[list[str]]:
    """The tc commands for a device: the first qdisc at the root, each further one under the one
    before.
    """
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


def parse_shown(shown: str, asked: Sequence[SomeQdisc]) -> list[SomeQdisc]:
    """What a device has in the positions of those asked for. Raises ShapingMismatch naming one that
    has not the kind asked for.
    """
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
        installed.append(type(qdisc).parse(there[0].get("options", {})))
    return installed


__all__ = (
    "Qdisc",
    "ShapingMismatch",
    "build_bottleneck",
    "install_argvs",
    "parse_shown",
    "show_argv",
)
