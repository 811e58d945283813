# SPDX-License-Identifier: MIT
"""Kernels as a level of `kernel`: what is declared, what each lacks, what is refused."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from gostlab import api, sandbox
from gostlab.install import apt, kernel_build, locate
from gostlab.install import kernels as building
from gostlab.install.build_env import InstallContext, SetupError
from gostlab.registry import kernels
from gostlab.registry.folders import KERNELS
from gostlab.sandbox.uml import kernel_args
from gostlab.spec.cpu_model import MachineModel
from gostlab.spec.yaml_source import BadInput
from tests.asked import refusal, run_of

PATCH = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-old\n+new\n"


run_on = partial(run_of, profile="la-hamina")


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """A folder like kernel/versions, with one version in it."""
    folder = tmp_path / "versions"
    (folder / "9.1").mkdir(parents=True)
    for name, files in (
        ("um-gostlab-kconfig", ("tick.c",)),
        ("um-time-travel-cpu-cost", ("costs.c", "hooks.c")),
        ("um-time-travel-reset", ("reset.c",)),
    ):
        diffs = (f"diff --git a/{file} b/{file}\n{PATCH.format(file)}" for file in files)
        text = f"Subject: {name}\n\n{''.join(diffs)}"
        (folder / "9.1" / f"{name}.patch").write_text(text, encoding="utf-8")
    (folder / "9.1" / kernels.SERIES).write_text(
        "# in this order\n9.1/um-gostlab-kconfig.patch\n9.1/um-time-travel-cpu-cost.patch\n"
        "9.1/um-time-travel-reset.patch\n",
        encoding="utf-8",
    )
    (folder / "9.1" / kernels.DECLARATION).write_text(
        'package = "linux-source-9.1"\nmay_be_missing = ["NEW"]\n', encoding="utf-8"
    )
    return folder


def test_a_folder_with_a_declaration_is_a_kernel(registry: Path) -> None:
    [declared] = kernels.declared_kernels(registry).values()
    assert (declared.name, declared.package) == ("9.1", "linux-source-9.1")
    assert [patch.name for patch in declared.series][1:] == [
        "um-time-travel-cpu-cost",
        "um-time-travel-reset",
    ]
    assert declared.series[0].diff().startswith("diff --git a/tick.c")
    assert {"costs", "packet cost", "seccomp"} <= declared.features
    assert {"hz", "seeds", "free clock"} <= set(declared.lacks)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("may_be", "can_be", "can_be_missing: unknown, or missing"),
        ('package = "', "package = ", "kernel.toml: "),
    ],
)
def test_a_wrong_declaration_is_one_line(registry: Path, old: str, new: str, said: str) -> None:
    file = registry / "9.1" / kernels.DECLARATION
    file.write_text(file.read_text().replace(old, new, 1), encoding="utf-8")
    assert said in refusal(lambda: kernels.read_declared(file))


def test_a_patch_that_is_not_there_is_named_with_its_line(registry: Path) -> None:
    series = registry / "9.1" / kernels.SERIES
    series.write_text(series.read_text().replace("-cost", "-price"), encoding="utf-8")
    said = refusal(lambda: kernels.read_declared(registry / "9.1" / kernels.DECLARATION))
    assert "series:3: no patch 9.1/um-time-travel-cpu-price.patch" in said


def test_the_lab_declares_what_its_documents_name() -> None:
    declared = kernels.declared_kernels()
    assert list(declared) == ["7.3", "6.12", "6.1", "5.10"]
    for each in declared.values():
        assert {"hz", "costs", "seeds", "free clock", "packet cost", "idle"} <= each.features
        assert all(patch.diff() for patch in each.series)
    assert declared["7.3"].lacks == ()


def test_what_a_version_came_to_have_by_itself_needs_no_patch() -> None:
    assert "idle" in kernels.features_of((6, 1), ())
    assert "idle" not in kernels.features_of((5, 10), ())
    assert "idle" in kernels.features_of((5, 10), ("um-idle-lost-wakeup",))
    assert "netem seed" not in kernels.features_of((6, 1, 192), ())


# -- an experiment that names one


def test_one_matrix_of_another_kernel_takes_the_sandbox_and_leaves_others_to_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a machine that could run natively, as `auto` would."""

    def choose(asked: str) -> sandbox.MachineChoice:
        return sandbox.MachineChoice("native" if asked == "auto" else asked, "made up")

    monkeypatch.setattr(sandbox, "choose_machine", choose)
    file = tmp_path / "mine.yaml"
    file.write_text(
        """name: mine
title: Mine
settings: {profile: plain-100ms, duration: 5s}
matrices:
  - {name: here, factors: {cc: [cubic, bbr]}}
  - {name: elsewhere, factors: {kernel: ["5.10", shipped]}}
"""
    )
    mine = str(file)
    assert api.Experiment.from_file(mine).machine.name == "sandbox"
    assert api.Experiment.from_file(mine, matrices=("here",)).machine.name == "native"
    here = api.Experiment.from_file(mine, matrices=("here",), machine="native")
    assert here.machine.name == "native"
    with pytest.raises(BadInput, match=r"a native run has this machine's own kernel"):
        api.Experiment.from_file(mine, machine="native")


# -- the user's own


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache with a kernel of the user's, Linux 4.14, that took one patch."""
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path))
    folder = tmp_path / "kernels" / "mine"
    folder.mkdir(parents=True)
    (folder / "linux").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "linux").chmod(0o755)
    record = {"name": "mine", "version": "4.14.336+", "patches": [], "origin": "/src/linux"}
    (folder / kernels.RECORD).write_text(
        json.dumps({**record, "inputs_hash": "ab" * 32}), encoding="utf-8"
    )
    return folder


def test_a_kernel_of_ones_own_is_a_level_and_another_tree_another_run(own: Path) -> None:
    mine = run_on(kernel="mine", clock="real")
    assert (mine.kernel, mine.kernel_sha256, mine.clock) == ("mine", "ab" * 6, "real")
    record = own / kernels.RECORD
    record.write_text(record.read_text().replace("ab" * 32, "cd" * 32), encoding="utf-8")
    assert run_on(kernel="mine", clock="real").name != mine.name


def test_an_old_kernel_has_the_real_clock_alone(own: Path) -> None:
    with pytest.raises(BadInput, match=r"no virtual clock: write clock: real, or kernel: 7\.3"):
        run_on(kernel="mine", clock="virtual")


def test_a_kernel_that_is_not_built_says_how_to_build_it(own: Path) -> None:
    found = locate.Parts(None, None, locate.Iproute2(None), None, None, None)
    assert locate.kernel_for("mine", found) == own / "linux"
    with pytest.raises(locate.MissingPart, match=r"\./lab kernel add 5\.10"):
        locate.kernel_for("5.10", found)


def test_seccomp_is_asked_of_kernels_that_have_it(own: Path) -> None:
    assert locate.seccomp_args(own / "linux") == []
    words = kernel_args(MachineModel(64, "real"), seccomp=())
    assert "seccomp=on" not in words


def test_no_guest_waits_for_random_numbers_and_a_seeded_one_takes_its_seeds(own: Path) -> None:
    """Linux 6.1 makes its first ones of its timer's jitter where it is told nothing: 5 s of CPU."""
    assert "random.trust_cpu=1" in kernel_args(MachineModel(64, "real"))
    virtual = kernel_args(MachineModel(64))
    assert {"uml_seed=1", "random.trust_cpu=1"} & set(virtual) == {"uml_seed=1"}


@pytest.mark.parametrize(
    ("what", "name", "said"),
    [
        ("nothing", "mine", "nothing: neither a version .*\\(7\\.3, 6\\.12, 6\\.1, 5\\.10\\) nor"),
        ("empty", "mine", "empty: no tarball, and no Linux tree"),
        ("words.tar.xz", "mine", "no tarball that can be read here"),
        ("tree", None, "call it something: --name NAME"),
        *(("tree", name, "one of the lab's own of that name") for name in ("6.12", "shipped")),
        *(("tree", name, "not a name for a kernel") for name in ("a b", "")),
        ("tree", "mine", "not a tree of Linux that has arch/um"),
        ("old", "mine", "old: Linux 3.5.0; today's gcc compiles 4.9"),
        ("other", "mine", "not a tree of Linux"),
    ],
)
def test_what_cannot_be_added_is_said_before_anybody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, name: str | None, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("words.tar.xz").write_text("words", encoding="utf-8")
    made = {"tree": "", "old": "VERSION = 3\nPATCHLEVEL = 5\nSUBLEVEL = 0\n", "other": "all:\n"}
    for tree, makefile in made.items():
        Path(tree, "arch/um" if makefile else "").mkdir(parents=True)
        Path(tree, "Makefile").write_text(makefile, encoding="utf-8")
    assert re.search(said, refusal(lambda: building.check_user_source(what, name)))


@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch")
def test_of_a_tree_what_applies_is_taken_and_hooks_stand_or_fall_together(
    registry: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("tick.c", "costs.c", "reset.c"):  # there are no hooks.c to change
        (tree / name).write_text("old\n", encoding="utf-8")
    [declared] = kernels.declared_kernels(registry).values()
    taken, refused = building.patch_what_applies(tree, [declared.series])
    assert [patch.name for patch in taken] == ["um-gostlab-kconfig"]
    assert refused == ("um-time-travel-cpu-cost", "um-time-travel-reset")
    assert (tree / "tick.c").read_text() == "new\n"
    assert (tree / "costs.c").read_text() == "old\n"


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no patch here")
def test_a_patch_of_which_a_part_does_not_fit_leaves_the_tree_as_it_is(
    registry: Path, tmp_path: Path
) -> None:
    """Nor does one fit whose context has changed."""
    tree = tmp_path / "tree"
    tree.mkdir()
    context = PATCH.format("hooks.c").replace("1 +1 @@\n", "1,3 +1,3 @@\n 1\n") + " 3\n"
    patch = kernels.Patch(registry / "9.1" / "both.patch")
    patch.file.write_text(PATCH.format("costs.c") + context, encoding="utf-8")
    (tree / "costs.c").write_text("old\n", encoding="utf-8")
    for text in ("0\nold\n3\n", "1\nold\n4\n"):
        (tree / "hooks.c").write_text(text, encoding="utf-8")
        assert building.patch_what_applies(tree, [[patch]]) == ([], ("both",))
        assert (tree / "costs.c").read_text() == "old\n"
    (tree / "hooks.c").write_text("1\nold\n3\n", encoding="utf-8")
    assert building.patch_what_applies(tree, [[patch]]) == ([patch], ())
    assert (tree / "costs.c").read_text() == "new\n"
    assert (tree / "hooks.c").read_text() == "1\nnew\n3\n"


def test_a_tree_is_copied_without_what_a_build_left_and_another_content_is_another_tree(
    tmp_path: Path,
) -> None:
    tree = tmp_path / "tree"
    sources = [
        "Makefile",
        "include/linux/tcp.h",
        "arch/um/kernel/vmlinux.lds.S",
        "arch/arm/Kconfig",
    ]
    built = ["init/main.o", "linux", "vmlinux", ".config", "include/generated/a.h", "init/.x.cmd"]
    unread = ["drivers/gpu/drm/a.c", "arch/arm/kernel/a.c", "Documentation/a/b.rst"]
    for name in (*sources, *built, *unread):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("VERSION = 6\n", encoding="utf-8")
    bench = InstallContext(tmp_path, 1, lambda _: None, -1)
    bench.log("kernel").parent.mkdir()
    first = building.copy_tree(bench, tmp_path / "one", tree)
    there = {str(path.relative_to(first.tree)) for path in first.tree.rglob("*") if path.is_file()}
    assert there == set(sources)
    (tree / "Makefile").write_text("VERSION = 7\n", encoding="utf-8")
    second = building.copy_tree(bench, tmp_path / "two", tree)
    assert first.sha256 != second.sha256
    assert (tree / "init" / "main.o").is_file()  # his own stays as it is


def test_a_build_that_was_cut_off_and_fails_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "5.10"
    declared = kernels.declared_kernels()[name]
    folder = tmp_path / "build" / f"version-{name}-{locate.version_inputs_hash(declared)}"
    (folder / "source").mkdir(parents=True)
    record = {"origin": "half", "sha256": ""}
    (folder / "source.json").write_text(json.dumps(record), encoding="utf-8")
    tried = []

    def build(
        bench: InstallContext,
        folder: Path,
        source: kernel_build.KernelSource,
        _: kernels.DeclaredKernel,
    ) -> str:
        tried.append((source.origin, folder.exists()))
        if source.is_left_over:
            raise SetupError("half there")
        return "built"

    monkeypatch.setattr(building, "build_version", build)
    monkeypatch.setattr(
        building, "fetch_source", lambda *_: kernel_build.KernelSource(tmp_path, "new", "")
    )
    monkeypatch.setattr(building.locate, "built_version", lambda *_: None)
    bench = InstallContext(tmp_path, 1, lambda _: None, -1)
    assert building.add_version(bench, declared) == "built"
    assert tried == [("half", True), ("new", False)]


def test_a_kernel_is_named_after_its_profile_too(tmp_path: Path) -> None:
    shutil.copytree(KERNELS.parent, tmp_path / "kernel")
    folder = tmp_path / "kernel/profiles"
    declared = kernels.read_declared(tmp_path / "kernel/versions/5.10/kernel.toml")
    found = [locate.version_inputs_hash(declared)]
    for counts in (b"some", b"others"):
        (folder / "linux-5.10.1-gcc-1.0.0.tar.xz").write_bytes(counts)
        found.append(locate.version_inputs_hash(declared))
    assert len(set(found)) == 3


def test_the_nearest_series_is_tried_first() -> None:
    orders = {
        version: building.candidate_series(version) for version in ((6, 13), (5, 15), (4, 14))
    }
    declared = kernels.declared_kernels()
    assert orders[(6, 13)][0] == declared["6.12"].series
    assert orders[(5, 15)][0] == declared["5.10"].series
    assert orders[(4, 14)][0] == declared["5.10"].series


# -- where it comes from


def test_the_security_archive_is_the_one_that_the_machine_knows() -> None:
    mirror = apt.Mirror("http://mirror.example/debian/", "bookworm", "amd64", None)
    fields = ["bookworm-security", "", "Debian", "main", "amd64", ""]
    line = "\t".join(["http://mirror.example/debian-security/", *fields])
    found = apt.parse_security(f"nothing\n{line}\n", mirror)
    assert found is not None
    assert (found.uri, found.codename) == ("http://mirror.example/debian-security/", "bookworm")
    assert apt.parse_security("\t".join(["x", "bookworm", *fields[1:]]), mirror) is None
