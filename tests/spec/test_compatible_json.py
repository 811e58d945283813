# SPDX-License-Identifier: MIT
"""Fields that come later leave every earlier file, and its name, what they were."""

from dataclasses import fields, make_dataclass, replace
from typing import Any

from gostlab.spec import compatible_json
from gostlab.spec.compatible_json import to_json
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.flow import FlowSpec
from gostlab.spec.path_spec import ChangeSpec, DirectionSpec, LossSpec, PathSpec
from gostlab.spec.run_spec import RunSpec
from tests.asked import refusal


def test_a_run_and_its_flows_may_get_fields_without_a_new_name() -> None:
    """The real description, with a field more in itself and in its flows."""
    run = expand(load_experiment("thesis-tunnel"), quick=True)[0]
    flow_kind = with_later_field(FlowSpec, "priority", 0)
    run_kind = with_later_field(RunSpec, "winds", {})
    flows = [flow_kind(**vars(flow)) for flow in run.flows]
    more = run_kind(**{**vars(run), "flows": flows})
    assert more.to_json() == run.to_json()
    assert more.name == run.name
    windy = replace(more, winds={"north": 3})
    assert windy.name != run.name
    assert replace(more, flows=[replace(flows[0], priority=1)]).name != run.name
    for each in (more, windy):  # read again, it is what it was
        again = run_kind.from_json(each.to_json())
        assert (again.winds, again.name) == (each.winds, each.name)
        again.winds["south"] = 1
    assert run_kind.from_json(run.to_json()).winds == {}  # a default is nobody's alone


def with_later_field(kind: type, name: str, default: Any) -> Any:
    """A dataclass with one field more."""
    more = [(name, type(default), compatible_json.added_later(default))]
    return make_dataclass(kind.__name__, more, bases=(kind,), frozen=True)


def test_every_field_since_schema_2_is_a_later_one() -> None:
    """The fields of before, by name: one that is added without `added_later` renames every run."""
    for kind, names in OLD_FIELDS.items():
        needed = {
            compatible_json.key_of(each)
            for each in fields(kind)
            if not compatible_json.is_added_later(each)
        }
        assert needed == set(names.split()), kind


def test_a_value_of_another_type_is_refused_with_its_key() -> None:
    run = expand(load_experiment("thesis-tunnel"), quick=True)[0].to_json()
    for key, value, message in (
        ("streams", "1", "streams: str where int should be"),
        ("offloads", 1, "offloads: int where bool should be"),
        ("path", {"forward": 3, "reverse": 4}, "path: forward: int where Mapping should be"),
        ("changes", [{"at_s": 1}], "changes: direction is missing"),
    ):
        assert refusal(lambda key=key, value=value: RunSpec.from_json({**run, key: value})) == (
            f"run.json: {message}"
        )


def test_a_parameter_of_a_path_may_come_later() -> None:
    """A direction with one field more is written as before, unless it has another value."""
    path = expand(load_experiment("thesis-tunnel"), quick=True)[0].path
    more = with_later_field(DirectionSpec, "reordered", 0.0)
    before, after = to_json(path.forward), more(**vars(path.forward))
    assert to_json(after) == before
    again = compatible_json.from_json(more, {**before, "reordered": 0.1}, "path")
    assert to_json(again) == {**before, "reordered": 0.1}


OF_RUNS = """experiment matrix factors repetition seed machine clock syscall_cost_us topology placement
    profile path sites tunnel cc streams duration_s direction buffers offloads sample_ms mtu
    memory_mib tcp_memory_mib acks flows changes schema"""
OF_FLOWS = """name kind cc streams direction start_s duration_s sender receiver rtt_ms buffers rate_bps
    size_bytes"""
OLD_FIELDS: dict[Any, str] = {
    RunSpec: OF_RUNS,
    FlowSpec: OF_FLOWS,
    PathSpec: "forward reverse",
    DirectionSpec: "rate_bps delay_ms jitter_ms loss buffer_pkts ordered distribution",
    LossSpec: "model p",
    ChangeSpec: "at_s direction",
}
