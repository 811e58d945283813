# SPDX-License-Identifier: MIT
"""What a program finds in memory: of a file what the host has, of a fork what it had itself, of the
program before it nothing. On each kernel, whose faults bring more pages than were asked for.
"""

import hashlib
import random
import re

import pytest

from gostlab.registry.kernels import SHIPPED, declared_kernels
from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

KERNELS = [SHIPPED, *(name for name, each in declared_kernels().items() if each.version < (6, 16))]
FILE_BYTES = 5_000_003
MAPPED = """
import hashlib, mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
for at in range(len(mapped) - 1, -1, -mmap.PAGESIZE):
    mapped[at]  # the last page first: no reading ahead
print(hashlib.sha256(mapped).hexdigest())
"""
# Each reads the file from the host anew.
READ = """
for words in 'sha256sum {file}' 'dd if={file} bs=77777 status=none' 'python3 -S {mapped} {file}'
do
    echo 3 > /proc/sys/vm/drop_caches
    case $words in dd*) $words | sha256sum;; *) $words;; esac
done
"""
FORKED = """
import mmap, os
PAGES = 300
mine = mmap.mmap(-1, PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(PAGES):
    mine[page * mmap.PAGESIZE] = page % 251
def holds(changed):
    wanted = [255 if page in changed else page % 251 for page in range(PAGES)]
    return [mine[page * mmap.PAGESIZE] for page in range(PAGES)] == wanted
some = set(range(0, PAGES, 7))
child = os.fork()
if child == 0:
    for page in some:
        mine[page * mmap.PAGESIZE] = 255
    os._exit(not holds(some))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), holds(set()))
"""
LEAVES, FINDS = (
    "import ctypes; c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p;"
    " at = c.mmap(ctypes.c_void_p(0x200000000), 65536, 3, 0x32, -1, 0);"
    " ctypes.memset(at, 7, 65536); print(hex(at))",
    "import ctypes; print(ctypes.string_at(0x200000000, 4))",
)


@pytest.fixture(scope="module", params=KERNELS)
def said(
    request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], bytes]:
    """What each program says in one guest of a kernel; and what the host has in the file."""
    place = tmp_path_factory.mktemp("memory")
    file, mapped, forked = (place / name for name in ("file", "mapped.py", "forked.py"))
    file.write_bytes(random.Random(1).randbytes(FILE_BYTES))
    mapped.write_text(MAPPED)
    forked.write_text(FORKED)
    scripts = [
        READ.format(file=file, mapped=mapped),
        f"python3 -S {forked}",
        f"for n in 1 2 3; do python3 -S -c '{LEAVES}'; python3 -S -c '{FINDS}'; echo ended $?; done",
    ]
    done = lab.command("\necho next\n".join(scripts), keep=[place], kernel=request.param)
    return done.log.split("next\n"), file.read_bytes()


def test_a_file_is_what_the_host_has(said: tuple[list[str], bytes]) -> None:
    (log, _, _), content = said
    sums = re.findall(r"^[0-9a-f]{64}", log, re.MULTILINE)
    assert sums == 3 * [hashlib.sha256(content).hexdigest()], log


def test_a_fork_and_its_maker_keep_each_their_own(said: tuple[list[str], bytes]) -> None:
    (_, log, _), _ = said
    assert log == "0 True\n"


def test_a_program_finds_nothing_of_the_one_before_it(said: tuple[list[str], bytes]) -> None:
    (_, _, log), _ = said
    lines = [line for line in log.splitlines() if line.startswith(("0x", "ended", "b'"))]
    assert lines == 3 * ["0x200000000", "ended 139"], log
