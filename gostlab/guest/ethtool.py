"""An interface's offloads, as `ethtool -K` and `-k` set and show them, without a process for each.

By the calls of <linux/ethtool.h> through SIOCETHTOOL, in the caller's network namespace.
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
# ethtool's words, what `ethtool -K` calls each, and the kernel's features behind it. A word is on
# if any of its features is.
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
    """Switch each of OFFLOADS; returns which of them the interface then has. Raises
    OSError.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        names = feature_names(asked, device)
        bits = [
            names.index(feature)
            for _, features in OFFLOADS.values()
            for feature in features
            if feature in names
        ]
        blocks = (len(names) + 31) // 32
        words = [0, 0] * blocks  # of every 32 features: which are meant, which are wanted
        for bit in bits:
            words[2 * (bit // 32)] |= 1 << bit % 32
            words[2 * (bit // 32) + 1] |= on << bit % 32
        call(asked, device, struct.pack(f"=II{2 * blocks}I", ETHTOOL_SFEATURES, blocks, *words))
        return switched_on(asked, device, names)


def offloads_of(device: str) -> dict[str, bool]:
    """Which of OFFLOADS an interface has. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        return switched_on(asked, device, feature_names(asked, device))


def switched_on(asked: socket.socket, device: str, names: Sequence[str]) -> dict[str, bool]:
    """Which of OFFLOADS an interface has, whose features' names are known. Raises OSError."""
    blocks = (len(names) + 31) // 32
    head = struct.pack("=II", ETHTOOL_GFEATURES, blocks)
    shown = call(asked, device, head + bytes(16 * blocks))
    # Of every 32 features: available, requested, active, never changed.
    got = struct.unpack_from(f"={4 * blocks}I", shown, 8)
    active = {name for bit, name in enumerate(names) if got[4 * (bit // 32) + 2] >> bit % 32 & 1}
    return {word: not active.isdisjoint(features) for word, (_, features) in OFFLOADS.items()}


def feature_names(asked: socket.socket, device: str) -> list[str]:
    """The kernel's names of an interface's features, by number. Raises OSError."""
    # struct ethtool_sset_info: command, reserved, mask of sets, then a count for each.
    info = call(asked, device, struct.pack("=IIQI", ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0))
    count = struct.unpack_from("=I", info, 16)[0]
    head = struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count)
    strings = call(asked, device, head + bytes(NAME_BYTES * count))[12:]
    return [
        strings[at : at + NAME_BYTES].partition(b"\0")[0].decode("ascii")
        for at in range(0, NAME_BYTES * count, NAME_BYTES)
    ]


def call(asked: socket.socket, device: str, request: bytes) -> bytes:
    """One call; what the kernel made of the request. Raises OSError naming the interface."""
    buffer = array.array("B", request)
    address, _ = buffer.buffer_info()
    ifreq = struct.pack("16sP16x", device.encode(), address)
    try:
        fcntl.ioctl(asked, SIOCETHTOOL, ifreq)
    except OSError as error:
        raise OSError(error.errno, error.strerror, device) from None
    return buffer.tobytes()
