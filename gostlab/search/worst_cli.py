# SPDX-License-Identifier: MIT
"""Implement `./lab worst --cc CC`: its options, the profile that it writes, and its output."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from gostlab import sandbox
from gostlab.cli import common
from gostlab.errors import require_bounds
from gostlab.profile_import import profile_writer as writer
from gostlab.search import harness as harnesses
from gostlab.search import search_space, worst_path_search
from gostlab.spec import expand, experiment, profile, yaml_source

SHOWN = 3
OVER = "rate,rtt,loss,buffer,queue"
MADE_BY = "The worst path that ./lab worst found"


def worst_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--cc", required=True, help="congestion control to examine")
    add("--against", metavar="CC", help="congestion control that shares the bottleneck")
    add(
        "--over",
        default=OVER,
        metavar="NAME,…",
        help="settings to vary: NAME, NAME=FROM..TO, or NAME=A|B|C (default: %(default)s)",
    )
    known = "; ".join(
        f"{name}: {measure.summary}" for name, measure in worst_path_search.MEASURES.items()
    )
    add(
        "--measure",
        choices=tuple(worst_path_search.MEASURES),
        help=f"metric that judges a path: {known.replace('%', '%%')}"
        " (default: share with --against, else utilisation)",
    )
    add("--budget", type=int, default=200, help="total number of runs (default: 200)")
    common.declare_repeatable_option("--set", "NAME=VALUE", "set a setting of all runs")(parser)
    add("--seed", type=int, default=1, help="seed of search and runs (default: 1)")
    common.jobs_option()(parser)
    common.declare_flag("--dry-run", "print the planned search and stop")(parser)
    common.declare_flag("--json", "print only the result, as JSON")(parser)
    writer.add_output_arguments(parser)
    common.results_option("folder of the runs")(parser)
    common.MACHINE(parser)


@common.verb(
    worst_arguments, example=f"./lab worst --cc bbr --against cubic --over {OVER} --budget 200"
)
def worst_verb(arguments: argparse.Namespace) -> int:
    """Run `./lab worst`; return 0 if a path was found. Raises BadInput, and what a run raises."""
    choice = sandbox.choose_machine(arguments.machine)
    options = read_options(arguments)
    options.check()
    name = writer.profile_name(arguments.name, options.name)
    profile_file = arguments.out / f"{name}.yaml"
    # A profile that an earlier search wrote may be replaced.
    is_ours = profile_file.is_file() and MADE_BY in profile_file.read_text("utf-8", "replace")
    force = arguments.force or arguments.dry_run or is_ours
    writer.check_output(arguments.out, name, (".yaml",), force=force)
    progress = harnesses.SearchProgress(options.budget, 0.0, quiet=arguments.json)
    harness = harnesses.SearchHarness(
        "worst", options.document(), options.results, choice, progress, jobs=arguments.jobs
    )
    [example, *_] = expand.expand(harness.file, machine=choice.name)
    progress.most_s = options.budget * example.length_s
    if arguments.dry_run:
        print(*(axis.says for axis in options.axes), sep="\n")
        print(
            f"{options.searched} paths, then {options.budget - options.searched} runs of the"
            f" worst; {options.measure.name}: {options.measure.summary}"
        )
        return 0
    with harness:
        result = worst_path_search.search(options, harness)
    texts = {".yaml": profile_text(options, name, result)}
    written = writer.write_profile(arguments.out, name, texts)
    if arguments.json:
        output = {
            "measure": options.measure.name,
            "searched": result.searched,
            "without_answer": result.without_answer,
            "profile": str(written),
            "paths": [{**asdict(path), "value": path.value} for path in result.paths],
        }
        print(json.dumps(output, indent=2))
    else:
        print_result(options, result, written)
    return 0


def read_options(arguments: argparse.Namespace) -> worst_path_search.WorstSearchOptions:
    """Parse the command line. Raises BadInput."""
    require_bounds(f"--seed {arguments.seed}", arguments.seed, 0, experiment.MAX_SEED)
    default = "share" if arguments.against else "utilisation"
    form = "name=value (like duration=10s)"
    return worst_path_search.WorstSearchOptions(
        cc=arguments.cc,
        against=arguments.against,
        axes=search_space.read_axes(arguments.over),
        measure=worst_path_search.MEASURES[arguments.measure or default],
        budget=arguments.budget,
        seed=arguments.seed,
        settings=dict(yaml_source.split_name_values("--set", arguments.set, form)),
        results=arguments.results,
    )


def profile_text(
    options: worst_path_search.WorstSearchOptions, name: str, result: worst_path_search.WorstPaths
) -> str:
    """Return the worst path as a profile's text; settings outside a path become a note."""
    first = result.paths[0]
    directions: dict[str, dict[str, object]] = {
        direction: writer.direction_values("100mbit", "50") for direction in profile.DIRECTIONS
    }
    writer.apply_settings(directions, {**options.settings, **first.settings})
    others = [f"{n}={v}" for n, v in first.settings.items() if not writer.is_path_setting(n)]
    document = {
        "name": name,
        "title": options.title,
        "assumptions": [
            f"Searched, not measured: the worst of {result.searched} paths."
            f" {options.measure.name.capitalize()}: {format_spread(options, first)}."
        ],
        "notes": [f"No part of a path: --set {' --set '.join(others)}"] if others else [],
        **directions,
    }
    return writer.profile_text([f"{MADE_BY}, seed {options.seed}.", writer.SCHEMA], document)


def format_spread(
    options: worst_path_search.WorstSearchOptions, path: worst_path_search.TriedPath
) -> str:
    """Return the median and the range of the values of a path's runs."""
    show = options.measure.show
    if len(path.values) == 1:
        return f"{show(path.value)} (one run)"
    least, most = show(min(path.values)), show(max(path.values))
    return f"{show(path.value)} ({len(path.values)} runs: {least} to {most})"


def print_result(
    options: worst_path_search.WorstSearchOptions,
    result: worst_path_search.WorstPaths,
    profile_file: Path,
) -> None:
    """Print the worst paths, the profile, and how to inspect them."""
    beside = f" beside {options.against}" if options.against else ""
    print(f"{options.cc}{beside}: {options.measure.summary}")
    for path in result.paths[:SHOWN]:
        print(f"  {format_spread(options, path)}: {path.text}")
    lost = f", {result.without_answer} without an answer" if result.without_answer else ""
    first = result.paths[0]
    settings = {**options.settings, **first.settings}
    others = [f"--{n} {v}" for n, v in settings.items() if not writer.is_path_setting(n)]
    against = f",{worst_path_search.AGAINST}={options.against}" if options.against else ""
    flows = f"--flows {worst_path_search.MINE}={options.cc}{against}"
    asking = " ".join([f"--profile {profile_file}", *others, flows, "--repeat 6"])
    print(f"of {result.searched} paths{lost}")
    print(f"its run: {first.run}")
    print(f"all runs: ./lab report {options.name} --results {options.results}")
    print(f"the path: {profile_file} · ask again: ./lab try {asking}")
