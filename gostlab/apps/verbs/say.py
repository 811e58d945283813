"""`./lab settings` and `window`: they say what is known, and run nothing."""

import argparse

from gostlab.apps import manual
from gostlab.apps.command import EXIT_OK, JSON, print_either, verb, word
from gostlab.apps.verbs import window
from gostlab.declared.errors import BadInput, bounded
from gostlab.describe.file.values import RATE, TIME


@verb(
    "settings",
    "the settings of a run",
    word("setting", nargs="?", metavar="NAME", help="one of them, or forward.loss, cc.client"),
    JSON,
    example="./lab settings buffer",
)
def settings_verb(arguments: argparse.Namespace) -> int:
    name = arguments.setting
    text = manual.say_setting(name) if name else manual.say_settings()
    print_either(arguments, manual.settings_json(name), text)
    return EXIT_OK


@verb(
    "window",
    "how large TCP's buffers must be for a path",
    word("rate", help="of the bottleneck, like 100mbit"),
    word("rtt", help="there and back, like 168ms"),
    word("--streams", type=int, default=1, help="connections side by side"),
    JSON,
    example="./lab window 100mbit 168ms",
)
def window_verb(arguments: argparse.Namespace) -> int:
    try:
        rate_bps = RATE.of("rate", arguments.rate)
        rtt_s = float(TIME.of("time", arguments.rtt))
        bounded(f"--streams {arguments.streams}", arguments.streams, 1, 1000)
        advice = window.advise_window(rate_bps, rtt_s, arguments.streams)
    except ValueError as error:
        raise BadInput(str(error)) from None
    print_either(arguments, advice, "\n".join(advice.lines()))
    return EXIT_OK
