# SPDX-License-Identifier: MIT
"""Write a student's feedback on each point: their answer, the expected value and the reason.

The feedback contains no formula of check.yaml.
"""

from gostlab.classroom.expressions import format_rounded
from gostlab.classroom.grading import ScoredPoint


def point_sentences(point: ScoredPoint) -> list[str]:
    """Return the verdict with its reason, and the source of the expected value."""
    if not (point.asked or point.got):
        return [point.why]
    return [
        f"{verdict_sentence(point)}{f', because {point.because}' if point.because else ''}",
        f"source: {point.source}",
    ]


def verdict_sentence(point: ScoredPoint) -> str:
    """Return a sentence such as "you said 1.0; 1.77 (± 3 %) was wanted"."""
    if point.asked == point.band:  # a band for a metric of the runs
        outside = "" if point.passed else ", which is outside"
        return f"your runs: {point.got}{outside}; {point.asked} is wanted"
    given = f"you said {point.got}" if point.got else "you said nothing"
    return f"{given}; {expected_text(point)} {'is right' if point.passed else 'was wanted'}" + (
        f" ({point.why})" if point.why and point.got and point.why not in IMPLIED_REASONS else ""
    )


# Reasons that the sentence already contains.
IMPLIED_REASONS = ("outside its band", "another was right", "no answer")


def expected_text(point: ScoredPoint) -> str:
    """Return the expected number with its tolerance, or the expected word in quotes."""
    try:
        number = format_rounded(float(point.asked))
    except ValueError:
        return f"“{point.asked}”"
    return f"{number} ({point.band})"
