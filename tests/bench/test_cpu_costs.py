# SPDX-License-Identifier: MIT
"""What programs cost here: the fit, the table, the chain over loopback, and the script that loads
the same chain in the sandbox. Nothing is timed.
"""

import re
from pathlib import Path

import pytest

from gostlab.bench import cpu_costs
from gostlab.bench.cpu_costs import ChainLoad, CpuUse, Hop
from gostlab.install.locate import find_parts
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.spec.cpu_cost_tables import Cost, MeasuredCost, load_measured
from tests.install.programs import script
from tests.offspring import offspring
from tools.bench import cost_model_check
from tools.bench.__main__ import call_us


def made_up(call_ns: float, byte_ns: float, loads: list[tuple[float, float]]) -> list[CpuUse]:
    return [CpuUse(call_ns * calls + byte_ns * moved, calls, moved) for calls, moved in loads]


WS = Hop("gost", Path("/r/relay"), "ws")
VARIED = made_up(1500, 0.2, [(1e3, 1e8), (1e4, 1e7), (1e5, 1e8)])
COLLINEAR = made_up(1500, 0.7, [(145, 1e6), (290, 2e6)])


def test_roles_share_the_cost_of_a_call_and_each_has_its_own_of_a_byte() -> None:
    found = cpu_costs.fit_costs({("near", 1): VARIED, ("far", 1): COLLINEAR})
    assert found == {("near", 1): Cost(1500, 200), ("far", 1): Cost(1500, 700)}
    assert cpu_costs.misfit(found["far", 1], COLLINEAR[0]) == pytest.approx(1)


def test_transports_that_do_more_tell_calls_from_bytes_and_never_cost_less_a_byte() -> None:
    # Each transport alone makes so many calls a byte, and ws seems to move bytes for nothing.
    loads = {
        "tcp": made_up(1500, 0.2, [(33, 1e6), (66, 2e6)]),
        "ws": made_up(1500, 0.1, [(144, 1e6), (288, 2e6)]),
        "wss": made_up(1500, 0.6, [(144, 1e6), (288, 2e6)]),
    }
    found = cpu_costs.fit_costs(
        {(f"gost+{name}/far", 16): samples for name, samples in loads.items()}
    )
    assert len({cost.call_ns for cost in found.values()}) == 1
    bytes_ps = [cost.byte_ps for cost in found.values()]
    assert bytes_ps == sorted(bytes_ps) and bytes_ps[0] > 0
    for name, samples in loads.items():
        assert cpu_costs.misfit(found[f"gost+{name}/far", 16], samples[0]) == pytest.approx(
            1, abs=0.05
        )


def test_no_cost_is_below_nothing() -> None:
    falling = [CpuUse(1000.0, 1.0, 1e3), CpuUse(900.0, 1.0, 1e6)]
    cost = cpu_costs.fit_costs({("one", 1): falling})["one", 1]
    assert cost.byte_ps == 0 and cost.call_ns == pytest.approx(950, abs=10)


def test_a_fit_that_cannot_tell_calls_from_bytes_says_so() -> None:
    with pytest.raises(ValueError, match="nothing tells them apart"):
        cpu_costs.fit_costs({("far", 1): COLLINEAR})


QUIC = Hop("gost-3.2.6", Path("/g/gost"), "quic")


def test_a_tunnel_over_udp_has_its_datagrams_and_the_cost_of_a_call_over_tcp() -> None:
    # 1000 bytes of payload crossed loopback twice by TCP, and once in datagrams of 1100.
    ends = {QUIC.end(end): CpuUse(5e3, 1.0, 1000.0) for end in ("near", "far")}
    spent = {"iperf3/receiver": CpuUse(1.0, 1.0, 1000.0), **ends}
    moved = cpu_costs.add_datagrams(spent, QUIC, 2 * 1005 + 1100)
    assert [each.bytes for each in moved.values()] == [1000.0, 2100.0, 2100.0]
    assert cpu_costs.add_datagrams(spent, WS, 1e9) == spent

    through = Hop("gost-3.2.6", QUIC.program, "ws")
    taken = {
        "gost-3.2.6+ws/near": {
            (through, ChainLoad(1, length=str(n))): s for n, s in enumerate(VARIED)
        },
        "gost-3.2.6+quic/near": {(QUIC, ChainLoad(1)): CpuUse(1500 * 1e4 + 0.9 * 1e7, 1e4, 1e7)},
    }
    assert cpu_costs.compute_costs(taken)["gost-3.2.6+quic/near"] == MeasuredCost(1500, {1: 900})
    assert not {load.streams for load in QUIC.loads} - {1, 16}


def test_every_transport_of_gosts_is_measured() -> None:
    known = {name for name in tunnel_kinds() if name.startswith("gost+")}
    assert {f"gost+{each}" for each in cpu_costs.ALL_TRANSPORTS} == known


def test_a_written_table_reads_as_what_was_measured(tmp_path: Path) -> None:
    programs = {
        "gost+ws/near": MeasuredCost(3203, {1: 37}),
        "iperf3-3.18/sender": MeasuredCost(860, {1: 130, 16: 140, 128: 210}),
    }
    path = tmp_path / "mine.yaml"
    path.write_text(cpu_costs.cost_table("mine", programs, "of each load the cheapest of 3"))
    assert load_measured(str(path)).programs == programs


def test_a_cpus_name_makes_a_files_name() -> None:
    assert cpu_costs.name_of_cpu("Intel(R) Xeon(R) Processor") == "intel-xeon-processor"


def test_iperf3s_cost_is_taken_where_it_is_alone_and_each_load_from_its_cheapest_repeat() -> None:
    alone, through = (None, ChainLoad(1)), (WS, ChainLoad(1))
    taken = {
        alone: [{"iperf3/sender": each} for each in (CpuUse(20, 1, 10), CpuUse(27, 3, 30))],
        through: [{"iperf3/sender": CpuUse(1.0, 1.0, 10.0), "gost+ws/far": CpuUse(4.0, 2.0, 8.0)}],
    }
    assert cpu_costs.cheapest_by_program(taken) == {
        "iperf3/sender": {alone: CpuUse(0.9, 0.1, 1.0)},
        "gost+ws/far": {through: CpuUse(0.5, 0.25, 1.0)},
    }


def test_calls_are_counted_per_read_and_write_or_it_is_said_that_they_are_not() -> None:
    said = "900,,raw_syscalls:sys_enter,8,100\n200,,sys_enter_read\n100,,sys_enter_write\n"
    assert cpu_costs.parse_calls_per_transfer(said) == 3.0
    with pytest.raises(RuntimeError, match="counts no system calls"):
        cpu_costs.parse_calls_per_transfer(
            "Error: No permission to enable raw_syscalls:sys_enter event."
        )


def test_a_relay_that_does_not_start_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    relay = script(tmp_path / "relay-that-cannot", "#!/bin/sh\nexit 3\n")
    with pytest.raises(RuntimeError, match="nothing listens on port"):
        call_us("iperf3", relay, "150M")
    assert not offspring("iperf3")


def test_a_chain_listens_spends_cpu_time_and_is_gone_after() -> None:
    relay = find_parts().relay
    if relay is None:
        pytest.skip("no relay: ./lab setup")
    with cpu_costs.run_chain("iperf3", Hop("gost", relay, "ws"), "0") as built:
        assert list(built.processes) == ["iperf3/receiver", "gost+ws/far", "gost+ws/near"]
        assert all(cpu_costs.read_process_use(each.pid)[0] > 0 for each in built.processes.values())
    assert all(each.poll() is not None for each in built.processes.values())


# -- the same in the sandbox


def test_every_program_of_the_chain_pays_what_was_measured_of_it() -> None:
    programs = {
        "iperf3/sender": MeasuredCost(1, {1: 5, 16: 10}),
        "iperf3-3.18/receiver": MeasuredCost(2, {1: 20}),
        "iperf3/receiver": MeasuredCost(9, {1: 90}),
        "gost+ws/near": MeasuredCost(3, {1: 30}),
        "gost+ws/far": MeasuredCost(4, {1: 40}),
    }
    script = cost_model_check.script("/i/iperf3", WS, ChainLoad(16), programs)
    charged = [line for line in script.splitlines() if "program_cost" in line]
    costs = [re.findall(r"^\(echo (\S+ \d+ \d+) >/proc", line)[0] for line in charged]
    in_order = "iperf3/receiver 2 20, gost+ws/far 4 40, gost+ws/near 3 30, iperf3/sender 1 10"
    assert costs == in_order.split(", ")
    assert "-P 16" in charged[-1] and f"-p {cost_model_check.NEAR}" in charged[-1]


def test_the_guest_takes_over_what_tcp_may_hold_here() -> None:
    # 128 streams over loopback were at half of this machine's rate by the guest's own small limit.
    costs = dict.fromkeys(("iperf3/sender", "iperf3/receiver"), MeasuredCost(1, {1: 1}))
    script = cost_model_check.script("/i/iperf3", None, ChainLoad(1), costs)
    here = Path("/proc/sys/net/ipv4/tcp_mem").read_text(encoding="ascii").split()
    assert f"echo {' '.join(here)} >/proc/sys/net/ipv4/tcp_mem" in script


def test_of_gosts_the_newest_stands_beside_the_relay() -> None:
    names = ("gost", "gost-3.2.6", "gost-3.10.0", "gost-mine")
    ways = [Hop(name, Path("/p"), transport) for transport in ("tcp", "ws") for name in names]

    found = [way.says() for way in cost_model_check.select_newest_gost(ways)]

    assert found == ["relay, tcp", "GOST 3.10.0, tcp", "relay, ws", "GOST 3.10.0, ws"]


def test_a_chain_carries_what_all_of_its_programs_time_allows() -> None:
    spent = {
        "iperf3/sender": CpuUse(100.0, 1.0, 1000.0),
        "gost+ws/near": CpuUse(500.0, 10.0, 2000.0),
        "iperf3/receiver": CpuUse(200.0, 1.0, 1000.0),
    }
    assert cpu_costs.chain_mbit(spent) == 8e3 * 1000 / 800
