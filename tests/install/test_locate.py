# SPDX-License-Identifier: MIT
"""Where parts are looked for, and when one counts."""

import hashlib
import os
import pwd
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gostlab import Run
from gostlab.install import locate
from gostlab.registry import folders
from tests.install.programs import program
from tests.lab_command import said_by


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GOSTLAB_CACHE", str(folder))
    monkeypatch.delenv("GOSTLAB_KERNEL", raising=False)
    monkeypatch.setattr(locate, "SYSTEM_PATH", f"{tmp_path}/system/sbin:{tmp_path}/system/bin")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return folder


def test_cache_folder_is_named_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GOSTLAB_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert folders.cache_folder() == tmp_path / ".cache" / "gostlab"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert folders.cache_folder() == Path("/xdg/gostlab")
    monkeypatch.setenv("GOSTLAB_CACHE", "/elsewhere")
    assert folders.cache_folder() == Path("/elsewhere")


def test_under_sudo_the_callers_cache_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root, caller = tmp_path / "root", tmp_path / "caller"
    monkeypatch.delenv("GOSTLAB_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setenv("SUDO_USER", "ada")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", lambda _name: SimpleNamespace(pw_dir=str(caller)))
    assert folders.cache_folder() == root / ".cache" / "gostlab"
    (caller / ".cache" / "gostlab").mkdir(parents=True)
    assert folders.cache_folder() == caller / ".cache" / "gostlab"
    # Not for an ordinary user whose environment merely says so.
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert folders.cache_folder() == root / ".cache" / "gostlab"


def kernel_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kernel"
    for name in ("versions/7.3", "src/lib", "profiles"):
        (folder / name).mkdir(parents=True)
    (folder / "kconfig.fragment").write_text("CONFIG_HZ=250\n", encoding="utf-8")
    (folder / "versions/7.3/kernel.toml").write_text('package = "linux"\n', encoding="utf-8")
    (folder / "versions/7.3/series").write_text("7.3/a.patch\n", encoding="utf-8")
    (folder / "build.sh").write_text("make\n", encoding="utf-8")
    (folder / "versions/7.3/a.patch").write_text("why\ndiff --git a b\n+b\n", encoding="utf-8")
    (folder / "kernel-org.lock").write_text("version=1\n", encoding="utf-8")
    return folder


CHANGED = (
    *("kconfig.fragment", "build.sh", "src/lib/new.c", "versions/7.3/a.patch"),
    *("versions/7.3/kernel.toml", "profiles/linux-7.3.4-gcc-12.2.0.tar.xz"),
)


@pytest.mark.parametrize("changed", CHANGED)
def test_a_kernel_is_keyed_by_all_that_it_is_built_with(tmp_path: Path, changed: str) -> None:
    folder = kernel_folder(tmp_path)
    before = locate.kernel_inputs_hash(folder)
    (folder / changed).write_text('package = "another"\n', encoding="utf-8")
    assert locate.kernel_inputs_hash(folder) != before


def test_a_kernels_key_is_the_same_everywhere_and_leaves_the_lock_and_messages_out(
    tmp_path: Path,
) -> None:
    one, other = kernel_folder(tmp_path / "one"), kernel_folder(tmp_path / "other")
    (other / "kernel-org.lock").write_text("version=2\n", encoding="utf-8")
    (other / "versions/7.3/a.patch").write_text("because\ndiff --git a b\n+b\n")
    assert locate.kernel_inputs_hash(one) == locate.kernel_inputs_hash(other)


def test_the_relays_key_leaves_its_tests_out(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text("package main\n", encoding="utf-8")
    before = locate.relay_inputs_hash(tmp_path)
    (tmp_path / "main_test.go").write_text("package main\n", encoding="utf-8")
    assert locate.relay_inputs_hash(tmp_path) == before
    (tmp_path / "go.sum").write_text("x\n", encoding="utf-8")
    assert locate.relay_inputs_hash(tmp_path) != before


def test_nothing_there_is_no_error_until_it_is_needed(cache: Path) -> None:
    found = locate.find_parts()
    assert (found.kernel, found.relay, found.gost, found.iproute2.dirs) == (None, None, None, ())
    with pytest.raises(locate.MissingPart, match=r"kernel is missing: run \./lab setup"):
        locate.require_kernel(found)
    with pytest.raises(locate.MissingPart, match=r"run \./lab setup"):
        locate.tunnel_binary(found)
    assert not cache.exists()


def test_the_newest_kernel_of_todays_inputs_is_taken(cache: Path) -> None:
    key = locate.kernel_inputs_hash()
    for name in (f"7.3.4-{key}", f"7.10.1-{key}", "8.0.0-ffffffffffff", f"9.0.0-{key}.part"):
        program(cache / "kernel" / name / "linux", name.split("-")[0])
        (cache / "kernel" / name / locate.HEADERS).touch()
    found = locate.find_parts()
    assert locate.require_kernel(found) == cache / "kernel" / f"7.10.1-{key}" / "linux"
    assert found.kernel_version == "7.10.1"


def test_a_kernel_that_is_named_is_taken_if_it_runs(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = program(cache / "mine", "7.9.1")
    monkeypatch.setenv("GOSTLAB_KERNEL", str(mine))
    assert (locate.find_parts().kernel, locate.find_parts().kernel_version) == (mine, "7.9.1")
    monkeypatch.setenv("GOSTLAB_KERNEL", "/nonexistent")
    with pytest.raises(locate.MissingPart, match="GOSTLAB_KERNEL names /nonexistent"):
        locate.require_kernel(locate.find_parts())


def put_iproute2(folder: Path, version: str) -> None:
    for name in ("sbin/tc", "bin/ip", "bin/ss"):
        program(folder / name, f"{Path(name).name} utility, iproute2-{version}, libbpf 1.1.2")


def test_the_systems_iproute2_is_used_where_it_is_new_enough(cache: Path) -> None:
    put_iproute2(cache.parent / "system", "6.15.0")
    put_iproute2(cache / "iproute2" / "7.2.0", "7.2.0")
    found = locate.find_parts().iproute2
    assert (found.version, found.dirs, found.tc_lib_dir) == ("6.15.0", (), None)


def test_the_private_iproute2_stands_in_for_an_old_one(cache: Path) -> None:
    put_iproute2(cache.parent / "system", "6.1.0")
    folder = cache / "iproute2" / "6.15.0"
    put_iproute2(folder, "6.15.0")
    (folder / "usr/lib/tc").mkdir(parents=True)
    (folder / "usr/lib/tc/normal.dist").touch()
    found = locate.find_parts()
    assert found.iproute2.version == "6.15.0"
    assert found.iproute2.dirs == (folder / "sbin", folder / "bin")
    assert found.iproute2.tc_lib_dir == folder / "usr/lib/tc"


def test_a_private_iproute2_that_does_not_run_is_passed_over(cache: Path) -> None:
    put_iproute2(cache.parent / "system", "6.1.0")
    put_iproute2(cache / "iproute2" / "7.2.0", "7.2.0")
    # given one whose libraries are missing
    program(cache / "iproute2/7.2.0/sbin/tc", "error while loading shared libraries: libx.so.3")
    found = locate.find_parts()
    assert (found.iproute2.version, found.iproute2.dirs) == ("6.1.0", ())


def test_gost_is_preferred_to_the_relay_and_named_with_its_sum(cache: Path) -> None:
    relay = cache / "relay" / locate.relay_inputs_hash() / "relay"
    program(relay, "relay 0.1 (go1.19 linux/amd64)")
    its_own = locate.TunnelBinary(relay, "relay", "relay 0.1, go1.19", locate.file_sha256(relay))
    assert locate.tunnel_binary(locate.find_parts()) == its_own
    gost = program(cache / "gost" / "3.2.6" / "gost", "gost v3.2.6 (go1.25.4 linux/amd64)")
    tunnel = locate.tunnel_binary(locate.find_parts())
    assert (tunnel.path, tunnel.program, tunnel.version) == (gost, "gost", "gost 3.2.6, go1.25.4")


def test_relay_is_the_labs_own_and_gost_is_gost_on_a_machine_with_both(cache: Path) -> None:
    program(cache / "relay" / locate.relay_inputs_hash() / "relay", "relay 0.1 (go1.19)")
    program(cache / "gost" / "3.2.6" / "gost", "gost v3.2.6 (go1.25.4 linux/amd64)")
    parts = locate.find_parts()

    def program_of(tunnel: str, **settings: str) -> str:
        run = Run(tunnel=tunnel, machine="sandbox", **settings).description
        return locate.tunnel_binary(parts, run.gost_program).program

    assert program_of("gost+ws") == "gost"
    assert program_of("relay+ws") == program_of("gost+ws", gost="relay") == "relay"
    assert program_of("relay+ws", gost="3.2.6") == "gost"
    assert program_of("relay+quic") == "gost"  # the relay lacks it


def test_gost_on_path_must_be_version_3(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{cache}/bin:/usr/bin:/bin")
    old = program(cache / "bin" / "gost", "gost 2.12.0 (go1.23.4 linux/amd64)")
    assert locate.find_parts().gost is None
    # ... unless it is requested by name
    assert locate.find_parts(gost=old).gost_says == locate.GostVersion("2.12.0", "go1.23.4")
    program(cache / "bin" / "gost", "gost v3.3.0 (go1.25.4 linux/amd64)")
    assert str(locate.find_parts().gost_says) == "gost 3.3.0, go1.25.4"


def test_a_named_gost_that_is_none_is_an_error(cache: Path) -> None:
    with pytest.raises(locate.MissingPart, match=r"/bin/true .*not a GOST"):
        locate.find_parts(gost=Path("/bin/true"))


@pytest.mark.slow
def test_the_shim_works_from_anywhere_and_ignores_modules_there(tmp_path: Path) -> None:
    lab = folders.ROOT / "lab"
    # given a folder with a module that must not be imported in the library's place
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(lab)
    for command in (lab, os.path.relpath(lab, tmp_path), "./link"):
        done = said_by(command, "doctor", "--help", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "example: ./lab doctor" in done.stdout


# -- digests of files


def test_a_digest_is_read_from_the_file_again_when_that_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "part"
    file.write_bytes(b"one")
    long_ago_ns = time.time_ns() + 10**12  # in 17 minutes this file will not have changed lately
    monkeypatch.setattr(locate.time, "time_ns", lambda: long_ago_ns)
    one = locate.file_sha256(file)

    with monkeypatch.context() as no_reading:
        no_reading.setattr(locate.hashlib, "file_digest", None)
        assert locate.file_sha256(file) == one

    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_bytes(b"two")
    os.utime(file, ns=times)  # the time of change (ctime) still differs
    assert locate.file_sha256(file) == hashlib.sha256(b"two").hexdigest()


def test_a_digest_of_a_file_that_has_just_changed_is_not_cached(tmp_path: Path) -> None:
    file = tmp_path / "part"
    file.write_bytes(b"one")
    locate.file_sha256(file)
    assert not [key for key in locate._SHA256_BY_STAT if key[0] == str(file)]


def test_an_interrupt_stays_one_though_the_program_asked_has_ended() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # Python waits for the program's end meanwhile
            locate.read_output(["sh", "-c", "sleep 0.1; kill -INT $PPID"])
    finally:
        signal.signal(signal.SIGINT, before)
