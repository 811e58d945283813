"""The lab's own iperf3s: found, tried, and never something else."""

import json
from pathlib import Path

import pytest

from gostlab.declared.iperf3_versions import OWN
from gostlab.setup import parts
from gostlab.setup.unpacked import provide_iperf3
from gostlab.setup.workbench import SetupError, Workbench
from tests.setup.programs import program


def unpacked(cache: Path, version: str, says: str) -> None:
    """An iperf3 where the set-up puts it."""
    folder = cache / "iperf3" / version
    program(folder / "iperf3", says)
    (folder / "iperf3.json").write_text(json.dumps({"version": f"{version}-1", "sha256": "01"}))


@pytest.mark.parametrize(
    ("says", "lacks", "said"),
    [
        ("", "", "3.18-1, 3.12-1, 3.9-1, private to the lab"),
        ("", "3.9", "3.18-1, 3.12-1, private to the lab"),  # which Debian has no more some day
        ("", "3.12", r"^iperf3 3\.12: there is no Debian mirror.*: system$"),
        ("3.12", "", r"^iperf3 3\.18: there is no Debian mirror.*: system$"),  # another version
    ],
)
def test_what_is_there_and_runs_is_not_fetched_again_and_an_old_one_may_lack(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, says: str, lacks: str, said: str
) -> None:
    monkeypatch.setattr("gostlab.setup.archive.find_mirror", lambda: None)
    for version in OWN:
        unpacked(bench.cache, version, f"iperf {says or version} (cJSON 1.7.15)")
        if version == lacks:  # without a record it is not there
            (bench.cache / "iperf3" / version / "iperf3.json").unlink()

    assert list(parts.find_iperf3s(bench.cache)) == [each for each in OWN if each != lacks]
    if said.startswith("^"):
        with pytest.raises(SetupError, match=said):
            provide_iperf3(bench)
    else:
        assert provide_iperf3(bench) == said
