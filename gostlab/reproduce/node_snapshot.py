"""The nodes of a script while it runs, seen from outside: how they are set, and who sends data."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import Any

from gostlab.guest.ethtool import offloads_of
from gostlab.guest.namespaces import inside, read_sysctls
from gostlab.guest.probes import netlink
from gostlab.guest.probes.sampler import CONTROL_BYTES
from gostlab.registry.congestion_controls import kernel_name
from gostlab.reproduce import IPV6_OFF, node_of, sender_of

NAMED = Path("/run/netns")  # ip netns


class Nodes:
    """All network namespaces that have names, which are kept from when they are found.

    recorded  env.json of the run
    """

    def __init__(self, recorded: Mapping[str, Any], congestion_controls: Iterable[str]) -> None:
        self._sysctls = recorded.get("sysctls", {})
        self._devices = [(node_of(device), device) for device in recorded.get("offloads", {})]
        # the kernel's name of each -> the run's
        self._cc = {kernel_name(cc): cc for cc in congestion_controls}
        self._kept: dict[str, tuple[Path, socket]] = {}
        self.senders: Counter[str] = Counter()  # how often each was seen

    def find(self) -> bool:
        """Keep those that are new; whether the run's are all there."""
        for named in NAMED.glob("*"):
            if named.name not in self._kept:
                with suppress(OSError):  # it is not whole
                    self._kept[named.name] = kept(named)
        return all(node in self._kept for node, _ in self._devices)

    def look(self) -> None:
        """Count each socket that sends data now."""
        self.find()
        for name, (_, link) in self._kept.items():
            for said in netlink.tcp_sockets(link):
                if said.sending.bytes_out > CONTROL_BYTES:
                    row = netlink.parse_tcp_socket(said)
                    row |= {"host": name, "cc": self._cc.get(row["cc"], row["cc"])}
                    self.senders[sender_of(row)] += 1

    def read(self) -> dict[str, Any]:
        """The sysctls and offloads that env.json tells, and IPv6's, of these. Raises OSError."""
        found: dict[str, Any] = {"sysctls": {}, "offloads": {}}
        for host in self._sysctls.keys() & self._kept.keys():
            with inside(self._kept[host][0]):
                found["sysctls"][host] = read_sysctls(self._sysctls[host])
        for node, device in self._devices:
            if node not in self._kept:
                continue
            with inside(self._kept[node][0]):
                found["offloads"][device] = offloads_of(device)
                ipv6 = read_sysctls([IPV6_OFF.format(device)])
            found["sysctls"].setdefault(node, {}).update(ipv6)
        return found


def kept(namespace: Path) -> tuple[Path, socket]:
    """A namespace's file and a socket in it; both stay when its name is gone. Raises OSError."""
    file = Path(f"/proc/self/fd/{os.open(namespace, os.O_RDONLY)}")
    return file, netlink.open_in(file, netlink.NETLINK_SOCK_DIAG)
