# SPDX-License-Identifier: MIT
"""The order of the measurements of speed patches, and the tables. Nothing is built or timed."""

from pathlib import Path

import pytest

from gostlab.registry.kernels import shipped_declaration
from tools import kernel_patch_gains as gains
from tools import kernel_patch_table as table

ALL, LESS = Path("all"), Path("without-c")
PAIRS = [
    gains.Pair("a", ALL, Path("without-a")),
    gains.Pair("b", ALL, Path("without-b")),
    gains.Pair("c", ALL, LESS),
    gains.Pair("d", LESS, Path("without-c-d")),
]


def test_every_kernel_without_a_patch_runs_next_to_the_one_with_it() -> None:
    order = gains.kernels_by_turns(PAIRS)
    for pair in PAIRS:
        index = order.index(pair.lacking)
        assert abs(gains.nearest(order, pair.having, index) - index) == 1


def test_measured_patches_are_in_the_series_and_follow_what_they_depend_on() -> None:
    names = [patch.name for patch in shipped_declaration().series]
    for name, dependents in gains.DEPENDENTS.items():
        assert name in names
        for dependent in dependents:
            assert names.index(dependent) > names.index(name)


def test_gains_are_read_as_they_were_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gains, "GAINS", tmp_path / "gains.json")
    assert gains.read_gains() == {}
    one = gains.Gain(
        with_s={"1 s": [1.0, 2.0]}, without_s={"1 s": [1.1, 2.4]}, differing=["1 s: acks.csv.gz"]
    )
    gains.save_gains({"x": one, "y": gains.Gain()})
    assert gains.read_gains() == {"x": one, "y": gains.Gain()}
    assert gains.read_gains()["x"].ratios("1 s") == pytest.approx([1.1, 1.2])


def test_samples_differ_by_file() -> None:
    assert gains.differing_files({"a": b"1", "b": b"2"}, {"a": b"1", "c": b"2"}) == ["b", "c"]


def test_a_gain_is_the_median_of_ratios_their_range_and_the_ratio_of_the_minima() -> None:
    gain = gains.Gain(with_s={"x": [1.0, 2.0, 4.0]}, without_s={"x": [1.25, 2.0, 6.0]})
    assert table.ratio_cell(gain, "x") == "1.25 (1.00–1.50), 1.25"
    rows = table.gain_table({"netem-prefetch": measured(1.0, 1.1)}).splitlines()
    [row] = [row for row in rows if row.startswith("| `netem-prefetch`")]
    assert row.count("1.10 (1.10–1.10), 1.10") == len(gains.LOADS)
    assert row.endswith("| 1 | equal |")
    assert "not measured" in next(row for row in rows if "um-memcpy-erms" in row)


def test_a_patch_that_others_need_says_so() -> None:
    gain = measured(1.0, 1.1)
    gain.reversed_with = ["um-yield-to-stub-while-waiting"]
    rows = table.gain_table({"um-skas-avoid-futex-wakeups": gain})
    assert "both without `um-yield-to-stub-while-waiting`" in rows


def measured(with_s: float, without_s: float) -> gains.Gain:
    return gains.Gain(
        with_s={load: [with_s] for load in gains.LOADS},
        without_s={load: [without_s] for load in gains.LOADS},
    )
