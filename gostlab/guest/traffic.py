"""The load: every flow of a run by iperf3 or by wget from nginx, each report kept as it came.

Servers listen before the load begins. Then a timeline starts each flow at its instant and changes
the path at its own; both are measured from the start of the load, and what was really done when is
written down.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.ask.flows import Flow
from gostlab.ask.limits import UDP_BURST_PKTS
from gostlab.ask.run_description import RunDescription
from gostlab.guest.network import Network
from gostlab.guest.tunnels import Tunnel, sink_ports, stop, wait_until_listening

# How much longer than its load iperf3 may take, on the run's clock: connecting n streams over a
# long path, and draining what is queued when the time is up.
GRACE_S = 60.0
POLL_S = 0.1
# A udp flow's datagrams fill the MTU like a TCP segment with timestamps.
DATAGRAM_BYTES = 1448
DOCUMENT = "document"


class TrafficError(Exception):
    """A flow failed; the message carries the words of who carried it."""


@dataclass(frozen=True)
class FlowResult:
    """What one flow did: a row of flows.json. Times are seconds from the start of the load."""

    name: str
    kind: str
    started_s: float
    ended_s: float
    goodput_bps: float  # what the receiver got, payload
    bytes: int
    seconds: float  # over which the goodput is
    retransmits: int | None  # iperf3's Retr: its own sockets' segments sent again
    lost_datagrams: int | None = None  # udp
    sent_datagrams: int | None = None


@dataclass(frozen=True)
class Load:
    """When the load ran, on the run's monotonic clock, and what each flow did."""

    started_s: float
    ended_s: float
    flows: tuple[FlowResult, ...]
    addresses: Mapping[str, str]  # node -> IPv4 address


@dataclass
class Active:
    """A flow that runs."""

    flow: Flow
    process: subprocess.Popen[bytes]
    ending: int  # a file descriptor that becomes readable when the process ends
    started_s: float


def report_name(run: RunDescription, flow: Flow, end: str = "") -> str:
    """The file of a flow's own report: iperf3.json where a run has one flow, else with the flow's
    name.
    """
    own = f"-{flow.name}" if len(run.flows) > 1 else ""
    return f"wget{own}.log" if flow.kind == "http" else f"iperf3{own}{end}.json"


def server_argv(flow: Flow, port: int) -> list[str]:
    """The sink of a tcp or udp flow: one test, then it ends."""
    return ["iperf3", "-s", "-p", str(port), "-1", "-J"]


def client_argv(flow: Flow, entry: tuple[str, int], node_cc: str) -> list[str]:
    """The command that makes a flow: for tcp the thesis's (section 4.2), with JSON out."""
    address, port = entry
    if flow.kind == "http":
        return [
            "wget",
            "--no-proxy",
            "--tries=1",
            "--no-verbose",
            "-O",
            "/dev/null",
            f"http://{address}:{port}/{DOCUMENT}",
        ]
    argv = [
        "iperf3",
        "-c",
        address,
        "-p",
        str(port),
        "-t",
        f"{flow.duration_s:g}",
        "-P",
        str(flow.streams),
        "-i",
        "1",
        "-J",
    ]
    if flow.direction == "download":
        argv.append("-R")
    if flow.kind == "udp":
        argv += ["-u", "-b", f"{flow.rate_bps}/{UDP_BURST_PKTS}", "-l", str(DATAGRAM_BYTES)]
    elif flow.cc != node_cc:
        argv += ["-C", str(flow.cc)]  # two flows of one host, each with its own
    return argv


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


def prepare_nginx(network: Network, program: str, folder: Path, flow: Flow, port: int) -> list[str]:
    """nginx's command, with a configuration, files and temporary folders of its own, and the flow's
    document: a file of its size.
    """
    network.write_file(folder / "nginx.conf", NGINX_CONF.format(folder=folder, port=port))
    network.read(flow.receiver, ["truncate", "-s", str(flow.size_bytes), str(folder / DOCUMENT)])
    return [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]


def run_flows(
    network: Network,
    run: RunDescription,
    tunnel: Tunnel,
    folder: Path,
    *,
    node_cc: Mapping[str, str],
    nginx: str | None,
    scratch: Path,
    begin: Callable[[], None],
    watch: Callable[[], None],
    change: Callable[[Mapping[str, Any]], list[dict[str, Any]]],
) -> Load:
    """Start every sink, wait until all listen, then follow the timeline to its end.

    node_cc   each node's own congestion control        scratch   where nginx may write
    begin     called just before the load starts
    watch     called all the time; may raise to end the run
    change    applies one of the run's changes, and says what it did: a line each in changes.jsonl
    Writes each flow's own report, and flows.json. Raises TrafficError.
    """
    ports = sink_ports(run)
    with ExitStack() as undo:
        servers = {
            flow.name: start_server(
                network, run, flow, ports[flow.name], folder, nginx, scratch, undo
            )
            for flow in run.flows
        }
        for flow in run.flows:
            # A udp test begins with a TCP connection to the same port.
            wait_until_listening(network, flow.receiver, ports[flow.name], alive=lambda: None)
        begin()
        network.log.load_begins()
        started = time.monotonic()
        ends = follow_timeline(network, run, tunnel, folder, started, node_cc, watch, change, undo)
        ended = time.monotonic()
        network.log.load_ends(
            {flow.name: (flow.kind, report_name(run, flow)) for flow in run.flows}
        )
        for flow in run.flows:
            if flow.kind != "http":
                with suppress(
                    subprocess.TimeoutExpired
                ):  # stopped on leaving; the client's report is complete
                    servers[flow.name].wait(10)
    results = tuple(result_of(run, flow, folder, *ends[flow.name]) for flow in run.flows)
    return Load(started, ended, results, {host: network.ip(host) for host in run.hosts})


def start_server(
    network: Network,
    run: RunDescription,
    flow: Flow,
    port: int,
    folder: Path,
    nginx: str | None,
    scratch: Path,
    undo: ExitStack,
) -> subprocess.Popen[bytes]:
    """A flow's sink, or the web server it fetches from; stopped by `undo`. Raises TrafficError."""
    if flow.kind == "http":
        if nginx is None:
            raise TrafficError("nginx was not found: run ./lab setup")
        argv, name = (
            prepare_nginx(network, nginx, scratch / f"nginx-{flow.name}", flow, port),
            f"nginx-{flow.name}.log",
        )
    else:
        argv, name = server_argv(flow, port), report_name(run, flow, "-server")
    with (folder / name).open("wb") as output:
        server = network.start(flow.receiver, argv, stdout=output, stdout_name=name)
    undo.callback(stop, server)
    return server


def follow_timeline(
    network: Network,
    run: RunDescription,
    tunnel: Tunnel,
    folder: Path,
    started: float,
    node_cc: Mapping[str, str],
    watch: Callable[[], None],
    change: Callable[[Mapping[str, Any]], list[dict[str, Any]]],
    undo: ExitStack,
) -> dict[str, tuple[float, float]]:
    """Start flows and change the path at their instants until all flows are over; when each began
    and ended.

    Raises TrafficError naming the flow that failed or did not end.
    """
    waiting = sorted(run.flows, key=lambda flow: flow.start_s)
    changes = list(run.changes)
    active: list[Active] = []
    ends: dict[str, tuple[float, float]] = {}
    with (folder / "changes.jsonl").open("w", encoding="utf-8") as log:
        while waiting or active:
            now = time.monotonic() - started
            while waiting and waiting[0].start_s <= now:
                active.append(
                    begin_flow(network, run, waiting.pop(0), tunnel, folder, started, node_cc, undo)
                )
            while changes and changes[0]["at_s"] <= now:
                asked = changes.pop(0)
                network.log.at(asked["at_s"])
                applied = time.monotonic() - started
                for line in change(asked):
                    log.write(
                        json.dumps(
                            {
                                "at_s": asked["at_s"],
                                "applied_s": round(applied, 6),
                                "direction": asked["direction"],
                                **line,
                            },
                            sort_keys=True,
                        )
                        + "\n"
                    )
            for each in list(active):
                if each.process.poll() is not None:
                    active.remove(each)
                    ends[each.flow.name] = each.started_s, time.monotonic() - started
                    if each.process.returncode != 0:
                        raise TrafficError(failure_of(run, each.flow, folder))
                elif now > each.started_s + each.flow.duration_s + (
                    0 if each.flow.kind == "http" else GRACE_S
                ):
                    raise TrafficError(
                        f"{each.flow.name} ({each.flow.kind}) did not end within "
                        f"{now - each.started_s:.0f} s of the run's clock"
                    )
            watch()
            instants = [flow.start_s for flow in waiting[:1]] + [
                each["at_s"] for each in changes[:1]
            ]
            wait_for_any(
                active,
                min([POLL_S, *(instant - (time.monotonic() - started) for instant in instants)]),
            )
    return ends


def wait_for_any(active: Sequence[Active], at_most_s: float) -> None:
    """Sleep until a flow's process ends or the time is up: so its end is known to the instant."""
    poll = select.poll()
    for each in active:
        poll.register(each.ending, select.POLLIN)
    poll.poll(max(0.0, 1000 * at_most_s))


def begin_flow(
    network: Network,
    run: RunDescription,
    flow: Flow,
    tunnel: Tunnel,
    folder: Path,
    started: float,
    node_cc: Mapping[str, str],
    undo: ExitStack,
) -> Active:
    """Start a flow's client; stopped by `undo`."""
    name = report_name(run, flow)
    network.log.at(flow.start_s)
    with (folder / name).open("wb") as output:
        process = network.start(
            flow.sender,
            client_argv(flow, tunnel.entries[flow.name], node_cc.get(flow.data_sender, "")),
            stdout=output,
            stdout_name=name,
            flow=flow.name,
        )
    undo.callback(stop, process)
    ending = os.pidfd_open(process.pid)
    undo.callback(os.close, ending)
    return Active(flow, process, ending, time.monotonic() - started)


def result_of(
    run: RunDescription, flow: Flow, folder: Path, started_s: float, ended_s: float
) -> FlowResult:
    """What a flow's reports say it did. Raises TrafficError if they do not say it."""
    times = round(started_s, 6), round(ended_s, 6)
    if flow.kind == "http":
        return fetched(
            flow,
            (folder / report_name(run, flow)).read_text(encoding="utf-8", errors="replace"),
            *times,
        )
    try:
        report = json.loads((folder / report_name(run, flow)).read_text(encoding="utf-8"))
        if flow.kind == "udp":
            total = report["end"]["sum"]
            lost, sent = int(total["lost_packets"]), int(total["packets"])
            got = max(0, sent - lost) * DATAGRAM_BYTES
            return FlowResult(
                flow.name,
                flow.kind,
                *times,
                8 * got / float(total["seconds"]),
                got,
                float(total["seconds"]),
                None,
                lost,
                sent,
            )
        received = report["end"]["sum_received"]
        return FlowResult(
            flow.name,
            flow.kind,
            *times,
            float(received["bits_per_second"]),
            int(received["bytes"]),
            float(received["seconds"]),
            report["end"]["sum_sent"].get("retransmits"),
        )
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise TrafficError(
            f"{flow.name}: iperf3's report cannot be read ({type(error).__name__}: {error})"
        ) from error


def fetched(flow: Flow, words: str, started_s: float, ended_s: float) -> FlowResult:
    """An http flow's row from wget's own line, `… URL [SIZE/SIZE] -> …`, and the time that wget
    ran. Raises TrafficError.
    """
    found = re.search(r"\[(\d+)/(\d+)\]", words)
    if found is None or int(found[1]) != flow.size_bytes:
        raise TrafficError(
            f"{flow.name}: wget did not fetch all of it:"
            f" {words.strip()[-200:] or 'it said nothing'}"
        )
    seconds = ended_s - started_s
    size = int(found[1])
    return FlowResult(
        flow.name, flow.kind, started_s, ended_s, 8 * size / seconds, size, round(seconds, 6), None
    )


def failure_of(run: RunDescription, flow: Flow, folder: Path) -> str:
    """Who failed, in its own words."""
    program = "wget" if flow.kind == "http" else "iperf3"
    which = f" ({flow.name})" if len(run.flows) > 1 else ""
    return f"{program} failed{which}: {own_words(folder / report_name(run, flow))}"


def own_words(report: Path) -> str:
    """iperf3's own error from its JSON, or a program's last words."""
    text = report.read_text(encoding="utf-8", errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text.strip().splitlines()[-1] if text.strip() else "it said nothing"
