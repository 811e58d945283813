# SPDX-License-Identifier: MIT
"""Video: the rung follows the throughput, and playing stalls where the path does not carry it."""

import json

import pytest

from gostlab.guest import video_client
from gostlab.guest.flow_result import FlowRun, TrafficError
from gostlab.traffic import video
from tests.asked import run_of
from tests.sandboxed import Lab

LADDER = [300_000, 750_000, 1_200_000, 1_850_000, 2_850_000, 4_300_000]


def test_the_rung_is_the_highest_that_the_throughput_carries() -> None:
    assert video_client.choose(LADDER, []) == 300_000
    assert video_client.choose(LADDER, [100_000]) == 300_000
    assert video_client.choose(LADDER, [2_200_000]) == 1_850_000
    assert video_client.choose(LADDER, [1_850_000 / 0.85 - 1]) == 1_200_000
    # The harmonic mean of 1 and 3 is 1.5: 0.85 of it is 1.275.
    assert video_client.choose(LADDER, [1e6, 3e6]) == 1_200_000


def test_a_player_stalls_when_its_buffer_is_empty() -> None:
    player = video_client.Player()
    assert player.advance(1.0) == 0.0  # it does not play yet
    player.add(2.0)
    assert player.advance(2.5) == 0.0 and player.buffer_s == pytest.approx(0.5)
    assert player.advance(4.0) == pytest.approx(1.0) and player.buffer_s == 0.0
    player.add(2.0)
    assert player.advance(5.0) == 0.0 and player.buffer_s == 1.0


def line(at_s: float, rate: int, seconds: float, stalled_s: float = 0.0) -> str:
    row = {"at_s": at_s, "bitrate_bps": rate, "size_bytes": rate // 4, "seconds": seconds}
    return json.dumps({**row, "stalled_s": stalled_s, "buffer_s": 2.0})


def test_a_playback_has_startup_stalls_mean_and_switches() -> None:
    flow = run_of(flows="{a: {kind: video}}").flows[0]
    lines = [line(0, 400, 0.5), line(0.5, 800, 4, 1.5), line(4.5, 800, 1), line(5.5, 400, 1)]
    end = json.dumps({"ended_s": 8.0, "bytes": 25, "stalled_s": 0.25})
    report = "\n".join([*lines, end])
    row = video.read(flow, report, FlowRun("a", "video", 0.0, 8.0))
    assert row.playback == {
        "segments": 4,
        "startup_s": 0.5,
        "stalls": 2,
        "stalled_s": 1.75,
        "mean_bitrate_bps": 600.0,
        "switches": 2,
    }
    assert row.bytes == 100 + 200 + 200 + 100 + 25
    part = video.read(flow, report, FlowRun("a", "video", 0.0, 8.0, (4.0, 6.0)))
    assert part.playback is not None and part.playback["segments"] == 2
    assert part.playback["stalls"] == 0
    assert [at_s for at_s, _ in video.rows(report)] == [0, 0.5, 4.5, 5.5]


def test_a_video_of_which_nothing_arrives_fails_its_run() -> None:
    flow = run_of(flows="{a: {kind: video}}").flows[0]
    end = json.dumps({"ended_s": 8.0, "bytes": 25, "stalled_s": 0.0})
    with pytest.raises(TrafficError, match="no segment of its video arrived"):
        video.read(flow, end, FlowRun("a", "video", 0.0, 8.0))


@pytest.mark.sandbox
@pytest.mark.parametrize("tunnel", ["direct", "gost+wss"])
def test_three_megabits_carry_the_rung_below_them(lab: Lab, tunnel: str) -> None:
    done = lab.run(
        f"{{rate: 3mbit, duration: 20s, tunnel: {tunnel}, flows: {{v: {{kind: video}}}}}}"
    )

    playback, segments = done.flows["v"]["playback"], done.lines("segments.jsonl")
    # 0.85 of at most 2.87 Mbit/s of payload is less than 2.85.
    assert {row["bitrate_bps"] for row in segments[5:]} == {1_850_000}
    assert (playback["stalls"], playback["stalled_s"]) == (0, 0)
    assert playback["startup_s"] == pytest.approx(75_000 * 8 / 2.87e6, abs=0.25)
    assert 1.5e6 < playback["mean_bitrate_bps"] < 1.85e6
    assert done.faults == {}


@pytest.mark.sandbox
def test_a_rate_that_falls_below_the_ladder_stalls(lab: Lab) -> None:
    done = lab.run(
        "{rate: 3mbit, duration: 30s, changes: [{at: 8s, rate: 200kbit, direction: both}],"
        " flows: {v: {kind: video, playback_buffer: 6s}}}"
    )

    playback = done.flows["v"]["playback"]
    assert playback["stalls"] >= 1 and playback["stalled_s"] > 4
    assert playback["switches"] >= 2 and done.faults == {}


@pytest.mark.sandbox
def test_a_full_playback_buffer_makes_pauses(lab: Lab) -> None:
    done = lab.run(
        "{rate: 20mbit, duration: 12s, flows: {v: {ladder: [1mbit], playback_buffer: 4s}}}"
    )

    row, segments = done.flows["v"], done.lines("segments.jsonl")
    assert max(segment["buffer_s"] for segment in segments) <= 4.0
    # It fetches as fast as it plays, and 4 s ahead.
    assert row["goodput_bps"] == pytest.approx(1e6 * (12 + 4) / 12, rel=0.15)
