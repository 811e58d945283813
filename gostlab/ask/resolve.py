"""From an experiment to its runs: every combination of its factors' levels, every word a number.

Pure but for the profiles and traces that it reads.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from gostlab.ask.document import BadInput, Node, is_path, meant
from gostlab.ask.ends import resolve_ends, settle_ends
from gostlab.ask.experiment import NO_QUICK, Experiment, Matrix, Quick, with_presets
from gostlab.ask.flows import Flow, delays_ms, resolve_flows
from gostlab.ask.limits import MTU_BYTES
from gostlab.ask.profile import (
    DIRECTIONS,
    Direction,
    LossModel,
    Profile,
    find_profile,
    load_profile,
    lossless,
    path_json,
)
from gostlab.ask.profile import FOLDER as profile_folder
from gostlab.ask.run_description import RunDescription
from gostlab.ask.settings import (
    DEFAULTS,
    Factors,
    Setting,
    Settings,
    default_setting,
    field_of,
    known_names,
    merged,
    parse_override,
    read_levels,
    read_override,
)
from gostlab.ask.sizing import (
    memory_needed_mib,
    offloads_do_no_harm,
    resolve_buffers,
    tcp_memory_needed_mib,
)
from gostlab.ask.trace import changes_of
from gostlab.declared.qdiscs import BOTTLENECK, names_for, qdisc_kind
from gostlab.declared.topologies import topologies, topology_of

MAX_RUNS = 20_000
# The words for a path, and what they are of a profile's direction.
PATH_WORDS = {
    "rate": "rate_bps",
    "delay": "delay_s",
    "buffer": "buffer",
    "loss": "loss",
    "jitter": "jitter_s",
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
    asked = parse_overrides(experiment, overrides, clock)
    blocks: dict[int, list[RunDescription]] = {}
    for matrix in experiment.matrices:
        if not matrix.is_in(quick=quick):
            continue
        short = matrix.quick if quick else NO_QUICK
        settings, factors = layered(experiment, matrix, short, asked)
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


def parse_overrides(
    experiment: Experiment, overrides: Mapping[str, str], clock: str | None
) -> dict[str, Node]:
    """--set's words and --clock's, of factors and settings that there are. Raises BadInput."""
    asked = {name: parse_override(name, text) for name, text in overrides.items()}
    if clock is not None:
        asked["clock"] = parse_override("clock", clock, origin="--clock")
    check_names(asked, experiment)
    return asked


def levels_in_order(
    experiment: Experiment, *, quick: bool = False, overrides: Mapping[str, str] = {}
) -> dict[str, dict[str, list[str]]]:
    """Every matrix's factors and their levels, in the order in which people wrote them. Raises
    BadInput.
    """
    asked = parse_overrides(experiment, overrides, None)
    found = {}
    for matrix in experiment.matrices:
        _, factors = layered(experiment, matrix, matrix.quick if quick else NO_QUICK, asked)
        found[matrix.name] = {
            name: [str(level.written) for level in levels] for name, levels in factors.items()
        }
    return found


def check_names(asked: Mapping[str, Node], experiment: Experiment) -> None:
    """What --set names must be a setting, or a factor of some matrix. Raises BadInput."""
    factors = {name for matrix in experiment.matrices for name in matrix.factors}
    for name, node in asked.items():
        if name not in factors and field_of(name) is None:
            raise node.bad(f"no such factor or setting ({meant(name, [*factors, *known_names()])})")


def layered(
    experiment: Experiment, matrix: Matrix, short: Quick, asked: Mapping[str, Node]
) -> tuple[dict[str, Setting], dict[str, tuple[Setting, ...]]]:
    """A matrix's settings and factors, every later word in place of the earlier: the experiment's,
    the matrix's, its quick preset's, --set's. Raises BadInput.
    """
    factors = {**matrix.factors, **(short.factors or {})}
    settings: dict[str, Setting] = {}
    for name, written in asked.items():
        if name not in factors and field_of(name) is None:
            continue  # another matrix's factor
        node = with_presets(written, experiment.presets, name)
        levels = read_levels(factors[name][0].name if name in factors else name, node)
        if name in factors or len(levels) > 1:
            factors[name] = levels
        else:
            settings[name] = levels[0]
    varied = {levels[0].name: levels[0] for levels in factors.values()}
    found = merged(
        experiment.settings, {**matrix.settings, **varied}, short.settings or {}, settings
    )
    return {name: each for name, each in found.items() if name not in varied}, factors


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
        asked = {**settings, **{level.name: level for level in levels}}
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
    path = resolve_path(profile, asked)
    sites = resolve_sites(settings, asked, path)
    site = (
        topology_of(values["topology"]).receiver.format(1 + list(sites).index(profile.name))
        if sites
        else None
    )
    ends = resolve_ends(settings["cc"], asked)
    flows = resolve_flows(settings, asked, path, site, ends)
    check_topology(settings, path, flows)
    ends = settle_ends(ends, settings, flows)
    check_bottleneck(settings, [path, *(sites or {}).values()])
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
        cc=ends.of_the_rest,
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
        bottleneck=values["bottleneck"],
        queue=values["queue"],
        flows=flows,
        changes=changes,
        cc_by_end=ends.by_end,
    )


def resolve_sites(
    settings: Settings, asked: Settings, path: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The sites of a topology that has a path to each, with their own profiles' paths; the one
    under test with the run's. Raises BadInput.
    """
    topology, tested = topology_of(settings["topology"].value), settings["profile"]
    if not topology.path_per_site:
        if "sites" in asked:
            fitting = " or ".join(one.name for one in topologies().values() if one.path_per_site)
            raise asked["sites"].node.bad(
                f"sites belong to topology {fitting}, not to {topology.name}"
            )
        return None
    if "sites" not in asked:
        raise settings["topology"].node.bad(
            f"a {topology.name} needs sites (a list of profiles, one of them the run's own)"
        )
    if tested.value not in asked["sites"].value:
        raise tested.node.bad_value(f"not one of the {topology.name}'s sites")
    found = {}
    node = asked["sites"].node
    for name in asked["sites"].value:
        profile = load_profile_of(replace(tested, value=name, node=node))
        found[name] = path if name == tested.value else path_json(profile.forward, profile.reverse)
    return found


def check_topology(settings: Settings, path: Mapping[str, Any], flows: list[Flow]) -> None:
    """What a topology cannot do with a path. Raises BadInput."""
    topology = topology_of(settings["topology"].value)
    if not topology.shapes_return:
        back = path["reverse"]
        if back["delay_ms"] or back["jitter_ms"] or not lossless(back["loss"]):
            raise settings["profile"].node.bad(
                f"topology {topology.name} shapes what the client sends only: the profile's reverse"
                " has a delay, jitter or loss"
            )
    if topology.own_rtts:
        try:
            delays_ms(flows, path)
        except ValueError as error:
            raise settings["topology"].node.bad(str(error)) from None


def check_bottleneck(settings: Settings, paths: list[Mapping[str, Any]]) -> None:
    """What a bottleneck cannot do with a queue or a path. Raises BadInput."""
    bottleneck, queue = settings["bottleneck"], settings["queue"]
    fitting = [name for name in names_for(BOTTLENECK) if qdisc_kind(name).takes_queue]
    if bottleneck.value not in fitting:
        if queue.value != DEFAULTS["queue"]:
            raise queue.node.bad_value(
                f"under {bottleneck.value}'s rate a queue never has a packet to decide on: it needs"
                f" bottleneck: {' or '.join(fitting)}"
            )
        return
    for name, direction in ((name, way) for path in paths for name, way in path.items()):
        if direction["rate_bps"] is None:
            raise bottleneck.node.bad_value(f"it needs a rate, and the {name} direction has none")


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
    """The file that `trace` names: a path from here or from the experiment's folder, or one beside
    the profiles. Raises BadInput.
    """
    path = first_file(Path(setting.value), beside_its_file(setting), profile_folder / setting.value)
    if path is None:
        raise setting.node.bad_value("no such file, here or in netem_profiles/")
    return path


def beside_its_file(setting: Setting) -> Path:
    """What a setting names, from the folder of the file that says so."""
    return Path(setting.node.origin).parent / setting.value


def first_file(*paths: Path) -> Path | None:
    """The first of some paths that is a file."""
    for path in paths:
        with suppress(OSError, ValueError):  # a name that no file can have
            if path.is_file():
                return path
    return None


def load_profile_of(setting: Setting) -> Profile:
    """The profile that a setting names, or the file from here or from the experiment's folder.
    Raises BadInput, where the name stands if there is no such profile.
    """
    own = first_file(Path(setting.value), beside_its_file(setting))
    try:
        path = own if own and is_path(setting.value) else find_profile(setting.value)
    except BadInput as error:
        raise setting.node.bad(str(error)) from None
    return load_profile(str(path))


def resolve_path(profile: Profile, asked: Settings) -> dict[str, Any]:
    """The profile's path, with a run's own rate, delay, loss, jitter and buffer in place of the
    profile's, in both directions or in one. Raises BadInput.
    """
    for name in ("delay", *(f"{way}.delay" for way in DIRECTIONS)):
        if "rtt" in asked and name in asked:
            raise asked["rtt"].node.bad(f"both rtt and {name}")
    # There all that happens to packets happens on the one way out.
    one_way = "topology" in asked and not topology_of(asked["topology"].value).shapes_return
    return path_json(
        *(
            resolve_direction(getattr(profile, way), way, asked, shared_by=1 if one_way else 2)
            for way in DIRECTIONS
        )
    )


def resolve_direction(direction: Direction, way: str, asked: Settings, shared_by: int) -> Direction:
    """A direction with what was asked in place of the profile's own. `shared_by`: how many
    directions have a delay, jitter and loss; with one it is the forward one.
    """
    shaped = shared_by == 2 or way == "forward"

    def own(name: str) -> Setting | None:
        """What was asked of this direction, or of both."""
        of_both = asked.get(name) if shaped or name in ("rate", "buffer") else None
        return asked.get(f"{way}.{name}") or of_both

    given = {field: setting for name, field in PATH_WORDS.items() if (setting := own(name))}
    wanted = {field: setting.value for field, setting in given.items()}
    if "rtt" in asked:
        wanted["delay_s"] = asked["rtt"].value / shared_by if shaped else Fraction(0)
    direction = replace(direction, **wanted)
    ordered = own("ordered")
    if ordered is not None and direction.jitter_s:
        direction = replace(direction, ordered=ordered.value == "on")
    # A run's own delay may be shorter than the profile's jitter.
    return replace(direction, jitter_s=min(direction.jitter_s, direction.delay_s))


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
