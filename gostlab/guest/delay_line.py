"""The delay line: the kernel's network emulator, netem, with delay, jitter and loss.

A bottleneck may be a netem, too, which then has rate and buffer in one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.guest.qdisc import RATE_TOLERANCE_BPS, Direction, OptionComparison, Qdisc
from gostlab.tcpmodel.constants import DELAY_LIMIT_PKTS

# A rate on the delay line makes netem send in the order of arrival, whatever the jitter: so fast
# that it does nothing else.
ORDERING_RATE_BPS = 10_000_000_000
# netem's probabilities are 32-bit fractions; tc prints them with limited digits.
LOSS_TOLERANCE = 1e-4
DELAY_TOLERANCE_MS = 0.001


@dataclass(frozen=True)
class Netem(Qdisc):
    """One netem qdisc, as requested or as read back. `None`: not set."""

    limit_pkts: int
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: tuple[float, ...] = ()  # (p,) | (p, r, 1-h, 1-k), each 0..1
    rate_bps: int | None = None
    seed: int | None = None
    distribution: tuple[int, ...] | None = None  # of the delay; the kernel does not report it
    every_pkts: int | None = None  # exactly every so-many-th is lost, by a filter before the qdisc
    ecn: bool = False  # its losses are marks, on packets that can be marked

    kind = "netem"
    # To the kernel's resolution: 1 µs, 8 bit/s, 2^-32.
    compared = (
        OptionComparison("limit_pkts", "limit", "packets"),
        OptionComparison("delay_ms", "delay", "ms", abs_tol=DELAY_TOLERANCE_MS),
        OptionComparison("jitter_ms", "jitter", "ms", abs_tol=DELAY_TOLERANCE_MS),
        OptionComparison("loss", "loss", rel_tol=LOSS_TOLERANCE, abs_tol=1e-9),
        OptionComparison("ecn", "ecn"),
        OptionComparison("rate_bps", "rate", "bit/s", abs_tol=RATE_TOLERANCE_BPS),
        OptionComparison("seed", "seed"),
    )

    def tc_options(self) -> list[str]:
        options = ["limit", str(self.limit_pkts)]
        if self.delay_ms or self.jitter_ms:
            options += ["delay", f"{self.delay_ms:.6f}ms"]
            if self.jitter_ms:
                options += [f"{self.jitter_ms:.6f}ms"]
            if self.distribution:
                options += ["distribution", table_name(self.distribution)]
        if len(self.loss) == 1:
            options += ["loss", "random", f"{self.loss[0] * 100:.8f}%"]
        elif self.loss:
            options += ["loss", "gemodel", *(f"{value * 100:.8f}%" for value in self.loss)]
        if self.ecn:
            options.append("ecn")
        if self.rate_bps is not None:
            options += ["rate", f"{self.rate_bps}bit"]
        if self.seed is not None:
            options += ["seed", str(self.seed)]
        return options

    def installed(self, options: Mapping[str, Any]) -> Netem:
        """From tc's JSON: seconds and shares for delay and loss, bytes per second for the rate."""
        delay = options.get("delay", {})
        rate = options.get("rate", {}).get("rate")
        loss: tuple[float, ...] = ()
        if "loss-random" in options:
            loss = (float(options["loss-random"]["loss"]),)
        elif "loss-gemodel" in options:
            model = options["loss-gemodel"]
            loss = tuple(float(model[key]) for key in ("p", "r", "1-h", "1-k"))
        return Netem(
            limit_pkts=int(options["limit"]),
            delay_ms=float(delay.get("delay", 0)) * 1000,
            jitter_ms=float(delay.get("jitter", 0)) * 1000,
            loss=loss,
            rate_bps=int(rate) * 8 if rate else None,
            seed=options.get("seed"),
            ecn=bool(options.get("ecn")),
        )


def build_delay_line(direction: Direction, seed: int) -> Netem:
    """A delay line: delay, jitter, loss, seeded."""
    table, jitter_ms = direction["distribution"], direction["jitter_ms"]
    return Netem(
        limit_pkts=DELAY_LIMIT_PKTS,
        delay_ms=direction["delay_ms"],
        jitter_ms=jitter_ms,
        loss=loss_numbers(direction["loss"]),
        seed=seed,
        rate_bps=ORDERING_RATE_BPS if direction["ordered"] and jitter_ms else None,
        distribution=tuple(table) if table and jitter_ms else None,
        every_pkts=direction["loss"].get("packets"),
        # netem takes it only beside a loss
        ecn=direction.get("ecn") == "losses" and bool(loss_numbers(direction["loss"])),
    )


def loss_numbers(loss: Mapping[str, Any]) -> tuple[float, ...]:
    """The numbers of netem's loss models in tc's order; () where netem loses nothing."""
    if loss["model"] == "periodic":
        return ()
    if loss["model"] == "random":
        return (float(loss["p"]),) if loss["p"] else ()
    return tuple(float(loss[key]) for key in ("p", "r", "one_minus_h", "one_minus_k"))


def table_name(table: Sequence[int]) -> str:
    """What a delay table is called: tc takes it from a file NAME.dist in TC_LIB_DIR."""
    return "gostlab-" + hashlib.sha256(repr(tuple(table)).encode()).hexdigest()[:8]


def table_path(folder: Path, table: Sequence[int]) -> Path:
    """Where tc looks for a delay table with that TC_LIB_DIR."""
    return folder / f"{table_name(table)}.dist"


def table_text(table: Sequence[int]) -> str:
    """A delay table as tc reads it."""
    lines = (
        " ".join(str(value) for value in table[start : start + 8])
        for start in range(0, len(table), 8)
    )
    return "\n".join(lines) + "\n"
