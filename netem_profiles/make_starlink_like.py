#!/usr/bin/env python3
"""Write starlink-like.yaml and starlink-like.csv: a made-up path with the habits of one through low
satellites. Nothing in it was measured; the same seed gives the same files.

    /usr/bin/python3 netem_profiles/make_starlink_like.py

What is known of such paths (Starlink plans its routes anew every 15 s everywhere: WWW 2024; losses
of 0.2 to 0.5 % on the uplink that the sending rate does not explain: LeoCC, SIGCOMM 2025) sets the
habits; the numbers of each plan are drawn.
"""

from __future__ import annotations

import random
from pathlib import Path

SEED = 15
LENGTH_S, PLAN_S, STEP_S = 300, 15, 0.1
DELAY_MS = (16.0, 30.0)  # one way, of a plan
DELAY_JITTER_MS = 1.5  # of every 100 ms, around it
RATE_BPS = (80e6, 220e6)  # of a plan
RATE_SPREAD = 0.15  # of every 100 ms, around it
LOSS = (0.002, 0.005)  # of a plan
HANDOVER_S, HANDOVER_RATE_BPS = 0.1, 1e6  # at a plan's begin
REVERSE_RATE_BPS, REVERSE_DELAY_MS = 20_000_000, 18.0

PROFILE = """# A made-up path with the habits of one through low satellites.
# make_starlink_like.py wrote it, seed {seed}.
# yaml-language-server: $schema=../schemas/profile.json
name: starlink-like
title: Made up, like a path through low satellites
assumptions:
  - >-
    Nothing here was measured. Known of such paths: routes are planned anew every 15 s; the uplink
    loses 0.2 to 0.5 % of the packets whatever the sender does. The numbers are drawn.
  - >-
    Each plan of 15 s has a delay of {delay[0]:g} to {delay[1]:g} ms one way, a rate of
    {rate[0]:g} to {rate[1]:g} Mbit/s and a loss of 0.2 to 0.5 %, all evenly drawn. Every 100 ms the
    delay lies up to {jitter:g} ms from the plan's, the rate up to {spread:.0%}.
  - >-
    A plan begins with {handover:g} ms at {least:g} Mbit/s: the change-over.
  - >-
    The way back is {back_rate:g} Mbit/s and {back_delay:g} ms all the time, without loss. Buffer
    one BDP of the mean rate.
notes:
  - >-
    starlink-like.csv is the path over time, 300 s: `trace: starlink-like.csv` with
    `bottleneck: tbf`. Without it the path is the mean of all plans.
forward: {{rate: {rate_mbit:.4g}mbit, delay: {mean_delay:g}ms, loss: {loss:.4g}%, buffer: 1bdp}}
reverse: {{rate: {back_rate:g}mbit, delay: {back_delay:g}ms, jitter: 0ms, loss: 0%, buffer: 1bdp}}
"""


def files() -> dict[str, str]:
    """Both files' texts, by name."""
    draw = random.Random(SEED)
    rows, rates, delays, losses = ["time_s,delay_ms,loss,rate_bps"], [], [], []
    for plan in range(LENGTH_S // PLAN_S):
        delay_ms, rate_bps, loss = (draw.uniform(*least) for least in (DELAY_MS, RATE_BPS, LOSS))
        rates.append(rate_bps)
        delays.append(delay_ms)
        losses.append(loss)
        for step in range(round(PLAN_S / STEP_S)):
            own_ms = delay_ms + draw.uniform(-DELAY_JITTER_MS, DELAY_JITTER_MS)
            own_bps = rate_bps * (1 + draw.uniform(-RATE_SPREAD, RATE_SPREAD))
            if step * STEP_S < HANDOVER_S:
                own_bps = HANDOVER_RATE_BPS
            at_s = plan * PLAN_S + step * STEP_S
            own_loss = f"{loss:.5f}" if step == 0 else ""
            rows.append(f"{at_s:.1f},{own_ms:.3f},{own_loss},{round(own_bps, -3):.0f}")
    text = PROFILE.format(
        seed=SEED,
        delay=DELAY_MS,
        rate=tuple(rate / 1e6 for rate in RATE_BPS),
        jitter=DELAY_JITTER_MS,
        spread=RATE_SPREAD,
        handover=1000 * HANDOVER_S,
        least=HANDOVER_RATE_BPS / 1e6,
        back_rate=REVERSE_RATE_BPS / 1e6,
        back_delay=REVERSE_DELAY_MS,
        rate_mbit=sum(rates) / len(rates) / 1e6,
        mean_delay=round(sum(delays) / len(delays), 1),
        loss=100 * sum(losses) / len(losses),
    )
    return {"starlink-like.csv": "\n".join(rows) + "\n", "starlink-like.yaml": text}


def main() -> None:
    """Write both beside this one."""
    for name, text in files().items():
        (Path(__file__).resolve().parent / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
