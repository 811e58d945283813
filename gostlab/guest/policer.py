"""Build the policer of a bottleneck: a filter before its queue that drops what exceeds a rate.

It is tc's action police on packets that leave the device: a token bucket without a queue. Its
bucket counts packets with their Ethernet header, as the queue behind it does.
"""

import json
from typing import Any

from gostlab.guest.qdisc import RATE_TOLERANCE_BPS, OptionComparison
from gostlab.spec.path_spec import PolicerSpec

PREFERENCE = ["pref", "2", "handle", "1", "matchall"]
# The kernel saves a bucket as the time to fill it, in ticks of 64 ns, and tc prints whole bytes.
BURST_TOLERANCE_BYTES = 2
BURST_TOLERANCE = 1e-3
COMPARED = (
    OptionComparison("rate_bps", "policer's rate", "bit/s", abs_tol=RATE_TOLERANCE_BPS),
    OptionComparison(
        "burst_bytes",
        "policer's burst",
        "bytes",
        rel_tol=BURST_TOLERANCE,
        abs_tol=BURST_TOLERANCE_BYTES,
    ),
)


def policer_argv(device: str, policer: PolicerSpec) -> list[str]:
    """Return the command that installs a policer on what leaves a device, or changes it."""
    argv = ["tc", "filter", "replace", "dev", device, "egress", "protocol", "ip", *PREFERENCE]
    argv += ["action", "police", "rate", f"{policer.rate_bps}bit"]
    return [*argv, "burst", f"{policer.burst_bytes}b", "conform-exceed", "drop/pass"]


def removal_argv(device: str) -> list[str]:
    """Return the command that removes a device's policer."""
    return ["tc", "filter", "del", "dev", device, "egress", "protocol", "ip", *PREFERENCE]


def show_argv(device: str) -> list[str]:
    """Return the command whose output `shown_policers` parses."""
    return ["tc", "-s", "-j", "filter", "show", "dev", device, "egress"]


def shown_policers(shown: str) -> list[dict[str, Any]]:
    """Return the police actions that `tc -s -j filter show` prints."""
    return [
        action
        for filter_ in json.loads(shown)
        for action in filter_.get("options", {}).get("actions", ())
        if action.get("kind") == "police"
    ]


def differences(requested: PolicerSpec, shown: str) -> list[str]:
    """Return a phrase for each way in which the installed policer differs."""
    policers = shown_policers(shown)
    if len(policers) != 1:
        return [f"one policer asked, {len(policers)} installed"]
    installed = PolicerSpec(
        rate_bps=8 * int(policers[0]["rate"]), burst_bytes=int(policers[0]["burst"])
    )
    return [
        phrase
        for option in COMPARED
        for phrase in option.difference(
            getattr(requested, option.name), getattr(installed, option.name)
        )
    ]
