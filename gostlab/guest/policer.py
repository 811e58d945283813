"""Build the policer of a bottleneck: a filter before its queue that drops what exceeds a rate.

It is tc's action police on packets that leave the device: a token bucket without a queue. Its
bucket counts packets with their Ethernet header, as the queue behind it does.
"""

import re
from typing import NamedTuple

from gostlab.guest.qdisc import OptionComparison
from gostlab.spec.path_spec import PolicerSpec

FILTER = ["protocol", "ip", "pref", "2", "handle", "1", "matchall"]
# A packet above police's own MTU, 2 kB, would be dropped whatever the bucket holds.
MTU_BYTES = 65_535
# tc prints a rate with at least three digits. The kernel saves a bucket as the time to fill it, in
# ticks of 64 ns, and tc prints whole bytes.
TOLERANCE = 1e-3
BURST_TOLERANCE_BYTES = 16
COMPARED = (
    OptionComparison("rate_bps", "policer's rate", "bit/s", rel_tol=TOLERANCE),
    OptionComparison(
        "burst_bytes", "policer's burst", "bytes", rel_tol=TOLERANCE, abs_tol=BURST_TOLERANCE_BYTES
    ),
)
# What tc prints of one police action and its statistics; it has no JSON for rate and burst.
SHOWN = re.compile(
    r"police 0x\w+ rate ([\d.]+)([KMGT]?)bit burst ([\d.]+)([KMG]?)b .*?"
    r"Sent (\d+) bytes (\d+) pkt \(dropped (\d+),",
    re.DOTALL,
)


class InstalledPolicer(NamedTuple):
    """An installed policer, and what it has seen."""

    policer: PolicerSpec
    offered_bytes: int
    offered_pkts: int
    drops: int


def police_args(policer: PolicerSpec, index: int) -> list[str]:
    """Return tc's words for a policer; the index is its own in the network namespace."""
    action = ["action", "police", "rate", f"{policer.rate_bps}bit"]
    action += ["burst", f"{policer.burst_bytes}b", "mtu", str(MTU_BYTES)]
    return [*action, "conform-exceed", "drop/pass", "index", str(index)]


def install_argv(device: str, policer: PolicerSpec, index: int) -> list[str]:
    """Return the command that installs a policer on what leaves a device."""
    action = police_args(policer, index)
    return ["tc", "filter", "add", "dev", device, "egress", *FILTER, *action]


def change_argv(policer: PolicerSpec, index: int) -> list[str]:
    """Return the command that changes a policer in place; its bucket is full then."""
    return ["tc", "actions", "change", *police_args(policer, index)]


def removal_argv(device: str) -> list[str]:
    """Return the command that removes a device's policer."""
    return ["tc", "filter", "del", "dev", device, "egress", *FILTER]


def show_argv(device: str) -> list[str]:
    """Return the command whose output `parse_policers` parses."""
    return ["tc", "-s", "filter", "show", "dev", device, "egress"]


def parse_policers(shown: str) -> list[InstalledPolicer]:
    """Return the police actions that `tc -s filter show` prints."""
    policers = []
    for match in SHOWN.finditer(shown):
        rate, rate_prefix, burst, burst_prefix, sent_bytes, sent_pkts, drops = match.groups()
        policer = PolicerSpec(
            rate_bps=round(float(rate) * 1000 ** " KMGT".index(rate_prefix or " ")),
            burst_bytes=round(float(burst) * 1024 ** " KMG".index(burst_prefix or " ")),
        )
        policers.append(InstalledPolicer(policer, int(sent_bytes), int(sent_pkts), int(drops)))
    return policers


def differences(requested: PolicerSpec, shown: str) -> list[str]:
    """Return a phrase for each way in which the installed policer differs."""
    policers = parse_policers(shown)
    if len(policers) != 1:
        return [f"one policer asked, {len(policers)} installed"]
    return [
        phrase
        for option in COMPARED
        for phrase in option.difference(
            getattr(requested, option.name), getattr(policers[0].policer, option.name)
        )
    ]
