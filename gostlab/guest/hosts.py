"""The hosts of a run: congestion control, socket buffers and TCP's memory, set in their namespaces
and read back.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gostlab.ask.run_description import RunDescription
from gostlab.declared.topologies import topology_of
from gostlab.guest.network import Network, set_sysctls

# What a namespace gets besides congestion control and buffers. Metrics of an earlier connection
# must not speak for the next one; a run must not depend on the order of runs.
SYSCTLS = {"net.ipv4.tcp_no_metrics_save": "1"}
RECORDED_SYSCTLS = (
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_mtu_probing",
)
CC_SYSCTLS = {
    kind: Path(f"/proc/sys/net/ipv4/tcp_{kind}_congestion_control")
    for kind in ("available", "allowed")
}
# Not in Linux's own tree: modules of their own, which the lab does not build so far.
NOT_BUILT_YET = ("bbr2", "bbr3", "bbrplus")


class Unsupported(Exception):
    """This machine's kernel lacks what the run asks for."""


def configure_hosts(network: Network, run: RunDescription) -> dict[str, dict[str, str]]:
    """Congestion control and socket buffers in the namespace of every host that flows or tunnels
    end on, read back.
    """
    installed = {}
    for node in dict.fromkeys((*run.hosts, *topology_of(run.topology).tunnel_nodes)):
        values = {**SYSCTLS, "net.ipv4.tcp_congestion_control": cc_of(run, node)}
        buffers = buffers_of(run, node)
        if isinstance(buffers, Mapping):
            values["net.ipv4.tcp_rmem"] = " ".join(str(number) for number in buffers["rmem"])
            values["net.ipv4.tcp_wmem"] = " ".join(str(number) for number in buffers["wmem"])
        set_sysctls(network, node, values)
        lines = network.read(node, ["sysctl", "-e", *RECORDED_SYSCTLS], logged=False).splitlines()
        installed[node] = {
            key.strip(): " ".join(value.split())
            for key, _, value in (line.partition("=") for line in lines)
        }
    return installed


def cc_of(run: RunDescription, host: str) -> str:
    """The congestion control of a host's namespace: that of the first flow whose data it sends,
    else of the first it takes part in. A flow of the same host with another one asks for it on its
    own socket.
    """
    mine = [flow for flow in run.flows if flow.cc and host in (flow.sender, flow.receiver)]
    mine.sort(key=lambda flow: flow.data_sender != host)
    return str(mine[0].cc) if mine else run.cc


def buffers_of(run: RunDescription, host: str) -> Any:
    """The socket buffers of a host: its flows' (which agree), else the run's."""
    return next(
        (
            flow.buffers
            for flow in run.flows
            if flow.kind != "udp" and host in (flow.sender, flow.receiver)
        ),
        run.buffers,
    )


def silence_ipv6(network: Network) -> None:
    """No IPv6 on the links, which carry none of the load: at instants of its own choice it would
    send neighbour and router solicitations across the path, and each takes one of the delay line's
    random numbers.
    """
    for node in network.nodes:
        network.read(
            node,
            [
                "sysctl",
                "-eqw",
                *(
                    f"net.ipv6.conf.{interface.name}.disable_ipv6=1"
                    for interface in network.interfaces
                    if interface.node == node
                ),
            ],
        )


def set_tcp_memory(limit_mib: int | None) -> None:
    """Set the kernel's limit of memory for all TCP sockets, in the kernel's own proportions (low :
    pressure : limit = 3 : 4 : 6, tcp_init_mem). It is one limit for every namespace, and a sandbox
    is several machines: its default, a tenth of one machine's memory, would decide the result long
    before any of the hosts' own would.

    Only for a machine of the lab's own; None leaves it as it is. Raises OSError.
    """
    if limit_mib is not None:
        pages = limit_mib * 2**20 // os.sysconf("SC_PAGE_SIZE")
        Path("/proc/sys/net/ipv4/tcp_mem").write_text(
            f"{pages // 2} {pages * 2 // 3} {pages}", encoding="ascii"
        )


def check_cc_available(cc: str, machine: str) -> None:
    """Raises Unsupported if the kernel lacks a congestion control, or does not let a namespace have
    it.

    A namespace may only be given one that the machine allows everybody
    (tcp_allowed_congestion_control). A sandbox is the lab's own machine, and allows all; a host's
    setting is its owner's.
    """
    available = listed("available")
    if cc in NOT_BUILT_YET and cc not in available:
        raise Unsupported(f"congestion control {cc}: kernel module not built yet")
    if cc not in available:
        subprocess.run(["modprobe", "-q", f"tcp_{cc}"], check=False, stderr=subprocess.DEVNULL)
        available = listed("available")
    if cc not in available:
        raise Unsupported(
            f"congestion control {cc}: this kernel ({platform.release()}) has"
            f" {', '.join(available)}"
        )
    if cc not in listed("allowed"):
        if machine != "sandbox":
            raise Unsupported(
                f"congestion control {cc}: this machine does not allow it in a namespace: add it"
                " with sysctl net.ipv4.tcp_allowed_congestion_control, or use --machine sandbox"
            )
        CC_SYSCTLS["allowed"].write_text(" ".join(available), encoding="ascii")


def listed(kind: str) -> list[str]:
    """The machine's "available" or "allowed" congestion controls."""
    return CC_SYSCTLS[kind].read_text(encoding="ascii").split()
