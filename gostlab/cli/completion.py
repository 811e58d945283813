"""`./lab completion SHELL`: what a shell needs to complete the lab's words at Tab.

The library argcomplete does it: at each Tab the shell asks this command itself, which answers from
its parser. So a setting, an experiment or a congestion control of one's own is offered as well.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gostlab.cli.common import EXIT_OK, verb, word
from gostlab.errors import BadInput
from gostlab.registry.folders import EXPERIMENTS, PROFILES
from gostlab.spec import settings

SHELLS = ("bash", "zsh", "fish")
# Which programs' words: the last part of what is typed, so ./lab is one.
PROGRAMS = ["lab", "gostlab"]
ZSH = "autoload -Uz compinit bashcompinit\ncompinit\nbashcompinit\n"
# The option or word that names a file of these folders, which other files may stand beside.
NAMED_FILES = {"experiment": EXPERIMENTS, "profile": PROFILES}

Completer = Callable[..., list[str]]


@verb(
    "completion",
    'completion at Tab for your shell: eval "$(./lab completion bash)"',
    word("shell", choices=SHELLS, help="the shell that will read it"),
    example="./lab completion fish | source",
)
def completion_verb(arguments: argparse.Namespace) -> int:
    try:
        import argcomplete
    except ImportError:
        raise BadInput(
            "completion needs Python's argcomplete: ./lab setup (or apt-get install"
            " python3-argcomplete)"
        ) from None
    if arguments.shell == "fish":
        # What was typed is asked, as in the other shells: ./lab is not on PATH.
        asked = "env (commandline -opc)[1]"
        text = argcomplete.shellcode(["LAB"], shell="fish", argcomplete_script=asked)
        print("".join(text.replace("LAB", program) for program in PROGRAMS))
    else:
        print((ZSH if arguments.shell == "zsh" else "") + argcomplete.shellcode(PROGRAMS))
    return EXIT_OK


def verb_of(line: str) -> str | None:
    """The verb of a line that may be unfinished, whose options alone need be read; "" of one that
    has none yet, None where the line begins otherwise.
    """
    program, *words = line.split() or [""]
    if program.rpartition("/")[2] not in PROGRAMS or (words and words[0].startswith("-")):
        return None
    return words[0] if words else ""


def answer(parser: argparse.ArgumentParser) -> None:
    """Answer the shell, and end."""
    import argcomplete

    for each in parsers_below(parser):
        for action in each._actions:
            completer = completer_of(action)
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options="long")


def parsers_below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its verbs and actions."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                yield from parsers_below(each)


def completer_of(action: argparse.Action) -> Completer | None:
    """What offers values for a word or an option; None: choices that are declared, or files."""
    name = action.dest.removeprefix("ask ")
    if name in NAMED_FILES:
        return listed(lambda: [file.stem for file in NAMED_FILES[name].glob("*.yaml")])
    if name == "set":
        return settings_and_values
    if action.choices is None and name in settings.SETTINGS:
        return listed(lambda: values_of(name))
    if name == "setting":
        return listed(settings.known_names)
    return None


def listed(names: Callable[[], Iterable[str]]) -> Completer:
    """Offers names, the last of a list's too: cubic,b is completed to cubic,bbr."""

    def complete(prefix: str, **_: Any) -> list[str]:
        head, comma, _last = prefix.rpartition(",")
        return [f"{head}{comma}{name}" for name in names()]

    return complete


def settings_and_values(prefix: str, **_: Any) -> list[str]:
    """For --set: the settings, each with its `=`, and the values of one that is named."""
    name, equals, value = prefix.partition("=")
    if not equals:
        return [f"{each}=" for each in settings.known_names()]
    return [f"{name}={each}" for each in listed(lambda: values_of(name))(value)]


def values_of(setting: str) -> list[str]:
    """The words that a setting takes, as far as they can be listed."""
    field = settings.SETTINGS.get(setting)
    return sorted(set(words_in(field.read.schema))) if field else []


def words_in(schema: Mapping[str, Any]) -> Iterator[str]:
    """The words of a JSON schema's enumerations, those of its alternatives included."""
    yield from (str(word) for word in schema.get("enum", ()))
    for each in schema.get("anyOf", ()):
        yield from words_in(each)
