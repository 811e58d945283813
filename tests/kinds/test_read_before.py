"""What a run has read of the kinds when its clock begins: more, or less, moves its samples."""

import sys

from tests.lab_command import said_by


def test_all_traffic_is_read_and_of_tunnels_and_queues_what_others_stand_on() -> None:
    script = (
        "import sys, gostlab.guest.run; from gostlab import lazy; lazy.read_all()\n"
        "print(*(name for name in sys.modules if name.startswith('gostlab.kinds.')))"
    )
    done = said_by(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    read = {name.removeprefix("gostlab.kinds.") for name in done.stdout.split()}
    assert {name for name in read if not name.startswith("traffic")} == {
        *("qdiscs", "qdiscs.netem", "qdiscs.queues", "tunnels", "tunnels.forwarding")
    }
    assert {"traffic.tcp", "traffic.http", "traffic.ping"} <= read
