"""From an experiment to its runs: every combination of its factors' levels, every word a number.

Pure but for the profiles and traces that it reads.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gostlab.ask.costs import resolve_costs
from gostlab.ask.document import Node, meant
from gostlab.ask.ends import resolve_ends, settle_ends
from gostlab.ask.experiment import NO_QUICK, Experiment, Matrix, Quick, with_presets
from gostlab.ask.flows import IPERF3_KINDS, TCP_KINDS, Flow, delays_ms, resolve_flows
from gostlab.ask.hosts import hosts_of, resolve_cpus, resolve_tcp_memory
from gostlab.ask.kernel import fit_settings, kernel_fields
from gostlab.ask.limits import MTU_BYTES
from gostlab.ask.links import Path, nodes_named, whole_path
from gostlab.ask.path import (
    check_rates,
    load_profile_of,
    resolve_changes,
    resolve_links,
    resolve_path,
    resolve_sites,
)
from gostlab.ask.profile import Profile, lossless
from gostlab.ask.run_description import RunDescription
from gostlab.ask.settings import (
    DEFAULTS,
    Factors,
    Setting,
    Settings,
    check_said_once,
    default_setting,
    field_of,
    known_names,
    merged,
    parse_override,
    read_levels,
    read_override,
    setting_called,
)
from gostlab.ask.sizing import (
    FLOW_MEMORY_MIB,
    MANY_FLOWS,
    memory_needed_mib,
    offloads_do_no_harm,
    resolve_buffers,
    tcp_memory_needed_mib,
    tcp_memory_shared_mib,
)
from gostlab.declared.controls import own_controls, parse_control
from gostlab.declared.iperf3 import OWN, SYSTEM
from gostlab.declared.qdiscs import BOTTLENECK, names_for, qdisc_kind
from gostlab.declared.topologies import topology_of
from gostlab.declared.tunnels import tunnel_kind, tunnel_kinds

MAX_RUNS = 20_000

# What only the virtual clock charges.
CHARGES = ("machine", "syscall_cost", "byte_cost", "host_cpus", "packet_cost", "clock_reads")


def expand(
    experiment: Experiment,
    *,
    quick: bool = False,
    overrides: Mapping[str, str] = {},
    machine: str = "sandbox",
    clock: str | None = None,
    repetitions_of: Mapping[str, int] = {},
    matrices: Collection[str] = (),
) -> list[RunDescription]:
    """Every run of an experiment, or of some of its matrices, in the order to run them.

    Repetitions are the outer loop, so that drift hits every cell alike; within one the order is
    shuffled by the experiment's seed, the real clock's runs last, as they need the machine for
    themselves. All cells of a repetition share its seed, so that congestion controls are compared
    under the same losses. `overrides` are --set's words, `clock` is --clock's: both hold for every
    matrix. `repetitions_of` are cells, by name, that have more repetitions than their matrix says.
    Raises BadInput.
    """
    given = parse_overrides(experiment, overrides, clock)
    refuse_overruled(experiment, given, quick=quick)
    blocks: dict[int, list[RunDescription]] = {}
    for matrix in experiment.matrices:
        if not matrix.is_in(quick=quick) or (matrices and matrix.name not in matrices):
            continue
        short = matrix.quick if quick else NO_QUICK
        settings, factors = layered(experiment, matrix, short, given)
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
    given = {name: parse_override(name, text) for name, text in overrides.items()}
    if clock is not None:
        given["clock"] = parse_override("clock", clock, origin="--clock")
    check_names(given, experiment)
    return given


def levels_in_order(
    experiment: Experiment, *, quick: bool = False, overrides: Mapping[str, str] = {}
) -> dict[str, dict[str, list[str]]]:
    """Every matrix's factors and their levels, in the order in which people wrote them. Raises
    BadInput.
    """
    given = parse_overrides(experiment, overrides, None)
    found = {}
    for matrix in experiment.matrices:
        _, factors = layered(experiment, matrix, matrix.quick if quick else NO_QUICK, given)
        found[matrix.name] = {
            name: [str(level.written) for level in levels] for name, levels in factors.items()
        }
    return found


def check_names(given: Mapping[str, Node], experiment: Experiment) -> None:
    """What --set names must be a setting, or a factor of some matrix. Raises BadInput."""
    factors = {name for matrix in experiment.matrices for name in matrix.factors}
    for name, node in given.items():
        if name not in factors and field_of(name) is None:
            raise node.bad(f"no such factor or setting ({meant(name, [*factors, *known_names()])})")


# What the run says for those of its flows alone that do not say it themselves.
OF_FLOWS = ("buffers", "cc", "streams")


def refuse_overruled(experiment: Experiment, given: Mapping[str, Node], *, quick: bool) -> None:
    """What --set says must reach a matrix, where a factor's own name is the stronger one, and what
    it says of the flows one of them: all may have their own. Raises BadInput.
    """
    matrices = [matrix for matrix in experiment.matrices if matrix.is_in(quick=quick)]
    for name, written in given.items():
        here = {by_its_name_here(name, factors_of(each, quick=quick)) for each in matrices}
        if here and name not in here and here <= given.keys():
            raise written.bad(f"said already as {' and '.join(sorted(here))} (write one of them)")
    layers = [
        layered(experiment, each, each.quick if quick else NO_QUICK, given) for each in matrices
    ]
    for name in (name for name in OF_FLOWS if name in given):
        owners = [owners_of(name, settings, factors) for settings, factors in layers]
        if owners and all(owners):
            fields = dict.fromkeys(field for found in owners for field in found)
            raise given[name].bad(f"every flow has its own here (set {' or '.join(fields)})")


def factors_of(matrix: Matrix, *, quick: bool) -> Factors:
    """A matrix's factors in the form that is run."""
    return {**matrix.factors, **((matrix.quick.factors or {}) if quick else {})}


def owners_of(name: str, settings: Settings, factors: Factors) -> list[str]:
    """The fields of flows that stand in place of a setting, if that leaves no flow to it; else [].
    A tunnel's own connections have the run's congestion control where no flow's is theirs.
    """
    varied = {levels[0].name: levels for levels in factors.values()}
    tunnels = [*varied.get("tunnel", ()), *([settings["tunnel"]] if "tunnel" in settings else [])]
    ends_connections = any(not tunnel_kind(level.value).is_direct for level in tunnels)
    if "flows" not in settings or name in varied or (name == "cc" and ends_connections):
        return []
    found = []
    for flow, fields in settings["flows"].value.items():
        if not takes(fields.get("kind", "tcp"), name):
            continue
        field = f"{flow}.{name}"
        if name not in fields and field not in settings and field not in varied:
            return []
        found.append(field)
    return found


def takes(kind: str, field: str) -> bool:
    """Whether a flow of a kind may have a field that is a run's setting as well."""
    return kind in TCP_KINDS if field in ("buffers", "cc") else kind not in ("short", "ping")


def layered(
    experiment: Experiment, matrix: Matrix, short: Quick, given: Mapping[str, Node]
) -> tuple[dict[str, Setting], dict[str, tuple[Setting, ...]]]:
    """A matrix's settings and factors, every later word in place of the earlier: the experiment's,
    the matrix's, its quick preset's, --set's. Raises BadInput.
    """
    factors = {**matrix.factors, **(short.factors or {})}
    settings: dict[str, Setting] = {}
    check_said_once(matrix.node, given)
    for called, written in given.items():
        name = by_its_name_here(called, factors)
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
    varied = {levels[0].name: levels[0] for levels in factors.values()}
    found = merged(
        experiment.settings, {**matrix.settings, **varied}, short.settings or {}, settings
    )
    return {name: each for name, each in found.items() if name not in varied}, factors


def by_its_name_here(name: str, factors: Factors) -> str:
    """What a matrix calls a factor: by its own name, by the setting's that it sets, or by another
    of that one's; else the setting's one name.
    """
    if name in factors:
        return name
    setting = setting_called(name)
    return next((each for each, levels in factors.items() if levels[0].name == setting), setting)


def shuffled(runs: list[RunDescription], seed: int, repetition: int) -> list[RunDescription]:
    """The runs of one repetition in random order, the real clock's after all others."""
    order = random.Random(f"{seed}/{repetition}")
    return sorted(order.sample(runs, len(runs)), key=lambda run: run.clock == "real")


def expand_cells(
    experiment: str, matrix: str, settings: Settings, factors: Factors, machine: str
) -> Iterable[RunDescription]:
    """Every combination of levels, once: on the real clock, levels of what the virtual clock
    charges are no difference.
    """
    seen = []
    for levels in itertools.product(*factors.values()):
        cell = dict(zip(factors, levels, strict=True))
        levels_written = {name: level.written for name, level in cell.items()}
        explicit = {**settings, **{level.name: level for level in levels}}
        if "clock" in explicit and explicit["clock"].value == "real":
            levels_written = {
                name: level for name, level in levels_written.items() if name not in CHARGES
            }
        run = resolve(experiment, matrix, explicit, levels_written, machine)
        if run not in seen:
            seen.append(run)
            yield run


def single_run(
    *, profile: str, cc: str, machine: str, clock: str, overrides: Mapping[str, str] = {}
) -> RunDescription:
    """One run outside any experiment, for the shell and the benchmark. Raises BadInput."""
    explicit = {
        name: read_override(name, text, origin=f"--{name}")[0]
        for name, text in {"profile": profile, "cc": cc, "clock": clock, **overrides}.items()
    }
    return replace(resolve("single", "single", explicit, {}, machine), repetition=1, seed=1)


def resolve(
    experiment: str,
    matrix: str,
    explicit: Settings,
    levels_written: Mapping[str, Any],
    machine: str,
) -> RunDescription:
    """Settings -> a run with numbers, still without repetition and seed. Raises BadInput."""
    wished = {name: explicit.get(name) or default_setting(name) for name in DEFAULTS}
    settings, kernel = fit_settings(wished, explicit, machine)
    explicit = {name: settings.get(name, each) for name, each in explicit.items()}
    values = {name: setting.value for name, setting in settings.items()}
    profile = load_profile_of(settings["profile"])
    path = resolve_path(profile, explicit)
    path, links = resolve_links(settings, explicit, profile, path)
    sites = resolve_sites(settings, explicit, path)
    site = None
    if sites:
        receiver = topology_of(values["topology"]).receiver
        site = receiver.format(1 + list(sites).index(profile.name))
    ends = resolve_ends(settings["cc"], explicit)
    flows = resolve_flows(settings, explicit, path, site, ends, links)
    links = links_there(links, settings, flows, path, explicit)
    check_topology(settings, path, flows)
    ends = settle_ends(ends, settings, flows)
    check_mtu(settings)
    paths = [path, *(sites or {}).values(), *links.values()]
    check_bottleneck(settings, paths)
    changes = resolve_changes(explicit, values["direction"])
    check_changed_links(changes, settings, flows, explicit)
    if values["clock"] == "virtual":
        for each in paths:
            check_rates(each, (explicit.get("rate") or settings["profile"]).node)
    refuse_unpaced(settings["iperf3"], flows)
    return RunDescription(
        experiment=experiment,
        matrix=matrix,
        factors=levels_written,
        repetition=0,
        seed=0,
        machine=machine,
        **guest_clock(values),
        **own_machines(settings, explicit, profile, flows, machine),
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
        buffers=resolve_buffers(values["buffers"], path),
        **receiving(values, explicit, resolve_offloads(values, path, flows, changes, links)),
        sample_ms=values["sample"],
        mtu=values["mtu"],
        tunnel_options=tunnel_options(explicit, values["tunnel"]),
        **guest_memory(values, whole_path(path, links, values["hops"]), flows),
        acks=values["acks"] == "on",
        bottleneck=values["bottleneck"],
        queue=values["queue"],
        ecn=values["ecn"],
        pacing=values["pacing"],
        loss_detection=values["loss_detection"],
        hops=values["hops"],
        links=links,
        **kernel_fields(kernel),
        flows=flows,
        iperf3=values["iperf3"] if any(flow.kind in IPERF3_KINDS for flow in flows) else SYSTEM,
        **own_costs(values, explicit, flows),
        changes=changes,
        cc_by_end=ends.by_end,
        own_cc=own_cc([ends.of_the_rest, *ends.by_end.values(), *(flow.cc for flow in flows)]),
    )


# What is asked of a tunnel besides, and what asks for nothing.
TUNNEL_OPTIONS = {"sndbuf": None, "rcvbuf": None, "nagle": "off", "shared": "off"}


def tunnel_options(explicit: Settings, tunnel: str) -> dict[str, Any]:
    """What is asked of the run's tunnel besides. Raises BadInput for what it does not have."""
    found = {}
    for name, nothing in TUNNEL_OPTIONS.items():
        if name not in explicit or explicit[name].value == nothing:
            continue
        if name not in tunnel_kind(tunnel).options:
            having = {kind.name for kind in tunnel_kinds().values() if name in kind.options}
            raise explicit[name].node.bad(
                f"tunnel {tunnel} has no {name} ({', '.join(sorted(having))} have)"
            )
        found[name] = explicit[name].value
    return found


def check_mtu(settings: Settings) -> None:
    """What the links' MTU does not go with. Raises BadInput."""
    mtu, bottleneck = settings["mtu"], settings["bottleneck"]
    if mtu.value > MTU_BYTES and bottleneck.value != "netem":
        raise mtu.node.bad_value(
            f"under bottleneck: {bottleneck.value} packets have at most {MTU_BYTES} bytes"
        )


def own_cc(ccs: Iterable[str | None]) -> dict[str, str]:
    """The user's own among some congestion controls, and the first digits of their files' SHA-256:
    what has been changed since is another question.
    """
    from gostlab.setup.parts import own_cc_folder  # as in values.py

    own = own_controls(own_cc_folder())
    names = sorted({parse_control(cc).name for cc in ccs if cc})
    return {name: own[name].sha256[:12] for name in names if name in own}


def guest_clock(values: Mapping[str, Any]) -> dict[str, Any]:
    """The clock's fields of a run. What work costs in guest's time is a matter of the virtual clock
    alone: the real one measures it.
    """
    is_virtual = values["clock"] == "virtual"
    return {
        "clock": values["clock"],
        "syscall_cost_us": values["syscall_cost"] if is_virtual else 0.0,
        "byte_cost_ns": values["byte_cost"] if is_virtual else 0.0,
        "clock_reads": values["clock_reads"] if is_virtual else "charged",
    }


def own_costs(
    values: Mapping[str, Any], explicit: Settings, flows: Sequence[Flow]
) -> dict[str, Any]:
    """The fields of programs' own costs. Who writes what every call costs, and no machine, means it
    for every program.
    """
    for_all = any(name in explicit for name in ("syscall_cost", "byte_cost"))
    if values["clock"] != "virtual" or (for_all and "machine" not in explicit):
        return {}
    kinds = {flow.kind for flow in flows}
    streams = sum(flow.streams for flow in flows)
    costs = resolve_costs(values["machine"], kinds, values["tunnel"], values["iperf3"], streams)
    return {"costs_of": values["machine"], "program_costs": costs} if costs else {}


def refuse_unpaced(iperf3: Setting, flows: Sequence[Flow]) -> None:
    """An iperf3 that does not hold a rate is none for UDP. Raises BadInput."""
    paced = [name for name, kind in OWN.items() if kind.paces_udp]
    if iperf3.value in (*paced, SYSTEM) or all(flow.kind != "udp" for flow in flows):
        return
    raise iperf3.node.bad_value(
        f"it does not keep to a UDP flow's rate here: write iperf3: {' or '.join(paced)}"
    )


def own_machines(
    settings: Settings, explicit: Settings, profile: Profile, flows: Sequence[Flow], machine: str
) -> dict[str, Any]:
    """What each host has of its own. CPUs are a matter of the virtual clock alone, and pools of TCP
    memory one of the sandbox's kernel. Raises BadInput.
    """
    hosts = hosts_of(settings, flows)
    is_virtual = settings["clock"].value == "virtual"
    return {
        **(resolve_cpus(settings, explicit, profile.machines, hosts) if is_virtual else {}),
        **resolve_tcp_memory(
            settings, explicit, profile.machines, hosts, can_have_own=machine == "sandbox"
        ),
    }


def guest_memory(
    values: Mapping[str, Any], path: Mapping[str, Any], flows: Sequence[Flow]
) -> dict[str, Any]:
    """The memory's fields of a run: as asked, or as much as its flows' buffers may fill."""
    needed_mib = sum(
        tcp_memory_needed_mib(flow.streams, values["tunnel"], flow.buffers, path, values["hops"])
        for flow in flows
    )
    programs_mib = 0
    if len(flows) > MANY_FLOWS:
        needed_mib = min(needed_mib, tcp_memory_shared_mib(len(flows), path))
        programs_mib = FLOW_MEMORY_MIB * len(flows)
    tcp_memory_mib = values["tcp_memory"] or needed_mib
    held_mib = min(tcp_memory_mib, needed_mib) // 2 + programs_mib
    needed_by_guest_mib = memory_needed_mib(held_mib, path)
    return {
        "memory_mib": values["memory"] or needed_by_guest_mib,
        "tcp_memory_mib": tcp_memory_mib,
    }


def resolve_offloads(
    values: Mapping[str, Any],
    path: Mapping[str, Any],
    flows: Sequence[Flow],
    changes: Sequence[Mapping[str, Any]],
    links: Mapping[str, Path] = {},
) -> bool:
    """Whether packets may travel in lumps: as asked, or where that does no harm to the one flow on
    a path that stays what it is.
    """
    if values["offloads"] != "auto":
        return bool(values["offloads"] == "on")
    if len(flows) > 1 or changes or not flows[0].is_tcp:
        return False
    return all(
        offloads_do_no_harm(each, values["direction"], flows[0].streams, flows[0].buffers)
        for each in (path, *links.values())
    )


def receiving(values: Mapping[str, Any], explicit: Settings, offloads: bool) -> dict[str, Any]:
    """In what units end hosts get packets: the fields offloads, receive and rx_usecs. Cards merge
    single packets; what travels in lumps of 64 kB nobody has to merge. Raises BadInput.
    """
    if values["receive"] == "packet":
        if "rx_usecs" in explicit and "receive" not in explicit:
            raise explicit["rx_usecs"].node.bad_value("it needs receive: moderated")
        return {"offloads": offloads}
    if offloads and "receive" not in explicit:
        return {"offloads": True}
    if values["offloads"] == "on":
        raise explicit["receive"].node.bad_value(
            "with offloads: on packets travel in lumps, and there is nothing for a card to merge"
        )
    return {"offloads": False, "receive": "moderated", "rx_usecs": values["rx_usecs"]}


def links_there(
    links: Mapping[str, Path],
    settings: Settings,
    flows: Sequence[Flow],
    path: Path,
    explicit: Settings,
) -> dict[str, Path]:
    """The links that have another path than the run's. Raises BadInput for one that is not there:
    only here it is known how many nodes there are.
    """
    names = names_of_links(settings, flows)
    for name in links:
        if name not in names:
            raise explicit["links"].node.bad(f"no link is called {name} ({meant(name, names)})")
    changing = not {"changes", "trace"}.isdisjoint(explicit)
    return {name: each for name, each in links.items() if changing or each != path}


def names_of_links(settings: Settings, flows: Sequence[Flow]) -> tuple[str, ...]:
    """What the run's links are called; () where there is but one path."""
    topology, hops = topology_of(settings["topology"].value), settings["hops"].value
    hosts = [host for flow in flows for host in (flow.sender, flow.receiver)]
    names = topology.link_names(hops, nodes_named(hosts) if topology.shape else 0)
    return names if topology.shape or hops > 1 else ()


def check_changed_links(
    changes: Sequence[Mapping[str, Any]],
    settings: Settings,
    flows: Sequence[Flow],
    explicit: Settings,
) -> None:
    """The links that changes name must be there. Raises BadInput."""
    names = names_of_links(settings, flows)
    for link in (change["link"] for change in changes if "link" in change):
        node = explicit["changes"].node
        if not names:
            raise node.bad(f"link: {link}: there is one path, and no links with names (leave it)")
        if link not in names:
            raise node.bad(f"link: {link}: no link is called that ({meant(link, names)})")


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
