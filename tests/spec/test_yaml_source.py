# SPDX-License-Identifier: MIT
"""YAML files are read with their lines, and refused in a sentence with file, line and key."""

import os
from pathlib import Path

import pytest

from gostlab.spec.units import RATE_PATTERN, parse_rate
from gostlab.spec.yaml_source import (
    MAX_BYTES,
    BadInput,
    KeySchema,
    Node,
    decimal,
    list_of,
    load_document,
    mapping_of,
    one_of,
    parse_document,
    quantity_reader,
    read_mapping,
    text_of,
    whole_number,
    yes_no,
)
from tests.asked import refusal

RATE = quantity_reader(parse_rate, RATE_PATTERN)
NAMED = {"x": KeySchema(text_of), "rate": KeySchema(RATE)}


def refused(text: str, **fields: KeySchema) -> str:
    """The line that refuses a text, or what is read of it."""
    return refusal(lambda: read_mapping(parse_document(text, "a.yaml"), fields))


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("x: 1\nratee: 1mbit\n", NAMED, "a.yaml:2: ratee: unknown key (did you mean rate?)"),
        ("x: 1\n", NAMED | {"y": KeySchema(RATE, required=True)}, "a.yaml:1: y is missing"),
        ("rate: 100\n", NAMED, 'a.yaml:1: rate "100": no unit (write 100mbit)'),
        ("[1]", NAMED, "a.yaml:1: a list where a mapping (key: value) should be"),
    ],
)
def test_what_a_table_of_fields_does_not_read_is_named(
    text: str, fields: dict[str, KeySchema], message: str
) -> None:
    assert refused(text, **fields) == message


def test_every_value_knows_its_line_and_key() -> None:
    document = parse_document("a: 1\nb:\n  - c: x\n    d: [p, q]\n", "a.yaml")
    [first] = mapping_of(document)["b"].items or ()
    places = [each.where for each in mapping_of(first)["d"].items or ()]
    assert places == ["a.yaml:4: b[0].d[0]", "a.yaml:4: b[0].d[1]"]


def test_scalars_stay_as_written() -> None:
    document = parse_document("a: off\nb: 1e3\nc: 12:30\nd: 010\ne: ~\nf: ''\n", "a.yaml")
    texts = [node.text for node in mapping_of(document).values()]
    assert texts == [*"off 1e3 12:30 010".split(), None, ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "a.yaml:3: a: written twice (first in line 1)"),
        ("a: &x [1]\nb: *x\n", "a.yaml:2: *x: YAML aliases are not read here (write the value"),
        ("a: !!python/object/apply:os.system [ls]\n", "YAML tags are not read here"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2: a second YAML document (one per file)"),
        ("? [a]\n: 1\n", "a.yaml:1: a mapping or list where a key should be"),
        ("[" * 100 + "]" * 100, "a.yaml:1: nested more than 12 deep"),
        ("a: 1\nb: [1\n", "a.yaml:3: not YAML: "),
        ("", "a.yaml: empty"),
        ("# only a comment\n", "a.yaml: empty"),
    ],
)
def test_what_yaml_allows_and_the_lab_does_not(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (whole_number(1, 10), "a: 11"),
        (whole_number(1, 10), "a: 1.0"),
        (whole_number(1, 10), "a: [1]"),
        (whole_number(1, 10), "a:"),
        (whole_number(1, 10), "a: ٣"),
        (whole_number(1, 10), "a: " + "9" * 5000),
        (whole_number(1, 10), "a: --1"),
        (one_of("x", "y"), "a: z"),
        (yes_no, "a: maybe"),
        (decimal, "a: 1,5"),
        (decimal, "a: 1e9"),
        (list_of(text_of), "a: x"),
        (list_of(text_of, least=1), "a: []"),
        (text_of, "a: {b: c}"),
        (text_of, "a: ''"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(read, text: str) -> None:
    assert refused(text, a=KeySchema(read)).startswith("a.yaml:1: a")


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_bytes(b"a" * (MAX_BYTES + 1))
    (tmp_path / "binary.yaml").write_bytes(b"a: 1\nb: \xff\n")
    (tmp_path / "nul.yaml").write_bytes(b"a: \x00\n")
    os.mkfifo(tmp_path / "pipe.yaml")
    for name, words in (
        ("big.yaml", "larger than"),
        ("binary.yaml", "binary.yaml:2: not UTF-8 text"),
        ("nul.yaml", "not YAML"),
        ("pipe.yaml", "not a file"),
        (".", "not a file"),
        ("none.yaml", "No such file"),
        ("a\0b", ""),
    ):
        with pytest.raises(BadInput, match=words):
            load_document(tmp_path / name)


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert refused('"\\e[31mred": 1\n', a=KeySchema(text_of)).isprintable()


def test_a_value_outside_a_file_has_no_line() -> None:
    assert Node("--set cc", None, "").bad("x").args == ("--set cc: x",)


@pytest.mark.parametrize("character", ["\0", "\x07", "\ud800", "\ufffe"])
def test_a_character_that_yaml_has_not_is_named_with_its_line(character: str) -> None:
    text = f"µ: é\nb: 1\nc: a{character}b\n"
    assert refused(text).startswith("a.yaml:3: not YAML: ")
