"""Compute intervals of the binomial distribution with Python's standard mathematics.

scipy has them as well, but its import takes as long as the rest of a short run.
"""

import math

# Less probability than any requested interval leaves out lies beyond this many standard deviations,
# plus a constant for small counts.
FAR_SD, FAR = 12.0, 40.0


def central_interval(confidence: float, count: int, chance: float) -> tuple[int, int]:
    """Return the central interval of the successes among `count` trials.

    At most half of 1 - confidence lies below and above it: it consists of the quantiles of both
    tails, like scipy.stats.binom.interval.
    """
    if count <= 0 or not 0 < chance < 1:
        certain = count if chance >= 1 else 0
        return certain, certain
    tail = (1 - confidence) / 2
    mean, sd = count * chance, math.sqrt(count * chance * (1 - chance))
    log_factorial = math.lgamma(count + 1)

    def probability(successes: int) -> float:
        failures = count - successes
        return math.exp(
            log_factorial
            - math.lgamma(successes + 1)
            - math.lgamma(failures + 1)
            + successes * math.log(chance)
            + failures * math.log1p(-chance)
        )

    low = max(0, math.floor(mean - FAR_SD * sd - FAR))
    below_sum = probability(low)
    while below_sum < tail:
        low += 1
        below_sum += probability(low)
    high = min(count, math.ceil(mean + FAR_SD * sd + FAR))
    above_sum = 0.0
    while high > 0 and above_sum + (p := probability(high)) <= tail:
        above_sum += p
        high -= 1
    return low, high
