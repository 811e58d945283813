# SPDX-License-Identifier: MIT
"""One run as a verb: idempotent, whole or not there, beside any number of others."""

import io
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab import api, results, sandbox
from gostlab.results.run_result import RunResult
from gostlab.sandbox.cpu_claims import alone_on_the_real_clock, claim, claimed_cpus
from gostlab.scheduler import exec_one, executor
from gostlab.scheduler.eta import expected_s
from gostlab.scheduler.exec_one import RunTask
from gostlab.scheduler.shard import Shard, deal_shards
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput
from tests.lab_command import Refused, Typed, said_by
from tests.scheduler import test_executor as schedule_tests
from tests.scheduler.test_executor import GOOD

BAD = {"outcome": "failed", "error": "iperf3 failed", "guest_s": 1.0}


@pytest.fixture
def run() -> RunSpec:
    return schedule_tests.runs(1)[0]


@pytest.fixture
def task(run: RunSpec, tmp_path: Path) -> RunTask:
    return RunTask(run, tmp_path / "mine")


class Job(schedule_tests.Job):
    """A run that has ended."""

    def __init__(self, folder: Path, outcome: dict = GOOD) -> None:
        super().__init__(folder, outcome, polls=0)


def never(*_: object) -> Job:
    raise AssertionError("ran again")


def start(run: RunSpec, folder: Path, slot: int) -> Job:
    return Job(folder)


def fail(run: RunSpec, folder: Path, slot: int) -> Job:
    return Job(folder, BAD)


def only(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_is_made_in_its_folder_and_leaves_nothing_beside_it(
    run: RunSpec, tmp_path: Path
) -> None:
    def look(run: RunSpec, folder: Path, slot: int) -> Job:
        assert folder.parent == tmp_path / "deep" and not (tmp_path / "deep/mine").exists()
        assert json.loads((folder / "run.json").read_text()) == run.to_json()
        (folder / "boot.json").write_text("{}")  # what the machine needed
        (folder / ".host").mkdir()
        return Job(folder)

    end = exec_one.execute(RunTask(run, tmp_path / "deep/mine"), look)

    assert end.outcome == "ok" and results.is_finished(tmp_path / "deep/mine", run)
    assert only(tmp_path / "deep") == ["mine"]
    assert only(tmp_path / "deep/mine") == sorted([*results.needed_files(), "status.json"])


def test_a_finished_run_is_not_made_again_and_a_failed_one_where_that_is_asked_for(
    task: RunTask, tmp_path: Path
) -> None:
    first = exec_one.execute(task, fail)

    assert first.outcome == "failed" and exec_one.execute(task, never).outcome == "failed"
    assert exec_one.execute(task, start, retry_failed=True).outcome == "ok"
    assert exec_one.execute(task, never, retry_failed=True).outcome == "ok"
    assert exec_one.execute(task, never).outcome == "ok"
    assert only(tmp_path) == ["mine"]


def test_an_unfinished_folder_of_the_same_run_is_replaced(task: RunTask) -> None:
    task.folder.mkdir()
    results.write_json(task.folder / "run.json", task.run.to_json())
    (task.folder / "left.txt").write_text("cut off")

    assert exec_one.execute(task, start).outcome == "ok"
    assert not (task.folder / "left.txt").exists()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("thesis.txt", "years of work", "a folder of something else"),
        ("run.json", '{"experiment": "another"}', "another run's folder"),
    ],
)
def test_a_folder_of_something_else_is_left_alone(
    task: RunTask, name: str, text: str, says: str
) -> None:
    task.folder.mkdir()
    (task.folder / name).write_text(text)

    with pytest.raises(results.ResultsError, match=says):
        exec_one.execute(task, never)

    assert only(task.folder) == [name] and (task.folder / name).read_text() == text


def test_a_machine_that_cannot_start_it_leaves_nothing(task: RunTask, tmp_path: Path) -> None:
    def refuse(*_: object) -> Job:
        raise sandbox.MachineError("too little memory")

    with pytest.raises(sandbox.MachineError, match="too little memory"):
        exec_one.execute(task, refuse)

    assert only(tmp_path) == []


class Interrupted(Job):
    def poll(self) -> int | None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("in_a_shard", [False, True])
def test_an_interrupt_ends_it_and_leaves_nothing(
    task: RunTask, tmp_path: Path, in_a_shard: bool
) -> None:
    jobs = []

    def begin(run: RunSpec, folder: Path, slot: int) -> Job:
        jobs.append(Interrupted(folder))
        return jobs[-1]

    with pytest.raises(KeyboardInterrupt):
        if in_a_shard:
            executor.run_all([task.run], tmp_path, (0,), begin, executor.RunObserver(), beside=True)
        exec_one.execute(task, begin)

    assert jobs[0].killed and not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_of_many_at_once_one_answer_stays_and_nothing_else(task: RunTask, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(lambda _: exec_one.execute(task, start), range(32)))

    assert [end.outcome for end in ends] == ["ok"] * 32
    assert only(tmp_path) == ["mine"] and results.is_finished(task.folder, task.run)


def test_what_a_killed_process_left_is_taken_away_and_what_a_living_one_makes_is_not(
    task: RunTask, tmp_path: Path
) -> None:
    living = results.create_sibling_folder(task.folder, task.run)
    left = said_by(
        sys.executable,
        "-c",
        "import json, os, sys\nfrom pathlib import Path\nfrom gostlab import results\n"
        "from gostlab.spec.run_spec import RunSpec\n"
        "run = RunSpec.from_json(json.load(sys.stdin))\n"
        "print(results.create_sibling_folder(Path(sys.argv[1]), run).folder, flush=True)\n"
        "os.kill(os.getpid(), 9)",
        task.folder,
        input=json.dumps(task.run.to_json()),
    ).stdout.strip()
    assert Path(left).is_dir()

    exec_one.execute(task, start)

    assert only(tmp_path) == [living.folder.name, "mine"]
    living.settle(task.run)
    assert only(tmp_path) == ["mine"]


def test_a_part_without_a_lock_is_given_time(tmp_path: Path) -> None:
    begun = tmp_path / ".mine.part-host-1"
    begun.mkdir()
    assert not results.is_abandoned(begun)
    os.utime(begun, (0, 0))
    assert results.is_abandoned(begun)


def test_a_run_that_has_the_results_for_itself_is_not_disturbed(
    run: RunSpec, tmp_path: Path
) -> None:
    task = RunTask(run, tmp_path / run.experiment / run.name)
    with (
        results.experiment_lock(tmp_path, run.experiment),
        pytest.raises(results.ResultsError, match="another run"),
    ):
        exec_one.execute(task, never)
    assert exec_one.execute(task, start).outcome == "ok"


# -- its words


def test_a_dry_run_lists_descriptions_that_exec_takes(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "thesis-tunnel", "--quick", "--dry-run")
    entries = json.loads(typed(*words, "--json", "--results", tmp_path).stdout)
    names = typed(*words).stdout.split()

    folders = {entry["name"]: entry["folder"] for entry in entries}
    assert list(folders) == names
    assert folders == {name: str(tmp_path / "thesis-tunnel" / name) for name in names}
    run = RunSpec.from_json(entries[0]["run"])
    exec_one.execute(RunTask(run, Path(entries[0]["folder"])), start)

    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(entries[0])))
    done = typed("exec", "-", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"]["outcome"] == "ok"
    again = typed(*words, "--json", "--results", tmp_path)
    finished = [entry["name"] for entry in json.loads(again.stdout) if entry["finished"]]
    assert finished == [entries[0]["name"]]


def test_a_failed_run_has_a_status_too_and_that_is_exit_code_0(task: RunTask, typed: Typed) -> None:
    exec_one.execute(task, fail)

    done = typed("exec", task.folder / "run.json", task.folder)

    assert done.returncode == 0 and done.stdout == f"{task.folder}: failed: iperf3 failed\n"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not one run's description"),
        ("{}", "not a run of schema"),
        ('{"schema": 2}', "is missing"),
        ('{"run": 7}', "not a run of schema"),
        # what a run has otherwise
        ({"path": {}}, ""),
        ({"path": None}, ""),
        ({"flows": []}, ""),
        ({"duration_s": "long"}, ""),
        ({"factors": 3}, ""),
        ({"tunnel": "warp"}, ""),
        ({"colour": "red"}, ""),
    ],
)
def test_what_is_no_description_is_one_line(
    run: RunSpec, tmp_path: Path, given: str | dict, says: str
) -> None:
    file = tmp_path / "run.json"
    file.write_text(given if isinstance(given, str) else json.dumps(run.to_json() | given))

    with pytest.raises(BadInput, match=says) as caught:
        exec_one.read_task(str(file), tmp_path / "mine")
    assert "\n" not in str(caught.value) and str(file) in str(caught.value)


def test_a_run_json_alone_needs_a_folder(run: RunSpec, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "run.json").write_text(json.dumps(run.to_json()))

    assert "./lab exec" in refused("exec", tmp_path / "run.json")


# -- shards


@pytest.fixture(scope="module")
def matrix() -> list[RunSpec]:
    """All runs of one matrix."""
    runs = expand(load_experiment("thesis-tunnel"), quick=False)
    return [run for run in runs if run.matrix == "main"][:60]


def test_all_shards_together_have_every_run_once(matrix: list[RunSpec]) -> None:
    names = sorted(run.name for run in matrix)
    for count in (1, 7, len(matrix) + 3):
        hands = deal_shards(matrix, count, ())
        assert len(hands) == count and sorted(run.name for hand in hands for run in hand) == names
    assert Shard(3, 7).take(matrix, ()) == deal_shards(matrix, 7, ())[2]


def test_shards_take_about_as_long_as_each_other(matrix: list[RunSpec]) -> None:
    loads = [sum(map(expected_s, hand)) for hand in deal_shards(matrix, 5, ())]
    assert max(loads) - min(loads) <= max(map(expected_s, matrix))


def test_a_cell_with_a_stopping_rule_stays_whole(matrix: list[RunSpec]) -> None:
    hands = [{run.cell for run in hand} for hand in deal_shards(matrix, 3, ["main"])]
    assert sum(map(len, hands)) == len({run.cell for run in matrix})
    split = [{run.cell for run in hand} for hand in deal_shards(matrix, 3, ())]
    assert sum(map(len, split)) > len({run.cell for run in matrix})


@pytest.mark.parametrize("word", ["", "3", "0/4", "5/4", "-1/4", "1/0", "a/b", "1/2/3", "1.5/2"])
def test_what_is_no_shard_is_said(word: str) -> None:
    with pytest.raises(BadInput, match="like 3/40"):
        Shard.read(word)


def test_shards_run_at_the_same_time_and_make_the_same_folders(tmp_path: Path) -> None:
    """Three shards of a matrix and a fourth that overlaps, in threads, on one results folder."""
    runs = schedule_tests.runs(12)
    experiment = runs[0].experiment

    def shard(word: str) -> list[RunResult]:
        mine = Shard.read(word).take(runs, ())
        with results.experiment_lock(tmp_path, experiment, shared=True):
            return executor.run_all(
                mine, tmp_path, (0, 1), start, executor.RunObserver(), beside=True
            )

    with ThreadPoolExecutor(4) as pool:
        ends = [e for found in pool.map(shard, ["1/3", "2/3", "3/3", "1/2"]) for e in found]

    assert {end.outcome for end in ends} == {"ok"} and len(ends) == 18
    assert only(tmp_path / experiment) == sorted([".lock", *(run.name for run in runs)])


def test_a_shard_keeps_away_who_wants_the_results_alone(tmp_path: Path) -> None:
    with (
        results.experiment_lock(tmp_path, "x", shared=True),
        results.experiment_lock(tmp_path, "x", shared=True),
        pytest.raises(results.ResultsError, match="another run"),
        results.experiment_lock(tmp_path, "x"),
    ):
        pass


def test_an_empty_shard_is_no_failure(tmp_path: Path, typed: Typed) -> None:
    count = len(api.Experiment.from_file("thesis-tunnel", quick=True, machine="sandbox").runs) + 1
    words = ["run", "thesis-tunnel", "--quick", "--machine", "sandbox", "--results", tmp_path]
    done = typed(*words, "--shard", f"{count}/{count}")
    if "missing" in done.stderr:
        pytest.skip("no kernel: ./lab setup")
    assert done.returncode == 0, done.stderr


# -- CPUs


def test_processes_on_one_machine_take_different_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gostlab.sandbox.cpu_claims.usable_cpus", lambda: [101, 102, 103])
    with ExitStack() as held:
        taken = [held.enter_context(claimed_cpus(1)) for _ in range(3)]
        assert sorted(taken) == [[101], [102], [103]]
        assert held.enter_context(claimed_cpus(1))[0] in (101, 102, 103)  # shared, not refused
        assert sorted(held.enter_context(claimed_cpus(None))) == [101, 102, 103]
    with claimed_cpus(2) as two:
        assert two == [101, 102]


def test_a_real_clock_waits_for_the_one_that_runs() -> None:
    with alone_on_the_real_clock(), claim("real-clock") as second:
        assert not second
    with claim("real-clock") as now:
        assert now


# -- machines that go away


class Gone(Job):
    """A run whose machine goes away."""

    def poll(self) -> int | None:
        raise executor.WorkerLost("worker x went away")


def test_a_run_whose_machine_went_away_is_run_again(run: RunSpec, tmp_path: Path) -> None:
    attempts = []

    def begin(run: RunSpec, folder: Path, slot: int) -> Job:
        attempts.append(folder)
        return Gone(folder) if len(attempts) < executor.MAX_WORKER_LOSSES else Job(folder)

    [end] = executor.run_all([run], tmp_path, (0,), begin, executor.RunObserver(), beside=True)

    assert end.outcome == "ok" and len(set(attempts)) == executor.MAX_WORKER_LOSSES
    assert only(tmp_path / run.experiment) == [run.name]


def test_a_run_that_takes_its_machines_with_it_fails_alone(run: RunSpec, tmp_path: Path) -> None:
    other = replace(run, repetition=2)

    def begin(each: RunSpec, folder: Path, slot: int) -> Job:
        return Gone(folder) if each == run else Job(folder)

    ends = executor.run_all(
        [run, other], tmp_path, (0,), begin, executor.RunObserver(), beside=True
    )

    assert [end.outcome for end in ends] == ["failed", "ok"]
    assert "went away" in ends[0].status["error"]
