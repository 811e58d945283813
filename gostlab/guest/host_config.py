"""Configure the hosts of a run: congestion control, socket buffers and TCP memory.

Values are set in the hosts' namespaces and read back.
"""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.guest.namespaces import entered_namespace, read_sysctls, sysctl_file, write_sysctls
from gostlab.guest.network import Network, NetworkError, set_sysctls
from gostlab.registry.congestion_controls import kernel_name, shipped_controls
from gostlab.registry.topologies import topology_of
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.flow import FlowSpec, cc_at
from gostlab.spec.run_spec import RunSpec

# Sysctls of every namespace besides congestion control and buffers. Cached metrics of an earlier
# connection must not affect the next one: a run must not depend on the order of runs.
SYSCTLS = {"net.ipv4.tcp_no_metrics_save": "1"}
# tcp_ecn of hosts that request and accept ECN: as in RFC 3168, or accurate ECN (RFC 9768).
ASKING_FOR_ECN = {"on": "1", "losses": "1", "l4s": "3"}
# Loss detection by duplicate ACKs, as before RACK (Linux 4.4) and tail loss probes (3.10): three of
# them, or more after reordering, up to the maximum of these kernels.
BY_DUPLICATE_ACKS = {
    "net.ipv4.tcp_recovery": "0",
    "net.ipv4.tcp_early_retrans": "0",
    "net.ipv4.tcp_max_reordering": "127",
}
RECORDED_SYSCTLS = [
    f"net.ipv4.tcp_{name}"
    for name in (
        "congestion_control rmem wmem no_metrics_save sack window_scaling ecn adv_win_scale"
        " limit_output_bytes notsent_lowat mtu_probing"
    ).split()
]
# TCP memory pool per namespace, which only the sandbox's kernel has.
HOST_TCP_MEMORY = "net.ipv4.tcp_host_mem"
# Variable with the modules that the guest's init could not load, and why
# (gostlab.sandbox.guest_init).
NOT_LOADED = "GOSTLAB_NOT_LOADED"


class Unsupported(Exception):
    """A feature that the run needs and this machine's kernel lacks."""


def configure_hosts(network: Network, run: RunSpec) -> dict[str, dict[str, str]]:
    """Set congestion control and socket buffers on every end host, and read them back.

    End hosts are those where flows or tunnels end. A leg with its own congestion control gets it by
    a route metric. Raises Unsupported or NetworkError.
    """
    if has_own_tcp_memory(run) and not sysctl_file(HOST_TCP_MEMORY).exists():
        raise Unsupported("this kernel gives hosts no TCP memory of their own (host_tcp_memory)")
    installed = {}
    for node in hosts_with_programs(run):
        values = {**SYSCTLS, "net.ipv4.tcp_congestion_control": kernel_name(cc_of(run, node))}
        if (ecn := ecn_of(run, node)) in ASKING_FOR_ECN:
            values["net.ipv4.tcp_ecn"] = ASKING_FOR_ECN[ecn]
        if run.loss_detection == "dupacks":
            values |= BY_DUPLICATE_ACKS
        buffers = buffers_of(run, node)
        if isinstance(buffers, Mapping):
            values["net.ipv4.tcp_rmem"] = " ".join(str(number) for number in buffers["rmem"])
            values["net.ipv4.tcp_wmem"] = " ".join(str(number) for number in buffers["wmem"])
        set_sysctls(network, node, values)
        host_sysctls = machine_sysctls(run, node)
        host_installed = (
            set_sysctls(network, node, host_sysctls, of_this_kernel_alone=True)
            if host_sysctls
            else {}
        )
        with entered_namespace(network.pid(node)):
            installed[node] = host_installed | read_sysctls(RECORDED_SYSCTLS)
    for host, legs in leg_ends_by_host(run).items():
        for leg in legs:
            if leg.peer and leg.cc != cc_of(run, host):
                set_cc_towards(network, host, leg.peer, leg.cc)
    return installed


def machine_sysctls(run: RunSpec, host: str) -> dict[str, str]:
    """Return the sandbox's own sysctls of a host's CPUs, packet cost and TCP memory."""
    values = {}
    if host in run.cpus_by_host:
        values["net.host.cpus"] = str(run.cpus_by_host[host])
    if run.packet_cost_ns and host in machines_of(run):
        values["net.host.packet_ns"] = str(run.packet_cost_ns)
    if run.cpu_share_permille and host in machines_of(run):
        values["net.host.cpu_burst_us"] = str(run.cpu_burst_us)
        values["net.host.cpu_share_permille"] = str(run.cpu_share_permille)
    pool_mib = tcp_memory_of(run, host)
    if pool_mib:
        values[HOST_TCP_MEMORY] = tcp_memory_limits(pool_mib)
    return values


def tcp_memory_of(run: RunSpec, host: str) -> int:
    """Return the MiB that a host's TCP may hold, or 0 without a pool per host."""
    return run.tcp_memory_mib_by_host.get(host, run.host_tcp_memory_mib)


def has_own_tcp_memory(run: RunSpec) -> bool:
    return run.host_tcp_memory_mib > 0 or bool(run.tcp_memory_mib_by_host)


def machines_of(run: RunSpec) -> tuple[str, ...]:
    """Return the hosts whose programs take part. Nodes that only forward belong to the network."""
    ends = (host for flow in run.flows for host in run.tunnel_ends(flow))
    return tuple(dict.fromkeys((*run.hosts, *ends)))


def hosts_with_programs(run: RunSpec) -> tuple[str, ...]:
    """Return the hosts on which flows or tunnels end."""
    return tuple(dict.fromkeys((*run.hosts, *topology_of(run.topology).tunnel_nodes(run.hops))))


@dataclass(frozen=True)
class LegEnd:
    """One end of a leg, where ends have their own congestion controls."""

    leg: str
    peer: str | None  # host at the leg's other end; None: the same host, over loopback
    cc: str


def leg_ends_by_host(run: RunSpec) -> dict[str, list[LegEnd]]:
    """Return the ends of legs on each host, if the run's ends differ; else {}."""
    ends: dict[str, list[LegEnd]] = {}
    flows = [flow for flow in run.flows if flow.cc] if run.cc_by_end else []
    for leg, one, other in (leg_ends for flow in flows for leg_ends in leg_hosts(run, flow)):
        for host, peer in {one: other, other: one}.items():
            cc = cc_at(run.cc, run.cc_by_end, host, leg)
            end = LegEnd(leg, None if peer == host else peer, cc)
            if end not in ends.setdefault(host, []):
                ends[host].append(end)
    return ends


def leg_hosts(run: RunSpec, flow: FlowSpec) -> list[tuple[str, str, str]]:
    """Return every leg of a flow, with the hosts at its two ends."""
    declaration, nodes = tunnel_kind(run.tunnel), run.tunnel_ends(flow)
    if not nodes:
        return [("wan", flow.sender, flow.receiver)]
    near, far = nodes[0], nodes[-1]
    if declaration.is_vpn:
        # Inside a VPN the other end has an address that does not exist yet: inner sockets have the
        # host's default, and the VPN's own, across the path, goes by the route.
        inner = [("inner", host, host) for host in dict.fromkeys((near, flow.receiver))]
        return [*inner, *([("wan", near, far)] if "wan" in declaration.legs else [])]
    between = {
        "app": (near, near),
        "wan": (near, nodes[1]),
        "join": (nodes[1], nodes[1]),
        "wan2": (nodes[-2], far),
        "exit": (far, flow.receiver),
    }
    return [(leg, *between[leg]) for leg in declaration.legs_over(run.hops)]


def set_cc_towards(network: Network, host: str, peer: str, cc: str) -> None:
    """Set a host's congestion control towards another by a route's metric. Raises NetworkError."""
    addresses = [interface.ip for interface in network.interfaces if interface.node == peer]
    for address in dict.fromkeys((network.ip(peer), *addresses)):
        output = network.read(host, ["ip", "-json", "route", "get", address], logged=False)
        [route] = json.loads(output)
        via = ["via", route["gateway"]] if "gateway" in route else []
        route_args = [f"{address}/32", *via, "dev", route["dev"]]
        network.read(host, ["ip", "route", "replace", *route_args, "congctl", kernel_name(cc)])


def cc_of(run: RunSpec, host: str) -> str:
    """Return the congestion control of a host's namespace.

    It is that of the first flow whose data the host sends, else of the first flow it takes part in
    (other flows set theirs on the socket). Where ends have their own, it is that of the host's
    loopback leg, which no route leads over, else of its first leg.
    """
    ends = leg_ends_by_host(run).get(host)
    if ends:
        return next((end.cc for end in ends if end.peer is None), ends[0].cc)
    if run.cc_by_end:
        return run.cc_by_end.get(host, run.cc)
    host_flows = [flow for flow in run.flows if flow.cc and host in (flow.sender, flow.receiver)]
    host_flows.sort(key=lambda flow: flow.data_sender != host)
    return str(host_flows[0].cc) if host_flows else run.cc


def socket_cc(run: RunSpec) -> dict[str, str]:
    """Return the default congestion control of a flow's sockets on each host."""
    if run.cc_by_end:
        return {flow.data_sender: flow.cc for flow in run.flows if flow.cc}
    return {host: cc_of(run, host) for host in run.hosts}


def buffers_of(run: RunSpec, host: str) -> Any:
    """Return the socket buffers of a host: its flows' (which agree), else the run's."""
    host_flows = (
        flow for flow in run.flows if flow.is_tcp and host in (flow.sender, flow.receiver)
    )
    return next((flow.buffers for flow in host_flows), run.buffers)


def ecn_of(run: RunSpec, host: str) -> str:
    """Return a host's ECN setting: its flows' (which agree), else the run's."""
    settings = (
        flow.ecn for flow in run.flows if flow.is_tcp and host in (flow.sender, flow.receiver)
    )
    return next((ecn for ecn in settings if ecn), run.ecn)


def silence_ipv6(network: Network) -> None:
    """Disable IPv6 on the links, which carry none of the load.

    Neighbour and router solicitations would cross the path at arbitrary instants, and each would
    take one of the delay line's random numbers.
    """
    for node in network.nodes:
        values = {
            f"net.ipv6.conf.{interface.name}.disable_ipv6": "1"
            for interface in network.interfaces
            if interface.node == node
        }
        network.log.run(node, ["sysctl", "-eqw", *(f"{key}=1" for key in values)])
        with entered_namespace(network.pid(node)):
            write_sysctls({key: values[key] for key in read_sysctls(values)})


def set_kernel_wide_settings(run: RunSpec, machine: str) -> None:
    """Set what all namespaces share: congestion controls, and the sandbox's TCP memory limit.

    Raises Unsupported or OSError.

    The memory limit holds for all namespaces together, and a sandbox is several machines: the
    default, a tenth of one machine's memory, would decide the result long before a host's own
    limit.
    """
    for cc in run.congestion_controls:
        check_cc_available(cc, machine)
    if machine == "sandbox":
        limits = tcp_memory_limits(run.tcp_memory_mib)
        sysctl_file("net.ipv4.tcp_mem").write_text(limits, encoding="ascii")


def tcp_memory_limits(limit_mib: int) -> str:
    """Return the three limits of tcp_mem in pages, in the kernel's proportions.

    They are 3 : 4 : 6 (tcp_init_mem).
    """
    pages = limit_mib * 2**20 // os.sysconf("SC_PAGE_SIZE")
    return f"{pages // 2} {pages * 2 // 3} {pages}"


def check_cc_available(cc: str, machine: str) -> None:
    """Raise Unsupported if the kernel lacks or forbids a congestion control.

    A namespace needs it in tcp_allowed_congestion_control: a sandbox allows all, on a host the
    setting is its owner's. Raises NetworkError if the guest could not load it.
    """
    refused = json.loads(os.environ.get(NOT_LOADED, "{}"))
    if cc in refused:
        raise NetworkError(f"congestion control {cc}: the kernel did not take it: {refused[cc]}")
    name, available = kernel_name(cc), available_ccs("available")
    if name not in available and machine != "sandbox":
        subprocess.run(["modprobe", "-q", f"tcp_{name}"], check=False, stderr=subprocess.DEVNULL)
        available = available_ccs("available")
    if name not in available and cc in shipped_controls():
        raise Unsupported(
            f"congestion control {cc}: the lab compiles it for the sandbox's kernel alone: use"
            " --machine sandbox"
        )
    if name not in available:
        raise Unsupported(
            f"congestion control {cc}: this kernel ({platform.release()}) has"
            f" {', '.join(available)}"
        )
    if name not in available_ccs("allowed"):
        if machine != "sandbox":
            raise Unsupported(
                f"congestion control {cc}: this machine does not allow it in a namespace: add it"
                " with sysctl net.ipv4.tcp_allowed_congestion_control, or use --machine sandbox"
            )
        cc_sysctl_file("allowed").write_text(" ".join(available), encoding="ascii")


def cc_sysctl_file(kind: str) -> Path:
    """Return the sysctl file of the "available" or "allowed" congestion controls."""
    return sysctl_file(f"net.ipv4.tcp_{kind}_congestion_control")


def available_ccs(kind: str) -> list[str]:
    return cc_sysctl_file(kind).read_text(encoding="ascii").split()
