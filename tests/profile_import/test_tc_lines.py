# SPDX-License-Identifier: MIT
"""A path in tc's words or Mininet's is the same path in the lab, and what it lacks is named."""

import contextlib
import io
from fractions import Fraction
from pathlib import Path

import pytest

from gostlab.cli import main
from gostlab.importers.base import Recording, SpecifiedPath, UnreadableRecording
from gostlab.importers.tc_lines import FORMAT, read_rate_bps, read_share, read_size_bytes
from gostlab.spec.path_spec import PolicerSpec, ReorderSpec, ShareSpec, SlotSpec
from gostlab.spec.profile import load_profile
from gostlab.tcpmodel.delay_tables import delay_table


def path_of(*lines: str) -> SpecifiedPath:
    text = "\n".join(lines) + "\n"
    assert FORMAT.recognises(text)
    path = FORMAT.read([Recording("tc.sh", text)])
    assert isinstance(path, SpecifiedPath)
    return path


def refusal(*lines: str) -> str:
    with pytest.raises(UnreadableRecording) as caught:
        FORMAT.read([Recording("tc.sh", "\n".join(lines))])
    return str(caught.value)


NETEM = "tc qdisc add dev eth0 root netem"


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("20mbit", 20_000_000),
        ("20Mbit", 20_000_000),
        ("2mbps", 16_000_000),
        ("1kibit", 1024),
        ("1mibps", 8 * 1024**2),
        ("500000", 500_000),
        ("1.5gbit", 1_500_000_000),
    ],
)
def test_rates_are_tcs(text: str, bps: int) -> None:
    assert read_rate_bps(text) == bps


def test_sizes_and_percentages_are_tcs() -> None:
    assert [read_size_bytes(text) for text in ("32kbit", "4Kb", "10k", "1500b", "1500")] == [
        4096,
        4096,
        10240,
        1500,
        1500,
    ]
    assert read_share("1") == read_share("1%") == Fraction(1, 100)


def test_netem_with_a_rate_keeps_the_order_and_counts_packets_in_flight() -> None:
    forward = path_of(f"{NETEM} delay 50ms 5ms loss 0.5% rate 20mbit limit 1000").forward
    assert forward is not None
    assert (forward.rate_bps, forward.delay_s, forward.jitter_s) == (
        20_000_000,
        Fraction(1, 20),
        Fraction(1, 200),
    )
    assert forward.ordered
    assert forward.buffer == "917pkts"  # 50 ms at 20 Mbit/s are 83 frames of 1514 bytes


def test_without_a_rate_of_its_own_netem_may_reorder() -> None:
    forward = path_of(
        "sudo tc qdisc add dev eth0 root handle 1: htb default 10",
        "tc class add dev eth0 parent 1: classid 1:0a htb rate 5mbit",
        "tc class add dev eth0 parent 1: classid 1:10 htb rate 10mbit ceil 20mbit burst 15k",
        "tc qdisc add dev eth0 parent 1:10 handle 10: netem delay 50ms 5ms limit 200",
    ).forward
    assert forward is not None
    assert (forward.rate_bps, forward.ordered, forward.buffer) == (20_000_000, False, "117pkts")


@pytest.mark.parametrize(
    ("loss", "numbers"),
    [
        ("1%", ("0.01",)),
        ("random 1%", ("0.01",)),
        ("gemodel 1%", ("0.01",)),
        ("gemodel 1% 10%", ("0.01", "0.1", "1", "0")),
        ("gemodel 1% 10% 70% 0.1%", ("0.01", "0.1", "0.7", "0.001")),
        ("state 1% 20%", ("0.01", "0.2", "1", "0")),
        ("state 1% 20% 5% 60%", ("0.01", "0.2", "0.05", "0.6", "0")),
        ("state 1% 20% 5% 60% 0.2%", ("0.01", "0.2", "0.05", "0.6", "0.002")),
    ],
)
def test_loss_models_have_tcs_defaults(loss: str, numbers: tuple[str, ...]) -> None:
    forward = path_of(f"{NETEM} delay 10ms loss {loss} rate 10mbit").forward
    assert forward is not None
    assert forward.loss == tuple(map(Fraction, numbers))


def test_what_tc_shows_is_what_was_set() -> None:
    shown = path_of(
        "qdisc netem 8001: root refcnt 2 limit 1000 delay 50ms  5ms loss gemodel p 1% r 10% 1-h 70%"
        " 1-k 0.1% rate 20Mbit seed 77",
        " Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)",
        " backlog 0b 0p requeues 0",
    ).forward
    assert shown is not None
    assert shown.loss == tuple(map(Fraction, ("0.01", "0.1", "0.7", "0.001")))
    assert (shown.rate_bps, shown.buffer) == (20_000_000, "917pkts")


def test_shown_tbf_and_htb() -> None:
    tbf = path_of("qdisc tbf 1: dev lo root refcnt 2 rate 20Mbit burst 4Kb lat 400ms").forward
    assert tbf is not None
    assert (tbf.rate_bps, tbf.buffer) == (20_000_000, "663pkts")
    htb = path_of(
        "qdisc htb 5: dev s1-eth1 root refcnt 9 r2q 10 default 0x1 direct_packets_stat 0",
        "qdisc netem 10: dev s1-eth1 parent 5:1 limit 1000 delay 5ms",
        "class htb 5:1 dev s1-eth1 root leaf 10: prio 0 rate 10Mbit ceil 10Mbit burst 15Kb",
    ).forward
    assert htb is not None
    assert (htb.rate_bps, htb.delay_s) == (10_000_000, Fraction(5, 1000))


def test_what_a_filter_redirects_to_is_the_reverse_direction() -> None:
    path = path_of(
        "tc qdisc add dev eth0 root netem delay 10ms rate 5mbit",
        "tc qdisc add dev eth0 handle ffff: ingress",
        "tc filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 action mirred egress"
        " redirect dev ifb0",
        "tc qdisc add dev ifb0 root netem delay 30ms rate 50mbit",
    )
    assert path.forward is not None
    assert path.reverse is not None
    assert (path.forward.device, path.reverse.device) == ("eth0", "ifb0")
    assert path.reverse.rate_bps == 50_000_000


def test_a_prio_class_that_a_filter_chooses_has_the_emulation() -> None:
    path = path_of(
        "tc qdisc add dev eth0 root handle 1: prio",
        "tc qdisc add dev eth0 parent 1:3 handle 30: netem delay 40ms rate 10mbit",
        "tc filter add dev eth0 protocol ip parent 1:0 prio 3 u32 match ip dst 10.0.0.2 flowid 1:3",
    )
    assert path.forward is not None
    assert (path.forward.rate_bps, path.forward.delay_s) == (10_000_000, Fraction(1, 25))


def test_later_commands_change_replace_and_delete() -> None:
    changed = path_of(
        "tc qdisc del dev eth0 root 2>/dev/null || true",
        f"{NETEM} delay 10ms loss 1% rate 5mbit",
        "tc qdisc change dev eth0 root netem delay 20ms",
    ).forward
    assert changed is not None
    # The kernel keeps a netem's rate and forgets the rest.
    assert (changed.delay_s, changed.loss, changed.rate_bps) == (Fraction(1, 50), (), 5_000_000)
    other = path_of(
        f"{NETEM} delay 10ms rate 5mbit",
        "tc qdisc replace dev eth0 root tbf rate 1mbit burst 5kb limit 10kb",
    ).forward
    assert other is not None
    assert (other.rate_bps, other.buffer, other.delay_s) == (1_000_000, "6pkts", 0)
    assert "shapes anything" in refusal(f"{NETEM} delay 10ms", "tc qdisc del dev eth0 root")


def test_netem_reorders_duplicates_and_corrupts_as_the_lines_say() -> None:
    forward = path_of(
        f"{NETEM} delay 25ms loss 1% 30% reorder 5% 50% gap 3 duplicate 1% corrupt 0.1% 20% \\",
        "   rate 50mbit",
    ).forward
    assert forward is not None
    assert (forward.loss, forward.loss_correlation) == ((Fraction(1, 100),), Fraction(3, 10))
    assert forward.reorder == ReorderSpec(share=0.05, correlation=0.5, distance=3)
    assert forward.duplicate == ShareSpec(share=0.01)
    assert forward.corrupt == ShareSpec(share=0.001, correlation=0.2)


@pytest.mark.parametrize(
    ("slot", "spec"),
    [
        ("slot 1ms 2ms packets 3", SlotSpec(min_ms=1.0, max_ms=2.0, packets=3)),
        ("slot 5ms bytes 64k", SlotSpec(min_ms=5.0, max_ms=5.0, bytes=65_536)),
        (
            "slot distribution pareto 5ms 1ms",
            SlotSpec(delay_ms=5.0, jitter_ms=1.0, distribution=delay_table("pareto")),
        ),
    ],
)
def test_slots_are_taken(slot: str, spec: SlotSpec) -> None:
    forward = path_of(f"{NETEM} delay 25ms rate 50mbit {slot}").forward
    assert forward is not None
    assert forward.slot == spec


def test_a_policer_of_outgoing_and_of_incoming_packets() -> None:
    path = path_of(
        f"{NETEM} delay 25ms rate 50mbit",
        "tc qdisc add dev ifb0 root netem delay 5ms rate 20mbit",
        "tc qdisc add dev eth0 clsact",
        "tc filter add dev eth0 ingress matchall action mirred egress redirect dev ifb0",
        "tc filter add dev eth0 egress matchall action police rate 10mbit burst 15k"
        " conform-exceed drop/pass",
        "tc filter add dev eth0 ingress matchall action police rate 5mbit burst 30k drop",
    )
    assert path.forward is not None and path.reverse is not None
    assert path.forward.policer == PolicerSpec(rate_bps=10_000_000, burst_bytes=15_360)
    assert path.reverse.policer == PolicerSpec(rate_bps=5_000_000, burst_bytes=30_720)
    assert path.left_out == ()


def test_what_has_no_equivalent_is_named_with_its_line() -> None:
    path = path_of(
        "# a comment",
        f"{NETEM} delay 25ms 2ms 25% loss 1% rate 50mbit slot distribution mine 1ms 2ms",
        "tc qdisc add dev eth0 ingress",
        "tc filter add dev eth0 parent ffff: protocol ip police rate 1mbit burst 10k drop",
        "tc filter add dev eth0 parent 1: protocol ip police rate 1mbit burst 10k continue",
    )
    text = "\n".join(path.left_out)
    for what in ("correlation 25%", "slot's distribution mine", "police of incoming", "drops noth"):
        assert what in text
    assert all(line.startswith("tc.sh:") for line in path.left_out)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((f"{NETEM} delay $DELAY",), "tc.sh:1: $DELAY is a variable"),
        ((f"{NETEM} delay 100 rate 1mbit",), "no unit"),
        ((f"{NETEM} delay 100ms rate 1gbit",), "limit of 1000 packets is less than the 8256"),
        (
            (f"{NETEM} delay 10ms reorder 1% slot 1ms rate 1mbit",),
            "tc.sh:1: netem: reorder and slot",
        ),
        ((f"{NETEM} delay 10ms slot packets 3 rate 1mbit",), "slot without a time"),
        ((f"{NETEM} dely 10ms",), "tc.sh:1: netem: 'dely' is no option"),
        ((f"{NETEM} delay 10parsec",), "unknown unit"),
        ((f"{NETEM} rate 10%",), "share of the device's speed"),
        (("tc qdisc add root netem delay 1ms",), "without dev"),
        (("tc qdisc add dev",), "tc.sh:1"),
        ((f"{NETEM} delay '10ms",), "tc.sh:1: No closing quotation"),
        (("tc qdisc add dev e root tbf burst 5kb latency 1ms",), "no rate of tc's"),
        (
            (
                "tc qdisc add dev e root handle 1: netem delay 1ms",
                "tc qdisc add dev e parent 1:1 handle 1: tbf rate 1mbit burst 5kb limit 5kb",
            ),
            "stands below itself",
        ),
        (
            tuple(f"tc qdisc add dev eth{n} root netem delay 1ms rate 1mbit" for n in range(3)),
            "3 devices are shaped",
        ),
    ],
)
def test_what_cannot_be_taken_is_refused_in_one_line(lines: tuple[str, ...], words: str) -> None:
    message = refusal(*lines)
    assert words in message
    assert "\n" not in message


def test_mininets_link_is_shaped_at_both_ends() -> None:
    path = path_of(
        "net.addLink(h1, s1, cls=TCLink, bw=20, delay='15ms', loss=1, max_queue_size=50,",
        "            use_htb=True)",
    )
    assert path.forward == path.reverse
    assert path.forward is not None
    assert (path.forward.rate_bps, path.forward.buffer) == (20_000_000, "25pkts")
    assert "is a variable" in refusal("net.addLink(a, b, cls=TCLink, bw=BW, delay='5ms')")


def imported(folder: Path, text: str, *words: str) -> str:
    (folder / "mine.sh").write_text(text)
    argv = ["profile", "import", str(folder / "mine.sh"), "--out", str(folder), "--force", *words]
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        main.main(argv)
    return output.getvalue()


def test_a_profile_has_the_directions_and_says_one_way(tmp_path: Path) -> None:
    said = imported(tmp_path, f"{NETEM} delay 50ms rate 20mbit\n", "--rtt", "60ms")
    profile = load_profile(str(tmp_path / "mine.yaml"))
    assert (profile.forward.delay_s, profile.reverse.delay_s) == (Fraction(1, 20), Fraction(1, 100))
    assert "50ms one way" in said
    assert "less than the 50ms" in imported(
        tmp_path, f"{NETEM} delay 50ms rate 20mbit\n", "--rtt", "40ms"
    )
    assert "--rate" in imported(tmp_path, f"{NETEM} delay 50ms\n")


def test_jitter_beyond_the_delay_is_sent_at_once_as_netem_does(tmp_path: Path) -> None:
    imported(tmp_path, f"{NETEM} delay 10ms 20ms rate 20mbit\n")
    forward = load_profile(str(tmp_path / "mine.yaml")).forward
    assert forward.distribution is not None
    assert forward.least_delay_s == 0
    assert max(forward.distribution) > 8000


SHOWN = """\
qdisc netem 1: root refcnt 2 limit 1050 delay 15ms  2ms loss gemodel p 0.1% r 10% 1-h 100% 1-k 0% \
seed 8579642292727432890
 Sent 4311017 bytes 2864 pkt (dropped 83, overlimits 0 requeues 0)
 backlog 199b 3p requeues 0
qdisc tbf 10: parent 1:1 rate 20Mbit burst 3028b lat 13.9ms
 Sent 4311017 bytes 2864 pkt (dropped 103, overlimits 10461 requeues 0)
 backlog 0b 0p requeues 0
qdisc pfifo 20: parent 10:1 limit 25p
 Sent 4311017 bytes 2864 pkt (dropped 103, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
"""


def test_what_a_kernel_showed_of_netem_over_tbf_over_pfifo() -> None:
    path = path_of(SHOWN)
    assert path.forward is not None
    assert (path.forward.rate_bps, path.forward.buffer) == (20_000_000, "25pkts")
    assert (path.forward.ordered, path.settings) == (False, {"bottleneck": "tbf"})
