"""Links, addresses and routes, made by netlink: `ip` for each node is a tenth of a short run.

Layouts are those of <linux/rtnetlink.h>, <linux/if_link.h> and <linux/veth.h>.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from gostlab.guest.namespaces import inside
from gostlab.guest.probes.netlink import (
    NETLINK_ROUTE,
    NLM_F_REQUEST,
    NLMSG_ERROR,
    attributes_of,
    open_in,
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
    """The kernel refused a link, an address or a route: what, as `ip` would be told, and why."""


class Links:
    """What a node's network consists of. Use through `links_of`, from within that network.

    Each method raises LinkError.
    """

    def __init__(self, netlink: socket.socket) -> None:
        self._netlink = netlink
        for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK):
            netlink.setsockopt(SOL_NETLINK, option, 1)

    def add_veth(self, name: str, pid: int, peer: str, peer_pid: int) -> None:
        """Two ends of a link, each in the network of a process."""
        one, other = (
            link_body() + text(IFLA_IFNAME, each) + number(IFLA_NET_NS_PID, where)
            for each, where in ((name, pid), (peer, peer_pid))
        )
        data = attribute(IFLA_INFO_DATA, attribute(VETH_INFO_PEER, other))
        kind = attribute(IFLA_LINKINFO, text(IFLA_INFO_KIND, "veth") + data)
        words = f"ip link add {name} type veth peer name {peer}"
        self._ask(words, RTM_NEWLINK, one + kind, NLM_F_NEW)

    def set_up(self, name: str) -> None:
        body = link_body(IFF_UP) + text(IFLA_IFNAME, name)
        self._ask(f"ip link set {name} up", RTM_NEWLINK, body)

    def set_mtu(self, name: str, mtu: int) -> None:
        body = link_body() + text(IFLA_IFNAME, name) + number(IFLA_MTU, mtu)
        self._ask(f"ip link set {name} mtu {mtu}", RTM_NEWLINK, body)

    def add_address(self, name: str, address: str) -> None:
        """An address with its prefix's length, as 10.0.0.1/24."""
        words = f"ip addr add {address} dev {name}"
        try:
            parsed, index = IPv4Interface(address), socket.if_nametoindex(name)
        except (ValueError, OSError) as error:
            raise LinkError(f"{words}: {error}") from None
        body = struct.pack("=BBBBi", socket.AF_INET, parsed.network.prefixlen, 0, 0, index)
        body += attribute(IFA_LOCAL, parsed.packed) + attribute(IFA_ADDRESS, parsed.packed)
        self._ask(words, RTM_NEWADDR, body, NLM_F_NEW)

    def add_route(self, destination: str, way: str) -> None:
        """A route to a network, or `default`, by a way as `ip` is told it: via ADDRESS, dev NAME,
        or both.
        """
        words = f"ip route add {destination} {way}"
        pairs = way.split()
        how = dict(zip(pairs[::2], pairs[1::2], strict=False))
        if len(pairs) % 2 or not how or set(how) - {"via", "dev"}:
            raise LinkError(f"{words}: a route goes via ADDRESS, dev NAME, or both")
        try:
            to = IPv4Network("0.0.0.0/0" if destination == "default" else destination)
            parts = attribute(RTA_DST, to.network_address.packed) if to.prefixlen else b""
            if "via" in how:
                parts += attribute(RTA_GATEWAY, IPv4Address(how["via"]).packed)
            if "dev" in how:
                parts += number(RTA_OIF, socket.if_nametoindex(how["dev"]))
        except (ValueError, OSError) as error:
            raise LinkError(f"{words}: {error}") from None
        scope = RT_SCOPE_UNIVERSE if "via" in how else RT_SCOPE_LINK
        body = struct.pack(
            "=8BI",
            *(socket.AF_INET, to.prefixlen, 0, 0),
            *(RT_TABLE_MAIN, RTPROT_BOOT, scope, RTN_UNICAST, 0),
        )
        self._ask(words, RTM_NEWROUTE, body + parts, NLM_F_NEW)

    def _ask(self, words: str, kind: int, body: bytes, flags: int = 0) -> None:
        """NLM_F_NEW: for something that is not there yet."""
        flags |= NLM_F_REQUEST | NLM_F_ACK
        self._netlink.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        answer = self._netlink.recv(1 << 16)
        _length, kind, flags, _number, _port, failed = struct.unpack_from("=IHHIIi", answer)
        if kind != NLMSG_ERROR or failed:
            more = attributes_of(answer, 36) if flags & NLM_F_ACK_TLVS else {}
            said = more.get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode(errors="replace")
            raise LinkError(f"{words}: {said or os.strerror(-failed)}")


@contextmanager
def links_of(pid: int) -> Iterator[Links]:
    """The links of a process's network, within which the caller is meanwhile. Raises OSError."""
    with open_in(pid, NETLINK_ROUTE) as netlink, inside(pid):
        yield Links(netlink)


def link_body(flags: int = 0) -> bytes:
    """struct ifinfomsg of a link that its name says; of its flags some are set."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, 0, flags, flags)


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))
