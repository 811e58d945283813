"""What a folder holds is what the analysis says of it, and nothing is left out in silence."""
from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import synthetic

from analysis.runs import Broken, Run, load_results, load_run, load_series, printable, to_frame

CONTRACT_FILES = {"run.json", "commands.sh", "log.txt", "env.json", "flows.json", "iperf3.json", "iperf3-server.json", "legs.json",
                  "sockets.jsonl", "queues.jsonl", "hosts.jsonl", "fidelity.json", "status.json"}


def one(name: str) -> Run:
    run = load_run(synthetic.FIXTURE / "made-up" / name)
    assert isinstance(run, Run)
    return run


def test_the_checked_in_fixture_is_what_its_script_writes(tmp_path: Path) -> None:
    synthetic.write_fixture(tmp_path)
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path.relative_to(synthetic.FIXTURE): path.read_bytes() for path in synthetic.FIXTURE.rglob("*") if path.is_file()}
    assert written == kept


def test_the_fixture_has_every_file_of_the_contract_and_says_that_it_is_made_up() -> None:
    folder = synthetic.FIXTURE / "made-up" / "ok-tunnel-bbr"
    assert {path.name for path in folder.iterdir()} == CONTRACT_FILES
    assert json.loads((folder / "env.json").read_text())["lab"]["version"] == "fixture"
    assert load_results(synthetic.FIXTURE, "made-up").synthetic


def test_figures_come_from_the_files_that_own_them() -> None:
    run = one("ok-tunnel-bbr")
    assert (run.state, run.verdict, run.counts) == ("ok", "ok", True)
    assert run.goodput_mbit == 2222.0             # the receiver's, not the sender's
    assert run.retr == 900
    assert [run.retransmitted(leg) for leg in ("app", "wan", "exit")] == [900, 44, 0]
    assert dict(run.nstat) == {"client": 944, "target": 0}
    assert run.idle_share == 0.5
    assert run.environment is not None and (run.environment.tunnel_kind, run.environment.tunnel) == ("relay", "fixture relay 0")
    assert run.rtt_ms == 168.0
    assert run.bdp_pkts == pytest.approx(1967e6 * 0.168 / 8 / 1500)
    assert run.buffer_bdp == pytest.approx(1.0, abs=1e-4)


def test_a_direct_run_has_one_leg_and_its_missing_ones_are_none() -> None:
    run = one("ok-direct")
    assert run.retransmitted("wan") == run.retr == 7
    assert run.retransmitted("app") is None
    assert run.environment is not None and run.environment.tunnel == "none"


@pytest.mark.parametrize(("name", "state", "words"), [
    ("failed", "failed", "died"), ("unsupported", "unsupported", "this kernel has"),
    ("unfinished", "unfinished", "status.json"), ("corrupt-flows", "corrupt", "flows.json: not JSON")])
def test_what_did_not_end_well_is_kept_as_such(name: str, state: str, words: str) -> None:
    run = one(name)
    assert run.state == state
    assert run.error is not None and words in run.error
    assert not run.counts and run.goodput_mbit is None


def test_an_invalid_run_is_kept_and_does_not_count() -> None:
    run = one("invalid")
    assert run.state == "ok" and run.verdict == "invalid" and not run.counts
    assert any("off its configured round trip" in check.reason for check in run.checks)


def test_every_folder_is_accounted_for() -> None:
    results = load_results(synthetic.FIXTURE, "made-up")
    folders = {path.name for path in (synthetic.FIXTURE / "made-up").iterdir()}
    assert {run.name for run in results.runs} | {broken.name for broken in results.broken} == folders
    assert [broken.error for broken in results.broken] == ["run.json: it is empty"]


def test_idle_time_is_that_of_the_median_second_not_of_the_whole(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(synthetic.FIXTURE / "made-up" / "ok-tunnel-bbr", folder)
    # given a CPU that rests while connections open and while the last data drain, and never between
    busy_idle = [(0.1, 0.9), (0.3, 1.7), (1.3, 1.7), (2.3, 1.7), (3.3, 1.7), (4.3, 1.7), (4.4, 2.6)]
    (folder / "hosts.jsonl").write_text("".join(json.dumps({"t_s": t + 1.0, "cpu_busy_s": busy, "cpu_idle_s": idle}) + "\n"
                                                for t, (busy, idle) in enumerate(busy_idle)))
    run = load_run(folder)
    assert isinstance(run, Run) and run.idle_share == 0.0 and run.idle_share_load == 0.5


def test_the_end_of_the_log_is_kept() -> None:
    assert "the last line before the end" in one("failed").log_tail


def test_results_that_are_not_there_are_none() -> None:
    assert load_results(Path("/nowhere"), "x").runs == ()


def test_the_frame_has_a_row_per_run() -> None:
    frame = to_frame(load_results(synthetic.FIXTURE, "made-up").runs)
    assert len(frame) == 9
    assert frame.set_index("run").loc["ok-tunnel-cubic", "goodput_mbit"] == 1111.0
    assert to_frame([]).empty


DAMAGE = ["", "[]", "null", "{", '{"a": 1}', "\x00\xff", "{\"end\": {\"sum_received\": {\"bits_per_second\": NaN}, \"sum_sent\": {}}}",
          "[" * 5000, '{"checks": 1, "verdict": "ok", "legs": [1], "error": "x"}', '{"outcome": 3, "verdict": [], "path": 1}']


@pytest.mark.parametrize("name", ["run.json", "status.json", "flows.json", "fidelity.json", "legs.json", "env.json"])
@pytest.mark.parametrize("content", DAMAGE)
def test_no_damage_raises_and_none_passes_for_a_good_run(tmp_path: Path, name: str, content: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(synthetic.FIXTURE / "made-up" / "ok-tunnel-bbr", folder)
    (folder / name).write_text(content, encoding="latin-1")
    run = load_run(folder)
    if name == "env.json" and content in (DAMAGE[4], DAMAGE[6], DAMAGE[8], DAMAGE[9]):
        assert isinstance(run, Run) and run.environment is not None and run.environment.kernel == "unknown"
    else:
        assert isinstance(run, Broken) or not run.counts


@pytest.mark.parametrize("name", ["flows.json", "fidelity.json", "legs.json", "env.json"])
def test_a_finished_run_without_one_of_its_files_is_corrupt_and_names_it(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(synthetic.FIXTURE / "made-up" / "ok-tunnel-bbr", folder)
    (folder / name).unlink()
    run = load_run(folder)
    assert isinstance(run, Run) and run.state == "corrupt" and run.error is not None and name in run.error


def test_a_series_that_was_cut_short_keeps_what_is_whole(tmp_path: Path) -> None:
    (tmp_path / "hosts.jsonl").write_text('{"t_s": 1.0, "cpu_busy_s": 1}\n{"t_s": 2.0, "cpu_b')
    assert load_series(tmp_path, "hosts") == [{"t_s": 1.0, "cpu_busy_s": 1}]


def test_text_of_others_cannot_break_a_page() -> None:
    assert printable("\x1b[31mred\x1b[0m\x00\ud800 €\n\ttab") == "red\ufffd\ufffd €\n\ttab"
