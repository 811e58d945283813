"""Configure how the end hosts' NICs receive: interrupt coalescing and GRO.

A real NIC does not interrupt for every packet: it leaves some time between interrupts, and the
kernel merges the packets that arrived meanwhile (GRO). Only end hosts receive in this way; routers
handle single packets, so that the path loses and queues packets as requested.
"""

import re
from typing import TypedDict

from gostlab.guest.host_config import Unsupported, machines_of
from gostlab.guest.network import Network, NetworkError
from gostlab.spec.run_spec import RunSpec

GRO = "generic-receive-offload"


class CoalescingRecord(TypedDict):
    """Represent a NIC's receive settings as read back: an entry of env.json."""

    gro: bool
    rx_usecs: int
    rx_frames: int


def coalesce_interrupts(network: Network, run: RunSpec) -> dict[str, CoalescingRecord]:
    """Enable GRO and interrupts at least rx_usecs apart on every interface of the end hosts.

    Returns the state read back for each. Raises Unsupported if the kernel's links cannot coalesce,
    NetworkError if one does not accept it.
    """
    hosts = machines_of(run)
    return {
        interface.name: moderate(network, interface.node, interface.name, run.rx_usecs)
        for interface in network.interfaces
        if interface.node in hosts
    }


def moderate(network: Network, node: str, device: str, rx_usecs: int) -> CoalescingRecord:
    """Configure one interface for `coalesce_interrupts`."""
    if "rx-usecs" not in network.read(node, ["ethtool", "-c", device], check=False, logged=False):
        raise Unsupported(
            "this kernel's links have no interrupts to hold back (receive: moderated): the"
            " sandbox's kernel has"
        )
    network.read(node, ["ethtool", "-K", device, "gro", "on"])
    network.read(node, ["ethtool", "-C", device, "rx-usecs", str(rx_usecs)])
    output = "".join(
        network.read(node, ["ethtool", option, device], logged=False) for option in ("-k", "-c")
    )
    state = dict(re.findall(r"^(\S+):\s+(\S+)", output, re.MULTILINE))
    installed: CoalescingRecord = {
        "gro": state[GRO] == "on",
        "rx_usecs": int(state["rx-usecs"]),
        "rx_frames": int(state["rx-frames"]),
    }
    if (installed["gro"], installed["rx_usecs"]) != (True, rx_usecs):
        raise NetworkError(
            f"{node}: {device}: requested GRO and rx-usecs {rx_usecs}, the kernel has {installed}"
        )
    return installed
