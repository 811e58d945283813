"""The kinds: tunnels, queueing disciplines, traffic. A file each, that nothing else names: what it
declares (gostlab.declared) has it found.
"""

# Read with the package, and so before a run begins: its clock goes on while a module is read. With
# more left to read, a queue's timers and the ticks of hosts.jsonl would come at other times.
from gostlab.kinds.qdiscs import netem, queues  # noqa: F401
from gostlab.kinds.tunnels import forwarding  # noqa: F401
