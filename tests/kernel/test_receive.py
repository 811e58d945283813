# SPDX-License-Identifier: MIT
"""`receive: moderated`: what packets wait for an end host's card, and who receives so."""

from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from tests.sandboxed import BIG_BUFFERS, Lab, describe, direction

pytestmark = pytest.mark.sandbox

PROBE = Path(__file__).with_name("moderation_probe.py")
RX_USECS = 50
MODERATED = ("'ethtool -K two0 gro on'", f"'ethtool -C two0 rx-usecs {RX_USECS}'")


def probe(lab: Lab, *words: str) -> dict[str, Any]:
    """What moderation_probe.py prints, with calls that cost nothing."""
    command = " ".join(["python3 -S", quote(str(PROBE)), *words])
    return dict(lab.command(command, syscall_cost_us=0).printed[0])


def test_no_packet_waits_longer_than_rx_usecs_and_none_after_a_pause(lab: Lab) -> None:
    at_once = probe(lab, "at_random")
    moderated = probe(lab, "at_random", *MODERATED)

    assert max(at_once["waited_us"]) < 1
    waited = moderated["waited_us"]
    assert min(waited) >= 0
    assert max(waited) <= RX_USECS
    assert sum(us > 1 for us in waited) > len(waited) / 3
    # The last interrupt was at most rx_usecs after the last packet.
    alone = [
        us
        for us, since in zip(waited, moderated["since_last_us"], strict=True)
        if since > 2 * RX_USECS
    ]
    assert len(alone) > 20 and max(alone) < 1


def test_gro_does_not_keep_a_segment_for_the_next_jiffy(lab: Lab) -> None:
    assert max(probe(lab, "lone_segment", *MODERATED)["waited_us"]) < 2


def moderated_run(**changes: Any) -> Any:
    way = direction(rate_bps=250_000_000, delay_ms=5)
    asked = {"duration_s": 1.0, "cc": "bbr", "buffers": BIG_BUFFERS, "acks": True}
    return describe(way, way, **asked, **changes)


def test_end_hosts_alone_merge_packets(lab: Lab) -> None:
    one = lab.run(moderated_run(receive="moderated", rx_usecs=400))
    packet = lab.run(moderated_run())

    card = {"gro": True, "rx_usecs": 400, "rx_frames": 64}
    env = one.json("env.json")
    assert env["receive"] == {"client-eth0": card, "target-eth0": card}
    merging = {name for name, each in env["offloads"].items() if each["generic-receive-offload"]}
    assert merging == {"client-eth0", "target-eth0"}
    assert "receive" not in packet.json("env.json")
    # Lumps of eight packets bring fewer ACKs; an idle path is as long as without.
    assert len(one.acks) < 0.5 * len(packet.acks)
    assert one.json("fidelity.json")["checks"][0] == packet.json("fidelity.json")["checks"][0]
    assert abs(one.goodput_bps / packet.goodput_bps - 1) < 0.03
