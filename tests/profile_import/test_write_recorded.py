# SPDX-License-Identifier: MIT
"""A recording is what ping said, and its profile replays it.

Random sequences are seeded: a bound that holds once holds every time. Each is stated with the
probability that a correct fit would miss it with another seed.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from scipy.stats import ks_2samp

from gostlab.profile_import import path_estimator
from gostlab.profile_import.ping_parser import EchoReply, Pings, parse_ping
from gostlab.profile_import.ping_runner import explain_no_answer
from gostlab.profile_import.record_cli import add_arguments, run_record
from gostlab.profile_import.write_recorded import RecordingOptions, write_recorded
from gostlab.spec.compatible_json import to_json
from gostlab.spec.path_spec import NO_LOSS, LossSpec, random_loss
from gostlab.spec.profile import Profile, compile_path, load_profile
from gostlab.spec.trace import changes_of
from gostlab.spec.yaml_source import BadInput
from tests.asked import refusal
from tests.install.programs import program
from tests.install.programs import script as program_of

CHECKOUT = Path(__file__).resolve().parents[2]

# iputils 20221126, `ping -n -D -O -c 6 -i 0.2`: 3 lost, 4 twice, 5 answered after 6.
MIXED = """PING 10.0.4.2 (10.0.4.2) 56(84) bytes of data.
[1700000000.040312] 64 bytes from 10.0.4.2: icmp_seq=1 ttl=62 time=40.3 ms
[1700000000.241011] 64 bytes from 10.0.4.2: icmp_seq=2 ttl=62 time=41.0 ms
[1700000000.600100] no answer yet for icmp_seq=3
[1700000000.639000] 64 bytes from 10.0.4.2: icmp_seq=4 ttl=62 time=38.9 ms
[1700000000.649000] 64 bytes from 10.0.4.2: icmp_seq=4 ttl=62 time=48.9 ms (DUP!)
[1700000001.000200] no answer yet for icmp_seq=5
[1700000001.039000] 64 bytes from 10.0.4.2: icmp_seq=6 ttl=62 time=38.8 ms
[1700000001.045000] 64 bytes from 10.0.4.2: icmp_seq=5 ttl=62 time=244 ms

--- 10.0.4.2 ping statistics ---
6 packets transmitted, 5 received, +1 duplicates, 16.6667% packet loss, time 1001ms
rtt min/avg/max/mdev = 38.800/80.600/244.000/81.702 ms, pipe 2
"""
UNREACHABLE = """PING 10.0.9.9 (10.0.9.9) 56(84) bytes of data.
From 10.0.9.1 icmp_seq=1 Destination Host Unreachable
From 10.0.9.1 icmp_seq=2 Destination Host Unreachable

--- 10.0.9.9 ping statistics ---
2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 1016ms
pipe 2
"""
SIX = """PING ::1(::1) 56 data bytes
64 bytes from ::1: icmp_seq=1 ttl=64 time=0.042 ms
64 bytes from ::1: icmp_seq=2 ttl=64 time=0.050 ms

--- ::1 ping statistics ---
2 packets transmitted, 2 received, 0% packet loss, time 1009ms
rtt min/avg/max/mdev = 0.042/0.046/0.050/0.004 ms
"""
NAMED = """PING example.org (192.0.2.7) 56(84) bytes of data.
64 bytes from host.example.org (192.0.2.7): icmp_seq=1 ttl=55 time=9.05 ms
64 bytes from host.example.org (192.0.2.7): icmp_seq=2 ttl=55 time=9.11 ms (BAD CHECKSUM!)
ping: sendmsg: Network is unreachable

--- example.org ping statistics ---
3 packets transmitted, 1 received, 66% packet loss, time 2010ms
rtt min/avg/max/mdev = 9.050/9.050/9.050/0.000 ms
"""
# The same with LC_ALL=de_DE.UTF-8, and macOS's and BusyBox's.
GERMAN = """PING 127.0.0.1 (127.0.0.1) 56(84) Bytes an Daten.
64 Bytes von 127.0.0.1: icmp_seq=1 ttl=64 Zeit=0,042 ms
"""
DECIMAL_COMMA = "64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0,042 ms\n"
MACOS = "64 bytes from 127.0.0.1: icmp_seq=0 ttl=64 time=0.051 ms\n"
BUSYBOX = """PING 127.0.0.1 (127.0.0.1): 56 data bytes
64 bytes from 127.0.0.1: seq=0 ttl=64 time=0.085 ms

--- 127.0.0.1 ping statistics ---
1 packets transmitted, 1 packets received, 0% packet loss
"""


def test_losses_duplicates_and_late_answers_are_told_by_their_numbers() -> None:
    pings = parse_ping(MIXED)
    assert pings.address == "10.0.4.2"
    assert [answer.seq for answer in pings.answers] == [1, 2, 4, 6, 5]
    assert [answer.rtt_ms for answer in pings.answers] == [40.3, 41.0, 38.9, 38.8, 244.0]
    assert pings.lost == (False, False, True, False, False, False)
    assert (pings.sent, pings.duplicates, pings.errors, pings.overtaken) == (6, 1, 0, 1)
    assert pings.answers[0].at_s == 1700000000.040312
    assert pings.resolution_ms == 1.0


def test_a_router_that_says_no_is_no_answer() -> None:
    pings = parse_ping(UNREACHABLE)
    assert (pings.answers, pings.lost, pings.errors) == ((), (True, True), 2)
    assert explain_no_answer(UNREACHABLE) == "no answer (Destination Host Unreachable)"


def test_ipv6_names_and_damaged_answers_are_understood() -> None:
    assert parse_ping(SIX).answers == (EchoReply(1, 0.042, None), EchoReply(2, 0.05, None))
    assert parse_ping(SIX).address == "::1"
    named = parse_ping(NAMED)
    assert (named.address, named.sent, len(named.answers), named.errors) == ("192.0.2.7", 3, 1, 2)


def test_what_was_on_its_way_when_ping_was_ended_is_not_lost() -> None:
    text = MIXED.replace("6 packets transmitted, 5", "9 packets transmitted, 5")
    assert parse_ping(text).lost[6:] == (True, True, True)
    assert parse_ping(text, interrupted=True).sent == 6
    killed = MIXED.partition("\n--- ")[0]
    assert parse_ping(killed, interrupted=True).sent == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GERMAN, 'ping says "64 Bytes von 127.0.0.1: icmp_seq=1 ttl=6…": not understood'),
        (DECIMAL_COMMA, "not understood"),
        (MACOS, "second answer"),
        (BUSYBOX, "ends before"),
        ("", "ends before"),
        (MIXED.replace("5 received", "4 received"), "counts 4 answers, and shows 5"),
        (MIXED.replace("6 packets", "5 packets"), "counts 5 packets sent, and shows an answer to"),
        (MIXED.replace(" (DUP!)", ""), "second answer"),
        (MIXED.replace(" time=244 ms", ""), "without its time"),
    ],
)
def test_what_is_not_understood_is_refused_and_no_loss(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=re.escape(words)):
        parse_ping(text)


def gilbert(p: float, r: float, count: int, seed: int) -> list[bool]:
    """Which of `count` packets a simple Gilbert channel loses, as netem's loss_gilb_ell does."""
    drawn = random.Random(seed)
    bad, lost = False, []
    for _ in range(count):
        lost.append(bad)
        bad = drawn.random() >= r if bad else drawn.random() < p
    return lost


def test_the_fit_is_the_shares_of_packets_after_which_a_state_was_left() -> None:
    lost = ([False] * 8 + [True] * 2) * 10
    # 80 received packets, after 10 of which one is lost; 19 lost ones that have a next, after 9 of
    # which one is received.
    p, r = 10 / 80, 1 - 10 / 19
    gilbert = LossSpec(model="gemodel", p=p, r=r, one_minus_h=1.0, one_minus_k=0.0)
    assert path_estimator.fit_loss(lost) == gilbert


def test_without_bursts_enough_loss_is_random_with_its_share() -> None:
    nine = ([False] * 8 + [True] * 2) * 9
    assert path_estimator.fit_loss(nine) == random_loss(0.2)
    assert path_estimator.fit_loss([False] * 100) == NO_LOSS
    assert path_estimator.burst_lengths([True, False, True, True]) == [1, 2]


def netem_delays_ms(table: Sequence[int], delay_ms: float, jitter_ms: float) -> list[float]:
    """Every delay that netem makes of a table, as tabledist() in sch_netem.c, in nanoseconds."""
    sigma, mu = round(jitter_ms * 1e6), round(delay_ms * 1e6)
    made = []
    for t in table:
        x = (sigma % 8192) * t
        x += 4096 if x >= 0 else -4096
        made.append((int(x / 8192) + sigma // 8192 * t + mu) / 1e6)
    return made


def most_within(width: float, values: Sequence[float]) -> float:
    """The largest share of values that an interval of this width holds."""
    ordered = sorted(values)
    held = (bisect_right(ordered, value + width) - at for at, value in enumerate(ordered))
    return max(held) / len(ordered)


@pytest.mark.parametrize("shape", ["lognormal", "two heaps", "uniform"])
def test_a_table_of_many_delays_gives_their_distribution_back(shape: str) -> None:
    drawn = random.Random(4)
    draw = {
        "lognormal": lambda: 20 + drawn.lognormvariate(0, 1),
        "two heaps": lambda: drawn.gauss(30, 0.5) if drawn.random() < 0.8 else drawn.gauss(60, 3),
        "uniform": lambda: drawn.uniform(5, 15),
    }[shape]
    delays = [draw() for _ in range(50_000)]

    made = path_estimator.delay_table(delays)

    # Neighbouring quantiles are 1/4096 of the delays apart; rounding moves those within a step of
    # the table, and no others.
    back = netem_delays_ms(made.table, made.delay_ms, made.jitter_ms)
    assert len(made.table) == 4096
    bound = 1 / 4096 + most_within(made.jitter_ms / 8192, delays)
    assert ks_2samp(delays, back).statistic <= bound < 0.003
    assert abs(sum(made.table) / 4096) < 8192 * 0.01
    assert -32768 <= min(made.table) <= max(made.table) <= 32767


def test_what_lies_beyond_four_standard_deviations_is_not_cut_and_nothing_is_below_0() -> None:
    made = path_estimator.delay_table([10.0] * 999 + [500.0])
    back = netem_delays_ms(made.table, made.delay_ms, made.jitter_ms)
    assert max(back) == pytest.approx(500, abs=made.jitter_ms / 8192)
    assert min(back) == pytest.approx(10, abs=made.jitter_ms / 8192)
    made = path_estimator.delay_table([0.001] * 500 + [1000.0] * 500)
    assert min(netem_delays_ms(made.table, made.delay_ms, made.jitter_ms)) >= 0


def pings_of(rtts_ms: Sequence[float | None], interval_s: float = 0.02) -> Pings:
    """A recording of these round trips, None for a lost one."""
    answers = tuple(
        EchoReply(seq, rtt_ms, 1.7e9 + seq * interval_s + rtt_ms / 1000)
        for seq, rtt_ms in enumerate(rtts_ms, 1)
        if rtt_ms is not None
    )
    return Pings("192.0.2.1", len(rtts_ms), answers, 0, 0, 0.01)


DATE = "2026-01-02T03:04:05Z"


def written(out: Path, pings: Pings, rate: str = "100mbit") -> Profile:
    """The profile of a recording, read back."""
    order = RecordingOptions("host.example", "lane", 1000, Fraction(1, 50), True, rate, out)
    return load_profile(str(write_recorded(order, pings, DATE)))


def replayed_rtts_ms(path: dict, rate_bps: int) -> list[float]:
    """The round trips that the emulated path makes, with what the rate takes to send a ping."""
    forward, reverse = path["forward"], path["reverse"]
    table = forward["distribution"] or [0]
    sending_ms = 2 * 1000 * path_estimator.PING_BITS / rate_bps
    delays_ms = netem_delays_ms(table, forward["delay_ms"], forward["jitter_ms"])
    return [delay_ms + reverse["delay_ms"] + sending_ms for delay_ms in delays_ms]


@pytest.mark.parametrize("rate", ["1gbit", "1mbit"])
def test_a_recording_comes_back_through_its_profile(tmp_path: Path, rate: str) -> None:
    drawn = random.Random(5)
    lost = gilbert(0.02, 0.4, 3000, seed=6)
    rtts = [None if gone else 40 + drawn.expovariate(0.5) for gone in lost]
    pings = pings_of(rtts)

    loaded = written(tmp_path, pings, rate)

    json = to_json(compile_path(loaded.forward, loaded.reverse))
    came = sorted(rtt for rtt in rtts if rtt is not None)
    back = sorted(replayed_rtts_ms(json, loaded.forward.rate_bps or 0))
    off = max(abs(one - two) for one, two in zip(came, back, strict=True))
    assert off < json["forward"]["jitter_ms"] / 8192
    fitted = path_estimator.fit_loss(lost)
    assert json["forward"]["loss"]["p"] == pytest.approx(fitted.p, rel=1e-3)
    assert json["forward"]["loss"]["r"] == pytest.approx(fitted.r, rel=1e-3)
    assert json["forward"]["ordered"] is True
    assert json["reverse"]["loss"] == {"model": "random", "p": 0.0}
    assert {file.suffix for file in tmp_path.iterdir()} == {".csv", ".dist", ".yaml"}


FALLING = [*(10 + 0.01 * number for number in range(200)), None, None, 12.0]


def test_a_profile_says_what_was_seen_and_what_nobody_measured(tmp_path: Path) -> None:
    profile = written(tmp_path, pings_of(FALLING))

    seen = profile.recorded
    assert seen is not None
    assert (seen.host, seen.address, seen.date) == ("host.example", "192.0.2.1", DATE)
    assert (seen.sent, seen.answered, seen.lost) == (203, 201, 2)
    assert (seen.bursts, seen.longest_burst) == (1, 2)
    assert (seen.rtt_min_ms, seen.rtt_median_ms, seen.rtt_max_ms) == (10, 11, 12)
    said = " ".join(profile.assumptions)
    for words in ("two directions", "Rate 100mbit", "Buffer one BDP", "2 of 203 packets, in 1 b"):
        assert words in said
    assert profile.forward.loss == random_loss(float(Fraction("0.9852") / 100))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("answered: 201", "answered: 202", "answered and lost are 204 together, sent is 203"),
        ("rtt_min_ms: 10", "rtt_min_ms: 11.5", "are not in order"),
        ("bursts: 1", "burst: 1", "recorded.burst: unknown key (did you mean bursts?)"),
    ],
)
def test_evidence_that_does_not_add_up_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = written(tmp_path, pings_of(FALLING)).path_on_disk
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadInput, match=re.escape(words)):
        load_profile(str(path))


def test_a_path_of_one_delay_has_no_distribution_and_an_old_one_goes(tmp_path: Path) -> None:
    (tmp_path / "lane.dist").write_text("0\n", encoding="ascii")
    assert written(tmp_path, pings_of([25.0] * 150)).forward.distribution is None
    assert not (tmp_path / "lane.dist").exists()


def sent_every(interval_s: float, delays_ms: Sequence[float]) -> Pings:
    """A recording without loss, its answers in the order in which they come."""
    sent = pings_of(delays_ms, interval_s)
    came = sorted(sent.answers, key=lambda answer: answer.at_s or 0.0)
    return replace(sent, answers=tuple(came))


def test_packets_that_are_each_delayed_by_themselves_overtake(tmp_path: Path) -> None:
    drawn = random.Random(7)
    pings = sent_every(0.02, [drawn.uniform(20, 60) for _ in range(2000)])

    profile = written(tmp_path, pings)

    # Counts of hardly dependent events have a variance of at most their mean. Four standard
    # deviations: 1 in 16000.
    chance = path_estimator.overtaken_by_chance(pings, 0.02)
    assert pings.overtaken == pytest.approx(chance, abs=4 * chance**0.5)
    assert profile.forward.ordered is False


@pytest.mark.parametrize("accidents", [0, 1])
def test_a_queue_that_fills_and_empties_keeps_order_though_its_delays_are_far_apart(
    tmp_path: Path, accidents: int
) -> None:
    # The delay falls by 10 ms from one packet to the next, 20 ms later: none overtakes.
    delays = [20.0 + 10 * abs(number % 40 - 20) for number in range(2000)]
    delays[1000] += 100 * accidents
    pings = sent_every(0.02, delays)
    assert (pings.overtaken > 0) is bool(accidents)
    assert path_estimator.overtaken_by_chance(pings, 0.02) > 500

    profile = written(tmp_path, pings)

    assert profile.forward.ordered is True


def test_a_rate_at_which_a_ping_alone_takes_longer_is_refused() -> None:
    said = refusal(lambda: path_estimator.fit_path(pings_of([1.0] * 100), 0.02, 10**6))
    assert "ping alone would take 1.568 ms" in said and "round trip is 1 ms" in said


def test_the_trace_is_the_recording_in_windows(tmp_path: Path) -> None:
    profile = written(tmp_path, pings_of([20.0] * 50 + [None] * 50 + [30.0, None] * 25))

    changes = changes_of(profile.path_on_disk.with_suffix(".csv"))
    assert [(each.at_s, each.loss and each.loss.p) for each in changes] == [
        (0.0, 0.0),
        (1.0, 1.0),
        (2.0, 0.5),
    ]
    # Half the least round trip is the way back's; a ping of 98 bytes takes 7.84 µs at 100 Mbit/s.
    first, lost, last = (each.delay_ms for each in changes)
    assert (first, last) == (pytest.approx(9.99216), pytest.approx(19.99216)) and lost is None
    assert all(each.rate_bps is None for each in changes)


def test_a_short_outage_of_a_recording_is_one_in_its_trace(tmp_path: Path) -> None:
    profile = written(tmp_path, pings_of([20.0] * 120 + [None] * 10 + [20.0] * 120))
    changes = changes_of(profile.path_on_disk.with_suffix(".csv"))
    losses = [(each.at_s, each.loss.p) for each in changes if each.loss is not None]
    assert losses == [(0.0, 0.0), (pytest.approx(2.4), 1.0), (pytest.approx(2.6), 0.0)]


def test_windows_go_by_when_packets_were_sent_and_have_ten_where_a_second_has_fewer() -> None:
    windows = path_estimator.bin_by_window(pings_of([20.0] * 25, interval_s=0.2), 0.2)
    assert list(windows.index) == [0.0, 2.0, 4.0]
    slow = tuple(EchoReply(seq, 10.0, 100 + seq * 0.04) for seq in range(1, 101))
    windows = path_estimator.bin_by_window(Pings(None, 100, slow, 0, 0, 0.1), 0.02)
    assert list(windows.index) == [0.0, 1.0, 2.0, 3.0]


PING = """#!/bin/sh
case "$*" in
    -V) echo "ping from iputils 20221126"; exit 0;;
    -h) echo "  -D  print timestamps"; exit 2;;
    *"-w 10"*) echo "{reach}"; exit 0;;
esac
{script}
"""
ANSWERED = "64 bytes from 192.0.2.1: icmp_seq=1 ttl=62 time=40.3 ms"
SEQUENCE = """echo "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."
seq 1 {answers} | sed 's/.*/64 bytes from 192.0.2.1: icmp_seq=& ttl=62 time=4&.5 ms/'
{after}
echo "{sent} packets transmitted, {answers} received, 0% packet loss, time 1ms"
"""


def record(*words: object) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run_record(parser.parse_args(list(map(str, words))))


@pytest.fixture
def pinging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a ping on PATH that runs a script."""

    def put(script: str, reach: str = ANSWERED) -> None:
        ping = program_of(tmp_path / "bin/ping", PING.format(reach=reach, script=script))
        monkeypatch.setenv("PATH", f"{ping.parent}:{os.environ['PATH']}")

    return put


def test_the_verb_writes_a_profile_and_says_where(
    tmp_path: Path, pinging: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    pinging(SEQUENCE.format(answers=150, sent=150, after=""))
    words = ("host.Example", "--out", tmp_path)
    assert record(*words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "host-example.yaml")
    assert load_profile(str(tmp_path / "host-example.yaml")).forward.distribution is not None
    with pytest.raises(BadInput, match=r"host-example\.yaml exists already"):
        record(*words)
    assert record(*words, "--force") == 0


def test_the_default_interval_gives_way_to_what_ping_lets_users_have_and_a_written_one_does_not(
    tmp_path: Path, pinging: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    refuse = (
        'case "$*" in *"-i 0.02"*) echo "ping: cannot flood; minimal interval allowed for user is'
        ' 200ms"; exit 2;; esac\n'
    )
    pinging(refuse + SEQUENCE.format(answers=150, sent=150, after=""))
    assert record("host", "--out", str(tmp_path)) == 0
    assert "every 200 ms: sending every 200ms" in capsys.readouterr().err
    recorded = load_profile(str(tmp_path / "host.yaml")).recorded
    assert recorded is not None and recorded.interval_s == Fraction(1, 5)
    with pytest.raises(BadInput, match=r"--interval 20ms: .* only root"):
        record("host", "--out", str(tmp_path), "--interval", "20ms", "--force")


@pytest.mark.parametrize(
    ("reach", "script", "message"),
    [
        ("ping: host: Name or service not known", "", "Name or service not known"),
        ("ping: connect: Network is unreachable", "", "Network is unreachable"),
        ("PING host (192.0.2.1) 56(84) bytes of data.", "", "no answer to any ping"),
        ("From 10.0.0.1 icmp_seq=1 Time to live exceeded", "", "no answer (Time to live exceeded)"),
        (ANSWERED, "echo '1000 packets transmitted, 0 received'", "no answer to any ping"),
        (ANSWERED, SEQUENCE.format(answers=99, sent=1000, after=""), "99 of 1000 packets"),
    ],
)
def test_what_goes_wrong_is_said_of_the_host_and_leaves_no_file(
    tmp_path: Path, pinging: Callable[..., None], reach: str, script: str, message: str
) -> None:
    pinging(script, reach)
    with pytest.raises(BadInput, match=re.escape(f"host: {message}")):
        record("host", "--out", str(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["bin"]


def test_a_missing_or_other_ping_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="no ping on this machine: install iputils-ping"):
        record("host", "--out", str(tmp_path))
    program(tmp_path / "ping", "BusyBox v1.35")
    with pytest.raises(BadInput, match="this machine's ping is not iputils'"):
        record("host", "--out", str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "status", "words"),
    [
        (150, 0, "interrupted after 150 answers, enough for a profile: saved"),
        (60, 130, "interrupted after 60 answers, fewer than the 100 of a profile: not saved"),
    ],
)
def test_ctrl_c_keeps_what_is_enough(
    tmp_path: Path, pinging: Callable[..., None], answers: int, status: int, words: str
) -> None:
    # Like ping: at Ctrl-C it says its counts.
    wait = (
        f'touch {tmp_path}/waiting; trap "echo; echo {answers + 3} packets transmitted, {answers}'
        ' received; exit 0" INT; while :; do sleep 0.05; done'
    )
    pinging(SEQUENCE.format(answers=answers, sent=0, after=wait))
    process = subprocess.Popen(
        # A job that a script put into the background ignores SIGINT, and so would its children.
        [
            *("/usr/bin/env", "--default-signal=INT", sys.executable, "-m", "gostlab"),
            *("profile", "record", "host", "--out", str(tmp_path)),
        ],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "waiting").exists():
        assert process.poll() is None
        time.sleep(0.05)
    while len(os.listdir(f"/proc/{process.pid}/task")) < 2:  # the thread that reads has begun
        time.sleep(0.05)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to ping, too
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert words in said
    assert (tmp_path / "host.yaml").exists() is (status == 0)
    if status == 0:
        recorded = load_profile(str(tmp_path / "host.yaml")).recorded
        assert recorded is not None and (recorded.sent, recorded.lost) == (150, 0)
