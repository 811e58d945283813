# SPDX-License-Identifier: MIT
"""Check a tunnel: its legs, what it carries, its bytes on the wire, its evidence."""

import re
from typing import Any

from gostlab.plugin_check.check_runs import (
    NotApplicable,
    PluginBench,
    check_description,
    checks_of,
    flows_of,
    reject_stray_files,
    require,
    require_identical_runs,
    require_ok_checks,
)
from gostlab.registry.topologies import topologies
from gostlab.registry.tunnels import WAN, WAN2, TunnelKind
from gostlab.results import read_object, read_series
from gostlab.results.metrics import wire_ratio

PATH = {"rate": "10mbit", "rtt": "20ms", "buffer": "50pkts", "cc": "cubic", "sample": "100ms"}
STREAMS, RATE_BPS, MTU_BYTES = 2, 10e6, 1500
# The goodput that a tunnel reaches at least; one whose program sends by itself may lose its window.
MIN_SHARE, MIN_SHARE_OF_DATAGRAMS = 0.75, 0.4
# The measured and the declared bytes on the wire differ at most by this share: data under way at a
# sample, and ACKs that share a packet with data.
WIRE_BOUND = 0.015


def load_of(bench: PluginBench) -> dict[str, Any]:
    streams = STREAMS if bench.declared.most_streams in (0, *range(3, 65)) else 1
    return {**PATH, "tunnel": bench.name, "streams": streams, "duration": "3s"}


def tunnelled(bench: PluginBench) -> TunnelKind:
    """Return the tunnel's declaration. Raises NotApplicable for none."""
    declaration: TunnelKind = bench.declared
    if declaration.is_direct:
        raise NotApplicable("no tunnel")
    return declaration


def declares(bench: PluginBench) -> None:
    check_description(bench, bench.name, bench.declared.says)
    declaration = tunnelled(bench)
    if declaration.is_vpn:
        require(
            declaration.packet_bytes > 0 and declaration.mtu_less > 0,
            "a VPN's packet_bytes and mtu_less",
        )


def starts(bench: PluginBench) -> None:
    declaration, run = tunnelled(bench), bench.run(load_of(bench))
    streams = run.run.streams
    rows = (read_object(run.folder / "legs.json") or {})["legs"]
    legs = {row["leg"]: row["sockets"] for row in rows}
    shared = (WAN, WAN2) if declaration.one_connection else ()
    # iperf3 has a control connection besides its streams.
    declared = {leg: 1 if leg in shared else streams + 1 for leg in declaration.legs}
    require(legs == declared, f"sockets by leg: {legs}, and it declares {declared}")
    sampled = {row["leg"] for row in read_series(run.folder, "sockets") if row["end"] == "near"}
    require(sampled >= set(declaration.legs), f"legs sampled at the near end: {sorted(sampled)}")
    sent_by = [check for check in checks_of(run) if check["name"].startswith("guard_sent_by_")]
    if declaration.sent_by:
        names_control = any(declaration.sent_by in str(check["reason"]) for check in sent_by)
        require(names_control, f"its run does not say that {declaration.sent_by} sends")


def carries(bench: PluginBench) -> None:
    run = bench.run(load_of(bench))
    declaration = bench.declared
    least = MIN_SHARE_OF_DATAGRAMS if declaration.sent_by else MIN_SHARE
    share = (run.goodput_bps or 0.0) / RATE_BPS
    require(least < share < 0.98, f"goodput is {share:.2f} of the rate, not {least} to 0.98")
    require_ok_checks(run)
    samples = (read_series(run.folder, name) for name in ("queues", "sockets"))
    measured, declared = wire_ratio(run.run, *samples), declaration.wire_ratio(MTU_BYTES)
    require(
        measured is not None and abs(measured / declared - 1) <= WIRE_BOUND,
        f"bytes on the wire per byte carried: measured {measured}, declared {declared:.4f}"
        " (frames, packet_bytes)",
    )
    if "udp" in declaration.carries and not declaration.is_direct:
        pings = {"kind": "ping", "interval": "50ms"}
        load = {**PATH, "tunnel": bench.name, "duration": "2s", "flows": {"lag": pings}}
        [row] = flows_of(bench.run(load))
        trips = row["round_trips"]
        good = trips["over"] == "udp" and trips["sent"] > trips["lost"] == 0
        require(good, f"datagrams: {trips['lost']} of {trips['sent']} lost over {trips['over']}")


def ends(bench: PluginBench) -> None:
    declaration, run = tunnelled(bench), bench.run(load_of(bench))
    reject_stray_files(run)
    program = (read_object(run.folder / "env.json") or {})["tunnel"]
    version = str(program["version"])
    require(re.search(r"\d+(\.\w+)+", version) is not None, f"its program's version: {version}")
    require(len(program["sha256"]) == 64, "no SHA-256 of its program")
    helpers = set(program.get("helpers", {}))
    require(
        helpers == set(declaration.helpers),
        f"helpers: {helpers}, and it declares {declaration.helpers}",
    )


def refuses(bench: PluginBench) -> None:
    declaration = tunnelled(bench)
    settings = {**PATH, "tunnel": bench.name}
    for name, topology in topologies().items():
        if not topology.tunnel_near and not topology.path_per_site:
            bench.refuses(f"topology {name}", {**settings, "topology": name})
    if "udp" not in declaration.carries:
        flow = {"kind": "udp", "rate": "2mbit", "through": "tunnel"}
        bench.refuses("datagrams", {**settings, "flows": {"a": flow}})
    if "sndbuf" not in declaration.options:
        bench.refuses("sndbuf", {**settings, "sndbuf": "64KiB"})
    if not declaration.chain:
        bench.refuses("two hops", {**settings, "hops": "2"})


def repeats(bench: PluginBench) -> None:
    load = load_of(bench)
    require_identical_runs(bench.run(load), bench.run(load, again=True))
