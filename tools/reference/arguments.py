# SPDX-License-Identifier: MIT
"""List a command's arguments from its parser, for the reference page and the man page."""

import argparse
import re
from collections.abc import Iterator

from gostlab.spec.settings import SETTINGS

ANY_SETTING = "any other setting"  # group of options that settings.md describes


def list_arguments(parser: argparse.ArgumentParser, before: str) -> Iterator[tuple[str, str]]:
    """Yield the arguments of a command, or its actions with their arguments."""
    for group in parser._action_groups:
        if (group.title or "").startswith(ANY_SETTING):
            yield "`--SETTING`", "any other setting: [settings](settings.md)"
            continue
        for action in group._group_actions:
            if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
                continue
            if isinstance(action, argparse._SubParsersAction):
                says = {action.dest: action.help for action in action._choices_actions}
                for name, inner in action.choices.items():
                    yield f"`{before}{name}`", format_help(says.get(name), action)
                    yield from list_arguments(inner, f"{before}{name} ")
                continue
            yield f"`{before}{argument_syntax(action)}`", format_help(action.help, action)


def argument_syntax(action: argparse.Action) -> str:
    """Return the syntax of an option or argument."""
    value = action.metavar or (
        "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
    )
    if isinstance(value, tuple):
        value = " ".join(value)
    if not action.option_strings:
        return str(value)
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    return f"{names} [{value}]" if action.nargs == "?" else f"{names} {value}"


def format_help(text: str | None, action: argparse.Action) -> str:
    """Return a help text on one line, as argparse shows it."""
    text_line = re.sub(r"\s+", " ", text or "").replace(
        ", ".join(SETTINGS), "[settings](settings.md)"
    )
    return text_line % {**vars(action), "prog": "./lab"} if "%" in text_line else text_line


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}".rstrip("?.") + ("?" if text.endswith("?") else ".")
