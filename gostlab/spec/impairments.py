# SPDX-License-Identifier: MIT
"""Read what a path may do to packets besides rate, delay, jitter and loss.

A policer drops what exceeds its rate. Netem reorders, duplicates and corrupts a share of packets,
and lets them leave in slots. In an outage nothing passes.
"""

from collections.abc import Mapping

from gostlab.spec import units
from gostlab.spec.path_spec import (
    OutageSpec,
    PolicerSpec,
    ReorderSpec,
    ShareSpec,
    SlotSpec,
    jitter_reach,
)
from gostlab.spec.value_types import RATE, SHARE, SIZE, TIME, read_instant
from gostlab.spec.yaml_source import (
    KeySchema,
    Node,
    Reader,
    bounded_quantity,
    list_of,
    mapping_schema,
    one_of,
    read_mapping,
    takes,
    whole_number,
)
from gostlab.tcpmodel.delay_tables import TABLE_NAMES, delay_table
from gostlab.tcpmodel.run_limits import MTU_BYTES

OFF = "off"
PERCENT = SHARE.to(float)
CORRELATION = KeySchema(
    PERCENT,
    "correlation of a packet's random number with the one before, as netem makes it; the share of"
    " packets is then another (below 50% a smaller one)",
    default=0.0,
)
# The smallest burst and the fewest bytes of a slot that pass a full packet with its header.
MIN_PASSING_BYTES = MTU_BYTES + 14
MAX_SLOT_PKTS = 2**31 - 1
read_policer_rate = bounded_quantity(RATE, "1kbit", "100gbit", int)
read_burst = bounded_quantity(SIZE, f"{MIN_PASSING_BYTES}B", "1GiB", int, unit="a size")
read_slot_bytes = bounded_quantity(SIZE, f"{MIN_PASSING_BYTES}B", "1GiB", int, unit="a size")
read_slot_time = bounded_quantity(TIME, "0s", "10s", float, per=1000)
read_period_s = bounded_quantity(TIME, "1ms", "86400s", float)
POLICER_FIELDS = {
    "rate": KeySchema(
        read_policer_rate, "rate of the token bucket; what exceeds it is dropped", required=True
    ),
    "burst": KeySchema(
        read_burst,
        f"size of the token bucket, from one packet ({MIN_PASSING_BYTES}B) on",
        required=True,
    ),
}
SHARE_FIELDS = {
    "share": KeySchema(PERCENT, "share of packets", required=True),
    "correlation": CORRELATION,
}
REORDER_FIELDS = {
    "share": KeySchema(
        PERCENT, "share of packets that leave at once, without the delay", required=True
    ),
    "distance": KeySchema(
        whole_number(1, 10**6),
        "packets from one of them to the next at least (netem's gap)",
        unit="packets",
        default=1,
    ),
    "correlation": CORRELATION,
}
SLOT_LIMITS = {
    "packets": KeySchema(whole_number(1, MAX_SLOT_PKTS), "most packets of a slot", unit="packets"),
    "bytes": KeySchema(
        read_slot_bytes, f"most bytes of a slot, from one packet ({MIN_PASSING_BYTES}B) on"
    ),
}
SLOT_FIELDS = {
    "min": KeySchema(read_slot_time, "shortest time from a slot to the next", required=True),
    "max": KeySchema(read_slot_time, "longest time (default: min)"),
    **SLOT_LIMITS,
}
DISTRIBUTED_SLOT_FIELDS = {
    "distribution": KeySchema(
        one_of(*TABLE_NAMES), "shape of the time from a slot to the next", required=True
    ),
    "delay": KeySchema(read_slot_time, "mean of this time", required=True),
    "jitter": KeySchema(read_slot_time, "its variation", required=True),
    **SLOT_LIMITS,
}
OUTAGE_FIELDS = {
    "at": KeySchema(read_instant, "start of the outage, after the load's start", required=True),
    "for": KeySchema(read_period_s, "length of the outage", required=True),
    "every": KeySchema(read_period_s, "time from one outage to the next (default: one outage)"),
}


@takes({"anyOf": [{"enum": [OFF]}, mapping_schema(POLICER_FIELDS)]})
def read_policer(node: Node) -> PolicerSpec | None:
    """Return a policer, or None for off. Raises BadInput."""
    if node.text == OFF:
        return None
    if node.fields is None:
        raise node.bad(f"neither {OFF} nor like {{rate: 10mbit, burst: 15kB}}")
    values = read_mapping(node, POLICER_FIELDS)
    return PolicerSpec(rate_bps=values["rate"], burst_bytes=values["burst"])


@takes({"anyOf": [PERCENT.schema, mapping_schema(SHARE_FIELDS)]}, "%")
def read_share_of_packets(node: Node) -> ShareSpec | None:
    """Return a share of packets, or None for 0%. Raises BadInput."""
    if node.fields is None:
        return ShareSpec(share=share) if (share := PERCENT(node)) else None
    values = read_mapping(node, SHARE_FIELDS)
    reject_full_correlation(node, values)
    return ShareSpec(**values) if values["share"] else None


@takes({"anyOf": [PERCENT.schema, mapping_schema(REORDER_FIELDS)]}, "%")
def read_reorder(node: Node) -> ReorderSpec | None:
    """Return a reordering, or None for 0%. Raises BadInput."""
    if node.fields is None:
        return ReorderSpec(share=share) if (share := PERCENT(node)) else None
    values = read_mapping(node, REORDER_FIELDS)
    reject_full_correlation(node, values)
    return ReorderSpec(**values) if values["share"] else None


def reject_full_correlation(node: Node, values: Mapping[str, object]) -> None:
    """Reject random numbers that are all equal. Raises BadInput."""
    if values.get("correlation") == 1.0:
        raise node.bad("correlation of 100%: no packet differs from the first")


@takes(
    {
        "anyOf": [
            {"enum": [OFF]},
            read_slot_time.schema,
            mapping_schema(SLOT_FIELDS),
            mapping_schema(DISTRIBUTED_SLOT_FIELDS),
        ]
    },
    "a time",
)
def read_slot(node: Node) -> SlotSpec | None:
    """Return slots, or None for off. Raises BadInput."""
    if node.text == OFF:
        return None
    if node.fields is None:
        time_ms = read_slot_time(node)
        slot = SlotSpec(min_ms=time_ms, max_ms=time_ms)
    elif "distribution" in node.fields:
        values = read_mapping(node, DISTRIBUTED_SLOT_FIELDS)
        slot = SlotSpec(
            delay_ms=values["delay"],
            jitter_ms=values["jitter"],
            distribution=delay_table(values["distribution"]),
            packets=values["packets"],
            bytes=values["bytes"],
        )
        low, _ = jitter_reach(slot.distribution)
        low_ms = values["delay"] + low * values["jitter"]
        if not values["jitter"] or low_ms < 0:
            raise node.bad(
                "distribution without jitter: it is the shape of the jitter"
                if not values["jitter"]
                else f"jitter and distribution reach {units.show_time(-low_ms / 1000)} beyond"
                " delay: no slot comes before the one before it"
            )
    else:
        values = read_mapping(node, SLOT_FIELDS)
        longest_ms = values["min"] if values["max"] is None else values["max"]
        if longest_ms < values["min"]:
            raise node.bad("min is more than max")
        slot = SlotSpec(
            min_ms=values["min"],
            max_ms=longest_ms,
            packets=values["packets"],
            bytes=values["bytes"],
        )
    if not slot.reach_ms[1]:
        raise node.bad(f"slots of no time (write {OFF} for none)")
    return slot


def outage_of(node: Node) -> OutageSpec:
    """Return one outage, or its repetition. Raises BadInput."""
    values = read_mapping(node, OUTAGE_FIELDS)
    if values["every"] is not None and values["every"] <= values["for"]:
        raise node.bad("every is not longer than for: the outages would never end")
    return OutageSpec(at_s=values["at"], for_s=values["for"], every_s=values["every"])


ONE_OUTAGE = Reader(outage_of, lambda: mapping_schema(OUTAGE_FIELDS))


@takes(
    {
        "anyOf": [
            {"enum": [OFF]},
            ONE_OUTAGE.schema,
            {"type": "array", "items": ONE_OUTAGE.schema, "minItems": 1},
        ]
    }
)
def read_outage(node: Node) -> tuple[OutageSpec, ...]:
    """Return outages in order of time; () for off. Raises BadInput."""
    if node.text == OFF:
        return ()
    if node.fields is not None:
        return (ONE_OUTAGE(node),)
    if not node.items:
        raise node.bad(f"neither {OFF} nor like {{at: 10s, for: 500ms}}, or a list of such")
    outages = list_of(ONE_OUTAGE)(node)
    for before, after, item in zip(outages, outages[1:], node.items[1:], strict=False):
        if before.every_s is not None or after.every_s is not None:
            raise item.bad("a list of outages of which one repeats (write one of the two)")
        if after.at_s <= before.at_s + before.for_s:
            raise item.bad("it begins before the one before it has ended")
    return outages
