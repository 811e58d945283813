"""Who gets how much, on the terminal: a row per flow with a bar, and who yields to whom."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TextIO

from rich.table import Table
from rich.text import Text

from gostlab.cli.result_table import BAR_CELLS, NARROW, WIDTH, Row, bar, csv_text
from gostlab.registry.palette import cc_colour
from gostlab.results.coexistence import Competitor
from gostlab.scheduler import summary
from gostlab.scheduler.summary import CompetitionSummary

AT_ONCE_S = 1.0  # a window of shares


def print_contest(found: Sequence[CompetitionSummary], file: TextIO) -> None:
    """A table, and sentences for each cell."""
    console = summary.console_on(file, WIDTH)
    blocks = "utf" in (console.encoding or "").lower()
    console.print(contest_table(found, bars=console.width >= NARROW, blocks=blocks))
    several = len(found) > 1
    for each in found:
        for line in sentences(each):
            console.print(f"{each.cell.label}: {line}" if several else line, soft_wrap=True)
    for line in summary.reason_lines([each.cell for each in found]):
        console.print(line, soft_wrap=True)


CSV_COLUMNS = (
    "flow cc rtt_ms start_s runs_that_count share share_least share_most rate_mbit srtt_median_ms"
    " resent_share runs_below_its_share below_since_s verdict"
).split()


def to_csv(found: Sequence[CompetitionSummary]) -> str:
    """A row for each flow of each cell: medians over its runs, units in the headings."""
    rows: list[Row] = []
    for each in found:
        for name in each.names:
            flows = each.of(name)
            parts = [flow.share for flow in flows]
            below = sided(flows, -1)
            row = [
                *map(str, (name, flows[0].cc, flows[0].rtt_ms, flows[0].start_s, len(flows))),
                *(median(parts), min(parts), max(parts)),
                median(flow.rate_mbit for flow in flows),
                middle(flow.srtt_ms.median for flow in flows if flow.srtt_ms),
                middle(flow.resent.share for flow in flows if flow.resent),
                *(len(below), middle(below), each.cell.verdict),
            ]
            rows.append((each.cell.factors, row))
    return csv_text([each.cell.factors for each in found], CSV_COLUMNS, rows)


def middle(values: Iterable[float]) -> float | None:
    """The median; None of nothing."""
    known = list(values)
    return median(known) if known else None


def contest_table(found: Sequence[CompetitionSummary], *, bars: bool, blocks: bool) -> Table:
    """A row for each flow of each cell; medians over the runs, and from the least to the most."""
    table = summary.plain_table()
    table.add_column("", overflow="fold")
    if bars:
        table.add_column("share", no_wrap=True, min_width=BAR_CELLS)
    for heading in ("%", "least – most", "Mbit/s", "RTT, p95 ms", "resent"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for each in found:
        if len(found) > 1:
            table.add_row(each.cell.label)
        for name in each.names:
            flows = each.of(name)
            parts = sorted(100 * flow.share for flow in flows)
            drawn = bar(median(parts), 100, BAR_CELLS, blocks=blocks)
            table.add_row(
                called(flows[0], indented=len(found) > 1),
                *([Text(drawn, style=cc_colour(flows[0].cc))] if bars else []),
                f"{median(parts):.1f}",
                f"{parts[0]:.1f} – {parts[-1]:.1f}" if len(parts) > 1 else "n = 1",
                summary.mbit(1e6 * median(flow.rate_mbit for flow in flows)),
                summary.delay_text(summary.typical(flow.srtt_ms for flow in flows)),
                resent_words(flows),
                each.cell.verdict,
            )
        if not each.runs:
            table.add_row(each.cell.label, *([""] if bars else []), *("–" * 5), each.cell.verdict)
    return table


def called(flow: Competitor, *, indented: bool) -> str:
    """b (bbr, 80 ms, from 5 s)."""
    since = f", from {flow.start_s:g} s" if flow.start_s else ""
    return f"{'  ' * indented}{flow.name} ({flow.cc}, {flow.rtt_ms:g} ms{since})"


def resent_words(flows: Sequence[Competitor]) -> str:
    """The share of segments that were sent again."""
    found = [flow.resent.share for flow in flows if flow.resent]
    return f"{100 * median(found):.2g} %" if found else "–"


def sentences(found: CompetitionSummary) -> list[str]:
    """How even it is, over what time, and who yields to whom since when."""
    if not found.runs:
        return ["the flows were never active together for long enough to compare them"]
    runs = found.runs
    even = sorted(run.jain for run in runs)
    spread = f" ({even[0]:.2f} – {even[-1]:.2f})" if len(even) > 1 else ""
    return [
        f"Jain's index {median(even):.2f}{spread}; shares and rates are those of"
        f" {runs[0].since_s:.3g} to {runs[0].until_s:.3g} s of the load.",
        yielding(found),
        *beside(found),
    ]


def beside(found: CompetitionSummary) -> list[str]:
    """What udp flows got, which have no share: they send what they were told to."""
    if found.cell.udp_beside_bps is None:
        return []
    return [f"Beside them UDP got {summary.mbit(found.cell.udp_beside_bps)} Mbit/s."]


def yielding(found: CompetitionSummary) -> str:
    """Who has less than a fair share at the end, to whom, and since when; by most of the runs."""
    losers = {name: sided(found.of(name), -1) for name in found.names}
    winners = {name: sided(found.of(name), 1) for name in found.names}
    half = len(found.runs) / 2
    down = {name: since for name, since in losers.items() if len(since) > half}
    up = {name: since for name, since in winners.items() if len(since) > half}
    if not down and not up:
        return "Nobody yields for good: at the end each is within a tenth of its fair share."
    some = [f"{name} ({found.of(name)[0].cc})" for name in down] or ["some"]
    others = [f"{name} ({found.of(name)[0].cc})" for name in up] or ["the others"]
    since = sorted(each for times in (down or up).values() for each in times)
    often = max(len(times) for times in (down or up).values())
    runs = f", in {often} of {len(found.runs)} runs" if len(found.runs) > 1 else ""
    verb = "yields" if len(some) == 1 else "yield"
    return f"{' and '.join(some)} {verb} to {' and '.join(others)} {when(found, since)}{runs}."


def when(found: CompetitionSummary, since_s: Sequence[float]) -> str:
    """From the start; since 24 s of the load (16 – 48 s). since_s: sorted."""
    all_there_s = max(flow.start_s for flow in found.runs[0].flows)
    if since_s[-1] - all_there_s < AT_ONCE_S:
        return "from the start"
    spread = f" ({since_s[0]:.0f} – {since_s[-1]:.0f} s)" if len(set(since_s)) > 1 else ""
    return f"since {median(since_s):.0f} s of the load{spread}"


def sided(flows: Sequence[Competitor], side: int) -> list[float]:
    """Since when a flow is on a side, of the runs where it is."""
    return [flow.side.since_s for flow in flows if flow.side and flow.side.side == side]
