"""Whose CPU pays: what a run can request, what it becomes, and that not asking changes nothing."""

from functools import partial

from gostlab.describe.resolve.cpu_model import ONE_FOR_ALL, CpuModel
from gostlab.describe.resolve.run_description import RunDescription
from tests.asked import run_of

asked = partial(run_of, profile="la-hamina")


# What version 0.1 ran, before there was anything to ask for.
OLD = {"host_cpus": "shared", "host_memory": "shared", "clock_reads": "charged", "iperf3": "system"}
LATER = set(
    "host_cpus cpus_by_host byte_cost_ns packet_cost_ns clock_reads host_tcp_memory_mib"
    " tcp_memory_mib_by_host".split()
)


def test_a_host_is_a_machine_of_its_own_where_nobody_says_otherwise() -> None:
    run = asked(profile="plain-100ms")
    assert CpuModel.of(run) == CpuModel(host_cpus=1, clock_reads_are_free=True)
    assert (run.packet_cost_ns, run.host_tcp_memory_mib) == (750, 0)

    of_the_thesis = asked()
    assert (of_the_thesis.host_cpus, of_the_thesis.host_tcp_memory_mib) == (2, 364)


def test_what_version_0_1_ran_can_be_asked_for_and_says_no_more_in_run_json() -> None:
    run = asked(**OLD)
    assert CpuModel.of(run) == ONE_FOR_ALL
    assert not LATER & set(run.to_json())
    assert CpuModel.of(RunDescription.from_json(run.to_json())) == ONE_FOR_ALL


def test_each_part_of_the_model_is_asked_for_by_itself() -> None:
    def model(**wishes: str) -> CpuModel:
        return CpuModel.of(asked(**{**OLD, **wishes}))

    assert model(host_cpus="2") == CpuModel(host_cpus=2)
    assert model(byte_cost="0.25ns") == CpuModel(byte_cost_ns=0.25)
    assert model(clock_reads="free") == CpuModel(clock_reads_are_free=True)
    assert asked(host_tcp_memory="365MiB").host_tcp_memory_mib == 365


def test_the_real_clock_charges_nobody() -> None:
    run = asked(clock="real", host_cpus="2", byte_cost="1ns", clock_reads="free")
    assert CpuModel.of(run) == ONE_FOR_ALL
    assert run.name == asked(clock="real").name
    assert not (LATER - {"host_tcp_memory_mib"}) & set(run.to_json())


def test_hosts_may_have_different_cpus_and_memory() -> None:
    run = asked(host_cpus="{client: 2, target: 4}", host_memory="{client: 8GiB, target: 4GiB}")
    assert (run.host_cpus, run.cpus_by_host) == (2, {"target": 4})
    assert (run.host_tcp_memory_mib, run.tcp_memory_mib_by_host) == (768, {"target": 384})
    assert asked(host_cpus="{client: 2, target: 2}").name == asked(host_cpus="2").name


def test_who_is_not_named_has_what_the_profile_says() -> None:
    run = asked(host_cpus="{target: 4}", host_memory="auto")
    assert (run.host_cpus, run.cpus_by_host) == (2, {"target": 4})
    assert run.host_tcp_memory_mib == 364  # of the thesis's 3.8 GB, as its kernel had it
    assert asked(host_cpus="auto").host_cpus == 2
    assert asked(host_cpus="auto", profile="plain-100ms").host_cpus == 1


def test_memory_for_all_hosts_together_is_not_each_hosts_own() -> None:
    assert asked(host_memory="auto", tcp_memory="1GiB").host_tcp_memory_mib == 0
    assert asked(host_memory="auto", host_tcp_memory="shared").host_tcp_memory_mib == 0


def test_a_machine_of_the_lab_alone_gives_hosts_memory_that_nobody_asked_for() -> None:
    run = asked(on="native", clock="real", host_memory="auto")
    assert run.host_tcp_memory_mib == 0


def test_a_packet_costs_the_hosts_that_have_cpus_of_their_own() -> None:
    assert asked(packet_cost="1.5us", host_cpus="1").packet_cost_ns == 1500
    assert asked(clock="real", packet_cost="1.5us").packet_cost_ns == 0


def test_a_machine_may_have_a_share_of_its_cpus_time() -> None:
    run = asked(host_cpus="2", cpu_share="0.5", cpu_burst="2s")
    assert (run.cpu_share_permille, run.cpu_burst_us) == (500, 2_000_000)
    whole = asked(host_cpus="2", cpu_share="whole")
    assert (whole.cpu_share_permille, whole.cpu_burst_us) == (0, 0)
