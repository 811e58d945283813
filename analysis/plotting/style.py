# SPDX-License-Identifier: MIT
"""Style all figures: colours, fonts, axes, legend and footer.

One colour per congestion control everywhere, one marker per tunnel.
"""

from __future__ import annotations

import functools
import io
import math
import re
import textwrap
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from gostlab.analysis.plotting import pdf_fonts
from gostlab.errors import BadInput
from gostlab.registry.palette import CC_COLOURS as CC_COLOURS
from gostlab.registry.palette import cc_colour as cc_colour
from gostlab.registry.tunnels import tunnel_kinds

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

TUNNEL_MARKERS = {"direct": "o", "gost+ws": "s", "gost+wss": "^"}
OTHER_MARKERS = ("v", "P", "X", "<", ">")
INK, FAINT, GRID, STRIPE = "#222222", "#6b6b6b", "#e3e3e3", "#f4f5f7"
DEGRADED_HATCH = "////"
ArtistStyle = dict[str, Any]  # keyword arguments of matplotlib
STYLE: ArtistStyle = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.titlesize": 11,
    "axes.labelsize": 10.5,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 9.5,
    "figure.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # a fixed value avoids a search at every drawing; nothing is above an axis
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6.5,
    "hatch.linewidth": 0.7,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 150,
    # Names of experiments and profiles are user text: a $ is no formula.
    "text.parse_math": False,
    # Glyphs as paths look the same on every machine; the salt makes saved files reproducible.
    "svg.fonttype": "path",
    "svg.hashsalt": "gostlab",
    "pdf.fonttype": 42,  # embed TrueType fonts, as publishers require
}
# Minimum ratio of values for a log axis.
WIDE = 12.0
WIDTH_IN = 7.0
NARROW_IN = 4.1  # width on a phone: as many px as it has
F = TypeVar("F", bound="Callable[..., Figure]")


def tunnel_marker(tunnel: str) -> str:
    """Return a tunnel's marker, the same for all of its names."""
    tunnel_type = tunnel_kinds().get(tunnel)
    name = tunnel if tunnel_type is None else tunnel_type.name
    return (
        TUNNEL_MARKERS.get(name)
        or OTHER_MARKERS[zlib.crc32(name.encode("utf-8", "replace")) % len(OTHER_MARKERS)]
    )


@dataclass
class Canvas:
    """User-supplied axes or figure to draw on, instead of a new figure."""

    axes: Sequence[Axes]
    figure: Any = None  # a figure that gets the required axes
    legend: bool = True
    drawn: list[Axes] = field(default_factory=list)  # axes with content

    @classmethod
    def on(cls, place: Any, *, legend: bool = True) -> Canvas:
        """Construct a canvas from axes, several axes, or a figure."""
        import numpy as np
        from matplotlib.figure import FigureBase

        if isinstance(place, FigureBase):
            return cls((), place, legend)
        return cls(list(np.ravel(place)), None, legend)

    def figure_and_axes(self, rows: int, columns: int, **how: Any) -> tuple[Any, np.ndarray]:
        """Return the figure and axes to draw on.

        Raises BadInput if their number differs from the required one.
        """
        import numpy as np

        if self.drawn:
            raise BadInput("several figures of it: choose one by levels: where={factor: level}")
        if self.figure is not None:
            figure, axes = self.figure, self.figure.subplots(rows, columns, squeeze=False, **how)
        elif len(self.axes) == rows * columns:
            figure, axes = self.axes[0].figure, np.array(self.axes).reshape(rows, columns)
        else:
            raise BadInput(
                f"{rows * columns} panels ({rows} down, {columns} across), {len(self.axes)} axes:"
                " give as many, or a figure"
            )
        self.drawn = list(axes.flat)
        return figure, axes


CANVAS: ContextVar[Canvas | None] = ContextVar("CANVAS", default=None)


# Whether figures are drawn for a phone: narrow, with one panel below the other.
NARROW: ContextVar[bool] = ContextVar("NARROW", default=False)


@contextmanager
def narrow_style() -> Iterator[None]:
    """Draw for a phone in the block."""
    token = NARROW.set(True)
    try:
        yield
    finally:
        NARROW.reset(token)


def width_share() -> float:
    """Return the width of a figure as a share of the usual width."""
    return NARROW_IN / WIDTH_IN if NARROW.get() else 1.0


@contextmanager
def canvas_style(canvas: Canvas) -> Iterator[None]:
    """Draw on a user's canvas, in the user's style, in the block."""
    token = CANVAS.set(canvas)
    try:
        yield
    finally:
        CANVAS.reset(token)


def in_report_style(draw: F) -> F:
    """Draw in the report's style, or on a user's canvas in the user's style."""

    @functools.wraps(draw)
    def inner(*args: Any, **kwargs: Any) -> Figure:
        import matplotlib

        if CANVAS.get() is not None:
            return draw(*args, **kwargs)
        with matplotlib.rc_context(STYLE):
            figure = draw(*args, **kwargs)
            name_log_scales(figure)
            lay_out(figure)
            return figure

    return cast(F, inner)


def name_log_scales(figure: Figure) -> None:
    """Name the logarithmic axes of a figure that has linear ones in the same direction."""
    for axis_name in ("x", "y"):
        axes = [getattr(ax, f"{axis_name}axis") for ax in figure.axes if ax.get_visible()]
        if len({axis.get_scale() == "linear" for axis in axes}) < 2:
            continue
        for axis in axes:
            text = axis.label.get_text()
            if text and axis.get_scale() != "linear":
                named = text.removesuffix(")")
                axis.label.set_text(f"{named}{', ' if named != text else ' ('}log scale)")


def lay_out(figure: Figure) -> None:
    """Lay out a figure once.

    Constrained layout changes slightly at every drawing, so saved files would differ. Without any
    engine (not "none", which is one) each figure is drawn once, not twice.
    """
    from matplotlib.transforms import Bbox

    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    for ax in figure.axes:
        # The last digits of the layout depend on the order of constraints, which differs between
        # processes.
        ax.set_position(Bbox(ax.get_position(original=True).get_points().round(6)))
    freeze_ticks(figure)


def freeze_ticks(figure: Figure) -> None:
    """Fix ticks and axis labels at their current positions, aligned in each column.

    matplotlib computes both a dozen times at every saving.
    """
    from matplotlib.ticker import FixedLocator

    renderer = figure.canvas.get_renderer()
    left: dict[float, list[tuple[Axis, float, float]]] = {}  # vertical axes by column
    for ax in figure.axes:
        # a colour bar gets its shape and label position only now
        locator = ax.get_axes_locator()
        ax.apply_aspect(locator(ax, renderer) if locator else None)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(FixedLocator(axis.get_majorticklocs()))
            axis.set_minor_locator(FixedLocator(axis.get_minorticklocs()))
            if not axis.label.get_text():
                axis.set_label_coords(0.5, 0.5)
                continue
            axis.get_tightbbox(renderer)  # this computes the label's position
            x, y = axis.label.get_transform().transform(axis.label.get_position())
            if axis is ax.xaxis:
                axis.set_label_coords(*ax.transAxes.inverted().transform((x, y)))
            else:
                left.setdefault(round(ax.bbox.x0), []).append((axis, x, y))
    for column in left.values():
        x = min(x for _, x, _ in column)
        for axis, _, y in column:
            axis.set_label_coords(*axis.axes.transAxes.inverted().transform((x, y)))


def new_figure(
    height_in: float, rows: int = 1, columns: int = 1, **kwargs: Any
) -> tuple[Figure, np.ndarray]:
    """Return a figure of the report's width without a window, and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = CANVAS.get()
    if canvas is not None:
        return canvas.figure_and_axes(rows, columns, **kwargs)
    width_in = NARROW_IN if NARROW.get() else WIDTH_IN
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **kwargs)
    for ax in axes.flat:
        ax.set_title("")  # this fixes the title's position
    return figure, axes


def save_figure(figure: Figure, kind: str) -> bytes:
    """Return the figure as "svg", "pdf" or "png"; equal figures give equal bytes."""
    import matplotlib.colors

    out = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    fonts = pdf_fonts.small_fonts(figure) if kind == "pdf" else nullcontext()
    with matplotlib.rc_context(STYLE), fonts:
        figure.savefig(out, format=kind, metadata=undated[kind])
    return out.getvalue()


def finish_figure(
    figure: Figure, handles: Sequence[Any], footer: str, title: str = "", note: str = ""
) -> None:
    """Add title, legend, note and the software that produced the numbers.

    So a figure cut from its page still states its origin. On a user's canvas only the legend is
    added.
    """
    canvas = CANVAS.get()
    if canvas is not None:
        if handles and canvas.legend:
            canvas.drawn[0].legend(handles=handles)
        return
    height, letters = figure.get_figheight(), round(112 * width_share())
    lines = [
        *textwrap.wrap(note, letters),
        *textwrap.wrap(footer, letters)[: 5 if NARROW.get() else 3],
    ]
    # Never truncated: it may state the number of cells that are not plotted.
    titles = textwrap.wrap(title, round(0.75 * letters))
    longest = max((len(str(handle.get_label())) for handle in handles), default=0)
    columns = max(1, round((3 if longest < 27 else 2) * width_share()))
    # More where labels are short: a line with a symbol, its label, and the space between two.
    columns = max(columns, int(WIDTH_IN * width_share() / (0.75 + 0.075 * longest)))
    if NARROW.get():  # more lines around the panels, which keep their height
        height += 0.19 * len(titles) + 0.15 * len(lines) + 0.12 * math.ceil(len(handles) / columns)
        figure.set_figheight(height)
    top_in, bottom_in = 0.05, 0.12 + 0.15 * len(lines)
    if title:
        figure.text(
            0.012,
            1 - top_in / height,
            "\n".join(titles),
            ha="left",
            va="top",
            fontweight="bold",
            fontsize=11,
        )
        top_in += 0.26 + 0.19 * (len(titles) - 1)
    if handles:
        figure.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(0.0, 1 - top_in / height),
            ncol=columns,
            columnspacing=1.4,
            handletextpad=0.6,
            borderaxespad=0.2,
        )
        top_in += 0.1 + 0.215 * math.ceil(len(handles) / columns)
    if lines:
        figure.text(
            0.012, 0.06 / height, "\n".join(lines), fontsize=8, color=FAINT, ha="left", va="bottom"
        )
    layout = figure.get_layout_engine()
    layout.set(rect=(0.006, bottom_in / height, 0.988, 1 - (top_in + bottom_in) / height))


def legend_entry(label: str, **look: Any) -> Line2D:
    """Return a legend entry: a line, or a mark with linestyle="none"."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **look)


def annotate(
    ax: Axes, words: str, at: tuple[float, float], aside: tuple[float, float], **look: Any
) -> None:
    """Write small text at an offset in points from a position."""
    usual = {"fontsize": 8.5, "color": FAINT}
    ax.annotate(words, at, xytext=aside, textcoords="offset points", **{**usual, **look})


def truncate(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


# -- axes


def format_thousands(axis: Any) -> None:
    """Format an axis with thousands separators: 1,500."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def set_tick_labels(
    axis: Any, marks: Sequence[float], words: Callable[[float], str] = "{:g}".format
) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(list(marks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axis.set_minor_locator(NullLocator())


def format_log_axis(axis: Any, low: float, high: float, most: int = 7) -> None:
    """Format a log axis with plain numbers: 0.1, 1, 10, 1,000.

    Short axes have ticks at 1, 2 and 5 of each decade.
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    marks = [10.0**power for power in range(first, last + 1)]
    if len(marks) < 3:
        marks = [
            factor * 10.0**power for power in range(first - 1, last + 1) for factor in (1, 2, 5)
        ]
    marks = [mark for mark in marks if low <= mark <= high]
    every = math.ceil(len(marks) / most)
    set_tick_labels(axis, marks[::-1][::every][::-1], "{:,.10g}".format)


def set_log_axis(
    ax: Axes, which: Literal["x", "y"], low: float, high: float, most: int = 7
) -> None:
    """Set a log axis between two values, with plain numbers."""
    ax.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    format_log_axis(ax.xaxis if which == "x" else ax.yaxis, low, high, most)


def set_count_axis(ax: Axes, top: float) -> None:
    """Set a symlog axis, linear to 1, so that zero has a position."""
    ax.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    decades = range(math.ceil(math.log10(max(top, 10.0))) + 1)
    ax.set_ylim(-0.25, 10.0 ** (math.log10(top) * 1.06 + 0.15))
    every = 2 if len(decades) > 5 else 1
    marks = [0.0, *(10.0**decade for decade in decades if decade % every == 0)]
    set_tick_labels(ax.yaxis, marks, "{:,.0f}".format)


# Ticks of ratio axes.
RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2, 3, 5, 10, 20, 50, 100)


def set_ratio_axis(ax: Axes, low: float, high: float) -> None:
    """Set a log axis with common ratios as ticks."""
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    set_tick_labels(ax.yaxis, [step for step in RATIOS if low <= step <= high])


def superscript(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def levels_with_space(
    levels: Sequence[float], ratio: float = 1.22, share: float = 0.0
) -> list[float]:
    """Return the levels that have space for a label on a log axis.

    share: minimum distance on a linear axis.
    """
    selected: list[float] = []
    least = share * (levels[-1] - levels[0])
    for level_value in levels:
        if not selected or (
            level_value - selected[-1] >= least if share else level_value / selected[-1] >= ratio
        ):
            selected.append(level_value)
    return selected


def grid_shape(count: int) -> tuple[int, int]:
    """Return the rows and columns of so many facets: at most three columns, two for four."""
    columns = min(3, max(1, count))
    if count == 4:
        columns = 2
    return max(1, math.ceil(count / columns)), columns


def label_edges(axes: np.ndarray, used: int, x: str, y: str) -> None:
    """Label the axes once: on the left, and under the lowest facet of each column."""
    rows, columns = axes.shape
    for index in range(used):
        ax = axes.flat[index]
        if index % columns == 0:
            ax.set_ylabel(y)
        if index + columns >= used:
            ax.tick_params(labelbottom=True)
            if columns < 3:
                ax.set_xlabel(x)
    if columns >= 3:
        # three narrow facets have no space for three labels
        middle = axes.flat[min(columns // 2 + (rows - 1) * columns, used - 1)]
        middle.set_xlabel(x)


def wrap_label(text: str, width: int) -> str:
    """Wrap a label under a group of bars, so that it does not touch its neighbours."""
    width = max(6, width)
    if any(len(word) > width for word in text.split(" ")):
        # prefer a break between a value and its unit to one inside a word
        text = text.replace("\u00a0", " ")
    text = " ".join(break_long_words(word, width) for word in text.split(" "))
    lines = textwrap.wrap(text, width, break_long_words=True)
    return "\n".join([*lines[:3], *(["…"] if len(lines) > 3 else [])])


def break_long_words(word: str, width: int) -> str:
    """Insert spaces into a word longer than a line: rate_kbit= 15000."""
    if len(word) <= width:
        return word
    lines = [""]
    for part in re.findall(r"[^(,=+_/:]*[(,=+_/:]|[^(,=+_/:]+", word):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return " ".join(lines)


def fits_wrapped(text: str, width: int) -> bool:
    """Return whether `wrapped` keeps the whole text and all words."""
    lines = textwrap.wrap(text, width, break_long_words=False)
    return len(lines) <= 3 and all(len(line) <= width for line in lines)


def set_panel_heading(ax: Axes, heading: str, columns: int, **more: Any) -> None:
    """Set a panel's heading, wrapped to its width. Truncated headings might be the same."""
    if len(heading) > 56 * width_share() // columns:  # one line of the default size
        heading = "\n".join(textwrap.wrap(heading, round(66 * width_share()) // columns))
        more["fontsize"] = 9.5
    ax.set_title(heading, **more)


def format_bar_value(value: float) -> str:
    """Format a value above a bar: 1,432, 144, 12.0, 9.3, 3.0, 0.61."""
    if value >= 100 or not value:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.95 else f"{value:#.2g}"
