"""One run, from its description to its result folder, the same on any machine.

    python3 -m gostlab.guest.run FOLDER       FOLDER holds run.json and parts.json

It needs root in its own network namespaces and a kernel with sch_netem, and knows nothing of which
machine gave it those. How it ended goes to outcome.json, which whoever started it turns into
status.json.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gostlab import __version__, measures, results
from gostlab.ask import guards
from gostlab.ask.checks import Check, report, worst
from gostlab.ask.limits import DELAY_LIMIT_PKTS
from gostlab.ask.profile import lossless
from gostlab.ask.run_description import RunDescription
from gostlab.guest.hosts import (
    Unsupported,
    cc_of,
    check_cc_available,
    configure_hosts,
    set_tcp_memory,
    silence_ipv6,
)
from gostlab.guest.network import Interface, Network, NetworkError, lay_out, set_offloads
from gostlab.guest.shaping import (
    Shaper,
    idle_rtt_ms,
    jitter_range_ms,
    ping_rtts_ms,
    show_qdisc,
    under_test,
)
from gostlab.guest.traffic import FlowResult, Load, TrafficError, flows_json, run_flows
from gostlab.guest.tunnels import Tunnel, TunnelError, start_tunnel
from gostlab.guest.watch import fidelity
from gostlab.guest.watch.acks import AckTrace, ack_filter, keep_acks, sample_s, tracing_acks
from gostlab.guest.watch.probes import Probes, probing, rows_of
from gostlab.guest.watch.realclock import Watch, Watched, watching
from gostlab.setup.parts import TunnelBinary

SENDING_END = {"upload": "near", "download": "far"}


def execute(run: RunDescription, folder: Path, parts: Mapping[str, Any]) -> str:
    """Run it and write its folder, all but status.json; returns the verdict.

    Raises Unsupported, NetworkError, TunnelError, TrafficError or OSError.
    """
    binary = tunnel_binary(parts)
    environ = run_environ(parts)
    os.environ.update(environ)
    for cc in sorted({flow.cc for flow in run.flows if flow.cc}):
        check_cc_available(cc, run.machine)
    set_tcp_memory(run.tcp_memory_mib if run.machine == "sandbox" else None)
    checks: list[Check] = []
    with lay_out(run, folder, environ) as network:
        silence_ipv6(network)
        sysctls = configure_hosts(network, run)
        offloads = set_offloads(network, run.offloads, nodes_crossed(network, run))
        shaper = Shaper(network, run)
        qdiscs_before = shaper.install()
        checks += check_idle(network, run, shaper, "idle_rtt_before")
        for idle in checks:
            if idle.verdict == "invalid":
                raise NetworkError(
                    f"before the load, {idle.reason} ({idle.asked} ms asked, {idle.got} ms"
                    " measured)"
                )
        queues = [interface for interface in network.shaped if under_test(run, interface)]
        with (
            start_tunnel(network, run, binary, folder) as tunnel,
            tracing_acks(folder, run.acks) as trace,
            probing(network, tunnel, queues, folder, sample_s(run, trace)) as probes,
            watching(run, bottleneck_of(run, queues)) as watch,
        ):
            try:
                load, watched = put_load(
                    network, run, shaper, tunnel, probes, trace, watch, folder, parts
                )
            except TunnelError:
                checks += check_tunnel(tunnel)
                if worst(checks) == "invalid":  # else it never got so far as to carry anything
                    results.write_json(folder / "fidelity.json", report(checks))
                raise
            checks += check_tunnel(tunnel)
            legs = probes.legs({flow.name: SENDING_END[flow.direction] for flow in run.flows})
            acks = keep_acks(run, folder, tunnel, trace, load) if run.acks else None
        results.write_json(folder / "legs.json", legs)
        results.write_json(folder / "flows.json", flows_json(load.flows))
        checks += check_idle(network, run, shaper, "idle_rtt_after")
        qdiscs_after = {interface.name: show_qdisc(network, interface) for interface in queues}
    results.environment_file(
        folder,
        {
            **environment(run, binary, parts, sysctls, offloads, qdiscs_before, qdiscs_after),
            "acks": acks,
        },
    )
    checks += judge(run, folder, load, probes, legs, watched)
    results.write_json(folder / "fidelity.json", report(checks))
    return worst(checks)


def run_environ(parts: Mapping[str, Any]) -> dict[str, str]:
    """The environment of every command on a node: the lab's own iproute2 first."""
    environ = {
        "PATH": os.pathsep.join(
            [*parts["path_dirs"], os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")]
        ),
        "LC_ALL": "C.UTF-8",
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        "HOME": "/",
        "TERM": os.environ.get("TERM", "dumb"),
    }
    if parts.get("tc_lib_dir"):
        environ["TC_LIB_DIR"] = parts["tc_lib_dir"]
    return environ


def put_load(
    network: Network,
    run: RunDescription,
    shaper: Shaper,
    tunnel: Tunnel,
    probes: Probes,
    trace: AckTrace | None,
    watch: Watch | None,
    folder: Path,
    parts: Mapping[str, Any],
) -> tuple[Load, Watched | None]:
    """The load between the samplers' first and last sample, and what was watched meanwhile; the
    tunnel must outlive it.
    """

    def begin() -> None:
        if watch is not None:
            watch.start()
        if trace is not None:
            trace.start(ack_filter(run, tunnel))
        probes.begin()

    node_cc = {host: cc_of(run, host) for host in run.hosts}
    with tempfile.TemporaryDirectory(prefix="gostlab-") as scratch:
        Path(scratch).chmod(0o755)  # nginx's worker is another user
        try:
            load = run_flows(
                network,
                run,
                tunnel,
                folder,
                node_cc=node_cc,
                nginx=parts.get("nginx"),
                scratch=Path(scratch),
                begin=begin,
                watch=tunnel.check_alive,
                change=shaper.change,
            )
        except TrafficError:
            tunnel.check_alive()  # a dead tunnel is the cause, iperf3's words only the effect
            raise
    watched = watch.end() if watch is not None else None
    probes.end()
    tunnel.check_alive()
    return load, watched


def bottleneck_of(run: RunDescription, queues: Sequence[Interface]) -> str:
    """The device whose queue the flows' data wait in."""
    return next(
        interface.name
        for interface in queues
        if (interface.role, interface.direction) == ("bottleneck", run.data_direction)
    )


def nodes_crossed(network: Network, run: RunDescription) -> set[str]:
    """The nodes that the flows' packets pass: all but a star's other sites and their routers."""
    idle = {interface.node for interface in network.shaped if not under_test(run, interface)} - {
        "hub"
    }
    others = {str(interface.part) for interface in network.shaped if not under_test(run, interface)}
    return set(network.nodes) - idle - others


def check_idle(network: Network, run: RunDescription, shaper: Shaper, name: str) -> list[Check]:
    """Ping across the empty path of every flow. Raises NetworkError if nothing comes back."""
    checks, pinged = [], set()
    for flow in run.flows:
        if (flow.sender, flow.receiver) in pinged:
            continue
        pinged.add((flow.sender, flow.receiver))
        path = shaper.path_of_flow(flow)
        steady = all(lossless(way["loss"]) and not way["jitter_ms"] for way in path)
        # ARP crosses the delay line too: what is sent before it has answered waits for it.
        target = network.ip(flow.receiver)
        ping_rtts_ms(network, flow.sender, target, count=2 if steady else 8)
        rtts = ping_rtts_ms(network, flow.sender, target, count=2 if steady else 12)
        own_name = (
            f"{name}_{flow.name}"
            if pinged - {(run.flows[0].sender, run.flows[0].receiver)}
            else name
        )
        checks.append(
            fidelity.check_idle_rtt(
                own_name,
                idle_rtt_ms(path),
                rtts,
                jitter_ms=jitter_range_ms(path),
                clock=run.clock,
                syscall_cost_us=run.syscall_cost_us,
            )
        )
    return checks


def check_tunnel(tunnel: Tunnel) -> list[Check]:
    """Whether the tunnel is alive; nothing where there is none."""
    return (
        [fidelity.check_tunnel({node: process.poll() for node, process in tunnel.ends.items()})]
        if tunnel.ends
        else []
    )


def judge(
    run: RunDescription,
    folder: Path,
    load: Load,
    probes: Probes,
    legs: Mapping[str, Any],
    watched: Watched | None,
) -> list[Check]:
    """The checks that need the whole run."""
    data = run.data_direction
    samples = rows_of(folder, "queues")
    queues = {row["dev"]: row for row in samples}
    rate_bps = max(
        [
            run.path[data]["rate_bps"] or 0,
            *(change.get("rate_bps", 0) for change in run.changes if change["direction"] == data),
        ]
    )
    return [
        *fidelity.check_cc(legs["legs"], run),
        check_tcp_memory(probes, legs),
        check_cpu(run, folder),
        fidelity.check_length(run, load.ended_s - load.started_s, load.flows),
        fidelity.check_rate(
            sum(8 * flow.bytes for flow in load.flows), rate_bps, load.ended_s - load.started_s
        ),
        *fidelity.check_offered(run, load.flows, idle_shares(load.flows, rows_of(folder, "hosts"))),
        *fidelity.check_drops(queues.values(), run),
        *fidelity.check_delay_line(samples, DELAY_LIMIT_PKTS),
        *(
            fidelity.check_virtual_clock()
            if watched is None
            else [
                fidelity.check_ticker(watched.late_ms),
                fidelity.check_sampler(probes.lateness_ms),
                fidelity.check_sampler_gap(probes.interval_s, probes.longest_gap_s),
                *fidelity.check_departures(watched.gaps),
            ]
        ),
        *guards.checks(run),
    ]


def check_cpu(run: RunDescription, folder: Path) -> Check:
    """The CPU's idle share and the bottleneck's use in the median second of the load: an average
    would count the time that iperf3 takes to open its streams over a long path and to drain them,
    when everything is idle.
    """
    idle = median_share(rows_of(folder, "hosts"), "cpu_idle_s")
    used = measures.bottleneck_used(run.to_json(), rows_of(folder, "queues"))
    return fidelity.check_cpu(1.0 if idle is None else min(1.0, idle), used, run.clock)


def idle_shares(flows: Sequence[FlowResult], rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """The CPU's idle share while each flow ran; None where fewer than two samples fall into it."""
    return {
        flow.name: median_share(
            [row for row in rows if flow.started_s <= row["t_s"] <= flow.ended_s], "cpu_idle_s"
        )
        for flow in flows
    }


def median_share(rows: list[dict[str, Any]], counter: str) -> float | None:
    """How much a counter grows per second, in the median interval between samples; None without two
    samples.
    """
    growth = [
        (after[counter] - before[counter]) / (after["t_s"] - before["t_s"])
        for before, after in itertools.pairwise(rows)
        if after["t_s"] > before["t_s"]
    ]
    return statistics.median(growth) if growth else None


def check_tcp_memory(probes: Probes, legs: Mapping[str, Any]) -> Check:
    """The peak of TCP's memory against the kernel's first threshold."""
    page_mib = os.sysconf("SC_PAGE_SIZE") / 2**20
    low_pages = int(Path("/proc/sys/net/ipv4/tcp_mem").read_text(encoding="ascii").split()[0])
    return fidelity.check_tcp_memory(
        probes.tcp_memory_peak_pages * page_mib, low_pages * page_mib, legs["nstat"]
    )


def tunnel_binary(parts: Mapping[str, Any]) -> TunnelBinary | None:
    """The tunnel's program as the machine handed it over."""
    found = parts.get("tunnel")
    return (
        None
        if found is None
        else TunnelBinary(Path(found["path"]), found["kind"], found["version"], found["sha256"])
    )


def environment(
    run: RunDescription,
    binary: TunnelBinary | None,
    parts: Mapping[str, Any],
    sysctls: Mapping[str, Any],
    offloads: Mapping[str, Any],
    qdiscs_before: Mapping[str, str],
    qdiscs_after: Mapping[str, str],
) -> dict[str, Any]:
    """What produced the numbers."""
    from mininet.net import VERSION as mininet_version

    return {
        "lab": {
            "version": __version__,
            "commit": json.loads(os.environ.get("GOSTLAB_COMMIT", "null")),
        },
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "hz": kernel_hz(),
        "machine": run.machine,
        "clock": run.clock,
        "syscall_cost_us": installed_syscall_cost_us(),
        "cc": {node: values["net.ipv4.tcp_congestion_control"] for node, values in sysctls.items()},
        "iproute2": said(["ip", "-V"]).removeprefix("ip utility, iproute2-").split(",")[0],
        "iperf3": said(["iperf3", "--version"]).split()[1],
        "mininet": mininet_version,
        "python": platform.python_version(),
        **(
            {
                program: said(
                    [parts.get(program) or program, "--version" if program == "wget" else "-v"]
                )
                for program in ("nginx", "wget")
            }
            if any(flow.kind == "http" for flow in run.flows)
            else {}
        ),
        "tunnel": (
            None
            if run.tunnel == "direct" or binary is None
            else {
                "kind": binary.kind,
                "version": binary.version,
                "path": str(binary.path),
                "sha256": binary.sha256,
            }
        ),
        "tcp_mem_pages": Path("/proc/sys/net/ipv4/tcp_mem").read_text(encoding="ascii").split(),
        "sysctls": sysctls,
        "offloads": offloads,
        "qdiscs_before": qdiscs_before,
        "qdiscs_after": qdiscs_after,
        "host": (
            json.loads(os.environ.get("GOSTLAB_HOST", "null")) or {"kernel": platform.release()}
        ),
    }


def said(argv: list[str]) -> str:
    """The first line a command prints. Raises NetworkError if it cannot be run."""
    try:
        out = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        ).stdout
    except OSError as error:
        raise NetworkError(f"{argv[0]}: {error.strerror}: run ./lab setup") from error
    return out.strip().splitlines()[0] if out.strip() else ""


def installed_syscall_cost_us() -> float | None:
    """What the kernel says a system call costs on the virtual clock; None where it knows no such
    thing.
    """
    try:
        return (
            int(Path("/sys/module/kernel/parameters/tt_syscall_ns").read_text(encoding="ascii"))
            / 1000
        )
    except OSError:
        return None


def kernel_hz() -> int | None:
    """CONFIG_HZ from /proc/config.gz or /boot; None where neither is there."""
    import gzip

    for path in (Path("/proc/config.gz"), Path(f"/boot/config-{platform.release()}")):
        try:
            text = (
                gzip.decompress(path.read_bytes()).decode()
                if path.suffix == ".gz"
                else path.read_text()
            )
        except (OSError, ValueError):
            continue
        for line in text.splitlines():
            if line.startswith("CONFIG_HZ="):
                return int(line.partition("=")[2])
    return None


def main(argv: list[str]) -> int:
    """Run what FOLDER describes; the exit status says little, outcome.json says all."""
    folder = Path(argv[1])
    run = RunDescription.from_json(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    parts = json.loads((folder / "parts.json").read_text(encoding="utf-8"))
    started = time.monotonic()

    def finish(outcome: str, error: str | None, cause: str | None = None) -> int:
        results.write_json(
            folder / "outcome.json",
            {
                "outcome": outcome,
                "error": error,
                "cause": cause,
                "guest_s": round(time.monotonic() - started, 3),
            },
        )
        return 0 if outcome == "ok" else 1

    def finish_by_own_error(words: str) -> int:
        """A bug or a fault of the environment: the log has the whole of it, the status a line."""
        traceback.print_exc()
        return finish("failed", words, results.OWN_ERROR)

    try:
        if (
            run.machine == "sandbox"
            and run.clock == "virtual"
            and installed_syscall_cost_us() != run.syscall_cost_us
        ):
            raise NetworkError(
                f"system-call cost: asked for {run.syscall_cost_us} us, the kernel has "
                f"{installed_syscall_cost_us()} us"
            )
        execute(run, folder, parts)
    except Unsupported as error:
        return finish("unsupported", str(error))
    except (NetworkError, TunnelError, TrafficError) as error:
        return finish("failed", str(error))
    except OSError as error:
        return finish_by_own_error(f"{error.filename or 'the run'}: {error.strerror or error}")
    except Exception as error:
        return finish_by_own_error(f"{type(error).__name__}: {error}")
    return finish("ok", None)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
