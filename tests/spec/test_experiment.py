# SPDX-License-Identifier: MIT
"""Experiments expand to the runs they describe, in a fair order, and say what is wrong where."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gostlab.registry.tunnels import tunnel_kinds
from gostlab.spec import experiment as experiments
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment, read_experiment, with_repetitions, with_seed
from gostlab.spec.path_spec import random_loss
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import show_level
from gostlab.spec.yaml_source import BadInput, parse_document
from tests.asked import refusal, run_of

SMALL = """name: small
title: A small one
settings:
  profile: la-hamina
  duration: 10s
matrices:
  - name: main
    settings: {streams: 4}
    factors:
      cc: [cubic, bbr]
      loss: [0%, 0.1%]
    repetitions: 3
    quick:
      factors: {loss: [0%]}
      repetitions: 1
  - name: other
    factors: {streams: [1]}
    quick: {skip: true}
"""


def written(text: str) -> experiments.ExperimentFile:
    return read_experiment(parse_document(text, "small.yaml"), Path("small.yaml"))


def changed(old: str, new: str) -> experiments.ExperimentFile:
    assert old in SMALL
    return written(SMALL.replace(old, new, 1))


def small(**asked: object) -> list[RunSpec]:
    return expand(written(SMALL), **asked)  # type: ignore[arg-type]


def test_a_matrix_is_every_combination_times_repetitions() -> None:
    assert Counter((run.matrix, run.cc, run.path.forward.loss.p) for run in small()) == {
        ("main", "cubic", 0.0): 3,
        ("main", "cubic", 0.001): 3,
        ("main", "bbr", 0.0): 3,
        ("main", "bbr", 0.001): 3,
        ("other", "cubic", 0.0): 1,
    }


def test_all_cells_of_a_repetition_share_its_seed_and_repetitions_differ() -> None:
    seeds = {(run.repetition, run.seed) for run in small()}
    assert len(seeds) == 3
    assert (1, 1001) in seeds


def test_the_order_is_shuffled_within_a_repetition_by_the_experiments_seed() -> None:
    def order(text: str) -> list[list[str]]:
        runs = expand(written(text), overrides={"streams": "1,2,3,4,5,6,7,8"})
        return [[run.cell for run in runs if run.repetition == number] for number in (1, 2)]

    repetitions = [run.repetition for run in small()]
    assert repetitions == sorted(repetitions)
    first, second = order(SMALL)
    assert order(SMALL) == [first, second]
    assert sorted(second) == sorted(set(first) & set(second))
    assert first[:8] != sorted(first)[:8]
    assert first != order(SMALL.replace("title:", "seed: 2\ntitle:"))[0]


def test_real_clock_runs_come_last_in_their_repetition() -> None:
    runs = expand(changed("cc: [cubic, bbr]", "clock: [real, virtual]"))
    for repetition in (1, 2, 3):
        clocks = [run.clock for run in runs if run.repetition == repetition]
        assert clocks == sorted(clocks, reverse=True)


def test_quick_overrides_and_skips() -> None:
    made = [(run.matrix, run.cc, run.path.forward.loss.p) for run in small(quick=True)]
    assert sorted(made) == [("main", "bbr", 0.0), ("main", "cubic", 0.0)]
    assert {run.name for run in small(quick=True)} < {run.name for run in small()}


def test_a_matrix_of_the_quick_form_is_in_no_other() -> None:
    file = changed("    quick: {skip: true}", "    form: quick")

    full, quick = ({run.matrix for run in expand(file, quick=short)} for short in (False, True))

    assert full == {"main"} and quick == {"main", "other"}


def test_levels_stand_in_run_json_as_people_write_them() -> None:
    runs = small(overrides={"rate": "10 mbit,20mbit", "streams": "4,8"})
    assert {run.factors["rate"] for run in runs} == {"10mbit", "20mbit"}
    assert {run.factors["streams"] for run in runs} == {4, 8}
    # and only what varies
    assert {tuple(run.factors) for run in small()} == {("cc", "loss"), ("streams",)}


def test_names_are_readable_unique_and_fit_for_files() -> None:
    names = [run.name for run in small()]
    assert len(set(names)) == len(names)
    assert any(name.startswith("main-cubic-loss0.1_-r2-") for name in names)
    assert all(re.fullmatch(r"[a-z0-9.+_-]{1,199}", name) for name in names)
    assert len({run.cell for run in small()}) == 5  # whatever the repetition


def test_a_changed_question_has_another_name() -> None:
    longer = expand(changed("duration: 10s", "duration: 11s"))
    assert {run.name for run in small()}.isdisjoint(run.name for run in longer)


def test_a_run_is_its_json() -> None:
    for run in small():
        assert RunSpec.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 1}, "run.json: not a run of schema 2, the one this lab reads"),
        ({"colour": "red"}, "run.json: colour: unknown key"),
    ],
)
def test_run_json_of_another_lab_is_refused(change: dict[str, object], message: str) -> None:
    assert message in refusal(lambda: RunSpec.from_json({**small()[0].to_json(), **change}))


def test_set_replaces_a_factors_levels_a_setting_or_makes_a_factor() -> None:
    assert {run.cc for run in small(overrides={"cc": "bbr"})} == {"bbr"}
    assert {run.streams for run in small(overrides={"streams": "2"})} == {2}
    runs = small(overrides={"streams": "1, 2,16"})
    assert {run.streams for run in runs if run.matrix == "main"} == {1, 2, 16}
    assert all("streams" in run.factors for run in runs)


@pytest.mark.parametrize("direction", ["upload", "download"])
def test_loss_is_of_both_directions_whoever_sends(direction: str) -> None:
    """client-hongkong loses both ways."""
    for asked, lost in (
        ({}, (0.006476, 0.00612)),
        ({"loss": "0%"}, (0, 0)),
        ({"forward.loss": "0%"}, (0, 0.00612)),
        ({"loss": "0%", "reverse.loss": "2%"}, (0, 0.02)),
    ):
        run = one(profile="client-hongkong", direction=direction, **asked)
        assert tuple(run.path[way].loss.p for way in ("forward", "reverse")) == lost


@pytest.mark.parametrize(
    ("word", "level", "key", "value"),
    [
        ("delay", "5ms", "delay_ms", 5.0),
        ("jitter", "3ms", "jitter_ms", 3.0),
        ("rate", "10mbit", "rate_bps", 10**7),
        ("buffer", "7pkts", "buffer_pkts", 7),
        ("buffer", "120ms", "buffer_pkts", 1000),
        ("loss", "1%", "loss", random_loss(0.01)),
    ],
)
def test_a_word_for_the_path_is_of_both_directions_or_of_one(
    word: str, level: str, key: str, value: Any
) -> None:
    def values(**asked: str) -> list[Any]:
        path = one(profile="plain-100ms", **asked).path
        return [getattr(way, key) for way in path]

    plain = values()
    assert values(**{word: level}) == [value, value]
    assert values(**{f"forward.{word}": level}) == [value, plain[1]]
    assert values(**{f"reverse.{word}": level}) == [plain[0], value]


def test_order_is_kept_in_both_directions_that_have_jitter() -> None:
    jittery = {"profile": "plain-100ms", "jitter": "5ms"}
    for asked, ordered in (
        ({"ordered": "on"}, [True, True]),
        ({"reverse.ordered": "on"}, [False, True]),
        ({"ordered": "on", "reverse.jitter": "0ms"}, [True, False]),
    ):
        path = one(**{**jittery, **asked}).path
        assert [path[way].ordered for way in ("forward", "reverse")] == ordered


def test_a_later_layers_loss_takes_the_place_of_an_earlier_directions() -> None:
    text = SMALL.replace("  duration: 10s", "  duration: 10s\n  forward.loss: 5%")
    assert "forward.loss" in text
    kept = [run for run in expand(written(text)) if "loss" not in run.factors]
    assert {run.path.forward.loss.p for run in kept} == {0.05}
    runs = expand(written(text), overrides={"loss": "1%", "cc": "bbr"})
    untouched = [run for run in runs if "loss" not in run.factors]
    assert untouched
    assert {run.path[way].loss.p for run in untouched for way in run.path} == {0.01}


NAMED = """
name: named
title: A factor with a name of its own
matrices:
  - name: main
    settings: {profile: plain-100ms}
    factors:
      loss: {sets: forward.loss, levels: [1%, 2%]}
      sender: {sets: cc.client, levels: [bbr, cubic]}
    quick: {factors: {loss: [2%], sender: [bbr]}}
"""


def test_a_factor_may_have_a_name_of_its_own() -> None:
    runs = expand(written(NAMED))
    asked_and_got = {
        (*run.factors.values(), run.path.forward.loss.p, run.flows[0].cc) for run in runs
    }
    assert asked_and_got == {
        (f"{percent}%", cc, percent / 100, cc) for percent in (1, 2) for cc in ("bbr", "cubic")
    }
    assert {run.path.reverse.loss.p for run in runs} == {0}


def test_a_named_factor_stays_what_it_is_in_the_quick_form_and_by_set() -> None:
    for runs in (
        expand(written(NAMED), quick=True),
        expand(written(NAMED), overrides={"loss": "2%", "sender": "bbr"}),
    ):
        [run] = runs
        assert run.factors == {"loss": "2%", "sender": "bbr"}
        assert [run.path[way].loss.p for way in ("forward", "reverse")] == [0.02, 0]
        assert run.flows[0].cc == "bbr"


def test_set_reaches_a_factor_by_the_name_of_what_it_sets() -> None:
    runs = expand(written(NAMED), overrides={"forward.loss": "3%", "cc.client": "reno"})
    assert [run.factors for run in runs] == [{"loss": "3%", "sender": "reno"}]
    assert runs[0].path.forward.loss.p == 0.03
    assert runs[0].flows[0].cc == "reno"


def test_where_cc_runs_with_the_congestion_control_that_set_names() -> None:
    runs = expand(load_experiment("where-cc"), quick=True, overrides={"cc": "reno"})
    assert {run.matrix for run in runs} == {"relay", "vpn-over-udp", "vpn-over-tcp", "splitting"}
    assert {flow.cc for run in runs for flow in run.flows} == {"reno"}
    # a factor's own name is the stronger one in its matrices, and the setting's is for the others
    both = expand(load_experiment("where-cc"), quick=True, overrides={"cc": "reno", "where": "bbr"})
    assert {run.flows[0].cc for run in both if run.matrix == "splitting"} == {"reno"}
    assert {run.flows[0].cc for run in both if run.matrix != "splitting"} == {"bbr"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"forward.loss": "3%", "loss": "2%"}, "--set forward.loss: said already as loss (write"),
        ({"sender": "bbr", "cc.client": "reno"}, "--set cc.client: said already as sender (write"),
        ({"loss": "1,5%"}, '--set loss "1,5%": write 1.5% if it is one number, or a unit'),
        ({"cc": "bbr,,reno"}, '--set cc "bbr,,reno": nothing beside a comma (write A,B)'),
    ],
)
def test_set_says_a_thing_once_by_whatever_name(overrides: dict[str, str], message: str) -> None:
    assert message in refusal(lambda: expand(written(NAMED), overrides=overrides))


def test_set_that_reaches_no_flow_is_refused() -> None:
    harm = load_experiment("harm")
    said = refusal(lambda: expand(harm, quick=True, overrides={"cc": "bbr"}))
    assert said.startswith("--set cc: ") and "set victim.cc or other.cc" in said
    with pytest.raises(BadInput, match=r"^--set streams: every flow .* \(set bulk.streams\)$"):
        expand(load_experiment("aqm"), quick=True, overrides={"streams": "2"})
    # one flow of one matrix that it reaches is enough
    runs = expand(load_experiment("mux"), quick=True, overrides={"streams": "2"})
    assert {run.flows[0].streams for run in runs if run.matrix == "streams"} == {2}


def test_the_seed_option_stands_in_for_the_experiments() -> None:
    of_file, of_option = small(), expand(with_seed(written(SMALL), 7))
    assert {run.seed // 1000 for run in of_file} != {7}
    assert {run.seed for run in of_option} == {7000 + run.repetition for run in of_option}
    assert {run.cell for run in of_option} == {run.cell for run in of_file}
    assert not {run.name for run in of_option} & {run.name for run in of_file}
    assert with_seed(written(SMALL), None).seed == written(SMALL).seed
    for seed in (0, 2**43):
        with pytest.raises(BadInput, match=f"--seed {seed}: not within 1 to 8796093022207"):
            with_seed(written(SMALL), seed)


@pytest.mark.parametrize("quick", [False, True])
def test_the_repeat_option_stands_in_for_the_repetitions_of_both_forms(quick: bool) -> None:
    of_file = expand(written(SMALL), quick=quick)
    of_option = expand(with_repetitions(written(SMALL), 5), quick=quick)
    cells = {run.cell for run in of_file}
    assert {run.cell for run in of_option} == cells and len(of_option) == 5 * len(cells)
    kept = {run.name for run in of_file if run.repetition <= 5}
    assert kept <= {run.name for run in of_option}  # finished runs stay the answer
    assert with_repetitions(written(SMALL), None) == written(SMALL)
    for count in (0, 1001):
        with pytest.raises(BadInput, match=f"--repeat {count}: not within 1 to 1000"):
            with_repetitions(written(SMALL), count)


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("duration", "20", "write 20s, or us, ms"),
        ("syscall_cost", "20", "write 20us, or ms, s"),
        ("rtt", "20", "write 20ms, or us, s"),
        ("rate", "none", 'rate "none": not a rate (like 100mbit), or unlimited for none'),
        ("forward.rate", "off", "or unlimited for none"),
    ],
)
def test_advice_is_what_is_meant_there(name: str, text: str, advice: str) -> None:
    assert advice in refusal(lambda: one(**{name: text}))


GATEWAY, DOWNLOAD = {"tunnel": "gost+ws", "placement": "gateway"}, {"direction": "download"}
CC_BY_END = [
    ({"cc": "{client: bbr, target: cubic}"}, "bbr", {"target": "cubic"}),
    ({"cc": "{client: bbr, target: bbr}"}, "bbr", {}),
    ({"cc.client": "bbr"}, "bbr", {"target": "cubic"}),
    ({"cc.target": "bbr"}, "cubic", {"target": "bbr"}),
    ({"cc": "reno", "cc.client": "bbr"}, "bbr", {"target": "reno"}),
    (DOWNLOAD | {"cc.target": "bbr"}, "bbr", {"client": "cubic"}),
    ({"cc.wan": "bbr"}, "bbr", {"client": "cubic", "target": "cubic", "wan": "bbr"}),
    (GATEWAY | {"cc": "{client: bbr, gost: reno}"}, "bbr", {"gost": "reno", "target": "cubic"}),
    (GATEWAY | DOWNLOAD | {"cc.gost": "bbr"}, "bbr", {"client": "cubic", "target": "cubic"}),
    (
        {"tunnel": "gost+ws", "cc": "reno", "cc.wan": "bbr", "cc.exit": "cubic"},
        "bbr",
        {"client": "reno", "target": "reno", "wan": "bbr", "exit": "cubic"},
    ),
]


@pytest.mark.parametrize(("asked", "sending", "others"), CC_BY_END)
def test_each_end_may_have_its_congestion_control(
    asked: dict[str, str], sending: str, others: dict[str, str]
) -> None:
    run = one(**asked)
    assert (run.cc, run.flows[0].cc, run.cc_by_end) == (sending, sending, others)


def test_the_clock_option_holds_for_every_matrix() -> None:
    # what system calls cost is no difference there
    runs = small(overrides={"syscall_cost": "0us,5us"}, clock="real")
    assert len(runs) == len(small())
    assert all("syscall_cost" not in run.factors for run in runs)
    assert {run.clock for run in runs} == {"real"}
    assert {run.syscall_cost_us for run in runs} == {0.0}


one = partial(run_of, profile="la-hamina")


def test_bdp_buffers_hold_what_path_and_queue_do() -> None:
    buffers = one(buffers="bdp").buffers
    assert isinstance(buffers, dict)
    assert buffers["rmem"][2] >= 4 * 2 * 1_967_000_000 * 0.168 / 8  # each a BDP


def test_memory_is_sized_to_the_run_and_within_2_gib_up_to_16_streams() -> None:
    few, some, many = (one(streams=count).memory_mib for count in ("1", "16", "128"))
    assert few < some < many
    for tunnel in tunnel_kinds():
        for buffers in ("debian", "system", "bdp"):
            for streams in ("1", "4", "16"):
                assert one(streams=streams, tunnel=tunnel, buffers=buffers).memory_mib <= 2048


def test_tcp_memory_is_ample_for_every_buffer_of_every_leg() -> None:
    assert one(streams="16", tunnel="gost+ws").tcp_memory_mib >= 3 * 17 * 10
    assert one(streams="128").tcp_memory_mib >= 129 * 10


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("streem", "1", "--set streem: no such factor or setting (did you mean streams?)"),
        ("streams", "1,1", '--set streams "1": the same level twice'),
        ("streams", "1],[2", "--set streams: not YAML: "),
        ("streams", "", "--set streams: at least 1 should be in this list"),
        ("rate", "100", '--set rate "100": no unit (write 100mbit)'),
        ("rate", "unlimited", "--set rate: the forward direction has no rate limit"),
        ("cc", "bbq", '--set cc "bbq": not known here (did you mean bbr?)'),
        ("profile", "nowhere", '--set profile: profile "nowhere": not in netem_profiles/'),
    ],
)
def test_bad_overrides_name_set(name: str, text: str, message: str) -> None:
    assert refusal(lambda: small(overrides={name: text})).startswith(message)


@pytest.mark.parametrize("most", ["repetitions: 1000", "until: {halfwidth: 5%, most: 1000}"])
def test_a_matrix_beyond_reason_is_refused_before_it_is_expanded(most: str) -> None:
    levels = ", ".join(str(number) for number in range(1, 129))
    matrix = f"{{name: a, {most}, factors: {{streams: [{levels}]}}}}"
    with pytest.raises(BadInput, match="128000 runs in one matrix"):
        expand(written(f"name: x\ntitle: x\nmatrices: [{matrix}]\n"))


UNTIL = "repetitions: 6\n    until: {halfwidth: 5%, of: goodput, most: 8}"


def test_a_stopping_rule_begins_with_a_block_of_its_own() -> None:
    experiment = changed("repetitions: 3", UNTIL)
    assert experiment.matrices[0].until == experiments.StoppingRule(0.05, "goodput", 8, 6)
    assert experiments.stopping_rules(experiment) == {"main": experiment.matrices[0].until}
    assert experiments.stopping_rules(experiment, quick=True) == {}
    assert Counter(run.matrix for run in expand(experiment)) == {"main": 24, "other": 1}
    assert len(expand(experiment, quick=True)) == 2
    first_block = changed("repetitions: 3", "until: {halfwidth: 2.5%, most: 30, least: 9}")
    assert first_block.matrices[0].repetitions == 9


def test_cells_with_more_repetitions_keep_the_others_order() -> None:
    experiment = changed("repetitions: 3", UNTIL)
    first = expand(experiment)
    cell = next(run.cell for run in first if run.cc == "bbr")
    longer = expand(experiment, repetitions_of={cell: 8})
    assert longer[: len(first)] == first
    more = [(run.cell, run.repetition, run.seed) for run in longer[len(first) :]]
    assert more == [(cell, 7, 1007), (cell, 8, 1008)]


def test_a_missing_experiment_is_refused_with_what_there_is() -> None:
    said = refusal(lambda: load_experiment("thesis-tunel"))
    assert said.startswith('experiment "thesis-tunel": ') and "mean thesis-tunnel?" in said
    assert "no such file" in refusal(lambda: load_experiment("./nowhere.yaml"))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("0.1%", "0.1%"),
        (4, "4"),
        ({"client": "bbr", "target": "cubic"}, "client bbr, target cubic"),
        ({"rmem": ["4KiB", "6MiB"]}, "rmem 4KiB 6MiB"),
    ],
)
def test_a_level_is_shown_without_yamls_brackets(written: Any, shown: str) -> None:
    assert show_level(written) == shown


DRAWN = """name: drawn
title: Drawn
settings: {profile: plain-100ms}
reasons: {machine: It is another machine.}
matrices:
  - name: main
    factors: {cc: [cubic, bbr], loss: [0%, 1%]}
    draw: [bars, heatmap: [loss, cc]]
published: [{matrix: main, goodput_mbit: 5, source: here, why: machine}]
"""


NUMBER = "{matrix: main, factors: {cc: cubic, loss: 0.1%}, goodput_mbit: 1, source: s}"
PUBLISHED = f"{SMALL}published:\n  - {NUMBER}\n"
HEATMAP = "heatmap: [loss, cc]"
TEXTS = {"small": SMALL, "named": NAMED, "published": PUBLISHED, "drawn": DRAWN}
REFUSED = {
    "small": [
        ("duration: 10s", "duraton: 10s", "small.yaml:5: settings.duraton: unknown key (did you"),
        ("cc: [cubic, bbr]", "cc: [cubic, bbq]", 'cc[1] "bbq": not known here (did you mean bbr?)'),
        ("cc: [cubic, bbr]", "colour: [red]", "small.yaml:10: matrices[0].factors.colour:"),
        ("cc: [cubic, bbr]", "cc: cubic", "small.yaml:10: matrices[0].factors.cc: a value where"),
        ("cc: [cubic, bbr]", "cc: []", "small.yaml:10: matrices[0].factors.cc: at least 1 should"),
        ("0.1%]", "101%]", 'small.yaml:11: matrices[0].factors.loss[1] "101%": more than 100%'),
        ("0.1%]", "0.0%]", 'small.yaml:11: matrices[0].factors.loss[1] "0.0%": the same level'),
        ("duration: 10s", "duration: 0.5s", 'small.yaml:5: settings.duration "0.5s": not between'),
        ("duration: 10s", "duration: 99999999s", '"99999999s": longer than any run'),
        ("streams: 4", "streams: 4001", 'settings.streams "4001": not within 1 to 4000'),
        ("streams: 4", "cc: reno", "small.yaml:8: matrices[0].settings.cc: both a setting and a"),
        ("repetitions: 3", "repetitions: 0", 'repetitions "0": not within 1 to 1000'),
        ("factors: {loss: [0%]}", "factors: {rate: [1mbit]}", "quick changes rate, which is no"),
        ("{skip: true}", "{skip: yes}", 'small.yaml:18: matrices[1].quick.skip "yes": not known'),
        ("name: other", "name: main", "small.yaml:16: matrices[1]: a second matrix called main"),
        ("name: small", "name: ../small", 'small.yaml:1: name "../small": a name has lower-case'),
        ("title: A small one\n", "", "small.yaml:1: title is missing"),
        ("profile: la-hamina", "profile: la-hamin", 'profile "la-hamin": not in netem_profiles/'),
        ("profile: la-hamina", "rate: unlimited", "the forward direction has no rate limit"),
        ("profile: la-hamina", "loss: 5ms", 'loss "5ms": not a number with %'),
        ("profile: la-hamina", "policer: 5", "settings.policer: neither off nor like {rate: 10mb"),
        ("profile: la-hamina", "outage: 5", "settings.outage: neither off nor like {at: 10s, for"),
        ("title: A small one", "\t", "small.yaml:2: not YAML: a tab where spaces should be"),
        *(
            ("repetitions: 3", f"until: {until}", message)
            for until, message in (
                ("{most: 30}", "matrices[0].until: halfwidth is missing"),
                ("{halfwidth: 5%}", "matrices[0].until: most is missing"),
                (
                    "{halfwidth: 0%, most: 30}",
                    'until.halfwidth "0%": not between 0% and 100% of the',
                ),
                (
                    "{halfwidth: 100%, most: 30}",
                    'until.halfwidth "100%": not between 0% and 100% of the',
                ),
                ("{halfwidth: 5%, most: 5}", 'until.most "5": not within 6 to 1000'),
                ("{halfwidth: 5%, most: 30, least: 3}", 'until.least "3": not within 6 to 1000'),
                (
                    "{halfwidth: 5%, most: 8, least: 9}",
                    "matrices[0].until: least is 9, more than most, 8",
                ),
                ("{halfwidth: 5%, most: 30, of: rtt}", 'until.of "rtt": not known here'),
                ("{halfwidth: 5%, most: 30, til: 9}", "matrices[0].until.til: unknown key"),
                ("5%", "matrices[0].until: a value where a mapping (key: value) should be"),
                ("{halfwidth: 5%, most: 30}\n    repetitions: 3", "first block: not within 6"),
                ("{halfwidth: 5%, most: 8}\n    repetitions: 9", "not within 6 and its most, 8"),
            )
        ),
    ],
    "named": [
        ("sets: forward.loss", "sets: forward.los", 'sets "forward.los": nothing that can be set'),
        ("sets: forward.loss", "sets: streams", "a factor that is called loss sets loss, or one"),
        (
            "      loss: ",
            "      a: {sets: cc.client, levels: [reno]}\n      loss: ",
            "by the factor a",
        ),
        ("sets: cc.client, ", "", "sender: sets is missing"),
        ("loss: [2%]", "los: [2%]", "quick changes los, which is no factor of main"),
    ],
    "published": [
        ("matrix: main, f", "matrix: man, f", "no such matrix"),
        ("cc: cubic, l", "streams: 4, l", "published[0].factors.streams: unknown key"),
        ("goodput_mbit: 1, ", "", "nothing to compare with"),
        ("goodput_mbit: 1, ", "figure: jain, ", "nothing to compare with"),
        (NUMBER, "{columns: [cc]}", "published[0]: rows is missing"),
        (NUMBER, "{columns: [cc], rows: [[bbr, 1]]}", "2 values under 1 columns"),
        ("goodput_mbit: 1, ", "figure: speed, value: 1, ", "not known here"),
        ("goodput_mbit: 1, ", "figure: ratio, value: 1, ", "figure ratio needs versus"),
        ("goodput_mbit: 1, ", "goodput_mbit: 1, least: 1, ", "least and most belong to a figure"),
    ],
    "drawn": [
        (HEATMAP, "heatmap: [loss, cost]", 'heatmap over "cost": no factor of main (known: cc, l'),
        (HEATMAP, "heatmap: [loss, los]", "no factor of main (did you mean loss?)"),
        (HEATMAP, "heatmap: [loss]", "heatmap: not two factors, across and down (like [loss, cc])"),
        (HEATMAP, "heatmap: [cc, cc]", "not two factors"),
        (HEATMAP, "bars: [loss, cc]", "bars takes no factors (write bars alone)"),
        (HEATMAP, "heatmop: [loss, cc]", "no such drawing (did you mean heatmap?)"),
        (HEATMAP, '"heatmap(loss, cc)"', "over two factors: heatmap: [loss, cc]"),
        (HEATMAP, "heatmap(loss, cc)", "over two factors: heatmap: [loss, cc]"),
        ("why: machine", "why: machin", "did you mean machine"),
    ],
}


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [(name, *row) for name, rows in REFUSED.items() for row in rows],
)
def test_bad_input_names_file_line_and_key(name: str, old: str, new: str, message: str) -> None:
    assert old in TEXTS[name]
    assert message in refusal(lambda: expand(written(TEXTS[name].replace(old, new, 1))))


def test_published_numbers_belong_to_a_matrix_and_its_factors() -> None:
    [number] = written(PUBLISHED).published
    assert number.goodput_mbit == 1
    assert (number.matrix, number.factors) == ("main", {"cc": "cubic", "loss": "0.1%"})


def test_a_heatmap_may_name_its_two_factors() -> None:
    assert written(DRAWN).matrices[0].draw == ("bars", "heatmap(loss, cc)")


def test_why_is_a_reason_s_name_or_the_reason_itself() -> None:
    assert written(DRAWN).published[0].why == "It is another machine."
    unexplained = written(DRAWN.replace("why: machine", "why: unexplained"))
    assert unexplained.published[0].why == "unexplained"
