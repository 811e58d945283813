# SPDX-License-Identifier: MIT
"""commands.sh repeats its run: by `./lab replay`, for every topology and tunnel."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gostlab import results
from gostlab.reproduce import replay
from gostlab.results import ResultsError
from gostlab.spec.yaml_source import BadInput
from tests.sandboxed import Done, Lab

pytestmark = pytest.mark.sandbox

SHORT = "profile: plain-100ms, rate: 20mbit, rtt: 20ms, duration: 2s"
LONGER = SHORT.replace("duration: 2s", "duration: 3s")
RUNS = {
    # its certificate begins with the run
    "tunnel, stunnel, a delay table": (
        "{profile: client-tokyo, rate: 20mbit, duration: 2s, tunnel: stunnel}"
    ),
    "tunnel, gost+wss, gateway": f"{{{SHORT}, tunnel: gost+wss, placement: gateway}}",
    "tunnel, direct, command, http": (
        f"{{{SHORT}, flows: {{mine: {{kind: command, server: 'exec iperf3 -s -1 -p $PORT',"
        " client: 'iperf3 -c $HOST -p $PORT -n 4M'},"
        " page: {kind: http, direction: download, size: 2MB}}}"
    ),
    "over before a sample": (
        f"{{{SHORT}, flows: {{page: {{kind: http, direction: download, size: 100kB}}}}}}"
    ),
    "dumbbell, changes, udp": (
        # Behind a full queue a flow would begin later than in the run, which connects before.
        f"{{{LONGER}, topology: dumbbell, buffer: 200pkts, flows: {{a: {{}}, b: {{cc: bbr}},"
        " noise: {kind: udp, rate: 2mbit, start: 500ms, duration: 1s}},"
        " changes: [{at: 2s, rate: 10mbit}, {at: 2500ms, delay: 20ms, direction: both}]}"
    ),
    "router, every n-th packet, download, two streams": (
        "{topology: router, profile: course-none, rate: 20mbit, rtt: 20ms, duration: 2s,"
        " loss: {model: periodic, packets: 500}, direction: download, streams: 2}"
    ),
    "star, losses, bbr": (
        f"{{{SHORT}, topology: star, sites: [client-tokyo, plain-100ms], loss: 1%, cc: bbr}}"
    ),
}


def finished(done: Done) -> Path:
    """The folder as a scheduler leaves it."""
    results.finish_run_folder(done.folder, 1.0, None)
    assert done.json("status.json")["outcome"] == "ok", done.log
    return done.folder


@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_a_replay_is_the_run_again(lab: Lab, settings: str) -> None:
    done = lab.run(settings)

    again = replay(finished(done))

    assert again.same, "\n".join(again.lines)
    assert not again.notes
    figures = {each.figure for each in again.compared}
    devices = done.json("env.json")["qdiscs_before"]
    assert {f"{device}: path as installed" for device in devices} <= figures
    for each in done.json("flows.json")["flows"]:
        assert f"{each['name']}: {'time' if each.get('counted_by') else 'goodput'}" in figures


@pytest.fixture
def on_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay of `plain` has the host's files, too."""
    monkeypatch.setattr("gostlab.reproduce.root_for_run", lambda *_: None)


@pytest.fixture(scope="module")
def plain(lab: Lab) -> Path:
    """A finished run: 20 Mbit/s, 20 ms, 1 % loss, CUBIC, 2 s; with the host's files."""
    return finished(lab.run(f"{{{SHORT}, loss: 1%}}", nginx=lab.handed["nginx"]))


def spoilt(plain: Path, tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """The same with something else in its commands.sh."""
    folder = tmp_path / plain.name
    shutil.copytree(plain, folder)
    script = folder / "commands.sh"
    text = script.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    script.write_text(text)
    return folder


# What a script may do otherwise, and the figure that tells of it. Those of one row tell of
# themselves alone.
OTHERWISE = [
    {
        "path as installed": ("random 1.00000000%", "random 10.00000000%"),
        "flow1: start": ("\nat 0\n", "\nat 1\n"),
    },
    {"goodput": ("tcp_congestion_control=cubic", "tcp_congestion_control=bbr")},
    {"goodput": (" -t 2 ", " -t 2 -b 1M ")},
]


@pytest.mark.parametrize("otherwise", OTHERWISE, ids=lambda changes: next(iter(changes)))
@pytest.mark.usefixtures("on_files")
def test_another_script_is_said_to_differ(
    plain: Path, tmp_path: Path, otherwise: dict[str, tuple[str, str]]
) -> None:
    again = replay(spoilt(plain, tmp_path, *otherwise.values()))

    assert not again.same
    differ = [each.figure for each in again.compared if not each.same]
    assert all(any(figure in each for each in differ) for figure in otherwise), again.lines
    assert "differs" in again.lines[-1]


PATIENCE = ('[ "$tries" -gt 100 ]', '[ "$tries" -gt 5 ]')  # for who listens


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("\nPROGRAMS=", "\nPROGRAMS=iperf5 #", "iperf5 is missing: install"),
        ("CONGESTION_CONTROLS=cubic", "CONGESTION_CONTROLS=cubist", "congestion control cubist"),
        ("\nHASHES='", "\nHASHES='0123 /usr/bin/env\n", "/usr/bin/env is another program"),
        ("grep -qw seed ||", "grep -qw no-seed ||", "SEEDLESS=1"),
        ("check_needs\nOUT=", "ip netns add client; check_needs\nOUT=", "namespace client exists"),
        ("listening target tcp 80", "listening target tcp 81", "nothing listens on tcp port 81"),
        ("iperf3 -c", "iperf3 --nonsense -c", "failed: flow1 (exit status 1)"),
    ],
)
@pytest.mark.usefixtures("on_files")
def test_a_script_says_what_it_lacks(
    plain: Path, tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(ResultsError, match="exit status") as refused:
        replay(spoilt(plain, tmp_path, (old, new), PATIENCE))
    assert words in str(refused.value)


def test_a_script_goes_without_seeds_where_it_is_told_to(lab: Lab, plain: Path) -> None:
    script = plain / "commands.sh"

    done = lab.command(
        f"mkdir /tmp/x; cp /run/host{script} /tmp/x/; SEEDLESS=1 sh /tmp/x/commands.sh"
        " /run/gostlab/again && cat /run/gostlab/again/qdisc-before-wan_b-eth1.txt; ip netns",
        keep=[*lab.keep, plain],
    )

    assert "loss 1%" in done.log and "Mbit/s, Retr" in done.log, done.log
    assert "seed 1001001" in script.read_text() and "seed 1001001" not in done.log


def test_an_interrupted_script_takes_away_what_it_made(lab: Lab, plain: Path) -> None:
    done = lab.command(
        f"cp /run/host{plain}/commands.sh /tmp/; ip netns add mine;"
        " sh /tmp/commands.sh /run/gostlab/again 2>/dev/null & sleep 1.5; ip netns | wc -l; kill -TERM $!;"
        " wait $!; echo status $?; ip netns; pgrep -c iperf3",
        keep=[*lab.keep, plain],
    )

    assert done.log.split("reboot")[0].split() == ["6", "status", "143", "mine", "0"], done.log


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no finished run there"),
        ({"status.json": {"outcome": "failed", "error": "x"}}, "nothing to compare"),
        ({"status.json": {"outcome": "ok"}, "commands.sh": "#!/bin/sh"}, "an older lab's"),
    ],
)
def test_what_cannot_be_replayed_is_said(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=words):
        replay(tmp_path)
