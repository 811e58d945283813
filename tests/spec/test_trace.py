# SPDX-License-Identifier: MIT
"""A trace says how a path changes, or what is wrong with it and where."""

from pathlib import Path

import pytest

from gostlab.spec.path_spec import ChangeSpec, random_loss
from gostlab.spec.trace import changes_of, parse_trace
from gostlab.spec.yaml_source import BadInput
from tests.asked import refusal


def test_a_trace_is_a_list_of_changes_and_an_empty_field_leaves_what_was() -> None:
    text = "time_s,delay_ms,loss,rate_bps\n0,84.2,0,\n1.5, 85.01 ,0.02,\n2,,,50000000\n"
    assert parse_trace(text, "t.csv") == (
        ChangeSpec(at_s=0.0, direction="forward", delay_ms=84.2, loss=random_loss(0.0)),
        ChangeSpec(at_s=1.5, direction="forward", delay_ms=85.01, loss=random_loss(0.02)),
        ChangeSpec(at_s=2.0, direction="forward", rate_bps=50000000),
    )


def test_both_directions_may_change_at_once() -> None:
    text = (
        "time_s,direction,rate_bps\r\n0,forward,1000000\r\n0,reverse,2000000\r\n3,reverse,1e9\r\n"
    )
    assert parse_trace(text, "t.csv") == (
        ChangeSpec(at_s=0.0, direction="forward", rate_bps=1000000),
        ChangeSpec(at_s=0.0, direction="reverse", rate_bps=2000000),
        ChangeSpec(at_s=3.0, direction="reverse", rate_bps=1000000000),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 't.csv:1: "": unknown column (known: time_s, direction, delay_ms, loss, rate_bps)'),
        ("time,loss\n0,0\n", 't.csv:1: "time": unknown column (did you mean time_s?)'),
        ("time_s,loss,loss\n0,0,0\n", "t.csv:1: column loss is there twice"),
        ("loss\n0\n", "t.csv:1: column time_s is missing (like time_s,delay_ms,loss,rate_bps)"),
        ("time_s,direction\n0,forward\n", "t.csv:1: no column says what changes (one of"),
        ("time_s,loss\n", "t.csv: no rows below the header"),
        ("time_s,loss\n1,0\n", "t.csv:2: time_s begins at 1, not at 0"),
        ("time_s,loss\n0,0\n2,0\n2,0\n", "t.csv:4: time_s 2 does not rise"),
        ("time_s,loss\n0,0\n2,0\n1,0\n", "t.csv:4: time_s 1 does not rise"),
        ("time_s,direction,loss\n0,forward,0\n2,forward,0\n1,reverse,0\n", "t.csv:4: time_s 1"),
        ("time_s,loss\n0,0,0\n", "t.csv:2: 3 fields under 2 columns"),
        ("time_s,loss\n0,0\n\n2,0\n", "t.csv:3: 1 fields under 2 columns"),
        ("time_s,loss\n0,\n", "t.csv:2: nothing changes in this row"),
        ("time_s,loss\n0,1%\n", 't.csv:2: loss "1%": not a plain number (a share from 0 to 1)'),
        ("time_s,loss\n0,1.5\n", 't.csv:2: loss "1.5": not within 0 to 1'),
        ("time_s,loss\n0,nan\n", 't.csv:2: loss "nan": not a plain number'),
        ("time_s,loss\n-1,0\n", 't.csv:2: time_s "-1": not a plain number'),
        ("time_s,delay_ms\n0,84ms\n", 't.csv:2: delay_ms "84ms": not a plain number'),
        ("time_s,delay_ms\n0,20000\n", 't.csv:2: delay_ms "20000": not within 0 to 10000'),
        ("time_s,rate_bps\n0,0\n", 't.csv:2: rate_bps "0": not within 1000 to 1e+12'),
        ("time_s,rate_bps\n0,1000.5\n", 't.csv:2: rate_bps "1000.5": not a whole number of bits'),
        ("time_s,direction,loss\n0,up,0\n", 't.csv:2: direction "up": not forward or reverse'),
    ],
)
def test_a_bad_trace_is_refused_where_it_is_bad(text: str, message: str) -> None:
    assert message in refusal(lambda: parse_trace(text, "t.csv"))


@pytest.mark.slow
def test_a_trace_has_at_most_a_hundred_thousand_rows() -> None:
    rows = "".join(f"{number},0\n" for number in range(100_001))
    assert len(parse_trace("time_s,loss\n" + rows[: rows.rindex("100000,")], "t.csv")) == 100_000
    with pytest.raises(BadInput, match=r"t\.csv: 100001 rows: more than 100000"):
        parse_trace("time_s,loss\n" + rows, "t.csv")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"0" * 10_000_001)
    with pytest.raises(BadInput, match=r"bad\.csv: larger than any such file should be"):
        changes_of(bad)


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbftime_s,loss\n0,0.5\n")
    assert changes_of(path) == (ChangeSpec(at_s=0.0, direction="forward", loss=random_loss(0.5)),)
