"""The virtual clock and its random numbers, begun anew: what follows does not depend on how many
calls came before, as whether there was byte code.
"""

from pathlib import Path

BEGIN_ANEW = Path("/sys/module/kernel/parameters/tt_begin_anew")


def begin_anew(clock: str, seed: int) -> None:
    """Wait for a whole second of the virtual clock, and let random numbers begin anew from a seed.
    On the real clock, and a kernel without these words of the lab's, nothing. Raises OSError.
    """
    if clock == "virtual" and BEGIN_ANEW.exists():
        BEGIN_ANEW.write_text(f"{seed}", encoding="ascii")
