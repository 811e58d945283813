"""Fields that come later leave every earlier file, and its name, what they were."""

import json
from dataclasses import dataclass, fields, make_dataclass, replace
from typing import Any

import pytest

from gostlab.describe.file.experiment import list_experiments, load_experiment
from gostlab.describe.resolve import later_fields
from gostlab.describe.resolve.expand import expand
from gostlab.describe.resolve.flows import Flow
from gostlab.describe.resolve.run_description import RunDescription, digest
from tests.experiments.run_names import FORMS, kept, names_of, said_short


@dataclass(frozen=True)
class Before:
    """A record as a lab of before wrote it."""

    rate_bps: int
    schema: int = 2


@dataclass(frozen=True)
class After:
    """The same, with two fields that came later."""

    rate_bps: int
    schema: int = 2
    qdisc: str = later_fields.later("fifo")
    ends: dict[str, str] = later_fields.later({})


def test_a_later_field_at_its_default_leaves_the_file_and_its_hash_what_they_were() -> None:
    before, after = later_fields.to_json(Before(1000)), later_fields.to_json(After(1000))
    assert after == before == {"rate_bps": 1000, "schema": 2}
    assert digest(after) == digest(before)


def test_a_later_field_that_is_used_makes_another_question() -> None:
    used = later_fields.to_json(After(1000, qdisc="codel"))
    assert used == {"rate_bps": 1000, "schema": 2, "qdisc": "codel"}
    assert digest(used) != digest(later_fields.to_json(Before(1000)))


def test_a_file_of_before_reads_as_the_default() -> None:
    assert later_fields.from_json(After, later_fields.to_json(Before(1000)), "run.json") == After(
        1000
    )
    used = After(1000, qdisc="codel", ends={"client": "bbr"})
    assert later_fields.from_json(After, later_fields.to_json(used), "run.json") == used


def test_defaults_are_not_shared_between_records() -> None:
    one, other = After(1), After(1)
    one.ends["client"] = "bbr"
    assert other.ends == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate_bps": 1}, "run.json: schema is missing"),
        ({"rate_bps": 1, "schema": 2, "x": 1}, "run.json: x: unknown key"),
    ],
)
def test_a_file_with_too_little_or_too_much_is_refused(values: Any, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        later_fields.from_json(After, values, "run.json")
    assert str(refused.value) == message


def test_a_run_and_its_flows_may_get_fields_without_a_new_name() -> None:
    """The real description, with a field more in itself and in its flows."""
    run = expand(load_experiment("thesis-tunnel"), quick=True)[0]
    flow_kind = with_later_field(Flow, "priority", 0)
    run_kind = with_later_field(RunDescription, "weather", "dry")
    flows = [flow_kind(**vars(flow)) for flow in run.flows]
    more = run_kind(**{**vars(run), "flows": flows})
    assert more.to_json() == run.to_json()
    assert more.name == run.name
    assert replace(more, weather="wet").name != run.name
    assert replace(more, flows=[replace(flows[0], priority=1)]).name != run.name


def with_later_field(kind: type, name: str, default: Any) -> Any:
    """A dataclass with one field more."""
    more = [(name, type(default), later_fields.later(default))]
    return make_dataclass(kind.__name__, more, bases=(kind,), frozen=True)


def test_every_field_since_schema_2_is_a_later_one() -> None:
    """The fields of before, by name: one that is added without `later` renames every run."""
    old = json.loads(OLD_FIELDS)
    for kind, names in ((RunDescription, old["run"]), (Flow, old["flow"])):
        needed = {each.name for each in fields(kind) if not later_fields.is_later(each)}
        assert needed == set(names), kind


OLD_FIELDS = """{
  "run": ["experiment", "matrix", "factors", "repetition", "seed", "machine", "clock",
          "syscall_cost_us", "topology", "placement", "profile", "path", "sites", "tunnel", "cc",
          "streams", "duration_s", "direction", "buffers", "offloads", "sample_ms", "mtu",
          "memory_mib", "tcp_memory_mib", "acks", "flows", "changes", "schema"],
  "flow": ["name", "kind", "cc", "streams", "direction", "start_s", "duration_s", "sender",
           "receiver", "rtt_ms", "buffers", "rate_bps", "size_bytes"]
}"""


@pytest.mark.parametrize("name", kept())
@pytest.mark.parametrize("form", FORMS)
def test_a_shipped_experiment_asks_what_it_asked(name: str, form: str) -> None:
    assert said_short(names_of(name, form)) == kept()[name][form], (
        f"another question in {name}: `python3 -m tests.experiments.run_names {name}` prints its"
        " runs' names, here and in a checkout of before; without NAME it writes what is to stay"
    )


def test_no_run_name_is_of_an_experiment_that_is_gone() -> None:
    assert set(kept()) <= set(list_experiments())
