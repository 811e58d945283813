# SPDX-License-Identifier: MIT
"""Build the topology of a run, shaped, and run Mininet's prompt on the caller's terminal.

python3 -m gostlab.shell.in_guest FOLDER     FOLDER holds run.json and parts.json
"""

import json
import os
import sys
from pathlib import Path

from mininet.cli import CLI
from mininet.log import setLogLevel

from gostlab.guest.baseline_rtt import idle_rtt_ms
from gostlab.guest.environment import iperf3_of, run_environ, scratch_folder
from gostlab.guest.host_config import Unsupported, check_cc_available, configure_hosts
from gostlab.guest.network import Network, NetworkError, build_network, set_offloads
from gostlab.guest.shaping import Shaper, shapes_flow
from gostlab.install.parts_json import PartsJson
from gostlab.registry.iperf3_versions import SYSTEM
from gostlab.spec.run_spec import RunSpec

# Mininet replaces a node's name in a command by its address, so the command is not called `gost`.
TUNNEL_COMMAND = "run-gost"
WELCOME = """
{links}
Path {profile}: {rtt_ms:.1f} ms round trip, {rate}, shaped on {shaped}.
Congestion control: {cc}. Clock: {clock}. Tunnel program: {tunnel}
"""


def main(argv: list[str]) -> int:
    """Build the network and run the prompt; print an error and return 1 if that fails."""
    folder = Path(argv[1])
    run = RunSpec.from_json(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    parts = json.loads((folder / "parts.json").read_text(encoding="utf-8"))
    with scratch_folder() as scratch:
        environ = run_environ(parts)
        try:
            environ["PATH"] = f"{link_programs(scratch, run, parts)}:{environ['PATH']}"
            os.environ.update(environ)
            check_cc_available(run.cc, run.machine)
            with build_network(run, folder, environ, shells=True) as network:
                configure_hosts(network, run)
                set_offloads(network, run.offloads)
                shaper = Shaper(network, run)
                shaper.install()
                print(welcome(network, run, shaper, parts), flush=True)
                setLogLevel("output")  # Mininet prints the output of commands at this level.
                CLI(network.mininet)
        except (NetworkError, Unsupported) as error:
            print(f"gostlab: {error}", file=sys.stderr)
            return 1
    return 0


def link_programs(folder: Path, run: RunSpec, parts: PartsJson) -> Path:
    """Create a folder for PATH with TUNNEL_COMMAND and the run's iperf3. Raises NetworkError."""
    if run.iperf3 != SYSTEM:
        (folder / "iperf3").symlink_to(iperf3_of(run, parts).path)
    if tunnel := parts.get("tunnel"):
        (folder / TUNNEL_COMMAND).symlink_to(tunnel["path"])
    return folder


def welcome(network: Network, run: RunSpec, shaper: Shaper, parts: PartsJson) -> str:
    """Return a greeting with the topology and first commands to type."""
    flow, rate_bps, tunnel = run.flows[0], run.path.forward.rate_bps, parts.get("tunnel")
    shaped = [
        interface.node
        for interface in network.shaped
        if interface.role == "bottleneck" and shapes_flow(interface, flow)
    ]
    address = network.ip(flow.receiver)
    first = {
        f"{flow.sender} ping -c 3 {flow.receiver}": "the path",
        f"{flow.receiver} iperf3 -s -D -p 80": "a sink, then",
        f"{flow.sender} iperf3 -c {address} -p 80 -t 10": "load on it",
        f"{shaped[0]} tc -s qdisc": "what the kernel does to it",
        f"{flow.sender} {TUNNEL_COMMAND} -V": "the tunnel's program (-L and -F as GOST's)",
        "exit": "end the lab",
    }
    there = WELCOME.format(
        links=", ".join(
            f"{link.intf1.node.name} – {link.intf2.node.name}" for link in network.mininet.links
        ),
        profile=run.profile,
        rtt_ms=idle_rtt_ms(shaper.path_of_flow(flow)),
        rate=f"{rate_bps / 1e6:g} Mbit/s" if rate_bps else "no rate limit",
        shaped=" and ".join(dict.fromkeys(shaped)),
        cc=run.cc,
        clock=run.clock,
        tunnel=tunnel["version"] if tunnel else "none",
    )
    return "\n".join([there, *(f"  {command:<47}  {what}" for command, what in first.items()), ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
