# SPDX-License-Identifier: MIT
"""Scenarios of one BBR connection over a path that changes, run in a sandbox once for all tests,
with the state read from the socket at every ACK.
"""

import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gostlab import sandbox
from gostlab.guest.probes.cc_state import parse_shown
from gostlab.install.kernel_modules import module_for
from tests.sandboxed import Lab

Row = dict[str, Any]
SCRIPT = Path(__file__).with_name("bbr_path.py")
RATE = 12e6
# 1448 bytes of payload in a packet of 1514 on the wire
PAYLOAD = 1448 / 1514
ACKS = "netem delay 40ms limit 100000"
# What is in flight over the plain path when it is full, in packets.
BDP = RATE * PAYLOAD / 8 / 1448 * 0.04


# A path of 12 Mbit/s that holds 400 packets, unless a scenario has its own.
PATH = f"netem rate {round(RATE)} limit 400"
MANY_S = 40  # more of them have a guest of their own
SCENARIOS: dict[str, dict[str, Any]] = yaml.safe_load("""
loss in startup:
  {seconds: 4, path: netem rate 40000000 limit 400, app: [[0, 13.0e+6]],
   when: [{after_s: 1, path: netem rate 40000000 limit 400 loss 18%}]}
slower in drain:
  {seconds: 4, path: netem rate 12000000 limit 2000,
   when: [{state: DRAIN, after_s: 0, path: netem rate 5400000 limit 2000}]}
loss in up:
  {seconds: 5, when: [{state: UP, after_s: 1, app: [[0, 8.0e+6]],
                       path: netem rate 12000000 limit 400 loss 12%}]}
limited: {seconds: 7, app: [[0, 3.0e+6]]}
slower in down:
  {seconds: 5, path: netem rate 6000000 limit 2000,
   when: [{state: UP, after_s: 0.5, path: netem rate 5040000 limit 2000}]}
pause: {seconds: 11, when: [{state: CRUISE, after_s: 2, app: [[0, 0], [6, null]]}]}
aggregation: {seconds: 6, acks: netem delay 40ms limit 100000 slot 20ms 20ms}
sub-packet: {seconds: 40, path: netem rate 64000 limit 50, acks: netem delay 10ms}
ten times more:
  {seconds: 5, path: netem rate 6000000 limit 2000,
   when: [{state: CRUISE, after_s: 2, path: netem rate 60000000 limit 2000}]}
ten times less:
  {seconds: 10, path: netem rate 60000000 limit 150,
   when: [{state: CRUISE, after_s: 2, path: netem rate 6000000 limit 150}]}
policer: {seconds: 10, path: tbf rate 10mbit burst 60000 limit 3100}
idle:
  {seconds: 4, path: netem rate 12000000 limit 60,
   when: [{after_s: 2, app: [[0, 0], [1.5, null]]}]}
reordering:
  {seconds: 8,
   when: [{state: CRUISE, after_s: 1, path: netem rate 12000000 limit 400 delay 25ms reorder 97%},
          {after_s: 4, path: netem rate 12000000 limit 400 delay 0ms}]}
delay spike:
  {seconds: 7, when: [{state: CRUISE, after_s: 2, acks: netem delay 1200ms limit 100000},
                      {after_s: 2.6, acks: netem delay 40ms limit 100000}]}
late acks:
  {seconds: 4, path: netem rate 12000000 limit 60,
   when: [{after_s: 2, acks: netem delay 700ms limit 100000}]}
shallow: {seconds: 10, path: netem rate 12000000 limit 12}
long: {seconds: 42}
one percent: {seconds: 25, path: netem rate 12000000 limit 400 loss 1%}
pause in refill:
  {seconds: 7, when: [{state: REFILL, after_s: 1, app: [[0, 0], [0.06, 1.0e+6], [0.3, null]]}]}
""")


class Seen:
    """What a scenario came to."""

    def __init__(self, rows: list[Row], counters: dict[str, int]) -> None:
        self.rows, self.counters = rows, counters

    def changes(self, before: str, after: str) -> list[tuple[Row, Row]]:
        """The rows on both sides of each change of one state to another."""
        return [
            (one, other)
            for one, other in itertools.pairwise(self.rows)
            if (one["state"], other["state"]) == (before, after)
        ]

    def ends(self, state: str) -> list[tuple[Row, Row]]:
        """The rows on both sides of each end of a state."""
        return [
            (one, other)
            for one, other in itertools.pairwise(self.rows)
            if one["state"] == state != other["state"]
        ]

    def of(self, state: str) -> list[Row]:
        return [row for row in self.rows if row["state"] == state]

    @property
    def states(self) -> list[str]:
        """The states in their order, each once."""
        return [state for state, _ in itertools.groupby(row["state"] for row in self.rows)]


@cache
def folder_of(lab: Lab, names: tuple[str, ...], cc: str) -> Path:
    """The folder of a guest that ran these scenarios."""
    module = module_for(cc, lab.kernel)
    assert module is not None
    folder = lab.folder()
    scenarios = {name: {"cc": cc, "path": PATH, "acks": ACKS, **SCENARIOS[name]} for name in names}
    (folder / "scenarios.json").write_text(json.dumps(scenarios), encoding="utf-8")
    words = ["/usr/bin/python3", str(SCRIPT), "/run/gostlab"]
    options = {"keep": [sandbox.CHECKOUT], "syscall_cost_us": 5.0, "modules": [module]}
    lab.boot(words, folder, **options).wait()
    return folder


@cache
def seen(lab: Lab, name: str, cc: str = "bbr3") -> Seen:
    """What a scenario came to: all but those of many seconds are run in one guest."""
    short = tuple(each for each, asked in SCENARIOS.items() if asked["seconds"] <= MANY_S)
    folder = folder_of(lab, short if name in short else (name,), cc)
    netstat = folder / f"{name}.netstat"
    assert netstat.exists(), (folder / "log.txt").read_text(errors="replace")
    lines = (folder / f"{name}.rows").read_text(encoding="ascii").splitlines()
    assert not [line for line in lines if line.startswith("lost ")]  # where too seldom looked at
    parsed = [shown for shown in map(parse_shown, lines) if shown is not None]
    rows = [{"t": shown.at_s - parsed[0].at_s, **shown.values} for shown in parsed]
    names, *values = [line for line in netstat.read_text().splitlines() if "TcpExt" in line]
    before, after = (map(int, line.split()[1:]) for line in (values[0], values[2]))
    grew = [now - then for then, now in zip(before, after, strict=True)]
    counters = dict(zip(names.split()[1:], grew, strict=True))
    return Seen(rows, counters)
