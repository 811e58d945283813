"""Emulate the path between client and target by queueing disciplines.

They are installed, read back, compared and changed. Bottleneck (rate and queue) and delay line
(delay, jitter, loss) are on different routers, because netem counts packets in flight against its
limit: on one qdisc the delay would use up the buffer.
"""

import json
import platform
import re
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from gostlab.guest import policer
from gostlab.guest.delay_line import Netem, build_delay_line, table_path, table_text
from gostlab.guest.environment import unbuilt_queue
from gostlab.guest.network import Interface, Network, NetworkError
from gostlab.guest.probes import netlink
from gostlab.guest.probes.sampler import index_of
from gostlab.guest.qdisc import shaped_direction
from gostlab.guest.tc import (
    Qdisc,
    ShapingMismatch,
    build_bottleneck,
    install_argvs,
    parse_shown,
    show_argvs,
    show_class_args,
)
from gostlab.install.locate import version_tuple
from gostlab.registry.kernels import FEATURES, SHIPPED
from gostlab.registry.qdiscs import qdisc_kind
from gostlab.registry.topologies import topology_of
from gostlab.spec.compatible_json import JsonObject, to_json_value
from gostlab.spec.flow import FlowSpec, delays_before_hosts_ms
from gostlab.spec.path_spec import NO_LOSS, OF_DELAY_LINE, ChangeSpec, DirectionSpec, PolicerSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.run_limits import period_factors

Counts = TypeVar("Counts")
# The output for each device begins at its root qdisc.
ROOT = re.compile(r"^(?=qdisc \S+ \S+ root )", re.MULTILINE)


def gact_intervals(every_pkts: int) -> list[int]:
    """Return intervals of chained gact actions with the requested product. Raises ValueError."""
    factors = period_factors(every_pkts)
    if factors is None:
        raise ValueError(
            f"every {every_pkts}th packet: not a product of two numbers that gact takes"
        )
    return [factor for factor in factors if factor > 1] or [1]


def periodic_loss_argv(device: str, every_pkts: int) -> list[str]:
    """Return the filter that drops exactly every n-th IP packet on its way out of a device.

    It runs before the qdisc. Each action passes all packets but every n-th, which goes on to the
    next action; the last action drops it.
    """
    argv = ["tc", "filter", "replace", "dev", device, "egress"]
    argv += ["protocol", "ip", "pref", "1", "handle", "1", "matchall"]
    intervals = gact_intervals(every_pkts)
    for number, interval in enumerate(intervals, 1):
        then = "drop" if number == len(intervals) else "pipe"
        argv += ["action", "pass", "random", "determ", then, str(interval)]
    return argv


def path_of(run: RunSpec, interface: Interface) -> DirectionSpec:
    """Return the requested direction that an interface emulates, with a host's own delay."""
    path = run.path
    topology = topology_of(run.topology)
    if run.sites is not None:
        sites = {topology.receiver.format(n): site for n, site in enumerate(run.sites.values(), 1)}
        path = sites[interface.hosts[0]]
    path = run.links.get(interface.link, path)
    direction = path[str(interface.direction)]
    if topology.own_rtts and interface.role == "delay":
        host_delays_ms = delays_before_hosts_ms(run.flows, run.path)
        delay_ms = host_delays_ms.get(interface.hosts[0], direction.delay_ms)
        return replace(direction, delay_ms=delay_ms)
    return direction


def is_under_test(run: RunSpec, interface: Interface) -> bool:
    """Return whether an interface is on a path that the run's flows take."""
    return bool(interface.role) and (
        not interface.hosts
        or not set(run.hosts).isdisjoint(interface.hosts)
        or any(shapes_flow(interface, flow) for flow in run.flows)
    )


def shapes_flow(interface: Interface, flow: FlowSpec) -> bool:
    """Return whether an interface emulates the path for this flow's packets."""
    directions = {f"{flow.sender}{sign}{flow.receiver}" for sign in "><"}
    return not interface.hosts or not ({flow.sender, flow.receiver} | directions).isdisjoint(
        interface.hosts
    )


def carries_data(interface: Interface, flow: FlowSpec) -> bool:
    """Return whether a flow's data, and not only its ACKs, leave through its interface."""
    sign = ">" if flow.direction == "upload" else "<"
    directions = {host for host in interface.hosts if ">" in host or "<" in host}
    return shapes_flow(interface, flow) and (
        not directions or f"{flow.sender}{sign}{flow.receiver}" in directions
    )


@dataclass(frozen=True)
class ChangedQdisc:
    """A change of one qdisc in place: what was requested, and the installed root qdisc."""

    interface: Interface
    requested: ChangeSpec
    installed: Qdisc

    def to_json(self) -> JsonObject:
        """Return the row of changes.jsonl."""
        installed = {
            key: value for key, value in vars(self.installed).items() if value not in (None, ())
        }
        position = {"node": self.interface.node, "dev": self.interface.name}
        return {**position, **to_json_value(self.requested.new_values), "installed": installed}


@dataclass(frozen=True)
class ImpairmentCounts:
    """Count what a device did to packets besides delaying and losing them."""

    interface: Interface
    elapsed_s: float  # since the device was shaped
    counts: Mapping[str, int]

    def to_json(self) -> JsonObject:
        """Return a row of env.json."""
        interface = self.interface
        position = {"node": interface.node, "dev": interface.name, "role": interface.role}
        link = {"link": interface.link} if interface.link else {}
        fields = {"direction": interface.direction, **link, "elapsed_s": self.elapsed_s}
        return {**position, **fields, **self.counts}


class Shaper:
    """The qdiscs of a run's paths: installed, read back, changed in place."""

    def __init__(self, network: Network, run: RunSpec) -> None:
        self._network = network
        self._run = run
        self._current = {
            interface: shaped_direction(path_of(run, interface), run)
            for interface in network.shaped
        }
        self._seeds = {
            interface: seed_of(run, number)
            for number, interface in enumerate(
                sorted(
                    network.shaped, key=lambda end: (end.direction or "", end.role or "", end.name)
                )
            )
        }
        self._tables = Path(tempfile.gettempdir()) / "gostlab-tc"  # delay tables as tc reads them
        self._installed_s = time.monotonic()
        self._policed: set[Interface] = set()  # bottlenecks with a policer

    def install(self) -> dict[str, str]:
        """Install every path, and return `tc -s qdisc show` of every device that the flows cross.

        Raises ShapingMismatch with the device and the difference.
        """
        self._installed_s = time.monotonic()
        try:
            for interface, current in self._current.items():
                self._apply(interface, "add")
                if interface.role == "bottleneck" and current.policer:
                    self._police(interface, current.policer)
        except NetworkError as error:
            if reason := unbuilt_queue(self._run):
                raise NetworkError(reason) from error
            raise
        return self.show("before")

    def show(self, when: str) -> dict[str, str]:
        """Return `tc -s qdisc show` of every device that flows cross, before or after.

        One tc prints all devices of a node, before and after. Raises NetworkError.
        """
        crossed = [interface for interface in self._current if is_under_test(self._run, interface)]
        outputs: dict[str, str] = {}
        for node in dict.fromkeys(interface.node for interface in crossed):
            interfaces = [end for end in crossed if end.node == node]
            shows = {}
            for interface in interfaces:
                device = interface.name
                shows[f"qdisc-{when}-{device}.txt"] = ["tc", "-s", "qdisc", "show", "dev", device]
                if any(qdisc.of_class for qdisc in self.qdiscs_for(interface)):
                    argv = ["tc", "-s", *show_class_args(device)]
                    shows[f"class-{when}-{device}.txt"] = argv
            output = self._network.show_with_counts(node, shows)
            texts = [text for text in ROOT.split(output) if text]
            if len(texts) != len(interfaces):
                raise NetworkError(
                    f"{node}: tc shows {len(texts)} root qdiscs of {len(interfaces)} devices"
                )
            outputs |= {
                interface.name: text for interface, text in zip(interfaces, texts, strict=True)
            }
        return {interface.name: outputs[interface.name] for interface in crossed}

    def change(self, change: ChangeSpec) -> list[ChangedQdisc]:
        """Change one direction of the path under test in place, and return what was installed.

        With several links, only those change that the change names. A new delay changes every
        host's own delay by the same amount. Raises ShapingMismatch or NetworkError.
        """
        rows = []
        for interface, current in self._current.items():
            if interface.direction != change.direction or not is_under_test(self._run, interface):
                continue
            if not change.touches(interface.link, self._run.links):
                continue
            requested = change.part_of(str(interface.role))
            if requested.delay_ms is not None:
                base = self._run.path_of_link(interface.link)[change.direction]
                host_ms = path_of(self._run, interface).delay_ms - base.delay_ms
                delay_ms = max(0.0, host_ms + requested.delay_ms)
                requested = replace(requested, delay_ms=delay_ms)
            if not requested.new_values:
                continue
            self._current[interface] = requested.applied_to(current)
            if requested.policer is not None and interface.role == "bottleneck":
                self._police(interface, requested.policer)
            rows.append(ChangedQdisc(interface, requested, self._apply(interface, "change")))
        return rows

    def counts(self) -> list[ImpairmentCounts]:
        """Return what the links with impairments did to packets since they were installed.

        Raises NetworkError.
        """
        rows = []
        elapsed_s = round(time.monotonic() - self._installed_s, 6)
        for interface in self._current:
            if not is_under_test(self._run, interface):
                continue
            direction = path_of(self._run, interface)
            changes = self._run.changes_of(interface.link, str(interface.direction))
            impaired = set(direction.impairments)
            impaired.update(*(change.new_values for change in changes))
            if interface.role == "bottleneck" and "policer" in impaired:
                counts = self._policer_counts(interface)
            elif interface.role == "delay" and impaired.intersection(OF_DELAY_LINE):
                counts = self._netlink_counts(interface, netlink.read_netem_counts)
            else:
                continue
            rows.append(ImpairmentCounts(interface, elapsed_s, counts))
        return rows

    def _policer_counts(self, interface: Interface) -> dict[str, int]:
        argv = policer.show_argv(interface.name)
        output = self._network.read(interface.node, argv, logged=False)
        policers = policer.parse_policers(output)
        return {
            "offered_bytes": sum(one.offered_bytes for one in policers),
            "offered_pkts": sum(one.offered_pkts for one in policers),
            "policer_drops": sum(one.drops for one in policers),
            "sent_bytes": self._netlink_counts(interface, netlink.read_qdisc_statistics).sent_bytes,
        }

    def _netlink_counts(
        self, interface: Interface, read: Callable[[socket.socket], Mapping[int, Counts]]
    ) -> Counts:
        pid = self._network.pid(interface.node)
        with closing(netlink.open_in(pid, netlink.NETLINK_ROUTE)) as link:
            return read(link)[index_of(pid, interface.name)]

    def _police(self, interface: Interface, requested: PolicerSpec) -> None:
        """Install a bottleneck's policer, change it or remove it, and read it back.

        Raises ShapingMismatch.
        """
        node, device = interface.node, interface.name
        index = 1 + list(self._current).index(interface)
        if not requested.rate_bps:
            if interface in self._policed:
                self._network.read(node, policer.removal_argv(device))
                self._policed.remove(interface)
            return
        if interface in self._policed:
            self._network.read(node, policer.change_argv(requested, index))
        else:
            self._network.read(node, ["tc", "qdisc", "replace", "dev", device, "clsact"])
            self._network.read(node, policer.install_argv(device, requested, index))
            self._policed.add(interface)
        output = self._network.read(node, policer.show_argv(device), logged=False)
        if differing := policer.differences(requested, output):
            raise ShapingMismatch(f"{node}: {device}: {'; '.join(differing)}")

    def path_of_flow(self, flow: FlowSpec) -> list[DirectionSpec]:
        """Return what a flow's packets cross now: bottlenecks (only a rate) and delay lines."""
        paced = qdisc_kind(self._run.bottleneck).paces_idle  # else a single packet passes at once
        of_delay_line: dict[str, Any] = dict.fromkeys(OF_DELAY_LINE)
        return [
            replace(
                now,
                delay_ms=0.0,
                jitter_ms=0.0,
                loss=NO_LOSS,
                rate_bps=now.rate_bps if paced else None,
                **of_delay_line,
            )
            if interface.role == "bottleneck"
            else replace(now, rate_bps=None, policer=None)
            for interface, now in self._current.items()
            if shapes_flow(interface, flow)
        ]

    def qdiscs_for(self, interface: Interface) -> list[Qdisc]:
        """Return the qdiscs that an interface should have now, from the root down."""
        current, seed = self._current[interface], self._seeds[interface]
        if interface.role == "delay":
            qdiscs: list[Qdisc] = [build_delay_line(current, seed)]
        else:
            qdiscs = build_bottleneck(self._run.bottleneck, self._run.queue, current, seed)
        return (
            qdiscs
            if takes_seeds(self._run, platform.release())
            else list(map(without_seed, qdiscs))
        )

    def _apply(self, interface: Interface, verb: str) -> Qdisc:
        """Install what is requested now; return the root qdisc. Raises ShapingMismatch."""
        qdiscs = self.qdiscs_for(interface)
        commands = install_argvs(interface.name, qdiscs, verb)
        netem = qdiscs[0] if isinstance(qdiscs[0], Netem) else None
        needs_more = netem and (netem.tables or netem.every_pkts)
        if not needs_more and all(argv[0] == "tc" for argv in commands):
            shows = show_argvs(interface.name, qdiscs)
            output = self._network.change_qdiscs(interface.node, commands, shows)
            return compare_installed(interface, qdiscs, output)[0]
        environ = {}
        for table in netem.tables if netem else ():  # tc reads a distribution from a file
            self._network.write_file(table_path(self._tables, table), table_text(table))
            environ["TC_LIB_DIR"] = str(self._tables)
        for argv in commands:
            self._network.read(interface.node, argv, environ=environ)
        if netem and netem.every_pkts:
            self._lose_periodically(interface, netem.every_pkts, verb)
        output = "".join(
            self._network.read(interface.node, argv, logged=False)
            for argv in show_argvs(interface.name, qdiscs)
        )
        return compare_installed(interface, qdiscs, output)[0]

    def _lose_periodically(self, interface: Interface, every_pkts: int, verb: str) -> None:
        """Install a filter that drops every n-th packet; read it back. Raises ShapingMismatch."""
        node, device = interface.node, interface.name
        if verb == "add":
            self._network.read(node, ["tc", "qdisc", "add", "dev", device, "clsact"])
        self._network.read(node, periodic_loss_argv(device, every_pkts))
        show_argv = ["tc", "-j", "filter", "show", "dev", device, "egress"]
        filters = json.loads(self._network.read(node, show_argv, logged=False))
        actions = [
            action_
            for filter_ in filters
            for action_ in filter_.get("options", {}).get("actions", ())
        ]
        intervals = [action.get("prob", {}).get("val") for action in actions]
        if intervals != gact_intervals(every_pkts):
            raise ShapingMismatch(
                f"{node}: {device}: loss of every {every_pkts}th packet asked, "
                f"intervals {intervals} installed"
            )


def takes_seeds(run: RunSpec, release: str) -> bool:
    """Return whether netem accepts a seed on this kernel.

    An older kernel of a run takes its losses from its own random numbers, which follow from the
    run's seed; this machine's own kernel from unseeded ones. The verdict reports both. On the
    shipped kernel a seed that is not installed is a difference.
    """
    is_shipped = run.kernel == SHIPPED and run.machine != "native"
    return is_shipped or version_tuple(release) >= FEATURES["netem seed"].since


def without_seed(qdisc: Qdisc) -> Qdisc:
    """Return the qdisc without a seed."""
    return replace(qdisc, seed=None) if isinstance(qdisc, Netem) else qdisc


def seed_of(run: RunSpec, number: int) -> int:
    """Return the seed of a run's n-th qdisc: equal in every cell of a repetition, unique in it."""
    return run.seed * 1000 + number


def compare_installed(interface: Interface, requested: list[Qdisc], shown: str) -> list[Qdisc]:
    """Parse what tc shows as installed. Raises ShapingMismatch if it is not what was requested."""
    position = f"{interface.node}: {interface.name} ({interface.role}, {interface.direction})"
    try:
        installed = parse_shown(shown, requested)
    except ShapingMismatch as error:
        raise ShapingMismatch(f"{position}: {error}") from None
    differences = [
        phrase
        for qdisc, installed_qdisc in zip(requested, installed, strict=True)
        for phrase in qdisc.differences(installed_qdisc)
    ]
    if differences:
        raise ShapingMismatch(f"{position}: {'; '.join(differences)}")
    return installed
