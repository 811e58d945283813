# SPDX-License-Identifier: MIT
"""Who gets how much, on the terminal."""

import csv
import io
import json
from pathlib import Path

import pytest

from gostlab.cli.coexistence_table import contest_sentences, print_contest, to_csv
from gostlab.results.coexistence import Competitor, Contest, Side
from gostlab.results.metrics import Retransmissions, Spread
from gostlab.scheduler.cell_result import CellResult
from tests.cli.test_result_table import cell
from tests.lab_command import Typed


def flow(name: str, cc: str, share: float, side: Side | None, start_s: float = 0.0) -> Competitor:
    rate, rtt, resent = 20 * share, Spread(60.0, 90.0), Retransmissions(3, 300)
    return Competitor(name, cc, 40.0, start_s, rate, share, rtt, resent, side)


def contest(share: float, since_s: float = 16.0, side: int = -1) -> Contest:
    """Of a against b."""
    one, other = Side(side, since_s), Side(-side, since_s)
    flows = (flow("a", "cubic", share, one), flow("b", "bbr", 1 - share, other))
    return Contest(flows, 0.62, 15.0, 60.0)


def standings(*runs: Contest) -> CellResult:
    return cell("cubic", contests=runs)


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ([contest(0.12)], ["a (cubic) yields to b (bbr) since 16 s of the load."]),
        ([contest(0.12, 0.02)], ["a (cubic) yields to b (bbr) from the start."]),
        ([contest(0.5, side=0)], ["Nobody yields"]),
        ([contest(0.1, 9), contest(0.1, 16), contest(0.8, 16, 1)], ["(9 – 16 s), in 2 of 3 runs"]),
        ([contest(0.1), contest(0.9, side=1)], ["Nobody yields"]),
    ],
)
def test_who_yields_to_whom_since_when_is_what_most_runs_say(
    runs: list[Contest], says: list[str]
) -> None:
    said = " ".join(contest_sentences(standings(*runs)))

    assert all(words in said for words in says)
    assert "Jain's index 0.62" in said and "15 to 60 s" in said


def test_udp_beside_flows_that_compete_is_said() -> None:
    found = cell("cubic", udp_beside_bps=5e6, contests=(contest(0.2),))
    assert "Beside them UDP got 5.00 Mbit/s." in contest_sentences(found)


def test_flows_that_never_met_are_said_to_have_no_shares() -> None:
    file = io.StringIO()
    print_contest([standings()], file)
    assert "never active together" in file.getvalue()


def test_a_row_for_each_flow_with_a_bar_of_its_share() -> None:
    file = io.StringIO()
    print_contest([standings(contest(0.2), contest(0.3))], file)
    rows = {line.split(" ")[0]: line for line in file.getvalue().splitlines() if "ms)" in line}

    assert "25.0" in rows["a"] and "20.0 – 30.0" in rows["a"]
    assert " 5.00 " in rows["a"] and " 15.0 " in rows["b"]  # Mbit/s
    assert rows["b"].count("█") > 2 * rows["a"].count("█")
    (first, second) = csv.DictReader(io.StringIO(to_csv([standings(contest(0.2))])))
    assert (first["flow"], first["share"], first["below_since_s"]) == ("a", "0.2", "16")
    assert (second["cc"], second["runs_below_its_share"]) == ("bbr", "0")


@pytest.mark.sandbox
def test_two_that_compete_are_asked_about_in_a_line(tmp_path: Path, typed: Typed) -> None:
    """BBR takes most of a short buffer, as everybody has found (Hock et al., ICNP 2017)."""
    asked = ["try", "--flows", "a=cubic,b=bbr/start=2s", "--rate", "10mbit", "--rtt", "40ms"]
    asked += ["--for", "20s", "--results", str(tmp_path), "--machine", "sandbox"]

    done, again = typed(*asked), typed(*asked, "--json")
    assert done.returncode == again.returncode == 0, done.stderr
    assert "a (cubic) yields to b (bbr)" in done.stdout and "Jain's index" in done.stdout
    [cell] = json.loads(again.stdout)["cells"]
    one, other = cell["contests"][0]["flows"]
    assert one["share"] + other["share"] == pytest.approx(1)
    assert other["share"] > 0.6 and other["start_s"] == 2.0
