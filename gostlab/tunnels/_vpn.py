# SPDX-License-Identifier: MIT
"""Provide what VPN tunnels share: inner addresses, the device and the routes into it.

A VPN carries packets. The application connects to an inner address, and its own TCP connection, the
leg `inner`, runs from end to end. The path carries it in datagrams, or in a TCP connection of the
VPN, the leg `wan`.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from gostlab.guest.network import NetworkError
from gostlab.guest.tunnel_context import (
    Tunnel,
    TunnelError,
    TunnelLaunch,
    TunnelLeg,
    direct_entries,
    sink_ports,
)
from gostlab.registry.qdiscs import qdisc_kind

NETWORK_BITS = 30


@dataclass(frozen=True)
class InnerAddresses:
    """The addresses inside a pair's VPN.

    If the far end is not on the target, the target has an additional address behind it. Its normal
    address stays reachable outside the VPN, for the measurements of the path.
    """

    near: str
    far: str
    behind: str


def inner_addresses(launch: TunnelLaunch) -> InnerAddresses:
    """Return the pair's inner addresses in 10.9.0, .2, .4, … (behind them: .1, .3, .5, …)."""
    first = 2 * launch.number
    return InnerAddresses(f"10.9.{first}.1", f"10.9.{first}.2", f"10.9.{first + 1}.2")


def device_of(launch: TunnelLaunch) -> str:
    """Return the name of the pair's device, which is the same on both nodes."""
    return f"vpn{launch.number}"


def give_addresses(launch: TunnelLaunch) -> None:
    """Set addresses and MTU of a VPN's existing devices, and bring them up with their routes.

    Raises NetworkError.
    """
    inside, device = inner_addresses(launch), device_of(launch)
    for node, address in ((launch.near, inside.near), (launch.far, inside.far)):
        launch.on(node, "ip", "addr", "replace", f"{address}/{NETWORK_BITS}", "dev", device)
        launch.on(node, "ip", "link", "set", device, "mtu", str(launch.inner_mtu), "up")
    route_behind_gateway(launch)


def route_behind_gateway(launch: TunnelLaunch) -> None:
    """Add the address behind a far end on a gateway, and the routes of all nodes from there on.

    Raises NetworkError.
    """
    if launch.far == launch.receiver:
        return
    network, inside = launch.network, inner_addresses(launch)
    prefix = f"{inside.behind}/32"
    launch.on(launch.receiver, "ip", "addr", "replace", prefix, "dev", "lo")
    for node, next_node, return_gateway, gateway in network.links_between(
        launch.far, launch.receiver
    ):
        launch.on(node, "ip", "route", "replace", prefix, "via", gateway)
        if next_node != launch.receiver:  # the receiver has a default route only
            launch.on(
                next_node, "ip", "route", "replace", f"{inside.near}/32", "via", return_gateway
            )
    launch.on(launch.near, "ip", "route", "replace", prefix, "dev", device_of(launch))


def wait_for_device(launch: TunnelLaunch, node: str, device: str) -> None:
    """Wait until an end has made its device. Raises TunnelError if it has none in time."""
    # This process reads the table: starting a program for each poll would be most of a VPN's start
    # time.
    deadline = time.monotonic() + launch.patience_s
    table = Path(f"/proc/{launch.network.pid(node)}/net/dev")
    while f"{device}:" not in table.read_text(encoding="ascii").split():
        launch.ends.check_alive()
        if time.monotonic() >= deadline:
            output = launch.last_output(node)
            raise TunnelError(f"{node}: no device {device} after {launch.patience_s:.0f} s{output}")
        time.sleep(0.05)
    script = "for _ in $(seq 200); do ip link show dev $0 2>/dev/null && exit 0; sleep 0.05; done"
    launch.network.log.run(node, ["/bin/sh", "-c", f"{script}; exit 1", device])


def wait_inside(launch: TunnelLaunch) -> None:
    """Wait until a ping through the VPN is answered. Raises TunnelError if none is."""
    wait_s = 1 + int(max(flow.rtt_ms for flow in launch.run.flows) / 1000)
    ping = f"ping -qc1 -W{wait_s} $0"
    script = f"for _ in $(seq 50); do {ping} && exit 0; sleep 0.1; done >/dev/null 2>&1"
    try:
        launch.on(launch.near, "/bin/sh", "-c", f"{script}; exit 1", inner_addresses(launch).far)
    except NetworkError:
        launch.ends.check_alive()
        raise TunnelError(
            f"{launch.near}: no answer to 50 pings through the tunnel"
            f"{launch.last_output(launch.near)}"
        ) from None


def install_tun_queue(launch: TunnelLaunch) -> None:
    """Install the requested queueing discipline on both ends' devices, if any, and read it back.

    Raises TunnelError if another one is there afterwards, NetworkError if tc refuses it.
    """
    device = device_of(launch)
    for _, queue in launch.options("tun_queue"):
        requested = qdisc_kind(queue).in_kernel
        for node in (launch.near, launch.far):
            launch.on(node, "tc", "qdisc", "replace", "dev", device, "root", requested)
            installed = launch.on(node, "tc", "qdisc", "show", "dev", device)
            if not installed.startswith(f"qdisc {requested} "):
                raise TunnelError(f"{node}: {device} has {installed.strip()!r} and not {requested}")


def vpn_legs(launch: TunnelLaunch, wan_port: int | None = None) -> Tunnel:
    """Return the entries and legs of a started VPN, for all flows except udp flows.

    `wan_port` is the port of the VPN's own connection, if it has one.

    Raises TunnelError or NetworkError if its tun_queue cannot be installed.
    """
    install_tun_queue(launch)
    ports = sink_ports(launch.run)
    addresses = inner_addresses(launch)
    address = addresses.far if launch.far == launch.receiver else addresses.behind
    legs = [
        TunnelLeg("inner", launch.near, launch.receiver, ports[flow.name], flow=flow.name)
        for flow in launch.flows
        if flow.is_tcp
    ]
    if wan_port is not None:
        legs.append(TunnelLeg("wan", launch.near, launch.far, wan_port, flow=launch.flow))
    entries = {
        **direct_entries(launch.network, launch.run),
        **{flow.name: (address, ports[flow.name]) for flow in launch.flows},
    }
    return Tunnel(entries, tuple(legs))
