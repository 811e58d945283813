# SPDX-License-Identifier: MIT
r"""Read quantities as users write them: a number with its unit, strict and exact.

    rate     1967mbit · 10 Gbit · 512kbit/s    kbit = 1000 bit, kibit = 1024 bit, as in tc(8)
    time     84ms · 30s · 5us · 2min
    share    0.1% · 100%
    size     6MiB · 150kB         kB = 1000 bytes, KiB = 1024 (tc itself reads kB as 1024)
    buffer   1bdp · 0.5bdp · 100pkts · 150kB · 300ms (at the bottleneck's rate)

A number without a unit is rejected: 100 may mean bits or megabits. Every reader raises UnitError
with the correction.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from gostlab.tcpmodel.run_limits import FIRST_WINDOW_PKTS

# A number, then its unit. 15 digits on each side exceed any quantity here, and bound the work.
NUMBER = re.compile(
    r"([+-]?)(\d{1,15}(?:\.\d{1,15})?|\.\d{1,15})(?:e([+-]?\d+))?\s*(.*)",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)

RATE_UNITS = {
    "bit": 1,
    **{f"{prefix}bit": 1000**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ibit": 1024**power for power, prefix in enumerate("kmg", 1)},
}
BYTE_RATES = re.compile(r"[kmgt]?i?bps|[kmgt]?i?b/s", re.IGNORECASE)
TIME_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
}
TIME_EXAMPLES = {"us": "5us", "ms": "84ms", "s": "30s"}
SIZE_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
PACKET_UNITS = ("pkts", "pkt", "packets", "packet")


def pattern(*units: str) -> str:
    """Return a regular expression, for editors, of a number with one of these units."""
    number = r"\+?(\d{1,15}(\.\d{1,15})?|\.\d{1,15})([eE][+-]?\d{1,2})?"
    return rf"^\s*{number}\s*({'|'.join(units)})\s*$"


def in_any_case(word: str) -> str:
    """Return a regular expression that matches a word in any case."""
    return "".join(f"[{char}{char.upper()}]" if char.isalpha() else char for char in word)


RATE_PATTERN = pattern(f"({'|'.join(in_any_case(unit) for unit in RATE_UNITS)})[sS]?(/[sS])?")
TIME_PATTERN = pattern(*TIME_UNITS)
_INSTANT = TIME_PATTERN.removeprefix(r"^\s*").removesuffix(r"\s*$")
INTERVAL_PATTERN = rf"^\s*(all|{_INSTANT}\s*\.\.\s*{_INSTANT})\s*$"
SHARE_PATTERN = pattern("%")
SIZE_PATTERN = pattern(*SIZE_UNITS)
BUFFER_PATTERN = pattern(
    in_any_case("bdp"), *map(in_any_case, PACKET_UNITS), *SIZE_UNITS, *TIME_UNITS
)

# Below 1 kbit/s a full packet takes 12 s; above 1 Tbit/s netem's arithmetic is not reliable.
MIN_RATE_BPS, MAX_RATE_BPS = 1000, 10**12
MAX_QUEUE_S = 100


class UnitError(ValueError):
    """Report an unreadable quantity and its correction."""


def quoted(text: str) -> str:
    """Quote a text for one line of a message: printable and of limited length."""
    safe = "".join(char if char.isprintable() else "?" for char in text[:41])
    return f'"{safe[:40]}…"' if len(safe) > 40 else f'"{safe}"'


# 10,5mbit has a comma instead of a point. In a list a comma separates values.
DECIMAL_COMMA = re.compile(r"\s*([+-]?\d+),(\d+\s*[a-zA-Zµμ%]+(?:/s)?)\s*")


def split_number(text: str, example: str, advice: str, what: str = "unit") -> tuple[Fraction, str]:
    """Return a non-negative number and its unit. Raises UnitError, without a unit with `advice`."""
    match = NUMBER.fullmatch(text.strip())
    comma = DECIMAL_COMMA.fullmatch(text)
    if comma:
        raise UnitError(f"a comma in a number (write {'.'.join(comma.groups())})")
    if match is None:
        raise UnitError(f"not a number with a unit (like {example})")
    sign, digits, exponent, unit = match.groups()
    if exponent and len(exponent.lstrip("+-0")) > 2:
        raise UnitError(f"an exponent beyond any quantity (write like {example})")
    number = Fraction(digits) * Fraction(10) ** int(exponent or 0)
    if sign == "-" and number:
        raise UnitError(f"negative (write something like {example})")
    if not unit.strip():
        raise UnitError(f"no {what} (write {text.strip()}{advice})")
    return number, unit.strip()


def in_units(text: str, units: Mapping[str, Fraction | int], example: str, advice: str) -> Fraction:
    """Return a number in one of some units. Raises UnitError, without a unit with `advice`."""
    number, unit = split_number(text, example, advice)
    if unit not in units:
        known = ", ".join(unit_name for unit_name in units if unit_name.isascii())
        raise UnitError(f"unknown unit {quoted(unit)} (one of {known})")
    return number * units[unit]


def parse_rate(text: str) -> int:
    """Return the bits per second of a rate like 1967mbit, 10 Gbit, 512kbit/s. Raises UnitError."""
    number, unit = split_number(text, "100mbit", "mbit")
    normalized = re.sub(r"bits?(/s)?$", "bit", unit.lower())
    if BYTE_RATES.fullmatch(unit):
        raise UnitError(
            "tc reads bps as bytes per second and most people as bits: write bits, like 100mbit"
        )
    if normalized not in RATE_UNITS:
        raise UnitError(f"unknown unit {quoted(unit)} (write it like 100mbit)")
    bps = number * RATE_UNITS[normalized]
    if not MIN_RATE_BPS <= bps <= MAX_RATE_BPS:
        raise UnitError("outside 1kbit to 1tbit")
    return round(bps)


def parse_seconds(text: str, usual: str = "ms") -> Fraction:
    """Return exact seconds of a time like 84ms; `usual` is the unit to advise. Raises UnitError."""
    others = ", ".join(other for other in TIME_EXAMPLES if other != usual)
    time_s = in_units(text, TIME_UNITS, TIME_EXAMPLES[usual], f"{usual}, or {others}")
    if time_s > 10**7:
        raise UnitError("longer than any run")
    return time_s


def parse_share(text: str) -> Fraction:
    """Return the share 0..1 of a percentage like 0.1%, exactly. Raises UnitError."""
    number, unit = split_number(text, "0.1%", "% if that is meant", what="%")
    if unit != "%":
        raise UnitError("not a number with % (like 1.5%)")
    if number > 100:
        raise UnitError("more than 100%")
    return number / 100


def parse_size(text: str) -> int:
    """Return the bytes of a size like 6MiB, 150kB, rounded to a whole byte. Raises UnitError."""
    size_bytes = in_units(text, SIZE_UNITS, "6MiB", "kB, or B, MiB")
    if size_bytes > 2**50:
        raise UnitError("larger than any machine")
    return round(size_bytes)


@dataclass(frozen=True)
class BufferSize:
    """Represent a bottleneck's queue as written: in BDPs, packets, bytes, or as its drain time."""

    amount: Fraction
    unit: str  # bdp | pkts | bytes | s

    def __str__(self) -> str:
        if self.unit == "s":
            return show_time(float(self.amount))
        amount = f"{float(self.amount):.15g}"
        return f"{amount} B" if self.unit == "bytes" else f"{amount}{self.unit}"

    @property
    def needs_rate(self) -> bool:
        """Return whether the number of packets depends on a rate."""
        return self.unit in ("bdp", "s")

    def packets(self, rate_bps: int, rtt_s: Fraction, mtu: int) -> int:
        """Return the size in packets of MTU size, at least one.

        The BDP is rate × RTT / (8 · MTU); a buffer of one BDP or more has room for TCP's initial
        window.
        """
        min_packets = FIRST_WINDOW_PKTS if self.unit == "bdp" and self.amount >= 1 else 1
        exact = {
            "bdp": self.amount * rate_bps * rtt_s / (8 * mtu),
            "s": self.amount * rate_bps / (8 * mtu),
            "bytes": self.amount / mtu,
            "pkts": self.amount,
        }[self.unit]
        return max(min_packets, round(exact))


def parse_buffer(text: str) -> BufferSize:
    """Return a queue's size like 1bdp, 100pkts, 150kB, 300ms. Raises UnitError."""
    number, unit = split_number(text, "1bdp", "bdp, or pkts, kB, ms")
    if not number:
        raise UnitError("a queue of nothing passes nothing (write 1pkts for the smallest)")
    if unit.lower() == "bdp":
        if number > 1000:
            raise UnitError("more than 1000 times the path's BDP")
        return BufferSize(number, "bdp")
    if unit.lower() in PACKET_UNITS:
        if number.denominator != 1 or number > 10**9:
            raise UnitError("not a whole number of packets up to a thousand million")
        return BufferSize(number, "pkts")
    if unit in SIZE_UNITS:
        return BufferSize(Fraction(parse_size(text)), "bytes")
    if unit in TIME_UNITS:
        if number * TIME_UNITS[unit] > MAX_QUEUE_S:
            raise UnitError(f"longer than {MAX_QUEUE_S} s of queue")
        return BufferSize(number * TIME_UNITS[unit], "s")
    raise UnitError(f"unknown unit {quoted(unit)} (one of bdp, pkts, kB, MiB, ms)")


def show_rate(bps: float | None) -> str:
    """Format a rate for people: 1.967 Gbit/s; "no rate limit" for None."""
    if bps is None:
        return "no rate limit"
    return f"{scaled(bps, {'Gbit/s': 1e9, 'Mbit/s': 1e6, 'kbit/s': 1e3, 'bit/s': 1})}"


def show_ms(time_ms: float) -> str:
    """Format milliseconds to a nanosecond, without an exponent or trailing zeros."""
    return f"{time_ms:.6f}".rstrip("0").rstrip(".")


def show_s(time_s: Fraction) -> str:
    """Format a time as a profile writes it."""
    return f"{show_ms(float(time_s * 1000))}ms"


def show_time(time_s: float) -> str:
    """Format a time for people: 168 ms."""
    return scaled(time_s, {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9})


def show_size(size_bytes: float) -> str:
    """Format a size for people: 6 MiB."""
    return scaled(size_bytes, {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1})


def show_share(part: float) -> str:
    """Format a share 0..1 for people, as a percentage of at most four digits: 0.1%."""
    return f"{100 * part:.4g}%"


def scaled(value: float, units: Mapping[str, float]) -> str:
    """Format a value in the largest unit in which it is at least one, with four digits."""
    for unit, factor in units.items():
        if abs(value) >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value / factor:.4g} {unit}" if value else f"0 {unit}"
