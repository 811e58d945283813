# SPDX-License-Identifier: MIT
"""Keep sandboxes booted for the next runs.

A standby guest has booted and imported everything, and waits at its held call (held_syscall) for
a run. It stands still in one system call of the host: it uses no CPU time, and its virtual clock
does not move, so that its run has the same samples as that of a guest that has just booted. Its
memory is what it has touched, about 60 MB.

Where the kernel can copy itself, one of them is a template: it executes no run, and the other
standby guests are copies of it (gostlab.sandbox.guest_cloning), which cost a tenth of a boot. A run
that finds no standby guest gets a copy, too.

A thread of the pool boots and copies them, while runs go on and while their results are read.

A guest is bound to what it was given at boot (`RunBoot.key`). Whatever prevents that a standby
guest is used, the guest of the run boots as it would without.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
import weakref
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from gostlab.sandbox import MachineError, held_syscall
from gostlab.sandbox.guest_cloning import Template, boot_template
from gostlab.sandbox.host_limits import available_memory
from gostlab.sandbox.pool_thread import PoolThread
from gostlab.sandbox.uml import Guest, RunBoot

FOLDER = ".standby"  # subfolder of a results folder with the folders of standby guests
LOCK = "lock"  # file beside a standby guest's folder, locked while its process is alive
IDLE_LIMIT_S = 30.0  # after this long without a run, standby guests are ended
# A folder has no lock only just after its creation, and just before its removal.
WITHOUT_LOCK_S = 600.0
# Two of the last runs that boot alike get a template although no CPU is idle. One that none of them
# needs makes room for another.
RECENT_RUNS = 8
# A standby guest boots only if this many times its memory is available.
MEMORY_RESERVE = 2


@dataclass(frozen=True)
class Standby:
    """A booted guest without a run."""

    guest: Guest
    key: Hashable
    cpu: int
    working_folder: StandbyFolder | CopyFolder

    def take_over(self, folder: Path, cpu: int, limit_s: float) -> Guest:
        """Let the guest execute the run in a folder, on a CPU. Raises OSError."""
        self.working_folder.move_to(folder)
        if cpu != self.cpu:
            pin_group(self.guest.group, cpu)
        self.guest.resume(folder, limit_s)
        return self.guest

    def discard(self) -> None:
        """End the guest and remove its folder; may be called twice."""
        self.guest.kill()
        self.working_folder.remove()


class StandbyFolder:
    """The folder of a standby guest, which becomes that of its run.

    guest_folder  the folder that the guest may write
    """

    def __init__(self, within: Path) -> None:
        """Create it. The folders of dead processes are removed. Raises OSError."""
        remove_abandoned(within)
        self._path = within / os.urandom(6).hex()
        self.guest_folder = self._path / "run"
        self.guest_folder.mkdir(parents=True)
        # The lock file gets its name only once it is locked: an unlocked one marks an abandoned
        # folder.
        unnamed = self._path / f"{LOCK}-begun"
        self._lock: TextIO = unnamed.open("w", encoding="ascii")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self._path / LOCK)

    def move_to(self, folder: Path) -> None:
        """Rename the guest's folder to that of a run, with the files that are there.

        The guest knows it by its current folder, Landlock by its inode. Raises OSError; the run's
        folder is then as before.
        """
        move_guest_folder(self.guest_folder, folder)
        self.remove()

    def remove(self) -> None:
        """Remove the folder, or what is left after `move_to`; may be called twice."""
        shutil.rmtree(self._path, ignore_errors=True)
        self._lock.close()
        with suppress(OSError):
            self._path.parent.rmdir()  # the last one succeeds


@dataclass(frozen=True)
class CopyFolder:
    """The folder of a copy, within its template's, which becomes that of its run."""

    guest_folder: Path

    def move_to(self, folder: Path) -> None:
        """Rename the guest's folder as `StandbyFolder.move_to` does. Raises OSError."""
        move_guest_folder(self.guest_folder, folder)

    def remove(self) -> None:
        """Remove the folder, unless it was moved; may be called twice."""
        shutil.rmtree(self.guest_folder, ignore_errors=True)


def move_guest_folder(guest_folder: Path, folder: Path) -> None:
    """Rename a guest's folder to that of a run, with the files that are there.

    Raises OSError; both folders are then as before.
    """
    moved: list[Path] = []
    try:
        for file in list(folder.iterdir()):
            file.rename(guest_folder / file.name)
            moved.append(file)
        guest_folder.rename(folder)  # replaces it, as it is empty
    except OSError:
        for file in moved:
            (guest_folder / file.name).rename(file)
        raise


@dataclass(frozen=True)
class StandbyTemplate:
    """A guest without a run of which copies are made."""

    standby: Standby
    template: Template

    def copy(self, cpu: int) -> Standby:
        """Return a standby guest that is a copy, on a CPU. Raises OSError."""
        copy = self.template.copy(cpu)
        return Standby(copy, self.standby.key, cpu, CopyFolder(copy.folder))

    def discard(self) -> None:
        """End the guest and remove its folder; its copies go on. May be called twice."""
        self.standby.discard()


def remove_abandoned(within: Path) -> None:
    """Remove the folders of standby guests whose process has ended without removing them."""
    with suppress(OSError):
        for entry in list(within.iterdir()):
            if is_abandoned(entry):
                shutil.rmtree(entry, ignore_errors=True)


def is_abandoned(place: Path) -> bool:
    """Return whether no process holds the lock of a standby guest's folder."""
    try:
        with (place / LOCK).open("r+", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except FileNotFoundError:
        with suppress(OSError):
            return time.time() - place.stat().st_mtime > WITHOUT_LOCK_S
        return False
    except OSError:
        return False


class StandbyPool:
    """Standby guests for runs in one results folder.

    taken  number of runs that a standby guest has executed

    Any thread may use it. A guest ends with the thread that booted it, or its template: that of a
    run's own boot, or the pool's, which ends when the pool is closed and its guests have ended. In
    a forked process each run boots its own guest.
    """

    def __init__(
        self,
        results: Path,
        cpus: Sequence[int],
        *,
        idle_limit_s: float = IDLE_LIMIT_S,
        ahead: bool = True,
    ) -> None:
        """Boot nothing yet.

        cpus          where guests boot; there is at most one standby guest, and one template, for
                      each
        idle_limit_s  after this long without a run, standby guests are ended
        ahead         without it nothing boots ahead but templates of runs that follow one another
        """
        self.taken = 0
        self._folder = results.resolve() / FOLDER
        self._cpus, self._idle_limit_s, self._is_ahead = tuple(cpus), idle_limit_s, ahead
        self._standbys: list[Standby] = []
        self._templates: list[StandbyTemplate] = []  # their keys differ
        self._active: dict[Guest, int] = {}  # guests with a run, and the CPU of each
        self._last: RunBoot | None = None  # how the last guest has booted
        self._last_key: Hashable = None
        self._is_repeated = False  # whether the last two guests have booted alike
        self._recent: deque[Hashable] = deque(maxlen=RECENT_RUNS)  # keys of the last runs
        self._is_off = not held_syscall.is_available()
        self._copies_fail = False
        self._mutex = threading.RLock()
        self._used_s = time.monotonic()
        self._owner = os.getpid()
        # What the pool's thread is to do next.
        self._wanted = 0  # number of standby guests
        self._template_cpu: int | None = None  # CPU for a template, None if none is wanted
        self._is_changed = False  # whether guests that the last two runs could not use make room
        self._thread = PoolThread(
            weakref.WeakMethod(self._provide), partial(is_any_running, self._active)
        )
        weakref.finalize(self, end_pool, self._thread, self._standbys, self._templates, self._owner)

    @property
    def waiting(self) -> int:
        """Return the number of standby guests, with the templates."""
        return len(self._standbys) + len(self._templates)

    @property
    def ready(self) -> int:
        """Return the number of standby guests that have booted, with the templates."""
        guests = [standby.guest for standby in self._living()]
        guests += [template.standby.guest for template in self._templates]
        return sum(bool(guest.held and guest.held.has_come()) for guest in guests)

    def start(self, boot: RunBoot, folder: Path, cpu: int) -> Guest:
        """Let a standby guest execute the run in a folder, or boot a guest that does.

        Raises MachineError or OSError.
        """
        if os.getpid() != self._owner:
            return boot.boot(folder, cpu)
        with self._mutex:
            self._expect(boot)
            self._recent.append(self._last_key)
            guest = self._taken_over(boot, folder, cpu) or self._booted(boot, folder, cpu)
            guest.at_end = partial(self._handle_end, guest)
            self._active[guest] = cpu
            is_first = self._is_repeated and self._is_ahead and not self._standbys
            self._wanted = max(self._wanted, int(is_first))
            if self._recent.count(self._last_key) > 1 and self._template() is None:
                self._template_cpu = cpu
            has_orders = self._wanted > 0 or self._template_cpu is not None
        if has_orders:
            self._thread.order()
        return guest

    def prepare(self, boot: RunBoot) -> None:
        """Boot a standby guest for runs that boot so, unless there is one."""
        with self._mutex:
            self._expect(boot)
            keys = [standby.key for standby in self._standbys]
            keys += [template.standby.key for template in self._templates]
            if self._last_key in keys:
                return
            self._wanted = len(self._standbys) + 1
        self._thread.order()
        self.settle()

    def refill(self) -> None:
        """Order a standby guest like the last one for each CPU without a run.

        Guests that the last two runs could not use make room. This waits for nothing: the next run
        may begin at once.
        """
        if self._is_ahead and os.getpid() == self._owner:
            self._wanted, self._is_changed = len(self._cpus), True
            self._thread.order()

    def settle(self) -> None:
        """Wait until the guests that were ordered have begun to boot, or are copied."""
        if os.getpid() == self._owner:
            self._thread.wait()

    def close(self) -> None:
        """End all standby guests, and boot no more."""
        if os.getpid() != self._owner:
            return
        with self._mutex:
            self._is_off = True
            self._discard_all()
        self._thread.stop()

    def _expect(self, boot: RunBoot) -> None:
        """Expect runs that boot like this one.

        During a run no guest boots ahead where two kinds of guests alternate: half of them would be
        in vain.
        """
        try:
            key = boot.key if boot.can_wait else None
        except OSError:
            key = None
        self._is_repeated = key is not None and self._last_key in (None, key)
        self._last, self._last_key = (None if key is None else boot), key
        self._used_s = time.monotonic()

    def _taken_over(self, boot: RunBoot, folder: Path, cpu: int) -> Guest | None:
        """Return a standby guest that executes the run in a folder; None if none can."""
        self._living()
        while self._last_key is not None and (standby := self._next_standby(cpu)) is not None:
            try:
                guest = standby.take_over(folder, cpu, boot.limit_s)
            except OSError:  # for example a folder on another file system
                standby.discard()
                continue
            self.taken += 1
            return guest
        return None

    def _next_standby(self, cpu: int) -> Standby | None:
        """Return a standby guest for the expected run, which is the pool's no more.

        A template that still boots is waited for where runs follow one another: if each took it,
        none would ever be copied. A single run takes it, and the next one gets another.
        """
        alike = [standby for standby in self._standbys if standby.key == self._last_key]
        if alike:
            standby = next((standby for standby in alike if standby.cpu == cpu), alike[0])
            self._standbys.remove(standby)
            return standby
        template = self._template()
        if template is None:
            return None
        is_series = self._recent.count(self._last_key) > 1
        if template.template.is_ready or (is_series and template.template.wait_until_ready()):
            return self._copied(template, cpu)
        self._templates.remove(template)
        return template.standby

    def _template(self) -> StandbyTemplate | None:
        """Return the template for the expected run, None if there is none."""
        for template in self._templates:
            if template.standby.key == self._last_key:
                return template
        return None

    def _copied(self, template: StandbyTemplate, cpu: int) -> Standby | None:
        """Return a copy of a template that is ready; after an error none is made any more."""
        if not template.template.is_copyable:
            self._copies_fail = True
            self._templates.remove(template)
            return template.standby
        try:
            standby = template.copy(cpu)
        except OSError:
            self._copies_fail = True
            self._discard_template(template)
            return None
        if template.template.is_used_up:
            self._discard_template(template)
        return standby

    def _discard_template(self, template: StandbyTemplate) -> None:
        """End a template. Copies of it that wait end, too: their folders are in its folder."""
        self._templates.remove(template)
        for standby in list(self._standbys):
            if standby.working_folder.guest_folder.is_relative_to(template.template.folder):
                self._standbys.remove(standby)
                standby.discard()
        template.discard()

    def _discard_others(self) -> None:
        """End the standby guests that differ from the last guest."""
        for standby in self._living():
            if standby.key != self._last_key:
                self._standbys.remove(standby)
                standby.discard()
        for template in list(self._templates):
            if template.standby.key != self._last_key:
                self._discard_template(template)

    def _booted(self, boot: RunBoot, folder: Path, cpu: int) -> Guest:
        """Boot a guest for a run. Raises MachineError or OSError."""
        try:
            return boot.boot(folder, cpu)
        except MachineError:
            if not self.waiting:
                raise
        self._discard_all()  # their memory may be what it lacked
        return boot.boot(folder, cpu)

    def _handle_end(self, guest: Guest) -> None:
        """Note the end of a run, without a wait for a copy that is being made."""
        self._active.pop(guest, None)
        self._used_s = time.monotonic()

    def _provide(self) -> float | None:
        """Do what was ordered; return after how many seconds the guests may have to end.

        The pool's thread does this. A run may start between any two guests.
        """
        while self._provide_one():
            pass
        with self._mutex:
            self._wanted = 0
            return self._expire()

    def _provide_one(self) -> bool:
        """Boot or copy one guest like the last one; return whether there may be more to do."""
        with self._mutex:
            self._living()
            if self._is_changed and self._is_repeated:
                self._discard_others()
            self._is_changed = False
            cpu, self._template_cpu = self._template_cpu, None
            if cpu is not None and self._provide_template(cpu):
                return True
            if self._last is None or len(self._standbys) >= self._wanted:
                return False
            cpu = next(self._free_cpus(), None)
            if cpu is None or not self._has_memory():
                return False
            if not self._is_copied(self._last):
                return self._boot_standby(self._last, cpu)
            template = self._template()
            if template is None:
                return self._provide_template(cpu)
            standby = self._copied(template, cpu) if template.template.is_ready else None
            self._standbys += [] if standby is None else [standby]
            return standby is not None

    def _provide_template(self, cpu: int) -> bool:
        """Boot a template for runs like the last one, unless there is one or no room for it.

        Returns whether one boots.
        """
        if self._last is None or not self._is_copied(self._last) or self._template() is not None:
            return False
        if not self._has_memory():
            return False
        if len(self._templates) >= len(self._cpus):
            unused = [one for one in self._templates if one.standby.key not in self._recent]
            if not unused:
                return False
            self._discard_template(unused[0])
        return self._boot_standby(self._last, cpu)

    def _is_copied(self, boot: RunBoot) -> bool:
        return boot.can_copy and not self._copies_fail

    def _has_memory(self) -> bool:
        """Return whether a guest like the last one may boot ahead."""
        if self._is_off or self._last is None:
            return False
        return available_memory().free_mib >= MEMORY_RESERVE * self._last.model.memory_mib

    def _boot_standby(self, boot: RunBoot, cpu: int) -> bool:
        """Boot a standby guest, or a template where guests are copied; return whether one boots.

        After an error no more boot: the next run reports its cause.
        """
        channel = held_syscall.ListenerChannel()
        try:
            working_folder = StandbyFolder(self._folder)
            try:
                if self._is_copied(boot):
                    template = boot_template(boot, working_folder.guest_folder, cpu, channel)
                    standby = Standby(template.guest, self._last_key, cpu, working_folder)
                    self._templates.append(StandbyTemplate(standby, template))
                else:
                    guest = boot.boot(working_folder.guest_folder, cpu, channel)
                    self._standbys.append(Standby(guest, self._last_key, cpu, working_folder))
            except BaseException:
                working_folder.remove()
                raise
        except (MachineError, OSError):
            self._is_off = True
            return False
        finally:
            channel.close()
        return True

    def _free_cpus(self) -> Iterator[int]:
        """Yield the CPUs without a run and a standby guest.

        The last one comes first: runs begin on the first one.
        """
        busy = {cpu for guest, cpu in list(self._active.items()) if guest.is_running}
        busy |= {standby.cpu for standby in self._standbys}
        return (cpu for cpu in reversed(self._cpus) if cpu not in busy)

    def _living(self) -> list[Standby]:
        """Return the standby guests, without those that have ended by themselves."""
        for standby in list(self._standbys):
            if not standby.guest.is_running:
                self._standbys.remove(standby)
                standby.discard()
                self._is_off = True  # the next run's guest, which boots anew, reports the cause
        for template in list(self._templates):
            if not template.standby.guest.is_running:
                self._discard_template(template)
                self._is_off = True
        return list(self._standbys)

    def _discard_all(self) -> None:
        discard_all(self._standbys, os.getpid())
        discard_all(self._templates, os.getpid())

    def _expire(self) -> float | None:
        """End the standby guests if there was no run for too long.

        Returns after how many seconds to look again, None if no guest waits.
        """
        if is_any_running(self._active):
            self._used_s = time.monotonic()
        left_s = self._idle_limit_s - (time.monotonic() - self._used_s)
        if left_s <= 0:
            self._discard_all()
        return left_s if self.waiting else None


def is_any_running(active: dict[Guest, int]) -> bool:
    return any(guest.is_running for guest in list(active))


def end_pool(
    thread: PoolThread, standbys: list[Standby], templates: list[StandbyTemplate], owner: int
) -> None:
    """End the standby guests of a pool that is gone, in the process that has booted them."""
    if os.getpid() == owner:
        thread.stop()
        discard_all(standbys, owner)
        discard_all(templates, owner)


def discard_all(guests: list[Standby] | list[StandbyTemplate], owner: int) -> None:
    """End standby guests and empty their list, in the process that has booted them."""
    while guests and os.getpid() == owner:
        guests.pop().discard()


def pin_group(group: int, cpu: int) -> None:
    """Pin every thread of a process group to a CPU. Raises OSError."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, FileNotFoundError):
            if os.getpgid(int(process.name)) == group:
                for thread in (process / "task").iterdir():
                    os.sched_setaffinity(int(thread.name), {cpu})
