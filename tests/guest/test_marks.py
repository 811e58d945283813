# SPDX-License-Identifier: MIT
"""ECN, queues that mark, and pacing by a qdisc, in the sandbox on the virtual clock."""

import itertools

import pytest

from gostlab.registry.qdiscs import marking_kinds, qdisc_kind
from tests.sandboxed import Done, Lab

pytestmark = pytest.mark.sandbox


def queued(queue: str, ecn: str) -> str:
    return (
        f"{{bottleneck: tbf, queue: {queue}, ecn: {ecn}, rate: 10mbit, rtt: 20ms, buffer: 200pkts,"
        " cc: reno, duration: 5s}"
    )


@pytest.mark.parametrize("queue", [kind.name for kind in marking_kinds().values()])
def test_a_queue_marks_who_asks_for_it_in_place_of_dropping_at_the_target_that_was_asked(
    lab: Lab, queue: str
) -> None:
    has_target = qdisc_kind(queue).has_target
    asked = queued(queue, "on, target: 12ms" if has_target else "on")

    done = lab.run(asked)

    # What is installed was read back and compared.
    shown = done.commands
    with_target = "target 12000us" in shown or "1: 2: 200 12000" in shown
    assert with_target == has_target
    assert done.flows["flow1"]["goodput_bps"] > 8e6
    seen = done.queue()[-1]
    assert seen["marks"] > 0
    if "pie" not in queue:  # PIE drops as soon as it would mark more than a tenth (RFC 8033, 5.1)
        assert seen["drops"] == 0
        assert done.leg("wan")["segments_retransmitted"] == 0
    # Every mark that the queue made came to the receiver, but for those still on the way.
    assert done.counter("target", "IpExtInCEPkts") == pytest.approx(seen["marks"], abs=5)


def test_without_ecn_the_same_queue_drops(lab: Lab) -> None:
    done = lab.run(queued("codel", "off"))

    seen = done.queue()[-1]
    assert seen["marks"] == 0 and seen["drops"] > 0
    assert done.counter("target", "IpExtInCEPkts") == 0


def test_the_delay_lines_losses_may_be_marks(lab: Lab) -> None:
    done = lab.run("{ecn: losses, forward.loss: 1%, duration: 3s}")

    assert done.json("legs.json")["nstat"]["target"]["IpExtInCEPkts"] > 10
    assert done.leg("wan")["segments_retransmitted"] == 0


BESIDE = (
    "{topology: dumbbell, bottleneck: tbf, queue: codel, ecn: on, rate: 20mbit, rtt: 20ms,"
    " buffer: 1000pkts, duration: 4s, cc: reno, flows: {asks: {}, not: {ecn: off}}}"
)


def test_a_flow_may_ask_for_ecn_where_its_neighbour_does_not(lab: Lab) -> None:
    done = lab.run(BESIDE)

    legs = {leg["flow"]: leg for leg in done.legs}
    assert legs["asks"]["marked_pkts"] > 10 and legs["asks"]["segments_retransmitted"] == 0
    assert "marked_pkts" not in legs["not"] and legs["not"]["segments_retransmitted"] > 0
    assert done.counter("r1", "IpExtInCEPkts") > 10
    assert done.counter("r2", "IpExtInCEPkts") == 0


def test_accurate_ecn_counts_every_mark_and_fq_codel_has_l4ss_threshold(lab: Lab) -> None:
    """CUBIC sends ECT(0), to which the threshold does not apply; Prague's ECT(1) it does."""
    words = queued("fq_codel", "l4s")
    seen = {cc: lab.run(words.replace("reno", cc)) for cc in ("cubic", "prague")}

    for done in seen.values():
        marks = done.queue()[-1]["marks"]
        assert done.queue()[-1]["drops"] == 0 and marks > 0
        # Classic ECN says that there was a mark in a round trip, accurate ECN how many.
        assert done.leg("wan")["marked_pkts"] == pytest.approx(marks, rel=0.02)
        assert done.counter("target", "IpExtInCEPkts") == pytest.approx(marks, rel=0.02)
    assert seen["prague"].queue()[-1]["marks"] > 5 * seen["cubic"].queue()[-1]["marks"]
    waits = {cc: [row["backlog_bytes"] for row in done.queue()[5:]] for cc, done in seen.items()}
    assert sum(waits["prague"]) < 0.5 * sum(waits["cubic"])
    shown = seen["prague"].commands
    assert "fq_codel limit 200 ecn ce_threshold 1000us ce_threshold_selector 0x1/0x3" in shown


PACED = (
    "{rate: 50mbit, buffer: 1000pkts, offloads: off, sample: 1ms, direction: download,"
    " flows: {page: {kind: http, size: 300kB}}, "
)


def densest_ms(done: Done) -> int:
    """How many packets come to the bottleneck in one millisecond at the most, in the second and the
    third flight of the load: 20 and 40 packets, which unpaced follow their ACKs, two for each, at
    twice the bottleneck's rate; paced they fill half of a round trip of 40 ms.
    """
    rows = [
        (row["t_s"], row["sent_pkts"] + row["backlog_pkts"] + row["drops"])
        for row in done.queue(direction="reverse")
    ]
    came = [(at_s, now - before) for (_, before), (at_s, now) in itertools.pairwise(rows)]
    first_s = next(at_s for at_s, packets in came if packets >= 8)  # ten, which nothing paces
    return max(packets for at_s, packets in came if 0.03 < at_s - first_s < 0.11)


def test_paced_packets_leave_spaced_and_unpaced_ones_in_trains(lab: Lab) -> None:
    asked = {
        "unpaced": "cc: cubic, pacing: internal}",
        "fq": "cc: cubic, pacing: fq}",
        "bbr": "cc: bbr, pacing: internal}",
    }
    runs = {name: lab.run(PACED + words) for name, words in asked.items()}

    densest = {name: densest_ms(done) for name, done in runs.items()}
    assert max(densest["fq"], densest["bbr"]) <= 4 and densest["unpaced"] >= 6, densest
    assert runs["fq"].checks["sender_queue_drops"]["got"] == 0
    assert runs["fq"].queue("sender", "reverse")[-1]["sent_bytes"] > 1e5
    assert not [row for row in runs["bbr"].lines("queues.jsonl") if row["role"] == "sender"]
    assert "root fq" in runs["fq"].commands
