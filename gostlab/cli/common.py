# SPDX-License-Identifier: MIT
"""Define the verbs of the command line and the arguments that several of them share."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, NoReturn

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INVALID, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
EXIT_CODES: Mapping[int, str] = {
    EXIT_OK: "every run is good, but for what this kernel cannot do",
    EXIT_FAILED: "a run failed, none was possible, an expectation does not hold, or the reader of"
    " the output went away",
    EXIT_BAD_INPUT: "bad input: one line says what is wrong, where, and what to do",
    EXIT_INVALID: "all ran, and some are invalid: no answer to their question",
    EXIT_INTERRUPTED: "interrupted; what was finished is kept",
}
RESULTS = Path("results")

# argparse's message for a value that is not among the choices.
INVALID_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)")
MISSING = "the following arguments are required: "


NO_VALUE = re.compile(r"--?[^=]+=--")
NEGATIVE = re.compile(r"-[.\d].*", re.DOTALL)
MAX_MESSAGE = 1000  # characters; the longest list of choices is shorter


# Called with every declared argument, by gostlab.cli.completion.
argument_observers: list[Callable[[argparse.Action], object]] = []


class StoreOnce(argparse.Action):
    """Store an option's value, and reject an option that is given twice."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = namespace.__dict__.setdefault("_given", set())
        if option_string and self.dest in given:
            several = f": write {option_string} A,B" if self.metavar == "A,B" else ""
            parser.error(f"{option_string} is given twice{several}")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class ArgumentParser(argparse.ArgumentParser):
    """Parse arguments; every error is one line with a suggestion."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.declared: list[argparse.Action] = []
        super().__init__(*args, **kwargs)
        if not asked_by_shell():  # argcomplete depends on argparse's own actions
            self.register("action", None, StoreOnce)
            self.register("action", "store", StoreOnce)

    def add_argument(self, *names: Any, group: Any = None, **options: Any) -> argparse.Action:
        """Add an argument, to a group of the help if there is one."""
        container: Any = group or super()
        action: argparse.Action = container.add_argument(*names, **options)
        self.declared.append(action)
        for observe in argument_observers:
            observe(action)
        return action

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        args = join_negative_values(sys.argv[1:] if args is None else args)
        for argument in args:
            if NEGATIVE.fullmatch(argument):
                self.error(f"{argument!r:.80}: negative, where no option takes a value")
            if NO_VALUE.fullmatch(argument):  # argparse would remove the two dashes
                self.error(f"{argument:.80}: -- is no value")
        parsed, unknown = super().parse_known_args(args, namespace)
        # argparse does not find an optional positional argument behind options, so assign it here.
        for action in self.declared:
            missing = action.nargs == "?" and getattr(parsed, action.dest, "") is None
            behind = unknown[:1] and not unknown[0].startswith("-")
            if missing and behind and not action.option_strings:
                setattr(parsed, action.dest, self.read_value(action, unknown.pop(0)))
        for argument in unknown:
            if argument.startswith("-"):
                options = [name for action in self.declared for name in action.option_strings]
                self.error(f"there is no option {argument!r:.80}{suggestion(argument, options)}")
        if unknown:
            self.error(f"{unknown[0]!r:.80}: one word too many")
        return parsed, unknown

    def read_value(self, action: argparse.Action, text: str) -> Any:
        """Return the value of an argument."""
        read: Any = action.type or str
        try:
            return read(text)
        except (argparse.ArgumentTypeError, ValueError) as error:
            self.error(f"argument {action.metavar or action.dest}: {error}")

    def describe_missing(self, names: Sequence[str]) -> str:
        """Return which arguments are missing, and what each is."""
        helps = {
            "/".join(action.option_strings) or action.metavar or action.dest: action.help
            for action in self.declared
        }
        return "; ".join(
            f"{name} is missing{f' ({helps[name]})' if helps.get(name) else ''}" for name in names
        )

    def error(self, message: str) -> NoReturn:
        chosen = INVALID_CHOICE.fullmatch(message)
        if chosen:
            argument, value, choices = chosen.groups()
            known = choices.replace("'", "").split(", ")
            hint = suggestion(value, known) or f" (known: {', '.join(known)})"
            message = f"{argument} {value!r:.80}: not known{hint}"
        elif message.startswith(MISSING):
            message = self.describe_missing(message.removeprefix(MISSING).split(", "))
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE // 2]}…{message[-MAX_MESSAGE // 4 :]}"
        self.exit(EXIT_BAD_INPUT, f"{self.prog}: {message}: {self.prog} --help says more\n")


def asked_by_shell() -> bool:
    """Return whether a shell requests completions (see gostlab.cli.completion)."""
    return "_ARGCOMPLETE" in os.environ


def join_negative_values(args: Sequence[str]) -> list[str]:
    """Return arguments in which a negative value is joined to its option: --rate=-1mbit.

    argparse takes it for an option; the parser of its type reports what is wrong.
    """
    joined: list[str] = []
    for argument in args:
        if joined and NEGATIVE.fullmatch(argument) and re.fullmatch(r"--[^=]+", joined[-1]):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return the most similar known word as a hint in brackets, or an empty string."""
    from gostlab.spec import yaml_source

    close = yaml_source.closest(word.partition("=")[0], known)
    return f" (did you mean {close}?)" if close else ""


AddArgument = Callable[[Any], object]  # adds an argument to a verb's parser


@dataclass(frozen=True)
class Verb:
    """Represent a verb of the command line.

    `add_arguments` declares its arguments, `run` executes it and returns the exit code.
    """

    add_arguments: AddArgument
    run: Callable[[argparse.Namespace], int]
    example: str = ""
    parser: Mapping[str, object] = field(default_factory=dict)  # extra arguments of add_parser

    def add_to(self, verbs: Any, name: str, says: str) -> ArgumentParser:
        options: dict[str, object] = {"help": says, "description": says}
        if self.example:
            options["epilog"] = f"example: {self.example}"
        parser: ArgumentParser = verbs.add_parser(name, **{**options, **self.parser})
        parser.set_defaults(verb=self.run)
        self.add_arguments(parser)
        return parser


def verb(
    *words: AddArgument, example: str = "", **parser: Any
) -> Callable[[Callable[[argparse.Namespace], int]], Verb]:
    """Return a decorator that turns a function into a verb."""

    def add(verb_parser: ArgumentParser) -> None:
        for add_argument in words:
            add_argument(verb_parser)

    return lambda run: Verb(add, run, example, parser)


def declare_argument(*names: str, **options: Any) -> AddArgument:
    """Declare a positional argument or an option, with argparse's arguments."""
    return lambda verb: verb.add_argument(*names, **options)


def declare_flag(name: str, says: str) -> AddArgument:
    return declare_argument(name, action="store_true", help=says)


def declare_repeatable_option(name: str, metavar: str, says: str) -> AddArgument:
    """Declare an option that may be given several times."""
    return declare_argument(name, action="append", default=[], metavar=metavar, help=says)


def add_actions(verb: argparse.ArgumentParser) -> Any:
    return verb.add_subparsers(dest="action", metavar="ACTION", required=True)


def parse_count(text: str) -> int:
    """Parse a count of at least 1. Raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least 1")
    return number


def parse_folder(text: str) -> Path:
    """Parse a folder's path; the folder need not exist. Raises ArgumentTypeError."""
    path = Path(text)
    if not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r:.200}: no name of a folder (not printable)")
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file (name a folder)")
    return path


def jobs_option(says: str = "number of parallel runs (default: one per CPU)") -> AddArgument:
    return declare_argument("--jobs", type=parse_count, help=says)


def results_option(purpose: str) -> AddArgument:
    says = f"{purpose} (default: {RESULTS})"
    return declare_argument("--results", type=parse_folder, default=RESULTS, help=says)


QUIET = declare_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
VERBOSE = declare_argument(
    "-v", "--verbose", action="store_true", help="a line for each run that starts and ends"
)
JSON = declare_flag("--json", "the table as JSON and nothing else")
MACHINE = declare_argument(
    "--machine",
    choices=("native", "sandbox", "auto"),
    default="auto",
    help="native: this kernel, as root; sandbox: the lab's own kernel; auto: native only for"
    " root on a kernel with netem (default)",
)
GOST = declare_argument(
    "--gost",
    type=Path,
    help="the GOST to use: a program, the name of one that was added, or relay"
    " (default: $GOSTLAB_GOST, PATH, one that was added or fetched, else relay)",
)


MAX_COMPLAINT = 8000  # characters; a user's file may have a value of any length


def print_error(sentence: str) -> None:
    """Print one line on standard error, shortened if very long, if that is still open."""
    with suppress(OSError):
        if len(sentence) > MAX_COMPLAINT:  # keep its end, which has the advice
            sentence = f"{sentence[: MAX_COMPLAINT // 2]} … {sentence[-MAX_COMPLAINT // 2 :]}"
        say(f"gostlab: {sentence}")


def say(sentence: str) -> None:
    """Print a line on standard error, apart from the output that programs read."""
    print(sentence, file=sys.stderr, flush=True)


def end_process(process: subprocess.Popen[Any], within_s: float, by: int = signal.SIGTERM) -> None:
    """End a process by a signal, and kill it if it does not exit in time."""
    process.send_signal(by)
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def print_json(value: Any) -> None:
    """Print a value as JSON for programs: by its to_json, or a dataclass by its fields."""

    def to_plain(item: Any) -> Any:
        if hasattr(item, "to_json"):
            return item.to_json()
        return asdict(item) if is_dataclass(item) and not isinstance(item, type) else str(item)

    print(json.dumps(value, indent=2, sort_keys=True, default=to_plain))


def print_either(arguments: argparse.Namespace, value: Any, text: str) -> None:
    """Print a value as JSON if --json was given, else as text."""
    if arguments.json:
        print_json(value)
    else:
        print(text)
