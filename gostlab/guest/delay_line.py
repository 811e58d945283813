"""Define the delay line: the kernel's network emulator, netem, with delay, jitter and loss.

It also reorders, duplicates and corrupts packets, and lets them leave in slots. A bottleneck may be
a netem, too, which then has rate and buffer in one.
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
from gostlab.spec.path_spec import LossSpec, ReorderSpec, ShareSpec, SlotSpec
from gostlab.tcpmodel.run_limits import DELAY_LIMIT_PKTS

# A rate on the delay line makes netem send in the order of arrival, despite the jitter: this rate
# is so high that it has no other effect.
ORDERING_RATE_BPS = 10_000_000_000
# netem's probabilities are 32-bit fractions; tc prints them with limited digits.
LOSS_TOLERANCE = 1e-4
DELAY_TOLERANCE_MS = 0.001
# What netem has after a change to none: without a gap it does not reorder.
NO_REORDER = (0.0, 0.0, 0)
NO_SLOT = (0.0, 0.0, 0, 0)


@dataclass(frozen=True)
class Netem(Qdisc):
    """One netem qdisc, as requested or as read back. `None`: not set."""

    limit_pkts: int
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: tuple[float, ...] = ()  # (p,) | (p, r, 1-h, 1-k) | (p13, p31, p32, p23, p14), each 0..1
    rate_bps: int | None = None
    seed: int | None = None
    # Delay distribution, which the kernel does not report.
    distribution: tuple[int, ...] | None = None
    every_pkts: int | None = None  # exactly every n-th packet is lost, by a filter before the qdisc
    ecn: bool = False  # losses become marks, on packets that can be marked
    loss_correlation: float | None = None
    # (share, correlation): a share of 0 replaces one that was set before
    duplicate: tuple[float, float] | None = None
    corrupt: tuple[float, float] | None = None
    reorder: tuple[float, float, int] | None = None  # share, correlation, gap in packets
    # Shortest and longest time, or mean and jitter, ms; most packets and bytes, 0: any number.
    slot: tuple[float, float, int, int] | None = None
    # Distribution of the time between slots, which the kernel does not report.
    slot_distribution: tuple[int, ...] | None = None

    qdisc_kind = "netem"
    # Tolerances are the kernel's resolution: 1 µs, 8 bit/s, 2^-32.
    compared = (
        OptionComparison("limit_pkts", "limit", "packets"),
        OptionComparison("delay_ms", "delay", "ms", abs_tol=DELAY_TOLERANCE_MS),
        OptionComparison("jitter_ms", "jitter", "ms", abs_tol=DELAY_TOLERANCE_MS),
        OptionComparison("loss", "loss", rel_tol=LOSS_TOLERANCE, abs_tol=1e-9),
        OptionComparison("ecn", "ecn"),
        OptionComparison("rate_bps", "rate", "bit/s", abs_tol=RATE_TOLERANCE_BPS),
        OptionComparison("seed", "seed"),
        OptionComparison("loss_correlation", "loss correlation", abs_tol=LOSS_TOLERANCE),
        OptionComparison("duplicate", "duplicate", rel_tol=LOSS_TOLERANCE, abs_tol=1e-9),
        OptionComparison("corrupt", "corrupt", rel_tol=LOSS_TOLERANCE, abs_tol=1e-9),
        OptionComparison("reorder", "reorder", rel_tol=LOSS_TOLERANCE, abs_tol=1e-9),
        OptionComparison("slot", "slot", rel_tol=LOSS_TOLERANCE, abs_tol=DELAY_TOLERANCE_MS),
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
            options += ["loss", "random", percent(self.loss[0])]
            if self.loss_correlation:
                options.append(percent(self.loss_correlation))
        elif self.loss:
            model = "gemodel" if len(self.loss) == 4 else "state"
            options += ["loss", model, *map(percent, self.loss)]
        if self.ecn:
            options.append("ecn")
        for name, share in (("duplicate", self.duplicate), ("corrupt", self.corrupt)):
            if share is not None:
                options += [name, percent(share[0])]
                options += [percent(share[1])] if share[1] else []
        if self.reorder is not None and self.reorder[0]:
            reordered, correlation, gap = self.reorder
            options += ["reorder", percent(reordered), percent(correlation), "gap", str(gap)]
        if self.slot is not None:
            options += self._slot_options(self.slot)
        if self.rate_bps is not None:
            options += ["rate", f"{self.rate_bps}bit"]
        if self.seed is not None:
            options += ["seed", str(self.seed)]
        return options

    def _slot_options(self, slot: tuple[float, float, int, int]) -> list[str]:
        first_ms, second_ms, pkts, size_bytes = slot
        times = [f"{first_ms:.6f}ms", f"{second_ms:.6f}ms"]
        if self.slot_distribution:
            times = ["distribution", table_name(self.slot_distribution), *times]
        limits = ["packets", str(pkts)] if pkts else []
        return ["slot", *times, *limits, *(["bytes", str(size_bytes)] if size_bytes else [])]

    @property
    def tables(self) -> list[tuple[int, ...]]:
        """Return the tables that tc must read from files."""
        return [table for table in (self.distribution, self.slot_distribution) if table]

    def installed(self, options: TcOptions) -> Netem:
        """Parse tc's JSON: seconds and shares for delay and loss, bytes per second for the rate.

        What was not requested is not compared where netem reports a zero for it.
        """
        delay = options.get("delay", {})
        rate = options.get("rate", {}).get("rate")
        loss: tuple[float, ...] = ()
        if "loss-random" in options:
            loss = (float(options["loss-random"]["loss"]),)
        elif "loss-gemodel" in options:
            model = options["loss-gemodel"]
            loss = tuple(float(model[key]) for key in ("p", "r", "1-h", "1-k"))
        elif "loss-state" in options:
            model = options["loss-state"]
            loss = tuple(float(model[key]) for key in ("p13", "p31", "p32", "p23", "p14"))
        shares = {
            name: (float(options[name][name]), float(options[name]["correlation"]))
            if name in options
            else (0.0, 0.0)
            for name in ("duplicate", "corrupt", "reorder")
        }
        gap = int(options.get("gap", 0))
        reorder = (*shares["reorder"], gap) if gap else NO_REORDER if self.reorder else None
        no_slot = NO_SLOT if self.slot else None
        return Netem(
            limit_pkts=int(options["limit"]),
            delay_ms=float(delay.get("delay", 0)) * 1000,
            jitter_ms=float(delay.get("jitter", 0)) * 1000,
            loss=loss,
            rate_bps=int(rate) * 8 if rate else None,
            seed=options.get("seed"),
            ecn=bool(options.get("ecn")),
            loss_correlation=options.get("loss-random", {}).get("correlation") or None,
            duplicate=shares["duplicate"] if any(shares["duplicate"]) or self.duplicate else None,
            corrupt=shares["corrupt"] if any(shares["corrupt"]) or self.corrupt else None,
            reorder=reorder,
            slot=parse_slot(options["slot"]) if "slot" in options else no_slot,
        )


def percent(share: float) -> str:
    """Return a share as tc takes it."""
    return f"{share * 100:.8f}%"


def parse_slot(options: TcOptions) -> tuple[float, float, int, int]:
    """Return times in ms, packets and bytes of tc's JSON of slots, which has seconds."""
    names = ("distribution", "jitter") if "distribution" in options else ("min-delay", "max-delay")
    first_ms, second_ms = (float(options[name]) * 1000 for name in names)
    return first_ms, second_ms, int(options["packets"]), int(options["bytes"])


def build_delay_line(direction: ShapedDirection, seed: int) -> Netem:
    """Return a delay line: delay, jitter, loss, seeded."""
    loss, jitter_ms = direction.loss, direction.jitter_ms
    return Netem(
        limit_pkts=DELAY_LIMIT_PKTS,
        delay_ms=direction.delay_ms,
        jitter_ms=jitter_ms,
        loss=loss_args(loss),
        seed=seed,
        rate_bps=ORDERING_RATE_BPS if direction.ordered and jitter_ms else None,
        distribution=(direction.distribution or None) if jitter_ms else None,
        every_pkts=loss.packets,
        # netem accepts ecn only together with a loss
        ecn=direction.ecn == "losses" and bool(loss_args(loss)),
        loss_correlation=loss.correlation or None,
        duplicate=share_args(direction.duplicate),
        corrupt=share_args(direction.corrupt),
        reorder=reorder_args(direction.reorder),
        slot=slot_args(direction.slot),
        slot_distribution=direction.slot.distribution if direction.slot else None,
    )


def share_args(share: ShareSpec | None) -> tuple[float, float] | None:
    return None if share is None else (share.share, share.correlation)


def reorder_args(reorder: ReorderSpec | None) -> tuple[float, float, int] | None:
    """Return share, correlation and gap of a reordering; without a share netem takes no gap."""
    if reorder is None:
        return None
    return reorder.share, reorder.correlation, reorder.distance if reorder.share else 0


def slot_args(slot: SlotSpec | None) -> tuple[float, float, int, int] | None:
    if slot is None:
        return None
    times_ms = (slot.min_ms, slot.max_ms)
    if slot.delay_ms is not None:
        times_ms = (slot.delay_ms, slot.jitter_ms or 0.0)
    return (*times_ms, slot.packets or 0, slot.bytes or 0)


def loss_args(loss: LossSpec) -> tuple[float, ...]:
    """Return the numbers of netem's loss models in tc's order; () if netem loses nothing."""
    if loss.model == "periodic":
        return ()
    if loss.model == "random":
        return (loss.p,) if loss.p else ()
    if loss.model == "state":
        return tuple(value or 0.0 for value in (loss.p, loss.r, loss.p32, loss.p23, loss.p14))
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
