"""A run: from settings to numbers, each decided once and in one order. The kernel says which
settings can be; the topology who sends to whom; then come the ends' congestion controls, the paths
of the links, the flows with all of their numbers, and what machine and memory all of it needs.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gostlab.registry.congestion_controls import needs_accurate_ecn, own_controls, parse_control
from gostlab.registry.iperf3_versions import OWN, SYSTEM
from gostlab.registry.kernels import FEATURES, Kernel
from gostlab.registry.qdiscs import bottleneck_kinds, marking_kinds, qdisc_kinds
from gostlab.registry.tunnels import GOST, IP_TCP_BYTES, tunnel_kind, tunnel_kinds
from gostlab.spec.cc_placement import resolve_ends
from gostlab.spec.cpu_cost_tables import resolve_costs
from gostlab.spec.flow import FlowSpec, delays_ms
from gostlab.spec.hosts import resolve_cpus, resolve_tcp_memory
from gostlab.spec.kernel_support import fit_settings, where_queues_act
from gostlab.spec.link_paths import Path, memory_path, touches
from gostlab.spec.path import load_profile_of, resolve_changes, resolve_links, resolve_sites
from gostlab.spec.profile import DIRECTIONS, Machines
from gostlab.spec.request import RunRequest
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import DEFAULTS, Setting, Settings, default_setting
from gostlab.spec.units import show_time
from gostlab.spec.workload import hosts_of_run, link_names, resolve_flows, resolve_hosts
from gostlab.tcpmodel import buffer_sizing
from gostlab.tcpmodel.constants import DISTRIBUTION_SCALE, MTU_BYTES

# Settings that are a run's fields as they are, and those whose field has another name.
AS_ASKED = (
    "clock topology placement tunnel streams direction mtu bottleneck queue ecn pacing"
    " loss_detection read_on hops"
).split()
RENAMED = {"duration": "duration_s", "sample": "sample_ms", "start_spread": "start_spread_s"}
# iperf3's two ends wait 10 s for each other's messages (net.c, nread_read_timeout): the longest
# round trip over which a test of one flow begins, and one of several, which wait for each other.
IPERF3_RTT_S, IPERF3_RTT_OF_SEVERAL_S = 9.0, 8.0
# What is asked of a tunnel besides; its default asks for nothing.
TUNNEL_OPTIONS = "sndbuf rcvbuf tun_queue nagle shared kcp_mode kcp_window kcp_parity".split()


def resolve(
    experiment: str, matrix: str, written: Settings, levels_written: Mapping[str, Any], machine: str
) -> RunSpec:
    """Settings -> a run with numbers, still without repetition and seed. Raises BadInput."""
    asked, kernel = fit_settings(written, machine)
    profile = load_profile_of(asked.settings["profile"])
    # A path that nobody named may stand behind a rate and a delay: its machines are nobody's.
    machines = profile.machines if "profile" in asked.written else Machines()
    asked_flows = resolve_hosts(asked)
    hosts = hosts_of_run(asked, asked_flows)
    ends = resolve_ends(asked, asked_flows, hosts)
    names = link_names(asked, asked_flows)
    path, links = resolve_links(asked, profile, names)
    sites = resolve_sites(asked, path)
    flows = resolve_flows(asked, asked_flows, path, links, lambda flow: ends.sent_with(flow, asked))
    until_s = max(flow.end_s for flow in flows)
    changes = resolve_changes(asked, profile, names, until_s)
    check_paths(asked, [path, *(sites or {}).values(), *links.values()])
    check_topology(asked, path, flows)
    check_jitter(asked, path, links, flows, changes)
    check_programs(asked, flows)
    ccs = [ends.of_the_rest, *ends.by_end.values(), *(flow.cc for flow in flows if flow.cc)]
    check_ecn(asked, kernel, flows, ccs)
    return RunSpec(
        experiment=experiment,
        matrix=matrix,
        factors=levels_written,
        repetition=0,
        seed=0,
        machine=machine,
        profile=profile.name,
        path=path,
        sites=sites,
        links=links,
        cc=ends.of_the_rest,
        cc_by_end=ends.by_end,
        own_cc=own_cc(ccs),
        flows=flows,
        changes=changes,
        buffers=buffer_sizing.resolve_buffers(asked["buffers"], path),
        acks=asked["acks"] == "on",
        allow=list(asked.written["allow"].value) if "allow" in asked.written else [],
        gost=asked["gost"] if tunnel_kind(asked["tunnel"]).program == GOST else "auto",
        iperf3=asked["iperf3"] if any(flow.traffic.by_iperf3 for flow in flows) else SYSTEM,
        tunnel_options=tunnel_options(asked),
        kernel=kernel.name,
        kernel_sha256=kernel.sha256[:12],
        # What work costs in guest's time: the real clock measures it.
        syscall_cost_us=asked["syscall_cost"] if asked.is_virtual else 0.0,
        byte_cost_ns=asked["byte_cost"] if asked.is_virtual else 0.0,
        clock_reads=asked["clock_reads"] if asked.is_virtual else "charged",
        **{name: asked[name] for name in AS_ASKED},
        **{field: asked[name] for name, field in RENAMED.items()},
        **queue_target(asked),
        **measured_part(asked, until_s),
        **cost_fields(asked, flows),
        # CPUs are a matter of the virtual clock alone, and pools of TCP memory one of the sandbox's
        # kernel, unless they are requested.
        **(resolve_cpus(asked, machines, hosts) if asked.is_virtual else {}),
        **resolve_tcp_memory(asked, machines, hosts, can_have_own=machine == "sandbox"),
        **receiving(asked, resolve_offloads(asked, kernel, path, flows, changes, links)),
        **guest_memory(asked, memory_path(path, links, asked["hops"]), flows),
    )


def asks_for_option(setting: Setting) -> bool:
    """Return whether a tunnel's option is more than its default, or than what each may lack."""
    is_default = setting.name in DEFAULTS and setting.value == default_setting(setting.name).value
    return not is_default and (setting.name, setting.value) != ("shared", "auto")


def tunnel_options(asked: RunRequest) -> dict[str, Any]:
    """What is asked of the run's tunnel besides. Raises BadInput for what it does not have."""
    found = {}
    for name in (name for name in TUNNEL_OPTIONS if name in asked.written):
        setting, has_it = asked.written[name], name in asked.tunnel.options
        if asks_for_option(setting):
            if not has_it:
                having = {kind.name for kind in tunnel_kinds().values() if name in kind.options}
                raise asked.node(name).bad(
                    f"tunnel {asked['tunnel']} has no {name} ({', '.join(sorted(having))} have)"
                )
            found[name] = setting.value
        elif (name, setting.value) == ("shared", "auto") and has_it:
            found[name] = "on"
    return found


def own_cc(ccs: Iterable[str]) -> dict[str, str]:
    """The user's own among some congestion controls, and the first digits of their files' SHA-256:
    what has been changed since is another question.
    """
    own = own_controls()
    names = sorted({parse_control(cc).name for cc in ccs})
    return {name: own[name].sha256[:12] for name in names if name in own}


def queue_target(asked: RunRequest) -> dict[str, Any]:
    """The target of the bottleneck's queue, if not the kernel's. Raises BadInput."""
    if "target" not in asked.written:
        return {}
    queue = bottleneck_kinds(asked["bottleneck"], asked["queue"])[-1]
    if not queue.has_target:
        having = ", ".join(kind.name for kind in qdisc_kinds().values() if kind.has_target)
        raise asked.node("target").bad_value(f"queue {queue.name} has none ({having} have)")
    return {"target_ms": float(asked.written["target"].value)}


def measured_part(asked: RunRequest, length_s: float) -> dict[str, Any]:
    """What of a load's length the results are taken over. Raises BadInput."""
    said = [name for name in ("measure", "skip") if name in asked.written]
    if len(said) > 1:
        raise asked.node("skip").bad("both measure and skip (write one of them)")
    from_s, to_s = asked["measure"] if "skip" not in said else (asked["skip"], math.inf)
    if from_s >= length_s or length_s < to_s < math.inf:
        raise asked.node(said[0]).bad_value(f"the load lasts {show_time(length_s)}")
    return {"measure_from_s": from_s, "measure_to_s": 0.0 if to_s == math.inf else to_s}


def cost_fields(asked: RunRequest, flows: Sequence[FlowSpec]) -> dict[str, Any]:
    """Programs' own costs; what every call costs, without a machine, is meant for all programs."""
    for_all = not {"syscall_cost", "byte_cost"}.isdisjoint(asked.written)
    if not asked.is_virtual or (for_all and "machine" not in asked.written):
        return {}
    kinds = {flow.kind for flow in flows}
    streams = sum(flow.streams for flow in flows)
    costs = resolve_costs(
        asked["machine"], kinds, asked["tunnel"], asked["iperf3"], asked["gost"], streams
    )
    return {"costs_of": asked["machine"], "program_costs": costs} if costs else {}


def guest_memory(asked: RunRequest, path: Path, flows: Sequence[FlowSpec]) -> dict[str, Any]:
    """The memory's fields of a run: as asked, or as much as its flows' buffers may fill."""
    legs = len(asked.tunnel.legs_over(asked["hops"]))
    needed_mib = sum(
        buffer_sizing.tcp_memory_needed_mib(flow.streams, legs, flow.buffers, path)
        for flow in flows
    )
    programs_mib = 0
    if len(flows) > buffer_sizing.MANY_FLOWS:
        needed_mib = min(needed_mib, buffer_sizing.tcp_memory_shared_mib(len(flows), path))
        programs_mib = buffer_sizing.FLOW_MEMORY_MIB * len(flows)
    tcp_memory_mib = asked["tcp_memory"] or needed_mib
    held_mib = min(tcp_memory_mib, needed_mib) // 2 + programs_mib
    memory_mib = asked["memory"] or buffer_sizing.memory_needed_mib(held_mib, path)
    return {"memory_mib": memory_mib, "tcp_memory_mib": tcp_memory_mib}


def resolve_offloads(
    asked: RunRequest,
    kernel: Kernel,
    path: Path,
    flows: Sequence[FlowSpec],
    changes: Sequence[Mapping[str, Any]],
    links: Mapping[str, Path],
) -> bool:
    """Whether packets may travel in lumps: as asked, or where that does no harm to the one flow on
    a path that stays what it is, and that surely is TCP, on a kernel that gives it the same window.
    """
    if asked["offloads"] != "auto":
        return bool(asked["offloads"] == "on")
    if buffer_sizing.super_packets_enlarge_windows(kernel.version):
        return False
    in_datagrams = not flows[0].is_tcp or flows[0].traffic.is_counted or asked.tunnel.sent_by
    if len(flows) > 1 or changes or in_datagrams:
        return False
    mss_bytes = asked.tunnel.inner_mtu(asked["mtu"]) - IP_TCP_BYTES
    windows = buffer_sizing.socket_windows(
        flows[0].buffers, flows[0].streams, kernel.version, mss_bytes, super_packets=True
    )
    return all(
        buffer_sizing.queue_never_decides(each, asked["direction"], windows.max_bytes)
        for each in (path, *links.values())
    )


def receiving(asked: RunRequest, offloads: bool) -> dict[str, Any]:
    """In what units end hosts get packets: the fields offloads, receive and rx_usecs. Cards merge
    single packets; what travels in lumps of 64 kB nobody has to merge. Raises BadInput.
    """
    if asked["receive"] == "packet":
        if "rx_usecs" in asked.written and "receive" not in asked.written:
            raise asked.node("rx_usecs").bad_value("it needs receive: moderated")
        return {"offloads": offloads}
    if offloads and "receive" not in asked.written:
        return {"offloads": True}
    if asked["offloads"] == "on":
        raise asked.node("receive").bad_value(
            "with offloads: on packets travel in lumps, and there is nothing for a card to merge"
        )
    return {"offloads": False, "receive": "moderated", "rx_usecs": asked["rx_usecs"]}


# -- what does not go together


def check_paths(asked: RunRequest, paths: Sequence[Path]) -> None:
    """What clock, bottleneck, queue and MTU cannot do with the paths. On the virtual clock a path
    without a rate is infinitely fast, its run endless. Raises BadInput.
    """
    unlimited = [way for path in paths for way, each in path.items() if each["rate_bps"] is None]
    if asked.is_virtual and unlimited:
        raise asked.node("rate" if "rate" in asked.written else "profile").bad(
            f"the {unlimited[0]} direction has no rate limit: on the virtual clock it would be"
            " infinitely fast and the run never end (give it one, like rate: 10gbit, or clock:"
            " real)"
        )
    bottleneck = asked["bottleneck"]
    if asked["mtu"] > MTU_BYTES and bottleneck != "netem":
        raise asked.node("mtu").bad_value(
            f"under bottleneck: {bottleneck} packets have at most {MTU_BYTES} bytes"
        )
    fitting = where_queues_act()
    if bottleneck not in fitting and asked["queue"] != DEFAULTS["queue"]:
        raise asked.node("queue").bad_value(
            f"under {bottleneck}'s rate a queue never has a packet to decide on: it needs"
            f" bottleneck: {' or '.join(fitting)}"
        )
    if bottleneck in fitting and unlimited:
        raise asked.node("bottleneck").bad_value(
            f"it needs a rate, and the {unlimited[0]} direction has none"
        )


def check_ecn(
    asked: RunRequest, kernel: Kernel, flows: Sequence[FlowSpec], ccs: Iterable[str]
) -> None:
    """ECN of a queue that never marks, and accurate ECN of a kernel without. Raises BadInput."""
    kinds = bottleneck_kinds(asked["bottleneck"], asked["queue"])
    if asked["ecn"] in ("on", "l4s") and not any(kind.marks for kind in kinds):
        marking = ", ".join(kind.name for kind in marking_kinds().values())
        raise asked.node("ecn").bad_value(
            f"the bottleneck's queue, {kinds[-1].name}, drops and never marks (queue: {marking}"
            " mark; hosts alone ask by FLOW.ecn)"
        )
    if "accurate ecn" in kernel.features:
        return
    wanted = [asked["ecn"], *(flow.ecn for flow in flows)]
    needing = [cc for cc in ccs if needs_accurate_ecn(cc)]
    if "l4s" in wanted or needing:
        what = f"cc {needing[0]}" if needing else "ecn: l4s"
        raise asked.node("kernel").bad_value(
            f"it has no {FEATURES['accurate ecn'].says}, which {what} needs (kernel: shipped)"
        )


def check_topology(asked: RunRequest, path: Path, flows: Sequence[FlowSpec]) -> None:
    """What a topology cannot do with a path. Raises BadInput."""
    topology, back = asked.topology, path["reverse"]
    shaped = back["delay_ms"] or back["jitter_ms"] or not buffer_sizing.lossless(back["loss"])
    if not topology.shapes_return and shaped:
        raise asked.node("profile").bad(
            f"topology {topology.name} shapes what the client sends only: the profile's reverse"
            " has a delay, jitter or loss"
        )
    if topology.own_rtts:
        try:
            delays_ms(flows, path)
        except ValueError as error:
            raise asked.node("topology").bad(str(error)) from None


def check_jitter(
    asked: RunRequest,
    path: Path,
    links: Mapping[str, Path],
    flows: Sequence[FlowSpec],
    changes: Sequence[Mapping[str, Any]],
) -> None:
    """Jitter that would have a packet arrive before it was sent, at any time of the load: netem
    would send it at once, and the delay be another. Raises BadInput.
    """
    own_ms = delays_ms(flows, path) if asked.topology.own_rtts else {}
    named = {change["link"] for change in changes if "link" in change}
    for link, way in itertools.product(dict.fromkeys(["", *links, *named]), DIRECTIONS):
        base = links.get(link, path)[way]
        ends = [flow.receiver if way == "forward" else flow.sender for flow in flows]
        least_ms = min(own_ms.get(end, base["delay_ms"]) for end in ends) - base["delay_ms"]
        reach = min(base["distribution"] or [-DISTRIBUTION_SCALE]) / DISTRIBUTION_SCALE
        now = {key: base[key] for key in ("delay_ms", "jitter_ms")}
        mine = [each for each in changes if each["direction"] == way and touches(each, link, links)]
        at_once = itertools.groupby(mine, key=lambda each: each["at_s"])
        for steps in ([], *(list(group) for _, group in at_once)):
            for step in steps:
                now |= {key: step[key] for key in now if key in step}
            if least_ms + now["delay_ms"] + reach * now["jitter_ms"] >= -1e-9:
                continue
            names = ["changes", "trace"] if steps else ["links"] if link in links else []
            names += [f"{way}.jitter", "jitter", f"{way}.delay", "delay", "rtt", "flows"]
            name = next((name for name in names if name in asked.written), "profile")
            if least_ms + now["delay_ms"] < 0:
                raise asked.node(name).bad(
                    f"{way}: it would take {show_time(-least_ms / 1000)} from the path's delay for"
                    " a flow with a shorter rtt, and that leaves less than none"
                )
            raise asked.node(name).bad(
                f"{way}: jitter of {show_time(now['jitter_ms'] / 1000)} is more than its delay of"
                f" {show_time((least_ms + now['delay_ms']) / 1000)} allows: no packet arrives"
                " before it was sent (less jitter, or a longer delay)"
            )


def check_programs(asked: RunRequest, flows: Sequence[FlowSpec]) -> None:
    """An iperf3 must hold a UDP rate and hear from its other end in time, and TCP cross the path
    for ACKs. Raises BadInput.
    """
    most_s = IPERF3_RTT_S if len(flows) == 1 else IPERF3_RTT_OF_SEVERAL_S
    tests = (flow for flow in flows if flow.traffic.by_iperf3)
    slow = next((flow for flow in tests if flow.rtt_ms > 1000 * most_s), None)
    if slow:
        name = next(
            (word for word in ("rtt", "delay", "flows") if word in asked.written), "profile"
        )
        raise asked.node(name).bad(
            f"{slow.name} has a round trip of {show_time(slow.rtt_ms / 1000)}: iperf3 gives up on"
            f" its other end after 10 s, and needs one of {show_time(most_s)} at most"
        )
    paced = [name for name, kind in OWN.items() if kind.paces_udp]
    if asked["iperf3"] not in (*paced, SYSTEM) and any(flow.kind == "udp" for flow in flows):
        raise asked.node("iperf3").bad_value(
            f"it does not keep to a UDP flow's rate here: write iperf3: {' or '.join(paced)}"
        )
    if asked["acks"] == "on" and not asked.tunnel.path_leg:
        raise asked.node("acks").bad_value(
            f"{asked.tunnel.name} sends datagrams across the path: no socket there has ACKs"
        )
