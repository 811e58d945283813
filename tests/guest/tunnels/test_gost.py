"""GOST itself, of three versions: at both ends, and with the lab's relay at one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gostlab.declared.tunnels import GOST, tunnel_kinds
from gostlab.setup.parts import TunnelBinary
from tests.sandboxed import Done, Lab, describe, direction

pytestmark = [pytest.mark.sandbox, pytest.mark.real_gost]

RATE_BPS = 20_000_000
KINDS = sorted({kind.name for kind in tunnel_kinds().values() if kind.program == GOST})
NEWEST, OF_THE_THESIS, OLD = "3.2.6", "3.0.0-rc8", "2.11.5"
EACH = [(NEWEST, name) for name in KINDS]
EACH += [(version, name) for version in (OF_THE_THESIS, OLD) for name in ("gost+ws", "gost+wss")]
# A client has -F on its command line; a server has not.
CROSSWISE = """#!/bin/sh
case " $* " in *" -F "*) exec {client} "$@" ;; *) exec {server} "$@" ;; esac
"""


def through(lab: Lab, tunnel: str, program: TunnelBinary, **changes: Any) -> Done:
    """A short run through a tunnel by a program."""
    way = direction(rate_bps=RATE_BPS, delay_ms=10.0, buffer_pkts=100)
    changes = {"duration_s": 2.0, "streams": 2, **changes}
    lab.keep.append(program.path)
    return lab.run(describe(way, way, tunnel=tunnel, **changes), tunnel=program.to_json())


def of_version(gosts: dict[str, TunnelBinary], version: str) -> TunnelBinary:
    """A GOST, or the test is skipped."""
    if version not in gosts:
        pytest.skip(f"there is no GOST {version} here")
    return gosts[version]


def carries(done: Done) -> None:
    assert done.outcome["outcome"] == "ok", done.outcome
    assert 0.6 * RATE_BPS < done.goodput_bps < RATE_BPS
    assert done.json("fidelity.json")["verdict"] == "ok"


@pytest.mark.parametrize(("version", "tunnel"), EACH)
def test_gost_at_both_ends_carries_the_load(
    lab: Lab, gosts: dict[str, TunnelBinary], version: str, tunnel: str
) -> None:
    program = of_version(gosts, version)

    done = through(lab, tunnel, program)

    carries(done)
    recorded = done.json("env.json")["tunnel"]
    assert recorded["version"] == program.version and version in recorded["version"]
    assert recorded["sha256"] == program.sha256 and "go1." in recorded["version"]


@pytest.mark.parametrize("tunnel", KINDS)
@pytest.mark.parametrize("client", ["relay", "gost"])
def test_relay_and_gost_understand_each_other(
    lab: Lab, gosts: dict[str, TunnelBinary], tmp_path: Path, client: str, tunnel: str
) -> None:
    gost, relay = of_version(gosts, NEWEST).path, lab.parts.relay
    lab.keep += [gost, tmp_path]
    ends = {"client": relay, "server": gost} if client == "relay" else {"client": gost}
    script = tmp_path / "either"
    script.write_text(CROSSWISE.format(**{"server": relay, **ends}))
    script.chmod(0o755)

    done = through(lab, tunnel, TunnelBinary(script, "gost", "gost and relay", "0" * 64))

    carries(done)


def test_128_streams_go_through(lab: Lab, gosts: dict[str, TunnelBinary]) -> None:
    done = through(lab, "gost+ws", of_version(gosts, NEWEST), streams=128, duration_s=4.0)

    assert done.outcome["outcome"] == "ok", done.outcome
    assert done.goodput_bps > 0.3 * RATE_BPS


def test_a_chain_of_two_hops_goes_through(lab: Lab, gosts: dict[str, TunnelBinary]) -> None:
    done = through(lab, "gost+wss", of_version(gosts, NEWEST), hops=2)

    assert done.outcome["outcome"] == "ok", done.outcome
    assert {leg["leg"] for leg in done.json("legs.json")["legs"]} == {"app", "wan", "wan2", "exit"}


# The older ones' Go seeds random numbers with the CPU's cycle counter, which the lab sets to 0.
@pytest.mark.parametrize(("version", "seeds"), [(NEWEST, False), (OF_THE_THESIS, True)])
def test_a_run_through_gost_repeats_to_the_bit(
    lab: Lab, gosts: dict[str, TunnelBinary], version: str, seeds: bool
) -> None:
    program = of_version(gosts, version)

    one, other = (through(lab, "gost+wss", program, streams=8) for _ in range(2))

    for name in ("flows.json", "sockets.jsonl", "queues.jsonl", "hosts.jsonl"):
        assert (one.folder / name).read_bytes() == (other.folder / name).read_bytes(), name
    assert ("cycle_counter_at" in one.json("env.json")["tunnel"]) is seeds
    assert ("tunnel_repeats" in one.checks) is seeds


def test_a_gost_whose_runs_differ_a_little_says_so_in_each(
    lab: Lab, gosts: dict[str, TunnelBinary], tmp_path: Path
) -> None:
    gost, script = of_version(gosts, OF_THE_THESIS), tmp_path / "gost"
    # As one of another processor's: where it reads the counter is nowhere in the file.
    script.write_text(f'#!/bin/sh\nexec {gost.path} "$@"\n')
    script.chmod(0o755)
    lab.keep += [gost.path, tmp_path]

    done = through(lab, "gost+ws", replace(gost, path=script))

    check = done.checks["tunnel_repeats"]
    assert check["verdict"] == "ok" and "cycle counter" in check["reason"]
