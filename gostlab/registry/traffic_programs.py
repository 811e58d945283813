# SPDX-License-Identifier: MIT
"""Define the programs of flows that no tunnel declares.

The installation unpacks those that the machine lacks.
"""

from collections.abc import Mapping

IRTT = "irtt"  # irtt measures round trips of datagrams, for ping flows.
NGINX = "nginx"  # nginx serves the data of downloads; installing it would start a web server.
# The key is the program, the value its Debian package.
OF_FLOWS: Mapping[str, str] = {IRTT: "irtt", NGINX: "nginx"}
