# SPDX-License-Identifier: MIT
"""Write and read pcapng files (draft-ietf-opsawg-pcapng): the captures of a run.

Only what a capture of the lab has is known: a section, its interfaces, and Enhanced Packet Blocks,
in this machine's byte order, with times in nanoseconds.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SECTION, INTERFACE, ENHANCED_PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER_MAGIC = 0x1A2B3C4D
UNKNOWN_LENGTH = -1  # a section may not tell its length
COMMENT = 1
SECTION_OS, SECTION_APPLICATION = 3, 4
IF_NAME, IF_DESCRIPTION, IF_TSRESOL = 2, 3, 9
NANOSECONDS = 9  # if_tsresol: 10^-9 s
LINKTYPE_ETHERNET, LINKTYPE_RAW = 1, 101
PACKET_HEADER = struct.Struct("=IIIIIII")  # type, length, interface, time (2), captured, original
BLOCK_HEAD = struct.Struct("=II")


class BadCapture(ValueError):
    """An error for a file that is no capture of the lab, or is cut off."""


@dataclass(frozen=True)
class CaptureInterface:
    """An interface of a capture: one direction of one device."""

    name: str
    description: str
    comment: str = ""
    linktype: int = LINKTYPE_ETHERNET
    snaplen: int = 96


@dataclass
class Capture:
    """The content of a file."""

    comment: str = ""
    interfaces: list[CaptureInterface] = field(default_factory=list)
    packets_at: int = 0  # offset of the first block after the interfaces


@dataclass(frozen=True)
class Packet:
    """A captured packet."""

    t_ns: int
    interface: int
    original_bytes: int
    data: bytes


def option(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + value + bytes(-len(value) % 4)


def text_options(texts: Mapping[int, str]) -> bytes:
    """Return the options that have a text, in the order of the mapping."""
    return b"".join(option(code, text.encode()) for code, text in texts.items() if text)


def block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return BLOCK_HEAD.pack(kind, length) + body + struct.pack("=I", length)


def section_block(comment: str, os_name: str, application: str) -> bytes:
    """Return a Section Header Block of unknown length."""
    texts = {COMMENT: comment, SECTION_OS: os_name, SECTION_APPLICATION: application}
    body = struct.pack("=IHHq", BYTE_ORDER_MAGIC, 1, 0, UNKNOWN_LENGTH)
    return block(SECTION, body + text_options(texts) + option(0, b""))


def interface_block(interface: CaptureInterface) -> bytes:
    """Return an Interface Description Block."""
    texts = {
        COMMENT: interface.comment,
        IF_NAME: interface.name,
        IF_DESCRIPTION: interface.description,
    }
    options = text_options(texts) + option(IF_TSRESOL, bytes([NANOSECONDS])) + option(0, b"")
    return block(INTERFACE, struct.pack("=HHI", interface.linktype, 0, interface.snaplen) + options)


def header(
    comment: str, os_name: str, application: str, interfaces: Sequence[CaptureInterface]
) -> bytes:
    """Return the blocks before the packets. Their length depends on the lengths of the texts."""
    blocks = [section_block(comment, os_name, application), *map(interface_block, interfaces)]
    return b"".join(blocks)


def blocks(data: bytes, start: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield kind, offset and length of each block. Raises BadCapture."""
    while start < len(data):
        if start + 12 > len(data):
            raise BadCapture("cut off within a block")
        block_type, length = BLOCK_HEAD.unpack_from(data, start)
        if length < 12 or length % 4 or start + length > len(data):
            raise BadCapture("cut off within a block, or no pcapng of this byte order")
        yield block_type, start, length
        start += length


def read_options(data: bytes) -> dict[int, bytes]:
    """Return the options of a block by code."""
    options: dict[int, bytes] = {}
    start = 0
    while start + 4 <= len(data):
        code, length = struct.unpack_from("=HH", data, start)
        if code == 0:
            break
        options[code] = data[start + 4 : start + 4 + length]
        start += 4 + length + -length % 4
    return options


def read_capture(data: bytes) -> Capture:
    """Return a capture's section and interfaces. Raises BadCapture."""
    capture = Capture()
    for block_type, start, length in blocks(data):
        if block_type == SECTION:
            if struct.unpack_from("=I", data, start + 8)[0] != BYTE_ORDER_MAGIC or start:
                raise BadCapture("not one section of this machine's byte order")
            options = read_options(data[start + 24 : start + length - 4])
            capture.comment = options.get(COMMENT, b"").decode()
        elif block_type == INTERFACE:
            linktype, _, snaplen = struct.unpack_from("=HHI", data, start + 8)
            options = read_options(data[start + 16 : start + length - 4])
            if options.get(IF_TSRESOL) != bytes([NANOSECONDS]):
                raise BadCapture("times are not in nanoseconds")
            name, description, comment = (
                options.get(code, b"").decode() for code in (IF_NAME, IF_DESCRIPTION, COMMENT)
            )
            capture.interfaces.append(
                CaptureInterface(name, description, comment, linktype, snaplen)
            )
        else:
            break
        capture.packets_at = start + length
    if not capture.interfaces:
        raise BadCapture("no pcapng with an interface")
    return capture


def read_packets(data: bytes) -> Iterator[Packet]:
    """Yield the packets of a capture, in the order of the file. Raises BadCapture."""
    for block_type, start, _ in blocks(data, read_capture(data).packets_at):
        if block_type == ENHANCED_PACKET:
            _, _, interface, high, low, captured, original = PACKET_HEADER.unpack_from(data, start)
            payload = data[start + 28 : start + 28 + captured]
            yield Packet(high << 32 | low, interface, original, payload)
