"""Paths of one's own: `./lab profile record HOST`, as ping sees it, and `./lab profile import
FILE`, as somebody else recorded it; both become a profile, and a trace that replays it.

    NAME.yaml    the profile: what was seen, what was concluded from it, what nobody measured
    NAME.dist    of a recording: the shape of the delay, a netem table
    NAME.csv     delay, loss and rate over time, a trace

Only texts go in (pings.parse_ping; a module per format in formats/), only files come out
(profile_writer); between them are pure functions (loss_model, steps).
"""
