# SPDX-License-Identifier: MIT
"""The drawings of pings, short downloads and windows, looked into as objects."""

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import drawn, labelled

from gostlab import results as contract

TRIPS = {"sent": 4, "lost": 1, "median_ms": 50.0, "p95_ms": 90.0, "p99_ms": 95.0}
RTTS = (40.0, 50.0, None, 90.0)


def write(results: Path, cc: str, **changes: Any) -> Path:
    """A run of a bulk flow beside a ping and short downloads; what they measured."""
    run = synthetic.several(
        {"cc": cc},
        {"kind": "ping", "cc": None, "interval_ms": 100.0},
        {"kind": "short", "cc": cc, "sizes_bytes": [10_000]},
        cc=cc,
        factors={"cc": cc},
        **changes,
    )
    folder = synthetic.write_run(results, run, name=f"{cc}-{changes.get('rtt_ms', 0)}")
    flows = contract.read_object(folder / "flows.json") or {}
    for row in flows["flows"]:
        if row["name"] == "flow2":
            row["round_trips"] = TRIPS
        if row["name"] == "flow3":
            fetched = {"size_bytes": 10_000, "count": 3, "median_s": 0.2, "p95_s": 0.4}
            row["fetches"] = [fetched]
    synthetic.put(folder, "flows.json", flows)
    rows = [{"t_s": n / 10, "flow": "flow2", "rtt_ms": rtt} for n, rtt in enumerate(RTTS)]
    synthetic.put_lines(folder, "pings", rows)
    return folder


@pytest.mark.slow
def test_pings_are_drawn_over_time_and_what_was_lost_keeps_their_share_below_one(
    tmp_path: Path,
) -> None:
    write(tmp_path, "cubic")
    made = drawn(tmp_path, "ping")
    time, cdf = made.pictures

    [line] = labelled(time.figure, "lab cubic")
    assert [value for value in line.get_ydata() if value == value] == [40.0, 50.0, 90.0]
    [line] = labelled(cdf.figure, "lab cubic")
    assert list(line.get_ydata()) == [0.25, 0.5, 0.75]


def test_goodput_stands_beside_the_ping(tmp_path: Path) -> None:
    for cc in ("cubic", "bbr"):
        legs = write(tmp_path, cc) / "legs.json"
        found = json.loads(legs.read_text())
        found["legs"][0] |= {"segments_out": 1000, "segments_retransmitted": 25}
        legs.write_text(json.dumps(found))
    [picture] = drawn(tmp_path, "lag").pictures

    goodput, ping = (labelled(picture.figure, "lab bbr", panel)[0] for panel in (0, 1))
    assert goodput.get_xdata()[0] > 0 and ping.get_xdata()[0] == 50.0
    [resent] = labelled(picture.figure, "lab bbr", 2)
    assert resent.get_xdata()[0] == pytest.approx(0.025, rel=0.01)


def test_downloads_are_drawn_by_size(tmp_path: Path) -> None:
    write(tmp_path, "cubic")
    made = drawn(tmp_path, "fetches")

    [line] = labelled(made.pictures[0].figure, "lab cubic")
    assert list(line.get_xdata()) == [10_000] and list(line.get_ydata()) == [0.2]


def test_windows_are_drawn_against_what_a_round_trip_allows(tmp_path: Path) -> None:
    for number, most in enumerate((1_000_000, 8_000_000)):
        sizes = {"rmem": [4096, 131072, most], "wmem": [4096, 16384, most]}
        levels = {"cc": "cubic", "buffers": f"b{number}"}
        synthetic.write_at(tmp_path, levels, asked={"buffers": sizes})
    made = drawn(tmp_path, "knee")

    [line] = labelled(made.pictures[0].figure, "lab cubic")
    assert list(line.get_xdata()) == pytest.approx([600_000, 4_800_000])


def test_a_videos_rungs_are_steps_and_a_stall_is_a_mark_at_its_end(tmp_path: Path) -> None:
    run = synthetic.several({"cc": "bbr"}, {"kind": "video", "ladder_bps": [300_000]}, cc="bbr")
    folder = synthetic.write_run(tmp_path, run)
    flows = contract.read_object(folder / "flows.json") or {}
    flows["flows"][1]["playback"] = {"startup_s": 0.5, "stalls": 1, "mean_bitrate_bps": 5e5}
    synthetic.put(folder, "flows.json", flows)
    rungs = [(0.0, 300_000, 0.5, 0.0), (0.5, 1_200_000, 4.0, 1.5), (4.5, 300_000, 1.0, 0.0)]
    names = ("t_s", "bitrate_bps", "seconds", "stalled_s")
    synthetic.put_lines(
        folder,
        "segments",
        [{"flow": "flow2", **dict(zip(names, row, strict=True))} for row in rungs],
    )
    [picture] = drawn(tmp_path, "playback").pictures

    [line] = labelled(picture.figure, "lab bbr")
    assert list(line.get_ydata())[:3] == [0.3, 1.2, 0.3]
    [stalls] = [each for each in picture.figure.axes[0].lines if each.get_marker() == "|"]
    assert list(stalls.get_xdata()) == [4.5]
