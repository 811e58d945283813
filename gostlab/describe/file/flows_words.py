"""Flows as they are written on the command line: a=cubic,b=bbr*2/rtt=80ms/start=10s.

    NAME=CC[|CC…][*COUNT][/FIELD=VALUE…]

`*3` makes three of it, called NAME1 to NAME3; alternatives of a congestion control are compared.
The fields are those that an experiment's file gives a flow.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gostlab.declared.errors import BadInput, bounded
from gostlab.describe.file.document import meant
from gostlab.describe.file.settings import FLOW_FIELDS

FLOW = re.compile(r"([^=/*|]+)=((?:[^=/*(]|\([^)]*\))+?)(?:\*([0-9]+))?((?:/[^/=]+=[^/]*)*)")
MOST = 64  # of one kind: as many as there may be hosts


@dataclass(frozen=True)
class Contest:
    """Flows that compete: each one's fields, and by flow what it is compared with."""

    flows: Mapping[str, Mapping[str, str]]
    factors: Mapping[str, tuple[str, ...]]


def is_short(text: str) -> bool:
    """Whether flows are written in words, and not as a file has them."""
    return not text.lstrip().startswith("{")


def read_flows_words(text: str) -> Contest:
    """Raises BadInput naming what cannot be read."""
    flows: dict[str, dict[str, str]] = {}
    factors: dict[str, tuple[str, ...]] = {}
    for part in outside_brackets(text):
        found = FLOW.fullmatch(part.strip())
        if found is None:
            raise BadInput(
                f"--flows {part.strip()!r:.80}: not like a=cubic, or b=bbr*2/rtt=80ms/start=10s"
            )
        name, cc, count, more = found.groups()
        numbers = range(1, int(count) + 1) if count else [""]
        bounded(f"--flows {name}: {count} of it", len(numbers), 1, MOST)
        fields = dict(field.split("=", 1) for field in more.split("/")[1:])
        for field in fields:
            if field not in FLOW_FIELDS or field == "cc":
                advice = meant(field, sorted(FLOW_FIELDS))
                raise BadInput(f"--flows {name}: {field}: no field of a flow ({advice})")
        ccs = tuple(each.strip() for each in cc.split("|"))
        for number in numbers:
            called = f"{name.strip()}{number}"
            if called in flows:
                raise BadInput(f"--flows {called}: named twice")
            flows[called] = fields if len(ccs) > 1 else {"cc": ccs[0], **fields}
            if len(ccs) > 1:
                factors[f"{called}.cc"] = ccs
    if len(flows) < 2:
        raise BadInput(f"--flows {text.strip()!r:.80}: one flow has no competitor (a=cubic,b=bbr)")
    return Contest(flows, factors)


def outside_brackets(text: str) -> list[str]:
    """What stands between commas, but for those within brackets, of a cc's parameters."""
    return [part for part in re.split(r",(?![^()]*\))", text) if part.strip()]


def as_said(flows: Mapping[str, Mapping[str, Any]]) -> str:
    """a (cubic) against b (bbr)."""
    return " against ".join(
        f"{name} ({fields['cc']})" if "cc" in fields else name for name, fields in flows.items()
    )
