# SPDX-License-Identifier: MIT
"""Run one connection over paths that change with its congestion control's state, in the sandbox.

The state is read from the socket at every ACK (cc/gostlab_cc.h).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Required, TypedDict

from gostlab import results, safe_read, sandbox
from gostlab.cc_cases.case import NeverHappened, NotShown
from gostlab.cc_cases.in_guest import AppRates, PathChange, Scenario
from gostlab.guest.probes.cc_state import parse_state_line
from gostlab.install.kernel_modules import KernelModule
from gostlab.registry.congestion_controls import kernel_name, module_name
from gostlab.sandbox import uml
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.sandbox.rootfs import root_without_run
from gostlab.spec.cpu_model import MachineModel

RATE_BPS = 12e6
PAYLOAD = 1448 / 1514  # share of a packet's bytes on the wire
RTT_S = 0.04
# Packets in flight over the plain path when it is full.
BDP_PKTS = RATE_BPS * PAYLOAD / 8 / 1448 * RTT_S
MEMORY_MIB = 256
SYSCALL_US = 5.0
LIMIT_S = 300.0  # CPU time of a scenario
MAX_WAIT_S = 1.0
ROWS, COUNTERS = "rows", "netstat"


# Scenarios by name: what differs from a path of 12 Mbit/s, 40 ms and 400 packets.
class ScenarioPath(TypedDict):
    path: str  # tc's words
    acks: str


PLAIN: ScenarioPath = {
    "path": f"netem rate {RATE_BPS:.0f} limit 400",
    "acks": f"netem delay {1000 * RTT_S:.0f}ms limit 100000",
}


class ScenarioChange(TypedDict, total=False):
    """Represent what of a scenario differs from PLAIN."""

    seconds: Required[float]
    path: str
    acks: str
    app: AppRates
    when: list[PathChange]


SCENARIOS: Mapping[str, ScenarioChange] = {
    "loss in startup": {
        "seconds": 4,
        "path": "netem rate 40000000 limit 400",
        "app": [[0, 13e6]],
        "when": [{"after_s": 1, "path": "netem rate 40000000 limit 400 loss 18%"}],
    },
    "slower in drain": {
        "seconds": 4,
        "path": "netem rate 12000000 limit 2000",
        "when": [{"state": "DRAIN", "after_s": 0, "path": "netem rate 5400000 limit 2000"}],
    },
    "loss in up": {
        "seconds": 5,
        "when": [
            {
                "state": "UP",
                "after_s": 1,
                "app": [[0, 8e6]],
                "path": "netem rate 12000000 limit 400 loss 12%",
            }
        ],
    },
    "limited": {"seconds": 7, "app": [[0, 3e6]]},
    "slower in down": {
        "seconds": 5,
        "path": "netem rate 6000000 limit 2000",
        "when": [{"state": "UP", "after_s": 0.5, "path": "netem rate 5040000 limit 2000"}],
    },
    "pause": {
        "seconds": 11,
        "when": [{"state": "CRUISE", "after_s": 2, "app": [[0, 0], [6, None]]}],
    },
    "aggregation": {"seconds": 6, "acks": "netem delay 40ms limit 100000 slot 20ms 20ms"},
    "sub-packet": {"seconds": 40, "path": "netem rate 64000 limit 50", "acks": "netem delay 10ms"},
    "ten times more": {
        "seconds": 5,
        "path": "netem rate 6000000 limit 2000",
        "when": [{"state": "CRUISE", "after_s": 2, "path": "netem rate 60000000 limit 2000"}],
    },
    "ten times less": {
        "seconds": 10,
        "path": "netem rate 60000000 limit 150",
        "when": [{"state": "CRUISE", "after_s": 2, "path": "netem rate 6000000 limit 150"}],
    },
    "policer": {"seconds": 10, "path": "tbf rate 10mbit burst 60000 limit 3100"},
    "idle": {
        "seconds": 4,
        "path": "netem rate 12000000 limit 60",
        "when": [{"after_s": 2, "app": [[0, 0], [1.5, None]]}],
    },
    "reordering": {
        "seconds": 8,
        "when": [
            {
                "state": "CRUISE",
                "after_s": 1,
                "path": "netem rate 12000000 limit 400 delay 25ms reorder 97%",
            },
            {"after_s": 4, "path": "netem rate 12000000 limit 400 delay 0ms"},
        ],
    },
    "delay spike": {
        "seconds": 7,
        "when": [
            {"state": "CRUISE", "after_s": 2, "acks": "netem delay 1200ms limit 100000"},
            {"after_s": 2.6, "acks": "netem delay 40ms limit 100000"},
        ],
    },
    "late acks": {
        "seconds": 4,
        "path": "netem rate 12000000 limit 60",
        "when": [{"after_s": 2, "acks": "netem delay 700ms limit 100000"}],
    },
    "shallow": {"seconds": 10, "path": "netem rate 12000000 limit 12"},
    "long": {"seconds": 42},
    "one percent": {"seconds": 25, "path": "netem rate 12000000 limit 400 loss 1%"},
    "pause in refill": {
        "seconds": 7,
        "when": [{"state": "REFILL", "after_s": 1, "app": [[0, 0], [0.06, 1e6], [0.3, None]]}],
    },
}


class StateRow(dict[str, Any]):
    """Represent the values that a congestion control showed at an ACK, and the time `t` in s."""

    def __missing__(self, key: str) -> Any:
        raise NotShown(f"it shows no {key} (GOSTLAB_SHOW in cc/gostlab_cc.h)")


class Trace:
    """Represent a scenario's rows, and how much each of the sender's TCP counters grew."""

    def __init__(self, rows: list[StateRow], counters: Mapping[str, int]) -> None:
        self.rows, self.counters = rows, counters

    def pairs(self) -> Iterator[tuple[StateRow, StateRow]]:
        return itertools.pairwise(self.rows)

    def changes(self, before: str, after: str) -> list[tuple[StateRow, StateRow]]:
        """Return the rows on both sides of each change from one state to another."""
        return [
            (one, other)
            for one, other in self.pairs()
            if (one["state"], other["state"]) == (before, after)
        ]

    def ends(self, state: str) -> list[tuple[StateRow, StateRow]]:
        """Return the rows on both sides of each end of a state."""
        return [
            (one, other) for one, other in self.pairs() if one["state"] == state != other["state"]
        ]

    def first_end(self, state: str) -> tuple[StateRow, StateRow]:
        """Return the rows on both sides of a state's first end. Raises NeverHappened."""
        for pair in self.ends(state):
            return pair
        raise NeverHappened(f"no state {state} that ends")

    def first_change(
        self, before: str, after: str, from_s: float = 0.0
    ) -> tuple[StateRow, StateRow]:
        """Return the rows on both sides of a first change after a time. Raises NeverHappened."""
        for pair in self.changes(before, after):
            if pair[1]["t"] > from_s:
                return pair
        raise NeverHappened(f"no change from {before} to {after}")

    def rows_in_state(self, state: str) -> list[StateRow]:
        """Return the rows in a state. Raises NeverHappened if there are none."""
        rows = [row for row in self.rows if row["state"] == state]
        if not rows:
            raise NeverHappened(f"never in state {state}")
        return rows

    @property
    def states(self) -> list[str]:
        """Return the states in their order, each once per visit."""
        return [state for state, _ in itertools.groupby(row["state"] for row in self.rows)]


def scenario_json(name: str, cc: str) -> Scenario:
    """Return what the guest needs to run a scenario."""
    return {**PLAIN, **SCENARIOS[name], "cc": kernel_name(cc), "module": module_name(cc)}


def read_trace(folder: Path) -> Trace:
    """Read a scenario's rows and counters. Raises ResultsError, OSError."""
    lines = read_ascii_lines(folder / ROWS)
    if lost := [line for line in lines if line.startswith("lost ")]:
        raise results.ResultsError(f"{folder / ROWS}: {lost[0]}: rows that were not read in time")
    states = [state for state in map(parse_state_line, lines) if state is not None]
    rows = [StateRow(t=state.at_s - states[0].at_s, **state.values) for state in states]
    netstat = read_ascii_lines(folder / COUNTERS)
    names, before, _, after = [line.split()[1:] for line in netstat if line.startswith("TcpExt")]
    grown = [int(late) - int(early) for early, late in zip(before, after, strict=True)]
    return Trace(rows, dict(zip(names, grown, strict=True)))


def read_ascii_lines(file: Path) -> list[str]:
    return safe_read.read_bytes(file).decode("ascii", "replace").splitlines()


def start_guest(
    kernel: Path, module: KernelModule, scenario: Scenario, folder: Path, cpu: int
) -> uml.Guest:
    """Start a guest that runs one scenario. Raises MachineError, OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / COUNTERS).unlink(missing_ok=True)
    results.write_json(folder / "scenario.json", scenario)
    return uml.boot(
        kernel,
        folder,
        sandbox.guest_argv(f"{__package__}.in_guest", uml.GUEST_FOLDER),
        MachineModel(MEMORY_MIB, syscall_cost_us=SYSCALL_US),
        keep=[sandbox.CHECKOUT],
        cpu=cpu,
        limit_s=LIMIT_S,
        modules=[module],
        root=root_without_run(),
    )


def run_scenarios(
    names: Sequence[str],
    cc: str,
    module: KernelModule,
    kernel: Path,
    folders: Mapping[str, Path],
    *,
    jobs: int | None,
    say: Callable[[str], None],
) -> dict[str, float]:
    """Run scenarios without a result, one guest per CPU; return the seconds that each took.

    Raises MachineError, ResultsError, OSError.
    """
    waiting = [name for name in names if not (folders[name] / COUNTERS).exists()]
    total = len(waiting)
    took_s: dict[str, float] = {}
    running: dict[int, tuple[str, uml.Guest, float]] = {}
    with claimed_cpus(jobs) as cpus, ExitStack() as undo:
        while waiting or running:
            for cpu in cpus:
                if waiting and cpu not in running:
                    name = waiting.pop(0)
                    order = scenario_json(name, cc)
                    guest = start_guest(kernel, module, order, folders[name], cpu)
                    undo.callback(guest.kill)
                    running[cpu] = (name, guest, time.monotonic())
            say(f"[{len(took_s)}/{total}] {cc}: {', '.join(name for name, *_ in running.values())}")
            sandbox.wait_for_end([guest for _, guest, _ in running.values()], MAX_WAIT_S)
            for cpu, (name, guest, began_s) in list(running.items()):
                if guest.poll() is None:
                    continue
                del running[cpu]
                took_s[name] = time.monotonic() - began_s
                if not (folders[name] / COUNTERS).exists():
                    reason = guest.complaint or "its guest ended"
                    raise results.ResultsError(f"{folders[name]}: {name}: {reason} (see log.txt)")
    return took_s
