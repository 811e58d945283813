# SPDX-License-Identifier: MIT
"""Define a fit: path, measured numbers, free parameters, and the runs that answer requests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gostlab.search.level_set import LAST_TURNS, ProposedRun
from gostlab.search.measured_rates import Measurements, Observation
from gostlab.search.parameters import FreeParameter
from gostlab.search.prior_mean import TheoryInputs, theory_inputs
from gostlab.spec.compile import compile_run
from gostlab.spec.fit_record import FIT, JUDGE
from gostlab.spec.profile import Profile
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import Setting, merge_layers, read_override
from gostlab.spec.units import parse_rate, parse_share
from gostlab.tcpmodel.response_functions import bdp_bytes

MATRIX = "fit"
# A short run lasts a sixth of a full-length one, but at least this many RTTs and seconds, which a
# window needs to open.
SHORT_SHARE, MIN_ROUND_TRIPS, MIN_SHORT_S = 6, 20, 3
PAYLOAD_AT_MAX = 0.9  # share of a path's rate above which a goodput does not reveal a window
PROBES = 16  # positions at which both ways to compute the theory are compared


@dataclass(frozen=True)
class FitOrder:
    name: str  # name of the profile to write
    base: Profile
    measurements: Measurements
    free: tuple[FreeParameter, ...]
    command_line_settings: Mapping[str, Setting]  # settings of the command line
    points: int
    members: int
    judge_paths: int  # paths to try for the judges' numbers if no path meets them all
    repetitions: int
    seed: int
    out: Path
    results: Path
    machine: str  # sandbox | native

    @property
    def experiment(self) -> str:
        return f"fit-{self.name}"

    @property
    def rows(self) -> list[Observation]:
        """Return the numbers to fit on, then those to judge by."""
        return [*self.measurements.rows_for(FIT), *self.measurements.rows_for(JUDGE)]

    @property
    def has_short_runs(self) -> bool:
        """Return whether short runs are shorter than full-length ones."""
        return any(self.short_s(row) < self.whole_s(row) for row in self.measurements.rows_for(FIT))

    def settings(self, row: Observation) -> dict[str, Setting]:
        """Return the settings of a row's runs without the free ones."""
        path = read_override("profile", str(self.base.path_on_disk), origin="PROFILE")[0]
        # Settings of the command line override those of the file.
        return {
            **merge_layers(self.measurements.settings, row.levels, self.command_line_settings),
            "profile": path,
        }

    def whole_s(self, row: Observation) -> int:
        """Return the duration of a row's measurement, s."""
        length = self.settings(row).get("duration") or read_override("duration", "30s")[0]
        return int(length.value)

    def short_s(self, row: Observation) -> int:
        """Return the duration of a short run of a row, s."""
        whole_s = self.whole_s(row)
        if self.measurements.screen_s is not None:
            return min(whole_s, int(self.measurements.screen_s))
        rtt_s = self.base.rtt_ms / 1000
        least_s = max(MIN_SHORT_S, math.ceil(MIN_ROUND_TRIPS * rtt_s))
        return min(whole_s, max(least_s, math.ceil(whole_s / SHORT_SHARE)))

    def run(self, ask: ProposedRun) -> RunSpec:
        """Return the run that answers a request. Raises BadInput."""
        row = self.rows[ask.number]
        chosen = {
            free.sets: free.setting(position)
            for free, position in zip(self.free, ask.position, strict=True)
        }
        length_s = self.whole_s(row) if ask.full_length else self.short_s(row)
        length = read_override("duration", f"{length_s}s")[0]
        # The duration is the search's choice and not a factor.
        written = {n: level.written for n, level in row.levels.items() if n != "duration"}
        written |= {
            free.name: free.text(position)
            for free, position in zip(self.free, ask.position, strict=True)
        }
        base = {name: setting for name, setting in self.settings(row).items() if name != "duration"}
        explicit = {**drop_overridden(base, chosen), **chosen, "duration": length}
        if self.machine == "native":
            explicit["clock"] = read_override("clock", "real")[0]
        run = compile_run(self.experiment, MATRIX, explicit, written, self.machine)
        return replace(run, repetition=ask.repetition, seed=1000 * self.seed + ask.repetition)

    def explaining_window(self) -> tuple[float, float] | None:
        """Return the range of windows that explain every number to fit on without any loss.

        It is in bytes per connection; None if there is no such window, no loss is free, or the
        path's rate explains the numbers.
        """
        if not any(free.sets.rpartition(".")[2] == "loss" for free in self.free):
            return None
        least, most = 0.0, math.inf
        for number, row in enumerate(self.measurements.rows_for(FIT)):
            run = self.run(ProposedRun((0.5,) * len(self.free), number, True))
            rate_bps, rtt_s = run.path[run.data_direction].rate_bps, run.flows[0].rtt_ms / 1000
            at_rate = rate_bps and row.most_bps >= PAYLOAD_AT_MAX * rate_bps
            if at_rate or not rtt_s or not all(flow.is_tcp for flow in run.flows):
                return None
            connections = sum(flow.streams for flow in run.flows)
            least = max(least, bdp_bytes(row.least_bps, rtt_s) / connections)
            most = min(most, bdp_bytes(row.most_bps, rtt_s) / connections)
        return (least, most) if 0 < least <= most < math.inf else None

    def most(self) -> tuple[int, float]:
        """Return the maximum number of runs and their total load duration (s)."""
        positions = 1 + (1 + LAST_TURNS) * (1 + self.members) * self.repetitions
        judged = (1 + self.members) * self.repetitions + self.judge_paths
        positions += self.judge_paths if self.measurements.rows_for(JUDGE) else 0
        runs, length_s = 0, 0.0
        for row in self.rows:
            if row.use == FIT:
                runs += self.points + positions
                length_s += self.points * self.short_s(row) + positions * self.whole_s(row)
            else:
                runs += judged
                length_s += judged * self.whole_s(row)
        return runs, length_s


# Many positions have the same text of four digits.
loss_of = cache(lambda text: float(parse_share(text)))
rate_of = cache(parse_rate)


class TheoryRates:
    """Compute the theoretical rates of a fit's runs.

    The search evaluates tens of thousands of positions, and compiling a run for each takes a
    millisecond. Loss and rate are therefore substituted directly if that gives the same result.
    """

    def __init__(self, order: FitOrder) -> None:
        self._order = order
        self._middle: dict[int, TheoryInputs] = {}
        self._quick: dict[int, bool] = {}

    def __call__(self, number: int, positions: np.ndarray) -> np.ndarray:
        """Return ln(rate, bit/s) of a number at positions (n × parameters). Raises BadInput."""
        limits = self._quickly if self._is_quick(number) else self._by_a_run
        return np.log([limits(number, position).goodput_bps for position in positions.tolist()])

    def _by_a_run(self, number: int, position: Sequence[float]) -> TheoryInputs:
        return theory_inputs(self._order.run(ProposedRun(tuple(position), number, True)))

    def _quickly(self, number: int, position: Sequence[float]) -> TheoryInputs:
        changed: dict[str, Any] = {}
        for free, at in zip(self._order.free, position, strict=True):
            what = free.sets.rpartition(".")[2]
            if what == "loss":
                changed["loss"] = loss_of(free.text(at))
            elif what == "rate":
                changed["rate_bps"] = rate_of(free.text(at))
        return replace(self._middle[number], **changed)

    def _is_quick(self, number: int) -> bool:
        """Return whether both computations agree at random positions."""
        if number not in self._quick:
            count = len(self._order.free)
            self._middle[number] = self._by_a_run(number, [0.5] * count)
            positions = np.random.default_rng(0).random((PROBES, count)).tolist()
            positions += [[end] * count for end in (0.0, 1.0)]
            self._quick[number] = all(
                self._quickly(number, position) == self._by_a_run(number, position)
                for position in positions
            )
        return self._quick[number]


def drop_overridden(
    settings: Mapping[str, Setting], chosen: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Return the settings without those that a free parameter replaces.

    A free `loss` replaces the losses of both directions.
    """
    ends = {name for name in chosen if "." not in name}
    return {
        name: setting
        for name, setting in settings.items()
        if name not in chosen and not (name.partition(".")[2] in ends and "." in name)
    }
