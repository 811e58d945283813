"""What the tests of the command line share."""

import pytest

from tests.lab_command import Refused, Typed


@pytest.fixture
def refused(typed: Typed) -> Refused:
    """The one line that some words are refused with, and exit code 2."""

    def say(*words: object) -> str:
        done = typed(*words)
        assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        return done.stderr

    return say
