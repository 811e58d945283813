"""Install the qdisc fq on the NICs of a run's end hosts.

It paces every TCP flow, whatever its congestion control, and takes pacing over from TCP (tc-fq(8)).
"""

import json
from dataclasses import replace

from gostlab.guest.host_config import machines_of
from gostlab.guest.network import Interface, Network, NetworkError
from gostlab.spec.run_spec import RunSpec

SENDER = "sender"  # role of these queues among the sampled ones


def pace_senders(network: Network, run: RunSpec) -> list[Interface]:
    """Install fq on every NIC of the end hosts; return them as queues. Raises NetworkError."""
    senders = {flow.sender for flow in run.flows}
    paced = []
    for interface in network.interfaces:
        if interface.node not in machines_of(run) or interface.role:
            continue
        network.read(
            interface.node, ["tc", "qdisc", "replace", "dev", interface.name, "root", "fq"]
        )
        output = network.read(
            interface.node, ["tc", "-j", "qdisc", "show", "dev", interface.name], logged=False
        )
        kinds = [entry["kind"] for entry in json.loads(output) if entry.get("root")]
        if kinds != ["fq"]:
            raise NetworkError(
                f"{interface.node}: {interface.name}: fq asked, {', '.join(kinds) or 'nothing'}"
                " installed"
            )
        direction = "forward" if interface.node in senders else "reverse"
        paced.append(replace(interface, role=SENDER, direction=direction))
    return paced
