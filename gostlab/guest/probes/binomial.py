"""How often something happens that has the same chance each time: the binomial distribution's
interval, by Python's own mathematics. scipy has it as well, and importing that takes as long as all
else that a short run does.
"""

import math

# Beyond so many standard deviations, and so many more for small counts, lies less than any interval
# that is requested leaves out.
FAR_SD, FAR = 12.0, 40.0


def interval(confidence: float, count: int, chance: float) -> tuple[int, int]:
    """The least and the most successes of `count` trials that leave at most half of
    1 - confidence below and above: the quantiles of both tails, as scipy.stats.binom.interval has
    them.
    """
    if count <= 0 or not 0 < chance < 1:
        sure = count if chance >= 1 else 0
        return sure, sure
    tail = (1 - confidence) / 2
    mean, sd = count * chance, math.sqrt(count * chance * (1 - chance))
    whole = math.lgamma(count + 1)

    def probability(successes: int) -> float:
        rest = count - successes
        return math.exp(
            whole
            - math.lgamma(successes + 1)
            - math.lgamma(rest + 1)
            + successes * math.log(chance)
            + rest * math.log1p(-chance)
        )

    low = max(0, math.floor(mean - FAR_SD * sd - FAR))
    below = probability(low)
    while below < tail:
        low += 1
        below += probability(low)
    high = min(count, math.ceil(mean + FAR_SD * sd + FAR))
    above = 0.0
    while high > 0 and above + (here := probability(high)) <= tail:
        above += here
        high -= 1
    return low, high
