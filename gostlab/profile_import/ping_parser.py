# SPDX-License-Identifier: MIT
"""Parse ping's output strictly, packet by packet, without interpretation."""

import itertools
import re
from dataclasses import dataclass

from gostlab.spec.units import quoted
from gostlab.spec.yaml_source import BadInput

# ping's sequence numbers have 16 bits.
MAX_PACKETS = 65_535


@dataclass(frozen=True)
class EchoReply:
    """The first answer to a packet."""

    seq: int
    rtt_ms: float
    at_s: float | None  # receive time, seconds since 1970; None without -D


@dataclass(frozen=True)
class Pings:
    """The results of a ping: packets 1 to `sent`, each answered or lost."""

    address: str | None
    sent: int
    answers: tuple[EchoReply, ...]  # in the order of arrival
    duplicates: int
    # reports of packets that could not be sent or delivered, and damaged answers
    errors: int
    resolution_ms: float  # resolution of the RTT with the fewest digits

    @property
    def lost(self) -> tuple[bool, ...]:
        """Return whether each packet was lost, in the order of sending."""
        answered = {answer.seq for answer in self.answers}
        return tuple(seq not in answered for seq in range(1, self.sent + 1))

    @property
    def overtaken(self) -> int:
        """Return the number of answers that arrived after an answer to a later packet."""
        latest = itertools.accumulate((answer.seq for answer in self.answers), max)
        return sum(
            answer.seq < max_seq for answer, max_seq in zip(self.answers, latest, strict=True)
        )


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
    """Parse the output of iputils' ping, in English (LC_ALL=C).

    `interrupted` says that ping was ended while packets were in flight: packets after the last
    answer are not counted. Raises BadInput for a line that is not understood: it could be an
    answer, which would count as a loss.
    """
    address: str | None = None
    answers: dict[int, EchoReply] = {}
    duplicates = errors = 0
    resolution_ms = 0.0
    counts: re.Match[str] | None = None
    for line in (line.strip() for line in text.splitlines()):
        if answer := ANSWER.fullmatch(line):
            seq, rest = int(answer["seq"]), answer["rest"].strip()
            if rest == "(DUP!)":
                duplicates += 1
            elif rest:  # (BAD CHECKSUM!), (truncated): a damaged answer
                errors += 1
            elif answer["rtt"] is None:
                raise BadInput(f"ping says {quoted(line)}: an answer without its time")
            elif seq in answers or not 1 <= seq <= MAX_PACKETS:
                raise BadInput(
                    f"ping says {quoted(line)}: a second answer that it does not call one"
                )
            else:
                answers[seq] = EchoReply(
                    seq, float(answer["rtt"]), float(answer["at"]) if answer["at"] else None
                )
                resolution_ms = max(resolution_ms, 10.0 ** -len(answer["digits"] or ""))
        elif ERROR.fullmatch(line) or line.startswith("ping: sendmsg: "):
            errors += 1
        elif head := HEAD.fullmatch(line):
            address = head["address"]
        elif counts_line := COUNTS.fullmatch(line):
            counts = counts_line
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
