"""`./lab fit PROFILE --from MEASUREMENTS`: its options, and the lines that it prints."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TextIO

from gostlab import sandbox
from gostlab.analysis.plotting import style
from gostlab.cli import common
from gostlab.profile_import import profile_writer
from gostlab.registry.folders import OWN_PROFILES
from gostlab.scheduler import summary
from gostlab.search import api, fit_plot, parameters
from gostlab.search import problem as orders
from gostlab.spec.fit_record import FIT, JUDGE, FitRecord, FittedRow
from gostlab.spec.units import show_size
from gostlab.spec.yaml_source import named_values

FIGURE = "fitted.png"
# What a fit takes as the command line has it.
AS_SAID = "name out results points members judge_paths repeat screen seed".split()


def fit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "profile", help="the path to begin with: a name in netem_profiles/, or a file"
    )
    parser.add_argument(
        "--from",
        dest="measurements",
        required=True,
        metavar="MEASUREMENTS",
        help="a name in measurements/, a file, or an experiment whose study published rates",
    )
    for name, metavar, says in (
        ("--matrix", "MATRIX", "only this matrix of an experiment"),
        (
            "--free",
            "NAME=FROM..TO",
            "what may explain the rates, from where to where, on a log scale (or …:linear); in"
            " place of the file's of that name",
        ),
        ("--fit-on", "FACTOR=A,B", "fit on the numbers of these levels; the rest is judged"),
        (
            "--judge-on",
            "FACTOR=A,B",
            "judge by the numbers of these levels, and do not fit on them",
        ),
        ("--set", "NAME=VALUE", "a setting of all runs"),
    ):
        common.listed(name, metavar, says)(parser)
    profile_writer.add_output_arguments(parser)
    each = parameters.POINTS_PER_PARAMETER
    for name, default, says in (
        ("--points", None, f"paths to try (default: {each} for each free parameter, and {each})"),
        ("--members", 3, "paths that fit as well to run at full length, besides the best"),
        (
            "--judge-paths",
            3,
            "where no path meets all that judge: paths that fit as well to run besides, in case"
            " one does",
        ),
        ("--repeat", None, "runs of each number on those (default: the file's, or 1)"),
    ):
        told = f" (default: {default})" if default else ""
        parser.add_argument(name, type=int, default=default, help=says + told)
    parser.add_argument("--screen", help="how long the cheap runs last, like 5s")
    parser.add_argument("--seed", type=int, default=1, help="of search and runs (default: 1)")


@common.verb(
    "fit",
    "the inverse question: which path makes the lab say what was measured?",
    fit_arguments,
    common.jobs(),
    common.flag("--retry-failed", "run failed runs again"),
    common.flag("--dry-run", "say what would be done and stop"),
    common.flag("--json", "the outcome as JSON and nothing else"),
    common.results("where runs go"),
    common.MACHINE,
    common.GOST,
    example="./lab fit la-hamina --from tunnel-rates",
)
def fit_verb(arguments: argparse.Namespace) -> int:
    """`./lab fit`; returns the exit code: 0 if a path was found, whether or not it explains all.
    Raises BadInput, and what a run does.
    """
    # Its matrices are small: threads would only wait for each other beside the runs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    choice = sandbox.choose(arguments.machine)
    order = read_order(arguments, choice.name)
    if arguments.dry_run:
        print_order(order, sys.stdout)
        return 0
    found = api.fit_to(
        order,
        choice,
        quiet=arguments.json,
        jobs=arguments.jobs,
        gost=arguments.gost,
        retry_failed=arguments.retry_failed,
    )
    figure = order.results / order.experiment / FIGURE
    title = f"{order.name}: {order.measurements.name}"
    figure.write_bytes(style.save(fit_plot.fit_figure(found.fitted, title), "png"))
    path = str(found.profile)
    if arguments.json:
        said = {"profile": path, "figure": str(figure), **asdict(found.fitted)}
        said["explaining_window_bytes"] = order.explaining_window()
        print(json.dumps(said, indent=2))
        return 0
    print_fitted(found.fitted, sys.stdout)
    print(*window_lines(order), sep="", end="")
    print(f"figure: {figure}")
    is_named = order.out.resolve() == OWN_PROFILES.resolve()
    print(f"{path} · use it: --set profile={order.name if is_named else path}")
    return 0


# -- the words


def read_order(arguments: argparse.Namespace, machine_name: str) -> orders.FitOrder:
    """The command line's words, checked. Raises BadInput."""
    return api.order_of(
        arguments.profile,
        arguments.measurements,
        free=[parameters.read_word(word) for word in arguments.free],
        settings=dict(named_values("--set", arguments.set, "name=value (like duration=10s)")),
        machine=machine_name,
        matrices=arguments.matrix,
        fit_on=levels("--fit-on", arguments.fit_on),
        judge_on=levels("--judge-on", arguments.judge_on),
        force=arguments.force or arguments.dry_run,
        **{name: getattr(arguments, name) for name in AS_SAID},
    )


def levels(option: str, pairs: Sequence[str]) -> dict[str, list[str]]:
    """--fit-on's words: levels by factor. Raises BadInput."""
    found: dict[str, list[str]] = {}
    for name, value in named_values(option, pairs, "factor=level (like cc=cubic)"):
        found.setdefault(name, []).extend(value.split(","))
    return found


# -- what is said


def print_order(order: orders.FitOrder, file: TextIO) -> None:
    row = order.rows[0]
    lines = [
        f"{each.use}: {each.label}: {summary.mbit(each.goodput_bps)} Mbit/s"
        f" ({summary.mbit(each.least_bps)} to {summary.mbit(each.most_bps)})"
        for each in order.rows
    ]
    lines += [
        f"free: {each.sets} from {each.text(0.0)} to {each.text(1.0)}, {each.scale}"
        for each in order.free
    ]
    lines.append(
        f"{order.points} paths by runs of {order.short_s(row)} s, then {1 + order.members} by"
        f" {order.whole_s(row)} s: {order.most()[0]} runs at most"
    )
    print(*lines, sep="\n", file=file)
    print(*window_lines(order), sep="", end="", file=file)


def window_lines(order: orders.FitOrder) -> list[str]:
    """What is said of a fit whose numbers a window explains as well as a loss."""
    window = order.explaining_window()
    if window is None:
        return []
    least, most = map(show_size, window)
    return [
        f"without any loss, a window of {least} to {most} for each connection explains the fitted"
        " numbers as well: add numbers of another RTT, or of more loss-tolerant congestion control"
        " (BBR), or measure the sockets' windows (ss -ti: rwnd_limited, sndbuf_limited)\n"
    ]


def print_fitted(fitted: FitRecord, file: TextIO) -> None:
    """A table of the numbers, the parameters' ranges, and what to think of it."""
    console = summary.console_on(file)
    table = summary.plain_table()
    table.add_column("number", overflow="fold")
    table.add_column("use")
    for heading in ("measured", "its band", "lab", "lab / measured", "paths that fit as well"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for row in fitted.rows:
        table.add_row(*row_of(row))
    console.print(table)
    for line in (*parameter_lines(fitted), *trade_off_lines(fitted), *conclusion(fitted)):
        console.print(line, soft_wrap=True)


def row_of(row: FittedRow) -> list[str]:
    reach = "–"
    if row.least_mbit is not None and row.most_mbit is not None:
        reach = f"{plain(row.least_mbit)} to {plain(row.most_mbit)}"
    return [
        row.label,
        "fitted" if row.use == FIT else "judged",
        plain(row.asked_mbit),
        f"{plain(row.band_least_mbit)} to {plain(row.band_most_mbit)}",
        plain(row.lab_mbit),
        "–" if row.ratio is None else f"{row.ratio:.2f}",
        reach,
        verdict(row),
    ]


def plain(rate_mbit: float | None) -> str:
    """Mbit/s with three figures."""
    return summary.mbit(None if rate_mbit is None else rate_mbit * 1e6)


def verdict(row: FittedRow) -> str:
    """What is to be thought of a number."""
    if row.lab_mbit is None:
        return "no run"
    if row.in_band:
        return "in band"
    return "in reach" if row.in_reach else "not explained"


def parameter_lines(fitted: FitRecord) -> list[str]:
    lines = []
    for each in fitted.parameters:
        ends = ["below"] * each.open_below + ["above"] * each.open_above
        beyond = f" (and perhaps {' and '.join(ends)}: there the search ended)" if ends else ""
        lines.append(f"{each.sets}: {each.value}; as well from {each.least} to {each.most}{beyond}")
    return lines


def trade_off_lines(fitted: FitRecord) -> list[str]:
    return [
        f"{each.between[0]} and {each.between[1]} make up for each other:"
        f" {'more of one, more' if each.correlation > 0 else 'more of one, less'} of the other"
        f" (rank correlation {each.correlation:+.2f})"
        for each in fitted.trade_offs
    ]


def conclusion(fitted: FitRecord) -> list[str]:
    fit_rows = [row for row in fitted.rows if row.use == FIT]
    judged = [row for row in fitted.rows if row.use == JUDGE]
    held = sum(row.in_band for row in fit_rows)
    if fitted.explained:
        which = (
            f"all {len(fit_rows)} fitted numbers" if len(fit_rows) > 1 else "the one fitted number"
        )
        first = f"explained: the lab is within the band of {which}"
    else:
        outside = [row for row in fit_rows if not row.in_band]
        worst = max(outside, key=lambda row: abs(math.log(row.ratio or math.inf)))
        ratio = "no run" if worst.ratio is None else f"{worst.ratio:.2f} times"
        first = (
            f"not explained: no path of this kind was found that meets the fitted numbers; the"
            f" best is within the band of {held} of {len(fit_rows)}, the worst is {worst.label}"
            f" ({ratio})"
        )
    lines = [f"{first}; misfit {fitted.misfit:.2g} standard deviations"]
    if judged:
        near = sum(row.in_band for row in judged)
        reach = sum(row.in_reach and not row.in_band for row in judged)
        lines.append(
            f"judged by {len(judged)} others: {near} in band, {reach} in reach of paths that fit as"
            f" well, {len(judged) - near - reach} not explained"
        )
    return lines
