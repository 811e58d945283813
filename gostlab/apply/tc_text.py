"""Format a path as tc lines for a real machine; gostlab.importers.tc_lines reads them back."""

from collections.abc import Iterator
from fractions import Fraction

from gostlab.importers.base import SpecifiedDirection
from gostlab.importers.tc_lines import FRAME_BYTES, packets_in_flight
from gostlab.profile_import.write_specified import iproute2_distribution, percent_text
from gostlab.registry.qdiscs import qdisc_kind
from gostlab.spec import units
from gostlab.spec.path_spec import DirectionSpec
from gostlab.spec.run_spec import RunSpec

# The device that incoming packets are redirected to, so that one machine shapes both directions.
INCOMING = "ifb0"
# A rate above any other, with which netem sends in the order of arrival, as `ordered: on` does.
ORDERING_RATE = "10gbit"
# The token bucket holds two full packets, or the bytes of 0.1 ms at the rate, as in the lab.
BUCKET_PKTS, BUCKET_S = 2, Fraction(1, 10_000)
# What netem's limit has beyond the packets in flight if another queue is the buffer.
SPARE_PKTS = 1000


def tc_lines(run: RunSpec, device: str) -> Iterator[str]:
    """Yield a script that shapes both directions of a run's path on one machine's device."""
    yield f"# forward: what leaves {device}; reverse: what comes in. Delays are one way."
    yield f"ethtool -K {device} gso off tso off gro off  # netem takes a super-packet for one"
    for name, target in (("forward", device), ("reverse", INCOMING)):
        if name == "reverse":
            yield f"ip link add {INCOMING} type ifb; ip link set {INCOMING} up"
            yield f"tc qdisc replace dev {device} ingress"
            yield (
                f"tc filter replace dev {device} parent ffff: protocol all prio 1 matchall action"
                f" mirred egress redirect dev {INCOMING}"
            )
        direction = direction_of_run(run.path[name], target)
        if period := run.path[name].loss.packets:
            yield f"# {name}: no tc line for the loss of every {period}th packet"
        if run.path[name].distribution and not direction.distribution:
            yield f"# {name}: the jitter's own table ({run.profile}): uniform in its place"
        yield from direction_lines(direction, run.bottleneck, run.queue)
    if run.changes:
        yield f"# no tc line for what the path does later: {len(run.changes)} changes (run.json)"
    yield f"# off again: tc qdisc del dev {device} root; tc qdisc del dev {device} ingress"


def direction_of_run(values: DirectionSpec, device: str) -> SpecifiedDirection:
    """Return a direction of run.json in the form that tc lines are read in."""
    loss = values.loss
    given = (loss.p, loss.r, loss.one_minus_h, loss.one_minus_k)
    numbers = [Fraction(str(number)) for number in given if number is not None]
    lossless = loss.is_lossless or loss.packets is not None
    return SpecifiedDirection(
        device=device,
        position="",
        rate_bps=values.rate_bps,
        delay_s=Fraction(str(values.delay_ms)) / 1000,
        jitter_s=Fraction(str(values.jitter_ms)) / 1000,
        distribution=iproute2_distribution(values.distribution) if values.distribution else "",
        loss=() if lossless else tuple(numbers),
        buffer=f"{values.buffer_pkts}pkts" if values.buffer_pkts else "",
        buffer_from="",
        ordered=bool(values.ordered and values.jitter_ms),
    )


def direction_lines(
    direction: SpecifiedDirection, bottleneck: str = "netem", queue: str = "fifo"
) -> list[str]:
    """Return the tc lines of one direction.

    One netem has delay, rate and buffer, unless its jitter may reorder packets (with a rate of its
    own netem keeps their order) or a token bucket or another queue is the bottleneck. Then a token
    bucket under the netem has the rate, and the queue under that the buffer.
    """
    prefix = f"tc qdisc replace dev {direction.device}"
    reorders = direction.jitter_s > 0 and not direction.ordered
    rate_bps, buffer = direction.rate_bps, direction.buffer.removesuffix("pkts")
    in_flight = packets_in_flight(rate_bps, direction.delay_s) if rate_bps else 0
    emulation = emulation_words(direction)
    if rate_bps is None:
        return [f"{prefix} root netem{emulation}"]
    rate = f"rate {rate_bps}bit"
    if bottleneck == "netem" and queue == "fifo" and not reorders:
        limit = in_flight + int(buffer)
        return [f"{prefix} root netem limit {limit}{emulation} {rate}"]
    limit = in_flight + int(buffer) + SPARE_PKTS
    ordering = f" rate {ORDERING_RATE}" if direction.ordered else ""
    size_bytes = int(buffer) * FRAME_BYTES
    burst = max(BUCKET_PKTS * FRAME_BYTES, -(-rate_bps * BUCKET_S // 8))
    kind = qdisc_kind(queue)
    size = buffer if kind.name != "bfifo" else str(size_bytes)
    return [
        f"{prefix} root handle 1: netem limit {limit}{emulation}{ordering}",
        f"{prefix} parent 1:1 handle 10: tbf {rate} burst {burst}b limit {size_bytes}b",
        f"{prefix} parent 10:1 handle 20: {kind.in_kernel} limit {size}",
    ]


def emulation_words(direction: SpecifiedDirection) -> str:
    """Return netem's options of delay, jitter and loss, each after a blank."""
    options: list[str] = []
    if direction.delay_s or direction.jitter_s:
        options += ["delay", units.show_s(direction.delay_s)]
    if direction.jitter_s:
        options += [units.show_s(direction.jitter_s)]
        options += ["distribution", direction.distribution] if direction.distribution else []
    if direction.loss:
        options += ["loss", *(["gemodel"] if len(direction.loss) > 1 else [])]
        options += [percent_text(share) for share in direction.loss]
    return "".join(f" {word}" for word in options)
