"""From an experiment to its runs: every combination of its factors' levels, every word a number.

Pure but for the profiles and traces that it reads.
"""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from gostlab.registry.traffic import traffic_kind
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.compile import TUNNEL_OPTIONS, requires_option, resolve
from gostlab.spec.experiment import ExperimentFile, Matrix, with_presets
from gostlab.spec.kernel_support import where_queues_act
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import (
    DEFAULTS,
    Factors,
    Setting,
    Settings,
    field_of,
    known_names,
    merged,
    parse_override,
    read_levels,
    read_override,
    reject_duplicate_aliases,
    setting_called,
)
from gostlab.spec.yaml_source import Node, meant

MAX_RUNS = 20_000

# What only the virtual clock charges.
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
    """Every run of an experiment, or of some of its matrices, in the order to run them.

    Repetitions are the outer loop, so that drift hits every cell alike; within one the order is
    shuffled by the experiment's seed, the real clock's runs last, as they need the machine for
    themselves. All cells of a repetition share its seed, so that congestion controls are compared
    under the same losses. `overrides` are --set's words, `clock` is --clock's: both hold for every
    matrix. `repetitions_of` are cells, by name, that have more repetitions than their matrix says.
    Raises BadInput.
    """
    blocks: dict[int, list[RunSpec]] = {}
    for matrix, settings, factors in layers_of(experiment, overrides, clock, quick=quick):
        if matrices and matrix.name not in matrices:
            continue
        repetitions = (quick and matrix.quick.repetitions) or matrix.repetitions
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
    found = []
    for repetition, block in sorted(blocks.items()):
        order = random.Random(f"{experiment.seed}/{repetition}").sample(block, len(block))
        found += sorted(order, key=lambda run: run.clock == "real")
    return found


# What the run says for those of its flows alone that do not say it themselves.
OF_FLOWS = ("buffers", "cc", "streams")


def layers_of(
    experiment: ExperimentFile, overrides: Mapping[str, str], clock: str | None, *, quick: bool
) -> list[tuple[Matrix, dict[str, Setting], dict[str, tuple[Setting, ...]]]]:
    """Each matrix of a form with its settings and factors. What --set and --clock say must reach
    one, where a factor's own name is the stronger one; and what they say of the flows one of them:
    all may have their own. Raises BadInput.
    """
    given = {name: parse_override(name, text) for name, text in overrides.items()}
    if clock is not None:
        given["clock"] = parse_override("clock", clock, origin="--clock")
    factors = {name for matrix in experiment.matrices for name in matrix.factors}
    matrices = [matrix for matrix in experiment.matrices if matrix.is_in(quick=quick)]
    for name, written in given.items():
        if name not in factors and field_of(name) is None:
            known = meant(name, [*factors, *known_names()])
            raise written.bad(f"no such factor or setting ({known})")
        names = {factor_name(name, each.factors_of(quick=quick)) for each in matrices}
        if names and name not in names and names <= given.keys():
            raise written.bad(f"said already as {' and '.join(sorted(names))} (write one of them)")
    found = [
        (each, *settings_and_factors(experiment, each, given, quick=quick)) for each in matrices
    ]
    for name in (name for name in OF_FLOWS if name in given):
        owners = [owners_of(name, settings, factors) for _, settings, factors in found]
        if owners and all(owners):
            fields = dict.fromkeys(field for fields in owners for field in fields)
            raise given[name].bad(f"every flow has its own here (set {' or '.join(fields)})")
    return found


def levels_in_order(
    experiment: ExperimentFile, *, quick: bool = False, overrides: Mapping[str, str] = {}
) -> dict[str, dict[str, list[str]]]:
    """The factors and levels of every matrix of a form, in the order written. Raises BadInput."""
    return {
        matrix.name: {
            name: [str(level.written) for level in levels] for name, levels in factors.items()
        }
        for matrix, _, factors in layers_of(experiment, overrides, None, quick=quick)
    }


def owners_of(name: str, settings: Settings, factors: Factors) -> list[str]:
    """The fields of flows that stand in place of a setting, if that leaves no flow to it; else [].
    A tunnel's own connections have the run's congestion control where no flow's is theirs.
    """
    varied = {levels[0].name: levels for levels in factors.values()}
    tunnels = [*varied.get("tunnel", ()), *([settings["tunnel"]] if "tunnel" in settings else [])]
    ends_connections = any(not tunnel_kind(level.value).is_direct for level in tunnels)
    if name in varied or (name == "cc" and ends_connections):
        return []
    flows = settings["flows"].value if "flows" in settings else {"flow1": {}}
    found = []
    for flow, fields in flows.items():
        kind = traffic_kind(fields.get("kind", "tcp"))
        if not (kind.has_streams if name == "streams" else kind.is_tcp):
            continue  # it may have no such field
        field = f"{flow}.{name}"
        if name not in fields and field not in settings and field not in varied:
            return []
        found.append(field)
    return found


def settings_and_factors(
    experiment: ExperimentFile, matrix: Matrix, given: Mapping[str, Node], *, quick: bool
) -> tuple[dict[str, Setting], dict[str, tuple[Setting, ...]]]:
    """A matrix's settings and factors: file, matrix, quick, --set; later wins. Raises BadInput."""
    factors = matrix.factors_of(quick=quick)
    settings: dict[str, Setting] = {}
    reject_duplicate_aliases(matrix.node, given)
    for called, written in given.items():
        name = factor_name(called, factors)
        if name not in factors and field_of(name) is None:
            continue  # another matrix's factor
        if name != called and name in given:
            continue  # said of this matrix by the factor's own name
        node = with_presets(written, experiment.presets, name)
        levels = read_levels(factors[name][0].name if name in factors else name, node)
        if name in factors or len(levels) > 1:
            factors[name] = levels
        else:
            settings[name] = levels[0]
    drop_unused(factors, merged(experiment.settings, matrix.settings, settings), given)
    varied = {levels[0].name: levels[0] for levels in factors.values()}
    found = merged(
        experiment.settings,
        {**matrix.settings, **varied},
        (quick and matrix.quick.settings) or {},
        settings,
    )
    queues = (level for levels in factors.values() for level in levels if level.name == "queue")
    named = [*queues] or ([found["queue"]] if "queue" in found else [])
    needs_packets = any(level.value != DEFAULTS["queue"] for level in named)
    if needs_packets and "bottleneck" not in found:
        # For all of its levels: a fifo under another bottleneck would be another comparison.
        [found["bottleneck"]] = read_override("bottleneck", where_queues_act()[0])
    return {name: each for name, each in found.items() if name not in varied}, factors


def drop_unused(
    factors: dict[str, tuple[Setting, ...]], settings: Settings, given: Mapping[str, Node]
) -> None:
    """Take away factors of flows' settings that --set leaves no flow to: they would make copies."""
    for name in OF_FLOWS:
        if not any(called.endswith(f".{name}") for called in given):
            continue
        own = [called for called, levels in factors.items() if levels[0].name == name]
        others = {called: levels for called, levels in factors.items() if called not in own}
        if own and owners_of(name, settings, others):
            for called in own:
                del factors[called]


def factor_name(name: str, factors: Factors) -> str:
    """What a matrix calls a factor: its own name, or that of what it sets; else the setting's."""
    if name in factors:
        return name
    setting = setting_called(name)
    return next((each for each, levels in factors.items() if levels[0].name == setting), setting)


def expand_cells(
    experiment: str, matrix: str, settings: Settings, factors: Factors, machine: str
) -> Iterable[RunSpec]:
    """Every combination, once: on the real clock CHARGES are no difference, and what one of several
    tunnels has is no matter of the others.
    """
    found = defaultdict[str, list[RunSpec]](list)  # by their levels
    options = options_of_some(settings, factors)
    for levels in itertools.product(*factors.values()):
        cell = dict(zip(factors, levels, strict=True))
        levels_written = {name: level.written for name, level in cell.items()}
        explicit = {**settings, **{level.name: level for level in levels}}
        own = tunnel_kind(explicit["tunnel"].value).options if "tunnel" in explicit else ()
        unfit = options.difference(own)
        explicit = {name: each for name, each in explicit.items() if name not in unfit}
        levels_written = {
            name: level for name, level in levels_written.items() if cell[name].name not in unfit
        }
        if "clock" in explicit and explicit["clock"].value == "real":
            levels_written = {
                name: level for name, level in levels_written.items() if name not in CHARGES
            }
        run = resolve(experiment, matrix, explicit, levels_written, machine)
        alike = found[str(levels_written)]
        if run not in alike:
            alike.append(run)
            yield run


def options_of_some(settings: Settings, factors: Factors) -> set[str]:
    """The tunnels' options that are requested and that some of the requested tunnels have."""
    every = [*settings.values(), *itertools.chain.from_iterable(factors.values())]
    having = {
        name for each in every if each.name == "tunnel" for name in tunnel_kind(each.value).options
    }
    return {
        each.name
        for each in every
        if each.name in TUNNEL_OPTIONS and each.name in having and requires_option(each)
    }


def single_run(
    *, profile: str, cc: str, machine: str, clock: str, overrides: Mapping[str, str] = {}
) -> RunSpec:
    """One run outside any experiment, for the shell and the benchmark. Raises BadInput."""
    explicit = {
        name: read_override(name, text, origin=f"--{name}")[0]
        for name, text in {"profile": profile, "cc": cc, "clock": clock, **overrides}.items()
    }
    return replace(resolve("single", "single", explicit, {}, machine), repetition=1, seed=1)
