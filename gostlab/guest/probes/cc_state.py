"""What a congestion control says of its own state, as cc_state.jsonl.gz.

A module of the lab's (cc/gostlab_cc.h) shows its state in /proc/gostlab-<module>: whenever a
socket of it is sampled, and with `acks: on` at every ACK. Each line there is the time, the socket's
two ends, the names and, behind a tab, the values.
"""

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.guest.probes.trace_spool import Spool
from gostlab.registry.congestion_controls import module_name
from gostlab.results import read_series
from gostlab.results.metrics import path_leg

PROC = Path("/proc")
MODULES = Path("/sys/module")
RAW, FILE = "cc_state.raw", "cc_state.jsonl.gz"


@dataclass(frozen=True)
class Shown:
    """One line of a module: what a socket's congestion control said of itself."""

    local: str  # ip:port
    peer: str
    at_s: float
    values: dict[str, int | str]


def parse_shown(line: str) -> Shown | None:
    """A line of /proc/gostlab-<module>, or None; a name `phase=A|B` gives its value a word."""
    head, tab, values = line.partition("\t")
    words = head.split(" ")
    if not tab or len(words) < 4:
        return None
    found: dict[str, int | str] = {}
    for name, value in zip(words[3:], values.split(), strict=False):
        key, _, meanings = name.partition("=")
        known = meanings.split("|") if meanings else []
        number = int(value)
        found[key] = known[number] if 0 <= number < len(known) else number
    return Shown(words[1], words[2], int(words[0]) / 1e9, found)


@contextmanager
def tracing_states(folder: Path, ccs: Sequence[str], every_ack: bool) -> Iterator[Spool]:
    """The states that a run's modules show, until the end of the block."""
    with ExitStack() as undo:
        files = []
        for module in map(module_name, ccs):
            shown = PROC / f"gostlab-{module}"
            if not shown.exists():
                continue
            (MODULES / module / "parameters/gostlab_every_ack").write_text(str(int(every_ack)))
            files.append(os.open(shown, os.O_RDONLY))
            undo.callback(os.close, files[-1])
        trace = Spool(folder / RAW, files, "cc-state")
        undo.callback(trace.end)
        yield trace


def save_states(folder: Path, started_s: float) -> dict[str, Any] | None:
    """cc_state.jsonl.gz, of the sockets that sockets.jsonl has across the WAN, and what env.json
    says of it; None where no module showed anything. Of a flow with several sockets each row says
    which.
    """
    raw = folder / RAW
    if not raw.exists():
        return None
    sampled = read_series(folder, "sockets")
    crossing = path_leg(row["leg"] for row in sampled)
    flows = {(row["local"], row["peer"]): row["flow"] for row in sampled if row["leg"] == crossing}
    sockets = Counter(flows.values())
    rows = lost = 0
    part = folder / f"{FILE}.part"
    with (
        raw.open(encoding="ascii", errors="replace") as lines,
        gzip.open(part, "wt", encoding="ascii") as file,
    ):
        for line in lines:
            if line.startswith("lost "):
                lost += int(line.split()[1])
                continue
            shown = parse_shown(line)
            flow = flows.get((shown.local, shown.peer)) if shown is not None else None
            if shown is None or flow is None:
                continue
            which = {"socket": shown.local} if sockets[flow] > 1 else {}
            row = {"t_s": round(shown.at_s - started_s, 6), "flow": flow, **which, **shown.values}
            file.write(json.dumps(row) + "\n")
            rows += 1
    raw.unlink()
    if not rows:
        part.unlink()
        return None
    part.rename(folder / FILE)
    return {"rows": rows, "lines_lost": lost}
