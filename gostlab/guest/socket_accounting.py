"""What a program of the user's own did: counted by its sockets, or where it sends datagrams by its
hosts' links, as it tells nothing that the lab could read.
"""

from dataclasses import replace

from gostlab.guest.flow_result import FlowInterval, FlowResult, TrafficError
from gostlab.guest.probes.first_last_byte import FIRST_LEGS, LAST_LEGS
from gostlab.guest.probes.sampler import CONTROL_BYTES, Probes
from gostlab.guest.tunnel_context import Tunnel
from gostlab.results.metrics import SENDING_END
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec

# Of what crosses the receiver's link: with less of it in TCP sockets, datagrams carry the data.
MIN_IN_SOCKETS = 0.1
HEADERS_BYTES = 14 + 20 + 8  # Ethernet, IP, UDP
SOCKETS, LINKS = "sockets", "links"


def counted(
    run: RunSpec, flow: FlowSpec, did: FlowResult, probes: Probes, tunnel: Tunnel
) -> FlowResult:
    """What a counted flow did, of which its own program tells nothing. Raises TrafficError for one
    that did nothing, or that nothing can tell apart from others.
    """
    by, part = what_it_did(run, flow, probes, tunnel, whole=True)
    if not part.bytes:
        ran_s = did.ended_s - did.started_s
        raise TrafficError(
            f"{flow.name}: its client ended after {ran_s:.3g} s and its {flow.direction}"
            " carried nothing: did it connect to $HOST and $PORT? (direction: says whose"
            " data count)"
        )
    return replace(did, goodput_bps=8 * part.bytes / did.seconds, counted_by=by, **vars(part))


def in_sockets(
    flow: FlowSpec, probes: Probes, tunnel: Tunnel, *, whole: bool = False
) -> FlowInterval:
    """What a flow's TCP sockets carried and sent again in the part of the load that is measured, or
    in the whole of it.

    What arrives behind a lost segment counts when it does, and not all at once with that segment's
    retransmission: the receiver has it (SACK), although a program cannot read it yet. In a tunnel
    with a connection of the flow's own, that is so of the connection across the path.
    """
    sending = SENDING_END[flow.direction]
    legs = {leg.name: leg for leg in tunnel.legs if leg.flow == flow.name}
    last = next(legs[name] for name in LAST_LEGS[sending] if name in legs)
    first = next(legs[name] for name in FIRST_LEGS[sending] if name in legs)
    arrived = probes.bytes_arrived(last, sending, whole=whole)
    across = {leg.flow: leg for leg in tunnel.legs if leg.name == "wan"}
    owned = across.keys() == {leg.flow for leg in tunnel.legs}
    if owned and last.name in ("exit", "app") and "wan2" not in legs and not whole:
        # what its receiver has passed on, less what its sender knows to have arrived
        receiving, path = "far" if sending == "near" else "near", across[flow.name]
        passed_on = probes.counted(path, receiving, "bytes_received")
        arrived += probes.bytes_arrived(path, sending) - passed_on
    return FlowInterval(
        max(0, arrived), probes.counted(first, sending, "segments_retransmitted", whole=whole)
    )


def what_it_did(
    run: RunSpec, flow: FlowSpec, probes: Probes, tunnel: Tunnel, *, whole: bool = False
) -> tuple[str, FlowInterval]:
    """What counted a flow, and what it did in the part of the load that is measured, or in the
    whole of it. Raises TrafficError.
    """
    part = in_sockets(flow, probes, tunnel, whole=whole)
    sender, receiver = flow.sender, flow.receiver
    if flow.direction == "download":
        sender, receiver = receiver, sender
    sent, got = (probes.crossed(flow.name, host, whole=whole) for host in (sender, receiver))
    payload = max(0, got.rx_bytes - HEADERS_BYTES * got.rx_pkts)
    others = [each for each in run.flows if each.name != flow.name]
    alone = not any({each.sender, each.receiver} & {sender, receiver} for each in others)
    least = MIN_IN_SOCKETS * payload if alone else CONTROL_BYTES
    if part.bytes and part.bytes >= least:
        return SOCKETS, part
    if not alone:
        raise TrafficError(
            f"{flow.name}: TCP to $PORT carries {part.bytes} bytes of it, and what crosses its"
            " hosts' links is also other flows': give it hosts of its own (topology: dumbbell)"
        )
    lost = max(0, sent.tx_pkts - got.rx_pkts)
    return LINKS, FlowInterval(payload, None, lost, sent.tx_pkts)
