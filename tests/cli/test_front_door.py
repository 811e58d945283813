# SPDX-License-Identifier: MIT
"""What a contributor's tools read: pre-commit, the forge's workflow, git blame, the version."""

import json
import re

import pytest
import yaml

import gostlab
from gostlab.install.main import setup_steps as setup_steps
from tests.lab_command import ROOT, said_by


def test_each_hook_of_pre_commit_runs_something_that_there_is() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {hook["id"] for hook in hooks} >= {"ruff", "ruff-format", "shellcheck", "gofmt"}
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    called = [hook["entry"].split()[-1] for hook in hooks if hook["entry"].startswith("make ")]
    assert called and set(called) <= set(targets)


def test_the_forge_runs_what_ci_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))
    ran = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
    assert ran[-1].split()[0] == ".ci/run"


def test_workflows_name_actions_by_hash_and_have_the_permissions_that_they_list() -> None:
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    for file in [*workflows, ROOT / "action.yml"]:
        for used in re.findall(r"uses: (actions/\S+.*)", file.read_text("utf-8")):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", used), used
    for file in workflows:
        workflow = yaml.safe_load(file.read_text("utf-8"))
        assert workflow["permissions"] in ({}, {"contents": "read"})


def test_the_release_calls_targets_that_there_are_and_attests_what_it_builds() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    called = [name for line in re.findall(r"run: make (.+)", text) for name in line.split()]
    assert called and set(called) <= set(targets)
    jobs = yaml.safe_load(text)["jobs"]
    for name in ("files", "image"):
        assert any("attest" in step.get("uses", "") for step in jobs[name]["steps"])
        assert jobs[name]["permissions"]["id-token"] == "write"


def test_the_dev_container_sets_up_by_steps_that_there_are_and_runs_the_fast_tests() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    set_up, then = container["postCreateCommand"].split(" && ")
    assert then == "make fast"
    steps = {"tools", "packages", *(step.name for step in setup_steps(extra=["test"]))}
    assert set(re.findall(r"--only (\S+)", set_up)) <= steps


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == gostlab.__version__


def test_the_commits_that_blame_ignores_are_in_the_history() -> None:
    lines = (ROOT / ".git-blame-ignore-revs").read_text("utf-8").splitlines()
    commits = [line for line in lines if line and not line.startswith("#")]
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
    history = said_by(*git, "rev-parse", "--is-shallow-repository")
    if history.stdout.strip() != "false":
        pytest.skip("no whole git history")
    assert commits
    for commit in commits:
        asked = said_by(*git, "merge-base", "--is-ancestor", commit, "HEAD")
        assert asked.returncode == 0, commit


def test_the_version_stands_in_one_place() -> None:
    assert f"## [{gostlab.__version__}] - " in (ROOT / "CHANGELOG.md").read_text("utf-8")
    others = [
        path
        for path in [ROOT / "pyproject.toml", *ROOT.glob("gostlab/**/*.py")]
        if f'"{gostlab.__version__}"' in path.read_text("utf-8")
    ]
    assert others == [ROOT / "gostlab/__init__.py"]
