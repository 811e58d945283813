# SPDX-License-Identifier: MIT
"""The lab's own iperf3s: found, tried, and never something else."""

import json
from pathlib import Path

import pytest

from gostlab.install import locate
from gostlab.install.build_env import InstallContext, SetupError
from gostlab.install.deb_extract import provide_iperf3
from gostlab.registry.iperf3_versions import OWN
from tests.install.programs import program


def unpacked(cache: Path, version: str, says: str) -> None:
    """An iperf3 where the set-up puts it."""
    folder = cache / "iperf3" / version
    program(folder / "iperf3", says)
    record = {"version": f"{version}-1", "linking": locate.LINKING, "sha256": "01"}
    (folder / "iperf3.json").write_text(json.dumps(record))


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
    bench: InstallContext, monkeypatch: pytest.MonkeyPatch, says: str, lacks: str, said: str
) -> None:
    monkeypatch.setattr("gostlab.install.apt.find_mirror", lambda: None)
    for version in OWN:
        unpacked(bench.cache, version, f"iperf {says or version} (cJSON 1.7.15)")
        if version == lacks:  # without a record it is not there
            (bench.cache / "iperf3" / version / "iperf3.json").unlink()

    assert list(locate.find_iperf3s(bench.cache)) == [each for each in OWN if each != lacks]
    if said.startswith("^"):
        with pytest.raises(SetupError, match=said):
            provide_iperf3(bench)
    else:
        assert provide_iperf3(bench) == said
