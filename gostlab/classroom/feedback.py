"""What a student reads of each point: what he said, which number was wanted, and why it is that
one. In words: no formula of check.yaml is in it.
"""

from gostlab.classroom.expressions import rounded
from gostlab.classroom.grading import Scored


def sentences(each: Scored) -> list[str]:
    """What was said and what was wanted, with why; and where the number comes from."""
    if not (each.asked or each.got):
        return [each.why]
    return [
        f"{verdict(each)}{f', because {each.because}' if each.because else ''}",
        f"source: {each.source}",
    ]


def verdict(each: Scored) -> str:
    """You said 1.0; 1.77 (± 3 %) was wanted."""
    if each.asked == each.band:  # of the runs themselves
        outside = "" if each.passed else ", which is outside"
        return f"your runs: {each.got}{outside}; {each.asked} is wanted"
    given = f"you said {each.got}" if each.got else "you said nothing"
    return f"{given}; {asked(each)} {'is right' if each.passed else 'was wanted'}" + (
        f" ({each.why})" if each.why and each.got and each.why not in PLAIN else ""
    )


# What the sentence says already.
PLAIN = ("outside its band", "another was right", "no answer")


def asked(each: Scored) -> str:
    """The number that was wanted, rounded, and how near is near enough; or the word."""
    try:
        number = rounded(float(each.asked))
    except ValueError:
        return f"“{each.asked}”"
    return f"{number} ({each.band})"
