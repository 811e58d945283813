# SPDX-License-Identifier: MIT
"""tc's commands are built as asked, and what the kernel shows is read back and compared."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gostlab.guest import environment
from gostlab.guest.baseline_rtt import idle_rtt_ms, jitter_range_ms
from gostlab.guest.delay_line import Netem, build_delay_line, table_path, table_text
from gostlab.guest.probes import netlink
from gostlab.guest.qdisc import ShapedDirection
from gostlab.guest.shaping import gact_intervals, periodic_loss_argv
from gostlab.guest.tc import Qdisc, ShapingMismatch, build_bottleneck, install_argvs, parse_shown
from gostlab.qdiscs.htb import Htb
from gostlab.qdiscs.tbf import Tbf
from gostlab.spec.path_spec import NO_LOSS, LossSpec, random_loss
from tests.asked import run_of

FORWARD = ShapedDirection(
    rate_bps=1_967_000_000,
    delay_ms=84.0,
    jitter_ms=0.0,
    buffer_pkts=27281,
    ordered=False,
    distribution=None,
    loss=random_loss(0.001),
)


GEMODEL = LossSpec(model="gemodel", p=0.01, r=0.2, one_minus_h=0.9, one_minus_k=0.001)


def bottleneck(name: str, queue: str, **changes: Any) -> list:
    return build_bottleneck(name, queue, replace(FORWARD, **changes), seed=13)


def delay_line(**changes: Any) -> Netem:
    return build_delay_line(replace(FORWARD, **changes), seed=1)


OF_TBF = bottleneck("tbf", "fq_codel", rate_bps=50_000_000, buffer_pkts=200)
OF_HTB = bottleneck("htb", "bfifo", rate_bps=100_000_000, buffer_pkts=167)
LINE = "tc qdisc {} dev x root netem limit 1000000 delay 84.000000ms"
CLASS = (
    "tc class {} dev x parent 1: classid 1:1 htb rate 100000000bit ceil 100000000bit burst 1600b"
    " cburst 1600b quantum 1514"
)


@pytest.mark.parametrize(
    ("qdiscs", "verb", "commands"),
    [
        # Rate and buffer stand apart from delay and loss.
        (
            bottleneck("netem", "fifo"),
            "add",
            ["tc qdisc {} dev x root netem limit 27281 rate 1967000000bit seed 13"],
        ),
        ([delay_line()], "add", [f"{LINE} loss random 0.10000000% seed 1"]),
        # A change repeats everything with its seed.
        ([delay_line(loss=NO_LOSS)], "change", [f"{LINE} seed 1"]),
        (
            [delay_line(loss=GEMODEL)],
            "add",
            [f"{LINE} loss gemodel 1.00000000% 20.00000000% 90.00000000% 0.10000000% seed 1"],
        ),
        # A queue stands under the token bucket and has the buffer.
        (
            OF_TBF,
            "add",
            [
                "tc qdisc {} dev x root handle 1: tbf rate 50000000bit burst 3028b limit 305828b",
                "tc qdisc {} dev x parent 1: handle 2: fq_codel limit 200",
            ],
        ),
        # A class has the rate; htb itself takes no change.
        (
            OF_HTB,
            "add",
            [
                "tc qdisc {} dev x root handle 1: htb default 1",
                CLASS,
                "tc qdisc {} dev x parent 1:1 handle 2: bfifo limit 252838",
            ],
        ),
        (OF_HTB, "change", [CLASS, "tc qdisc {} dev x parent 1:1 handle 2: bfifo limit 252838"]),
    ],
)
def test_tc_is_told(qdiscs: list, verb: str, commands: list[str]) -> None:
    told = [" ".join(argv) for argv in install_argvs("x", qdiscs, verb)]
    assert told == [command.format(verb) for command in commands]


def test_a_bottleneck_adds_to_the_idle_path_its_rates_time_for_a_ping_and_no_jitter() -> None:
    nothing = {"delay_ms": 0.0, "loss": NO_LOSS}
    path = [replace(FORWARD, rate_bps=1_000_000, **nothing), replace(FORWARD, rate_bps=None)]
    assert idle_rtt_ms(path) == 84.0 + 0.784  # a frame of 98 bytes
    assert path[0].is_steady and jitter_range_ms(path) == (0.0, 0.0)


def test_jitter_that_keeps_order_has_a_rate_too_high_to_matter() -> None:
    assert delay_line(jitter_ms=15.0).rate_bps is None
    assert delay_line(jitter_ms=15.0, ordered=True).rate_bps == 10_000_000_000


def test_a_delay_table_is_named_after_its_contents(tmp_path: Path) -> None:
    table = tuple(range(-8192, 8193, 64))
    options = delay_line(jitter_ms=2.0, distribution=table).tc_options()
    name = options[options.index("distribution") + 1]
    assert table_path(tmp_path, table) == tmp_path / f"{name}.dist"
    assert tuple(map(int, table_text(table).split())) == table


INTERVALS = {1: [1], 2000: [2000], 10**4: [10**4], 10**5: [10**4, 10], 10**6: [10**4, 100]}


@pytest.mark.parametrize(("packets", "intervals"), INTERVALS.items())
def test_periodic_loss_is_a_chain_of_actions_that_multiply(
    packets: int, intervals: list[int]
) -> None:
    assert gact_intervals(packets) == intervals
    argv = periodic_loss_argv("x", packets)
    assert [
        int(argv[i + 1]) for i, word in enumerate(argv) if word in ("pipe", "drop")
    ] == intervals
    assert argv[-2] == "drop"


def test_a_period_that_no_chain_makes_is_refused() -> None:
    with pytest.raises(ValueError, match="not a product"):
        gact_intervals(1_000_003)


WORDS = {
    "fifo": "pfifo limit 10",
    "bfifo": "bfifo limit 15140",
    "sfq": "sfq limit 10",
    "codel": "codel limit 10 ecn",
    "fq_codel": "fq_codel limit 10 ecn",
    "pie": "pie limit 10 ecn",
    "fq_pie": "fq_pie limit 10 ecn",
    "cake": "cake memlimit 81920 unlimited besteffort",
    "red": "red limit 15140 avpkt 1000 min 1514 max 4542 bandwidth 1000000bit adaptive ecn",
    "dualpi2": "dualpi2_netlink.py add x 1: 2: 10",
}


@pytest.mark.parametrize("queue", WORDS)
def test_each_queue_is_asked_for_its_limit_and_for_marks_where_it_is_to_be_told(queue: str) -> None:
    qdiscs = bottleneck("tbf", queue, rate_bps=10**6, buffer_pkts=10, ecn="on")

    assert " ".join(install_argvs("x", qdiscs)[1]).endswith(WORDS[queue])
    shown = {qdiscs[1].word: qdiscs[1].limit, "adaptive": True}
    assert qdiscs[1].differences(qdiscs[1].installed({**shown, "ecn": True})) == []
    lacking = qdiscs[1].differences(qdiscs[1].installed(shown))
    assert [phrase.split()[0] for phrase in lacking] == ["ecn"] * WORDS[queue].count("ecn")


def test_fq_limits_each_flow_to_the_buffer_and_not_to_the_kernels_100_packets() -> None:
    fq = bottleneck("tbf", "fq", rate_bps=10**6, buffer_pkts=1000)[1]

    assert fq.tc_options() == ["limit", "1000", "flow_limit", "1000"]
    assert fq.differences(fq.installed({"limit": 1000, "flow_limit": 1000})) == []
    assert fq.differences(fq.installed({"limit": 1000, "flow_limit": 100})) == [
        "flow_limit 1000 packets asked, 100 packets installed"
    ]


def test_a_short_buffer_of_cake_has_room_for_what_cake_needs_of_memory() -> None:
    assert bottleneck("tbf", "cake", buffer_pkts=1)[1].limit == 1 << 16


def test_red_has_tcs_own_thresholds_once_its_buffer_is_large_enough() -> None:
    words = {n: bottleneck("tbf", "red", buffer_pkts=n)[1].tc_options() for n in (11, 12)}
    assert ("min" in words[11], "min" in words[12]) == (True, False)


def test_netem_is_its_own_queue() -> None:
    assert [qdisc.qdisc_kind for qdisc in bottleneck("netem", "fq_codel")] == ["netem"]


@pytest.mark.parametrize("kind", ["tbf", "htb"])
def test_the_bucket_grows_with_the_rate(kind: str) -> None:
    least = {"tbf": 2 * 1514, "htb": 1600}[kind]
    bytes_of = [bottleneck(kind, "fifo", rate_bps=rate)[0].burst_bytes for rate in (10**6, 10**9)]
    assert bytes_of == [least, 12_500]  # 0.1 ms


NETEM_OPTIONS = {
    "limit": 1000000,
    "delay": {"delay": 0.084, "jitter": 0, "correlation": 0},
    "loss-random": {"loss": 0.001, "correlation": 0},
    "rate": {"rate": 245875000},
    "seed": 14,
}
# What iproute2 6.15's tc -j printed of the commands above, and 6.1's of a class.
NETEM = [{"kind": "netem", "handle": "1:", "root": True, "options": NETEM_OPTIONS}]
SHOWN = [
    {"kind": "tbf", "handle": "1:", "root": True, "options": {"rate": 6250000, "burst": 3028, "lat": 48}},
    {"kind": "fq_codel", "handle": "2:", "parent": "1:", "options": {"limit": 200, "target": 4999}},
    {"kind": "clsact", "handle": "ffff:", "parent": "ffff:fff1", "options": {}},
]  # fmt: skip
QDISCS = [
    {"kind": "htb", "handle": "1:", "root": True, "options": {"r2q": 10, "default": "0x1"}},
    {"kind": "bfifo", "handle": "2:", "parent": "1:1", "options": {"limit": 252838}},
]
RATES = {"rate": 12500000, "ceil": 12500000, "burst": 1600, "cburst": 1600}
IN_JSON = json.dumps([{"class": "htb", "handle": "1:1", "leaf": "0x2", "prio": 0, **RATES}])
IN_WORDS = "class htb 1:1 root leaf 2: prio 0 rate 100Mbit ceil 100Mbit burst 1600b cburst 1600b "
IN_OTHERS = "class htb 1:1 root leaf 2: prio 0 rate 99Mbit ceil 1Gbit burst 15Kb cburst 1600b "


@pytest.mark.parametrize(
    ("qdiscs", "of_class", "asked", "installed"),
    [
        (NETEM, "", [Netem(1)], Netem(1000000, 84.0, 0.0, (0.001,), 1_967_000_000, 14)),
        (SHOWN, "", OF_TBF, Tbf(rate_bps=50_000_000, burst_bytes=3028)),
        (QDISCS, IN_JSON, OF_HTB, OF_HTB[0]),
        (QDISCS, IN_WORDS, OF_HTB, OF_HTB[0]),
        (QDISCS, IN_OTHERS, OF_HTB, Htb(99_000_000, 15360, 1_000_000_000, 1600)),
    ],
)
def test_what_tc_shows_is_read_back_in_the_labs_units_each_in_its_place(
    qdiscs: list, of_class: str, asked: list, installed: Qdisc
) -> None:
    root, *under = parse_shown(f"{json.dumps(qdiscs)}\n{of_class}\n", asked)

    assert root == installed
    for queue, wanted in zip(under, asked[1:], strict=True):
        assert wanted.differences(queue) == []


@pytest.mark.parametrize(
    ("asked", "installed", "says"),
    [
        (Netem(10), {"limit_pkts": 1000}, "limit 10 packets asked, 1000 packets installed"),
        (Netem(1, 84.0), {"delay_ms": 83.0}, "delay 84.0 ms asked, 83.0 ms installed"),
        (Netem(1), {"jitter_ms": 1.0}, "jitter 0.0 ms asked, 1.0 ms installed"),
        (Netem(1), {"loss": (0.01,)}, "loss () asked, (0.01,) installed"),
        (Netem(1, ecn=True), {"ecn": False}, "ecn True asked, False installed"),
        (Netem(1), {"rate_bps": 10**6}, "rate None bit/s asked, 1000000 bit/s installed"),
        (Netem(1, seed=7), {"seed": None}, "seed 7 asked, None installed"),
        (OF_TBF[0], {"rate_bps": 10**6}, "rate 50000000 bit/s asked, 1000000 bit/s installed"),
        (OF_TBF[0], {"burst_bytes": 1600}, "burst 3028 bytes asked, 1600 bytes installed"),
        (OF_TBF[1], {"limit": 10240}, "limit 200 packets asked, 10240 packets installed"),
        (OF_HTB[0], {"rate_bps": 99_200_000}, "rate 100000000 bit/s asked, 99200000 bit/s"),
        (OF_HTB[0], {"ceil_bps": 8}, "ceil 100000000 bit/s asked, 8 bit/s installed"),
        (OF_HTB[0], {"burst_bytes": 15360}, "burst 1600 bytes asked, 15360 bytes installed"),
        (OF_HTB[0], {"cburst_bytes": 51600}, "cburst 1600 bytes asked, 51600 bytes installed"),
        (OF_HTB[0], {"default": 0}, "default class 1 asked, 0 installed"),
    ],
)
def test_each_thing_that_differs_is_named(asked: Any, installed: dict, says: str) -> None:
    [phrase] = asked.differences(replace(asked, **installed))
    assert phrase.startswith(says)


def test_the_kernels_resolution_is_no_difference() -> None:
    asked = Netem(1, 84.0, 0.0, (0.001,), 1_967_000_001)
    installed = Netem(1, 84.0000004, 0.0, (0.00099999997,), 1_967_000_000)

    assert asked.differences(installed) == []


@pytest.mark.parametrize(
    ("shown", "asked", "says"),
    [
        ([{"kind": "noqueue", "root": True}], [Netem(1)], "no netem there, but noqueue"),
        (SHOWN, bottleneck("tbf", "codel"), "no codel there, but fq_codel"),
    ],
)
def test_a_missing_one_is_a_mismatch(shown: list, asked: list, says: str) -> None:
    with pytest.raises(ShapingMismatch, match=says):
        parse_shown(json.dumps(shown), asked)


def test_a_kernel_built_without_a_queue_is_told_to_be_built_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = run_of(bottleneck="tbf", queue="pie")
    config = "CONFIG_NET_SCH_TBF=y\n# CONFIG_NET_SCH_PIE is not set\n"
    monkeypatch.setattr(environment, "kernel_config", lambda: config)
    said = environment.unbuilt_queue(run)
    assert all(
        word in said for word in ("pie", "NET_SCH_PIE=y", "kernel/kconfig.fragment", "./lab setup")
    )
    native = environment.unbuilt_queue(replace(run, machine="native"))
    assert "--machine sandbox" in native
    monkeypatch.setattr(environment, "kernel_config", lambda: config + "CONFIG_NET_SCH_PIE=m\n")
    assert environment.unbuilt_queue(run) == ""
    monkeypatch.setattr(environment, "kernel_config", lambda: "")
    assert environment.unbuilt_queue(run) == ""


def test_statistics_that_are_not_those_declared_are_an_error_and_not_no_marks() -> None:
    codel_and_threshold = bytes(12) + b"\7\0\0\0" + bytes(12) + b"\2\0\0\0"
    assert netlink.marks_of("fq_codel", codel_and_threshold) == 9
    assert netlink.marks_of("pfifo", b"") is None
    with pytest.raises(ValueError, match=r"fq_codel\.py says \(marks_at"):
        netlink.marks_of("fq_codel", bytes(12))
