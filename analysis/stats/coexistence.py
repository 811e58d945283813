# SPDX-License-Identifier: MIT
"""Evaluate competing flows of a run: share of each flow, and which flows yield."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gostlab.analysis.load.run_folder import RunFolder, load_run
from gostlab.analysis.load.series import flow_srtt_ms
from gostlab.analysis.stats.fairness import (
    active_rates,
    competitor_curves,
    fair_share_sides,
    flow_shares,
    jain_of_run,
)
from gostlab.results import metrics
from gostlab.results.coexistence import Competitor, Contest


def read_contest(folder: Path) -> Contest | None:
    """Return the results of competing flows in a run's folder, as `contest_of_run` does."""
    run = load_run(folder)
    return contest_of_run(run) if isinstance(run, RunFolder) else None


def contest_of_run(run: RunFolder) -> Contest | None:
    """Return the results of competing flows.

    None for a single competing flow, or for flows that are never active together.
    """
    rates, part, even = active_rates(run), flow_shares(run), jain_of_run(run)
    if len(rates) < 2 or not part or even is None:
        return None
    stand = fair_share_sides(run)
    flows = [
        Competitor(
            name=flow.name,
            cc=str(flow.cc),
            rtt_ms=flow.rtt_ms,
            start_s=flow.start_s,
            rate_mbit=rates[flow.name],
            share=part[flow.name],
            srtt_ms=flow_srtt_ms(run, flow.name),
            resent=retransmissions_of(run, flow.name),
            side=stand.get(flow.name),
        )
        for flow in run.flows
        if flow.name in rates
    ]
    return Contest(
        tuple(flows),
        even,
        *metrics.common_interval_s(competitor_curves(run).values(), run.measured_s),
    )


def retransmissions_of(run: RunFolder, flow: str) -> metrics.Retransmissions | None:
    """Return a flow's retransmissions across the path; None if connections are shared."""
    legs: Sequence[Any] = [leg for leg in run.sockets_of_leg("wan") if leg.flow == flow]
    if not legs:
        return None
    return metrics.Retransmissions(
        sum(leg.segments_retransmitted for leg in legs), sum(leg.segments_out for leg in legs)
    )
