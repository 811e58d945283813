"""What happens to a run while it goes: flows that start and stop, changes of its path."""

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import PathChange
from gostlab.analysis.load.series import span


def marks_of(run: RunFolder) -> dict[float, list[str]]:
    """Time -> what starts, stops or changes then, in words."""
    found: dict[float, list[str]] = {}
    spans = {flow.name: span(flow) for flow in run.flows}
    last_s = max((end for _, end in spans.values()), default=run.load_s)
    for flow in run.flows:
        start_s, end_s = spans[flow.name]
        if flow.start_s > 0.05:
            found.setdefault(round(start_s, 1), []).append(f"{flow.name} starts")
        if end_s < last_s - 0.5:
            found.setdefault(round(end_s, 1), []).append(f"{flow.name} stops")
    for change in run.changes:
        words = change_words(change)
        if words and change.link:
            words = f"{change.link}: {words}"
        at = found.setdefault(round(change.at_s, 3), [])
        if words and words not in at:
            at.append(words)
    return {at_s: words for at_s, words in found.items() if words}


def change_words(change: PathChange) -> str:
    """What a change of the path sets: 500 Mbit/s, 40 ms one way, 1 % loss."""
    parts = []
    if change.rate_bps is not None:
        parts.append(f"{change.rate_bps / 1e6:g} Mbit/s")
    if change.delay_ms is not None:
        parts.append(f"{change.delay_ms:g} ms one way")
    if change.jitter_ms:
        parts.append(f"± {change.jitter_ms:g} ms")
    if change.loss is not None:
        parts.append(f"{100 * change.loss:g}\u00a0% loss")
    return ", ".join(parts)
