# SPDX-License-Identifier: MIT
"""Read the state of a congestion control over time, from cc_state.jsonl.gz.

The control chooses the names (cc/gostlab_cc.h); their suffixes are the units. Negative numbers mean
unset values, which are omitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.series import TimeSeries
from gostlab.results import valid_rows
from gostlab.results.samples import read_gzip

if TYPE_CHECKING:
    import pandas as pd

FILE = "cc_state.jsonl.gz"
# Suffix of a name -> (unit in plots, factor)
UNITS = {
    "_bps": ("Mbit/s", 1e-6),
    "_pkts": ("packets", 1.0),
    "_us": ("ms", 1e-3),
    "_ms": ("ms", 1.0),
}


@dataclass(frozen=True, eq=False)
class CcStateHistory:
    """State of one socket's congestion control over time."""

    flow: str
    sockets: int  # number of the flow's sockets; the table covers the first one
    table: pd.DataFrame  # t_s, and the variables in the control's order

    def names(self, unit: str) -> list[str]:
        """Return the numeric variables with a unit ("": without), in the control's order."""
        return [
            name
            for name in self.table.columns
            if name != "t_s" and unit_and_factor(name)[0] == unit and not self.is_words(name)
        ]

    def series(self, name: str) -> TimeSeries:
        """Return the values of a variable in its unit; NaN while unset."""
        import numpy as np
        import pandas as pd

        value = pd.to_numeric(self.table[name], errors="coerce").to_numpy(float)
        return TimeSeries(
            self.table["t_s"].to_numpy(float),
            np.where(value < 0, np.nan, value) * unit_and_factor(name)[1],
        )

    def is_words(self, name: str) -> bool:
        """Return whether the values are words: `phase=A|B` in the control's file."""
        return any(isinstance(value, str) for value in self.table[name])

    def phases(self) -> list[tuple[float, float, str]]:
        """Return (begin, end, word) for the first variable whose values are words."""
        import numpy as np

        name = next((name for name in self.table.columns if self.is_words(name)), None)
        if name is None:
            return []
        instants, labels = self.table["t_s"].to_numpy(float), self.table[name].astype(str)
        changes = np.flatnonzero(labels.to_numpy() != labels.shift().to_numpy())
        begins, ends = instants[changes], [*instants[changes[1:]], instants[-1]]
        return list(zip(map(float, begins), map(float, ends), labels.iloc[changes], strict=True))


def unit_and_factor(name: str) -> tuple[str, float]:
    """Return the unit of a variable and the factor that converts to it."""
    return next((entry for end, entry in UNITS.items() if name.endswith(end)), ("", 1.0))


def strip_unit_suffix(name: str) -> str:
    """Strip the unit suffix: min_rtt for min_rtt_us."""
    end = next((end for end in UNITS if name.endswith(end)), "")
    return name.removesuffix(end)


@lru_cache(maxsize=2)
def read_cc_states(run: RunFolder) -> tuple[CcStateHistory, ...]:
    """Return the state of each flow whose congestion control recorded it."""
    import pandas as pd

    rows: dict[str, list[dict[str, object]]] = {}
    for row in read_state_rows(run):
        rows.setdefault(str(row["flow"]), []).append(row)
    histories = []
    for flow in run.flows:
        sockets: dict[str, list[dict[str, object]]] = {}
        for row in rows.get(flow.name, []):
            sockets.setdefault(str(row.get("socket", "")), []).append(row)
        first = next(iter(sockets.values()), [])
        if len(first) > 1:
            table = pd.DataFrame(first).drop(columns=["flow", "socket"], errors="ignore")
            table = table.sort_values("t_s", ignore_index=True)
            histories.append(CcStateHistory(flow.name, len(sockets), table))
    return tuple(histories)


def read_state_rows(run: RunFolder) -> list[dict[str, object]]:
    """Return the complete rows of the file; [] if it does not exist."""
    try:
        rows = valid_rows(read_gzip(run.folder / FILE).splitlines())
    except OSError:
        return []
    return [row for row in rows if "flow" in row]
