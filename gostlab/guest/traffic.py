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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gostlab.ask.flows import WEB_KINDS, Flow
from gostlab.ask.limits import UDP_BURST_PKTS
from gostlab.ask.run_description import RunDescription
from gostlab.declared.controls import kernel_name
from gostlab.declared.tunnels import tunnel_kind
from gostlab.guest.environment import Iperf3
from gostlab.guest.network import Network
from gostlab.guest.reports import (
    DATAGRAM_BYTES,
    PING_BYTES,
    FlowResult,
    TrafficError,
    failure_of,
    measured_rows,
    report_name,
    result_of,
)
from gostlab.guest.tunnels import Tunnel, sink_ports, stop, wait_until_listening

# How much longer than its load iperf3 may take, on the run's clock: connecting n streams over a
# long path, and draining what is queued when the time is up.
GRACE_S = 60.0
POLL_S = 0.1
# How long a server may take to write its own report once all clients have theirs.
SERVER_PATIENCE_S = 10.0
DOCUMENT = "document"
PYTHON = "/usr/bin/python3"
ECHO, FETCHES = (str(Path(__file__).with_name(name)) for name in ("echo.py", "fetches.py"))


@dataclass(frozen=True)
class Load:
    """When the load ran, on the run's monotonic clock, and what each flow did."""

    started_s: float
    ended_s: float
    flows: tuple[FlowResult, ...]
    addresses: Mapping[str, str]  # node -> IPv4 address


@dataclass(frozen=True)
class Order:
    """What the load of a run needs to know and to do.

    node_cc  each node's own congestion control
    iperf3   what carries tcp and udp flows
    nginx    the web server's program; None: there is none
    irtt     what measures round trips over UDP; None: the lab's own echo does
    folder   where every report goes
    scratch  where nginx may write
    begin    called just before the load starts
    watch    called all the time; may raise to end the run
    change   applies one of the run's changes, and says what it did: a line each in changes.jsonl
    """

    network: Network
    run: RunDescription
    tunnel: Tunnel
    node_cc: Mapping[str, str]
    iperf3: Iperf3
    nginx: str | None
    irtt: str | None
    folder: Path
    scratch: Path
    begin: Callable[[], None]
    watch: Callable[[], None]
    change: Callable[[Mapping[str, Any]], list[dict[str, Any]]]

    def ping_over(self, flow: Flow) -> str:
        """The protocol of a ping flow's requests: UDP wherever it gets through; "" of any other
        flow.
        """
        if flow.kind != "ping":
            return ""
        return "udp" if "udp" in tunnel_kind(self.run.tunnel).carries else "tcp"


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
    for name, kind in (("pings", "ping"), ("fetches", "short")):
        if any(flow.kind == kind for flow in run.flows):
            rows = [
                row
                for flow in results
                if flow.kind == kind
                for row in measured_rows(run, flow, order.folder)
            ]
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
        if flow.kind in ("tcp", "udp"):
            ending.append(server)
    # A udp test begins with a TCP connection to the same port.
    for host in dict.fromkeys(flow.receiver for flow in order.run.flows):
        for protocol in ("tcp", "udp"):
            its = [
                ports[flow.name]
                for flow in order.run.flows
                if flow.receiver == host and (order.ping_over(flow) or "tcp") == protocol
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
    if flow.kind in WEB_KINDS:
        argv, name = prepare_nginx(order, flow, port), f"nginx-{flow.name}.log"
    elif flow.kind == "ping":
        argv, name = ping_server_argv(order, flow, port), f"ping-server-{flow.name}.log"
    else:
        argv, name = server_argv(order.iperf3.path, port), report_name(order.run, flow, "-server")
    with (order.folder / name).open("wb") as output:
        return order.network.start(
            flow.receiver,
            argv,
            stdout=output,
            stdout_name=name,
            charged_as=charged_as(flow, at_sender=False),
        )


def ping_server_argv(order: Order, flow: Flow, port: int) -> list[str]:
    """What answers a ping flow."""
    over = order.ping_over(flow)
    if over == "udp" and order.irtt:
        return [order.irtt, "server", "-b", f"0.0.0.0:{port}", "-i", "0"]
    return [PYTHON, ECHO, "serve", over, str(port)]


def ping_client_argv(order: Order, flow: Flow) -> list[str]:
    """What sends a ping flow's requests."""
    address, port = order.tunnel.entries[flow.name]
    over = order.ping_over(flow)
    if over != "udp" or not order.irtt:
        timing = [f"{flow.interval_ms:g}", f"{flow.duration_s:g}"]
        return [PYTHON, ECHO, "ask", over, address, str(port), *timing]
    argv = [order.irtt, "client", "-i", f"{flow.interval_ms:g}ms", "-d", f"{flow.duration_s:g}s"]
    argv += ["-l", str(PING_BYTES), "--stats=none", "--tstamp=none", "-Q", "-o", "-"]
    return [*argv, f"{address}:{port}"]


def server_argv(iperf3: str, port: int) -> list[str]:
    """The sink of a tcp or udp flow: one test, then it ends."""
    return [iperf3, "-s", "-p", str(port), "-1", "-J"]


NGINX_CONF = """daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr;
events {{ }}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen {port}; root {folder}; }}
}}
"""


def prepare_nginx(order: Order, flow: Flow, port: int) -> list[str]:
    """nginx's command, with a configuration, files and temporary folders of its own, and the flow's
    document: a file of its size. Raises TrafficError.
    """
    if order.nginx is None:
        raise TrafficError("nginx was not found: run ./lab setup")
    network, folder = order.network, order.scratch / f"nginx-{flow.name}"
    network.write_file(folder / "nginx.conf", NGINX_CONF.format(folder=folder, port=port))
    documents = {DOCUMENT: flow.size_bytes} if flow.size_bytes else {}
    documents |= {str(size): size for size in flow.sizes_bytes}
    for name, size in documents.items():
        network.read(flow.receiver, ["truncate", "-s", str(size), str(folder / name)])
    return [order.nginx, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]


# -- flows and changes, in the order of time


def client_argv(flow: Flow, entry: tuple[str, int], node_cc: str, iperf3: Iperf3) -> list[str]:
    """The command that makes a flow: for tcp the thesis's (section 4.2), with JSON out."""
    address, port = entry
    if flow.kind == "http":
        quiet = ["--no-proxy", "--tries=1", "--no-verbose"]
        return ["wget", *quiet, "-O", "/dev/null", f"http://{address}:{port}/{DOCUMENT}"]
    if flow.kind == "short":
        sizes = [str(size) for size in flow.sizes_bytes]
        return [PYTHON, FETCHES, address, str(port), f"{flow.duration_s:g}", *sizes]
    argv = [iperf3.path, "-c", address, "-p", str(port)]
    argv += ["-t", f"{flow.duration_s:g}", "-P", str(flow.streams), "-i", "1", "-J"]
    if flow.direction == "download":
        argv.append("-R")
    if flow.kind == "udp":
        argv += ["-u", "-b", offered(flow, iperf3), "-l", str(DATAGRAM_BYTES)]
    elif flow.cc != node_cc:
        argv += ["-C", kernel_name(str(flow.cc))]  # two flows of one host, each with its own
    return argv


def offered(flow: Flow, iperf3: Iperf3) -> str:
    """A udp flow's rate in iperf3's words. One without threads sends so many datagrams back to
    back; one with them sleeps between any two, and in bursts would take no notice of the rate.
    """
    return f"{flow.rate_bps}" if iperf3.has_threads else f"{flow.rate_bps}/{UDP_BURST_PKTS}"


def charged_as(flow: Flow, *, at_sender: bool) -> str:
    """Under which name a flow's program pays for its calls: iperf3 by what it does with the data,
    whichever end it is.
    """
    if flow.kind in WEB_KINDS:
        return "wget" if at_sender else "nginx"
    if flow.kind == "ping":
        return ""
    sends = at_sender == (flow.direction == "upload")
    return "iperf3/sender" if sends else "iperf3/receiver"


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
        grace_s = 0.0 if self.flow.kind == "http" else GRACE_S
        return self.started_s + self.flow.duration_s + grace_s


class Timeline:
    """Starts flows and changes the path at their instants, until all flows are over.

    ends  when each flow began and ended, seconds from the start of the load
    """

    def __init__(self, order: Order, undo: ExitStack, log: IO[str]) -> None:
        self._order = order
        self._undo = undo
        self._log = log
        self._waiting = sorted(order.run.flows, key=lambda flow: flow.start_s)
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
            while self._waiting and self._waiting[0].start_s <= now_s:
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
        node_cc = order.node_cc.get(flow.data_sender, "")
        order.network.log.at(flow.start_s)
        with (order.folder / name).open("wb") as output:
            process = order.network.start(
                flow.sender,
                ping_client_argv(order, flow)
                if flow.kind == "ping"
                else client_argv(flow, order.tunnel.entries[flow.name], node_cc, order.iperf3),
                stdout=output,
                stdout_name=name,
                flow=flow.name,
                charged_as=charged_as(flow, at_sender=True),
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
        due_s = [flow.start_s for flow in self._waiting[:1]]
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
