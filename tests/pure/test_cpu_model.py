"""Whose CPU pays: what can be asked for, what it becomes, and that not asking changes nothing."""

from __future__ import annotations

import pytest

from gostlab.ask.cpu_model import ONE_FOR_ALL, CpuModel
from gostlab.ask.document import BadInput
from gostlab.ask.resolve import single_run
from gostlab.ask.run_description import RunDescription


def asked(clock: str = "virtual", **overrides: str) -> RunDescription:
    return single_run(
        profile="la-hamina", cc="cubic", machine="sandbox", clock=clock, overrides=overrides
    )


def test_who_asks_for_nothing_shares_one_cpu_and_keeps_his_runs_name() -> None:
    run = asked()
    assert CpuModel.of(run) == ONE_FOR_ALL
    assert not {"host_cpus", "byte_cost_ns", "clock_reads", "host_tcp_memory_mib"} & set(
        run.to_json()
    )
    assert asked(host_cpus="shared", clock_reads="charged", byte_cost="0ns").name == run.name


def test_each_part_of_the_model_is_asked_for_by_itself() -> None:
    assert CpuModel.of(asked(host_cpus="2")) == CpuModel(host_cpus=2)
    assert CpuModel.of(asked(byte_cost="0.25ns")) == CpuModel(byte_cost_ns=0.25)
    assert CpuModel.of(asked(clock_reads="free")) == CpuModel(clock_reads_are_free=True)
    assert asked(host_tcp_memory="365MiB").host_tcp_memory_mib == 365


def test_the_real_clock_charges_nobody() -> None:
    run = asked(clock="real", host_cpus="2", byte_cost="1ns", clock_reads="free")
    assert CpuModel.of(run) == ONE_FOR_ALL
    assert run.name == asked(clock="real").name


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("host_cpus", "0", "0"),
        ("host_cpus", "65", "64"),
        ("host_cpus", "two", "two"),
        ("byte_cost", "2us", "1us"),
        ("byte_cost", "0.0001ns", "0.001ns"),
        ("clock_reads", "never", "free"),
        ("host_tcp_memory", "0MiB", "1MiB"),
    ],
)
def test_what_no_kernel_could_do_is_refused(name: str, text: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        asked(**{name: text})
