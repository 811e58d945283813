# SPDX-License-Identifier: MIT
"""Say in one sentence what a run's numbers answer: who gets how much, and who waits how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gostlab.spec.flow import FlowSpec

# How people write the names of congestion controls; any other is written as in its file.
CC_LABELS = {
    "cubic": "CUBIC",
    "bbr": "BBR",
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
    "bbrplus": "BBR Plus",
    "reno": "Reno",
    "vegas": "Vegas",
    "westwood": "Westwood",
    "dctcp": "DCTCP",
    "htcp": "H-TCP",
    "bic": "BIC",
    "illinois": "Illinois",
    "yeah": "YeAH",
    "prague": "Prague",
}
KIND_LABELS = {"ping": "Ping", "udp": "UDP", "short": "Short downloads", "http": "Download"}
NO_BREAK = "\N{NO-BREAK SPACE}"
TIMES, EN_DASH = "\N{MULTIPLICATION SIGN}", "\N{WORD JOINER}\N{EN DASH}\N{WORD JOINER}"
EVEN_WITHIN = 0.1  # difference of two shares that counts as even
FULL, UNUSED = 0.85, 0.8  # used shares of a link that is full, and that has room
EMPTY_MS, SHORT_MS = 1.0, 5.0  # p95 delays of a queue that is almost empty, or short
SLOWER_PING = 0.25  # increase of the round trip, relative to the idle one, that is felt


@dataclass(frozen=True)
class MetricSummary:
    """Represent a metric of one or several runs: the median, and the values of all runs."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        ordered = sorted(self.values)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else sum(ordered[middle - 1 : middle + 1]) / 2

    @property
    def ends(self) -> tuple[float, float]:
        """Return the lowest and the highest value."""
        return min(self.values), max(self.values)


@dataclass(frozen=True)
class FlowAnswer:
    """Represent the metrics of a flow; None: the flow has none of the kind."""

    name: str
    label: str
    traffic_type: str
    idle_rtt_ms: float
    mbit: MetricSummary | None = None
    share: MetricSummary | None = None  # share of the competing flows' rates
    p95_ms: MetricSummary | None = None  # round trip
    resent: MetricSummary | None = None  # segments
    resent_share: MetricSummary | None = None
    lost: MetricSummary | None = None  # pings


@dataclass(frozen=True)
class PathAnswer:
    """Represent what the sentence needs to know of a run beside its flows."""

    rate_mbit: float | None
    wait_p95_ms: MetricSummary | None
    tunnel: str | None
    runs: int
    flows: Sequence[FlowAnswer] = field(default_factory=tuple)


def labels_of(flows: Sequence[FlowSpec], default_cc: str) -> dict[str, str]:
    """Return each flow's label; flows that would have the same one are told apart by name."""
    labels = {flow.name: label_of(flow, default_cc) for flow in flows}
    count = Counter(labels.values())
    return {
        name: f"{label} {name}" if count[label] > 1 else label for name, label in labels.items()
    }


def label_of(flow: FlowSpec, default_cc: str) -> str:
    if flow.traffic_type == "tcp":
        label = cc_label(flow.cc or default_cc)
    else:
        label = KIND_LABELS.get(flow.traffic_type, flow.traffic_type)
    return label + (f" {TIMES}{flow.streams}" if flow.streams > 1 else "")


def cc_label(cc: str) -> str:
    name, bracket, parameters = cc.partition("(")
    return CC_LABELS.get(name, name) + bracket + parameters


def sentence_of(answer: PathAnswer) -> str:
    """Return the sentence that answers."""
    greedy = [
        flow for flow in answer.flows if flow.traffic_type not in ("ping", "udp") and flow.mbit
    ]
    ping = next(
        (flow for flow in answer.flows if flow.traffic_type == "ping" and flow.p95_ms), None
    )
    if ping is not None and ping.p95_ms is not None:
        return ping_sentence(answer, ping, ping.p95_ms.median, greedy)
    if not greedy:
        udp = next((flow for flow in answer.flows if flow.mbit), None)
        if udp is None or udp.mbit is None:
            return "No flow got anything through."
        return f"{udp.label} gets {format_mbit(udp.mbit.median)} through; {waiting_phrase(answer)}."
    if len(greedy) == 1:
        return single_sentence(answer, greedy[0])
    return contest_sentence(answer, greedy)


def ping_sentence(
    answer: PathAnswer, ping: FlowAnswer, p95_ms: float, greedy: Sequence[FlowAnswer]
) -> str:
    idle = format_ms(ping.idle_rtt_ms)
    if p95_ms - ping.idle_rtt_ms < SLOWER_PING * ping.idle_rtt_ms:
        start = f"Pings stay fast: {format_ms(p95_ms)} (p95), {idle} when idle"
        return f"{start}; {utilisation_phrase(answer, greedy)}." if greedy else f"{start}."
    ratio = p95_ms / ping.idle_rtt_ms if ping.idle_rtt_ms else 0.0
    times = f"{format_number(ratio, 2)} times the idle {idle}" if ratio else f"and {idle} when idle"
    by = f": {greedy[0].label} keeps the queue full" if len(greedy) == 1 else ""
    return f"Pings take {format_ms(p95_ms)} (p95), {times}{by}."


def single_sentence(answer: PathAnswer, flow: FlowAnswer) -> str:
    through = f" through {answer.tunnel}" if answer.tunnel else ""
    used = used_share(answer, [flow])
    rate = flow.mbit.median if flow.mbit else 0.0
    if used is None:
        return f"{flow.label} gets {format_mbit(rate)}{through}; {waiting_phrase(answer)}."
    if used >= FULL:
        part = format_percent(used)
        return f"{flow.label} fills {part} of the link{through}; {waiting_phrase(answer)}."
    span = ""
    if answer.runs > 1 and flow.mbit:
        low, high = flow.mbit.ends
        span = f" ({format_number(low)}{EN_DASH}{format_number(high)} in {answer.runs} runs)"
    link = format_mbit(answer.rate_mbit or 0)
    start = f"{flow.label} gets {format_number(rate)} of {link}{span}{through}"
    wait = answer.wait_p95_ms.median if answer.wait_p95_ms else 0.0
    if wait < SHORT_MS and flow.resent_share is not None and flow.resent_share.median > 0:
        part = format_percent(flow.resent_share.median, 2)
        return f"{start}; {part} of its packets were retransmitted."
    return f"{start}; {waiting_phrase(answer)}."


def contest_sentence(answer: PathAnswer, flows: Sequence[FlowAnswer]) -> str:
    used = used_share(answer, flows)
    rest = waiting_phrase(answer)
    if used is not None and used < UNUSED:
        rest = f"{format_percent(1 - used)} of the link stays unused"
    shared = [(flow, flow.share) for flow in flows if flow.share is not None]
    if len(shared) < 2:
        rates = join_names(
            [f"{flow.label} {format_mbit(flow.mbit.median)}" for flow in flows if flow.mbit]
        )
        return f"{rates}; {rest}."
    by_share = sorted(shared, key=lambda pair: -pair[1].median)
    (top, top_share), (low, low_share) = by_share[0], by_share[-1]
    several, pair = answer.runs > 1, len(shared) == 2
    low_end, high_end = top_share.ends
    if several and pair and low_end < 0.5 < high_end:
        span = f"{round(100 * low_end)} to {format_percent(high_end)}"
        runs = f"{answer.runs}{NO_BREAK}runs"
        return f"Either may lead: {top.label} takes {span} of the traffic in {runs}; {rest}."
    if top_share.median - low_share.median < EVEN_WITHIN:
        names = join_names([flow.label for flow, _ in shared])
        parts = f"{NO_BREAK}:{NO_BREAK}".join(str(round(100 * share.median)) for _, share in shared)
        return f"{names} share evenly ({parts}); {rest}."
    span = ""
    if several:
        ends = f"{round(100 * low_end)}{EN_DASH}{format_percent(high_end)}"
        span = f" ({ends} in {answer.runs}{NO_BREAK}runs)"
    lead = f"{top.label} takes {format_percent(top_share.median)} of the traffic{span}"
    if pair:
        return f"{lead}; {rest}."
    return f"{lead}, {low.label} {format_percent(low_share.median)}; {rest}."


def utilisation_phrase(answer: PathAnswer, flows: Sequence[FlowAnswer]) -> str:
    used = used_share(answer, flows)
    names = join_names([flow.label for flow in flows])
    if used is None:
        return f"{names} gets {format_mbit(sum(flow.mbit.median for flow in flows if flow.mbit))}"
    return f"{names} {'fills' if len(flows) == 1 else 'fill'} {format_percent(used)} of the link"


def used_share(answer: PathAnswer, flows: Sequence[FlowAnswer]) -> float | None:
    """Return the goodput of some flows relative to the link's rate; None without a rate."""
    if not answer.rate_mbit:
        return None
    return sum(flow.mbit.median for flow in flows if flow.mbit) / answer.rate_mbit


def waiting_phrase(answer: PathAnswer) -> str:
    if answer.wait_p95_ms is None:
        return "the queue was not measured"
    wait_ms = answer.wait_p95_ms.median
    if wait_ms < EMPTY_MS:
        return "the queue stays almost empty"
    return f"packets wait {format_ms(wait_ms)} (p95) in the queue"


def format_number(value: float, digits: int = 3) -> str:
    """Format a number with three significant digits, and thousands apart."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", "\N{THIN SPACE}")
    return f"{float(f'{value:.{digits}g}'):g}"


def format_mbit(value: float) -> str:
    return f"{format_number(value)}{NO_BREAK}Mbit/s"


def format_ms(value: float) -> str:
    return f"{format_number(round(value)) if value >= 10 else format_number(value, 2)}{NO_BREAK}ms"


def format_percent(share: float, digits: int | None = None) -> str:
    text = str(round(100 * share)) if digits is None else format_number(100 * share, digits)
    return f"{text}{NO_BREAK}%"


def join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
