"""The load: every flow of a run by iperf3 or by wget from nginx, each report kept as it came.

Servers listen before the load begins; of several flows iperf3's connections are made by then, too.
Then a timeline starts each flow at its instant and changes the path at its own; both are measured
from the start of the load, and what was really done when is written down.
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
from typing import IO, Any

from gostlab.guest.alarm import Alarm
from gostlab.guest.flow_result import MAX_FILE_MIB, FlowResult, TrafficError
from gostlab.guest.iperf3_barrier import HeldServer, can_hold
from gostlab.guest.load_context import LoadContext
from gostlab.guest.network import Command
from gostlab.guest.traffic_plugins import (
    carrier,
    failure_of,
    has_no_results,
    last_said,
    measured_rows,
    report_name,
    result_of,
)
from gostlab.guest.tunnel_context import listening_ports, sink_ports, stop, wait_until_listening
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec

# How much longer than its load iperf3 may take, on the run's clock: connecting n streams, and
# draining what is queued when the time is up; and that over a long path.
GRACE_S, GRACE_ROUND_TRIPS = 60.0, 10
POLL_S = 0.1
# How long a server may take to write its own report once all clients have theirs.
SERVER_PATIENCE_S = 10.0
SHELL_SIGNALLED = 128  # what a shell adds to the signal that ended its command


@dataclass(frozen=True)
class LoadResult:
    """When the load ran, on the run's monotonic clock, and what each flow did."""

    started_s: float
    ended_s: float
    flows: tuple[FlowResult, ...]


def run_flows(order: LoadContext) -> LoadResult:
    """Start every sink, wait until all listen, then follow the timeline to its end.

    Writes each flow's own report. Raises TrafficError, TunnelError.
    """
    network, run = order.network, order.run
    with ExitStack() as undo:
        servers = start_servers(order, undo)
        held = connect_all(order, servers, undo)
        if not held:
            order.begin()
        network.log.load_begins()
        with (order.folder / "changes.jsonl").open("w", encoding="utf-8") as log:
            timeline = Timeline(order, undo, log, held, servers)
            timeline.follow()
        ended_s = time.monotonic()
        network.log.load_ends(
            {flow.name: (flow.kind, report_name(run, flow)) for flow in run.flows}
        )
        for flow in run.flows:
            # It is stopped on leaving; the client's report is complete.
            if flow.traffic.server_ends:
                with suppress(subprocess.TimeoutExpired):
                    servers[flow.name].wait(SERVER_PATIENCE_S)
    results = tuple(
        result_of(flow, order.folder / report_name(run, flow), timeline.ends[flow.name])
        for flow in run.flows
    )
    measured: dict[str, list[dict[str, Any]]] = {}
    for flow, result in zip(run.flows, results, strict=True):
        if name := flow.traffic.rows:
            rows = measured_rows(result, order.folder / report_name(run, flow))
            measured.setdefault(name, []).extend(rows)
    for name, rows in measured.items():
        lines = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
        (order.folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return LoadResult(timeline.started_s, ended_s, results)


# -- sinks


def start_servers(order: LoadContext, undo: ExitStack) -> dict[str, subprocess.Popen[bytes]]:
    """Every flow's sink, or the web server it fetches from, by its flow; stopped by `undo`. All
    listen then. Raises TrafficError.
    """
    ports = sink_ports(order.run)
    servers = {}
    for flow in order.run.flows:
        servers[flow.name] = start_server(order, flow, ports[flow.name])
        undo.callback(stop, servers[flow.name])
    # A udp test begins with a TCP connection to the same port.
    for host in dict.fromkeys(flow.receiver for flow in order.run.flows):
        for protocol in ("tcp", "udp"):
            its = [
                ports[flow.name]
                for flow in order.run.flows
                if flow.receiver == host
                and order.protocol_of(flow) == protocol
                and not flow.traffic.is_counted
            ]
            wait_until_listening(order.network, host, *its, protocol=protocol)
    for flow in order.run.flows:
        if flow.traffic.is_counted:
            wait_for_command(order, flow, ports[flow.name], servers[flow.name])
    return servers


def wait_for_command(
    order: LoadContext, flow: FlowSpec, port: int, server: subprocess.Popen[bytes]
) -> None:
    """Wait until a user's own server listens, by TCP or UDP. Raises TrafficError."""
    until_s = time.monotonic() + SERVER_PATIENCE_S
    while True:
        for protocol in ("tcp", "udp"):
            if port in listening_ports(order.network, flow.receiver, protocol):
                order.network.log.listening(flow.receiver, protocol, port)
                return
        ended = server.poll()
        if ended is not None or time.monotonic() > until_s:
            how = f"its server {ending_of(ended)}" if ended is not None else "its server still runs"
            said = last_said(order.folder / server_report(flow))
            raise TrafficError(
                f"{flow.name}: nothing listens on port {port} ($PORT) of {flow.receiver}: {how}:"
                f" {said}"
            )
        time.sleep(0.02)


def ending_of(status: int) -> str:
    """How a user's own program ended."""
    if status in (-signal.SIGXFSZ, SHELL_SIGNALLED + signal.SIGXFSZ):
        return f"wrote a file of more than {MAX_FILE_MIB} MiB"
    if status < 0 or status > SHELL_SIGNALLED:
        number = -status if status < 0 else status - SHELL_SIGNALLED
        return f"was ended by signal {number}"
    return f"ended with exit status {status}"


def start_server(order: LoadContext, flow: FlowSpec, port: int) -> subprocess.Popen[bytes]:
    """One flow's sink. Raises TrafficError."""
    kind = flow.traffic
    argv = carrier(kind).serve(order, flow, port)
    name = report_name(order.run, flow, "-server") if kind.by_iperf3 else server_report(flow)
    return order.start(Command(flow.receiver, argv, name, charged_as(flow, asks=False)))


def server_report(flow: FlowSpec) -> str:
    """Where what serves a flow writes, where that is not iperf3."""
    kind = flow.traffic
    return f"{'nginx' if kind.by_nginx else kind.name + '-server'}-{flow.name}.log"


# -- flows and changes, in the order of time


def charged_as(flow: FlowSpec, *, asks: bool) -> str:
    """Under which name one end of a flow, the one that asks or the one that serves, pays for its
    calls.
    """
    sends = asks == (flow.direction == "upload")
    return flow.traffic.charged[0 if sends else 1]


@dataclass(frozen=True)
class Connected:
    """A flow whose connections are made, and whose server is held."""

    client: subprocess.Popen[bytes]
    server: HeldServer
    lead_s: float  # how long after the server's release the client has its word


def connect_all(
    order: LoadContext, servers: Mapping[str, subprocess.Popen[bytes]], undo: ExitStack
) -> dict[str, Connected]:
    """iperf3's flows by name, connected and held, where a run has several, but for those that
    connect at their start; {} where it has one, or where servers cannot be held. Raises
    TrafficError.
    """
    flows = [flow for flow in order.run.flows if flow.traffic.by_iperf3]
    if len(flows) < 2 or not can_hold():
        return {}
    flows = [flow for flow in flows if not flow.connects_at_start]
    found = {}
    for flow in flows:
        held = HeldServer.seize(servers[flow.name].pid, flow.streams, by_datagrams=not flow.is_tcp)
        undo.callback(held.release)
        client = order.start(client_of(order, flow), recorded=False)
        undo.callback(stop, client)
        found[flow.name] = Connected(client, held, lead_s(order.run, flow))
    for flow in flows:
        # A server takes its connections from here on, so each flow has a time of its own.
        until_s = time.monotonic() + grace_s(order.run, flow)
        check = partial(check_connecting, order, flow, found[flow.name].client, until_s)
        try:
            found[flow.name].server.hold(check)
        except ProcessLookupError as error:
            raise TrafficError(failure_of(order.run, flow, order.folder)) from error
    return found


def check_connecting(
    order: LoadContext, flow: FlowSpec, client: subprocess.Popen[bytes], until_s: float
) -> None:
    """Raises TrafficError where a flow's client has ended, or its time to connect has."""
    order.tunnel.ends.check_alive()
    if client.poll() is not None:
        raise TrafficError(failure_of(order.run, flow, order.folder))
    if time.monotonic() > until_s:
        waited_s = grace_s(order.run, flow)
        raise TrafficError(f"{flow.name}: iperf3 did not connect within {waited_s:.0f} s")


def grace_s(run: RunSpec, flow: FlowSpec) -> float:
    """Return how much longer than its load a flow's iperf3 may take."""
    return GRACE_S + GRACE_ROUND_TRIPS * run.longest_rtt_s(flow)


def lead_s(run: RunSpec, flow: FlowSpec) -> float:
    """How long a server's word to begin is on its way to a client that sends."""
    if flow.direction == "download":
        return 0.0
    ways = [
        (path["forward"]["delay_ms"], path["reverse"]["delay_ms"]) for path in run.paths_of(flow)
    ]
    forth, back = map(sum, zip(*ways, strict=True))
    return flow.rtt_ms * back / (forth + back) / 1000 if forth + back else 0.0


def client_of(order: LoadContext, flow: FlowSpec) -> Command:
    """A flow's client."""
    argv, report = carrier(flow.traffic).ask(order, flow), report_name(order.run, flow)
    return Command(flow.sender, argv, report, charged_as(flow, asks=True), flow=flow.name)


@dataclass(frozen=True)
class ActiveFlow:
    """A flow that runs. Times are seconds from the start of the load."""

    flow: FlowSpec
    process: subprocess.Popen[bytes]
    ending: int  # a file descriptor that becomes readable when the process ends
    started_s: float
    overdue_s: float  # when it has taken too long


class Timeline:
    """Starts flows and changes the path at their instants, until all flows are over."""

    def __init__(
        self,
        order: LoadContext,
        undo: ExitStack,
        log: IO[str],
        held: Mapping[str, Connected] = {},
        servers: Mapping[str, subprocess.Popen[bytes]] = {},
    ) -> None:
        self._order = order
        self._servers = servers
        self._undo = undo
        self._log = log
        self._held = held
        run = order.run
        self._begins_s = {
            flow.name: flow.start_s + run.start_offset_s(flow.name) for flow in run.flows
        }
        # When each flow is seen to: its server's word to begin takes its time to the client.
        self._due_s = {
            name: begin_s - (held[name].lead_s if name in held else 0.0)
            for name, begin_s in self._begins_s.items()
        }
        self._waiting = sorted(run.flows, key=lambda flow: self._due_s[flow.name])
        self._changes = list(order.run.changes)
        self._active: dict[int, ActiveFlow] = {}  # by `ending`
        self._endings = select.poll()
        self._alarm = Alarm()
        undo.callback(self._alarm.close)
        self._endings.register(self._alarm.descriptor, select.POLLIN)
        # When each flow began and ended, seconds from the start of the load.
        self.ends: dict[str, tuple[float, float]] = {}
        self._to_begin = [order.begin] if held else []
        early_s = max(0.0, -min(self._due_s.values())) if held else 0.0
        self.started_s = time.monotonic() + early_s

    @property
    def now_s(self) -> float:
        """Seconds from the start of the load."""
        return time.monotonic() - self.started_s

    def follow(self) -> None:
        """Raises TrafficError naming the flow that failed or did not end, TunnelError."""
        while self._waiting or self._active:
            now_s = self.now_s
            if self._to_begin and now_s >= 0:
                self._to_begin.pop()()
            while self._waiting and self._due_s[self._waiting[0].name] <= now_s:
                self._begin(self._waiting.pop(0))
            while self._changes and self._changes[0]["at_s"] <= now_s:
                self._change(self._changes.pop(0))
            self._order.tunnel.ends.check_alive()
            for active in self._ended():
                self._note_end(active)
            self._look_for_overdue()

    def _begin(self, flow: FlowSpec) -> None:
        """Start a flow's client, or let its server go; the client is stopped by `undo`."""
        order, begin_s = self._order, self._begins_s[flow.name]
        order.network.log.at(begin_s)
        if held := self._held.get(flow.name):
            order.network.record(client_of(order, flow))
            held.server.release()
            process, started_s = held.client, begin_s
        else:
            process = order.start(client_of(order, flow))
            self._undo.callback(stop, process)
            started_s = self.now_s
        ending = os.pidfd_open(process.pid)
        self._undo.callback(os.close, ending)
        # an http flow's duration is the most it may take
        most_s = flow.duration_s + (0.0 if flow.traffic.until_done else grace_s(order.run, flow))
        self._active[ending] = ActiveFlow(flow, process, ending, started_s, started_s + most_s)
        self._endings.register(ending, select.POLLIN)

    def _change(self, asked: Mapping[str, Any]) -> None:
        """Apply a change of the path; a line for every device that took it."""
        self._order.network.log.at(asked["at_s"])
        when = {"at_s": asked["at_s"], "applied_s": round(self.now_s, 6)}
        for done in self._order.change(asked):
            line = {**when, "direction": asked["direction"], **done}
            self._log.write(json.dumps(line, sort_keys=True) + "\n")

    def _ended(self) -> list[ActiveFlow]:
        """Wait until the next flow or change is due, a flow ends, or it is time to look round;
        the flows that have ended, each known to the instant.
        """
        due_s = [self._due_s[flow.name] for flow in self._waiting[:1]]
        due_s += [0.0 for _ in self._to_begin]
        due_s += [change["at_s"] for change in self._changes[:1]]
        self._alarm.set([self.started_s + instant for instant in due_s])
        ready = [descriptor for descriptor, _ in self._endings.poll(1000 * POLL_S)]
        return [self._active[each] for each in ready if each in self._active]

    def _note_end(self, active: ActiveFlow) -> None:
        """A flow is over. Raises TrafficError if it failed."""
        self._endings.unregister(active.ending)
        del self._active[active.ending]
        flow = active.flow
        self.ends[flow.name] = active.started_s, self.now_s
        status = active.process.wait()
        report = self._order.folder / report_name(self._order.run, flow)
        if status and flow.traffic.is_counted:
            said = last_said(report)
            raise TrafficError(f"{flow.name}: its client {ending_of(status)}: {said}")
        if status and not has_no_results(flow.traffic, report):
            raise TrafficError(failure_of(self._order.run, flow, self._order.folder))

    def _look_for_overdue(self) -> None:
        """Raises TrafficError naming a flow that should be over, or whose own server failed."""
        now_s = self.now_s
        for active in self._active.values():
            flow = active.flow
            failed = flow.traffic.is_counted and self._servers[flow.name].poll()
            if failed:
                said = last_said(self._order.folder / server_report(flow))
                raise TrafficError(
                    f"{flow.name}: its server {ending_of(failed)} while its client ran: {said}"
                )
            if now_s > active.overdue_s:
                raise TrafficError(
                    f"{flow.name} ({flow.kind}) did not end within {now_s - active.started_s:.0f} s"
                    " of the run's clock"
                )
