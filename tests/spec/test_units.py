# SPDX-License-Identifier: MIT
"""Quantities are read exactly, or refused with a sentence that says what to write."""

import re
from fractions import Fraction
from functools import partial

import pytest

from gostlab.spec import units
from gostlab.tcpmodel.run_limits import FIRST_WINDOW_PKTS
from tests.asked import refusal


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.parse_rate, "1967mbit", 1_967_000_000),
        (units.parse_rate, "10 Gbit", 10**10),
        (units.parse_rate, "512kbit", 512_000),
        (units.parse_rate, "1957.25mbit", 1_957_250_000),
        (units.parse_rate, "10000000bit", 10**7),
        (units.parse_rate, "1mibit", 2**20),
        (units.parse_rate, "100 Mbit/s", 10**8),
        (units.parse_rate, "1e3mbit", 10**9),
        (units.parse_rate, "1e10bit", 10**10),
        (units.parse_rate, "12mbits", 12_000_000),
        (units.parse_seconds, "84ms", Fraction(84, 1000)),
        (units.parse_seconds, "30s", 30),
        (units.parse_seconds, "5us", Fraction(5, 10**6)),
        (units.parse_seconds, "0us", 0),
        (units.parse_seconds, "82.37 ms", Fraction(8237, 100_000)),
        (units.parse_seconds, "2min", 120),
        (units.parse_seconds, "5µs", Fraction(5, 10**6)),
        (units.parse_share, "0.1%", Fraction(1, 1000)),
        (units.parse_share, "100 %", 1),
        (units.parse_share, "0%", 0),
        (units.parse_size, "6MiB", 6 * 2**20),
        (units.parse_size, "150kB", 150_000),
    ],
)
def test_quantities_are_exact_and_in_tcs_units(read, text: str, value: Fraction) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("text", "rate_bps", "rtt_s", "packets"),
    [
        ("1bdp", 1_967_000_000, Fraction(168, 1000), 27538),
        ("0.5bdp", 1_967_000_000, Fraction(168, 1000), 13769),
        ("100pkts", 1, 1, 100),
        ("150kB", 1, 1, 100),
        ("0.001bdp", 10**6, Fraction(1, 1000), 1),  # never less than a packet
        # a whole one has room for a first window
        ("1bdp", 10**7, 0, FIRST_WINDOW_PKTS),
        ("1bdp", 10**7, Fraction(1, 1000), FIRST_WINDOW_PKTS),
        # what the bottleneck sends in a time
        ("300ms", 10**8, Fraction(1, 10), 2500),
        ("12us", 10**9, Fraction(1, 10), 1),
        ("1us", 10**6, Fraction(1, 10), 1),
        ("2 s", 12_000, Fraction(1, 10), 2),
    ],
)
def test_a_buffer_is_so_many_packets(
    text: str, rate_bps: int, rtt_s: Fraction, packets: int
) -> None:
    buffer = units.parse_buffer(text)
    assert buffer.packets(rate_bps, Fraction(rtt_s), 1500) == packets
    assert buffer.needs_rate == (text not in ("100pkts", "150kB"))


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (units.parse_rate, "100", "no unit (write 100mbit)"),
        (units.parse_rate, "fast", "not a number with a unit (like 100mbit)"),
        (units.parse_rate, "-5mbit", "negative (write something like 100mbit)"),
        (units.parse_rate, "0mbit", "outside 1kbit to 1tbit"),
        (units.parse_rate, "1e400mbit", "an exponent beyond any quantity"),
        (units.parse_rate, "10,5mbit", "a comma in a number (write 10.5mbit"),
        (units.parse_rate, "12parsecs", 'unknown unit "parsecs" (write it like'),
        (units.parse_rate, "100mbps", "tc reads bps as bytes per second and most"),
        (units.parse_seconds, "84", "no unit (write 84ms, or us, s)"),
        (partial(units.parse_seconds, usual="s"), "20", "no unit (write 20s, or us, ms)"),
        (units.parse_seconds, "-84ms", "negative (write something like 84ms)"),
        (units.parse_seconds, "84 fortnights", 'unknown unit "fortnights" (one'),
        (units.parse_share, "101%", "more than 100%"),
        (units.parse_share, "-1%", "negative (write something like 0.1%)"),
        (units.parse_share, "0.1", "no % (write 0.1% if that is meant)"),
        (units.parse_share, "1.5%%", "not a number with % (like 1.5%)"),
        (units.parse_size, "6", "no unit (write 6kB, or B, MiB)"),
        (units.parse_buffer, "1", "no unit (write 1bdp, or pkts, kB, ms)"),
        (units.parse_buffer, "1.5pkts", "not a whole number of packets up to a"),
        *((units.parse_buffer, text, "") for text in ("0ms", "101s", "3 fortnights")),
        (units.parse_buffer, "0bdp", "a queue of nothing passes nothing (write 1pkts"),
    ],
)
def test_what_is_not_clear_is_refused_with_advice(read, text: str, message: str) -> None:
    assert message in refusal(lambda: read(text), units.UnitError)


@pytest.mark.parametrize(
    "text",
    ["1" * 400 + "mbit", "9e99mbit", "1e-99ms", "\x00\x1b[31m", "", "nan", "inf mbit", "٣mbit"],
)
def test_nothing_but_a_unit_error_comes_out_of_nonsense(text: str) -> None:
    for read in (
        units.parse_rate,
        units.parse_seconds,
        units.parse_share,
        units.parse_size,
        units.parse_buffer,
    ):
        try:
            read(text)
        except units.UnitError as refused:
            assert str(refused).isprintable()
            assert len(str(refused)) < 200


def test_quantities_are_shown_for_people() -> None:
    assert units.show_rate(1_967_000_000) == "1.967 Gbit/s"
    assert units.show_rate(None) == "no rate limit"
    assert units.show_time(0.168) == "168 ms"
    assert units.show_time(0) == "0 ns"
    assert units.show_size(6 * 2**20) == "6 MiB"
    assert units.show_share(0.001364) == "0.1364%"
    assert str(units.parse_buffer("0.01 bdp")) == "0.01bdp"
    assert str(units.parse_buffer("300ms")) == "300 ms"


@pytest.mark.parametrize(
    ("read", "pattern", "texts"),
    [
        (units.parse_rate, units.RATE_PATTERN, "100mbit,10 Gbit,512kbit/s,1.5Mbits,1e3kbit"),
        (units.parse_seconds, units.TIME_PATTERN, "84ms,30s,5us,2min,.5 s"),
        (units.parse_share, units.SHARE_PATTERN, "0.1%,100 %"),
        (units.parse_size, units.SIZE_PATTERN, "6MiB,150kB,1 B"),
        (units.parse_buffer, units.BUFFER_PATTERN, "1bdp,2.5 BDP,100pkts,150kB,300ms"),
    ],
)
def test_an_editors_pattern_takes_what_the_reader_takes(read, pattern, texts: str) -> None:
    for text in texts.split(","):
        read(text)
        assert re.search(pattern, text), text
    for text in ("100", "fast", "10 furlongs", "-1", "1,5mbit"):
        assert not re.search(pattern, text), text
        with pytest.raises(units.UnitError):
            read(text)
