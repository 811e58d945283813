# SPDX-License-Identifier: MIT
"""Interrupts and kills, full disks, ruined result folders, two schedulers at once, and many runs in
a row; with GOSTLAB_SOAK=1 more than fifty kills and a thousand runs.

After each: what was finished is unchanged, nothing is left behind, and the same command goes on to
the same end. Every instant is drawn from a seed; what a process has come to by then is the
machine's.
"""

import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

from gostlab import results
from gostlab.sandbox import CHECKOUT, uml
from gostlab.spec.run_spec import RunSpec
from tests.lab_command import run_here, run_lab, said_by
from tests.offspring import (
    adopt_orphans,
    all_gone,
    foreign_namespaces,
    mounts_in,
    offspring,
    sandboxes,
    zombies_of_ours,
)
from tests.sandboxed import Lab, as_nobody, cache_at, describe, direction
from tests.scheduler.test_executor import GOOD, Job
from tests.skips import NEEDS_ROOT

pytestmark = pytest.mark.sandbox

SETTINGS = "{profile: plain-100ms, rate: 10mbit, delay: 5ms, duration: 1s}"
MATRIX = f"""name: small
title: the smallest matrix
settings: {SETTINGS}
matrices:
  - name: main
    factors: {{cc: [cubic, bbr], streams: [1, 2, 3]}}
    draw: [goodput]
"""
SMALL = MATRIX.replace("[1, 2, 3]", "[1, 2]")
ROW = f"""name: row
title: the smallest run, many times
settings: {SETTINGS}
matrices:
  - name: main
    repetitions: COUNT
    factors: {{cc: [cubic]}}
"""
SOAK = os.environ.get("GOSTLAB_SOAK") == "1"
SCHEDULER_KILLS, SANDBOX_KILLS = (20, 24) if SOAK else (4, 6)
TUNNELS_KILLED = (2, 3, 4, 5, 6, 7) if SOAK else (2, 3, 4)  # by the number of streams


class Desk:
    """An experiment's file and its results folder, and the command line on them."""

    def __init__(self, folder: Path, matrix: str = MATRIX, place: Path | None = None) -> None:
        self.file = folder / "experiment.yaml"
        self.file.write_text(matrix)
        self.results = (place or folder) / "results"
        self.memory_files = set(os.listdir("/dev/shm"))

    def words(self, *more: str) -> list[str]:
        own = ("--results", str(self.results), "--machine", "sandbox")
        return ["run", str(self.file), *own, *more]

    def start(self, *more: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        # A job that a script put into the background ignores SIGINT, and so would its children.
        command = ["env", "--default-signal=INT", sys.executable, "-m", "gostlab"]
        command += self.words(*more)
        how: dict[str, Any] = {"cwd": CHECKOUT, "stdout": subprocess.DEVNULL, "text": True}
        return subprocess.Popen(command, stderr=stderr, **how)

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return self.checked(*self.words(*more))

    def report(self) -> subprocess.CompletedProcess[str]:
        return self.checked("report", "--results", str(self.results))

    def checked(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = run_here(*words)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def reported_states(self) -> dict[str, str]:
        """What the report says of each run."""
        rows = (self.results / "report" / "tables" / "small-runs.csv").read_text().splitlines()
        return {row.split(",")[0]: row.split(",")[1] for row in rows[1:]}

    def folders(self) -> list[Path]:
        return sorted(path for path in (self.results / "small").iterdir() if path.is_dir())

    def statuses(self) -> list[Path]:
        return sorted(self.results.glob("*/*/status.json"))

    def finished(self) -> dict[str, str]:
        """Every finished run, and the hash of its whole folder."""
        return {path.parent.name: folder_hash(path.parent) for path in self.statuses()}

    def outcomes(self) -> dict[str, str]:
        found = {path.parent.name: json.loads(path.read_text()) for path in self.statuses()}
        return {name: status["outcome"] for name, status in found.items()}

    def check_nothing_left(self) -> None:
        """No process, namespace, mount or memory file of ours."""
        assert not all_gone()
        assert not foreign_namespaces()
        assert not mounts_in(self.results)
        new = set(os.listdir("/dev/shm")) - self.memory_files
        assert not [name for name in new if name.startswith("vm_file")]


def folder_hash(folder: Path) -> str:
    """The names and contents of all files below a folder."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        total.update(f"{path.relative_to(folder)}\0".encode())
        if path.is_file():
            total.update(path.read_bytes())
    return total.hexdigest()


@cache
def names_in(matrix: str) -> frozenset[str]:
    with TemporaryDirectory() as folder:
        return frozenset(Desk(Path(folder), matrix).run("--dry-run").stdout.split())


def names_asked_for(desk: Desk) -> frozenset[str]:
    """The runs of an undisturbed matrix."""
    return names_in(desk.file.read_text())


@pytest.fixture(autouse=True)
def orphans(lab: Lab) -> None:
    """Every test here needs the sandbox, and starts with no child."""
    adopt_orphans()
    assert not all_gone()  # a guest that was killed may still be ending


def wait_for_handler(process: subprocess.Popen[str], number: int) -> None:
    """Wait until a process catches a signal, which Python's own start-up does not, or has ended."""
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        caught = re.search(r"^SigCgt:\s*(\w+)", status.read_text(encoding="ascii"), re.MULTILINE)
        if caught and int(caught[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.005)


@pytest.fixture(scope="module")
def whole(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A finished matrix, to be copied and ruined."""
    desk = Desk(tmp_path_factory.mktemp("whole"))
    assert desk.run().returncode == 0
    return desk


def copy_of(desk: Desk, place: Path) -> Desk:
    shutil.copytree(desk.results, place / "results")
    return Desk(place)


def test_a_scheduler_ended_over_and_over_comes_to_the_same_end(tmp_path: Path) -> None:
    desk, draw = Desk(tmp_path, SMALL), random.Random(20)
    orders = [signal.SIGKILL] * SCHEDULER_KILLS + [signal.SIGINT, signal.SIGTERM, signal.SIGINT]
    began_s = time.monotonic()
    asked_for = set(run_lab(*desk.words("--dry-run")).stdout.split())
    begun_s = time.monotonic() - began_s  # a run takes no longer
    kept: dict[str, str] = {}
    ended = 0
    while ended < len(orders):
        process, order = desk.start(), orders[ended]
        while not ended and process.poll() is None and not sandboxes():
            time.sleep(0.02)  # once in the midst of a run
        if order != signal.SIGKILL:
            wait_for_handler(process, signal.SIGTERM)
        most = 1 + 0.75 * (len(asked_for) - len(kept)) if ended else 0.5
        with suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.0, most * begun_s))
        if process.returncode == 0:  # all of it is done: begin again, with less
            kept = desk.finished()
            victim = draw.choice(sorted(kept))
            shutil.rmtree(desk.results / "small" / victim)
            del kept[victim]
            continue
        process.send_signal(order)
        _, words = process.communicate(timeout=30)
        ended += 1

        if order != signal.SIGKILL:
            # A shell sees 130 of both: Python ends by the signal if it came within an exec().
            interrupted = process.returncode in (130, -signal.SIGINT)
            assert interrupted if "interrupted" in words else process.returncode == 0, words
            assert "Traceback" not in words
        desk.check_nothing_left()
        now = desk.finished()
        assert kept.items() <= now.items()
        kept = now

    assert desk.run().returncode == 0
    assert kept.items() <= desk.finished().items()
    assert desk.outcomes() == dict.fromkeys(asked_for, "ok")
    desk.check_nothing_left()


def test_killed_sandboxes_fail_alone_and_are_run_again_when_asked(tmp_path: Path) -> None:
    desk, draw = Desk(tmp_path), random.Random(21)
    kills = 0
    kept: dict[str, str] = {}
    while kills < SANDBOX_KILLS:
        process = desk.start("--retry-failed")
        killed: set[int] = set()
        while process.poll() is None:
            time.sleep(draw.uniform(0.0, 0.35))
            fresh = [victim.pid for victim in sandboxes() if victim.pid not in killed]
            if fresh and kills < SANDBOX_KILLS:
                killed.add(victim := draw.choice(fresh))
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                    kills += 1
        _, words = process.communicate()

        assert "Traceback" not in words
        desk.check_nothing_left()
        outcomes = desk.outcomes()
        assert set(outcomes) == names_asked_for(desk)
        # A kernel that was killed as it powered off has said its outcome already.
        assert len(killed) - 2 <= list(outcomes.values()).count("failed") <= len(killed)
        now = {name: found for name, found in desk.finished().items() if outcomes[name] == "ok"}
        assert kept.items() <= now.items()
        kept = now
        if len(kept) == len(outcomes):
            shutil.rmtree(desk.results)
            kept = {}

    assert desk.run("--retry-failed").returncode == 0
    assert desk.outcomes() == dict.fromkeys(names_asked_for(desk), "ok")


def test_runs_whose_tunnel_is_killed_fail_alone_with_the_ends_name(
    lab: Lab, tmp_path: Path
) -> None:
    draw = random.Random(22)
    assert lab.handed["tunnel"]
    # Poses as GOST, which follows the script; with more than one stream, one end is killed at an
    # instant of the guest's own clock.
    ends = dict(zip(TUNNELS_KILLED, itertools.cycle(("client", "target")), strict=False))
    instants = "".join(
        f"{streams}{'-F' if end == 'client' else 'none'}) instant={draw.uniform(0.05, 1.2):.3f};;\n"
        for streams, end in ends.items()
    )
    script = f"""#!/bin/sh
case "$1" in -V) echo gost 3.99; exit;; esac
end=none; for word; do [ "$word" = -F ] && end=-F; done
streams=$(python3 -c 'import json; print(json.load(open("/run/gostlab/run.json"))["streams"])')
instant=
case $streams$end in
{instants}esac
gost=$(mktemp) && sed '1,/^# GOST$/d' "$0" >"$gost" && chmod +x "$gost"
[ -z "$instant" ] || exec timeout -s KILL "$instant" "$gost" "$@"
exec "$gost" "$@"
# GOST
"""
    program, real = tmp_path / "gost", Path(lab.handed["tunnel"]["path"]).read_bytes()
    program.write_bytes(script.encode() + real)
    program.chmod(0o755)
    streams = str([1, *TUNNELS_KILLED])
    through = MATRIX.replace("[1, 2, 3]", streams).replace(
        "{cc: [cubic, bbr]", "{tunnel: [gost+ws], cc: [cubic]"
    )
    desk = Desk(tmp_path, through)

    done = desk.run("--gost", str(program))

    assert done.returncode == 1
    for path in desk.statuses():
        run, status = (json.loads(each.read_text()) for each in (path.with_name("run.json"), path))
        end = ends.get(run["streams"])
        if end is None:
            assert status["outcome"] == "ok", status
        else:
            assert status["outcome"] == "failed"
            assert f"the tunnel's end on {end} died" in status["error"], status
    kept = {name: found for name, found in desk.finished().items() if desk.outcomes()[name] == "ok"}
    assert len(kept) == 1
    desk.check_nothing_left()

    program.write_bytes(script.replace(instants, "").encode() + real)
    again = desk.run("--gost", str(program), "--retry-failed", "--set", "streams=1,2")
    assert again.returncode == 0
    assert kept.items() <= desk.finished().items()


def test_of_two_schedulers_on_one_folder_the_second_is_refused_with_the_firsts_name(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, ROW.replace("COUNT", "1"))
    first = desk.start()
    while not sandboxes():
        time.sleep(0.02)

    first.send_signal(signal.SIGSTOP)  # it must not be done before the second has looked
    second = desk.run()
    first.send_signal(signal.SIGCONT)

    assert second.returncode == 1
    assert f"process {first.pid}" in second.stderr
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert desk.outcomes() == dict.fromkeys(names_asked_for(desk), "ok")
    assert desk.run().returncode == 0  # the lock went with its owner
    desk.check_nothing_left()


def cut(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size))


def spoil_files(folders: Sequence[Path], draw: random.Random, _elsewhere: Path) -> None:
    garbled, cut_short, no_description, a_folder, other_question = folders
    (garbled / "status.json").write_bytes(draw.randbytes(200))
    cut(cut_short / "status.json", draw)
    cut(no_description / "run.json", draw)
    (a_folder / "status.json").unlink()
    (a_folder / "status.json").mkdir()
    (other_question / "run.json").write_text("{}")


def spoil_places(folders: Sequence[Path], _draw: random.Random, elsewhere: Path) -> None:
    file, dangling, link, cut_short, nested = folders
    for none in (file, dangling, link):
        shutil.rmtree(none)
    file.write_text("hello")
    dangling.symlink_to(elsewhere / "nowhere")
    link.symlink_to(elsewhere)
    os.truncate(cut_short / "iperf3.json", 100)
    (nested / "run.json").write_text("[" * 100_000)


def cut_others(folders: Sequence[Path], draw: random.Random, _elsewhere: Path) -> None:
    """What is JSON as a whole is missed by nobody. (A series may end early: a killed run's do.)"""
    for name, folder in zip(("flows", "legs", "fidelity", "env", "iperf3"), folders, strict=True):
        cut(folder / f"{name}.json", draw)


def as_in(desk: Desk) -> Callable[..., SimpleNamespace]:
    """A machine whose runs write at once what those of a desk have written."""

    def boot_of(_kernel: object, run: RunSpec, *_: object, **_more: object) -> SimpleNamespace:
        def boot(place: Path, _cpu: int) -> Job:
            shutil.copytree(desk.results / "small" / run.name, place, dirs_exist_ok=True)
            (place / "status.json").unlink()
            return Job(place, GOOD, polls=0)

        return SimpleNamespace(write_parts=lambda *_: None, boot=boot, can_wait=False)

    return boot_of


@pytest.mark.parametrize("spoil", [spoil_files, spoil_places, cut_others])
def test_ruined_runs_are_corrupt_in_the_report_and_run_again(
    whole: Desk, tmp_path: Path, spoil: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is ruined in another way; the one that is left alone stays as it is, to the byte."""
    desk, elsewhere = copy_of(whole, tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dear").write_text("kept")
    *ruined, sound = desk.folders()
    spoil(ruined, random.Random(23), elsewhere)
    kept = folder_hash(sound)

    reported = desk.report()

    assert reported.returncode == 0, reported.stderr
    states = desk.reported_states()
    assert states[sound.name] == "ok"
    assert {states.get(folder.name, "corrupt") for folder in ruined} == {"corrupt"}, states
    assert "corrupt" in (desk.results / "report" / "report.html").read_text()

    monkeypatch.setattr(uml, "run_boot", as_in(whole))
    done = desk.run()

    assert done.returncode == 0, done.stderr
    assert "1 of 6 runs are finished already" in done.stderr and "5 runs to do" in done.stderr
    assert folder_hash(sound) == kept
    assert desk.outcomes() == dict.fromkeys(names_asked_for(desk), "ok")
    assert not any(folder.is_symlink() for folder in ruined)
    written = {path.name for path in sound.iterdir()}
    assert all({path.name for path in folder.iterdir()} == written for folder in ruined)
    assert [path.name for path in elsewhere.iterdir()] == ["dear"]
    desk.check_nothing_left()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of that size."""
    disk = folder / "disk"
    disk.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
    if subprocess.run(argv, check=False).returncode:
        pytest.skip("no mounts")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@NEEDS_ROOT
def test_a_disk_that_fills_during_a_run_leaves_it_unfinished(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path, "200k") as disk:
        monkeypatch.setattr(lab, "scratch", disk)
        path = direction(rate_bps=10_000_000)
        run = describe(path, path, streams=8, sample_ms=10.0, duration_s=20.0)
        done = lab.run(run, ends="")
        assert done.outcome["outcome"] != "ok"
        # Whoever started it cannot write how it ended either: an error in a sentence, and a run
        # that is still to be done.
        with pytest.raises(OSError, match="No space left"):
            results.finish_run_folder(done.folder, 1.0, None)
        assert results.read_status(done.folder) is None


@NEEDS_ROOT
def test_a_full_disk_before_a_run_is_one_line_and_keeps_results(tmp_path: Path) -> None:
    with small_disk(tmp_path, "2m") as disk:
        done = Desk(tmp_path, place=disk).run()
    assert done.returncode == 1
    assert "MB free" in done.stderr


def test_a_run_that_the_labs_own_exception_ended_says_so_and_is_not_finished(lab: Lab) -> None:
    run = describe(duration_s=1.0, tunnel="gost+ws")

    # a program handed over without its version: a mistake that only a bug of the lab makes
    done = lab.run(run, ends="failed", tunnel={"path": "/bin/true"})

    assert done.outcome["cause"] == results.OWN_ERROR
    assert "KeyError" in done.outcome["error"] and "Traceback" in done.log
    results.finish_run_folder(done.folder, 1.0, None)
    assert not results.is_finished(done.folder, run)


@NEEDS_ROOT
def test_results_that_may_not_be_written_are_one_sentence(whole: Desk, tmp_path: Path) -> None:
    desk = copy_of(whole, tmp_path)
    words = [*as_nobody(tmp_path), "/usr/bin/python3", "-B", "-m", "gostlab"]
    words += ["run", str(desk.file), "--machine", "sandbox"]
    before = desk.finished()
    environ = {**os.environ, "GOSTLAB_CACHE": str(cache_at(tmp_path / "cache"))}

    for place in (desk.results, tmp_path / "new"):  # root's, and one that would have to be made
        done = said_by(*words, "--results", str(place), timeout=60, env=environ)
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr
        assert "ermission denied" in done.stderr, done.stderr
    assert desk.finished() == before


def test_many_runs_in_a_row_leave_nothing_behind(tmp_path: Path) -> None:
    """With GOSTLAB_SOAK=1 a thousand, else eight."""
    count = 1000 if SOAK else 8
    desk = Desk(tmp_path, ROW.replace("COUNT", str(count)))
    dead_before = {each.pid for each in zombies_of_ours()}  # of what other tests have killed
    began, seen = time.monotonic(), []
    process = desk.start("--json", stderr=subprocess.DEVNULL)
    while process.poll() is None:
        with suppress(OSError, ValueError):  # it may end as we look
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            counted = {
                "descriptors": os.listdir(f"/proc/{process.pid}/fd"),
                "processes": offspring(),
                "namespaces": foreign_namespaces(),
                "memory_files": list(Path("/dev/shm").glob("vm_file*")),
            }
            resident = {"resident_mib": pages * os.sysconf("SC_PAGE_SIZE") // 2**20}
            seen.append({name: len(found) for name, found in counted.items()} | resident)
        time.sleep(0.04)

    assert process.returncode == 0
    assert list(desk.outcomes().values()) == ["ok"] * count
    desk.check_nothing_left()
    # While there was a run: on a busy machine few looks or none fall between two of them, and for
    # the table after them the scheduler reads its statistics, once.
    seen = [row for row in seen if row["processes"] > 1]
    quarter = len(seen) // 4
    quarters = seen[quarter : 2 * quarter], seen[-quarter:]
    found = {key: [min(row[key] for row in part) for part in quarters] for key in seen[0]}
    zombies = [each for each in zombies_of_ours() if each.pid not in dead_before]
    print(
        f"{count} runs, {time.monotonic() - began:.0f} s, {len(seen)} looks; the least of the second and"
        f" of the last quarter: {found}; zombies left: {len(zombies)}"
    )
    assert not zombies
    # A leak of one per run is half of all runs, which is how many lie between the two quarters. A
    # run has three namespaces, which it makes after it has begun, and up to 26 processes: of eight
    # runs a quarter may hold looks at the busiest moments alone.
    most_more = {
        "descriptors": 2,
        "processes": 20,
        "namespaces": 4,
        "memory_files": 2,
        "resident_mib": 4,
    }
    for key, more in most_more.items():
        assert found[key][1] <= found[key][0] + more, (key, found)


HOSTILE = """\
name: hostile
title: a program that leaves what it likes
settings: {profile: plain-100ms, rate: 10mbit, delay: 5ms, duration: 1s}
matrices:
  - name: main
    settings:
      flows:
        mine:
          kind: command
          server: |
            exec python3 -c 'import os, socket
            there, _ = socket.create_server(("", int(os.environ["PORT"]))).accept()
            while there.recv(65536): pass'
          client: |
            cd /run/gostlab; mkdir -p exit/x boot.json.d status.json/x a/b/c
            touch "$(printf '\\377x')"; truncate -s 50M sparse.bin; rm -f commands.sh run.json
            python3 -c 'import os, socket
            to = socket.create_connection((os.environ["HOST"], int(os.environ["PORT"])))
            for _ in range(10): to.sendall(bytes(65536))'
    factors: {cc: [cubic]}
  - name: other
    factors: {cc: [cubic]}
"""


def test_what_a_program_leaves_in_its_folder_is_its_own_runs_failure(tmp_path: Path) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_text(HOSTILE, encoding="utf-8")
    for _ in range(2):
        done = run_lab("run", file, "--machine", "sandbox", "--results", tmp_path / "results")
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert "1 good" in done.stdout and "1 failed" in done.stdout
        assert "a program of the run removed or replaced run.json, commands.sh" in done.stderr
    assert "2 of 2 runs are finished already" in done.stderr + done.stdout


FORGED = """\
name: forged
title: a program that ends its kernel, or locks its folder
settings: {profile: plain-100ms, rate: 10mbit, delay: 5ms, duration: 1s}
matrices:
  - name: main
    settings:
      flows: {mine: {kind: command, server: SERVER, client: exit 1}}
    factors: {cc: [cubic]}
  - name: other
    factors: {cc: [cubic]}
"""
POWER_OFF = "exec python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'"
# Root's run with the rights of an ordinary user to files.
OVERRIDES = "-dac_override,-dac_read_search"
AS_USER = ["setpriv", f"--bounding-set={OVERRIDES}", f"--inh-caps={OVERRIDES}"]


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (f"echo noexec >> /run/gostlab/log.txt; {POWER_OFF}", "other guests boot here"),
        ("chmod 0 /run/gostlab; exec sleep 30", "its folder could not be read"),
        (POWER_OFF.replace("0x4321fedc", "0x1234567"), "a program of the run rebooted its kernel"),
    ],
    ids=["a log of a kernel that cannot boot", "a folder that nobody may read", "a reboot"],
)
def test_what_a_program_does_to_its_kernel_or_folder_ends_no_other_run(
    tmp_path: Path, server: str, says: str
) -> None:
    file = tmp_path / "forged.yaml"
    file.write_text(FORGED.replace("SERVER", f'"{server}"'), encoding="utf-8")
    lab = [*(AS_USER if os.geteuid() == 0 else ()), sys.executable, "-m", "gostlab"]
    done = said_by(*lab, "run", file, "--machine", "sandbox", "--results", tmp_path / "results")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "1 good" in done.stdout and "1 failed" in done.stdout
    assert says in done.stderr
