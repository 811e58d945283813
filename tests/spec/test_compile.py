# SPDX-License-Identifier: MIT
"""What is asked becomes a run's numbers, or leaves it the run that it was."""

import json
import math
from typing import Any

import pytest

from gostlab.errors import SandboxOnly
from gostlab.spec.cpu_model import ONE_FOR_ALL, CpuModel
from gostlab.spec.expand import single_run
from gostlab.spec.run_spec import RunSpec
from tests.asked import run_of

# What version 0.1 ran, before there was anything to ask for.
OLD = {"host_cpus": "shared", "host_memory": "shared", "clock_reads": "charged", "iperf3": "system"}
NOBODYS: dict[str, Any] = {
    "host_cpus": 0,
    "cpus_by_host": {},
    "byte_cost_ns": 0.0,
    "packet_cost_ns": 0,
    "clock_reads": "charged",
    "host_tcp_memory_mib": 0,
    "tcp_memory_mib_by_host": {},
}
PLAIN = {"profile": "plain-100ms"}
DEBIANS = {"rmem": [4096, 131072, 6291456], "wmem": [4096, 16384, 4194304]}
REAL = {"clock": "real", "host_cpus": "2", "byte_cost": "1ns", "clock_reads": "free"}
LARGE = "{rmem: [4KiB, 128KiB, 80MB], wmem: [4KiB, 16KiB, 4MiB]}"
ROWS: list[tuple[dict[str, str], dict[str, Any]]] = [
    # a host is a machine of its own where nobody says otherwise: as the profile knows it, or not
    (PLAIN, {**NOBODYS, "host_cpus": 1, "packet_cost_ns": 750, "clock_reads": "free"}),
    ({}, {"host_cpus": 2, "host_tcp_memory_mib": 364}),  # of the thesis's 3.8 GB
    (OLD, NOBODYS),
    # each part by itself
    ({**OLD, "host_cpus": "2"}, {**NOBODYS, "host_cpus": 2, "packet_cost_ns": 750}),
    ({**OLD, "byte_cost": "0.25ns"}, {**NOBODYS, "byte_cost_ns": 0.25}),
    ({**OLD, "clock_reads": "free"}, {**NOBODYS, "clock_reads": "free"}),
    ({"host_tcp_memory": "365MiB"}, {"host_tcp_memory_mib": 365}),
    ({"packet_cost": "1.5us", "host_cpus": "1"}, {"packet_cost_ns": 1500}),
    # the real clock charges nobody
    ({**REAL, "packet_cost": "1.5us"}, {**NOBODYS, "host_tcp_memory_mib": 364}),
    # hosts may differ, and who is not named has what the profile says
    ({"host_cpus": "{client: 2, target: 4}"}, {"host_cpus": 2, "cpus_by_host": {"target": 4}}),
    (
        {"host_memory": "{client: 8GiB, target: 4GiB}"},
        {"host_tcp_memory_mib": 768, "tcp_memory_mib_by_host": {"target": 384}},
    ),
    ({"host_cpus": "{target: 4}"}, {"host_cpus": 2, "cpus_by_host": {"target": 4}}),
    ({"host_memory": "auto"}, {"host_tcp_memory_mib": 364}),
    ({"host_cpus": "auto"}, {"host_cpus": 2}),
    ({"host_cpus": "auto", **PLAIN}, {"host_cpus": 1}),
    # memory for all hosts together is not each host's own, nor is it where nobody asked natively
    ({"host_memory": "auto", "tcp_memory": "1GiB"}, {"host_tcp_memory_mib": 0}),
    ({"host_memory": "auto", "host_tcp_memory": "shared"}, {"host_tcp_memory_mib": 0}),
    ({"on": "native", "clock": "real", "host_memory": "auto"}, {"host_tcp_memory_mib": 0}),
    (
        {"host_cpus": "2", "cpu_share": "0.5", "cpu_burst": "2s"},
        {"cpu_share_permille": 500, "cpu_burst_us": 2_000_000},
    ),
    ({"host_cpus": "2", "cpu_share": "whole"}, {"cpu_share_permille": 0, "cpu_burst_us": 0}),
    # a kernel that cannot do what nobody wrote
    ({"kernel": "6.1"}, {"host_tcp_memory_mib": 0, "host_cpus": 2, "packet_cost_ns": 750}),
    ({"kernel": "5.10"}, {"kernel": "5.10", "host_tcp_memory_mib": 364, "loss_detection": "rack"}),
    ({"kernel": "5.10", "loss_detection": "dupacks"}, {"loss_detection": "dupacks"}),
    # how end hosts receive: cards merge single packets
    (
        {"receive": "moderated", "rx_usecs": "100us"},
        {"receive": "moderated", "rx_usecs": 100, "offloads": False},
    ),
    ({"receive": "moderated"}, {"rx_usecs": 50}),
    # links, queues and tunnels
    ({}, {"mtu": 1500, "bottleneck": "netem", "queue": "fifo", "start_spread_s": 0.02}),
    ({"bottleneck": "tbf", "queue": "fq_codel"}, {"bottleneck": "tbf", "queue": "fq_codel"}),
    ({"tunnel": "openvpn+tcp", "sndbuf": "512KiB"}, {"tunnel_options": {"sndbuf": 524288}}),
    ({"tunnel": "openvpn+udp", "rcvbuf": "1MiB"}, {"tunnel_options": {"rcvbuf": 1048576}}),
    ({"tunnel": "gost+ws", "nagle": "on"}, {"tunnel_options": {"nagle": "on"}}),
    ({"tunnel": "gost+ws", "nagle": "off"}, {"tunnel_options": {}}),
    # buffers and memory
    ({}, {"buffers": DEBIANS}),
    ({"buffers": "system"}, {"buffers": "system"}),
    ({"buffers": LARGE}, {"buffers": {**DEBIANS, "rmem": [4096, 131072, 80_000_000]}}),
    ({"memory": "3GiB"}, {"memory_mib": 3072}),
    ({"tcp_memory": "365MiB"}, {"tcp_memory_mib": 365}),
    # offloads only where neither loss nor the queue decides (a 3 MiB window over 168 ms is 150
    # Mbit/s: eleven of them stay below 0.9 of 1967, twelve do not), on a kernel whose windows are
    # the same with super-packets
    *(({"kernel": "5.10", "streams": streams}, {"offloads": True}) for streams in ("1", "11")),
    *(({"kernel": "5.10", "streams": streams}, {"offloads": False}) for streams in ("12", "128")),
    *(({"kernel": kernel}, {"offloads": kernel == "6.1"}) for kernel in ("6.1", "6.12", "shipped")),
    *(
        ({"kernel": "5.10", name: value}, {"offloads": False})
        for name, value in (
            ("loss", "0.001%"),
            ("reverse.loss", "0.001%"),
            ("rate", "100mbit"),
            ("buffers", "bdp"),
            ("buffers", "system"),
            ("offloads", "off"),
        )
    ),
    ({"streams": "16", "offloads": "on"}, {"offloads": True}),
    # what of the load the results are taken over
    *(
        ({"duration": "10s", **part}, {"window_s": window_s})
        for part, window_s in (
            ({}, (0.0, math.inf)),
            ({"measure": "all"}, (0.0, math.inf)),
            ({"measure": "4s..9s"}, (4.0, 9.0)),
            ({"measure": "500ms .. 5s"}, (0.5, 5.0)),
            ({"skip": "4s"}, (4.0, math.inf)),
        )
    ),
]


def asked(**settings: str) -> RunSpec:
    return run_of(**{"profile": "la-hamina", **settings})


@pytest.mark.parametrize(("settings", "numbers"), ROWS)
def test_what_is_asked_becomes_the_runs_numbers_and_run_json_says_them(
    settings: dict[str, str], numbers: dict[str, Any]
) -> None:
    run = asked(**settings)
    assert {name: getattr(run, name) for name in numbers} == numbers
    assert RunSpec.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        ({"host_cpus": "{client: 2, target: 2}"}, {"host_cpus": "2"}),
        (REAL, {"clock": "real"}),
        ({"kernel": "shipped"}, {}),
        ({"machine": "uniform"}, {}),
        ({"receive": "packet", "offloads": "off"}, {"offloads": "off"}),
        ({"bottleneck": "netem", "queue": "fifo"}, {}),
        ({"cc": "{client: bbr, target: bbr}"}, {"cc": "bbr"}),
    ],
)
def test_the_same_question_in_other_words_is_the_same_run(
    settings: dict[str, str], others: dict[str, str]
) -> None:
    assert asked(**settings).name == asked(**others).name


def test_what_nobody_asks_for_is_in_no_run_json() -> None:
    said = set(asked(**OLD).to_json())
    assert not said & {*NOBODYS, "kernel", "receive", "rx_usecs", "bottleneck", "queue"}
    assert not said & {"program_costs", "costs_of", "tunnel_options", "cc_by_end", "own_cc"}


def test_the_cpus_of_a_guest_are_the_runs() -> None:
    assert CpuModel.of(asked(**OLD)) == ONE_FOR_ALL
    assert CpuModel.of(asked(**PLAIN)) == CpuModel(host_cpus=1, clock_reads_are_free=True)
    assert CpuModel.of(asked(**OLD, byte_cost="0.25ns")) == CpuModel(byte_cost_ns=0.25)


def test_a_native_run_has_no_capture() -> None:
    with pytest.raises(SandboxOnly, match="run tcpdump beside it"):
        single_run(
            profile="plain-100ms",
            cc="cubic",
            machine="native",
            clock="real",
            overrides={"capture": "wan"},
        )


def test_a_run_without_a_capture_does_not_know_of_it() -> None:
    run = single_run(profile="plain-100ms", cc="cubic", machine="sandbox", clock="virtual")
    assert {"capture", "snaplen_bytes"}.isdisjoint(run.to_json())
