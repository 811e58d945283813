# SPDX-License-Identifier: MIT
"""Check a topology: that flows cross its path, and that it refuses what it does not have."""

from typing import Any

from gostlab.plugin_check.check_runs import (
    PluginBench,
    check_description,
    flows_of,
    reject_stray_files,
    require,
    require_identical_runs,
    require_ok_checks,
)
from gostlab.registry.topologies import topology_classes

PROFILE = "plain-100ms"
PATH = {"rate": "10mbit", "rtt": "20ms", "buffer": "100pkts", "cc": "cubic", "duration": "4s"}
RATE_BPS = 10e6


def load_of(bench: PluginBench) -> dict[str, object]:
    """Return a load of two flows, or of one where a flow has no hosts of its own."""
    load: dict[str, object] = {**PATH, "topology": bench.name}
    if bench.declared.path_per_site:
        load |= {"profile": PROFILE, "sites": f"[{PROFILE}, la-hamina]"}
    two_flows: dict[str, Any] = {"a": {}, "b": {}}
    return {**load, "flows": two_flows} if bench.declared.numbers_hosts else load


def declares(bench: PluginBench) -> None:
    check_description(bench, bench.name, bench.declared.says)
    require(bool(topology_classes()[bench.name].__doc__), "no drawing in its class's docstring")


def starts(bench: PluginBench) -> None:
    run = bench.run(load_of(bench))
    count = 2 if bench.declared.numbers_hosts else 1
    require(len(flows_of(run)) == count, f"{len(flows_of(run))} flows of {count}")


def carries(bench: PluginBench) -> None:
    run = bench.run(load_of(bench))
    require_ok_checks(run)  # the idle round trip of every flow, and each queue's rate, among others
    rates = [flow["goodput_bps"] for flow in flows_of(run)]
    require(min(rates) > 0.05 * RATE_BPS, f"a flow has {min(rates):.0f} bit/s of 10 Mbit/s")
    require(sum(rates) > 0.7 * RATE_BPS, f"{sum(rates):.0f} bit/s of 10 Mbit/s")


def ends(bench: PluginBench) -> None:
    reject_stray_files(bench.run(load_of(bench)))


def refuses(bench: PluginBench) -> None:
    topology, load = bench.declared, load_of(bench)
    if not topology.tunnel_near:
        bench.refuses("a tunnel", {**load, "tunnel": "wireguard"})
    if not topology.path_per_site:
        bench.refuses("sites", {**load, "sites": f"[{PROFILE}]"})
    bench.refuses("too many hops", {**load, "hops": "3"})
    if not topology.own_rtts:
        bench.refuses("a flow's own rtt", {**load, "flows": {"a": {"rtt": "30ms"}}})
    last = {"sender": topology.most_hosts + 1}
    bench.refuses("a host that is not there", {**load, "flows": {"a": last}})


def repeats(bench: PluginBench) -> None:
    require_identical_runs(bench.run(load_of(bench)), bench.run(load_of(bench), again=True))
