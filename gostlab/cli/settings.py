# SPDX-License-Identifier: MIT
"""Define `./lab settings` and `window`, which print information and run nothing."""

import argparse

from gostlab.cli import buffer_advice, settings_help
from gostlab.cli.common import EXIT_OK, JSON, declare_argument, print_either, verb
from gostlab.errors import BadInput, require_bounds
from gostlab.spec.value_types import RATE, TIME


@verb(
    declare_argument(
        "setting", nargs="?", metavar="NAME", help="one of them, or forward.loss, cc.client"
    ),
    JSON,
    example="./lab settings buffer",
)
def settings_verb(arguments: argparse.Namespace) -> int:
    name = arguments.setting
    text = settings_help.describe_setting(name) if name else settings_help.list_settings()
    print_either(arguments, settings_help.settings_json(name), text)
    return EXIT_OK


@verb(
    declare_argument("rate", help="rate of the bottleneck, like 100mbit"),
    declare_argument("rtt", help="round-trip time, like 168ms"),
    declare_argument(
        "--streams", type=int, default=1, help="number of parallel connections (default: 1)"
    ),
    JSON,
    example="./lab window 100mbit 168ms",
)
def window_verb(arguments: argparse.Namespace) -> int:
    try:
        rate_bps = RATE.of("rate", arguments.rate)
        rtt_s = float(TIME.of("time", arguments.rtt))
        require_bounds(f"--streams {arguments.streams}", arguments.streams, 1, 1000)
        advice = buffer_advice.advise_window(rate_bps, rtt_s, arguments.streams)
    except ValueError as error:
        raise BadInput(str(error)) from None
    print_either(arguments, advice, "\n".join(advice.lines()))
    return EXIT_OK
