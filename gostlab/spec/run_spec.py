# SPDX-License-Identifier: MIT
"""Describe a run, compiled to numbers: the contents of run.json and all that a sandbox needs."""

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
from gostlab.registry.installed_plugins import UsedPlugin
from gostlab.registry.topologies import topology_of
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.compatible_json import JsonObject, added_later, from_json, to_json
from gostlab.spec.flow import FlowSpec
from gostlab.spec.links_crossed import links_crossed, nodes_named, paths_crossed
from gostlab.spec.path_spec import DIRECTIONS, ChangeSpec, DirectionSpec, LossSpec, PathSpec
from gostlab.tcpmodel.socket_buffers import Buffers

SCHEMA = 2
# A queue that would take longer to drain is never filled: senders' buffers are smaller.
MAX_QUEUED_S = 3600.0


Levels = dict[
    str, Any
]  # Levels by factor, as the user wrote them: numbers, texts, lists, mappings.
OptionValue = str | int | None  # None: the default of the tunnel's program.


@dataclass(frozen=True)
class RunSpec:
    """Represent one compiled run: the contents of run.json, with units in the field names.

    Declare every new field with `added_later`; spec.compatible_json explains why.
    """

    experiment: str
    matrix: str
    factors: Levels  # The factors that vary in this matrix, as the user wrote them.
    repetition: int  # Repetitions are counted from 1.
    seed: int  # All cells of a repetition share a seed.
    machine: str  # sandbox | native
    clock: str  # virtual | real
    # A system call costs this much on the virtual clock; 0 on the real clock.
    syscall_cost_us: float
    topology: str
    placement: str  # endpoint | gateway
    profile: str
    path: PathSpec
    # In a star, `sites` holds the path of every site by its profile's name; `path` is the path
    # under test.
    sites: Mapping[str, PathSpec] | None
    tunnel: str
    cc: str  # The congestion control of every end that cc_by_end does not name.
    streams: int
    duration_s: float
    direction: str  # upload (the client sends) | download
    # "system" leaves the buffers unchanged; {rmem, wmem} are in bytes.
    buffers: Buffers
    offloads: bool
    sample_ms: float
    mtu: int
    memory_mib: int  # The memory of the sandbox.
    tcp_memory_mib: int  # The limit for all TCP sockets of all hosts together.
    acks: bool  # Whether to record the sender's window at every ACK.
    flows: list[FlowSpec]
    changes: list[ChangeSpec]  # The changes of the path during the load, by time.
    schema: int = SCHEMA
    # The ends whose congestion control differs from `cc`: hosts, or legs of the tunnel.
    cc_by_end: Mapping[str, str] = added_later({})
    bottleneck: str = added_later("netem")  # The qdisc that enforces the bottleneck's rate.
    queue: str = added_later("fifo")  # The qdisc that queues packets at the bottleneck.
    # docs/explanation/machine-model.md explains the CPU model; only the virtual clock has CPUs.
    host_cpus: int = added_later(0)  # CPUs per host; 0 means that all hosts share one CPU.
    # The cost per byte that a system call moves, in addition to syscall_cost_us.
    byte_cost_ns: float = added_later(0.0)
    clock_reads: str = added_later("charged")  # charged (each clock read is a system call) | free
    # The program of GOST's tunnels: an added version | relay | auto (whichever GOST is found).
    gost: str = added_later("auto")
    iperf3: str = added_later(
        "system"
    )  # A version that gostlab built | system (the installed iperf3)
    # The TCP memory of each host; 0 means that all hosts share tcp_memory_mib.
    host_tcp_memory_mib: int = added_later(0)
    cpus_by_host: Mapping[str, int] = added_later(
        {}
    )  # The CPUs of hosts that differ from host_cpus.
    # The cost of each packet that a host with its own CPUs receives.
    packet_cost_ns: int = added_later(0)
    # The long-run CPU time of each host, in thousandths of one CPU (0: unlimited), and the CPU time
    # by which a host may exceed that share in a burst.
    cpu_share_permille: int = added_later(0)
    cpu_burst_us: int = added_later(0)
    # The TCP memory of hosts that differ from host_tcp_memory_mib.
    tcp_memory_mib_by_host: Mapping[str, int] = added_later({})
    # How end hosts' NICs receive: packet | moderated (GRO, and interrupts at least rx_usecs apart).
    receive: str = added_later("packet")
    rx_usecs: int = added_later(0)
    # The first digits of the SHA-256 of each user-supplied congestion control's files, by its name.
    own_cc: Mapping[str, str] = added_later({})
    # A cost table in machines/ with call_ns and byte_ps by program; programs that it does not name
    # cost syscall_cost_us and byte_cost_ns.
    costs_of: str = added_later("uniform")
    program_costs: Mapping[str, Mapping[str, int]] = added_later({})
    # The values of the tunnel's declared options: sndbuf, rcvbuf (bytes), nagle, …
    tunnel_options: Mapping[str, OptionValue] = added_later({})
    # Whether hosts negotiate ECN and queues mark: off | on | losses (marks the delay line's losses,
    # too) | l4s (accurate ECN).
    ecn: str = added_later("off")
    # The name of the sandbox's kernel: one in kernel/versions or the user's. A user's kernel is
    # identified by the checksum of its source, so that another tree is another run.
    kernel: str = added_later("shipped")
    kernel_sha256: str = added_later("")
    # The target delay of queues that have one; 0 keeps the kernel's default.
    target_ms: float = added_later(0.0)
    # Who paces senders: internal (TCP) | fq (a qdisc on their NIC).
    pacing: str = added_later("internal")
    # The number of paths in series; a gost host follows each path but the last.
    hops: int = added_later(1)
    loss_detection: str = added_later("rack")  # rack (the kernel's default) | dupacks (RFC 6675)
    # Whether the kernel performs the reads of programs that only read; off proves that the samples
    # are equal.
    read_on: str = added_later("on")
    # The links that have their own path, by name (hop2, n1-n2); all other links have `path`.
    links: Mapping[str, PathSpec] = added_later({})
    # Each flow and each tunnel end starts at most this much later than requested.
    start_spread_s: float = added_later(0.0)
    # The part of the load over which results are computed; measure_to_s 0 means the end of the
    # load.
    measure_from_s: float = added_later(0.0)
    measure_to_s: float = added_later(0.0)
    # The packets to record: off | wan | links | legs | the name of a link; at most so many bytes of
    # each.
    capture: str = added_later("off")
    snaplen_bytes: int = added_later(96)
    # The plugins of other packages that the run uses.
    plugins: list[UsedPlugin] = added_later([])
    allow: list[str] = added_later([])  # The traps that the user explicitly allows.

    def to_json(self) -> JsonObject:
        """Return the dict of run.json, which omits later fields at their default."""
        return to_json(self)

    @classmethod
    def from_json(cls, values: object) -> Self:
        """Return a run from run.json's dict. Raises BadInput if the schema differs."""
        if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
            raise BadInput(f"run.json: not a run of schema {SCHEMA}, the one this lab reads")
        try:
            return from_json(cls, values, "run.json")
        except (TypeError, ValueError) as error:
            raise BadInput(str(error)) from None

    def start_offset_s(self, who: str) -> float:
        """Return the delay from the requested to the actual start of a flow or a tunnel end.

        The delay is drawn evenly from the start spread by the run's seed, and so equals in every
        cell of a repetition.
        """
        return round(random.Random(f"{self.seed} {who}").uniform(0, self.start_spread_s), 6)

    @property
    def window_s(self) -> tuple[float, float]:
        """Return the begin and end of the part of the load over which results are computed."""
        return self.measure_from_s, self.measure_to_s or math.inf

    @property
    def measures_part(self) -> bool:
        return self.window_s != (0.0, math.inf)

    def measured_s(self, flow: FlowSpec | None = None) -> tuple[float, float]:
        """Return the begin and end of the measured part of a flow, or of all flows together.

        The part never extends beyond the instant at which the flow is to stop: what drains from
        queues after it does not count for a rate.
        """
        from_s, to_s = self.window_s
        return from_s, max(from_s, min(to_s, flow.end_s if flow else self.length_s))

    @property
    def length_s(self) -> float:
        """Return the time at which the last flow ends; for an http flow, its latest end."""
        return max(flow.end_s for flow in self.flows)

    @property
    def congestion_controls(self) -> list[str]:
        controls = {flow.cc for flow in self.flows if flow.cc}
        return sorted(controls | ({self.cc, *self.cc_by_end.values()} if self.cc_by_end else set()))

    @property
    def gost_program(self) -> str:
        """Return which program runs a tunnel of GOST's: as `gost`, but auto is no relay+TRANSPORT.

        That is the lab's own relay, on a machine with a GOST too, if the relay has the transport.
        """
        plugin = tunnel_kind(self.tunnel)
        is_relay = plugin.is_relay_spelling(self.tunnel) and not plugin.since
        return "relay" if self.gost == "auto" and is_relay else self.gost

    @property
    def needs_host_files(self) -> bool:
        """Return whether a flow runs a program of the host and needs the host's files."""
        return any(flow.traffic.of_the_host for flow in self.flows)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the nodes that the flows run between."""
        return tuple(
            dict.fromkeys(host for flow in self.flows for host in (flow.sender, flow.receiver))
        )

    def paths_of(self, flow: FlowSpec) -> list[PathSpec]:
        """Return the paths that a flow crosses in order, each as the flow's sender sees it."""
        return paths_crossed(self.path, self.links, self.links_of(flow))

    def longest_rtt_s(self, flow: FlowSpec) -> float:
        """Return the longest time that a flow's packet and its answer may take during the load.

        Every delay and jitter is assumed to be at its maximum, and every queue full at its lowest
        rate.
        """
        longest_s = flow.rtt_ms / 1000
        for link, _ in self.links_of(flow) or [("", True)]:
            for name in DIRECTIONS:
                direction = self.path_of_link(link)[name]
                states: list[DirectionSpec | ChangeSpec] = [direction]
                states += self.changes_of(link, name)
                delay_ms = max(state.delay_ms or 0 for state in states) - direction.delay_ms
                jitter_ms = direction.jitter_reach[1] * max(
                    state.jitter_ms or 0 for state in states
                )
                rate_bps = min((state.rate_bps for state in states if state.rate_bps), default=0)
                queued_bits = 8 * self.mtu * (direction.buffer_pkts or 0)
                slots = [state.slot.reach_ms[1] for state in states if state.slot]
                longest_s += (delay_ms + jitter_ms + max(slots, default=0.0)) / 1000
                longest_s += queued_bits / rate_bps if rate_bps else 0.0
        return min(longest_s, MAX_QUEUED_S)

    def links_of(self, flow: FlowSpec) -> list[tuple[str, bool]]:
        """Return the links that a flow crosses, each with whether it is crossed forward.

        The list is empty if all flows share one path.
        """
        topology = topology_of(self.topology)
        nodes = nodes_named(self.hosts) if topology.shape else 0
        return links_crossed(topology, self.hops, nodes, flow.sender, flow.receiver)

    def path_of_link(self, link: str) -> PathSpec:
        """Return the path of a link: its own, or the run's (`link` "": the only path)."""
        return self.links.get(link, self.path)

    def changes_of(self, link: str, direction: str) -> list[ChangeSpec]:
        """Return the changes of one direction of a link by time (`link` "": the only path)."""
        return [
            change
            for change in self.changes
            if change.direction == direction and change.touches(link, self.links)
        ]

    def losses_of(self, link: str, direction: str) -> list[LossSpec]:
        """Return every loss that one direction of a link has during the run."""
        changed = (change.loss for change in self.changes_of(link, direction))
        return [self.path_of_link(link)[direction].loss, *(loss for loss in changed if loss)]

    def rate_changes(self, link: str, direction: str) -> list[tuple[float, int]]:
        """Return the new rates of one direction of a link, each with its time."""
        return [
            (change.at_s, change.rate_bps)
            for change in self.changes_of(link, direction)
            if change.rate_bps is not None
        ]

    def tunnel_ends(self, flow: FlowSpec) -> tuple[str, ...]:
        """Return the hosts of the ends of a flow's tunnel, near end first, or ()."""
        tunnel = tunnel_kind(self.tunnel)
        if tunnel.is_direct or not flow.takes_tunnel:
            return ()
        topology, hops = topology_of(self.topology), tunnel.ends_over(self.hops)
        return topology.tunnel_ends(self.placement, hops, flow.sender, flow.receiver)

    @property
    def data_direction(self) -> str:
        """Return the direction of the path that carries the first flow's data."""
        return self.flows[0].data_direction

    @cached_property
    def cell(self) -> str:
        """Return the name without repetition; it ends in a hash of all but repetition and seed."""
        inputs = self.to_json()
        del inputs["repetition"], inputs["seed"]
        return f"{self._readable_prefix}-{digest(inputs)}"

    @cached_property
    def name(self) -> str:
        """Return the name of the run's folder: readable, ending in a hash of the whole run."""
        return f"{self._readable_prefix}-r{self.repetition}-{digest(self.to_json())}"

    @property
    def _readable_prefix(self) -> str:
        """Return matrix and levels, fit for a file name; numbers follow their factor."""
        levels = (
            f"{factor}{level}" if str(level)[:1].isdigit() else str(level)
            for factor, level in self.factors.items()
        )
        return re.sub(r"[^A-Za-z0-9.+_-]+", "_", "-".join([self.matrix, *levels]))[:150]


def digest(inputs: JsonObject) -> str:
    """Return eight hex digits of the SHA-256 of a run's inputs."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:8]
