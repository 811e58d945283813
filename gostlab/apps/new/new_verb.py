"""`./lab new`: its words."""

from __future__ import annotations

import argparse

from gostlab.apps import new
from gostlab.apps.command import EXIT_OK, Verb
from gostlab.declared import folders


def new_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("kind", choices=list(new.KINDS), help="what it is to be")
    verb.add_argument("name", help="what an experiment is to call it")


def new_verb(arguments: argparse.Namespace) -> int:
    """`./lab new KIND NAME`."""
    for path in new.write_kind(arguments.kind, arguments.name):
        print(f"to fill in: {folders.from_root(path)}")
    print("then: make fast; python3 -m gostlab.describe.file.manual makes its row in the docs")
    return EXIT_OK


VERB = Verb(
    "new", "a file to fill in", new_arguments, new_verb, "./lab new tunnel socat  (CONTRIBUTING.md)"
)
