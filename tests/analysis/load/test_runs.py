# SPDX-License-Identifier: MIT
"""What a folder holds is what the analysis says of it, and nothing is left out in silence."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic
from synthetic import loaded

from gostlab.analysis.load.run_folder import RunFolder, UnidentifiedRun, executed_steps, load_run
from gostlab.analysis.load.run_json import mean_loss
from gostlab.analysis.load.runs import load_results, to_csv, to_frame
from gostlab.analysis.stats.cells import to_matrices
from gostlab.results import read_series
from gostlab.spec.path_spec import LossSpec
from gostlab.text_safety import replace_controls
from tests.results.format_check import complaints

DAMAGE = [
    "",
    "[]",
    "null",
    "{",
    '{"a": 1}',
    "\x00\xff",
    '{"end": {"sum_received": {"bits_per_second": NaN}, "sum_sent": {}}}',
    "[" * 5000,
    '{"checks": 1, "verdict": "ok", "legs": [1], "error": "x"}',
    '{"outcome": 3, "verdict": [], "path": 1}',
    '{"flows": [{"name": "flow1", "goodput_bps": NaN}], "verdict": "?"}',
]


@pytest.fixture
def one(kinds: Path) -> Callable[[str], RunFolder]:
    """The run of a kind."""

    def load(name: str) -> RunFolder:
        run = load_run(kinds / "made-up" / name)
        assert isinstance(run, RunFolder)
        return run

    return load


One = Callable[[str], RunFolder]


def copied(tmp_path: Path) -> Path:
    """A good run's folder to spoil."""
    return Path(shutil.copytree(synthetic.FIXTURE / "made-up/ok-tunnel-bbr", tmp_path / "run"))


def assert_corrupt(folder: Path, file: str) -> None:
    run = load_run(folder)
    assert isinstance(run, RunFolder) and run.state == "corrupt"
    assert (run.error or "").startswith(f"{file}: ")


def test_the_checked_in_folder_is_what_its_script_writes(tmp_path: Path) -> None:
    synthetic.write_contract(tmp_path)
    written, kept = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path, synthetic.FIXTURE)
    )
    assert written == kept


def test_made_up_folders_have_the_format_and_say_that_they_are_made_up(kinds: Path) -> None:
    folders = (kinds / "made-up").iterdir()
    spoilt = {(each.name, line.split(":")[0]) for each in folders for line in complaints(each)}
    assert spoilt == {("corrupt-flows", "flows.json"), ("corrupt-run", "run.json")}
    assert load_results(kinds, "made-up").synthetic


def test_figures_come_from_the_files_that_own_them(one: One) -> None:
    run = one("ok-tunnel-bbr")
    assert (run.state, run.verdict, run.counts) == ("ok", "ok", True)
    assert run.goodput_mbit == 2222.0  # the receiver's, not the sender's
    assert run.retr == 900
    assert [run.retransmitted(leg) for leg in ("app", "wan", "exit")] == [900, 44, 0]
    assert dict(run.nstat) == {"client": 944, "target": 0}
    assert run.idle_share == 0.5
    made = run.environment
    assert made is not None and (made.tunnel_kind, made.tunnel) == ("relay", "fixture relay 0")
    assert run.rtt_ms == 168.0
    assert run.bdp_pkts == pytest.approx(1967e6 * 0.168 / 8 / 1500)
    assert run.buffer_bdp == pytest.approx(1.0, abs=1e-4)
    unlimited, unknown = replace(run, rate_bps=None), replace(run, buffer_pkts=None)
    assert (unlimited.buffer_bdp, unknown.buffer_bdp) == (None, None)
    assert {leg.name: leg.cc for leg in run.legs} == dict.fromkeys(["app", "wan", "exit"], ("bbr",))


def test_a_runs_commands_are_what_the_lab_did_without_the_scripts_own_functions() -> None:
    script = "#!/bin/sh\nsay() {\n}\n\n# -- what the lab did\n\nnamespace a\n"
    assert executed_steps(script) == "namespace a\n"
    older = "#!/bin/sh\nip netns add a\n"
    assert executed_steps(older) == older


def test_a_direct_run_has_one_leg_and_its_missing_ones_are_none(one: One) -> None:
    run = one("ok-direct")
    assert run.retransmitted("wan") == run.retr == 7
    assert run.retransmitted("app") is None
    assert run.environment is not None and run.environment.tunnel == "none"


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("failed", "failed", "died"),
        ("unsupported", "unsupported", "this kernel has"),
        ("unfinished", "unfinished", "status.json"),
        ("corrupt-flows", "corrupt", "flows.json: not JSON"),
    ],
)
def test_what_did_not_end_well_is_kept_as_such(one: One, name: str, state: str, words: str) -> None:
    run = one(name)
    assert run.state == state
    assert run.error is not None and words in run.error
    assert not run.counts and run.goodput_mbit is None


def test_an_invalid_run_is_kept_and_does_not_count(one: One) -> None:
    run = one("invalid")
    assert run.state == "ok" and run.verdict == "invalid" and not run.counts
    assert any("off its configured round trip" in check.reason for check in run.checks)


def test_every_folder_is_accounted_for(kinds: Path) -> None:
    results = load_results(kinds, "made-up")
    folders = {path.name for path in (kinds / "made-up").iterdir()}
    assert {each.name for each in (*results.runs, *results.broken)} == folders
    assert [broken.error for broken in results.broken] == ["run.json: it is empty"]


def test_idle_time_is_that_of_the_median_second_not_of_the_whole(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    # given a CPU that rests while connections open and while the last data drain, and never between
    busy_idle = [(0.1, 0.9), (0.3, 1.7), (1.3, 1.7), (2.3, 1.7), (3.3, 1.7), (4.3, 1.7), (4.4, 2.6)]
    rows = [
        {"t_s": t, "cpu_busy_s": busy, "cpu_idle_s": idle}
        for t, (busy, idle) in enumerate(busy_idle, 1)
    ]
    synthetic.put_lines(folder, "hosts", rows)
    run = loaded(folder)
    assert run.idle_share == 0.0 and run.idle_share_load == 0.5


def of(tmp_path: Path, run: dict, name: str = "one", **measured: object) -> RunFolder:
    return loaded(synthetic.write_run(tmp_path, run, name=name, **measured))


def test_goodput_is_the_flows_together_without_udp(tmp_path: Path) -> None:
    udp = {"kind": "udp", "cc": None, "rate_bps": 30_000_000, "start_s": 5.0, "duration_s": 10.0}
    http = {"rtt_ms": 20.0, "kind": "http", "size_bytes": 10**8}
    asked = synthetic.several({"cc": "bbr"}, http, udp)
    run = of(tmp_path, asked, goodput_mbit=60.0, wan=7)
    assert run.goodput_mbit == 60.0 and run.retr == 7  # wget has no Retr
    told = [
        (each.name, each.traffic_type, each.cc, each.goodput_mbit, each.retransmits)
        for each in run.flows
    ]
    assert told == [
        ("flow1", "tcp", "bbr", 30.0, 7),
        ("flow2", "http", "cubic", 30.0, None),
        ("flow3", "udp", None, 30.0, None),
    ]
    assert [flow.competes for flow in run.flows] == [True, True, False]
    assert (run.flows[1].rtt_ms, run.flows[2].started_s) == (20.0, 5.0)
    assert run.topology == "dumbbell"
    assert run.flow("flow3") is run.flows[2] and run.flow("flow4") is None


def test_udp_alone_is_the_question(tmp_path: Path) -> None:
    asked = synthetic.several({"kind": "udp", "cc": None, "rate_bps": 30_000_000})
    assert of(tmp_path, asked).goodput_mbit == 30.0


@pytest.mark.parametrize(
    "broken", [{"goodput_bps": None}, {"error": "no"}, {"name": "flow9"}, {"retransmits": "many"}]
)
def test_a_flow_without_its_measurement_makes_a_run_corrupt(tmp_path: Path, broken: dict) -> None:
    folder = synthetic.write_run(tmp_path, synthetic.several({}, {}), name="one")
    told = json.loads((folder / "flows.json").read_text())
    told["flows"][1] |= broken
    synthetic.put(folder, "flows.json", told)
    assert_corrupt(folder, "flows.json")


def test_flows_and_changes_are_settings_by_name(tmp_path: Path) -> None:
    change = {"at_s": 10.0, "direction": "forward", "rate_bps": 50_000_000}
    changes = [change, {**change, "loss": {"model": "random", "p": 0.01}}]
    run = of(tmp_path, synthetic.several({"cc": "bbr"}, {"start_s": 5.0}, changes=changes))
    settings = dict(run.settings)
    assert (
        settings.items()
        >= {
            "flows.flow1.cc": "bbr",
            "flows.flow2.start_s": 5.0,
            "changes.10 s.forward.rate_bps": 5e7,
            "changes.10 s.forward.loss.p": 0.01,
        }.items()
    )
    assert "flows.flow2.cc" not in settings
    found = [(each.at_s, each.rate_bps, each.loss and each.loss.p) for each in run.changes]
    assert found == [(10.0, 5e7, None), (10.0, 5e7, 0.01)]


def test_a_variant_is_named_by_the_flow_that_differs(tmp_path: Path) -> None:
    asked = {start: synthetic.several({}, {"start_s": start}) for start in (5.0, 10.0)}
    runs = [of(tmp_path, each, f"s{start}") for start, each in asked.items()]
    variants = {matrix.variant for matrix in to_matrices(runs)}
    assert variants == {f"flow2 start {start} s" for start in (5, 10)}


def test_how_a_run_is_watched_and_what_it_does_not_cross_are_no_settings(tmp_path: Path) -> None:
    plain = of(tmp_path, synthetic.several({}), "a")
    path = synthetic.several({})["path"]
    asked = synthetic.several({}, acks=True, sites={"x": path, "y": path})
    watched = of(tmp_path, asked, "b")
    assert plain.settings == watched.settings and watched.acks and watched.sites == ("x", "y")


def test_a_long_list_is_a_short_setting(tmp_path: Path) -> None:
    runs = []
    for name, last in (("a", 1.0), ("b", 2.0)):
        change = {"direction": "forward", "delay_ms": last}
        asked = synthetic.several({}, changes=[{"at_s": float(t), **change} for t in range(500)])
        asked["path"]["forward"]["distribution"] = [int(last)] * 4096
        runs.append(of(tmp_path, asked, name))
    assert all(len(str(value)) <= 100 for run in runs for _, value in run.settings)
    assert len(runs[0].settings) < 60
    differ = {key for key, value in runs[0].settings if dict(runs[1].settings)[key] != value}
    assert differ == {"changes", "path.forward.distribution"}


@pytest.mark.parametrize(
    ("p", "r", "bad", "good"),
    [(0.01, 0.2, 1.0, 0.0), (0.05, 0.5, 0.7, 0.01), (0.3, 0.1, 0.5, 0.2), (1.0, 1.0, 1.0, 0.0)],
)
def test_the_mean_loss_of_a_gilbert_elliott_channel_is_that_of_its_markov_chain(
    p: float, r: float, bad: float, good: float
) -> None:
    values, vectors = np.linalg.eig(np.array([[1 - p, p], [r, 1 - r]]).T)
    stay = np.real(vectors[:, np.argmin(abs(values - 1))])
    stay /= stay.sum()
    loss = LossSpec(model="gemodel", p=p, r=r, one_minus_h=bad, one_minus_k=good)
    assert mean_loss(loss) == pytest.approx(float(stay @ [good, bad]))


def test_the_mean_loss_of_other_models() -> None:
    assert mean_loss(LossSpec(model="periodic", p=1e-6, packets=10**6)) == 1e-6
    stuck = LossSpec(model="gemodel", p=0.0, r=0.0, one_minus_h=1.0, one_minus_k=0.03)
    assert mean_loss(stuck) == 0.03


def test_loss_and_jitter_are_those_where_the_data_goes(tmp_path: Path) -> None:
    asked = synthetic.description(direction="download")
    loss = {"model": "random", "p": 0.08}
    asked["path"]["reverse"] |= {"jitter_ms": 15.0, "ordered": True, "loss": loss}
    run = of(tmp_path, asked)
    assert (run.loss_p, run.jitter_ms, run.ordered) == (0.08, 15.0, True)


def test_a_bottleneck_s_use_follows_its_rate(tmp_path: Path) -> None:
    change = {"at_s": 10.0, "direction": "forward", "rate_bps": 50_000_000}
    asked = synthetic.several({}, changes=[change])
    folder = synthetic.write_run(tmp_path, asked, name="one")
    card = {"node": "w", "role": "bottleneck", "direction": "forward"}
    rows, sent = [], 0.0
    for t in range(60):
        for dev, part in (("busy", 0.9), ("idle", 0.0)):
            rows.append({**card, "t_s": float(t), "dev": dev, "sent_bytes": part * sent})
        sent += (100e6 if t < 10 else 50e6) / 8
    synthetic.put_lines(folder, "queues", rows)
    assert loaded(folder).link_share == pytest.approx(0.9)


@pytest.mark.parametrize("key", ["flows", "changes", "sites", "acks", "topology"])
@pytest.mark.parametrize("value", [3, "x", [1], [{}], {"a": 1}, [{"name": "flow1"}], [{"at_s": 1}]])
def test_no_new_key_of_run_json_raises(tmp_path: Path, key: str, value: object) -> None:
    folder = synthetic.write_run(tmp_path, synthetic.several({}), name="one")
    synthetic.put(folder, "run.json", {**synthetic.several({}), key: value})
    assert isinstance(load_run(folder), RunFolder | UnidentifiedRun)


def test_the_end_of_the_log_is_kept(one: One) -> None:
    assert "the last line before the end" in one("failed").log_tail


def test_the_frame_has_a_row_per_run(kinds: Path) -> None:
    assert load_results(Path("/nowhere"), "x").runs == ()
    frame = to_frame(load_results(kinds, "made-up").runs)
    assert len(frame) == 9
    assert frame.set_index("run").loc["ok-tunnel-cubic", "goodput_mbit"] == 1111.0
    assert to_frame([]).empty


def test_the_frame_says_what_the_flows_really_use_and_every_factor_that_has_no_column(
    tmp_path: Path,
) -> None:
    # given a setting cc = cubic that no flow takes, and two flows of which the second's is a factor
    factors = {"load.cc": "bbr", "buffer": "1bdp"}
    lone = synthetic.several({"cc": "bbr"}, cc="cubic", factors=factors)
    udp = {"cc": None, "kind": "udp", "rate_bps": 1_000_000}
    synthetic.write_run(tmp_path, lone, name="lone")
    synthetic.write_run(
        tmp_path, synthetic.several({"cc": "bbr"}, {"cc": "reno"}, udp), name="mixed"
    )
    frame = to_frame(load_results(tmp_path, "made-up").runs).set_index("run")
    assert list(frame["cc"]) == ["bbr", "bbr+reno"]
    assert (frame.loc["lone", "load.cc"], frame.loc["lone", "buffer"]) == ("bbr", "1bdp")
    assert (frame.loc["mixed", "cc:flow1"], frame.loc["mixed", "cc:flow2"]) == ("bbr", "reno")


def test_the_frame_has_both_directions_of_a_path(tmp_path: Path) -> None:
    """A loss of the way back is there too, whichever way the data go."""
    asked = synthetic.cell("bbr", 1)
    lossy = {
        **asked["path"]["reverse"],
        "loss": {"model": "random", "p": 0.02},
        "rate_bps": 50_000_000,
    }
    asked["path"] = {**asked["path"], "reverse": lossy}
    synthetic.write_run(tmp_path, asked)
    [row] = to_frame(load_results(tmp_path, "made-up").runs).to_dict("records")
    assert (row["loss_p"], row["forward_loss_p"], row["reverse_loss_p"]) == (0.0, 0.0, 0.02)
    assert (row["forward_rate_mbit"], row["reverse_rate_mbit"]) == (1967.0, 50.0)
    assert row["forward_delay_ms"] == row["reverse_delay_ms"] == 84.0


def test_the_frame_has_the_delays_under_load(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.cell("cubic", 1))
    synthetic.write_run(tmp_path, synthetic.cell("bbr", 1), outcome="failed", error="x")
    frame = to_frame(load_results(tmp_path, "made-up").runs).set_index("cc")
    # srtt is sampled at 1, 2, 3 and 4 s as 168, 170, 172 and 174 ms, the last one stands to 30 s
    assert frame.loc["cubic", "srtt_median_ms"] == frame.loc["cubic", "srtt_p95_ms"] == 174.0
    full_ms = 3 * 75_000 * 8 / 1967e6 * 1000
    assert frame.loc["cubic", "queue_delay_p95_ms"] == pytest.approx(full_ms)
    assert np.isnan(frame.loc["bbr", "srtt_median_ms"])


def test_csv_has_no_digit_that_says_nothing() -> None:
    rows = [
        (0.1 + 0.2, 1.967e9, "x", 1001),
        (1432.123456, 16.0, None, 2),
        (None, math.nan, True, 3),
    ]
    frame = pd.DataFrame(rows, columns=list("abcd"))
    told = ["a,b,c,d", "0.3,1967000000,x,1001", "1432.12,16,,2", ",,True,3"]
    assert to_csv(frame).split() == told


@pytest.mark.parametrize(
    "name", ["run.json", "status.json", "flows.json", "fidelity.json", "legs.json", "env.json"]
)
@pytest.mark.parametrize("content", DAMAGE)
def test_no_damage_raises_and_none_passes_for_a_good_run(
    tmp_path: Path, name: str, content: str
) -> None:
    folder = copied(tmp_path)
    (folder / name).write_text(content, encoding="latin-1")
    run = load_run(folder)
    if name == "env.json" and content in (DAMAGE[4], DAMAGE[6], DAMAGE[8], DAMAGE[9], DAMAGE[10]):
        assert isinstance(run, RunFolder) and run.environment is not None
        assert run.environment.kernel == "unknown"
    else:
        assert isinstance(run, UnidentifiedRun) or not run.counts


@pytest.mark.parametrize("name", ["flows.json", "fidelity.json", "legs.json", "env.json"])
def test_a_finished_run_without_one_of_its_files_is_corrupt_and_names_it(
    tmp_path: Path, name: str
) -> None:
    folder = copied(tmp_path)
    (folder / name).unlink()
    assert_corrupt(folder, name)


def test_a_series_that_was_cut_short_keeps_what_is_whole(tmp_path: Path) -> None:
    (tmp_path / "hosts.jsonl").write_text('{"t_s": 1.0, "cpu_busy_s": 1}\n{"t_s": 2.0, "cpu_b')
    assert read_series(tmp_path, "hosts") == [{"t_s": 1.0, "cpu_busy_s": 1}]


def test_text_of_others_cannot_break_a_page() -> None:
    assert replace_controls("\x1b[31mred\x1b[0m\x00\ud800 €\n\ttab") == "red\ufffd\ufffd €\n\ttab"
