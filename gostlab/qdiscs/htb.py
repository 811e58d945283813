# SPDX-License-Identifier: MIT
"""htb: a token bucket as a class, as most testbeds use it, with any queue under it.

htb sends a packet while any tokens are left, and then waits until the deficit is repaid.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gostlab.guest.qdisc import CLASS, OptionComparison, Qdisc, ShapedDirection, TcOptions
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

# The burst that tc chooses for exact timers. For coarse timers tc would choose the bytes of one
# tick.
BUCKET_BYTES = 1600
RATE_TOLERANCE = 1e-3  # tc up to 6.1 prints classes as text, a rate with at least three digits


@dataclass(frozen=True)
class Htb(Qdisc):
    """One class for all packets, as requested or as read back."""

    rate_bps: int
    burst_bytes: int
    ceil_bps: int
    cburst_bytes: int
    default: int = 1  # the class of a packet that no filter classifies

    qdisc_kind = "htb"
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
        """Return the commands of the qdisc and of its class; only the class changes.

        The quantum shares nothing here, but without it the kernel warns.
        """
        rates = ["rate", f"{self.rate_bps}bit", "ceil", f"{self.ceil_bps}bit"]
        bursts = ["burst", f"{self.burst_bytes}b", "cburst", f"{self.cburst_bytes}b"]
        argv = [
            "tc",
            "class",
            verb,
            "dev",
            device,
            "parent",
            "1:",
            "classid",
            CLASS,
            self.qdisc_kind,
        ]
        qdisc_argvs = [] if verb == "change" else super().argvs(verb, device, position)
        return [*qdisc_argvs, [*argv, *rates, *bursts, "quantum", str(FRAME_BYTES)]]

    def installed(self, options: TcOptions) -> Htb:
        """Parse tc's JSON, and the class from its own output."""
        default = int(str(options["default"]), 16)
        return Htb(**parse_class_rates(options["class"]), default=default)


def parse_class_rates(output: str) -> dict[str, int]:
    """Parse the output of `tc -j class show` for one class.

    It is JSON with rates in bytes per second, or the text of a tc that has no JSON for classes.
    """
    if output.lstrip().startswith("["):
        [entry] = json.loads(output)
        return {
            "rate_bps": 8 * int(entry["rate"]),
            "ceil_bps": 8 * int(entry["ceil"]),
            "burst_bytes": int(entry["burst"]),
            "cburst_bytes": int(entry["cburst"]),
        }
    rates = re.findall(r"\b(rate|ceil) ([\d.]+)([KMG]?)bit\b", output)
    sizes = re.findall(r"\b(burst|cburst) ([\d.]+)([KM]?)b\b", output)
    return {
        f"{name}_{unit}": round(float(number) * base ** " KMG".index(prefix or " "))
        for unit, base, matches in (("bps", 1000, rates), ("bytes", 1024, sizes))
        for name, number, prefix in matches
    }


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> Htb:
    """Return an htb of a bottleneck's rate; nothing is borrowed, so the ceiling is the rate."""
    rate_bps = direction.shaped_rate_bps
    burst_bytes = max(BUCKET_BYTES, math.ceil(rate_bps * BUCKET_S / 8))
    return Htb(rate_bps, burst_bytes, rate_bps, burst_bytes)
