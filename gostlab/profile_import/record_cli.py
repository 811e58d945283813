# SPDX-License-Identifier: MIT
"""Implement `./lab profile record HOST`: arguments, checks and output."""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from ipaddress import ip_address

from gostlab.cli.common import EXIT_INTERRUPTED, EXIT_OK, print_error
from gostlab.errors import require_bounds
from gostlab.profile_import import write_recorded
from gostlab.profile_import.ping_parser import MAX_PACKETS, parse_ping
from gostlab.profile_import.ping_runner import (
    USERS_INTERVAL_S,
    explain_no_answer,
    record,
    require_ping,
)
from gostlab.profile_import.profile_writer import (
    add_output_arguments,
    check_output,
    parse_time_option,
    profile_name,
)
from gostlab.spec import profile as profiles
from gostlab.spec import units
from gostlab.spec.units import quoted
from gostlab.spec.value_types import RATE
from gostlab.spec.yaml_source import BadInput

# A profile of fewer answers would be dominated by chance.
MIN_ANSWERS = 100
DEFAULT_COUNT, DEFAULT_INTERVAL_S, DEFAULT_RATE = 1000, Fraction(20, 1000), "100mbit"
MIN_INTERVAL_S, MAX_INTERVAL_S = Fraction(1, 1000), Fraction(10)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", help="name or address of a host that answers ping")
    parser.add_argument(
        "--count",
        type=int,
        default=DEFAULT_COUNT,
        help=f"number of packets (default: {DEFAULT_COUNT})",
    )
    parser.add_argument(
        "--interval",
        help=f"time between packets (default: {units.show_s(DEFAULT_INTERVAL_S)};"
        f" {units.show_s(USERS_INTERVAL_S)} where ping lets only root send more often)",
    )
    parser.add_argument(
        "--rate",
        default=DEFAULT_RATE,
        help=f"rate of the path, which ping cannot measure (default: {DEFAULT_RATE})",
    )
    add_output_arguments(parser)


def run_record(arguments: argparse.Namespace) -> int:
    """Run `./lab profile record HOST` and return the exit code. Raises BadInput."""
    options = read_options(arguments)
    require_ping()
    try:
        options, text, interrupted, date = record(options)
    except KeyboardInterrupt:
        print_error("interrupted before the recording began: nothing is saved")
        return EXIT_INTERRUPTED
    pings = parse_ping(text, interrupted=interrupted)
    if interrupted and len(pings.answers) < MIN_ANSWERS:
        print_error(
            f"interrupted after {len(pings.answers)} answers, fewer than the {MIN_ANSWERS} of a"
            " profile: not saved"
        )
        return EXIT_INTERRUPTED
    if not pings.answers:
        raise BadInput(f"{options.host}: {explain_no_answer(text)}")
    if len(pings.answers) < MIN_ANSWERS:
        raise BadInput(
            f"{options.host}: {len(pings.answers)} of {pings.sent} packets were answered, and a"
            f" profile needs {MIN_ANSWERS}: use a larger --count"
        )
    path = write_recorded.write_recorded(options, pings, date)
    if interrupted:
        print_error(f"interrupted after {len(pings.answers)} answers, enough for a profile: saved")
    loaded = profiles.load_profile(str(path))
    print(f"{options.name}: {profiles.summary(loaded)}")
    print(*(f"assumed: {sentence}" for sentence in loaded.assumptions), sep="\n")
    print(path)
    return EXIT_OK


def is_loopback(host: str) -> bool:
    """Return whether a host is an address or name of this machine's loopback interface."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower().split(".")[-1] == "localhost"


def read_options(arguments: argparse.Namespace) -> write_recorded.RecordingOptions:
    """Check the command line before any packet is sent. Raises BadInput."""
    host = arguments.host.strip()
    # ping would parse a leading - as an option; and the profile's comment contains the host.
    if not re.fullmatch(r"[^\s\-][^\s]{0,253}", host) or not host.isprintable():
        raise BadInput(f"host {quoted(arguments.host)}: not a host's name or address")
    if is_loopback(host):
        raise BadInput(f"host {quoted(host)}: this machine itself, which is no path")
    name = profile_name(arguments.name, host)
    require_bounds(f"--count {arguments.count}", arguments.count, MIN_ANSWERS, MAX_PACKETS)
    interval_s = DEFAULT_INTERVAL_S
    if arguments.interval:
        bounds = MIN_INTERVAL_S, MAX_INTERVAL_S
        interval_s = parse_time_option("--interval", arguments.interval, *bounds)
    RATE.of("--rate", arguments.rate)
    is_written, rate = arguments.interval is not None, arguments.rate.strip()
    options = write_recorded.RecordingOptions(
        host, name, arguments.count, interval_s, is_written, rate, arguments.out
    )
    check_output(options.out, name, (".yaml", ".dist", ".csv"), force=arguments.force)
    return options
