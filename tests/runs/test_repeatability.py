"""One seed is one run, wherever the lab lies."""

import os
import shutil
from pathlib import Path

import pytest

from gostlab.declared.folders import cache_folder
from tests.declared.contributed import copy_lab

pytestmark = pytest.mark.sandbox

LOSSY = """
name: mine
title: mine
settings: {profile: plain-100ms, rate: 50mbit, loss: 1%, jitter: 3ms, duration: 2s, cc: bbr}
matrices: [{name: one}]
"""


def link_or_copy(source: str, target: str) -> None:
    """The same file, or a copy where that is another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.mark.parametrize("kernel", ["shipped", "5.10"])
def test_a_run_does_not_depend_on_where_the_lab_lies(
    tmp_path: Path, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither on how often Python asks for memory, nor on what it reads while the clock goes, nor
    on the names of folders in the kernel's command line: the sockets' ports are drawn.
    """
    text = LOSSY.replace("cc: bbr", f"cc: bbr, kernel: '{kernel}'")
    names = ("here", "else", "there-in-a-folder-of-a-longer-name", "y" * 90)
    runs = [copy_lab(tmp_path / name).run(text) for name in names]
    cache = tmp_path / "a-cache-of-a-longer-name"
    others = shutil.ignore_patterns("*tools", "*.lock", "build", "log", "root*")
    shutil.copytree(cache_folder(), cache, symlinks=True, ignore=others, copy_function=link_or_copy)
    monkeypatch.setenv("GOSTLAB_CACHE", str(cache))
    runs.append(copy_lab(tmp_path / "last").run(text))

    for file in ("flows.json", "sockets.jsonl"):
        found = [(run / file).read_bytes() for run in runs]
        assert found[1:] == found[:-1]
