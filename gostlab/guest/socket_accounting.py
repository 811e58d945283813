"""Count the data of a user-supplied program by its sockets, or its hosts' links for datagrams.

The program itself reports nothing that the lab could read.
"""

from dataclasses import replace

from gostlab.guest.flow_result import FlowInterval, FlowResult, TrafficError
from gostlab.guest.probes.first_last_byte import FIRST_LEGS, LAST_LEGS
from gostlab.guest.probes.sampler import Probes
from gostlab.guest.tunnel_context import Tunnel
from gostlab.registry.traffic import CONTROL_BYTES
from gostlab.results.metrics import SENDING_END
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec

# Minimum share of the receiver's link traffic in TCP sockets; with less, datagrams carry the data.
MIN_IN_SOCKETS = 0.1
HEADERS_BYTES = 14 + 20 + 8  # Ethernet, IP, UDP
SOCKETS, LINKS = "sockets", "links"


def add_counts(
    run: RunSpec, flow: FlowSpec, result: FlowResult, probes: Probes, tunnel: Tunnel
) -> FlowResult:
    """Return the result of a counted flow, whose program reports nothing.

    Raises TrafficError if it carried nothing, or cannot be told apart from others.
    """
    by, part = count_traffic(run, flow, probes, tunnel, whole=True)
    if not part.bytes:
        ran_s = result.ended_s - result.started_s
        raise TrafficError(
            f"{flow.name}: its client ended after {ran_s:.3g} s and its {flow.direction}"
            " carried nothing: did it connect to $HOST and $PORT? (direction: says whose"
            " data count)"
        )
    return replace(result, goodput_bps=8 * part.bytes / result.seconds, counted_by=by, **vars(part))


def count_in_sockets(
    flow: FlowSpec, probes: Probes, tunnel: Tunnel, *, whole: bool = False
) -> FlowInterval:
    """Return what a flow's TCP sockets carried and retransmitted in the measured part or the whole.

    Data behind a lost segment counts when they arrive, and not all at once with its retransmission:
    the receiver has them (SACK), although a program cannot read them yet. In a tunnel with one
    connection per flow this holds for the connection across the path.
    """
    sending = SENDING_END[flow.direction]
    legs = {leg.name: leg for leg in tunnel.legs if leg.flow == flow.name}
    last = next(legs[name] for name in LAST_LEGS[sending] if name in legs)
    first = next(legs[name] for name in FIRST_LEGS[sending] if name in legs)
    arrived = probes.bytes_delivered(last, sending, whole=whole)
    across = {leg.flow: leg for leg in tunnel.legs if leg.name == "wan"}
    one_connection_per_flow = across.keys() == {leg.flow for leg in tunnel.legs}
    if (
        one_connection_per_flow
        and last.name in ("exit", "app")
        and "wan2" not in legs
        and not whole
    ):
        # Add what arrived on the path, less what the receiver has passed on.
        receiving, path = "far" if sending == "near" else "near", across[flow.name]
        passed_on = probes.counted(path, receiving, "bytes_received")
        arrived += probes.bytes_delivered(path, sending) - passed_on
    return FlowInterval(
        max(0, arrived), probes.counted(first, sending, "segments_retransmitted", whole=whole)
    )


def count_traffic(
    run: RunSpec, flow: FlowSpec, probes: Probes, tunnel: Tunnel, *, whole: bool = False
) -> tuple[str, FlowInterval]:
    """Return how a flow was counted, and its counts in the measured part or the whole.

    Raises TrafficError.
    """
    part = count_in_sockets(flow, probes, tunnel, whole=whole)
    sender, receiver = flow.sender, flow.receiver
    if flow.direction == "download":
        sender, receiver = receiver, sender
    sent, received = (probes.crossed(flow.name, host, whole=whole) for host in (sender, receiver))
    payload = max(0, received.rx_bytes - HEADERS_BYTES * received.rx_pkts)
    others = [other for other in run.flows if other.name != flow.name]
    alone = not any({other.sender, other.receiver} & {sender, receiver} for other in others)
    min_bytes = MIN_IN_SOCKETS * payload if alone else CONTROL_BYTES
    if part.bytes and part.bytes >= min_bytes:
        return SOCKETS, part
    if not alone:
        raise TrafficError(
            f"{flow.name}: TCP to $PORT carries {part.bytes} bytes of it, and what crosses its"
            " hosts' links is also other flows': give it hosts of its own (topology: dumbbell)"
        )
    lost = max(0, sent.tx_pkts - received.rx_pkts)
    return LINKS, FlowInterval(payload, None, lost, sent.tx_pkts)
