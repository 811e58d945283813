# SPDX-License-Identifier: MIT
"""A question from the command line is an experiment: the same runs, file and name."""

from pathlib import Path
from typing import Any

import pytest

from gostlab.spec.adhoc import Question, read_short_flows, to_question
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.labels import cell_label, level_label
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import known_names
from gostlab.spec.yaml_source import BadInput
from tests.asked import refusal

PATH = {"rate": "100mbit", "rtt": "80ms", "loss": "0.5%"}
BOTH_WAYS = "delay 4\u00a0ms both ways from 1\u00a0s on"
ASKED = {**PATH, "cc": "cubic,bbr", "tunnel": "direct,gost+ws", "streams": "1,16"}


def runs_of(question: Question) -> list[RunSpec]:
    return expand(question.to_experiment(Path("none.yaml")))


def names(given: dict[str, str], **more: Any) -> list[str]:
    return [run.name for run in runs_of(to_question(given, **more))]


def test_lists_are_compared_and_one_value_is_a_setting() -> None:
    question = to_question(ASKED)

    compared = {"tunnel": ["direct", "gost+ws"], "streams": [1, 16], "cc": ["cubic", "bbr"]}
    assert question.factors == compared
    assert {"rate": "100mbit", "duration": "10s"}.items() <= question.settings.items()


def test_a_bare_question_compares_cubic_with_bbr() -> None:
    asked = {name.rpartition("-")[0] for name in names({})}
    assert asked == {"try-bbr-r1", "try-cubic-r1"}


def test_an_option_of_one_of_the_tunnels_is_no_matter_of_the_others() -> None:
    given = {**PATH, "cc": "bbr", "tunnel": "direct,gost+kcp", "kcp_parity": "0,3"}

    runs = runs_of(to_question(given))

    asked = {(run.tunnel, str(run.tunnel_options), str(run.factors)) for run in runs}
    assert asked == {
        ("direct", "{}", "{'tunnel': 'direct'}"),
        ("gost+kcp", "{'kcp_parity': 0}", "{'kcp_parity': '0', 'tunnel': 'gost+kcp'}"),
        ("gost+kcp", "{'kcp_parity': 3}", "{'kcp_parity': '3', 'tunnel': 'gost+kcp'}"),
    }
    assert {run.tunnel for run in runs_of(to_question({**given, "kcp_parity": "3"}))} == {
        "direct",
        "gost+kcp",
    }
    assert "direct has no kcp_parity" in refusal(
        lambda: runs_of(to_question({**given, "tunnel": "direct,gost+ws"}))
    )


def test_a_saved_question_asks_for_the_same_runs(tmp_path: Path) -> None:
    question = to_question({**ASKED, "cc.client": "bbr", "changes": "[{at: 1s, rate: 9mbit}]"})
    file = tmp_path / "mine.yaml"
    file.write_text(question.text)

    saved = load_experiment(str(file))

    assert saved.name == question.name
    there = [run.name for run in runs_of(question)]
    assert [run.name for run in expand(saved)] == there


def test_more_repetitions_are_the_same_question_with_more_runs() -> None:
    once, thrice = names(ASKED), names(ASKED, repetitions=3)
    assert to_question(ASKED).name == to_question(ASKED, repetitions=3).name
    assert len(thrice) == 3 * len(once) and set(once) < set(thrice)


def test_another_question_is_another_folder() -> None:
    assert to_question(ASKED).name != to_question({**ASKED, "loss": "1%"}).name
    assert to_question(ASKED).name != to_question(ASKED, seed=2).name


def test_a_path_of_ones_own_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a b").mkdir()
    way = "{rate: 5mbit, delay: 20ms, jitter: 0ms, loss: 0%, buffer: 1bdp}"
    (tmp_path / "a b" / "mine.yaml").write_text(
        f"name: mine\ntitle: Mine\nforward: {way}\nreverse: {way}\n"
    )
    monkeypatch.chdir(tmp_path)
    question = to_question({"profile": "./a b/mine.yaml"})
    monkeypatch.chdir("/")
    [run, _] = expand(question.to_experiment(Path("none.yaml")))
    assert run.profile == "mine" and run.path.forward.rate_bps == 5_000_000


BOTH = "--run-server and --run-client belong together"


@pytest.mark.parametrize(
    ("given", "more", "says"),
    [
        ({"rate": "100"}, {}, '--rate "100": no unit'),
        ({"cc": "cubik"}, {}, "--cc"),
        ({"streams": "1,1"}, {}, "--streams"),
        ({"profile": "nowhere"}, {}, "--profile"),
        ({"rtt": "80ms", "delay": "1ms"}, {}, "--rtt"),
        ({"loss": ""}, {}, "--loss"),
        *(({}, {"repetitions": count}, "--repeat") for count in (0, -1, 10**6)),
        *(({}, {"own": own}, BOTH) for own in (("serve", None), (None, "ask"))),
        ({"flows": "a=cubic,b=bbr"}, {"own": ("serve", "ask")}, BOTH),
    ],
)
def test_what_is_wrong_names_the_option(
    given: dict[str, str], more: dict[str, Any], says: str
) -> None:
    assert refusal(lambda: names(given, **more)).startswith(says)


def test_the_question_reads_as_one_asks_it() -> None:
    assert to_question(ASKED).question == (
        "How fast, and with what delay: cubic or bbr; 1 or 16 streams; direct or gost+ws"
        " (100\u00a0Mbit/s, 80\u00a0ms RTT, 0.5\u00a0% loss)?"
    )
    path_last = to_question({"queue": "codel", "cc": "cubic,bbr", **dict(reversed(PATH.items()))})
    assert list(path_last.key_settings) == ["rate", "rtt", "loss", "queue"]
    assert to_question({"cc": "bbr"}).title == "bbr"


@pytest.mark.parametrize(
    ("factor", "level", "said"),
    [
        ("streams", 1, "1 stream"),
        ("streams", 16, "16 streams"),
        ("loss", "0.5%", "0.5\u00a0% loss"),
        ("buffer", "0.3bdp", "0.3\u00a0BDP of buffer"),
        ("forward.loss", "1%", "1\u00a0% loss forward"),
        ("cc.client", "bbr", "bbr at client"),
        ("cc", {"client": "bbr"}, "client bbr"),
        ("late.rtt", "20ms", "late: 20\u00a0ms RTT"),
        ("second.hop2.loss", "1%", "1\u00a0% loss on hop2"),
        ("links.n1-n2", "plain-100ms", "plain-100ms on n1-n2"),
        ("host_cpus", "2", "2 CPUs per host"),
        ("host_cpus", "shared", "one CPU for all hosts"),
        ("acks", "on", "acks on"),
        ("tcp_memory", "ample", "ample TCP memory"),
        ("tcp_memory", "365MiB", "365\u00a0MiB of TCP memory"),
        ("clock", "real", "real clock"),
        ("loss.packets", 1000.0, "one loss in 1000 packets"),
        ("syscall_cost", "5us", "5\u00a0µs per system call"),
        # what changes under way, as a file has it and as results do
        ("step", [{"at": "10s", "rate": "4mbit"}], "rate 4\u00a0Mbit/s from 10\u00a0s on"),
        ("step", '[{"at": "1s", "delay": "4ms", "direction": "both"}]', BOTH_WAYS),
        (
            "changes",
            [{"at": "4s", "rate": "1gbit"}, {"at": "8s", "loss": "1%", "direction": "reverse"}],
            "rate 1\u00a0Gbit/s from 4\u00a0s on, loss 1\u00a0% reverse from 8\u00a0s on",
        ),
        ("step", "[{", "step [{"),
    ],
)
def test_a_level_is_said_as_people_say_it(factor: str, level: object, said: str) -> None:
    assert level_label(factor, level) == said


def test_every_setting_s_level_says_something() -> None:
    for name in known_names():
        assert cell_label({name: "word"}).strip()


def test_a_program_of_ones_own_is_a_flow() -> None:
    asked = to_question({"rtt": "20ms"}, own=("serve  -p $PORT", "ask $HOST"))

    fields = {"kind": "command", "server": "serve  -p $PORT", "client": "ask $HOST"}
    assert asked.settings["flows"] == {"mine": fields}
    [run, *_] = expand(asked.to_experiment(Path("try.yaml")))
    assert (run.flows[0].server, run.flows[0].client) == ("serve  -p $PORT", "ask $HOST")


# -- flows in words


def test_words_are_flows_with_their_fields_and_counts() -> None:
    text = "a=cubic*2/rtt=20ms/start=5s, b=mine(gain=2;loss=1), c=bbr|bbr3"
    flows, factors = read_short_flows(text)

    assert flows == {
        "a1": {"cc": "cubic", "rtt": "20ms", "start": "5s"},
        "a2": {"cc": "cubic", "rtt": "20ms", "start": "5s"},
        "b": {"cc": "mine(gain=2;loss=1)"},
        "c": {},
    }
    assert factors == {"c.cc": ["bbr", "bbr3"]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=cubic", "no competitor"),
        ("a=cubic,a=bbr", "named twice"),
        ("a,b=bbr", "not like a=cubic"),
        ("a=cubic*0,b=bbr", "not within 1 to 64"),
        ("a=cubic/rtts=20ms,b=bbr", "did you mean rtt"),
        ("a=cubik,b=bbr", "did you mean cubic"),
        ("a=cubic/rtt=20,b=bbr", "20"),
        ("{a: {cc: cubic}, b: {cc: bbrr}}", "did you mean bbr"),
    ],
)
def test_what_is_wrong_with_them_is_one_line(text: str, says: str) -> None:
    assert says in refusal(lambda: to_question({"flows": text}))


@pytest.mark.parametrize(
    "flows", ["a=cubic,b=bbr", "{a: {cc: cubic}, b: {cc: bbr}}", "a=cubic,b=bbr/rtt=20ms"]
)
def test_flows_that_compete_are_one_cell_and_no_comparison_of_anything(flows: str) -> None:
    asked = to_question({"flows": flows, "rate": "20mbit"})

    (run,) = runs_of(asked)
    assert asked.is_contest and asked.ranks_flows and run.factors == {}
    assert [flow.cc for flow in run.flows] == ["cubic", "bbr"]
    assert len({flow.sender for flow in run.flows}) == 2
    with pytest.raises(BadInput, match="every flow has its own"):
        to_question({"flows": flows, "cc": "reno"})


def test_a_flow_beside_udp_alone_is_ranked_against_nothing() -> None:
    asked = to_question({"flows": "{a: {}, noise: {kind: udp, rate: 5mbit}, lag: {kind: ping}}"})
    assert asked.is_contest and not asked.ranks_flows


def test_alternatives_of_one_flow_are_the_factor() -> None:
    found = runs_of(to_question({"flows": "a=cubic,b=bbr|bbr3", "duration": "10s"}))

    assert sorted(str(run.factors["b.cc"]) for run in found) == ["bbr", "bbr3"]
    assert all(set(run.factors) == {"b.cc"} for run in found)
    assert {run.flows[0].cc for run in found} == {"cubic"}


def test_one_flow_in_short_form_has_a_field_of_its_own() -> None:
    question = to_question({"flows": "a=bbr/bytes=10MB"})
    assert question.settings["flows"] == {"a": {"cc": "bbr", "bytes": "10MB"}}
    assert not question.is_contest and question.factors == {}


def test_a_set_of_flows_is_written_by_its_name() -> None:
    question = to_question({"flows": "rrul"})
    assert question.settings["flows"] == "rrul" and not question.ranks_flows
    assert question.factors == {"cc": ["cubic", "bbr"]}


def test_flows_with_a_rate_or_pauses_are_not_ranked() -> None:
    assert not to_question({"flows": "a=cubic/rate=4mbit,b=bbr"}).ranks_flows
    assert not to_question({"flows": "a=cubic/on=1s/off=1s,b=bbr"}).ranks_flows
    assert to_question({"flows": "a=cubic/bytes=10MB,b=bbr"}).ranks_flows
