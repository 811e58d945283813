"""The load: iperf3 from client to target, its report kept as it came."""
from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gostlab.experiment import RunDescription
from gostlab.network import Network
from gostlab.tunnels import SINK_PORT, Tunnel, stop, wait_until_listening

# How much longer than its load iperf3 may take, on the run's clock: connecting n streams over a long path, and
# draining what is queued when the time is up.
GRACE_S = 60.0


class TrafficError(Exception):
    """iperf3 failed; the message carries its own words."""


@dataclass(frozen=True)
class Load:
    """When the load ran, on the run's monotonic clock."""
    started_s: float
    ended_s: float


def client_argv(run: RunDescription, entry_ip: str, entry_port: int) -> list[str]:
    """The iperf3 client's command: the thesis's (section 4.2), with JSON out."""
    argv = ["iperf3", "-c", entry_ip, "-p", str(entry_port), "-t", f"{run.duration_s:g}", "-P", str(run.streams),
            "-i", "1", "-J"]
    if run.direction == "download":
        argv.append("-R")
    return argv


def run_iperf3(network: Network, run: RunDescription, tunnel: Tunnel, folder: Path,
               begin: Callable[[], None], watch: Callable[[], None]) -> Load:
    """Start the sink, wait until it listens, run the client to its end.

    `begin` is called just before the client starts, `watch` every tenth of a second while it runs (it may
    raise to end the run). Writes iperf3.json and iperf3-server.json. Raises TrafficError.
    """
    server_file = folder / "iperf3-server.json"
    with server_file.open("wb") as server_output, (folder / "iperf3.json").open("wb") as client_output:
        server = network.start("target", ["iperf3", "-s", "-p", str(SINK_PORT), "-1", "-J"], stdout=server_output,
                               stdout_name="iperf3-server.json")
        client = None
        try:
            wait_until_listening(network, "target", SINK_PORT)
            begin()
            started = time.monotonic()
            client = network.start("client", client_argv(run, tunnel.entry_ip, tunnel.entry_port),
                                   stdout=client_output, stdout_name="iperf3.json")
            deadline = started + run.duration_s + GRACE_S
            while client.poll() is None:
                if time.monotonic() > deadline:
                    raise TrafficError(f"iperf3 did not end within {run.duration_s + GRACE_S:.0f} s of the run's clock")
                watch()
                time.sleep(0.1)
            ended = time.monotonic()
            if client.returncode != 0:
                raise TrafficError(f"iperf3 failed: {iperf3_words(folder / 'iperf3.json')}")
            with suppress(subprocess.TimeoutExpired):     # stopped below; the client's report is complete
                server.wait(10)
            return Load(started, ended)
        finally:
            if client is not None:
                stop(client)
            stop(server)


def iperf3_words(report: Path) -> str:
    """iperf3's own error from its JSON, or its last words."""
    text = report.read_text(encoding="utf-8", errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text.strip().splitlines()[-1] if text.strip() else "it said nothing"
