"""Record the packets of a run in pcapng files, by the kernel module kernel/modules/capture.c.

The module writes each packet by a call of the host: no program of the guest reads it, so that the
run's samples are the same with and without a capture. This module writes the blocks before the
packets, tells the kernel what to record before the virtual clock is reset, and notes at the end
when the load began.

A file is named by a link and the direction whose packets enter the link where the file is taken; it
has the packets of both directions there, as tcpdump on that device would:

    capture-wan-forward.pcapng   data of an upload before the bottleneck's queue, and the ACKs that
                                 come back
    capture-wan-reverse.pcapng   the same at the far end, behind the delay line
"""

import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from gostlab import __version__
from gostlab.guest.network import Interface, Network, NetworkError
from gostlab.guest.shaping import is_under_test
from gostlab.guest.tunnel_context import Tunnel, TunnelLeg
from gostlab.registry.tunnels import INNER
from gostlab.results import pcapng
from gostlab.results.pcapng import LINKTYPE_ETHERNET, LINKTYPE_RAW
from gostlab.spec.path_spec import DIRECTIONS, FORWARD, REVERSE
from gostlab.spec.run_spec import RunSpec

TAP = Path("/sys/module/gostlab_capture/parameters/tap")
LOOPBACK_DEVICE = "lo"
OTHER_DIRECTION = {FORWARD: REVERSE, REVERSE: FORWARD}
LOAD_BEGINS = "the load begins at {} s (frame.time_epoch)"
# As long as the time that replaces it.
NOT_BEGUN = "the load did not begin".ljust(len(LOAD_BEGINS.format("1700000000.000000000")))


class FileRecord(TypedDict):
    """The entry of env.json about a file."""

    link: str
    direction: str
    devices: list[str]
    packets: int
    bytes: int
    lost: int
    error: str | None
    file_bytes: int


class CaptureRecord(TypedDict):
    """The entry of env.json about a run's captures."""

    snaplen_bytes: int
    load_began_ns: int | None
    files: dict[str, FileRecord]


@dataclass(frozen=True)
class Device:
    """A device whose packets go to a file."""

    node: str
    name: str
    linktype: int = LINKTYPE_ETHERNET


@dataclass
class CaptureFile:
    """A file, what is recorded in it, and its counts once it is closed.

    `received` and `sent` describe what the devices receive and send, or, with `ports`, what comes
    from these ports and what goes to them.
    """

    name: str
    link: str
    direction: str
    devices: list[Device]
    received: str
    sent: str
    ports: str = ""  # record only TCP and UDP from and to these ports
    note: str = ""
    packets: int = 0
    bytes: int = 0
    lost: int = 0
    error: int = 0
    file_bytes: int = 0

    def interfaces(self, snaplen: int) -> list[pcapng.CaptureInterface]:
        """Return two interfaces for each device: what it receives, and what it sends."""
        return [
            pcapng.CaptureInterface(
                name=device.name,
                description=f"{self.link}: {packets} ({device.name})",
                comment=f"link {self.link}, file of direction {self.direction}: {packets}",
                linktype=device.linktype,
                snaplen=snaplen,
            )
            for device in self.devices
            for packets in (self.received, self.sent)
        ]

    def record(self) -> FileRecord:
        return {
            "link": self.link,
            "direction": self.direction,
            "devices": [device.name for device in self.devices],
            "packets": self.packets,
            "bytes": self.bytes,
            "lost": self.lost,
            "error": os.strerror(self.error) if self.error else None,
            "file_bytes": self.file_bytes,
        }


@dataclass
class Recorder:
    """The captures of a run. Use through `capturing`."""

    run: RunSpec
    network: Network
    folder: Path
    files: list[CaptureFile] = field(default_factory=list)
    load_began_ns: int | None = None

    def begin(self, files: Sequence[CaptureFile]) -> None:
        """Begin to record. Raises NetworkError."""
        if not TAP.exists():
            raise NetworkError("the kernel did not load the capture's module: log.txt has a reason")
        for file in files:
            (self.folder / file.name).write_bytes(self.header(file, NOT_BEGUN))
            for number, device in enumerate(file.devices):
                pid, interfaces = self.network.pid(device.node), (2 * number, 2 * number + 1)
                self.tell(
                    f"{pid} {device.name} {file.name} {self.run.snaplen_bytes}"
                    f" {interfaces[0]} {interfaces[1]} {file.ports}".rstrip()
                )
            self.files.append(file)

    def begin_legs(self, tunnel: Tunnel) -> None:
        """Begin to record the streams' connections, if the run asks for it. Raises NetworkError."""
        if self.run.capture == "legs":
            self.begin(files_of_legs(self.network, tunnel.legs))

    def tell(self, command: str) -> None:
        """Write a command to the kernel. Raises NetworkError."""
        try:
            TAP.write_text(command, encoding="ascii")
        except OSError as error:
            raise NetworkError(f"capture: {command}: {error.strerror}") from error

    def header(self, file: CaptureFile, begin: str) -> bytes:
        """Return the blocks before the packets; they have the same length for any `begin`."""
        comment = [f"gostlab run {self.run.name}", f"link {file.link}, direction {file.direction}"]
        comment += [begin, *([file.note] if file.note else [])]
        if self.run.offloads:
            comment.append("offloads are on: a packet may be a super-packet of up to 64 kB")
        system = f"Linux {platform.release()} (User-Mode Linux)"
        interfaces = file.interfaces(self.run.snaplen_bytes)
        return pcapng.header("; ".join(comment), system, f"gostlab {__version__}", interfaces)

    def record_load_start(self, started_s: float) -> None:
        """Note when the load began, by the clock of time.monotonic()."""
        since_epoch_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
        since_epoch_ns -= time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.load_began_ns = since_epoch_ns + round(started_s * 1e9)

    def end(self) -> None:
        """Stop recording, read the counts, and write the begin of the load into every file.

        Raises OSError.
        """
        self.tell("stop")
        by_name = {file.name: file for file in self.files}
        while lines := TAP.read_text(encoding="ascii").splitlines():
            for line in lines:
                name, *counts = line.split()
                file = by_name[name]
                file.packets, file.bytes, file.lost, file.error, file.file_bytes = map(int, counts)
        for file in self.files:
            if file.error:  # drop the block that the failed write left incomplete
                os.truncate(self.folder / file.name, file.file_bytes)
            if self.load_began_ns is not None:
                seconds, ns = divmod(self.load_began_ns, 10**9)
                begin = LOAD_BEGINS.format(f"{seconds}.{ns:09d}")
                with (self.folder / file.name).open("r+b") as output:
                    output.write(self.header(file, begin.ljust(len(NOT_BEGUN))))

    @property
    def lost(self) -> dict[str, int]:
        """Return how many packets are missing from each file."""
        return {file.name: file.lost for file in self.files}

    @property
    def error(self) -> str | None:
        """Return why a write failed, None if none did."""
        return next((os.strerror(file.error) for file in self.files if file.error), None)

    def record(self) -> CaptureRecord:
        """Return the entry of env.json."""
        return {
            "snaplen_bytes": self.run.snaplen_bytes,
            "load_began_ns": self.load_began_ns,
            "files": {file.name: file.record() for file in self.files},
        }


@contextmanager
def capturing(run: RunSpec, network: Network, folder: Path) -> Iterator[Recorder | None]:
    """Record packets until the block ends; None if the run asks for no capture.

    Legs are recorded from `begin_legs` on. Raises NetworkError.
    """
    if run.capture == "off":
        yield None
        return
    recorder = Recorder(run, network, folder)
    try:
        if run.capture == "links":
            recorder.begin(files_of_links(network))
        elif run.capture != "legs":
            recorder.begin(files_of_paths(run, network))
        yield recorder
    finally:
        if TAP.exists():
            recorder.end()


# -- what is recorded where


def files_of_paths(run: RunSpec, network: Network) -> list[CaptureFile]:
    """Return the files at both ends of each path that the flows take, or of the named link."""
    shaped = [interface for interface in network.shaped if is_under_test(run, interface)]
    links = dict.fromkeys(interface.link for interface in shaped)
    return [
        path_file(network, shaped, link, direction)
        for link in links
        if run.capture in ("wan", link)
        for direction in DIRECTIONS
    ]


def path_file(
    network: Network, shaped: Sequence[Interface], link: str, direction: str
) -> CaptureFile:
    """Return the file at the end of a path where a direction's packets enter it.

    That is the device of the other direction's delay line: what it receives enters the path, and
    what it sends has crossed it. Where only one direction is delayed it is every other device of
    the bottleneck's router.
    """
    other, name = OTHER_DIRECTION[direction], link or "wan"
    of_link = [interface for interface in shaped if interface.link == link]
    bottleneck = next(
        one for one in of_link if (one.role, one.direction) == ("bottleneck", direction)
    )
    ends = [one for one in of_link if (one.role, one.direction) == ("delay", other)]
    crossed = "behind its delay line"
    if not ends:
        crossed = "as its router forwards it"
        ends = [
            one
            for one in network.interfaces
            if one.node == bottleneck.node and one.name != bottleneck.name
        ]
    queued = "before" if ends[0].node == bottleneck.node else "behind"
    return CaptureFile(
        name=f"capture-{name}-{direction}.pcapng",
        link=name,
        direction=direction,
        devices=[Device(end.node, end.name) for end in ends],
        received=f"{direction}, {queued} its bottleneck's queue",
        sent=f"{other}, {crossed}",
    )


def files_of_links(network: Network) -> list[CaptureFile]:
    """Return the files of each link: of a direction where its packets are sent."""
    files = []
    for link in network.mininet.links:
        ends = (link.intf1, link.intf2)
        for near, far in (ends, ends[::-1]):
            sender, receiver = near.node.name, far.node.name
            files.append(
                CaptureFile(
                    name=f"capture-{sender}-to-{receiver}.pcapng",
                    link="-".join(end.node.name for end in ends),
                    direction=f"{sender} to {receiver}",
                    devices=[Device(sender, near.name)],
                    received=f"{receiver} to {sender}, as it arrives",
                    sent=f"{sender} to {receiver}, behind the queue of {sender}",
                )
            )
    return files


def files_of_legs(network: Network, legs: Sequence[TunnelLeg]) -> list[CaptureFile]:
    """Return the files of each leg: at its near end, and at its far end if that is another host."""
    files = []
    for name in dict.fromkeys(leg.name for leg in legs):
        named = [leg for leg in legs if leg.name == name]
        ports = ",".join(str(port) for port in sorted({leg.port for leg in named}))
        is_loopback = named[0].loopback
        note = "packets of the loopback are super-packets of up to 64 kB" if is_loopback else ""
        for direction in DIRECTIONS[:1] if is_loopback else DIRECTIONS:
            nodes = [leg.near if direction == FORWARD else leg.far for leg in named]
            files.append(
                CaptureFile(
                    name=f"capture-{name}-{direction}.pcapng",
                    link=name,
                    direction=direction,
                    devices=[
                        device
                        for node in dict.fromkeys(nodes)
                        for device in devices_of_leg(network, node, name, loopback=is_loopback)
                    ],
                    received=f"{REVERSE}, from the host that accepted",
                    sent=f"{FORWARD}, from the host that connected",
                    ports=ports,
                    note=note,
                )
            )
    return files


def devices_of_leg(network: Network, node: str, leg: str, *, loopback: bool) -> list[Device]:
    """Return a host's devices that a leg's packets may take: loopback, a VPN's, or its links.

    The host's network is not entered: calls there would count as the host's.
    """
    links = [one.name for one in network.interfaces if one.node == node]
    table = Path(f"/proc/{network.pid(node)}/net/dev").read_text(encoding="ascii")
    names = [line.partition(":")[0].strip() for line in table.splitlines() if ":" in line]
    of_vpn = [name for name in names if name not in (LOOPBACK_DEVICE, *links)]
    if leg == INNER and of_vpn:
        return [Device(node, name, LINKTYPE_RAW) for name in of_vpn]
    return [Device(node, name) for name in ([LOOPBACK_DEVICE] if loopback else links)]
