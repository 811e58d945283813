"""What the tests of the command line share."""

from collections.abc import Callable

import pytest

from gostlab.apps.cli import main


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line that some words are refused with, and exit code 2."""

    def say(*words: object) -> str:
        capsys.readouterr()
        assert main([str(word) for word in words]) == 2
        printed, told = capsys.readouterr()
        assert printed == "" and "Traceback" not in told and len(told.strip().splitlines()) == 1
        return told

    return say
