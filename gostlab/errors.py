# SPDX-License-Identifier: MIT
"""Define the errors that a user can resolve."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

LAB_IN_GUEST = "/run/host/lab"
# A guest imports byte code without its sources (gostlab.sandbox.python_bundle).
IS_BUNDLED = __file__.endswith(".pyc")
PACKAGE = Path(LAB_IN_GUEST, "gostlab") if IS_BUNDLED else Path(__file__).resolve().parent
# An installed package has its data beside this file, a checkout has them at its top.
COMMAND = "gostlab" if (PACKAGE / "data").is_dir() else "./lab"
Number = TypeVar("Number", bound=Any)  # A type whose values can be ordered.


class Complaint(Exception):
    """Report a problem and its solution in one line, with commands as the user types them."""

    exit_status = 2

    def __str__(self) -> str:
        return super().__str__().replace("./lab", COMMAND)


class BadInput(Complaint):
    """Report unusable input: `file:line: key: what is wrong (what to do)`."""


class SandboxOnly(BadInput):
    """Report input that only the sandbox supports, and not this machine's own kernel."""


def require_bounds(
    what: str, value: Number, least: Any, most: Any, show: Callable[[Any], str] = str
) -> Number:
    """Return a value within bounds; `what` names it in the message. Raises BadInput."""
    if not least <= value <= most:
        raise BadInput(f"{what}: not within {show(least)} to {show(most)}")
    return value
