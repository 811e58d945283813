"""Fixtures of the tests that boot the sandbox."""

from __future__ import annotations

import pytest

from tests.integration.sandboxed import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The sandbox as tests use it. (tests/conftest.py skips the folder where it is not built.)"""
    return Lab(tmp_path_factory.mktemp("lab"))
