"""Flows in words, as the command line has them."""

from pathlib import Path

import pytest

from gostlab.describe.file.document import BadInput
from gostlab.describe.file.flows_words import read_flows_words
from gostlab.describe.file.question import Question, to_question
from gostlab.describe.resolve.expand import expand
from gostlab.describe.resolve.run_description import RunDescription
from tests.asked import refusal


def runs(question: Question) -> list[RunDescription]:
    return expand(question.to_experiment(Path("q.yaml")))


def test_words_are_flows_with_their_fields_and_counts() -> None:
    found = read_flows_words("a=cubic*2/rtt=20ms/start=5s, b=mine(gain=2;loss=1), c=bbr|bbr3")

    assert found.flows == {
        "a1": {"cc": "cubic", "rtt": "20ms", "start": "5s"},
        "a2": {"cc": "cubic", "rtt": "20ms", "start": "5s"},
        "b": {"cc": "mine(gain=2;loss=1)"},
        "c": {},
    }
    assert found.factors == {"c.cc": ("bbr", "bbr3")}


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

    (run,) = runs(asked)
    assert asked.is_contest and run.factors == {}
    assert [flow.cc for flow in run.flows] == ["cubic", "bbr"]
    assert len({flow.sender for flow in run.flows}) == 2
    with pytest.raises(BadInput, match="every flow has its own"):
        to_question({"flows": flows, "cc": "reno"})


def test_alternatives_of_one_flow_are_the_factor() -> None:
    found = runs(to_question({"flows": "a=cubic,b=bbr|bbr3", "duration": "10s"}))

    assert sorted(str(run.factors["b.cc"]) for run in found) == ["bbr", "bbr3"]
    assert all(set(run.factors) == {"b.cc"} for run in found)
    assert {run.flows[0].cc for run in found} == {"cubic"}
