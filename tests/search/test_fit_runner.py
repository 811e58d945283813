# SPDX-License-Identifier: MIT
"""./lab fit but for its search: measurements, what is free, the runs, the profile and the words."""

import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml

from gostlab.analysis.plotting.style import save_figure
from gostlab.search.fit_api import order_of, parse_settings
from gostlab.search.fit_cli import print_fitted, window_lines
from gostlab.search.fit_definition import FitOrder, TheoryRates
from gostlab.search.fit_plot import fit_figure
from gostlab.search.fitted_profile import with_bare_numbers, write_fitted
from gostlab.search.level_set import ProposedRun
from gostlab.search.measured_rates import (
    Measurements,
    load_measurements,
    read_measurements,
    rows_on_path,
    select_uses,
)
from gostlab.search.parameters import extend_range, read_all_free, read_word
from gostlab.search.prior_mean import theory_inputs
from gostlab.spec.experiment import load_experiment
from gostlab.spec.fit_record import FitRecord, FittedParameter, FittedRow, TradeOff
from gostlab.spec.profile import load_profile
from gostlab.spec.yaml_source import BadInput, parse_document
from tests.asked import refusal
from tools.reference.pages import PROFILE_SCHEMA

TEXT = """\
name: mine
settings: {duration: 12s, rtt: 60ms}
free:
  loss: {sets: forward.loss, from: 0.001%, to: 1%}
  buffer: {from: 0.1bdp, to: 2bdp}
  rate: {from: 50mbit, to: 150mbit, scale: linear}
measured:
  - columns: [cc, streams, goodput, sd, use]
    factors: {tunnel: direct}
    rows:
      - [cubic, 1, 40mbit, 10%, fit]
      - [bbr, 4, 90mbit, 5%, judge]
  - {factors: {cc: bbr, streams: 1}, goodput: 80mbit, least: 70mbit, most: 90mbit, label: alone}
"""


def measurements(text: str = TEXT) -> Measurements:
    return read_measurements(parse_document(text, "mine.yaml"))


def order(tmp_path: Path, base: str = "plain-100ms") -> FitOrder:
    file = tmp_path / "mine.yaml"
    file.write_text(TEXT, encoding="utf-8")
    how = {"points": 20, "members": 2, "out": tmp_path, "results": tmp_path / "results"}
    return order_of(base, str(file), name="mine-fitted", force=True, **how)


PARAMETERS = tuple(
    FittedParameter(*words.split())
    for words in (
        "loss forward.loss 0.01% 0.005% 0.02% 0.001% 1% log",
        "buffer buffer 0.5bdp 0.1bdp 2bdp 0.1bdp 2bdp log",
        "rate rate 100mbit 90mbit 120mbit 50mbit 150mbit linear",
    )
)


def fitted() -> FitRecord:
    """A fit that somebody made up."""
    return FitRecord(
        by="gostlab 0.2.0",
        base="plain-100ms",
        measurements="mine",
        sha256="ab" * 32,
        seed=1,
        points=20,
        runs=50,
        misfit=0.8,
        explained=True,
        settings={"duration": "12s"},
        parameters=PARAMETERS,
        rows=(
            FittedRow("cubic, 1 stream", "fit", 40.0, 32.0, 50.0, 41.0, 39.0, 44.0),
            FittedRow("bbr, 4 streams", "judge", 90.0, 81.0, 99.0, 104.0, 98.0, 104.0),
            FittedRow("alone", "judge", 80.0, 70.0, 90.0, 20.0, 18.0, 22.0),
            FittedRow("nothing", "judge", 80.0, 70.0, 90.0, None, None, None),
        ),
        trade_offs=(TradeOff(("loss", "rate"), 0.83),),
        alike=tuple(
            {"loss": f"{0.005 + 0.001 * step:.3f}%", "buffer": "0.5bdp", "rate": f"{90 + step}mbit"}
            for step in range(15)
        ),
    )


# -- measurements


def test_a_row_has_its_levels_its_band_and_its_use() -> None:
    first, second, third = measurements().rows
    assert (first.label, first.use, first.goodput_bps) == ("direct, cubic, 1 stream", "fit", 4e7)
    assert first.sd == pytest.approx(0.1)
    assert first.most_bps / first.goodput_bps == pytest.approx(math.exp(0.2))
    assert (second.use, second.levels["streams"].value) == ("judge", 4)
    assert (third.label, third.least_bps, third.most_bps) == ("alone", 7e7, 9e7)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("40mbit", "40", 'mine.yaml:11: measured[0].rows[0][2] "40"'),
        ("[cubic, 1,", "[cubik, 1,", 'mine.yaml:11: measured[0].rows[0][0] "cubik"'),
        ("use]", "usage]", "usage: unknown key"),
        ("[cubic, 1, 40mbit, 10%, fit]", "[cubic, 1, 40mbit]", "3 values under 5 columns"),
        ("to: 1%", "to: 1mbit", 'mine.yaml:4: free.loss.to "1mbit": in another unit than from'),
        ("from: 0.001%", "from: 0%", "a log scale begins above 0"),
        ("from: 0.1bdp", "from: 3bdp", 'mine.yaml:5: free.buffer.to "2bdp": not more than from'),
        ("sets: forward.loss", "sets: forward.los", "did you mean forward.loss?"),
        ("least: 70mbit, most: 90mbit", "least: 81mbit, most: 90mbit", "is not within least and"),
        ("least: 70mbit, most: 90mbit", "least: 70mbit", "a band has both ends"),
        ("least: 70mbit, most: 90mbit", "sd: 5%, least: 70mbit, most: 90mbit", "one of them"),
        ("cc: bbr, streams: 1", "cc: bbr, buffer: 1bdp", "buffer is free (buffer), so no row can"),
        ("  buffer: {from", "  buffers: {from", "free.buffers"),
    ],
)
def test_a_slip_is_named_with_its_line(old: str, new: str, error: str) -> None:
    assert old in TEXT
    assert error in refusal(lambda: measurements(TEXT.replace(old, new)))


def test_an_experiments_published_rates_are_measurements() -> None:
    ws, wss = {"tunnel": ["gost+ws"]}, {"tunnel": ["gost+wss"]}
    found = select_uses(load_measurements("thesis-tunnel"), ws, wss)
    assert len(found.rows_for("fit")) == len(found.rows_for("judge")) == 8
    assert {row.levels["cc"].value for row in found.rows} == {"cubic", "bbr"}
    assert found.rows[0].goodput_bps == 144e6


def test_what_an_experiment_says_of_other_paths_is_left_out() -> None:
    found = rows_on_path(load_measurements("thesis-baseline", ["client-up"]), "client-shanghai")
    assert [row.label for row in found.rows] == ["cubic", "bbr"]
    assert [row.goodput_bps for row in found.rows] == [10.8e6, 281.54e6]


def test_what_measurements_write_out_are_the_experiments_numbers() -> None:
    published = {
        (number.factors["profile"], number.factors["cc"], number.goodput_mbit * 1e6)
        for number in load_experiment("thesis-baseline").published
        if number.matrix in ("client-up", "target-up") and number.goodput_mbit
    }
    assert of_files(("speed-tests",), ("profile", "cc")) == published
    published = {
        (*number.factors.values(), number.goodput_mbit * 1e6)
        for number in load_experiment("thesis-tunnel").published
    }
    files = ("tunnel-rates", "tunnel-collapse")
    assert of_files(files, ("cc", "tunnel", "streams")) == published


def of_files(files: Sequence[str], levels: Sequence[str]) -> set[tuple[object, ...]]:
    """The rows of files in measurements/, by their levels."""
    rows = [row for name in files for row in load_measurements(name).rows]
    return {(*(row.levels[name].value for name in levels), row.goodput_bps) for row in rows}


def test_what_is_not_fitted_on_is_judged() -> None:
    found = select_uses(measurements(), {"cc": ["bbr"]}, {})
    assert [row.use for row in found.rows] == ["judge", "fit", "fit"]
    found = select_uses(measurements(), {}, {"cc": ["bbr"]})
    assert [row.use for row in found.rows] == ["fit", "judge", "judge"]
    found = select_uses(measurements(), {"cc": ["cubic"]}, {"streams": ["4"]})
    assert [row.use for row in found.rows] == ["fit", "judge"]
    with pytest.raises(BadInput, match="--fit-on cc=reno: not in the measurements"):
        select_uses(measurements(), {"cc": ["reno"]}, {})


# -- what is free


def test_a_place_is_a_text_of_four_digits_and_back() -> None:
    loss = read_word("forward.loss=0.0001%..1%")
    assert (loss.text(0.0), loss.text(1.0)) == ("0.0001%", "1%")
    assert loss.text(0.5) == "0.01%"
    for position in (0.123456, 0.5, 0.987654):
        snapped = loss.snap(position)
        assert abs(snapped - position) < 1e-3
        assert loss.text(snapped) == loss.text(position)
        assert loss.snap(snapped) == pytest.approx(snapped, abs=1e-12)


def test_a_linear_range_and_a_count() -> None:
    rate = read_word("rate=1gbit..2gbit:linear")
    assert rate.text(0.25) == "1.25gbit"
    node = parse_document("{streams: {from: 2, to: 9, whole: true}}", "mine.yaml")
    (streams,) = read_all_free(node)
    assert [streams.text(position) for position in (0.0, 0.5, 1.0)] == ["2", "4", "9"]


def test_a_number_may_stand_within_a_setting() -> None:
    text = TEXT.replace(
        "buffer: {from: 0.1bdp, to: 2bdp}",
        "window: {sets: buffers, from: 1MiB, to: 8MiB,"
        " within: {rmem: [4KiB, 128KiB, VALUE], wmem: [4KiB, 16KiB, 4MiB]}}",
    )
    window = measurements(text).free[1]
    assert window.setting(0.0).value["rmem"] == [4096, 131072, 2**20]
    assert window.setting(1.0).value["rmem"][2] == 8 * 2**20


@pytest.mark.parametrize(
    "word", "loss loss=1% loss=..1% los=0.1%..1% loss=1%..0.1% loss=0.1%..1%:cubic =1..2".split()
)
def test_a_bad_range_on_the_command_line_is_one_line(word: str) -> None:
    assert refusal(lambda: read_word(word)).startswith("--free")


def test_a_rate_may_begin_at_what_passed() -> None:
    free = read_word("rate=measured..2gbit")
    assert extend_range(free, 8.84e6).text(0.0) == "0.00884gbit"
    assert extend_range(free, 8.84e6).text(1.0) == "2gbit"
    with pytest.raises(BadInput, match=r'"2gbit": less than the fitted numbers need \(2\.5gbit\)'):
        extend_range(free, 2.5e9)
    with pytest.raises(BadInput, match="loss is no rate"):
        read_word("loss=measured..1%")
    given = read_word("rate=1gbit..2gbit")
    assert extend_range(given, 1.5e9) == given


# -- runs


def test_a_question_is_an_ordinary_run_of_its_own_name(tmp_path: Path) -> None:
    asked = order(tmp_path)
    positions = (0.5, 0.5, 1.0)
    whole, short = (asked.run(ProposedRun(positions, 0, is_whole)) for is_whole in (True, False))
    assert (whole.length_s, short.length_s) == (12, 3)
    assert whole.path.forward.rate_bps == 150_000_000
    assert whole.path.forward.loss.p == pytest.approx(0.0003162, rel=1e-3)
    assert whole.path.reverse.loss.p == 0
    assert whole.path.forward.delay_ms == 30
    assert whole.experiment == "fit-mine-fitted" and whole.name != short.name
    assert asked.run(ProposedRun(positions, 0, True)).name == whole.name
    assert asked.run(ProposedRun(positions, 0, True, 2)).seed == whole.seed + 1
    assert (
        asked.run(ProposedRun(positions, 2, True)).cc
        == asked.run(ProposedRun(positions, 1, True)).cc
        == "bbr"
    )


@pytest.mark.parametrize("buffers", ["debian", "bdp"])
def test_theory_says_of_a_place_what_it_says_of_its_run(tmp_path: Path, buffers: str) -> None:
    asked = replace(order(tmp_path), command_line_settings=parse_settings({"buffers": buffers}))
    positions = np.array([[0.1, 0.2, 0.9], [0.8, 0.5, 0.0]])
    for number in range(len(asked.rows)):
        runs = [
            asked.run(ProposedRun(tuple(position), number, True)) for position in positions.tolist()
        ]
        assert list(TheoryRates(asked)(number, positions)) == pytest.approx(
            [math.log(theory_inputs(run).goodput_bps) for run in runs], rel=1e-12
        )


# -- the profile


def test_numbers_that_one_window_explains_are_said_to_be(tmp_path: Path) -> None:
    """40 Mbit/s over 60 ms are 300 kB in flight; BBR's 80 Mbit/s are not."""
    file = tmp_path / "mine.yaml"
    file.write_text(TEXT, encoding="utf-8")
    how = {"out": tmp_path, "results": tmp_path / "results", "force": True}
    alone = order_of("plain-100ms", str(file), fit_on={"cc": ["cubic"]}, **how)
    both = order_of("plain-100ms", str(file), fit_on={"cc": ["cubic", "bbr"]}, **how)

    window = alone.explaining_window()
    assert window is not None and window[0] < 300_000 < window[1]
    assert "without any loss, a window of" in window_lines(alone)[0]
    assert both.explaining_window() is None and window_lines(both) == []


def test_the_profile_has_the_fit_and_can_be_read(tmp_path: Path) -> None:
    path = write_fitted(order(tmp_path), fitted())
    made = load_profile(str(path))
    base = load_profile("plain-100ms")
    assert made.fitted is not None
    assert made.fitted.rows[0] == fitted().rows[0] and made.fitted.rows[3].lab_mbit is None
    for part in ("parameters", "trade_offs", "alike"):
        assert getattr(made.fitted, part) == getattr(fitted(), part)
    assert made.forward.rate_bps == made.reverse.rate_bps == 100_000_000
    assert (made.forward.loss.p, made.reverse.loss) == (0.0001, base.reverse.loss)
    assert made.rtt_ms == 60
    assert str(made.forward.buffer) == "0.5bdp"
    assert any("Fitted, not measured" in each for each in made.assumptions)
    text = path.read_text()
    assert "date" not in text and write_fitted(order(tmp_path), fitted()).read_text() == text


def test_what_was_measured_keeps_its_numbers_and_its_words(tmp_path: Path) -> None:
    """Of the profile that a fit began with: its reader has numbers as texts, and the schema, which
    editors read, wants them without quotes.
    """
    path = write_fitted(order(tmp_path, base="la-hamina"), fitted())
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    schema = json.loads(PROFILE_SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["measured"][0] == {
        "cc": "cubic",
        "node": "target to Los Angeles, US",
        "upload_mbit": 538.06,
        "download_mbit": 3919.0,
        "rtt_ms": 168.98,
    }
    row = with_bare_numbers({"rtt_ms": "12", "node": "12 ms away", "rate": "1e3", "loss": 0.5})
    assert row == {"rtt_ms": 12, "node": "12 ms away", "rate": "1e3", "loss": 0.5}


def test_what_is_no_part_of_a_path_is_said_how_to_set(tmp_path: Path) -> None:
    memory = FittedParameter(
        *"memory host_tcp_memory 300MiB 200MiB 400MiB 100MiB 1000MiB log".split()
    )
    made = replace(fitted(), parameters=(*fitted().parameters, memory))
    profile = load_profile(str(write_fitted(order(tmp_path), made)))
    assert any("--set host_tcp_memory=300MiB" in note for note in profile.notes)


def test_a_folder_that_takes_no_file_keeps_nothing(tmp_path: Path) -> None:
    asked = replace(order(tmp_path), out=tmp_path / "not-there")
    with pytest.raises(BadInput, match="--out"):
        write_fitted(asked, fitted())
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


# -- what is said


@pytest.mark.slow
def test_the_table_and_the_figure_hold_every_number() -> None:
    out = io.StringIO()
    print_fitted(fitted(), out)
    assert all(row.label in out.getvalue() for row in fitted().rows)
    figure = fit_figure(fitted(), "mine")
    labels = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    assert {"cubic, 1 stream", "bbr, 4 streams", "alone"} <= set(labels)
    assert save_figure(figure, "png")[:4] == b"\x89PNG"
    one = replace(fitted(), parameters=fitted().parameters[:1], trade_offs=())
    assert save_figure(fit_figure(one, "one"), "png")[:4] == b"\x89PNG"
