"""Execute one run, from its description to its result folder, equally on any machine.

    python3 -m gostlab.guest.run FOLDER [HELD]

FOLDER holds run.json and parts.json; with HELD, only once a call of this process returns.

It needs root in its own network namespaces and a kernel with sch_netem, whichever machine provides
them. Its outcome goes to outcome.json, which the process that starts it turns into status.json.
"""

import gc
import json
import os
import platform
import resource
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gostlab import results
from gostlab.guest import host_config, tsc_trap
from gostlab.guest.baseline_rtt import check_idle_rtts, prolong_arp_retries, refuse_wrong_path
from gostlab.guest.capture import capturing
from gostlab.guest.command_log import ScriptRequirements
from gostlab.guest.environment import (
    RunPrograms,
    check_virtual_clock,
    environment,
    iperf3_of,
    is_own_root,
    kernel_number,
    read_constants,
    run_environ,
    scratch_folder,
)
from gostlab.guest.flow_result import FlowInterval, FlowResult, TrafficError
from gostlab.guest.load_context import LoadContext
from gostlab.guest.namespaces import make_namespaces_ahead
from gostlab.guest.network import (
    Interface,
    Network,
    NetworkError,
    build_network,
    set_mtu,
    set_offloads,
)
from gostlab.guest.nic_coalescing import coalesce_interrupts
from gostlab.guest.pacing import pace_senders
from gostlab.guest.probes import fidelity
from gostlab.guest.probes.cc_state import save_states, tracing_states
from gostlab.guest.probes.sampler import Probes, host_cpu_use, program_cost_use
from gostlab.guest.probes.tcp_probe import AckTrace, sample_s, save_acks, tracing_acks
from gostlab.guest.probes.timer_lateness import LatenessProbes, open_lateness_probes
from gostlab.guest.probes.trace_spool import Spool
from gostlab.guest.reset_clock import reset_virtual_clock
from gostlab.guest.run_checks import check_impairments, check_rates, whole_run_checks
from gostlab.guest.shaping import Shaper, is_under_test
from gostlab.guest.socket_accounting import add_counts, count_in_sockets, count_traffic
from gostlab.guest.start_tunnel import program_of, start_tunnel
from gostlab.guest.traffic_plugins import report_name, result_of, traffic_plugin
from gostlab.guest.tunnel_context import Tunnel, TunnelError
from gostlab.guest.workload import LoadResult, run_flows
from gostlab.install.locate import TunnelBinary, file_sha256
from gostlab.install.parts_json import PartsJson
from gostlab.registry.congestion_controls import kernel_name
from gostlab.registry.iperf3_versions import OWN, SYSTEM
from gostlab.registry.qdiscs import qdisc_kinds
from gostlab.registry.topologies import topologies
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.spec.compatible_json import JsonObject
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.verdict import Check, checks_json, worst_verdict
from gostlab.tcpmodel.run_limits import MTU_BYTES

# A run counts once its status.json is on the disk, which the process outside writes; a call that
# waits for the disk takes a hundredth of a short run.
write_json = partial(results.write_json, to_disk=False)

TAINT = Path("/proc/sys/kernel/tainted")
HOLD = Path("/sys/module/kernel/parameters/tt_hold")  # holds the kernel; write-only


def execute(run: RunSpec, folder: Path, parts: PartsJson) -> str:
    """Execute a run, write its folder except status.json, and return the verdict.

    Raises Unsupported, NetworkError, TunnelError, TrafficError or OSError.
    """
    # features that a kernel other than the shipped one lacks
    lacking = parts["kernel"]["lacks"] if "kernel" in parts else []
    environ = run_environ(parts)
    os.environ.update(environ)
    reset_virtual_clock(run.clock, run.seed)
    programs = RunPrograms(
        program_of(run, parts),
        iperf3_of(run, parts),
        parts.get("nginx"),
        parts.get("irtt"),
        parts.get("files", {}),
    )
    host_config.set_kernel_wide_settings(run, run.machine)
    with (
        scratch_folder() as scratch,
        build_network(run, folder, environ, script_requirements(run, programs)) as network,
        # It begins before the clock is reset, and ends after the last reading of it.
        capturing(run, network, folder) as recorder,
    ):
        if run.mtu != MTU_BYTES:
            set_mtu(network, run.mtu)
        host_config.silence_ipv6(network)
        sysctls = host_config.configure_hosts(network, run)
        offloads = set_offloads(network, run.offloads, nodes_crossed(network, run))
        cards = coalesce_interrupts(network, run) if run.receive == "moderated" else {}
        for device, card in cards.items():
            offloads[device]["generic-receive-offload"] = card["gro"]
        prolong_arp_retries(network, max(map(run.longest_rtt_s, run.flows)))
        shaper = Shaper(network, run)
        # Reset the clock, so that a queue's timers do not depend on calls of the lab before its
        # start.
        reset_virtual_clock(run.clock, run.seed)
        qdiscs_before = shaper.install()
        paced = pace_senders(network, run) if run.pacing == "fq" else []
        checks = check_idle_rtts(network, run, shaper, "idle_rtt_before")
        refuse_wrong_path(checks)
        with (
            start_tunnel(network, run, programs.tunnel, folder, scratch) as tunnel,
            open_load_probes(network, run, tunnel, folder, paced) as watches,
        ):
            context = LoadContext(
                network,
                run,
                tunnel,
                programs,
                node_cc=host_config.socket_cc(run),
                reads_on=continued_read_size(run, lacking),
                folder=folder,
                scratch=scratch,
                begin=watches.begin,
                change=shaper.change,
            )
            if recorder is not None:
                recorder.begin_legs(tunnel)
            with record_tunnel_death(tunnel, checks, folder):
                load = apply_load(context, watches)
            if recorder is not None:
                recorder.record_load_start(load.started_s)
            checks += check_tunnel(tunnel)
            legs = watches.probes.legs()
            acks = save_acks(context, watches.acks, load.started_s) if run.acks else None
        states = save_states(folder, load.started_s)
        write_json(folder / "legs.json", legs)
        load = complete_results(run, load, watches.probes, tunnel)
        flows = results_of_measured_part(run, load, watches.probes, tunnel, folder)
        write_json(folder / "flows.json", {"flows": [flow.to_json() for flow in flows]})
        checks += check_idle_rtts(network, run, shaper, "idle_rtt_after")
        qdiscs_after = shaper.show("after")
        impaired = shaper.counts()
        pids = {node: network.pid(node) for node in host_config.hosts_with_programs(run)}
        optional_fields: JsonObject = {"receive": cards} if cards else {}
        if states:
            optional_fields["cc_state"] = states
        if impaired:
            optional_fields["impairments"] = [counts.to_json() for counts in impaired]
        if run.host_cpus:
            optional_fields["host_cpu"] = {node: host_cpu_use(pid) for node, pid in pids.items()}
        if run.program_costs:
            optional_fields["program_costs"] = {
                node: program_cost_use(pid) for node, pid in pids.items()
            }
        if run.clock == "virtual":
            optional_fields["reads_made"] = kernel_number("tt_reads_made")
    if recorder is not None:
        optional_fields["capture"] = recorder.record()
        checks.append(fidelity.check_capture(recorder.lost, recorder.error))
    write_json(
        folder / "env.json",
        {
            **environment(run, programs, parts, sysctls),
            "offloads": offloads,
            "qdiscs_before": qdiscs_before,
            "qdiscs_after": qdiscs_after,
            "acks": acks,
            **optional_fields,
        },
    )
    checks += whole_run_checks(
        run, folder, load, watches.probes, watches.queues, legs, watches.clock, lacking
    )
    checks += check_impairments(run, impaired)
    checks.append(check_rates(run, flows, watches.queues))
    checks += check_go_seed(run, programs.tunnel)
    checks += fidelity.check_kernel(run, parts.get("kernel"), platform.release())
    checks += fidelity.check_taint(run, int(TAINT.read_text(encoding="ascii")))
    write_json(folder / "fidelity.json", checks_json(checks))
    return worst_verdict(checks)


# -- before the load


def continued_read_size(run: RunSpec, lacking: Sequence[str]) -> int | None:
    """Return the size of the iperf3 reads that the kernel is to continue.

    None: the kernel needs no setting.
    """
    declaration = OWN.get(run.iperf3)
    if (
        run.clock != "virtual"
        or not (declaration and declaration.reads_on)
        or "reading on" in lacking
    ):
        return None
    return declaration.reads_on if run.read_on == "on" else 0


def script_requirements(run: RunSpec, programs: RunPrograms) -> ScriptRequirements:
    """Return what the run's commands.sh must find on the machine that repeats it."""
    kinds = [flow.traffic for flow in run.flows]
    clients = dict.fromkeys(declaration.client for declaration in kinds if declaration.client)
    iperf3 = programs.iperf3.path
    hashed_paths = [*(programs.tunnel.paths if programs.tunnel else ())]
    hashed_paths += [iperf3] if run.iperf3 != SYSTEM else []
    # Hashing a GOST binary takes a twentieth of a short run.
    known_hashes = {
        program.path: program.sha256
        for program in (programs.tunnel,)
        if program and program.is_hashed_alone
    }
    return ScriptRequirements(
        programs=(
            *(
                [programs.nginx or "nginx"]
                if any(declaration.by_nginx for declaration in kinds)
                else []
            ),
            *([str(iperf3)] if any(declaration.by_iperf3 for declaration in kinds) else []),
            *clients,
        ),
        hashes={str(path): known_hashes.get(path) or file_sha256(path) for path in hashed_paths},
        congestion_controls=[kernel_name(cc) for cc in run.congestion_controls],
        tcp_memory_mib=run.tcp_memory_mib if run.machine == "sandbox" else None,
    )


def complete_results(run: RunSpec, load: LoadResult, probes: Probes, tunnel: Tunnel) -> LoadResult:
    """Return the load's results, completed from sockets and links.

    These give the counts of counted flows, and when data began and ended. Raises TrafficError.
    """
    flows = []
    for flow, reported in zip(run.flows, load.flows, strict=True):
        result = (
            add_counts(run, flow, reported, probes, tunnel) if flow.traffic.is_counted else reported
        )
        if result.by_stream is not None:
            by_stream = result.by_stream | {"socket_bytes": probes.bytes_received(flow.name)}
            result = replace(result, by_stream=by_stream)
        times = probes.send_times(flow.name)
        if flow.pauses:
            if flow.rate_bps:
                share = probes.app_limited_share(flow.name)
                result = replace(result, app_limited_share=share)
        elif times is not None:
            result = replace(result, data_began_s=times.began_s, data_ended_s=times.ended_s)
            if flow.connects_at_start:  # iperf3's seconds count from its first data
                result = replace(result, started_s=times.began_s)
        flows.append(result)
    return replace(load, flows=tuple(flows))


def results_of_measured_part(
    run: RunSpec, load: LoadResult, probes: Probes, tunnel: Tunnel, folder: Path
) -> list[FlowResult]:
    """Return each flow's result in the measured part of the load."""
    if not run.measures_part:
        return list(load.flows)
    results_of_flows = []
    for flow, flow_load in zip(run.flows, load.flows, strict=True):
        window_s = run.measured_s(flow)
        from_s = max(window_s[0], flow_load.started_s)
        # iperf3's seconds may be its receiver's, whose clock begins before or after its sender's.
        over_s = (
            flow_load.ended_s if flow.traffic.by_iperf3 else flow_load.started_s + flow_load.seconds
        )
        to_s = min(window_s[1], over_s)
        report = folder / report_name(run, flow)
        if flow.traffic.is_counted:
            _, part = count_traffic(run, flow, probes, tunnel)
        elif flow.traffic.rows:  # flows that measure by themselves
            row = result_of(flow, report, (flow_load.started_s, flow_load.ended_s), window_s)
            measured = replace(
                flow_load, round_trips=row.round_trips, fetches=row.fetches, playback=row.playback
            )
            results_of_flows.append(measured.over_interval(from_s, to_s, FlowInterval(row.bytes)))
            continue
        elif flow.is_tcp:
            part = count_in_sockets(flow, probes, tunnel)
        else:
            part = traffic_plugin(flow.traffic).part(
                flow, report, from_s - flow_load.started_s, to_s - flow_load.started_s
            )
        results_of_flows.append(flow_load.over_interval(from_s, to_s, part))
    return results_of_flows


def nodes_crossed(network: Network, run: RunSpec) -> set[str]:
    """Return the nodes that the flows' packets pass.

    In a star the other sites and their routers are left out.
    """
    crossed = {interface for interface in network.shaped if is_under_test(run, interface)}
    idle = {interface for interface in network.shaped if interface not in crossed}
    others = {node for interface in idle for node in (interface.node, *interface.hosts)}
    return set(network.nodes) - others | {interface.node for interface in crossed}


# -- the load, and what watches it


@dataclass
class LoadProbes:
    """The samplers and traces of a load. Use through `open_load_probes`."""

    queues: list[Interface]  # queues in which the flows' packets may wait
    probes: Probes
    acks: AckTrace | None  # None: not requested, or not available
    states: Spool  # states that the lab's congestion controls report
    clock: LatenessProbes | None  # None on the virtual clock, which is exact

    def begin(self) -> None:
        """Start all samplers, just before the load."""
        for sampler in (self.clock, self.acks, self.states, self.probes):
            if sampler is not None:
                sampler.start()

    def end(self) -> None:
        """End all samplers, just after the load.

        Raises the error of a sampler that failed.
        """
        for sampler in (self.clock, self.probes, self.states):
            if sampler is not None:
                sampler.end()


@contextmanager
def open_load_probes(
    network: Network, run: RunSpec, tunnel: Tunnel, folder: Path, paced: Sequence[Interface]
) -> Iterator[LoadProbes]:
    """Open all samplers of a load, and close them on leaving.

    `paced` holds the end hosts' NICs with fq.
    """
    queues = [interface for interface in network.shaped if is_under_test(run, interface)]
    queues += paced
    # The bottleneck is the device in whose queue the flows' data wait.
    bottleneck = next(
        queue
        for queue in queues
        if (queue.role, queue.direction) == ("bottleneck", run.data_direction)
    )
    with (
        tracing_acks(run, folder, tunnel) as acks,
        tracing_states(folder, run.congestion_controls, run.acks) as states,
        closing(Probes(run, network, tunnel, queues, folder, sample_s(run, acks))) as probes,
        open_lateness_probes(run, bottleneck.name, bottleneck.link) as clock,
    ):
        yield LoadProbes(queues, probes, acks, states, clock)


def apply_load(context: LoadContext, watches: LoadProbes) -> LoadResult:
    """Run the load between the samplers' first and last sample.

    Raises TunnelError or TrafficError.
    """
    tunnel = context.tunnel
    reset_virtual_clock(context.run.clock, context.run.seed)
    try:
        load = run_flows(context)
    except TrafficError:
        tunnel.ends.check_alive()  # a dead tunnel is the cause, and iperf3's error only the effect
        raise
    watches.end()
    tunnel.ends.check_alive()
    return load


@contextmanager
def record_tunnel_death(tunnel: Tunnel, checks: list[Check], folder: Path) -> Iterator[None]:
    """Write the verdict `invalid` if the tunnel dies under the load."""
    try:
        yield
    except TunnelError:
        all_checks = [*checks, *check_tunnel(tunnel)]
        if worst_verdict(all_checks) == "invalid":  # else the tunnel never carried anything
            write_json(folder / "fidelity.json", checks_json(all_checks))
        raise


def check_tunnel(tunnel: Tunnel) -> list[Check]:
    """Return the check that the tunnel is alive; none without a tunnel."""
    ends = {node: end.poll() for node, end in tunnel.ends.items()}
    return [fidelity.check_tunnel(ends)] if ends else []


def check_go_seed(run: RunSpec, program: TunnelBinary | None) -> list[Check]:
    """Return the check that another run through the tunnel would be equal.

    Empty if neither the clock nor the program makes that a question.
    """
    if program is None or run.clock != "virtual" or not tsc_trap.go_seeds_from_tsc(program.version):
        return []
    return [fidelity.check_go_seed(program.version, program.cycle_counter_at)]


def raise_file_limit() -> None:
    """Raise the limit of open files to the maximum: every flow has a process."""
    _, max_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))


def import_plugins() -> None:
    """Import all plugins and Mininet: an import during the run would take some of its time."""
    import mininet.net  # noqa: F401

    for declared in (topologies, qdisc_kinds, tunnel_kinds):
        declared()


def wait_for_orders(folder: Path, held_length: int) -> None:
    """Make a call that the host holds until it has put run.json and parts.json into FOLDER.

    gostlab.sandbox.held_syscall describes the call. It takes no time of the virtual clock. Where
    the kernel itself can make it, a copy of the guest may continue in its place, in another folder.
    """
    if HOLD.exists():
        with suppress(OSError):  # without seccomp it cannot
            HOLD.write_text(f"{held_length}", encoding="ascii")
            return
    file = folder / "held"
    file.touch()
    os.truncate(file, held_length)
    file.unlink()


def main(argv: list[str]) -> int:
    """Run the description in FOLDER; outcome.json has the result, not the exit status."""
    import_plugins()
    gc.freeze()
    gc.enable()  # guest_init.py has disabled it
    folder = Path(argv[1])
    read_constants()
    if is_own_root():
        make_namespaces_ahead(run_environ(PartsJson(path_dirs=[])))
    if len(argv) > 2:
        wait_for_orders(folder, int(argv[2]))
    run = RunSpec.from_json(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    parts = json.loads((folder / "parts.json").read_text(encoding="utf-8"))
    started = time.monotonic()
    raise_file_limit()

    outcome, message, cause = "ok", None, None
    try:
        check_virtual_clock(run)
        execute(run, folder, parts)
    except host_config.Unsupported as error:
        outcome, message = "unsupported", str(error)
    except (NetworkError, TunnelError, TrafficError) as error:
        outcome, message = "failed", str(error)
    except Exception as error:
        # A bug or a fault of the environment: the log has the traceback, the status one line.
        traceback.print_exc()
        outcome, cause = "failed", results.OWN_ERROR
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError):
            message = f"{error.filename or 'the run'}: {error.strerror or error}"
    guest_s = round(time.monotonic() - started, 3)
    ended = {"outcome": outcome, "error": message, "cause": cause, "guest_s": guest_s}
    write_json(folder / "outcome.json", ended)
    return 0 if outcome == "ok" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
