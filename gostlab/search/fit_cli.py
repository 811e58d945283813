"""Implement `./lab fit PROFILE --from MEASUREMENTS`: its options and its output."""

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
# These options have the names of the arguments of api.order_of().
SAME_NAMED_OPTIONS = "name out results points members judge_paths repeat screen seed".split()


def fit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", help="path to start from: a name in netem_profiles/, or a file")
    parser.add_argument(
        "--from",
        dest="measurements",
        required=True,
        metavar="MEASUREMENTS",
        help="measured rates: a name in measurements/, a file, or an experiment with some",
    )
    for name, metavar, says in (
        ("--matrix", "MATRIX", "use only this matrix of an experiment"),
        (
            "--free",
            "NAME=FROM..TO",
            "free parameter and its range, on a log scale (or …:linear); replaces the file's of"
            " that name",
        ),
        ("--fit-on", "FACTOR=A,B", "fit on the numbers of these levels; the rest is judged"),
        (
            "--judge-on",
            "FACTOR=A,B",
            "judge by the numbers of these levels, without fitting on them",
        ),
        ("--set", "NAME=VALUE", "set a setting of all runs"),
    ):
        common.listed(name, metavar, says)(parser)
    profile_writer.add_output_arguments(parser)
    per_parameter = parameters.POINTS_PER_PARAMETER
    for name, default, says in (
        (
            "--points",
            None,
            f"paths to try (default: {per_parameter} for each free parameter, and {per_parameter})",
        ),
        ("--members", 3, "equally good paths to run at full length, besides the best"),
        (
            "--judge-paths",
            3,
            "further equally good paths to run if no path explains all numbers that judge",
        ),
        ("--repeat", None, "runs of each number on these paths (default: the file's, or 1)"),
    ):
        default_text = f" (default: {default})" if default else ""
        parser.add_argument(name, type=int, default=default, help=says + default_text)
    parser.add_argument("--screen", help="duration of the short runs, like 5s")
    parser.add_argument("--seed", type=int, default=1, help="seed of search and runs (default: 1)")


@common.verb(
    "fit",
    "find the paths on which the lab reproduces measured rates",
    fit_arguments,
    common.jobs(),
    common.flag("--retry-failed", "run failed runs again"),
    common.flag("--dry-run", "print the planned search and stop"),
    common.flag("--json", "print only the result, as JSON"),
    common.results("folder of the runs"),
    common.MACHINE,
    common.GOST,
    example="./lab fit la-hamina --from tunnel-rates",
)
def fit_verb(arguments: argparse.Namespace) -> int:
    """Run `./lab fit` and return 0 if a path was found, even if it does not explain all numbers.

    Raises BadInput, and the exceptions of a run.
    """
    # The fit's matrices are small: BLAS threads would only compete with the runs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    choice = sandbox.choose(arguments.machine)
    order = read_order(arguments, choice.name)
    if arguments.dry_run:
        print_order(order, sys.stdout)
        return 0
    result = api.fit_to(
        order,
        choice,
        quiet=arguments.json,
        jobs=arguments.jobs,
        gost=arguments.gost,
        retry_failed=arguments.retry_failed,
    )
    figure = order.results / order.experiment / FIGURE
    title = f"{order.name}: {order.measurements.name}"
    figure.write_bytes(style.save(fit_plot.fit_figure(result.fitted, title), "png"))
    path = str(result.profile)
    if arguments.json:
        output = {"profile": path, "figure": str(figure), **asdict(result.fitted)}
        output["explaining_window_bytes"] = order.explaining_window()
        print(json.dumps(output, indent=2))
        return 0
    print_fitted(result.fitted, sys.stdout)
    print(*window_lines(order), sep="", end="")
    print(f"figure: {figure}")
    is_named = order.out.resolve() == OWN_PROFILES.resolve()
    print(f"{path} · use it: --set profile={order.name if is_named else path}")
    return 0


# -- parse options


def read_order(arguments: argparse.Namespace, machine_name: str) -> orders.FitOrder:
    """Parse and validate the command line. Raises BadInput."""
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
        **{name: getattr(arguments, name) for name in SAME_NAMED_OPTIONS},
    )


def levels(option: str, pairs: Sequence[str]) -> dict[str, list[str]]:
    """Parse the arguments of --fit-on: levels by factor. Raises BadInput."""
    by_factor: dict[str, list[str]] = {}
    for name, value in named_values(option, pairs, "factor=level (like cc=cubic)"):
        by_factor.setdefault(name, []).extend(value.split(","))
    return by_factor


# -- print results


def print_order(order: orders.FitOrder, file: TextIO) -> None:
    row = order.rows[0]
    lines = [
        f"{row.use}: {row.label}: {summary.mbit(row.goodput_bps)} Mbit/s"
        f" ({summary.mbit(row.least_bps)} to {summary.mbit(row.most_bps)})"
        for row in order.rows
    ]
    lines += [
        f"free: {parameter.sets} from {parameter.text(0.0)} to {parameter.text(1.0)},"
        f" {parameter.scale}"
        for parameter in order.free
    ]
    lines.append(
        f"{order.points} paths by runs of {order.short_s(row)} s, then {1 + order.members} by"
        f" {order.whole_s(row)} s: {order.most()[0]} runs at most"
    )
    print(*lines, sep="\n", file=file)
    print(*window_lines(order), sep="", end="", file=file)


def window_lines(order: orders.FitOrder) -> list[str]:
    """Return a note if a window explains the numbers of a fit as well as a loss."""
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
    """Print a table of the numbers, the parameters' ranges, and a conclusion."""
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
        reach = f"{format_mbit(row.least_mbit)} to {format_mbit(row.most_mbit)}"
    return [
        row.label,
        "fitted" if row.use == FIT else "judged",
        format_mbit(row.asked_mbit),
        f"{format_mbit(row.band_least_mbit)} to {format_mbit(row.band_most_mbit)}",
        format_mbit(row.lab_mbit),
        "–" if row.ratio is None else f"{row.ratio:.2f}",
        reach,
        verdict(row),
    ]


def format_mbit(rate_mbit: float | None) -> str:
    """Format a rate in Mbit/s with three significant digits."""
    return summary.mbit(None if rate_mbit is None else rate_mbit * 1e6)


def verdict(row: FittedRow) -> str:
    """Return the verdict on a number."""
    if row.lab_mbit is None:
        return "no run"
    if row.in_band:
        return "in band"
    return "in reach" if row.in_reach else "not explained"


def parameter_lines(fitted: FitRecord) -> list[str]:
    lines = []
    for parameter in fitted.parameters:
        ends = ["below"] * parameter.open_below + ["above"] * parameter.open_above
        beyond = f" (and perhaps {' and '.join(ends)}: there the search ended)" if ends else ""
        lines.append(
            f"{parameter.sets}: {parameter.value}; as well from {parameter.least} to"
            f" {parameter.most}{beyond}"
        )
    return lines


def trade_off_lines(fitted: FitRecord) -> list[str]:
    return [
        f"{trade_off.between[0]} and {trade_off.between[1]} make up for trade_off other:"
        f" {'more of one, more' if trade_off.correlation > 0 else 'more of one, less'} of the other"
        f" (rank correlation {trade_off.correlation:+.2f})"
        for trade_off in fitted.trade_offs
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
