# SPDX-License-Identifier: MIT
"""Read measured rates: a YAML file of numbers, their uncertainty, and the free parameters.

docs/how-to/fit.md shows an example. An experiment with published numbers can be used as well: it
provides the settings and the numbers, and the command line the free parameters. A row that names a
profile applies to that path only.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gostlab.registry.folders import EXPERIMENTS, MEASUREMENTS
from gostlab.search.parameters import FreeParameter, check_free, read_all_free
from gostlab.spec import yaml_source as documents
from gostlab.spec.experiment import (
    ANYTHING,
    SETTINGS_BY_NAME,
    ExperimentFile,
    Matrix,
    load_experiment,
    read_name,
    rows_of,
)
from gostlab.spec.fit_record import FIT, JUDGE, USES
from gostlab.spec.labels import cell_label
from gostlab.spec.settings import Setting, field_of, known_names, read_level, show_level
from gostlab.spec.units import quoted
from gostlab.spec.value_types import RATE, SHARE, read_duration
from gostlab.spec.yaml_source import BadInput, Node, mapping_of, text_of

# Default standard deviation of a number without an uncertainty: two of them are the 10 % within
# which the report calls lab and study equal.
USUAL_SD = 0.05
PERCENT = SHARE.to(float)
SDS_OF_BAND = 2  # half width of a band in standard deviations


@dataclass(frozen=True)
class Observation:
    """A measured rate with its levels and its uncertainty."""

    label: str
    levels: Mapping[str, Setting]
    goodput_bps: float
    least_bps: float  # band of two standard deviations to each side
    most_bps: float
    use: str  # fit | judge
    factors: tuple[str, ...] = ()  # levels that distinguish it from the other rows

    @property
    def log_rate(self) -> float:
        return math.log(self.goodput_bps)

    @property
    def sd(self) -> float:
        """Return the standard deviation of the rate's logarithm."""
        return math.log(self.most_bps / self.least_bps) / (2 * SDS_OF_BAND)

    def has(self, wanted: Mapping[str, Sequence[str]]) -> bool:
        """Return whether the row has one of the wanted levels of each factor."""
        return all(
            name in self.levels and show_level(self.levels[name].written) in levels
            for name, levels in wanted.items()
        )


@dataclass(frozen=True)
class Measurements:
    """The measured rates of a path, and the free parameters that may explain them."""

    name: str = documents.key(read_name)
    title: str = documents.key(text_of, default="")
    settings: Mapping[str, Setting] = documents.key(SETTINGS_BY_NAME, "of all rows", default={})
    # None: a sixth of the duration of each row
    screen_s: float | None = documents.key(
        read_duration, "how long cheap runs last", default=None, named="screen"
    )
    repetitions: int = documents.key(
        documents.whole_number(1, 20), "runs of each row on the paths that come out", default=1
    )
    free: tuple[FreeParameter, ...] = documents.key(documents.Reader(read_all_free, {}), default=())
    sd: float = documents.key(PERCENT, "of a row that says none", default=USUAL_SD)
    # YAML nodes until settings and sd are known
    rows: tuple[Observation, ...] = documents.key(
        documents.list_of(ANYTHING, least=1), named="measured"
    )
    file_name: str = ""  # name of the file in messages
    sha256: str = ""

    def rows_for(self, use: str) -> list[Observation]:
        """Return the rows to fit on, or to judge by."""
        return [row for row in self.rows if row.use == use]


def load_measurements(name_or_path: str, matrices: Sequence[str] = ()) -> Measurements:
    """Read measurements by a name in measurements/, an experiment's name, or a path.

    `matrices` selects matrices of an experiment. Raises BadInput.
    """
    written = name_or_path.strip()
    measured_names, experiments = documents.names_in(MEASUREMENTS), documents.names_in(EXPERIMENTS)
    if not documents.is_path(written) and written not in (*measured_names, *experiments):
        raise BadInput(
            f"--from {quoted(written)}: neither in measurements/ nor in experiments/"
            f" ({documents.suggest_name(written, [*measured_names, *experiments])})"
        )
    path = Path(written) if documents.is_path(written) else MEASUREMENTS / f"{written}.yaml"
    document = (
        documents.load_document(path)
        if documents.is_path(written) or written in measured_names
        else None
    )
    if document is None or "matrices" in mapping_of(document):
        return published_measurements(load_experiment(written), matrices)
    measured = read_measurements(document)
    if matrices:
        raise BadInput(
            f"--matrix {matrices[0]}: {measured.file_name} is no experiment and has no matrix"
        )
    return replace(measured, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def read_measurements(document: Node) -> Measurements:
    """Parse measurements. Raises BadInput."""
    measured = documents.record_reader(Measurements)(document)
    entries: Any = measured.rows
    rows: list[Observation] = []
    for entry in entries:
        table = "columns" in mapping_of(entry)
        nodes = rows_of(entry, ROW_FIELDS) if table else [entry]
        rows += [read_row(node, measured.sd) for node in nodes]
    check_free(measured.free)
    check_free_unset(measured.free, rows)
    return replace(measured, rows=tuple(rows), file_name=document.origin)


def check_free_unset(free: Sequence[FreeParameter], rows: Sequence[Observation]) -> None:
    """Reject free parameters that a row sets. Raises BadInput."""
    for parameter in free:
        for row in rows:
            if parameter.sets in row.levels:
                raise row.levels[parameter.sets].node.bad(
                    f"{parameter.sets} is free ({parameter.name}), so no row can say it"
                )


def read_row(node: Node, usual_sd: float) -> Observation:
    """Parse one measured number. Raises BadInput."""
    values = documents.read_mapping(node, ROW_FIELDS)
    given = mapping_of(node)
    goodput_bps = values["goodput"]
    if values["sd"] is not None and (values["least"] or values["most"]):
        raise given["sd"].bad("a standard deviation and a band: one of them")
    if (values["least"] is None) != (values["most"] is None):
        raise node.bad("a band has both ends: least and most")
    if values["least"] is not None:
        least, most = values["least"], values["most"]
        if not least <= goodput_bps <= most or least == most:
            raise given["least"].bad(
                f"goodput {given['goodput'].text} is not within least and most"
            )
    else:
        width = math.exp(SDS_OF_BAND * (usual_sd if values["sd"] is None else values["sd"]))
        least, most = goodput_bps / width, goodput_bps * width
    levels: dict[str, Setting] = {}
    for name, written in mapping_of(given["factors"]).items() if "factors" in given else ():
        if field_of(name) is None:
            raise documents.unknown_key(given["factors"], name, [*known_names(), *ROW_FIELDS])
        levels[name] = read_level(name, written)
    return Observation(
        label=values["label"] or label_of(levels),
        levels=levels,
        goodput_bps=float(goodput_bps),
        least_bps=float(least),
        most_bps=float(most),
        use=values["use"],
        factors=tuple(levels),
    )


def label_of(levels: Mapping[str, Setting]) -> str:
    """Return a label of a row such as "cubic, 16 streams, gost+ws"."""
    texts = {name: level.written for name, level in levels.items() if name != "duration"}
    return cell_label(texts) or "the rate"


def published_measurements(experiment: ExperimentFile, wanted: Sequence[str]) -> Measurements:
    """Return the goodputs that a study published, without free parameters. Raises BadInput."""
    file_name = str(experiment.path_on_disk)
    by_name = {matrix.name: matrix for matrix in experiment.matrices}
    for name in wanted:
        if name not in by_name:
            raise BadInput(f"--matrix {name}: {experiment.name} has {', '.join(by_name)}")
    rows = []
    width = math.exp(SDS_OF_BAND * USUAL_SD)
    for number in experiment.published:
        goodput = number.goodput_mbit
        band: tuple[float, float] | None = None
        if number.figure == "goodput_mbit" and number.flow is None:
            goodput = number.value
            if number.least and number.most:
                band = (number.least, number.most)
                goodput = goodput or math.sqrt(number.least * number.most)
        if not goodput or (wanted and number.matrix not in wanted):
            continue
        matrix = by_name[number.matrix]
        factors = dict(level_of(matrix, name, level) for name, level in number.factors.items())
        distinguishing = {
            name: level for name, level in factors.items() if name not in matrix.settings
        }
        least, most = band or (goodput / width, goodput * width)
        levels, ends = {**matrix.settings, **factors}, (least * 1e6, most * 1e6)
        rows.append(
            Observation(
                label_of(distinguishing), levels, goodput * 1e6, *ends, FIT, tuple(distinguishing)
            )
        )
    if not rows:
        raise BadInput(f"{file_name}: no published goodput in it: nothing to fit")
    return Measurements(
        name=experiment.name,
        title=experiment.title,
        settings=experiment.settings,
        rows=tuple(rows),
        file_name=file_name,
        sha256=hashlib.sha256(experiment.path_on_disk.read_bytes()).hexdigest(),
    )


def level_of(matrix: Matrix, factor: str, written: Any) -> tuple[str, Setting]:
    """Return the setting and level of a published number's factor. Raises BadInput."""
    levels = matrix.factors[factor]
    match = next((level for level in levels if level.written == written), None)
    if match is not None:
        return match.name, match
    node = Node(levels[0].node.origin, None, factor, text=str(written))
    return levels[0].name, read_level(levels[0].name, node)


def rows_on_path(measured: Measurements, profile: str) -> Measurements:
    """Return the measurements with one path's rows and those without a path. Raises BadInput."""
    rows = []
    for row in measured.rows:
        named = row.levels.get("profile")
        if named is None or named.value == profile:
            levels = {name: level for name, level in row.levels.items() if name != "profile"}
            distinguishing = {name: levels[name] for name in row.factors if name in levels}
            label = row.label if named is None else label_of(distinguishing)
            rows.append(replace(row, levels=levels, label=label))
    if not rows:
        raise BadInput(f"{measured.file_name}: no number in it is of profile {profile}")
    return replace(measured, rows=tuple(rows))


def select_uses(
    measured: Measurements,
    fit_on: Mapping[str, Sequence[str]],
    judge_on: Mapping[str, Sequence[str]],
) -> Measurements:
    """Return the measurements with the uses of rows that the command line selects.

    With only --fit-on the other rows are judged, with only --judge-on they are fitted, with both
    they are dropped. Raises BadInput.
    """
    for option, wanted in (("--fit-on", fit_on), ("--judge-on", judge_on)):
        check_levels(measured, option, wanted)
    rows: list[Observation] = []
    for row in measured.rows:
        if fit_on and row.has(fit_on):
            rows.append(replace(row, use=FIT))
        elif judge_on and row.has(judge_on):
            rows.append(replace(row, use=JUDGE))
        elif not (fit_on and judge_on):
            use = JUDGE if fit_on else FIT if judge_on else row.use
            rows.append(replace(row, use=use))
    if not any(row.use == FIT for row in rows):
        raise BadInput(f"{measured.file_name}: no number to fit on is left")
    return replace(measured, rows=tuple(rows))


def check_levels(measured: Measurements, option: str, wanted: Mapping[str, Sequence[str]]) -> None:
    """Reject an option with levels that no row has. Raises BadInput."""
    for name, levels in wanted.items():
        known = {
            show_level(row.levels[name].written) for row in measured.rows if name in row.levels
        }
        for level in levels:
            if level not in known:
                has = f"they have {', '.join(sorted(known))}" if known else "no row says it"
                raise BadInput(f"{option} {name}={level}: not in the measurements ({has})")


ROW_FIELDS = {
    "factors": documents.KeySchema(ANYTHING),
    "goodput": documents.KeySchema(RATE, required=True),
    "sd": documents.KeySchema(PERCENT),
    "least": documents.KeySchema(RATE),
    "most": documents.KeySchema(RATE),
    "use": documents.KeySchema(documents.one_of(*USES), default=FIT),
    "label": documents.KeySchema(text_of, default=""),
}
