"""Whether a machine's kernel has netem, by its files alone."""

import gzip
from pathlib import Path

import pytest

from gostlab.machine import has_netem


@pytest.mark.parametrize(
    ("where", "content", "expected"),
    [
        ("lib/modules/6.1/modules.dep", "kernel/net/sched/sch_netem.ko.xz:\n", True),
        ("lib/modules/6.1/modules.builtin", "kernel/net/sched/sch_netem.ko\n", True),
        ("lib/modules/6.1/modules.dep", "kernel/net/sched/sch_htb.ko:\n", False),
        ("lib/modules/5.9/modules.dep", "kernel/net/sched/sch_netem.ko:\n", False),
    ],
)
def test_netem_is_found_without_asking_for_it(
    tmp_path: Path, where: str, content: str, expected: bool
) -> None:
    (tmp_path / where).parent.mkdir(parents=True)
    (tmp_path / where).write_text(content, encoding="utf-8")
    assert has_netem(tmp_path, "6.1") is expected


@pytest.mark.parametrize(
    ("option", "expected"),
    [("CONFIG_NET_SCH_NETEM=y\n", True), ("CONFIG_NET_SCH_NETEM=m\n", False)],
)
def test_netem_may_be_built_in(tmp_path: Path, option: str, expected: bool) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "config.gz").write_bytes(gzip.compress(option.encode()))
    assert has_netem(tmp_path, "6.1") is expected
