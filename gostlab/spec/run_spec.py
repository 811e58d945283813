"""A run, resolved to numbers: what run.json holds, and all that a machine needs to know."""

import hashlib
import json
import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from gostlab.errors import BadInput
from gostlab.registry.topologies import topology_of
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.flow import FlowSpec
from gostlab.spec.link_paths import links_crossed, nodes_named, paths_crossed, touches
from gostlab.spec.versioned_json import from_json, later, to_json
from gostlab.tcpmodel.constants import DISTRIBUTION_SCALE

SCHEMA = 2
# A queue that would take longer to drain is never filled: senders' buffers are smaller.
MAX_QUEUED_S = 3600.0


@dataclass(frozen=True)
class RunSpec:
    """One run, resolved: the contents of run.json, units in the names.

    A field that is added from now on is made by `later`: resolve.later_fields says why.
    """

    experiment: str
    matrix: str
    factors: Mapping[str, Any]  # only what varies in this matrix, as people write it
    repetition: int  # from 1
    seed: int  # the same for every cell of a repetition
    machine: str  # sandbox | native
    clock: str  # virtual | real
    syscall_cost_us: float  # on the virtual clock; 0 on the real one
    topology: str
    placement: str  # endpoint | gateway
    profile: str
    # forward, reverse: rate_bps, delay_ms, jitter_ms, ordered, distribution, loss, buffer_pkts
    path: Mapping[str, Any]
    # star: the path of every site by its profile's name; `path` is the one under test
    sites: Mapping[str, Any] | None
    tunnel: str
    cc: str  # of every end that cc_by_end does not name
    streams: int
    duration_s: float
    direction: str  # upload: the client sends | download
    buffers: str | Mapping[str, list[int]]  # "system": left as they are | {rmem, wmem}, bytes
    offloads: bool
    sample_ms: float
    mtu: int
    memory_mib: int  # the sandbox's
    tcp_memory_mib: int  # its limit for all TCP sockets of all hosts together
    acks: bool  # record the sender's window at every ACK
    flows: list[FlowSpec]
    # of the path during the load: at_s, direction, of several links which, and what changes
    changes: list[Mapping[str, Any]]
    schema: int = SCHEMA
    # the ends whose congestion control is another than `cc`: hosts, or legs of the tunnel
    cc_by_end: Mapping[str, str] = later({})
    bottleneck: str = later("netem")  # what has the bottleneck's rate
    queue: str = later("fifo")  # what keeps the packets that wait for it
    # docs/explanation/machine-model.md has the rules of these; only the virtual clock has CPUs
    host_cpus: int = later(0)  # of each host; 0: one CPU for all hosts together
    byte_cost_ns: float = later(0.0)  # per byte that a call moves, beside syscall_cost_us
    clock_reads: str = later("charged")  # as a system call each | free
    gost: str = later("auto")  # of GOST's tunnels: one that was added | relay | auto: as found
    iperf3: str = later("system")  # a version of the lab's own | system: what is installed
    host_tcp_memory_mib: int = later(0)  # each host's own pool; 0: tcp_memory_mib is shared
    cpus_by_host: Mapping[str, int] = later({})  # of the hosts that have others than host_cpus
    packet_cost_ns: int = later(0)  # of a packet that a host with CPUs of its own receives
    # what each host's CPUs have together in the long run, in thousandths of one CPU (0: all), and
    # how much CPU time it may be ahead of that
    cpu_share_permille: int = later(0)
    cpu_burst_us: int = later(0)
    tcp_memory_mib_by_host: Mapping[str, int] = later({})  # of the hosts with another pool
    # end hosts' cards: packet | moderated, with GRO and interrupts at least rx_usecs apart
    receive: str = later("packet")
    rx_usecs: int = later(0)
    # the user's own congestion controls: by name the first digits of their files' SHA-256
    own_cc: Mapping[str, str] = later({})
    # programs' own costs, of a table in machines/: call_ns and byte_ps by program; others pay
    # syscall_cost_us and byte_cost_ns
    costs_of: str = later("uniform")
    program_costs: Mapping[str, Mapping[str, int]] = later({})
    # what is asked of the options that the tunnel declares: sndbuf, rcvbuf (bytes), nagle, …
    tunnel_options: Mapping[str, Any] = later({})
    # whether hosts ask and queues mark: off | on | losses (the delay line's too) | l4s (accurate)
    ecn: str = later("off")
    # the sandbox's kernel by its name in kernel/versions, or the user's; of the user's what it was
    # made of: from another tree it is another run
    kernel: str = later("shipped")
    kernel_sha256: str = later("")
    target_ms: float = later(0.0)  # of queues that have one; 0: the kernel's own
    pacing: str = later("internal")  # what paces senders: TCP itself | fq, a qdisc on their card
    hops: int = later(1)  # how many paths lie one behind the other, a host of gost's behind each
    loss_detection: str = later("rack")  # rack, as the kernel does by default | dupacks (RFC 6675)
    # whether the kernel makes the reads of programs that only read; off: for a proof, the same run
    read_on: str = later("on")
    # the links that have a path of their own, by name (hop2, n1-n2); `path` is that of the others
    links: Mapping[str, Any] = later({})
    # within how much of its instant each flow, and each end of a tunnel, starts
    start_spread_s: float = later(0.0)
    # what of the load the results are taken over; to 0: to its end
    measure_from_s: float = later(0.0)
    measure_to_s: float = later(0.0)
    allow: list[str] = later([])  # traps that it walks into on purpose

    def to_json(self) -> dict[str, Any]:
        """The dict that run.json holds: a later field only where it is not at its default."""
        return to_json(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """A run from run.json's dict. Raises BadInput if it is not one of this schema."""
        if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
            raise BadInput(f"run.json: not a run of schema {SCHEMA}, the one this lab reads")
        try:
            flows = [from_json(FlowSpec, flow, "flows") for flow in values.get("flows", ())]
            return from_json(cls, values, "run.json", flows=flows)
        except (TypeError, ValueError) as error:
            raise BadInput(str(error)) from None

    def start_offset_s(self, who: str) -> float:
        """How much later than asked a flow, or an end of the tunnel, starts: drawn evenly from the
        start spread by the run's seed, and so the same in every cell of a repetition.
        """
        return round(random.Random(f"{self.seed} {who}").uniform(0, self.start_spread_s), 6)

    @property
    def window_s(self) -> tuple[float, float]:
        """From when to when of the load the results are taken over."""
        return self.measure_from_s, self.measure_to_s or math.inf

    @property
    def measures_a_part(self) -> bool:
        return self.window_s != (0.0, math.inf)

    def measured_s(self, flow: FlowSpec | None = None) -> tuple[float, float]:
        """Return from when to when of the load a flow's results are taken over, or those of all
        flows together: never beyond the instant at which the flow is to stop, as what drains from
        queues after it takes no part in a rate.
        """
        from_s, to_s = self.window_s
        return from_s, max(from_s, min(to_s, flow.end_s if flow else self.length_s))

    @property
    def length_s(self) -> float:
        """How long the load lasts: until its last flow is over (an http flow: at most)."""
        return max(flow.end_s for flow in self.flows)

    @property
    def congestion_controls(self) -> list[str]:
        found = {flow.cc for flow in self.flows if flow.cc}
        return sorted(found | ({self.cc, *self.cc_by_end.values()} if self.cc_by_end else set()))

    @property
    def is_of_the_host(self) -> bool:
        """Whether a flow's program is this machine's, so that a guest needs the host's files."""
        return any(flow.traffic.of_the_host for flow in self.flows)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes that the flows run between."""
        return tuple(
            dict.fromkeys(host for flow in self.flows for host in (flow.sender, flow.receiver))
        )

    def paths_of(self, flow: FlowSpec) -> list[Mapping[str, Any]]:
        """The paths that a flow crosses one after the other, each as its sender sees it."""
        return paths_crossed(self.path, self.links, self.links_of(flow))

    def longest_rtt_s(self, flow: FlowSpec) -> float:
        """Return how long a flow's packet and its answer may take at any time of the load: every
        delay and jitter at its longest, every queue full at its lowest rate.
        """
        longest_s = flow.rtt_ms / 1000
        for link, _ in self.links_of(flow) or [("", True)]:
            path = self.links.get(link, self.path)
            for way in path:
                every = [path[way], *self.changes_of(link, way)]
                reach = max(path[way]["distribution"] or [DISTRIBUTION_SCALE]) / DISTRIBUTION_SCALE
                delay_ms = max(each.get("delay_ms", 0) for each in every) - path[way]["delay_ms"]
                jitter_ms = reach * max(each.get("jitter_ms", 0) for each in every)
                rate_bps = min(
                    (each["rate_bps"] for each in every if each.get("rate_bps")), default=0
                )
                queued_bits = 8 * self.mtu * (path[way]["buffer_pkts"] or 0)
                longest_s += (delay_ms + jitter_ms) / 1000
                longest_s += queued_bits / rate_bps if rate_bps else 0.0
        return min(longest_s, MAX_QUEUED_S)

    def links_of(self, flow: FlowSpec) -> list[tuple[str, bool]]:
        """The links that a flow crosses, and whether forward; [] of one path for all."""
        topology = topology_of(self.topology)
        nodes = nodes_named(self.hosts) if topology.shape else 0
        return links_crossed(topology, self.hops, nodes, flow.sender, flow.receiver)

    def changes_of(self, link: str, direction: str) -> list[Mapping[str, Any]]:
        """The changes of one direction of a link, by time. `link`: "" where there is one path."""
        return [
            change
            for change in self.changes
            if change["direction"] == direction and touches(change, link, self.links)
        ]

    def tunnel_way(self, flow: FlowSpec) -> tuple[str, ...]:
        """The hosts of a flow's tunnel's ends, the near one first; () where it takes none."""
        kind = tunnel_kind(self.tunnel)
        if kind.is_direct or not flow.takes_tunnel:
            return ()
        topology, hops = topology_of(self.topology), kind.ends_over(self.hops)
        return topology.tunnel_way(self.placement, hops, flow.sender, flow.receiver)

    @property
    def data_direction(self) -> str:
        """The direction of the path that carries the first flow's data."""
        return self.flows[0].data_way

    @cached_property
    def cell(self) -> str:
        """The name without repetition, ending in a hash of all but repetition and seed."""
        inputs = self.to_json()
        del inputs["repetition"], inputs["seed"]
        return f"{self._words}-{digest(inputs)}"

    @cached_property
    def name(self) -> str:
        """The name of the run's folder: readable, ending in a hash of everything that was asked."""
        return f"{self._words}-r{self.repetition}-{digest(self.to_json())}"

    @property
    def _words(self) -> str:
        """Matrix and levels, fit for a file name; words alone, numbers with their factor's name."""
        levels = (
            f"{factor}{level}" if str(level)[:1].isdigit() else str(level)
            for factor, level in self.factors.items()
        )
        return re.sub(r"[^A-Za-z0-9.+_-]+", "_", "-".join([self.matrix, *levels]))[:150]


def digest(inputs: Mapping[str, Any]) -> str:
    """Eight hex digits of what makes a run the run it is."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:8]
