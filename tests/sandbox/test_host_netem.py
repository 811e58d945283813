# SPDX-License-Identifier: MIT
"""Whether a machine's kernel has netem, by its files alone."""

import gzip
from pathlib import Path

import pytest

from gostlab import sandbox
from gostlab.sandbox import has_netem


@pytest.mark.parametrize(
    ("where", "content", "expected"),
    [
        ("lib/modules/6.1/modules.dep", b"kernel/net/sched/sch_netem.ko.xz:\n", True),
        ("lib/modules/6.1/modules.builtin", b"kernel/net/sched/sch_netem.ko\n", True),
        ("lib/modules/6.1/modules.dep", b"kernel/net/sched/sch_htb.ko:\n", False),
        ("lib/modules/5.9/modules.dep", b"kernel/net/sched/sch_netem.ko:\n", False),
        ("proc/config.gz", gzip.compress(b"CONFIG_NET_SCH_NETEM=y\n", mtime=0), True),
        ("proc/config.gz", gzip.compress(b"CONFIG_NET_SCH_NETEM=m\n", mtime=0), False),
    ],
)
def test_netem_is_found_without_asking_for_it(
    tmp_path: Path, where: str, content: bytes, expected: bool
) -> None:
    (tmp_path / where).parent.mkdir(parents=True)
    (tmp_path / where).write_bytes(content)
    assert has_netem(tmp_path, "6.1") is expected


def test_for_the_sandbox_the_kernel_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "host_has_netem", pytest.fail)
    assert sandbox.choose_machine("sandbox").name == "sandbox"
