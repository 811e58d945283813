# SPDX-License-Identifier: MIT
"""Plot a fit: measured and simulated rates, and the paths that fit equally well."""

import re
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from gostlab.analysis.plotting.style import (
    FAINT,
    INK,
    finish_figure,
    in_report_style,
    legend_entry,
    new_figure,
    set_tick_labels,
)
from gostlab.spec.fit_record import FIT, JUDGE, FitRecord, FittedParameter, FittedRow

# Markers differ by shape and fill, because colours identify congestion controls.
LOOKS: dict[str, dict[str, object]] = {
    FIT: {"marker": "o", "markerfacecolor": INK, "markeredgecolor": INK},
    JUDGE: {"marker": "D", "markerfacecolor": "white", "markeredgecolor": INK},
}
ROW_IN, SCATTER_IN = 0.3, 2.9
LOG_AXIS_RATIO = 1.6  # ratio above which the axis is logarithmic


@in_report_style
def fit_figure(fitted: FitRecord, title: str) -> Figure:
    """Return a figure with the residuals above and the equally good paths below."""
    rows = [row for row in fitted.rows if row.ratio is not None]
    above_in = 1.1 + ROW_IN * len(rows)
    figure, axes = new_figure(
        above_in + SCATTER_IN + 1.0, 2, 1, height_ratios=[above_in, SCATTER_IN]
    )
    plot_residuals(axes[0][0], rows)
    plot_equally_good_paths(axes[1][0], fitted)
    handles = [
        legend_entry("fitted on", linestyle="", **LOOKS[FIT]),
        legend_entry("judged by", linestyle="", **LOOKS[JUDGE]),
        Patch(color=FAINT, alpha=0.25, label="measured, within its band"),
        legend_entry("over paths that fit as well", color=INK, linewidth=1.2),
    ]
    note = (
        f"{fitted.points} paths, {fitted.runs} runs, {fitted.by}; misfit {fitted.misfit:.2g}"
        f" standard deviations: {'explained' if fitted.explained else 'not explained'}"
    )
    finish_figure(figure, handles, f"measurements: {fitted.measurements}", title, note)
    return figure


def plot_residuals(axis: Axes, rows: Sequence[FittedRow]) -> None:
    spread = [1.0]
    for index, row in enumerate(rows):
        ratio = row.ratio or 0.0
        low, high = row.band_least_mbit / row.asked_mbit, row.band_most_mbit / row.asked_mbit
        axis.barh(index, high - low, left=low, height=0.8, color=FAINT, alpha=0.25, linewidth=0)
        if row.least_mbit is not None and row.most_mbit is not None:
            ends = [row.least_mbit / row.asked_mbit, row.most_mbit / row.asked_mbit]
            axis.plot(ends, [index, index], color=INK, linewidth=1.2, zorder=2)
            spread += ends
        axis.plot([ratio], [index], linestyle="", zorder=3, **LOOKS[row.use])
        spread += [low, high, ratio]
    axis.axvline(1.0, color=FAINT, linewidth=1.0)
    least, most = max(1e-3, min(spread)), max(spread)
    if most > LOG_AXIS_RATIO or least < 1 / LOG_AXIS_RATIO:
        axis.set_xscale("log")
        set_tick_labels(axis.xaxis, [t for t in TICKS if least / 1.3 <= t <= most * 1.3])
        axis.set_xlim(least / 1.2, most * 1.2)
    axis.set_yticks(
        range(len(rows)), [textwrap.shorten(row.label, 34, placeholder=" …") for row in rows]
    )
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("lab / measured")


TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 20, 50, 100)


def plot_equally_good_paths(axis: Axes, fitted: FitRecord) -> None:
    """Plot the equally good paths over the two parameters that trade off most, or the first two."""
    by_name = {parameter.name: parameter for parameter in fitted.parameters}
    pair = max(fitted.trade_offs, key=lambda trade_off: abs(trade_off.correlation), default=None)
    parameters = [by_name[name] for name in list(pair.between if pair else by_name)[:2]]
    columns = [[parse_amount(path[one.name]) for path in fitted.alike] for one in parameters]
    best = [[parse_amount(one.value)] for one in parameters]
    if len(parameters) == 1:
        columns, best = [*columns, [0.0] * len(fitted.alike)], [*best, [0.0]]
        axis.set_yticks([])
    axis.plot(*columns, marker=".", color=FAINT, linestyle="", alpha=0.8)
    axis.plot(*best, marker="*", markersize=14, color=INK, linestyle="")
    for parameter, axis_name in zip(parameters, "xy", strict=False):
        scale_axis(axis, parameter, axis_name)
    # The axis labels name the parameters.
    trade_off = ": one makes up for the other" if pair else ""
    axis.set_title(f"What fits as well{trade_off} (star: the best)")


def scale_axis(axis: Axes, parameter: FittedParameter, axis_name: str) -> None:
    """Scale an axis to the searched range of a parameter."""
    low, high = parse_amount(parameter.searched_from), parse_amount(parameter.searched_to)
    margin = 0.03 * (high - low)
    is_log = parameter.scale == "log"
    limits = (low / 1.15, high * 1.15) if is_log else (low - margin, high + margin)
    axis.set(**{f"{axis_name}scale": parameter.scale, f"{axis_name}lim": limits})
    line = axis.xaxis if axis_name == "x" else axis.yaxis
    line.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    unit = re.sub(r"^[0-9.]+\s*", "", parameter.searched_to) or "number"
    line.set_label_text(f"{parameter.sets} ({unit})")


def parse_amount(text: str) -> float:
    """Return the number of a value such as 0.01%."""
    match = re.match(r"[0-9.]+", text)
    return float(match[0]) if match else 0.0
