"""What the asking side says when it cannot go on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

# An installed package has its data beside this file, a checkout has them at its top.
COMMAND = "gostlab" if Path(__file__).with_name("data").is_dir() else "./lab"
Number = TypeVar("Number", bound=Any)  # what can be more or less than another


class Complaint(Exception):
    """What is wrong and what to do, in a line: its commands are as they are typed here."""

    def __str__(self) -> str:
        return super().__str__().replace("./lab", COMMAND)


class BadInput(Complaint):
    """What a person wrote cannot be used: `file:line: key: what is wrong (what to do)`."""


class SandboxOnly(BadInput):
    """What a person wrote can be had in the sandbox, and not on this machine's own kernel."""


def bounded(
    what: str, value: Number, least: Any, most: Any, show: Callable[[Any], str] = str
) -> Number:
    """A value within bounds; what: its name in the message, "--repeat 0". Raises BadInput."""
    if not least <= value <= most:
        raise BadInput(f"{what}: not within {show(least)} to {show(most)}")
    return value
