# SPDX-License-Identifier: MIT
"""`pip install gostlab[pytest]`: a fixture, files as tests, reports of failures, and baselines."""

import json
from pathlib import Path

import pytest

from gostlab.registry.folders import ROOT, cache_folder
from gostlab.sandbox import held_syscall
from gostlab.sandbox.standby import StandbyPool
from tests.offspring import sandboxes
from tests.skips import require_root_tree

pytest_plugins = ["pytester"]

CACHE = cache_folder()  # pytester replaces $HOME
PLUGIN = ("-p", "gostlab.pytest_plugin", "-p", "no:cacheprovider")
PATH = 'rate="10mbit", rtt="20ms", duration="1s"'
TESTS = f"""
import pytest

def test_fills_the_link(lab):
    run = lab.run(cc="cubic", {PATH})
    assert run.goodput_mbit >= 2
    assert run.flow("flow1").goodput_mbit == run.goodput_mbit
    assert run.verdict in ("ok", "degraded")

def test_is_too_slow(lab):
    assert lab.run(cc="cubic", {PATH}).goodput_mbit >= 100

def test_a_metric_that_was_not_measured(lab):
    lab.run(cc="cubic", {PATH}).ping_p95_ms

def test_a_typing_error(lab):
    lab.run(cc="cubic", {PATH}).goodputt
"""
FILE = """name: mine
title: Mine
settings: {profile: plain-100ms, rate: 10mbit, rtt: 20ms, duration: 1s}
matrices:
  - name: main
    factors: {cc: [cubic, bbr]}
    expect:
      goodput: ">= 2 Mbit/s"
      bbr.goodput: ">= 3 × cubic.goodput"
"""
REFUSED = FILE.replace("2 Mbit/s", "2 ms")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of all tests here, so that each is made once."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSTLAB_CACHE", str(CACHE))


def run(pytester: pytest.Pytester, results: Path, *words: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*PLUGIN, f"--gostlab-results={results}", *words)


@pytest.mark.sandbox
def test_a_failed_test_says_path_command_and_page(pytester: pytest.Pytester, results: Path) -> None:
    pytester.makepyfile(test_link=TESTS)
    said = run(pytester, results, "-rA")
    said.assert_outcomes(passed=1, failed=3)
    said.stdout.fnmatch_lines_random(
        [
            "path: *10 Mbit/s*20 ms RTT*",
            "verdict: *",
            "again: * try --cc cubic --rate 10mbit --rtt 20ms --duration 1s",
            "page: *file://*.html",
            "*AssertionError: *has no ping_p95_ms*",
            "*AttributeError: goodputt: no metric of a run*",
        ]
    )
    pages = [word for word in said.outlines if word.startswith("page:")]
    assert Path(pages[0].partition("file://")[2]).exists()
    made = {path: path.stat().st_mtime_ns for path in results.glob("*/*/status.json")}
    assert len(made) == 1  # three tests ask for one run


@pytest.mark.sandbox
def test_each_cell_of_a_file_is_a_test(pytester: pytest.Pytester, results: Path) -> None:
    Path("mine.gostlab.yaml").write_text(FILE)
    said = run(pytester, results, "-v", "-m", "gostlab")
    said.assert_outcomes(passed=1, failed=1)
    said.stdout.fnmatch_lines_random(
        [
            "mine.gostlab.yaml::cubic PASSED*",
            "mine.gostlab.yaml::bbr FAILED*",
            "bbr.goodput >= 3 × cubic.goodput: * Mbit/s*below*",
            "again: * run *mine.gostlab.yaml --matrix main",
        ]
    )
    again = run(pytester, results, "-k", "cubic")
    again.assert_outcomes(passed=1, deselected=1)


@pytest.mark.sandbox
def test_a_baseline_shows_a_change_of_one_bit(pytester: pytest.Pytester, results: Path) -> None:
    test = TESTS.partition("def test_is")[0].replace(
        "def test", "@pytest.mark.gostlab_exact\ndef test"
    )
    pytester.makepyfile(test_link=test)
    missing = run(pytester, results)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*gostlab-baseline.json has no results of this test*"])

    run(pytester, results, "--gostlab-update").assert_outcomes(passed=1)
    baseline = Path("gostlab-baseline.json")
    written = baseline.read_text()
    ((entry,),) = json.loads(written).values()
    assert entry["verdict"] and entry["goodput"] >= 2 and len(entry["samples"]) == 64
    run(pytester, results).assert_outcomes(passed=1)

    entry["samples"] = "0" * 64
    baseline.write_text(json.dumps({"test_link.py::test_fills_the_link": [entry]}))
    changed = run(pytester, results)
    changed.assert_outcomes(failed=1)
    changed.stdout.fnmatch_lines(["*: samples was '000*' and is '*'"])
    run(pytester, results, "--gostlab-update")
    assert baseline.read_text() == written


@pytest.mark.sandbox
def test_workers_share_runs_and_write_one_baseline(
    pytester: pytest.Pytester, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xdist")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    test = TESTS.partition("def test_is")[0]
    pytester.makepyfile(test_link=test, test_other=test)
    said = pytester.runpytest_subprocess(
        *PLUGIN, f"--gostlab-results={results}", "-n", "2", "--gostlab-update"
    )
    said.assert_outcomes(passed=2)
    assert len(json.loads(Path("gostlab-baseline.json").read_text())) == 2


def test_a_file_that_is_refused_is_one_line_with_its_place(pytester: pytest.Pytester) -> None:
    Path("mine.gostlab.yaml").write_text(REFUSED)
    said = pytester.runpytest_inprocess(*PLUGIN)
    said.assert_outcomes(errors=1)
    said.stdout.fnmatch_lines(['*mine.gostlab.yaml:8: matrices[[]0[]].expect.goodput ">= 2 ms"*'])


def test_without_a_network_nothing_changes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): pass")
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)
    assert not Path(".gostlab-results").exists()


def test_a_baseline_that_is_none_is_refused(pytester: pytest.Pytester) -> None:
    Path("gostlab-baseline.json").write_text("{")
    pytester.makepyfile("def test_plain(): pass")
    said = pytester.runpytest_inprocess(*PLUGIN)
    said.stderr.fnmatch_lines(["ERROR: *gostlab-baseline.json: no baseline of gostlab's: *"])


@pytest.mark.sandbox
def test_the_sandbox_of_a_test_s_run_boots_when_the_last_one_ends(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_root_tree()
    if not held_syscall.is_available():
        pytest.skip("no seccomp listener here")
    taken: list[int] = []
    close = StandbyPool.close
    monkeypatch.setattr(
        StandbyPool, "close", lambda pool: (taken.append(pool.taken), close(pool))[1]
    )
    pytester.makepyfile(
        f"""
import pytest

@pytest.mark.parametrize("seed", [1, 2, 3])
def test_fills_the_link(lab, seed):
    assert lab.run(cc="cubic", seed=seed, {PATH}).goodput_mbit >= 2
"""
    )
    run(pytester, tmp_path).assert_outcomes(passed=3)
    assert taken == [2] and sandboxes() == []
