"""Every trap is seen, with the number that decides, and only where it is one."""

import math
import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gostlab.describe.checks import worst
from gostlab.describe.guards import Guard, checks, guards, overtaken_share, survey
from gostlab.describe.resolve.run_description import RunDescription
from tests.asked import run_of

one = partial(run_of, buffers="bdp", duration="30s")
debians = partial(one, profile="la-hamina", buffers="debian")  # as the thesis had it


def found(run: RunDescription) -> dict[str, Guard]:
    return {guard.name: guard for guard in guards(run)}


def verdicts(run: RunDescription) -> dict[str, str]:
    return {check.name: check.verdict for check in checks(run)}


def test_a_plain_run_has_none() -> None:
    assert guards(one()) == ()
    assert checks(one()) == []


def test_a_delay_line_that_cannot_hold_what_is_in_flight_is_an_error() -> None:
    # 100 Gbit/s for 200 ms are 2.5 GB in each direction, of which 1 GiB of buffers lets 0.7 million
    # packets come.
    assert "delay_line" not in found(one(rate="100gbit", delay="200ms", buffer="100pkts"))
    guard = found(one(rate="100gbit", delay="200ms", buffer="100pkts", streams="2"))["delay_line"]
    assert (guard.level, guard.limit, guard.unit) == ("error", 1_000_000, "packets")
    assert guard.asked == pytest.approx(2 * 2**30 / 1500, abs=1)
    assert "delay_line" not in found(one(rate="100gbit", delay="200ms", buffers="debian"))


def test_jitter_and_changes_count_for_the_delay_line() -> None:
    big = partial(one, rate="100gbit", buffer="100pkts", buffers="system", delay="110ms")
    assert "delay_line" not in found(big())
    jittery = found(big(jitter="20ms"))["delay_line"]
    assert jittery.asked == pytest.approx(1e11 * 0.13 / 12000)
    assert "delay_line" in found(big(changes="[{at: 1s, delay: 130ms}]"))


def test_offloads_with_loss_are_an_error_unless_they_are_what_is_asked() -> None:
    lossy = one(offloads="on", loss="0.1%")
    assert found(lossy)["offloads_loss"].level == "error"
    assert found(replace(lossy, factors={"offloads": "on"}))["offloads_loss"].level == "warning"
    assert "offloads_loss" not in found(one(offloads="off", loss="0.1%"))
    assert "offloads_loss" not in found(one(offloads="auto", loss="0.1%"))
    assert "offloads_loss" in found(one(offloads="on", loss="{model: periodic, packets: 1000}"))
    assert "offloads_loss" in found(one(offloads="on", changes="[{at: 1s, loss: 1%}]"))


def test_losses_of_lumps_may_be_asked_for_and_are_marked_then() -> None:
    run = one(offloads="on", loss="1%", allow="super-packets")

    guard = found(run)["offloads_loss"]
    assert guard.level == "warning" and "allowed" in guard.sentence
    assert verdicts(run)["guard_offloads_loss"] == "degraded"
    assert one(allow="[super-packets]").allow == run.allow


def test_offloads_where_the_queue_decides_are_a_warning_that_degrades() -> None:
    run = debians(offloads="on", streams="16")
    guard = found(run)["offloads_queue"]
    # Sixteen windows of 3 MiB per 168 ms against nine tenths of 1967 Mbit/s.
    assert guard.asked == pytest.approx(16 * 3 * 2**20 * 8 / 0.168, abs=1)
    assert guard.limit == round(0.9 * 1_967_000_000)
    assert verdicts(run)["guard_offloads_queue"] == "degraded"
    assert "offloads_queue" not in found(debians(offloads="on"))


def test_datagrams_want_the_rate_that_they_are_sent_at() -> None:
    flows = "{a: {kind: udp, rate: 10mbit}, b: {kind: udp, rate: 15mbit}}"

    assert found(one(offloads="on", flows=flows))["offloads_queue"].asked == 25_000_000


def test_debians_window_is_named_with_its_rate_and_spoils_nothing() -> None:
    run = debians()
    guard = found(run)["window_limit"]
    assert guard.level == "warning" and guard.asked == 3 * 2**20
    assert "149.8 Mbit/s of 1.967 Gbit/s" in guard.sentence
    assert worst(checks(run)) == "ok"
    sixteen = found(debians(streams="16"))["window_limit"]
    assert "the queue is never full" in sixteen.sentence
    assert "window_limit" not in found(debians(streams="128"))


def test_nobody_knows_the_window_of_the_kernels_own_buffers() -> None:
    assert guards(one(profile="la-hamina", buffers="system")) == ()


def test_bdp_buffers_are_large_enough_for_the_longest_flow() -> None:
    two = {"topology": "dumbbell", "flows": "{flow1: {}, flow2: {rtt: 100ms}}"}
    run = one(profile="li2018", buffer="100pkts", **two)
    assert "window_limit" not in found(run)
    small = [replace(flow, buffers=one(profile="li2018").flows[0].buffers) for flow in run.flows]
    guard = found(replace(run, flows=small))["window_limit"]
    assert "flow2" in guard.sentence and guard.limit == pytest.approx(1e9 * 0.1 / 8 + 150_000)


def test_a_queue_shorter_than_a_first_window_is_a_warning() -> None:
    guard = found(one(buffer="9pkts"))["short_queue"]
    assert (guard.level, guard.asked, guard.limit) == ("warning", 9, 10)
    assert "short_queue" not in found(one(buffer="10pkts"))
    assert "short_queue" not in found(one(rate="10mbit", delay="0.5ms", buffer="1bdp"))


def test_bursts_are_measured_against_a_tenth_of_what_the_path_holds() -> None:
    def udp(delay: str, **more: str) -> RunDescription:
        return one(delay=delay, flows="{flow1: {kind: udp, rate: 10mbit}}", iperf3="3.12", **more)

    # 100 Mbit/s over 8 ms are 67 packets: eight at once are more than a tenth. Over 10 ms they are
    # 83.
    assert found(udp("4ms"))["burst"].limit == pytest.approx(1e8 * 0.008 / 12000 / 10, abs=1e-3)
    assert found(udp("4ms"))["burst"].asked == 8
    assert "burst" not in found(udp("5ms"))
    assert "burst" not in found(one(delay="4ms"))
    assert found(one(delay="4ms", offloads="on"))["burst"].asked == 43


def test_jitter_reorders_from_where_it_spreads_further_than_packets_are_apart() -> None:
    # 100 Mbit/s: a packet each 0.12 ms.
    assert "reordering" not in found(one(jitter="0.06ms"))
    guard = found(one(jitter="0.12ms"))["reordering"]
    assert "over 0.24 ms" in guard.sentence and "12%" in guard.sentence
    assert "reordering" not in found(one(jitter="5ms", ordered="on"))
    assert "reordering" in found(one(changes="[{at: 1s, jitter: 5ms}]"))
    assert worst(checks(one(jitter="5ms"))) == "ok"


def test_only_the_direction_of_the_data_matters_for_reordering() -> None:
    assert "reordering" in found(one(profile="download-150ms", direction="download"))
    assert "reordering" not in found(one(profile="download-150ms", direction="upload"))


@pytest.mark.parametrize("spacing", [1.0, 1.3, 1.9])
def test_where_only_the_next_packet_can_overtake_the_share_is_a_triangle(spacing: float) -> None:
    # Both delays even over 2 jitters, the difference beyond the spacing: (2 - s)^2 / 8.
    assert overtaken_share(spacing) == pytest.approx((2 - spacing) ** 2 / 8, abs=1e-3)


def test_no_packet_overtakes_over_more_than_the_spread() -> None:
    assert overtaken_share(2.0) == overtaken_share(5.0) == 0


def test_dense_packets_are_nearly_all_overtaken() -> None:
    # Many packets within the spread: the product is exp(-x^2 / 4s), its mean over x in 0..2 is
    # sqrt(pi s) / 2.
    assert overtaken_share(0.001) == pytest.approx(1 - math.sqrt(math.pi * 0.001) / 2, abs=0.002)


@pytest.mark.parametrize(
    ("spacing", "table"),
    [(0.3, None), (0.1, None), (0.2, (-8192, -4000, -3000, -100, 0, 200, 3000, 9000))],
)
def test_the_share_is_that_of_packets_sent_on_their_way(
    spacing: float, table: tuple[int, ...] | None
) -> None:
    chance = random.Random(5)
    count = 60_000
    arrivals = [
        number * spacing + (chance.choice(table) / 8192 if table else chance.uniform(-1, 1))
        for number in range(count)
    ]
    overtaken, earliest = 0, math.inf
    for arrival in reversed(arrivals):
        overtaken += arrival > earliest
        earliest = min(earliest, arrival)
    # 4 standard errors of independent draws are 0.008.
    assert overtaken_share(spacing, table) == pytest.approx(overtaken / count, abs=0.01)


def test_a_flow_of_few_round_trips_is_a_warning_that_degrades() -> None:
    assert "few_round_trips" not in found(one(duration="2s"))
    short = one(duration="1s")
    guard = found(short)["few_round_trips"]
    assert (guard.asked, guard.limit) == (1.0, 2.0)
    assert worst(checks(short)) == "degraded"
    two = {"topology": "dumbbell", "flows": "{flow1: {}, flow2: {rtt: 400ms}}"}
    flows = one(profile="li2018", duration="5s", **two)
    assert found(flows)["few_round_trips"].sentence.startswith("flow2 ")
    later = one(duration="3s", changes="[{at: 1s, delay: 100ms, direction: both}]")
    assert "few_round_trips" in found(later)


def test_memory_is_an_error_for_the_sandbox_and_a_warning_for_tcp() -> None:
    small = debians(streams="128", memory="512MiB")
    assert found(small)["memory"].level == "error"
    assert "memory" not in found(replace(small, machine="native"))
    assert "memory" not in found(debians(streams="128"))
    tight = debians(streams="128", tcp_memory="365MiB")
    assert set(found(tight)) == {"tcp_memory"}
    assert (found(tight)["tcp_memory"].level, worst(checks(tight))) == ("warning", "ok")


def test_a_path_without_a_rate_has_the_cpu_for_bottleneck() -> None:
    assert found(one(clock="real", rate="unlimited"))["no_rate"].level == "warning"


def test_a_matrix_is_told_once_with_the_worst_and_how_many() -> None:
    runs = [debians(streams=streams) for streams in ("1", "4", "128", "1")]
    errors, warned = survey(runs)
    assert errors == []
    [warning] = warned
    assert (warning.runs, warning.of, warning.guard) == (3, 4, found(runs[0])["window_limit"])
    assert warning.line.startswith("warning: single, 3 of 4 runs: the 3 MiB of window")


HTTP = "{kind: http, size: 1MB, direction: download}"


def test_any_run_has_sentences_and_finite_numbers() -> None:
    options: dict[str, list[str]] = {
        "offloads": ["on", "off"],
        "loss": ["0%", "1%"],
        "jitter": ["0ms", "20ms"],
        "delay": ["0ms", "1ms", "10s"],
        "rate": ["1kbit", "100gbit"],
        "buffers": ["bdp", "debian", "system"],
        "streams": ["1", "128"],
        "buffer": ["1pkts", "1bdp"],
        "duration": ["1s", "100s"],
        "tcp_memory": ["ample", "1MiB"],
        "memory": ["auto", "128MiB"],
        "flows": ["{flow1: {}}", "{a: {kind: udp, rate: 1mbit}, b: {}}", f"{{a: {HTTP}}}"],
    }
    chance = random.Random(3)
    for _ in range(300):
        asked: dict[str, Any] = {key: chance.choice(words) for key, words in options.items()}
        for guard in guards(one(**asked)):
            assert guard.sentence.isprintable() and guard.level in ("error", "warning")
            numbers = [each for each in (guard.asked, guard.limit) if each is not None]
            assert all(map(math.isfinite, numbers)), guard


def test_many_rates_under_netem_are_warned_of_and_under_a_token_bucket_are_not() -> None:
    many = "[" + ", ".join(f"{{at: {n}s, rate: {5 + n % 2}mbit}}" for n in range(1, 13)) + "]"
    guard = found(one(changes=many))["netem_rates"]
    assert (guard.level, guard.asked) == ("warning", 12)
    assert "bottleneck: tbf" in guard.sentence
    assert "netem_rates" not in found(one(changes=many, bottleneck="tbf"))
    assert "netem_rates" not in found(one(changes="[{at: 1s, rate: 5mbit}]"))
