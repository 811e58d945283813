# SPDX-License-Identifier: MIT
"""The native machine, tried in a guest: a machine whose kernel has netem and whose root we may
be.
"""

import json
import re
import sys
from shlex import quote
from typing import Any

import pytest

from gostlab.registry.folders import cache_folder
from gostlab.sandbox import CHECKOUT
from tests.sandboxed import Done, Lab

pytestmark = pytest.mark.sandbox

RUN = (
    f"{quote(sys.executable)} -m gostlab run thesis-tunnel --quick --matrix main --set tunnel=gost+ws --set"
    " streams=1 --set rate=10mbit --set delay=10ms --set cc=cubic --set duration={duration} --machine"
    " {machine} --results /run/gostlab/results"
)
# All that a run could change on a machine. Left out: counters that move with every file looked up,
# process or request started (of files, inodes, terminals, connections, the last pid), what is drawn
# anew with every look, and what the scheduler sets by itself; of links and addresses what passes.
VOLATILE = (
    "fs[.](dentry-state|inode-nr|inode-state|file-nr|aio-nr|epoll)|kernel[.](ns_last_pid|pty.nr|"
    "random[.](uuid|entropy_avail)|sched_domain)|net.netfilter.nf_conntrack_count"
)
STATE = (
    f"sysctl -a 2>/dev/null | grep -v -E '^({VOLATILE})'; tc qdisc; ip netns;"
    " ip -o link | sed -E 's/state [A-Z]+|qlen [0-9]+//g'; ip -o addr | sed 's/valid_lft.*//';"
    " ip route show table all; cat /proc/self/mountinfo"
)
OURS = (
    f"{STATE}; lsns --noheadings --output NS,TYPE; ps --ppid 2 -p 2 --deselect -o comm=;"
    " ls /dev/shm /sys/module"
)


def in_guest(lab: Lab, script: str, **asked: Any) -> Done:
    """What a script comes to in the checkout, in a guest that has what set-up made."""
    keep, cache = [cache_folder(), *lab.keep], cache_folder()
    words = f"cd {quote(str(CHECKOUT))}; export GOSTLAB_CACHE={cache}; {script}"
    return lab.command(words, memory_mib=1024, keep=keep, **asked)


@pytest.fixture(scope="module")
def done(lab: Lab) -> Done:
    """A guest that makes a run on the machine that is taken unasked, and repeats it by hand; what
    the guest is like before, between and after.
    """
    state = "ip netns; ls /tmp; pgrep -c iperf3; pgrep -c relay; ip -o link"
    return in_guest(
        lab,
        f"({OURS}) >/run/gostlab/before;{RUN.format(machine='auto', duration='1s')}; echo exit $?; ({OURS})"
        f" >/run/gostlab/after; ({state}) >/run/gostlab/clean; cd /;"
        " sh /run/gostlab/results/thesis-tunnel/main-*/commands.sh /run/gostlab/again"
        f" && echo again $?; ({state}) >/run/gostlab/left",
    )


def test_auto_takes_native_for_root_on_a_kernel_with_netem_says_so_and_leaves_it_as_it_was(
    done: Done,
) -> None:
    assert "machine: native (root, and this kernel has netem)" in done.log
    assert "exit 0" in done.log, done.log
    folder = next((done.folder / "results" / "thesis-tunnel").glob("main-*"))
    assert json.loads((folder / "status.json").read_text())["outcome"] == "ok", (
        folder / "log.txt"
    ).read_text()
    assert json.loads((folder / "run.json").read_text())["clock"] == "real"
    assert (done.folder / "before").read_text() == (done.folder / "after").read_text()


@pytest.mark.parametrize("kernel", ["5.10", "6.12"])
def test_a_native_run_takes_what_the_kernel_has_and_says_what_it_lacks(
    lab: Lab, kernel: str
) -> None:
    lossy = RUN.format(machine="native", duration="1s") + " --set loss=1%"

    done = in_guest(lab, f"{lossy}; echo exit $?", kernel=kernel)

    assert "exit 0" in done.log, done.log
    folder = next((done.folder / "results" / "thesis-tunnel").glob("main-*"))
    assert json.loads((folder / "status.json").read_text())["outcome"] == "ok"
    checks = json.loads((folder / "fidelity.json").read_text())["checks"]
    said = [each["reason"] for each in checks if each["name"] == "kernel_lacks"]
    assert ["no seed of netem" in each for each in said] == [True] * (kernel == "5.10")


def test_a_killed_native_run_leaves_no_process(lab: Lab) -> None:
    nodes = "$(cat /proc/[0-9]*/task/*/comm 2>/dev/null | grep -c ^mininet:)"
    left = f"echo left $(pgrep -c iperf3) $(pgrep -xc 'relay|gost') {nodes}"
    run = RUN.format(machine="native", duration="3s")
    done = in_guest(lab, f"{run} & pid=$!; sleep 2; {left}; kill -KILL $pid; sleep 1; {left}")

    counts = re.findall(r"left (\d+) (\d+) (\d+)", done.log)
    assert counts == [("2", "2", "5"), ("0", "0", "0")], done.log  # in full swing, and gone


def test_commands_sh_repeats_the_run_by_hand_and_leaves_nothing(done: Done) -> None:
    assert "again 0" in done.log, done.log
    assert re.search(r"^flow1: [5-9]\.\d+ Mbit/s, Retr \d+$", done.log, re.MULTILINE), done.log
    assert (done.folder / "clean").read_text() == (done.folder / "left").read_text()
    report = json.loads((done.folder / "again" / "iperf3.json").read_text())
    assert 5e6 < report["end"]["sum_received"]["bits_per_second"] < 10e6
