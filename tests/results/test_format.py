# SPDX-License-Identifier: MIT
"""The format of a result folder: the page says it, the code writes it, a check finds the rest."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from gostlab import results
from gostlab.guest.flow_result import JSON_KEYS, FlowResult
from gostlab.guest.probes import netlink
from gostlab.guest.probes.sampler import COUNTED, MARKED, TIMED
from gostlab.results.format import SCHEMA, FormatField, files
from gostlab.spec.compatible_json import key_of
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.verdict import Check
from tests.results.format_check import KINDS, complaints, kind_of

RUN, FLOWS, FIDELITY, LEGS, SOCKETS, QUEUES = (
    next(file.fields for file in files() if file.name == name)
    for name in "run.json flows.json fidelity.json legs.json sockets.jsonl queues.jsonl".split()
)


def names(table: Iterable[FormatField], prefix: str = "") -> set[str]:
    """The keys that a table has right below a prefix."""
    below = (each.path.removeprefix(prefix) for each in table if each.path.startswith(prefix))
    return {path.split(".")[0].removesuffix("[]") for path in below}


def of(cls: type, renamed: Mapping[str, str] = {}) -> set[str]:
    return {renamed.get(each.name, key_of(each)) for each in fields(cls)}


def test_what_the_lab_writes_is_in_the_tables() -> None:
    assert names(RUN) == of(RunSpec)
    assert names(RUN, "flows[].") == of(FlowSpec)
    assert names(FLOWS, "flows[].") == of(FlowResult, JSON_KEYS)
    assert names(FIDELITY, "checks[].") == of(Check, {"requested": "asked"})
    assert {"sockets", *COUNTED, *TIMED, *MARKED} < names(LEGS, "legs[].")
    said = {netlink.INET_DIAG_INFO: b"", netlink.INET_DIAG_BBRINFO: bytes(20)}
    sampled = netlink.parse_tcp_socket(netlink.SocketMessage(bytes(72), said))
    assert {*sampled, "t_s", "host", "flow", "leg", "end"} == names(SOCKETS)
    assert {*sampled["bbr"]} == names(SOCKETS, "bbr.")


def test_a_table_says_each_field_once_and_what_it_is() -> None:
    for file in files():
        assert len({each.path for each in file.fields}) == len(file.fields)
        assert all(each.says and kind_of(each) in KINDS for each in file.fields)


def finished(folder: Path, queue: dict[str, object], **status: object) -> list[str]:
    """The complaints of a run that failed, with one sample of a queue."""
    ended = {"outcome": "failed", "error": "x", "wall_s": 1.5, "guest_s": None, "finished": "2026"}
    (folder / "status.json").write_text(json.dumps(ended | status))
    (folder / "queues.jsonl").write_text(json.dumps(queue) + "\n")
    return [line for line in complaints(folder) if "run.json" not in line]


COUNTS = dict.fromkeys(("backlog_pkts", "backlog_bytes", "drops", "sent_pkts"), 0)
WHERE = {"node": "a", "dev": "a-eth0", "role": "delay", "direction": "forward"}
QUEUE: dict[str, object] = {"t_s": 1, **WHERE, **COUNTS, "sent_bytes": 2.0}


def test_a_folder_of_the_format_has_no_complaint(tmp_path: Path) -> None:
    assert finished(tmp_path, QUEUE) == []


@pytest.mark.parametrize(
    ("queue", "complaint"),
    [
        (QUEUE | {"ecn_marks": 0}, "'ecn_marks' was unexpected"),
        (QUEUE | {"t_s": "1"}, "t_s: '1' is not of type 'number'"),
        (QUEUE | {"drops": None}, "drops: None is not of type 'integer'"),
        (QUEUE | {"drops": 0.5}, "drops: 0.5 is not of type 'integer'"),
        ({key: QUEUE[key] for key in QUEUE if key != "dev"}, "'dev' is a required property"),
    ],
)
def test_a_field_that_is_not_what_the_table_says_is_told(
    tmp_path: Path, queue: dict[str, object], complaint: str
) -> None:
    [said] = finished(tmp_path, queue)
    assert said.startswith("queues.jsonl: ") and complaint in said


def test_files_that_are_unknown_missing_or_unreadable_are_told(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    (tmp_path / "iperf3-late-server.json").write_text("iperf3's own")
    (tmp_path / "legs.json").write_text("{")
    found = finished(tmp_path, QUEUE, outcome="ok")
    assert "notes.md: no file of the format" in found
    assert "hosts.jsonl is missing" in found and "acks.csv.gz is missing" not in found
    assert any(line.startswith("legs.json: cannot be read") for line in found)


def test_a_run_that_ends_says_the_format_s_number(tmp_path: Path) -> None:
    assert results.finish_run_folder(tmp_path, 1.0, "it was ended")["schema"] == SCHEMA
    assert [line for line in complaints(tmp_path) if line.startswith("status.json")] == []
