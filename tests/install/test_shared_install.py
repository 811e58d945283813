# SPDX-License-Identifier: MIT
"""Parts for all users of a machine: found by everybody, and believed only as root's alone."""

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gostlab.install import locate, main, shared_install
from gostlab.install.task_graph import SetupStep
from gostlab.registry import folders
from tests.lab_command import said_by
from tests.skips import NEEDS_ROOT

pytestmark = NEEDS_ROOT
SOMEBODY = 12345
KERNEL = '{"version": "7.0"}'


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder of parts with a kernel of today's inputs, sealed; the user's own is empty."""
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path / "own"))
    monkeypatch.delenv("GOSTLAB_KERNEL", raising=False)
    # pytest's own folders are nobody's but root's
    with in_tmp("system") as folder:
        kernel = folder / f"kernel/7.0-{locate.kernel_inputs_hash()}/linux"
        kernel.parent.mkdir(parents=True)
        for name, text in (("linux", ""), (locate.HEADERS, ""), ("kernel.json", KERNEL)):
            kernel.with_name(name).write_text(text)
            kernel.with_name(name).chmod(0o777 if name == "linux" else 0o666)
        shared_install.seal_folder(folder)
        monkeypatch.setenv("GOSTLAB_SYSTEM", str(folder))
        yield folder


@contextmanager
def in_tmp(name: str) -> Iterator[Path]:
    """A folder that everybody can get to."""
    folder = Path("/tmp", f"gostlab-{name}-{os.getpid()}")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def found_kernel() -> Path | None:
    return locate.find_parts().kernel


def test_what_root_built_is_everybodys_and_read_only(shared: Path) -> None:
    kernel = found_kernel()
    assert kernel is not None and kernel.is_relative_to(shared)
    assert stat.S_IMODE(kernel.stat().st_mode) == 0o555
    assert stat.S_IMODE((kernel.parent / "kernel.json").stat().st_mode) == 0o444
    asked = "from gostlab.install import locate; print(locate.find_parts().kernel)"
    as_somebody = ["setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups"]
    # pytest's own folders are nobody's but root's
    environ = {**os.environ, "GOSTLAB_CACHE": str(shared / "none")}
    done = said_by(*as_somebody, sys.executable, "-c", asked, env=environ)
    if "Permission denied" in done.stderr or "No module" in done.stderr:
        pytest.skip("no ordinary user may read this checkout")
    assert done.stdout.strip() == str(kernel), done.stderr


def test_a_kernel_of_ones_own_goes_first_and_another_version_is_not_taken(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = folders.cache_folder() / f"kernel/7.0-{locate.kernel_inputs_hash()}"
    shutil.copytree(shared / f"kernel/7.0-{locate.kernel_inputs_hash()}", own)
    kernel = found_kernel()
    assert kernel is not None and kernel.is_relative_to(own)
    shutil.rmtree(own)
    built = shared / f"kernel/7.0-{locate.kernel_inputs_hash()}"
    with monkeypatch.context() as patched:
        patched.setenv("GOSTLAB_SYSTEM", "")  # no shared parts
        assert found_kernel() is None
    assert found_kernel() is not None
    built.rename(built.with_name("7.0-000000000000"))
    assert found_kernel() is None


def test_thirty_users_build_no_kernel_of_their_own(shared: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    bench = main.InstallContext(own, 1, lambda _: None, -1)
    assert "for all users" in main.provide_kernel(bench)
    assert not list(own.iterdir())


def somebodys(path: Path) -> None:
    os.chown(path, SOMEBODY, SOMEBODY)


SPOILS: dict[str, Callable[[Path, Path], object]] = {
    "the folder is another's": lambda folder, _: somebodys(folder),
    "the folder can be written by all": lambda folder, _: folder.chmod(0o777),
    "the folder can be written by a group": lambda folder, _: folder.chmod(0o775),
    "a version's folder can be written": lambda _, kernel: kernel.parent.chmod(0o757),
    "the kernel is another's": lambda _, kernel: somebodys(kernel),
    "the kernel can be written": lambda _, kernel: kernel.chmod(0o775),
    "what lies beside it can be written": lambda _, kernel: (kernel.parent / locate.HEADERS).chmod(
        0o666
    ),
    "a link is another's": lambda _, kernel: (
        (kernel.parent / "link").symlink_to("linux"),
        os.lchown(kernel.parent / "link", SOMEBODY, SOMEBODY),
    ),
    "a link leads to what another can write": lambda _, kernel: (kernel.parent / "link").symlink_to(
        f"/tmp/gostlab-of-nobody-{os.getpid()}"
    ),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_another_could_have_written_is_never_trusted(shared: Path, spoil: str) -> None:
    kernel = found_kernel()
    assert kernel is not None
    with in_tmp("of-nobody") as theirs:
        somebodys(theirs)
        SPOILS[spoil](shared, kernel)

        assert found_kernel() is None and shared_install.why_not_trusted(shared / "kernel")
        with pytest.raises(locate.MissingPart, match=r"\./lab setup"):
            locate.require_kernel(locate.find_parts())


def test_a_folder_above_that_another_can_write_spoils_it(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with in_tmp("above") as above:
        shutil.copytree(shared, above / "parts")
        shared_install.seal_folder(above / "parts")
        monkeypatch.setenv("GOSTLAB_SYSTEM", str(above / "parts"))
        assert found_kernel() is not None
        above.chmod(0o777)
        assert found_kernel() is None
        above.chmod(0o1777)  # sticky: what is root's stays where it is
        assert found_kernel() is not None
        # a link of somebody's that leads to what is good today
        link = above / "link"
        link.symlink_to("parts")
        os.lchown(link, SOMEBODY, SOMEBODY)
        monkeypatch.setenv("GOSTLAB_SYSTEM", str(link))
        assert found_kernel() is None


def test_the_set_up_for_all_needs_root(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
    with pytest.raises(SystemExit) as stop:
        main.main(["--system"])
    assert stop.value.code == 2


def test_the_set_up_for_all_seals_what_it_made_and_says_if_nobody_would_trust_it(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def provide(bench: main.InstallContext) -> str:
        made = bench.cache / "relay/0/relay"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text("")
        made.chmod(0o777)
        return "made"

    monkeypatch.setattr(main, "setup_steps", lambda *_, **__: [SetupStep("relay", provide)])
    umask = os.umask(0o077)
    try:
        assert main.main(["--system"]) == 0
    finally:
        os.umask(umask)
    assert stat.S_IMODE((shared / "relay/0/relay").stat().st_mode) == 0o555
    assert stat.S_IMODE((shared / "relay/0").stat().st_mode) == 0o755
    assert shared_install.why_not_trusted(shared / "relay") is None

    with in_tmp("open") as opened:
        opened.chmod(0o777)
        monkeypatch.setenv("GOSTLAB_SYSTEM", str(opened / "parts"))
        assert main.main(["--system"]) == 1
        assert "can be written by others" in capsys.readouterr().err
