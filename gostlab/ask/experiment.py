"""Experiments: a YAML file of factors and their levels, and the runs it stands for.

Reading and expanding are pure. What comes out is a list of RunDescriptions, each of which is also
the file run.json and all that a machine needs to know.

What stands under `settings` is one value, what stands under `factors` is a list of levels. A later
word wins: defaults, the experiment's settings, the matrix's, its quick preset's, --set.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
import random
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from gostlab.ask.document import (
    BadInput,
    Field,
    Node,
    decimal,
    find_document,
    list_of,
    load_document,
    mapping_of,
    meant,
    names_in,
    one_of,
    quantity,
    read_mapping,
    text_of,
    texts_of,
    unknown_key,
    whole,
    yes_no,
)
from gostlab.ask.flows import Flow, count_hosts, delays_ms, resolve_flows
from gostlab.ask.profile import FOLDER as profile_folder
from gostlab.ask.profile import (
    MTU_BYTES,
    Direction,
    LossModel,
    Profile,
    find_profile,
    load_profile,
    path_json,
)
from gostlab.ask.settings import (
    CONGESTION_CONTROLS,
    DEFAULTS,
    Factors,
    Setting,
    Settings,
    default_setting,
    read_factors,
    read_override,
    read_settings,
)
from gostlab.ask.sizing import (
    memory_needed_mib,
    offloads_do_no_harm,
    resolve_buffers,
    tcp_memory_needed_mib,
)
from gostlab.ask.trace import changes_of
from gostlab.ask.units import share

FOLDER = Path(__file__).resolve().parents[2] / "experiments"
SCHEMA = 2
MAX_RUNS = 20_000


@dataclass(frozen=True)
class RunDescription:
    """One run, resolved: the contents of run.json, units in the names."""

    experiment: str
    matrix: str
    factors: Mapping[str, Any]  # only what varies in this matrix, as people write it
    repetition: int  # from 1
    seed: int  # the same for every cell of a repetition
    machine: str  # sandbox | native
    clock: str  # virtual | real
    syscall_cost_us: float  # on the virtual clock; 0 on the real one
    topology: str
    placement: str  # endpoint | gateway
    profile: str
    path: Mapping[
        str, Any
    ]  # forward, reverse: rate_bps, delay_ms, jitter_ms, ordered, distribution, loss, buffer_pkts
    sites: (
        Mapping[str, Any] | None
    )  # star: the path of every site by its profile's name; `path` is the one under test
    tunnel: str
    cc: str
    streams: int
    duration_s: float
    direction: str  # upload: the client sends | download
    buffers: str | Mapping[str, list[int]]  # "system": left as they are | {rmem, wmem}, bytes
    offloads: bool
    sample_ms: float
    mtu: int
    memory_mib: int  # the sandbox's
    tcp_memory_mib: int  # its limit for all TCP sockets of all hosts together
    acks: bool  # record the sender's window at every ACK
    flows: list[Flow]
    changes: list[
        Mapping[str, Any]
    ]  # of the path while the load runs: at_s, direction, what changes
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """The dict that run.json holds."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunDescription:
        """A run from run.json's dict. Raises BadInput if it is not one of this schema."""
        if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
            raise BadInput(f"run.json: not a run of schema {SCHEMA}, the one this lab reads")
        names = {item.name for item in fields(cls)}
        wrong = [
            *(f"{name} is missing" for name in sorted(names - set(values))),
            *(f"{name}: unknown key" for name in sorted(set(values) - names)),
        ]
        if wrong:
            raise BadInput(f"run.json: {'; '.join(wrong)}")
        own = copy.deepcopy(dict(values))
        try:
            own["flows"] = [Flow(**flow) for flow in own["flows"]]
        except TypeError as error:
            raise BadInput(f"run.json: flows: {error}") from None
        return cls(**own)

    @property
    def length_s(self) -> float:
        """How long the load lasts: until its last flow is over (an http flow: at most)."""
        return max(flow.end_s for flow in self.flows)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes that the flows run between."""
        return tuple(
            dict.fromkeys(host for flow in self.flows for host in (flow.sender, flow.receiver))
        )

    @property
    def data_direction(self) -> str:
        """The direction of the path that carries the first flow's data."""
        return "forward" if self.flows[0].direction == "upload" else "reverse"

    @property
    def cell(self) -> str:
        """The name without repetition: readable, ending in a hash of everything but repetition and
        seed.
        """
        inputs = self.to_json()
        del inputs["repetition"], inputs["seed"]
        return f"{self._words}-{digest(inputs)}"

    @property
    def name(self) -> str:
        """The name of the run's folder: readable, ending in a hash of everything that was asked."""
        return f"{self._words}-r{self.repetition}-{digest(self.to_json())}"

    @property
    def _words(self) -> str:
        """Matrix and levels, fit for a file name; words alone, numbers with their factor's name."""
        levels = (
            f"{factor}{level}" if str(level)[:1].isdigit() else str(level)
            for factor, level in self.factors.items()
        )
        return re.sub(r"[^A-Za-z0-9.+_-]+", "_", "-".join([self.matrix, *levels]))[:150]


def digest(inputs: Mapping[str, Any]) -> str:
    """Eight hex digits of what makes a run the run it is."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Quick:
    """What a matrix's quick preset changes."""

    skip: bool = False
    settings: Settings | None = None
    factors: Factors | None = None
    repetitions: int | None = None


@dataclass(frozen=True)
class Until:
    """When a matrix has enough repetitions: as soon as every cell's interval of the median is
    narrow enough, or there are `most`.

    `repetitions` are the first block; then one more at a time, of the cells that are still too
    wide.
    """

    halfwidth: float  # of the interval of the median, as a share of the median
    of: str  # one of STOPPING_FIGURES
    most: int  # repetitions
    least: int  # runs that count, before a cell is judged


@dataclass(frozen=True)
class Matrix:
    """Every combination of the factors' levels, over fixed settings."""

    name: str
    title: str
    note: str
    settings: Settings
    factors: Factors
    repetitions: int
    until: Until | None  # None: just the repetitions
    draw: tuple[str, ...]  # which figures show it; () as its factors suggest
    quick: Quick
    node: Node


@dataclass(frozen=True)
class Published:
    """A study's own number, for the cells that have these levels: a goodput, iperf3's Retr, or a
    figure by name.
    """

    matrix: str
    factors: Mapping[str, Any]
    goodput_mbit: float | None
    retr: int | None  # iperf3's retransmissions
    source: str
    figure: str | None = None  # one of FIGURES, then `value` or a band, least to most
    value: float | None = None
    least: float | None = None
    most: float | None = None
    flow: str | None = None  # of this flow alone
    versus: str | None = None  # figure ratio: over the same cell with this congestion control
    why: str = ""  # why lab and study differ, where somebody found out


@dataclass(frozen=True)
class Experiment:
    """An experiment file."""

    name: str
    title: str
    question: str
    study: Mapping[str, str]  # seed: the document it repeats; sections; note
    seed: int  # of the order of runs and, with the repetition, of each run
    settings: Settings
    matrices: tuple[Matrix, ...]
    published: tuple[Published, ...]
    path_on_disk: Path


def list_experiments() -> list[str]:
    """The names in experiments/."""
    return names_in(FOLDER)


def load_experiment(name_or_path: str) -> Experiment:
    """Read an experiment by its name in experiments/ or its file's path. Raises BadInput."""
    path = find_document(name_or_path, FOLDER, "experiment")
    return read_experiment(load_document(path), path)


def read_experiment(document: Node, path: Path) -> Experiment:
    """An experiment from a document. Raises BadInput."""
    values = read_mapping(document, EXPERIMENT_FIELDS)
    experiment = Experiment(**values, path_on_disk=path)
    nodes = mapping_of(document)
    for index, matrix in enumerate(experiment.matrices):
        if matrix.name in {earlier.name for earlier in experiment.matrices[:index]}:
            raise matrix.node.bad(f"a second matrix called {matrix.name}")
    if "published" in nodes:
        for published, node in zip(
            experiment.published, nodes["published"].items or (), strict=True
        ):
            check_published(published, node, experiment.matrices)
    return experiment


def check_published(published: Published, node: Node, matrices: Iterable[Matrix]) -> None:
    """A study's number must belong to a matrix and its factors. Raises BadInput."""
    by_name = {matrix.name: matrix for matrix in matrices}
    if published.matrix not in by_name:
        raise mapping_of(node)["matrix"].bad_value(
            f"no such matrix ({meant(published.matrix, by_name)})"
        )
    if "factors" not in mapping_of(node):
        return
    given = mapping_of(node)["factors"]
    for factor in published.factors:
        if factor not in by_name[published.matrix].factors:
            raise unknown_key(given, factor, by_name[published.matrix].factors)


def read_quick(node: Node) -> Quick:
    """A quick preset. Raises BadInput."""
    values = read_mapping(node, QUICK_FIELDS)
    if values["skip"] and len(mapping_of(node)) > 1:
        raise node.bad("skip: true and something else to do instead")
    return Quick(**values)


def read_matrix(node: Node) -> Matrix:
    """One matrix. Raises BadInput."""
    values = read_mapping(node, MATRIX_FIELDS)
    if values["until"] is not None and "repetitions" not in mapping_of(node):
        values["repetitions"] = values["until"].least
    matrix = Matrix(**values, node=node)
    if (
        matrix.until is not None
        and not LEAST_FOR_INTERVAL <= matrix.repetitions <= matrix.until.most
    ):
        raise mapping_of(node)["repetitions"].bad_value(
            f"with until, they are the first block: not within {LEAST_FOR_INTERVAL} and its most,"
            f" {matrix.until.most}"
        )
    for factor, levels in (matrix.quick.factors or {}).items():
        if factor not in matrix.factors:
            raise levels[0].node.bad_value(
                f"quick changes {factor}, which is no factor of {matrix.name}"
            )
    for factor in matrix.factors:
        if factor in matrix.settings:
            raise matrix.settings[factor].node.bad(f"both a setting and a factor of {matrix.name}")
    return matrix


def read_until(node: Node) -> Until:
    """A stopping rule. Raises BadInput."""
    values = read_mapping(node, UNTIL_FIELDS)
    if not 0 < values["halfwidth"] < 1:
        raise mapping_of(node)["halfwidth"].bad_value(
            "not between 0% and 100% of the median (like 5%)"
        )
    until = Until(**{**values, "halfwidth": float(values["halfwidth"])})
    if until.least > until.most:
        raise node.bad(f"least is {until.least}, more than most, {until.most}")
    return until


def read_published(node: Node) -> Published:
    """One number of a study. Raises BadInput."""
    values = read_mapping(node, PUBLISHED_FIELDS)
    numbers: dict[str, float | None] = {}
    for name in ("goodput_mbit", "value", "least", "most"):
        number = values.pop(name)
        numbers[name] = None if number is None else float(number)
    if values["figure"] is None:
        if numbers["goodput_mbit"] is None and values["retr"] is None:
            raise node.bad("neither goodput_mbit, retr nor figure: nothing to compare with")
        if any(numbers[name] is not None for name in ("value", "least", "most")):
            raise node.bad("value, least and most belong to a figure")
    elif all(numbers[name] is None for name in ("value", "least", "most")):
        raise node.bad(
            f"figure {values['figure']} without value, least or most: nothing to compare with"
        )
    if (values["figure"] == "ratio") != (values["versus"] is not None):
        raise node.bad(
            "figure ratio needs versus (the congestion control it is a ratio to), and nothing else"
            " has it"
        )
    factors = {name: level.written for name, level in values.pop("factors").items()}
    return Published(**{**values, **numbers}, factors=factors)


def read_draw(node: Node) -> tuple[str, ...]:
    """The figures of a matrix. Raises BadInput."""
    return list_of(one_of(*DRAWINGS))(node)


def read_name(node: Node) -> str:
    """A name that also names a folder. Raises BadInput."""
    text = text_of(node)
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,63}", text):
        raise node.bad_value("a name has lower-case letters, digits, dots and dashes, 64 at most")
    return text


NO_QUICK = Quick()
# What the report can draw of a matrix, and what a study's number can be of.
DRAWINGS = ("series", "cwnd", "by-loss", "by-rtt", "shares", "bars", "map")
FIGURES = (
    "goodput_mbit",
    "retr",
    "window_pkts",
    "convergence_s",
    "jain",
    "ratio",
    "total_mbit",
    "share",
    "goodput_best3",
)
STOPPING_FIGURES = ("goodput",)  # of all flows together
REPETITIONS = whole(1, 1000)
# Below six runs no interval of the median reaches 95 % (analysis.judge.statistics).
LEAST_FOR_INTERVAL = 6
ENOUGH = whole(LEAST_FOR_INTERVAL, 1000)
UNTIL_FIELDS = {
    "halfwidth": Field(quantity(share), required=True),
    "of": Field(one_of(*STOPPING_FIGURES), default="goodput"),
    "most": Field(ENOUGH, required=True),
    "least": Field(ENOUGH, default=LEAST_FOR_INTERVAL),
}
STUDY_FIELDS = {"seed": Field(text_of), "sections": Field(text_of), "note": Field(text_of)}
QUICK_FIELDS = {
    "skip": Field(yes_no, default=False),
    "settings": Field(read_settings),
    "factors": Field(read_factors),
    "repetitions": Field(REPETITIONS),
}
MATRIX_FIELDS = {
    "name": Field(read_name, required=True),
    "title": Field(text_of, default=""),
    "note": Field(text_of, default=""),
    "settings": Field(read_settings, default={}),
    "factors": Field(read_factors, default={}),
    "repetitions": Field(REPETITIONS, default=1),
    "until": Field(read_until),
    "draw": Field(read_draw, default=()),
    "quick": Field(read_quick, default=NO_QUICK),
}
PUBLISHED_FIELDS = {
    "matrix": Field(text_of, required=True),
    "factors": Field(read_settings, default={}),
    "goodput_mbit": Field(decimal),
    "retr": Field(whole(0, 10**12)),
    "figure": Field(one_of(*FIGURES)),
    "value": Field(decimal),
    "least": Field(decimal),
    "most": Field(decimal),
    "flow": Field(text_of),
    "versus": Field(one_of(*CONGESTION_CONTROLS)),
    "source": Field(text_of, required=True),
    "why": Field(text_of, default=""),
}
EXPERIMENT_FIELDS = {
    "name": Field(read_name, required=True),
    "title": Field(text_of, required=True),
    "question": Field(text_of, default=""),
    "study": Field(texts_of(STUDY_FIELDS), default={}),
    "seed": Field(whole(1, 10**6), default=1),
    "settings": Field(read_settings, default={}),
    "matrices": Field(list_of(read_matrix, least=1), required=True),
    "published": Field(list_of(read_published), default=()),
}


def expand(
    experiment: Experiment,
    *,
    quick: bool = False,
    overrides: Mapping[str, str] = {},
    machine: str = "sandbox",
    clock: str | None = None,
    repetitions_of: Mapping[str, int] = {},
) -> list[RunDescription]:
    """Every run of an experiment, in the order to run them.

    Repetitions are the outer loop, so that drift hits every cell alike; within one the order is
    shuffled by the experiment's seed, the real clock's runs last, as they need the machine for
    themselves. All cells of a repetition share its seed, so that congestion controls are compared
    under the same losses. `overrides` are --set's words, `clock` is --clock's: both hold for every
    matrix. `repetitions_of` are cells, by name, that have more repetitions than their matrix says.
    Raises BadInput.
    """
    asked = {name: read_override(name, text) for name, text in overrides.items()}
    if clock is not None:
        asked["clock"] = read_override("clock", clock, origin="--clock")
    blocks: dict[int, list[RunDescription]] = {}
    for matrix in experiment.matrices:
        if quick and matrix.quick.skip:
            continue
        short = matrix.quick if quick else NO_QUICK
        settings = {**experiment.settings, **matrix.settings, **(short.settings or {})}
        factors = {**matrix.factors, **(short.factors or {})}
        for name, levels in asked.items():
            if name in factors or len(levels) > 1:
                factors[name] = levels
            else:
                settings[name] = levels[0]
        repetitions = short.repetitions or matrix.repetitions
        most = matrix.until.most if matrix.until and not quick else repetitions
        count = most * math.prod(len(levels) for levels in factors.values())
        if count > MAX_RUNS:
            raise matrix.node.bad(f"{count} runs in one matrix ({MAX_RUNS} at most)")
        cells = list(expand_cells(experiment.name, matrix.name, settings, factors, machine))
        counts = [
            max(repetitions, repetitions_of.get(cell.cell, 0)) if repetitions_of else repetitions
            for cell in cells
        ]
        for repetition in range(1, max(counts) + 1):
            blocks.setdefault(repetition, []).extend(
                replace(cell, repetition=repetition, seed=1000 * experiment.seed + repetition)
                for cell, count in zip(cells, counts, strict=True)
                if repetition <= count
            )
    return [
        run
        for repetition in sorted(blocks)
        for run in shuffled(blocks[repetition], experiment.seed, repetition)
    ]


def stopping_rules(experiment: Experiment, *, quick: bool = False) -> dict[str, Until]:
    """The matrices that repeat until their cells are narrow enough, by name. The quick form never
    does.
    """
    return (
        {}
        if quick
        else {
            matrix.name: matrix.until for matrix in experiment.matrices if matrix.until is not None
        }
    )


def shuffled(runs: list[RunDescription], seed: int, repetition: int) -> list[RunDescription]:
    """The runs of one repetition in random order, the real clock's after all others."""
    order = random.Random(f"{seed}/{repetition}")
    return sorted(order.sample(runs, len(runs)), key=lambda run: run.clock == "real")


def expand_cells(
    experiment: str, matrix: str, settings: Settings, factors: Factors, machine: str
) -> Iterable[RunDescription]:
    """Every combination of levels, once: on the real clock, levels of syscall_cost are no
    difference.
    """
    seen = []
    for levels in itertools.product(*factors.values()):
        cell = dict(zip(factors, levels, strict=True))
        written = {name: level.written for name, level in cell.items()}
        asked = {**settings, **cell}
        if "clock" in asked and asked["clock"].value == "real":
            written.pop("syscall_cost", None)
        run = resolve(experiment, matrix, asked, written, machine)
        if run not in seen:
            seen.append(run)
            yield run


def single_run(
    *, profile: str, cc: str, machine: str, clock: str, overrides: Mapping[str, str] = {}
) -> RunDescription:
    """One run outside any experiment, for the shell and the benchmark. Raises BadInput."""
    asked = {
        name: read_override(name, text, origin=f"--{name}")[0]
        for name, text in {"profile": profile, "cc": cc, "clock": clock, **overrides}.items()
    }
    return replace(resolve("single", "single", asked, {}, machine), repetition=1, seed=1)


def resolve(
    experiment: str, matrix: str, asked: Settings, written: Mapping[str, Any], machine: str
) -> RunDescription:
    """Settings -> a run with numbers, still without repetition and seed. Raises BadInput."""
    settings = {name: asked.get(name) or default_setting(name) for name in DEFAULTS}
    values = {name: setting.value for name, setting in settings.items()}
    profile = load_profile_of(settings["profile"])
    path = resolve_path(profile, asked, values["direction"])
    sites = resolve_sites(settings, asked, path)
    site = f"site{1 + list(sites).index(profile.name)}" if sites else None
    flows = resolve_flows(settings, asked, path, site)
    check_topology(settings, path, flows)
    changes = resolve_changes(asked, values["direction"])
    if values["clock"] == "virtual":
        for each in (path, *(sites or {}).values()):
            check_rates(each, (asked.get("rate") or settings["profile"]).node)
    streams = sum(flow.streams for flow in flows if flow.kind != "udp") or 1
    buffers = resolve_buffers(values["buffers"], path)
    offloads = values["offloads"] == "on" or (
        values["offloads"] == "auto"
        and len(flows) == 1
        and not changes
        and flows[0].kind != "udp"
        and offloads_do_no_harm(path, values["direction"], streams, flows[0].buffers)
    )
    needed_mib = sum(
        tcp_memory_needed_mib(flow.streams, values["tunnel"], flow.buffers, path) for flow in flows
    )
    tcp_memory_mib = values["tcp_memory"] or needed_mib
    return RunDescription(
        experiment=experiment,
        matrix=matrix,
        factors=written,
        repetition=0,
        seed=0,
        machine=machine,
        clock=values["clock"],
        syscall_cost_us=values["syscall_cost"] if values["clock"] == "virtual" else 0.0,
        topology=values["topology"],
        placement=values["placement"],
        profile=profile.name,
        path=path,
        sites=sites,
        tunnel=values["tunnel"],
        cc=values["cc"],
        streams=values["streams"],
        duration_s=values["duration"],
        direction=values["direction"],
        buffers=buffers,
        offloads=offloads,
        sample_ms=values["sample"],
        mtu=MTU_BYTES,
        memory_mib=values["memory"]
        or memory_needed_mib(min(tcp_memory_mib, needed_mib) // 2, path),
        tcp_memory_mib=tcp_memory_mib,
        acks=values["acks"] == "on",
        flows=flows,
        changes=changes,
    )


def resolve_sites(
    settings: Settings, asked: Settings, path: Mapping[str, Any]
) -> dict[str, Any] | None:
    """A star's sites, each with its own profile's path; the one under test with the run's. Raises
    BadInput.
    """
    topology, tested = settings["topology"], settings["profile"]
    if topology.value != "star":
        if "sites" in asked:
            raise asked["sites"].node.bad(f"sites belong to topology star, not to {topology.value}")
        return None
    if "sites" not in asked:
        raise topology.node.bad(
            "a star needs sites (a list of profiles, one of them the run's own)"
        )
    if tested.value not in asked["sites"].value:
        raise tested.node.bad_value("not one of the star's sites")
    found = {}
    for name in asked["sites"].value:
        profile = load_profile_of(Setting(name, name, asked["sites"].node))
        found[name] = path if name == tested.value else path_json(profile.forward, profile.reverse)
    return found


def check_topology(settings: Settings, path: Mapping[str, Any], flows: list[Flow]) -> None:
    """What a topology cannot do with a path. Raises BadInput."""
    topology = settings["topology"]
    if topology.value == "router":
        back = path["reverse"]
        if back["delay_ms"] or back["jitter_ms"] or not read_back_lossless(back):
            raise settings["profile"].node.bad(
                "topology router shapes what the client sends only: the profile's reverse has a "
                "delay, jitter or loss"
            )
    if topology.value == "dumbbell":
        try:
            delays_ms(flows, path)
            count_hosts(flows)
        except ValueError as error:
            raise topology.node.bad(str(error)) from None


def read_back_lossless(direction: Mapping[str, Any]) -> bool:
    """Whether a direction, as run.json has it, loses nothing."""
    return not (direction["loss"]["p"] or direction["loss"].get("one_minus_k"))


def resolve_changes(asked: Settings, data_direction: str) -> list[Mapping[str, Any]]:
    """The changes of the path while the load runs, those of a trace among them, in the order of
    time. Raises BadInput.
    """
    data = "forward" if data_direction == "upload" else "reverse"
    found: list[dict[str, Any]] = []
    for change in asked["changes"].value if "changes" in asked else ():
        ways = (
            ("forward", "reverse")
            if change["direction"] == "both"
            else (change["direction"] or data,)
        )
        found += [
            {
                "at_s": change["at"],
                "direction": way,
                "rate_bps": change["rate"],
                "delay_ms": None if change["delay"] is None else float(change["delay"] * 1000),
                "jitter_ms": None if change["jitter"] is None else float(change["jitter"] * 1000),
                "loss": None if change["loss"] is None else change["loss"].to_json(),
            }
            for way in ways
        ]
    if "trace" in asked:
        for step in changes_of(trace_path(asked["trace"])):
            found.append(
                {
                    "at_s": step.at_s,
                    "direction": step.direction,
                    "rate_bps": step.rate_bps,
                    "delay_ms": step.delay_ms,
                    "jitter_ms": None,
                    "loss": None if step.loss is None else LossModel("random", step.loss).to_json(),
                }
            )
    found.sort(key=lambda change: change["at_s"])
    return [{key: value for key, value in change.items() if value is not None} for change in found]


def trace_path(setting: Setting) -> Path:
    """The file that `trace` names: a path, or one beside the profiles. Raises BadInput."""
    name = setting.value
    for path in (Path(name), profile_folder / name):
        with suppress(OSError, ValueError):  # a name that no file can have
            if path.is_file():
                return path
    raise setting.node.bad_value("no such file, here or in netem_profiles/")


def load_profile_of(setting: Setting) -> Profile:
    """The profile that a setting names. Raises BadInput, where the name stands if there is no such
    profile.
    """
    try:
        path = find_profile(setting.value)
    except BadInput as error:
        raise setting.node.bad(str(error)) from None
    return load_profile(str(path))


def resolve_path(profile: Profile, asked: Settings, data_direction: str) -> dict[str, Any]:
    """The profile's path, with a run's own rate, delay, loss, jitter and buffer in place of the
    profile's. Raises BadInput.
    """
    if "rtt" in asked and "delay" in asked:
        raise asked["rtt"].node.bad("both rtt and delay")
    # There the whole of a round trip is on the router's one way out.
    one_way = "topology" in asked and asked["topology"].value == "router"

    def changed(direction: Direction, carries_data: bool) -> Direction:
        for name, field in (
            ("rate", "rate_bps"),
            ("delay", "delay_s"),
            ("buffer", "buffer"),
            ("loss", "loss"),
            ("jitter", "jitter_s"),
        ):
            if name in asked and (name not in ("loss", "jitter") or carries_data):
                direction = replace(direction, **{field: asked[name].value})
        if "rtt" in asked and one_way:
            direction = replace(
                direction, delay_s=asked["rtt"].value if carries_data else Fraction(0)
            )
        elif "rtt" in asked:
            direction = replace(direction, delay_s=asked["rtt"].value / 2)
        if "ordered" in asked and carries_data:
            direction = replace(direction, ordered=asked["ordered"].value == "on")
        # A run's own delay may be shorter than the profile's jitter.
        return replace(direction, jitter_s=min(direction.jitter_s, direction.delay_s))

    return path_json(
        changed(profile.forward, data_direction == "upload"),
        changed(profile.reverse, data_direction == "download"),
    )


def check_rates(path: Mapping[str, Any], node: Node) -> None:
    """On the virtual clock a path without a rate is infinitely fast, its run endless. Raises
    BadInput.
    """
    for name, direction in path.items():
        if direction["rate_bps"] is None:
            raise node.bad(
                f"the {name} direction has no rate limit: on the virtual clock it would be"
                " infinitely fast and the run never end (give it one, like rate: 10gbit, or clock:"
                " real)"
            )


def matching_published(
    experiment: Experiment, matrix: str, factors: Mapping[str, Any]
) -> list[Published]:
    """The study's numbers for a cell: those all of whose levels the cell has."""
    return [
        number
        for number in experiment.published
        if number.matrix == matrix
        and all(factors.get(name) == level for name, level in number.factors.items())
    ]


__all__ = (
    "BadInput",
    "Experiment",
    "Matrix",
    "Published",
    "RunDescription",
    "Until",
    "expand",
    "list_experiments",
    "load_experiment",
    "matching_published",
    "read_experiment",
    "single_run",
    "stopping_rules",
)
