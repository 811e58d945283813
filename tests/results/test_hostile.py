# SPDX-License-Identifier: MIT
"""A run's folder may hold anything, as its own programs or a stranger left it: it is a damaged or a
failed run in one line, for every reader, and costs no other run anything.
"""

import copy
import errno
import json
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from gostlab import reproduce, results, safe_read
from gostlab.analysis.load import series
from gostlab.analysis.load.run_folder import RunFolder, load_run
from gostlab.analysis.load.runs import run_row
from gostlab.analysis.report import page_data
from gostlab.classroom.raw_metrics import RawRecords, find_problems
from gostlab.errors import BadInput
from gostlab.results import format as result_format
from gostlab.results import metrics
from gostlab.results.run_result import RunResult
from gostlab.results.samples import read_samples
from gostlab.scheduler import executor, summary
from gostlab.scheduler.cell_result import cells_of
from gostlab.scheduler.experiment_result import ExperimentResult
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.run_spec import RunSpec
from tests.cli.test_result_table import NO_STATISTICS
from tests.lab_command import ROOT, run_lab
from tests.scheduler.test_executor import GOOD, Job

FIXTURE = ROOT / "tests/analysis/fixture/made-up/ok-tunnel-bbr"
# What no file of the lab has where it stands.
VALUES: list[Any] = [
    *(10**400, -(10**400), 5, -1, 1.5, float("inf"), None, True, [], {}, [5], {"a": 5}),
    *("", "x", "\0", "\ud800", "\u202e", [[]], "9" * 400),
]
MUTATIONS = 60


@pytest.fixture(scope="module")
def run() -> RunSpec:
    return expand(load_experiment("thesis-tunnel"), quick=True)[0]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A good run's folder to spoil."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "made-up/run"))


# -- opening and decoding


def test_only_a_plain_file_of_a_possible_size_is_opened(tmp_path: Path) -> None:
    plain = tmp_path / "plain.json"
    plain.write_text("{}")
    assert safe_read.read_json(plain) == {}
    for number, make in enumerate(special_files(plain)):
        file = tmp_path / f"{number}.json"
        make(file)
        with pytest.raises(OSError, match="not a plain file"):
            safe_read.read_bytes(file)
        assert not safe_read.is_plain(file)
    large = tmp_path / "status.json"
    large.touch()
    os.truncate(large, 1 << 40)
    with pytest.raises(OSError, match="larger than any such file"):
        safe_read.read_bytes(large)
    for name in ("a\0b", "\ud800"):
        with pytest.raises(OSError, match="no name of a file"):
            safe_read.read_bytes(tmp_path / name)


def special_files(target: Path) -> Iterator[Any]:
    """What makes a path something else than a plain file, without waiting for anybody."""
    yield os.mkfifo
    yield Path.mkdir
    yield lambda file: file.symlink_to(target)
    yield lambda file: file.symlink_to("/dev/zero")
    yield bind_socket


def bind_socket(file: Path) -> None:
    before = Path.cwd()
    os.chdir(file.parent)  # its whole path may be longer than an address
    try:
        socket.socket(socket.AF_UNIX).bind(file.name)
    finally:
        os.chdir(before)


@pytest.mark.parametrize(
    "text", ["1" + "0" * 400, '"\\ud800"', '{"\\uDC00": 1}', "[" * 100_000, "\xff", '"\\ud83d"']
)
def test_json_that_no_writer_of_the_lab_writes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        safe_read.decode(text.encode("latin-1"))


def test_a_whole_surrogate_pair_is_a_letter() -> None:
    assert safe_read.decode(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_the_types_of_columns_are_those_of_the_format() -> None:
    series_files = [each for each in result_format.files() if each.form == "JSON lines"]
    fields = [field for file in series_files for field in file.fields if "." not in field.path]
    kinds = {field.path: field.kind_words.partition(",")[0].split(" or ")[0] for field in fields}
    numbers = {name for name, kind in kinds.items() if kind in ("number", "count")}
    assert numbers == results.NUMBER_COLUMNS
    assert {name for name, kind in kinds.items() if kind == "text"} == results.TEXT_COLUMNS
    objects = {field.path.partition(".")[0] for file in series_files for field in file.fields}
    assert objects - numbers - results.TEXT_COLUMNS - {"installed"} == set(results.OBJECT_COLUMNS)


@pytest.mark.parametrize("name", ["hosts", "queues", "sockets"])
def test_rows_that_are_read_at_once_are_those_read_one_by_one(name: str) -> None:
    data = (FIXTURE / f"{name}.jsonl").read_bytes()
    lines = data.splitlines(keepends=True)
    assert results.valid_rows(lines) == read_one_by_one(lines) != []
    chance, seen = random.Random(1), set[bool]()
    for _ in range(500):
        rows = [json.loads(line) for line in data.splitlines()[:4]]
        row, spoilt = chance.choice(rows), chance.choice(VALUES)
        column = chance.choice([*row, "bbr", "host_busy_s"])
        inside = {"x": spoilt} if isinstance(row.get(column), dict) else spoilt
        row[column] = chance.choice([spoilt, inside, 1, "a"])
        lines = [json.dumps(row, ensure_ascii=chance.random() < 0.5) for row in rows]
        text = "\n".join(lines) + chance.choice(["\n", "", "\n\n", "}\n", ",{}\n", "\n[]\n"])
        mutant = text.encode(errors="surrogatepass").replace(
            b"1.5", chance.choice([b"1e999", b"2"])
        )
        mutants = [line + b"\n" for line in mutant.split(b"\n")]
        one_by_one = read_one_by_one(mutants)
        assert repr(results.valid_rows(mutants)) == repr(one_by_one)
        seen.add(len(one_by_one) < len(rows))
    assert seen == {True, False}


def read_one_by_one(lines: Sequence[bytes]) -> list[object]:
    """The rows up to the first line that is none, each read alone."""
    read = [results.valid_rows([line]) for line in lines]
    return [row for [row] in takewhile(bool, read)]


# -- what a run's own programs leave


def crowd(folder: Path) -> None:
    """What programs of a run may put into its folder."""
    for name in ("exit", "boot.json", "outcome.json", "status.json", "flows.json"):
        (folder / name / "inside").mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch()
    (folder / "sparse.bin").touch()
    os.truncate(folder / "sparse.bin", 1 << 40)
    (folder / "tunnel-a.log").touch()
    os.truncate(folder / "tunnel-a.log", 1 << 40)
    (folder / "log.txt").symlink_to("/dev/zero")
    os.mkfifo(folder / "sockets.jsonl")
    at = os.open(folder, os.O_RDONLY)
    for _ in range(1800):
        os.mkdir("a", dir_fd=at)
        below = os.open("a", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def test_a_crowded_folder_is_its_own_run_s_failure(run: RunSpec, tmp_path: Path) -> None:
    made: list[str] = []

    def start(run: RunSpec, folder: Path, _slot: object) -> Job:
        made.append(run.name)
        if run.repetition == 1:
            crowd(folder)
            return Job(folder, None)
        return Job(folder, GOOD)

    todo = [run, replace_repetition(run, 2)]
    for _ in range(2):  # the second time nothing is made again, nor is anything in its way
        first, second = executor.run_all(todo, tmp_path, (0,), start, executor.RunObserver())
        assert (first.state, second.state) == ("failed", "invalid")
        assert first.status["error"] == "a program of the run replaced outcome.json"
        assert set(first.status["files"]) == {"run.json"}
    assert len(made) == 2
    again = executor.run_all(
        todo[:1], tmp_path, (0,), start, executor.RunObserver(), retry_failed=True
    )
    assert again[0].state == "failed" and len(made) == 3
    # pytest's own removal would recurse once for each of the nested folders.
    subprocess.run(["rm", "-r", str(tmp_path / run.experiment)], check=True)


def replace_repetition(run: RunSpec, repetition: int) -> RunSpec:
    return RunSpec.from_json({**run.to_json(), "repetition": repetition})


@pytest.mark.parametrize("name", ["run.json", "flows.json", "commands.sh"])
def test_a_run_that_lost_what_it_must_leave_has_failed(
    name: str, run: RunSpec, tmp_path: Path
) -> None:
    class Removed(Job):
        def poll(self) -> int | None:
            status = super().poll()
            if status is not None:
                (self.folder / name).unlink()
            return status

    def start(_run: RunSpec, folder: Path, _slot: object) -> Job:
        return Removed(folder, GOOD)

    [end] = executor.run_all([run], tmp_path, (0,), start, executor.RunObserver())
    assert end.status["error"] == f"a program of the run removed or replaced {name}"
    assert results.is_finished(end.folder, run)  # an answer: it is not made again


# -- what strangers left


def read_all(folder: Path, run: RunSpec) -> RunFolder | None:
    """Read a folder as the report, the terminal, the grader, a replay and the API do."""
    end = RunResult.read(folder, run)
    outcome = ExperimentResult("made-up", (end,))
    assert [*outcome.complaints, outcome.counts_line, outcome.to_json()]
    cells = cells_of([end], NO_STATISTICS)
    assert [cell.to_json() for cell in cells] and summary.reason_lines(cells) is not None
    for measure in (metrics.latency_of_folder, metrics.wan_retransmissions, metrics.path_drops):
        measure(folder)
    results.is_finished(folder, run)
    list(find_problems(RawRecords(folder, run), ("ok",), datetime(2020, 1, 1, tzinfo=UTC)))
    with suppress(BadInput):
        reproduce.finished_run(folder)
    found = load_run(folder)
    if not isinstance(found, RunFolder):
        return None
    run_row(found)
    for flow in found.flows if found.state == "ok" else ():
        series.delivery_curve_of(found, flow)
        series.flow_srtt_ms(found, flow.name)
    series.wire_ratio(found)
    series.bottleneck_marks(found)
    for of in results.SAMPLES:
        read_samples(folder, of)
    page_data.encode_runs({"a": [found]})
    page_data.run_values(found)
    page_data.panels_of(found, every_ack=True)
    return found


def places_in(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value of JSON; of a list the first few elements alone."""
    yield at
    if isinstance(value, list):
        value = dict(enumerate(value[:3]))
    for key, each in value.items() if isinstance(value, dict) else ():
        yield from places_in(each, (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """The value with another one in a place."""
    if not at:
        return new
    changed = holder = copy.deepcopy(value)
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = new
    return changed


@pytest.mark.parametrize("seed", range(3))
def test_no_value_in_no_place_is_more_than_a_damaged_run(
    seed: int, good: Path, run: RunSpec
) -> None:
    drawn = random.Random(seed)
    files = [f for f in good.iterdir() if f.suffix in (".json", ".jsonl") and f.stat().st_size]
    for _ in range(MUTATIONS // 3):
        file = drawn.choice(sorted(files))
        before = file.read_text("utf-8")
        lines = before.splitlines() if file.suffix == ".jsonl" else [before]
        number = drawn.randrange(len(lines))
        value = json.loads(lines[number])
        at, new = drawn.choice(list(places_in(value))), drawn.choice(VALUES)
        lines[number] = json.dumps(put(value, at, new))
        file.write_text("\n".join(lines) + "\n")
        read_all(good, run)
        file.write_text(before)


@pytest.mark.parametrize(
    "name", ["status.json", "run.json", "flows.json", "sockets.jsonl", "log.txt"]
)
def test_no_reader_waits_for_or_follows_what_is_no_plain_file(
    name: str, good: Path, run: RunSpec
) -> None:
    for make in special_files(good / "env.json"):
        remove_any(good / name)
        make(good / name)
        found = read_all(good, run)
        if name not in ("log.txt", "sockets.jsonl"):  # no sums are in this status.json
            assert found is None or found.state == "corrupt"
            assert found is None or "not a plain file" in str(found.error)


def remove_any(path: Path) -> None:
    results.remove_tree(path)
    assert not os.path.lexists(path)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (5, "no lengths and sums of files"),
        ({"a\0b": 1}, "no file of a run"),
        ({"../run.json": 1}, "no file of a run"),
        ({"gone.log": 1}, "not there any more"),
        ({"log.txt": 10**400}, "digits"),
        ({"log.txt": "\ud800"}, "surrogate"),
        ({"log.txt": None}, "not as long"),
    ],
)
def test_what_status_json_says_of_files_is_not_believed(
    files: Any, said: str, good: Path, run: RunSpec
) -> None:
    status = json.loads((good / "status.json").read_text("utf-8"))
    (good / "status.json").write_text(json.dumps(status | {"files": files}))
    found = read_all(good, run)
    assert found is not None and found.state == "corrupt" and said in str(found.error)


def test_verbs_say_a_line_of_a_status_that_nobody_writes_to(tmp_path: Path) -> None:
    place = tmp_path / "made-up/run"
    shutil.copytree(FIXTURE, place)
    (place / "status.json").unlink()
    os.mkfifo(place / "status.json")
    done = run_lab("replay", place, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_a_full_disk_is_no_run_s_failure(run: RunSpec, tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left"):
        results.replace_unreadable(tmp_path / "run", run, 1.0, full)
