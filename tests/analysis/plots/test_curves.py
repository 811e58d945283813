# SPDX-License-Identifier: MIT
"""Figures of sweeps, looked into as objects: models, bands, the study's values, shares, and that
nothing is cut off.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from synthetic import check_texts, figure_of, labelled, titles_of, words_on

from gostlab.analysis.plots import bars
from gostlab.analysis.plots import map as star_map
from gostlab.analysis.plotting import style
from gostlab.analysis.plotting.factors import facets_of, factor_heading, level_with_factor_name
from gostlab.analysis.stats import throughput_model
from gostlab.analysis.stats.cells import metric_columns, to_typed_table
from gostlab.analysis.stats.statistics import summarise
from gostlab.analysis.stats.table_formats import cc_name
from gostlab.spec.experiment import Published
from gostlab.spec.labels import cell_label

# Dozens of figures: `make test` has them, `make fast` does not.
pytestmark = pytest.mark.slow

FIGURE_NAMES = ("goodput", "window_pkts", "jain", "convergence_s", "total_mbit")


def row_of(
    values: Mapping[str, Sequence[float]],
    cc: str,
    factors: Mapping[str, Any],
    *,
    verdict: str = "ok",
    **more: Any,
) -> dict[str, Any]:
    """A row as cells.to_table makes it; `values`: each figure's runs."""
    n = max((len(runs) for runs in values.values()), default=0)
    row: dict[str, Any] = {
        "matrix": "m",
        "variant": "",
        "cell": ", ".join(f"{key} = {value}" for key, value in factors.items()),
        "tunnel": "direct",
        "cc": cc,
        "streams": 1.0,
        "rate_mbit": 100.0,
        "rtt_ms": 100.0,
        "loss_p": 0.0,
        "mtu_bytes": 1500.0,
        "n": float(n),
        "left_out": 0.0,
        "verdict": verdict if n else "none",
        "absent": "no valid run",
        "profile": "plain",
        "direction": "upload",
        "rmem_bytes": math.nan,
        **{f"factor:{key}": str(value) for key, value in factors.items()},
    }
    for name in (*FIGURE_NAMES, *values):
        row |= metric_columns(name, summarise(values.get(name, ())))
    return {**row, **more}


def table_of(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A table of them."""
    return to_typed_table(rows)


def loss_sweep(
    n: int = 6, ccs: Sequence[str] = ("cubic", "reno", "bbr"), rtts: Sequence[float] = (10, 50, 100)
) -> pd.DataFrame:
    """Goodputs and windows near the models', scattered; bands of CACM's figure 8 at 100 ms."""
    random = np.random.default_rng(7)
    bands = {"cubic": (7.0, 4.0, 11.0), "bbr": (94.0, 70.0)}
    rows = []
    for rtt, loss, cc in itertools.product(rtts, (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2), ccs):
        model = {"cubic": "rfc9438", "reno": "reno", "bbr": "bbr"}[cc]
        (found,) = throughput_model.models_for([cc], (model,))
        rate = found.mbit(throughput_model.ModelPath(100e6, rtt, loss, 6e6)) or 95.0
        runs = [min(95.6, rate * value) for value in random.normal(1.1, 0.05, n)]
        windows = [throughput_model.window_pkts(run, rtt) for run in runs]
        band = bands.get(cc, ()) if (loss, rtt) == (1e-3, 100) else ()
        names = ("goodput_study", "goodput_least", "goodput_most")
        more = {"rtt_ms": float(rtt), "loss_p": loss, "rmem_bytes": 6e6}
        more |= dict(zip(names, band, strict=False))
        more["verdict"] = "degraded" if (cc, loss) == ("reno", 1e-2) else "ok"
        levels = {"cc": cc, "loss": loss, "rtt": f"{rtt}ms"}
        rows.append(row_of({"goodput": runs, "window_pkts": windows}, cc, levels, **more))
    return table_of(rows)


def rtt_sweep(n: int = 6) -> pd.DataFrame:
    """CUBIC and BBR by RTT at two receive buffers, Li 2018's values beside."""
    rows = []
    for rmem, rtt, cc in itertools.product(
        (1e6, 80e6), (5, 10, 20, 50, 100, 200), ("cubic", "bbr")
    ):
        model = "rfc9438" if cc == "cubic" else "li-bbr-linux"
        (found,) = throughput_model.models_for([cc], (model,))
        rate = found.mbit(throughput_model.ModelPath(1e9, rtt, 1e-4, rmem)) or 900.0
        study = {"goodput_study": 900.0 if cc == "bbr" else 200.0} if rtt == 10 else {}
        more = {"rtt_ms": float(rtt), "loss_p": 1e-4, "rate_mbit": 1000.0, "rmem_bytes": rmem}
        levels = {"cc": cc, "rtt": f"{rtt}ms", "rmem": f"{rmem / 1e6:g}MB"}
        goodputs = [rate * (1 + 0.01 * run) for run in range(n)]
        rows.append(row_of({"goodput": goodputs}, cc, levels, **more, **study))
    return table_of(rows)


def shared(names: tuple[str, str], first: Sequence[float], mbit: float) -> dict[str, list[float]]:
    """What two flows get of a rate: the first one's shares, and the second the rest."""
    found = {}
    for name, shares in zip(names, (first, [1 - share for share in first]), strict=True):
        found[f"share:{name}"] = list(shares)
        found[f"goodput:{name}"] = [mbit * share for share in shares]
    return found | {"goodput": [mbit] * len(first)}


def fairness(
    levels: Sequence[float] = (10, 20, 50, 100, 200),
    ccs: Sequence[str] = ("bbr", "cubic"),
    n: int = 6,
) -> pd.DataFrame:
    """Two flows of one congestion control, the second's RTT swept."""
    rows = []
    for cc, rtt in itertools.product(ccs, levels):
        lead = 0.1 * math.log2(rtt / 10) * (1 if cc == "cubic" else -0.9)
        first = [min(0.95, 0.5 + lead + 0.01 * run) for run in range(n)]
        jain = [1 / (2 * (share**2 + (1 - share) ** 2)) for share in first]
        values = {**shared(("flow1", "flow2"), first, 930.0), "jain": jain}
        more = {"rtt:flow1": 10.0, "rtt:flow2": float(rtt), "cc:flow1": cc, "cc:flow2": cc}
        if rtt == 20:
            more |= {"goodput:flow1_study": 600.0, "goodput:flow2_study": 300.0}
        asked = {"cc": cc, "flow2.rtt": f"{rtt}ms"}
        rows.append(row_of(values, cc, asked, rtt_ms=10.0, rate_mbit=1000.0, **more))
    return table_of(rows)


def rivals(n: int = 3) -> pd.DataFrame:
    """BBR against CUBIC by the buffer, at two RTTs."""
    rows = []
    shares = {"0.1bdp": 0.93, "0.5bdp": 0.8, "1bdp": 0.6, "4bdp": 0.35}
    for rtt, (buffer, share) in itertools.product((50, 100), shares.items()):
        values = shared(("bbr1", "cubic1"), [share + 0.02 * run for run in range(n)], 900.0)
        ends = {"cc:bbr1": "bbr", "cc:cubic1": "cubic"}
        ends |= dict.fromkeys(("rtt:bbr1", "rtt:cubic1"), float(rtt))
        ends["verdict"] = "degraded" if buffer == "4bdp" else "ok"
        asked = {"buffer": buffer, "rtt": f"{rtt}ms"}
        rows.append(row_of({**values, "jain": [0.8] * n}, "bbr", asked, **ends))
    return table_of(rows)


COURSE = {
    "plain": (31.7, 41, 39.1),
    "loss 0.5 %": (20.9, 21.5, 22.3),
    "loss 2.5 %": (14.6, 13.9, 16.8),
    "delay 30 ms ± 10 ms": (15.5, 17.1, 16.9),
    "delay 100 ms ± 30 ms": (12.3, 7.99, 3.98),
    "delay 10 ms ± 3 ms": (23, 21.4, 21.6),
}


def conditions(n: int = 6) -> pd.DataFrame:
    """The course's six conditions and three congestion controls."""
    rows = []
    for name, row in COURSE.items():
        verdict = "degraded" if name.endswith("30 ms") else "ok"
        for cc, value in zip(("cubic", "reno", "westwood"), row, strict=True):
            runs = [value * (0.9 + 0.02 * run) for run in range(n)]
            values = {"goodput": [] if (cc, name) == ("reno", "plain") else runs}
            more = {"rate_mbit": 42.0, "goodput_study": value, "verdict": verdict}
            rows.append(row_of(values, cc, {"cc": cc, "condition": name}, **more))
    return table_of(rows)


SITES = {
    "los-angeles": 7.05,
    "dallas": 32.0,
    "montreal": 72.0,
    "tokyo": 105.96,
    "paris": 137.06,
    "amsterdam": 143.84,
    "hongkong": 144.51,
    "shanghai": 164.74,
    "singapore": 174.27,
    "guangzhou": 180.48,
    "nanjing": 191.7,
}


def star(n: int = 6, many: bool = True) -> pd.DataFrame:
    """Sites of the thesis as seen from two places."""
    rows = []
    for place, (number, (site, rtt)), direction, cc in itertools.product(
        ("client", "target") if many else ("client",),
        enumerate(SITES.items()),
        ("upload", "download"),
        ("cubic", "bbr"),
    ):
        value = 1900 / (1 + number) ** (2.2 if cc == "cubic" else 1.2)
        value *= 4 if direction == "download" else 1
        asked = {"profile": f"{place}-{site}", "direction": direction}
        more = {"rtt_ms": rtt, "rate_mbit": 2000.0, "goodput_study": value * (0.5 + 0.1 * number)}
        more["verdict"] = "degraded" if number == 3 else "ok"
        goodputs = [value * (1 + 0.03 * run) for run in range(n)]
        rows.append(row_of({"goodput": goodputs}, cc, {"cc": cc, **asked}, **more, **asked))
    return table_of(rows)


def near_losses() -> pd.DataFrame:
    """Losses that cost little: no decade lies between the rates."""
    table = loss_sweep(2, ("cubic", "bbr"), rtts=(10, 20, 50))
    return table[table["loss_p"] <= 1e-5]


def students() -> pd.DataFrame:
    """Each with losses and a round trip of his own: five panels, fifteen losses near together."""
    rows = []
    for rtt, packets in ((40, 125), (52, 156), (68, 244), (88, 305), (115, 100)):
        for times in (1, 4, 16):
            levels = {"loss.packets": str(times * packets)}
            more = {"rtt_ms": float(rtt), "loss_p": 1 / (times * packets)}
            rows.append(row_of({"goodput": [10.0]}, "reno", levels, **more))
    return table_of(rows)


WINDOWS = (Published("m", {}, 10.0, figure="window_pkts", source="made up"),)
LI_2018 = {"models": ("rfc9438", "li-cubic", "li-bbr", "li-bbr-linux")}
# What is drawn, of which table, for which study.
DRAWN: dict[str, tuple[str, pd.DataFrame, dict[str, Any]]] = {
    "by-loss": ("by-loss", loss_sweep(), {}),
    "by-loss-single": ("by-loss", loss_sweep(1, rtts=(100,)), {}),
    "by-loss-window": (
        "by-loss",
        loss_sweep(3, ("cubic", "reno"), rtts=(10, 100)),
        {"published": WINDOWS},
    ),
    "window-by-loss": (
        "window-by-loss",
        loss_sweep(3, ("cubic", "reno"), rtts=(10, 100)),
        {"published": WINDOWS},
    ),
    "by-loss-linear": ("by-loss", near_losses(), LI_2018),
    "by-loss-students": ("by-loss", students(), {}),
    "by-rtt": ("by-rtt", rtt_sweep(), LI_2018),
    "by-rtt-flows": ("by-rtt", fairness(), {}),
    "shares": ("shares", fairness(), {}),
    "shares-rivals": ("shares", rivals(), {}),
    "shares-many": ("shares", fairness(range(10, 100, 10), ("bbr",), 1), {}),
    "bars": ("bars", conditions(), {}),
    "bars-single": ("bars", conditions(1), {}),
    "map": ("map", star(), {}),
    "map-short": ("map", star(2, many=False), {}),
}


@pytest.fixture(scope="module")
def drawn() -> dict[str, Figure]:
    return {name: figure_of(word, table, **study) for name, (word, table, study) in DRAWN.items()}


def test_windows_are_drawn_alike_by_their_own_plot(drawn: dict[str, Figure]) -> None:
    for figure in (drawn["by-loss-window"], drawn["window-by-loss"]):
        assert "Mean window (segments)" in [ax.get_ylabel() for ax in figure.axes]


def test_a_facet_per_round_trip_time(drawn: dict[str, Figure]) -> None:
    assert titles_of(drawn["by-loss"]) == ["RTT 10 ms", "RTT 50 ms", "RTT 100 ms"]


def test_model_curves_are_the_models(drawn: dict[str, Figure]) -> None:
    (model,) = throughput_model.models_for(["cubic"], ("rfc9438",))
    for line, rtt in zip(
        labelled(drawn["by-loss"], "model rfc9438", None), (10, 50, 100), strict=True
    ):
        loss, rate = line.get_xdata()[120], line.get_ydata()[120]
        assert rate == pytest.approx(model.mbit(throughput_model.ModelPath(100e6, rtt, loss)))


def test_loss_is_on_a_log_axis_and_none_has_a_place(drawn: dict[str, Figure]) -> None:
    ax = drawn["by-loss"].axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "0" in words_on(drawn["by-loss"]) and "10⁻⁴" in words_on(drawn["by-loss"])
    assert drawn["by-loss-linear"].axes[0].get_yscale() == "linear"


@pytest.mark.parametrize("figure", ["by-loss", "by-loss-linear", "by-loss-window"])
def test_every_congestion_control_s_points_stand_at_the_loss_that_was_asked(
    figure: str, drawn: dict[str, Figure]
) -> None:
    points = [
        line
        for ax in drawn[figure].axes
        for line in ax.lines
        if str(line.get_label()).startswith("lab ") and len(line.get_xdata()) == 1
    ]
    losses = sorted(loss for loss in loss_sweep()["loss_p"].unique() if loss > 0)
    places = {losses[0] / 10, *losses}
    assert len({line.get_label() for line in points}) > 1
    assert {float(line.get_xdata()[0]) for line in points} <= places


def test_published_bands_are_shaded_where_they_are_said(drawn: dict[str, Figure]) -> None:
    bands = [
        band.get_paths()[0].get_extents()
        for ax in drawn["by-loss"].axes
        for band in ax.collections
        if band.get_label() == "band"
    ]
    assert [(band.y0, band.y1) for band in bands] == [(4.0, 11.0), (70.0, 100.0)]
    assert all(band.x0 < 1e-3 * 1.13 < band.x1 * 1.3 for band in bands)


def test_windows_have_segments_and_their_own_curve(drawn: dict[str, Figure]) -> None:
    assert drawn["by-loss-window"].axes[0].get_ylabel() == "Mean window (segments)"
    line = labelled(drawn["by-loss-window"], "model reno", None)[0]
    assert line.get_ydata()[-1] == pytest.approx(throughput_model.reno_window(line.get_xdata()[-1]))


def test_li_s_equations_are_drawn_for_each_receive_buffer(drawn: dict[str, Figure]) -> None:
    for model in ("li-bbr", "li-bbr-linux"):
        assert len(labelled(drawn["by-rtt"], f"model {model}", None)) == 2
    assert titles_of(drawn["by-rtt"]) == ["rmem 1\u00a0MB", "rmem 80\u00a0MB"]


def test_flows_that_share_a_bottleneck_are_lines_of_their_own(drawn: dict[str, Figure]) -> None:
    figure = drawn["by-rtt-flows"]
    assert figure.axes[0].get_xlabel() == "Round-trip time of flow2 (ms)"
    assert labelled(figure, "lab flow1", None) and {
        line.get_marker() for line in labelled(figure, "lab flow2", None)
    } == {"s"}
    assert len(labelled(figure, "study", None)) == 4


def test_a_flow_that_only_some_conditions_have_is_a_line_there_alone() -> None:
    table = fairness()
    has_it = table["cc"] == "cubic"
    for column in [each for each in table.columns if ":flow1" in each]:
        nothing = () if isinstance(table[column][0], list | tuple) else math.nan
        values = [
            value if has else nothing for value, has in zip(table[column], has_it, strict=True)
        ]
        table[column.replace("flow1", "flow3")] = values

    figure = figure_of("by-rtt", table)

    assert [len(labelled(figure, "lab flow3", panel)) > 0 for panel in (0, 1)] == [False, True]


def test_jain_stands_above_every_group(drawn: dict[str, Figure]) -> None:
    assert [
        text.get_text()
        for ax in drawn["shares"].axes
        for text in ax.texts
        if text.get_label() == "jain"
    ] == [f"{row['jain']:.2f}" for _, row in fairness().sort_values("cc", kind="stable").iterrows()]


def test_the_study_s_goodputs_become_shares(drawn: dict[str, Figure]) -> None:
    marks = sorted(float(line.get_ydata()[0]) for line in labelled(drawn["shares"], "study", None))
    assert marks == pytest.approx([100 / 3, 100 / 3, 200 / 3, 200 / 3])


def test_a_published_band_of_a_share_stands_beside_its_bar() -> None:
    table = rivals()
    table["share:bbr1_least"] = 0.6
    band, *more = labelled(figure_of("shares", table), "band", None)
    assert list(band.get_ydata()) == [60, 100] and len(more) == len(table) - 1


@pytest.mark.parametrize(("name", "marks"), [("bars", 18), ("map", 88)])
def test_the_study_s_values_stand_beside(drawn: dict[str, Figure], name: str, marks: int) -> None:
    assert len(labelled(drawn[name], "study", None)) == marks


def test_a_condition_without_a_valid_run_says_so(drawn: dict[str, Figure]) -> None:
    assert "no valid run" in words_on(drawn["bars"])


@pytest.mark.parametrize(
    ("name", "runs", "interval"),
    [("map", True, True), ("map-short", True, False), ("by-loss-single", False, False)],
)
def test_every_run_is_a_dot_and_intervals_are_only_from_six_runs(
    drawn: dict[str, Figure], name: str, runs: bool, interval: bool
) -> None:
    shown = [bool(labelled(drawn[name], each, None)) for each in ("runs", "interval")]
    assert shown == [runs, interval]


def test_sites_stand_nearest_first_by_where_they_are_seen_from() -> None:
    sites = star_map.sorted_sites(star())
    assert (sites[0], sites[10]) == ("client-los-angeles", "client-nanjing")
    assert sites[11] == "target-los-angeles"


def test_a_factor_that_another_determines_makes_no_facets() -> None:
    table = loss_sweep(1, rtts=(10, 50))
    table["factor:profile"] = ["near" if rtt == 10 else "far" for rtt in table["rtt_ms"]]
    titles = [title for title, _ in facets_of(table, ("cc", "loss_p"), "rtt_ms")]
    assert titles == ["RTT 10 ms", "RTT 50 ms"]


@pytest.mark.rendered
@pytest.mark.parametrize("name", list(DRAWN))
def test_no_text_is_outside_small_or_on_another(drawn: dict[str, Figure], name: str) -> None:
    figure = drawn[name]
    unseen, renderer = check_texts(figure), figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for ax in figure.axes:
        boxes = [
            tick.label1.get_window_extent(renderer)
            for tick in ax.xaxis.get_major_ticks()
            if tick.label1.get_text()
            and id(tick.label1) not in unseen
            and tick.label1.get_visible()
        ]
        boxes.sort(key=lambda box: box.x0)
        assert all(first.x1 <= second.x0 + 1 for first, second in itertools.pairwise(boxes))


@pytest.mark.rendered
def test_a_figure_drawn_twice_is_the_same() -> None:
    first, second = (style.save_figure(figure_of("shares", fairness()), "svg") for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("text", "letters", "lines"),
    [
        # A value parts from its unit before a word breaks,
        ("1000\u00a0packets", 11, "1000\npackets"),
        ("loss\u00a01\u00a0%, streams\u00a02", 12, "loss\u00a01\u00a0%,\nstreams\u00a02"),
        # a long word behind a mark and not inside its parts.
        ("fixedrate(rate_kbit=15000)", 14, "fixedrate(\nrate_kbit=\n15000)"),
        ("gost+mwss", 20, "gost+mwss"),
    ],
)
def test_a_name_breaks_where_it_is_read(text: str, letters: int, lines: str) -> None:
    assert style.wrap_label(text, letters) == lines


def test_seven_places_of_one_congestion_control_stand_in_one_row() -> None:
    levels = [{"where": "cubic"}, {"where": "bbr"}]
    levels += [{f"where.{end}": "bbr"} for end in ("client", "target", "app", "wan", "exit")]
    table = table_of([row_of({"goodput": [10.0]}, "bbr", each) for each in levels])
    (ax,) = figure_of("bars", table).axes
    names = [label.get_text().replace("\n", " ") for label in ax.get_xticklabels()]
    assert len(names) == 7 and "BBR at target" in names


def test_a_bar_that_is_alone_in_its_condition_stands_above_its_name() -> None:
    table = table_of(
        [row_of({"goodput": [10.0]}, cc, {"cc.client": cc}) for cc in ("bbr", "cubic")]
    )
    (ax,) = figure_of("bars", table).axes
    middles = [bar.get_x() + bar.get_width() / 2 for bar in ax.patches]
    assert middles == pytest.approx(list(ax.get_xticks()))


def test_bars_of_many_factors_are_named_whole() -> None:
    names = [
        f"delay 25\u00a0ms, {way}, forward.loss {loss}\u00a0%"
        for way in ("download", "upload")
        for loss in (0, 0.1, 1)
    ]
    count = bars.conditions_per_row(names)
    shown = {style.wrap_label(name, bars.ROW // count).replace("\n", " ") for name in names}
    assert shown == set(names)
    assert bars.conditions_per_row(["short"] * 12) == bars.CONDITIONS_IN_A_ROW


@pytest.mark.parametrize(
    ("factor", "level", "named"),
    [
        ("forward.loss", "1%", "forward.loss 1\u00a0%"),
        ("cc.client", "bbr", "BBR at client"),
        ("where.app", "bbr", "BBR at app"),
        ("late.rtt", "1%", "late.rtt 1\u00a0%"),
        ("second.hop2.loss", "1%", "hop2 loss 1\u00a0%"),
        ("links.n1-n2.rtt", "60ms", "n1-n2 rtt 60\u00a0ms"),
        ("loss.packets", "305", "one loss in 305 packets"),
    ],
)
def test_a_level_of_one_end_direction_or_link_is_named_after_it(
    factor: str, level: str, named: str
) -> None:
    assert level_with_factor_name(f"factor:{factor}", level) == named


def test_a_factor_of_one_end_direction_or_flow_is_named_after_it() -> None:
    assert factor_heading("factor:forward.loss") == "Packet loss, forward"
    assert factor_heading("factor:cc.client") == "Congestion control, client"
    assert factor_heading("factor:late.rtt") == "Round-trip time of late"
    assert cell_label({"where.app": "bbr", "loss": "1%"}, cc_name) == "BBR at app, 1\u00a0% loss"
