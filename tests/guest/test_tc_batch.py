# SPDX-License-Identifier: MIT
"""A tc that stays gives each command's own answer, or its error."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gostlab.guest import tc_batch
from gostlab.guest.tc_batch import TcError, TcPipe

# It prints what `tc -s -batch -` prints of a device, and ends at a device that is not there.
TC = """
import sys
for line in sys.stdin:
    device = line.split()[-1]
    if device == "gone":
        sys.exit('Cannot find device "gone"')
    kind = "noqueue 0: root refcnt 2" if device == "lo" else "tbf 1: root refcnt 2 rate 10Mbit"
    print(f"qdisc {kind} ")
    print(" Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) ", flush=True)
    print(" backlog 0b 0p requeues 0", flush=True)
"""


@pytest.fixture
def pipe(tmp_path: Path) -> TcPipe:
    """A tc of text that this machine need not have."""
    program = tmp_path / "tc.py"
    program.write_text(TC)

    def start(_argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, str(program)], **options)

    return TcPipe(start, tc_batch.TEXT)


def show(device: str) -> list[str]:
    return ["tc", "qdisc", "show", "dev", device]


def test_a_text_is_that_of_its_commands_alone(pipe: TcPipe) -> None:
    one = pipe.show_text([show("wan_a-eth1")])
    two = pipe.show_text([show("wan_a-eth0"), show("wan_a-eth1")])
    pipe.close()

    assert one.count("qdisc") == 1
    assert two == one + one
    assert one.startswith("qdisc tbf 1: root")
    assert one.endswith(" backlog 0b 0p requeues 0\n")


def test_a_refused_command_is_said_in_tc_s_words(pipe: TcPipe) -> None:
    with pytest.raises(TcError, match=r'qdisc show dev gone.*Cannot find device "gone"'):
        pipe.show_text([show("gone")])
