"""The path between client and target, as netem qdiscs: built, installed, read back, compared.

Bottleneck (rate + buffer) and delay line (delay, jitter, loss) stand on different routers, because
netem counts packets in flight against `limit`: on one qdisc the delay would eat the buffer.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.ask.flows import Flow, delays_ms
from gostlab.ask.limits import DELAY_LIMIT_PKTS
from gostlab.ask.profile import period_factors
from gostlab.ask.run_description import RunDescription
from gostlab.declared.topologies import topology_of
from gostlab.guest.network import Interface, Network, NetworkError

NO_DELAY_LINE: Mapping[str, Any] = {
    "delay_ms": 0.0,
    "jitter_ms": 0.0,
    "distribution": None,
    "loss": {"model": "random", "p": 0.0},
}
# A rate on the delay line makes netem send in the order of arrival, whatever the jitter: so fast
# that it does nothing else.
ORDERING_RATE_BPS = 10_000_000_000
# netem's probabilities are 32-bit fractions; tc prints them with limited digits.
LOSS_TOLERANCE = 1e-4


class ShapingMismatch(NetworkError):
    """The kernel installed something else than what was asked for."""


@dataclass(frozen=True)
class Netem:
    """One netem qdisc, as asked for or as read back. `None`: not set."""

    limit_pkts: int
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: tuple[float, ...] = ()  # () | (p,) | (p, r, 1-h, 1-k), each 0..1
    rate_bps: int | None = None
    seed: int | None = None
    distribution: tuple[int, ...] | None = (
        None  # of the delay; the kernel does not say what it was given
    )
    every_pkts: int | None = (
        None  # exactly every so-many-th packet is lost, by a filter before the qdisc
    )


def loss_numbers(loss: Mapping[str, Any]) -> tuple[float, ...]:
    """The numbers of netem's loss models in tc's order; () where netem loses nothing."""
    if loss["model"] == "periodic":
        return ()
    if loss["model"] == "random":
        return (float(loss["p"]),) if loss["p"] else ()
    return (
        float(loss["p"]),
        float(loss["r"]),
        float(loss["one_minus_h"]),
        float(loss["one_minus_k"]),
    )


def bottleneck_netem(direction: Mapping[str, Any], seed: int) -> Netem:
    """The qdisc of the first router: rate and buffer. Nothing in it is random; netem wants a seed
    all the same.
    """
    limit = direction["buffer_pkts"]
    return Netem(
        limit_pkts=limit if limit is not None else DELAY_LIMIT_PKTS,
        rate_bps=direction["rate_bps"],
        seed=seed,
    )


def delay_netem(direction: Mapping[str, Any], seed: int) -> Netem:
    """The qdisc of the second router: delay, jitter, loss, seeded."""
    loss, table = loss_numbers(direction["loss"]), direction["distribution"]
    return Netem(
        limit_pkts=DELAY_LIMIT_PKTS,
        delay_ms=direction["delay_ms"],
        jitter_ms=direction["jitter_ms"],
        loss=loss,
        seed=seed,
        rate_bps=ORDERING_RATE_BPS if direction["ordered"] and direction["jitter_ms"] else None,
        distribution=tuple(table) if table and direction["jitter_ms"] else None,
        every_pkts=direction["loss"].get("packets"),
    )


def netem_argv(device: str, netem: Netem, verb: str = "add") -> list[str]:
    """The tc command for a netem at a device's root."""
    argv = ["tc", "qdisc", verb, "dev", device, "root", "netem", "limit", str(netem.limit_pkts)]
    if netem.delay_ms or netem.jitter_ms:
        argv += ["delay", f"{netem.delay_ms:.6f}ms"]
        if netem.jitter_ms:
            argv += [f"{netem.jitter_ms:.6f}ms"]
        if netem.distribution:
            argv += ["distribution", table_name(netem.distribution)]
    if len(netem.loss) == 1:
        argv += ["loss", "random", f"{netem.loss[0] * 100:.8f}%"]
    elif netem.loss:
        argv += ["loss", "gemodel", *(f"{value * 100:.8f}%" for value in netem.loss)]
    if netem.rate_bps is not None:
        argv += ["rate", f"{netem.rate_bps}bit"]
    if netem.seed is not None:
        argv += ["seed", str(netem.seed)]
    return argv


def parse_netem(shown: str) -> Netem:
    """A netem as `tc -j qdisc show dev X root` prints it. Raises ShapingMismatch if there is none.

    tc's JSON keeps seconds and shares for delay and loss; its rate is in bytes per second.
    """
    qdiscs = [qdisc for qdisc in json.loads(shown) if qdisc.get("kind") == "netem"]
    if not qdiscs:
        raise ShapingMismatch("no netem there")
    options = qdiscs[0]["options"]
    delay = options.get("delay", {})
    rate = options.get("rate", {}).get("rate")
    loss: tuple[float, ...] = ()
    if "loss-random" in options:
        loss = (float(options["loss-random"]["loss"]),)
    elif "loss-gemodel" in options:
        model = options["loss-gemodel"]
        loss = tuple(float(model[key]) for key in ("p", "r", "1-h", "1-k"))
    return Netem(
        limit_pkts=int(options["limit"]),
        delay_ms=float(delay.get("delay", 0)) * 1000,
        jitter_ms=float(delay.get("jitter", 0)) * 1000,
        loss=loss,
        rate_bps=int(rate) * 8 if rate else None,
        seed=options.get("seed"),
    )


def differences(asked: Netem, installed: Netem) -> list[str]:
    """What differs, one phrase each, beyond the kernel's own resolution (1 µs of delay, 8 bit/s,
    2^-32 of loss).
    """
    found = []
    if installed.limit_pkts != asked.limit_pkts:
        found.append(f"limit {asked.limit_pkts} packets asked, {installed.limit_pkts} installed")
    for name, want, got in (
        ("delay", asked.delay_ms, installed.delay_ms),
        ("jitter", asked.jitter_ms, installed.jitter_ms),
    ):
        if abs(want - got) > 0.001:
            found.append(f"{name} {want} ms asked, {got} ms installed")
    if len(asked.loss) != len(installed.loss) or any(
        not math.isclose(want, got, rel_tol=LOSS_TOLERANCE, abs_tol=1e-9)
        for want, got in zip(asked.loss, installed.loss, strict=False)
    ):
        found.append(f"loss {asked.loss} asked, {installed.loss} installed")
    if (asked.rate_bps is None) != (installed.rate_bps is None) or (
        asked.rate_bps is not None
        and installed.rate_bps is not None
        and abs(asked.rate_bps - installed.rate_bps) > 8
    ):
        found.append(f"rate {asked.rate_bps} bit/s asked, {installed.rate_bps} bit/s installed")
    if asked.seed is not None and installed.seed != asked.seed:
        found.append(f"seed {asked.seed} asked, {installed.seed} installed")
    return found


def table_name(table: Sequence[int]) -> str:
    """What a delay table is called: tc takes it from a file NAME.dist in TC_LIB_DIR."""
    return "gostlab-" + hashlib.sha256(repr(tuple(table)).encode()).hexdigest()[:8]


def write_table(folder: Path, table: Sequence[int]) -> None:
    """A delay table as tc reads it."""
    folder.mkdir(exist_ok=True)
    lines = (
        " ".join(str(value) for value in table[start : start + 8])
        for start in range(0, len(table), 8)
    )
    (folder / f"{table_name(table)}.dist").write_text("\n".join(lines) + "\n", encoding="ascii")


def gact_intervals(every_pkts: int) -> list[int]:
    """Intervals of chained gact actions whose product is the one asked for. Raises ValueError."""
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
    argv = [
        "tc",
        "filter",
        "replace",
        "dev",
        device,
        "egress",
        "protocol",
        "ip",
        "pref",
        "1",
        "handle",
        "1",
        "matchall",
    ]
    intervals = gact_intervals(every_pkts)
    for number, interval in enumerate(intervals, 1):
        argv += [
            "action",
            "pass",
            "random",
            "determ",
            "drop" if number == len(intervals) else "pipe",
            str(interval),
        ]
    return argv


def path_of(run: RunDescription, interface: Interface) -> Mapping[str, Any]:
    """The direction of a path that an interface makes, as asked for, a host's own delay in it."""
    path: Mapping[str, Any] = run.path
    topology = topology_of(run.topology)
    if run.sites is not None:
        sites = {topology.receiver.format(n): site for n, site in enumerate(run.sites.values(), 1)}
        path = sites[interface.hosts[0]]
    direction: Mapping[str, Any] = path[str(interface.direction)]
    if topology.own_rtts and interface.role == "delay":
        own_ms = delays_ms(run.flows, run.path)
        return {
            **direction,
            "delay_ms": own_ms.get(interface.hosts[0], direction["delay_ms"]),
        }
    return direction


def under_test(run: RunDescription, interface: Interface) -> bool:
    """Whether an interface is on a path that the run's flows take."""
    return bool(interface.role) and any(is_for(interface, flow) for flow in run.flows)


def is_for(interface: Interface, flow: Flow) -> bool:
    """Whether what an interface does to packets is for this flow's."""
    return not interface.hosts or not {flow.sender, flow.receiver}.isdisjoint(interface.hosts)


class Shaper:
    """The qdiscs of a run's paths: installed, read back, changed in place."""

    def __init__(self, network: Network, run: RunDescription) -> None:
        self._network = network
        self._run = run
        self._now = {interface: dict(path_of(run, interface)) for interface in network.shaped}
        self._seeds = {
            interface: seed_of(run, number)
            for number, interface in enumerate(
                sorted(
                    network.shaped,
                    key=lambda each: (each.direction or "", each.role or "", each.name),
                )
            )
        }
        self._tables = Path(tempfile.gettempdir()) / "gostlab-tc"

    def install(self) -> dict[str, str]:
        """Install every path; returns what `tc -s qdisc show` then says of every device that the
        flows cross.

        Raises ShapingMismatch naming the device and what differs.
        """
        for interface in self._now:
            self._apply(interface, "add")
        return self.show()

    def show(self) -> dict[str, str]:
        """What `tc -s qdisc show` says now of every device that the flows cross."""
        return {
            interface.name: show_qdisc(self._network, interface)
            for interface in self._now
            if under_test(self._run, interface)
        }

    def change(self, change: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Change one direction of the path under test in place; returns what was run and installed
        where.

        A new delay moves every host's own by as much. Raises ShapingMismatch or NetworkError.
        """
        done = []
        base_ms = self._run.path[change["direction"]]["delay_ms"]
        for interface, now in self._now.items():
            if interface.direction != change["direction"] or not under_test(self._run, interface):
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
                wanted["delay_ms"] = max(
                    0.0, path_of(self._run, interface)["delay_ms"] + wanted["delay_ms"] - base_ms
                )
            now.update(wanted)
            installed = self._apply(interface, "change")
            done.append(
                {
                    "node": interface.node,
                    "dev": interface.name,
                    **wanted,
                    "installed": {
                        key: value
                        for key, value in vars(installed).items()
                        if value not in (None, ())
                    },
                }
            )
        return done

    def path_of_flow(self, flow: Flow) -> list[dict[str, Any]]:
        """What a flow's packets cross there and back, as it is now: bottlenecks, which have only a
        rate, and delay lines, which have everything else.
        """
        return [
            {**NO_DELAY_LINE, "rate_bps": now["rate_bps"]}
            if interface.role == "bottleneck"
            else {**now, "rate_bps": None}
            for interface, now in self._now.items()
            if is_for(interface, flow)
        ]

    def asked(self, interface: Interface) -> Netem:
        """The qdisc that an interface should have now."""
        if interface.role == "bottleneck":
            return bottleneck_netem(self._now[interface], self._seeds[interface])
        return delay_netem(self._now[interface], self._seeds[interface])

    def _apply(self, interface: Interface, verb: str) -> Netem:
        """Install what is asked for now, read it back; returns what the kernel has. Raises
        ShapingMismatch.
        """
        netem = self.asked(interface)
        environ = {}
        if netem.distribution:
            write_table(self._tables, netem.distribution)
            environ = {"TC_LIB_DIR": str(self._tables)}
            self._network.log.note(
                f"TC_LIB_DIR is a folder with {table_name(netem.distribution)}.dist, made from"
                " run.json"
            )
        self._network.read(interface.node, netem_argv(interface.name, netem, verb), environ=environ)
        if netem.every_pkts:
            if verb == "add":
                self._network.read(
                    interface.node, ["tc", "qdisc", "add", "dev", interface.name, "clsact"]
                )
            self._network.read(interface.node, periodic_loss_argv(interface.name, netem.every_pkts))
            check_filter(self._network, interface, netem.every_pkts)
        installed = read_netem(self._network, interface)
        wrong = differences(netem, installed)
        if wrong:
            raise ShapingMismatch(
                f"{interface.node}: {interface.name} ({interface.role}, {interface.direction}): "
                f"{'; '.join(wrong)}"
            )
        return installed


def seed_of(run: RunDescription, number: int) -> int:
    """The seed of a run's n-th qdisc: the same in every cell of a repetition, none shared by two
    qdiscs.
    """
    return run.seed * 1000 + number


def check_filter(network: Network, interface: Interface, every_pkts: int) -> None:
    """Read a periodic loss back. Raises ShapingMismatch."""
    asking = ["tc", "-j", "filter", "show", "dev", interface.name, "egress"]
    shown = json.loads(network.read(interface.node, asking, logged=False))
    actions = [action for found in shown for action in found.get("options", {}).get("actions", ())]
    intervals = [action.get("prob", {}).get("val") for action in actions]
    if intervals != gact_intervals(every_pkts):
        raise ShapingMismatch(
            f"{interface.node}: {interface.name}: loss of every {every_pkts}th packet asked, "
            f"intervals {intervals} installed"
        )


def read_netem(network: Network, interface: Interface) -> Netem:
    """What the kernel has at an interface's root."""
    try:
        return parse_netem(
            network.read(
                interface.node,
                ["tc", "-j", "qdisc", "show", "dev", interface.name, "root"],
                logged=False,
            )
        )
    except ShapingMismatch as error:
        raise ShapingMismatch(f"{interface.node}: {interface.name}: {error}") from None


def show_qdisc(network: Network, interface: Interface) -> str:
    """tc's own text with statistics, for the record."""
    return network.read(
        interface.node, ["tc", "-s", "qdisc", "show", "dev", interface.name], logged=False
    )
