# SPDX-License-Identifier: MIT
"""One run, as a test asks for it; and what is said where it cannot be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gostlab.errors import BadInput
from gostlab.spec.expand import expand, single_run
from gostlab.spec.experiment import read_experiment
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import parse_document


def run_of(on: str = "sandbox", clock: str = "virtual", **settings: str) -> RunSpec:
    """A run on a plain path, unless its settings say otherwise; `on`: a sandbox, or native."""
    asked = {"profile": "plain-100ms", "cc": "cubic", **settings}
    profile, cc = asked.pop("profile"), asked.pop("cc")
    return single_run(profile=profile, cc=cc, machine=on, clock=clock, overrides=asked)


def runs_of(experiment: str) -> list[RunSpec]:
    """The runs of an experiment's text, f.yaml."""
    return expand(read_experiment(parse_document(experiment, "f.yaml"), Path("f.yaml")))


def refusal(ask: Callable[[], object], kind: type[Exception] = BadInput) -> str:
    """The one line that refuses what cannot be."""
    with pytest.raises(kind) as refused:
        ask()
    said = str(refused.value)
    assert "\n" not in said
    return said
