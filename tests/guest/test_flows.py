# SPDX-License-Identifier: MIT
"""Several flows, topologies, changes while a load runs, downloads, every ACK: measured in the
sandbox on the virtual clock.

What is exact on the virtual clock is asked exactly; what is random is seeded, so that a bound once
met is met again.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gostlab.install.rootfs import require_root
from gostlab.registry.iperf3_versions import OWN
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.stepped_capacity import SteppedCapacity
from tests.sandboxed import Done, Lab, describe, direction, flow, written

pytestmark = pytest.mark.sandbox

PAYLOAD_SHARE = 1448 / 1514
BACK = direction(rate_bps=20_000_000, delay_ms=20.0)


def test_each_flow_of_a_dumbbell_has_its_own_rtt_start_and_cc(lab: Lab) -> None:
    done = lab.run(
        "{topology: dumbbell, rate: 50mbit, buffer: 3bdp, flows: {one: {cc: bbr, rtt: 20ms, duration: 8s}, "
        "two: {cc: cubic, rtt: 80ms, start: 3s, duration: 4s}}}"
    )

    found = done.flows
    started_s = [found[name]["started_s"] for name in ("one", "two")]
    assert started_s == pytest.approx([0.0, 3.0], abs=0.01)
    # And two round trips for iperf3's own exchange, at a full queue.
    assert found["two"]["ended_s"] == pytest.approx(7.0, abs=1.0)
    # Two frames of 98 bytes take 0.032 ms.
    assert done.checks["idle_rtt_before"]["got"] == pytest.approx(20.032, abs=0.1)
    assert done.checks["idle_rtt_before_two"]["got"] == pytest.approx(80.032, abs=0.1)
    by_flow = {leg["flow"]: leg["cc"] for leg in done.legs}
    assert by_flow == {"one": ["bbr"], "two": ["cubic"]}
    rows = done.lines("sockets.jsonl")
    assert {(row["flow"], row["host"], row["cc"]) for row in rows} == {
        ("one", "s1", "bbr"),
        ("two", "s2", "cubic"),
    }
    together = (found["one"]["bytes"] + found["two"]["bytes"]) * 8
    assert together < 50e6 * 8.5 * PAYLOAD_SHARE


@pytest.mark.parametrize(
    ("late", "more"),
    [
        ("streams: 8", ""),
        ("direction: download", ""),
        ("kind: udp, rate: 1mbit, streams: 2", ""),
        ("streams: 2", ", tunnel: gost+wss"),
        ("streams: 2", ", tunnel: wireguard"),
    ],
)
def test_data_begin_at_the_asked_instant_behind_a_full_queue(
    lab: Lab, late: str, more: str
) -> None:
    done = lab.run(
        "{topology: dumbbell, rate: 5mbit, buffer: 20bdp, duration: 7s, flows: {first: {},"
        f" late: {{{late}, start: 5s, duration: 2s}}}}{more}}}"
    )

    found = done.flows
    assert min(row["backlog_bytes"] for row in done.queue() if 4 < row["t_s"] < 5) > 100_000
    assert found["first"]["data_began_s"] == pytest.approx(0.0, abs=0.01)
    assert done.checks["data_start_first"]["verdict"] == "ok"
    if "udp" in late:
        assert found["late"]["sent_datagrams"] == pytest.approx(1e6 * 2 / 8 / 1448, rel=0.05)
    else:
        assert found["late"]["data_began_s"] == pytest.approx(5.0, abs=0.04)
        assert done.checks["data_start_late"]["verdict"] == "ok"


@pytest.mark.parametrize("first", ["", "connect: at-start"])
def test_a_flow_that_connects_at_its_start_finds_the_queue_in_its_first_round_trip(
    lab: Lab, first: str
) -> None:
    """And its data begin by as much later; its rate is over its data's time."""
    done = lab.run(
        f"{{topology: dumbbell, rate: 10mbit, buffer: 8bdp, duration: 3s, flows: {{first: {{{first}}},"
        " late: {cc: bbr, start: 2s, duration: 1s, connect: at-start}}}"
    )

    late = done.flows["late"]
    seen_ms = [row["min_rtt_ms"] for row in done.lines("sockets.jsonl") if row["cc"] == "bbr"]
    assert next(filter(None, seen_ms)) > 150
    assert late["started_s"] == late["data_began_s"] > 2.4
    assert late["seconds"] == pytest.approx(1.0, abs=0.3) and done.faults == {}
    assert ("data_start_first" in done.checks) == (not first)
    assert "data_start_late" not in done.checks


PART = (
    "topology: dumbbell, rate: 12mbit, loss: 0.1%, duration: 6s, flows: {one: {streams: 2},"
    " two: {start: 2s, duration: 3s}, noise: {kind: udp, rate: 2mbit},"
    " lag: {kind: ping, interval: 100ms}}"
)


@pytest.fixture(scope="module")
def measured_in_part(lab: Lab) -> Callable[[str], Done]:
    """That run through a tunnel, of which two seconds are measured, once for all tests."""
    return cache(lambda tunnel: lab.run(f"{{{PART}, tunnel: {tunnel}, measure: 3.05s..5.05s}}"))


@pytest.mark.parametrize("tunnel", ["direct", "gost+wss", "wireguard"])
def test_a_part_of_the_load_is_measured_by_itself(
    measured_in_part: Callable[[str], Done], tunnel: str
) -> None:
    done = measured_in_part(tunnel)

    found = done.flows
    # The second flow is to stop 50 ms before the part ends.
    for name, seconds in (("one", 2.0), ("two", 1.95), ("noise", 2.0)):
        assert found[name]["seconds"] == seconds
        assert found[name]["bytes"] < found[name]["whole"]["bytes"]
    assert found["noise"]["goodput_bps"] == pytest.approx(2e6, rel=0.1)
    assert found["lag"]["round_trips"]["sent"] == 20
    passed = [row["sent_bytes"] for row in done.queue() if row["t_s"] in (3.05, 5.05)]
    got = sum(found[name]["bytes"] for name in ("one", "two", "noise"))
    assert got == pytest.approx(passed[1] - passed[0], rel=0.12)
    assert 0 < found["one"]["retransmits"] < found["one"]["whole"]["retransmits"]


def test_the_load_of_which_a_part_is_measured_is_the_same_load(
    lab: Lab, measured_in_part: Callable[[str], Done]
) -> None:
    whole, part = lab.run(f"{{{PART}}}"), measured_in_part("direct")

    of_all, of_part = (
        [row for row in done.queue() if row["t_s"] <= 6.0 and row["t_s"] not in (3.05, 5.05)]
        for done in (whole, part)
    )
    assert of_part == of_all  # while it ran: what iperf3 says after it is not
    for name in ("one", "two", "noise"):
        assert part.flows[name]["whole"]["bytes"] == whole.flows[name]["bytes"]


def test_the_edges_of_what_is_measured_are_sampled_between_the_samples(
    measured_in_part: Callable[[str], Done],
) -> None:
    sampled = {row["t_s"] for row in measured_in_part("direct").queue()}
    assert {3.0, 3.05, 3.1, 5.0, 5.05, 5.1} <= sampled


def test_starts_differ_between_repetitions_without_losses_and_one_seed_is_still_one_run(
    lab: Lab,
) -> None:
    plain = written("{topology: dumbbell, rate: 10mbit, duration: 1s, flows: {a: {}, b: {}}}")

    def carried(seed: int, start_spread_s: float) -> list[tuple[str, int, float]]:
        done = lab.run(replace(plain, seed=seed, start_spread_s=start_spread_s))
        return [(name, row["bytes"], row["ended_s"]) for name, row in done.flows.items()]

    one, other = carried(1, 0.02), carried(2, 0.02)
    assert one != other
    assert carried(2, 0.02) == other
    assert carried(1, 0.0) == carried(2, 0.0)


def test_udp_takes_its_rate_for_its_time_and_tcp_gets_the_rest(lab: Lab) -> None:
    done = lab.run(
        "{topology: dumbbell, rate: 50mbit, duration: 6s, flows: {tcp: {cc: cubic}, "
        "udp: {kind: udp, rate: 20mbit, start: 3s, duration: 2s, receiver: 1}}}"
    )

    udp = done.flows["udp"]
    assert udp["sent_datagrams"] == pytest.approx(20e6 * 2 / 8 / 1448, rel=0.02)
    assert udp["goodput_bps"] == pytest.approx(20e6, rel=0.05)
    rows = done.queue()
    alone = next(row for row in rows if row["t_s"] >= 2.5)["sent_pkts"]
    assert alone > 0.9 * 2.5 * 50e6 / 8 / 1514 * 0.8


def test_the_rate_changes_in_place_at_its_instant_and_the_delay_too(lab: Lab) -> None:
    done = lab.run(
        "{cc: bbr, rate: 50mbit, duration: 8s, changes: [{at: 3s, rate: 20mbit}, {at: 6s, rate: 60mbit},"
        " {at: 7s, delay: 60ms, direction: both}]}"
    )

    *lines, there, back = done.lines("changes.jsonl")
    assert [line["at_s"] for line in lines] == [3.0, 6.0]
    assert [line["applied_s"] for line in lines] == pytest.approx([3.0, 6.0], abs=0.02)
    assert [line["installed"]["rate_bps"] for line in lines] == [20_000_000, 60_000_000]
    rows = {round(row["t_s"], 1): row["sent_bytes"] for row in done.queue()}
    # From a second after the change, when what was queued at the old rate is gone, until the next.
    assert (rows[5.9] - rows[4.0]) * 8 / 1.9 <= 20e6 * 1.001
    assert (rows[5.9] - rows[4.0]) * 8 / 1.9 == pytest.approx(20e6, rel=0.03)
    assert there["at_s"] == back["at_s"] == 7.0
    assert done.checks["idle_rtt_before"]["got"] == pytest.approx(40.032, abs=0.1)
    assert done.checks["idle_rtt_after"]["got"] == pytest.approx(120.032, abs=0.6)
    assert done.checks["idle_rtt_after"]["verdict"] == "ok"


def test_fifty_rates_a_second_are_delivered_as_asked(lab: Lab, tmp_path: Path) -> None:
    """Every 20 ms another rate, outages among them. In each sample of 100 ms before which the
    queue held as much as the rate then carried, the bytes sent are those asked, but for two packets
    at each edge and the change's own lateness.
    """
    chosen = random.Random(7)
    rates_bps = [chosen.choice([10**3, 4 * 10**6, 12 * 10**6, 30 * 10**6]) for _ in range(250)]
    trace = tmp_path / "fine.csv"
    trace.write_text(
        "time_s,rate_bps\n" + "".join(f"{n * 0.02:g},{r}\n" for n, r in enumerate(rates_bps))
    )

    done = lab.run(f"{{trace: {trace}, bottleneck: tbf, cc: bbr, duration: 5s, buffer: 200pkts}}")

    rows = done.queue()
    capacity = SteppedCapacity([(n * 0.02, rate) for n, rate in enumerate(rates_bps)])
    full = [
        (8 * (b["sent_bytes"] - a["sent_bytes"]), capacity.bits(a["t_s"], b["t_s"]))
        for a, b in itertools.pairwise(rows)
        if 8 * a["backlog_bytes"] >= capacity.bits(a["t_s"], b["t_s"])
    ]
    assert len(full) > 20
    assert all(got == pytest.approx(asked, abs=4 * 1514 * 8 + 0.004 * 30e6) for got, asked in full)
    assert sum(got for got, _ in full) == pytest.approx(sum(asked for _, asked in full), rel=0.01)
    assert done.checks["replay_error"]["verdict"] == "ok"


def test_a_trace_replays_row_by_row(lab: Lab, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "time_s,delay_ms,loss,rate_bps\n0,20,0,50000000\n1,30,0.01,\n2,10,0,25000000\n"
    )

    done = lab.run(f"{{trace: {trace}}}")

    applied = [
        (line["at_s"], line["installed"].get("delay_ms"), line["installed"].get("rate_bps"))
        for line in done.lines("changes.jsonl")
    ]
    assert (0.0, 20.0, None) in applied and (0.0, 0.0, 50_000_000) in applied
    assert (1.0, 30.0, None) in applied and (2.0, 0.0, 25_000_000) in applied
    assert done.lines("changes.jsonl")[2]["installed"]["loss"] == [pytest.approx(0.01)]


@pytest.mark.parametrize(
    ("tunnel", "legs"), [("direct", {"wan"}), ("gost+ws", {"app", "wan", "exit"})]
)
def test_a_file_comes_over_http_whole_and_crosses_all_legs(
    lab: Lab, tunnel: str, legs: set[str]
) -> None:
    asked = "direction: download, duration: 60s, flows: {page: {kind: http, size: 3MB}}"
    done = lab.run(f"{{tunnel: {tunnel}, {asked}}}")

    page = done.flows["page"]
    took_s = page["ended_s"] - page["started_s"]
    assert page["bytes"] == 3_000_000
    assert page["goodput_bps"] == pytest.approx(8 * 3e6 / took_s, rel=1e-3)
    assert page["goodput_bps"] < 100e6 * PAYLOAD_SHARE
    assert done.json("env.json")["nginx"].startswith("nginx version: nginx/")
    assert {leg["leg"] for leg in done.legs} == legs and done.leg("wan")["sender"] == "target"
    # A leg is gone with its page, and was sampled up to 100 ms before: 1.25 MB at this rate.
    assert done.leg("wan")["bytes_acked"] > 1_500_000


def test_a_download_that_takes_too_long_fails_alone_with_its_sentence(lab: Lab) -> None:
    done = lab.run(
        "{rate: 1mbit, direction: download, duration: 3s, flows: {page: {kind: http, size: 5MB}}}",
        ends="failed",
    )

    assert done.outcome["error"].startswith("page (http) did not end within 3 s")


def test_periodic_loss_loses_exactly_every_nth_packet(lab: Lab) -> None:
    done = lab.run(
        "{rate: 50mbit, buffer: 5000pkts, duration: 6s, loss: {model: periodic, packets: 500}}"
    )

    sent = done.queue()[-1]["sent_pkts"]
    assert "loss" not in done.json("env.json")["qdiscs_after"]["wan_b-eth1"]
    # SACK finds each loss once; the first packets of all are the idle pings'.
    assert abs(done.leg("wan")["segments_retransmitted"] - sent / 500) <= 2


@pytest.mark.parametrize("ordered", ["on", "off"])
def test_jitter_reorders_unless_the_line_keeps_order(lab: Lab, ordered: str) -> None:
    done = lab.run(router_run(ordered))

    out_of_order = done.counter("server", "TcpExtTCPOFOQueue")
    got = done.counter("server", "TcpInSegs")
    if ordered == "on":
        assert out_of_order == 0
    else:
        assert out_of_order > 0.3 * got


def router_run(ordered: str) -> RunSpec:
    there = direction(rate_bps=40_000_000, delay_ms=10.0, jitter_ms=3.0)
    return describe(
        {**there, "ordered": ordered == "on"},
        direction(rate_bps=1_000_000_000, delay_ms=0.0),
        topology="router",
        flows=[flow(sender="client", receiver="server", rtt_ms=10.0)],
    )


@pytest.fixture(scope="module")
def acknowledged(lab: Lab) -> Done:
    """CUBIC behind a buffer that overflows, each of its ACKs recorded."""
    path = direction(rate_bps=20_000_000, delay_ms=20.0, buffer_pkts=100)
    return lab.run(describe(path, BACK, acks=True, sample_ms=100.0, duration_s=12.0))


def test_every_ack_is_recorded_with_cwnd_and_ssthresh(acknowledged: Done) -> None:
    done = acknowledged
    rows = done.acks
    assert done.json("env.json")["acks"] == {
        "source": "tracepoint tcp:tcp_probe",
        "ssthresh": done.json("env.json")["acks"]["ssthresh"],
        "rows": len(rows),
        "events_lost": 0,
    }
    assert {row["flow"] for row in rows} == {"flow1"}
    times = [float(row["t_s"]) for row in rows]
    assert times == sorted(times) and times[0] > 0
    # The sender hears of every second segment at least; without the control connection's few.
    assert len(rows) > 0.4 * done.leg("wan")["data_segments_out"]
    assert rows[0]["snd_ssthresh_pkts"] == "" and any(row["snd_ssthresh_pkts"] for row in rows)
    at_sample = [row for row in done.lines("sockets.jsonl") if row["end"] == "near"]
    nearest = min(rows, key=lambda row: abs(float(row["t_s"]) - at_sample[10]["t_s"]))
    assert int(nearest["cwnd_pkts"]) == pytest.approx(at_sample[10]["cwnd_pkts"], abs=3)


def ssthreshs(done: Done) -> list[tuple[int, int | None]]:
    """cwnd and ssthresh at every ACK, packets; None: infinite."""
    return [
        (int(row["cwnd_pkts"]), int(row["snd_ssthresh_pkts"]) if row["snd_ssthresh_pkts"] else None)
        for row in done.acks
    ]


def test_ssthresh_is_the_sockets_own_and_does_not_follow_the_window(acknowledged: Done) -> None:
    """CUBIC in congestion avoidance: the threshold changes when there is a loss, not as the window
    grows, as tcp_current_ssthresh() would (3/4 of the window, where that is more).
    """
    done = acknowledged
    assert done.json("env.json")["acks"]["ssthresh"].startswith("the socket's own")
    seen = ssthreshs(done)
    assert seen[0][1] is None
    finite = [(cwnd, ssthresh) for cwnd, ssthresh in seen if ssthresh is not None]
    changes = sum(a[1] != b[1] for a, b in itertools.pairwise(finite))
    assert 1 <= changes <= 30 and len(finite) > 5000
    assert any(4 * ssthresh < 3 * cwnd for cwnd, ssthresh in finite)
    sampled = {row["ssthresh_pkts"] for row in done.lines("sockets.jsonl") if row["end"] == "near"}
    assert sampled <= {ssthresh for _, ssthresh in seen} | {None}


def test_bbrs_ssthresh_is_what_it_left_startup_with(lab: Lab) -> None:
    """It sets it once, on leaving Startup, and never uses it."""
    path = direction(rate_bps=20_000_000, delay_ms=20.0, buffer_pkts=1000)
    bbr = flow(cc="bbr", rtt_ms=40.0)

    done = lab.run(describe(path, path, acks=True, cc="bbr", flows=[bbr]))

    seen = [ssthresh for _, ssthresh in ssthreshs(done)]
    assert seen[0] is None
    assert len({ssthresh for ssthresh in seen if ssthresh is not None}) == 1


def test_a_star_shapes_every_site_and_loads_one(lab: Lab) -> None:
    done = lab.run("{topology: star, profile: plain-100ms, sites: [client-tokyo, plain-100ms]}")

    assert done.checks["idle_rtt_before"]["got"] == pytest.approx(40.016, abs=0.1)
    assert done.flows["flow1"]["goodput_bps"] > 50e6
    commands = done.commands
    assert "delay 52.980000ms" in commands  # Tokyo's own, although nothing is sent there
    # Only the path under test is sampled: both its bottlenecks and both its delay lines.
    assert {row["node"] for row in done.lines("queues.jsonl")} == {"near2", "far2"}
    off = {device.partition("-")[0] for device in done.json("env.json")["offloads"]}
    assert off == {"client", "hub", "near2", "far2", "site2"}


@pytest.mark.parametrize("version", OWN)
def test_the_iperf3_that_is_asked_for_carries_the_load_and_is_named(lab: Lab, version: str) -> None:
    if OWN[version].may_lack and version not in lab.handed["iperf3"]:
        pytest.skip(f"no iperf3 {version}: ./lab setup")
    near = direction(delay_ms=2.0)
    if not OWN[version].paces_udp:
        done = lab.run(
            describe(
                near, near, iperf3=version, flows=[flow(streams=2, duration_s=1.0, rtt_ms=4.0)]
            )
        )
        assert done.json("iperf3.json")["start"]["version"] == f"iperf {version}"
        assert done.goodput_bps > 60e6
        return
    both = [
        flow("data", streams=2, duration_s=1.0, rtt_ms=4.0),
        flow(
            "noise",
            kind="udp",
            cc=None,
            buffers="system",
            rate_bps=20_000_000,
            duration_s=1.0,
            rtt_ms=4.0,
        ),
    ]
    done = lab.run(describe(near, near, iperf3=version, flows=both))

    assert done.json("iperf3-data.json")["start"]["version"] == f"iperf {version}"
    environment = done.json("env.json")
    assert environment["iperf3"] == version
    root = require_root()
    assert root is not None and environment["iperf3_program"] == root.record["iperf3"][version]
    data, noise = done.json("flows.json")["flows"]
    assert data["retransmits"] is not None and data["goodput_bps"] > 60e6
    assert noise["sent_datagrams"] * 1448 * 8 == pytest.approx(20e6, rel=0.02)
    assert f"{environment['iperf3_program']['path']} -c" in done.commands
