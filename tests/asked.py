"""One run, as a test asks for it; and what is said where it cannot be."""

from collections.abc import Callable

import pytest

from gostlab.declared.errors import BadInput
from gostlab.describe.resolve.expand import single_run
from gostlab.describe.resolve.run_description import RunDescription


def run_of(on: str = "sandbox", clock: str = "virtual", **settings: str) -> RunDescription:
    """A run on a plain path, unless its settings say otherwise; `on`: a sandbox, or native."""
    asked = {"profile": "plain-100ms", "cc": "cubic", **settings}
    profile, cc = asked.pop("profile"), asked.pop("cc")
    return single_run(profile=profile, cc=cc, machine=on, clock=clock, overrides=asked)


def refusal(ask: Callable[[], object], kind: type[Exception] = BadInput) -> str:
    """The one line that refuses what cannot be."""
    with pytest.raises(kind) as refused:
        ask()
    said = str(refused.value)
    assert "\n" not in said
    return said
