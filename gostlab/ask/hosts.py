"""The hosts of a run as machines of their own: CPUs, TCP memory and what a packet costs, resolved
from what was asked, what the profile knows of its machines, and what holds where nobody says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gostlab.ask.document import Node
from gostlab.ask.ends import tunnel_hosts
from gostlab.ask.flows import Flow
from gostlab.ask.machines import AUTO, SHARED, Machines, tcp_memory_of_machine_mib
from gostlab.ask.settings import Settings

CPUS_OF_AN_UNKNOWN_MACHINE = 1
NO_POOL = 0  # of the host's own: it takes from the one of all hosts together


def hosts_of(settings: Settings, flows: Sequence[Flow]) -> tuple[str, ...]:
    """The machines of a run: the hosts that its flows and its tunnel end on. What only forwards is
    the network.
    """
    ends = [host for flow in flows for host in (flow.sender, flow.receiver)]
    return tuple(dict.fromkeys([*ends, *tunnel_hosts(settings, flows)]))


def resolve_cpus(
    settings: Settings, explicit: Settings, machines: Machines, hosts: Sequence[str]
) -> dict[str, Any]:
    """The fields of a run on the virtual clock that say whose CPUs pay, and for packets what.
    Raises BadInput.
    """
    asked, packet_cost = settings["host_cpus"], settings["packet_cost"]
    if asked.value == SHARED:
        if packet_cost.value and "packet_cost" in explicit:
            raise packet_cost.node.bad_value(
                "packets are charged to CPUs of a host's own, and here all hosts share one"
                " (host_cpus: a number)"
            )
        return {"host_cpus": 0}
    # A profile may know hosts that this topology does not have; an experiment must not.
    known = spread_over(machines.cpus, hosts, CPUS_OF_AN_UNKNOWN_MACHINE)
    if asked.value != AUTO:
        check_hosts(asked.value, hosts, asked.node)
        known = spread_over(asked.value, hosts, known)
    of_the_rest, by_host = settled(known)
    return {
        "host_cpus": of_the_rest,
        "cpus_by_host": by_host,
        "packet_cost_ns": packet_cost.value,
    }


def resolve_tcp_memory(
    settings: Settings,
    explicit: Settings,
    machines: Machines,
    hosts: Sequence[str],
    *,
    can_have_own: bool,
) -> dict[str, Any]:
    """The fields of a run that say how much memory each host's TCP has. What was written for all
    hosts together, or for their pools, is stronger than what follows from a machine's memory.

    can_have_own  whether the kernel gives hosts pools of their own unless it is asked for
    Raises BadInput.
    """
    pool, memory = settings["host_tcp_memory"], settings["host_memory"]
    if "host_tcp_memory" in explicit:
        if memory.value not in (AUTO, SHARED):
            raise memory.node.bad_value(
                "host_tcp_memory says already how much TCP memory a host has: write one of them"
            )
        pools = dict.fromkeys(hosts, pool.value)
        check_fits(pools, settings, pool.node)
        return pool_fields(pools)
    if memory.value == SHARED:
        return {}
    known = spread_over(machines.memory_mib, hosts, NO_POOL)
    if memory.value == AUTO:
        if "tcp_memory" in explicit or not can_have_own:
            return {}
        return pool_fields(pools_of_machines(known))
    check_hosts(memory.value, hosts, memory.node)
    pools = pools_of_machines(spread_over(memory.value, hosts, known))
    check_fits(pools, settings, memory.node)
    return pool_fields(pools)


def pools_of_machines(memory_mib: Mapping[str, int]) -> dict[str, int]:
    """What TCP may hold on machines of so much memory."""
    return {host: tcp_memory_of_machine_mib(mib) for host, mib in memory_mib.items()}


def pool_fields(pools: Mapping[str, int]) -> dict[str, Any]:
    """The fields of a run that say so."""
    of_the_rest, by_host = settled(pools)
    return {"host_tcp_memory_mib": of_the_rest, "tcp_memory_mib_by_host": by_host}


def check_fits(pools: Mapping[str, int], settings: Settings, node: Node) -> None:
    """Hosts have no more TCP memory together than the sandbox has, where that was said. Raises
    BadInput.
    """
    guest_mib, together_mib = settings["memory"].value, sum(pools.values())
    if guest_mib is not None and together_mib > guest_mib:
        raise node.bad_value(
            f"the hosts' TCP memory is {together_mib} MiB together, and the sandbox has"
            f" {guest_mib} MiB (memory)"
        )


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


def settled(values: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """The same in one form, however it was written: the first host's value, and who differs."""
    rest = next(iter(values.values()))
    return rest, {host: value for host, value in sorted(values.items()) if value != rest}
