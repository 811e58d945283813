# SPDX-License-Identifier: MIT
"""What the set-up's tests work with."""

from pathlib import Path

import pytest

from gostlab.install.build_env import InstallContext


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstallContext:
    """A workbench on a cache folder of its own, which is the user's."""
    cache = tmp_path / "cache"
    for name in ("log", "build"):
        (cache / name).mkdir(parents=True)
    monkeypatch.setenv("GOSTLAB_CACHE", str(cache))
    monkeypatch.delenv("GOSTLAB_KERNEL", raising=False)
    return InstallContext(cache, jobs=1, say=lambda _text: None, lock_fd=0)
