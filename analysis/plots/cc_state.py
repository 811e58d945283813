# SPDX-License-Identifier: MIT
"""Plot a congestion control's own state: bandwidth, bounds, gains, phases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gostlab.analysis.load.cc_state import FILE, CcStateHistory, read_cc_states, strip_unit_suffix
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.plots.series import (
    TimelinePanel,
    cell_and_variant_label,
    median_runs,
    plot_stacked_panels,
    representative_runs,
    run_title,
)
from gostlab.analysis.plotting.cc_state_axes import LINES, PANELS, phase_colours
from gostlab.analysis.plotting.marks import reduce_to_min_max
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, ReportFigure
from gostlab.analysis.plotting.style import (
    FAINT,
    finish_figure,
    format_thousands,
    in_report_style,
    truncate,
)
from gostlab.analysis.stats.cells import Cell, file_name_part
from gostlab.analysis.stats.provenance import made_by_line
from gostlab.analysis.stats.table_formats import cc_name

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Maximum figures on a page.
MAX_SHOWN = 8


@in_report_style
def plot_state(run: RunFolder, state: CcStateHistory, footer: str = "", note: str = "") -> Figure:
    """Plot one socket's state over time: a panel per unit, phases as bands."""
    from matplotlib.patches import Patch

    fills = phase_colours(list(dict.fromkeys(word for _, _, word in state.phases())))
    panels = [
        TimelinePanel(label, partial(draw_panel, state=state, fills=fills, names=names[:most]))
        for unit, (label, most) in PANELS.items()
        if (names := state.names(unit))
    ]
    figure, _ = plot_stacked_panels(run, panels, 1.5, 1.75)
    handles = [
        Patch(facecolor=fill, edgecolor=FAINT, linewidth=0.6, label=truncate(word, 24))
        for word, fill in fills.items()
    ]
    finish_figure(figure, handles, footer, title=title_of(run, state), note=note)
    return figure


def title_of(run: RunFolder, state: CcStateHistory) -> str:
    """Name the run, and the flow and socket if there are several."""
    cc = next((flow.cc for flow in run.flows if flow.name == state.flow), None)
    parts = [run_title(run)]
    if len(run.flows) > 1:
        parts.append(f"{state.flow} ({cc_name(cc or run.cc)})")
    if state.sockets > 1:
        parts.append(f"the first of its {state.sockets} connections")
    return ", ".join(parts)


def draw_panel(
    ax: Axes, state: CcStateHistory, fills: dict[str, str], names: Sequence[str]
) -> None:
    """Plot a band per phase and a line per variable; gaps are unset values."""
    import numpy as np

    for word, fill in fills.items():
        ax.broken_barh(
            [(begin, end - begin) for begin, end, item in state.phases() if item == word],
            (0.0, 1.0),
            facecolor=fill,
            linewidth=0,
            transform=ax.get_xaxis_transform(),
            zorder=0.5,
            label=f"state {word}",
        )
    tops = [1e-9]
    for name, (colour, dashes) in zip(names, LINES, strict=False):
        series = state.series(name)
        unset = "" if np.isfinite(series.value).any() else " (never set)"
        ax.plot(
            *reduce_to_min_max(series.t_s, series.value),
            color=colour,
            linestyle=dashes,
            linewidth=1.1,
            drawstyle="steps-post",  # a value holds until the next sample
            label=strip_unit_suffix(name) + unset,
            zorder=3,
        )
        tops += [axis_upper_limit(series.value)]
    ax.set_ylim(0, 1.12 * max(tops))
    format_thousands(ax.yaxis)
    ax.legend(
        handles=[line for line in ax.lines if not str(line.get_label()).startswith("_")],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncol=4,
        fontsize=8.5,
        borderaxespad=0.1,
        handlelength=1.6,
        columnspacing=1.2,
    )


def axis_upper_limit(value: np.ndarray) -> float:
    """Return the upper limit of an axis.

    If a hundredth of the values is more than three times above the rest, as after Startup, it is
    cut off.
    """
    import numpy as np

    known = value[np.isfinite(value)]
    if not len(known):
        return 0.0
    most, usual = float(known.max()), float(np.quantile(known, 0.99))
    return most if most <= 3 * usual or not usual else 3 * usual


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot one figure per flow of one run of each cell, or of selected cells."""
    there = sum(bool(cell.counted) for cell in sheet.sweep.matrix.cells)
    runs = median_runs(sheet.sweep.matrix.cells, FILE)
    result: list[tuple[Cell, RunFolder, CcStateHistory]] = []
    formatted = 0
    for cell, run in runs if len(runs) <= MAX_SHOWN else representative_runs(runs):
        if result and len(result) + len(read_cc_states(run)) > MAX_SHOWN:
            break
        formatted += 1
        result += [(cell, run, state) for state in read_cc_states(run)]
    note = f"{formatted} of {there} cells are shown." if formatted < there else ""
    for cell, run, state in result:
        text = cell_and_variant_label(cell)
        several = len(read_cc_states(run)) > 1
        named = f"{text}, {state.flow}" if several else text
        yield ReportFigure(
            partial(plot_state, run, state, made_by_line([run]), note),
            " ".join(
                filter(None, [f"{named}: {run.name}.", sampling_note(state), note, DRAWING.caption])
            ),
            file_name_part(named),
            medians=False,
        )


def sampling_note(state: CcStateHistory) -> str:
    """State the sampling period, which hides shorter changes."""
    import numpy as np

    steps = [
        after - before for before, after in itertools.pairwise(state.table["t_s"]) if after > before
    ]
    return f"Read every {1000 * float(np.median(steps)):.3g} ms." if steps else ""


DRAWING = Drawing(
    "cc-state",
    caption=(
        "What the congestion control said of itself, in its own names, its states as bands; a gap"
        " is a time in which a bound was not set."
    ),
    draw=draw,
    needs="a run whose congestion control shows its state (docs/how-to/congestion-control.md)",
)
