# SPDX-License-Identifier: MIT
"""GOST itself, of three versions: at both ends, and with the lab's relay at one of them. What each
version and the relay make of each other's bytes is looked at without a sandbox
(test_gost_by_itself.py); a GOST carries what the relay has not in test_tunnels.py.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gostlab.guest.start_tunnel import program_of
from gostlab.guest.tunnel_context import TunnelError
from gostlab.install.locate import TunnelBinary
from tests.lab_command import Gost
from tests.sandboxed import Done, Lab, describe, direction

pytestmark = [pytest.mark.sandbox, pytest.mark.real_gost]

RATE_BPS = 10_000_000
# Of what the lab's relay has too: one connection for each stream and one for all. What is started
# in ways of its own has a GOST at either end, crosswise.
KINDS = ["gost+wss", "gost+mws"]
NEWEST, OF_THE_THESIS, OLD = "3.2.6", "3.0.0-rc8", "2.11.5"
EACH = [(NEWEST, name) for name in KINDS]
EACH += [
    (version, name)
    for version, by_tcp in ((OF_THE_THESIS, "gost+wss"), (OLD, "gost+ws"))
    for name in (by_tcp, "gost+quic", "gost+kcp")
]
CROWDED = [(OF_THE_THESIS, "gost+wss")]
CROWDED += [(NEWEST, name) for name in ("gost+wss", "gost+quic", "gost+kcp")]
# A client has -F on its command line; a server has not.
CROSSWISE = """#!/bin/sh
case " $* " in *" -F "*) exec {client} "$@" ;; *) exec {server} "$@" ;; esac
"""


def through(
    lab: Lab, tunnel: str, program: TunnelBinary, rate_bps: int = RATE_BPS, **changes: Any
) -> Done:
    """A short run through a tunnel by a program."""
    way = direction(rate_bps=rate_bps, delay_ms=10.0, buffer_pkts=rate_bps // 200_000)
    if tunnel == "gost+kcp":  # its usual window is lost in the queue, again and again
        changes = {"tunnel_options": {"kcp_window": 64}, **changes}
    changes = {"duration_s": 2.0, "streams": 2, **changes}
    return lab.run(describe(way, way, tunnel=tunnel, **changes), **lab.by(program))


@pytest.fixture(scope="module")
def carried(lab: Lab, gost: Gost) -> Any:
    """A short run through a GOST of a version, once for all tests: of eight streams, where a test
    asks whether another one is like it.
    """

    def run(tunnel: str, version: str) -> Done:
        return through(lab, tunnel, gost(version), streams=8 if (version, tunnel) in CROWDED else 2)

    return cache(run)


def carries(done: Done, least: float = 0.6) -> None:
    assert least * RATE_BPS < done.goodput_bps < RATE_BPS
    assert done.faults == {}


@pytest.mark.parametrize(("version", "tunnel"), EACH)
def test_gost_at_both_ends_carries_the_load(
    gost: Gost, carried: Any, version: str, tunnel: str
) -> None:
    program = gost(version)

    done = carried(tunnel, version)

    carries(done, 0.5 if tunnel == "gost+kcp" else 0.6)
    recorded = done.json("env.json")["tunnel"]
    assert recorded["version"] == program.version and version in recorded["version"]
    assert recorded["sha256"] == program.sha256 and "go1." in recorded["version"]


@pytest.mark.parametrize("tunnel", ["split", "wireguard+ws"])
@pytest.mark.parametrize("client", ["relay", "gost"])
def test_relay_and_gost_understand_each_other(
    lab: Lab, gost: Gost, tmp_path: Path, client: str, tunnel: str
) -> None:
    program, relay = gost(NEWEST).path, lab.parts.relay
    lab.keep.append(program)
    ends = {"client": relay, "server": program} if client == "relay" else {"client": program}
    script = lab.posing(tmp_path, CROSSWISE.format(**{"server": relay, **ends}))

    done = through(lab, tunnel, TunnelBinary(script, "gost", "gost and relay", "0" * 64))

    carries(done)


def test_128_streams_go_through(lab: Lab, gost: Gost) -> None:
    # Of 384 sockets and more, which a sample takes long to ask and whose memory has a limit.
    small = {name: [4096, 16384, 65536] for name in ("rmem", "wmem")}
    more = {"duration_s": 4.0, "sample_ms": 500.0, "buffers": small}
    done = through(lab, "gost+ws", gost(NEWEST), 20_000_000, streams=128, **more)

    assert done.goodput_bps > 0.3 * 20_000_000
    assert done.faults == {}


@pytest.mark.parametrize(
    ("version", "tunnel", "says"),
    [
        (OLD, "gost+h3", "go1.19.8 has no gost.h3: GOST has it from 3.0.0-rc8 on"),
        (OF_THE_THESIS, "gost+wt", "go1.19.8 has no gost.wt: GOST has it from 3.0.0 on"),
        ("relay", "gost+quic", "relay .* has no gost.quic: GOST has it from 2.11 on"),
    ],
)
def test_a_transport_that_a_program_has_not_is_refused_in_one_line(
    lab: Lab, gost: Gost, version: str, tunnel: str, says: str
) -> None:
    relay = lab.handed["gosts"]["relay"]
    handed = relay if version == "relay" else gost(version).to_json()

    with pytest.raises(TunnelError, match=says) as refused:
        program_of(describe(tunnel=tunnel), {"tunnel": handed})

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("tunnel", ["gost+quic", "gost+kcp"])
def test_the_kernels_cc_decides_nothing_where_a_program_sends(
    lab: Lab, gost: Gost, carried: Any, tunnel: str
) -> None:
    one = carried(tunnel, NEWEST)
    other = through(lab, tunnel, gost(NEWEST), streams=8, cc="bbr")

    sent = [done.queue()[-1]["sent_bytes"] for done in (one, other)]
    assert sent[0] == pytest.approx(sent[1], rel=0.1)


def test_kcp_sends_as_its_settings_say(lab: Lab, gost: Gost) -> None:
    def settings(duration_s: float = 2.0, **options: Any) -> Done:
        more = {"tunnel_options": options, "duration_s": duration_s}
        return through(lab, "gost+kcp", gost(NEWEST), 20_000_000, **more)

    def sent(done: Done) -> float:
        return done.queue()[-1]["sent_bytes"] / done.json("flows.json")["flows"][0]["bytes"]

    def lost(done: Done) -> int:
        return sum(int(done.queue(role)[-1]["drops"]) for role in ("bottleneck", "delay"))

    usual = settings(kcp_mode="fast3", kcp_window=32)
    bare = settings(kcp_mode="fast3", kcp_window=32, kcp_parity=0)
    wide = settings(1.0, kcp_window=1024)
    assert 1.2 < sent(usual) / sent(bare) < 1.5  # 13 packets for 10, and ACKs
    # 32 packets of 1350 bytes over 20 ms and more, as an ACK waits for KCP's clock of 10 ms.
    assert bare.goodput_bps < 32 * 1350 * 8 / 0.02
    assert lost(usual) == 0 and lost(wide) > 1000
    assert usual.json("run.json")["tunnel_options"] == {"kcp_mode": "fast3", "kcp_window": 32}
    said = usual.commands
    assert "kcp.sndwnd=32" in said and "kcp.mode=fast3" in said


# The older ones' Go seeds random numbers with the CPU's cycle counter, which the lab sets to 0.
@pytest.mark.parametrize(
    ("version", "tunnel", "seeds"),
    [
        (NEWEST, "gost+wss", False),
        (OF_THE_THESIS, "gost+wss", True),
        (NEWEST, "gost+quic", False),
        (NEWEST, "gost+kcp", False),
    ],
)
def test_a_run_through_gost_repeats_to_the_bit(
    lab: Lab, gost: Gost, carried: Any, version: str, tunnel: str, seeds: bool
) -> None:
    one = carried(tunnel, version)
    other = through(lab, tunnel, gost(version), streams=8)

    assert one.unlike(other) == []
    assert ("cycle_counter_at" in one.json("env.json")["tunnel"]) is seeds
    assert ("tunnel_repeats" in one.checks) is seeds


def test_a_gost_whose_runs_differ_a_little_says_so_in_each(
    lab: Lab, gost: Gost, tmp_path: Path
) -> None:
    program = gost(OF_THE_THESIS)
    # As one of another processor's: where it reads the counter is nowhere in the file.
    script = lab.posing(tmp_path, f'#!/bin/sh\nexec {program.path} "$@"\n')
    lab.keep.append(program.path)

    done = through(lab, "gost+ws", replace(program, path=script), duration_s=1.0)

    check = done.checks["tunnel_repeats"]
    assert check["verdict"] == "ok" and "cycle counter" in check["reason"]
