"""What a fit is to do: which path, which numbers, what is free; and the runs that answer it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gostlab.search.level_set import LAST_TURNS, Ask
from gostlab.search.observations import Measurements, Observation
from gostlab.search.parameters import Free
from gostlab.search.prior_mean import Limits, limits_of
from gostlab.spec.compile import resolve
from gostlab.spec.fit_record import FIT, JUDGE
from gostlab.spec.profile import Profile
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import Setting, merged, read_override
from gostlab.spec.units import rate, share
from gostlab.tcpmodel.response import bdp_bytes

MATRIX = "fit"
# A short run is a sixth of a whole one, and no shorter than this many round trips and seconds: what
# a window needs to open.
SHORT_SHARE, MIN_ROUND_TRIPS, MIN_SHORT_S = 6, 20, 3
PAYLOAD_AT_MAX = 0.9  # of a path's rate: what reaches it says nothing about a window
PROBES = 16  # places at which theory's short way is held against the long one


@dataclass(frozen=True)
class FitOrder:
    name: str  # of the profile that it is to write
    base: Profile
    measurements: Measurements
    free: tuple[Free, ...]
    own: Mapping[str, Setting]  # the command line's settings
    points: int
    members: int
    judge_paths: int  # to look for those that judge on, where none meets them all
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
        """The numbers to fit on, then those to judge by."""
        return [*self.measurements.used(FIT), *self.measurements.used(JUDGE)]

    @property
    def has_short_runs(self) -> bool:
        """Whether cheap runs are any shorter than whole ones."""
        return any(self.short_s(row) < self.whole_s(row) for row in self.measurements.used(FIT))

    def settings(self, row: Observation) -> dict[str, Setting]:
        """Those of a row's runs, but for what is free."""
        path = read_override("profile", str(self.base.path_on_disk), origin="PROFILE")[0]
        # the command line's are stronger than the file's
        return {**merged(self.measurements.settings, row.levels, self.own), "profile": path}

    def whole_s(self, row: Observation) -> int:
        """How long its measurement lasted."""
        length = self.settings(row).get("duration") or read_override("duration", "30s")[0]
        return int(length.value)

    def short_s(self, row: Observation) -> int:
        """How long a cheap run of it lasts."""
        whole_s = self.whole_s(row)
        if self.measurements.screen_s is not None:
            return min(whole_s, int(self.measurements.screen_s))
        rtt_s = self.base.rtt_ms / 1000
        least_s = max(MIN_SHORT_S, math.ceil(MIN_ROUND_TRIPS * rtt_s))
        return min(whole_s, max(least_s, math.ceil(whole_s / SHORT_SHARE)))

    def run(self, ask: Ask) -> RunSpec:
        """The run that answers a question. Raises BadInput."""
        row = self.rows[ask.number]
        chosen = {
            free.sets: free.setting(place) for free, place in zip(self.free, ask.place, strict=True)
        }
        length_s = self.whole_s(row) if ask.full_length else self.short_s(row)
        length = read_override("duration", f"{length_s}s")[0]
        # how long it lasts is the search's choice, and no level of what is compared
        written = {n: level.written for n, level in row.levels.items() if n != "duration"}
        written |= {
            free.name: free.text(place) for free, place in zip(self.free, ask.place, strict=True)
        }
        base = {name: each for name, each in self.settings(row).items() if name != "duration"}
        explicit = {**drop_overridden(base, chosen), **chosen, "duration": length}
        if self.machine == "native":
            explicit["clock"] = read_override("clock", "real")[0]
        run = resolve(self.experiment, MATRIX, explicit, written, self.machine)
        return replace(run, repetition=ask.repetition, seed=1000 * self.seed + ask.repetition)

    def explaining_window(self) -> tuple[float, float] | None:
        """Return which windows of a connection (bytes, from and to) explain every number to fit on
        without any loss; None if there is none, no loss is free, or the path's rate explains them.
        """
        if not any(free.sets.rpartition(".")[2] == "loss" for free in self.free):
            return None
        least, most = 0.0, math.inf
        for number, row in enumerate(self.measurements.used(FIT)):
            run = self.run(Ask((0.5,) * len(self.free), number, True))
            rate_bps, rtt_s = run.path[run.data_direction]["rate_bps"], run.flows[0].rtt_ms / 1000
            at_rate = rate_bps and row.most_bps >= PAYLOAD_AT_MAX * rate_bps
            if at_rate or not rtt_s or not all(flow.is_tcp for flow in run.flows):
                return None
            connections = sum(flow.streams for flow in run.flows)
            least = max(least, bdp_bytes(row.least_bps, rtt_s) / connections)
            most = min(most, bdp_bytes(row.most_bps, rtt_s) / connections)
        return (least, most) if 0 < least <= most < math.inf else None

    def most(self) -> tuple[int, float]:
        """How many runs there may be at most, and how long their loads are together (s)."""
        places = 1 + (1 + LAST_TURNS) * (1 + self.members) * self.repetitions
        judged = (1 + self.members) * self.repetitions + self.judge_paths
        places += self.judge_paths if self.measurements.used(JUDGE) else 0
        runs, length_s = 0, 0.0
        for row in self.rows:
            if row.use == FIT:
                runs += self.points + places
                length_s += self.points * self.short_s(row) + places * self.whole_s(row)
            else:
                runs += judged
                length_s += judged * self.whole_s(row)
        return runs, length_s


# Many places are the same text, of four digits.
loss_of = cache(lambda text: float(share(text)))
rate_of = cache(rate)


class Expected:
    """What theory says of a fit's runs. The search asks for tens of thousands of places; to make a
    run of each takes a millisecond, so loss and rate are put in their place where that comes to the
    same.
    """

    def __init__(self, order: FitOrder) -> None:
        self._order = order
        self._middle: dict[int, Limits] = {}
        self._quick: dict[int, bool] = {}

    def __call__(self, number: int, places: np.ndarray) -> np.ndarray:
        """ln(rate, bit/s) of a number's runs at places (n × parameters). Raises BadInput."""
        limits = self._quickly if self._is_quick(number) else self._by_a_run
        return np.log([limits(number, place).goodput_bps for place in places.tolist()])

    def _by_a_run(self, number: int, place: Sequence[float]) -> Limits:
        return limits_of(self._order.run(Ask(tuple(place), number, True)))

    def _quickly(self, number: int, place: Sequence[float]) -> Limits:
        changed: dict[str, Any] = {}
        for free, at in zip(self._order.free, place, strict=True):
            what = free.sets.rpartition(".")[2]
            if what == "loss":
                changed["loss"] = loss_of(free.text(at))
            elif what == "rate":
                changed["rate_bps"] = rate_of(free.text(at))
        return replace(self._middle[number], **changed)

    def _is_quick(self, number: int) -> bool:
        """Whether both ways come to the same wherever it is tried."""
        if number not in self._quick:
            count = len(self._order.free)
            self._middle[number] = self._by_a_run(number, [0.5] * count)
            places = np.random.default_rng(0).random((PROBES, count)).tolist()
            places += [[end] * count for end in (0.0, 1.0)]
            self._quick[number] = all(
                self._quickly(number, place) == self._by_a_run(number, place) for place in places
            )
        return self._quick[number]


def drop_overridden(
    settings: Mapping[str, Setting], chosen: Mapping[str, Setting]
) -> dict[str, Setting]:
    """The settings without those that something free takes the place of: loss is of both ways."""
    ends = {name for name in chosen if "." not in name}
    return {
        name: each
        for name, each in settings.items()
        if name not in chosen and not (name.partition(".")[2] in ends and "." in name)
    }
