# SPDX-License-Identifier: MIT
"""Congestion controls as an experiment writes them, and those that are C files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab.errors import BadInput
from gostlab.install.kernel_modules import save_user_control
from gostlab.registry import congestion_controls
from gostlab.registry.congestion_controls import ControlFile, parse_control
from gostlab.registry.folders import CONTROLS, ROOT
from gostlab.spec.settings import read_override
from tests.asked import refusal, run_of


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with one congestion control of the user's."""
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path))
    folder = tmp_path / "cc/mycc"
    folder.mkdir(parents=True)
    record = {
        "name": "mycc",
        "registers": "mycc",
        "parameters": ["alpha", "beta"],
        "sha256": "ab" * 32,
        "origin": "/home/u/my_cc.c",
    }
    (folder / "mycc.c").write_text("/* mine */\n", encoding="utf-8")
    (folder / "control.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("cubic", "cubic"),
        ("mycc(alpha=3)", "mycc(alpha=3)"),
        ("mycc( beta = 7 ; alpha=3 )", "mycc(alpha=3,beta=7)"),
    ],
)
def test_parameters_have_one_form(written: str, meant: str) -> None:
    assert str(parse_control(written)) == meant


@pytest.mark.parametrize("written", ["", "my cc", "mycc(alpha)", "mycc(a=1;a=2)", "x" * 16])
def test_what_is_no_congestion_control_is_refused(written: str) -> None:
    with pytest.raises(BadInput):
        parse_control(written)


def test_the_kernel_knows_each_set_of_parameters_by_a_name_of_its_own() -> None:
    names = {
        parse_control(cc).kernel_name for cc in ("my", "my(a=1)", "my(a=2)", "a" * 15 + "(a=1)")
    }
    assert len(names) == 4 and all(len(name) <= 15 for name in names)


def test_a_mapping_says_the_same_as_parentheses(mine: Path) -> None:
    [one] = read_override("cc", "{mycc: {alpha: 3}}")
    [other] = read_override("cc", '"mycc(alpha=3)"')
    assert (one.value, one.written) == (other.value, other.written) == ("mycc(alpha=3)",) * 2
    [ends] = read_override("cc", "{client: {mycc: {alpha: 3}}, target: bbr}")
    assert ends.value == {"client": "mycc(alpha=3)", "target": "bbr"}


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("mycc(gamma=1)", "mycc has no parameter gamma (it has alpha, beta)"),
        ("cubic(alpha=1)", "one of Linux's own, which are taken as they are"),
        ("mycd", "not known here (did you mean mycc?)"),
    ],
)
def test_an_unknown_control_or_parameter_is_named(mine: Path, written: str, why: str) -> None:
    assert why in refusal(lambda: read_override("cc", f'"{written}"'))


def test_a_run_with_your_own_control_is_another_run_when_its_file_has_changed(mine: Path) -> None:
    before = run_of(cc="mycc")
    assert before.own_cc == {"mycc": "ab" * 6}
    record = json.loads((mine / "control.json").read_text())
    (mine / "control.json").write_text(json.dumps(record | {"sha256": "cd" * 32}))
    assert run_of(cc="mycc").name != before.name


def test_results_are_read_where_their_control_is_not_known() -> None:
    with congestion_controls.accept_unknown_controls():
        [level] = read_override("cc", '"stranger(alpha=3)"')
    assert level.value == "stranger(alpha=3)"


def test_the_labs_own_controls_are_declared_by_their_files() -> None:
    found = congestion_controls.shipped_controls()
    assert {"bbr2", "bbr3", "bbrplus", "fixedrate"} <= set(found)
    assert found["bbr3"].source == found["bbr2"].source
    assert "loss_permille" in found["bbr3"].parameters


def test_every_file_in_cc_says_its_licence() -> None:
    for path in CONTROLS.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "Identifier: GPL-2.0 OR MIT" in text, path.name
        assert path.suffix != ".c" or path.name == "gostlab_module.c" or "Dual MIT/GPL" in text


def test_every_control_is_explained() -> None:
    text = (ROOT / "docs/reference/congestion-controls.md").read_text(encoding="utf-8")
    for name in (*congestion_controls.IN_LINUX, *congestion_controls.shipped_controls()):
        assert f"| `{name}` |" in text, name


def test_a_saved_control_is_read_back_as_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path))
    source = b"// no control\n"
    given = ControlFile(
        "mine", "mycc", tmp_path / "x.c", ("alpha",), "0" * 64, is_user_supplied=True
    )
    saved = save_user_control(given, source)
    assert saved.source.read_bytes() == source
    assert replace(saved, source=given.source) == given
