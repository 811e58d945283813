# SPDX-License-Identifier: MIT
"""Real recordings of a known path come out as that path.

tests/data/recordings has what each program wrote; the path served 4 Mbit/s up, 8 Mbit/s down, with
20 ms each way.
"""

import shutil
from pathlib import Path

import pytest

from gostlab.importers.base import PathRecording, UnreadableRecording
from gostlab.profile_import.find_importers import FORMATS
from gostlab.profile_import.import_cli import check_files, guess_format, read_recording
from tests.lab_command import Refused

RECORDINGS = Path(__file__).parents[1] / "data/recordings"
UP, DOWN = 4e6, 8e6
VERSIONS = ("3.9", "3.12", "3.18")


def recorded(name: str) -> PathRecording:
    """What the importer that the file looks like reads from it."""
    recordings = (read_recording(RECORDINGS / name),)
    found = guess_format(recordings)
    check_files(found, recordings)
    path = found.read(recordings)
    assert isinstance(path, PathRecording)
    return path


def near(bps: float | None, of_bps: float, share: float = 0.12) -> bool:
    return bps is not None and abs(bps / of_bps - 1) < share


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", ["upload", "upload.server", "parallel", "omit"])
def test_an_upload_of_iperf3_is_the_forward_rate(version: str, mode: str) -> None:
    path = recorded(f"iperf3-{version}-{mode}.json.gz")
    # A client's intervals differ by what its socket takes at once.
    assert near(path.forward.rate_bps, UP, 0.15)
    assert path.reverse.rate_bps is None
    assert path.forward.offered_bps is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_download_of_iperf3_is_the_reverse_rate(version: str) -> None:
    path = recorded(f"iperf3-{version}-reverse.json.gz")
    assert near(path.reverse.rate_bps, DOWN)
    assert path.forward.rate_bps is None
    assert path.rtt_ms is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", ["", ".server"])
def test_both_directions_of_bidir_are_told_apart(version: str, end: str) -> None:
    path = recorded(f"iperf3-{version}-bidir{end}.json.gz")
    assert near(path.forward.rate_bps, UP, 0.3)
    # The acknowledgements of the upload's queue hold the download back.
    assert path.reverse.rate_bps is not None
    assert 1.05 * (path.forward.rate_bps or 0) < path.reverse.rate_bps < 1.1 * DOWN
    ends = {one.direction: one.end for one in path.evidence}
    who, sent, received = (
        ("server", "reverse", "forward") if end else ("client", "forward", "reverse")
    )
    assert f"sent by the {who}" in ends[sent]
    assert f"received by the {who}" in ends[received]


@pytest.mark.parametrize("version", VERSIONS)
def test_omitted_intervals_do_not_count(version: str) -> None:
    path = recorded(f"iperf3-{version}-omit.json.gz")
    assert path.length_s == pytest.approx(3, abs=0.1)
    assert any("omitted by -O" in each for each in path.left_out)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", ["", ".server"])
def test_udp_above_the_rate_is_what_arrived(version: str, end: str) -> None:
    path = recorded(f"iperf3-{version}-udp-above{end}.json.gz")
    assert near(path.forward.rate_bps, UP, 0.05)
    assert near(path.forward.offered_bps, 2 * UP, 0.05)
    assert path.forward.loss_share == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("version", VERSIONS)
def test_udp_is_read_by_direction(version: str) -> None:
    down = recorded(f"iperf3-{version}-udp-reverse-above.json.gz")
    assert near(down.reverse.rate_bps, DOWN, 0.05)
    assert down.reverse.loss_share == pytest.approx(0.5, abs=0.02)
    assert down.forward.rate_bps is None
    both = recorded(f"iperf3-{version}-udp-bidir.json.gz")
    assert near(both.forward.rate_bps, 2e6 * 1490 / 1448, 0.05)
    assert near(both.reverse.rate_bps, 2e6 * 1490 / 1448, 0.05)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_does_not_know_what_arrived_of_its_udp(version: str) -> None:
    with pytest.raises(UnreadableRecording, match="import the client's report"):
        recorded(f"iperf3-{version}-udp-reverse-above.server.json.gz")
    both = recorded(f"iperf3-{version}-udp-bidir.server.json.gz")
    assert both.forward.rate_bps is not None
    assert both.reverse.rate_bps is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_test_below_the_rate_asks_for_the_rate(
    version: str, refused: Refused, tmp_path: Path
) -> None:
    file = RECORDINGS / f"iperf3-{version}-udp-below.json.gz"
    assert "the path's rate is higher: give it by --rate" in refused(
        "profile", "import", file, "--rtt", "40ms", "--out", tmp_path
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_interrupted_test_keeps_its_intervals(version: str) -> None:
    path = recorded(f"iperf3-{version}-interrupted.json.gz")
    assert near(path.forward.rate_bps, UP, 0.25)
    assert any("interrupted" in each for each in path.left_out)


def test_a_json_stream_is_a_report() -> None:
    path = recorded("iperf3-3.18-stream.jsonl.gz")
    assert near(path.forward.rate_bps, UP)
    assert path.rtt_ms == pytest.approx(77.6, abs=0.1)


@pytest.mark.parametrize(
    ("name", "up", "down"),
    [
        ("tcp_upload", UP, None),
        ("tcp_nup", UP, None),
        ("tcp_download", None, DOWN),
        ("tcp_bidirectional", UP, 3.77e6),
        ("rrul", UP, 4.14e6),
    ],
)
def test_flent_is_read_by_direction(name: str, up: float | None, down: float | None) -> None:
    path = recorded(f"{name}.flent.gz")
    for rate_bps, expected in ((path.forward.rate_bps, up), (path.reverse.rate_bps, down)):
        assert rate_bps is None if expected is None else near(rate_bps, expected)
    assert path.rtt_ms == pytest.approx(40.6, abs=0.5)


def test_irtt_tells_the_direction_of_each_loss() -> None:
    path = recorded("irtt.json.gz")
    assert min(p.delay_ms for p in path.round_trips if p.delay_ms) == pytest.approx(40.5, abs=0.1)
    assert sum(probe.lost for probe in path.forward.probes) == 24
    assert sum(probe.lost for probe in path.reverse.probes) == 4
    assert sum(probe.lost for probe in path.round_trips) == 0


@pytest.mark.parametrize(
    ("name", "sent", "lost", "interval_s"),
    [
        ("ping-iputils.txt", 60, 4, 0.2),
        ("ping-iputils-DO.txt", 60, 4, 0.2),
        ("ping-busybox.txt", 12, 1, 1.0),
        ("fping.txt", 60, 8, 1.0),
        ("fping-quiet.txt", 60, 3, 1.0),
    ],
)
def test_pings_have_each_packet(name: str, sent: int, lost: int, interval_s: float) -> None:
    path = recorded(name)
    assert len(path.round_trips) == sent
    assert sum(probe.lost for probe in path.round_trips) == lost
    assert min(p.delay_ms for p in path.round_trips if p.delay_ms) == pytest.approx(40.5, abs=0.15)
    assert path.length_s / sent == pytest.approx(interval_s, rel=0.01)


def test_mtr_and_a_speed_test_have_one_round_trip() -> None:
    assert recorded("mtr.json").rtt_ms == pytest.approx(40.55, abs=0.01)
    speed = recorded("speedtest-cli.json")
    assert speed.rtt_ms == pytest.approx(48.374)
    # It got less than the path has: its transfers took a second.
    assert (speed.forward.rate_bps, speed.reverse.rate_bps) == (1_481_415, 7_296_456)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark")
@pytest.mark.parametrize("end", ["client", "server"])
def test_a_capture_is_the_same_path_from_either_end(end: str) -> None:
    path = recorded(f"tcp-{end}.pcap.gz")
    assert near(path.forward.rate_bps, UP, 0.01)
    assert path.reverse.rate_bps is None
    assert path.rtt_ms == pytest.approx(43.4, abs=0.2)
    assert any("1 retransmissions of 15" in each for each in path.left_out)


def test_a_capture_without_tshark_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(UnreadableRecording, match="install the package tshark"):
        FORMATS["pcap"].read([read_recording(RECORDINGS / "tcp-client.pcap.gz")])
