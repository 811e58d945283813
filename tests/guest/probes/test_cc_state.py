# SPDX-License-Identifier: MIT
"""What a module shows of its sockets becomes rows of the run's flows."""

import gzip
import json
from pathlib import Path
from typing import Any

from gostlab.guest.probes.cc_state import FILE, RAW, parse_state_line, save_states

NAMES = "state=STARTUP|DRAIN bw_bps"


def socket(number: int, flow: str, leg: str = "wan") -> dict[str, Any]:
    return {"local": f"10.0.0.1:{number}", "peer": "10.0.1.1:5201", "flow": flow, "leg": leg}


def line(number: int, at_ns: int, values: str) -> str:
    return f"{at_ns} 10.0.0.1:{number} 10.0.1.1:5201 {NAMES}\t{values}\n"


def kept(folder: Path, sockets: list[dict[str, Any]], lines: list[str]) -> list[dict[str, Any]]:
    (folder / "sockets.jsonl").write_text(
        "".join(json.dumps({"t_s": 0.1, **each}) + "\n" for each in sockets), encoding="utf-8"
    )
    (folder / RAW).write_text("".join(lines), encoding="ascii")
    assert save_states(folder, started_s=10.0) == {"rows": len(lines) - 1, "lines_lost": 7}
    with gzip.open(folder / FILE, "rt") as rows:
        return [json.loads(row) for row in rows]


def test_a_value_with_words_becomes_one_of_them() -> None:
    shown = parse_state_line(line(1, 12_500_000_000, "1 9000000"))
    assert shown is not None and (shown.at_s, shown.local) == (12.5, "10.0.0.1:1")
    assert shown.values == {"state": "DRAIN", "bw_bps": 9_000_000}
    assert parse_state_line("lost 7\n") is None


def test_a_row_is_of_its_flow_and_of_several_connections_says_which(tmp_path: Path) -> None:
    sockets = [socket(1, "flow1"), socket(2, "flow2"), socket(3, "flow2")]
    lines = [line(number, 11_000_000_000, "0 5") for number in (1, 2, 3)]
    rows = kept(tmp_path, sockets, [*lines, "lost 7\n"])
    state = {"state": "STARTUP", "bw_bps": 5}
    assert rows == [
        {"t_s": 1.0, "flow": "flow1", **state},
        {"t_s": 1.0, "flow": "flow2", "socket": "10.0.0.1:2", **state},
        {"t_s": 1.0, "flow": "flow2", "socket": "10.0.0.1:3", **state},
    ]
