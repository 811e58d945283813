# SPDX-License-Identifier: MIT
"""Links in a row or in a net: whose path is whose, what a flow crosses, and what makes no sense."""

import pytest

from gostlab.registry.topologies import topology_of
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.results.metrics import bottleneck_rate_bps, bottleneck_rate_steps
from gostlab.spec import preflight
from gostlab.spec.links_crossed import links_crossed
from gostlab.spec.path_spec import combine_in_series
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput
from tests.asked import refusal
from tests.spec.test_flow import one, runs


def delays(run: RunSpec, name: str) -> tuple[float, float]:
    flow = next(flow for flow in run.flows if flow.name == name)
    paths = run.paths_of(flow)
    return (
        sum(path.forward.delay_ms for path in paths),
        sum(path.reverse.delay_ms for path in paths),
    )


def test_the_second_hop_has_the_runs_path_unless_it_is_given_its_own() -> None:
    both = one("{hops: 2}")
    assert (both.hops, both.links, both.flows[0].rtt_ms) == (2, {}, 80.0)

    own = one("{hops: 2, links: {hop2: {rtt: 10ms, loss: 1%}}}")
    assert own.flows[0].rtt_ms == 50.0
    assert own.path.forward.loss.p == 0.0
    hop2 = own.links["hop2"].forward
    assert (hop2.delay_ms, hop2.loss.p, hop2.rate_bps) == (5.0, 0.01, 100_000_000)


def test_the_first_hops_path_is_the_runs() -> None:
    run = one("{hops: 2, links: {hop1: {rtt: 10ms}, hop2: {rtt: 20ms}}}")

    assert run.path.forward.delay_ms == 5.0
    assert list(run.links) == ["hop2"] and run.flows[0].rtt_ms == 30.0


def test_a_profile_per_link_is_the_whole_profile() -> None:
    run = one("{hops: 2, rate: 7mbit, links: {hop2: plain-100ms}}")

    assert run.path.forward.rate_bps == 7_000_000
    assert run.links["hop2"].forward.delay_ms == 50.0
    assert run.links["hop2"].forward.rate_bps != 7_000_000


def test_a_flow_sees_a_links_path_from_its_own_side() -> None:
    run = one(
        "{topology: parking-lot, links: {n1-n2: {forward.delay: 1ms, reverse.delay: 9ms}},"
        " flows: {there: {sender: 1, receiver: 3}, back: {sender: 3, receiver: 1}}}"
    )

    assert delays(run, "there") == (21.0, 29.0)
    assert delays(run, "back") == (29.0, 21.0)
    assert [flow.rtt_ms for flow in run.flows] == [50.0, 50.0]


def test_a_ring_is_closed_by_the_link_from_its_last_node_to_its_first() -> None:
    ring = topology_of("ring")

    assert links_crossed(ring, 1, 4, "s4", "r1") == [("n4-n1", True)]
    assert links_crossed(ring, 1, 4, "s1", "r4") == [("n4-n1", False)]


def test_paths_in_a_row_have_the_least_rate_and_all_delays() -> None:
    run = one("{hops: 2, links: {hop2: {rate: 10mbit, rtt: 10ms}}}")

    whole = combine_in_series(run.paths_of(run.flows[0]))

    assert whole.forward.rate_bps == 10_000_000
    assert whole.forward.delay_ms == 25.0
    assert whole.reversed().forward == whole.reverse


def test_buffers_in_bdp_are_of_the_whole_way() -> None:
    one_hop, two = (one(f"{{hops: {hops}, rate: 1gbit}}") for hops in (1, 2))

    assert two.flows[0].buffers["rmem"][2] > 1.5 * one_hop.flows[0].buffers["rmem"][2]


def test_a_run_without_links_of_its_own_is_named_as_before() -> None:
    assert not {"hops", "links"} & set(one("{}").to_json())


def test_traps_are_looked_for_on_every_link() -> None:
    run = one("{hops: 2, offloads: 'on', links: {hop2: {loss: 1%}}}")

    assert "offloads_loss" in {guard.name for guard in preflight.guards(run)}
    assert one("{hops: 2, links: {hop2: {loss: 1%}}}").offloads is False


CHAINS = [kind.name for kind in tunnel_kinds().values() if kind.chain]
VPNS = [kind.name for kind in tunnel_kinds().values() if kind.is_vpn]


@pytest.mark.parametrize("tunnel", ["direct", *dict.fromkeys(CHAINS)])
def test_a_tunnel_that_ends_connections_makes_a_chain(tunnel: str) -> None:
    run = one(f"{{hops: 2, tunnel: {tunnel}}}")

    gateway = one(f"{{hops: 2, tunnel: {tunnel}, placement: gateway}}")
    ways = run.tunnel_ends(run.flows[0]), gateway.tunnel_ends(gateway.flows[0])[1:]
    chain = ("client", "gost", "target"), ("gost", "gost2")
    assert ways == (((), ()) if tunnel == "direct" else chain)


@pytest.mark.parametrize("tunnel", VPNS)
def test_a_vpn_makes_no_chain_and_that_is_said_before_anything_runs(tunnel: str) -> None:
    said = refusal(lambda: one(f"{{hops: 2, tunnel: {tunnel}}}"))
    assert "hops: 2: " in said and "placement: gateway" in said


def test_every_flow_between_a_pair_has_a_tunnel_of_its_own() -> None:
    run = one(
        "{topology: mesh, tunnel: gost+ws, flows: {a: {sender: 1, receiver: 2},"
        " b: {sender: 1, receiver: 2}, c: {sender: 2, receiver: 3, cc: bbr}}}"
    )

    ways = [run.tunnel_ends(flow) for flow in run.flows]
    assert ways == [("s1", "r2"), ("s1", "r2"), ("s2", "r3")]


def test_each_leg_of_a_chain_may_have_a_congestion_control_of_its_own() -> None:
    run = one("{hops: 2, tunnel: stunnel, cc: {wan: bbr, wan2: reno, join: vegas}}")

    assert (run.cc, run.flows[0].cc) == ("bbr", "bbr")
    assert run.cc_by_end["wan2"] == "reno" and run.cc_by_end["join"] == "vegas"
    down = one("{hops: 2, tunnel: split, direction: download, cc: {gost: bbr}}")
    assert down.flows[0].cc == "bbr"  # the middle sends the data across the first path


def test_aqm_is_the_queue_by_another_name() -> None:
    [called] = runs("settings: {bottleneck: tbf, aqm: codel}")
    [queue] = runs("settings: {bottleneck: tbf, queue: codel}")
    assert called.name == queue.name and called.queue == "codel"

    [tcs] = runs("settings: {bottleneck: tbf, aqm: pfifo}")
    assert (tcs.queue, tcs.name) == ("fifo", runs("settings: {bottleneck: tbf}")[0].name)

    levels = runs("settings: {bottleneck: tbf}\nfactors: {aqm: [fifo, cake]}")
    assert [run.queue for run in sorted(levels, key=lambda run: run.queue)] == ["cake", "fifo"]
    assert {run.factors["aqm"] for run in levels} == {"fifo", "cake"}


@pytest.mark.parametrize(
    "matrix",
    [
        "settings: {bottleneck: tbf, aqm: codel, queue: codel}",
        "settings: {bottleneck: tbf}\nfactors: {aqm: [codel], queue: [fifo, codel]}",
        "settings: {bottleneck: tbf, queue: codel}\nfactors: {aqm: [codel, fifo]}",
    ],
)
def test_both_names_of_one_setting_are_refused(matrix: str) -> None:
    with pytest.raises(BadInput, match=r"both queue and aqm|both a setting and a factor"):
        runs(matrix)


def test_a_change_is_of_the_link_that_it_names_or_of_all_without_a_path_of_their_own() -> None:
    run = one(
        "{hops: 2, rate: 20mbit, links: {hop2: {rate: 50mbit}}, changes: [{at: 1s, rate: 10mbit},"
        " {at: 2s, rate: 5mbit, link: hop2}]}"
    )
    assert [change.link for change in run.changes] == [None, "hop2"]
    rates = {
        link: [each.rate_bps for each in run.changes_of(link, "forward")]
        for link in ("hop1", "hop2")
    }
    assert rates == {"hop1": [10_000_000], "hop2": [5_000_000]}
    assert RunSpec.from_json(run.to_json()) == run
    assert bottleneck_rate_steps(run, "hop1")[1:] == [(1.0, 1e7)]
    assert bottleneck_rate_steps(run, "hop2") == [(float("-inf"), 5e7), (2.0, 5e6)]
    assert bottleneck_rate_bps(run, 1.5, "hop2") == 5e7


def test_a_link_that_is_like_the_others_keeps_its_name_where_something_changes() -> None:
    alike = "hops: 2, links: {hop2: {rate: 100mbit}}"
    assert one(f"{{{alike}}}").links == {}
    run = one(f"{{{alike}, changes: [{{at: 1s, rate: 10mbit}}]}}")
    assert [len(run.changes_of(link, "forward")) for link in ("hop1", "hop2")] == [1, 0]


def test_a_flow_wants_no_more_than_what_its_links_ever_carry() -> None:
    text = "{{topology: parking-lot, rate: 10mbit, flows: {{long: {{sender: 1, receiver: 3}}}}{}}}"
    rates = [
        preflight.rate_of(run, run.flows[0])
        for run in (
            one(text.format("")),
            one(text.format(", changes: [{at: 1s, rate: 50mbit, link: n1-n2}]")),
            one(text.format(", changes: [{at: 1s, rate: 50mbit}]")),
            one(text.format(", links: {n1-n2: {rate: 20mbit}}, changes: [{at: 1s, rate: 50mbit}]")),
        )
    ]
    assert rates == [10_000_000, 10_000_000, 50_000_000, 20_000_000]
