"""Quantities are read exactly, or refused with a sentence that says what to write."""

import re
from fractions import Fraction

import pytest

from gostlab.describe.file import units
from gostlab.describe.physics.limits import FIRST_WINDOW_PKTS


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("1967mbit", 1_967_000_000),
        ("10 Gbit", 10**10),
        ("512kbit", 512_000),
        ("1957.25mbit", 1_957_250_000),
        ("10000000bit", 10**7),
        ("1mibit", 2**20),
        ("100 Mbit/s", 10**8),
        ("1e3mbit", 10**9),
    ],
)
def test_rates_are_read_as_tc_reads_them(text: str, bps: int) -> None:
    assert units.rate(text) == bps


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("84ms", Fraction(84, 1000)),
        ("30s", Fraction(30)),
        ("5us", Fraction(5, 10**6)),
        ("0us", Fraction(0)),
        ("82.37 ms", Fraction(8237, 100_000)),
        ("2min", Fraction(120)),
        ("5µs", Fraction(5, 10**6)),
    ],
)
def test_times_are_exact(text: str, seconds: Fraction) -> None:
    assert units.seconds(text) == seconds


def test_shares_are_exact_percentages() -> None:
    assert units.share("0.1%") == Fraction(1, 1000)
    assert units.share("100 %") == 1
    assert units.share("0%") == 0


def test_sizes_know_decimal_and_binary_units() -> None:
    assert units.size("6MiB") == 6 * 2**20
    assert units.size("150kB") == 150_000


def test_a_bdp_is_rate_times_round_trip_in_packets() -> None:
    assert units.buffer("1bdp").packets(1_967_000_000, Fraction(168, 1000), 1500) == 27538
    assert units.buffer("0.5bdp").packets(1_967_000_000, Fraction(168, 1000), 1500) == 13769
    assert units.buffer("100pkts").packets(1, Fraction(1), 1500) == 100
    assert units.buffer("150kB").packets(1, Fraction(1), 1500) == 100


def test_a_buffer_is_never_smaller_than_a_packet() -> None:
    assert units.buffer("0.001bdp").packets(10**6, Fraction(1, 1000), 1500) == 1


def test_a_whole_bdp_has_room_for_a_first_window() -> None:
    for rtt_s in (Fraction(0), Fraction(1, 1000)):
        assert units.buffer("1bdp").packets(10**7, rtt_s, 1500) == FIRST_WINDOW_PKTS


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (units.rate, "100", 'rate "100": no unit (write 100mbit)'),
        (units.rate, "fast", 'rate "fast": not a number with a unit (like 100mbit)'),
        (units.rate, "-5mbit", 'rate "-5mbit": negative (write something like 100mbit)'),
        (units.rate, "0mbit", 'rate "0mbit": outside 1kbit to 1tbit'),
        (units.rate, "12mbits", None),
        (units.rate, "1e400mbit", 'rate "1e400mbit": an exponent beyond any quantity'),
        (units.rate, "10,5mbit", 'rate "10,5mbit": a comma in a number (write 10.5mbit'),
        (units.rate, "12parsecs", 'rate "12parsecs": unknown unit "parsecs" (write it like'),
        (units.rate, "100mbps", 'rate "100mbps": tc reads bps as bytes per second and most'),
        (units.seconds, "84", 'time "84": no unit (write 84ms, or us, s)'),
        (units.seconds, "-84ms", 'time "-84ms": negative (write something like 84ms)'),
        (units.seconds, "84 fortnights", 'time "84 fortnights": unknown unit "fortnights" (one'),
        (units.share, "101%", 'share "101%": more than 100%'),
        (units.share, "-1%", 'share "-1%": negative (write something like 0.1%)'),
        (units.share, "0.1", 'share "0.1": no % (write 0.1% if that is meant)'),
        (units.share, "1.5%%", 'share "1.5%%": not a number with % (like 1.5%)'),
        (units.size, "6", 'size "6": no unit (write 6kB, or B, MiB)'),
        (units.buffer, "1", 'buffer "1": no unit (write 1bdp, or pkts, kB, ms)'),
        (units.buffer, "1.5pkts", 'buffer "1.5pkts": not a whole number of packets up to a'),
        (units.buffer, "0bdp", 'buffer "0bdp": a queue of nothing passes nothing (write 1pkts'),
    ],
)
def test_what_is_not_clear_is_refused_with_advice(read, text: str, message: str | None) -> None:
    if message is None:
        assert read(text)
        return
    with pytest.raises(units.UnitError) as refused:
        read(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["1" * 400 + "mbit", "9e99mbit", "1e-99ms", "\x00\x1b[31m", "", "nan", "inf mbit", "٣mbit"],
)
def test_nothing_but_a_unit_error_comes_out_of_nonsense(text: str) -> None:
    for read in (units.rate, units.seconds, units.share, units.size, units.buffer):
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
    assert str(units.buffer("0.01 bdp")) == "0.01bdp"


@pytest.mark.parametrize(("usual", "advice"), [("ms", "20ms, or us, s"), ("s", "20s, or us, ms")])
def test_a_time_without_a_unit_is_advised_what_is_meant_there(usual: str, advice: str) -> None:
    with pytest.raises(units.UnitError) as refused:
        units.seconds("20", usual)
    assert str(refused.value) == f'time "20": no unit (write {advice})'


@pytest.mark.parametrize(
    ("text", "rate_bps", "packets"),
    [("300ms", 10**8, 2500), ("12us", 10**9, 1), ("1us", 10**6, 1), ("2 s", 12_000, 2)],
)
def test_a_buffer_of_a_time_is_what_the_bottleneck_sends_in_it(
    text: str, rate_bps: int, packets: int
) -> None:
    buffer = units.buffer(text)
    assert buffer.needs_rate
    assert buffer.packets(rate_bps, Fraction(1, 10), 1500) == packets


def test_a_buffer_of_a_time_is_shown_as_one() -> None:
    assert str(units.buffer("300ms")) == "300 ms"


@pytest.mark.parametrize("text", ["0ms", "101s", "3 fortnights"])
def test_a_buffer_of_no_time_or_of_too_much_is_refused(text: str) -> None:
    with pytest.raises(units.UnitError):
        units.buffer(text)


@pytest.mark.parametrize(
    ("read", "pattern", "texts"),
    [
        (
            units.rate,
            units.RATE_PATTERN,
            ["100mbit", "10 Gbit", "512kbit/s", "1.5Mbits", "1e3kbit"],
        ),
        (units.seconds, units.TIME_PATTERN, ["84ms", "30s", "5us", "2min", ".5 s"]),
        (units.share, units.SHARE_PATTERN, ["0.1%", "100 %"]),
        (units.size, units.SIZE_PATTERN, ["6MiB", "150kB", "1 B"]),
        (units.buffer, units.BUFFER_PATTERN, ["1bdp", "2.5 BDP", "100pkts", "150kB", "300ms"]),
    ],
)
def test_an_editors_pattern_takes_what_the_reader_takes(read, pattern, texts: list[str]) -> None:
    for text in texts:
        read(text)
        assert re.search(pattern, text), text
    for text in ("100", "fast", "10 furlongs", "-1", "1,5mbit"):
        assert not re.search(pattern, text), text
        with pytest.raises(units.UnitError):
            read(text)
