"""The qdisc fq on the cards of a run's end hosts: it paces every TCP flow, whatever its congestion
control, and takes pacing over from TCP where that does it itself (tc-fq(8)).
"""

import json
from dataclasses import replace

from gostlab.guest.host_config import machines_of
from gostlab.guest.network import Interface, Network, NetworkError
from gostlab.spec.run_spec import RunSpec

SENDER = "sender"  # the role of such a queue among those that are sampled


def pace_senders(network: Network, run: RunSpec) -> list[Interface]:
    """Install fq on every card of the end hosts; the cards, as queues. Raises NetworkError."""
    first = {flow.sender for flow in run.flows}
    found = []
    for interface in network.interfaces:
        if interface.node not in machines_of(run) or interface.role:
            continue
        network.read(
            interface.node, ["tc", "qdisc", "replace", "dev", interface.name, "root", "fq"]
        )
        shown = network.read(
            interface.node, ["tc", "-j", "qdisc", "show", "dev", interface.name], logged=False
        )
        kinds = [entry["kind"] for entry in json.loads(shown) if entry.get("root")]
        if kinds != ["fq"]:
            raise NetworkError(
                f"{interface.node}: {interface.name}: fq asked, {', '.join(kinds) or 'nothing'}"
                " installed"
            )
        direction = "forward" if interface.node in first else "reverse"
        found.append(replace(interface, role=SENDER, direction=direction))
    return found
