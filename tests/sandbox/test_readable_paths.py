# SPDX-License-Identifier: MIT
"""What root's sandbox may read of the host's files: a folder without secrets whole, others in
parts.
"""

from pathlib import Path

import pytest

from gostlab.sandbox import readable_paths
from gostlab.sandbox.readable_paths import paths_in_commands, public_paths, readable_as_root
from gostlab.spec import command_files
from tests.sandboxed import describe, flow


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder that has a file, and a folder, which others may not read."""
    for name, mode in {
        "a/b/c": 0o644,
        "a/d": 0o755,
        "e/f": 0o644,
        "e/key": 0o640,
        "g/h": 0o644,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        path.chmod(mode)
    (tmp_path / "g").chmod(0o700)
    (tmp_path / "e/link").symlink_to("key")
    tmp_path.chmod(0o755)
    return tmp_path


def test_a_folder_with_a_secret_is_allowed_entry_by_entry(mixed: Path) -> None:
    assert public_paths(mixed) == [mixed / "a", mixed / "e/f"]
    assert public_paths(mixed / "a") == [mixed / "a"]
    assert public_paths(mixed / "g") == [] == public_paths(mixed / "not-there")


def test_the_systems_secrets_are_in_nothing_that_may_be_read() -> None:
    allowed = readable_as_root([])
    for secret in (
        "/etc/shadow",
        "/etc/gshadow",
        "/root",
        "/root/.ssh",
        "/proc/1",
        "/home",
        "/var",
    ):
        assert not any(map(Path(secret).is_relative_to, allowed))
    assert any(map(Path("/etc/passwd").is_relative_to, allowed))
    assert any(map(Path("/usr/bin/python3").resolve().is_relative_to, allowed))


def test_a_runs_own_programs_may_read_what_their_words_name_and_others_may(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_files, "GUEST_MOUNTS", ("/proc",))
    words = {"server": f"{mixed}/a/d -x /etc/shadow", "client": f"F={mixed}/e; cat /root /proc/1 /"}
    run = describe(flows=[flow(kind="command", **words)])

    monkeypatch.setattr(readable_paths, "is_reachable", lambda _: True)
    assert set(paths_in_commands(run)) == {mixed / "a/d", mixed / "e/f"}
    monkeypatch.setattr(readable_paths, "is_reachable", lambda _: False)
    assert paths_in_commands(run) == [mixed / "a/d"]


def test_what_lies_in_a_closed_folder_is_out_of_reach(mixed: Path) -> None:
    assert not readable_paths.is_reachable(mixed / "g/h")
    assert readable_paths.is_reachable(Path("/usr/bin"))
