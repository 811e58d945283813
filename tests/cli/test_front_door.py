"""What a contributor's tools read: pre-commit, the forge's workflow, git blame, the version."""

import re

import pytest
import yaml

import gostlab
from tests.lab_command import ROOT, said_by


def test_each_hook_of_pre_commit_runs_something_that_there_is() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {hook["id"] for hook in hooks} >= {"ruff", "ruff-format", "shellcheck", "gofmt"}
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    called = [hook["entry"].split()[-1] for hook in hooks if hook["entry"].startswith("make ")]
    assert called and set(called) <= set(targets)


def test_the_forge_runs_what_ci_runs() -> None:
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    assert workflows
    for file in workflows:
        jobs = yaml.safe_load(file.read_text("utf-8"))["jobs"]
        ran = [step.get("run") for job in jobs.values() for step in job["steps"]]
        assert ran[-1].split()[0] == ".ci/run"


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
