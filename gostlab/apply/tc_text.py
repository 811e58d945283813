# SPDX-License-Identifier: MIT
"""Format a path as tc lines for a real machine; gostlab.importers.tc_lines reads them back."""

from collections.abc import Iterator
from fractions import Fraction

from gostlab.importers.base import SpecifiedDirection
from gostlab.importers.tc_lines import FRAME_BYTES, packets_in_flight
from gostlab.profile_import.write_specified import (
    float_percent,
    iproute2_distribution,
    percent_text,
)
from gostlab.registry.qdiscs import qdisc_kind
from gostlab.spec import units
from gostlab.spec.path_spec import DIRECTIONS, DirectionSpec, ReorderSpec, ShareSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.delay_tables import table_name_of

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
        if name == "forward" and run.path.forward.policer:
            yield f"tc qdisc replace dev {device} clsact"
        if name == "reverse":
            yield f"ip link add {INCOMING} type ifb; ip link set {INCOMING} up"
            incoming = "parent ffff:"
            if run.path.forward.policer:
                incoming = "ingress"  # clsact has both directions
            else:
                yield f"tc qdisc replace dev {device} ingress"
            yield (
                f"tc filter replace dev {device} {incoming} protocol all prio 1 matchall action"
                f" mirred egress redirect dev {INCOMING}"
            )
            if run.path.reverse.policer:
                yield f"tc qdisc replace dev {INCOMING} clsact"
        direction = direction_of_run(run.path[name], target)
        if period := run.path[name].loss.packets:
            yield f"# {name}: no tc line for the loss of every {period}th packet"
        if run.path[name].distribution and not direction.distribution:
            yield f"# {name}: the jitter's own table ({run.profile}): uniform in its place"
        yield from direction_lines(direction, run.bottleneck, run.queue)
    for name, direction_spec in zip(DIRECTIONS, run.path, strict=True):
        if direction_spec.outages:
            yield f"# {name}: no tc line for its outages (run.json)"
    if run.changes:
        yield f"# no tc line for what the path does later: {len(run.changes)} changes (run.json)"
    incoming = "clsact" if run.path.forward.policer else "ingress"
    yield f"# off again: tc qdisc del dev {device} root; tc qdisc del dev {device} {incoming}"


def direction_of_run(values: DirectionSpec, device: str) -> SpecifiedDirection:
    """Return a direction of run.json in the form that tc lines are read in."""
    loss = values.loss
    given: tuple[float | None, ...] = (loss.p, loss.r, loss.one_minus_h, loss.one_minus_k)
    if loss.model == "state":
        given = (loss.p, loss.r, loss.p32, loss.p23, loss.p14)
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
        loss_correlation=Fraction(str(loss.correlation)),
        policer=values.policer,
        reorder=values.reorder,
        duplicate=values.duplicate,
        corrupt=values.corrupt,
        slot=values.slot,
    )


def direction_lines(
    direction: SpecifiedDirection, bottleneck: str = "netem", queue: str = "fifo"
) -> list[str]:
    """Return the tc lines of one direction.

    One netem has delay, rate and buffer, unless its jitter may reorder packets (with a rate of its
    own netem keeps their order) or a token bucket or another queue is the bottleneck. Then a token
    bucket under the netem has the rate, and the queue under that the buffer.
    """
    lines = shaping_lines(direction, bottleneck, queue)
    if (policer := direction.policer) is None:
        return lines
    return [
        *lines,
        f"tc filter replace dev {direction.device} egress protocol ip prio 2 matchall action police"
        f" rate {policer.rate_bps}bit burst {policer.burst_bytes}b conform-exceed drop/pass",
    ]


def shaping_lines(direction: SpecifiedDirection, bottleneck: str, queue: str) -> list[str]:
    """Return the lines of one direction's qdiscs, from the root down."""
    prefix = f"tc qdisc replace dev {direction.device}"
    reorders = direction.jitter_s > 0 and not direction.ordered
    rate_bps, buffer = direction.rate_bps, direction.buffer.removesuffix("pkts")
    in_flight = packets_in_flight(rate_bps, direction.delay_s) if rate_bps else 0
    emulation = netem_delay_options(direction)
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
    declaration = qdisc_kind(queue)
    size = buffer if declaration.name != "bfifo" else str(size_bytes)
    return [
        f"{prefix} root handle 1: netem limit {limit}{emulation}{ordering}",
        f"{prefix} parent 1:1 handle 10: tbf {rate} burst {burst}b limit {size_bytes}b",
        f"{prefix} parent 10:1 handle 20: {declaration.in_kernel} limit {size}",
    ]


def netem_delay_options(direction: SpecifiedDirection) -> str:
    """Return netem's options of delay, jitter and loss, each after a blank."""
    options: list[str] = []
    if direction.delay_s or direction.jitter_s:
        options += ["delay", units.show_s(direction.delay_s)]
    if direction.jitter_s:
        options += [units.show_s(direction.jitter_s)]
        options += ["distribution", direction.distribution] if direction.distribution else []
    if direction.loss:
        model = {4: ["gemodel"], 5: ["state"]}.get(len(direction.loss), [])
        options += ["loss", *model, *(percent_text(share) for share in direction.loss)]
        if direction.loss_correlation:
            options.append(percent_text(direction.loss_correlation))
    options += netem_impairment_options(direction)
    return "".join(f" {word}" for word in options)


def netem_impairment_options(direction: SpecifiedDirection) -> list[str]:
    """Return netem's options of reordering, duplicates, corruption and slots."""
    options: list[str] = []
    for name in ("duplicate", "corrupt", "reorder"):
        impairment: ReorderSpec | ShareSpec | None = getattr(direction, name)
        if impairment is None or not impairment.share:
            continue
        options += [name, float_percent(impairment.share)]
        options += [float_percent(impairment.correlation)] if impairment.correlation else []
        if isinstance(impairment, ReorderSpec) and impairment.distance > 1:
            options += ["gap", str(impairment.distance)]
    if slot := direction.slot:
        times_ms = [slot.min_ms, slot.max_ms]
        options.append("slot")
        if slot.delay_ms is not None:
            times_ms = [slot.delay_ms, slot.jitter_ms or 0.0]
            options += ["distribution", table_name_of(slot.distribution or ()) or "normal"]
        options += [f"{units.show_ms(time_ms)}ms" for time_ms in times_ms]
        options += ["packets", str(slot.packets)] if slot.packets else []
        options += ["bytes", str(slot.bytes)] if slot.bytes else []
    return options
