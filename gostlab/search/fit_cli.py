# SPDX-License-Identifier: MIT
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
from gostlab.search import fit_api, fit_plot, parameters
from gostlab.search import fit_definition as orders
from gostlab.spec.fit_record import FIT, JUDGE, FitRecord, FittedRow
from gostlab.spec.units import show_size
from gostlab.spec.yaml_source import split_name_values

FIGURE_FILE = "fitted.png"
# These options have the names of the arguments of api.order_of().
SAME_NAMED_OPTIONS = "name out results points members judge_paths repeat screen seed".split()


def fit_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument

    def repeated(name: str, metavar: str, says: str) -> None:
        common.declare_repeatable_option(name, metavar, says)(parser)

    add("profile", help="path to start from: a name in netem_profiles/, or a file")
    says = "measured rates: a name in measurements/, a file, or an experiment with some"
    add("--from", dest="measurements", required=True, metavar="MEASUREMENTS", help=says)
    repeated("--matrix", "MATRIX", "use only this matrix of an experiment")
    says = "free parameter and its range, on a log scale (or …:linear); replaces the file's of"
    repeated("--free", "NAME=FROM..TO", f"{says} that name")
    says = "fit on the numbers of these levels; the rest is judged"
    repeated("--fit-on", "FACTOR=A,B", says)
    says = "judge by the numbers of these levels, without fitting on them"
    repeated("--judge-on", "FACTOR=A,B", says)
    repeated("--set", "NAME=VALUE", "set a setting of all runs")
    profile_writer.add_output_arguments(parser)
    count = parameters.POINTS_PER_PARAMETER
    says = f"paths to try (default: {count} for each free parameter, and {count})"
    add("--points", type=int, help=says)
    says = "equally good paths to run at full length, besides the best (default: 3)"
    add("--members", type=int, default=3, help=says)
    says = "further equally good paths to run if no path explains all numbers that judge"
    add("--judge-paths", type=int, default=3, help=f"{says} (default: 3)")
    says = "runs of each number on these paths (default: the file's, or 1)"
    add("--repeat", type=int, help=says)
    add("--screen", help="duration of the short runs, like 5s")
    add("--seed", type=int, default=1, help="seed of search and runs (default: 1)")


@common.verb(
    fit_arguments,
    common.jobs_option(),
    common.declare_flag("--retry-failed", "run failed runs again"),
    common.declare_flag("--dry-run", "print the planned search and stop"),
    common.declare_flag("--json", "print only the result, as JSON"),
    common.results_option("folder of the runs"),
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
    choice = sandbox.choose_machine(arguments.machine)
    order = read_order(arguments, choice.name)
    if arguments.dry_run:
        print_order(order, sys.stdout)
        return 0
    result = fit_api.run_fit(
        order,
        choice,
        quiet=arguments.json,
        jobs=arguments.jobs,
        gost=arguments.gost,
        retry_failed=arguments.retry_failed,
    )
    plot_file = order.results / order.experiment / FIGURE_FILE
    title = f"{order.name}: {order.measurements.name}"
    plot_file.write_bytes(style.save_figure(fit_plot.fit_figure(result.fitted, title), "png"))
    path = str(result.profile)
    if arguments.json:
        output = {"profile": path, "figure": str(plot_file), **asdict(result.fitted)}
        output["explaining_window_bytes"] = order.explaining_window()
        print(json.dumps(output, indent=2))
        return 0
    print_fitted(result.fitted, sys.stdout)
    print(*window_lines(order), sep="", end="")
    print(f"figure: {plot_file}")
    is_named = order.out.resolve() == OWN_PROFILES.resolve()
    print(f"{path} · use it: --set profile={order.name if is_named else path}")
    return 0


# -- parse options


def read_order(arguments: argparse.Namespace, machine_name: str) -> orders.FitOrder:
    """Parse and validate the command line. Raises BadInput."""
    return fit_api.order_of(
        arguments.profile,
        arguments.measurements,
        free=[parameters.read_word(word) for word in arguments.free],
        settings=dict(split_name_values("--set", arguments.set, "name=value (like duration=10s)")),
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
    for name, value in split_name_values(option, pairs, "factor=level (like cc=cubic)"):
        by_factor.setdefault(name, []).extend(value.split(","))
    return by_factor


# -- print results


def print_order(order: orders.FitOrder, file: TextIO) -> None:
    row = order.rows[0]
    lines = [
        f"{row.use}: {row.label}: {summary.format_mbit(row.goodput_bps)} Mbit/s"
        f" ({summary.format_mbit(row.least_bps)} to {summary.format_mbit(row.most_bps)})"
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
        table.add_row(
            row.label,
            "fitted" if row.use == FIT else "judged",
            format_mbit(row.asked_mbit),
            format_range(row.band_least_mbit, row.band_most_mbit),
            format_mbit(row.lab_mbit),
            "–" if row.ratio is None else f"{row.ratio:.2f}",
            format_range(row.least_mbit, row.most_mbit),
            verdict(row),
        )
    console.print(table)
    for line in (*parameter_lines(fitted), *trade_off_lines(fitted), *conclusion(fitted)):
        console.print(line, soft_wrap=True)


def format_mbit(rate_mbit: float | None) -> str:
    """Format a rate in Mbit/s with three significant digits."""
    return summary.format_mbit(None if rate_mbit is None else rate_mbit * 1e6)


def format_range(least_mbit: float | None, most_mbit: float | None) -> str:
    if least_mbit is None or most_mbit is None:
        return "–"
    return f"{format_mbit(least_mbit)} to {format_mbit(most_mbit)}"


def verdict(row: FittedRow) -> str:
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
        span = f"as well from {parameter.least} to {parameter.most}{beyond}"
        lines.append(f"{parameter.sets}: {parameter.value}; {span}")
    return lines


def trade_off_lines(fitted: FitRecord) -> list[str]:
    return [
        f"{' and '.join(one.between)} make up for each other: more of one,"
        f" {'more' if one.correlation > 0 else 'less'} of the other"
        f" (rank correlation {one.correlation:+.2f})"
        for one in fitted.trade_offs
    ]


def conclusion(fitted: FitRecord) -> list[str]:
    """Return sentences on the fitted numbers and on those that judge."""
    fit_rows = [row for row in fitted.rows if row.use == FIT]
    judged = [row for row in fitted.rows if row.use == JUDGE]
    outside = [row for row in fit_rows if not row.in_band]
    if fitted.explained:
        several = len(fit_rows) > 1
        which = f"all {len(fit_rows)} fitted numbers" if several else "the one fitted number"
        first = f"explained: the lab is within the band of {which}"
    else:
        worst = max(outside, key=lambda row: abs(math.log(row.ratio or math.inf)))
        ratio = "no run" if worst.ratio is None else f"{worst.ratio:.2f} times"
        first = (
            "not explained: no path of this kind was found that meets the fitted numbers; the best"
            f" is within the band of {len(fit_rows) - len(outside)} of {len(fit_rows)}, the worst"
            f" is {worst.label} ({ratio})"
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
