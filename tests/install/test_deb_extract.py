# SPDX-License-Identifier: MIT
"""The tunnels' programs: the machine's first, else the lab's own, and never half of one."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gostlab.install import apt as archive
from gostlab.install import deb_extract, locate
from gostlab.install.build_env import InstallContext, SetupError
from gostlab.registry.tunnels import tunnel_kind
from tests.install.programs import program


def unpack(cache: Path, package: str, version: str, *names: str) -> Path:
    """A package's programs where the set-up puts them."""
    folder = cache / "programs" / package / version
    for name in names:
        program(folder / "bin" / name, f"{name} 1.2.3")
    digests = dict.fromkeys(names, "01")
    record = {"version": version, "linking": locate.LINKING, "sha256": digests}
    (folder / "package.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


@pytest.fixture
def bench(bench: InstallContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstallContext:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(locate, "SYSTEM_PATH", str(tmp_path / "bin"))
    return bench


def test_a_program_of_the_labs_own_runs_where_the_machine_has_none(bench: InstallContext) -> None:
    unpack(bench.cache, "wireguard-tools", "1.0-1", "wg")

    own = locate.find_programs(bench.cache)
    found = locate.tunnel_program(tunnel_kind("wireguard"), None, own)

    assert found is not None and (found.program, found.sha256) == ("wg", "01")
    assert locate.tunnel_program(tunnel_kind("openvpn+udp"), None, own) is None


def test_the_machines_own_goes_first(bench: InstallContext, tmp_path: Path) -> None:
    unpack(bench.cache, "wireguard-tools", "1.0-1", "wg")
    program(tmp_path / "bin/wg", "wireguard-tools v9.8")

    own = locate.find_programs(bench.cache)
    found = locate.tunnel_program(tunnel_kind("wireguard"), None, own)

    assert found is not None and found.version == "wg 9.8"


def test_what_has_no_record_is_half_unpacked_and_not_there(bench: InstallContext) -> None:
    (unpack(bench.cache, "wireguard-tools", "1.0-1", "wg") / "package.json").unlink()

    assert locate.find_programs(bench.cache) == {}


def test_without_a_mirror_it_names_what_to_install_and_goes_on(
    bench: InstallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "find_mirror", lambda: None)

    said = deb_extract.provide_programs(bench)

    assert said.startswith("no Debian mirror to take ") and "openvpn" in said and "wg" in said


def test_of_what_a_package_depends_on_the_libraries_are_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {
        "depends": "openvpn\n  Depends: libc6\n  Depends: debconf\nlibc6\ndebconf\n<virtual>\n",
        "show": "Package: libc6\nVersion: 1\nSection: libs\n\nPackage: debconf\nSection: admin\n",
    }

    def run(_self: Any, _program: str, verb: str, *_: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, said[verb], "")

    monkeypatch.setattr(archive.PrivateApt, "_run", run)
    apt = object.__new__(archive.PrivateApt)

    assert apt.with_libraries(["openvpn"]) == ["openvpn", "libc6"]
    with pytest.raises(archive.ArchiveError, match="does not have no-such"):
        apt.with_libraries(["no-such"])


def test_a_script_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "link").symlink_to("/bin/sh")

    assert not deb_extract.is_program(tmp_path / "script")
    assert not deb_extract.is_program(tmp_path / "link")
    assert deb_extract.is_program(Path("/bin/sh").resolve())


@pytest.mark.skipif(not shutil.which("patchelf"), reason="patchelf is missing")
def test_a_file_whose_libraries_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(locate.ELF + bytes(100))

    with pytest.raises(SetupError, match="damaged: patchelf: "):
        deb_extract.needed_libraries([tmp_path / "damaged"], {})


def test_what_was_unpacked_otherwise_is_not_there(bench: InstallContext) -> None:
    record = unpack(bench.cache, "wireguard-tools", "1.0-1", "wg") / "package.json"
    record.write_text(json.dumps({"version": "1.0-1", "sha256": {"wg": "01"}}), encoding="utf-8")

    assert locate.find_programs(bench.cache) == {}


@pytest.mark.skipif(not shutil.which("patchelf"), reason="patchelf is missing")
def test_a_program_finds_its_libraries_without_a_look_at_the_cpu(tmp_path: Path) -> None:
    """The loader would search one folder more where the CPU has AVX-512."""
    source, lib = Path(shutil.which("ls") or ""), tmp_path / "lib"
    lib.mkdir()
    loaded = subprocess.run(["ldd", source], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"/\S+(?= \()", loaded):
        shutil.copy(path, lib)
    copy = Path(shutil.copy(source, tmp_path / "ls"))
    libraries = sorted(path.name for path in lib.iterdir())

    deb_extract.set_loader(copy, lib, lib, tmp_path / "log")

    environ = {"LD_DEBUG": "libs", "PATH": "/nowhere"}
    done = subprocess.run([copy, lib], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == libraries
    assert str(lib / "libc.so.6") in done.stderr
    assert "glibc-hwcaps" not in done.stderr
    assert "search path" not in done.stderr
