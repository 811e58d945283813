# SPDX-License-Identifier: MIT
"""Places like containers', and a run in each: no namespaces, /dev/shm small and noexec, another
user, no terminal, little memory, half a CPU.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gostlab.registry.folders import cache_folder
from gostlab.sandbox import CHECKOUT
from tests.analysis.synthetic import FIXTURE
from tests.lab_command import ROOT, said_by
from tests.sandboxed import Lab, describe, direction
from tests.skips import NEEDS_ROOT, require_mounts

pytestmark = [pytest.mark.sandbox, NEEDS_ROOT]
SOMEBODY = 12345  # no user of this machine
RUN_USER = f"/run/user/{SOMEBODY}"


def tmpfs(place: str, *options: str) -> list[str]:
    """What mount(8) is told of a folder in memory that everybody may write."""
    return ["-t", "tmpfs", "-o", ",".join(["mode=1777", *options]), "none", place]


SMALL_SHM = tmpfs("/dev/shm", "size=64m", "noexec")
# Where a container would have them: the checkout, what set-up made, and the results.
LAB, KERNEL, RESULTS = "/mnt/lab", "/mnt/kernel", "/mnt/results"
Inside = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder that a container's user may write."""
    made = tmp_path / "results"
    made.mkdir()
    shutil.chown(made, SOMEBODY, SOMEBODY)
    run = describe(*2 * [direction(rate_bps=10_000_000, delay_ms=2.0)], duration_s=1.0)
    quick = run.to_json() | {"memory_mib": 448, "tcp_memory_mib": 128}
    (made / "run.json").write_text(json.dumps(quick))
    return made


@pytest.fixture
def inside(lab: Lab, results: Path, tmp_path: Path) -> Inside:
    """Run `./lab WORDS` in a place; `orders` as tests.sandbox.confined takes them."""
    require_mounts()
    made = cache_folder()

    def run(
        *words: str,
        mounts: Sequence[list[str]] = (),
        environ: Mapping[str, str] = MappingProxyType({}),
        **orders: Any,
    ) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "orders.json"
        base = [
            ["-t", "tmpfs", "-o", "mode=755", "none", "/mnt"],
            ["--bind", str(CHECKOUT), LAB],
            ["--bind", str(lab.kernel.parent), KERNEL],
            ["--bind", str(made), "/mnt/made"],
            ["--bind", str(results), RESULTS],
            # What set-up made lies in somebody's home, which only he may enter. It keeps its path,
            # as a program in it names its loader.
            ["-t", "tmpfs", "-o", "mode=755", "none", f"/{made.parts[1]}"],
            ["--bind", "/mnt/made", str(made)],
        ]
        told = {
            "GOSTLAB_CACHE": str(made),
            "GOSTLAB_KERNEL": f"{KERNEL}/{lab.kernel.name}",
            "HOME": "/nowhere",
        }
        asked = {
            "mounts": [*base, *mounts],
            "namespaces": False,
            "uid": SOMEBODY,
            "session": True,
            "cwd": LAB,
            "environ": {**told, **environ},
        }
        file.write_text(json.dumps(asked | orders))
        return said_by(
            *(sys.executable, "-m", "tests.sandbox.confined", file, "./lab", *words),
            stdin=subprocess.DEVNULL,
            timeout=300,
        )

    return run


def made_in(results: Path) -> dict[str, Any]:
    """What env.json says of the machine below a run that must be good."""
    status = json.loads((results / "one/status.json").read_text())
    assert status["outcome"] == "ok", status
    host: dict[str, Any] = json.loads((results / "one/env.json").read_text())["host"]
    return host


EXEC = ("exec", f"{RESULTS}/run.json", f"{RESULTS}/one")


@pytest.mark.parametrize(
    ("orders", "where"),
    [
        ({}, "/dev/shm"),
        ({"mounts": [tmpfs("/mnt/named")], "environ": {"GOSTLAB_TMP": "/mnt/named"}}, "/mnt/named"),
        # No namespaces, /dev/shm of 64 MB and noexec, a user that nobody knows, no terminal, as
        # much address space as is enough; a named place that will not do is passed over.
        (
            {"mounts": [SMALL_SHM], "environ": {"GOSTLAB_TMP": "/dev/shm"}, "memory_mib": 768},
            "/tmp",
        ),
        ({"mounts": [SMALL_SHM, tmpfs(RUN_USER)]}, RUN_USER),
        ({"mounts": [SMALL_SHM, tmpfs("/tmp", "noexec")]}, "the results' disk"),
    ],
    ids=["shm", "named", "as docker", "run user", "results"],
)
def test_the_memory_takes_the_first_place_that_will_do(
    inside: Inside, results: Path, orders: dict[str, Any], where: str
) -> None:
    run_user = Path(RUN_USER)
    was_there = run_user.exists()
    try:
        done = inside(*EXEC, **orders)
    finally:
        if not was_there and run_user.exists():
            run_user.rmdir()

    assert done.returncode == 0, done.stderr
    host = made_in(results)
    assert host["memory"] == where and "namespaces" not in host["isolation"]
    assert sorted(path.name for path in results.iterdir()) == ["one", "run.json"]
    assert not list(Path("/tmp").glob("gostlab-memory-*"))


@pytest.mark.parametrize(
    ("orders", "causes"),
    [
        (
            {
                "mounts": [
                    SMALL_SHM,
                    tmpfs("/tmp", "size=8m"),
                    ["-o", "remount,bind,noexec", RESULTS],
                ]
            },
            [
                "/dev/shm is mounted noexec",
                f"{RUN_USER} is not there",
                r"/tmp has \d+ of 512 MiB free",
                "the results' disk is mounted noexec",
                "GOSTLAB_TMP",
            ],
        ),
        ({"mounts": [SMALL_SHM], "memory_mib": 300}, ["300 MiB"]),
        # It would be the same for every run, and says nothing about any of them.
        ({"seccomp": False}, ["seccomp"]),
        ({"mounts": [["-o", "remount,bind,noexec", KERNEL]]}, [f"GOSTLAB_KERNEL names {KERNEL}/"]),
    ],
    ids=["no place for memory", "too little memory", "seccomp", "noexec kernel"],
)
def test_a_host_that_cannot_boot_the_sandbox_says_why_in_one_line_and_leaves_no_results(
    inside: Inside, results: Path, orders: dict[str, Any], causes: list[str]
) -> None:
    done = inside(*EXEC, **orders)

    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert all(re.search(cause, done.stderr) for cause in causes), done.stderr
    assert [path.name for path in results.iterdir()] == ["run.json"]


@pytest.fixture
def half_a_cpu() -> Iterator[list[str]]:
    """Control groups with half a CPU and 768 MiB, as files that take a process's number."""
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own |= dict.fromkeys(names.split(","), path)
    made: list[Path] = []
    limits = {
        "cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"},
        "memory": {"memory.limit_in_bytes": str(768 * 2**20)},
    }
    try:
        for controller, files in limits.items():
            top = Path("/sys/fs/cgroup", controller)
            group = top / own.get(controller, "").strip("/") / f"gostlab-test-{os.getpid()}"
            try:
                group.mkdir()
                made.append(group)
                for name, value in files.items():
                    (group / name).write_text(value)
            except OSError:
                pytest.skip("no control groups of version 1")
        yield [str(group / "cgroup.procs") for group in made]
    finally:
        for group in made:
            group.rmdir()


def test_a_container_of_half_a_cpu_and_768_mib_runs_and_knows_its_limits(
    inside: Inside, results: Path, half_a_cpu: list[str]
) -> None:
    doctor = inside("doctor", "--json", mounts=[SMALL_SHM], cgroup=half_a_cpu)
    found = {each["part"]: each for each in json.loads(doctor.stdout)["findings"]}
    assert "container or control group" in found["memory"]["detail"]
    assert found["memory"]["detail"].startswith("0.7 GiB")
    assert "has time for 1" in found["cores"]["detail"] or len(os.sched_getaffinity(0)) == 1

    done = inside(*EXEC, mounts=[SMALL_SHM], cgroup=half_a_cpu)

    assert done.returncode == 0, done.stderr
    assert made_in(results)["memory"] == "/tmp"


def test_without_a_place_for_semaphores_the_report_names_it(inside: Inside) -> None:
    words = "report", "made-up", "--results", str(FIXTURE.relative_to(ROOT))
    closed = ["-t", "tmpfs", "-o", "mode=000", "none", "/dev/shm"]
    own = {"MPLCONFIGDIR": RESULTS}
    done = inside(*words, "--out", f"{RESULTS}/page", mounts=[closed], environ=own)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "/dev/shm (mount a tmpfs there" in done.stderr


def test_the_doctor_boots_as_a_run_does(inside: Inside) -> None:
    """On a machine with a noexec /dev/shm runs work, and the doctor says so, and where."""
    for orders in ({}, {"namespaces": True, "uid": None}):
        done = inside("doctor", "--json", mounts=[SMALL_SHM], **orders)
        found = {each["part"]: each for each in json.loads(done.stdout)["findings"]}
        assert found["sandbox boots"]["state"] == "there", found["sandbox boots"]
        where = "a tmpfs of its own" if orders else "/tmp"
        assert found["sandbox boots"]["detail"].endswith(f"memory is a file in {where}")


@pytest.mark.parametrize(
    ("orders", "cause"),
    [
        ({"seccomp": False}, r"denies seccomp\(2\) filters"),
        ({"mounts": [SMALL_SHM, tmpfs("/tmp", "noexec")]}, "nowhere to keep the sandbox's 448 MiB"),
        ({"memory_mib": 400}, "address space is limited to 400 MiB"),
    ],
    ids=["seccomp", "noexec", "ulimit"],
)
def test_the_doctor_names_the_cause_of_a_boot_that_fails(
    inside: Inside, orders: dict[str, Any], cause: str
) -> None:
    done = inside("doctor", "--json", **orders)

    found = {each["part"]: each for each in json.loads(done.stdout)["findings"]}
    boots = found["sandbox boots"]
    assert done.returncode == 1 and boots["state"] == "missing"
    assert re.search(cause, boots["detail"]) and "\n" not in boots["detail"], boots
    assert boots["to_do"]
