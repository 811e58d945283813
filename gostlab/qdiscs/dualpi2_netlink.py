#!/usr/bin/env python3
"""dualpi2's options by netlink: the tc that the lab brings installs that queue, and knows none of
them.

    dualpi2_netlink.py add|replace DEVICE PARENT HANDLE LIMIT [TARGET]  as tc writes them: 1: and 2:

Sets the limit, and a target in µs, reads them back, and fails with what differs. Python's own
library alone, no import of the lab: it runs on a node, and by hand from commands.sh. Numbers are
those of linux/pkt_sched.h.
"""

import socket
import struct
import sys

RTM_NEWQDISC, RTM_GETQDISC = 36, 38
REQUEST, ACK, DUMP, CREATE, REPLACE = 0x1, 0x4, 0x300, 0x400, 0x100
TCA_KIND, TCA_OPTIONS = 1, 2
NUMBERS = {"limit": 1, "target": 3}  # TCA_DUALPI2_LIMIT, TCA_DUALPI2_TARGET
KIND = b"dualpi2\0"


def attribute(kind: int, data: bytes) -> bytes:
    """Return a netlink attribute, padded."""
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes in some bytes by number, without the flag of a nest."""
    by_type, at = {}, 0
    while at + 4 <= len(data):
        length, attribute_type = struct.unpack_from("=HH", data, at)
        by_type[attribute_type & 0x7FFF] = data[at + 4 : at + length]
        at += max(4, (length + 3) & ~3)
    return by_type


def request(link: socket.socket, kind: int, flags: int, body: bytes) -> list[bytes]:
    """Ask the kernel; the bodies of its answers. Raises OSError."""
    link.send(struct.pack("=IHHII", 16 + len(body), kind, flags | REQUEST, 1, 0) + body)
    values: list[bytes] = []
    while True:
        data, at = link.recv(1 << 17), 0
        while at + 16 <= len(data):
            length, answer = struct.unpack_from("=IH", data, at)
            if answer == 2:  # NLMSG_ERROR: 0 is an acknowledgement
                [code] = struct.unpack_from("=i", data, at + 16)
                if code:
                    raise OSError(-code, f"dualpi2: the kernel refused it (errno {-code})")
                return values
            if answer == 3:  # NLMSG_DONE
                return values
            values.append(data[at + 16 : at + length])
            at += (length + 3) & ~3


def handle_of(text: str) -> int:
    """Return the number of a handle or parent that tc writes as text."""
    if text == "root":
        return 0xFFFFFFFF
    major, _, minor = text.partition(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def main(argv: list[str]) -> None:
    """Install and read back. Raises OSError."""
    verb, device, parent, handle, *values = argv[1:]
    requested = dict(zip(NUMBERS, map(int, values), strict=False))
    index = socket.if_nametoindex(device)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        head = struct.pack("=BxxxiIII", 0, index, handle_of(handle), handle_of(parent), 0)
        numbers = [
            attribute(NUMBERS[name], struct.pack("=I", requested[name])) for name in requested
        ]
        options = attribute(TCA_OPTIONS | 0x8000, b"".join(numbers))
        flags = ACK | CREATE | (REPLACE if verb == "replace" else 0)
        request(link, RTM_NEWQDISC, flags, head + attribute(TCA_KIND, KIND) + options)
        for body in request(link, RTM_GETQDISC, DUMP, struct.pack("=BxxxiIII", 0, index, 0, 0, 0)):
            _, its_index, its_handle = struct.unpack_from("=BxxxiI", body)
            qdisc = attributes(body[20:])
            if (its_index, its_handle) != (index, handle_of(handle)) or qdisc[TCA_KIND] != KIND:
                continue
            there = attributes(qdisc[TCA_OPTIONS])
            for name, number in requested.items():
                [installed] = struct.unpack("=I", there[NUMBERS[name]])
                if installed != number:
                    sys.exit(f"dualpi2: {name} {number} asked, {installed} installed")
            return
    sys.exit("dualpi2: requested, and not there")


if __name__ == "__main__":
    try:
        main(sys.argv)
    except OSError as error:
        sys.exit(str(error.strerror or error))
