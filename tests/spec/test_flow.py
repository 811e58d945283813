# SPDX-License-Identifier: MIT
"""Flows: what is written becomes numbers and nodes, or is refused with a sentence."""

from dataclasses import replace
from textwrap import indent

import pytest

from gostlab.spec.flow import delays_before_hosts_ms
from gostlab.spec.path_spec import ChangeSpec, PathSpec, random_loss
from gostlab.spec.run_spec import RunSpec
from tests.asked import refusal, run_of, runs_of

HEAD = """name: f
title: f
settings: {profile: plain-100ms, rtt: 40ms, rate: 100mbit, duration: 10s, buffers: bdp}
matrices:
  - name: m
"""


def runs(matrix: str) -> list[RunSpec]:
    return runs_of(HEAD + indent(matrix, "    "))


def one(settings: str) -> RunSpec:
    return runs(f"settings: {settings}")[0]


def test_a_run_that_names_no_flow_has_one_with_the_runs_own_values() -> None:
    run = one("{cc: bbr, streams: 4, direction: download}")
    assert len(run.flows) == 1
    flow = run.flows[0]
    assert (flow.name, flow.traffic_type, flow.cc, flow.streams) == ("flow1", "tcp", "bbr", 4)
    assert (flow.direction, flow.sender, flow.receiver) == ("download", "client", "target")
    assert (flow.rtt_ms, flow.start_s, flow.duration_s) == (40.0, 0.0, 10.0)
    assert run.data_direction == "reverse" and flow.data_sender == "target"


def test_flows_take_from_the_run_what_they_do_not_say() -> None:
    late = "{cc: cubic, start: 5s, duration: 20s, rtt: 80ms}"
    run = one(f"{{topology: dumbbell, cc: bbr, flows: {{a: {{}}, b: {late}}}}}")
    a, b = run.flows
    assert (a.cc, a.rtt_ms, a.sender, a.receiver) == ("bbr", 40.0, "s1", "r1")
    assert (b.cc, b.rtt_ms, b.sender, b.receiver, b.end_s) == ("cubic", 80.0, "s2", "r2", 25.0)
    assert run.length_s == 25.0
    assert run.hosts == ("s1", "r1", "s2", "r2")


def test_buffers_in_bdp_are_of_the_longest_round_trip() -> None:
    run = one("{topology: dumbbell, rate: 1gbit, flows: {near: {rtt: 10ms}, far: {rtt: 100ms}}}")
    near, far = (flow.buffers["rmem"][2] for flow in run.flows)
    assert near == far > 4 * 100e-3 * 1e9 / 8


def test_a_factor_may_be_a_field_of_one_flow() -> None:
    found = runs(
        "settings: {topology: dumbbell, flows: {a: {}, b: {}}}\n"
        "factors: {b.rtt: [40ms, 80ms], a.cc: [bbr, cubic]}"
    )
    made = {(run.flows[0].cc, run.flows[1].rtt_ms) for run in found}
    assert made == {("bbr", 40.0), ("cubic", 40.0), ("bbr", 80.0), ("cubic", 80.0)}
    assert all("b.rtt" in run.factors for run in found)


def test_a_run_comes_back_from_its_json() -> None:
    flows = "{a: {}, u: {kind: udp, rate: 5mbit, receiver: 1}}"
    run = one(f"{{topology: dumbbell, flows: {flows}, changes: [{{at: 1s, rate: 5mbit}}]}}")
    assert RunSpec.from_json(run.to_json()) == run
    assert run.flows[1].cc is None and run.flows[1].rate_bps == 5_000_000
    assert run.changes == [ChangeSpec(at_s=1.0, direction="forward", rate_bps=5_000_000)]


def test_each_pair_of_a_dumbbell_has_its_own_round_trip() -> None:
    flows = "{a: {rtt: 10ms}, b: {rtt: 100ms}, c: {rtt: 50ms, receiver: 1}}"
    run = one(f"{{topology: dumbbell, flows: {flows}}}")
    own = delays_before_hosts_ms(run.flows, run.path)
    for flow in run.flows:
        assert own[flow.sender] + own[flow.receiver] == pytest.approx(flow.rtt_ms)


def test_an_own_round_trip_is_shared_as_the_paths_is() -> None:
    run = one("{topology: dumbbell, flows: {a: {rtt: 100ms}}}")
    path = PathSpec(
        replace(run.path.forward, delay_ms=30.0), replace(run.path.reverse, delay_ms=10.0)
    )
    assert delays_before_hosts_ms(run.flows, path) == pytest.approx({"r1": 75.0, "s1": 25.0})


def test_a_change_of_both_directions_is_two_and_they_stand_in_the_order_of_time() -> None:
    run = one("{changes: [{at: 1s, loss: 1%}, {at: 2s, delay: 5ms, direction: both}]}")
    changes = [(change.at_s, change.direction) for change in run.changes]
    assert changes == [(1.0, "forward"), (2.0, "forward"), (2.0, "reverse")]
    assert run.changes[0].loss == random_loss(0.01)


def test_a_star_needs_its_site_among_its_sites_and_lays_out_all() -> None:
    run = one("{topology: star, profile: client-shanghai, sites: [client-tokyo, client-shanghai]}")
    assert list(run.sites or {}) == ["client-tokyo", "client-shanghai"]
    assert run.flows[0].receiver == "site2"
    assert (run.sites or {})["client-shanghai"] == run.path


def test_a_router_shapes_what_the_client_sends_and_nothing_on_the_way_back() -> None:
    path = one("{topology: router}").path
    assert (path.forward.delay_ms, path.reverse.delay_ms) == (40.0, 0.0)
    both_ways = {"profile": "client-tokyo", "topology": "router"}
    assert "topology router shapes what the client sends only" in refusal(
        lambda: run_of(**both_ways)
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("{flows: {A: {}}}", "no name of a flow"),
        ("{flows: {a: {colour: red}}}", "f.yaml:6: matrices[0].settings.flows.a.colour: unknown"),
        ("{flows: {a: {rtt: 10ms}}}", "a: rtt belongs to topology dumbbell"),
        ("{flows: {a: {kind: udp}}}", "a: a udp flow needs rate"),
        ("{flows: {a: {kind: short, rate: 5mbit}}}", "a: a short flow has no rate"),
        ("{flows: {a: {kind: udp, rate: 5mbit, cc: bbr}}}", "a udp flow has no congestion control"),
        ("{flows: {a: {kind: http, size: 1MB}}}", "a: a flow of kind http is a download"),
        ("{flows: {a: {kind: http, size: 0B}}}", "not between 1B and 100GB"),
        *(
            (f"{{flows: {{a: {{{fields}}}}}}}", sentence)
            for fields, sentence in (
                ("kind: ping, rate: 1mbit", "a ping flow has no rate"),
                ("kind: ping, cc: bbr", "a ping flow has no congestion control"),
                ("kind: ping, streams: 4", "a ping flow has no streams"),
                ("kind: ping, direction: download", "has no direction"),
                ("kind: ping, interval: 1ms", "not between 10ms and 60s"),
                ("kind: short, direction: upload", "a flow of kind short is a download"),
                ("kind: short, size: 10kB", "a short flow has no size"),
                ("kind: short, sizes: []", "at least 1"),
                ("interval: 1s", "a tcp flow has no interval"),
                ("sizes: [1kB]", "a tcp flow has no sizes"),
                ("kind: ping, connect: at-start", "a ping flow has no connect"),
                ("connect: later", "(known: before-load, at-start)"),
            )
        ),
        ("{tunnel: gost+ws, flows: {a: {kind: udp, rate: 1mbit}}}", "no flow goes through it"),
        (
            "{tunnel: ssh, flows: {u: {kind: udp, rate: 4mbit, through: tunnel}}}",
            "u: through: tunnel: ssh carries no datagrams",
        ),
        ("{flows: {a: {}, b: {ecn: on}}}", "client has another ecn already"),
        ("{ecn: on}", "the bottleneck's queue, netem, drops and never marks"),
        ("{ecn: l4s, bottleneck: tbf, queue: fifo}", "queue, fifo, drops and never marks"),
        ("{cc: prague, kernel: '6.12'}", "no accurate ECN (RFC 9768), which cc prague needs"),
        ("{topology: ring, flows: {a: {sender: 2, receiver: 2}}}", "no link is between them"),
        ("{flows: {}}", "no flow (like"),
        ("{flows: [a]}", "a list where a mapping"),
        ("{flows: {a: {buffers: system}, b: {}}}", "b: client has other buffers already"),
        (
            "{topology: dumbbell, flows: {a: {}, b: {sender: 1, receiver: 1, rtt: 90ms}}}",
            "two flows between the same hosts",
        ),
        ("{topology: dumbbell, flows: {a: {}, b: {sender: 1}, c: {sender: 1, rtt: 80ms}}}", "rtt"),
        ("{topology: star}", "a star needs sites"),
        ("{topology: star, sites: [client-tokyo]}", "not one of the star's sites"),
        ("{sites: [client-tokyo]}", "sites belong to topology star"),
        ("{changes: [{at: 1s}]}", "a change of nothing"),
        ("{changes: [{at: 2s, loss: 1%}, {at: 1s, loss: 1%}]}", "not in the order of time"),
        ("{changes: {at: 1s}}", "not a list of at most"),
        ("{trace: nowhere.csv}", "no such file, here or in netem_profiles/"),
        ("{delay: 5ms}", "both rtt and delay"),
        ("{nobody.cc: bbr}", "no flow is called nobody"),
        *(
            (f"{{{part}}}", part[:4])
            for part in ("measure: 9s..4s", "measure: 4s", "measure: 4..9", "measure: 4s..90s")
        ),
        ("{measure: 4s..9s, skip: 4s}", "both measure and skip"),
        *((f"{{skip: {part}}}", "skip") for part in ("30s", "later")),
        ("{flow1.colour: red}", "unknown key"),
    ],
)
def test_what_cannot_be_is_one_sentence_that_says_where(settings: str, sentence: str) -> None:
    said = refusal(lambda: one(settings))
    assert sentence in said and said.startswith("f.yaml:")


def test_starts_are_spread_by_the_repetitions_seed_and_alike_in_all_cells_of_a_repetition() -> None:
    written = (
        "repetitions: 3\nfactors: {cc: [cubic, bbr]}\n"
        "settings: {topology: dumbbell, flows: {a: {}, b: {}}}"
    )
    offsets = {
        (run.cc, run.seed): [run.start_offset_s(flow.name) for flow in run.flows]
        for run in runs(written)
    }
    assert len(offsets) == 6
    by_seed: dict[int, set[tuple[float, ...]]] = {}
    for (_, seed), of_run in offsets.items():
        by_seed.setdefault(seed, set()).add(tuple(of_run))
        assert all(0 <= each <= 0.02 for each in of_run) and len(set(of_run)) == 2
    assert [len(each) for each in by_seed.values()] == [1, 1, 1]  # paired
    assert len(set.union(*by_seed.values())) == 3  # and repetitions differ


def test_a_start_spread_of_nothing_starts_each_flow_when_it_was_asked_to() -> None:
    assert one("{start_spread: 0s}").start_offset_s("flow1") == 0


def test_a_queue_brings_its_bottleneck_for_all_that_it_is_compared_with() -> None:
    compared = runs("factors: {queue: [fifo, fq_codel]}")
    made = {(run.queue, run.bottleneck) for run in compared}
    assert made == {("fifo", "tbf"), ("fq_codel", "tbf")}
    assert one("{queue: fifo}").bottleneck == "netem"


def test_machines_are_those_of_a_profile_that_was_named() -> None:
    text = "name: f\ntitle: f\nsettings: {%srate: 100mbit, rtt: 40ms}\nmatrices: [{name: m}]\n"
    named, unnamed = (runs_of(text % profile)[0] for profile in ("profile: la-hamina, ", ""))
    assert (named.host_cpus, named.host_tcp_memory_mib) == (2, 364)
    assert (unnamed.host_cpus, unnamed.host_tcp_memory_mib) == (1, 0)


def test_a_flow_of_both_directions_is_two_flows_between_the_same_hosts() -> None:
    run = one("{topology: dumbbell, flows: {a: {direction: both, streams: 2}, b: {}}}")
    up, down, other = run.flows
    assert (up.name, up.direction, down.name, down.direction) == (
        "a-up",
        "upload",
        "a-down",
        "download",
    )
    assert (up.sender, up.receiver) == (down.sender, down.receiver) == ("s1", "r1")
    assert other.sender == "s2" and (up.streams, down.streams) == (2, 2)


def test_a_run_of_both_directions_is_an_upload_and_a_download_at_once() -> None:
    found = {run.factors["direction"]: run for run in runs("factors: {direction: [upload, both]}")}
    upload, both = found["upload"], found["both"]
    assert [flow.name for flow in upload.flows] == ["flow1"]
    assert [flow.name for flow in both.flows] == ["flow1-up", "flow1-down"]
    assert both.direction == "upload"
    assert not both.offloads


def test_requests_and_downloads_are_not_doubled_by_a_run_of_both_directions() -> None:
    run = one("{direction: both, flows: {a: {}, lag: {kind: ping}, web: {kind: short}}}")
    assert [flow.name for flow in run.flows] == ["a-up", "a-down", "lag", "web"]
    assert run.flows[3].direction == "download"


def test_a_change_without_a_direction_is_of_both_where_the_data_are() -> None:
    run = one("{direction: both, changes: [{at: 1s, rate: 5mbit}]}")
    assert [change.direction for change in run.changes] == ["forward", "reverse"]


def test_rrul_is_four_connections_each_way_and_requests() -> None:
    run = one("{flows: rrul, cc: bbr}")
    assert [(flow.name, flow.traffic_type, flow.direction, flow.streams) for flow in run.flows] == [
        ("tcp-up", "tcp", "upload", 4),
        ("tcp-down", "tcp", "download", 4),
        ("ping", "ping", "upload", 1),
    ]
    assert [flow.cc for flow in run.flows] == ["bbr", "bbr", None]


def test_a_tcp_flow_may_have_a_rate_of_its_application() -> None:
    calm, greedy = one("{topology: dumbbell, flows: {calm: {rate: 4mbit}, greedy: {}}}").flows
    assert calm.rate_bps == 4_000_000 and calm.pauses
    assert greedy.rate_bps is None and not greedy.pauses


def test_fields_of_one_kind_of_traffic_imply_it() -> None:
    run = one(
        "{topology: dumbbell, flows: {file: {bytes: 10MB}, bursts: {on: 2s, off: 1s, rate: 4mbit},"
        " film: {ladder: [1mbit, 2mbit]}, bulk: {}}}"
    )
    file, bursts, film, bulk = run.flows
    assert (file.traffic_type, file.size_bytes, file.direction) == (
        "transfer",
        10_000_000,
        "upload",
    )
    assert (bursts.traffic_type, bursts.on_s, bursts.off_s, bursts.rate_bps) == (
        "onoff",
        2.0,
        1.0,
        4_000_000,
    )
    assert (film.traffic_type, film.ladder_bps, film.segment_s) == (
        "video",
        [1_000_000, 2_000_000],
        2.0,
    )
    assert film.direction == "download" and film.playback_buffer_s == 20.0
    assert bulk.traffic_type == "tcp" and RunSpec.from_json(run.to_json()) == run


def test_a_transfer_may_go_in_both_directions() -> None:
    up, down = one("{flows: {a: {bytes: 1MB, direction: both}}}").flows
    assert (up.traffic_type, up.direction, down.traffic_type, down.direction) == (
        "transfer",
        "upload",
        "transfer",
        "download",
    )
