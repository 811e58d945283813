"""Where a guest's memory is a file, and whether it fits there.

User-Mode Linux maps its memory, executable, from an unlinked file. Where the sandbox has mounts of
its own that is a tmpfs of its own. Elsewhere it is the first place that will do: containers mount
/dev/shm small and noexec, hardened hosts /tmp.
"""

import mmap
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gostlab.sandbox import MachineError
from gostlab.sandbox.host_limits import limit_mib, memory_left, read_lines

MIB = 2**20
# A tmpfs has pages of its own besides the guest's memory (and the guest's kernel is mapped there
# too).
MEMORY_SLACK_MIB = 64
OWN_TMPFS = "a tmpfs of its own"
RESULTS_DISK = "the results' disk"
NAMED = "GOSTLAB_TMP"  # the environment's word for a place
PREFIX = "gostlab-memory-"
BOOTED_BY_NOW_S = 600.0
RAM_FILESYSTEMS = ("tmpfs", "ramfs")


class MemoryPlace:
    """Where the file of a guest's memory is.

    folder  the guest's own: a tmpfs that the sandbox mounts, or a folder within `within` that is
            made on entering and is gone on leaving
    """

    def __init__(self, own: Path, within: Path | None) -> None:
        self._within, self._own = within, own
        self.folder = own
        self._made = False

    def __str__(self) -> str:
        if self._within is None:
            return OWN_TMPFS
        return RESULTS_DISK if self._within == self._own else str(self._within)

    def enter(self) -> None:
        """Make the folder: Landlock lets the guest write in it, and in nothing of others' beside
        it. Folders of guests whose starter was killed are taken away. Raises OSError.
        """
        if self._within is None or self._within == self._own:
            return
        for left in self._within.glob(f"{PREFIX}*"):
            with suppress(OSError):
                # Empty as soon as a guest has opened its memory, which is a matter of milliseconds.
                if time.time() - left.stat().st_mtime > BOOTED_BY_NOW_S:
                    left.rmdir()
        self.folder, self._made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._within)), True

    def leave(self) -> None:
        """Take the folder away; it may be called twice."""
        if self._made:
            self._made = False
            shutil.rmtree(self.folder, ignore_errors=True)


def memory_place(memory_mib: int, folder: Path, *, own_mounts: bool) -> MemoryPlace:
    """The place for so much memory of the guest that has a run's folder.

    own_mounts  the sandbox can mount a tmpfs of its own
    Raises MachineError, which says of every place why it will not do.
    """
    own = folder / ".uml"
    for limit, what, remedy in (
        (
            resource.RLIMIT_FSIZE,
            "no file of this process may be larger than",
            "ulimit -f unlimited",
        ),
        (resource.RLIMIT_AS, "this process's address space is limited to", "ulimit -v unlimited"),
    ):
        most_mib = limit_mib(limit)
        if most_mib is not None and most_mib < memory_mib:
            raise MachineError(
                f"{what} {most_mib} MiB, the sandbox's memory is one file of {memory_mib} MiB that"
                f" it maps: {remedy}, or ask for less (--set memory=…)"
            )
    if own_mounts:
        check_left(memory_mib)
        return MemoryPlace(own, None)
    reasons = []
    for place in candidates(own):
        why_not = unfit(place, memory_mib)
        if why_not is None:
            if is_in_memory(place):
                check_left(memory_mib)
            return MemoryPlace(own, place)
        reasons.append(f"{RESULTS_DISK if place == own else place} {why_not}")
    raise MachineError(
        f"nowhere to keep the sandbox's {memory_mib} MiB of memory: {'; '.join(reasons)}: name a"
        f" folder with {NAMED}, or enlarge one (docker run --shm-size 2g --tmpfs /tmp:exec)"
    )


def candidates(own: Path) -> Iterator[Path]:
    """The places to try, in order: named, the host's tmpfses, /tmp, and the results' own disk."""
    named = os.environ.get(NAMED)
    if named:
        yield Path(named).absolute()
    yield Path("/dev/shm")
    yield Path(f"/run/user/{os.geteuid()}")
    yield Path("/tmp")
    yield own


def unfit(place: Path, memory_mib: int) -> str | None:
    """Why a guest's memory cannot be there, in a few words; None if it can. Tried with a page."""
    if not place.is_dir():
        return "is not there"
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.truncate(mmap.PAGESIZE)
            os.posix_fallocate(file.fileno(), 0, mmap.PAGESIZE)
            protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
            try:
                mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_SHARED, protection).close()
            except OSError:
                return "is mounted noexec"
        free_mib = shutil.disk_usage(place).free // MIB
    except OSError as error:
        return f"cannot be written ({error.strerror or error})"
    needed_mib = memory_mib + MEMORY_SLACK_MIB
    return None if free_mib >= needed_mib else f"has {free_mib} of {needed_mib} MiB free"


def check_left(memory_mib: int) -> None:
    """Refuse a guest whose memory is not to be had, or it would be killed. Raises MachineError."""
    left = memory_left()
    if left.free_mib < memory_mib:
        raise MachineError(
            f"{left.limited_by} has {left.free_mib} MiB of memory available, the sandbox needs"
            f" {memory_mib} MiB: end what else takes it, run fewer --jobs, or ask for less"
            " (--set memory=…)"
        )


def is_in_memory(place: Path) -> bool:
    """Whether what is written to a folder takes memory rather than disk."""
    found = ("", "")
    for line in read_lines(Path("/proc/self/mountinfo")):
        fields, _, kind = line.partition(" - ")
        mounted = fields.split()[4]
        if place.is_relative_to(mounted) and len(mounted) >= len(found[0]):
            found = (mounted, kind.split()[0])
    return found[1] in RAM_FILESYSTEMS
