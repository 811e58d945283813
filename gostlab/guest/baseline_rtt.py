"""Ping the idle path, and compare its round trip with the requested one."""

import math
from collections.abc import Sequence
from contextlib import suppress

from gostlab.guest.icmp_echo import echo_rtts_ms
from gostlab.guest.network import Network, NetworkError, set_sysctls
from gostlab.guest.probes import fidelity
from gostlab.guest.shaping import Shaper
from gostlab.spec.flow import FlowSpec
from gostlab.spec.path_spec import DirectionSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.verdict import Check

# A ping of 64 bytes with its Ethernet and IP headers.
PING_BITS = (64 + 20 + 14) * 8
PING_INTERVAL_S = 0.2
# A queue has drained if a ping takes at most this factor of the idle path's round trip, and one
# interval more. It is waited for so many rounds of pings.
DRAINED, MAX_DRAIN_ROUNDS = 2, 10
# ARP gives up after three requests, one second apart; a ping waits at least this long.
ARP_WAITS_S, MIN_PING_WAIT_S = 3, 5


def check_idle_rtts(network: Network, run: RunSpec, shaper: Shaper, name: str) -> list[Check]:
    """Ping the idle path of every pair of hosts with a flow, and return a check for each.

    Raises NetworkError.
    """
    first_of_pair: dict[tuple[str, str], FlowSpec] = {}
    for flow in run.flows:
        first_of_pair.setdefault((flow.sender, flow.receiver), flow)
    checks = []
    for flow in first_of_pair.values():
        path = shaper.path_of_flow(flow)
        check_name = name if flow is run.flows[0] else f"{name}_{flow.name}"
        wait_s = ping_wait_s(run.longest_rtt_s(flow))
        steady = all(crossed.is_steady for crossed in path)
        jitter_ms = jitter_range_ms(path)
        longest_ms = idle_rtt_ms(path) + jitter_ms[1]
        measured_ms = ping_path(
            *(network, flow.sender, flow.receiver), steady=steady, wait_s=wait_s, idle_ms=longest_ms
        )
        checks.append(
            fidelity.check_idle_rtt(check_name, run, idle_rtt_ms(path), measured_ms, jitter_ms)
        )
    return checks


def refuse_wrong_path(checks: Sequence[Check]) -> None:
    """Raise NetworkError if the path is not the requested one, so that no load is started."""
    for idle in checks:
        if idle.verdict == "invalid":
            raise NetworkError(
                f"before the load, {idle.reason} ({idle.requested} ms asked,"
                f" {idle.got} ms measured)"
            )


def ping_path(
    network: Network, source: str, receiver: str, *, steady: bool, wait_s: int, idle_ms: float
) -> list[float]:
    """Return round-trip times in ms; more of them if they vary. idle_ms: the longest expected."""
    target = network.ip(receiver)
    # ARP crosses the delay line too, and packets wait for its answer. After a load the first pings
    # wait for the queue to drain, or are dropped by it, and what was lost in it is sent again.
    with suppress(NetworkError):
        for _ in range(MAX_DRAIN_ROUNDS):
            first_ms = ping_rtts_ms(
                network, source, target, count=2 if steady else 8, wait_s=wait_s
            )
            if first_ms[-1] <= DRAINED * idle_ms + PING_INTERVAL_S * 1000:
                break
    return ping_rtts_ms(network, source, target, count=2 if steady else 12, wait_s=wait_s)


def ping_wait_s(longest_rtt_s: float) -> int:
    """Return how long ping waits for its last answer.

    The time covers an ARP round trip, the echo's, and one more second.
    """
    return max(MIN_PING_WAIT_S, math.ceil(2 * longest_rtt_s) + 1)


def prolong_arp_retries(network: Network, longest_rtt_s: float) -> None:
    """Let routers repeat ARP requests until the path can have answered.

    That matters where a round trip takes longer than ARP's three seconds. A router that gave up
    would drop all packets in the middle of a load: its neighbour's reply waits in the full queue.
    """
    if longest_rtt_s <= ARP_WAITS_S - 0.5:
        return
    requests = str(ARP_WAITS_S + math.ceil(longest_rtt_s))
    for node in network.nodes:
        values = {
            f"net.ipv4.neigh.{interface.name}.{request_type}_solicit": requests
            for interface in network.interfaces
            if interface.node == node
            for request_type in ("mcast", "ucast")
        }
        set_sysctls(network, node, values)


def idle_rtt_ms(path: Sequence[DirectionSpec]) -> float:
    """Return the requested round trip of an idle path.

    It consists of the delays, and of one ping's transmission time at the rates.
    """
    rates_bps = [crossed.rate_bps for crossed in path if crossed.rate_bps]
    sending_ms = sum(1000 * PING_BITS / rate_bps for rate_bps in rates_bps)
    return float(sum(crossed.delay_ms for crossed in path) + sending_ms)


def jitter_range_ms(path: Sequence[DirectionSpec]) -> tuple[float, float]:
    """Return how far below and above its idle round trip a path may shift a packet, ms.

    Besides jitter, each packet of an idle path waits for a slot, and one that is reordered has no
    delay.
    """
    low = high = 0.0
    for crossed in path:
        low += crossed.jitter_ms * crossed.jitter_reach[0]
        high += crossed.jitter_ms * crossed.jitter_reach[1]
        if crossed.reorder:
            low -= crossed.delay_ms
        if crossed.slot:
            high += crossed.slot.reach_ms[1]
    return min(low, 0.0), max(high, 0.0)


def ping_rtts_ms(
    network: Network, source: str, target: str, *, count: int, wait_s: int
) -> list[float]:
    """Return the round-trip times of `count` pings, ms. Raises NetworkError if none is answered."""
    argv = ["ping", "-c", str(count), "-i", f"{PING_INTERVAL_S:g}", "-W", str(wait_s), target]
    network.log.run(source, argv, stdout="/dev/null", may_fail=True)
    pid = network.pid(source)
    try:
        times_ms = echo_rtts_ms(pid, target, count=count, interval_s=PING_INTERVAL_S, wait_s=wait_s)
    except OSError as error:
        raise NetworkError(f"{source}: no ping to {target} left: {error.strerror}") from error
    if not times_ms:
        raise NetworkError(f"{source}: no ping to {target} came back")
    return times_ms
