"""Fixtures of the tests that boot the sandbox."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.sandboxed import Lab, kernel_processes


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The sandbox as tests use it; skipped where it has not been built."""
    return Lab(tmp_path_factory.mktemp("lab"))


@pytest.fixture
def uml_processes() -> Callable[[], set[int]]:
    """The ids of the processes that run the sandbox's kernel."""
    return kernel_processes
