# SPDX-License-Identifier: MIT
"""Execute the runs of a plugin under check, and say what is wrong with it in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import getdoc
from pathlib import Path
from types import ModuleType
from typing import Any

from gostlab import api
from gostlab.errors import Complaint
from gostlab.install.locate import MissingPart
from gostlab.results import known_files, read_object, read_series
from gostlab.results.duplicate_runs import samples_digest
from gostlab.results.rows import FlowRow
from gostlab.results.run_result import RunResult
from gostlab.spec.verdict import CheckRow

NAME = re.compile(r"[a-z0-9][a-z0-9_.+-]*")
MAX_DESCRIPTION = 100  # characters of a table's cell


class PluginFault(Exception):
    """Report what is wrong with a plugin, in one line."""


class NotApplicable(Exception):
    """Report why a step asks nothing of a plugin here."""


@dataclass(frozen=True)
class PluginBench:
    """Hold a plugin, and execute its runs in a folder, each once."""

    name: str
    module: ModuleType
    declared: Any
    folder: Path
    samples: Sequence[Path] = ()  # files that an importer reads

    def run(self, settings: Mapping[str, Any], *, again: bool = False) -> RunResult:
        """Execute a run unless it is finished, and return it; `again`: a second time.

        Raises PluginFault for a failed run, NotApplicable where a part of the lab is missing.
        """
        experiment = api.Run(machine="sandbox", **settings).experiment
        folder = self.folder / ("again" if again else "once")
        try:
            outcome = experiment.run(folder, jobs=1).wait()
        except MissingPart as error:
            raise NotApplicable(str(error)) from None
        (result,) = outcome.in_order
        if result.state == "unsupported":
            raise NotApplicable(str(result.error))
        if result.outcome != "ok":
            raise PluginFault(f"its run failed: {result.error}")
        return result

    def refuses(self, what: str, settings: Mapping[str, Any]) -> None:
        """Raise PluginFault unless settings are refused in one line, before anything runs."""
        require_refusal(what, lambda: api.Run(machine="sandbox", **settings))


def require_refusal(what: str, call: Callable[[], object]) -> None:
    """Raise PluginFault unless a call raises an error of the user's input, in one line."""
    try:
        call()
    except Complaint as error:
        require("\n" not in str(error), f"{what} is refused in more than a line: {error}")
        return
    except Exception as error:
        raise PluginFault(f"{what} raises {type(error).__name__}: {error}") from error
    raise PluginFault(f"{what} is not refused")


def require(holds: bool, fault: str) -> None:
    """Raise PluginFault unless something holds."""
    if not holds:
        raise PluginFault(fault)


# -- what every plugin is asked


def check_description(bench: PluginBench, name: str, description: str) -> None:
    """Check the name and the words that a user reads of a plugin."""
    require(NAME.fullmatch(name) is not None, f"name {name!r}: not lower-case letters and digits")
    require(
        1 < len(description) <= MAX_DESCRIPTION and description == description.strip(),
        f"{description!r}: no description of at most {MAX_DESCRIPTION} characters",
    )
    first = (getdoc(bench.module) or "").partition("\n")[0]
    require(len(first) > 10, "its module has no docstring")


def require_ok_checks(run: RunResult) -> None:
    """Raise PluginFault unless each check of a run is ok."""
    for check in checks_of(run):
        require(
            check["verdict"] == "ok", f"{check['name']} is {check['verdict']}: {check['reason']}"
        )


def reject_stray_files(run: RunResult) -> None:
    """Raise PluginFault for a file that the result format does not name: its ends left it."""
    known = {path.name for path in known_files(run.folder)} | {"status.json"}
    for path in sorted(run.folder.iterdir()):
        require(path.name in known, f"it left {path.name} in its run's folder")


def require_identical_runs(one: RunResult, other: RunResult) -> None:
    """Raise PluginFault unless two executions of a run have the same samples, to the bit."""
    if any(check["name"].endswith("_repeats") for check in checks_of(one)):
        raise NotApplicable("its program has random numbers of its own, which the run says")
    same = samples_digest(one.folder) == samples_digest(other.folder)
    require(same, f"two runs of one seed differ in their samples: {one.folder}, {other.folder}")
    flows = [read_object(run.folder / "flows.json") for run in (one, other)]
    require(flows[0] == flows[1], f"two runs of one seed differ in flows.json: {one.folder}")


def checks_of(run: RunResult) -> list[CheckRow]:
    return list((read_object(run.folder / "fidelity.json") or {}).get("checks", []))


def flows_of(run: RunResult) -> list[FlowRow]:
    return list((read_object(run.folder / "flows.json") or {}).get("flows", []))


def bottleneck_rows(run: RunResult) -> list[Any]:
    """Return the samples of the queue at the bottleneck that the data cross."""
    rows = read_series(run.folder, "queues")
    wanted = ("bottleneck", run.run.data_direction)
    return [row for row in rows if (row["role"], row["direction"]) == wanted]
