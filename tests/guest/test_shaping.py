"""tc's commands are built as asked, and what the kernel shows is read back and compared."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab.describe.resolve.expand import single_run
from gostlab.guest import environment
from gostlab.guest.idle import idle_rtt_ms, is_steady, jitter_range_ms
from gostlab.guest.qdiscs import ShapingMismatch, build_bottleneck, install_argvs, parse_shown
from gostlab.guest.qdiscs.htb import Htb
from gostlab.guest.qdiscs.netem import Netem, build_delay_line, table_path, table_text
from gostlab.guest.qdiscs.tbf import Tbf
from gostlab.guest.shaping import NO_DELAY_LINE, gact_intervals, periodic_loss_argv
from gostlab.guest.watch import netlink

FORWARD = {
    "rate_bps": 1_967_000_000,
    "delay_ms": 84.0,
    "jitter_ms": 0.0,
    "buffer_pkts": 27281,
    "ordered": False,
    "distribution": None,
    "loss": {"model": "random", "p": 0.001},
}


def netem_argv(device: str, netem: Netem, verb: str = "add") -> list[str]:
    return install_argvs(device, [netem], verb)[0]


def bottleneck(name: str, queue: str, **changes: object) -> list:
    return build_bottleneck(name, queue, {**FORWARD, **changes}, seed=13)


def test_rate_and_buffer_stand_apart_from_delay_and_loss() -> None:
    assert " ".join(netem_argv("a-eth1", *bottleneck("netem", "fifo"))) == (
        "tc qdisc add dev a-eth1 root netem limit 27281 rate 1967000000bit seed 13"
    )
    assert " ".join(netem_argv("b-eth1", build_delay_line(FORWARD, seed=14))) == (
        "tc qdisc add dev b-eth1 root netem limit 1000000 delay 84.000000ms"
        " loss random 0.10000000% seed 14"
    )


def test_a_bottleneck_adds_to_the_idle_path_its_rates_time_for_a_ping_and_no_jitter() -> None:
    path = [{**NO_DELAY_LINE, "rate_bps": 1_000_000}, {**FORWARD, "rate_bps": None}]
    assert idle_rtt_ms(path) == 84.0 + 0.784  # a frame of 98 bytes
    assert is_steady(path[:1]) and jitter_range_ms(path) == (0.0, 0.0)


def test_a_change_repeats_everything_with_its_seed() -> None:
    lossless = {**FORWARD, "loss": {"model": "random", "p": 0.0}}
    assert " ".join(netem_argv("x", build_delay_line(lossless, seed=1), "change")) == (
        "tc qdisc change dev x root netem limit 1000000 delay 84.000000ms seed 1"
    )


def test_jitter_that_keeps_order_has_a_rate_too_high_to_matter() -> None:
    jitter = {**FORWARD, "jitter_ms": 15.0}
    assert build_delay_line(jitter, seed=1).rate_bps is None
    assert build_delay_line({**jitter, "ordered": True}, seed=1).rate_bps == 10_000_000_000


def test_a_delay_table_is_named_after_its_contents(tmp_path: Path) -> None:
    netem = build_delay_line(
        {**FORWARD, "jitter_ms": 2.0, "distribution": list(range(-8192, 8193, 64))}, seed=1
    )
    argv = netem_argv("x", netem)
    name = argv[argv.index("distribution") + 1]
    assert table_path(tmp_path, netem.distribution) == tmp_path / f"{name}.dist"
    assert [int(word) for word in table_text(netem.distribution).split()] == list(
        netem.distribution
    )


@pytest.mark.parametrize(
    ("packets", "intervals"),
    [
        (1, [1]),
        (2000, [2000]),
        (10_000, [10_000]),
        (100_000, [10_000, 10]),
        (1_000_000, [10_000, 100]),
    ],
)
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


def test_gilbert_elliott_keeps_tcs_order() -> None:
    loss = {"model": "gemodel", "p": 0.01, "r": 0.2, "one_minus_h": 0.9, "one_minus_k": 0.001}
    argv = netem_argv("x", build_delay_line({**FORWARD, "loss": loss}, seed=1))
    numbers = [float(word.rstrip("%")) for word in argv[argv.index("gemodel") + 1 :][:4]]
    assert numbers == [1, 20, 90, 0.1]


def test_tcs_json_is_read_back_in_the_labs_units() -> None:
    options = {
        "limit": 1000000,
        "delay": {"delay": 0.084, "jitter": 0, "correlation": 0},
        "loss-random": {"loss": 0.001, "correlation": 0},
        "rate": {"rate": 245875000},
        "seed": 14,
    }
    shown = json.dumps([{"kind": "netem", "handle": "1:", "root": True, "options": options}])
    assert parse_shown(shown, [Netem(1)]) == [
        Netem(1000000, 84.0, 0.0, (0.001,), 1_967_000_000, 14)
    ]


def test_an_interface_without_netem_is_a_mismatch() -> None:
    with pytest.raises(ShapingMismatch, match="no netem there, but noqueue"):
        parse_shown('[{"kind": "noqueue", "root": true}]', [Netem(1)])


@pytest.mark.parametrize(
    ("installed", "word"),
    [
        (Netem(1000, 84.0), "limit"),
        (Netem(1000000, 83.0), "delay"),
        (Netem(1000000, 84.0, 1.0), "jitter"),
        (Netem(1000000, 84.0, loss=(0.01,)), "loss"),
        (Netem(1000000, 84.0, rate_bps=10**6), "rate"),
    ],
)
def test_each_thing_that_differs_is_named(installed: Netem, word: str) -> None:
    found = Netem(1000000, 84.0).differences(installed)
    assert len(found) == 1 and found[0].startswith(word)


def test_the_kernels_resolution_is_no_difference() -> None:
    asked = Netem(1, 84.0, 0.0, (0.001,), 1_967_000_001)
    installed = Netem(1, 84.0000004, 0.0, (0.00099999997,), 1_967_000_000)

    assert asked.differences(installed) == []


# -- a token bucket, and the queue under it


def test_a_queue_stands_under_the_token_bucket_and_has_the_buffer() -> None:
    qdiscs = bottleneck("tbf", "fq_codel", rate_bps=50_000_000, buffer_pkts=200)

    assert [" ".join(argv) for argv in install_argvs("x", qdiscs)] == [
        "tc qdisc add dev x root handle 1: tbf rate 50000000bit burst 3028b limit 305828b",
        "tc qdisc add dev x parent 1: handle 2: fq_codel limit 200",
    ]


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
    "dualpi2": "pi2_options.py add x 1: 2: 10",
}


@pytest.mark.parametrize("queue", WORDS)
def test_each_queue_is_asked_for_its_limit_and_for_marks_where_it_is_to_be_told(queue: str) -> None:
    qdiscs = bottleneck("tbf", queue, rate_bps=10**6, buffer_pkts=10, ecn="on")

    assert " ".join(install_argvs("x", qdiscs)[1]).endswith(WORDS[queue])
    shown = {qdiscs[1].word: qdiscs[1].limit, "adaptive": True}
    assert qdiscs[1].differences(qdiscs[1].installed({**shown, "ecn": True})) == []
    lacking = qdiscs[1].differences(qdiscs[1].installed(shown))
    assert [phrase.split()[0] for phrase in lacking] == ["ecn"] * WORDS[queue].count("ecn")


def test_a_short_buffer_of_cake_has_room_for_what_cake_needs_of_memory() -> None:
    assert bottleneck("tbf", "cake", buffer_pkts=1)[1].limit == 1 << 16


def test_red_has_tcs_own_thresholds_once_its_buffer_is_large_enough() -> None:
    words = {n: bottleneck("tbf", "red", buffer_pkts=n)[1].tc_options() for n in (11, 12)}
    assert ("min" in words[11], "min" in words[12]) == (True, False)


def test_netem_is_its_own_queue() -> None:
    assert [qdisc.kind for qdisc in bottleneck("netem", "fq_codel")] == ["netem"]


def test_the_bucket_grows_with_the_rate() -> None:
    assert bottleneck("tbf", "fifo", rate_bps=10**9)[0].burst_bytes == 12_500  # 0.1 ms
    assert bottleneck("tbf", "fifo", rate_bps=10**6)[0].burst_bytes == 2 * 1514


# What iproute2 6.15's tc -j printed of the commands above.
SHOWN = [
    {"kind": "tbf", "handle": "1:", "root": True, "options": {"rate": 6250000, "burst": 3028, "lat": 48}},
    {"kind": "fq_codel", "handle": "2:", "parent": "1:", "options": {"limit": 200, "target": 4999}},
    {"kind": "clsact", "handle": "ffff:", "parent": "ffff:fff1", "options": {}},
]  # fmt: skip


def test_both_are_read_back_each_in_its_place() -> None:
    asked = bottleneck("tbf", "fq_codel", rate_bps=50_000_000, buffer_pkts=200)

    rate, queue = parse_shown(json.dumps(SHOWN), asked)

    assert rate == Tbf(rate_bps=50_000_000, burst_bytes=3028)
    assert asked[0].differences(rate) == asked[1].differences(queue) == []


@pytest.mark.parametrize(
    ("number", "options", "says"),
    [
        (0, {"rate": 6250000 // 2}, "rate 50000000 bit/s asked, 25000000 bit/s installed"),
        (0, {"burst": 1600}, "burst 3028 bytes asked, 1600 bytes installed"),
        (1, {"limit": 10240}, "limit 200 packets asked, 10240 packets installed"),
    ],
)
def test_a_bucket_or_queue_that_differs_is_named(number: int, options: dict, says: str) -> None:
    asked = bottleneck("tbf", "fq_codel", rate_bps=50_000_000, buffer_pkts=200)
    shown = [dict(entry) for entry in SHOWN]
    shown[number]["options"] = {**shown[number]["options"], **options}

    installed = parse_shown(json.dumps(shown), asked)

    assert [
        phrase for a, b in zip(asked, installed, strict=True) for phrase in a.differences(b)
    ] == [says]


# -- a token bucket that is a class


def of_htb(**changes: object) -> list:
    return bottleneck("htb", "bfifo", **{"rate_bps": 100_000_000, "buffer_pkts": 167, **changes})


def test_a_class_has_the_rate_and_the_queue_stands_under_it() -> None:
    rate = "rate 100000000bit ceil 100000000bit burst 1600b cburst 1600b quantum 1514"

    assert [" ".join(argv) for argv in install_argvs("x", of_htb())] == [
        "tc qdisc add dev x root handle 1: htb default 1",
        f"tc class add dev x parent 1: classid 1:1 htb {rate}",
        "tc qdisc add dev x parent 1:1 handle 2: bfifo limit 252838",
    ]
    change = [" ".join(argv[:3]) for argv in install_argvs("x", of_htb(), "change")]
    assert change == ["tc class change", "tc qdisc change"]  # htb itself takes no change
    assert of_htb(rate_bps=10**9)[0].burst_bytes == 12_500  # 0.1 ms, as tbf's


# What tc printed of the commands above: qdiscs, and the class by iproute2 6.15 and by 6.1.
QDISCS = [
    {"kind": "htb", "handle": "1:", "root": True, "options": {"r2q": 10, "default": "0x1"}},
    {"kind": "bfifo", "handle": "2:", "parent": "1:1", "options": {"limit": 252838}},
]
RATES = {"rate": 12500000, "ceil": 12500000, "burst": 1600, "cburst": 1600}
IN_JSON = json.dumps([{"class": "htb", "handle": "1:1", "leaf": "0x2", "prio": 0, **RATES}])
IN_WORDS = "class htb 1:1 root leaf 2: prio 0 rate 100Mbit ceil 100Mbit burst 1600b cburst 1600b "


@pytest.mark.parametrize("shown", [IN_JSON, IN_WORDS])
def test_a_class_is_read_back_from_either_tc(shown: str) -> None:
    rate, queue = parse_shown(f"{json.dumps(QDISCS)}\n{shown}\n", of_htb())

    assert rate == Htb(100_000_000, 1600, 100_000_000, 1600)
    assert of_htb()[0].differences(rate) == of_htb()[1].differences(queue) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"rate": 12500000', '"rate": 12400000', "rate 100000000 bit/s asked, 99200000 bit/s"),
        ('"ceil": 12500000', '"ceil": 1', "ceil 100000000 bit/s asked, 8 bit/s installed"),
        ('"cburst": 1600', '"cburst": 51600', "cburst 1600 bytes asked, 51600 bytes installed"),
        ('"default": "0x1"', '"default": "0x0"', "default class 1 asked, 0 installed"),
        ("rate 100Mbit", "rate 99Mbit", "rate 100000000 bit/s asked, 99000000 bit/s installed"),
        ("burst 1600b", "burst 15Kb", "burst 1600 bytes asked, 15360 bytes installed"),
    ],
)
def test_a_class_that_differs_is_named(old: str, new: str, says: str) -> None:
    text = f"{json.dumps(QDISCS)}\n{IN_JSON if old.startswith(chr(34)) else IN_WORDS}\n"
    assert old in text

    [rate, _] = parse_shown(text.replace(old, new, 1), of_htb())

    assert any(phrase.startswith(says) for phrase in of_htb()[0].differences(rate))


def test_a_missing_queue_is_a_mismatch() -> None:
    with pytest.raises(ShapingMismatch, match="no codel there, but fq_codel"):
        parse_shown(json.dumps(SHOWN), bottleneck("tbf", "codel"))


def test_a_kernel_built_without_a_queue_is_told_to_be_built_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = single_run(
        profile="plain-100ms",
        cc="cubic",
        machine="sandbox",
        clock="virtual",
        overrides={"bottleneck": "tbf", "queue": "pie"},
    )
    config = "CONFIG_NET_SCH_TBF=y\n# CONFIG_NET_SCH_PIE is not set\n"
    monkeypatch.setattr(environment, "kernel_config", lambda: config)
    said = environment.unbuilt_queue(run)
    assert all(word in said for word in ("pie", "NET_SCH_PIE=y", "kernel/options", "./lab setup"))
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
