# SPDX-License-Identifier: MIT
"""Compile settings to a run: every number is decided once, in one order.

The kernel decides which settings are supported, and the topology who sends to whom; then follow the
congestion controls of the ends, the paths of the links, the flows with all of their numbers, and
the machine and memory that the run needs.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gostlab.errors import SandboxOnly
from gostlab.registry.congestion_controls import needs_accurate_ecn, own_controls, parse_control
from gostlab.registry.folders import QDISCS, TRAFFIC_KINDS, TUNNELS
from gostlab.registry.installed_plugins import TOPOLOGIES, UsedPlugin
from gostlab.registry.iperf3_versions import OWN, SYSTEM
from gostlab.registry.kernels import FEATURES, Kernel
from gostlab.registry.plugin_loader import plugins_used
from gostlab.registry.qdiscs import bottleneck_kinds, marking_kinds, qdisc_kinds
from gostlab.registry.topologies import topology_classes
from gostlab.registry.tunnels import GOST, IP_TCP_BYTES, tunnel_kind, tunnel_kinds
from gostlab.spec.cc_placement import resolve_ends
from gostlab.spec.compile_path import load_profile_of, resolve_changes, resolve_links, resolve_sites
from gostlab.spec.cpu_cost_tables import resolve_costs
from gostlab.spec.flow import FlowSpec, delays_before_hosts_ms
from gostlab.spec.host_resources import HostCpus, resolve_cpus, resolve_tcp_memory
from gostlab.spec.kernel_support import bottlenecks_with_queue, fit_settings
from gostlab.spec.links_crossed import memory_path
from gostlab.spec.path_spec import (
    DIRECTIONS,
    ChangeSpec,
    DirectionSpec,
    PathSpec,
    direction_of_data,
)
from gostlab.spec.profile import Machines
from gostlab.spec.run_request import RunRequest
from gostlab.spec.run_spec import Levels, OptionValue, RunSpec
from gostlab.spec.settings import CAPTURES, DEFAULTS, Setting, Settings, default_setting
from gostlab.spec.units import show_time
from gostlab.spec.value_types import BOTH
from gostlab.spec.workload import hosts_of_run, link_names, resolve_flows, resolve_hosts
from gostlab.spec.yaml_source import Node
from gostlab.tcpmodel import socket_buffers
from gostlab.tcpmodel.run_limits import MTU_BYTES

# The two ends of iperf3 wait 10 s for each other's messages (net.c, nread_read_timeout): this is
# the longest round trip over which the test of one flow begins, and of several flows, which wait
# for each other.
IPERF3_RTT_S, IPERF3_RTT_OF_SEVERAL_S = 9.0, 8.0
ETHERNET_BYTES = 14
# The settings that are options of a tunnel; their defaults set nothing.
TUNNEL_OPTIONS = (
    "sndbuf rcvbuf tun_queue nagle shared kcp_mode kcp_window kcp_data kcp_parity kcp_mtu".split()
)


def compile_run(
    experiment: str, matrix: str, written: Settings, levels_written: Levels, machine: str
) -> RunSpec:
    """Compile settings to a run, still without repetition and seed. Raises BadInput."""
    request, kernel = fit_settings(written, machine)
    profile = load_profile_of(request.settings["profile"])
    # If only a rate and a delay are set, the default profile fills in the rest of the path; the
    # profile's machines then do not apply.
    machines = profile.machines if "profile" in request.written else Machines()
    requested_flows = resolve_hosts(request)
    hosts = hosts_of_run(request, requested_flows)
    ends = resolve_ends(request, requested_flows, hosts)
    names = link_names(request, requested_flows)
    path, links = resolve_links(request, profile, names)
    sites = resolve_sites(request, path)
    flows = resolve_flows(
        request, requested_flows, path, links, lambda flow: ends.sent_with(flow, request)
    )
    until_s = max(flow.end_s for flow in flows)
    changes = resolve_changes(request, profile, names, until_s, path, links)
    check_paths(request, [path, *(sites or {}).values(), *links.values()])
    check_topology(request, path, flows)
    check_jitter(request, path, links, flows, changes)
    check_impairments(request, path, links, changes, until_s)
    check_programs(request, flows)
    ccs = [ends.of_the_rest, *ends.by_end.values(), *(flow.cc for flow in flows if flow.cc)]
    check_paying(request, flows)
    check_ecn(request, kernel, flows, ccs)
    check_capture(request, machine, names, flows)
    measure_from_s, measure_to_s = measured_part(request, until_s)
    costs = resolve_program_costs(request, flows)
    # CPUs exist on the virtual clock only, and, unless requested, TCP memory pools exist in the
    # sandbox's kernel only.
    cpus = resolve_cpus(request, machines, hosts) if request.is_virtual else HostCpus()
    host_memory = resolve_tcp_memory(request, machines, hosts, can_have_own=machine == "sandbox")
    offloads = resolve_offloads(request, kernel, path, flows, changes, links)
    reception = resolve_reception(request, offloads)
    tcp_memory_mib, memory_mib = guest_memory(
        request, memory_path(path, links, request["hops"]), flows
    )
    return RunSpec(
        experiment=experiment,
        matrix=matrix,
        factors=levels_written,
        repetition=0,
        seed=0,
        machine=machine,
        clock=request["clock"],
        topology=request["topology"],
        placement=request["placement"],
        hops=request["hops"],
        profile=profile.name,
        path=path,
        sites=sites,
        links=links,
        cc=ends.of_the_rest,
        cc_by_end=ends.by_end,
        own_cc=user_cc_digests(ccs),
        tunnel=request["tunnel"],
        tunnel_options=tunnel_options(request),
        flows=flows,
        streams=request["streams"],
        direction=first_data_direction(request),
        duration_s=request["duration"],
        changes=changes,
        bottleneck=request["bottleneck"],
        queue=request["queue"],
        target_ms=queue_target_ms(request),
        ecn=request["ecn"],
        pacing=request["pacing"],
        loss_detection=request["loss_detection"],
        mtu=request["mtu"],
        buffers=socket_buffers.resolve_buffers(request["buffers"], path.content_bytes),
        acks=request["acks"] == "on",
        capture=request["capture"],
        snaplen_bytes=request["snaplen"],
        allow=list(request.written["allow"].value) if "allow" in request.written else [],
        gost=request["gost"] if tunnel_kind(request["tunnel"]).program == GOST else "auto",
        iperf3=request["iperf3"] if any(flow.traffic.by_iperf3 for flow in flows) else SYSTEM,
        kernel=kernel.name,
        kernel_sha256=kernel.sha256[:12],
        # Costs apply to the virtual clock; the real clock measures them.
        syscall_cost_us=request["syscall_cost"] if request.is_virtual else 0.0,
        byte_cost_ns=request["byte_cost"] if request.is_virtual else 0.0,
        clock_reads=request["clock_reads"] if request.is_virtual else "charged",
        costs_of=request["machine"] if costs else "uniform",
        program_costs=costs,
        read_on=request["read_on"],
        host_cpus=cpus.count,
        cpus_by_host=cpus.by_host,
        packet_cost_ns=cpus.packet_cost_ns,
        cpu_share_permille=cpus.share_permille,
        cpu_burst_us=cpus.burst_us,
        host_tcp_memory_mib=host_memory.tcp_mib,
        tcp_memory_mib_by_host=host_memory.by_host,
        offloads=reception.offloads,
        receive=reception.receive,
        rx_usecs=reception.rx_usecs,
        memory_mib=memory_mib,
        tcp_memory_mib=tcp_memory_mib,
        plugins=external_plugins_of(request, flows),
        sample_ms=request["sample"],
        start_spread_s=request["start_spread"],
        measure_from_s=measure_from_s,
        measure_to_s=measure_to_s,
    )


def first_data_direction(request: RunRequest) -> str:
    """Return the direction of the run's data; of both, that of the first half of a flow."""
    return "upload" if request["direction"] == BOTH else str(request["direction"])


def requires_option(setting: Setting) -> bool:
    """Return whether a tunnel's option differs from its default, and the tunnel must support it."""
    is_default = setting.name in DEFAULTS and setting.value == default_setting(setting.name).value
    return not is_default and (setting.name, setting.value) != ("shared", "auto")


def tunnel_options(request: RunRequest) -> dict[str, OptionValue]:
    """Return the options of the run's tunnel. Raises BadInput for options that it does not have."""
    options: dict[str, OptionValue] = {}
    for name in (name for name in TUNNEL_OPTIONS if name in request.written):
        setting, is_supported = request.written[name], name in request.tunnel.options
        if requires_option(setting):
            if not is_supported:
                supporting = {
                    tunnel.name for tunnel in tunnel_kinds().values() if name in tunnel.options
                }
                raise request.node(name).bad(
                    f"tunnel {request['tunnel']} has no {name} ({', '.join(sorted(supporting))}"
                    " have)"
                )
            options[name] = setting.value
        elif (name, setting.value) == ("shared", "auto") and is_supported:
            options[name] = "on"
    return options


def user_cc_digests(ccs: Iterable[str]) -> dict[str, str]:
    """Return the user-supplied congestion controls with the first digits of their checksums.

    The digits of their files' SHA-256 make a run with a changed file another run.
    """
    user_controls = own_controls()
    names = sorted({parse_control(cc).name for cc in ccs})
    return {name: user_controls[name].sha256[:12] for name in names if name in user_controls}


def external_plugins_of(request: RunRequest, flows: Sequence[FlowSpec]) -> list[UsedPlugin]:
    """Return the plugins of other packages that a run uses. Raises BadInput."""
    queues = bottleneck_kinds(request["bottleneck"], request["queue"])
    return plugins_used(
        [
            (TOPOLOGIES, topology_classes()[request["topology"]].__module__),
            (TUNNELS.name, request.tunnel.module),
            *((QDISCS.name, declaration.module) for declaration in queues),
            *((TRAFFIC_KINDS.name, flow.traffic.module) for flow in flows),
        ]
    )


def queue_target_ms(request: RunRequest) -> float:
    """Return the target of the bottleneck's queue, or 0 for the kernel's. Raises BadInput."""
    if "target" not in request.written:
        return 0.0
    queue = bottleneck_kinds(request["bottleneck"], request["queue"])[-1]
    if not queue.has_target:
        supporting = ", ".join(qdisc.name for qdisc in qdisc_kinds().values() if qdisc.has_target)
        raise request.node("target").bad_value(f"queue {queue.name} has none ({supporting} have)")
    return float(request.written["target"].value)


def measured_part(request: RunRequest, length_s: float) -> tuple[float, float]:
    """Return begin and end of the part of the load over which results are computed.

    An end of 0 is the end of the load. Raises BadInput.
    """
    given = [name for name in ("measure", "skip") if name in request.written]
    if len(given) > 1:
        raise request.node("skip").bad("both measure and skip (write one of them)")
    from_s, to_s = request["measure"] if "skip" not in given else (request["skip"], math.inf)
    if from_s >= length_s or length_s < to_s < math.inf:
        raise request.node(given[0]).bad_value(f"the load lasts {show_time(length_s)}")
    return from_s, 0.0 if to_s == math.inf else to_s


def resolve_program_costs(
    request: RunRequest, flows: Sequence[FlowSpec]
) -> Mapping[str, Mapping[str, int]]:
    """Return programs' costs by table; empty if costs without a machine hold for all programs."""
    for_all = not {"syscall_cost", "byte_cost"}.isdisjoint(request.written)
    if not request.is_virtual or (for_all and "machine" not in request.written):
        return {}
    traffic_types = {flow.traffic_type for flow in flows}
    streams = sum(flow.streams for flow in flows)
    return resolve_costs(
        request["machine"],
        traffic_types,
        request["tunnel"],
        request["iperf3"],
        request["gost"],
        streams,
    )


def guest_memory(request: RunRequest, path: PathSpec, flows: Sequence[FlowSpec]) -> tuple[int, int]:
    """Return the memory of TCP and of the sandbox in MiB.

    It is as requested, or as much as the flows' buffers may fill.
    """
    legs = len(request.tunnel.legs_over(request["hops"]))
    needed_mib = sum(
        socket_buffers.tcp_memory_needed_mib(flow.streams, legs, flow.buffers, path.content_bytes)
        for flow in flows
    )
    programs_mib = 0
    if len(flows) > socket_buffers.MANY_FLOWS:
        needed_mib = min(
            needed_mib, socket_buffers.tcp_memory_shared_mib(len(flows), path.content_bytes)
        )
        programs_mib = socket_buffers.FLOW_MEMORY_MIB * len(flows)
    tcp_memory_mib = request["tcp_memory"] or needed_mib
    used_mib = min(tcp_memory_mib, needed_mib) // 2 + programs_mib
    memory_mib = request["memory"] or socket_buffers.memory_needed_mib(used_mib, path.content_pkts)
    return tcp_memory_mib, memory_mib


def resolve_offloads(
    request: RunRequest,
    kernel: Kernel,
    path: PathSpec,
    flows: Sequence[FlowSpec],
    changes: Sequence[ChangeSpec],
    links: Mapping[str, PathSpec],
) -> bool:
    """Return whether packets travel in super-packets: as requested, or if it does no harm.

    It does no harm to a single TCP flow on a path that does not change, on a kernel whose receive
    window is then the same.
    """
    if request["offloads"] != "auto":
        return bool(request["offloads"] == "on")
    if socket_buffers.super_packets_enlarge_windows(kernel.version):
        return False
    in_datagrams = not flows[0].is_tcp or flows[0].traffic.is_counted or request.tunnel.sent_by
    if len(flows) > 1 or changes or in_datagrams:
        return False
    mss_bytes = request.tunnel.inner_mtu(request["mtu"]) - IP_TCP_BYTES
    windows = socket_buffers.socket_windows(
        flows[0].buffers, flows[0].streams, kernel.version, mss_bytes, super_packets=True
    )
    return all(
        link_path.never_queues(direction_of_data(first_data_direction(request)), windows.max_bytes)
        for link_path in (path, *links.values())
    )


@dataclass(frozen=True)
class Reception:
    """Represent how end hosts receive packets, by RunSpec's fields."""

    offloads: bool
    receive: str = "packet"
    rx_usecs: int = 0


def resolve_reception(request: RunRequest, offloads: bool) -> Reception:
    """Return how end hosts receive packets.

    NICs merge single packets (GRO); super-packets of 64 kB need no merging. Raises BadInput.
    """
    if request["receive"] == "packet":
        if "rx_usecs" in request.written and "receive" not in request.written:
            raise request.node("rx_usecs").bad_value("it needs receive: moderated")
        return Reception(offloads)
    if offloads and "receive" not in request.written:
        return Reception(offloads=True)
    if request["offloads"] == "on":
        raise request.node("receive").bad_value(
            "with offloads: on packets travel in super-packets, which a NIC cannot merge"
        )
    return Reception(offloads=False, receive="moderated", rx_usecs=request["rx_usecs"])


# -- contradictions


def check_paths(request: RunRequest, paths: Sequence[PathSpec]) -> None:
    """Reject paths that clock, bottleneck, queue or MTU do not support. Raises BadInput.

    On the virtual clock a path without a rate is infinitely fast, and its run never ends.
    """
    unlimited = [
        direction for path in paths for direction in DIRECTIONS if path[direction].rate_bps is None
    ]
    if request.is_virtual and unlimited:
        raise request.node("rate" if "rate" in request.written else "profile").bad(
            f"the {unlimited[0]} direction has no rate limit: on the virtual clock it would be"
            " infinitely fast and the run never end (give it one, like rate: 10gbit, or clock:"
            " real)"
        )
    bottleneck = request["bottleneck"]
    if request["mtu"] > MTU_BYTES and bottleneck != "netem":
        raise request.node("mtu").bad_value(
            f"under bottleneck: {bottleneck} packets have at most {MTU_BYTES} bytes"
        )
    fitting = bottlenecks_with_queue()
    if bottleneck not in fitting and request["queue"] != DEFAULTS["queue"]:
        raise request.node("queue").bad_value(
            f"under {bottleneck}'s rate a queue never has a packet to decide on: it needs"
            f" bottleneck: {' or '.join(fitting)}"
        )
    if bottleneck in fitting and unlimited:
        raise request.node("bottleneck").bad_value(
            f"it needs a rate, and the {unlimited[0]} direction has none"
        )


def check_ecn(
    request: RunRequest, kernel: Kernel, flows: Sequence[FlowSpec], ccs: Iterable[str]
) -> None:
    """Reject ECN with queues that never mark, or accurate ECN the kernel lacks. Raises BadInput."""
    qdiscs = bottleneck_kinds(request["bottleneck"], request["queue"])
    if request["ecn"] in ("on", "l4s") and not any(qdisc.marks for qdisc in qdiscs):
        marking = ", ".join(qdisc.name for qdisc in marking_kinds().values())
        raise request.node("ecn").bad_value(
            f"the bottleneck's queue, {qdiscs[-1].name}, drops and never marks (queue: {marking}"
            " mark; hosts alone ask by FLOW.ecn)"
        )
    if "accurate ecn" in kernel.features:
        return
    requested = [request["ecn"], *(flow.ecn for flow in flows)]
    controls = [cc for cc in ccs if needs_accurate_ecn(cc)]
    if "l4s" in requested or controls:
        requirer = f"cc {controls[0]}" if controls else "ecn: l4s"
        raise request.node("kernel").bad_value(
            f"it has no {FEATURES['accurate ecn'].says}, which {requirer} needs (kernel: shipped)"
        )


def check_topology(request: RunRequest, path: PathSpec, flows: Sequence[FlowSpec]) -> None:
    """Reject a path that the topology does not support. Raises BadInput."""
    topology, back = request.topology, path.reverse
    if not topology.shapes_return and (back.delay_ms or not back.is_steady):
        raise request.node("profile").bad(
            f"topology {topology.name} shapes what the client sends only: the profile's reverse"
            " has a delay, jitter or loss"
        )
    if topology.own_rtts:
        try:
            delays_before_hosts_ms(flows, path)
        except ValueError as error:
            raise request.node("topology").bad(str(error)) from None


def check_jitter(
    request: RunRequest,
    path: PathSpec,
    links: Mapping[str, PathSpec],
    flows: Sequence[FlowSpec],
    changes: Sequence[ChangeSpec],
) -> None:
    """Reject jitter that exceeds the delay at any time of the load. Raises BadInput.

    netem would send such a packet at once, and the delay would be another.
    """
    host_delays_ms = delays_before_hosts_ms(flows, path) if request.topology.own_rtts else {}
    named = (change.link for change in changes if change.link is not None)
    for link, direction in itertools.product(dict.fromkeys(["", *links, *named]), DIRECTIONS):
        base = links.get(link, path)[direction]
        ends = [flow.receiver if direction == "forward" else flow.sender for flow in flows]
        min_extra_ms = min(host_delays_ms.get(end, base.delay_ms) for end in ends) - base.delay_ms
        state, reach = base, base.jitter_reach[0]
        link_changes = [
            change
            for change in changes
            if change.direction == direction and change.touches(link, links)
        ]
        at_once = itertools.groupby(link_changes, key=lambda change: change.at_s)
        for steps in ([], *(list(group) for _, group in at_once)):
            for step in steps:
                state = step.applied_to(state)
            if min_extra_ms + state.delay_ms + reach * state.jitter_ms >= -1e-9:
                continue
            names = ["changes", "trace"] if steps else ["links"] if link in links else []
            names += [
                f"{direction}.jitter",
                "jitter",
                f"{direction}.delay",
                "delay",
                "rtt",
                "flows",
            ]
            name = next((name for name in names if name in request.written), "profile")
            if min_extra_ms + state.delay_ms < 0:
                raise request.node(name).bad(
                    f"{direction}: it would take {show_time(-min_extra_ms / 1000)} from the"
                    " path's delay for"
                    " a flow with a shorter rtt, and that leaves less than none"
                )
            raise request.node(name).bad(
                f"{direction}: jitter of {show_time(state.jitter_ms / 1000)} is more than its"
                " delay of"
                f" {show_time((min_extra_ms + state.delay_ms) / 1000)} allows: no packet arrives"
                " before it was sent (less jitter, or a longer delay)"
            )


def check_impairments(
    request: RunRequest,
    path: PathSpec,
    links: Mapping[str, PathSpec],
    changes: Sequence[ChangeSpec],
    until_s: float,
) -> None:
    """Reject what netem or a policer cannot combine at any time of the load. Raises BadInput."""
    frame_bytes = request["mtu"] + ETHERNET_BYTES
    for link, direction in itertools.product(["", *links], DIRECTIONS):
        state = links.get(link, path)[direction]
        for problem in find_problems(state, frame_bytes, until_s):
            raise problem_node(request, link, direction, problem).bad(
                f"{direction}: {problem.sentence}"
            )
        for change in changes:
            if change.direction == direction and change.touches(link, links):
                state = change.applied_to(state)
                for problem in find_problems(state, frame_bytes, until_s):
                    node = request.node("changes" if "changes" in request.written else "profile")
                    raise node.bad(f"{direction}, from {change.at_s:g} s on: {problem.sentence}")


@dataclass(frozen=True)
class Problem:
    """Represent what a direction cannot do, and the settings that may say so."""

    settings: tuple[str, ...]
    sentence: str


def problem_node(request: RunRequest, link: str, direction: str, problem: Problem) -> Node:
    """Return the node of the setting that causes a problem."""
    names = ["links"] if link else []
    for setting in problem.settings:
        names += [f"{direction}.{setting}", setting]
    return request.node(next((name for name in names if name in request.written), "profile"))


def find_problems(state: DirectionSpec, frame_bytes: int, until_s: float) -> Iterator[Problem]:
    """Yield what a direction cannot do."""
    policer, slot = state.policer, state.slot
    if policer and policer.rate_bps and policer.burst_bytes < frame_bytes:
        yield Problem(
            ("policer", "mtu"),
            f"a policer's burst of {policer.burst_bytes}B passes no full packet of {frame_bytes}B",
        )
    if slot and slot.bytes and slot.bytes < frame_bytes:
        yield Problem(
            ("slot", "mtu"), f"a slot of {slot.bytes}B has no room for a packet of {frame_bytes}B"
        )
    if state.reorder and state.reorder.share:
        if not state.delay_ms:
            yield Problem(
                ("reorder", "delay", "rtt"),
                "reorder without a delay: there is nothing that a packet could overtake",
            )
        if slot and slot.reach_ms[1]:
            yield Problem(
                ("slot", "reorder"),
                "slots and reorder: netem sends a reordered packet at once and not in a slot"
                " (leave one of them; hops: 2 has a link for each)",
            )
    if state.outages and state.duplicate:
        yield Problem(
            ("outage", "duplicate"),
            "outage and duplicate: netem lets a packet pass that it both loses and duplicates"
            " (leave one of them; hops: 2 has a link for each)",
        )
    if state.outages and state.outages[-1].at_s >= until_s:
        yield Problem(
            ("outage",),
            f"an outage at {show_time(state.outages[-1].at_s)}, and the load lasts"
            f" {show_time(until_s)}",
        )


def check_programs(request: RunRequest, flows: Sequence[FlowSpec]) -> None:
    """Reject programs that the paths do not support. Raises BadInput.

    An iperf3 must keep a UDP rate and receive messages of its other end in time, and ACKs exist
    only if TCP crosses the path.
    """
    max_rtt_s = IPERF3_RTT_S if len(flows) == 1 else IPERF3_RTT_OF_SEVERAL_S
    tests = (flow for flow in flows if flow.traffic.by_iperf3)
    slow = next((flow for flow in tests if flow.rtt_ms > 1000 * max_rtt_s), None)
    if slow:
        name = next(
            (word for word in ("rtt", "delay", "flows") if word in request.written), "profile"
        )
        raise request.node(name).bad(
            f"{slow.name} has a round trip of {show_time(slow.rtt_ms / 1000)}: iperf3 gives up on"
            f" its other end after 10 s, and needs one of {show_time(max_rtt_s)} at most"
        )
    paced = [name for name, version in OWN.items() if version.paces_udp]
    if request["iperf3"] not in (*paced, SYSTEM) and any(
        flow.traffic_type == "udp" for flow in flows
    ):
        raise request.node("iperf3").bad_value(
            f"it does not keep to a UDP flow's rate here: write iperf3: {' or '.join(paced)}"
        )
    if request["acks"] == "on" and not request.tunnel.path_leg:
        raise request.node("acks").bad_value(
            f"{request.tunnel.name} sends datagrams across the path: no socket there has ACKs"
        )


def check_paying(request: RunRequest, flows: Sequence[FlowSpec]) -> None:
    """Reject costs of calls for traffic that makes too few calls to pay them. Raises BadInput."""
    flow = next((flow for flow in flows if not flow.traffic.pays_calls), None)
    for name in ("host_cpus", "machine", "byte_cost", "cpu_share"):
        if flow is not None and name in request.written:
            raise request.node(name).bad(
                f"{name}: {flow.name} is a {flow.traffic_type} flow, which moves its data in a few"
                " long calls: its CPU time would be too small (kind: tcp makes a call per read)"
            )


def check_capture(
    request: RunRequest, machine: str, links: Sequence[str], flows: Sequence[FlowSpec]
) -> None:
    """Reject a capture of what does not exist, or on another kernel than the sandbox's.

    Raises BadInput, or SandboxOnly.
    """
    captured = request["capture"]
    if captured == "off":
        if request["snaplen"] != default_setting("snaplen").value:
            raise request.node("snaplen").bad_value("it needs a capture (like capture: wan)")
        return
    if captured not in CAPTURES and captured not in links:
        known = f"there are {', '.join(links)}" if links else "there is one path: write wan"
        raise request.node("capture").bad_value(f"no link of this run ({known})")
    if captured == "legs" and not any(flow.is_tcp for flow in flows):
        raise request.node("capture").bad_value(
            "no flow of this run is a TCP connection: write wan"
        )
    if machine == "native":
        raise SandboxOnly(
            request.node("capture").bad_value(
                "a native run has this machine's own kernel, without the sandbox's capture: add"
                " --machine sandbox, or run tcpdump beside it"
            )
        )
