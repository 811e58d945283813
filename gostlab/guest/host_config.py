"""The hosts of a run: congestion control, socket buffers and TCP's memory, set in their namespaces
and read back.
"""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.guest.namespaces import inside, read_sysctls, sysctl_file, write_sysctls
from gostlab.guest.network import Network, NetworkError, set_sysctls
from gostlab.registry.congestion_controls import kernel_name, shipped_controls
from gostlab.registry.topologies import topology_of
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.flow import FlowSpec, cc_at
from gostlab.spec.run_spec import RunSpec

# What a namespace gets besides congestion control and buffers. Metrics of an earlier connection
# must not speak for the next one; a run must not depend on the order of runs.
SYSCTLS = {"net.ipv4.tcp_no_metrics_save": "1"}
# What hosts ask for, and accept: ECN as in RFC 3168, or accurate ECN (RFC 9768).
ASKING_FOR_ECN = {"on": "1", "losses": "1", "l4s": "3"}
# Losses by duplicate ACKs, as before RACK (Linux 4.4) and tail loss probes (3.10): three of them,
# and more where reordering was seen, up to what Linux then allowed.
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
# A pool of TCP memory of a namespace's own: the sandbox's kernel alone has it.
HOST_TCP_MEMORY = "net.ipv4.tcp_host_mem"
# Which modules the guest's init could not load, and why (gostlab.sandbox.guest_init).
NOT_LOADED = "GOSTLAB_NOT_LOADED"


class Unsupported(Exception):
    """This machine's kernel lacks what the run needs."""


def configure_hosts(network: Network, run: RunSpec) -> dict[str, dict[str, str]]:
    """Congestion control and socket buffers in the namespace of every host that flows or tunnels
    end on, read back; congestion control of its own for a leg that has one.
    Raises Unsupported or NetworkError.
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
        own = machine_sysctls(run, node)
        own_installed = set_sysctls(network, node, own, of_this_kernel_alone=True) if own else {}
        with inside(network.pid(node)):
            installed[node] = own_installed | read_sysctls(RECORDED_SYSCTLS)
    for host, legs in legs_at(run).items():
        for leg in legs:
            if leg.peer and leg.cc != cc_of(run, host):
                set_cc_towards(network, host, leg.peer, leg.cc)
    return installed


def machine_sysctls(run: RunSpec, host: str) -> dict[str, str]:
    """What makes a host a machine of its own: its CPUs, what a packet costs it, its TCP memory. The
    sandbox's kernel alone has such things.
    """
    found = {}
    if host in run.cpus_by_host:
        found["net.host.cpus"] = str(run.cpus_by_host[host])
    if run.packet_cost_ns and host in machines_of(run):
        found["net.host.packet_ns"] = str(run.packet_cost_ns)
    if run.cpu_share_permille and host in machines_of(run):
        found["net.host.cpu_burst_us"] = str(run.cpu_burst_us)
        found["net.host.cpu_share_permille"] = str(run.cpu_share_permille)
    pool_mib = tcp_memory_of(run, host)
    if pool_mib:
        found[HOST_TCP_MEMORY] = tcp_memory_limits(pool_mib)
    return found


def tcp_memory_of(run: RunSpec, host: str) -> int:
    """The MiB that a host's own TCP may hold; 0: it has no pool of its own."""
    return run.tcp_memory_mib_by_host.get(host, run.host_tcp_memory_mib)


def has_own_tcp_memory(run: RunSpec) -> bool:
    return run.host_tcp_memory_mib > 0 or bool(run.tcp_memory_mib_by_host)


def machines_of(run: RunSpec) -> tuple[str, ...]:
    """The hosts whose programs take part: what only forwards for them is the network."""
    ends = (host for flow in run.flows for host in run.tunnel_way(flow))
    return tuple(dict.fromkeys((*run.hosts, *ends)))


def hosts_with_programs(run: RunSpec) -> tuple[str, ...]:
    """The hosts that flows or tunnels end on."""
    return tuple(dict.fromkeys((*run.hosts, *topology_of(run.topology).tunnel_nodes(run.hops))))


@dataclass(frozen=True)
class LegEnd:
    """One end of a leg, where ends have congestion controls of their own."""

    leg: str
    peer: str | None  # the host at its other end; None: the same host, over loopback
    cc: str


def legs_at(run: RunSpec) -> dict[str, list[LegEnd]]:
    """The ends of legs on each host, of a run whose ends differ: {} where all are the same."""
    found: dict[str, list[LegEnd]] = {}
    flows = [flow for flow in run.flows if flow.cc] if run.cc_by_end else []
    for leg, one, other in (each for flow in flows for each in leg_hosts(run, flow)):
        for host, peer in {one: other, other: one}.items():
            cc = cc_at(run.cc, run.cc_by_end, host, leg)
            end = LegEnd(leg, None if peer == host else peer, cc)
            if end not in found.setdefault(host, []):
                found[host].append(end)
    return found


def leg_hosts(run: RunSpec, flow: FlowSpec) -> list[tuple[str, str, str]]:
    """Every leg of a flow, and the hosts at its two ends."""
    kind, way = tunnel_kind(run.tunnel), run.tunnel_way(flow)
    if not way:
        return [("wan", flow.sender, flow.receiver)]
    near, far = way[0], way[-1]
    if kind.is_vpn:
        # Inside a VPN the other end has an address that is not there yet: what its sockets have is
        # the host's own, and the VPN's, across the path, goes by the route there.
        inner = [("inner", host, host) for host in dict.fromkeys((near, flow.receiver))]
        return [*inner, *([("wan", near, far)] if "wan" in kind.legs else [])]
    between = {
        "app": (near, near),
        "wan": (near, way[1]),
        "join": (way[1], way[1]),
        "wan2": (way[-2], far),
        "exit": (far, flow.receiver),
    }
    return [(leg, *between[leg]) for leg in kind.legs_over(run.hops)]


def set_cc_towards(network: Network, host: str, peer: str, cc: str) -> None:
    """A host's congestion control towards another: a metric of its routes. Raises NetworkError."""
    addresses = [each.ip for each in network.interfaces if each.node == peer]
    for address in dict.fromkeys((network.ip(peer), *addresses)):
        shown = network.read(host, ["ip", "-json", "route", "get", address], logged=False)
        [route] = json.loads(shown)
        via = ["via", route["gateway"]] if "gateway" in route else []
        to = [f"{address}/32", *via, "dev", route["dev"]]
        network.read(host, ["ip", "route", "replace", *to, "congctl", kernel_name(cc)])


def cc_of(run: RunSpec, host: str) -> str:
    """The congestion control of a host's namespace: of the first flow whose data it sends, else of
    the first it takes part in (another flow's asks on its own socket). Where ends have their
    own, that of its loopback leg, which no route leads over, else of its first.
    """
    ends = legs_at(run).get(host)
    if ends:
        return next((end.cc for end in ends if end.peer is None), ends[0].cc)
    if run.cc_by_end:
        return run.cc_by_end.get(host, run.cc)
    mine = [flow for flow in run.flows if flow.cc and host in (flow.sender, flow.receiver)]
    mine.sort(key=lambda flow: flow.data_sender != host)
    return str(mine[0].cc) if mine else run.cc


def socket_cc(run: RunSpec) -> dict[str, str]:
    """What a flow's sockets have on each host without asking for it."""
    if run.cc_by_end:
        return {flow.data_sender: flow.cc for flow in run.flows if flow.cc}
    return {host: cc_of(run, host) for host in run.hosts}


def buffers_of(run: RunSpec, host: str) -> Any:
    """The socket buffers of a host: its flows' (which agree), else the run's."""
    own = (flow for flow in run.flows if flow.is_tcp and host in (flow.sender, flow.receiver))
    return next((flow.buffers for flow in own), run.buffers)


def ecn_of(run: RunSpec, host: str) -> str:
    """Whether a host asks for ECN: its flows' own (which agree), else the run's."""
    own = (flow.ecn for flow in run.flows if flow.is_tcp and host in (flow.sender, flow.receiver))
    return next((ecn for ecn in own if ecn), run.ecn)


def silence_ipv6(network: Network) -> None:
    """No IPv6 on the links, which carry none of the load: at instants of its own choice it would
    send neighbour and router solicitations across the path, and each takes one of the delay line's
    random numbers.
    """
    for node in network.nodes:
        values = {
            f"net.ipv6.conf.{interface.name}.disable_ipv6": "1"
            for interface in network.interfaces
            if interface.node == node
        }
        network.log.run(node, ["sysctl", "-eqw", *(f"{key}=1" for key in values)])
        with inside(network.pid(node)):
            write_sysctls({key: values[key] for key in read_sysctls(values)})


def prepare_kernel(run: RunSpec, machine: str) -> None:
    """What all namespaces share: congestion controls, and in the sandbox the limit of memory for
    all TCP sockets. Raises Unsupported or OSError.

    That is one limit for every namespace, and a sandbox is several machines: its default, a tenth
    of one machine's memory, would decide the result long before any of the hosts' own would.
    """
    for cc in run.congestion_controls:
        check_cc_available(cc, machine)
    if machine == "sandbox":
        limits = tcp_memory_limits(run.tcp_memory_mib)
        sysctl_file("net.ipv4.tcp_mem").write_text(limits, encoding="ascii")


def tcp_memory_limits(limit_mib: int) -> str:
    """The three limits of tcp_mem, in pages, in the kernel's proportions (3 : 4 : 6,
    tcp_init_mem).
    """
    pages = limit_mib * 2**20 // os.sysconf("SC_PAGE_SIZE")
    return f"{pages // 2} {pages * 2 // 3} {pages}"


def check_cc_available(cc: str, machine: str) -> None:
    """Raises Unsupported if the kernel lacks a congestion control, or does not allow it in a
    namespace (tcp_allowed_congestion_control): a sandbox allows all, a host's setting is its
    owner's.
    """
    refused = json.loads(os.environ.get(NOT_LOADED, "{}"))
    if cc in refused:
        raise NetworkError(f"congestion control {cc}: the kernel did not take it: {refused[cc]}")
    name, available = kernel_name(cc), listed("available")
    if name not in available and machine != "sandbox":
        subprocess.run(["modprobe", "-q", f"tcp_{name}"], check=False, stderr=subprocess.DEVNULL)
        available = listed("available")
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
    if name not in listed("allowed"):
        if machine != "sandbox":
            raise Unsupported(
                f"congestion control {cc}: this machine does not allow it in a namespace: add it"
                " with sysctl net.ipv4.tcp_allowed_congestion_control, or use --machine sandbox"
            )
        controls("allowed").write_text(" ".join(available), encoding="ascii")


def controls(kind: str) -> Path:
    """The machine's "available" or "allowed" congestion controls."""
    return sysctl_file(f"net.ipv4.tcp_{kind}_congestion_control")


def listed(kind: str) -> list[str]:
    return controls(kind).read_text(encoding="ascii").split()
