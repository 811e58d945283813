# SPDX-License-Identifier: MIT
"""Compile the hosts of a run as separate machines: their CPUs, TCP memory and packet costs.

Requested values come first, then the machines of the profile, then defaults.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gostlab.spec.profile import Machines
from gostlab.spec.run_request import RunRequest
from gostlab.spec.value_types import AUTO, SHARED
from gostlab.spec.yaml_source import Node
from gostlab.tcpmodel.socket_buffers import tcp_memory_of_machine_mib

CPUS_OF_AN_UNKNOWN_MACHINE = 1
NO_POOL = 0  # The host has no pool of its own, and shares the pool of all hosts.


@dataclass(frozen=True)
class HostCpus:
    """Represent the CPUs of a run's hosts, as RunSpec explains its fields of these names."""

    count: int = 0  # 0: all hosts share one CPU.
    by_host: Mapping[str, int] = field(default_factory=dict)
    packet_cost_ns: int = 0
    share_permille: int = 0
    burst_us: int = 0


@dataclass(frozen=True)
class HostMemory:
    """Represent the TCP memory of a run's hosts; 0: all hosts share one limit."""

    tcp_mib: int = 0
    by_host: Mapping[str, int] = field(default_factory=dict)


def resolve_cpus(request: RunRequest, machines: Machines, hosts: Sequence[str]) -> HostCpus:
    """Return the CPUs by host, their share, and packet costs. Raises BadInput."""
    cpus, packet_cost = request["host_cpus"], request["packet_cost"]
    if cpus == SHARED:
        if packet_cost and "packet_cost" in request.written:
            raise request.node("packet_cost").bad_value(
                "packets are charged to CPUs of a host's own, and here all hosts share one"
                " (host_cpus: a number)"
            )
        if request["cpu_share"]:
            raise request.node("cpu_share").bad_value(
                "a share is of CPUs of a host's own, and here all hosts share one"
                " (host_cpus: a number)"
            )
        return HostCpus()
    # A profile may name hosts that this topology does not have; an experiment must not.
    known = values_by_host(machines.cpus, hosts, CPUS_OF_AN_UNKNOWN_MACHINE)
    if cpus != AUTO:
        check_hosts(cpus, hosts, request.node("host_cpus"))
        known = values_by_host(cpus, hosts, known)
    count, by_host = first_and_differing(known)
    permille, burst = request["cpu_share"], request["cpu_burst"]
    permille = machines.cpu_share_permille if permille is None else permille
    if not permille:
        if burst:
            raise request.node("cpu_burst").bad_value("it needs a cpu_share")
        return HostCpus(count, by_host, packet_cost)
    burst = machines.cpu_burst_us if burst is None else burst
    return HostCpus(count, by_host, packet_cost, permille, burst)


def resolve_tcp_memory(
    request: RunRequest, machines: Machines, hosts: Sequence[str], *, can_have_own: bool
) -> HostMemory:
    """Return the TCP memory of each host.

    A limit for all hosts together, or for their pools, overrides the limits that follow from a
    machine's memory. Raises BadInput.
    """
    memory, node = request["host_memory"], request.node("host_memory")
    is_explicit = memory != AUTO
    if "host_tcp_memory" in request.written:
        if memory not in (AUTO, SHARED):
            raise node.bad_value(
                "host_tcp_memory says already how much TCP memory a host has: write one of them"
            )
        node, is_explicit = request.node("host_tcp_memory"), True
        pools = dict.fromkeys(hosts, request["host_tcp_memory"])
    elif memory == SHARED or (
        not is_explicit and ("tcp_memory" in request.written or not can_have_own)
    ):
        return HostMemory()
    else:
        check_hosts(memory, hosts, node)
        known = values_by_host(machines.memory_mib, hosts, NO_POOL)
        memory_mib = values_by_host(memory, hosts, known) if is_explicit else known
        pools = {host: tcp_memory_of_machine_mib(mib) for host, mib in memory_mib.items()}
    guest_mib, total_mib = request["memory"], sum(pools.values())
    if is_explicit and guest_mib is not None and total_mib > guest_mib:
        raise node.bad_value(
            f"the hosts' TCP memory is {total_mib} MiB together, and the sandbox has"
            f" {guest_mib} MiB (memory)"
        )
    return HostMemory(*first_and_differing(pools))


def check_hosts(value: Any, hosts: Sequence[str], node: Node) -> None:
    """Reject values of hosts that are no machine of the run. Raises BadInput."""
    for host in value if isinstance(value, Mapping) else ():
        if host not in hosts:
            raise node.bad(
                f"{host}: no program runs on such a host here (they run on {', '.join(hosts)})"
            )


def values_by_host(
    value: int | Mapping[str, int] | None, hosts: Sequence[str], rest: int | Mapping[str, int]
) -> dict[str, int]:
    """Return a value for every host: a common one, the host's own, or that of `rest`."""
    if isinstance(value, int):
        return dict.fromkeys(hosts, value)
    known = rest if isinstance(rest, Mapping) else dict.fromkeys(hosts, rest)
    return {host: (value or {}).get(host, known[host]) for host in hosts}


def first_and_differing(values: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """Return the first host's value and the differing ones, which is a canonical form."""
    rest = next(iter(values.values()))
    return rest, {host: value for host, value in sorted(values.items()) if value != rest}
