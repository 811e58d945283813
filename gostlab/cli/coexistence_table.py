# SPDX-License-Identifier: MIT
"""Print how competing flows share a path: a row per flow with a bar, and a summary sentence."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from gostlab.cli.result_table import BAR_CELLS, NARROW, WIDTH, Row, csv_text, draw_bar
from gostlab.registry.palette import cc_colour
from gostlab.results.coexistence import Competitor
from gostlab.scheduler import summary
from gostlab.scheduler.cell_result import CellResult, median_spread
from gostlab.tcpmodel.mean_median import median

if TYPE_CHECKING:
    from rich.table import Table


AT_ONCE_S = 1.0  # length of a window over which shares are taken


def print_contest(cells: Sequence[CellResult], file: TextIO) -> None:
    """Print a table of all flows and sentences for each cell."""
    console = summary.console_on(file, WIDTH)
    blocks = "utf" in (console.encoding or "").lower()
    console.print(contest_table(cells, bars=console.width >= NARROW, blocks=blocks))
    labelled = len(cells) > 1
    for cell in cells:
        for line in contest_sentences(cell):
            console.print(f"{cell.label}: {line}" if labelled else line, soft_wrap=True)
    for line in summary.reason_lines(cells):
        console.print(line, soft_wrap=True)


CSV_COLUMNS = (
    "flow cc rtt_ms start_s runs_that_count share share_least share_most rate_mbit srtt_median_ms"
    " resent_share runs_below_its_share below_since_s verdict"
).split()


def to_csv(cells: Sequence[CellResult]) -> str:
    """Return CSV with a row per flow of each cell: medians over its runs, units in the headings."""
    rows: list[Row] = []
    for cell in cells:
        for name in cell.flow_names:
            flows = cell.competitors(name)
            shares = [flow.share for flow in flows]
            below = times_on_side(flows, -1)
            row = [
                *map(str, (name, flows[0].cc, flows[0].rtt_ms, flows[0].start_s, len(flows))),
                *(median(shares), min(shares), max(shares)),
                median(flow.rate_mbit for flow in flows),
                median_or_none(flow.srtt_ms.median for flow in flows if flow.srtt_ms),
                median_or_none(flow.resent.share for flow in flows if flow.resent),
                *(len(below), median_or_none(below), cell.verdict),
            ]
            rows.append((cell.factors, row))
    return csv_text([cell.factors for cell in cells], CSV_COLUMNS, rows)


def median_or_none(values: Iterable[float]) -> float | None:
    """Return the median, or None without values."""
    known = list(values)
    return median(known) if known else None


def contest_table(cells: Sequence[CellResult], *, bars: bool, blocks: bool) -> "Table":
    """Return a table with a row per flow of each cell: median, minimum and maximum over runs."""
    from rich.text import Text

    table = summary.plain_table()
    table.add_column("", overflow="fold")
    if bars:
        table.add_column("share", no_wrap=True, min_width=BAR_CELLS)
    for heading in ("%", "least – most", "Mbit/s", "RTT, p95 ms", "resent"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for cell in cells:
        if len(cells) > 1:
            table.add_row(cell.label)
        for name in cell.flow_names:
            flows = cell.competitors(name)
            shares = sorted(100 * flow.share for flow in flows)
            bar_text = draw_bar(median(shares), 100, BAR_CELLS, blocks=blocks)
            table.add_row(
                flow_label(flows[0], indented=len(cells) > 1),
                *([Text(bar_text, style=cc_colour(flows[0].cc))] if bars else []),
                f"{median(shares):.1f}",
                f"{shares[0]:.1f} – {shares[-1]:.1f}" if len(shares) > 1 else "n = 1",
                summary.format_mbit(1e6 * median(flow.rate_mbit for flow in flows)),
                summary.format_delay(median_spread(flow.srtt_ms for flow in flows)),
                format_retransmitted_share(flows),
                cell.verdict,
            )
        if not cell.contests:
            table.add_row(cell.label, *([""] if bars else []), *("–" * 5), cell.verdict)
    return table


def flow_label(flow: Competitor, *, indented: bool) -> str:
    """Format a flow's label: b (bbr, 80 ms, from 5 s)."""
    since = f", from {flow.start_s:g} s" if flow.start_s else ""
    return f"{'  ' * indented}{flow.name} ({flow.cc}, {flow.rtt_ms:g} ms{since})"


def format_retransmitted_share(flows: Sequence[Competitor]) -> str:
    """Format the median share of retransmitted segments."""
    shares = [flow.resent.share for flow in flows if flow.resent]
    return f"{100 * median(shares):.2g} %" if shares else "–"


def contest_sentences(cell: CellResult) -> list[str]:
    """Return sentences on fairness, its interval, and the flows that yield."""
    if not cell.contests:
        return ["the flows were never active together for long enough to compare them"]
    runs = cell.contests
    jain_indices = sorted(run.jain for run in runs)
    spread = f" ({jain_indices[0]:.2f} – {jain_indices[-1]:.2f})" if len(jain_indices) > 1 else ""
    return [
        f"Jain's index {median(jain_indices):.2f}{spread}; shares and rates are those of"
        f" {runs[0].since_s:.3g} to {runs[0].until_s:.3g} s of the load.",
        yielding_sentence(cell),
        *udp_sentences(cell),
    ]


def udp_sentences(cell: CellResult) -> list[str]:
    """Return a sentence on UDP flows, which send at a configured rate and have no share."""
    if cell.udp_beside_bps is None:
        return []
    return [f"Beside them UDP got {summary.format_mbit(cell.udp_beside_bps)} Mbit/s."]


def yielding_sentence(cell: CellResult) -> str:
    """Return a sentence on the flows below their fair share at the end of most runs."""
    losers = {name: times_on_side(cell.competitors(name), -1) for name in cell.flow_names}
    winners = {name: times_on_side(cell.competitors(name), 1) for name in cell.flow_names}
    half = len(cell.contests) / 2
    down = {name: since for name, since in losers.items() if len(since) > half}
    up = {name: since for name, since in winners.items() if len(since) > half}
    if not down and not up:
        return "Nobody yields for good: at the end each is within a tenth of its fair share."
    yielding_flows = [f"{name} ({cell.competitors(name)[0].cc})" for name in down] or ["some"]
    gaining_flows = [f"{name} ({cell.competitors(name)[0].cc})" for name in up] or ["the others"]
    since = sorted(start_s for times in (down or up).values() for start_s in times)
    run_count = max(len(times) for times in (down or up).values())
    runs = f", in {run_count} of {len(cell.contests)} runs" if len(cell.contests) > 1 else ""
    verb = "yields" if len(yielding_flows) == 1 else "yield"
    names = f"{' and '.join(yielding_flows)} {verb} to {' and '.join(gaining_flows)}"
    return f"{names} {format_since(cell, since)}{runs}."


def format_since(cell: CellResult, since_s: Sequence[float]) -> str:
    """Format since when flows differ; since_s is sorted: since 24 s of the load (16 – 48 s)."""
    last_start_s = max(flow.start_s for flow in cell.contests[0].flows)
    if since_s[-1] - last_start_s < AT_ONCE_S:
        return "from the start"
    spread = f" ({since_s[0]:.0f} – {since_s[-1]:.0f} s)" if len(set(since_s)) > 1 else ""
    return f"since {median(since_s):.0f} s of the load{spread}"


def times_on_side(flows: Sequence[Competitor], side: int) -> list[float]:
    """Return since when a flow has been on a side of its fair share, for the runs where it is."""
    return [flow.side.since_s for flow in flows if flow.side and flow.side.side == side]
