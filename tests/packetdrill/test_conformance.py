# SPDX-License-Identifier: MIT
"""Linux's own packetdrill scripts in the sandbox; what can go wrong before they run."""

import json
import lzma
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gostlab.errors import BadInput
from gostlab.packetdrill import extract_scripts
from gostlab.packetdrill.conformance import (
    ConformanceOptions,
    ScriptResult,
    explain_failure,
    read_rows,
)
from tests.lab_command import ROOT, Typed

SHIPPED = ROOT.parent / "shared" / "packetdrill" / "packetdrill-linux-amd64.xz"


@pytest.fixture
def packetdrill() -> Iterator[Path]:
    """The program in /tmp itself, which a guest has one of its own of."""
    if not SHIPPED.exists():
        pytest.skip("no packetdrill")
    handle, name = tempfile.mkstemp(prefix="packetdrill-")
    os.close(handle)
    program = Path(name)
    program.write_bytes(lzma.decompress(SHIPPED.read_bytes()))
    program.chmod(0o755)
    yield program
    program.unlink()


@pytest.fixture
def order(tmp_path: Path) -> ConformanceOptions:
    (tmp_path / "one.pkt").write_text("`sysctl -q net.ipv4.tcp_syncookies=2`\n")
    (tmp_path / "two.pkt").write_text("--ip_version=ipv4\n")
    return ConformanceOptions(
        "6.1", tmp_path, "6.1.9", tmp_path, tmp_path, "7.3.4", ["one.pkt", "two.pkt"]
    )


def test_what_a_guest_leaves_is_read_up_to_what_is_no_outcome(tmp_path: Path) -> None:
    row = {"name": "one.pkt", "passed": True, "said": ""}
    file = tmp_path / "found.jsonl"
    assert read_rows(file) == []
    for bad in ('{"name": 1}', "[1]", '{"name"', "\\", json.dumps(row | {"passed": "yes"})):
        file.write_text(f"{json.dumps(row)}\n{bad}\n{json.dumps(row)}\n")
        assert read_rows(file) == [row]
    file.unlink()
    os.mkfifo(file)
    assert read_rows(file) == []


@pytest.mark.parametrize(
    ("name", "said", "tolerant", "kind"),
    [
        ("one.pkt", "", False, "passed"),
        ("one.pkt", "cannot stat /proc/sys/net/ipv4/tcp_syncookies: No such", False, "options"),
        ("two.pkt", "two.pkt:7: timing error", True, "timing"),
        ("two.pkt", "two.pkt:7: bad value", False, "older"),
    ],
)
def test_a_failure_has_its_kind(
    order: ConformanceOptions, name: str, said: str, tolerant: bool, kind: str
) -> None:
    row = {"name": name, "passed": not said, "said": said}
    assert ScriptResult(name, not said, explain_failure(order, row, tolerant)).category == kind


def test_scripts_are_chosen_by_name_or_by_their_beginning(order: ConformanceOptions) -> None:
    assert extract_scripts.select_scripts(order.scripts, []) == ["one.pkt", "two.pkt"]
    assert extract_scripts.select_scripts(order.scripts, ["tw", "one.pkt"]) == [
        "two.pkt",
        "one.pkt",
    ]
    with pytest.raises(BadInput, match="no such script"):
        extract_scripts.select_scripts(order.scripts, ["three"])


@pytest.mark.sandbox
def test_the_sandbox_s_tcp_is_linux_s_own(packetdrill: Path, tmp_path: Path, typed: Typed) -> None:
    """Some of each kind: tools/results_pages/site_pages/validation.md has the rest."""
    slow_start = [f"tcp_slow_start_slow-start-{each}" for each in ("ack-per-1", "after-idle")]
    names = [
        *slow_start,
        "tcp_fast_recovery",
        "tcp_sack_sack-shift-sacked-7-3",
        "tcp_advmss_pmtu_ipv4",
    ]
    asked = ("conform", *names, "--packetdrill", packetdrill, "--results", tmp_path)

    done = typed(*asked, "--json")
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)
    kinds = [(each["name"], each["why"].partition(":")[0]) for each in found["found"]]
    assert sum(not kind for _, kind in kinds) >= 6
    assert {kind for _, kind in kinds} == {"", "timing", "Linux"}
    # What is known is not run again.
    again = typed(*asked)
    assert again.returncode == 0 and "shipped (7.3" in again.stdout
