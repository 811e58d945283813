"""Implement `./lab worst --cc CC`: its options, the profile that it writes, and its output."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gostlab import sandbox
from gostlab.cli import common
from gostlab.errors import bounded
from gostlab.profile_import import profile_writer as writer
from gostlab.search import fit, search_space, worst
from gostlab.spec import expand, experiment, profile, yaml_source

SHOWN = 3
OVER = "rate,rtt,loss,buffer,queue"


def add_measure_option(parser: argparse.ArgumentParser) -> None:
    known = "; ".join(f"{name}: {measure.says}" for name, measure in worst.MEASURES.items())
    parser.add_argument(
        "--measure",
        choices=tuple(worst.MEASURES),
        help=f"metric that judges a path: {known.replace('%', '%%')}"
        " (default: share with --against, else utilisation)",
    )


@common.verb(
    "worst",
    "search for the path on which a congestion control performs worst",
    common.word("--cc", required=True, help="congestion control to examine"),
    common.word("--against", metavar="CC", help="congestion control that shares the bottleneck"),
    common.word(
        "--over",
        default=OVER,
        metavar="NAME,…",
        help="settings to vary: NAME, NAME=FROM..TO, or NAME=A|B|C (default: %(default)s)",
    ),
    add_measure_option,
    common.word("--budget", type=int, default=200, help="total number of runs (default: 200)"),
    common.listed("--set", "NAME=VALUE", "set a setting of all runs"),
    common.word("--seed", type=int, default=1, help="seed of search and runs (default: 1)"),
    common.jobs(),
    common.flag("--dry-run", "print the planned search and stop"),
    common.flag("--json", "print only the result, as JSON"),
    lambda parser: writer.add_output_arguments(parser),  # noqa: PLW0108 (imported late)
    common.results("folder of the runs"),
    common.MACHINE,
    example=f"./lab worst --cc bbr --against cubic --over {OVER} --budget 200",
)
def worst_verb(arguments: argparse.Namespace) -> int:
    """Run `./lab worst` and return 0 if a path was found.

    Raises BadInput, and the exceptions of a run.
    """
    choice = sandbox.choose(arguments.machine)
    order = read_order(arguments)
    worst.check_order(order)
    name = writer.profile_name(arguments.name, order.name)
    again = arguments.force or arguments.dry_run or is_ours(arguments.out / f"{name}.yaml")
    writer.check_output(arguments.out, name, (".yaml",), force=again)
    experiment = fit.kept_experiment(order.results, order.document(), "worst")
    [example, *_] = expand.expand(experiment, machine=choice.name)
    if arguments.dry_run:
        print(*(axis.says for axis in order.axes), sep="\n")
        print(
            f"{order.searched} paths, then {order.budget - order.searched} runs of the worst;"
            f" {order.measure.name}: {order.measure.says}"
        )
        return 0
    progress = fit.SearchProgress(
        order.budget, order.budget * example.length_s, quiet=arguments.json
    )
    result = worst.search(
        order, worst.SearchRunner(order, choice, progress, arguments.jobs), progress
    )
    written = writer.write_profile(arguments.out, name, {".yaml": profile_of(order, name, result)})
    if arguments.json:
        print(json.dumps(as_json(order, result, written), indent=2))
    else:
        print(*lines(order, result, written), sep="\n")
    return 0


def is_ours(profile: Path) -> bool:
    """Return whether a profile was written by this search before and may be replaced."""
    return profile.is_file() and MADE_BY in profile.read_text(encoding="utf-8", errors="replace")


MADE_BY = "The worst path that ./lab worst found"


def read_order(arguments: argparse.Namespace) -> worst.WorstSearchOptions:
    """Parse the command line. Raises BadInput."""
    settings = dict(
        yaml_source.named_values("--set", arguments.set, "name=value (like duration=10s)")
    )
    bounded(f"--seed {arguments.seed}", arguments.seed, 0, experiment.MAX_SEED)
    usual = "share" if arguments.against else "utilisation"
    return worst.WorstSearchOptions(
        cc=arguments.cc,
        against=arguments.against,
        axes=search_space.read_axes(arguments.over),
        measure=worst.MEASURES[arguments.measure or usual],
        budget=arguments.budget,
        seed=arguments.seed,
        settings=settings,
        results=arguments.results,
    )


# -- write the profile


def profile_of(order: worst.WorstSearchOptions, name: str, result: worst.Worst) -> str:
    """Return the worst path as a profile's text; settings outside a path become a note."""
    first = result.paths[0]
    ways: dict[str, dict[str, Any]] = {
        direction: writer.direction_values("100mbit", "50") for direction in profile.DIRECTIONS
    }
    writer.apply_settings(ways, {**order.settings, **first.settings})
    beside = [
        f"{name}={text}"
        for name, text in first.settings.items()
        if not writer.is_path_setting(name)
    ]
    values = {
        "name": name,
        "title": f"Where {order.cc} does worst{order.beside}, by {order.measure.name}",
        "assumptions": [
            f"Searched, not measured: the worst of {result.searched} paths."
            f" {order.measure.name.capitalize()}: {spread(order, first)}."
        ],
        "notes": [f"No part of a path: --set {' --set '.join(beside)}"] if beside else [],
        **ways,
    }
    return writer.profile_text([f"{MADE_BY}, seed {order.seed}.", writer.SCHEMA], values)


# -- print results


def spread(order: worst.WorstSearchOptions, path: worst.Tried) -> str:
    """Return the median and the range of the values of a path's runs."""
    show = order.measure.show
    if len(path.values) == 1:
        return f"{show(path.value)} (one run)"
    least, most = show(min(path.values)), show(max(path.values))
    return f"{show(path.value)} ({len(path.values)} runs: {least} to {most})"


def lines(order: worst.WorstSearchOptions, result: worst.Worst, profile: Path) -> list[str]:
    """Return lines about the worst paths, the profile, and how to inspect them."""
    output = [f"{order.cc}{order.beside}: {order.measure.says}"]
    for path in result.paths[:SHOWN]:
        output.append(f"  {spread(order, path)}: {worst.format_settings(path.settings)}")
    lost = f", {result.without_answer} without an answer" if result.without_answer else ""
    first = result.paths[0]
    beside = {**order.settings, **first.settings}
    others = [
        f"--{name} {text}" for name, text in beside.items() if not writer.is_path_setting(name)
    ]
    flows = f"{worst.MINE}={order.cc}" + (
        f",{worst.AGAINST}={order.against}" if order.against else ""
    )
    asking = " ".join([f"--profile {profile}", *others, f"--flows {flows}", "--repeat 6"])
    return [
        *output,
        f"of {result.searched} paths{lost}",
        f"its run: {first.run}",
        f"all runs: ./lab report {order.name} --results {order.results}",
        f"the path: {profile} · ask again: ./lab try {asking}",
    ]


def as_json(order: worst.WorstSearchOptions, result: worst.Worst, profile: Path) -> dict[str, Any]:
    return {
        "measure": order.measure.name,
        "searched": result.searched,
        "without_answer": result.without_answer,
        "profile": str(profile),
        "paths": [{**asdict(path), "value": path.value} for path in result.paths],
    }
