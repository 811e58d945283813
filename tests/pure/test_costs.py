"""Programs' own costs: the tables in machines/, what of them a run pays, and the fit that makes
them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gostlab.ask.costs import (
    Cost,
    MeasuredCost,
    charged_programs,
    cost_words,
    load_measured,
    machine_names,
)
from gostlab.ask.resolve import single_run
from gostlab.ask.run_description import RunDescription
from gostlab.bench.costs import Spent, cost_table, fit, misfit, name_of_cpu
from gostlab.declared.errors import BadInput

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


def run(**settings: str) -> RunDescription:
    return single_run(
        profile="plain-100ms",
        cc="cubic",
        machine="sandbox",
        clock=settings.pop("clock", "virtual"),
        overrides=settings,
    )


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
        (GOOD.replace("0.25ns", "0.0001ns"), "to 0.001ns"),
        (GOOD.replace("call: 3us, ", ""), "call is missing"),
        (GOOD.replace("call: 3us", "calls: 3us"), "did you mean call?"),
        (GOOD.replace("gost+ws", "GOST"), "no name of a program"),
        (GOOD.replace("name: mine", "name: yours"), "not the file's own name"),
        (GOOD[: GOOD.index("  gost")].rstrip() + " {}\n", "no program with a cost"),
        ("", "empty"),
    ],
)
def test_a_bad_table_is_refused_in_a_line_that_says_where(
    tmp_path: Path, written: str, complaint: str
) -> None:
    path = table(tmp_path, written)

    with pytest.raises(BadInput) as error:
        load_measured(str(path))
    assert complaint in str(error.value) and "mine.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_machine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="known: uniform, amd-epyc, development"):
        run(machine="nowhere")


def test_a_run_carries_the_numbers_of_its_programs_and_of_no_other(tmp_path: Path) -> None:
    path = str(table(tmp_path, GOOD))

    resolved = run(machine=path, tunnel="gost+ws")
    assert resolved.costs_of == path
    assert resolved.program_costs == {
        "iperf3/sender": {"call_ns": 900, "byte_ps": 0},
        "gost+ws/near": {"call_ns": 3000, "byte_ps": 250},
        "gost+ws/far": {"call_ns": 3000, "byte_ps": 250},
    }
    assert RunDescription.from_json(resolved.to_json()) == resolved
    assert set(run(machine=path).program_costs) == {"iperf3/sender"}


def test_a_run_without_a_machine_has_the_name_that_it_had() -> None:
    assert "program_costs" not in run().to_json() and "costs_of" not in run().to_json()
    assert run(machine="uniform").name == run().name


def test_who_writes_what_every_call_costs_means_it_for_every_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(table(tmp_path, GOOD))

    assert run(machine=path, clock="real").program_costs == {}
    assert run(machine=path, syscall_cost="20us").program_costs != {}
    assert run(syscall_cost="20us").program_costs == {}


def test_an_iperf3_of_a_version_pays_its_own_costs_before_those_of_any() -> None:
    names = charged_programs({"tcp"}, "direct", "3.12")["iperf3/sender"]

    assert names.index("iperf3-3.12/sender") < names.index("iperf3/sender")


def test_the_kernel_is_told_name_call_and_byte() -> None:
    costs = {"gost+ws/near": Cost(3000, 250).to_json()}

    assert cost_words(costs, "gost+ws/near") == "gost+ws/near 3000 250"
    assert cost_words(costs, "gost+ws/far") is None


def made_up(call_ns: float, byte_ns: float, loads: list[tuple[float, float]]) -> list[Spent]:
    return [Spent(call_ns * calls + byte_ns * moved, calls, moved) for calls, moved in loads]


def test_the_fit_recovers_the_costs_that_made_the_data() -> None:
    alone = made_up(1500, 0.2, [(1e3, 1e8), (1e4, 1e7), (1e5, 1e8)])

    assert fit({("one", 1): alone}) == {("one", 1): Cost(1500, 200)}


def test_roles_share_the_cost_of_a_call_and_each_has_its_own_of_a_byte() -> None:
    varied = made_up(1500, 0.2, [(1e3, 1e8), (1e4, 1e7), (1e5, 1e8)])
    collinear = made_up(1500, 0.7, [(145, 1e6), (290, 2e6)])

    found = fit({("near", 1): varied, ("far", 1): collinear})
    assert found == {("near", 1): Cost(1500, 200), ("far", 1): Cost(1500, 700)}
    assert misfit(found["far", 1], collinear[0]) == pytest.approx(1)


def test_transports_that_do_more_tell_calls_from_bytes_and_never_cost_less_a_byte() -> None:
    # Each transport alone makes so many calls a byte, and ws seems to move bytes for nothing.
    plain = made_up(1500, 0.2, [(33, 1e6), (66, 2e6)])
    framed = made_up(1500, 0.1, [(144, 1e6), (288, 2e6)])
    coded = made_up(1500, 0.6, [(144, 1e6), (288, 2e6)])

    found = fit(
        {("gost+tcp/far", 16): plain, ("gost+ws/far", 16): framed, ("gost+wss/far", 16): coded}
    )
    assert len({cost.call_ns for cost in found.values()}) == 1
    bytes_ps = [cost.byte_ps for cost in found.values()]
    assert bytes_ps == sorted(bytes_ps) and bytes_ps[0] > 0
    for name, sample in {"tcp": plain[0], "ws": framed[0], "wss": coded[0]}.items():
        assert misfit(found[f"gost+{name}/far", 16], sample) == pytest.approx(1, abs=0.05)


def test_no_cost_is_below_nothing() -> None:
    falling = [Spent(1000.0, 1.0, 1e3), Spent(900.0, 1.0, 1e6)]
    cost = fit({("one", 1): falling})["one", 1]
    assert cost.byte_ps == 0 and cost.call_ns == pytest.approx(950, abs=10)


def test_a_fit_that_cannot_tell_calls_from_bytes_says_so() -> None:
    with pytest.raises(ValueError, match="nothing tells them apart"):
        fit({("far", 1): made_up(1500, 0.7, [(145, 1e6), (290, 2e6)])})


def test_a_written_table_reads_as_what_was_measured(tmp_path: Path) -> None:
    programs = {
        "gost+ws/near": MeasuredCost(3203, {1: 37}),
        "iperf3-3.18/sender": MeasuredCost(860, {1: 130, 16: 140, 128: 210}),
    }
    path = table(tmp_path, cost_table("mine", programs, "of each load the cheapest of 3"))

    assert load_measured(str(path)).programs == programs


def test_a_byte_costs_what_it_did_with_so_many_streams_and_between_them_on_a_line() -> None:
    cost = MeasuredCost(900, {1: 100, 16: 180, 128: 210})

    assert [cost.at(n).byte_ps for n in (1, 2, 4, 16, 45, 128, 1000)] == [
        *(100, 120, 140, 180, 195, 210, 210)
    ]
    assert cost.at(4).call_ns == 900
    assert MeasuredCost(900, {16: 70}).at(1).byte_ps == 70


def test_a_run_pays_for_a_byte_by_all_its_streams(tmp_path: Path) -> None:
    path = str(table(tmp_path, GOOD.replace(BYTE_OF_SENDER, "byte: {1: 0.1ns, 16: 0.18ns}")))

    assert run(machine=path).program_costs["iperf3/sender"]["byte_ps"] == 100
    assert run(machine=path, streams="4").program_costs["iperf3/sender"]["byte_ps"] == 140
    assert run(machine=path, streams="64").program_costs["iperf3/sender"]["byte_ps"] == 180


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("{}", "no number of streams"),
        ("{0: 0.1ns}", '"0": no number of streams'),
        ("{many: 0.1ns}", '"many": no number of streams'),
        ("{16: 0.1}", "unit"),
    ],
)
def test_a_byte_by_no_number_of_streams_is_refused(
    tmp_path: Path, written: str, complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        load_measured(str(table(tmp_path, GOOD.replace(BYTE_OF_SENDER, f"byte: {written}"))))


def test_a_cpus_name_makes_a_files_name() -> None:
    assert name_of_cpu("Intel(R) Xeon(R) Processor") == "intel-xeon-processor"
