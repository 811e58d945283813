# SPDX-License-Identifier: MIT
"""Run the battery of a plugin: whether it declares, starts, carries, ends, refuses and repeats.

    for outcome in gostlab.check_plugin("tunnels", "mine"):
        print(outcome)

Each step is a function of a `PluginBench`, which executes runs and knows the plugin. It raises
PluginFault with what is wrong, or NotApplicable with why the step asks nothing of this plugin.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.plugin_check.check_runs import NotApplicable, PluginBench, PluginFault
from gostlab.plugin_check.discovery import STEPS as STEPS
from gostlab.plugin_check.discovery import bench_for, steps_of

PASSED, FAILED, NOT_APPLICABLE = "passed", "failed", "not applicable"


@dataclass(frozen=True)
class StepOutcome:
    """Represent the outcome of one step of a plugin's battery."""

    group: str
    plugin: str
    step: str
    result: str  # passed | failed | not applicable
    reason: str = ""

    def __str__(self) -> str:
        text = f"{self.group} {self.plugin}: {self.step}: {self.result}"
        return f"{text}: {self.reason}" if self.reason else text


def check_plugin(
    group: str, name: str, *, results: str | Path | None = None, samples: Sequence[Path] = ()
) -> list[StepOutcome]:
    """Check a plugin, and return the outcome of each step.

        group    tunnels, qdiscs, traffic, topologies, importers or plots
        name     as an experiment writes it
        results  the folder of its runs, which are kept (default: a temporary one)
        samples  for importers: the files of a recording
    Raises BadInput if there is no such plugin.
    """
    with tempfile.TemporaryDirectory(prefix="gostlab-check-") as scratch:
        bench = bench_for(group, name, Path(results or scratch), samples)
        return [
            outcome_of(group, name, step, check, bench) for step, check in steps_of(group).items()
        ]


def outcome_of(
    group: str, name: str, step: str, check: Callable[[PluginBench], None], bench: PluginBench
) -> StepOutcome:
    result, reason = PASSED, ""
    try:
        check(bench)
    except NotApplicable as error:
        result, reason = NOT_APPLICABLE, str(error)
    except (PluginFault, BadInput) as error:
        result, reason = FAILED, str(error)
    except Exception as error:  # a plugin may raise anything: that is its outcome
        result, reason = FAILED, f"{type(error).__name__}: {error}"
    return StepOutcome(group, name, step, result, reason.replace("\n", " "))
