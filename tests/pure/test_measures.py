"""What samples say in one number each, of samples made up to have a known answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gostlab.measures import bottleneck_used, goodput_bps
from tests.integration.sandboxed import describe, direction


def sent_by(
    t_s: float, sent_bytes: float, dev: str = "wan_a-eth1", direction: str = "forward"
) -> dict[str, Any]:
    return {
        "role": "bottleneck",
        "direction": direction,
        "dev": dev,
        "t_s": t_s,
        "sent_bytes": sent_bytes,
    }


def test_the_bottleneck_is_full_at_the_rate_that_it_has_just_then() -> None:
    run = replace(
        describe(direction(rate_bps=8_000_000)),
        changes=[
            {"at_s": 2.0, "direction": "forward", "rate_bps": 2_000_000},
            {"at_s": 2.5, "direction": "reverse", "rate_bps": 1},
        ],
    )
    sent = [0.0, 1e6, 2e6, 2.25e6, 2.5e6, 2.75e6]
    assert bottleneck_used(
        run.to_json(), [sent_by(float(t_s), each) for t_s, each in enumerate(sent)]
    ) == pytest.approx(1.0)
    assert bottleneck_used(run.to_json(), [sent_by(0.0, 0.0)]) is None
    assert bottleneck_used(replace(run, changes=[]).to_json(), []) is None


def test_of_several_bottlenecks_the_one_that_sent_most_counts() -> None:
    run = describe(direction(rate_bps=8_000_000))
    rows = [
        sent_by(float(t_s), t_s * share * 1e6, dev, way)
        for t_s in range(4)
        for dev, way, share in (
            ("near1-eth1", "forward", 0.0),
            ("near2-eth1", "forward", 0.5),
            ("far2-eth0", "reverse", 0.9),
        )
    ]
    assert bottleneck_used(run.to_json(), rows) == pytest.approx(0.5)


def test_total_goodput_is_without_udp_unless_there_is_nothing_else(tmp_path: Path) -> None:
    def total(flows: object) -> float | None:
        (tmp_path / "flows.json").write_text(json.dumps({"flows": flows}))
        return goodput_bps(tmp_path)

    assert (
        total(
            [
                {"kind": "tcp", "goodput_bps": 3},
                {"kind": "http", "goodput_bps": 4},
                {"kind": "udp", "goodput_bps": 9},
            ]
        )
        == 7
    )
    assert total([{"kind": "udp", "goodput_bps": 9}]) == 9
    for damaged in (
        None,
        3,
        [3],
        [{"kind": "tcp"}],
        [{"kind": "tcp", "goodput_bps": "many"}],
        [{"kind": "tcp", "goodput_bps": None}],
    ):
        assert total(damaged) is None
    assert goodput_bps(tmp_path / "nowhere") is None
