"""Set and read an interface's offloads like `ethtool -K` and `-k`, without a process.

It uses the calls of <linux/ethtool.h> through SIOCETHTOOL, in the caller's network namespace.
"""

import array
import fcntl
import socket
import struct
from collections.abc import Mapping, Sequence

SIOCETHTOOL = 0x8946
ETHTOOL_GSTRINGS, ETHTOOL_GSSET_INFO = 0x1B, 0x37
ETHTOOL_GFEATURES, ETHTOOL_SFEATURES = 0x3A, 0x3B
ETH_SS_FEATURES = 4
NAME_BYTES = 32
# Offloads as `ethtool -k` names them, with the option of `ethtool -K` and the kernel's features
# behind them. An offload is on if any of its features is.
OFFLOADS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tcp-segmentation-offload": (
        "tso",
        (
            "tx-tcp-segmentation",
            "tx-tcp-ecn-segmentation",
            "tx-tcp-mangleid-segmentation",
            "tx-tcp6-segmentation",
            "tx-tcp-accecn-segmentation",
        ),
    ),
    "generic-segmentation-offload": ("gso", ("tx-generic-segmentation",)),
    "generic-receive-offload": ("gro", ("rx-gro",)),
    "tx-udp-segmentation": ("tx-udp-segmentation", ("tx-udp-segmentation",)),
}


def set_offloads_of(device: str, on: bool) -> dict[str, bool]:
    """Switch each of OFFLOADS, and return which of them the interface then has. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        names = feature_names(sock, device)
        bits = [
            names.index(feature)
            for _, features in OFFLOADS.values()
            for feature in features
            if feature in names
        ]
        blocks = (len(names) + 31) // 32
        masks = [0, 0] * blocks  # for every 32 features: mask of those to set, and their values
        for bit in bits:
            masks[2 * (bit // 32)] |= 1 << bit % 32
            masks[2 * (bit // 32) + 1] |= on << bit % 32
        call(sock, device, struct.pack(f"=II{2 * blocks}I", ETHTOOL_SFEATURES, blocks, *masks))
        return enabled_offloads(sock, device, names)


def enabled_offloads(sock: socket.socket, device: str, names: Sequence[str]) -> dict[str, bool]:
    """Return which of OFFLOADS an interface has, given its features' names. Raises OSError."""
    blocks = (len(names) + 31) // 32
    head = struct.pack("=II", ETHTOOL_GFEATURES, blocks)
    reply = call(sock, device, head + bytes(16 * blocks))
    # The four words for every 32 features are: available, requested, active, never changed.
    bitmap_words = struct.unpack_from(f"={4 * blocks}I", reply, 8)
    active = {
        name for bit, name in enumerate(names) if bitmap_words[4 * (bit // 32) + 2] >> bit % 32 & 1
    }
    return {offload: not active.isdisjoint(features) for offload, (_, features) in OFFLOADS.items()}


def feature_names(sock: socket.socket, device: str) -> list[str]:
    """Return the kernel's names of an interface's features, by number. Raises OSError."""
    # struct ethtool_sset_info: command, reserved, mask of sets, then a count for each.
    info = call(sock, device, struct.pack("=IIQI", ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0))
    count = struct.unpack_from("=I", info, 16)[0]
    head = struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count)
    strings = call(sock, device, head + bytes(NAME_BYTES * count))[12:]
    return [
        strings[offset : offset + NAME_BYTES].partition(b"\0")[0].decode("ascii")
        for offset in range(0, NAME_BYTES * count, NAME_BYTES)
    ]


def call(sock: socket.socket, device: str, request: bytes) -> bytes:
    """Make one ioctl call and return the buffer that the kernel filled.

    Raises OSError with the interface.
    """
    buffer = array.array("B", request)
    address, _ = buffer.buffer_info()
    ifreq = struct.pack("16sP16x", device.encode(), address)
    try:
        fcntl.ioctl(sock, SIOCETHTOOL, ifreq)
    except OSError as error:
        raise OSError(error.errno, error.strerror, device) from None
    return buffer.tobytes()
