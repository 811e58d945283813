#!/usr/bin/env python3
"""Install dualpi2 with its options by netlink: the bundled tc does not know the options.

    dualpi2_netlink.py add|replace DEVICE PARENT HANDLE LIMIT [TARGET]  as tc writes them: 1: and 2:

Sets the limit, and a target in µs, reads them back, and fails if one differs. It imports only the
standard library and nothing of the lab: it runs on a node, and by hand from commands.sh. The
constants are those of linux/pkt_sched.h.
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
    """Parse netlink attributes by type, without the flag of a nested one."""
    values, offset = {}, 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        values[kind & 0x7FFF] = data[offset + 4 : offset + length]
        offset += max(4, (length + 3) & ~3)
    return values


def request(link: socket.socket, kind: int, flags: int, body: bytes) -> list[bytes]:
    """Send a request to the kernel and return the bodies of its answers.

    Raises OSError.
    """
    link.send(struct.pack("=IHHII", 16 + len(body), kind, flags | REQUEST, 1, 0) + body)
    bodies: list[bytes] = []
    while True:
        data, offset = link.recv(1 << 17), 0
        while offset + 16 <= len(data):
            length, answer = struct.unpack_from("=IH", data, offset)
            if answer == 2:  # NLMSG_ERROR: 0 is an acknowledgement
                [code] = struct.unpack_from("=i", data, offset + 16)
                if code:
                    raise OSError(-code, f"dualpi2: refused by the kernel (errno {-code})")
                return bodies
            if answer == 3:  # NLMSG_DONE
                return bodies
            bodies.append(data[offset + 16 : offset + length])
            offset += (length + 3) & ~3


def handle_of(text: str) -> int:
    """Parse a handle or a parent as tc writes it."""
    if text == "root":
        return 0xFFFFFFFF
    major, _, minor = text.partition(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def main(argv: list[str]) -> None:
    """Install the queue and read it back.

    Raises OSError.
    """
    verb, device, parent, handle, *values = argv[1:]
    requested = dict(zip(NUMBERS, map(int, values), strict=False))
    index = socket.if_nametoindex(device)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        head = struct.pack("=BxxxiIII", 0, index, handle_of(handle), handle_of(parent), 0)
        option_attributes = [
            attribute(NUMBERS[name], struct.pack("=I", requested[name])) for name in requested
        ]
        options = attribute(TCA_OPTIONS | 0x8000, b"".join(option_attributes))
        flags = ACK | CREATE | (REPLACE if verb == "replace" else 0)
        request(link, RTM_NEWQDISC, flags, head + attribute(TCA_KIND, KIND) + options)
        for body in request(link, RTM_GETQDISC, DUMP, struct.pack("=BxxxiIII", 0, index, 0, 0, 0)):
            _, found_index, found_handle = struct.unpack_from("=BxxxiI", body)
            found = attributes(body[20:])
            if (found_index, found_handle) != (index, handle_of(handle)) or found[TCA_KIND] != KIND:
                continue
            installed_options = attributes(found[TCA_OPTIONS])
            for name, number in requested.items():
                [installed] = struct.unpack("=I", installed_options[NUMBERS[name]])
                if installed != number:
                    sys.exit(f"dualpi2: {name} requested {number}, installed {installed}")
            return
    sys.exit("dualpi2: requested, but not installed")


if __name__ == "__main__":
    try:
        main(sys.argv)
    except OSError as error:
        sys.exit(str(error.strerror or error))
