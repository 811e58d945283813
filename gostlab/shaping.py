"""The path between client and target, as netem qdiscs: built, installed, read back, compared.

Bottleneck (rate + buffer) and delay line (delay, jitter, loss) stand on different routers, because netem
counts packets in flight against `limit`: on one qdisc the delay would eat the buffer.
"""
from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.experiment import RunDescription
from gostlab.network import Interface, Network, NetworkError

# The delay line must never drop. netem's queue is a tree, so a large limit costs nothing until it is used.
DELAY_LIMIT_PKTS = 1_000_000
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
    loss: tuple[float, ...] = ()      # () | (p,) | (p, r, 1-h, 1-k), each 0..1
    rate_bps: int | None = None
    seed: int | None = None


def loss_numbers(loss: Mapping[str, Any]) -> tuple[float, ...]:
    """The numbers of a loss model in tc's order; () where nothing is lost."""
    if loss["model"] == "random":
        return (float(loss["p"]),) if loss["p"] else ()
    return (float(loss["p"]), float(loss["r"]), float(loss["one_minus_h"]), float(loss["one_minus_k"]))


def bottleneck_netem(direction: Mapping[str, Any]) -> Netem:
    """The qdisc of the first router: rate and buffer."""
    limit = direction["buffer_pkts"]
    return Netem(limit_pkts=limit if limit is not None else DELAY_LIMIT_PKTS, rate_bps=direction["rate_bps"])


def delay_netem(direction: Mapping[str, Any], seed: int) -> Netem:
    """The qdisc of the second router: delay, jitter, loss, seeded."""
    loss = loss_numbers(direction["loss"])
    return Netem(limit_pkts=DELAY_LIMIT_PKTS, delay_ms=direction["delay_ms"], jitter_ms=direction["jitter_ms"],
                 loss=loss, seed=seed if loss or direction["jitter_ms"] else None)


def netem_argv(device: str, netem: Netem, verb: str = "add") -> list[str]:
    """The tc command for a netem at a device's root."""
    argv = ["tc", "qdisc", verb, "dev", device, "root", "netem", "limit", str(netem.limit_pkts)]
    if netem.delay_ms or netem.jitter_ms:
        argv += ["delay", f"{netem.delay_ms:.6f}ms"]
        if netem.jitter_ms:
            argv += [f"{netem.jitter_ms:.6f}ms"]
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
    return Netem(limit_pkts=int(options["limit"]), delay_ms=float(delay.get("delay", 0)) * 1000,
                 jitter_ms=float(delay.get("jitter", 0)) * 1000, loss=loss,
                 rate_bps=int(rate) * 8 if rate else None, seed=options.get("seed"))


def differences(asked: Netem, installed: Netem) -> list[str]:
    """What differs, one phrase each, beyond the kernel's own resolution (1 µs of delay, 8 bit/s, 2^-32 of loss)."""
    found = []
    if installed.limit_pkts != asked.limit_pkts:
        found.append(f"limit {asked.limit_pkts} packets asked, {installed.limit_pkts} installed")
    for name, want, got in (("delay", asked.delay_ms, installed.delay_ms),
                            ("jitter", asked.jitter_ms, installed.jitter_ms)):
        if abs(want - got) > 0.001:
            found.append(f"{name} {want} ms asked, {got} ms installed")
    if len(asked.loss) != len(installed.loss) or any(
            not math.isclose(want, got, rel_tol=LOSS_TOLERANCE, abs_tol=1e-9)
            for want, got in zip(asked.loss, installed.loss, strict=False)):
        found.append(f"loss {asked.loss} asked, {installed.loss} installed")
    if (asked.rate_bps is None) != (installed.rate_bps is None) or (
            asked.rate_bps is not None and installed.rate_bps is not None
            and abs(asked.rate_bps - installed.rate_bps) > 8):
        found.append(f"rate {asked.rate_bps} bit/s asked, {installed.rate_bps} bit/s installed")
    if asked.seed is not None and installed.seed != asked.seed:
        found.append(f"seed {asked.seed} asked, {installed.seed} installed")
    return found


def shape(network: Network, run: RunDescription) -> dict[str, str]:
    """Install the run's path in both directions; returns per device what `tc -s qdisc show` then says.

    Raises ShapingMismatch naming the device and what differs.
    """
    shown: dict[str, str] = {}
    for offset, name in enumerate(("forward", "reverse")):
        direction = run.path[name]
        for role, netem in (("bottleneck", bottleneck_netem(direction)),
                            ("delay", delay_netem(direction, run.seed * 2 + offset))):
            interface = network.role(role, name)
            network.read(interface.node, netem_argv(interface.name, netem))
            installed = read_netem(network, interface)
            wrong = differences(netem, installed)
            if wrong:
                raise ShapingMismatch(f"{interface.node}: {interface.name} ({role}, {name}): {'; '.join(wrong)}")
            shown[interface.name] = show_qdisc(network, interface)
    return shown


def read_netem(network: Network, interface: Interface) -> Netem:
    """What the kernel has at an interface's root."""
    try:
        return parse_netem(network.read(interface.node, ["tc", "-j", "qdisc", "show", "dev", interface.name, "root"],
                                        logged=False))
    except ShapingMismatch as error:
        raise ShapingMismatch(f"{interface.node}: {interface.name}: {error}") from None


def show_qdisc(network: Network, interface: Interface) -> str:
    """tc's own text with statistics, for the record."""
    return network.read(interface.node, ["tc", "-s", "qdisc", "show", "dev", interface.name], logged=False)


def idle_rtt_ms(run: RunDescription) -> float:
    """The round trip the path is asked for when nothing else is on it: both delays, and the time the rate
    takes to send one ping of 64 bytes and its Ethernet and IP headers each way."""
    ping_bits = (64 + 20 + 14) * 8
    total = 0.0
    for name in ("forward", "reverse"):
        direction = run.path[name]
        total += direction["delay_ms"]
        if direction["rate_bps"]:
            total += 1000 * ping_bits / direction["rate_bps"]
    return total


def ping_rtts_ms(network: Network, source: str, target: str, count: int = 5, interval_s: float = 0.2) -> list[float]:
    """Round-trip times of `count` pings, ms. Raises NetworkError if none came back."""
    text = network.read(source, ["ping", "-c", str(count), "-i", str(interval_s), "-W", "5", target], check=False)
    times = [float(value) for value in re.findall(r"time=([\d.]+) ms", text)]
    if not times:
        last = text.strip().splitlines()[-1:] or ["nothing"]
        raise NetworkError(f"{source}: no ping to {target} came back ({last[0].strip()})")
    return times


def qdisc_argv_list(run: RunDescription, devices: Mapping[tuple[str, str], str]) -> Sequence[list[str]]:
    """Every tc command of a run's path, given each (role, direction)'s device: for display and tests."""
    return [netem_argv(devices[role, name],
                       bottleneck_netem(run.path[name]) if role == "bottleneck"
                       else delay_netem(run.path[name], run.seed * 2 + offset))
            for offset, name in enumerate(("forward", "reverse")) for role in ("bottleneck", "delay")]
