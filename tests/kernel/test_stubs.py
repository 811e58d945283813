# SPDX-License-Identifier: MIT
"""The host processes of a guest's programs (stubs), some of which serve the next programs."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from gostlab.install import locate
from tests.kernel.test_hostfs import BOOT_ARGS
from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

# Other programs have left stubs that are kept when the loop starts. A program that sleeps in a call
# would learn only on its way back to user mode that its stub is gone.
INIT = """#!/bin/sh
mount -t proc proc /proc
for number in 1 2 3 4; do cat /proc/uptime >/dev/null; done
(while :; do :; done) &
echo "runs"
wait $!
echo "ended $?"
number=0
while [ $number -lt 24 ]; do cat /proc/uptime >/dev/null && number=$((number + 1)); done
echo "made $number"
echo o >/proc/sysrq-trigger
sleep 10
"""


def test_a_stub_killed_from_outside_ends_one_program_and_not_the_next(
    lab: Lab, tmp_path: Path
) -> None:
    kernel = lab.kernel
    init = tmp_path / "init"
    init.write_text(INIT, encoding="utf-8")
    init.chmod(0o755)
    argv = [kernel, *BOOT_ARGS.split(), f"init={init}", *locate.seccomp_args(kernel)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    guest = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
    assert guest.stdout is not None
    watchdog = threading.Timer(60.0, guest.kill)
    watchdog.start()
    said = []
    try:
        for line in guest.stdout:
            said.append(line.strip())
            if said[-1] == "runs":
                children = Path(f"/proc/{guest.pid}/task/{guest.pid}/children")
                stubs = sorted(map(int, children.read_text(encoding="ascii").split()))
                # The first is init's own; the others are the loop's and those that are kept.
                assert len(stubs) > 1
                for stub in stubs[1:]:
                    os.kill(stub, signal.SIGKILL)
    finally:
        watchdog.cancel()
        guest.kill()
        guest.wait()
    ended = [line for line in said if line.startswith("ended ")]
    assert ended in (["ended 137"], ["ended 139"])
    assert "made 24" in said
