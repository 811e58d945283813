# SPDX-License-Identifier: MIT
"""A captured connection becomes the time–sequence graph that tcptrace would draw."""

import json
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic

from gostlab.analysis.load import time_sequences
from gostlab.analysis.load.run_folder import RunFolder, load_run
from gostlab.analysis.plotting.plot_registry import find_drawing
from gostlab.analysis.plotting.time_sequence_graph import plot_largest_connection, recovery_span_s
from gostlab.analysis.report import page_data
from gostlab.results import pcapng
from gostlab.spec.expand import single_run

CLIENT, TARGET = (bytes([10, 0, 1, 1]), 40000), (bytes([10, 0, 4, 2]), 80)
BEGAN_NS = 1_700_000_003_000_000_000
MSS = 50_000  # few segments are much data
FIRST = 2**32 - 60_000  # the second segment wraps around


def packet(
    t_ms: float,
    ends: tuple[time_sequences.Address, time_sequences.Address],
    *,
    seq: int,
    ack: int = 1,
    flags: int = time_sequences.ACK,
    payload: int = 0,
    window: int = 1000,
    options: bytes = b"",
) -> bytes:
    (source, source_port), (target, target_port) = ends
    header = 20 + len(options)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + header + payload, 0, 0, 64, 6, 0) + source + target
    tcp = struct.pack(
        ">HHIIBBHHH",
        source_port,
        target_port,
        seq % 2**32,
        ack % 2**32,
        header // 4 << 4,
        flags,
        window,
        0,
        0,
    )
    data = bytes(12) + b"\x08\x00" + ip + tcp + options
    t_ns = BEGAN_NS + round(t_ms * 1e6)
    body = struct.pack("=IIIII", 0, t_ns >> 32, t_ns % 2**32, len(data), len(data) + payload)
    return pcapng.block(pcapng.ENHANCED_PACKET, body + data + bytes(-len(data) % 4))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Three segments of which the second is lost, as the sender sees it."""
    described = single_run(
        profile="plain-100ms",
        cc="cubic",
        machine="sandbox",
        clock="virtual",
        overrides={"capture": "wan"},
    )
    forth, back = (CLIENT, TARGET), (TARGET, CLIENT)
    scale = b"\x03\x03\x07\x00"
    sack = b"\x01\x01\x05\x0a" + struct.pack(
        ">II", (FIRST + 2 * MSS) % 2**32, FIRST + 3 * MSS - 2**32
    )
    content = pcapng.header("", "", "", [pcapng.CaptureInterface("wan_a-eth0", "")])
    content += packet(0, forth, seq=FIRST - 1, flags=time_sequences.SYN, options=scale)
    content += packet(
        40, back, seq=0, flags=time_sequences.SYN | time_sequences.ACK, ack=FIRST, options=scale
    )
    for number in range(3):
        content += packet(41 + number, forth, seq=FIRST + number * MSS, payload=MSS)
    content += packet(81, back, seq=1, ack=FIRST + MSS)
    content += packet(83, back, seq=1, ack=FIRST + MSS, options=sack)
    content += packet(84, forth, seq=FIRST + MSS, payload=MSS)
    content += packet(124, back, seq=1, ack=FIRST + 3 * MSS)
    name = "capture-wan-forward.pcapng"
    (tmp_path / name).write_bytes(content)
    entry = {"link": "wan", "direction": "forward"}
    env = {"capture": {"load_began_ns": BEGAN_NS, "files": {name: entry}}}
    (tmp_path / "env.json").write_text(json.dumps(env), encoding="utf-8")
    (tmp_path / "run.json").write_text(json.dumps(described.to_json()), encoding="utf-8")
    loaded = load_run(tmp_path)
    assert isinstance(loaded, RunFolder)
    return loaded


def test_segments_and_retransmissions_are_told_apart(run: RunFolder) -> None:
    [graph] = time_sequences.time_sequences(run)
    assert graph.name == "10.0.1.1:40000 > 10.0.4.2:80"
    assert graph.segments.tolist() == [
        [pytest.approx(0.041), 0, MSS],
        [pytest.approx(0.042), MSS, 2 * MSS],
        [pytest.approx(0.043), 2 * MSS, 3 * MSS],
    ]
    assert graph.retransmissions.tolist() == [[pytest.approx(0.084), MSS, 2 * MSS]]


def test_answers_have_their_window_and_sack_blocks(run: RunFolder) -> None:
    [graph] = time_sequences.time_sequences(run)
    assert graph.acks[:, 1].tolist() == [MSS, MSS, 3 * MSS]
    assert (graph.window[:, 1] - graph.acks[:, 1]).tolist() == [1000 << 7] * 3
    assert graph.sacks.tolist() == [[pytest.approx(0.083), 2 * MSS, 3 * MSS]]


def test_the_pages_graph_has_a_time_of_its_own_for_each_point(run: RunFolder) -> None:
    [panel] = page_data.sequence_panels(run)
    names = ["segments", "retransmissions", "SACK blocks", "ACKs", "receive window"]
    assert [line.name for line in panel.lines] == names
    for line in panel.lines:
        times = line.series.t_s.tolist()
        assert times == sorted(times)
        assert not line.gaps or len(set(times)) == len(times)


def test_the_picture_looks_at_the_first_recovery(run: RunFolder) -> None:
    [graph] = time_sequences.time_sequences(run)
    begin_s, end_s = recovery_span_s(graph, 0.02)
    assert begin_s < graph.retransmissions[0, 0] < end_s
    assert plot_largest_connection(run) is not None


def test_a_run_without_a_readable_capture_has_no_graph(run: RunFolder) -> None:
    file = run.folder / "capture-wan-forward.pcapng"
    file.write_bytes(file.read_bytes()[:-5])
    assert time_sequences.time_sequences(run) == []
    file.unlink()
    assert time_sequences.time_sequences(run) == []
    assert page_data.sequence_panels(run) == []
    assert plot_largest_connection(run) is None


def test_without_a_capture_the_acks_have_a_graph(tmp_path: Path) -> None:
    """A bar is what was sent between two ACKs; a window that shrinks sends nothing."""
    asked = synthetic.description(cc="cubic", duration_s=4.0)
    folder = synthetic.write_run(tmp_path, asked)
    rows = [(1.0, "flow1", 10, ""), (1.01, "flow1", 12, ""), (1.02, "flow1", 2, "")]
    synthetic.write_acks(folder, rows)
    loaded = load_run(folder)
    assert isinstance(loaded, RunFolder)
    [graph] = time_sequences.time_sequences(loaded)
    assert graph.name == "flow1" and not graph.is_captured
    assert graph.acks.tolist() == [[1.0, 1e6], [1.01, 1.01e6], [1.02, 1.02e6]]
    assert graph.segments.tolist() == [[1.0, 0, 1.01e6], [1.01, 1.01e6, 1.022e6]]
    assert graph.window[0].tolist() == [1.0, 1e6 + 65536]
    assert [line.name for line in page_data.sequence_panels(loaded)[0].lines] == [
        *("sent", "ACKs", "receive window")
    ]
    assert plot_largest_connection(loaded) is not None


def test_neighbouring_bars_are_joined_over_all_their_bytes(run: RunFolder) -> None:
    [graph] = time_sequences.time_sequences(run)
    assert time_sequences.join_bars(graph.segments, 1).tolist() == [
        [pytest.approx(0.041), 0, 3 * MSS]
    ]


def test_the_drawing_has_a_connection_of_each_cell(run: RunFolder) -> None:
    cells = [SimpleNamespace(counted=[run], label="one"), SimpleNamespace(counted=[], label="none")]
    sheet: Any = SimpleNamespace(
        sweep=SimpleNamespace(matrix=SimpleNamespace(cells=cells)), footer=""
    )
    [picture] = find_drawing("time-sequence").draw(sheet)
    [axes] = picture.figure.axes
    assert axes.get_title(loc="left") == "one"
