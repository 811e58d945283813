"""Wake at an instant, and not some time after it.

poll(2)'s timeout is in whole milliseconds, rounded up: on the virtual clock all instants of one
millisecond would be equal. And a timer with slack fires early if another one does.
"""

import ctypes
import math
import os
import time
from collections.abc import Sequence

from gostlab.install.landlock import UNUSED, libc, raise_on_failure

TFD_TIMER_ABSTIME, TFD_CLOEXEC = 1, os.O_CLOEXEC  # <sys/timerfd.h>
PR_SET_TIMERSLACK = 29  # <linux/prctl.h>
NS_PER_S = 1_000_000_000


def remove_timer_slack() -> None:
    """Let this thread's timers fire at their instants. Children would inherit the setting."""
    raise_on_failure(libc.prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), *UNUSED), "timer slack")


class TimerFd:
    """A file descriptor that is readable from an instant of time.monotonic() on."""

    def __init__(self) -> None:
        """Raise OSError where the kernel has no timerfd."""
        created = libc.timerfd_create(time.CLOCK_MONOTONIC, TFD_CLOEXEC)
        self.descriptor = raise_on_failure(created, "timerfd_create")

    def set(self, instants_s: Sequence[float]) -> None:
        """Set the alarm to the first of some instants, which may be past; none disables it."""
        # A nanosecond later than requested: a woken reader then finds the instant passed, despite
        # rounding of floats. All zeros would disable the timer.
        at_ns = math.ceil(min(instants_s) * NS_PER_S) + 1 if instants_s else 0
        spec = (ctypes.c_long * 4)(0, 0, *divmod(at_ns, NS_PER_S))  # struct itimerspec
        raise_on_failure(
            libc.timerfd_settime(self.descriptor, TFD_TIMER_ABSTIME, spec, None), "timerfd"
        )

    def close(self) -> None:
        os.close(self.descriptor)
