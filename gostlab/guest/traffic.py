"""The load: every flow of a run by iperf3 or by wget from nginx, each report kept as it came.

Servers listen before the load begins. Then a timeline starts each flow at its instant and changes
the path at its own; both are measured from the start of the load, and what was really done when is
written down.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gostlab.describe.resolve.flows import Flow
from gostlab.guest.order import Order
from gostlab.guest.reports import FlowResult, TrafficError
from gostlab.guest.traffic_kinds import carrier, failure_of, measured_rows, report_name, result_of
from gostlab.guest.tunnels.launch import sink_ports, stop, wait_until_listening

# How much longer than its load iperf3 may take, on the run's clock: connecting n streams over a
# long path, and draining what is queued when the time is up.
GRACE_S = 60.0
POLL_S = 0.1
# How long a server may take to write its own report once all clients have theirs.
SERVER_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Load:
    """When the load ran, on the run's monotonic clock, and what each flow did."""

    started_s: float
    ended_s: float
    flows: tuple[FlowResult, ...]
    addresses: Mapping[str, str]  # node -> IPv4 address


def run_flows(order: Order) -> Load:
    """Start every sink, wait until all listen, then follow the timeline to its end.

    Writes each flow's own report. Raises TrafficError, or what `watch` raises.
    """
    network, run = order.network, order.run
    with ExitStack() as undo:
        servers = start_servers(order, undo)
        order.begin()
        network.log.load_begins()
        with (order.folder / "changes.jsonl").open("w", encoding="utf-8") as log:
            timeline = Timeline(order, undo, log)
            timeline.follow()
        ended_s = time.monotonic()
        network.log.load_ends(
            {flow.name: (flow.kind, report_name(run, flow)) for flow in run.flows}
        )
        for server in servers:
            # It is stopped on leaving; the client's report is complete.
            with suppress(subprocess.TimeoutExpired):
                server.wait(SERVER_PATIENCE_S)
    results = tuple(
        result_of(flow, order.folder / report_name(run, flow), *timeline.ends[flow.name])
        for flow in run.flows
    )
    measured: dict[str, list[dict[str, Any]]] = {}
    for flow, result in zip(run.flows, results, strict=True):
        if name := flow.traffic.rows:
            rows = measured_rows(result, order.folder / report_name(run, flow))
            measured.setdefault(name, []).extend(rows)
    for name, rows in measured.items():
        write_rows(order.folder / f"{name}.jsonl", rows)
    return Load(
        timeline.started_s, ended_s, results, {host: network.ip(host) for host in run.hosts}
    )


# -- sinks


def start_servers(order: Order, undo: ExitStack) -> list[subprocess.Popen[bytes]]:
    """Every flow's sink, or the web server it fetches from, stopped by `undo`; returns those that
    end by themselves. All listen then. Raises TrafficError.
    """
    ports = sink_ports(order.run)
    ending = []
    for flow in order.run.flows:
        server = start_server(order, flow, ports[flow.name])
        undo.callback(stop, server)
        if flow.traffic.server_ends:
            ending.append(server)
    # A udp test begins with a TCP connection to the same port.
    for host in dict.fromkeys(flow.receiver for flow in order.run.flows):
        for protocol in ("tcp", "udp"):
            its = [
                ports[flow.name]
                for flow in order.run.flows
                if flow.receiver == host and order.protocol_of(flow) == protocol
            ]
            wait_until_listening(order.network, host, *its, protocol=protocol)
    return ending


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A line of JSON for each row."""
    path.write_text(
        "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows), encoding="utf-8"
    )


def start_server(order: Order, flow: Flow, port: int) -> subprocess.Popen[bytes]:
    """One flow's sink. Raises TrafficError."""
    kind = flow.traffic
    argv = carrier(kind).serve(order, flow, port)
    if kind.by_iperf3:
        name = report_name(order.run, flow, "-server")
    else:
        name = f"{'nginx' if kind.by_nginx else kind.name + '-server'}-{flow.name}.log"
    program = charged_as(flow, asks=False)
    with (order.folder / name).open("wb") as output:
        return order.network.start(
            flow.receiver,
            argv,
            stdout=output,
            stdout_name=name,
            charged_as=program,
            reads_on=order.reads_on_of(program),
        )


# -- flows and changes, in the order of time


def charged_as(flow: Flow, *, asks: bool) -> str:
    """Under which name one end of a flow, the one that asks or the one that serves, pays for its
    calls.
    """
    sends = asks == (flow.direction == "upload")
    return flow.traffic.charged[0 if sends else 1]


@dataclass(frozen=True)
class Active:
    """A flow that runs. Times are seconds from the start of the load."""

    flow: Flow
    process: subprocess.Popen[bytes]
    ending: int  # a file descriptor that becomes readable when the process ends
    started_s: float

    @property
    def overdue_s(self) -> float:
        """When it has taken too long: an http flow's duration is the most it may take."""
        grace_s = 0.0 if self.flow.traffic.until_done else GRACE_S
        return self.started_s + self.flow.duration_s + grace_s


class Timeline:
    """Starts flows and changes the path at their instants, until all flows are over.

    ends  when each flow began and ended, seconds from the start of the load
    """

    def __init__(self, order: Order, undo: ExitStack, log: IO[str]) -> None:
        self._order = order
        self._undo = undo
        self._log = log
        run = order.run
        self._begins_s = {
            flow.name: flow.start_s + run.start_offset_s(flow.name) for flow in run.flows
        }
        self._waiting = sorted(run.flows, key=lambda flow: self._begins_s[flow.name])
        self._changes = list(order.run.changes)
        self._active: dict[int, Active] = {}  # by `ending`
        self._endings = select.poll()
        self.ends: dict[str, tuple[float, float]] = {}
        self.started_s = time.monotonic()

    @property
    def now_s(self) -> float:
        """Seconds from the start of the load."""
        return time.monotonic() - self.started_s

    def follow(self) -> None:
        """Raises TrafficError naming the flow that failed or did not end, or what the order's
        `watch` raises.
        """
        while self._waiting or self._active:
            now_s = self.now_s
            while self._waiting and self._begins_s[self._waiting[0].name] <= now_s:
                self._begin(self._waiting.pop(0))
            while self._changes and self._changes[0]["at_s"] <= now_s:
                self._change(self._changes.pop(0))
            self._order.watch()
            for active in self._ended():
                self._note_end(active)
            self._look_for_overdue()

    def _begin(self, flow: Flow) -> None:
        """Start a flow's client; it is stopped by `undo`."""
        order, name = self._order, report_name(self._order.run, flow)
        order.network.log.at(self._begins_s[flow.name])
        program = charged_as(flow, asks=True)
        with (order.folder / name).open("wb") as output:
            process = order.network.start(
                flow.sender,
                carrier(flow.traffic).ask(order, flow),
                stdout=output,
                stdout_name=name,
                flow=flow.name,
                charged_as=program,
                reads_on=order.reads_on_of(program),
            )
        self._undo.callback(stop, process)
        ending = os.pidfd_open(process.pid)
        self._undo.callback(os.close, ending)
        self._active[ending] = Active(flow, process, ending, self.now_s)
        self._endings.register(ending, select.POLLIN)

    def _change(self, asked: Mapping[str, Any]) -> None:
        """Apply a change of the path; a line for every device that took it."""
        self._order.network.log.at(asked["at_s"])
        when = {"at_s": asked["at_s"], "applied_s": round(self.now_s, 6)}
        for done in self._order.change(asked):
            line = {**when, "direction": asked["direction"], **done}
            self._log.write(json.dumps(line, sort_keys=True) + "\n")

    def _ended(self) -> list[Active]:
        """Wait until the next flow or change is due, a flow ends, or it is time to look round;
        the flows that have ended, each known to the instant.
        """
        due_s = [self._begins_s[flow.name] for flow in self._waiting[:1]]
        due_s += [change["at_s"] for change in self._changes[:1]]
        at_most_s = min([POLL_S, *(instant - self.now_s for instant in due_s)])
        ended = self._endings.poll(max(0.0, 1000 * at_most_s))
        return [self._active[ending] for ending, _ in ended]

    def _note_end(self, active: Active) -> None:
        """A flow is over. Raises TrafficError if it failed."""
        self._endings.unregister(active.ending)
        del self._active[active.ending]
        flow = active.flow
        self.ends[flow.name] = active.started_s, self.now_s
        if active.process.wait() != 0:
            raise TrafficError(failure_of(self._order.run, flow, self._order.folder))

    def _look_for_overdue(self) -> None:
        """Raises TrafficError naming a flow that should be over."""
        now_s = self.now_s
        for active in self._active.values():
            if now_s > active.overdue_s:
                flow = active.flow
                raise TrafficError(
                    f"{flow.name} ({flow.kind}) did not end within {now_s - active.started_s:.0f} s"
                    " of the run's clock"
                )
