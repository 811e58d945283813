# SPDX-License-Identifier: MIT
"""Plot panels of cells: a position on one axis, a metric on the other.

A drawing of this shape is a Facet, and a Facet is data:

    DRAWING = Drawing("by-tunnel", caption="…", draw=Facet(panels=panels, flat=True, …))

`panels` says of a sheet which panels there are and which cells stand where; `series` what is drawn
alike; a Value what is read off and how it is marked. All else is what the legend says and how large
the figure is. analysis/plots/goodput.py is a short one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gostlab.analysis.plotting import marks, style
from gostlab.analysis.plotting.factors import ccs_of, cell_at_levels, tunnel_title, tunnels_of
from gostlab.analysis.plotting.marks import CellPosition
from gostlab.analysis.plotting.panel_layout import grid_shape, panel_figure
from gostlab.analysis.plotting.plot_registry import FigureInput, ReportFigure
from gostlab.analysis.stats.metrics import metric_of
from gostlab.analysis.stats.statistics import is_known
from gostlab.analysis.stats.table_formats import cc_name
from gostlab.analysis.stats.throughput_model import ModelPath, ThroughputModel

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# -- what is drawn alike


@dataclass(frozen=True)
class FacetSeries:
    """Cells with a common look: those at some levels, or one flow of every cell."""

    levels: Mapping[str, Any]  # columns that select its cells: {"cc": "bbr"}
    colour: str = ""
    name: str = ""  # label of its marks: "lab bbr"
    look: marks.SeriesStyle = marks.PLAIN
    marker: str = ""  # instead of the look's marker
    dashes: Any = "-"
    flow: str = ""  # flow of the metric: goodput:flow1
    legend_label: str = ""  # legend label


def series_by_cc(
    table: pd.DataFrame, rows: pd.DataFrame, *, looks: bool = False
) -> list[FacetSeries]:
    """Return a series for each congestion control; looks: each with its own marker."""
    return [
        FacetSeries(
            {"cc": cc},
            style.cc_colour(cc),
            f"lab {cc}",
            marks.series_style(index) if looks else marks.PLAIN,
        )
        for index, cc in enumerate(ccs_of(table))
    ]


def single_series(table: pd.DataFrame, rows: pd.DataFrame) -> list[FacetSeries]:
    """Return a single series: each cell has the colour of its congestion control."""
    return [FacetSeries({})]


by_cc_look = partial(series_by_cc, looks=True)


def series_by_tunnel_and_cc(table: pd.DataFrame, rows: pd.DataFrame) -> list[FacetSeries]:
    """Return a series for each congestion control with each tunnel."""
    return [
        FacetSeries(
            {"tunnel": tunnel, "cc": cc},
            style.cc_colour(cc),
            f"lab {cc}",
            marker=style.tunnel_marker(tunnel),
            legend_label=f"{cc_name(cc)}, {tunnel}",
        )
        for tunnel in tunnels_of(table)
        for cc in ccs_of(table)
    ]


# -- what is read off


# Function that marks a cell at its position, in its series' colour.
Mark = Callable[[CellPosition, FacetSeries], None]


def mark_point(
    place: CellPosition, line: FacetSeries, *, study: Literal["", "behind", "before"] = ""
) -> None:
    """Mark a cell as a point.

    study: plot the published value, larger behind the point, or of the same size before it.
    """
    if study:
        marks.draw_published_value(place, behind=study == "behind")
    marks.draw_point(place, line.name, line.look, line.marker)


def mark_bar(place: CellPosition, line: FacetSeries, *, how: str = "across") -> None:
    """Mark a cell as a bar with its number above and the published value at its right."""
    marks.draw_bar(place, how)


Scale: TypeAlias = "Callable[[Axes, Literal['x', 'y'], pd.DataFrame], None]"


@dataclass(frozen=True)
class MetricAxis:
    """A metric read off one axis of a panel."""

    scale: Scale  # sets the scale of an axis for some cells
    figure: str = "goodput"
    mark: Mark = mark_point
    label: str = ""  # "": label of the metric
    scaled_per_panel: bool = False  # scale by the panel's cells instead of all cells

    @property
    def axis(self) -> str:
        return self.label or metric_of(self.figure).axis


def set_axis_limits(ax: Axes, way: Literal["x", "y"], low: float, high: float) -> None:
    ax.set(**{f"{way}lim": (low, high)})


def scale_from_zero(
    values: Callable[[pd.DataFrame], Sequence[float]], room: float, least: float = 1.0
) -> Scale:
    """Return a scale from zero to above all values of some cells, and above `least`."""

    def scale(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
        set_axis_limits(ax, way, 0, room * (max([least, *values(table)]) or 1.0))
        style.format_thousands(ax.xaxis if way == "x" else ax.yaxis)

    return scale


# Scale of the goodput with its runs and published values.
from_zero = partial(scale_from_zero, partial(marks.metric_values, figure="goodput", link=False))


def scale_to_medians(room: float, *columns: str, least: float = 1.0) -> Scale:
    """Return a scale from zero to above all values of some columns."""
    return scale_from_zero(lambda table: known_values(table, *columns), room, least)


def count_scale(*columns: str) -> Scale:
    """Return a logarithmic scale with zero, to above all values of some columns."""
    return lambda ax, _, table: style.set_count_axis(
        ax, max([10.0, *known_values(table, *columns)])
    )


# -- what stands where


@dataclass(frozen=True)
class FacetPanel:
    """One of the figure's axes: a heading, and the cells at each position."""

    heading: str
    places: Sequence[tuple[float, pd.DataFrame]]
    names: Sequence[str]  # names of the positions; (): a numeric axis, set by `axis`
    value: MetricAxis
    behind: Callable[[Axes], None] = lambda _: None  # draws the background

    @property
    def rows(self) -> pd.DataFrame:
        import pandas as pd

        return pd.concat([rows for _, rows in self.places])


Group: TypeAlias = "tuple[str, pd.DataFrame]"


def panel_of_groups(
    heading: str, groups: Sequence[Group], value: MetricAxis, **more: Any
) -> FacetPanel:
    """Return a panel whose positions are named groups."""
    places = [(float(at), rows) for at, (_, rows) in enumerate(groups)]
    return FacetPanel(heading, places, [name for name, _ in groups], value, **more)


def cells_by_level(table: pd.DataFrame, column: str) -> list[tuple[float, pd.DataFrame]]:
    """Return the cells at each level of a column, with the level as position."""
    return [(float(level), rows) for level, rows in table.groupby(column)]


def draw_models(
    ax: Axes,
    models: Sequence[ThroughputModel],
    paths: Sequence[ModelPath],
    figure: str,
    of: str,
    at: np.ndarray,
) -> None:
    """Plot each model for each path over values of `of` (loss, rtt_ms)."""
    for model, path in product(models, paths):
        of_path = model.window if figure == "window_pkts" else model.mbit
        there = [replace(path, **dict[str, Any]({of: float(value)})) for value in at]
        points = [(getattr(path_at, of), of_path(path_at)) for path_at in there]
        known = [(position, value) for position, value in points if value is not None]
        if known:
            look = {**marks.model_style(model), "alpha": 0.85, "zorder": 2}
            ax.plot(*zip(*known, strict=True), label=f"model {model.name}", **look)


def group_by_streams(table: pd.DataFrame, rows: pd.DataFrame) -> list[Group]:
    """Group some of a table's cells by the number of streams."""
    return [
        (f"{streams:g}", rows[rows["streams"] == streams])
        for streams in sorted(table["streams"].unique())
    ]


STREAMS = "Parallel iperf3 streams (number)"


def cc_patches(table: pd.DataFrame, words: str = "{}") -> list[Any]:
    """Return the legend's entry of each congestion control, as a coloured field."""
    from matplotlib.patches import Patch

    return [
        Patch(facecolor=style.cc_colour(cc), label=words.format(cc_name(cc)))
        for cc in ccs_of(table)
    ]


def tunnel_and_cc_handles(table: pd.DataFrame, **look: Any) -> list[Any]:
    """Return the legend's entry of each congestion control with each tunnel."""
    return [
        style.legend_entry(line.legend_label, color=line.colour, marker=line.marker, **look)
        for line in series_by_tunnel_and_cc(table, table)
    ]


# Shape of stacked panels.
stacked = partial(grid_shape, columns=1)


def one_row_grid(count: int) -> tuple[int, int]:
    return 1, count


def two_column_grid(count: int) -> tuple[int, int]:
    return grid_shape(count, min(2, count))


# -- the whole


@dataclass(frozen=True)
class Facet:
    """A plot of panels; see the module."""

    panels: Callable[[FigureInput], Sequence[FacetPanel]]
    # The legend: series, more entries (from the plotted axes), published values, spread of the
    # runs, degraded cells.
    keys: Callable[[pd.DataFrame], list[Any]] = cc_patches
    more_keys: Callable[[FigureInput, np.ndarray], list[Any]] | None = None
    published: bool = True
    spread: bool = True
    degraded: Mapping[str, bool] | None = field(
        default_factory=dict
    )  # arguments of degraded_handles; None: no entry
    series: Callable[[pd.DataFrame, pd.DataFrame], Sequence[FacetSeries]] = series_by_cc
    width: float = 0.8  # width of a position, which its series share
    step: float | None = None  # distance of series that do not share a width
    joined: Callable[[pd.Series], bool] | None = None  # selects the cells that a line joins, if any
    flat: bool = False  # positions are on the vertical axis
    striped: bool = False  # every second position has a pale background
    ruled: bool = False  # each position has a thin line
    ruled_across: bool = False  # positions on the horizontal axis have lines, too
    ends: tuple[float, float] = (0.5, 0.5)  # margins at the first and the last position
    # Sets the axis of the positions, after their names.
    axis: Callable[[Axes, Sequence[FacetPanel], Sequence[FacetSeries]], None] | None = None
    places: str | Callable[[pd.DataFrame], str] = ""  # label of the axis of the positions
    edges: bool = False  # label both axes once, at the edges
    around_in: float = 1.4  # height of title, legend and footer
    # Height of a row of panels: a constant (of_many_in for more than three panels), plus a height
    # per position and per series at each; least_places is the minimum number of positions.
    panel_in: float = 0.0
    of_many_in: float | None = None
    place_in: float = 0.0
    series_in: float = 0.0
    least_places: int = 2
    shape: Callable[[int], tuple[int, int]] = style.grid_shape
    shared: Mapping[str, Any] = field(default_factory=dict)
    medians: bool = True
    caption: str = ""  # a caption that contains {called}, else the plot's

    def __call__(
        self, sheet: FigureInput, caption: str = "", name: str = ""
    ) -> Iterator[ReportFigure]:
        if panels := self.panels(sheet):
            text = caption or self.caption.format(called=sheet.study_label)
            yield ReportFigure(partial(self.plot, sheet, panels), text, name, self.medians)

    @style.in_report_style
    def plot(self, sheet: FigureInput, panels: Sequence[FacetPanel]) -> Figure:
        table = sheet.rows
        series = self.series(table, table)
        places = max(len(panel.places) for panel in panels)
        row_in = self.panel_in if len(panels) <= 3 else self.of_many_in or self.panel_in
        row_in += (self.place_in + self.series_in * len(series)) * max(self.least_places, places)
        figure, axes = panel_figure(
            [panel.heading for panel in panels],
            row_in,
            around_in=self.around_in,
            shape=self.shape(len(panels)),
            **self.shared,
        )
        for ax, panel in zip(axes.flat, panels, strict=False):
            visible = panel.rows if panel.value.scaled_per_panel else table
            panel.value.scale(ax, "x" if self.flat else "y", visible)
            panel.behind(ax)
            draw_cells(ax, self, panel, self.series(table, panel.rows))
            label_positions(ax, self, panel)
            if self.axis is not None:
                self.axis(ax, panels, series)
        positions_label = self.places if isinstance(self.places, str) else self.places(table)
        label_axes(axes, self, panels, positions_label)
        style.finish_figure(figure, self.handles(sheet, panels, axes), sheet.footer, sheet.title)
        return figure

    def handles(
        self, sheet: FigureInput, panels: Sequence[FacetPanel], axes: np.ndarray
    ) -> list[Any]:
        table, figures = sheet.rows, list(dict.fromkeys(panel.value.figure for panel in panels))
        if flows := [line.flow for line in self.series(table, table) if line.flow]:
            figures = [f"{figures[0]}:{flow}" for flow in flows]
        return [
            *self.keys(table),
            *(self.more_keys(sheet, axes) if self.more_keys else []),
            *(
                marks.published_handles(table, *figures, called=sheet.study_label)
                if self.published
                else []
            ),
            *(marks.interval_legend_handles(table, figures[0]) if self.spread else []),
            *(marks.degraded_handles(table, **self.degraded) if self.degraded is not None else []),
        ]


# A line for each tunnel, with panels side by side.
BY_TUNNEL = partial(
    Facet,
    published=False,
    spread=False,
    flat=True,
    ruled=True,
    panel_in=0.9,
    place_in=0.27,
    least_places=1,
    shape=two_column_grid,
    shared={"sharey": True},
)
# A series for each congestion control with each tunnel.
BY_PAIR = partial(
    Facet,
    series=series_by_tunnel_and_cc,
    keys=tunnel_and_cc_handles,
    published=False,
    spread=False,
    around_in=0.0,
)
# A panel for each tunnel, stacked; positions are the numbers of streams.
BY_STREAMS = partial(Facet, places=STREAMS, shape=stacked, shared={"sharex": True})


def draw_cells(ax: Axes, facet: Facet, panel: FacetPanel, series: Sequence[FacetSeries]) -> None:
    """Plot a panel's cells, series by series, each at its position."""
    width = facet.width / max(1, len(series))
    step = width if facet.step is None else facet.step
    for number, line in enumerate(series):
        figure = f"{panel.value.figure}:{line.flow}" if line.flow else panel.value.figure
        aside = (number - (len(series) - 1) / 2) * step
        cells = [
            (at + aside, row)
            for at, rows in panel.places
            if (row := cell_at_levels(rows, **line.levels)) is not None
        ]
        if facet.joined is not None:
            joined = [(at, row) for at, row in cells if facet.joined(row)]
            marks.draw_line(ax, joined, figure, line.colour, line.dashes, width=line.look.width)
        for at, row in cells:
            cell_place = CellPosition(ax, at, row, figure, line.colour, width, facet.flat)
            panel.value.mark(cell_place, line)


def label_positions(ax: Axes, facet: Facet, panel: FacetPanel) -> None:
    """Set the names of a panel's positions, and their grid."""
    if not panel.names:
        return
    first, last = -facet.ends[0], len(panel.names) - 1 + facet.ends[1]
    if facet.flat:
        for at in range(1, len(panel.names), 2) if facet.striped else ():
            ax.axhspan(at - 0.5, at + 0.5, color=style.STRIPE, zorder=0, linewidth=0)
        ax.set_yticks(range(len(panel.names)), list(panel.names))
        ax.set_ylim(last, first)
    else:
        ax.set_xticks(range(len(panel.names)), list(panel.names))
        ax.set_xlim(first, last)
    if facet.ruled:
        ax.grid(True, axis="y", color=style.FAINT, linewidth=0.4)
    elif facet.striped or not (facet.flat or facet.ruled_across):
        ax.grid(False, axis="y" if facet.flat else "x")


def label_axes(axes: np.ndarray, facet: Facet, panels: Sequence[FacetPanel], places: str) -> None:
    """Label the axes: positions once or under each column, metrics at each panel."""
    values = [panel.value.axis for panel in panels]
    if facet.edges:
        style.label_edges(axes, len(panels), places, values[0])
    elif facet.flat:
        labelled = [*zip(axes.flat, values, strict=False)]
        for ax, axis_label in labelled if len(set(values)) > 1 else labelled[-axes.shape[1] :]:
            ax.set_xlabel(axis_label)
        axes[0, 0].set_ylabel(places)
    else:
        for ax, axis_label in zip(axes[:, 0], values[:: axes.shape[1]], strict=True):
            ax.set_ylabel(axis_label)
        for ax in axes[-1]:
            ax.set_xlabel(places)


def tunnel_panels(table: pd.DataFrame, value: MetricAxis, aside: str = "") -> list[FacetPanel]:
    """Return a panel for each tunnel. aside: text appended to the heading of direct."""
    return [
        panel_of_groups(
            tunnel_title(tunnel) + (aside if tunnel == "direct" else ""),
            group_by_streams(table, table[table["tunnel"] == tunnel]),
            value,
        )
        for tunnel in tunnels_of(table)
    ]


def known_values(table: pd.DataFrame, *columns: str) -> list[float]:
    return [float(value) for name in columns for value in table[name] if is_known(value)]
