# SPDX-License-Identifier: MIT
"""Expand an experiment to its runs: every combination of levels, compiled to numbers.

The functions are pure but for reading profiles and traces.
"""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from gostlab.registry.traffic import kind_of_fields, traffic_kind
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.compile import TUNNEL_OPTIONS, compile_run, requires_option
from gostlab.spec.experiment import ExperimentFile, Matrix, with_presets
from gostlab.spec.kernel_support import bottlenecks_with_queue
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import (
    DEFAULTS,
    Factors,
    Setting,
    Settings,
    field_of,
    known_names,
    merge_layers,
    parse_override,
    read_levels,
    read_override,
    reject_duplicate_aliases,
    setting_called,
)
from gostlab.spec.yaml_source import Node, suggest_name

MAX_RUNS = 20_000

# The settings that only the virtual clock charges.
CHARGES = (
    "machine syscall_cost byte_cost host_cpus cpu_share cpu_burst packet_cost clock_reads"
).split()


def expand(
    experiment: ExperimentFile,
    *,
    quick: bool = False,
    overrides: Mapping[str, str] = {},
    machine: str = "sandbox",
    clock: str | None = None,
    repetitions_of: Mapping[str, int] = {},
    matrices: Collection[str] = (),
) -> list[RunSpec]:
    """Return every run of an experiment, or of some of its matrices, in the order to run them.

    Repetitions are the outer loop, so that drift affects every cell alike. Within a repetition the
    order is shuffled by the experiment's seed; the real clock's runs come last, as they need the
    machine for themselves. All cells of a repetition share its seed, so that congestion controls
    are compared under the same losses. `overrides` are the values of --set, `clock` is that of
    --clock: both apply to every matrix. `repetitions_of` maps names of cells to more repetitions
    than their matrix declares. Raises BadInput.
    """
    blocks: dict[int, list[RunSpec]] = {}
    for matrix, settings, factors in settings_by_matrix(experiment, overrides, clock, quick=quick):
        if matrices and matrix.name not in matrices:
            continue
        repetitions = (quick and matrix.quick.repetitions) or matrix.repetitions
        max_repetitions = matrix.until.most if matrix.until and not quick else repetitions
        count = max_repetitions * math.prod(len(levels) for levels in factors.values())
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
    runs = []
    for repetition, block in sorted(blocks.items()):
        order = random.Random(f"{experiment.seed}/{repetition}").sample(block, len(block))
        runs += sorted(order, key=lambda run: run.clock == "real")
    return runs


# The settings of the run that apply only to flows without their own value.
FLOW_SETTINGS = ("buffers", "cc", "streams")


def settings_by_matrix(
    experiment: ExperimentFile, overrides: Mapping[str, str], clock: str | None, *, quick: bool
) -> list[tuple[Matrix, dict[str, Setting], dict[str, tuple[Setting, ...]]]]:
    """Return each matrix of a form with its settings and factors. Raises BadInput.

    An override must apply to at least one matrix, where a factor's own name is the stronger one. An
    override of a flow setting must apply to at least one flow: all flows may have their own value.
    """
    given = {name: parse_override(name, text) for name, text in overrides.items()}
    if clock is not None:
        given["clock"] = parse_override("clock", clock, origin="--clock")
    factors = {name for matrix in experiment.matrices for name in matrix.factors}
    matrices = [matrix for matrix in experiment.matrices if matrix.is_in(quick=quick)]
    for name, written in given.items():
        if name not in factors and field_of(name) is None:
            known = suggest_name(name, [*factors, *known_names()])
            raise written.bad(f"no such factor or setting ({known})")
        names = {factor_name(name, matrix.factors_of(quick=quick)) for matrix in matrices}
        if names and name not in names and names <= given.keys():
            raise written.bad(f"said already as {' and '.join(sorted(names))} (write one of them)")
    layers = [
        (matrix, *settings_and_factors(experiment, matrix, given, quick=quick))
        for matrix in matrices
    ]
    for name in (name for name in FLOW_SETTINGS if name in given):
        owners = [overriding_fields(name, settings, factors) for _, settings, factors in layers]
        if owners and all(owners):
            fields = dict.fromkeys(field for fields in owners for field in fields)
            raise given[name].bad(f"every flow has its own here (set {' or '.join(fields)})")
    return layers


def levels_in_order(
    experiment: ExperimentFile, *, quick: bool = False, overrides: Mapping[str, str] = {}
) -> dict[str, dict[str, list[str]]]:
    """Return the factors and levels of every matrix of a form, as ordered. Raises BadInput."""
    return {
        matrix.name: {
            name: [str(level.written) for level in levels] for name, levels in factors.items()
        }
        for matrix, _, factors in settings_by_matrix(experiment, overrides, None, quick=quick)
    }


def overriding_fields(name: str, settings: Settings, factors: Factors) -> list[str]:
    """Return the flow fields that override a setting for all flows; [] if a flow uses the setting.

    A tunnel's own connections use the run's congestion control where no flow's is theirs.
    """
    varied = {levels[0].name: levels for levels in factors.values()}
    tunnels = [*varied.get("tunnel", ()), *([settings["tunnel"]] if "tunnel" in settings else [])]
    ends_connections = any(not tunnel_kind(level.value).is_direct for level in tunnels)
    if name in varied or (name == "cc" and ends_connections):
        return []
    flows = settings["flows"].value if "flows" in settings else {"flow1": {}}
    overriding = []
    for flow, fields in flows.items():
        traffic = traffic_kind(fields["kind"]) if "kind" in fields else kind_of_fields(fields)
        if not (traffic.has_streams if name == "streams" else traffic.is_tcp):
            continue  # The flow's traffic has no such field.
        field = f"{flow}.{name}"
        if name not in fields and field not in settings and field not in varied:
            return []
        overriding.append(field)
    return overriding


def settings_and_factors(
    experiment: ExperimentFile, matrix: Matrix, given: Mapping[str, Node], *, quick: bool
) -> tuple[dict[str, Setting], dict[str, tuple[Setting, ...]]]:
    """Return a matrix's settings and factors: file < matrix < quick < --set. Raises BadInput."""
    factors = matrix.factors_of(quick=quick)
    settings: dict[str, Setting] = {}
    reject_duplicate_aliases(matrix.node, given)
    for given_name, written in given.items():
        name = factor_name(given_name, factors)
        if name not in factors and field_of(name) is None:
            continue  # The factor belongs to another matrix.
        if name != given_name and name in given:
            continue  # The factor's own name has set it already.
        node = with_presets(written, experiment.presets, name)
        levels = read_levels(factors[name][0].name if name in factors else name, node)
        if name in factors or len(levels) > 1:
            factors[name] = levels
        else:
            settings[name] = levels[0]
    drop_unused_factors(
        factors, merge_layers(experiment.settings, matrix.settings, settings), given
    )
    varied = {levels[0].name: levels[0] for levels in factors.values()}
    result = merge_layers(
        experiment.settings,
        {**matrix.settings, **varied},
        (quick and matrix.quick.settings) or {},
        settings,
    )
    queues = (level for levels in factors.values() for level in levels if level.name == "queue")
    queues_set = [*queues] or ([result["queue"]] if "queue" in result else [])
    needs_packets = any(level.value != DEFAULTS["queue"] for level in queues_set)
    if needs_packets and "bottleneck" not in result:
        # This applies to all levels: a fifo under another bottleneck would be another comparison.
        [result["bottleneck"]] = read_override("bottleneck", bottlenecks_with_queue()[0])
    return {name: setting for name, setting in result.items() if name not in varied}, factors


def drop_unused_factors(
    factors: dict[str, tuple[Setting, ...]], settings: Settings, given: Mapping[str, Node]
) -> None:
    """Delete factors of flow settings that --set leaves without a flow: they make copies."""
    for name in FLOW_SETTINGS:
        if not any(factor.endswith(f".{name}") for factor in given):
            continue
        unused = [factor for factor, levels in factors.items() if levels[0].name == name]
        others = {factor: levels for factor, levels in factors.items() if factor not in unused}
        if unused and overriding_fields(name, settings, others):
            for factor in unused:
                del factors[factor]


def factor_name(name: str, factors: Factors) -> str:
    """Return a matrix's name of a factor: its own, that of its setting, or else the setting's."""
    if name in factors:
        return name
    setting = setting_called(name)
    return next(
        (factor for factor, levels in factors.items() if levels[0].name == setting), setting
    )


def expand_cells(
    experiment: str, matrix: str, settings: Settings, factors: Factors, machine: str
) -> Iterable[RunSpec]:
    """Yield every combination once.

    On the real clock, CHARGES make no difference; an option of some tunnels makes none for other
    tunnels.
    """
    runs_by_levels = defaultdict[str, list[RunSpec]](list)  # Runs by their levels.
    options = supported_options(settings, factors)
    for levels in itertools.product(*factors.values()):
        cell = dict(zip(factors, levels, strict=True))
        levels_written = {name: level.written for name, level in cell.items()}
        explicit = {**settings, **{level.name: level for level in levels}}
        supported = tunnel_kind(explicit["tunnel"].value).options if "tunnel" in explicit else ()
        unfit = options.difference(supported)
        explicit = {name: setting for name, setting in explicit.items() if name not in unfit}
        levels_written = {
            name: level for name, level in levels_written.items() if cell[name].name not in unfit
        }
        if "clock" in explicit and explicit["clock"].value == "real":
            levels_written = {
                name: level for name, level in levels_written.items() if name not in CHARGES
            }
        run = compile_run(experiment, matrix, explicit, levels_written, machine)
        equal = runs_by_levels[str(levels_written)]
        if run not in equal:
            equal.append(run)
            yield run


def supported_options(settings: Settings, factors: Factors) -> set[str]:
    """Return the requested tunnel options that some of the requested tunnels have."""
    settings_of_all = [*settings.values(), *itertools.chain.from_iterable(factors.values())]
    supported = {
        name
        for setting in settings_of_all
        if setting.name == "tunnel"
        for name in tunnel_kind(setting.value).options
    }
    return {
        setting.name
        for setting in settings_of_all
        if setting.name in TUNNEL_OPTIONS and setting.name in supported and requires_option(setting)
    }


def single_run(
    *, profile: str, cc: str, machine: str, clock: str, overrides: Mapping[str, str] = {}
) -> RunSpec:
    """Return one run outside any experiment, for the shell and the benchmark. Raises BadInput."""
    explicit = {
        name: read_override(name, text, origin=f"--{name}")[0]
        for name, text in {"profile": profile, "cc": cc, "clock": clock, **overrides}.items()
    }
    return replace(compile_run("single", "single", explicit, {}, machine), repetition=1, seed=1)
