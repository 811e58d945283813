# SPDX-License-Identifier: MIT
"""Write starlink-like.yaml and starlink-like.csv: a synthetic path like one through LEO satellites.

    python3 -m netem_profiles.make_starlink_like

Nothing in it was measured; the same seed gives the same files. Its structure follows published
measurements: Starlink schedules its routes every 15 s worldwide (WWW 2024), and the uplink loses
0.2 to 0.5 % independently of the sending rate (LeoCC, SIGCOMM 2025). The values of each schedule
are random.
"""

import random
import statistics
from pathlib import Path

from gostlab.profile_import.profile_writer import SCHEMA, direction_values, profile_text

SEED = 15
LENGTH_S, PLAN_S, STEP_S = 300, 15, 0.1
DELAY_MS = (16.0, 30.0)  # range of a plan's one-way delay
DELAY_JITTER_MS = 1.5  # maximum deviation of each step of 100 ms from the plan's value
RATE_BPS = (80e6, 220e6)  # range of a plan's rate
RATE_SPREAD = 0.15  # maximum deviation of each step of 100 ms from the plan's value
LOSS = (0.002, 0.005)  # range of a plan's loss
HANDOVER_S, HANDOVER_RATE_BPS = 0.1, 1e6  # at the beginning of a plan
REVERSE_RATE_MBIT, REVERSE_DELAY_MS = 20, 18.0

ASSUMPTIONS = (
    "Nothing here was measured. Known of such paths: routes are planned anew every 15 s; the uplink"
    " loses 0.2 to 0.5 % of the packets whatever the sender does. The numbers are drawn.",
    f"Each plan of {PLAN_S} s has a delay of {DELAY_MS[0]:g} to {DELAY_MS[1]:g} ms one way, a rate"
    f" of {RATE_BPS[0] / 1e6:g} to {RATE_BPS[1] / 1e6:g} Mbit/s and a loss of 0.2 to 0.5 %, all"
    f" evenly drawn. Every 100 ms the delay lies up to {DELAY_JITTER_MS:g} ms from the plan's, the"
    f" rate up to {RATE_SPREAD:.0%}.",
    f"A plan begins with {1000 * HANDOVER_S:g} ms at {HANDOVER_RATE_BPS / 1e6:g} Mbit/s: the"
    " change-over.",
    f"The way back is {REVERSE_RATE_MBIT} Mbit/s and {REVERSE_DELAY_MS:g} ms all the time, without"
    " loss. Buffer one BDP of the mean rate.",
)
NOTE = (
    f"starlink-like.csv is the path over time, {LENGTH_S} s: `trace: starlink-like.csv` with"
    " `bottleneck: tbf`. Without it the path is the mean of all plans."
)


def files() -> dict[str, str]:
    rng = random.Random(SEED)
    rows, rates, delays, losses = ["time_s,delay_ms,loss,rate_bps"], [], [], []
    for plan in range(LENGTH_S // PLAN_S):
        delay_ms, rate_bps, loss = (rng.uniform(*bounds) for bounds in (DELAY_MS, RATE_BPS, LOSS))
        rates.append(rate_bps)
        delays.append(delay_ms)
        losses.append(loss)
        for step in range(round(PLAN_S / STEP_S)):
            step_ms = delay_ms + rng.uniform(-DELAY_JITTER_MS, DELAY_JITTER_MS)
            step_bps = rate_bps * (1 + rng.uniform(-RATE_SPREAD, RATE_SPREAD))
            if step * STEP_S < HANDOVER_S:
                step_bps = HANDOVER_RATE_BPS
            at_s = plan * PLAN_S + step * STEP_S
            loss_text = f"{loss:.5f}" if step == 0 else ""
            rows.append(f"{at_s:.1f},{step_ms:.3f},{loss_text},{round(step_bps, -3):.0f}")
    comments = [
        "A made-up path with the habits of one through low satellites.",
        f"make_starlink_like.py wrote it, seed {SEED}.",
        SCHEMA,
    ]
    document = {
        "name": "starlink-like",
        "title": "Made up, like a path through low satellites",
        "assumptions": ASSUMPTIONS,
        "notes": [NOTE],
        "forward": {
            "rate": f"{statistics.fmean(rates) / 1e6:.4g}mbit",
            "delay": f"{statistics.fmean(delays):.1f}ms",
            "loss": f"{100 * statistics.fmean(losses):.4g}%",
            "buffer": "1bdp",
        },
        "reverse": direction_values(f"{REVERSE_RATE_MBIT}mbit", REVERSE_DELAY_MS),
    }
    text = profile_text(comments, document)
    return {"starlink-like.csv": "\n".join(rows) + "\n", "starlink-like.yaml": text}


def main() -> None:
    for name, text in files().items():
        (Path(__file__).resolve().parent / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
