# SPDX-License-Identifier: MIT
"""Format levels for people: "16 streams" and "0.5 % loss", not "streams = 16".

The labels appear in tables, plots and the report.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from gostlab.registry.tunnels import LEGS
from gostlab.spec.profile import DIRECTIONS
from gostlab.spec.settings import BETWEEN_VALUES, LINK_NAME, SETTINGS, show_level

# A level as written in a file, which is printed with a space: 10ms, 0.5bdp.
UNIT = re.compile(r"^([0-9.]+)\s*([A-Za-zµ%]+)$")
UNITS = {
    "kbit": "kbit/s",
    "mbit": "Mbit/s",
    "gbit": "Gbit/s",
    "bdp": "BDP",
    "pkts": "packets",
    "us": "µs",
}
SWITCHES = {"True": "on", "False": "off"}
LETTERS = {"ecn": "ECN", "mtu": "MTU", "mss": "MSS"}  # The factors that are written in capitals.
# The phrase around a level; other factors put their name before the level: "acks on".
PHRASES = dict.fromkeys("tunnel direction profile topology cc rate duration size".split(), "{}") | {
    "rtt": "{} RTT",
    "delay": "{} one way",
    "loss": "{} loss",
    "jitter": "{} jitter",
    "buffer": "{} of buffer",
    "syscall_cost": "{} per system call",
    "byte_cost": "{} per byte",
    "tcp_memory": "{} of TCP memory",
    "host_tcp_memory": "{} of TCP memory per host",
    "start": "start at {}",
    "measure": "over {}",
    "skip": "after {}",
}


# The ends at which a congestion control can run.
ENDS = ("client", "gost", "target", *LEGS)
PARTS = {"loss.model": "{} loss", "loss.packets": "one loss in {} packets"}


def with_units(written: str) -> str:
    """Return a level with its unit as printed: 100 Mbit/s, 0.5 BDP; other texts are unchanged."""
    text = SWITCHES.get(written, written)
    parts = BETWEEN_VALUES.split(text)
    if len(parts) == 2 and all(UNIT.match(part) for part in parts):
        down, up = map(with_units, parts)
        return f"{down} down and {up} up"
    return UNIT.sub(lambda match: f"{match[1]}\u00a0{UNITS.get(match[2], match[2])}", text)


def changes_label(written: Any) -> str:
    """Return a list of changes as text (rate 4 Mbit/s from 10 s on); "" for any other level."""
    if isinstance(written, str) and written.startswith("[{"):
        try:
            written = json.loads(written)
        except ValueError:
            return ""
    if not isinstance(written, (list, tuple)) or not written:
        return ""
    if not all(isinstance(change, Mapping) and "at" in change for change in written):
        return ""
    return ", ".join(change_label(change) for change in written)


def change_label(change: Mapping[str, object]) -> str:
    """Return a change as text: its new values, its direction or link, and its time."""
    values = " and ".join(
        f"{name} {with_units(show_level(value))}"
        for name, value in change.items()
        if name not in ("at", "direction", "link")
    )
    written = change.get("direction")
    direction = " both ways" if written == "both" else f" {written}" if written else ""
    link = f" on {change['link']}" if change.get("link") else ""
    return f"{values}{direction}{link} from {with_units(show_level(change['at']))} on"


def level_label(
    factor: str, written: Any, cc_name: Callable[[str], str] = lambda name: name
) -> str:
    """Return a factor's level with its meaning; `cc_name` formats a congestion control."""
    if changes := changes_label(written):
        return changes
    if isinstance(written, float):
        written = f"{written:g}"
    parts = factor.split(".")
    link = next((index for index, part in enumerate(parts) if LINK_NAME.fullmatch(part)), None)
    if link is not None:  # The setting is that of a link, whatever the factor's name.
        setting = ".".join(parts[link + 1 :])
        label = level_label(setting, written, cc_name) if setting else show_level(written)
        return f"{label} on {parts[link]}"
    head, dot, last = factor.partition(".")
    if not dot:
        return run_level_label(factor, written, cc_name)
    if head == "cc" or names_cc_end(head, last, written):
        return f"{cc_name(show_level(written))} at {last}"
    if f"{head}.{last}" in PARTS:  # The setting has several parts, each with its own level.
        return PARTS[f"{head}.{last}"].format(show_level(written))
    if head in SETTINGS:
        return f"{head} {last} {with_units(show_level(written))}"
    label = run_level_label(last, written, cc_name)
    return f"{label} {head}" if head in DIRECTIONS else f"{head}: {label}"


def names_cc_end(factor: str, end: str, written: Any) -> bool:
    """Return whether a file's own factor ("where") places the congestion control at an end."""
    return factor not in SETTINGS and end in ENDS and isinstance(written, str)


def run_level_label(factor: str, written: Any, cc_name: Callable[[str], str]) -> str:
    """Return the label of a level that holds for the whole run."""
    if factor == "streams":
        return f"{show_level(written)} stream{'' if str(written) == '1' else 's'}"
    if factor == "cc":
        return cc_name(written) if isinstance(written, str) else show_level(written)
    level = with_units(show_level(written))
    if factor == "loss" and re.fullmatch(r"0(\.\d+)?", level):
        level = f"{100 * float(level):g}\u00a0%"
    if factor == "host_cpus":
        shared = {"shared": "one CPU for all hosts", "0": "one CPU for all hosts"}
        return shared.get(level, f"{level} CPU{'' if level == '1' else 's'} per host")
    if factor == "clock":
        return f"{level} clock"
    if factor in ("queue", "aqm"):
        return f"{level} queue"
    if factor == "where":  # The file's other levels of this factor name an end.
        return f"{cc_name(level)} everywhere"
    phrase = PHRASES.get(factor)
    if factor.endswith("tcp_memory") and not level[:1].isdigit():
        return f"{level} TCP memory"
    is_level_alone = phrase == "{}"
    if (
        phrase is None
        or (is_level_alone and level.isdigit())
        or not (is_level_alone or level[:1].isdigit())
    ):
        return f"{LETTERS.get(factor, factor.replace('_', ' '))} {level}"
    return phrase.format(level)


def cell_label(
    levels: Mapping[str, object], cc_name: Callable[[str], str] = lambda name: name
) -> str:
    """Return a cell's levels in one line: "16 streams, gost+ws, bbr"."""
    return ", ".join(level_label(factor, written, cc_name) for factor, written in levels.items())
