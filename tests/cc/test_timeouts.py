# SPDX-License-Identifier: MIT
"""The lab's own controls over a spurious retransmission timeout, which gives back the window that
Linux cut to one packet, and over a pause of many timeouts.
"""

import itertools

import pytest

from gostlab.cc_cases.scenarios import ROWS, StateRow
from gostlab.guest.probes.cc_state import parse_state_line
from tests.cc.scenario_traces import folder_of
from tests.sandboxed import Lab, describe, direction

pytestmark = pytest.mark.sandbox


def window_pkts(row: StateRow) -> float:
    return row["cwnd_pkts"] if "cwnd_pkts" in row else row["window_milli"] / 1000


def rows_around_gap(lab: Lab, scenario: str, cc: str) -> tuple[StateRow, StateRow]:
    """Return the rows on both sides of the only gap of more than 0.6 s between ACKs."""
    lines = (folder_of(lab, scenario, cc) / ROWS).read_text("ascii").splitlines()
    shown = [each for each in map(parse_state_line, lines) if each is not None]
    [rows] = [
        (before.values, after.values)
        for before, after in itertools.pairwise(shown)
        if after.at_s - before.at_s > 0.6
    ]
    return rows


@pytest.mark.parametrize("cc", ["bbr3", "bbr2", "bbrplus", "prague"])
def test_the_first_ack_after_a_spurious_timeout_restores_the_window(lab: Lab, cc: str) -> None:
    """ACKs come 660 ms late, one by one: the first covers a packet that was not retransmitted."""
    before, after = rows_around_gap(lab, "late acks", cc)
    assert window_pkts(before) > 40
    assert window_pkts(after) >= 0.95 * window_pkts(before)


def test_cubic_gets_its_window_back_after_a_spurious_timeout(lab: Lab) -> None:
    """Linux's own control as the reference; the tracepoint has the window before each ACK's effect,
    so the second row after the gap is the first with what the first ACK gave back.
    """
    changes = [{"at_s": 2.0, "direction": "reverse", "delay_ms": 700.0}]
    path = direction(rate_bps=12_000_000, buffer_pkts=60)

    done = lab.run(describe(path, acks=True, changes=changes, duration_s=4.0))

    rows = itertools.pairwise(done.acks)
    gaps = [
        index
        for index, (one, other) in enumerate(rows)
        if float(other["t_s"]) - float(one["t_s"]) > 0.6
    ]
    assert len(gaps) == 1
    before, timed_out, restored = done.acks[gaps[0] : gaps[0] + 3]
    assert int(before["cwnd_pkts"]) > 40
    assert int(timed_out["cwnd_pkts"]) == 1
    assert int(restored["cwnd_pkts"]) >= int(before["cwnd_pkts"])
    assert restored["snd_ssthresh_pkts"] == before["snd_ssthresh_pkts"]


def test_prague_restarts_from_the_initial_window_after_idle(lab: Lab) -> None:
    """RFC 5681, 4.1. 1.5 s are more timeouts than it takes to halve the window to ten packets."""
    before, after = rows_around_gap(lab, "idle", "prague")
    assert window_pkts(before) > 40
    acked = after["delivered_pkts"] - before["delivered_pkts"]
    assert window_pkts(after) <= 10 + acked <= 14
    assert after["ssthresh_pkts"] >= 0.74 * window_pkts(before)
