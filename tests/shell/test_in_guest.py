# SPDX-License-Identifier: MIT
"""What a prompt has before its first command."""

from pathlib import Path

from gostlab.shell.in_guest import TUNNEL_COMMAND, link_programs
from tests.sandboxed import PLAIN, describe


def test_the_prompts_programs_are_the_runs(tmp_path: Path) -> None:
    built = {"path": "/opt/iperf3", "version": PLAIN.iperf3, "sha256": "0" * 64}
    parts = {"iperf3": {PLAIN.iperf3: built}, "tunnel": {"path": "/opt/gost"}}

    folder = link_programs(tmp_path, describe(), parts)

    links = {link.name: str(link.readlink()) for link in folder.iterdir()}
    assert links == {"iperf3": "/opt/iperf3", TUNNEL_COMMAND: "/opt/gost"}
