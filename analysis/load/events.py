# SPDX-License-Identifier: MIT
"""List the events of a run: starts and stops of flows, changes of the path."""

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import mean_loss
from gostlab.analysis.load.series import flow_span_s
from gostlab.spec.path_spec import ChangeSpec


def event_labels(run: RunFolder) -> dict[float, list[str]]:
    """Return labels of the flows that start or stop and of changes, by time."""
    marks: dict[float, list[str]] = {}
    spans = {flow.name: flow_span_s(flow) for flow in run.flows}
    last_s = max((end for _, end in spans.values()), default=run.load_s)
    for flow in run.flows:
        start_s, end_s = spans[flow.name]
        if flow.start_s > 0.05:
            marks.setdefault(round(start_s, 1), []).append(f"{flow.name} starts")
        if end_s < last_s - 0.5:
            marks.setdefault(round(end_s, 1), []).append(f"{flow.name} stops")
    for change in run.changes:
        text = describe_change(change)
        if text and change.link:
            text = f"{change.link}: {text}"
        at = marks.setdefault(round(change.at_s, 3), [])
        if text and text not in at:
            at.append(text)
    return {at_s: text for at_s, text in marks.items() if text}


def describe_change(change: ChangeSpec) -> str:
    """Describe a change of the path: 500 Mbit/s, 40 ms one way, 1 % loss."""
    parts = []
    if change.rate_bps is not None:
        parts.append(f"{change.rate_bps / 1e6:g} Mbit/s")
    if change.delay_ms is not None:
        parts.append(f"{change.delay_ms:g} ms one way")
    if change.jitter_ms:
        parts.append(f"± {change.jitter_ms:g} ms")
    if change.loss is not None:
        parts.append(f"{100 * mean_loss(change.loss):g}\u00a0% loss")
    return ", ".join(parts)
