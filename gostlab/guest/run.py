"""One run, from its description to its result folder, the same on any machine.

    python3 -m gostlab.guest.run FOLDER       FOLDER holds run.json and parts.json

It needs root in its own network namespaces and a kernel with sch_netem, and knows nothing of which
machine gave it those. How it ended goes to outcome.json, which its starter turns into
status.json.
"""

import gc
import json
import os
import platform
import resource
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gostlab import lazy, results
from gostlab.guest import host_config, tsc_trap
from gostlab.guest.baseline_rtt import check_idle, prolong_arp, refuse_wrong_path
from gostlab.guest.command_log import ScriptRequirements
from gostlab.guest.environment import (
    Programs,
    check_virtual_clock,
    environment,
    iperf3_of,
    kernel_number,
    run_environ,
    scratch_folder,
)
from gostlab.guest.evaluate import check_rates, judge
from gostlab.guest.flow_result import FlowInterval, FlowResult, TrafficError
from gostlab.guest.load_context import LoadContext
from gostlab.guest.network import Interface, Network, NetworkError, lay_out, set_mtu, set_offloads
from gostlab.guest.nic_coalescing import moderate_cards
from gostlab.guest.pacing import pace_senders
from gostlab.guest.probes import fidelity
from gostlab.guest.probes.cc_state import keep_states, tracing_states
from gostlab.guest.probes.sampler import Probes, host_cpu_use, program_cost_use
from gostlab.guest.probes.tcp_probe import AckTrace, keep_acks, sample_s, tracing_acks
from gostlab.guest.probes.timer_lateness import Watch, watching
from gostlab.guest.probes.trace_spool import Spool
from gostlab.guest.reset_clock import begin_anew
from gostlab.guest.shaping import Shaper, under_test
from gostlab.guest.socket_accounting import counted, in_sockets, what_it_did
from gostlab.guest.start_tunnel import program_of, start_tunnel
from gostlab.guest.traffic_plugins import carrier, report_name, result_of
from gostlab.guest.tunnel_context import Tunnel, TunnelError
from gostlab.guest.workload import LoadResult, run_flows
from gostlab.install.locate import TunnelBinary, file_sha256
from gostlab.registry.congestion_controls import kernel_name
from gostlab.registry.iperf3_versions import OWN, SYSTEM
from gostlab.spec.checks import Check, report, worst
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.constants import MTU_BYTES

TAINT = Path("/proc/sys/kernel/tainted")


def execute(run: RunSpec, folder: Path, parts: Mapping[str, Any]) -> str:
    """Run it and write its folder, all but status.json; returns the verdict.

    Raises Unsupported, NetworkError, TunnelError, TrafficError or OSError.
    """
    # of a kernel that is not the shipped one
    lacking = (parts.get("kernel") or {}).get("lacks", ())
    environ = run_environ(parts)
    os.environ.update(environ)
    begin_anew(run.clock, run.seed)
    programs = Programs(
        program_of(run, parts), iperf3_of(run, parts), parts.get("nginx"), parts.get("irtt")
    )
    host_config.prepare_kernel(run, run.machine)
    with (
        scratch_folder() as scratch,
        lay_out(run, folder, environ, needs_of(run, programs)) as network,
    ):
        if run.mtu != MTU_BYTES:
            set_mtu(network, run.mtu)
        host_config.silence_ipv6(network)
        sysctls = host_config.configure_hosts(network, run)
        offloads = set_offloads(network, run.offloads, nodes_crossed(network, run))
        cards = moderate_cards(network, run) if run.receive == "moderated" else {}
        for device, card in cards.items():
            offloads[device]["generic-receive-offload"] = card["gro"]
        prolong_arp(network, max(map(run.longest_rtt_s, run.flows)))
        shaper = Shaper(network, run)
        # A queue's timers follow from its start, and from no call of the lab's before it.
        begin_anew(run.clock, run.seed)
        qdiscs_before = shaper.install()
        paced = pace_senders(network, run) if run.pacing == "fq" else []
        checks = check_idle(network, run, shaper, "idle_rtt_before")
        refuse_wrong_path(checks)
        with (
            start_tunnel(network, run, programs.tunnel, folder, scratch) as tunnel,
            watching_all(network, run, tunnel, folder, paced) as watches,
        ):
            order = LoadContext(
                network,
                run,
                tunnel,
                programs,
                node_cc=host_config.socket_cc(run),
                reads_on=reads_on_of(run, lacking),
                folder=folder,
                scratch=scratch,
                begin=watches.begin,
                change=shaper.change,
            )
            with judged_if_dead(tunnel, checks, folder):
                load = put_load(order, watches)
            checks += check_tunnel(tunnel)
            legs = watches.probes.legs()
            acks = keep_acks(order, watches.acks, load.started_s) if run.acks else None
        states = keep_states(folder, load.started_s)
        results.write_json(folder / "legs.json", legs)
        load = watched(run, load, watches.probes, tunnel)
        flows = measured_part(run, load, watches.probes, tunnel, folder)
        results.write_json(folder / "flows.json", {"flows": [flow.to_json() for flow in flows]})
        checks += check_idle(network, run, shaper, "idle_rtt_after")
        qdiscs_after = shaper.show("after")
        pids = {node: network.pid(node) for node in host_config.hosts_with_programs(run)}
        more: dict[str, Any] = {"receive": cards} if cards else {}
        if states:
            more["cc_state"] = states
        if run.host_cpus:
            more["host_cpu"] = {node: host_cpu_use(pid) for node, pid in pids.items()}
        if run.program_costs:
            more["program_costs"] = {node: program_cost_use(pid) for node, pid in pids.items()}
        if run.clock == "virtual":
            more["reads_made"] = kernel_number("tt_reads_made")
    results.write_json(
        folder / "env.json",
        {
            **environment(run, programs, parts, sysctls),
            "offloads": offloads,
            "qdiscs_before": qdiscs_before,
            "qdiscs_after": qdiscs_after,
            "acks": acks,
            **more,
        },
    )
    checks += judge(run, folder, load, watches.probes, watches.queues, legs, watches.clock, lacking)
    checks.append(check_rates(run, flows, watches.queues))
    checks += check_repeats(run, programs.tunnel)
    checks += fidelity.check_kernel(run, parts.get("kernel"), platform.release())
    checks += fidelity.check_taint(run, int(TAINT.read_text(encoding="ascii")))
    results.write_json(folder / "fidelity.json", report(checks))
    return worst(checks)


# -- before the load


def reads_on_of(run: RunSpec, lacking: Sequence[str]) -> int | None:
    """The size of the reads of the run's iperf3 that its kernel is to go on with; None: it need not
    be told.
    """
    kind = OWN.get(run.iperf3)
    if run.clock != "virtual" or not (kind and kind.reads_on) or "reading on" in lacking:
        return None
    return kind.reads_on if run.read_on == "on" else 0


def needs_of(run: RunSpec, programs: Programs) -> ScriptRequirements:
    """What the run's commands.sh must find on whatever machine repeats it."""
    kinds = [flow.traffic for flow in run.flows]
    clients = dict.fromkeys(kind.client for kind in kinds if kind.client)
    iperf3 = programs.iperf3.path
    kept = [*(programs.tunnel.paths if programs.tunnel else ())]
    kept += [iperf3] if run.iperf3 != SYSTEM else []
    # To read all of a GOST is a twentieth of a short run.
    known = {each.path: each.sha256 for each in (programs.tunnel,) if each and each.is_hashed_alone}
    return ScriptRequirements(
        programs=(
            *([programs.nginx or "nginx"] if any(kind.by_nginx for kind in kinds) else []),
            *([str(iperf3)] if any(kind.by_iperf3 for kind in kinds) else []),
            *clients,
        ),
        hashes={str(path): known.get(path) or file_sha256(path) for path in kept},
        congestion_controls=[kernel_name(cc) for cc in run.congestion_controls],
        tcp_memory_mib=run.tcp_memory_mib if run.machine == "sandbox" else None,
    )


def watched(run: RunSpec, load: LoadResult, probes: Probes, tunnel: Tunnel) -> LoadResult:
    """The load, with what sockets and links tell of its flows: what those did that are counted, and
    when data began and ended. Raises TrafficError.
    """
    flows = []
    for flow, did in zip(run.flows, load.flows, strict=True):
        told = counted(run, flow, did, probes, tunnel) if flow.traffic.is_counted else did
        times = probes.data_times(flow.name)
        if times is not None:
            told = replace(told, data_began_s=times.began_s, data_ended_s=times.ended_s)
            if flow.connects_at_start:  # iperf3's seconds begin with its data
                told = replace(told, started_s=times.began_s)
        flows.append(told)
    return replace(load, flows=tuple(flows))


def measured_part(
    run: RunSpec, load: LoadResult, probes: Probes, tunnel: Tunnel, folder: Path
) -> list[FlowResult]:
    """What each flow did in the part of the load that is measured."""
    if not run.measures_a_part:
        return list(load.flows)
    found = []
    for flow, did in zip(run.flows, load.flows, strict=True):
        window_s = run.measured_s(flow)
        from_s = max(window_s[0], did.started_s)
        # iperf3's seconds may be its receiver's, whose clock begins before, or after, its sender's
        over_s = did.ended_s if flow.traffic.by_iperf3 else did.started_s + did.seconds
        to_s = min(window_s[1], over_s)
        report = folder / report_name(run, flow)
        if flow.traffic.is_counted:
            _, part = what_it_did(run, flow, probes, tunnel)
        elif flow.traffic.rows:  # what it measured itself
            row = result_of(flow, report, (did.started_s, did.ended_s), window_s)
            own = replace(did, round_trips=row.round_trips, fetches=row.fetches)
            found.append(own.of_part(from_s, to_s, FlowInterval(row.bytes)))
            continue
        elif flow.is_tcp:
            part = in_sockets(flow, probes, tunnel)
        else:
            part = carrier(flow.traffic).part(
                flow, report, from_s - did.started_s, to_s - did.started_s
            )
        found.append(did.of_part(from_s, to_s, part))
    return found


def nodes_crossed(network: Network, run: RunSpec) -> set[str]:
    """The nodes that the flows' packets pass: all but a star's other sites and their routers."""
    crossed = {interface for interface in network.shaped if under_test(run, interface)}
    idle = {interface for interface in network.shaped if interface not in crossed}
    others = {node for interface in idle for node in (interface.node, *interface.hosts)}
    return set(network.nodes) - others | {interface.node for interface in crossed}


# -- the load, and what watches it


@dataclass
class Watches:
    """What watches a load. Use through `watching_all`."""

    queues: list[Interface]  # where the flows' packets may wait
    probes: Probes
    acks: AckTrace | None  # None: not requested, or not to be had
    states: Spool  # what congestion controls of the lab's own say
    clock: Watch | None  # None on the virtual clock, which is exact

    def begin(self) -> None:
        """Just before the load."""
        for each in (self.clock, self.acks, self.states, self.probes):
            if each is not None:
                each.start()

    def end(self) -> None:
        """Just after it. Raises what broke a sampler, if anything did."""
        for each in (self.clock, self.probes, self.states):
            if each is not None:
                each.end()


@contextmanager
def watching_all(
    network: Network, run: RunSpec, tunnel: Tunnel, folder: Path, paced: Sequence[Interface]
) -> Iterator[Watches]:
    """Open all that watches a load; close it on leaving. `paced`: end hosts' cards with fq."""
    queues = [interface for interface in network.shaped if under_test(run, interface)]
    queues += paced
    # the device whose queue the flows' data wait in
    bottleneck = next(
        each for each in queues if (each.role, each.direction) == ("bottleneck", run.data_direction)
    )
    with (
        tracing_acks(run, folder, tunnel) as acks,
        tracing_states(folder, run.congestion_controls, run.acks) as states,
        closing(Probes(run, network, tunnel, queues, folder, sample_s(run, acks))) as probes,
        watching(run, bottleneck.name, bottleneck.link) as clock,
    ):
        yield Watches(queues, probes, acks, states, clock)


def put_load(order: LoadContext, watches: Watches) -> LoadResult:
    """The load between the samplers' first and last sample. Raises TunnelError or TrafficError."""
    tunnel = order.tunnel
    begin_anew(order.run.clock, order.run.seed)
    try:
        load = run_flows(order)
    except TrafficError:
        tunnel.ends.check_alive()  # a dead tunnel is the cause, iperf3's error only the effect
        raise
    watches.end()
    tunnel.ends.check_alive()
    return load


@contextmanager
def judged_if_dead(tunnel: Tunnel, checks: list[Check], folder: Path) -> Iterator[None]:
    """A tunnel that dies under the load leaves a verdict behind: invalid."""
    try:
        yield
    except TunnelError:
        found = [*checks, *check_tunnel(tunnel)]
        if worst(found) == "invalid":  # else it never got so far as to carry anything
            results.write_json(folder / "fidelity.json", report(found))
        raise


def check_tunnel(tunnel: Tunnel) -> list[Check]:
    """Whether the tunnel is alive; nothing where there is none."""
    ends = {node: end.poll() for node, end in tunnel.ends.items()}
    return [fidelity.check_tunnel(ends)] if ends else []


def check_repeats(run: RunSpec, program: TunnelBinary | None) -> list[Check]:
    """Whether another run through the tunnel would be this one; nothing where no clock or program
    makes that a question.
    """
    if program is None or run.clock != "virtual" or not tsc_trap.go_seeds_from_tsc(program.version):
        return []
    return [fidelity.check_repeats(program.version, program.cycle_counter_at)]


def raise_file_limit() -> None:
    """As many open files as this machine grants: every flow's process is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(argv: list[str]) -> int:
    """Run what FOLDER describes; the exit status says little, outcome.json says all."""
    lazy.read_all()
    gc.freeze()
    gc.enable()  # init.py has switched it off
    folder = Path(argv[1])
    run = RunSpec.from_json(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    parts = json.loads((folder / "parts.json").read_text(encoding="utf-8"))
    started = time.monotonic()
    raise_file_limit()

    outcome, said, cause = "ok", None, None
    try:
        check_virtual_clock(run)
        execute(run, folder, parts)
    except host_config.Unsupported as error:
        outcome, said = "unsupported", str(error)
    except (NetworkError, TunnelError, TrafficError) as error:
        outcome, said = "failed", str(error)
    except Exception as error:
        # A bug or a fault of the environment: the log has the whole of it, the status a line.
        traceback.print_exc()
        outcome, cause = "failed", results.OWN_ERROR
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError):
            said = f"{error.filename or 'the run'}: {error.strerror or error}"
    guest_s = round(time.monotonic() - started, 3)
    ended = {"outcome": outcome, "error": said, "cause": cause, "guest_s": guest_s}
    results.write_json(folder / "outcome.json", ended)
    return 0 if outcome == "ok" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
