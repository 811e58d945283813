# SPDX-License-Identifier: MIT
"""What a run's folder says of one figure."""

from pathlib import Path

import pytest
import synthetic

from gostlab import results
from gostlab.analysis.stats.metrics import value_of

MEASURED = {
    "ping_median_ms": 50.0,
    "ping_p95_ms": 90.0,
    "ping_p99_ms": 95.0,
    "fetch_median_s": 0.2,
    "fetch_p95_s": 0.4,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of a bulk flow, a ping and short downloads."""
    flows = ({}, {"kind": "ping", "cc": None}, {"kind": "short", "sizes_bytes": [10_000, 50_000]})
    return synthetic.write_run(tmp_path, synthetic.several(*flows))


def test_pings_and_the_smallest_downloads_have_their_own_figures(folder: Path) -> None:
    did = results.read_object(folder / "flows.json") or {}
    _, ping, short = did["flows"]
    ping["round_trips"] = {"sent": 4, "median_ms": 50.0, "p95_ms": 90.0, "p99_ms": 95.0}
    short["fetches"] = [
        {"size_bytes": 10_000, "count": 3, "median_s": 0.2, "p95_s": 0.4},
        {"size_bytes": 50_000, "count": 3, "median_s": 0.9, "p95_s": 1.4},
    ]
    synthetic.put(folder, "flows.json", did)

    run = synthetic.loaded(folder)
    assert {figure: value_of(run, figure) for figure in MEASURED} == MEASURED


def test_what_was_not_measured_has_none(folder: Path) -> None:
    run = synthetic.loaded(folder)
    assert {value_of(run, figure) for figure in MEASURED} == {None}


def test_a_transfer_a_video_and_bursts_have_their_own_figures(tmp_path: Path) -> None:
    kinds = ({"kind": "transfer"}, {"kind": "video", "direction": "download"}, {"kind": "onoff"})
    folder = synthetic.write_run(tmp_path, synthetic.several(*kinds))
    did = results.read_object(folder / "flows.json") or {}
    file, film, bursts = did["flows"]
    file["transfer"] = {"size_bytes": 1_000_000, "completion_s": 1.5}
    film["playback"] = {"startup_s": 0.3, "stalls": 2, "stalled_s": 4.0, "switches": 3}
    film["playback"] |= {"mean_bitrate_bps": 1_850_000.0, "segments": 9}
    bursts["on_off"] = {"bursts": 3, "on_s": 3.0, "max_late_s": 0.0, "on_bps": 4e6}
    synthetic.put(folder, "flows.json", did)

    run = synthetic.loaded(folder)
    measured = {"completion_s": 1.5, "startup_s": 0.3, "stalls": 2.0, "stalled_s": 4.0}
    measured |= {"switches": 3.0, "bitrate_mbit": 1.85, "burst_mbit": 4.0}
    assert {figure: value_of(run, figure) for figure in measured} == measured
    assert value_of(run, "completion_s:flow1") == 1.5
    assert value_of(run, "completion_s:flow2") is None
    assert [flow.competes for flow in run.flows] == [True, False, False]
    up, down = value_of(run, "up_mbit"), value_of(run, "down_mbit")
    assert up is not None and down is not None and up > down


def test_a_transfer_that_has_not_finished_has_no_time(tmp_path: Path) -> None:
    folder = synthetic.write_run(tmp_path, synthetic.several({"kind": "transfer"}, {}))
    did = results.read_object(folder / "flows.json") or {}
    did["flows"][0]["transfer"] = {"size_bytes": 1_000_000, "completion_s": None}
    synthetic.put(folder, "flows.json", did)
    assert value_of(synthetic.loaded(folder), "completion_s") is None
