"""Save the states that congestion controls report, as cc_state.jsonl.gz.

A module of the lab (cc/gostlab_cc.h) shows its state in /proc/gostlab-<module>: whenever one of its
sockets is sampled, and with `acks: on` at every ACK. Each line there has the time, the socket's two
ends, the names and, after a tab, the values.
"""

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from gostlab.guest.probes.trace_spool import Spool
from gostlab.registry.congestion_controls import module_name
from gostlab.results import read_series
from gostlab.results.metrics import path_leg

PROC = Path("/proc")
MODULES = Path("/sys/module")
RAW, FILE = "cc_state.raw", "cc_state.jsonl.gz"


@dataclass(frozen=True)
class StateLine:
    """One line of a module: the state of a socket's congestion control."""

    local: str  # ip:port
    peer: str
    at_s: float
    values: dict[str, int | str]


def parse_state_line(line: str) -> StateLine | None:
    """Parse a line of /proc/gostlab-<module>, or return None.

    A name `phase=A|B` makes its value a text.
    """
    head, tab, values = line.partition("\t")
    fields = head.split(" ")
    if not tab or len(fields) < 4:
        return None
    state: dict[str, int | str] = {}
    for name, value in zip(fields[3:], values.split(), strict=False):
        key, _, meanings = name.partition("=")
        labels = meanings.split("|") if meanings else []
        number = int(value)
        state[key] = labels[number] if 0 <= number < len(labels) else number
    return StateLine(fields[1], fields[2], int(fields[0]) / 1e9, state)


@contextmanager
def tracing_states(folder: Path, ccs: Sequence[str], every_ack: bool) -> Iterator[Spool]:
    """Record the states that a run's modules show, until the end of the block."""
    with ExitStack() as undo:
        files = []
        for module in map(module_name, ccs):
            proc_file = PROC / f"gostlab-{module}"
            if not proc_file.exists():
                continue
            (MODULES / module / "parameters/gostlab_every_ack").write_text(str(int(every_ack)))
            files.append(os.open(proc_file, os.O_RDONLY))
            undo.callback(os.close, files[-1])
        trace = Spool(folder / RAW, files, "cc-state")
        undo.callback(trace.end)
        yield trace


class StatesRecord(TypedDict):
    """The entry of env.json about cc_state.jsonl.gz."""

    rows: int
    lines_lost: int


def save_states(folder: Path, started_s: float) -> StatesRecord | None:
    """Write cc_state.jsonl.gz, and return its entry of env.json, or None without states.

    It has the sockets that sockets.jsonl has across the WAN. If a flow has several sockets, each
    row names its socket.
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
            state = parse_state_line(line)
            flow = flows.get((state.local, state.peer)) if state is not None else None
            if state is None or flow is None:
                continue
            socket_field = {"socket": state.local} if sockets[flow] > 1 else {}
            row = {
                "t_s": round(state.at_s - started_s, 6),
                "flow": flow,
                **socket_field,
                **state.values,
            }
            file.write(json.dumps(row) + "\n")
            rows += 1
    raw.unlink()
    if not rows:
        part.unlink()
        return None
    part.rename(folder / FILE)
    return {"rows": rows, "lines_lost": lost}
