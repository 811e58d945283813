"""The queueing disciplines of a device, built, and tc's commands that install them and read them
back.

A queueing discipline is one file in gostlab/qdiscs/. It declares `QDISC = QdiscKind(...)`
(gostlab.registry.qdiscs), or several, and defines `build(kind, direction, seed)`, which gives a
`Qdisc`. That is all: nothing else names it.
"""

import json
import re
from collections.abc import Sequence

from gostlab.guest.qdisc import CLASS, Direction, Qdisc, ShapingMismatch
from gostlab.registry.folders import QDISCS
from gostlab.registry.qdiscs import bottleneck_kinds
from gostlab.registry.static_loader import module_of


def build_bottleneck(bottleneck: str, queue: str, direction: Direction, seed: int) -> list[Qdisc]:
    """A bottleneck's qdiscs from the root down: its rate, and its queue where that takes one."""
    return [
        module_of(QDISCS, kind.module).build(kind, direction, seed)
        for kind in bottleneck_kinds(bottleneck, queue)
    ]


def places(qdiscs: Sequence[Qdisc]) -> list[str]:
    """Under what of each the next one stands."""
    return [qdisc.of_class or f"{n}:" for n, qdisc in enumerate(qdiscs, 1)]


def install_argvs(device: str, qdiscs: Sequence[Qdisc], verb: str = "add") -> list[list[str]]:
    """The tc commands for a device: the first qdisc at the root, each further one under it."""
    position = ["root", "handle", "1:"] if len(qdiscs) > 1 else ["root"]
    found = []
    for number, (qdisc, under) in enumerate(zip(qdiscs, places(qdiscs), strict=True), 2):
        found += qdisc.argvs(verb, device, position)
        position = ["parent", under, "handle", f"{number}:"]
    return found


def show_argvs(device: str, qdiscs: Sequence[Qdisc]) -> list[list[str]]:
    """The tc commands whose lines `parse_shown` reads."""
    shows = [["tc", "-j", "qdisc", "show", "dev", device]]
    return shows + [["tc", "-j", *class_of(device)] for qdisc in qdiscs if qdisc.of_class]


def class_of(device: str) -> list[str]:
    """tc's words for a device's class."""
    return ["class", "show", "dev", device, "classid", CLASS]


def parse_shown(shown: str, asked: Sequence[Qdisc]) -> list[Qdisc]:
    """What a device has in the asked ones' places. Raises ShapingMismatch naming another kind."""
    # tc shows a qdisc that it does not know in words that are no JSON.
    line, _, shown_class = shown.partition("\n")
    entries = json.loads(re.sub(r"\{\[Unknown qdisc[^\]]*\]\s*\}", "{}", line))
    installed = []
    for qdisc, under in zip(asked, (None, *places(asked)), strict=False):
        there = [
            entry
            for entry in entries
            if (entry.get("root") if under is None else entry.get("parent") == under)
        ]
        if not there or there[0].get("kind") != qdisc.kind:
            kinds = ", ".join(str(entry.get("kind")) for entry in there) or "nothing"
            raise ShapingMismatch(f"no {qdisc.kind} there, but {kinds}")
        of_class = {"class": shown_class} if qdisc.of_class else {}
        installed.append(qdisc.installed(there[0].get("options", {}) | of_class))
    return installed
