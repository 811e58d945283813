"""What a congestion control said of its own state over time, from cc_state.jsonl.gz.

The names are the control's own (cc/gostlab_cc.h); their ends tell the unit. What it has not set it
gives as a negative number, which is no value here.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.series import TimeSeries, unzipped
from gostlab.results import whole_rows

FILE = "cc_state.jsonl.gz"
# End of a name -> (unit as a figure shows it, what to multiply by)
UNITS = {
    "_bps": ("Mbit/s", 1e-6),
    "_pkts": ("packets", 1.0),
    "_us": ("ms", 1e-3),
    "_ms": ("ms", 1.0),
}


@dataclass(frozen=True, eq=False)
class CcStateHistory:
    """One socket's congestion control over time."""

    flow: str
    sockets: int  # of the flow; the table is of the first of them
    table: pd.DataFrame  # t_s, and the names in the order in which the control gives them

    def names(self, unit: str) -> list[str]:
        """Its names of numbers in a unit ("": without one), in its own order."""
        return [
            name
            for name in self.table.columns
            if name != "t_s" and unit_of(name)[0] == unit and not self.is_words(name)
        ]

    def series(self, name: str) -> TimeSeries:
        """A name's values in its unit; NaN while it is not set."""
        value = pd.to_numeric(self.table[name], errors="coerce").to_numpy(float)
        return TimeSeries(
            self.table["t_s"].to_numpy(float), np.where(value < 0, np.nan, value) * unit_of(name)[1]
        )

    def is_words(self, name: str) -> bool:
        """Whether a name's values are words: `phase=A|B` in the control's file."""
        return any(isinstance(value, str) for value in self.table[name])

    def phases(self) -> list[tuple[float, float, str]]:
        """(from, to, word) of the first name whose values are words; [] where there is none."""
        name = next((name for name in self.table.columns if self.is_words(name)), None)
        if name is None:
            return []
        instants, words = self.table["t_s"].to_numpy(float), self.table[name].astype(str)
        changes = np.flatnonzero(words.to_numpy() != words.shift().to_numpy())
        begins, ends = instants[changes], [*instants[changes[1:]], instants[-1]]
        return list(zip(map(float, begins), map(float, ends), words.iloc[changes], strict=True))


def unit_of(name: str) -> tuple[str, float]:
    """A name's unit, and what turns its values into it."""
    return next((found for end, found in UNITS.items() if name.endswith(end)), ("", 1.0))


def without_unit(name: str) -> str:
    """A name as it is shown where the axis has the unit: min_rtt of min_rtt_us."""
    end = next((end for end in UNITS if name.endswith(end)), "")
    return name.removesuffix(end)


@lru_cache(maxsize=2)
def states(run: RunFolder) -> tuple[CcStateHistory, ...]:
    """Every flow whose congestion control showed its state, in the run's order."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(run):
        rows.setdefault(str(row["flow"]), []).append(row)
    found = []
    for flow in run.flows:
        sockets: dict[str, list[dict[str, Any]]] = {}
        for row in rows.get(flow.name, []):
            sockets.setdefault(str(row.get("socket", "")), []).append(row)
        first = next(iter(sockets.values()), [])
        if len(first) > 1:
            table = pd.DataFrame(first).drop(columns=["flow", "socket"], errors="ignore")
            table = table.sort_values("t_s", ignore_index=True)
            found.append(CcStateHistory(flow.name, len(sockets), table))
    return tuple(found)


def rows_of(run: RunFolder) -> list[dict[str, Any]]:
    """The file's rows, as far as they are whole; [] where there is none."""
    try:
        rows = whole_rows(unzipped(run.folder / FILE).splitlines())
    except OSError:
        return []
    return [row for row in rows if "flow" in row]
