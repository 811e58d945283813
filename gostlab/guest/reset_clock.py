"""Reset the virtual clock and its random numbers.

What follows then does not depend on how many calls came before, for example on whether byte code
was cached.
"""

from pathlib import Path

BEGIN_ANEW = Path("/sys/module/kernel/parameters/tt_begin_anew")


def reset_virtual_clock(clock: str, seed: int) -> None:
    """Wait for a whole second of the virtual clock, and restart random numbers from a seed.

    Does nothing on the real clock, and on a kernel without the lab's parameter. Raises OSError.
    """
    if clock == "virtual" and BEGIN_ANEW.exists():
        BEGIN_ANEW.write_text(f"{seed}", encoding="ascii")
