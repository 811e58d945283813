"""`./lab profile record HOST`: the words, and what is said of them."""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from ipaddress import ip_address

from gostlab.cli.common import EXIT_INTERRUPTED, EXIT_OK, complain
from gostlab.errors import bounded
from gostlab.profile_import import write_recorded
from gostlab.profile_import.ping_parser import MAX_PACKETS, parse_ping
from gostlab.profile_import.ping_runner import USERS_INTERVAL_S, record, require_ping, why_none
from gostlab.profile_import.profile_writer import add_place, check_place, name_of, time_of
from gostlab.spec import profile as profiles
from gostlab.spec import units
from gostlab.spec.units import quoted
from gostlab.spec.value_types import RATE
from gostlab.spec.yaml_source import BadInput

# A profile of fewer answers would be of chance.
MIN_ANSWERS = 100
DEFAULT_COUNT, DEFAULT_INTERVAL_S, DEFAULT_RATE = 1000, Fraction(20, 1000), "100mbit"
SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = Fraction(1, 1000), Fraction(10)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", help="a name or address that answers ping")
    parser.add_argument(
        "--count", type=int, default=DEFAULT_COUNT, help=f"packets (default: {DEFAULT_COUNT})"
    )
    parser.add_argument(
        "--interval",
        help=f"between packets (default: {units.show_s(DEFAULT_INTERVAL_S)};"
        f" {units.show_s(USERS_INTERVAL_S)} where ping lets only root send more often)",
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
        complain("interrupted before there was anything to keep")
        return EXIT_INTERRUPTED
    pings = parse_ping(text, interrupted=interrupted)
    if interrupted and len(pings.answers) < MIN_ANSWERS:
        complain(
            f"interrupted after {len(pings.answers)} answers, fewer than the {MIN_ANSWERS} of a"
            " profile: not kept"
        )
        return EXIT_INTERRUPTED
    if not pings.answers:
        raise BadInput(f"{order.host}: {why_none(text)}")
    if len(pings.answers) < MIN_ANSWERS:
        raise BadInput(
            f"{order.host}: {len(pings.answers)} of {pings.sent} packets were answered, and a"
            f" profile needs {MIN_ANSWERS}: use a larger --count"
        )
    path = write_recorded.write_recorded(order, pings, date)
    if interrupted:
        complain(f"interrupted after {len(pings.answers)} answers, enough for a profile: kept")
    loaded = profiles.load_profile(str(path))
    print(f"{order.name}: {profiles.summary(loaded)}")
    print(*(f"assumed: {sentence}" for sentence in loaded.assumptions), sep="\n")
    print(path)
    return EXIT_OK


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own to itself, as far as that is known here."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower().split(".")[-1] == "localhost"


def read_order(arguments: argparse.Namespace) -> write_recorded.RecordingOptions:
    """The command line's words, checked, before anything is sent. Raises BadInput."""
    host = arguments.host.strip()
    # ping would take a leading - for an option; and the host stands in the profile's comment.
    if not re.fullmatch(r"[^\s\-][^\s]{0,253}", host) or not host.isprintable():
        raise BadInput(f"host {quoted(arguments.host)}: not a host's name or address")
    if is_loopback(host):
        raise BadInput(f"host {quoted(host)}: this machine itself, which is no path")
    name = name_of(arguments.name, host)
    bounded(f"--count {arguments.count}", arguments.count, MIN_ANSWERS, MAX_PACKETS)
    interval_s = DEFAULT_INTERVAL_S
    if arguments.interval:
        ends = SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S
        interval_s = time_of("--interval", arguments.interval, *ends)
    RATE.of("--rate", arguments.rate)
    is_written, rate = arguments.interval is not None, arguments.rate.strip()
    order = write_recorded.RecordingOptions(
        host, name, arguments.count, interval_s, is_written, rate, arguments.out
    )
    check_place(order.out, name, (".yaml", ".dist", ".csv"), force=arguments.force)
    return order
