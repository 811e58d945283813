# SPDX-License-Identifier: MIT
"""Families of bad input: each prepares files in the current folder and returns ./lab's words."""

import argparse
import gzip
import json
import os
import random
import shlex
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from gostlab.cli import main
from gostlab.registry.folders import CONTROLS, EXPERIMENTS, LABS, MACHINES, MEASUREMENTS, PROFILES
from gostlab.spec.settings import SETTINGS
from tests.analysis.synthetic import FIXTURE
from tests.classroom.handins import asked_of, make_hand_in, shortened
from tests.classroom.test_lms_downloads import FORMS, layouts
from tests.cli.test_settings_help import EXPERIMENT
from tests.fuzz.mutate import MAX_BYTES, a_word, as_word, spoil, spoil_file, spoil_json

RUN = FIXTURE / "made-up" / "ok-tunnel-bbr"
SMALL_BYTES = 20_000


def words(chance: random.Random) -> list[str]:
    """Words for any verb: its example's or options of its own, some of them bad."""
    path, parser = chance.choice(verbs())
    example = (parser.epilog or "").partition("./lab ")[2].split("(")[0].split("|")[0]
    Path("file.yaml").write_text(EXPERIMENT, encoding="utf-8")
    Path("file.txt").write_text("1\n2\n5\n", encoding="utf-8")
    Path("folder").mkdir()
    os.mkfifo("fifo")
    # What the examples name: a course's secret and its students.
    Path("F").write_text("0123456789abcdef" * 2, encoding="utf-8")
    Path("T").write_bytes(chance.choice((b"alice\n", b"\xff\n", b"a\0b\r\n")))
    if example and chance.random() < 0.4:
        made = shlex.split(example)
    else:
        made = [*path, *from_options(parser, chance)]
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        at = chance.randrange(len(path), len(made) + 1)
        match chance.choice((0, 1, 1, 1, 1, 2, 3, 4, 4)):
            case 0:
                made[at:at] = [a_word(chance)]
            case 1:
                made[at : at + 1] = [a_word(chance)]
            case 2:
                made[at : at + 1] = []
            case 3:
                made[at:at] = made[at : at + 1]
            case 4 if at < len(made):
                made[at] = as_word(spoil(made[at], chance))
    return made


def from_options(parser: argparse.ArgumentParser, chance: random.Random) -> Iterator[str]:
    """Yield what a verb takes, with values that may suit it."""
    options = [each for each in parser._actions if each.option_strings and each.dest != "help"]
    chosen = chance.sample(options, min(len(options), chance.choice((0, 1, 1, 2, 2, 3, 6))))
    required = [each for each in options if each.required and each not in chosen]
    positional = [each for each in parser._actions if not each.option_strings]
    for action in [*positional, *required, *chosen]:
        if action.option_strings:
            yield chance.choice(action.option_strings)
        if action.nargs == 0 or (action.nargs in ("?", "*") and chance.random() < 0.3):
            continue
        for _ in range(chance.choice((1, 1, 1, 2)) if action.nargs in ("*", "+") else 1):
            yield value_for(action, chance)


def value_for(action: argparse.Action, chance: random.Random) -> str:
    """Return a value that an option or a word may take."""
    if action.choices and chance.random() < 0.8:
        return str(chance.choice(list(action.choices)))
    if action.default not in (None, argparse.SUPPRESS, []) and chance.random() < 0.3:
        return str(action.default)
    return a_word(chance)


@cache
def verbs() -> list[tuple[list[str], argparse.ArgumentParser]]:
    """Return every verb and action with its parser."""
    found = []
    left: list[tuple[list[str], argparse.ArgumentParser]] = [([], main.build_parser())]
    while left:
        path, parser = left.pop()
        below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        left += [([*path, name], each) for one in below for name, each in one.choices.items()]
        if path and not below and path != ["catalogue"]:  # it reads every experiment for 20 s
            found.append((path, parser))
    return sorted(found, key=lambda each: each[0])


@cache
def small(folder: Path, pattern: str) -> list[str]:
    """Return the texts of a folder's small files."""
    files = sorted(path for path in folder.glob(pattern) if path.stat().st_size < SMALL_BYTES)
    return [path.read_text(encoding="utf-8") for path in files]


def written(text: str, name: str, chance: random.Random) -> str:
    """Write a text, spoilt, or now and then something that is no text."""
    Path(name).write_text(spoil(text, chance), "utf-8", "surrogatepass")
    if chance.random() < 0.05:
        spoil_file(Path(name), chance)
    return name


def written_whole(text: str) -> str:
    """Write an experiment that has nothing wrong."""
    Path("e.yaml").write_text(text, encoding="utf-8")
    return "e.yaml"


def yaml(chance: random.Random) -> list[str]:
    """A spoilt experiment, profile, measurement, machine or classroom lab."""
    experiment = chance.choice([EXPERIMENT, *small(EXPERIMENTS, "*.yaml")])
    profile = chance.choice(small(PROFILES, "*.yaml"))
    makers: Sequence[Callable[[], list[str]]] = (
        lambda: ["run", written(experiment, "e.yaml", chance), "--dry-run", "--machine", "sandbox"],
        lambda: ["run", written(experiment, "e.yaml", chance), "--quick", "--dry-run", "--json"],
        lambda: [
            *("run", written_whole(experiment), "--dry-run", "--set"),
            f"{chance.choice([*SETTINGS, 'nothing'])}={a_word(chance)}",
        ],
        lambda: ["profile", "show", written(profile, "p.yaml", chance)],
        lambda: ["profile", "check", written(profile, "p.yaml", chance)],
        lambda: ["try", "--profile", written(profile, "p.yaml", chance), "--cc", "cubic"],
        lambda: ["fit", "la-hamina", "--dry-run", "--from", measured(chance)],
        lambda: [
            *("try", "--cc", "cubic", "--cpu_model"),
            written(chance.choice(small(MACHINES, "*.yaml")), "machine.yaml", chance),
        ],
        lambda: ["report", written(experiment, "e.yaml", chance)],
        lambda: ["lab", "start", classroom_lab(chance), "--student", "alice"],
        lambda: ["cc", "check", written(chance.choice(small(CONTROLS, "*.c")), "mine.c", chance)],
    )
    return chance.choice(makers)()


def measured(chance: random.Random) -> str:
    """Write spoilt measurements."""
    return written(chance.choice(small(MEASUREMENTS, "*.yaml")), "measured.yaml", chance)


def classroom_lab(chance: random.Random) -> str:
    """Copy one of the labs, a file of it spoilt."""
    shutil.copytree(chance.choice(sorted(LABS.glob("[0-9]-*"))), "lab")
    file = chance.choice(
        [path for path in Path("lab").iterdir() if path.suffix in (".yaml", ".md")]
    )
    text = file.read_text(encoding="utf-8")
    written(text, str(file), chance)
    return "lab"


def recording(chance: random.Random) -> list[str]:
    """A spoilt recording of a path, or two."""
    files = []
    for number in range(chance.choice((1, 1, 1, 1, 2))):
        name, text = chance.choice(list(recordings().items()))
        path = Path(f"{number}-{name}")
        path.write_text(text, encoding="utf-8")
        if text.startswith("{") and chance.random() < 0.6:
            spoil_json(path, chance)
        else:
            path.write_text(spoil(text, chance), "utf-8", "surrogatepass")
        match chance.randrange(12):
            case 0:
                spoil_file(path, chance)
            case 1:
                path.write_bytes(gzip.compress(path.read_bytes())[: chance.choice((9, 40, 10**6))])
        files.append(str(path))
    usual = {
        "--rate": "50mbit",
        "--rtt": "40ms",
        "--format": chance.choice(formats()),
        "--for": chance.choice(("1s", "20ms", "99h")),
        "--bin": chance.choice(("1ms", "100ms")),
        "--way": "reverse",
    }
    chosen = chance.sample(list(usual), chance.choice((0, 1, 2, 3)))
    options = [word for name in chosen for word in (name, usual[name])]
    for at in range(1, len(options), 2):
        if chance.random() < 0.2:
            options[at] = a_word(chance)
    return ["profile", "import", *files, *options, "--out", ".", "--name", "mine"]


@cache
def formats() -> list[str]:
    """Return the names of the formats that recordings have."""
    [parser] = [each for path, each in verbs() if path == ["profile", "import"]]
    return next(list(each.choices) for each in parser._actions if each.dest == "format")  # type: ignore[arg-type]


@cache
def recordings() -> Mapping[str, str]:
    """Return a small recording of each format, as its program writes it."""
    chance = random.Random(1)
    stamps = "".join(f"{ms}\n" for ms in range(1, 400) for _ in range(chance.choice((0, 1, 3))))
    rows = "".join(f"{1.7e9 + n / 100:.2f},{40 + n % 7},{25 + n % 3},{15}\n" for n in range(80))
    streams = [
        {
            "streams": [{"socket": 5, "start": n, "end": n + 1, "rtt": 41_000, "bytes": 10**6}],
            "sum": {"start": n, "end": n + 1, "seconds": 1, "bytes": 10**6, "bits_per_second": 8e6}
            | {"omitted": n < 1, "sender": True},
        }
        for n in range(6)
    ]
    ends = {"seconds": 6, "bytes": 6 * 10**6, "bits_per_second": 8e6, "lost_percent": 0}
    started = {"protocol": "TCP", "num_streams": 1, "reverse": 0, "omit": 1, "duration": 6}
    iperf3 = {
        "start": {"version": "iperf 3.12", "test_start": started, "timestamp": {"timesecs": 1}},
        "intervals": streams,
        "end": {"sum_sent": ends, "sum_received": ends, "sum": ends, "streams": []},
    }
    trips = [
        {"seqno": n, "lost": "true_up" if n % 9 == 3 else "false"}
        | {"delay": {"rtt": 41_000_000, "send": 20_000_000, "receive": 21_000_000}}
        | {"timestamps": {"client": {"send": {"wall": n * 10_000_000}}}}
        for n in range(60)
    ]
    irtt = {"config": {"params": {"interval": 10_000_000}}, "stats": {}, "round_trips": trips}
    flent = {
        "x_values": [0.2 * n for n in range(20)],
        "results": {
            "Ping (ms) ICMP": [30.0 + n for n in range(20)],
            "TCP upload": [None, *[19.0] * 19],
            "TCP download sum": [21.0] * 20,
            "TCP totals": [40.0] * 20,
        },
        "metadata": {"NAME": "rrul", "DATA_FILENAME": "x", "STEP_SIZE": 0.2},
    }
    ping = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n" + "".join(
        f"[1700000000.{n:02}0000] 64 bytes from 192.0.2.1: icmp_seq={n} ttl=53 time=40.{n % 10} ms\n"
        for n in range(1, 60)
        if n % 8
    )
    shaped = (
        "qdisc tbf 1: root refcnt 2 rate 20Mbit burst 15Kb lat 50ms\n"
        "qdisc netem 10: parent 1:1 limit 1000 delay 25ms 5ms loss 0.5%\n"
    )
    leo = {"leo.capacity": stamps, "leo.delay": "".join(f"{20 + n / 8}\n" for n in range(40))}
    as_json = {"iperf3.json": iperf3, "irtt.json": irtt, "rrul.flent": flent}
    return {
        "lte.up": stamps,
        "lens.csv": f"timestamp,rtt,uplink,downlink\n{rows}",
        "stream.jsonl": "".join(
            json.dumps({"event": name, "data": data}) + "\n"
            for name, data in [("start", iperf3["start"]), *(("interval", one) for one in streams)]
        ),
        "ping.txt": ping,
        "tc.txt": shaped,
        "speedtest.json": json.dumps({"download": 93.5e6, "upload": 18.2e6, "ping": 23.4}),
        "gost.yaml": "services:\n- name: a\n  addr: :8080\n  handler: {type: relay}\n",
        **leo,
        **{name: json.dumps(value) for name, value in as_json.items()},
    }


def results(chance: random.Random) -> list[str]:
    """Results with one run's files spoilt, for each verb that reads them."""
    folder = Path("results/made-up")
    shutil.copytree(FIXTURE / "made-up", folder)
    run = folder / RUN.name
    for _ in range(chance.choice((1, 1, 2))):
        file = chance.choice(sorted(path for path in run.iterdir() if path.is_file()))
        if file.suffix in (".json", ".jsonl") and chance.random() < 0.75:
            spoil_json(file, chance)
        elif file.is_file():
            spoil_file(file, chance)
    # What notes each file's length would refuse them all.
    status = run / "status.json"
    if status.is_file() and not status.is_symlink() and chance.random() < 0.8:
        forget_lengths(status)
    readers: Sequence[list[str]] = (
        ["compare", str(FIXTURE / "made-up"), str(folder)],
        ["compare", str(folder), str(folder), "--json"],
        ["compare", str(folder), str(FIXTURE / "made-up")],
        ["report", str(run), "--out", "page"],
        ["replay", str(run)],
        ["exec", str(run / "run.json"), "again"],
        ["exec", str(run / "run.json"), str(run)],
    )
    return chance.choice(readers)


def forget_lengths(status: Path) -> None:
    """Remove from a status.json what it says of the other files."""
    if status.stat().st_size > MAX_BYTES:
        return
    try:
        known = json.loads(status.read_text(encoding="utf-8"))
        known.pop("files", None)
        known.pop("sha256", None)
        status.write_text(json.dumps(known), encoding="utf-8", errors="surrogatepass")
    except (ValueError, AttributeError, TypeError, OSError, RecursionError):
        return


def report(chance: random.Random) -> list[str]:
    """Spoilt results for the whole report, which takes a second."""
    made = results(chance)
    del made
    return ["report", "made-up", "--out", "page"]


@cache
def good_hand_in(folder: Path) -> Path:
    """Make a classroom lab and a hand-in that has nothing wrong."""
    lab = shortened(folder / "lab")
    return make_hand_in(folder / "alice", asked_of(lab))


def hand_in(chance: random.Random) -> list[str]:
    """A spoilt hand-in for the grader."""
    made = good_hand_in(Path("..").resolve() / "hand-in")
    shutil.copytree(made, "alice")
    for _ in range(chance.choice((1, 1, 2))):
        file = chance.choice(sorted(path for path in Path("alice").rglob("*") if path.is_file()))
        if file.suffix in (".json", ".jsonl") and chance.random() < 0.75:
            spoil_json(file, chance)
        elif file.suffix == ".yaml" and file.stat().st_size < MAX_BYTES and chance.random() < 0.75:
            written(file.read_text("utf-8"), str(file), chance)
        else:
            spoil_file(file, chance)
        if file.name == "status.json" or not file.is_file():
            continue
        status = file.parent / "status.json"
        if status.is_file() and not status.is_symlink():
            forget_lengths(status)
    lab = str(made.parent / "lab")
    forms = ("text", "json", "junit", "gradescope", "classroom50")
    return ["grade", lab, "alice", "--format", chance.choice(forms)]


ROSTER = "student,name,email,sid\nalice,Alice Smith,alice@x.org,11\nbob,Bob Ott,bob@x.org,12\n"


def classroom(chance: random.Random) -> list[str]:
    """A platform's download of a whole class, packed or not, for the grader."""
    made, download = class_download(chance)
    return ["grade", str(made.parent / "lab"), str(download), *OF_A_CLASS]


def ranking(chance: random.Random) -> list[str]:
    """A download, or a C file, for the ranking, whose runs are not started."""
    _, download = class_download(chance)
    source = written(small(CONTROLS, "template.c")[0], "mine.c", chance)
    return ["lab", "rank", "9", chance.choice((source, str(download))), *OF_A_CLASS]


OF_A_CLASS = ("--roster", "roster.csv", "--out", "out", "--jobs", "1")


def class_download(chance: random.Random) -> tuple[Path, Path]:
    """Return a good hand-in and a download that holds it, now and then spoilt."""
    made = good_hand_in(Path("..").resolve() / "hand-in")
    one = Path("one.zip")
    shutil.make_archive("one", "zip", made.parent, made.name)
    if chance.random() < 0.5:
        spoil_entries(one, chance)
    files, _ = chance.choice(list(layouts(one.read_bytes()).values()))
    written(ROSTER, "roster.csv", chance)
    form = chance.choice(list(FORMS))
    download = FORMS[form](files, Path())
    if chance.random() < 0.5:
        inside = [path for path in [download, *download.rglob("*")] if path.is_file()]
        file = chance.choice(inside)
        packed = zipfile.is_zipfile(file) and chance.random() < 0.6
        (spoil_entries if packed else spoil_file)(file, chance)
    return made, download


def spoil_entries(path: Path, chance: random.Random) -> None:
    """Mutate the names, contents and modes of an archive's entries."""
    with zipfile.ZipFile(path) as packed:
        entries = {name: packed.read(name) for name in packed.namelist()}
    names = list(entries)
    for _ in range(chance.randint(1, 3)):
        name = chance.choice(names)
        content = entries.pop(name, b"")
        bad = ("", "/", "..", f"../{name}", f"/{name}", f"{name}/", "a\\b", "x" * 300, "é\udcff")
        entries[chance.choice((*bad, *names, a_word(chance)))] = chance.choice((content, b"", b"x"))
    with zipfile.ZipFile(
        path, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_LZMA))
    ) as packed:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name.encode("utf-8", "replace").decode() or "x")
            entry.filename = entry.filename if name else ""
            entry.external_attr = chance.choice((0o644, 0o120777, 0o10644, 0)) << 16
            packed.writestr(entry, content)


FAMILIES = {
    each.__name__: each
    for each in (words, yaml, recording, results, report, hand_in, classroom, ranking)
}
WITH_PROCESSES = ("classroom",)
