"""Mininet's prompt in the lab: the topology, shaped as a run describes it, on the caller's
terminal.

python3 -m gostlab.guest.shell FOLDER     FOLDER holds run.json and parts.json
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from mininet.cli import CLI
from mininet.log import setLogLevel

from gostlab.ask.run_description import RunDescription
from gostlab.guest.environment import run_environ
from gostlab.guest.hosts import Unsupported, check_cc_available, configure_hosts
from gostlab.guest.idle import idle_rtt_ms
from gostlab.guest.network import NetworkError, lay_out, set_offloads
from gostlab.guest.shaping import Shaper

WELCOME = """
{nodes}
Path {profile}: {rtt_ms:.1f} ms round trip, {rate}, shaped on wan_a and wan_b.
Congestion control: {cc}. Clock: {clock}. Tunnel program: {tunnel}

  client ping -c 3 target                          the path
  target iperf3 -s -D -p 80                        a sink, then
  client iperf3 -c 10.0.4.2 -p 80 -t 10            load on it
  wan_a tc -s qdisc                                what the kernel does to it
  exit                                             end the lab
"""


def main(argv: list[str]) -> int:
    """Build, greet, hand over. Exit status 1 with a line on standard error if the lab cannot be
    built.
    """
    folder = Path(argv[1])
    run = RunDescription.from_json(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    parts = json.loads((folder / "parts.json").read_text(encoding="utf-8"))
    environ = run_environ(parts)
    if parts.get("tunnel"):
        # `client gost -L …` works at the prompt, whichever program it is.
        link = Path("/run/lab-bin")
        link.mkdir(exist_ok=True)
        (link / "gost").unlink(missing_ok=True)
        (link / "gost").symlink_to(parts["tunnel"]["path"])
        environ["PATH"] = f"{link}:{environ['PATH']}"
    os.environ.update(environ)
    try:
        check_cc_available(run.cc, run.machine)
        with lay_out(run, folder, environ) as network:
            configure_hosts(network, run)
            set_offloads(network, run.offloads)
            shaper = Shaper(network, run)
            shaper.install()
            rate = run.path["forward"]["rate_bps"]
            links = ", ".join(f"{one.node} – {two.node}" for one, two in network.links)
            print(
                WELCOME.format(
                    nodes=links,
                    profile=run.profile,
                    rtt_ms=idle_rtt_ms(shaper.path_of_flow(run.flows[0])),
                    rate=f"{rate / 1e6:g} Mbit/s" if rate else "no rate limit",
                    cc=run.cc,
                    clock=run.clock,
                    tunnel=parts["tunnel"]["version"] if parts.get("tunnel") else "none",
                ),
                flush=True,
            )
            setLogLevel("output")  # the prompt prints what commands say at this level
            CLI(network.mininet)
    except (NetworkError, Unsupported) as error:
        print(f"gostlab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
