"""The lab's own iperf3s: found, tried, and never something else."""

import json
from pathlib import Path

import pytest

from gostlab.declared.iperf3_versions import OWN
from gostlab.setup import parts
from gostlab.setup.iperf3_fetch import provide_iperf3
from gostlab.setup.workbench import SetupError, Workbench
from tests.setup.programs import program


def unpacked(cache: Path, version: str, says: str) -> None:
    """An iperf3 where the set-up puts it."""
    folder = cache / "iperf3" / version
    program(folder / "iperf3", says)
    (folder / "iperf3.json").write_text(json.dumps({"version": f"{version}-1", "sha256": "01"}))


def test_what_is_there_and_runs_is_not_fetched_again(bench: Workbench) -> None:
    for version in OWN:
        unpacked(bench.cache, version, f"iperf {version} (cJSON 1.7.15)")

    assert provide_iperf3(bench) == "3.18-1, 3.12-1, 3.9-1, private to the lab"
    assert list(parts.find_iperf3s(bench.cache)) == ["3.18", "3.12", "3.9"]


def test_another_version_in_its_place_is_not_taken_for_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gostlab.setup.archive.find_mirror", lambda: None)
    for version in OWN:
        unpacked(bench.cache, version, "iperf 3.12 (cJSON 1.7.15)")

    with pytest.raises(SetupError, match=r"^iperf3 3\.18: there is no Debian mirror.*: system$"):
        provide_iperf3(bench)


def test_the_set_up_is_whole_without_one_that_debian_has_no_more(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gostlab.setup.archive.find_mirror", lambda: None)
    for version, kind in OWN.items():
        if not kind.may_lack:
            unpacked(bench.cache, version, f"iperf {version} (cJSON 1.7.15)")

    assert provide_iperf3(bench) == "3.18-1, 3.12-1, private to the lab"
    assert list(parts.find_iperf3s(bench.cache)) == ["3.18", "3.12"]


def test_one_without_a_record_is_not_there(bench: Workbench) -> None:
    unpacked(bench.cache, "3.18", "iperf 3.18")
    (bench.cache / "iperf3" / "3.18" / "iperf3.json").unlink()

    assert parts.find_iperf3s(bench.cache) == {}
