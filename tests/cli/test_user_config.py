# SPDX-License-Identifier: MIT
"""The user's defaults of options: where they are looked for, what they do, what is refused."""

from pathlib import Path

import pytest

from gostlab.cli import user_config
from gostlab.cli.common import RESULTS
from gostlab.cli.main import build_parser
from tests.lab_command import Refused


@pytest.fixture
def config(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a user's defaults in this folder."""
    file = here / "gostlab/config.yaml"
    file.parent.mkdir()
    monkeypatch.delenv("GOSTLAB_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here))
    return file


def test_a_default_is_that_of_every_verb_that_has_the_option(config: Path) -> None:
    config.write_text("results: ~/lab\njobs: 3\nquiet: true\n")
    for words in (["try"], ["run", "li2018"]):
        arguments = build_parser(words[0], user_defaults=True).parse_args(words)
        assert (arguments.jobs, arguments.quiet) == (3, True)
        assert arguments.results == Path("~/lab").expanduser()
    assert build_parser("labs", user_defaults=True).parse_args(["labs"])


def test_the_command_line_wins_and_a_parser_for_pages_has_none(config: Path) -> None:
    config.write_text("jobs: 3\n")
    assert build_parser("try", user_defaults=True).parse_args(["try", "--jobs", "1"]).jobs == 1
    assert build_parser("try").parse_args(["try"]).jobs is None


def test_an_empty_name_is_no_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("results: elsewhere\n")
    monkeypatch.setenv("GOSTLAB_CONFIG", "")
    assert build_parser("try", user_defaults=True).parse_args(["try"]).results == RESULTS


def test_without_a_home_there_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOSTLAB_CONFIG", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(user_config, "home", lambda: Path("/nonexistent"))
    assert user_config.config_file() is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("jobs: 0", ["config.yaml:1: jobs", "at least 1"]),
        ("quiet: true\njobs: many", ["config.yaml:2: jobs", "many"]),
        ("quiet: perhaps", ["config.yaml:1: quiet", "neither true nor false"]),
        ("machine: cloud", ["config.yaml:1: machine", "native, sandbox, auto"]),
        ("results: [a, b]", ["config.yaml:1: results", "a list"]),
        ("rate: 100mbit", ["config.yaml:1: rate", "unknown key"]),
        ("result: x", ["config.yaml:1: result", "did you mean results?"]),
        ("jobs: 1\njobs: 2", ["config.yaml:2"]),
    ],
)
def test_a_wrong_default_is_refused_with_its_line(
    config: Path, refused: Refused, text: str, parts: list[str]
) -> None:
    config.write_text(text)
    told = refused("try", "--dry-run")
    assert [part for part in parts if part not in told] == []


def test_a_file_that_is_named_must_be_there(
    config: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.setenv("GOSTLAB_CONFIG", "/nowhere/config.yaml")
    assert "/nowhere/config.yaml" in refused("try", "--dry-run")
