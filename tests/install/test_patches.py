# SPDX-License-Identifier: MIT
"""The kernel's patches: each is a mail that `git am` takes, and applies to its version's source.

The sources are not in the repository. GOSTLAB_KERNEL_SOURCES names a folder with an unpacked one for
each version, FOLDER/7.3; a build applies the same patches without fuzz.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gostlab.registry.folders import KERNELS
from gostlab.registry.kernels import declared_kernels

PATCHES = sorted(KERNELS.glob("*/*.patch"))
SOURCES = os.environ.get("GOSTLAB_KERNEL_SOURCES")
SUBJECT = re.compile(
    r"Subject: \[PATCH\] (um|x86/um|tcp|veth|random|random32|hostfs|init|ipv4|net/sched): "
)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: f"{patch.parent.name}/{patch.stem}")
def test_a_patch_is_a_mail_that_says_why(patch: Path) -> None:
    message, _, diff = patch.read_text(encoding="utf-8").partition("\n---\n")
    head, _, body = message.partition("\n\n")
    origin, author, date, subject = head.replace("\n ", " ").splitlines()
    assert re.fullmatch(r"From 0{40} Mon Sep 17 00:00:00 2001", origin)
    assert author == "From: gostlab developers <gostlab@localhost>"
    assert date.startswith("Date: ")
    assert SUBJECT.match(subject) and len(subject.removeprefix("Subject: [PATCH] ")) <= 72
    assert len(body.splitlines()) >= 4 and all(len(line) <= 79 for line in body.splitlines())
    assert re.search(r"^ \d+ files? changed", diff, re.MULTILINE)
    assert diff.count("\ndiff --git ") == len(re.findall(r"(?m)^index [0-9a-f]{12}\.\.", diff)) > 0


def test_every_patch_is_in_a_series_once() -> None:
    listed = {patch.file for each in declared_kernels().values() for patch in each.series}
    assert listed == set(PATCHES)
    for each in declared_kernels().values():
        names = [patch.name for patch in each.series]
        assert len(names) == len(set(names))


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
@pytest.mark.skipif(SOURCES is None, reason="GOSTLAB_KERNEL_SOURCES names no kernel sources")
@pytest.mark.parametrize("version", declared_kernels())
def test_a_series_applies_by_git_am_and_by_patch_without_fuzz(tmp_path: Path, version: str) -> None:
    source, series = Path(SOURCES or "") / version, declared_kernels()[version].series
    by_git, by_patch = tmp_path / "git", tmp_path / "patch"
    for name in {n for one in series for n in re.findall(r"(?m)^--- a/(\S+)", one.diff())}:
        for tree in (by_git, by_patch):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            if (source / name).is_file():
                shutil.copy(source / name, tree / name)
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "source"]):
        subprocess.run(["git", *identity, *words], cwd=by_git, check=True)
    for one in series:
        # One at a time, as the version's own patches and the shared ones lie in several folders.
        subprocess.run(["git", *identity, "am", "-q", one.file], cwd=by_git, check=True)
        argv = ["patch", "--force", "--silent", "--fuzz=0", "-p1", "-i", one.file]
        argv += ["--no-backup-if-mismatch"]
        subprocess.run(argv, cwd=by_patch, check=True)
    shutil.rmtree(by_git / ".git")
    subprocess.run(["diff", "-r", by_git, by_patch], check=True)
