"""Programs that measure and that no tunnel declares: the set-up unpacks what the machine lacks."""

from collections.abc import Mapping

IRTT = "irtt"  # round trips of datagrams, for ping flows
MEASURING: Mapping[str, str] = {IRTT: "irtt"}  # program -> the Debian package that it is in
