"""Build the queueing disciplines of a device, and the tc commands that install and show them.

A queueing discipline is one file in gostlab/qdiscs/. It declares `QDISC = QdiscKind(...)`
(gostlab.registry.qdiscs), or several, and defines `build(kind, direction, seed)`, which returns a
`Qdisc`. Nothing else names it.
"""

import json
import re
from collections.abc import Sequence

from gostlab.guest.qdisc import CLASS, Qdisc, ShapedDirection, ShapingMismatch
from gostlab.registry.plugin_loader import plugin_module
from gostlab.registry.qdiscs import bottleneck_kinds


def build_bottleneck(
    bottleneck: str, queue: str, direction: ShapedDirection, seed: int
) -> list[Qdisc]:
    """Return a bottleneck's qdiscs from the root down: its rate, and its queue if it takes one."""
    return [
        plugin_module(declaration).build(declaration, direction, seed)
        for declaration in bottleneck_kinds(bottleneck, queue)
    ]


def parents_of(qdiscs: Sequence[Qdisc]) -> list[str]:
    """Return the parent under which the next qdisc is attached, for each qdisc."""
    return [qdisc.of_class or f"{n}:" for n, qdisc in enumerate(qdiscs, 1)]


def install_argvs(device: str, qdiscs: Sequence[Qdisc], verb: str = "add") -> list[list[str]]:
    """Return the tc commands for a device: the first qdisc at the root, the others below."""
    position = ["root", "handle", "1:"] if len(qdiscs) > 1 else ["root"]
    argvs = []
    for number, (qdisc, parent) in enumerate(zip(qdiscs, parents_of(qdiscs), strict=True), 2):
        argvs += qdisc.argvs(verb, device, position)
        position = ["parent", parent, "handle", f"{number}:"]
    return argvs


def show_argvs(device: str, qdiscs: Sequence[Qdisc]) -> list[list[str]]:
    """Return the tc commands whose output `parse_shown` parses."""
    shows = [["tc", "-j", "qdisc", "show", "dev", device]]
    return shows + [["tc", "-j", *show_class_args(device)] for qdisc in qdiscs if qdisc.of_class]


def show_class_args(device: str) -> list[str]:
    """Return tc's arguments that show a device's class."""
    return ["class", "show", "dev", device, "classid", CLASS]


def parse_shown(shown: str, requested: Sequence[Qdisc]) -> list[Qdisc]:
    """Return the installed qdiscs of a device.

    Raises ShapingMismatch if one is of another type than requested.
    """
    # For a qdisc that it does not know, tc prints text that is not JSON.
    line, _, shown_class = shown.partition("\n")
    entries = json.loads(re.sub(r"\{\[Unknown qdisc[^\]]*\]\s*\}", "{}", line))
    installed = []
    for qdisc, parent in zip(requested, (None, *parents_of(requested)), strict=False):
        found_entries = [
            entry
            for entry in entries
            if (entry.get("root") if parent is None else entry.get("parent") == parent)
        ]
        if not found_entries or found_entries[0].get("kind") != qdisc.qdisc_kind:
            kinds = ", ".join(str(entry.get("kind")) for entry in found_entries) or "nothing"
            raise ShapingMismatch(f"no {qdisc.qdisc_kind} there, but {kinds}")
        class_option = {"class": shown_class} if qdisc.of_class else {}
        installed.append(qdisc.installed(found_entries[0].get("options", {}) | class_option))
    return installed
