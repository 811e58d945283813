# SPDX-License-Identifier: MIT
"""Transfers of a size and on-off sources: they take the time that the path gives them."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab.guest.flow_result import FlowRun
from gostlab.traffic import onoff, transfer
from tests.asked import run_of
from tests.sandboxed import Lab

MBIT_PAYLOAD = 1448 / 1514 * 1e6  # payload of 1 Mbit/s of Ethernet frames

CLIENT = '{"began_s": 100.0, "connected_s": 100.04, "ended_s": 101.0, "bursts": []}\n'


@pytest.mark.sandbox
@pytest.mark.parametrize("more", ["", "direction: download", "cc: bbr"])
@pytest.mark.parametrize("tunnel", ["direct", "gost+wss"])
def test_ten_megabytes_take_their_size_over_the_rate_and_a_handshake(
    lab: Lab, more: str, tunnel: str
) -> None:
    done = lab.run(
        f"{{rate: 10mbit, duration: 20s, tunnel: {tunnel}, flows: {{a: {{bytes: 10MB, {more}}}}}}}"
    )

    row = done.flows["a"]
    pure_s = 8 * 10_000_000 / (10 * MBIT_PAYLOAD)
    # The connection, the way, and slow start until the path is full: some round trips of 40 ms.
    assert pure_s + 0.04 < row["transfer"]["completion_s"] < pure_s + 0.4
    assert row["seconds"] == row["transfer"]["completion_s"] and row["bytes"] == 10_000_000
    assert row["goodput_bps"] == pytest.approx(80e6 / row["seconds"])
    assert done.checks["transfer_a"]["verdict"] == "ok" and done.faults == {}


@pytest.mark.sandbox
@pytest.mark.parametrize("direction", ["upload", "download"])
def test_a_transfer_that_does_not_finish_is_said(lab: Lab, direction: str) -> None:
    done = lab.run(
        f"{{rate: 10mbit, duration: 4s, flows: {{a: {{bytes: 10MB, direction: {direction}}}}}}}"
    )

    row = done.flows["a"]
    assert row["transfer"]["completion_s"] is None
    assert 0.85 * 4 * 10 * MBIT_PAYLOAD < 8 * row["bytes"] < 4 * 10 * MBIT_PAYLOAD
    check = done.checks["transfer_a"]
    assert check["verdict"] == "degraded" and check["got"] == row["bytes"]
    assert "did not finish" in check["reason"] and "its 4 s" in check["reason"]


@pytest.mark.sandbox
def test_bursts_are_on_time_and_pauses_are_empty(lab: Lab) -> None:
    done = lab.run(
        "{topology: dumbbell, rate: 10mbit, duration: 6s,"
        " flows: {a: {on: 1s, off: 1s, rate: 4mbit}, b: {start: 2s, duration: 2s, bytes: 100kB}}}"
    )

    on_off = done.flows["a"]["on_off"]
    assert (on_off["bursts"], on_off["on_s"]) == (3, pytest.approx(3.0, abs=0.01))
    assert on_off["on_bps"] == pytest.approx(4e6, rel=0.03)
    assert done.flows["a"]["goodput_bps"] == pytest.approx(2e6, rel=0.03)
    assert on_off["max_late_s"] < 0.001
    assert done.flows["b"]["transfer"]["completion_s"] < 1.0
    sent = [(row["t_s"], row["sent_bytes"]) for row in done.queue()]
    grown = {round(t, 1): after - before for (_, before), (t, after) in itertools.pairwise(sent)}
    assert max(grown[at_s] for at_s in (1.5, 1.7, 5.5, 5.7)) < 2000
    assert min(grown[at_s] for at_s in (0.5, 0.7, 4.5, 4.7)) > 40_000
    assert done.faults == {}


@pytest.mark.sandbox
def test_a_burst_that_does_not_get_its_rate_is_said(lab: Lab) -> None:
    done = lab.run("{rate: 10mbit, duration: 4s, flows: {a: {on: 1s, off: 100ms, rate: 20mbit}}}")

    assert done.checks["app_rate_a"]["verdict"] == "degraded"
    assert "of the 20 Mbit/s" in done.checks["app_rate_a"]["reason"]


def reports(folder: Path, kind: str, server: str, client: str = CLIENT) -> FlowRun:
    """The reports of both ends of flow a, as its plugin finds them."""
    (folder / f"{kind}.json").write_text(client, encoding="utf-8")
    (folder / f"{kind}-server-a.log").write_text(server, encoding="utf-8")
    return FlowRun("a", kind, 0.0, 1.0, report=folder / f"{kind}.json")


def test_a_transfers_time_is_from_before_the_connection_to_the_last_byte(tmp_path: Path) -> None:
    flow = run_of(flows="{a: {bytes: 1MB}}").flows[0]
    whole = '{"bytes": 1000000, "last_s": 100.9, "arrived": [[100.89, 1000000]]}'
    ran = reports(tmp_path, "transfer", whole)
    row = transfer.read(flow, CLIENT, ran)
    assert row.transfer == {"size_bytes": 1_000_000, "completion_s": 0.9}
    assert row.goodput_bps == pytest.approx(8e6 / 0.9)

    part = '{"bytes": 5000, "last_s": 100.9, "arrived": [[100.89, 5000]]}'
    row = transfer.read(replace(flow, duration_s=2.0), CLIENT, reports(tmp_path, "transfer", part))
    assert row.transfer == {"size_bytes": 1_000_000, "completion_s": None}
    assert (row.bytes, row.seconds, row.goodput_bps) == (5000, 2.0, 20_000.0)


def test_what_arrives_after_a_burst_is_that_bursts(tmp_path: Path) -> None:
    flow = run_of(flows="{a: {on: 1s, off: 1s}}", duration="4s").flows[0]
    bursts = [
        {"due_s": 100.0, "began_s": 100.0, "end_s": 101.0, "bytes": 10},
        {"due_s": 102.0, "began_s": 102.004, "end_s": 103.0, "bytes": 10},
    ]
    client = CLIENT.replace("[]", str(bursts).replace("'", '"'))
    server = '{"bytes": 500, "last_s": 1, "arrived": [[100.5, 100], [101.5, 100], [102.5, 300]]}'
    row = onoff.read(flow, client, reports(tmp_path, "onoff", server, client))
    assert row.on_off is not None and row.on_off["bursts"] == 2
    assert row.on_off["max_late_s"] == pytest.approx(0.004)
    assert row.on_off["on_bps"] == pytest.approx(8 * 500 / 1.996)
    assert (row.bytes, row.goodput_bps) == (500, 1000.0)
