"""The tc lines of a path read back as the same path."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from gostlab.apply.tc_text import direction_lines
from gostlab.importers.base import Recording, SpecifiedDirection, SpecifiedPath
from gostlab.importers.tc_lines import FORMAT


def any_direction(draw: random.Random) -> SpecifiedDirection:
    delay_s = Fraction(draw.randrange(0, 300_000), 10**6)
    jitter_s = Fraction(draw.choice([0, draw.randrange(50_000)]), 10**6)
    share = Fraction(draw.randrange(1, 10_000), 1_000_000)
    losses = [(), (share,), (share, Fraction(1, 5), Fraction(7, 10), Fraction(0))]
    return SpecifiedDirection(
        device="eth0",
        position="",
        rate_bps=draw.choice([draw.randrange(10**5, 10**9), 20_000_000]),
        delay_s=delay_s,
        jitter_s=jitter_s,
        distribution=draw.choice(["", "normal"]) if jitter_s else "",
        loss=draw.choice(losses),
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
