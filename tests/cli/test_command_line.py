# SPDX-License-Identifier: MIT
"""Bad input: one line on standard error that says what and where, exit code 2, no traceback."""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from shlex import quote

import pytest

from gostlab.cli import main
from gostlab.cli.common import Verb
from gostlab.registry.folders import cache_folder
from gostlab.sandbox import host_has_netem
from tests.analysis.synthetic import FIXTURE
from tests.lab_command import ROOT, Refused, Typed, run_lab, said_by


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has built no kernel yet: none is built for what is refused."""
    monkeypatch.setattr("gostlab.install.locate.built_version", lambda *_: None)

    def never(wanted: object, **_: object) -> None:
        raise AssertionError(f"{wanted} was brought")

    monkeypatch.setattr("gostlab.api.provide_parts", never)


EXPERIMENT = """name: mine
title: mine
settings: {profile: plain-100ms, duration: 5s}
matrices:
  - name: main
    factors: {cc: [cubic]}
"""


BAD_WORDS = [
    ("run no-such", "no-such"),
    ("run thesis-tunnel --set streems=1", "streams"),
    ("run thesis-tunnel --set streams", "factor=value"),
    ("run thesis-tunnel --matrix nope", "nope"),
    ("run thesis-tunnel --jobs 0", "at least 1"),
    ("run li2018 ccs li2018", "two of the experiments are called so"),
    ("run thesis-tunnel --set rate=10,5mbit", "10.5mbit"),
    ("try --cc ,,", "comma"),
    ("try --rate -1mbit", "negative"),
    ("window 100mbit -1ms", "negative"),
    (f"try --results {quote(__file__)}", "is a file"),
    ("run thesis-tunnel --gost /nowhere/gost", "gost"),
    ("report nothing-there --results /nowhere", "nothing-there"),
    ("profile show nowhere", "nowhere"),
    ("profile record nosuch.invalid", "nosuch.invalid"),
    ("profile record 127.0.0.2", "127.0.0.2"),
    ("profile record ::1", "this machine itself"),
    ("profile record localhost", "this machine itself"),
    ("profile record -- -f", 'host "-f": not a host\'s name or address'),
    ("profile record 'a b'", 'host "a b": not a host\'s name or address'),
    ("profile record ::", '--name "": not a profile\'s name'),
    ("profile record 192.0.2.1 --name ../x", '--name "../x": not a profile\'s name'),
    ("profile record 192.0.2.1 --count 99", "--count 99: not within 100 to 65535"),
    ("profile record 192.0.2.1 --interval 20", "no unit (write 20ms, or us, s)"),
    ("profile record 192.0.2.1 --interval 1us", '"1us": not within 1ms to 10000ms'),
    ("profile record 192.0.2.1 --rate fast", '--rate "fast": not a number with a unit'),
    ("profile record 192.0.2.1 --out /proc", "--out /proc: "),
    ("bench --repeat 0", "at least 1"),
    ("catalogue --cores 0", "at least 1"),
    ("catalogue --cores x", "'x'"),
    ("profile record 192.0.2.1 --out /nowhere/at/all", "/nowhere/at/all"),
    ("profile record 192.0.2.1 --name la-hamina", "la-hamina"),
    ("run thesis-baseline --set sites=[client-tokyo]", "star's sites"),
    ("fit la-hamina --from tunel-rates --out . --dry-run", "did you mean tunnel-rates?"),
    ("fit no-such --from tunnel-rates --out . --dry-run", "profile"),
    ("fit la-hamina --from tunnel-rates --points 0 --out . --dry-run", "--points 0"),
    ("fit la-hamina --from tunnel-rates --free x --out . --dry-run", "--free"),
    ("fit la-hamina --from tunnel-rates --set profile=x --out . --dry-run", "--set profile"),
    (
        "fit la-hamina --from speed-tests --out . --dry-run",
        "no number in it is of profile la-hamina",
    ),
    ("fit la-hamina --from thesis-tunnel --matrix none --out . --dry-run", "--matrix none"),
    ("fit la-hamina --from thesis-tunnel --out . --dry-run", "nothing is free"),
    ("fit la-hamina --from thesis-tunnel --out . --dry-run", "--free forward.loss="),
    ("worst --cc cubic --over nothing", "no such setting"),
    ("worst --cc cubic --over rate,rate", "rate twice"),
    ("worst --cc cubic --over queue=fifo|codel,aqm=fifo|codel", "queue twice"),
    ("worst --cc cubic --over mtu", "from where to where"),
    ("worst --cc cubic --over rate=9mbit..1mbit", "not more than from"),
    ("worst --cc cubic --over rate=1mbit..2s", "another unit"),
    ("worst --cc cubic --over queue=fifo|nonesuch", "nonesuch"),
    ("worst --cc nonesuch", "no congestion control nonesuch"),
    ("worst --cc cubic --against nonesuch", "no congestion control nonesuch"),
    ("worst --cc cubic --budget 3", "not within 10 to"),
    ("worst --cc cubic --measure share", "beside whom"),
    ("worst --cc cubic --set rate", "not of the form"),
    ("worst --cc cubic --set rate=1mbit", "said by another option"),
    ("worst --cc cubic --seed -1", "--seed"),
    ("worst --cc cubic --name Ä", "not a profile's name"),
    ("worst --cc cubic --out /nonesuch", "no such folder"),
    ("conform --packetdrill /nowhere/packetdrill", "/nowhere/packetdrill"),
    ("conform --packetdrill /etc/passwd", "no program"),
    ("conform --packetdrill /bin/true --kernel 5.99", "5.99"),
    ("conform --packetdrill /bin/true --jobs 0", "at least 1"),
    ("completion csh", "'csh': not known"),
    ("lab start 3", "--student is missing (your identifier"),
    ("lab key 3 --student alice", "--secret is missing (file with the course's secret"),
    ("cc check", "file is missing (the C file"),
]


@pytest.mark.parametrize(("words", "says"), BAD_WORDS)
def test_bad_words_are_one_line_and_exit_code_2(
    refused: Refused, here: Path, words: str, says: str
) -> None:
    assert says in refused(*shlex.split(words))
    assert list(here.iterdir()) == []


OF_FILES = (
    *("exec FIFO out", "cc check FIFO", "lab ticket 3 --secret FIFO --students x"),
    *("grade 0 FIFO", "lab rank 9 FIFO", "run FIFO", "profile import FIFO", "try --trace FIFO"),
)


@pytest.mark.parametrize("words", OF_FILES)
def test_a_fifo_or_a_device_in_the_place_of_a_file_is_refused(
    refused: Refused, here: Path, words: str
) -> None:
    os.mkfifo(here / "fifo")
    for named in ("fifo", "/dev/zero"):
        assert named in refused(*words.replace("FIFO", named).split())


def test_a_complaint_is_short_whatever_a_file_holds(refused: Refused, here: Path) -> None:
    with (here / "huge.c").open("wb") as file:
        file.truncate(1 << 40)
    assert "huge.c: cannot be read: larger" in refused("cc", "check", "huge.c")
    (run,) = (FIXTURE / "made-up/ok-tunnel-bbr").glob("run.json")
    of_words = {**json.loads(run.read_text("utf-8")), "sample_ms": "x" * 100_000}
    (here / "run.json").write_text(json.dumps(of_words))
    said = refused("exec", "run.json", "out")
    assert len(said) < 9000 and said.endswith("str where float should be\n")


def test_a_wrong_file_is_named_with_its_line(refused: Refused, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(EXPERIMENT.replace("duration: 5s", "duration: 5"))
    assert "mine.yaml:3: settings.duration" in refused("run", file, "--dry-run")


@pytest.mark.slow
def test_a_kernel_that_is_missing_and_cannot_be_built_is_said_in_one_line(tmp_path: Path) -> None:
    words = ["run", "thesis-tunnel", "--quick", "--machine", "sandbox", "--results", tmp_path]
    (tmp_path / "apt-get").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "apt-get").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    cache = tmp_path / "cache"
    cache.mkdir()
    for part in cache_folder().iterdir():
        if part.name in ("iperf3", "relay", "gost"):
            (cache / part.name).symlink_to(part)
    no_apt = {**os.environ, "GOSTLAB_CACHE": str(cache), "PATH": path}
    done = run_lab(*words, env=no_apt)
    assert done.returncode == 2
    began, *_, refused = done.stderr.splitlines()
    assert "kernel 5.10" in began and "minutes" in began
    assert "kernel 5.10: " in refused and "mirror" in refused


def test_native_says_why_it_cannot(typed: Typed) -> None:
    done = typed("run", "thesis-tunnel", "--quick", "--machine", "native", "--dry-run")

    if os.geteuid() == 0 and host_has_netem():
        assert done.returncode == 0 and "main-" in done.stdout
    else:
        missing = "root" if os.geteuid() else "netem"
        assert done.returncode == 2 and f"needs {missing}" in done.stderr.replace("sch_", "")


@pytest.mark.parametrize("verb", main.VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_help_with_an_example(verb: Verb, typed: Typed) -> None:
    done = typed(verb.name, "--help")
    assert done.returncode == 0
    assert "example" in done.stdout or verb.name in ("labs", "lab")


def test_a_trap_that_is_an_error_names_its_cell_before_anything_runs(
    refused: Refused, tmp_path: Path
) -> None:
    words = ["run", "thesis-tunnel", "--matrix", "real-clock", "--set", "loss=0.1%"]
    told = refused(*words, "--results", tmp_path / "results")
    assert "real-clock-" in told and "43 segments" in told and "3 more such cells" in told
    assert not (tmp_path / "results").exists()


def test_warnings_are_said_once_per_kind_and_matrix(typed: Typed) -> None:
    done = typed("run", "thesis-tunnel", "--matrix", "main", "--matrix", "memory", "--dry-run")

    told = [line.split(": ")[1] for line in done.stderr.splitlines()]
    assert told == ["main, 60 of 80 runs", "memory, 12 of 16 runs"]
    assert all(word.startswith(("main-", "memory-")) for word in done.stdout.split())


@pytest.mark.slow
def test_topo_py_runs_under_whatever_python_from_anywhere() -> None:
    """It hands its words to ./lab beside it, and its top level imports nothing of the lab's."""
    topo = ROOT / "topo.py"
    done = said_by("python3", topo, "--dry-run", "--matrix", "main", cwd="/")
    assert done.returncode == 0, done.stderr
    assert "main-cubic-gost+ws-streams1" in done.stdout
    imported = re.findall(r"^(?:import|from) (\w+)", topo.read_text(), re.MULTILINE)
    assert "gostlab" not in imported


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["try", "--tunel", "direct"], ["--tunel", "--tunnel"]),
        (["run", "li2018", "--quik"], ["--quik", "--quick"]),
        (["try", "--cc", "cubic", "--cc", "bbr"], ["--cc", "twice", "--cc A,B"]),
        (["run", "li2018", "--seed", "1", "--seed", "2"], ["--seed", "twice"]),
        (["repor", "x"], ["repor", "report"]),
        (["gost", "ad", "x"], ["ad", "add"]),
        (["shell", "li2018"], ["li2018", "too many"]),
        (["run", "li2018", "--clock", "fast"], ["--clock", "fast", "virtual, real"]),
    ],
)
def test_words_that_are_not_understood_are_one_line_with_what_was_meant(
    refused: Refused, words: list[str], parts: list[str]
) -> None:
    line = refused(*words)
    assert [part for part in (*parts, "--help") if part not in line] == []


@pytest.mark.parametrize(
    ("matrix", "parts"),
    [
        ("settings: {queue: fq_codel}", ["main", "bottleneck: tbf"]),
        ("settings: {changes: [{at: 7s, rate: 50mbit}]}", ["warning", "7 s", "5 s"]),
        (
            "settings: {topology: dumbbell, flows: {a: {}, b: {start: 6s}}}",
            ["warning", "b starts at 6 s", "do not meet"],
        ),
    ],
)
def test_what_was_chosen_and_what_never_happens_is_said_before_a_run(
    matrix: str, parts: list[str], tmp_path: Path, typed: Typed
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\ntitle: mine\nsettings: {rate: 10mbit, rtt: 40ms, duration: 5s}\n"
        f"matrices:\n  - name: main\n    {matrix}\n"
    )
    done = typed("run", file, "--dry-run")
    assert done.returncode == 0
    assert [part for part in parts if part not in done.stderr] == []


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_in_the_midst_of_a_finalizer_ends_all_the_same(number: str) -> None:
    done = said_by(
        *(sys.executable, "-c"),
        "import os, signal, time\n"
        "from gostlab.cli import main as cli\n"
        "class Finalized:\n"
        "    def __del__(self):\n"
        f"        os.kill(os.getpid(), signal.{number})\n"
        "        time.sleep(0.01)\n"
        "cli.raise_on_signals()\n"
        "Finalized()\n"
        "time.sleep(60)",
    )
    assert "KeyboardInterrupt" in done.stderr and "Finalized" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["try", "--jobs", "x" * 100_000], "invalid int value"),
        (["try", "--queue=--"], "--queue=--: -- is no value"),
        (["report", "x", "--results", "a\nb"], "no name of a folder"),
    ],
)
def test_a_bad_word_of_any_length_is_one_short_line(
    words: list[str], said: str, typed: Typed
) -> None:
    done = typed(*words)
    assert done.returncode == 2 and said in done.stderr
    assert done.stderr.count("\n") == 1 and len(done.stderr) < 1500


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "</dev/null >&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(closed: str) -> None:
    words = shlex.join([sys.executable, "-m", "gostlab", "window", "100mbit", "80ms"])
    assert said_by("sh", "-c", f"{words} {closed}").returncode == 0
    bad = shlex.join([sys.executable, "-m", "gostlab", "window", "100mbit", "x"])
    assert said_by("sh", "-c", f"{bad} {closed}").returncode == 2


def test_a_stream_that_cannot_encode_a_character_has_its_escape() -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run_lab("run", "µ.yaml", env=environ)
    assert done.returncode == 2 and "\\xb5" in done.stderr
    assert run_lab("window", "100mbit", "80ms", env=environ).returncode == 0


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_that_comes_while_python_starts_ends_the_command_in_one_line(number: str) -> None:
    """`./lab` blocks it until there is a handler: it is neither lost nor a traceback."""
    block = ["env", f"--block-signal={number.removeprefix('SIG')}"]
    if said_by(*block, "true").returncode:
        pytest.skip("env of coreutils before 8.31 cannot block a signal")
    pending = f'kill -{number.removeprefix("SIG")} $$; exec "$@"'  # at the worst moment of all
    words = [sys.executable, "-m", "gostlab", "try", "--for", "3600s"]
    done = said_by(*block, "sh", "-c", pending, "sh", *words, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "gostlab: interrupted before anything began\n"
    assert "block-signal" in (ROOT / "lab").read_text("utf-8")


def test_doctor_and_set_up_heed_a_signal_that_came_while_python_started() -> None:
    block = ["env", "--block-signal=INT"]
    if said_by(*block, "true").returncode:
        pytest.skip("env of coreutils before 8.31 cannot block a signal")
    for module in ("gostlab.cli.doctor", "gostlab.install"):
        words = ["sh", "-c", 'kill -INT $$; exec "$@"', "sh", sys.executable, "-m", module]
        done = said_by(*block, *words, timeout=60)
        assert done.returncode == 130
        assert "Traceback" not in done.stderr
