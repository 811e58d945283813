"""The path between client and target, as queueing disciplines: installed, read back, compared,
changed.

Bottleneck (rate and queue) and delay line (delay, jitter, loss) stand on different routers, because
netem counts packets in flight against its limit: on one qdisc the delay would eat the buffer.
"""

import json
import platform
import re
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gostlab.guest.delay_line import Netem, build_delay_line, table_path, table_text
from gostlab.guest.environment import unbuilt_queue
from gostlab.guest.network import Interface, Network, NetworkError
from gostlab.guest.tc import (
    Qdisc,
    ShapingMismatch,
    build_bottleneck,
    class_of,
    install_argvs,
    parse_shown,
    show_argvs,
)
from gostlab.install.locate import version_tuple
from gostlab.registry.kernels import FEATURES, SHIPPED
from gostlab.registry.qdiscs import qdisc_kind
from gostlab.registry.topologies import topology_of
from gostlab.spec.flow import FlowSpec, delays_ms
from gostlab.spec.link_paths import touches
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.constants import period_factors

# The first line of each device's qdiscs: every device has one root.
ROOT = re.compile(r"^(?=qdisc \S+ \S+ root )", re.MULTILINE)
NO_DELAY_LINE: Mapping[str, Any] = {
    "delay_ms": 0.0,
    "jitter_ms": 0.0,
    "distribution": None,
    "loss": {"model": "random", "p": 0.0},
}


def gact_intervals(every_pkts: int) -> list[int]:
    """Intervals of chained gact actions whose product is the one requested. Raises ValueError."""
    factors = period_factors(every_pkts)
    if factors is None:
        raise ValueError(
            f"every {every_pkts}th packet: not a product of two numbers that gact takes"
        )
    return [factor for factor in factors if factor > 1] or [1]


def periodic_loss_argv(device: str, every_pkts: int) -> list[str]:
    """The filter that loses exactly every so-many-th IP packet on its way out of a device, before
    its qdisc: each action lets all pass but every n-th, which goes on to the next action and from
    the last one nowhere.
    """
    argv = ["tc", "filter", "replace", "dev", device, "egress"]
    argv += ["protocol", "ip", "pref", "1", "handle", "1", "matchall"]
    intervals = gact_intervals(every_pkts)
    for number, interval in enumerate(intervals, 1):
        then = "drop" if number == len(intervals) else "pipe"
        argv += ["action", "pass", "random", "determ", then, str(interval)]
    return argv


def path_of(run: RunSpec, interface: Interface) -> Mapping[str, Any]:
    """The direction of a path that an interface makes, as requested, a host's own delay in it."""
    path: Mapping[str, Any] = run.path
    topology = topology_of(run.topology)
    if run.sites is not None:
        sites = {topology.receiver.format(n): site for n, site in enumerate(run.sites.values(), 1)}
        path = sites[interface.hosts[0]]
    path = run.links.get(interface.link, path)
    direction: Mapping[str, Any] = path[str(interface.direction)]
    if topology.own_rtts and interface.role == "delay":
        own_ms = delays_ms(run.flows, run.path)
        return {**direction, "delay_ms": own_ms.get(interface.hosts[0], direction["delay_ms"])}
    return direction


def under_test(run: RunSpec, interface: Interface) -> bool:
    """Whether an interface is on a path that the run's flows take."""
    return bool(interface.role) and (
        not interface.hosts
        or not set(run.hosts).isdisjoint(interface.hosts)
        or any(is_for(interface, flow) for flow in run.flows)
    )


def is_for(interface: Interface, flow: FlowSpec) -> bool:
    """Whether what an interface does to packets is for this flow's."""
    ways = {f"{flow.sender}{sign}{flow.receiver}" for sign in "><"}
    return not interface.hosts or not ({flow.sender, flow.receiver} | ways).isdisjoint(
        interface.hosts
    )


def carries_data(interface: Interface, flow: FlowSpec) -> bool:
    """Whether a flow's data, and not its ACKs alone, leave by an interface that is for it."""
    sign = ">" if flow.direction == "upload" else "<"
    ways = {host for host in interface.hosts if ">" in host or "<" in host}
    return is_for(interface, flow) and (not ways or f"{flow.sender}{sign}{flow.receiver}" in ways)


class Shaper:
    """The qdiscs of a run's paths: installed, read back, changed in place."""

    def __init__(self, network: Network, run: RunSpec) -> None:
        self._network = network
        self._run = run
        self._now = {
            interface: {**path_of(run, interface), "ecn": run.ecn, "target_ms": run.target_ms}
            for interface in network.shaped
        }
        self._seeds = {
            interface: seed_of(run, number)
            for number, interface in enumerate(
                sorted(
                    network.shaped,
                    key=lambda each: (each.direction or "", each.role or "", each.name),
                )
            )
        }
        self._tables = Path(tempfile.gettempdir()) / "gostlab-tc"  # of delays, as tc reads them

    def install(self) -> dict[str, str]:
        """Install every path; returns what `tc -s qdisc show` then says of every device that the
        flows cross.

        Raises ShapingMismatch naming the device and what differs.
        """
        try:
            for interface in self._now:
                self._apply(interface, "add")
        except NetworkError as error:
            if said := unbuilt_queue(self._run):
                raise NetworkError(said) from error
            raise
        return self.show("before")

    def show(self, when: str) -> dict[str, str]:
        """What `tc -s qdisc show` says of every device that flows cross, before or after: all of a
        node's from one tc. Raises NetworkError.
        """
        crossed = [interface for interface in self._now if under_test(self._run, interface)]
        shown: dict[str, str] = {}
        for node in dict.fromkeys(interface.node for interface in crossed):
            its, asked = [each for each in crossed if each.node == node], ""
            for interface in its:
                device = interface.name
                shows = {"qdisc": ["qdisc", "show", "dev", device]}
                if any(qdisc.of_class for qdisc in self.qdiscs_for(interface)):
                    shows["class"] = class_of(device)
                for what, words in shows.items():
                    kept = f"{what}-{when}-{device}.txt"
                    self._network.log.run(node, ["tc", "-s", *words], stdout=kept)
                    asked += f"{shlex.join(words)}\n"
            argv = ["tc", "-s", "-batch", "-"]
            said = self._network.read(node, argv, logged=False, stdin=asked)
            texts = [text for text in ROOT.split(said) if text]
            if len(texts) != len(its):
                raise NetworkError(
                    f"{node}: tc shows {len(texts)} root qdiscs of {len(its)} devices"
                )
            shown |= {interface.name: text for interface, text in zip(its, texts, strict=True)}
        return {interface.name: shown[interface.name] for interface in crossed}

    def change(self, change: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Change one direction of the path under test in place, of several links that of those
        that the change is of; returns what was run and installed where.

        A new delay moves every host's own by as much. Raises ShapingMismatch or NetworkError.
        """
        done = []
        for interface, now in self._now.items():
            if interface.direction != change["direction"] or not under_test(self._run, interface):
                continue
            if not touches(change, interface.link, self._run.links):
                continue
            wanted = {
                key: value
                for key, value in change.items()
                if key in ("rate_bps", "delay_ms", "jitter_ms", "loss")
                and (key == "rate_bps") == (interface.role == "bottleneck")
            }
            if not wanted:
                continue
            if "delay_ms" in wanted:
                base = self._run.links.get(interface.link, self._run.path)
                own_ms = path_of(self._run, interface)["delay_ms"]
                own_ms -= base[change["direction"]]["delay_ms"]
                wanted["delay_ms"] = max(0.0, own_ms + wanted["delay_ms"])
            now.update(wanted)
            there = vars(self._apply(interface, "change")).items()
            installed = {key: value for key, value in there if value not in (None, ())}
            where = {"node": interface.node, "dev": interface.name}
            done.append({**where, **wanted, "installed": installed})
        return done

    def path_of_flow(self, flow: FlowSpec) -> list[dict[str, Any]]:
        """What a flow's packets cross now: bottlenecks (only a rate), delay lines (all else)."""
        paced = qdisc_kind(self._run.bottleneck).paces_idle  # else a lone packet passes at once
        return [
            {**NO_DELAY_LINE, "rate_bps": now["rate_bps"] if paced else None}
            if interface.role == "bottleneck"
            else {**now, "rate_bps": None}
            for interface, now in self._now.items()
            if is_for(interface, flow)
        ]

    def qdiscs_for(self, interface: Interface) -> list[Qdisc]:
        """The qdiscs that an interface should have now, from the root down."""
        now, seed = self._now[interface], self._seeds[interface]
        if interface.role == "delay":
            built: list[Qdisc] = [build_delay_line(now, seed)]
        else:
            built = build_bottleneck(self._run.bottleneck, self._run.queue, now, seed)
        return built if takes_seeds(self._run, platform.release()) else list(map(unseeded, built))

    def _apply(self, interface: Interface, verb: str) -> Qdisc:
        """Install what is requested now; what the root then is. Raises ShapingMismatch."""
        qdiscs = self.qdiscs_for(interface)
        commands = install_argvs(interface.name, qdiscs, verb)
        netem = qdiscs[0] if isinstance(qdiscs[0], Netem) else None
        needs_more = netem and (netem.distribution or netem.every_pkts)
        if not needs_more and all(argv[0] == "tc" for argv in commands):
            shows = show_argvs(interface.name, qdiscs)
            shown = self._network.change_qdiscs(interface.node, commands, shows)
            return compare(interface, qdiscs, shown)[0]
        environ = {}
        if netem and netem.distribution:  # tc reads it from a file
            path = table_path(self._tables, netem.distribution)
            self._network.write_file(path, table_text(netem.distribution))
            environ["TC_LIB_DIR"] = str(self._tables)
        for argv in commands:
            self._network.read(interface.node, argv, environ=environ)
        if netem and netem.every_pkts:
            self._lose_periodically(interface, netem.every_pkts, verb)
        shown = "".join(
            self._network.read(interface.node, argv, logged=False)
            for argv in show_argvs(interface.name, qdiscs)
        )
        return compare(interface, qdiscs, shown)[0]

    def _lose_periodically(self, interface: Interface, every_pkts: int, verb: str) -> None:
        """A filter that loses exactly every so-many-th packet, read back. Raises
        ShapingMismatch.
        """
        node, device = interface.node, interface.name
        if verb == "add":
            self._network.read(node, ["tc", "qdisc", "add", "dev", device, "clsact"])
        self._network.read(node, periodic_loss_argv(device, every_pkts))
        asking = ["tc", "-j", "filter", "show", "dev", device, "egress"]
        shown = json.loads(self._network.read(node, asking, logged=False))
        actions = [each for found in shown for each in found.get("options", {}).get("actions", ())]
        intervals = [action.get("prob", {}).get("val") for action in actions]
        if intervals != gact_intervals(every_pkts):
            raise ShapingMismatch(
                f"{node}: {device}: loss of every {every_pkts}th packet asked, "
                f"intervals {intervals} installed"
            )


def takes_seeds(run: RunSpec, release: str) -> bool:
    """Whether netem has a seed here. One of the older kernels that a run may ask for takes its
    losses from its own random numbers, which follow from the run's seed; this machine's own kernel
    from nobody's. Both say so in the verdict. In the shipped kernel a seed that is not installed is
    a difference.
    """
    is_shipped = run.kernel == SHIPPED and run.machine != "native"
    return is_shipped or version_tuple(release) >= FEATURES["netem seed"].since


def unseeded(qdisc: Qdisc) -> Qdisc:
    """The same without a seed of its own."""
    return replace(qdisc, seed=None) if isinstance(qdisc, Netem) else qdisc


def seed_of(run: RunSpec, number: int) -> int:
    """The seed of a run's n-th qdisc: the same in every cell of a repetition, none used twice."""
    return run.seed * 1000 + number


def compare(interface: Interface, asked: list[Qdisc], shown: str) -> list[Qdisc]:
    """What tc says is there. Raises ShapingMismatch if it was not requested."""
    where = f"{interface.node}: {interface.name} ({interface.role}, {interface.direction})"
    try:
        installed = parse_shown(shown, asked)
    except ShapingMismatch as error:
        raise ShapingMismatch(f"{where}: {error}") from None
    wrong = [
        phrase
        for want, got in zip(asked, installed, strict=True)
        for phrase in want.differences(got)
    ]
    if wrong:
        raise ShapingMismatch(f"{where}: {'; '.join(wrong)}")
    return installed
