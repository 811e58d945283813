"""`./lab profile record HOST`: the words, and what is said of them."""

from __future__ import annotations

import argparse
import re
import tempfile
from fractions import Fraction

from gostlab.ask import profile as profiles
from gostlab.ask import units
from gostlab.ask.document import BadInput
from gostlab.ask.units import quoted
from gostlab.recording.files import Order, show_interval, write_profile
from gostlab.recording.ping import USERS_INTERVAL_S, record, require_ping, say, why_none
from gostlab.recording.pings import MOST_PACKETS, parse_ping
from gostlab.recording.whole import add_place

# A profile of fewer answers would be of chance.
LEAST_ANSWERS = 100
DEFAULT_COUNT, DEFAULT_INTERVAL_S, DEFAULT_RATE = 1000, Fraction(20, 1000), "100mbit"
SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = Fraction(1, 1000), 10
EXIT_OK, EXIT_INTERRUPTED = 0, 130


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
    add_place(parser)


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
