"""Generate the load: every flow of a run by its program, each report saved unchanged.

Servers listen before the load begins; with several flows, iperf3's connections are made by then,
too. Then a timeline starts each flow and changes the path at their instants. Times are from the
start of the load, and the actual instants are recorded.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO

from gostlab.guest.flow_result import MAX_FILE_MIB, FlowResult, TrafficError
from gostlab.guest.iperf3_hold import HeldServer, can_hold
from gostlab.guest.load_context import LoadContext
from gostlab.guest.network import BackgroundCommand
from gostlab.guest.timerfd import TimerFd
from gostlab.guest.traffic_plugins import (
    failure_of,
    has_no_results,
    last_output_line,
    measured_rows,
    report_name,
    result_of,
    traffic_plugin,
)
from gostlab.guest.tunnel_context import (
    listening_ports,
    sink_ports,
    stop_process,
    wait_until_listening,
)
from gostlab.spec.flow import FlowSpec
from gostlab.spec.path_spec import ChangeSpec
from gostlab.spec.run_spec import RunSpec

# Time that iperf3 may take beyond its load, on the run's clock: it connects n streams, and drains
# its queue at the end, over a path that may be long.
GRACE_S, GRACE_ROUND_TRIPS = 60.0, 10
# Time that a server may take to write its report after all clients have theirs.
SERVER_PATIENCE_S = 10.0
SHELL_SIGNALLED = 128  # a shell adds this to the number of the signal that ended its command


@dataclass(frozen=True)
class LoadResult:
    """The time of the load on the run's monotonic clock, and the result of each flow."""

    started_s: float
    ended_s: float
    flows: tuple[FlowResult, ...]


def run_flows(context: LoadContext) -> LoadResult:
    """Start every sink, wait until all listen, then follow the timeline to its end.

    Writes each flow's own report. Raises TrafficError, TunnelError.
    """
    network, run = context.network, context.run
    with ExitStack() as undo:
        servers = start_servers(context, undo)
        held = connect_all(context, servers, undo)
        if not held:
            context.begin()
        network.log.record_load_begin()
        with (context.folder / "changes.jsonl").open("w", encoding="utf-8") as log:
            timeline = Timeline(context, undo, log, held, servers)
            timeline.follow()
        ended_s = time.monotonic()
        network.log.record_load_end(
            {flow.name: (flow.traffic_type, report_name(run, flow)) for flow in run.flows}
        )
        for flow in run.flows:
            # The server is stopped on leaving; the client's report is complete.
            if flow.traffic.server_ends:
                with suppress(subprocess.TimeoutExpired):
                    servers[flow.name].wait(SERVER_PATIENCE_S)
    results = tuple(
        result_of(flow, context.folder / report_name(run, flow), timeline.ends[flow.name])
        for flow in run.flows
    )
    measured: dict[str, list[dict[str, float | str | None]]] = {}
    for flow, result in zip(run.flows, results, strict=True):
        if name := flow.traffic.rows:
            rows = measured_rows(result, context.folder / report_name(run, flow))
            measured.setdefault(name, []).extend(rows)
    for name, rows in measured.items():
        lines = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
        (context.folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return LoadResult(timeline.started_s, ended_s, results)


# -- sinks


def start_servers(context: LoadContext, undo: ExitStack) -> dict[str, subprocess.Popen[bytes]]:
    """Start every flow's sink or web server, and return them by flow.

    All of them listen then. `undo` stops them. Raises TrafficError.
    """
    ports = sink_ports(context.run)
    servers = {}
    for flow in context.run.flows:
        servers[flow.name] = start_server(context, flow, ports[flow.name])
        undo.callback(stop_process, servers[flow.name])
    # A udp test begins with a TCP connection to the same port.
    for host in dict.fromkeys(flow.receiver for flow in context.run.flows):
        for protocol in ("tcp", "udp"):
            open_ports = [
                ports[flow.name]
                for flow in context.run.flows
                if flow.receiver == host
                and context.protocol_of(flow) == protocol
                and not flow.traffic.is_counted
            ]
            wait_until_listening(context.network, host, *open_ports, protocol=protocol)
    for flow in context.run.flows:
        if flow.traffic.is_counted:
            wait_for_command(context, flow, ports[flow.name], servers[flow.name])
    return servers


def wait_for_command(
    context: LoadContext, flow: FlowSpec, port: int, server: subprocess.Popen[bytes]
) -> None:
    """Wait until a user's server listens, by TCP or UDP. Raises TrafficError."""
    until_s = time.monotonic() + SERVER_PATIENCE_S
    while True:
        for protocol in ("tcp", "udp"):
            if port in listening_ports(context.network, flow.receiver, protocol):
                context.network.log.listening(flow.receiver, protocol, port)
                return
        ended = server.poll()
        if ended is not None or time.monotonic() > until_s:
            state = (
                f"its server {describe_exit(ended)}"
                if ended is not None
                else "its server still runs"
            )
            output = last_output_line(context.folder / server_report(flow))
            raise TrafficError(
                f"{flow.name}: nothing listens on port {port} ($PORT) of {flow.receiver}: {state}:"
                f" {output}"
            )
        time.sleep(0.02)


def describe_exit(status: int) -> str:
    """Describe how a user's program ended."""
    if status in (-signal.SIGXFSZ, SHELL_SIGNALLED + signal.SIGXFSZ):
        return f"wrote a file of more than {MAX_FILE_MIB} MiB"
    if status < 0 or status > SHELL_SIGNALLED:
        number = -status if status < 0 else status - SHELL_SIGNALLED
        return f"was ended by signal {number}"
    return f"ended with exit status {status}"


def start_server(context: LoadContext, flow: FlowSpec, port: int) -> subprocess.Popen[bytes]:
    """Start one flow's sink. Raises TrafficError."""
    declaration = flow.traffic
    argv = traffic_plugin(declaration).server_command(context, flow, port)
    name = (
        report_name(context.run, flow, "-server") if declaration.by_iperf3 else server_report(flow)
    )
    return context.start(
        BackgroundCommand(flow.receiver, argv, name, charged_program(flow, asks=False))
    )


def server_report(flow: FlowSpec) -> str:
    """Return the name of the output file of a flow's server, if it is not iperf3."""
    declaration = flow.traffic
    return f"{'nginx' if declaration.by_nginx else declaration.name + '-server'}-{flow.name}.log"


# -- flows and changes, in the order of time


def charged_program(flow: FlowSpec, *, asks: bool) -> str:
    """Return the name of the program whose system-call costs an end of a flow pays.

    `asks` selects the client, else the server.
    """
    sends = asks == (flow.direction == "upload")
    return flow.traffic.charged[0 if sends else 1]


@dataclass(frozen=True)
class ConnectedFlow:
    """A flow whose connections are made, and whose server is held."""

    client: subprocess.Popen[bytes]
    server: HeldServer
    lead_s: float  # delay from the server's release until the client has its message


def connect_all(
    context: LoadContext, servers: Mapping[str, subprocess.Popen[bytes]], undo: ExitStack
) -> dict[str, ConnectedFlow]:
    """Connect and hold iperf3's flows, and return them by name, if a run has several.

    Flows that connect at their start are left out. Returns {} for a single flow, or if servers
    cannot be held. Raises TrafficError.
    """
    flows = [flow for flow in context.run.flows if flow.traffic.by_iperf3]
    if len(flows) < 2 or not can_hold():
        return {}
    flows = [flow for flow in flows if not flow.connects_at_start]
    connections = {}
    for flow in flows:
        held = HeldServer.seize(servers[flow.name].pid, flow.streams, by_datagrams=not flow.is_tcp)
        undo.callback(held.release)
        client = context.start(client_of(context, flow), recorded=False)
        undo.callback(stop_process, client)
        connections[flow.name] = ConnectedFlow(
            client, held, start_message_delay_s(context.run, flow)
        )
    for flow in flows:
        # A server accepts its connections from here on, so each flow has its own time limit.
        until_s = time.monotonic() + grace_s(context.run, flow)
        check = partial(check_connecting, context, flow, connections[flow.name].client, until_s)
        try:
            connections[flow.name].server.hold(check)
        except ProcessLookupError as error:
            raise TrafficError(failure_of(context.run, flow, context.folder)) from error
    return connections


def check_connecting(
    context: LoadContext, flow: FlowSpec, client: subprocess.Popen[bytes], until_s: float
) -> None:
    """Raise TrafficError if a flow's client or its time to connect has ended."""
    context.tunnel.ends.check_alive()
    if client.poll() is not None:
        raise TrafficError(failure_of(context.run, flow, context.folder))
    if time.monotonic() > until_s:
        waited_s = grace_s(context.run, flow)
        raise TrafficError(f"{flow.name}: iperf3 did not connect within {waited_s:.0f} s")


def grace_s(run: RunSpec, flow: FlowSpec) -> float:
    """Return how much longer than its load a flow's iperf3 may take."""
    return GRACE_S + GRACE_ROUND_TRIPS * run.longest_rtt_s(flow)


def start_message_delay_s(run: RunSpec, flow: FlowSpec) -> float:
    """Return the time that a server's start message takes to a client that sends."""
    if flow.direction == "download":
        return 0.0
    paths = run.paths_of(flow)
    forward_ms = sum(path.forward.delay_ms for path in paths)
    reverse_ms = sum(path.reverse.delay_ms for path in paths)
    return (
        flow.rtt_ms * reverse_ms / (forward_ms + reverse_ms) / 1000
        if forward_ms + reverse_ms
        else 0.0
    )


def client_of(context: LoadContext, flow: FlowSpec) -> BackgroundCommand:
    """Return the command of a flow's client."""
    argv, report = (
        traffic_plugin(flow.traffic).client_command(context, flow),
        report_name(context.run, flow),
    )
    return BackgroundCommand(
        flow.sender, argv, report, charged_program(flow, asks=True), flow=flow.name
    )


@dataclass(frozen=True)
class ActiveFlow:
    """A flow that runs. Times are seconds from the start of the load."""

    flow: FlowSpec
    process: subprocess.Popen[bytes]
    ending: int  # file descriptor that becomes readable when the process ends
    started_s: float
    overdue_s: float  # instant from which the flow has taken too long


class Timeline:
    """The timeline of a load: starts flows and changes the path until all flows are over."""

    def __init__(
        self,
        context: LoadContext,
        undo: ExitStack,
        log: IO[str],
        held: Mapping[str, ConnectedFlow] = {},
        servers: Mapping[str, subprocess.Popen[bytes]] = {},
    ) -> None:
        self._context = context
        self._servers = servers
        self._undo = undo
        self._log = log
        self._held = held
        run = context.run
        self._begins_s = {
            flow.name: flow.start_s + run.start_offset_s(flow.name) for flow in run.flows
        }
        # Each flow is due at its start, earlier by the time that its server's start message takes
        # to the client.
        self._due_s = {
            name: begin_s - (held[name].lead_s if name in held else 0.0)
            for name, begin_s in self._begins_s.items()
        }
        self._waiting = sorted(run.flows, key=lambda flow: self._due_s[flow.name])
        self._changes = list(context.run.changes)
        self._active: dict[int, ActiveFlow] = {}  # active flows by `ending`
        self._endings = select.poll()
        self._alarm = TimerFd()
        undo.callback(self._alarm.close)
        self._endings.register(self._alarm.descriptor, select.POLLIN)
        for process in (*context.tunnel.ends.values(), *servers.values()):
            if process.poll() is None:
                self._watch(process.pid)
        # Start and end of each flow, seconds from the start of the load.
        self.ends: dict[str, tuple[float, float]] = {}
        self._to_begin = [context.begin] if held else []
        early_s = max(0.0, -min(self._due_s.values())) if held else 0.0
        self.started_s = time.monotonic() + early_s

    @property
    def now_s(self) -> float:
        """Return the seconds from the start of the load."""
        return time.monotonic() - self.started_s

    def follow(self) -> None:
        """Follow the timeline until all flows are over.

        Raises TrafficError with the flow that failed or did not end, or TunnelError.
        """
        while self._waiting or self._active:
            now_s = self.now_s
            if self._to_begin and now_s >= 0:
                self._to_begin.pop()()
            while self._waiting and self._due_s[self._waiting[0].name] <= now_s:
                self._begin(self._waiting.pop(0))
            while self._changes and self._changes[0].at_s <= now_s:
                self._change(self._changes.pop(0))
            self._context.tunnel.ends.check_alive()
            for active in self._ended():
                self._record_end(active)
            self._check_overdue()

    def _begin(self, flow: FlowSpec) -> None:
        """Start a flow's client, or release its server; `undo` stops the client."""
        context, begin_s = self._context, self._begins_s[flow.name]
        context.network.log.at(begin_s)
        if held := self._held.get(flow.name):
            context.network.record(client_of(context, flow))
            held.server.release()
            process, started_s = held.client, begin_s
        else:
            process = context.start(client_of(context, flow))
            self._undo.callback(stop_process, process)
            started_s = self.now_s
        ending = self._watch(process.pid)
        # An http flow's duration is its maximum.
        max_s = flow.duration_s + (0.0 if flow.traffic.until_done else grace_s(context.run, flow))
        self._active[ending] = ActiveFlow(flow, process, ending, started_s, started_s + max_s)

    def _watch(self, pid: int) -> int:
        """Return a file descriptor that becomes readable, and wakes, when a process ends."""
        ending = os.pidfd_open(pid)
        self._undo.callback(os.close, ending)
        self._endings.register(ending, select.POLLIN)
        return ending

    def _change(self, change: ChangeSpec) -> None:
        """Apply a change of the path, and record a row for every device that took it."""
        self._context.network.log.at(change.at_s)
        when = {"at_s": change.at_s, "applied_s": round(self.now_s, 6)}
        for changed in self._context.change(change):
            line = {**when, "direction": change.direction, **changed.to_json()}
            self._log.write(json.dumps(line, sort_keys=True) + "\n")

    def _ended(self) -> list[ActiveFlow]:
        """Return the flows that have ended, each known to the instant.

        Waits until the next flow or change is due, a process ends, or a flow is overdue.
        """
        due_s = [self._due_s[flow.name] for flow in self._waiting[:1]]
        due_s += [0.0 for _ in self._to_begin]
        due_s += [change.at_s for change in self._changes[:1]]
        due_s += [active.overdue_s for active in self._active.values()]
        self._alarm.set([self.started_s + instant for instant in due_s])
        readable = [descriptor for descriptor, _ in self._endings.poll()]
        for ended in readable:  # each wakes once
            if ended != self._alarm.descriptor:
                self._endings.unregister(ended)
        return [self._active[ended] for ended in readable if ended in self._active]

    def _record_end(self, active: ActiveFlow) -> None:
        """Record the end of a flow. Raises TrafficError if it failed."""
        del self._active[active.ending]
        flow = active.flow
        self.ends[flow.name] = active.started_s, self.now_s
        status = active.process.wait()
        report = self._context.folder / report_name(self._context.run, flow)
        if status and flow.traffic.is_counted:
            output = last_output_line(report)
            raise TrafficError(f"{flow.name}: its client {describe_exit(status)}: {output}")
        if status and not has_no_results(flow.traffic, report):
            raise TrafficError(failure_of(self._context.run, flow, self._context.folder))

    def _check_overdue(self) -> None:
        """Raise TrafficError if a flow is overdue, or if a user's server failed."""
        now_s = self.now_s
        for active in self._active.values():
            flow = active.flow
            failed = flow.traffic.is_counted and self._servers[flow.name].poll()
            if failed:
                output = last_output_line(self._context.folder / server_report(flow))
                raise TrafficError(
                    f"{flow.name}: its server {describe_exit(failed)} while its client ran:"
                    f" {output}"
                )
            if now_s > active.overdue_s:
                raise TrafficError(
                    f"{flow.name} ({flow.traffic_type}) did not end within"
                    f" {now_s - active.started_s:.0f} s of the run's clock"
                )
