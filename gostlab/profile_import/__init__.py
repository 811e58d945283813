# SPDX-License-Identifier: MIT
"""Make profiles of real paths.

`./lab profile record HOST` measures a path by ping; `./lab profile import FILE` reads somebody
else's recording. Both write a profile, and a trace that replays the path over time.

    NAME.yaml    the profile: measurements, conclusions, assumptions
    NAME.dist    of a ping recording: the delay distribution, a netem table
    NAME.csv     delay, loss and rate over time, a trace

Parsers read texts (ping_parser.parse_ping, gostlab.importers), profile_writer writes the files; the
functions in between are pure (path_estimator, rate_steps).
"""
