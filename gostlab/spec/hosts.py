"""The hosts of a run as machines of their own: CPUs, TCP memory and what a packet costs, resolved
from what was asked, what the profile knows of its machines, and what holds where nobody says.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gostlab.spec.profile import Machines
from gostlab.spec.request import RunRequest
from gostlab.spec.value_types import AUTO, SHARED
from gostlab.spec.yaml_source import Node
from gostlab.tcpmodel.buffer_sizing import tcp_memory_of_machine_mib

CPUS_OF_AN_UNKNOWN_MACHINE = 1
NO_POOL = 0  # of the host's own: it takes from the one of all hosts together


def resolve_cpus(asked: RunRequest, machines: Machines, hosts: Sequence[str]) -> dict[str, Any]:
    """Whose CPUs pay, and for packets what. Raises BadInput."""
    cpus, packet_cost = asked["host_cpus"], asked["packet_cost"]
    if cpus == SHARED:
        if packet_cost and "packet_cost" in asked.written:
            raise asked.node("packet_cost").bad_value(
                "packets are charged to CPUs of a host's own, and here all hosts share one"
                " (host_cpus: a number)"
            )
        if asked["cpu_share"]:
            raise asked.node("cpu_share").bad_value(
                "a share is of CPUs of a host's own, and here all hosts share one"
                " (host_cpus: a number)"
            )
        return {"host_cpus": 0}
    # A profile may know hosts that this topology does not have; an experiment must not.
    known = spread_over(machines.cpus, hosts, CPUS_OF_AN_UNKNOWN_MACHINE)
    if cpus != AUTO:
        check_hosts(cpus, hosts, asked.node("host_cpus"))
        known = spread_over(cpus, hosts, known)
    of_the_rest, by_host = first_and_differing(known)
    found = {"host_cpus": of_the_rest, "cpus_by_host": by_host, "packet_cost_ns": packet_cost}
    share, burst = asked["cpu_share"], asked["cpu_burst"]
    share = machines.cpu_share_permille if share is None else share
    if not share:
        if burst:
            raise asked.node("cpu_burst").bad_value("ahead of what? It needs a cpu_share")
        return found
    burst = machines.cpu_burst_us if burst is None else burst
    return found | {"cpu_share_permille": share, "cpu_burst_us": burst}


def resolve_tcp_memory(
    asked: RunRequest, machines: Machines, hosts: Sequence[str], *, can_have_own: bool
) -> dict[str, Any]:
    """How much memory each host's TCP has. What was written for all hosts together, or for their
    pools, is stronger than what follows from a machine's memory. Raises BadInput.
    """
    memory, node = asked["host_memory"], asked.node("host_memory")
    said = memory != AUTO
    if "host_tcp_memory" in asked.written:
        if memory not in (AUTO, SHARED):
            raise node.bad_value(
                "host_tcp_memory says already how much TCP memory a host has: write one of them"
            )
        node, said = asked.node("host_tcp_memory"), True
        pools = dict.fromkeys(hosts, asked["host_tcp_memory"])
    elif memory == SHARED or (not said and ("tcp_memory" in asked.written or not can_have_own)):
        return {}
    else:
        check_hosts(memory, hosts, node)
        known = spread_over(machines.memory_mib, hosts, NO_POOL)
        own = spread_over(memory, hosts, known) if said else known
        pools = {host: tcp_memory_of_machine_mib(mib) for host, mib in own.items()}
    guest_mib, together_mib = asked["memory"], sum(pools.values())
    if said and guest_mib is not None and together_mib > guest_mib:
        raise node.bad_value(
            f"the hosts' TCP memory is {together_mib} MiB together, and the sandbox has"
            f" {guest_mib} MiB (memory)"
        )
    of_the_rest, by_host = first_and_differing(pools)
    return {"host_tcp_memory_mib": of_the_rest, "tcp_memory_mib_by_host": by_host}


def check_hosts(value: Any, hosts: Sequence[str], node: Node) -> None:
    """Every host with a value of its own must be a machine of the run. Raises BadInput."""
    for host in value if isinstance(value, Mapping) else ():
        if host not in hosts:
            raise node.bad(
                f"{host}: no program runs on such a host here (they run on {', '.join(hosts)})"
            )


def spread_over(
    value: int | Mapping[str, int] | None, hosts: Sequence[str], rest: int | Mapping[str, int]
) -> dict[str, int]:
    """A value for every host: the same, its own, or where nobody says the rest's."""
    if isinstance(value, int):
        return dict.fromkeys(hosts, value)
    known = rest if isinstance(rest, Mapping) else dict.fromkeys(hosts, rest)
    return {host: (value or {}).get(host, known[host]) for host in hosts}


def first_and_differing(values: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """The same in one form, however it was written: the first host's value, and what differs."""
    rest = next(iter(values.values()))
    return rest, {host: value for host, value in sorted(values.items()) if value != rest}
