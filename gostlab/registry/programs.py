"""Programs of flows that no tunnel declares: the set-up unpacks what the machine lacks."""

from collections.abc import Mapping

IRTT = "irtt"  # round trips of datagrams, for ping flows
NGINX = "nginx"  # has the data of downloads; installing it would start a web server
OF_FLOWS: Mapping[str, str] = {IRTT: "irtt", NGINX: "nginx"}  # program -> its Debian package
