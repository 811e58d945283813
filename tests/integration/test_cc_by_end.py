"""Congestion control by end and by leg, as the kernel's own sockets show it."""

from __future__ import annotations

import pytest

from tests.integration.sandboxed import Lab, describe, direction
from tests.integration.test_flows import written

PATH = direction(rate_bps=10_000_000, delay_ms=20.0, buffer_pkts=100)


def seen(done) -> dict[tuple[str, str], list[str]]:
    """What each end of each leg ran."""
    legs = done.json("legs.json")["legs"]
    return {
        **{(leg["leg"], leg["receiver"]): leg["receiver_cc"] for leg in legs},
        **{(leg["leg"], leg["sender"]): leg["cc"] for leg in legs},
    }


def checks(done) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in done.json("fidelity.json")["checks"]}


def test_each_end_of_a_plain_connection_has_its_own(lab: Lab) -> None:
    done = lab.run(describe(PATH, PATH, cc="bbr", cc_by_end={"target": "reno"}, duration_s=2.0))

    assert done.outcome == {**done.outcome, "outcome": "ok", "error": None}
    assert seen(done) == {("wan", "client"): ["bbr"], ("wan", "target"): ["reno"]}
    assert checks(done)["cc_wan_client"] == checks(done)["cc_wan_target"] == "ok"
    assert checks(done)["cc_on_wan_sockets"] == "ok"


@pytest.mark.parametrize(
    ("placement", "by_end", "expected"),
    [
        (
            "endpoint",
            {"target": "reno"},
            {
                ("app", "client"): ["bbr"],
                ("wan", "client"): ["bbr"],
                ("wan", "target"): ["reno"],
                ("exit", "target"): ["reno"],
            },
        ),
        (
            "endpoint",
            {"client": "cubic", "target": "reno", "wan": "bbr"},
            {
                ("app", "client"): ["cubic"],
                ("wan", "client"): ["bbr"],
                ("wan", "target"): ["bbr"],
                ("exit", "target"): ["reno"],
            },
        ),
        (
            "gateway",
            {"gost": "reno", "target": "cubic"},
            {
                ("app", "client"): ["bbr"],
                ("wan", "client"): ["bbr"],
                ("wan", "gost"): ["reno"],
                ("exit", "gost"): ["reno"],
                ("exit", "target"): ["cubic"],
            },
        ),
        (
            "gateway",
            {"exit": "reno"},
            {
                ("app", "client"): ["bbr"],
                ("wan", "client"): ["bbr"],
                ("wan", "gost"): ["bbr"],
                ("exit", "gost"): ["reno"],
                ("exit", "target"): ["reno"],
            },
        ),
    ],
)
def test_each_end_of_a_tunnels_legs_has_its_own(
    lab: Lab, placement: str, by_end: dict[str, str], expected: dict
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

    assert done.outcome == {**done.outcome, "outcome": "ok", "error": None}
    assert seen(done) == expected
    assert {verdict for name, verdict in checks(done).items() if name.startswith("cc_")} == {"ok"}


def test_a_downloads_sender_is_the_far_end(lab: Lab) -> None:
    done = lab.run(
        describe(
            PATH,
            PATH,
            tunnel="gost+ws",
            placement="gateway",
            direction="download",
            cc="bbr",
            cc_by_end={"client": "reno", "target": "cubic"},
            duration_s=2.0,
        )
    )

    assert done.outcome == {**done.outcome, "outcome": "ok", "error": None}
    assert done.leg("wan")["sender"] == "gost" and done.leg("wan")["cc"] == ["bbr"]
    assert seen(done)["wan", "client"] == ["reno"]
    assert seen(done)["exit", "target"] == ["cubic"]


def test_inside_a_vpn_another_control_may_run_than_across_the_path(lab: Lab) -> None:
    """The leg `inner`, of a VPN over UDP and of one over TCP, whose own connection has another."""
    over_udp, over_tcp = (
        lab.run(written(f"{{rate: 10mbit, duration: 2s, tunnel: {tunnel}, cc: {cc}}}"))
        for tunnel, cc in (
            ("wireguard", "{inner: bbr}"),
            ("openvpn+tcp", "{inner: reno, wan: bbr}"),
        )
    )

    for done in (over_udp, over_tcp):
        assert done.json("fidelity.json")["verdict"] != "invalid", done.json("fidelity.json")
    assert over_udp.leg("inner")["cc"] == ["bbr"]
    assert (over_tcp.leg("inner")["cc"], over_tcp.leg("wan")["cc"]) == (["reno"], ["bbr"])
