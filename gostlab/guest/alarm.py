"""Wake at an instant, and not at some time after it.

poll(2)'s timeout is in whole milliseconds, rounded up: on the virtual clock all instants of one
millisecond would be the same. And a timer with slack goes off early if another one does.
"""

import ctypes
import math
import os
import time
from collections.abc import Sequence

from gostlab.install.landlock import UNUSED, checked, libc

TFD_TIMER_ABSTIME, TFD_CLOEXEC = 1, os.O_CLOEXEC  # <sys/timerfd.h>
PR_SET_TIMERSLACK = 29  # <linux/prctl.h>
NS_PER_S = 1_000_000_000


def remove_timer_slack() -> None:
    """Let this thread's timers go off at their instants. Its children would inherit that."""
    checked(libc.prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), *UNUSED), "timer slack")


class Alarm:
    """A file descriptor that is readable from an instant of time.monotonic() on."""

    def __init__(self) -> None:
        """Raise OSError where the kernel has no timerfd."""
        created = libc.timerfd_create(time.CLOCK_MONOTONIC, TFD_CLOEXEC)
        self.descriptor = checked(created, "timerfd_create")

    def set(self, instants_s: Sequence[float]) -> None:
        """Set it to the first of some instants, which may be over; never, if there is none."""
        # A nanosecond later than asked: whoever wakes finds the instant passed, however floats
        # round. All zeros would be never.
        at_ns = math.ceil(min(instants_s) * NS_PER_S) + 1 if instants_s else 0
        spec = (ctypes.c_long * 4)(0, 0, *divmod(at_ns, NS_PER_S))  # struct itimerspec
        checked(libc.timerfd_settime(self.descriptor, TFD_TIMER_ABSTIME, spec, None), "timerfd")

    def close(self) -> None:
        os.close(self.descriptor)
