"""What VPNs share: the addresses inside, the device that carries them, and what leads into it.

A VPN carries packets. The application connects to an address inside, and its own TCP connection,
the leg `inner`, runs from end to end; the path carries it in datagrams, or in a TCP connection of
the VPN's own, the leg `wan`.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from gostlab.guest.network import NetworkError
from gostlab.guest.tunnel_context import (
    Launch,
    Tunnel,
    TunnelError,
    TunnelLeg,
    direct_entries,
    sink_ports,
)
from gostlab.registry.qdiscs import qdisc_kind

NETWORK_BITS = 30


@dataclass(frozen=True)
class Inside:
    """The addresses inside a pair's VPN. Where the far end is not on the target itself, the target
    has one more behind it: its own stays reachable beside the VPN, for what measures the path.
    """

    near: str
    far: str
    behind: str


def inside_of(launch: Launch) -> Inside:
    """Each pair's own: 10.9.0, .2, .4, … and behind them .1, .3, .5, …"""
    first = 2 * launch.number
    return Inside(f"10.9.{first}.1", f"10.9.{first}.2", f"10.9.{first + 1}.2")


def device_of(launch: Launch) -> str:
    """A pair's device, the same on both nodes."""
    return f"vpn{launch.number}"


def give_addresses(launch: Launch) -> None:
    """Addresses and MTU of a VPN's devices that are there, up and routed. Raises NetworkError."""
    inside, device = inside_of(launch), device_of(launch)
    for node, address in ((launch.near, inside.near), (launch.far, inside.far)):
        launch.on(node, "ip", "addr", "replace", f"{address}/{NETWORK_BITS}", "dev", device)
        launch.on(node, "ip", "link", "set", device, "mtu", str(launch.inner_mtu), "up")
    lead_behind(launch)


def lead_behind(launch: Launch) -> None:
    """Where the far end is a gateway: the address behind it, and the routes of all nodes from there
    on. Raises NetworkError.
    """
    if launch.far == launch.receiver:
        return
    network, inside = launch.network, inside_of(launch)
    behind = f"{inside.behind}/32"
    launch.on(launch.receiver, "ip", "addr", "replace", behind, "dev", "lo")
    for node, following, back, there in network.way(launch.far, launch.receiver):
        launch.on(node, "ip", "route", "replace", behind, "via", there)
        if following != launch.receiver:  # which has but one way out
            launch.on(following, "ip", "route", "replace", f"{inside.near}/32", "via", back)
    launch.on(launch.near, "ip", "route", "replace", behind, "dev", device_of(launch))


def wait_for_device(launch: Launch, node: str, device: str) -> None:
    """Wait until an end has made its device. Raises TunnelError if it has none in time."""
    # Read here and not by a program: a process for each look is most of what a VPN's start takes.
    deadline = time.monotonic() + launch.patience_s
    table = Path(f"/proc/{launch.network.pid(node)}/net/dev")
    while f"{device}:" not in table.read_text(encoding="ascii").split():
        launch.ends.check_alive()
        if time.monotonic() >= deadline:
            said = launch.last_words(node)
            raise TunnelError(f"{node}: no device {device} after {launch.patience_s:.0f} s{said}")
        time.sleep(0.05)
    script = "for _ in $(seq 200); do ip link show dev $0 2>/dev/null && exit 0; sleep 0.05; done"
    launch.network.log.run(node, ["/bin/sh", "-c", f"{script}; exit 1", device])


def wait_inside(launch: Launch) -> None:
    """Wait until a packet goes through and one comes back. Raises TunnelError if none does."""
    wait_s = 1 + int(max(flow.rtt_ms for flow in launch.run.flows) / 1000)
    ping = f"ping -qc1 -W{wait_s} $0"
    script = f"for _ in $(seq 50); do {ping} && exit 0; sleep 0.1; done >/dev/null 2>&1"
    try:
        launch.on(launch.near, "/bin/sh", "-c", f"{script}; exit 1", inside_of(launch).far)
    except NetworkError:
        launch.ends.check_alive()
        raise TunnelError(
            f"{launch.near}: nothing comes back through the tunnel after 50 pings"
            f"{launch.last_words(launch.near)}"
        ) from None


def install_tun_queue(launch: Launch) -> None:
    """Install the requested queueing discipline on both ends' devices, if any, and read it back.

    Raises TunnelError if another one is there afterwards, NetworkError if tc refuses it.
    """
    device = device_of(launch)
    for _, queue in launch.options("tun_queue"):
        wanted = qdisc_kind(queue).in_kernel
        for node in (launch.near, launch.far):
            launch.on(node, "tc", "qdisc", "replace", "dev", device, "root", wanted)
            installed = launch.on(node, "tc", "qdisc", "show", "dev", device)
            if not installed.startswith(f"qdisc {wanted} "):
                raise TunnelError(f"{node}: {device} has {installed.strip()!r} and not {wanted}")


def vpn_legs(launch: Launch, wan_port: int | None = None) -> Tunnel:
    """A started VPN, for every flow but udp. `wan_port`: of its own connection, if it has one.

    Raises TunnelError or NetworkError if its tun_queue cannot be installed.
    """
    install_tun_queue(launch)
    ports = sink_ports(launch.run)
    own = inside_of(launch)
    inside = own.far if launch.far == launch.receiver else own.behind
    legs = [
        TunnelLeg("inner", launch.near, launch.receiver, ports[flow.name], flow=flow.name)
        for flow in launch.flows
        if flow.is_tcp
    ]
    if wan_port is not None:
        legs.append(TunnelLeg("wan", launch.near, launch.far, wan_port, flow=launch.flow))
    entries = {
        **direct_entries(launch.network, launch.run),
        **{flow.name: (inside, ports[flow.name]) for flow in launch.flows},
    }
    return Tunnel(entries, tuple(legs))
