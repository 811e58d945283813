# SPDX-License-Identifier: MIT
"""Choose the file system of a guest's memory file, and check that the memory fits.

User-Mode Linux maps its memory, executable, from an unlinked file. If the sandbox has mounts of its
own, that file is on a tmpfs of its own. Otherwise it is in the first folder that is suitable:
containers mount /dev/shm small and noexec, hardened hosts /tmp.
"""

from __future__ import annotations

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
from gostlab.sandbox.host_limits import available_memory, limit_mib, read_lines

MIB = 2**20
# A tmpfs needs pages for its metadata, and the guest's kernel is mapped from it, too.
MEMORY_SLACK_MIB = 64
OWN_TMPFS = "a tmpfs of its own"
RESULTS_DISK = "the results' disk"
FOLDER_VARIABLE = "GOSTLAB_TMP"  # environment variable that names the folder
PREFIX = "gostlab-memory-"
MAX_BOOT_S = 600.0
RAM_FILESYSTEMS = ("tmpfs", "ramfs")


class MemoryPlace:
    """The folder of a guest's memory file.

    folder  the guest's own: a tmpfs that the sandbox mounts, or a temporary folder within `within`,
            created by enter and removed by leave
    """

    def __init__(self, own: Path, within: Path | None) -> None:
        self._within, self._own = within, own
        self.folder = own
        self._made = False

    @property
    def is_in_run_folder(self) -> bool:
        """Return whether the folder is the folder .uml of the guest's own folder."""
        return self._within in (None, self._own)

    def __str__(self) -> str:
        if self._within is None:
            return OWN_TMPFS
        return RESULTS_DISK if self._within == self._own else str(self._within)

    def shared_by(self, folder: Path) -> MemoryPlace:
        """Return the place for a guest with another folder, whose memory is in the same one."""
        folder_of_memory = folder / ".uml"
        shared = MemoryPlace(
            folder_of_memory, folder_of_memory if self._within == self._own else self._within
        )
        shared.folder = self.folder
        return shared

    def enter(self) -> None:
        """Create the folder, so that Landlock can restrict the guest to it.

        Stale folders of guests whose parent was killed are removed. Raises OSError.
        """
        if self.is_in_run_folder or self._within is None:
            return
        for stale in self._within.glob(f"{PREFIX}*"):
            with suppress(OSError):
                # A folder is empty as soon as its guest has opened its memory, after milliseconds.
                if time.time() - stale.stat().st_mtime > MAX_BOOT_S:
                    stale.rmdir()
        self.folder, self._made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._within)), True

    def leave(self) -> None:
        """Remove the folder. May be called twice."""
        if self._made:
            self._made = False
            shutil.rmtree(self.folder, ignore_errors=True)


def choose_memory_folder(memory_mib: int, folder: Path, *, own_mounts: bool) -> MemoryPlace:
    """Return a suitable folder for the memory of a guest.

    own_mounts the sandbox can mount a tmpfs of its own

    Raises MachineError with the reason for every unsuitable folder.
    """
    own_folder = folder / ".uml"
    for limit, limit_text, remedy in (
        (
            resource.RLIMIT_FSIZE,
            "no file of this process may be larger than",
            "ulimit -f unlimited",
        ),
        (resource.RLIMIT_AS, "this process's address space is limited to", "ulimit -v unlimited"),
    ):
        max_mib = limit_mib(limit)
        if max_mib is not None and max_mib < memory_mib:
            raise MachineError(
                f"{limit_text} {max_mib} MiB, the sandbox's memory is one file of {memory_mib} MiB"
                f" that it maps: {remedy}, or ask for less (--set memory=…)"
            )
    if own_mounts:
        require_memory(memory_mib)
        return MemoryPlace(own_folder, None)
    reasons = []
    for candidate in candidates(own_folder):
        reason = explain_unfit(candidate, memory_mib)
        if reason is None:
            if is_ram_backed(candidate):
                require_memory(memory_mib)
            return MemoryPlace(own_folder, candidate)
        reasons.append(f"{RESULTS_DISK if candidate == own_folder else candidate} {reason}")
    raise MachineError(
        f"nowhere to keep the sandbox's {memory_mib} MiB of memory: {'; '.join(reasons)}: name a"
        f" folder with {FOLDER_VARIABLE}, or enlarge one (docker run --shm-size 2g --tmpfs"
        " /tmp:exec)"
    )


def candidates(own_folder: Path) -> Iterator[Path]:
    """Yield the folders to try: GOSTLAB_TMP, the host's tmpfses, /tmp, the results' disk."""
    user_folder = os.environ.get(FOLDER_VARIABLE)
    if user_folder:
        yield Path(user_folder).absolute()
    yield Path("/dev/shm")
    yield Path(f"/run/user/{os.geteuid()}")
    yield Path("/tmp")
    yield own_folder


def explain_unfit(folder: Path, memory_mib: int) -> str | None:
    """Return why a guest's memory cannot be in a folder, None if it can; tries one page."""
    if not folder.is_dir():
        return "is not there"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(mmap.PAGESIZE)
            os.posix_fallocate(file.fileno(), 0, mmap.PAGESIZE)
            protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
            try:
                mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_SHARED, protection).close()
            except OSError:
                return "is mounted noexec"
        free_mib = shutil.disk_usage(folder).free // MIB
    except OSError as error:
        return f"cannot be written ({error.strerror or error})"
    needed_mib = memory_mib + MEMORY_SLACK_MIB
    return None if free_mib >= needed_mib else f"has {free_mib} of {needed_mib} MiB free"


def require_memory(memory_mib: int) -> None:
    """Reject a guest that the available memory cannot hold. Raises MachineError."""
    left = available_memory()
    if left.free_mib < memory_mib:
        raise MachineError(
            f"{left.limited_by} has {left.free_mib} MiB of memory available, the sandbox needs"
            f" {memory_mib} MiB: end what else takes it, run fewer --jobs, or ask for less"
            " (--set memory=…)"
        )


def is_ram_backed(folder: Path) -> bool:
    """Return whether files in a folder use memory rather than disk."""
    mount = ("", "")
    for line in read_lines(Path("/proc/self/mountinfo")):
        fields, _, fs_fields = line.partition(" - ")
        mount_point = fields.split()[4]
        if folder.is_relative_to(mount_point) and len(mount_point) >= len(mount[0]):
            mount = (mount_point, fs_fields.split()[0])
    return mount[1] in RAM_FILESYSTEMS
