# SPDX-License-Identifier: MIT
"""A report of iperf3 on real machines stands beside the lab's cell of its load."""

import json
from pathlib import Path
from typing import Any

import pytest

from gostlab.apply.compare_measurements import OwnComparison, compare_own
from gostlab.cli import main
from gostlab.errors import BadInput
from tests.analysis import synthetic


def report(
    received_mbit: float,
    *,
    cc: str = "bbr",
    streams: int = 16,
    reverse: bool = False,
    ended: bool = True,
) -> dict[str, Any]:
    """A client's report of ten seconds, as iperf3 3.12 writes it; 5 % were still on the way."""
    sends = not reverse
    one = {
        "bytes": received_mbit * 1.05e6 / 8 / streams,
        "start": 0.0,
        "end": 1.0,
        "seconds": 1.0,
        "sender": sends,
    }
    ends = [
        {
            "sender": {"bytes": 1, "bits_per_second": 1, "mean_rtt": 40_000, "sender": sends},
            "receiver": {
                "bytes": 1,
                "bits_per_second": received_mbit * 1e6 / streams,
                "sender": sends,
            },
        }
    ] * streams
    test = {"protocol": "TCP", "num_streams": streams, "reverse": int(reverse)}
    return {
        "start": {"test_start": test, "connecting_to": {"host": "192.0.2.1"}},
        "intervals": [{"streams": [one] * streams, "sum": one}] * 10,
        **({"end": {"streams": ends, "sender_tcp_congestion": cc}} if ended else {}),
    }


def udp_report(sent_mbit: float, lost_share: float) -> dict[str, Any]:
    """A client's report of UDP with nothing but sums in its end."""
    document = report(sent_mbit / 1.05, streams=1)
    document["start"]["test_start"] |= {"protocol": "UDP", "blksize": 1448}
    end = {"packets": 1000, "lost_packets": 1000 * lost_share, "jitter_ms": 0.4, "sender": True}
    return document | {"end": {"sum": end}}


def compared(folder: Path, *reports: dict[str, Any]) -> list[OwnComparison]:
    synthetic.write_repetitions(folder, "bbr", 78.0, 79.0, 80.0, 81.0, 82.0, 83.0)
    synthetic.write_repetitions(folder, "cubic", 39.0, 39.5, 40.0, 40.5, 41.0, 41.5)
    files = [folder / f"mine{number}.json" for number, _ in enumerate(reports)]
    for file, document in zip(files, reports, strict=True):
        file.write_text(json.dumps(document))
    return compare_own(folder / "made-up", files)


def goodputs(rows: list[OwnComparison]) -> dict[str, tuple[float, str]]:
    return {
        row.cell.rpartition(", ")[2]: (round(row.yours, 6), row.verdict)
        for row in rows
        if "goodput" in row.metric
    }


def test_what_was_received_stands_beside_the_cell_of_its_congestion_control(tmp_path: Path) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    one.mkdir()
    several.mkdir()
    assert goodputs(compared(one, report(80.5))) == {"BBR": (80.5, "inside")}
    rows = compared(several, report(60.0), report(62.0), report(40.1, cc="cubic"))
    assert goodputs(rows) == {"BBR": (61.0, "outside"), "CUBIC": (40.1, "inside")}


def test_without_an_end_the_intervals_are_taken_for_every_congestion_control(
    tmp_path: Path,
) -> None:
    rows = compared(tmp_path, report(80.0, ended=False))
    assert goodputs(rows)["BBR"] == (84.0, "outside")
    assert "CUBIC" in goodputs(rows)


def test_what_arrived_of_udp_stands_beside_a_cell_of_udp(tmp_path: Path) -> None:
    asked = synthetic.flow("load", kind="udp", cc=None, rate_bps=20_000_000)
    run = synthetic.cell("cubic", 1, flows=[asked])
    synthetic.write_run(tmp_path, run, name="udp")
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(udp_report(40.0, 0.52)))
    [row] = compare_own(tmp_path / "made-up", [file])
    assert round(row.yours, 6) == 19.2
    assert not row.sent_only
    file.write_text(json.dumps(report(80.0, cc="cubic", streams=1)))
    with pytest.raises(BadInput, match="they are: UDP, 1 stream, upload"):
        compare_own(tmp_path / "made-up", [file])


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (report(80.0, streams=4), "bbr, 4 streams, upload: no cell of"),
        (report(80.0, reverse=True), "16 streams, download: no cell of"),
        (report(80.0, cc="reno"), "they are: cubic, 16 streams, upload; bbr, 16 streams, upload"),
        (udp_report(40.0, 0.5), "UDP, 1 stream, upload: no cell of"),
        ({"error": "unable to connect"}, "iperf3 failed: unable to connect"),
        ({"start": 1}, "not a whole report of `iperf3 -J`"),
    ],
)
def test_a_report_of_no_cell_is_refused_in_one_line(
    document: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as caught:
        compared(tmp_path, document)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_table_has_a_column_for_yours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compared(tmp_path, report(80.5))
    words = ["compare", str(tmp_path / "made-up"), str(tmp_path / "mine0.json")]
    assert main.main(words) == 0
    printed = capsys.readouterr().out
    assert "yours" in printed
    assert "inside" in printed


def test_a_folder_of_several_results_is_refused_with_their_names(tmp_path: Path) -> None:
    compared(tmp_path, report(80.5))
    with pytest.raises(BadInput, match=r"holds results, it is none: name one \(made-up\)"):
        compare_own(tmp_path, [tmp_path / "mine0.json"])
