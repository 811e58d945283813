"""Congestion control by end and by leg, as the kernel's own sockets show it."""

import pytest

from tests.sandboxed import Lab, describe, direction

pytestmark = pytest.mark.sandbox

PATH = direction(rate_bps=10_000_000, delay_ms=20.0, buffer_pkts=100)


def seen(done) -> dict[tuple[str, str], list[str]]:
    """What each end of each leg ran."""
    legs = done.legs
    return {
        **{(leg["leg"], leg["receiver"]): leg["receiver_cc"] for leg in legs},
        **{(leg["leg"], leg["sender"]): leg["cc"] for leg in legs},
    }


def test_each_end_of_a_plain_connection_has_its_own(lab: Lab) -> None:
    done = lab.run(describe(PATH, PATH, cc="bbr", cc_by_end={"target": "reno"}, duration_s=2.0))

    assert seen(done) == {("wan", "client"): ["bbr"], ("wan", "target"): ["reno"]}
    assert done.verdicts["cc_wan_client"] == done.verdicts["cc_wan_target"] == "ok"
    assert done.verdicts["cc_on_wan_sockets"] == "ok"


@pytest.mark.parametrize(
    ("placement", "by_end", "expected"),
    [
        ("endpoint", {"target": "reno"}, "app: bbr, wan: bbr reno, exit: reno"),
        (
            "endpoint",
            {"client": "cubic", "target": "reno", "wan": "bbr"},
            "app: cubic, wan: bbr bbr, exit: reno",
        ),
        (
            "gateway",
            {"gost": "reno", "target": "cubic"},
            "app: bbr, wan: bbr reno, exit: reno cubic",
        ),
        ("gateway", {"exit": "reno"}, "app: bbr, wan: bbr bbr, exit: reno reno"),
    ],
)
def test_each_end_of_a_tunnels_legs_has_its_own(
    lab: Lab, placement: str, by_end: dict[str, str], expected: str
) -> None:
    run = describe(
        *(PATH, PATH),
        tunnel="gost+ws",
        placement=placement,
        cc="bbr",
        cc_by_end=by_end,
        duration_s=2.0,
    )

    done = lab.run(run)

    legs = done.legs
    ends = {leg["leg"]: leg["cc"] + leg["receiver_cc"] * (not leg["loopback"]) for leg in legs}
    assert ", ".join(f"{leg}: {' '.join(ccs)}" for leg, ccs in ends.items()) == expected
    assert {verdict for name, verdict in done.verdicts.items() if name.startswith("cc_")} == {"ok"}


def test_a_downloads_sender_is_the_far_end(lab: Lab) -> None:
    asked = {"tunnel": "gost+ws", "placement": "gateway", "direction": "download", "cc": "bbr"}
    ends = {"client": "reno", "target": "cubic"}
    done = lab.run(describe(PATH, PATH, cc_by_end=ends, duration_s=2.0, **asked))

    assert done.leg("wan")["sender"] == "gost" and done.leg("wan")["cc"] == ["bbr"]
    assert seen(done)["wan", "client"] == ["reno"]
    assert seen(done)["exit", "target"] == ["cubic"]


def test_inside_a_vpn_another_control_may_run_than_across_the_path(lab: Lab) -> None:
    """The leg `inner`, of a VPN over UDP and of one over TCP, whose own connection has another."""
    over_udp, over_tcp = (
        lab.run(f"{{rate: 10mbit, duration: 2s, tunnel: {tunnel}, cc: {cc}}}")
        for tunnel, cc in (
            ("wireguard", "{inner: bbr}"),
            ("openvpn+tcp", "{inner: reno, wan: bbr}"),
        )
    )

    for done in (over_udp, over_tcp):
        assert done.json("fidelity.json")["verdict"] != "invalid", done.json("fidelity.json")
    assert over_udp.leg("inner")["cc"] == ["bbr"]
    assert (over_tcp.leg("inner")["cc"], over_tcp.leg("wan")["cc"]) == (["reno"], ["bbr"])
