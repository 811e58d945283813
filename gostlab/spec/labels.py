"""A level as people say it: "16 streams" and "0.5 % loss", not "streams = 16" and "loss = 0.5%"."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from gostlab.registry.tunnels import LEGS
from gostlab.spec.profile import DIRECTIONS
from gostlab.spec.settings import LINK_NAME, SETTINGS, show_level

# A level as a file has it, to be printed with a space: 10ms, 0.5bdp.
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
LETTERS = {"ecn": "ECN", "mtu": "MTU", "mss": "MSS"}  # factors that are written in capitals
# What a level is called, around it; of other factors their name stands before: "acks on".
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


# Where a congestion control can run.
ENDS = ("client", "gost", "target", *LEGS)
PARTS = {"loss.model": "{} loss", "loss.packets": "one loss in {} packets"}


def with_units(written: str) -> str:
    """A level with its unit as people print it: 100 Mbit/s, 0.5 BDP; other words as they are."""
    said = SWITCHES.get(written, written)
    return UNIT.sub(lambda found: f"{found[1]}\u00a0{UNITS.get(found[2], found[2])}", said)


def changes_words(written: Any) -> str:
    """Changes under way in words (rate 4 Mbit/s from 10 s on); "" of any other level."""
    if isinstance(written, str) and written.startswith("[{"):
        try:
            written = json.loads(written)
        except ValueError:
            return ""
    if not isinstance(written, (list, tuple)) or not written:
        return ""
    if not all(isinstance(each, Mapping) and "at" in each for each in written):
        return ""
    return ", ".join(change_words(each) for each in written)


def change_words(change: Mapping[str, Any]) -> str:
    """One change: what is new, which way or on which link, and when."""
    new = " and ".join(
        f"{name} {with_units(show_level(value))}"
        for name, value in change.items()
        if name not in ("at", "direction", "link")
    )
    way = {None: "", "both": " both ways"}.get(
        change.get("direction"), f" {change.get('direction')}"
    )
    link = f" on {change['link']}" if change.get("link") else ""
    return f"{new}{way}{link} from {with_units(show_level(change['at']))} on"


def level_words(
    factor: str, written: Any, cc_name: Callable[[str], str] = lambda name: name
) -> str:
    """A factor's level, so that it is plain of what; cc_name: what one of `cc` is called."""
    if changes := changes_words(written):
        return changes
    if isinstance(written, float):
        written = f"{written:g}"
    parts = factor.split(".")
    link = next((place for place, part in enumerate(parts) if LINK_NAME.fullmatch(part)), None)
    if link is not None:  # of a link, whatever the factor is called
        own = ".".join(parts[link + 1 :])
        said = level_words(own, written, cc_name) if own else show_level(written)
        return f"{said} on {parts[link]}"
    head, dot, last = factor.partition(".")
    if not dot:
        return plain_words(factor, written, cc_name)
    if head == "cc" or says_where(head, last, written):
        return f"{cc_name(show_level(written))} at {last}"
    if f"{head}.{last}" in PARTS:  # of a setting that has several, each a level of its own
        return PARTS[f"{head}.{last}"].format(show_level(written))
    if head in SETTINGS:
        return f"{head} {last} {with_units(show_level(written))}"
    words = plain_words(last, written, cc_name)
    return f"{words} {head}" if head in DIRECTIONS else f"{head}: {words}"


def says_where(factor: str, end: str, written: Any) -> bool:
    """Whether a factor of a file's own ("where") is of the congestion control at an end."""
    return factor not in SETTINGS and end in ENDS and isinstance(written, str)


def plain_words(factor: str, written: Any, cc_name: Callable[[str], str]) -> str:
    """The same of a factor that is of the whole run."""
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
    if factor == "where":  # a file's own, whose other levels name an end
        return f"{cc_name(level)} everywhere"
    phrase = PHRASES.get(factor)
    if factor.endswith("tcp_memory") and not level[:1].isdigit():
        return f"{level} TCP memory"
    own = phrase == "{}"
    if phrase is None or (own and level.isdigit()) or not (own or level[:1].isdigit()):
        return f"{LETTERS.get(factor, factor.replace('_', ' '))} {level}"
    return phrase.format(level)


def cell_words(levels: Mapping[str, Any], cc_name: Callable[[str], str] = lambda name: name) -> str:
    """A cell's levels in a line, as people say them: "16 streams, gost+ws, bbr"."""
    return ", ".join(level_words(factor, written, cc_name) for factor, written in levels.items())
