"""What a verb of the command line is, and the words that several share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INVALID, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
RESULTS = Path("results")
JOBS = "runs side by side (default: one per CPU)"


@dataclass(frozen=True)
class Verb:
    """A verb: `arguments` adds its words to a parser, `run` does it and returns the exit code."""

    name: str
    says: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    example: str = ""
    parser: Mapping[str, Any] = field(default_factory=dict)  # what of its parser is special

    def add_to(self, verbs: Any, *, whole: bool = True) -> argparse.ArgumentParser:
        """A parser for it; one that is not `whole` knows its name alone."""
        words: dict[str, Any] = {"help": self.says, "description": self.says}
        if self.example:
            words["epilog"] = f"example: {self.example}"
        made: argparse.ArgumentParser = verbs.add_parser(self.name, **{**words, **self.parser})
        made.set_defaults(verb=self.run)
        if whole:
            self.arguments(made)
        return made


def add_actions(verb: argparse.ArgumentParser) -> Any:
    """What a verb can do, an action each."""
    return verb.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_flag(verb: Any, name: str, says: str) -> None:
    verb.add_argument(name, action="store_true", help=says)


def add_json(verb: argparse.ArgumentParser) -> None:
    add_flag(verb, "--json", "the table as JSON and nothing else")


def add_results(verb: argparse.ArgumentParser, purpose: str) -> None:
    verb.add_argument(
        "--results", type=Path, default=RESULTS, help=f"{purpose} (default: {RESULTS})"
    )


def add_machine(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--machine",
        choices=("native", "sandbox", "auto"),
        default="auto",
        help=(
            "native: this kernel, as root; sandbox: the lab's own kernel; auto: native only for"
            " root on a kernel with netem (default)"
        ),
    )


def add_gost(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--gost",
        type=Path,
        help="the GOST to use: a program, the name of one that was added, or relay"
        " (default: $GOSTLAB_GOST, PATH, one that was added or fetched, else relay)",
    )


def complain(sentence: str) -> None:
    """One line for the person who can mend it, if there is still a terminal to say it on."""
    with suppress(OSError):
        print(f"gostlab: {sentence}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """For programs, and nothing else on standard output."""
    print(json.dumps(value, indent=2, sort_keys=True, default=str))
