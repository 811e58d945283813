"""`./lab profile record HOST`: a path as ping sees it, as a profile that replays it.

    NAME.yaml    the profile: what ping saw, what was concluded from it, what nobody measured
    NAME.dist    the shape of the delay, a netem table
    NAME.csv     delay and loss over time, a trace

Only ping's text goes in (`parse_ping`), only files come out (`write_profile`); between them are
pure functions.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from gostlab.ask import profile as profiles
from gostlab.ask import units
from gostlab.ask.document import BadInput
from gostlab.ask.profile import (
    DISTRIBUTION_SCALE,
    LEAST_ENTRY,
    MOST_ENTRY,
    NO_LOSS,
    LossModel,
    share_text,
)
from gostlab.ask.trace import changes_of
from gostlab.ask.units import quoted

# A profile of fewer answers would be of chance.
LEAST_ANSWERS = 100
# ping numbers its packets in 16 bits.
MOST_PACKETS = 65_535
DEFAULT_COUNT, DEFAULT_INTERVAL_S, DEFAULT_RATE = 1000, Fraction(20, 1000), "100mbit"
SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = Fraction(1, 1000), 10
# What iputils before 2021 lets an ordinary user have.
USERS_INTERVAL_S = Fraction(200, 1000)
# How long a host may take to answer at all, and the last packet to come back when none other has.
REACH_S, LINGER_S = 10, 10

# ping's 64 bytes of ICMP with their IP and Ethernet headers: what the emulated link sends for one.
PING_BITS = (64 + 20 + 14) * 8
# tc's own tables have this many entries.
TABLE_ENTRIES = 4096
# netem's delays are compared to a microsecond when read back: less is no jitter.
LEAST_JITTER_MS = 0.001
# Below this many bursts, a burst's mean length is not known to a third (its relative standard error
# is at most 1/sqrt(bursts)), and no model of bursts is fitted.
BURSTS_TO_FIT = 10
# Fewer answers that were overtaken than this may be an accident, as of a route that changed.
LEAST_OVERTAKEN = 3
SHUFFLES = 8
# A row of the trace is about at least so long, and so many packets.
WINDOW_S, WINDOW_PACKETS = 1.0, 10

EXIT_OK, EXIT_INTERRUPTED = 0, 130


@dataclass(frozen=True)
class Answer:
    """One packet's first answer."""

    seq: int
    rtt_ms: float
    at_s: float | None  # when it came, seconds since 1970; None without -D


@dataclass(frozen=True)
class Pings:
    """What a ping saw: packets 1 to `sent`, each answered or lost."""

    address: str | None
    sent: int
    answers: tuple[Answer, ...]  # in the order they came
    duplicates: int
    errors: (
        int  # messages that a packet could not be sent or delivered, and answers that came damaged
    )
    resolution_ms: float  # of the coarsest time that ping printed

    @property
    def lost(self) -> tuple[bool, ...]:
        """Which packets were lost, in the order they were sent."""
        answered = {answer.seq for answer in self.answers}
        return tuple(seq not in answered for seq in range(1, self.sent + 1))

    @property
    def overtaken(self) -> int:
        """How many answers came after that to a packet sent later."""
        latest = itertools.accumulate((answer.seq for answer in self.answers), max)
        return sum(answer.seq < most for answer, most in zip(self.answers, latest, strict=True))


STAMP = r"(?:\[(?P<at>\d+\.\d+)\] )?"
HEAD = re.compile(r"PING \S+ ?\((?:[^()\s]+ \()?(?P<address>[0-9a-fA-F.:%\w]+)\)+ .*bytes.*")
ANSWER = re.compile(
    STAMP + r"\d+ bytes from \S+(?: \(\S+\))?: icmp_seq=(?P<seq>\d+)(?: ttl=\d+)?"
    r"(?: time=(?P<rtt>\d+(?:\.(?P<digits>\d+))?) ms)?(?P<rest>(?: \([^)]*\))*)"
)
ERROR = re.compile(STAMP + r"From \S+(?: \(\S+\))?:? icmp_seq=\d+ .*")
WAITING = re.compile(STAMP + r"no answer yet for icmp_seq=\d+")
COUNTS = re.compile(r"(?P<sent>\d+) packets transmitted, (?P<received>\d+) received\b.*")


def parse_ping(text: str, *, interrupted: bool = False) -> Pings:
    """What iputils' ping says, in English (LC_ALL=C).

    interrupted   ping was ended while packets were on their way: those after the last answer
                  are not counted
    Raises BadInput where it says what this does not understand: an answer not understood would be a
    loss.
    """
    address: str | None = None
    answers: dict[int, Answer] = {}
    duplicates = errors = 0
    resolution_ms = 0.0
    counts: re.Match[str] | None = None
    for line in (line.strip() for line in text.splitlines()):
        if found := ANSWER.fullmatch(line):
            seq, rest = int(found["seq"]), found["rest"].strip()
            if rest == "(DUP!)":
                duplicates += 1
            elif rest:  # (BAD CHECKSUM!), (truncated): not the answer that was asked for
                errors += 1
            elif found["rtt"] is None:
                raise BadInput(f"ping says {quoted(line)}: an answer without its time")
            elif seq in answers or not 1 <= seq <= MOST_PACKETS:
                raise BadInput(
                    f"ping says {quoted(line)}: a second answer that it does not call one"
                )
            else:
                answers[seq] = Answer(
                    seq, float(found["rtt"]), float(found["at"]) if found["at"] else None
                )
                resolution_ms = max(resolution_ms, 10.0 ** -len(found["digits"] or ""))
        elif ERROR.fullmatch(line) or line.startswith("ping: sendmsg: "):
            errors += 1
        elif head := HEAD.fullmatch(line):
            address = head["address"]
        elif summed := COUNTS.fullmatch(line):
            counts = summed
        elif "icmp_seq=" in line and not WAITING.fullmatch(line):
            raise BadInput(
                f"ping says {quoted(line)}: not understood (iputils' ping, in English, is)"
            )
    if counts is None and not interrupted:
        raise BadInput("ping's text ends before it says how many packets it sent")
    if counts is not None and int(counts["received"]) != len(answers):
        raise BadInput(f"ping counts {counts['received']} answers, and shows {len(answers)}")
    last = max(answers, default=0)
    sent = last if interrupted or counts is None else int(counts["sent"])
    if last > sent:
        raise BadInput(f"ping counts {sent} packets sent, and shows an answer to the {last}th")
    return Pings(address, sent, tuple(answers.values()), duplicates, errors, resolution_ms)


@dataclass(frozen=True)
class DelayTable:
    """A delay's distribution as netem replays it: delay_ms + jitter_ms * t / 8192, t drawn from the
    table.
    """

    delay_ms: float
    jitter_ms: float
    table: tuple[int, ...]  # empty: always the same delay


@dataclass(frozen=True)
class Fitted:
    """What replays a recording."""

    forward: DelayTable
    reverse_ms: float
    loss: LossModel
    ordered: bool


def fit_path(pings: Pings, interval_s: float, rate_bps: int) -> Fitted:
    """The path whose pings are like these.

    ping cannot tell the two directions apart. Half the least round trip is given to each, what is
    above it, and every loss, to forward. What the rate takes to send a ping comes on top of a
    path's delay, and is taken off here. Raises BadInput if a ping alone would take longer at that
    rate.
    """
    rtts_ms = [answer.rtt_ms for answer in pings.answers]
    each_way_ms = min(rtts_ms) / 2
    reverse_ms = round(each_way_ms - 1000 * PING_BITS / rate_bps, 6)
    if reverse_ms < 0:
        raise BadInput(
            f"--rate {units.show_rate(rate_bps)}: a ping alone would take"
            f" {units.show_time(2 * PING_BITS / rate_bps)}, the least round trip is"
            f" {min(rtts_ms):g} ms (give the path's real rate)"
        )
    taken_ms = each_way_ms + 1000 * PING_BITS / rate_bps
    forward = delay_table([rtt_ms - taken_ms for rtt_ms in rtts_ms])
    return Fitted(forward, reverse_ms, fit_loss(pings.lost), keeps_order(pings, interval_s))


def delay_table(delays_ms: Sequence[float]) -> DelayTable:
    """The netem table of these delays: all of them where there are up to 4096, else 4096 evenly
    spaced quantiles.

    As in iproute2's maketable, its mean is 0 and 8192 stands for one jitter. There, a jitter is one
    standard deviation, and what lies more than four from the mean does not fit 16 bits and is cut.
    Nothing is cut here: where a delay lies further, the jitter is as large as it needs to be.
    """
    mean_ms = round(statistics.fmean(delays_ms), 6)
    off_ms = [delay_ms - mean_ms for delay_ms in delays_ms]
    needed_ms = max(
        statistics.pstdev(delays_ms),
        max(off_ms) * DISTRIBUTION_SCALE / MOST_ENTRY,
        min(off_ms) * DISTRIBUTION_SCALE / LEAST_ENTRY,
    )
    if needed_ms < LEAST_JITTER_MS:
        return DelayTable(mean_ms, 0.0, ())
    jitter_ms = math.ceil(needed_ms * 1e6) / 1e6
    # However the entries are rounded, no delay may come out below 0.
    least = max(LEAST_ENTRY, -math.floor(mean_ms / jitter_ms * DISTRIBUTION_SCALE))
    entries = (
        round(off / jitter_ms * DISTRIBUTION_SCALE)
        for off in quantiles(sorted(off_ms), TABLE_ENTRIES)
    )
    return DelayTable(
        mean_ms, jitter_ms, tuple(min(MOST_ENTRY, max(least, entry)) for entry in entries)
    )


def quantiles(ordered: Sequence[float], most: int) -> list[float]:
    """All values, or the inverse of their empirical distribution function at (i + 1/2) / most."""
    if len(ordered) <= most:
        return list(ordered)
    return [ordered[(2 * i + 1) * len(ordered) // (2 * most)] for i in range(most)]


def burst_lengths(lost: Sequence[bool]) -> list[int]:
    """How many packets each loss took that has none right before it."""
    return [sum(1 for _ in group) for gone, group in itertools.groupby(lost) if gone]


def overtaken_by_chance(pings: Pings, interval_s: float) -> float:
    """How many answers would have been overtaken if each packet had been delayed by itself: what
    the recording's own delays make, shuffled (some times, always in the same ways), of its own
    sending times.
    """
    sent_s = send_times_s(pings, interval_s)
    seqs = sorted(answer.seq for answer in pings.answers)
    rtts_ms = [answer.rtt_ms for answer in pings.answers]
    shuffle = random.Random(0).shuffle
    counts = []
    for _ in range(SHUFFLES):
        shuffle(rtts_ms)
        came_s = [
            sent_s[seq - 1] + rtt_ms / 1000 for seq, rtt_ms in zip(seqs, rtts_ms, strict=True)
        ]
        first_later_s = itertools.accumulate(reversed(came_s[1:]), min)
        counts.append(
            sum(
                one > later for one, later in zip(reversed(came_s[:-1]), first_later_s, strict=True)
            )
        )
    return statistics.fmean(counts)


def keeps_order(pings: Pings, interval_s: float) -> bool:
    """Whether packets are better replayed in order: they were overtaken far less often than by
    chance, or hardly at all.

    netem draws every packet's delay by itself. Without order, that reorders packets that are close
    together, as TCP's are, all the time, whatever ping's, which are not, did.
    """
    return (
        pings.overtaken < LEAST_OVERTAKEN
        or pings.overtaken <= overtaken_by_chance(pings, interval_s) / 2
    )


def fit_loss(lost: Sequence[bool]) -> LossModel:
    """The loss model of a sequence of packets.

    Gilbert's channel (Capacity of a Burst-Noise Channel, Bell System Technical Journal 39, 1960) in
    its simple form, where all is lost in the bad state and nothing in the good one: the states are
    then seen, and the likeliest probabilities of leaving them are the shares of packets in a state
    after which it was left (Hasslinger and Hohlfeld, The Gilbert-Elliott Model for Packet Loss in
    Real Time Services on the Internet, MMB 2008). Bursts are 1/r long. With fewer than
    BURSTS_TO_FIT bursts there is too little to tell: random loss with their share.
    """
    if not any(lost):
        return NO_LOSS
    if len(burst_lengths(lost)) < BURSTS_TO_FIT:
        return LossModel("random", sum(lost) / len(lost))
    steps = list(itertools.pairwise(lost))
    good = [after for before, after in steps if not before]
    bad = [after for before, after in steps if before]
    return LossModel(
        "gemodel",
        p=sum(good) / len(good),
        r=1 - sum(bad) / len(bad),
        one_minus_h=1.0,
        one_minus_k=0.0,
    )


@dataclass(frozen=True)
class Window:
    """What the packets sent within a window of time met."""

    at_s: float  # the window's begin, since the first packet
    rtt_ms: float | None  # their median; None where all were lost
    loss: float


def windows_of(pings: Pings, interval_s: float) -> list[Window]:
    """The recording in windows of a second, or of ten packets where that is longer."""
    length_s = max(WINDOW_S, math.ceil(WINDOW_PACKETS * interval_s))
    rtts_ms = {answer.seq: answer.rtt_ms for answer in pings.answers}
    sent_s = send_times_s(pings, interval_s)
    windows = []
    for number, group in itertools.groupby(
        range(1, pings.sent + 1), key=lambda seq: int(sent_s[seq - 1] // length_s)
    ):
        seqs = list(group)
        answered = [rtts_ms[seq] for seq in seqs if seq in rtts_ms]
        median_ms = statistics.median(answered) if answered else None
        windows.append(Window(number * length_s, median_ms, 1 - len(answered) / len(seqs)))
    return windows


def send_times_s(pings: Pings, interval_s: float) -> list[float]:
    """When each packet was sent, since the first: when its answer came less what that took; for a
    lost one, and without ping's own times, by the interval from the one before. Never falling.
    """
    known = {a.seq: a.at_s - a.rtt_ms / 1000 for a in pings.answers if a.at_s is not None}
    first = min(known, default=1)
    begin_s = known.get(first, 0.0) - (first - 1) * interval_s
    times = [0.0]
    for seq in range(2, pings.sent + 1):
        stepped_s = times[-1] + interval_s
        times.append(max(times[-1], known[seq] - begin_s) if seq in known else stepped_s)
    return times


@dataclass(frozen=True)
class Order:
    """What was asked for."""

    host: str
    name: str
    count: int
    interval_s: Fraction
    interval_written: bool  # False: the default, which may give way
    rate: str  # as written
    out: Path
    force: bool


def write_profile(order: Order, pings: Pings, date: str) -> Path:
    """Write a recording's profile, distribution and trace into order.out, and read them back before
    they get their names.

    Raises BadInput, also where the folder cannot be written; then nothing is there that was not
    before.
    """
    fitted = fit_path(pings, float(order.interval_s), units.rate(order.rate))
    windows = windows_of(pings, float(order.interval_s))
    try:
        with tempfile.TemporaryDirectory(prefix=".recording-", dir=order.out) as scratch:
            folder = Path(scratch)
            made = {
                ".dist": distribution_text(order, fitted.forward) if fitted.forward.table else None,
                ".csv": trace_text(windows, fitted, units.rate(order.rate)),
                ".yaml": profile_text(order, pings, fitted, date),
            }
            for ending, text in made.items():
                if text is not None:
                    (folder / f"{order.name}{ending}").write_text(text, encoding="utf-8")
            profiles.load_profile(str(folder / f"{order.name}.yaml"))
            changes_of(folder / f"{order.name}.csv")
            for ending, text in made.items():  # the profile last: what it names is there before it
                final = order.out / f"{order.name}{ending}"
                if text is not None:
                    os.replace(folder / final.name, final)
                else:
                    final.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"--out {order.out}: {error.strerror or error}") from None
    return order.out / f"{order.name}.yaml"


def distribution_text(order: Order, delay: DelayTable) -> str:
    """A table as tc reads it."""
    rows = (delay.table[start : start + 8] for start in range(0, len(delay.table), 8))
    return (
        f"# The delay to {order.host}, recorded: of {show_ms(delay.delay_ms)} ms,"
        f" {DISTRIBUTION_SCALE} is {show_ms(delay.jitter_ms)} ms more.\n"
        + "".join(" " + " ".join(str(entry) for entry in row) + "\n" for row in rows)
    )


def trace_text(windows: Sequence[Window], fitted: Fitted, rate_bps: int) -> str:
    """A recording as gostlab.ask.trace reads it; nobody measured a rate."""
    rest_ms = fitted.reverse_ms + 2 * 1000 * PING_BITS / rate_bps
    lines = ["time_s,delay_ms,loss,rate_bps"]
    for window in windows:
        delay = "" if window.rtt_ms is None else show_ms(max(0.0, window.rtt_ms - rest_ms))
        lines.append(f"{window.at_s:g},{delay},{window.loss:.4g},")
    return "\n".join(lines) + "\n"


def profile_text(order: Order, pings: Pings, fitted: Fitted, date: str) -> str:
    """A recording as a profile."""
    delay = fitted.forward
    direction = (
        f"rate: {order.rate}, delay: {{delay}}ms, jitter: {{jitter}}ms, {{more}}buffer: 1bdp"
    )
    shape = f"distribution: {order.name}.dist, " if delay.table else ""
    ordered = f"ordered: {'true' if fitted.ordered else 'false'}, " if delay.table else ""
    forward = direction.format(
        delay=show_ms(delay.delay_ms),
        jitter=show_ms(delay.jitter_ms),
        more=f"{shape}{ordered}loss: {loss_text(fitted.loss)}, ",
    )
    reverse = direction.format(delay=show_ms(fitted.reverse_ms), jitter="0", more="loss: 0%, ")
    lines = [
        f"# The path to {order.host} as ping saw it. Recorded by",
        (
            f"#     ./lab profile record {order.host} --name {order.name} --count {order.count}"
            f" --interval {show_interval(order.interval_s)} --rate {order.rate}"
        ),
        f"name: {order.name}",
        f"title: {json.dumps(f'Ping to {order.host}, {date[:10]}', ensure_ascii=False)}",
        "recorded:",
        *(f"  {key}: {value}" for key, value in evidence(order, pings, date).items()),
        "assumptions:",
        *(line for text in assumptions(order, pings, fitted) for line in folded(text)),
        "notes:",
        *folded(
            f"{order.name}.csv has the median delay and the loss of every {window_words(order)}: a"
            " trace, for a path without jitter and loss of its own."
        ),
        f"forward: {{{forward}}}",
        f"reverse: {{{reverse}}}",
    ]
    return "\n".join(lines) + "\n"


def evidence(order: Order, pings: Pings, date: str) -> dict[str, str]:
    """What ping saw, as a profile's `recorded` has it."""
    rtts_ms = sorted(answer.rtt_ms for answer in pings.answers)
    bursts = burst_lengths(pings.lost)
    times = {
        "min": rtts_ms[0],
        "median": statistics.median(rtts_ms),
        "mean": statistics.fmean(rtts_ms),
        "p95": rtts_ms[math.ceil(0.95 * len(rtts_ms)) - 1],
        "max": rtts_ms[-1],
    }
    counts = {
        "sent": pings.sent,
        "answered": len(pings.answers),
        "lost": sum(pings.lost),
        "bursts": len(bursts),
        "longest_burst": max(bursts, default=0),
        "duplicates": pings.duplicates,
        "errors": pings.errors,
        "overtaken": pings.overtaken,
    }
    return {
        "host": json.dumps(order.host, ensure_ascii=False),
        **({"address": json.dumps(pings.address)} if pings.address else {}),
        "date": json.dumps(date),
        "interval": show_interval(order.interval_s),
        **{name: str(count) for name, count in counts.items()},
        **{f"rtt_{name}_ms": show_ms(rtt_ms) for name, rtt_ms in times.items()},
    }


def assumptions(order: Order, pings: Pings, fitted: Fitted) -> list[str]:
    """Which of the path's numbers nobody measured."""
    lost, bursts = sum(pings.lost), len(burst_lengths(pings.lost))
    least_ms = min(answer.rtt_ms for answer in pings.answers)
    interval = show_interval(order.interval_s)
    said = [
        (
            "ping cannot tell the two directions apart. Half the least round trip,"
            f" {show_ms(least_ms / 2)} ms, is given to each; all that is above it, and all loss, to"
            " forward. What the rate takes to send a ping is taken off."
        ),
        (
            f"Rate {order.rate}, each way: not measured, given by --rate. Buffer one BDP: nobody"
            " measured it."
        ),
        (
            "Routers may treat ping's packets unlike others, and answer or drop them by rules of"
            " their own."
        ),
    ]
    if fitted.forward.table:
        said.append(
            "The delay of each packet is drawn by itself: the distribution has how often a delay"
            f" was seen, not how long it stayed ({order.name}.csv has that)."
        )
        chance = overtaken_by_chance(pings, float(order.interval_s))
        said.append(
            f"{pings.overtaken} of {len(pings.answers)} answers were overtaken by a later packet's,"
            f" where about {chance:.0f} would have been if each packet were delayed by itself: "
            + (
                "none is, and one held up holds up those close behind it."
                if fitted.ordered
                else "packets overtake."
            )
        )
    if pings.resolution_ms > 0.01:
        said.append(
            f"ping rounds times of this length to {pings.resolution_ms:g} ms; so does the"
            " distribution."
        )
    if fitted.loss.model == "gemodel":
        said.append(
            f"Loss: Gilbert's model, fitted to {lost} packets lost in {bursts} bursts. Its bursts"
            f" are as many packets long as ping's, which were {interval} apart, however close the"
            " packets are."
        )
    elif lost:
        said.append(
            f"Loss: {lost} of {pings.sent} packets, in {bursts} burst{'s' if bursts > 1 else ''}."
            f" Fewer than {BURSTS_TO_FIT} bursts are too few to fit a model of them: each packet is"
            " lost with that share, whatever became of the one before."
        )
    else:
        said.append(
            f"No loss: none of {pings.sent} packets was lost, so that less than"
            f" {share_text(3 / pings.sent)} are likely to be (95 of 100 times, if each is by"
            " itself)."
        )
    return said


def loss_text(loss: LossModel) -> str:
    """A loss model as a profile writes it."""
    if loss.model == "random":
        return share_text(loss.p)
    return f"{{model: gemodel, p: {share_text(loss.p)}, r: {share_text(loss.r)}}}"


def folded(text: str) -> list[str]:
    """An item of a YAML list, a text of several lines."""
    return [
        "  - >-",
        *(
            f"    {line}"
            for line in textwrap.wrap(text, 112, break_long_words=False, break_on_hyphens=False)
        ),
    ]


def show_ms(time_ms: float) -> str:
    """Milliseconds to a nanosecond, without an exponent and needless zeros."""
    return f"{time_ms:.6f}".rstrip("0").rstrip(".")


def show_interval(interval_s: Fraction) -> str:
    """An interval as it would be written."""
    return f"{show_ms(float(interval_s * 1000))}ms"


def window_words(order: Order) -> str:
    """How long the trace's windows are."""
    length_s = max(WINDOW_S, math.ceil(WINDOW_PACKETS * order.interval_s))
    return "second" if length_s == 1 else f"{length_s:g} seconds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `./lab profile record` takes."""
    parser.add_argument("host", help="a name or address that answers ping")
    parser.add_argument("--name", help="the profile's name (default: made of the host's)")
    parser.add_argument(
        "--count", type=int, default=DEFAULT_COUNT, help=f"packets (default: {DEFAULT_COUNT})"
    )
    parser.add_argument(
        "--interval",
        help=(
            f"between packets (default: {show_interval(DEFAULT_INTERVAL_S)};"
            f" {show_interval(USERS_INTERVAL_S)} where ping lets only root send more often)"
        ),
    )
    parser.add_argument(
        "--rate",
        default=DEFAULT_RATE,
        help=f"the path's rate, which ping does not see (default: {DEFAULT_RATE})",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=profiles.FOLDER,
        help="where to write (default: netem_profiles/)",
    )
    parser.add_argument("--force", action="store_true", help="replace a profile of that name")


def record_verb(arguments: argparse.Namespace) -> int:
    """`./lab profile record HOST`; returns the exit code. Raises BadInput."""
    order = read_order(arguments)
    require_ping()
    try:
        order, text, interrupted, date = record(order)
    except KeyboardInterrupt:
        say("gostlab: interrupted before there was anything to keep")
        return EXIT_INTERRUPTED
    pings = parse_ping(text, interrupted=interrupted)
    if interrupted and len(pings.answers) < LEAST_ANSWERS:
        say(
            f"gostlab: interrupted after {len(pings.answers)} answers, fewer than the"
            f" {LEAST_ANSWERS} of a profile: not kept"
        )
        return EXIT_INTERRUPTED
    if not pings.answers:
        raise BadInput(f"{order.host}: {why_none(text)}")
    if len(pings.answers) < LEAST_ANSWERS:
        raise BadInput(
            f"{order.host}: {len(pings.answers)} of {pings.sent} packets were answered, and a"
            f" profile needs {LEAST_ANSWERS}: use a larger --count"
        )
    path = write_profile(order, pings, date)
    if interrupted:
        say(f"gostlab: interrupted after {len(pings.answers)} answers, enough for a profile: kept")
    print(f"{order.name}: {profiles.summary(profiles.load_profile(str(path)))}")
    print(path)
    return EXIT_OK


def read_order(arguments: argparse.Namespace) -> Order:
    """The command line's words, checked, before anything is sent. Raises BadInput."""
    host = arguments.host.strip()
    # ping would take a leading - for an option; and the host stands in the profile's comment.
    if not re.fullmatch(r"[^\s\-][^\s]{0,253}", host) or not host.isprintable():
        raise BadInput(f"host {quoted(arguments.host)}: not a host's name or address")
    name = arguments.name or re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")[:60].strip("-")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,59}", name):
        raise BadInput(
            f"--name {quoted(name)}: not a profile's name (small letters, digits and -, up to 60)"
        )
    if not LEAST_ANSWERS <= arguments.count <= MOST_PACKETS:
        raise BadInput(f"--count {arguments.count}: not within {LEAST_ANSWERS} to {MOST_PACKETS}")
    try:
        interval_s = units.seconds(arguments.interval) if arguments.interval else DEFAULT_INTERVAL_S
        units.rate(arguments.rate)
    except units.UnitError as error:
        option = "--interval" if error.quantity == "time" else "--rate"
        raise BadInput(f"{option} {quoted(error.text)}: {error.problem}") from None
    if not SHORTEST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        raise BadInput(f"--interval {quoted(arguments.interval)}: not within 1ms to 10s")
    order = Order(
        host,
        name,
        arguments.count,
        interval_s,
        arguments.interval is not None,
        arguments.rate.strip(),
        arguments.out,
        arguments.force,
    )
    check_place(order)
    return order


def check_place(order: Order) -> None:
    """Raises BadInput if the profile could not be written where it should be."""
    if not order.out.is_dir():
        raise BadInput(f"--out {order.out}: no such folder")
    try:
        with tempfile.TemporaryDirectory(prefix=".recording-", dir=order.out):
            pass
    except OSError as error:
        raise BadInput(f"--out {order.out}: {error.strerror or error}") from None
    for taken in (order.out / f"{order.name}{ending}" for ending in (".yaml", ".dist", ".csv")):
        if taken.exists() and not order.force:
            raise BadInput(
                f"--name {order.name}: {taken} is there already (choose another, or --force to"
                " replace it)"
            )


def require_ping() -> None:
    """Raises BadInput if the machine's ping is none, or not one whose text is understood."""
    if shutil.which("ping") is None:
        raise BadInput("no ping on this machine: install iputils-ping")
    version = subprocess.run(
        ["ping", "-V"], capture_output=True, text=True, check=False, env=english()
    )
    if "iputils" not in version.stdout + version.stderr:
        raise BadInput("this machine's ping is not iputils': install iputils-ping")


def record(order: Order) -> tuple[Order, str, bool, str]:
    """Ping the host: what was asked for in the end, ping's text, whether it was interrupted, when
    it began (UTC).

    Raises BadInput if the host does not answer at all, KeyboardInterrupt if interrupted before the
    recording.
    """
    reach(order.host)
    exact = knows_exact_times()
    while True:
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with console_progress(order) as watch:
            text, interrupted = run_ping(ping_argv(order, exact=exact), watch)
        refused = re.search(r"cannot flood\D*(\d+) ?ms", text)
        if refused is None:
            return order, text, interrupted, date
        if order.interval_written or order.interval_s >= USERS_INTERVAL_S:
            raise BadInput(
                f"--interval {show_interval(order.interval_s)}: this machine's ping lets only root"
                f" send more often than every {refused[1]} ms: use --interval {refused[1]}ms, or"
                " sudo"
            )
        order = slower(order)
        say(
            f"gostlab: this machine's ping lets only root send more often than every {refused[1]}"
            f" ms: sending every {show_interval(order.interval_s)}"
        )


def slower(order: Order) -> Order:
    """The same at the interval that every ping lets ordinary users have."""
    return replace(order, interval_s=USERS_INTERVAL_S)


def ping_argv(order: Order, *, exact: bool) -> list[str]:
    """The recording's ping: -D and -O, so that its text says when each packet was answered, or not
    yet.
    """
    argv = ["ping", "-n", "-D", "-O", *(["-3"] if exact else []), "-c", str(order.count)]
    return [*argv, "-i", f"{float(order.interval_s):g}", "-W", str(LINGER_S), "--", order.host]


def reach(host: str) -> None:
    """Wait for a first answer, which is not recorded: it pays for looking up addresses. Raises
    BadInput.
    """
    argv = ["ping", "-n", "-c", "1", "-w", str(REACH_S), "-i", "0.2", "--", host]
    text, interrupted = run_ping(argv, lambda _: None)
    if interrupted:
        raise KeyboardInterrupt
    if not re.search(r"bytes from .*icmp_seq=", text):
        raise BadInput(f"{host}: {why_none(text)}")


def why_none(text: str) -> str:
    """In a phrase, why ping has no answer."""
    lines = [line.strip() for line in text.splitlines()]
    own = [line for line in lines if line.startswith("ping: ")]
    if own:
        return own[0].removeprefix("ping: ").rpartition(": ")[2]
    told = [
        found[1] for line in lines if (found := re.search(r"From \S+.*? icmp_seq=\d+ (.+)", line))
    ]
    return f"no answer ({told[-1]})" if told else "no answer to any ping"


def knows_exact_times() -> bool:
    """Whether this ping has -3, not to round times."""
    shown = subprocess.run(
        ["ping", "-h"], capture_output=True, text=True, check=False, env=english()
    )
    return bool(re.search(r"^\s*-3\s", shown.stdout + shown.stderr, re.MULTILINE))


def run_ping(argv: Sequence[str], watch: Callable[[int], None]) -> tuple[str, bool]:
    """Run ping to its end, or to Ctrl-C: its text, and whether it was interrupted.

    watch   is told the last packet's number some times a second
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=english()
        )
        interrupted = False
        read = 0
        try:
            while process.poll() is None:
                time.sleep(0.1)
                # Not by reading `said`: ping writes where this process's file stands.
                new = os.pread(said.fileno(), 2**20, read)
                read += len(new)
                if seqs := re.findall(rb"icmp_seq=(\d+)", new):
                    watch(int(seqs[-1]))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            end(process)
        return os.pread(said.fileno(), 2**26, 0).decode("utf-8", errors="replace"), interrupted


def end(process: subprocess.Popen[bytes]) -> None:
    """End ping as Ctrl-C does, so that it says its counts; if it will not, at once."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def english() -> dict[str, str]:
    """An environment in which ping speaks English, and writes a point in 0.5."""
    return {**os.environ, "LC_ALL": "C", "LANGUAGE": "C"}


def console_progress(order: Order) -> AbstractContextManager[Callable[[int], None]]:
    """A bar with time left on a terminal, a line elsewhere; what it gives is to be told the last
    packet's number.
    """
    expected = units.show_time(float(order.count * order.interval_s))
    if not sys.stderr.isatty():
        say(
            f"ping {order.host}: {order.count} packets every {show_interval(order.interval_s)},"
            f" about {expected}"
        )
        return nullcontext(lambda _: None)
    return Bar(order)


class Bar:
    """How many packets were sent, and how long the rest will take."""

    def __init__(self, order: Order) -> None:
        self._order = order
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(f"ping {order.host}", total=order.count, left="")

    def __enter__(self) -> Callable[[int], None]:
        self._bar.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _show(self, seq: int) -> None:
        left_s = float((self._order.count - seq) * self._order.interval_s)
        self._bar.update(self._task, completed=seq, left=f"about {max(0, round(left_s))} s left")


def say(sentence: str) -> None:
    """A line for people."""
    print(sentence, file=sys.stderr, flush=True)
