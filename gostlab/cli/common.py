"""What a verb of the command line is, and the words that several share."""

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

from gostlab.spec import yaml_source

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INVALID, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
RESULTS = Path("results")

# What argparse says of a word that is none of those it knows.
NOT_A_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)")


NO_VALUE = re.compile(r"--?[^=]+=--")
MAX_MESSAGE = 1000  # characters; the longest list of choices is shorter


class Once(argparse.Action):
    """Stores an option's value; one that is given twice is an error, as the first would be lost."""

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


class Words(argparse.ArgumentParser):
    """A parser whose every complaint is one line, with what was probably meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # -1mbit is a value, and no option: its reader says what is wrong with it.
        self._negative_number_matcher = re.compile(r"-[.\d]")
        if not asked_by_shell():  # it looks at what argparse's own actions have taken
            self.register("action", None, Once)
            self.register("action", "store", Once)

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        for word in args or ():
            if NO_VALUE.fullmatch(word):  # argparse takes the two dashes away and has no value
                self.error(f"{word:.80}: -- is no value")
        found, unknown = super().parse_known_args(args, namespace)
        # A word that may be left out may also stand behind options, where argparse looks for none.
        for action in self._actions:
            missing = action.nargs == "?" and getattr(found, action.dest, "") is None
            behind = unknown[:1] and not unknown[0].startswith("-")
            if missing and behind and not action.option_strings:
                setattr(found, action.dest, self._get_value(action, unknown.pop(0)))
        for word in unknown:
            if word.startswith("-"):
                known = [each for each in self._option_string_actions if each.startswith("--")]
                self.error(f"there is no option {word!r:.80}{likeliest(word, known)}")
        if unknown:
            self.error(f"{unknown[0]!r:.80}: one word too many")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        chosen = NOT_A_CHOICE.fullmatch(message)
        if chosen:
            what, word, choices = chosen.groups()
            known = choices.replace("'", "").split(", ")
            close = likeliest(word, known) or f" (known: {', '.join(known)})"
            message = f"{what} {word!r:.80}: not known{close}"
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE // 2]}…{message[-MAX_MESSAGE // 4 :]}"
        self.exit(EXIT_BAD_INPUT, f"{self.prog}: {message}: {self.prog} --help says more\n")


def asked_by_shell() -> bool:
    """Whether a shell asks what may follow a word, and no person for a verb (see completion)."""
    return "_ARGCOMPLETE" in os.environ


def likeliest(word: str, known: Sequence[str]) -> str:
    """What was probably meant, in brackets; "" where nothing looks like it."""
    close = yaml_source.closest(word.partition("=")[0], known)
    return f" (did you mean {close}?)" if close else ""


Word = Callable[[argparse.ArgumentParser], object]  # adds itself to a verb's parser


@dataclass(frozen=True)
class Verb:
    """A verb: `words` adds what it takes to a parser, `run` does it and returns the exit code."""

    name: str
    says: str
    words: Word
    run: Callable[[argparse.Namespace], int]
    example: str = ""
    parser: Mapping[str, Any] = field(default_factory=dict)  # what of its parser is special

    def add_to(self, verbs: Any, *, with_options: bool = True) -> argparse.ArgumentParser:
        """A parser for it; without its options it knows its name alone."""
        words: dict[str, Any] = {"help": self.says, "description": self.says}
        if self.example:
            words["epilog"] = f"example: {self.example}"
        made: argparse.ArgumentParser = verbs.add_parser(self.name, **{**words, **self.parser})
        made.set_defaults(verb=self.run)
        if with_options:
            self.words(made)
        return made


def verb(
    name: str, says: str, *words: Word, example: str = "", **parser: Any
) -> Callable[[Callable[[argparse.Namespace], int]], Verb]:
    """Makes a verb of the function that does it."""

    def add(made: argparse.ArgumentParser) -> None:
        for each in words:
            each(made)

    return lambda run: Verb(name, says, add, run, example, parser)


def word(*names: str, **how: Any) -> Word:
    """A word or an option, in argparse's terms."""
    return lambda verb: verb.add_argument(*names, **how)


def flag(name: str, says: str) -> Word:
    return word(name, action="store_true", help=says)


def listed(name: str, metavar: str, says: str) -> Word:
    """An option that may be given again."""
    return word(name, action="append", default=[], metavar=metavar, help=says)


def add_actions(verb: argparse.ArgumentParser) -> Any:
    """What a verb can do, an action each."""
    return verb.add_subparsers(dest="action", metavar="ACTION", required=True)


def count(text: str) -> int:
    """A number of something, at least 1. Raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least 1")
    return number


def folder(text: str) -> Path:
    """The folder that a word names, which need not be there. Raises ArgumentTypeError."""
    path = Path(text)
    if not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r:.200}: no name of a folder (not printable)")
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file (name a folder)")
    return path


def jobs(says: str = "runs side by side (default: one per CPU)") -> Word:
    return word("--jobs", type=count, help=says)


def results(purpose: str) -> Word:
    says = f"{purpose} (default: {RESULTS})"
    return word("--results", type=folder, default=RESULTS, help=says)


JSON = flag("--json", "the table as JSON and nothing else")
MACHINE = word(
    "--machine",
    choices=("native", "sandbox", "auto"),
    default="auto",
    help="native: this kernel, as root; sandbox: the lab's own kernel; auto: native only for"
    " root on a kernel with netem (default)",
)
GOST = word(
    "--gost",
    type=Path,
    help="the GOST to use: a program, the name of one that was added, or relay"
    " (default: $GOSTLAB_GOST, PATH, one that was added or fetched, else relay)",
)


MAX_COMPLAINT = 8000  # characters: a file of others may have a value of any length


def complain(sentence: str) -> None:
    """One line for the person who can mend it, if there is still a terminal to say it on."""
    with suppress(OSError):
        if len(sentence) > MAX_COMPLAINT:  # what is to be done stands at its end
            sentence = f"{sentence[: MAX_COMPLAINT // 2]} … {sentence[-MAX_COMPLAINT // 2 :]}"
        say(f"gostlab: {sentence}")


def say(sentence: str) -> None:
    """A line beside what programs read."""
    print(sentence, file=sys.stderr, flush=True)


def end_process(process: subprocess.Popen[Any], within_s: float, by: int = signal.SIGTERM) -> None:
    """End a program by a signal; one that does not heed it, at once."""
    process.send_signal(by)
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def print_json(value: Any) -> None:
    """For programs, and nothing else on standard output; a dataclass as its fields."""

    def plain(each: Any) -> Any:
        return asdict(each) if is_dataclass(each) and not isinstance(each, type) else str(each)

    print(json.dumps(value, indent=2, sort_keys=True, default=plain))


def print_either(arguments: argparse.Namespace, value: Any, text: str) -> None:
    """A table for programs, where --json asks for that, or for people."""
    if arguments.json:
        print_json(value)
    else:
        print(text)
