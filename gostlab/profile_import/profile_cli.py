# SPDX-License-Identifier: MIT
"""Implement `./lab profile`: list, show, check, record and import WAN paths."""

import argparse
from collections.abc import Sequence

from gostlab.cli.common import EXIT_OK, JSON, add_actions, print_json, verb
from gostlab.profile_import import import_cli, record_cli
from gostlab.spec import profile as profiles


def profile_arguments(verb: argparse.ArgumentParser) -> None:
    actions = add_actions(verb)
    for action, text, nargs in (
        ("list", "every path in a line", "?"),
        ("show", "a path's file", None),
        ("check", "read it, recompute what it derives", "?"),
    ):
        action_parser = actions.add_parser(action, help=text, description=text)
        action_parser.add_argument("name", nargs=nargs, help="a name in netem_profiles/ or a path")
        if action == "list":
            JSON(action_parser)
    record = actions.add_parser(
        "record",
        help="make a path of your own from ping",
        epilog="example: ./lab profile record example.org --rate 50mbit",
        description="Ping a host and write its path down: delay as a netem "
        "table, loss as Gilbert-Elliott, and a trace over time.",
    )
    record_cli.add_arguments(record)
    imported = actions.add_parser(
        "import",
        help="make a path of a recording from elsewhere",
        epilog="example: ./lab profile import ATT-LTE-driving.up --rtt 50ms --licence GPL-3",
        description="Read somebody else's recording of a path and write it down as a profile and a"
        " trace, with its source, its licence, and how far the replay is from it.",
    )
    import_cli.add_arguments(imported)


@verb(profile_arguments, example="./lab profile show la-hamina")
def profile_verb(arguments: argparse.Namespace) -> int:
    if arguments.action == "import":
        return import_cli.run_import(arguments)
    if arguments.action == "record":
        return record_cli.run_record(arguments)
    names: Sequence[str] = [arguments.name] if arguments.name else profiles.list_profiles()
    if arguments.action == "list" and arguments.json:
        print_json([profiles.summary_json(profiles.load_profile(name)) for name in names])
        return EXIT_OK
    for name in names:
        loaded = profiles.load_profile(name)
        if arguments.action == "show":
            print(loaded.path_on_disk.read_text(encoding="utf-8"), end="")
        else:
            print(f"{loaded.name}: {profiles.summary(loaded)}")
    return EXIT_OK
