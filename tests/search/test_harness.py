# SPDX-License-Identifier: MIT
"""The runs that a search makes, batch by batch."""

from dataclasses import replace
from pathlib import Path

import pytest

from gostlab import sandbox
from gostlab.sandbox import held_syscall
from gostlab.search.harness import SearchHarness, SearchProgress
from gostlab.spec.expand import expand
from tests.offspring import sandboxes
from tests.skips import require_root_tree

DOCUMENT = {
    "name": "batches",
    "title": "Batches",
    "settings": {"profile": "plain-100ms", "rate": "10mbit", "duration": "1s", "cc": "cubic"},
    "matrices": [{"name": "main", "repetitions": 2}],
}


@pytest.mark.sandbox
def test_sandboxes_boot_for_the_next_batch_and_change_no_sample(tmp_path: Path) -> None:
    require_root_tree()
    if not held_syscall.is_available():
        pytest.skip("no seccomp listener here")
    choice, progress = sandbox.choose_machine("sandbox"), SearchProgress(4, 4.0, quiet=True)

    def harness_in(folder: str) -> SearchHarness:
        return SearchHarness("fit", DOCUMENT, tmp_path / folder, choice, progress, jobs=1)

    with harness_in("warm") as harness:
        first, second = expand(harness.file, machine="sandbox")
        harness.make([first])
        [warm] = harness.make([second]).values()
        assert harness._kept is not None and harness._kept.standby.taken == 1
    assert sandboxes() == []
    with harness_in("cold") as harness:
        [cold] = harness.make([replace(second)]).values()
        assert harness._kept is not None and harness._kept.standby.taken == 0

    for name in ("sockets.jsonl", "queues.jsonl", "flows.json", "env.json", "fidelity.json"):
        assert (warm / name).read_bytes() == (cold / name).read_bytes(), name
