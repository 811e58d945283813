# SPDX-License-Identifier: MIT
"""Define `./lab completion SHELL`, which prints code that completes arguments in a shell.

The library argcomplete does it: at each Tab the shell calls this command, which answers from its
parser. So the user's own settings, experiments and congestion controls are offered as well.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gostlab.cli.common import EXIT_OK, declare_argument, verb
from gostlab.errors import BadInput
from gostlab.registry.folders import EXPERIMENTS, PROFILES
from gostlab.spec import settings
from gostlab.spec.yaml_source import JsonSchema

SHELLS = ("bash", "zsh", "fish")
# Names of the programs to complete, without their folder, so ./lab is included.
PROGRAMS = ["lab", "gostlab"]
ZSH = "autoload -Uz compinit bashcompinit\ncompinit\nbashcompinit\n"
# Arguments that name a YAML file in one of these folders, or any other file.
NAMED_FILES = {"experiment": EXPERIMENTS, "profile": PROFILES}

Completer = Callable[..., list[str]]


@verb(
    declare_argument("shell", choices=SHELLS, help="the shell that will read it"),
    example="./lab completion fish | source",
)
def completion_verb(arguments: argparse.Namespace) -> int:
    try:
        import argcomplete
    except ImportError:
        raise BadInput("completion needs Python's argcomplete: run ./lab setup") from None
    if arguments.shell == "fish":
        # Call the command as it was typed, as in the other shells: ./lab is not on PATH.
        typed_command = "env (commandline -opc)[1]"
        text = argcomplete.shellcode(["LAB"], shell="fish", argcomplete_script=typed_command)
        print("".join(text.replace("LAB", program) for program in PROGRAMS))
    else:
        print((ZSH if arguments.shell == "zsh" else "") + argcomplete.shellcode(PROGRAMS))
    return EXIT_OK


def verb_of(line: str) -> str | None:
    """Return the verb of a possibly unfinished line, so that only its options are loaded.

    An empty string means that the line has no verb yet; None that it does not call gostlab.
    """
    program, *arguments = line.split() or [""]
    if program.rpartition("/")[2] not in PROGRAMS or (arguments and arguments[0].startswith("-")):
        return None
    return arguments[0] if arguments else ""


def print_completions(parser: argparse.ArgumentParser) -> None:
    """Print completions for the shell, and exit."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options="long")


def set_completer(action: argparse.Action) -> None:
    """Set what argcomplete reads of an argument."""
    completer = completer_of(action)
    if completer is not None:
        action.completer = completer  # type: ignore[attr-defined]


def completer_of(action: argparse.Action) -> Completer | None:
    """Return the completer of an argument, or None for declared choices and files."""
    name = action.dest.removeprefix("ask ")
    if name in NAMED_FILES:
        return list_completer(lambda: [file.stem for file in NAMED_FILES[name].glob("*.yaml")])
    if name == "set":
        return settings_and_values
    if action.choices is None and name in settings.SETTINGS:
        return list_completer(lambda: values_of(name))
    if name == "setting":
        return list_completer(settings.known_names)
    return None


def list_completer(names: Callable[[], Iterable[str]]) -> Completer:
    """Return a completer for names, also at the end of a list: cubic,b gives cubic,bbr."""

    def complete(prefix: str, **_: Any) -> list[str]:
        head, comma, _last = prefix.rpartition(",")
        return [f"{head}{comma}{name}" for name in names()]

    return complete


def settings_and_values(prefix: str, **_: Any) -> list[str]:
    """Complete --set: settings with `=`, then the values of the named setting."""
    name, equals, value = prefix.partition("=")
    if not equals:
        return [f"{setting}=" for setting in settings.known_names()]
    return [f"{name}={choice}" for choice in list_completer(lambda: values_of(name))(value)]


def values_of(setting: str) -> list[str]:
    """Return the enumerable values of a setting."""
    field = settings.SETTINGS.get(setting)
    return sorted(set(enumerated_values(field.read.schema))) if field else []


def enumerated_values(schema: JsonSchema) -> Iterator[str]:
    """Return the enumerated values of a JSON schema and of its alternatives."""
    yield from (str(value) for value in schema.get("enum", ()))
    for alternative in schema.get("anyOf", ()):
        yield from enumerated_values(alternative)
