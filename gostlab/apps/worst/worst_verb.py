"""`./lab worst --cc CC`: the profile that it writes, and the lines that it prints."""

import argparse
import json
from pathlib import Path
from typing import Any

from gostlab import machine
from gostlab.apps.fit.fit import Told, kept_experiment
from gostlab.apps.paths.profile_writer import (
    SCHEMA,
    check_place,
    direction,
    is_of_path,
    name_of,
    profile_text,
    set_ways,
    write_profile,
)
from gostlab.apps.worst.axes import read_axes
from gostlab.apps.worst.worst import (
    AGAINST,
    MEASURES,
    MINE,
    Lab,
    Order,
    Tried,
    Worst,
    check_order,
    search,
    words,
)
from gostlab.declared.errors import bounded
from gostlab.describe.file.document import named_values
from gostlab.describe.file.experiment import MAX_SEED
from gostlab.describe.file.profile import DIRECTIONS
from gostlab.describe.resolve.expand import expand

SHOWN = 3


def worst_verb(arguments: argparse.Namespace) -> int:
    """`./lab worst`; 0 if a path was found. Raises BadInput, and what a run does."""
    choice = machine.choose(arguments.machine)
    order = read_order(arguments)
    check_order(order)
    name = name_of(arguments.name, order.name)
    again = arguments.force or arguments.dry_run or is_ours(arguments.out / f"{name}.yaml")
    check_place(arguments.out, name, (".yaml",), force=again)
    experiment = kept_experiment(order.results, order.document(), "worst")
    [example, *_] = expand(experiment, machine=choice.name)
    if arguments.dry_run:
        print(*(axis.says for axis in order.axes), sep="\n")
        print(
            f"{order.searched} paths, then {order.budget - order.searched} runs of the worst;"
            f" {order.measure.name}: {order.measure.says}"
        )
        return 0
    told = Told(order.budget, order.budget * example.length_s, quiet=arguments.json)
    found = search(order, Lab(order, choice, told, arguments.jobs), told)
    profile = write_profile(arguments.out, name, {".yaml": profile_of(order, name, found)})
    if arguments.json:
        print(json.dumps(as_json(order, found, profile), indent=2))
    else:
        print(*lines(order, found, profile), sep="\n")
    return 0


def is_ours(profile: Path) -> bool:
    """Whether a profile is an earlier one of this search's: the same command goes on from there."""
    return profile.is_file() and MADE_BY in profile.read_text(encoding="utf-8", errors="replace")


MADE_BY = "The worst path that ./lab worst found"


def read_order(arguments: argparse.Namespace) -> Order:
    """The command line's words. Raises BadInput."""
    settings = dict(named_values("--set", arguments.set, "name=value (like duration=10s)"))
    bounded(f"--seed {arguments.seed}", arguments.seed, 0, MAX_SEED)
    usual = "share" if arguments.against else "utilisation"
    return Order(
        cc=arguments.cc,
        against=arguments.against,
        axes=read_axes(arguments.over),
        measure=MEASURES[arguments.measure or usual],
        budget=arguments.budget,
        seed=arguments.seed,
        settings=settings,
        results=arguments.results,
    )


# -- the profile


def profile_of(order: Order, name: str, found: Worst) -> str:
    """The worst path as a profile's text; what is no part of a path is a note."""
    worst = found.paths[0]
    ways: dict[str, dict[str, Any]] = {way: direction("100mbit", "50") for way in DIRECTIONS}
    set_ways(ways, {**order.settings, **worst.texts})
    beside = [f"{name}={text}" for name, text in worst.texts.items() if not is_of_path(name)]
    document = {
        "name": name,
        "title": f"Where {order.cc} does worst{order.beside}, by {order.measure.name}",
        "assumptions": [
            f"Searched, not measured: the worst of {found.searched} paths."
            f" {order.measure.name.capitalize()}: {spread(order, worst)}."
        ],
        "notes": [f"No part of a path: --set {' --set '.join(beside)}"] if beside else [],
        **ways,
    }
    return profile_text([f"{MADE_BY}, seed {order.seed}.", SCHEMA], document)


# -- what is said


def spread(order: Order, path: Tried) -> str:
    """The median of a path's runs, and from where to where they go."""
    show = order.measure.show
    if len(path.values) == 1:
        return f"{show(path.value)} (one run)"
    least, most = show(min(path.values)), show(max(path.values))
    return f"{show(path.value)} ({len(path.values)} runs: {least} to {most})"


def lines(order: Order, found: Worst, profile: Path) -> list[str]:
    """For people: the worst paths, the profile, and how to look."""
    said = [f"{order.cc}{order.beside}: {order.measure.says}"]
    for path in found.paths[:SHOWN]:
        said.append(f"  {spread(order, path)}: {words(path.texts)}")
    lost = f", {found.without_answer} without an answer" if found.without_answer else ""
    worst = found.paths[0]
    beside = {**order.settings, **worst.texts}
    others = [f"--{name} {text}" for name, text in beside.items() if not is_of_path(name)]
    flows = f"{MINE}={order.cc}" + (f",{AGAINST}={order.against}" if order.against else "")
    asking = " ".join([f"--profile {profile}", *others, f"--flows {flows}", "--repeat 6"])
    return [
        *said,
        f"of {found.searched} paths{lost}",
        f"its run: {worst.folder}",
        f"all runs: ./lab report {order.name} --results {order.results}",
        f"the path: {profile} · ask again: ./lab try {asking}",
    ]


def as_json(order: Order, found: Worst, profile: Path) -> dict[str, Any]:
    return {
        "measure": order.measure.name,
        "searched": found.searched,
        "without_answer": found.without_answer,
        "profile": str(profile),
        "paths": [
            {
                "settings": dict(path.texts),
                "value": path.value,
                "values": list(path.values),
                "run": str(path.folder),
            }
            for path in found.paths
        ],
    }
