# SPDX-License-Identifier: MIT
"""A recording from elsewhere becomes steps that carry what it says, and a profile that says so.

Every file is made here, in the form that its program writes.
"""

import itertools
import json
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gostlab.cli import main
from gostlab.profile_import.rate_steps import packet_bits, rate_steps, replay_error
from gostlab.spec.profile import load_profile
from gostlab.spec.trace import changes_of
from gostlab.tcpmodel.stepped_capacity import SteppedCapacity
from netem_profiles import make_starlink_like
from tests.asked import runs_of
from tests.lab_command import Refused

BITS = packet_bits(1500)
IMPORT = ("profile", "import")


def imported(folder: Path, *words: str) -> int:
    return main.main([*IMPORT, *words, "--out", str(folder)])


def stamps(per_ms: Sequence[int]) -> str:
    """A Mahimahi trace: so many packets in each millisecond."""
    return "".join(f"{ms}\n" * count for ms, count in enumerate(per_ms, 1))


def changes(path: Path, way: str = "forward") -> list[dict[str, Any]]:
    """What a trace changes, with the share of losses instead of their model."""
    steps = [change for change in changes_of(path) if change.direction == way]
    return [
        {"at_s": step.at_s, **step.new_values, **({"loss": step.loss.p} if step.loss else {})}
        for step in steps
    ]


def test_a_capacity_is_carried_to_the_packet_every_hundred_ms(tmp_path: Path) -> None:
    draw = random.Random(3)
    per_ms = [draw.choice([0, 0, 1, 2, 5]) for _ in range(2999)] + [1]
    (tmp_path / "lte.up").write_text(stamps(per_ms))

    words = ["--rtt", "50ms", "--source", "made here", "--licence", "CC0"]
    assert imported(tmp_path, str(tmp_path / "lte.up"), *words) == 0

    rows = changes(tmp_path / "lte.csv")
    capacity = SteppedCapacity([(row["at_s"], row.get("rate_bps", 0)) for row in rows])
    for tenth in range(30):
        asked = BITS * sum(per_ms[100 * tenth : 100 * tenth + 100])
        assert capacity.bits(tenth / 10, tenth / 10 + 0.1) == pytest.approx(asked, rel=1e-3)
    profile = load_profile(str(tmp_path / "lte.yaml"))
    assert profile.imported is not None
    assert (profile.imported.format, profile.imported.licence) == ("mahimahi", "CC0")
    assert profile.imported.changes == len(rows)
    assert float(profile.imported.capacity_error) < 1e-3
    assert profile.rtt_ms == 50


@pytest.mark.parametrize("seed", range(20))
def test_steps_carry_what_was_recorded(seed: int) -> None:
    draw = random.Random(seed)
    bin_ms = draw.choice([5, 10, 20, 50])
    per_ms = [draw.choice([0, 0, draw.randrange(7)]) for _ in range(draw.randrange(200, 400))]
    times = np.array([ms / 1000 for ms, count in enumerate(per_ms, 1) for _ in range(count)])
    length_s = Fraction(len(per_ms), 1000)
    steps = rate_steps(times, BITS, length_s, Fraction(bin_ms, 1000))
    capacity = SteppedCapacity(list(steps.items()))
    outages_bits = 1000 * float(length_s)
    assert capacity.bits(0, float(length_s)) == pytest.approx(BITS * len(times), abs=outages_bits)
    error = replay_error(times, BITS, steps, length_s)
    # Within a bin the replay is even: it is off by no more than what a bin holds.
    most = max((sum(per_ms[n : n + bin_ms]) for n in range(0, len(per_ms), bin_ms)), default=0)
    assert error.ahead_bytes <= most * BITS / 8 + outages_bits + 1
    assert list(steps.index) == sorted(set(steps.index))
    assert all(one != next for one, next in itertools.pairwise(steps))


@pytest.mark.slow
def test_more_changes_than_ten_thousand(tmp_path: Path) -> None:
    draw = random.Random(5)
    (tmp_path / "long.txt").write_text(stamps([draw.randrange(4) for _ in range(300_000)] + [1]))
    assert imported(tmp_path, str(tmp_path / "long.txt"), "--rtt", "20ms", "--bin", "20ms") == 0
    assert 10_000 < len(changes(tmp_path / "long.csv")) <= 15_001


@pytest.mark.parametrize("begin", ["1700000000.00", "1700000000000", "1700000000000000000"])
def test_a_probes_csv_tells_the_directions_apart_whatever_its_times_are_in(
    tmp_path: Path, begin: str
) -> None:
    lines = ["timestamp,rtt,uplink,downlink"]
    for n in range(200):
        at: object = f"{float(begin) + n * 0.01:.2f}"
        if "." not in begin:
            at = int(begin) + int(n * 10 ** (len(begin) - 12))
        up, down = ("", "") if n == 150 else (25 if n < 100 else 35, 15)
        lines.append(f"{at},{'' if n == 150 else 40},{up},{down}")
    (tmp_path / "lens.csv.txt").write_text("\n".join(lines) + "\n")
    words = [str(tmp_path / "lens.csv.txt"), "--rate", "100mbit", "--name", "lens-day"]
    assert imported(tmp_path, *words) == 0
    there, back = changes(tmp_path / "lens-day.csv"), changes(tmp_path / "lens-day.csv", "reverse")
    assert [(row["at_s"], row["delay_ms"]) for row in there if "delay_ms" in row] == [
        (0, 25),
        (1, 35),
    ]
    assert [(row["at_s"], row["delay_ms"]) for row in back] == [(0, 15)]
    assert [row["loss"] for row in there if "loss" in row] == [0, 0.01]


def test_retransmissions_are_no_loss_of_the_path_and_that_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    total = {"start": 0, "end": 1, "bits_per_second": 95.64e6, "retransmits": 30}
    intervals = [{"streams": [{"start": 0, "rtt": 41_000}], "sum": total}]
    (tmp_path / "up.json").write_text(
        json.dumps({"start": {"test_start": {}}, "intervals": intervals})
    )

    assert imported(tmp_path, str(tmp_path / "up.json")) == 0

    printed = capsys.readouterr().out
    assert "assumed: No loss, though 30 segments were retransmitted" in printed
    assert all(each in printed for each in load_profile(str(tmp_path / "up.yaml")).assumptions)


MAHIMAHI, RATE = ["--rtt", "1ms", "--format", "mahimahi"], ["--rate", "1mbit"]


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        ("1\n2\nx\n", MAHIMAHI, "bad.txt:3: 'x' is not a whole number"),
        ("5\n3\n", MAHIMAHI, "bad.txt:2: 3 ms after 5 ms"),
        ("", MAHIMAHI, "no time above 0 ms"),
        ("hello\n", [], "looks like none of"),
        ("1\n2\n3\n", [], "has no delay: give the path's idle round trip by --rtt"),
        ("1\n2\n3\n", ["--rtt", "5"], '--rtt "5": '),
        ("1\n2\n3\n", ["--rtt", "5ms", "--bin", "0ms"], '--bin "0ms": not within 1ms to 10000ms'),
        ("1\n2\n3\n", ["--format", "leoreplayer"], "leoreplayer takes 2 files"),
        ('{"round_trips": 3, "config": 1}', RATE, "not what `irtt client -o` writes"),
        (
            f'{{"x_values": [0], "results": {{"TCP upload": [1{"0" * 400}]}}}}',
            RATE,
            "not one of Flent's data files",
        ),
        ("timestamp,rtt\nnow,3\n", RATE, "bad.txt:2: 'now' is not a time"),
        ("timestamp,rtt\n1,2\n2,x\n", RATE, "bad.txt:3: rtt 'x' is not a number"),
        (
            "timestamp,rtt\n1,38\n2,38000\n",
            RATE,
            "bad.txt:3: rtt 38000: more than 20 s: is it in another unit",
        ),
        ("timestamp,rtt\n1,2\n2,3\n", [], "has no rate: give one by --rate"),
        ("1\n2\n3\n", ["--rtt", "5ms", "--name", "A b"], "not a profile's name"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    tmp_path: Path, refused: Refused, text: str, words: list[str], says: str
) -> None:
    (tmp_path / "bad.txt").write_text(text)
    assert says in refused(*IMPORT, tmp_path / "bad.txt", *words, "--out", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt"]


def test_a_profile_that_is_there_is_not_replaced(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "a.up").write_text(stamps([1] * 100))
    words = [str(tmp_path / "a.up"), "--rtt", "1ms"]
    assert imported(tmp_path, *words) == 0
    assert "exists already" in refused(*IMPORT, *words, "--out", tmp_path)
    assert imported(tmp_path, *words, "--force") == 0


def test_the_starlink_like_path_is_what_its_script_writes() -> None:
    folder = Path(make_starlink_like.__file__).parent
    for name, text in make_starlink_like.files().items():
        assert (folder / name).read_text(encoding="utf-8") == text
    losses = {row.loss.p for row in changes_of(folder / "starlink-like.csv") if row.loss}
    assert all(0.002 <= loss <= 0.005 for loss in losses)


def test_a_replay_longer_than_its_recording_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "cell.up").write_text(stamps([1] * 500 + [4] * 500))
    assert imported(tmp_path, str(tmp_path / "cell.up"), "--rtt", "50ms") == 0
    text = (
        f"name: f\ntitle: f\nmatrices: [{{name: m}}]\nsettings: {{profile: {tmp_path}/cell.yaml,"
        f" trace: {tmp_path}/cell.csv, bottleneck: tbf, duration: 3s}}\n"
    )
    (run,) = runs_of(text)
    once = [change["at_s"] for change in changes(tmp_path / "cell.csv")]
    assert 0 < once[-1] < 1
    assert [change.at_s for change in run.changes] == pytest.approx(
        [at_s + second for second in range(3) for at_s in once]
    )
