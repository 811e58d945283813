# SPDX-License-Identifier: MIT
"""The image: what its Containerfile says; on request, the same steps in a Debian of its own."""

import os
import re
import shlex
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from gostlab.install import apt, locate, shared_install
from gostlab.registry import folders
from tests.lab_command import said_by
from tests.skips import require_image_tests

FILE = folders.ROOT / "Containerfile"
# A student's first lab, with `lab` as the image's entry point.
LESSON = [
    ("lab", "lab", "start", "0", "--student", "alice"),
    ("sed", "-i", "s/^\\(  [a-z_0-9]*:\\).*/\\1 1/", "coursework/0-warm-up/answers.yaml"),
    ("lab", "lab", "predict", "0"),
    ("lab", "lab", "run", "0"),
    ("lab", "lab", "report", "0"),
    ("lab", "lab", "hand-in", "0"),
]


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions and their words, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", FILE.read_text("utf-8"), flags=re.MULTILINE)
    joined = text.replace("\\\n", " ")
    return [
        (line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines() if line
    ]


def test_it_is_the_set_up_and_an_ordinary_user_and_nothing_of_a_registrys() -> None:
    found = dict(instructions())
    assert "lab setup --system" in found["RUN"] and found["USER"] == "lab"
    assert found["FROM"] == "${BASE}" and "ARG BASE=debian:bookworm" in FILE.read_text("utf-8")
    # after USER nothing is done as root
    names = [name for name, _ in instructions()]
    assert "RUN" not in names[names.index("USER") :]


def test_a_companys_authorities_are_there_while_it_is_built_and_not_after() -> None:
    run = dict(instructions())["RUN"]
    mount, *steps = run.split(maxsplit=1)
    assert mount == "--mount=type=secret,id=ca,target=/run/secrets/ca"  # not required
    assert "export SSL_CERT_FILE=/run/secrets/ca" in steps[0]
    # an ENV would stay in the image
    assert not any(name == "ENV" and "GOSTLAB" not in words for name, words in instructions())


def test_the_documented_runs_may_write_the_results_of_whoever_starts_them() -> None:
    documents = ["Containerfile", "docs/how-to/container.md"]
    lines = [
        line
        for each in documents
        for line in (folders.ROOT / each).read_text("utf-8").splitlines()
        if "podman run" in line and "/results" in line
    ]
    assert len(lines) >= len(documents)
    assert all("podman run --rm --userns keep-id -v" in line for line in lines)


def test_what_is_no_source_does_not_go_into_it() -> None:
    ignored = (folders.ROOT / ".containerignore").read_text("utf-8").split()
    assert {".git", "results"} <= set(ignored)


def test_the_documented_classes_work_in_the_folder_of_whoever_starts_them() -> None:
    """The image belongs to root: what a student writes lies in his own folder, mounted."""
    pages = ["labs/README.md", "docs/how-to/teaching.md"]
    pages.append("gostlab/classroom/templates/classroom/README.md")
    for page in pages:
        text = (folders.ROOT / page).read_text("utf-8")
        assert "alias lab='podman run --rm -it --userns keep-id" in text, page
        assert '-v "$PWD:/class" -w /class gostlab\'' in text, page
    # the verb is the image's first word, and nothing in its way
    assert dict(instructions())["ENTRYPOINT"] == '["/opt/gostlab/lab"]'


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Path]:
    """A fresh Debian in a folder, of the mirror that this machine uses."""
    require_image_tests()
    mirror = apt.find_mirror()
    if mirror is None:
        pytest.skip("no Debian mirror")
    root = tmp_path / "debian"
    argv = ["debootstrap", "--variant=minbase", mirror.codename, str(root), mirror.uri]
    done = said_by(*argv)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for name in ("sources.list.d", "apt.conf.d"):
        shutil.copytree(Path("/etc/apt", name), root / "etc/apt" / name, dirs_exist_ok=True)
    yield root


def passed_on() -> dict[str, str]:
    """What a build takes from the environment: the proxies, and Go's (--build-arg)."""
    names = ("http_proxy", "https_proxy", "no_proxy", "GOPROXY", "GOSUMDB")
    return {
        each: os.environ[each]
        for name in names
        for each in (name, name.upper())
        if each in os.environ
    }


def ignored(folder: str, names: list[str]) -> set[str]:
    """What the image leaves out: results at the top alone: gostlab has a package of that name."""
    top = {"results"} if Path(folder) == folders.ROOT else set()
    return top | shutil.ignore_patterns(".git", "__pycache__", ".*_cache")(folder, names)


@pytest.mark.slow
def test_its_steps_make_a_lab_that_boots_for_an_ordinary_user(debian: Path, tmp_path: Path) -> None:
    """In a mount namespace of its own. The kernel is this machine's: it takes minutes to build."""
    kernel = next(iter(locate.built_kernels()), None)
    if kernel is None:
        pytest.skip("no kernel: ./lab setup")
    shared = debian / str(shared_install.DEFAULT).lstrip("/") / "kernel" / kernel.parent.name
    shared.parent.mkdir(parents=True)
    shutil.copytree(kernel.parent, shared)
    shutil.copytree(folders.ROOT, debian / "opt/gostlab", ignore=ignored)
    steps = dict(instructions())["RUN"].split(maxsplit=1)[1]  # without its --mount
    secret = debian / "run/secrets/ca"
    secret.parent.mkdir(exist_ok=True)
    authorities = ssl.get_default_verify_paths().cafile
    if authorities is not None:
        shutil.copy(authorities, secret)
    lesson = 'cd /class; lab() { /opt/gostlab/lab "$@"; }; ' + "; ".join(map(shlex.join, LESSON))
    script = f"""
set -e
for place in proc sys dev; do mount --rbind /$place {debian}/$place; done
mount -t tmpfs -o size=64m,noexec,mode=1777 none {debian}/dev/shm
cp /etc/resolv.conf {debian}/etc/ 2>/dev/null || true
chroot {debian} sh -euc {shlex.quote(steps)}
rm -f {secret}
install --directory --owner 1000 {debian}/class
chroot --userspec=lab {debian} env HOME=/home/lab sh -euc {shlex.quote(lesson)}
exec chroot --userspec=lab {debian} env HOME=/home/lab /opt/gostlab/lab doctor
"""
    done = said_by(
        *("unshare", "--mount", "--propagation", "private", "sh", "-c", script),
        timeout=3600,
        env={"PATH": locate.SYSTEM_PATH, "LC_ALL": "C.UTF-8", **passed_on()},
    )
    said = done.stdout[-4000:] + done.stderr[-4000:]
    assert "sandbox boots" in done.stdout and "powers off again" in done.stdout, said
    assert done.returncode == 0, said
    assert "complete: coursework/0-warm-up-alice.zip" in done.stdout, said
    assert (debian / "class/coursework/0-warm-up-alice.zip").is_file()
