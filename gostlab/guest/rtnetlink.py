"""Make links, addresses and routes by netlink: running `ip` per node is a tenth of a short run.

Layouts are those of <linux/rtnetlink.h>, <linux/if_link.h> and <linux/veth.h>.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from gostlab.guest.namespaces import entered_namespace
from gostlab.guest.probes.netlink import (
    NETLINK_ROUTE,
    NLM_F_REQUEST,
    NLMSG_ERROR,
    open_in,
    parse_attributes,
)

RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE = 16, 20, 24
NLM_F_ACK, NLM_F_NEW = 4, 0x600  # NLM_F_CREATE | NLM_F_EXCL
SOL_NETLINK, NETLINK_CAP_ACK, NETLINK_EXT_ACK = 270, 10, 11
NLM_F_ACK_TLVS, NLMSGERR_ATTR_MSG = 0x200, 1
IFLA_IFNAME, IFLA_MTU, IFLA_LINKINFO, IFLA_NET_NS_PID = 3, 4, 18, 19
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL, RTA_DST, RTA_OIF, RTA_GATEWAY = 1, 2, 1, 4, 5
IFF_UP = 1
RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_UNIVERSE, RT_SCOPE_LINK, RTN_UNICAST = 254, 3, 0, 253, 1


class LinkError(Exception):
    """A link, address or route that the kernel refused: the `ip` command, and the reason."""


class Links:
    """The links of a node's network. Use through `links_of`, from within that network.

    Each method raises LinkError.
    """

    def __init__(self, netlink: socket.socket) -> None:
        self._netlink = netlink
        for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK):
            netlink.setsockopt(SOL_NETLINK, option, 1)

    def add_veth(self, name: str, pid: int, peer: str, peer_pid: int) -> None:
        """Add a link with two ends, each in the network of a process."""
        body, peer_body = (
            link_body() + pack_text(IFLA_IFNAME, end_name) + pack_number(IFLA_NET_NS_PID, end_pid)
            for end_name, end_pid in ((name, pid), (peer, peer_pid))
        )
        data = pack_attribute(IFLA_INFO_DATA, pack_attribute(VETH_INFO_PEER, peer_body))
        link_info = pack_attribute(IFLA_LINKINFO, pack_text(IFLA_INFO_KIND, "veth") + data)
        command = f"ip link add {name} type veth peer name {peer}"
        self._ask(command, RTM_NEWLINK, body + link_info, NLM_F_NEW)

    def set_up(self, name: str) -> None:
        body = link_body(IFF_UP) + pack_text(IFLA_IFNAME, name)
        self._ask(f"ip link set {name} up", RTM_NEWLINK, body)

    def set_mtu(self, name: str, mtu: int) -> None:
        body = link_body() + pack_text(IFLA_IFNAME, name) + pack_number(IFLA_MTU, mtu)
        self._ask(f"ip link set {name} mtu {mtu}", RTM_NEWLINK, body)

    def add_address(self, name: str, address: str) -> None:
        """Add an address with its prefix length, like 10.0.0.1/24."""
        command = f"ip addr add {address} dev {name}"
        try:
            parsed, index = IPv4Interface(address), socket.if_nametoindex(name)
        except (ValueError, OSError) as error:
            raise LinkError(f"{command}: {error}") from None
        body = struct.pack("=BBBBi", socket.AF_INET, parsed.network.prefixlen, 0, 0, index)
        body += pack_attribute(IFA_LOCAL, parsed.packed) + pack_attribute(
            IFA_ADDRESS, parsed.packed
        )
        self._ask(command, RTM_NEWADDR, body, NLM_F_NEW)

    def add_route(self, destination: str, args: str) -> None:
        """Add a route to a network or `default`.

        `args` are those of `ip`: via ADDRESS, dev NAME, or both.
        """
        command = f"ip route add {destination} {args}"
        pairs = args.split()
        options = dict(zip(pairs[::2], pairs[1::2], strict=False))
        if len(pairs) % 2 or not options or set(options) - {"via", "dev"}:
            raise LinkError(f"{command}: a route goes via ADDRESS, dev NAME, or both")
        try:
            network = IPv4Network("0.0.0.0/0" if destination == "default" else destination)
            attributes = (
                pack_attribute(RTA_DST, network.network_address.packed)
                if network.prefixlen
                else b""
            )
            if "via" in options:
                attributes += pack_attribute(RTA_GATEWAY, IPv4Address(options["via"]).packed)
            if "dev" in options:
                attributes += pack_number(RTA_OIF, socket.if_nametoindex(options["dev"]))
        except (ValueError, OSError) as error:
            raise LinkError(f"{command}: {error}") from None
        scope = RT_SCOPE_UNIVERSE if "via" in options else RT_SCOPE_LINK
        body = struct.pack(
            "=8BI",
            *(socket.AF_INET, network.prefixlen, 0, 0),
            *(RT_TABLE_MAIN, RTPROT_BOOT, scope, RTN_UNICAST, 0),
        )
        self._ask(command, RTM_NEWROUTE, body + attributes, NLM_F_NEW)

    def _ask(self, command: str, message_type: int, body: bytes, flags: int = 0) -> None:
        """Send a request and check its answer; with NLM_F_NEW it is for what does not exist yet."""
        flags |= NLM_F_REQUEST | NLM_F_ACK
        self._netlink.send(struct.pack("=IHHII", 16 + len(body), message_type, flags, 1, 0) + body)
        answer = self._netlink.recv(1 << 16)
        _length, message_type, flags, _number, _port, failed = struct.unpack_from("=IHHIIi", answer)
        if message_type != NLMSG_ERROR or failed:
            attributes = parse_attributes(answer, 36) if flags & NLM_F_ACK_TLVS else {}
            message = attributes.get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode(errors="replace")
            raise LinkError(f"{command}: {message or os.strerror(-failed)}")


@contextmanager
def links_of(pid: int) -> Iterator[Links]:
    """Open the links of a process's network, in which the caller is meanwhile. Raises OSError."""
    with open_in(pid, NETLINK_ROUTE) as netlink, entered_namespace(pid):
        yield Links(netlink)


def link_body(flags: int = 0) -> bytes:
    """Return a struct ifinfomsg for a link given by its name, with some flags set."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, flags, flags)


def pack_attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def pack_text(kind: int, value: str) -> bytes:
    return pack_attribute(kind, value.encode() + b"\0")


def pack_number(kind: int, value: int) -> bytes:
    return pack_attribute(kind, struct.pack("=I", value))
