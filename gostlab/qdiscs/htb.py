"""htb: a token bucket as a class, as most testbeds have it, under which any queue may stand. It
lets a packet go while any tokens are left, and waits for what that packet then owes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.guest.qdisc import CLASS, Direction, OptionComparison, Qdisc
from gostlab.qdiscs.base import FRAME_BYTES
from gostlab.qdiscs.tbf import BUCKET_S, BUCKET_TOLERANCE
from gostlab.registry.qdiscs import BOTTLENECK, QdiscKind

QDISC = QdiscKind(
    name="htb",
    says="a token bucket of one class, over the queue that `queue` names",
    option="NET_SCH_HTB",
    use=BOTTLENECK,
    takes_queue=True,
)

# What tc takes where timers are exact; where they are not it would take what a tick's rate sends.
BUCKET_BYTES = 1600
RATE_TOLERANCE = 1e-3  # tc up to 6.1 shows classes in words, a rate with three digits at least


@dataclass(frozen=True)
class Htb(Qdisc):
    """One class that has all packets, as requested or as read back."""

    rate_bps: int
    burst_bytes: int
    ceil_bps: int
    cburst_bytes: int
    default: int = 1  # the class of a packet that no filter gives another

    kind = "htb"
    of_class = CLASS
    compared = (
        OptionComparison("default", "default class"),
        OptionComparison("rate_bps", "rate", "bit/s", rel_tol=RATE_TOLERANCE),
        OptionComparison("ceil_bps", "ceil", "bit/s", rel_tol=RATE_TOLERANCE),
        OptionComparison("burst_bytes", "burst", "bytes", rel_tol=BUCKET_TOLERANCE),
        OptionComparison("cburst_bytes", "cburst", "bytes", rel_tol=BUCKET_TOLERANCE),
    )

    def tc_options(self) -> list[str]:
        return ["default", f"{self.default:x}"]

    def argvs(self, verb: str, device: str, position: Sequence[str]) -> list[list[str]]:
        """Its class's, too; only that has what changes. The quantum shares nothing here: without it
        the kernel warns of its own.
        """
        rates = ["rate", f"{self.rate_bps}bit", "ceil", f"{self.ceil_bps}bit"]
        bursts = ["burst", f"{self.burst_bytes}b", "cburst", f"{self.cburst_bytes}b"]
        argv = ["tc", "class", verb, "dev", device, "parent", "1:", "classid", CLASS, self.kind]
        own = [] if verb == "change" else super().argvs(verb, device, position)
        return [*own, [*argv, *rates, *bursts, "quantum", str(FRAME_BYTES)]]

    def installed(self, options: Mapping[str, Any]) -> Htb:
        """From tc's JSON; of the class from its line."""
        default = int(str(options["default"]), 16)
        return Htb(**class_numbers(options["class"]), default=default)


def class_numbers(shown: str) -> dict[str, int]:
    """The numbers in what `tc -j class show` prints of one class: JSON with rates in bytes per
    second, or the words of a tc that has no JSON for it.
    """
    if shown.lstrip().startswith("["):
        [entry] = json.loads(shown)
        return {
            "rate_bps": 8 * int(entry["rate"]),
            "ceil_bps": 8 * int(entry["ceil"]),
            "burst_bytes": int(entry["burst"]),
            "cburst_bytes": int(entry["cburst"]),
        }
    rates = re.findall(r"\b(rate|ceil) ([\d.]+)([KMG]?)bit\b", shown)
    sizes = re.findall(r"\b(burst|cburst) ([\d.]+)([KM]?)b\b", shown)
    return {
        f"{name}_{unit}": round(float(number) * base ** " KMG".index(prefix or " "))
        for unit, base, found in (("bps", 1000, rates), ("bytes", 1024, sizes))
        for name, number, prefix in found
    }


def build(kind: QdiscKind, direction: Direction, seed: int) -> Htb:
    """A bottleneck's rate: borrowed from nobody, so that its ceiling is its rate."""
    rate_bps = int(direction["rate_bps"])
    burst_bytes = max(BUCKET_BYTES, math.ceil(rate_bps * BUCKET_S / 8))
    return Htb(rate_bps, burst_bytes, rate_bps, burst_bytes)
