"""Define the delay line: the kernel's network emulator, netem, with delay, jitter and loss.

A bottleneck may be a netem, too, which then has rate and buffer in one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab.guest.qdisc import (
    RATE_TOLERANCE_BPS,
    OptionComparison,
    Qdisc,
    ShapedDirection,
    TcOptions,
)
from gostlab.spec.path_spec import LossSpec
from gostlab.tcpmodel.constants import DELAY_LIMIT_PKTS

# A rate on the delay line makes netem send in the order of arrival, despite the jitter: this rate
# is so high that it has no other effect.
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
    # Delay distribution, which the kernel does not report.
    distribution: tuple[int, ...] | None = None
    every_pkts: int | None = None  # exactly every n-th packet is lost, by a filter before the qdisc
    ecn: bool = False  # losses become marks, on packets that can be marked

    kind = "netem"
    # Tolerances are the kernel's resolution: 1 µs, 8 bit/s, 2^-32.
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

    def installed(self, options: TcOptions) -> Netem:
        """Parse tc's JSON: seconds and shares for delay and loss, bytes per second for the rate."""
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


def build_delay_line(direction: ShapedDirection, seed: int) -> Netem:
    """Return a delay line: delay, jitter, loss, seeded."""
    loss, jitter_ms = direction.loss, direction.jitter_ms
    return Netem(
        limit_pkts=DELAY_LIMIT_PKTS,
        delay_ms=direction.delay_ms,
        jitter_ms=jitter_ms,
        loss=loss_numbers(loss),
        seed=seed,
        rate_bps=ORDERING_RATE_BPS if direction.ordered and jitter_ms else None,
        distribution=(direction.distribution or None) if jitter_ms else None,
        every_pkts=loss.packets,
        # netem accepts ecn only together with a loss
        ecn=direction.ecn == "losses" and bool(loss_numbers(loss)),
    )


def loss_numbers(loss: LossSpec) -> tuple[float, ...]:
    """Return the numbers of netem's loss models in tc's order; () if netem loses nothing."""
    if loss.model == "periodic":
        return ()
    if loss.model == "random":
        return (loss.p,) if loss.p else ()
    return tuple(value or 0.0 for value in (loss.p, loss.r, loss.one_minus_h, loss.one_minus_k))


def table_name(table: Sequence[int]) -> str:
    """Return the name of a delay table: tc reads it from a file NAME.dist in TC_LIB_DIR."""
    return "gostlab-" + hashlib.sha256(repr(tuple(table)).encode()).hexdigest()[:8]


def table_path(folder: Path, table: Sequence[int]) -> Path:
    """Return the path at which tc reads a delay table if TC_LIB_DIR is the folder."""
    return folder / f"{table_name(table)}.dist"


def table_text(table: Sequence[int]) -> str:
    """Format a delay table as tc reads it."""
    lines = (
        " ".join(str(value) for value in table[start : start + 8])
        for start in range(0, len(table), 8)
    )
    return "\n".join(lines) + "\n"
