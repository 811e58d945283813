# SPDX-License-Identifier: MIT
"""A matrix on the workers of a cluster, with real Dask workers on this machine and runs that are
stubs.
"""

import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gostlab import api, results
from gostlab.cluster import dask_cluster, worker
from gostlab.cluster.dask_cluster import Cluster
from gostlab.cluster.worker import Identity
from gostlab.install import locate
from gostlab.registry import folders
from gostlab.results.run_result import RunResult
from gostlab.sandbox import CHECKOUT, MachineError
from gostlab.scheduler import executor
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput
from tests.asked import refusal
from tests.cluster import stub_worker
from tests.sandboxed import without_root
from tests.skips import require_root_tree

Runs = list[RunSpec]
Workers = Callable[..., Cluster]
ME = Identity(**stub_worker.identify(None))


@pytest.fixture(scope="module")
def runs() -> Runs:
    base = expand(load_experiment("thesis-tunnel"), quick=True)[0]
    return [replace(base, repetition=number) for number in range(1, 13)]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two workers of this machine, for all tests: they take seconds to start. They leave nothing
    behind.
    """
    distributed = pytest.importorskip("distributed", reason="no distributed")
    scratch = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(CHECKOUT))
        patched.setenv("TMPDIR", str(scratch))
        patched.setattr(tempfile, "tempdir", str(scratch))
        with dask_cluster.local_cluster(distributed, 2) as started:
            assert names(scratch)
            yield started
    assert not names(scratch)


@pytest.fixture
def workers(daemon: Any) -> Iterator[Workers]:
    """The workers as slots for runs: workers(make, identify) with stubs of both."""
    import distributed

    def connect(
        make: Callable[..., Any] = stub_worker.make,
        identify: Callable[..., Any] = stub_worker.identify,
    ) -> Cluster:
        found = Cluster(client, ME, None, str, identify=identify, make=make)
        dask_cluster.wait_for_workers(found, "local:2", 2)
        return found

    with distributed.Client(daemon, set_as_default=False) as client:
        yield connect


def run_on(found: Cluster, runs: Runs, folder: Path) -> list[RunResult]:
    return executor.run_all(runs, folder, found, found.start, executor.RunObserver(), beside=True)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_every_run_comes_back_whole(workers: Workers, runs: Runs, tmp_path: Path) -> None:
    found = workers()

    ends = run_on(found, runs, tmp_path)

    assert [end.outcome for end in ends] == ["ok"] * len(runs)
    assert names(tmp_path / runs[0].experiment) == sorted(run.name for run in runs)
    for end in ends:
        assert results.is_finished(end.folder, end.run)
        assert names(end.folder) == ["env.json", "flows.json", "run.json", "status.json"]
    hosts = {json.loads((end.folder / "env.json").read_text())["worker"] for end in ends}
    assert len(hosts) == 2  # both had some
    # Nothing is held by a worker that might die with it; it is told to let go, and does soon.
    deadline = time.monotonic() + 30.0
    while any(found.client.has_what().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(found.client.has_what().values())


@pytest.mark.slow
def test_a_shared_file_system_brings_no_bytes(workers: Workers, runs: Runs, tmp_path: Path) -> None:
    found = workers(stub_worker.make_shared)

    ends = run_on(found, runs[:3], tmp_path)

    assert [end.outcome for end in ends] == ["ok"] * 3
    assert names(ends[0].folder) == ["env.json", "flows.json", "run.json", "status.json"]


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    workers: Workers, daemon: Any, runs: Runs, tmp_path: Path
) -> None:
    for each in ("quiet", "killed"):
        (tmp_path / each).mkdir()
    run_on(workers(), runs, tmp_path / "quiet")
    found = workers(stub_worker.make_slowly)
    killed = []

    class Killer(executor.RunObserver):
        def started(self, run: RunSpec) -> None:
            if run.repetition == 5 and not killed:
                time.sleep(0.2)
                victim = next(iter(daemon.workers.values()))
                killed.append(victim.pid)
                os.kill(victim.pid, signal.SIGKILL)

    ends = executor.run_all(runs, tmp_path / "killed", found, found.start, Killer(), beside=True)

    assert killed and [end.outcome for end in ends] == ["ok"] * len(runs)
    where = [tmp_path / each / runs[0].experiment for each in ("quiet", "killed")]
    assert names(where[0]) == names(where[1])
    for run in runs:
        flows = [(folder / run.name / "flows.json").read_text() for folder in where]
        assert flows[0] == flows[1]


@pytest.mark.slow
def test_an_interrupt_leaves_what_is_finished_and_no_part(
    workers: Workers, runs: Runs, tmp_path: Path
) -> None:
    found = workers(stub_worker.make_slowly)

    class Impatient(executor.RunObserver):
        def finished(self, done: RunResult, left_s: float) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor.run_all(runs, tmp_path, found, found.start, Impatient(), beside=True)

    left = names(tmp_path / runs[0].experiment)
    assert len(left) == 1 and results.read_status(tmp_path / runs[0].experiment / left[0])


@pytest.mark.slow
def test_a_run_that_no_worker_can_begin_fails_and_says_why(
    workers: Workers, runs: Runs, tmp_path: Path
) -> None:
    found = workers(stub_worker.refuse)

    with pytest.raises(MachineError, match="no worker is left: too little memory"):
        run_on(found, runs, tmp_path)

    assert names(tmp_path / runs[0].experiment) == []


@pytest.mark.parametrize("name", ["lab", "kernel", "tunnel", "iperf3", "root"])
def test_what_makes_other_runs_is_a_difference(name: str) -> None:
    other = replace(ME, **{name: {"3.12": "y"} if name == "iperf3" else "another"})
    assert [each.split(" (")[0] for each in ME.differences(other)] == [f"another {name}"]
    assert ME.differences(replace(ME, host="there", cpu="another CPU")) == []


@pytest.mark.slow
def test_a_worker_of_another_lab_is_refused(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 1.0)
    with pytest.raises(MachineError, match=r"no worker there will do .*another lab \(another, not"):
        workers(identify=stub_worker.identify_another)


@pytest.mark.sandbox
def test_a_worker_whose_sandboxes_boot_on_another_root_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real worker says what it is: it has the same parts but for the root."""
    distributed = pytest.importorskip("distributed", reason="no distributed")
    made = require_root_tree()
    me, other = Identity(**worker.identify()), made.hash[::-1]
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    monkeypatch.setenv("GOSTLAB_CACHE", str(cache := without_root(tmp_path / "cache")))
    (its := cache / "root" / made.tree.parent.name).mkdir(parents=True)
    (its / "tree").symlink_to(made.tree)
    results.write_json(its / "root.json", {**made.record, "hash": other})
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 1.0)

    with (
        dask_cluster.local_cluster(distributed, 1) as daemon,
        distributed.Client(daemon, set_as_default=False) as client,
    ):
        says = f"another root \\({other[:12]}, not {made.hash[:12]}\\)"
        with pytest.raises(MachineError, match=says):
            dask_cluster.wait_for_workers(Cluster(client, me, None, print), "local:1", 1)
        found = Cluster(client, replace(me, root=other), None, print)
        dask_cluster.wait_for_workers(found, "local:1", 1)
        assert len(found) == 1


# -- do two agree?


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "says"),
    [(stub_worker.make, None), (stub_worker.make_differently, r"do not agree, in flows\.json")],
)
def test_two_workers_must_agree_bit_for_bit(
    workers: Workers, runs: Runs, tmp_path: Path, make: Callable[..., Any], says: str | None
) -> None:
    found = workers(make)
    if says is None:
        assert "agree bit for bit" in dask_cluster.check_hosts(found, runs[0], tmp_path)
        return
    with pytest.raises(MachineError, match=says) as caught:
        dask_cluster.check_hosts(found, runs[0], tmp_path)
    assert str(caught.value).count("(here)") == 2  # both are named


@pytest.mark.slow
def test_one_worker_has_nobody_to_agree_with(workers: Workers, runs: Runs, tmp_path: Path) -> None:
    found = workers()
    found.refuse(next(iter(found)), "it is not wanted")
    with pytest.raises(BadInput, match="it takes two"):
        dask_cluster.check_hosts(found, runs[0], tmp_path)


# -- words


@pytest.mark.parametrize(
    ("where", "says"),
    [
        *((where, "") for where in "tcp://127.0.0.1:8786 tcp://[::1]:8786".split()),
        *((where, "") for where in "tcp://localhost:8786 tls://head.example:8786".split()),
        *((f"tcp://{far}:8786", r"tls://|ssh -L") for far in "head.example 10.0.0.1".split()),
        *((f"tcp://{far}:8786", r"tls://|ssh -L") for far in "127.0.0.1.a.org 0.0.0.0".split()),
        *((where, "not a scheduler's address") for where in ("nowhere", "http://x:1")),
        *((where, "not a scheduler's address") for where in ("tcp://127.0.0.1", "tcp://a b:1")),
        *((where, "how many workers") for where in "local local:0 local:-1 local:x".split()),
    ],
)
def test_only_this_machine_or_tls_is_talked_to(where: str, says: str) -> None:
    if says:
        assert re.search(says, refusal(lambda: dask_cluster.local_workers(where)))
    else:
        assert dask_cluster.local_workers(where) is None


@pytest.mark.parametrize(
    ("where", "jobs", "check", "says"),
    [
        (None, None, True, "with --dask"),
        ("local:2", 3, False, "--jobs"),
        ("local:x", None, False, "how many workers"),
        ("tcp://example.org:8786", None, False, "ssh -L"),
    ],
)
@pytest.mark.usefixtures("no_machine")
def test_what_makes_no_sense_with_a_cluster_is_bad_input(
    where: str | None,
    jobs: int | None,
    check: bool,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "identify", lambda *_: asdict(ME))
    plan = api.Experiment.from_file("thesis-tunnel", quick=True, machine="sandbox")
    with pytest.raises(BadInput, match=says):
        workers = dask_cluster.join_cluster(where, [plan], None, jobs, check_hosts=check)
        plan.run(tmp_path, workers=workers).wait()


def refused(where: str) -> str:
    """Why no cluster is connected."""
    with pytest.raises(MachineError) as caught, dask_cluster.connect(where, ME, None, print):
        pass
    return str(caught.value)


def test_without_the_package_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "./lab setup --with dask" in refused("local:2")


def test_a_scheduler_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="no distributed")
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 0.5)
    assert "no scheduler there" in refused("tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({}, "names no certificates for the client: docs/how-to/dask-cluster.md"),
        (
            {"ca-file": "/no/ca.pem", "client.cert": "/no/cert.pem", "client.key": "/no/key.pem"},
            "cannot be read (/no/ca.pem, /no/cert.pem, /no/key.pem): No such file",
        ),
    ],
)
def test_certificates_that_are_not_there_are_said_before_anybody_is_asked(
    named: dict[str, str], says: str
) -> None:
    pytest.importorskip("distributed", reason="no distributed")
    import dask

    with dask.config.set({f"distributed.comm.tls.{name}": file for name, file in named.items()}):
        assert says in refused("tls://127.0.0.1:1")


# -- what comes back


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/b", ".lock", "..", ""])
def test_files_of_its_folder_come_back_and_nothing_else(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file of a run's folder"):
        worker.save_files({"log.txt": b"", name: b""}, tmp_path)
    assert names(tmp_path) == []


def test_a_link_that_lies_in_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("kept")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "log.txt").symlink_to("../outside")

    worker.save_files({"log.txt": b"new"}, folder)

    assert (tmp_path / "outside").read_text() == "kept"
    assert (folder / "log.txt").read_text() == "new" and not (folder / "log.txt").is_symlink()


def test_too_many_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="too large"):
        worker.save_files({"log.txt": b"x" * 1001}, tmp_path)
    (tmp_path / "log.txt").write_bytes(b"x" * 1001)
    with pytest.raises(ValueError, match="not sent back"):
        worker.read_files(tmp_path)


def test_the_labs_hash_is_of_what_makes_a_run(tmp_path: Path) -> None:
    names = [name for name, _ in folders.sources("gostlab")]
    assert {"topo.py", "gostlab/guest/run.py"} <= set(names)
    assert all(name.endswith(".py") for name in names)

    file = tmp_path / "run.py"
    file.write_text("1")
    before = locate.hash_of_named([("gostlab/guest/run.py", file)])
    assert locate.hash_of_named([("gostlab/guest/load_context.py", file)]) != before
    file.write_text("2")
    assert locate.hash_of_named([("gostlab/guest/run.py", file)]) != before
