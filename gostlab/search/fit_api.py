# SPDX-License-Identifier: MIT
"""Fit a path to measured rates from Python."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab import sandbox as machines
from gostlab.analysis.plotting import style
from gostlab.errors import require_bounds
from gostlab.profile_import.profile_writer import check_output, profile_name
from gostlab.registry.folders import OWN_PROFILES
from gostlab.search.fit_definition import FitOrder
from gostlab.search.fit_plot import fit_figure
from gostlab.search.fit_runner import experiment_document, fit_order
from gostlab.search.fitted_profile import write_fitted
from gostlab.search.harness import SearchHarness, SearchProgress
from gostlab.search.measured_rates import (
    check_free_unset,
    load_measurements,
    rows_on_path,
    select_uses,
)
from gostlab.search.parameters import (
    POINTS_PER_PARAMETER,
    FreeParameter,
    check_free,
    extend_range,
    read_word,
)
from gostlab.spec import profile as profiles
from gostlab.spec.experiment import MAX_SEED
from gostlab.spec.fit_record import FIT, FitRecord
from gostlab.spec.settings import Setting, read_override
from gostlab.spec.units import quoted
from gostlab.spec.yaml_source import BadInput

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

RESULTS = "results"
MAX_POINTS, MAX_MEMBERS, MAX_REPETITIONS = 500, 20, 20


@dataclass(frozen=True)
class Fit:
    """A path that was fitted to measured rates, with the quality of the fit."""

    fitted: FitRecord
    order: FitOrder
    profile: Path  # file that `profile` accepts: gostlab.Run(profile=str(fit.profile))

    @property
    def explained(self) -> bool:
        """Return whether the lab is within the band of every fitted number."""
        return self.fitted.explained

    @property
    def rows(self) -> pd.DataFrame:
        """Return a row per measured number.

        The columns include the measured rate (`asked_mbit`), its band, the lab's rate on this path
        (`lab_mbit`), and its range over the paths that fit equally well.
        """
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.fitted.rows])

    @property
    def parameters(self) -> pd.DataFrame:
        """Return a row per free parameter with its best value and its range."""
        import pandas as pd

        return pd.DataFrame([asdict(parameter) for parameter in self.fitted.parameters])

    def draw(self, on: Any) -> list[Axes]:
        """Draw the residuals above and the equally good paths below, and return the axes.

        `on` is a figure or two axes. Raises BadInput.
        """
        canvas = style.Canvas.on(on)
        with style.canvas_style(canvas):
            fit_figure(self.fitted, "")
        return canvas.drawn


def fit(
    profile: str | Path,
    measurements: str | Path,
    *,
    free: Mapping[str, tuple[str, str]] | None = None,
    settings: Mapping[str, str] | None = None,
    name: str | None = None,
    out: str | Path = OWN_PROFILES,
    results: str | Path = RESULTS,
    jobs: int | None = None,
    machine: str = "auto",
    progress: bool = False,
    **how: Any,
) -> Fit:
    """Find the path that makes the lab say what was measured; its profile is written.

    profile       the path to begin with: a name in netem_profiles/, or a file
    measurements  measured rates: a name in measurements/, a file, or an experiment that has
                  published numbers
    free          what may explain them, from where to where: {"forward.loss": ("0.001%", "1%")}
    settings      of all runs
    name, out     of the new profile, and its folder
    results       where the runs go, which are kept
    how           matrices, fit_on, judge_on, points, members, judge_paths, repeat, screen, seed,
                  force, gost, retry_failed: as `./lab fit --help` has them
    Raises BadInput, MissingPart, MachineError, ResultsError, OSError.
    """
    runs = {key: how.pop(key) for key in ("gost", "retry_failed") if key in how}
    choice = machines.choose_machine(machine)
    free_args = [f"{key}={low}..{high}" for key, (low, high) in (free or {}).items()]
    order = order_of(
        str(profile),
        str(measurements),
        free=[read_word(word) for word in free_args],
        settings=settings or {},
        name=name,
        out=Path(out),
        results=Path(results),
        machine=choice.name,
        **how,
    )
    return run_fit(order, choice, quiet=not progress, jobs=jobs, **runs)


def run_fit(order: FitOrder, choice: machines.MachineChoice, *, quiet: bool, **runs: Any) -> Fit:
    """Make the runs of a fit and write its profile. Raises the same exceptions as fit()."""
    progress = SearchProgress(*order.most(), quiet=quiet)
    document = experiment_document(order)
    with SearchHarness("fit", document, order.results, choice, progress, **runs) as harness:
        fitted = fit_order(order, harness)
    return Fit(fitted, order, write_fitted(order, fitted))


def order_of(
    profile: str,
    measurements: str,
    *,
    free: Sequence[FreeParameter] = (),
    settings: Mapping[str, str] | None = None,
    name: str | None = None,
    out: Path = OWN_PROFILES,
    results: Path = Path(RESULTS),
    machine: str = "sandbox",
    matrices: Sequence[str] = (),
    fit_on: Mapping[str, Collection[str]] | None = None,
    judge_on: Mapping[str, Collection[str]] | None = None,
    points: int | None = None,
    members: int = 3,
    judge_paths: int = 3,
    repeat: int | None = None,
    screen: str | None = None,
    seed: int = 1,
    force: bool = False,
) -> FitOrder:
    """Validate the arguments of a fit and return its order. Raises BadInput."""
    base = profiles.load_profile(profile)
    name = profile_name(name, f"{base.name}-fitted", max_length=56)
    check_output(out, name, [".yaml"], force=force)
    measured = rows_on_path(load_measurements(measurements, matrices), base.name)
    measured = select_uses(measured, as_lists(fit_on), as_lists(judge_on))
    if screen:
        measured = replace(measured, screen_s=parse_setting("duration", screen, "--screen").value)
    named = {parameter.name for parameter in free}
    free = (*(parameter for parameter in measured.free if parameter.name not in named), *free)
    if not free:
        raise BadInput(
            f"{measured.file_name}: nothing is free: say what may explain the rates"
            " (--free forward.loss=0.0001%..1% --free buffer=0.03bdp..3bdp)"
        )
    check_free(free)
    check_free_unset(free, measured.rows)
    needed_bps = max(row.least_bps for row in measured.rows_for(FIT))
    free = tuple(extend_range(parameter, needed_bps) for parameter in free)
    return FitOrder(
        name=name,
        base=base,
        measurements=measured,
        free=free,
        command_line_settings=parse_settings(settings or {}),
        points=count_in_bounds(
            "--points", points, POINTS_PER_PARAMETER * (1 + len(free)), MAX_POINTS
        ),
        members=count_in_bounds("--members", members, 3, MAX_MEMBERS, least=0),
        judge_paths=count_in_bounds("--judge-paths", judge_paths, 3, MAX_MEMBERS, least=0),
        repetitions=count_in_bounds("--repeat", repeat, measured.repetitions, MAX_REPETITIONS),
        seed=count_in_bounds("--seed", seed, 1, MAX_SEED),
        out=out,
        results=results,
        machine=machine,
    )


def as_lists(levels: Mapping[str, Collection[str]] | None) -> dict[str, list[str]]:
    """Return lists of levels by factor; a single level becomes a list of one."""
    given = (levels or {}).items()
    return {name: [level] if isinstance(level, str) else list(level) for name, level in given}


def count_in_bounds(option: str, given: int | None, default: int, most: int, least: int = 1) -> int:
    """Return a whole number within bounds, or the default. Raises BadInput."""
    number = default if given is None else given
    return require_bounds(f"{option} {number}", number, least, most)


def parse_settings(given: Mapping[str, str]) -> dict[str, Setting]:
    """Parse the settings that apply to all runs. Raises BadInput."""
    if "profile" in given:
        raise BadInput("--set profile: the profile is the one to begin with, ./lab fit PROFILE")
    return {name: parse_setting(name, value, f"--set {name}") for name, value in given.items()}


def parse_setting(name: str, text: str, origin: str) -> Setting:
    """Parse one value of a setting. Raises BadInput."""
    given = read_override(name, text, origin=origin)
    if len(given) > 1:
        raise BadInput(f"{origin} {quoted(text)}: one value for all runs, not a list")
    return given[0]
