# SPDX-License-Identifier: MIT
"""Programs' own costs: the tables in machines/, and what of them a run pays."""

from dataclasses import asdict
from pathlib import Path

import pytest

from gostlab.spec.cpu_cost_tables import (
    Cost,
    MeasuredCost,
    charged_programs,
    load_measured,
    machine_names,
)
from gostlab.spec.cpu_model import format_cost
from gostlab.spec.run_spec import RunSpec
from tests.asked import refusal, run_of

GOOD = """
name: mine
cpu: a CPU
kernel: "7.0"
measured: "2026-11-22"
programs:
  gost+ws: {call: 3us, byte: 0.25ns}
  iperf3/sender: {call: 900ns, byte: 0ns}
"""


BYTE_OF_SENDER = "byte: 0ns"


def table(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", [name for name in machine_names() if name != "uniform"])
def test_every_table_that_is_shipped_reads_and_has_the_relay_and_iperf3(name: str) -> None:
    programs = load_measured(name).programs

    for tunnel in ("gost+ws", "gost+wss"):
        for spellings in charged_programs({"tcp"}, tunnel, "3.18").values():
            assert any(each in programs for each in spellings)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (GOOD.replace("3us", "fast"), "call"),
        (GOOD.replace("3us", "2ms"), "not between 0ns and 1ms"),
        (GOOD.replace("0.25ns", "0.0001ns"), "0.001ns"),
        (GOOD.replace("call: 3us, ", ""), "call is missing"),
        (GOOD.replace("call: 3us", "calls: 3us"), "did you mean call?"),
        (GOOD.replace("gost+ws", "GOST"), "no name of a program"),
        (GOOD.replace("name: mine", "name: yours"), "not the file's own name"),
        (GOOD[: GOOD.index("  gost")].rstrip() + " {}\n", "no program (like"),
        ("", "empty"),
        (GOOD.replace(BYTE_OF_SENDER, "byte: {}"), "no number of streams"),
        (GOOD.replace(BYTE_OF_SENDER, "byte: {0: 0.1ns}"), '"0": no name of a number of streams'),
        (GOOD.replace(BYTE_OF_SENDER, "byte: {many: 0.1ns}"), '"many": no name of a number of'),
        (GOOD.replace(BYTE_OF_SENDER, "byte: {16: 0.1}"), "unit"),
    ],
)
def test_a_bad_table_is_refused_in_a_line_that_says_where(
    tmp_path: Path, written: str, complaint: str
) -> None:
    said = refusal(lambda: load_measured(str(table(tmp_path, written))))
    assert complaint in said and "mine.yaml" in said


def test_a_run_carries_the_numbers_of_its_programs_and_of_no_other(tmp_path: Path) -> None:
    path = str(table(tmp_path, GOOD))

    resolved = run_of(machine=path, tunnel="gost+ws")
    assert resolved.costs_of == path
    assert resolved.program_costs == {
        "iperf3/sender": {"call_ns": 900, "byte_ps": 0},
        "gost+ws/near": {"call_ns": 3000, "byte_ps": 250},
        "gost+ws/far": {"call_ns": 3000, "byte_ps": 250},
    }
    assert RunSpec.from_json(resolved.to_json()) == resolved
    assert set(run_of(machine=path).program_costs) == {"iperf3/sender"}


def test_who_writes_what_every_call_costs_means_it_for_every_program(tmp_path: Path) -> None:
    path = str(table(tmp_path, GOOD))

    assert run_of(machine=path, clock="real").program_costs == {}
    assert run_of(machine=path, syscall_cost="20us").program_costs != {}
    assert run_of(syscall_cost="20us").program_costs == {}


def test_an_iperf3_of_a_version_pays_its_own_costs_before_those_of_any() -> None:
    names = charged_programs({"tcp"}, "direct", "3.12")["iperf3/sender"]

    assert names.index("iperf3-3.12/sender") < names.index("iperf3/sender")


def test_a_gost_pays_its_own_costs_and_where_it_has_none_the_relays(tmp_path: Path) -> None:
    own = "gost+ws: {call: 3us, byte: 0.25ns}\n  gost-3.2.6+ws: {call: 5us, byte: 0.5ns}"
    path = str(table(tmp_path, GOOD.replace("gost+ws: {call: 3us, byte: 0.25ns}", own)))

    def call_ns(gost: str) -> int:
        asked = run_of(machine=path, tunnel="gost+ws", gost=gost)
        return asked.program_costs["gost+ws/near"]["call_ns"]

    assert [call_ns(each) for each in ("3.2.6", "3.0.0-rc8", "relay", "auto")] == [
        *(5000, 3000, 3000, 3000)
    ]


def test_the_kernel_is_told_name_call_and_byte() -> None:
    costs = {"gost+ws/near": asdict(Cost(3000, 250))}

    assert format_cost(costs, "gost+ws/near") == "gost+ws/near 3000 250"
    assert format_cost(costs, "gost+ws/far") is None


def test_a_byte_costs_what_it_did_with_so_many_streams_and_between_them_on_a_line() -> None:
    cost = MeasuredCost(900, {1: 100, 16: 180, 128: 210})

    assert [cost.at(n).byte_ps for n in (1, 2, 4, 16, 45, 128, 1000)] == [
        *(100, 120, 140, 180, 195, 210, 210)
    ]
    assert cost.at(4).call_ns == 900
    assert MeasuredCost(900, {16: 70}).at(1).byte_ps == 70


def test_a_run_pays_for_a_byte_by_all_its_streams(tmp_path: Path) -> None:
    path = str(table(tmp_path, GOOD.replace(BYTE_OF_SENDER, "byte: {1: 0.1ns, 16: 0.18ns}")))

    assert run_of(machine=path).program_costs["iperf3/sender"]["byte_ps"] == 100
    assert run_of(machine=path, streams="4").program_costs["iperf3/sender"]["byte_ps"] == 140
    assert run_of(machine=path, streams="64").program_costs["iperf3/sender"]["byte_ps"] == 180
