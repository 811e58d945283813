"""`./lab profile record HOST`: a path as ping sees it, as a profile that replays it.

    NAME.yaml    the profile: what ping saw, what was concluded from it, what nobody measured
    NAME.dist    the shape of the delay, a netem table
    NAME.csv     delay and loss over time, a trace

Only ping's text goes in (pings.parse_ping), only files come out (files.write_profile); between
them are pure functions (fitting).
"""
