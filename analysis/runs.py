"""Result folders, read: the only thing the analysis knows about a run.

Every folder under results/EXPERIMENT becomes a `Run` or a `Broken`; none is left out. What a folder holds is
written down in gostlab.results; here only plain JSON is read, so results of an older lab stay readable.
"""
from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

# How a run stands. The first four are status.json's; a folder without it is unfinished; corrupt is a finished
# run whose own files cannot be read, and it counts as nothing else.
STATES = ("ok", "failed", "unsupported", "interrupted", "unfinished", "corrupt")
VERDICTS = ("ok", "degraded", "invalid")
LEGS = ("app", "wan", "exit")
# A CPU with less idle time than this has none left; a bottleneck used more than this is full.
IDLE_SHARE_LOW = 0.05
LINK_SHARE_FULL = 0.95
LOG_TAIL_BYTES = 8_000
COMMANDS_BYTES = 40_000
# What says who a run is among its repetitions, and what does not change its answer.
NOT_SETTINGS = frozenset({"schema", "experiment", "matrix", "factors", "repetition", "seed", "memory_mib",
                          "sample_ms"})

Scalar = str | float | bool | None


class Unreadable(Exception):
    """A file of a result folder is missing, cut short or not what it should be; the message names it."""


@dataclass(frozen=True)
class Check:
    """One line of fidelity.json."""
    name: str
    verdict: str
    asked: str
    got: str
    unit: str
    reason: str


@dataclass(frozen=True)
class Leg:
    """One TCP hop's sending sockets, from legs.json."""
    name: str                     # app | wan | exit
    sender: str
    cc: tuple[str, ...]
    segments_out: int
    segments_retransmitted: int


@dataclass(frozen=True)
class Environment:
    """What produced a run's numbers, from env.json."""
    kernel: str
    hz: str
    machine: str
    clock: str
    syscall_cost_us: float | None
    lab: str                      # version and commit
    iproute2: str
    iperf3: str
    mininet: str
    tunnel: str                   # version of the program that was the tunnel; "none" for direct
    tunnel_kind: str              # gost | relay | none
    tunnel_sha256: str
    host: str

    @property
    def synthetic(self) -> bool:
        """Whether these numbers were made up for a test."""
        return self.lab.split(" ")[0] == "fixture"


@dataclass(frozen=True)
class Run:
    """One run, as its folder tells it. What it did not leave behind is None, never 0."""
    folder: Path
    state: str                    # one of STATES
    error: str | None             # a line, where the state is not ok
    experiment: str
    matrix: str
    factors: tuple[tuple[str, Scalar], ...]
    settings: tuple[tuple[str, Scalar], ...]      # all of run.json that decides the answer, flattened, sorted
    repetition: int
    seed: int
    clock: str
    syscall_cost_us: float
    placement: str
    profile: str
    tunnel: str
    cc: str
    streams: int
    duration_s: float
    direction: str
    rate_bps: float | None        # of the direction the data takes
    rtt_ms: float
    buffer_pkts: int | None
    mtu_bytes: int
    offloads: bool
    verdict: str | None = None
    checks: tuple[Check, ...] = ()
    goodput_mbit: float | None = None
    retr: int | None = None       # iperf3's own count: its sockets, which in a tunnel are the loopback's
    legs: tuple[Leg, ...] = ()
    nstat: tuple[tuple[str, int], ...] = ()       # node -> TcpRetransSegs of its namespace
    idle_share: float | None = None               # of the guest's CPU, in the median second of the load
    idle_share_load: float | None = None          # over the whole load, connecting and draining included
    link_share: float | None = None               # of the bottleneck's rate, in the median second of the load
    wall_s: float | None = None
    environment: Environment | None = None
    commands: str = field(default="", repr=False)
    log_tail: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """The folder's name."""
        return printable(self.folder.name)

    @property
    def counts(self) -> bool:
        """Whether it goes into summaries: finished, and an answer to the question."""
        return self.state == "ok" and self.verdict != "invalid"

    @property
    def bdp_pkts(self) -> float | None:
        """The path's bandwidth-delay product in packets of MTU size; None without a rate."""
        return None if self.rate_bps is None else self.rate_bps * self.rtt_ms / 1000 / 8 / self.mtu_bytes

    @property
    def buffer_bdp(self) -> float | None:
        """The bottleneck's buffer as a multiple of the BDP."""
        if self.buffer_pkts is None or not self.bdp_pkts:
            return None
        return self.buffer_pkts / self.bdp_pkts

    def retransmitted(self, leg: str) -> int | None:
        """Segments that a leg's sending sockets sent again; None where the run has no such leg."""
        found = [each.segments_retransmitted for each in self.legs if each.name == leg]
        return sum(found) if found else None

    def segments(self, leg: str) -> int | None:
        """Segments that a leg's sending sockets sent; None where the run has no such leg."""
        found = [each.segments_out for each in self.legs if each.name == leg]
        return sum(found) if found else None


@dataclass(frozen=True)
class Broken:
    """A folder that does not even say which run it is."""
    folder: Path
    error: str

    @property
    def name(self) -> str:
        """The folder's name."""
        return printable(self.folder.name)


@dataclass(frozen=True)
class Results:
    """An experiment's folders."""
    experiment: str
    runs: tuple[Run, ...]
    broken: tuple[Broken, ...]

    @property
    def synthetic(self) -> bool:
        """Whether any of its numbers were made up for a test."""
        return any(run.environment is not None and run.environment.synthetic for run in self.runs)


def load_results(results: Path, experiment: str) -> Results:
    """Every run folder of an experiment, in the order of their names. An absent folder has none."""
    folder = results / experiment
    try:
        found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        found = []
    loaded = [load_run(path) for path in found]
    return Results(experiment, tuple(run for run in loaded if isinstance(run, Run)),
                   tuple(run for run in loaded if isinstance(run, Broken)))


def load_run(folder: Path) -> Run | Broken:
    """Read one folder. What is wrong with it is in the answer; nothing is raised for a folder's contents."""
    try:
        asked = asked_for(folder)
    except Unreadable as error:
        return Broken(folder, str(error))
    told: dict[str, Any] = {"commands": head_of(folder / "commands.sh"), "log_tail": logs_of(folder)}
    if not (folder / "status.json").exists():
        return Run(folder=folder, state="unfinished", error="no status.json: it is running or was cut off",
                   **asked, **told)
    try:
        status = read_object(folder / "status.json")
        state = text(status, "outcome", "status.json")
        if state not in ("ok", "failed", "unsupported", "interrupted"):
            raise Unreadable(f"status.json: outcome {state!r} is not one that the lab writes")
        told["wall_s"] = optional_number(status, "wall_s")
        complaint = printable(str(status["error"])) if status.get("error") else None
        if state == "ok":
            return Run(folder=folder, state=state, error=None, **asked, **told, **measured(folder))
    except Unreadable as error:
        return Run(folder=folder, state="corrupt", error=str(error), **asked, **told)
    return Run(folder=folder, state=state, error=complaint or "no reason given", **asked, **told,
               **left_behind(folder))


def asked_for(folder: Path) -> dict[str, Any]:
    """The fields of a Run that run.json gives. Raises Unreadable."""
    name = "run.json"
    run = read_object(folder / name)
    path = mapping(run, "path", name)
    directions = {key: mapping(path, key, name) for key in ("forward", "reverse")}
    heading = text(run, "direction", name)
    loaded = directions["reverse" if heading == "download" else "forward"]
    return {
        "experiment": text(run, "experiment", name), "matrix": text(run, "matrix", name),
        "factors": flatten(run.get("factors") or {}),
        "settings": flatten({key: value for key, value in run.items() if key not in NOT_SETTINGS}),
        "repetition": int(number(run, "repetition", name)), "seed": int(number(run, "seed", name)),
        "clock": text(run, "clock", name), "syscall_cost_us": optional_number(run, "syscall_cost_us") or 0.0,
        "placement": text(run, "placement", name), "profile": text(run, "profile", name),
        "tunnel": text(run, "tunnel", name), "cc": text(run, "cc", name),
        "streams": int(number(run, "streams", name)), "duration_s": number(run, "duration_s", name),
        "direction": heading, "rate_bps": optional_number(loaded, "rate_bps"),
        "rtt_ms": sum(number(each, "delay_ms", name) for each in directions.values()),
        "buffer_pkts": None if loaded.get("buffer_pkts") is None else int(number(loaded, "buffer_pkts", name)),
        "offloads": bool(run.get("offloads")),
        "mtu_bytes": int(number(run, "mtu", name)) if run.get("mtu") else 1500,
    }


def measured(folder: Path) -> dict[str, Any]:
    """The fields of a Run that a good one must have left behind. Raises Unreadable."""
    report = read_object(folder / "iperf3.json")
    if report.get("error"):
        raise Unreadable(f"iperf3.json: {printable(str(report['error']))}")
    end = mapping(report, "end", "iperf3.json")
    received = mapping(end, "sum_received", "iperf3.json")
    retransmits = mapping(end, "sum_sent", "iperf3.json").get("retransmits")
    fidelity = read_object(folder / "fidelity.json")
    verdict = text(fidelity, "verdict", "fidelity.json")
    if verdict not in VERDICTS:
        raise Unreadable(f"fidelity.json: verdict {verdict!r} is not one that the lab gives")
    checks = read_checks(fidelity)
    asked = asked_for(folder)
    whole = next((float(row["got"]) for row in fidelity["checks"]
                  if row.get("name") == "cpu_idle_share" and is_number(row.get("got"))), None)
    idle = idle_share(folder, asked["duration_s"])
    legs, nstat = read_legs(read_object(folder / "legs.json"))
    return {"goodput_mbit": number(received, "bits_per_second", "iperf3.json") / 1e6,
            "retr": int(retransmits) if isinstance(retransmits, int | float) else None,
            "verdict": verdict, "checks": checks, "idle_share": whole if idle is None else idle,
            "idle_share_load": whole, "link_share": link_share(folder, asked),
            "legs": legs, "nstat": nstat, "environment": read_environment(read_object(folder / "env.json"))}


def left_behind(folder: Path) -> dict[str, Any]:
    """What a run that did not end well left of the same: reasons and environment, never a number to compare."""
    found: dict[str, Any] = {}
    try:
        fidelity = read_object(folder / "fidelity.json")
        found["checks"] = read_checks(fidelity)
        found["environment"] = read_environment(read_object(folder / "env.json"))
    except Unreadable:
        pass        # its own failure is what matters, and that is told
    return found


def read_checks(fidelity: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks of fidelity.json. Raises Unreadable."""
    rows = fidelity.get("checks")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable("fidelity.json: checks: not a list of checks")
    return tuple(Check(*(shown(row.get(key)) for key in ("name", "verdict", "asked", "got", "unit", "reason")))
                 for row in rows)


def read_legs(legs: Mapping[str, Any]) -> tuple[tuple[Leg, ...], tuple[tuple[str, int], ...]]:
    """Legs, and every node's own count of retransmitted segments. Raises Unreadable."""
    rows = legs.get("legs")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable("legs.json: legs: not a list of legs")
    counted = legs.get("nstat")
    nodes = counted if isinstance(counted, dict) else {}
    return (tuple(Leg(text(row, "leg", "legs.json"), shown(row.get("sender")),
                      tuple(shown(name) for name in row.get("cc") or ()),
                      int(number(row, "segments_out", "legs.json")),
                      int(number(row, "segments_retransmitted", "legs.json"))) for row in rows),
            tuple(sorted((printable(node), int(counters["TcpRetransSegs"])) for node, counters in nodes.items()
                         if isinstance(counters, dict) and isinstance(counters.get("TcpRetransSegs"), int))))


def idle_share(folder: Path, duration_s: float) -> float | None:
    """The CPU's idle share in the median interval of the load, from hosts.jsonl; None without two samples.

    Not the share of the whole: while connections open and the last data drain the CPU rests, and a run that had none
    left for all of its seconds between would look as if it had.
    """
    rows = [row for row in load_series(folder, "hosts")
            if row["t_s"] <= duration_s and is_number(row.get("cpu_busy_s")) and is_number(row.get("cpu_idle_s"))]
    shares = []
    for first, second in pairwise(rows):
        idle = second["cpu_idle_s"] - first["cpu_idle_s"]
        spent = idle + second["cpu_busy_s"] - first["cpu_busy_s"]
        if spent > 0:
            shares.append(idle / spent)
    return median(shares) if shares else None


def link_share(folder: Path, asked: Mapping[str, Any]) -> float | None:
    """How much of the bottleneck's rate was used in the median interval of the load; None without a rate or samples."""
    heading = "reverse" if asked["direction"] == "download" else "forward"
    rows = [row for row in load_series(folder, "queues") if row["t_s"] <= asked["duration_s"]
            and (row.get("role"), row.get("direction")) == ("bottleneck", heading) and is_number(row.get("sent_bytes"))]
    if not asked["rate_bps"]:
        return None
    shares = [8 * (second["sent_bytes"] - first["sent_bytes"]) / (second["t_s"] - first["t_s"]) / asked["rate_bps"]
              for first, second in pairwise(rows) if second["t_s"] > first["t_s"]]
    return median(shares) if shares else None


def read_environment(env: Mapping[str, Any]) -> Environment:
    """What env.json says; a part that it does not name is "unknown"."""
    def part(value: Any) -> Mapping[str, Any]:
        return value if isinstance(value, dict) else {}
    lab, host = part(env.get("lab")), part(env.get("host"))
    tunnel = part(env.get("tunnel"))
    return Environment(
        kernel=shown(env.get("kernel"), "unknown"), hz=shown(env.get("hz"), "unknown"),
        machine=shown(env.get("machine"), "unknown"), clock=shown(env.get("clock"), "unknown"),
        syscall_cost_us=optional_number(env, "syscall_cost_us"),
        lab=" ".join(shown(lab.get(key)) for key in ("version", "commit") if lab.get(key)) or "unknown",
        iproute2=shown(env.get("iproute2"), "unknown"), iperf3=shown(env.get("iperf3"), "unknown"),
        mininet=shown(env.get("mininet"), "unknown"),
        tunnel=shown(tunnel.get("version"), "unknown") if tunnel else "none",
        tunnel_kind=shown(tunnel.get("kind"), "unknown") if tunnel else "none",
        tunnel_sha256=shown(tunnel.get("sha256")),
        host=" · ".join(shown(host.get(key)) for key in ("cpu", "kernel") if host.get(key)) or "unknown")


def load_series(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of sockets.jsonl, queues.jsonl or hosts.jsonl; a line that was cut short ends the series."""
    rows: list[dict[str, Any]] = []
    try:
        with (folder / f"{name}.jsonl").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                row = json.loads(line)
                if not isinstance(row, dict) or not is_number(row.get("t_s")):
                    break
                rows.append(row)
    except (OSError, ValueError):
        return rows
    return rows


def load_intervals(folder: Path) -> list[tuple[float, float]]:
    """(end of the interval in s, Mbit/s sent) from iperf3's report; empty where it has none."""
    try:
        rows = read_object(folder / "iperf3.json").get("intervals") or []
        return [(number(row["sum"], "end", ""), number(row["sum"], "bits_per_second", "") / 1e6) for row in rows]
    except (Unreadable, TypeError, KeyError):
        return []


def to_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run, for people who want to go on from here; see the units in the names."""
    rows = [{
        "run": run.name, "state": run.state, "verdict": run.verdict, "matrix": run.matrix, "tunnel": run.tunnel,
        "cc": run.cc, "streams": run.streams, "repetition": run.repetition, "seed": run.seed, "clock": run.clock,
        "syscall_cost_us": run.syscall_cost_us, "profile": run.profile, "placement": run.placement,
        "direction": run.direction, "duration_s": run.duration_s,
        "rate_mbit": None if run.rate_bps is None else run.rate_bps / 1e6, "rtt_ms": run.rtt_ms,
        "buffer_pkts": run.buffer_pkts, "buffer_bdp": run.buffer_bdp, "goodput_mbit": run.goodput_mbit,
        "iperf3_retr": run.retr, **{f"{leg}_retransmitted": run.retransmitted(leg) for leg in LEGS},
        "wan_segments_out": run.segments("wan"), "idle_share": run.idle_share,
        "idle_share_whole_load": run.idle_share_load, "link_share": run.link_share,
        "tunnel_program": run.environment.tunnel if run.environment else None,
        "kernel": run.environment.kernel if run.environment else None,
        "lab": run.environment.lab if run.environment else None, "error": run.error,
    } for run in runs]
    return pd.DataFrame(rows, columns=None if rows else ["run", "state", "verdict", "goodput_mbit"])


# -- the edge: bytes of others to values of ours ------------------------------------------------------------

def read_object(path: Path) -> dict[str, Any]:
    """A JSON object. Raises Unreadable, naming the file and what is wrong."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise Unreadable(f"{path.name}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        size = path.stat().st_size
        raise Unreadable(f"{path.name}: " + ("it is empty" if size == 0 else f"not JSON ({printable(str(error))})")) \
            from error
    if not isinstance(value, dict):
        raise Unreadable(f"{path.name}: not an object")
    return value


def mapping(holder: Mapping[str, Any], key: str, file: str) -> Mapping[str, Any]:
    """An object inside one. Raises Unreadable."""
    value = holder.get(key)
    if not isinstance(value, dict):
        raise Unreadable(f"{file}: {key} is missing")
    return value


def text(holder: Mapping[str, Any], key: str, file: str) -> str:
    """A string inside an object. Raises Unreadable."""
    value = holder.get(key)
    if not isinstance(value, str):
        raise Unreadable(f"{file}: {key} is missing")
    return printable(value)


def number(holder: Mapping[str, Any], key: str, file: str) -> float:
    """A finite number inside an object. Raises Unreadable."""
    value = holder.get(key)
    if not is_number(value):
        raise Unreadable(f"{file}: {key} is missing or no number")
    return float(value)  # type: ignore[arg-type]


def optional_number(holder: Mapping[str, Any], key: str) -> float | None:
    """A finite number inside an object, or None."""
    value = holder.get(key)
    return float(value) if is_number(value) else None  # type: ignore[arg-type]


def is_number(value: object) -> bool:
    """A finite number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def flatten(value: Mapping[str, Any], prefix: str = "") -> tuple[tuple[str, Scalar], ...]:
    """Nested objects as sorted (dotted key, value) pairs, so that two descriptions can be compared."""
    pairs: list[tuple[str, Scalar]] = []
    for key, inner in value.items():
        name = f"{prefix}{printable(str(key))}"
        if isinstance(inner, Mapping):
            pairs += flatten(inner, f"{name}.")
        elif isinstance(inner, str):
            pairs.append((name, printable(inner)))
        elif inner is None or isinstance(inner, bool | int | float):
            pairs.append((name, float(inner) if inner is not None and is_number(inner) else inner))
        else:
            pairs.append((name, printable(json.dumps(inner, sort_keys=True))))
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def shown(value: object, missing: str = "") -> str:
    """A value of JSON as a person reads it."""
    if value is None:
        return missing
    if isinstance(value, list):
        return ", ".join(shown(each) for each in value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    return printable(str(value))


ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def printable(words: str) -> str:
    """Text without what would break a page, a figure or a terminal: control characters, halves of pairs."""
    return UNPRINTABLE.sub("\ufffd", ESCAPES.sub("", words.replace("\r\n", "\n")))


def head_of(path: Path) -> str:
    """The first bytes of a text file; empty where it is not there."""
    try:
        with path.open("rb") as file:
            data = file.read(COMMANDS_BYTES + 1)
    except OSError:
        return ""
    words = printable(data[:COMMANDS_BYTES].decode("utf-8", errors="replace"))
    return words + ("\n[cut: the rest is in the folder]" if len(data) > COMMANDS_BYTES else "")


def tail_of(path: Path) -> str:
    """The last lines of a text file; empty where it is not there."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            data = file.read()
    except OSError:
        return ""
    lines = printable(data.decode("utf-8", errors="replace")).rstrip().split("\n")
    cut = size > LOG_TAIL_BYTES
    return "\n".join((["[…]"] if cut else []) + lines[1 if cut else 0:][-40:])


def logs_of(folder: Path) -> str:
    """The end of log.txt and of the tunnel ends' own logs."""
    named = [(path.name, tail_of(path)) for path in [folder / "log.txt", *sorted(folder.glob("tunnel-*.log"))]]
    said = [(name, words) for name, words in named if words.strip()]
    return "\n\n".join(words if name == "log.txt" else f"== {name}\n{words}" for name, words in said)
