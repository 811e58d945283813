"""Observe the nodes of a running script from outside: their settings and sending sockets."""

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

NAMED = Path("/run/netns")  # folder in which ip-netns names namespaces


class Nodes:
    """All named network namespaces, which stay open once they are found.

    `recorded` is the run's env.json.
    """

    def __init__(self, recorded: Mapping[str, Any], congestion_controls: Iterable[str]) -> None:
        self._sysctls = recorded.get("sysctls", {})
        self._devices = [(node_of(device), device) for device in recorded.get("offloads", {})]
        # Maps the kernel's names of congestion controls to the run's.
        self._cc = {kernel_name(cc): cc for cc in congestion_controls}
        self._kept: dict[str, tuple[Path, socket]] = {}
        self.senders: Counter[str] = Counter()  # number of samples per sender

    def find(self) -> bool:
        """Open new namespaces, and return whether all of the run's exist."""
        for named in NAMED.glob("*"):
            if named.name not in self._kept:
                with suppress(OSError):  # The namespace is incomplete.
                    self._kept[named.name] = open_namespace(named)
        return all(node in self._kept for node, _ in self._devices)

    def look(self) -> None:
        """Count each socket that is sending data."""
        self.find()
        for name, (_, link) in self._kept.items():
            for socket_state in netlink.tcp_sockets(link):
                if socket_state.sending.bytes_out > CONTROL_BYTES:
                    row = netlink.parse_tcp_socket(socket_state)
                    row |= {"host": name, "cc": self._cc.get(row["cc"], row["cc"])}
                    self.senders[sender_of(row)] += 1

    def read(self) -> dict[str, Any]:
        """Read the nodes' sysctls and offloads that are in env.json, and IPv6's. Raises OSError."""
        values: dict[str, Any] = {"sysctls": {}, "offloads": {}}
        for host in self._sysctls.keys() & self._kept.keys():
            with inside(self._kept[host][0]):
                values["sysctls"][host] = read_sysctls(self._sysctls[host])
        for node, device in self._devices:
            if node not in self._kept:
                continue
            with inside(self._kept[node][0]):
                values["offloads"][device] = offloads_of(device)
                ipv6 = read_sysctls([IPV6_OFF.format(device)])
            values["sysctls"].setdefault(node, {}).update(ipv6)
        return values


def open_namespace(namespace: Path) -> tuple[Path, socket]:
    """Open a namespace's file and a socket in it, which remain after unnaming. Raises OSError."""
    file = Path(f"/proc/self/fd/{os.open(namespace, os.O_RDONLY)}")
    return file, netlink.open_in(file, netlink.NETLINK_SOCK_DIAG)
