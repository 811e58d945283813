# SPDX-License-Identifier: MIT
"""The tc lines of a path read back as the same path."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from gostlab.apply.tc_text import direction_lines
from gostlab.importers.base import Recording, SpecifiedDirection, SpecifiedPath
from gostlab.importers.tc_lines import FORMAT
from gostlab.spec.path_spec import PolicerSpec, ReorderSpec, ShareSpec, SlotSpec
from gostlab.tcpmodel.delay_tables import delay_table


def any_direction(draw: random.Random) -> SpecifiedDirection:
    delay_s = Fraction(draw.randrange(0, 300_000), 10**6)
    jitter_s = Fraction(draw.choice([0, draw.randrange(50_000)]), 10**6)
    share = Fraction(draw.randrange(1, 10_000), 1_000_000)
    losses = [
        (),
        (share,),
        (share, Fraction(1, 5), Fraction(7, 10), Fraction(0)),
        (share, Fraction(1, 5), Fraction(1, 10), Fraction(1, 2), Fraction(1, 1000)),
    ]
    loss = draw.choice(losses)
    some_share = draw.randrange(1, 10_000) / 100_000
    return SpecifiedDirection(
        device="eth0",
        position="",
        rate_bps=draw.choice([draw.randrange(10**5, 10**9), 20_000_000]),
        delay_s=delay_s,
        jitter_s=jitter_s,
        distribution=draw.choice(["", "normal"]) if jitter_s else "",
        loss=loss,
        loss_correlation=Fraction(draw.choice([0, 1]), 4) if len(loss) == 1 else Fraction(0),
        policer=draw.choice([None, PolicerSpec(rate_bps=10**6, burst_bytes=15_000)]),
        duplicate=draw.choice([None, ShareSpec(share=some_share)]),
        corrupt=draw.choice([None, ShareSpec(share=some_share, correlation=0.25)]),
        **draw.choice(
            [
                {},
                {"slot": SlotSpec(min_ms=2.0, max_ms=2.5, packets=7)},
                {"slot": SlotSpec(delay_ms=9.0, jitter_ms=2.0, distribution=delay_table("normal"))},
                {"reorder": ReorderSpec(share=some_share, distance=draw.choice([1, 5]))},
            ]
        ),
        buffer=f"{draw.randrange(1, 5000)}pkts",
        buffer_from="",
        ordered=bool(jitter_s) and draw.random() < 0.5,
    )


def read_back(lines: list[str]) -> SpecifiedPath:
    path = FORMAT.read([Recording("tc.sh", "\n".join(lines))])
    assert isinstance(path, SpecifiedPath)
    return path


@pytest.mark.parametrize("seed", range(200))
def test_a_path_is_the_same_after_writing_and_reading(seed: int) -> None:
    draw = random.Random(seed)
    direction = any_direction(draw)
    bottleneck = draw.choice(["netem", "tbf", "htb"])
    queue = draw.choice(["fifo", "fq_codel", "codel"]) if bottleneck != "netem" else "fifo"
    path = read_back(direction_lines(direction, bottleneck, queue))
    assert path.left_out == ()
    assert path.forward is not None
    assert replace(path.forward, position="", buffer_from="") == direction
    assert path.settings.get("queue", "fifo") == queue
