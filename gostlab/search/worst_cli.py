"""`./lab worst --cc CC`: its words, the profile that it writes, and the lines that it prints."""

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


def measure_word(parser: argparse.ArgumentParser) -> None:
    known = "; ".join(f"{name}: {each.says}" for name, each in worst.MEASURES.items())
    parser.add_argument(
        "--measure",
        choices=tuple(worst.MEASURES),
        help=f"what makes a path bad: {known.replace('%', '%%')}"
        " (default: share with --against, else utilisation)",
    )


@common.verb(
    "worst",
    "on which path does a congestion control do worst? An optimiser looks",
    common.word("--cc", required=True, help="the congestion control to look into"),
    common.word("--against", metavar="CC", help="one that shares the bottleneck with it"),
    common.word(
        "--over",
        default=OVER,
        metavar="NAME,…",
        help="what is varied: a setting, or NAME=FROM..TO, or NAME=A|B|C (default: %(default)s)",
    ),
    measure_word,
    common.word("--budget", type=int, default=200, help="runs in all (default: 200)"),
    common.listed("--set", "NAME=VALUE", "a setting of all runs"),
    common.word("--seed", type=int, default=1, help="of search and runs (default: 1)"),
    common.jobs(),
    common.flag("--dry-run", "say what would be searched and stop"),
    common.flag("--json", "the outcome as JSON and nothing else"),
    lambda parser: writer.add_output_arguments(parser),  # noqa: PLW0108 (it is read where it is needed)
    common.results("where runs go"),
    common.MACHINE,
    example=f"./lab worst --cc bbr --against cubic --over {OVER} --budget 200",
)
def worst_verb(arguments: argparse.Namespace) -> int:
    """`./lab worst`; 0 if a path was found. Raises BadInput, and what a run does."""
    choice = sandbox.choose(arguments.machine)
    order = read_order(arguments)
    worst.check_order(order)
    name = writer.profile_name(arguments.name, order.name)
    again = arguments.force or arguments.dry_run or is_ours(arguments.out / f"{name}.yaml")
    writer.check_output(arguments.out, name, (".yaml",), force=again)
    kept = fit.kept_experiment(order.results, order.document(), "worst")
    [example, *_] = expand.expand(kept, machine=choice.name)
    if arguments.dry_run:
        print(*(axis.says for axis in order.axes), sep="\n")
        print(
            f"{order.searched} paths, then {order.budget - order.searched} runs of the worst;"
            f" {order.measure.name}: {order.measure.says}"
        )
        return 0
    told = fit.SearchProgress(order.budget, order.budget * example.length_s, quiet=arguments.json)
    found = worst.search(order, worst.SearchRunner(order, choice, told, arguments.jobs), told)
    written = writer.write_profile(arguments.out, name, {".yaml": profile_of(order, name, found)})
    if arguments.json:
        print(json.dumps(as_json(order, found, written), indent=2))
    else:
        print(*lines(order, found, written), sep="\n")
    return 0


def is_ours(profile: Path) -> bool:
    """Whether a profile is an earlier one of this search's: the same command goes on from there."""
    return profile.is_file() and MADE_BY in profile.read_text(encoding="utf-8", errors="replace")


MADE_BY = "The worst path that ./lab worst found"


def read_order(arguments: argparse.Namespace) -> worst.WorstSearchOptions:
    """The command line's words. Raises BadInput."""
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


# -- the profile


def profile_of(order: worst.WorstSearchOptions, name: str, found: worst.Worst) -> str:
    """The worst path as a profile's text; what is no part of a path is a note."""
    first = found.paths[0]
    ways: dict[str, dict[str, Any]] = {
        way: writer.direction_values("100mbit", "50") for way in profile.DIRECTIONS
    }
    writer.apply_settings(ways, {**order.settings, **first.settings})
    beside = [
        f"{name}={text}"
        for name, text in first.settings.items()
        if not writer.is_path_setting(name)
    ]
    said = {
        "name": name,
        "title": f"Where {order.cc} does worst{order.beside}, by {order.measure.name}",
        "assumptions": [
            f"Searched, not measured: the worst of {found.searched} paths."
            f" {order.measure.name.capitalize()}: {spread(order, first)}."
        ],
        "notes": [f"No part of a path: --set {' --set '.join(beside)}"] if beside else [],
        **ways,
    }
    return writer.profile_text([f"{MADE_BY}, seed {order.seed}.", writer.SCHEMA], said)


# -- what is said


def spread(order: worst.WorstSearchOptions, path: worst.Tried) -> str:
    """The median of a path's runs, and from where to where they go."""
    show = order.measure.show
    if len(path.values) == 1:
        return f"{show(path.value)} (one run)"
    least, most = show(min(path.values)), show(max(path.values))
    return f"{show(path.value)} ({len(path.values)} runs: {least} to {most})"


def lines(order: worst.WorstSearchOptions, found: worst.Worst, profile: Path) -> list[str]:
    """For people: the worst paths, the profile, and how to look."""
    said = [f"{order.cc}{order.beside}: {order.measure.says}"]
    for path in found.paths[:SHOWN]:
        said.append(f"  {spread(order, path)}: {worst.words(path.settings)}")
    lost = f", {found.without_answer} without an answer" if found.without_answer else ""
    first = found.paths[0]
    beside = {**order.settings, **first.settings}
    others = [
        f"--{name} {text}" for name, text in beside.items() if not writer.is_path_setting(name)
    ]
    flows = f"{worst.MINE}={order.cc}" + (
        f",{worst.AGAINST}={order.against}" if order.against else ""
    )
    asking = " ".join([f"--profile {profile}", *others, f"--flows {flows}", "--repeat 6"])
    return [
        *said,
        f"of {found.searched} paths{lost}",
        f"its run: {first.run}",
        f"all runs: ./lab report {order.name} --results {order.results}",
        f"the path: {profile} · ask again: ./lab try {asking}",
    ]


def as_json(order: worst.WorstSearchOptions, found: worst.Worst, profile: Path) -> dict[str, Any]:
    return {
        "measure": order.measure.name,
        "searched": found.searched,
        "without_answer": found.without_answer,
        "profile": str(profile),
        "paths": [{**asdict(path), "value": path.value} for path in found.paths],
    }
