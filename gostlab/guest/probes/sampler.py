"""Sample sockets, queues and the CPU at fixed instants, and the last state of closing sockets.

Instants are multiples of the sampling interval from the start of the load, not "interval after the
last sample", so they do not drift. Everything is read by netlink and /proc from one thread.
"""

from __future__ import annotations

import json
import math
import os
import select
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from operator import itemgetter, sub
from pathlib import Path
from socket import if_nametoindex
from typing import IO, Any, NamedTuple, Self, cast

from gostlab.guest.host_config import has_own_tcp_memory
from gostlab.guest.namespaces import entered_namespace
from gostlab.guest.network import Interface, Network
from gostlab.guest.probes import netlink
from gostlab.guest.probes.first_last_byte import FIRST_LEGS, LAST_LEGS, SendTimes, SentData
from gostlab.guest.timerfd import remove_timer_slack
from gostlab.guest.tunnel_context import Tunnel, TunnelLeg
from gostlab.registry.congestion_controls import kernel_name
from gostlab.results.metrics import SENDING_END
from gostlab.results.rows import LegRow, LegsFile
from gostlab.spec.run_spec import RunSpec

NSTAT_KEYS = (
    "TcpOutSegs TcpRetransSegs TcpExtTCPLostRetransmit TcpExtTCPTimeouts TcpExtTCPFastRetrans"
    " TcpExtTCPSpuriousRTOs TcpExtTCPDSACKRecv TcpExtTCPSACKReorder TcpExtTCPRcvQDrop"
    " TcpExtTCPBacklogDrop TcpExtPruneCalled TcpExtRcvPruned TcpExtTCPMemoryPressures"
    " TcpExtTCPLossProbes TcpExtTCPMemoryPressuresChrono TcpExtTCPAbortOnMemory TcpInSegs"
    " IpExtInCEPkts TcpExtTCPDeliveredCE TcpExtTCPOFOQueue TcpExtTCPDSACKOfoRecv"
    " TcpExtTCPDSACKIgnoredOld TcpExtTCPDSACKIgnoredNoUndo"
).split()
MAX_RECEIVERS_INTERVAL_S = 1.0
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# Counters of a leg's sending sockets, summed from their last tcp_info.
COUNTED = ("segments_out", "data_segments_out", "segments_retransmitted", "bytes_acked")
MARKED = ("marked_pkts",)  # counters that are written only if they are not zero
TIMED = ("busy_ms", "rwnd_limited_ms", "sndbuf_limited_ms")


@cache
def json_template(names: Sequence[str]) -> tuple[str, itemgetter[Any]]:
    """Return a JSON template for some keys, and a getter of their values in its order."""
    ordered = sorted(names)
    return "{" + ", ".join(f'"{name}": %s' for name in ordered) + "}", itemgetter(*ordered)


def format_row(texts: Mapping[str, object]) -> str:
    """Return a JSON object whose values are JSON texts already.

    It equals json.dumps(..., sort_keys=True). Filling in a template is faster than encoding, and a
    run of many sockets writes thousands of rows.
    """
    text, values = json_template(tuple(texts))
    return text % tuple(["null" if value is None else value for value in values(texts)])


def format_numbers(numbers: Mapping[str, float]) -> str:
    """Return a JSON object of numbers as json.dumps(..., sort_keys=True) writes it."""
    return format_row({name: repr(number) for name, number in numbers.items()})


class ProcFile:
    """A file of /proc, kept open: reopening it takes six calls."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def text(self, length: int = 1 << 14) -> bytes:
        """Return the beginning of the file's content now."""
        return os.pread(self._descriptor, length, 0)

    def close(self) -> None:
        os.close(self._descriptor)


def host_file(pid: int | str, name: str) -> ProcFile:
    """Open a file of /proc/net of a process's host. Raises OSError."""
    return ProcFile(f"/proc/{pid}/net/{name}")


def cpu_seconds(proc_stat: ProcFile) -> tuple[float, float]:
    """Return (busy, idle) seconds of this machine's CPUs since boot."""
    numbers = [int(field) for field in proc_stat.text(256).split(maxsplit=9)[1:9]]
    idle = numbers[3] + numbers[4]
    return (sum(numbers) - idle) / TICKS_PER_S, idle / TICKS_PER_S


def host_cpu_use(pid: int) -> dict[str, int]:
    """Return what the host of a process has used of its CPUs so far.

    Raises OSError. docs/explanation/machine-model.md describes a host's CPUs.
    """
    with closing(host_file(pid, "host_cpu")) as file:
        fields = file.text().decode("ascii").split()
    return dict(zip(fields[::2], map(int, fields[1::2]), strict=True))


def program_cost_use(pid: int) -> dict[str, dict[str, int]]:
    """Return what programs with their own costs have paid on the host of a process.

    What they started is included. Fields are call_ns, byte_ps, calls, bytes and busy_ns by program.
    Raises OSError.
    """
    costs: dict[str, dict[str, int]] = {}
    for line in Path(f"/proc/{pid}/net/program_cost").read_text(encoding="ascii").splitlines():
        program, *fields = line.split()
        costs[program] = dict(zip(fields[::2], map(int, fields[1::2]), strict=True))
    return costs


class HostCpu:
    """Measure how long the CPUs of a process's host have been busy since this object was made.

    Times are shares of all that the CPUs may be busy (a cpu_share's, if the host has one).
    """

    def __init__(self, pid: int) -> None:
        """Open the host's account. Raises OSError."""
        used = host_cpu_use(pid)
        self._max_ns = min(1e9 * used["cpus"], 1e6 * used.get("share_permille", math.inf))
        names = list(used)
        self._busy_at, self._packets_at = (
            2 * names.index(name) + 1 for name in ("busy_ns", "packets_busy_ns")
        )
        self._file = host_file(pid, "host_cpu")
        self._before = self._busy_s()

    def _busy_s(self) -> tuple[float, float]:
        fields = self._file.text().split()
        return (
            int(fields[self._busy_at]) / self._max_ns,
            int(fields[self._packets_at]) / self._max_ns,
        )

    def busy_s(self) -> tuple[float, float]:
        """Return the seconds that the CPUs were busy, and of these with received packets."""
        busy_s, packets_s = self._busy_s()
        return round(busy_s - self._before[0], 6), round(packets_s - self._before[1], 6)

    def close(self) -> None:
        self._file.close()


def tcp_memory_pages(sockstat: ProcFile) -> int:
    """Return the pages of TCP memory of a host now, or of this machine without a pool per host."""
    fields = sockstat.text().partition(b"TCP:")[2].split()
    return int(fields[fields.index(b"mem") + 1])


def read_nstat(pid: int) -> dict[str, int]:
    """Return the TCP counters of a process's network namespace, named as nstat names them."""
    counters: dict[str, str] = {}
    for name in ("snmp", "netstat"):
        with closing(host_file(pid, name)) as file:
            lines = file.text().decode("ascii").splitlines()
        for head, values in zip(lines[::2], lines[1::2], strict=True):
            prefix, *names = head.split()
            prefix = prefix.removesuffix(":")
            counters |= zip([prefix + name for name in names], values.split()[1:], strict=True)
    return {key: int(counters[key]) for key in NSTAT_KEYS if key in counters}


class LinkTraffic(NamedTuple):
    """The traffic of a host's links, each packet with its headers."""

    rx_bytes: int = 0
    rx_pkts: int = 0
    tx_bytes: int = 0
    tx_pkts: int = 0


def read_link_traffic(pid: int, devices: Collection[str]) -> LinkTraffic:
    """Return the traffic of some devices of a process's host together."""
    totals = [0, 0, 0, 0]
    for line in Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines():
        name, colon, counts = line.partition(":")
        if colon and name.strip() in devices:
            fields = counts.split()
            totals = [
                sum_ + int(fields[column])
                for sum_, column in zip(totals, (0, 1, 8, 9), strict=True)
            ]
    return LinkTraffic(*totals)


SocketKey = tuple[str, bytes]  # host, and the socket's ports and addresses


@dataclass(slots=True)
class SampledSocket:
    """A socket of a leg: its position, the constant fields of its rows, and its last message.

    noted     its congestion control and whether it sends data, at the last sample
    template  of its rows
    """

    leg: TunnelLeg
    end: str
    texts: dict[str, str]

    message: netlink.SocketMessage
    sent: SentData | None = None
    noted: tuple[str | None, bool] | None = None
    template: str = ""


@dataclass(frozen=True)
class CounterSnapshot:
    """The counters at an instant: every socket with its leg and end, and the hosts' counters."""

    sockets: Mapping[SocketKey, tuple[TunnelLeg, str, netlink.SocketMessage]]
    nstat: Mapping[str, Mapping[str, int]]
    crossed: Mapping[str, LinkTraffic]  # by host, for the hosts of counted flows

    def of(self, leg: TunnelLeg, end: str) -> list[SocketKey]:
        """Return the sockets of one end of a leg."""
        return [
            key
            for key, (its_leg, its_end, _) in self.sockets.items()
            if (its_leg, its_end) == (leg, end)
        ]

    def sacked_bytes(self, leg: TunnelLeg, end: str) -> int:
        """Return the bytes of one end's data that the peer has, but not yet in order."""
        infos = [self.sockets[key][2].sending for key in self.of(leg, end)]
        return sum(info.sacked_pkts * info.mss for info in infos)

    def grown(
        self, keys: Iterable[SocketKey], names: Iterable[str], before: CounterSnapshot, zero: float
    ) -> dict[str, float]:
        """Return the growth of some counters, summed over some sockets."""
        sums = dict.fromkeys(names, zero)
        for key in keys:
            now = netlink.parse_tcp_socket(self.sockets[key][2])
            past = before.sockets.get(key)
            then = netlink.parse_tcp_socket(past[2]) if past else None
            for name in sums:
                sums[name] += now[name]
                sums[name] -= then[name] if then else zero
        return sums


@dataclass
class Receivers:
    """Choose the samples that leave out the hosts whose sockets only receive.

    Such a host has no rows in sockets.jsonl. Its counters and congestion controls are read every
    `interval_s` seconds, at each edge of a measured part, and at the end of the load.
    """

    hosts: frozenset[str]
    interval_s: float
    _due_s: float = 0.0

    @classmethod
    def of(cls, run: RunSpec, legs: Sequence[TunnelLeg]) -> Self:
        """Return the receiving hosts of a run's flows; only iperf3's receivers surely send no data.

        legs: the TCP connections of the run's flows.
        """
        flows = {flow.name: flow for flow in run.flows}
        hosts = {node for leg in legs for node in (leg.near, leg.far)}
        for leg in legs:
            flow = flows[leg.flow]
            sender = leg.near if SENDING_END[flow.direction] == "near" else leg.far
            hosts -= {sender} if flow.traffic.by_iperf3 else {leg.near, leg.far}
        # Each flow's sockets are then read at least twice.
        shortest_s = min(flow.duration_s for flow in run.flows)
        return cls(frozenset(hosts), min(MAX_RECEIVERS_INTERVAL_S, shortest_s / 2))

    def left_out(self, at_s: float) -> frozenset[str]:
        """Return the hosts that a sample at an instant leaves out."""
        if at_s < self._due_s:
            return self.hosts
        self._due_s = at_s + self.interval_s
        return frozenset()


def hosts_counted(run: RunSpec) -> list[str]:
    """Return the hosts whose links are counted."""
    flows = [flow for flow in run.flows if flow.traffic.is_counted]
    return list(dict.fromkeys(host for flow in flows for host in (flow.sender, flow.receiver)))


class Probes:
    """The samplers of one run, whose files and sockets are open until `close`.

    `queues` are the interfaces whose qdiscs are sampled.
    """

    def __init__(
        self,
        run: RunSpec,
        network: Network,
        tunnel: Tunnel,
        queues: Sequence[Interface],
        folder: Path,
        interval_s: float,
    ) -> None:
        self.interval_s = interval_s
        # measured part of the load by flow, and of all flows together ("")
        parts = {"": run.measured_s(), **{flow.name: run.measured_s(flow) for flow in run.flows}}
        self._parts = parts if run.measures_part else {}
        self._nstat_at_end: dict[str, dict[str, int]] = {}  # empty until the load ends
        self._edges = sorted({at_s for part in self._parts.values() for at_s in part if at_s > 0})
        self._counts: dict[float, CounterSnapshot] = {}  # counters by edge of a measured part
        # The run's name of a congestion control by the kernel's, if they differ.
        self._cc_names = {
            name: cc for cc in run.congestion_controls if (name := kernel_name(cc)) != cc
        }
        self._legs = tunnel.legs
        # End that sends the data of each flow's connections.
        self._sending = {flow.name: SENDING_END[flow.direction] for flow in run.flows}
        # Samples of the sockets of flows that pause, by flow, leg and end: in how many
        # the application limited the socket, and all.
        self._paused: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._control_bytes = {flow.name: flow.traffic.control_bytes for flow in run.flows}
        self._pausing = {flow.name for flow in run.flows if flow.pauses}
        self._legs_by_position = legs_by_position(tunnel.legs)
        self._hosts = sorted({node for leg in tunnel.legs for node in (leg.near, leg.far)})
        self._receivers = Receivers.of(run, tunnel.legs)
        self._pids = {node: network.pid(node) for node in network.nodes}
        self._links = {
            host: {end.name for end in network.interfaces if end.node == host}
            for host in hosts_counted(run)
        }
        paying = self._hosts if run.host_cpus else []
        self._cpus = {node: HostCpu(self._pids[node]) for node in paying}
        self._proc_stat = ProcFile("/proc/stat")
        pools = self._hosts if has_own_tcp_memory(run) else [""]
        self._pools = {host: host_file(self._pids.get(host, "self"), "sockstat") for host in pools}
        self._diag = {
            node: netlink.open_in(self._pids[node], netlink.NETLINK_SOCK_DIAG)
            for node in self._hosts
        }
        self._closed = {
            node: netlink.watch_closed_sockets(self._pids[node]) for node in self._hosts
        }
        self._closes = select.epoll()  # notifications of all closes in one call
        self._node_by_closes = {link.fileno(): node for node, link in self._closed.items()}
        for descriptor in self._node_by_closes:
            self._closes.register(descriptor, select.EPOLLIN)
        self._route = {
            node: netlink.open_in(self._pids[node], netlink.NETLINK_ROUTE)
            for node in sorted({i.node for i in queues})
        }
        # the shaped interfaces of each node by their index
        self._shaped: dict[str, dict[int, QueueRows]] = {node: {} for node in self._route}
        for queue in queues:
            index = index_of(self._pids[queue.node], queue.name)
            self._shaped[queue.node][index] = QueueRows.of(queue)
        self._files: dict[str, IO[str]] = {
            name: (folder / f"{name}.jsonl").open("w", encoding="utf-8")
            for name in ("sockets", "queues", "hosts")
        }
        self._before = CounterSnapshot({}, {}, {})
        self._sockets: dict[SocketKey, SampledSocket | None] = {}  # None: of no leg
        self._cc_seen: dict[tuple[TunnelLeg, str, bool], set[str]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.error: BaseException | None = None
        self.lateness_ms: list[float] = []
        self.longest_gap_s = 0.0
        self.missed_closes = False
        self._sampled_s = 0.0
        # Peak by host; "" for all hosts together.
        self.tcp_memory_peak_pages = dict.fromkeys(self._pools, 0)
        self.cpu_at_start = (0.0, 0.0)
        self.started_s = 0.0

    def start(self) -> None:
        """Read the counters before the load and start sampling."""
        self._before = self._now()
        for link in self._closed.values():
            netlink.read_closed_sockets(link)  # discard what ended before the load
        self.cpu_at_start = cpu_seconds(self._proc_stat)
        self.started_s = time.monotonic()
        self._thread = threading.Thread(
            target=self._sample_until_stopped, name="probes", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Stop sampling after one last sample.

        Raises the sampler's error, if it failed.
        """
        if self._thread is not None and self._thread.is_alive():
            self._stop.set()
            self._thread.join()
        if self.error is not None:
            raise self.error
        for file in self._files.values():  # readers have the samples before the checks are made
            file.flush()
        self._nstat_at_end = self._nstat()

    def _sample_until_stopped(self) -> None:
        try:
            remove_timer_slack()
            count, last_s = 1, self.started_s
            while True:
                at_s = min([count * self.interval_s, *self._edges[:1]])
                due = self.started_s + at_s
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    break
                now_s = time.monotonic()
                self.lateness_ms.append(1000 * (now_s - due))
                self.longest_gap_s, last_s = max(self.longest_gap_s, now_s - last_s), now_s
                self._sample(at_s, of_all=self._edges[:1] == [at_s])
                if self._edges[:1] == [at_s]:
                    self._edges.pop(0)
                    self._counts[at_s] = self._now()
                if at_s < count * self.interval_s:
                    continue  # an edge of a measured part, between two samples
                # A missed instant is skipped and not made up for.
                count = max(
                    count + 1, int((time.monotonic() - self.started_s) / self.interval_s) + 1
                )
            self.longest_gap_s = max(self.longest_gap_s, time.monotonic() - last_s)
            self._sample(time.monotonic() - self.started_s, of_all=True)
        except BaseException as error:  # end() raises it
            self.error = error

    def _sample(self, at_s: float, *, of_all: bool) -> None:
        """Write a sample. of_all: whether receiving hosts are read, too (`Receivers`)."""
        self._collect_closed()
        left_out = frozenset[str]() if of_all else self._receivers.left_out(at_s)
        for node in self._hosts:
            if node not in left_out:
                self._sample_sockets(at_s, node)
        self._sampled_s = at_s
        at_text = repr(round(at_s, 6))
        for node, link in self._route.items():
            shaped = self._shaped[node]
            for index, counts in netlink.read_qdisc_statistics(link, shaped).items():
                self._files["queues"].write(shaped[index].row(counts, at_text))
        self._sample_machine(at_s)
        self._files["hosts"].flush()  # readers follow the run's progress in this file

    def _sample_sockets(self, at_s: float, node: str) -> None:
        """Write a row of every socket that sends data, and note the congestion controls in use."""
        at_text = repr(round(at_s, 6))
        for message in netlink.read_tcp_sockets(self._diag[node]):
            socket = self._watched(node, message)
            if socket is None:
                continue
            sending = message.sending
            sends_data = sending.bytes_out > self._control_bytes[socket.leg.flow]
            cc = message.cc
            if socket.noted != (cc, sends_data):
                socket.noted = cc, sends_data
                cc_name = self._cc_names.get(cc or "", cc)
                socket.template = row_template(socket.texts | {"cc": json.dumps(cc_name)})
                if cc_name:
                    seen = self._cc_seen.setdefault((socket.leg, socket.end, sends_data), set())
                    seen.add(cc_name)
            if socket.sent is None:
                socket.sent = SentData.of(socket.end, sending)
            socket.sent.note(at_s, self._sampled_s, sending, sends_data=sends_data)
            if sends_data:
                self._files["sockets"].write(fill_row(socket.template, message, at_text))
                if socket.leg.flow in self._pausing:
                    position = socket.leg.flow, socket.leg.name, socket.end
                    limited, count = self._paused.get(position, (0, 0))
                    is_limited = netlink.is_app_limited(message)
                    self._paused[position] = limited + is_limited, count + 1

    def _watched(self, node: str, latest: netlink.SocketMessage) -> SampledSocket | None:
        """Update and return the socket of a message; None if it is of no leg."""
        key = node, latest.identity
        if key not in self._sockets:
            tcp = netlink.parse_tcp_socket(latest)
            leg_end = classify(self._legs_by_position, node, tcp["local"], *latest.ports)
            self._sockets[key] = (
                SampledSocket(*leg_end, socket_texts(node, *leg_end, tcp), latest)
                if leg_end
                else None
            )
        socket = self._sockets[key]
        if socket is not None:
            socket.message = latest
        return socket

    def _sample_machine(self, at_s: float) -> None:
        """Write a row of the CPU time since the load began, and of TCP's memory."""
        busy, idle = cpu_seconds(self._proc_stat)
        pages = {host: tcp_memory_pages(file) for host, file in self._pools.items()}
        for host, held_pages in pages.items():
            self.tcp_memory_peak_pages[host] = max(self.tcp_memory_peak_pages[host], held_pages)
        memory_mib = {host: round(held_pages * PAGE_MIB, 2) for host, held_pages in pages.items()}
        texts = {
            "t_s": repr(round(at_s, 6)),
            "cpu_busy_s": repr(round(busy - self.cpu_at_start[0], 4)),
            "cpu_idle_s": repr(round(idle - self.cpu_at_start[1], 4)),
            "tcp_memory_mib": repr(max(memory_mib.values())),
        }
        if "" not in memory_mib:
            texts["host_tcp_memory_mib"] = format_numbers(memory_mib)
        if self._cpus:
            times = {node: cpu.busy_s() for node, cpu in self._cpus.items()}
            texts["host_busy_s"] = format_numbers({node: busy for node, (busy, _) in times.items()})
            packets = {node: packets for node, (_, packets) in times.items()}
            if any(packets.values()):
                texts["host_packets_s"] = format_numbers(packets)
        self._files["hosts"].write(format_row(texts) + "\n")

    def _collect_closed(self) -> None:
        """Note the last message of each socket that has closed since the last call."""
        for descriptor, _ in self._closes.poll(0):
            node = self._node_by_closes[descriptor]
            try:
                for message in netlink.read_closed_sockets(self._closed[node]):
                    self._watched(node, message)
            except OSError:
                # The last live sample then stands for the end of a socket.
                self.missed_closes = True

    def _cc_of(self, leg: TunnelLeg, end: str) -> list[str]:
        """Return the congestion controls of a leg's data senders.

        If no socket surely sent data, those of all its sockets are returned.
        """
        return sorted(
            self._cc_seen.get((leg, end, True)) or self._cc_seen.get((leg, end, False), set())
        )

    def _ends_of(self, leg: TunnelLeg) -> LegRow:
        """Return a leg and its two ends."""
        sending, receiving, sender, receiver = "near", "far", leg.near, leg.far
        if self._sending[leg.flow] == "far":
            sending, receiving, sender, receiver = "far", "near", leg.far, leg.near
        return {
            "leg": leg.name,
            "flow": leg.flow,
            "sender": sender,
            "loopback": leg.loopback,
            "cc": self._cc_of(leg, sending),
            "receiver": receiver,
            "receiver_cc": self._cc_of(leg, receiving),
        }

    def legs(self) -> LegsFile:
        """Return legs.json: the counters of each leg's sending sockets, and of every host."""
        self._collect_closed()
        before, after = self._window("")
        return {
            "legs": [self._leg(leg) for leg in self._legs],
            "nstat": {
                node: {key: value - counts.get(key, 0) for key, value in after.nstat[node].items()}
                for node, counts in before.nstat.items()
            },
            "closed_sockets_missed": self.missed_closes,
        }

    def _leg(self, leg: TunnelLeg) -> LegRow:
        """Return the counters of a leg's sending sockets in the measured part of the load."""
        before, after = self._window(leg.flow)
        sockets = after.of(leg, self._sending[leg.flow])
        counters = {
            "sockets": len(sockets),
            **after.grown(sockets, COUNTED, before, 0),
            **after.grown(sockets, TIMED, before, 0.0),
            **{name: n for name, n in after.grown(sockets, MARKED, before, 0).items() if n},
        }
        return cast(LegRow, {**self._ends_of(leg), **counters})

    def counted(self, leg: TunnelLeg, end: str, name: str, *, whole: bool = False) -> int:
        """Return a counter summed over one end of a leg, in the measured part or the whole."""
        before, after = self._window(leg.flow, whole=whole)
        return int(after.grown(after.of(leg, end), [name], before, 0)[name])

    def bytes_delivered(self, leg: TunnelLeg, end: str, *, whole: bool = False) -> int:
        """Return the bytes of one end of a leg that its peer got: acknowledged, or by SACK.

        Data behind a lost segment count when they arrive, not all at once with its retransmission.
        """
        before, after = self._window(leg.flow, whole=whole)
        sacked = after.sacked_bytes(leg, end) - before.sacked_bytes(leg, end)
        return max(0, self.counted(leg, end, "bytes_acked", whole=whole) + sacked)

    def bytes_received(self, flow: str) -> int:
        """Return what the kernel counts at the sockets of a flow's receiver, in the whole load."""
        sending = self._sending[flow]
        receiving = "far" if sending == "near" else "near"
        legs = {leg.name: leg for leg in self._legs if leg.flow == flow}
        last = next(legs[name] for name in LAST_LEGS[sending] if name in legs)
        return self.counted(last, receiving, "bytes_received", whole=True)

    def app_limited_share(self, flow: str) -> float | None:
        """Return in which share of its samples a flow's application limited its sending socket.

        None if no sample shows it, or if the flow's application does not pause.
        """
        sending = self._sending[flow]
        samples = (self._paused.get((flow, leg, sending)) for leg in FIRST_LEGS[sending])
        limited, count = next(filter(None, samples), (0, 0))
        return limited / count if count else None

    def send_times(self, flow: str) -> SendTimes | None:
        """Return when a flow's data left, or None if no sample shows it."""
        sending = self._sending[flow]
        flow_legs = {leg.name for leg in self._legs if leg.flow == flow}
        first = next((name for name in FIRST_LEGS[sending] if name in flow_legs), None)
        position = flow, first, sending
        return SendTimes.of(
            socket.sent
            for socket in self._sockets.values()
            if socket and socket.sent and (socket.leg.flow, socket.leg.name, socket.end) == position
        )

    def crossed(self, flow: str, host: str, *, whole: bool = False) -> LinkTraffic:
        """Return the traffic of a host's links in a flow's measured part, or in the whole."""
        before, after = self._window(flow, whole=whole)
        return LinkTraffic(*map(sub, after.crossed[host], before.crossed[host]))

    def _window(self, flow: str, *, whole: bool = False) -> tuple[CounterSnapshot, CounterSnapshot]:
        """Return the counters at both ends of a flow's measured part, or of the whole load.

        A load that was over before an edge counted nothing more until then.
        """
        if whole or not self._parts:
            return self._before, self._now()
        from_s, to_s = self._parts[flow]
        before = self._before if from_s <= 0 else self._counts.get(from_s) or self._now()
        return before, self._counts.get(to_s) or self._now()

    def _now(self) -> CounterSnapshot:
        sockets = {
            key: (known.leg, known.end, known.message)
            for key, known in self._sockets.items()
            if known
        }
        return CounterSnapshot(sockets, self._nstat_at_end or self._nstat(), self._crossed())

    def _crossed(self) -> dict[str, LinkTraffic]:
        return {
            host: read_link_traffic(self._pids[host], devices)
            for host, devices in self._links.items()
        }

    def _nstat(self) -> dict[str, dict[str, int]]:
        return {node: read_nstat(self._pids[node]) for node in self._hosts}

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for links in (self._diag, self._closed, self._route, self._cpus, self._pools, self._files):
            for resource in links.values():
                resource.close()
        self._closes.close()
        self._proc_stat.close()


def index_of(pid: int, device: str) -> int:
    """Return the index of an interface of a process's host."""
    with entered_namespace(pid):
        return if_nametoindex(device)


SocketPosition = tuple[str, bool, str, int]  # node, whether over loopback, end, the leg's port


def legs_by_position(legs: Sequence[TunnelLeg]) -> dict[SocketPosition, TunnelLeg]:
    """Return the leg by the position of its sockets; of two legs at one position, the first."""
    by_position: dict[SocketPosition, TunnelLeg] = {}
    for leg in legs:
        by_position.setdefault((leg.near, leg.loopback, "near", leg.port), leg)
        by_position.setdefault((leg.far, leg.loopback, "far", leg.port), leg)
    return by_position


def classify(
    by_position: Mapping[SocketPosition, TunnelLeg],
    node: str,
    local: str,
    local_port: int,
    peer_port: int,
) -> tuple[TunnelLeg, str] | None:
    """Return a socket's leg and its end of it ("near" connected, "far" accepted), or None."""
    on_loopback = local.startswith("127.")
    for end, port in (("near", peer_port), ("far", local_port)):
        leg = by_position.get((node, on_loopback, end, port))
        if leg is not None:
            return leg, end
    return None


@dataclass(frozen=True)
class QueueRows:
    """The templates of a queue's rows: one for a queue that can mark, and one for others."""

    marking: str
    other: str

    @classmethod
    def of(cls, interface: Interface) -> Self:
        """Return the templates of an interface's queue."""
        names = {"node": interface.node, "dev": interface.name, "role": interface.role}
        names |= {"direction": interface.direction}
        names |= {"link": interface.link} if interface.link else {}
        texts = {key: json.dumps(name) for key, name in names.items()}
        others = [name for name in QUEUE_FIELDS if name != "marks"]
        return cls(row_template(texts, QUEUE_FIELDS), row_template(texts, others))

    def row(self, counts: netlink.QdiscStatistics, at_s: str) -> str:
        """Return a row of queues.jsonl, as json.dumps(..., sort_keys=True) writes it."""
        backlog_bytes, backlog_pkts, drops, sent_bytes, sent_pkts, marks = counts
        if marks is None:
            return self.other % (backlog_bytes, backlog_pkts, drops, sent_bytes, sent_pkts, at_s)
        return self.marking % (
            *(backlog_bytes, backlog_pkts, drops, marks, sent_bytes, sent_pkts),
            at_s,
        )


def socket_texts(node: str, leg: TunnelLeg, end: str, tcp: netlink.TcpRow) -> dict[str, str]:
    """Return the constant fields of a socket's rows, as JSON."""
    names = {"host": node, "flow": leg.flow, "leg": leg.name, "end": end}
    names |= {"local": tcp["local"], "peer": tcp["peer"]}
    return {key: json.dumps(name) for key, name in names.items()}


# The variable fields of rows in the order of their names, which is that of their templates.
QUEUE_FIELDS = "backlog_bytes backlog_pkts drops marks sent_bytes sent_pkts t_s".split()
SOCKET_FIELDS = (
    "bbr busy_ms bytes_acked bytes_received cwnd_pkts data_segments_out delivered_pkts"
    " delivery_rate_bps lost_pkts min_rtt_ms mss pacing_rate_bps reord_seen reordering rto_ms"
    " rttvar_ms rwnd_limited_ms segments_out segments_retransmitted snd_wnd_bytes sndbuf_limited_ms"
    " srtt_ms ssthresh_pkts t_s unacked_pkts"
).split()


def row_template(texts: Mapping[str, str], variable: Iterable[str] = SOCKET_FIELDS) -> str:
    """Return the template of a row, a socket's without marks, given its constant fields as JSON."""
    fields = {name: text.replace("%", "%%") for name, text in texts.items()}
    fields |= dict.fromkeys(variable, "%s")
    return "{" + ", ".join(f'"{name}": {fields[name]}' for name in sorted(fields)) + "}\n"


def fill_row(template: str, message: netlink.SocketMessage, at_s: str) -> str:
    """Return a template with a sample's values, as json.dumps(..., sort_keys=True) writes them.

    It has the fields of netlink.parse_tcp_socket. Unpacking to a tuple and filling in a string is
    three times as fast as a dict per row, and a run of many sockets writes thousands of rows.
    """
    (
        rto, mss, unacked, lost, srtt, rttvar, ssthresh, cwnd, reordering, retransmitted, pacing,
        acked, received, segments, min_rtt, data_segments, delivery, busy, rwnd_limited,
        sndbuf_limited, delivered, marked, reord_seen, snd_wnd,
    ) = netlink.tcp_info_of(message)  # fmt: skip
    bbr = netlink.bbr_state(message)
    row = template % (
        format_row(bbr) if bbr else "null",
        busy / 1000,
        acked,
        received,
        cwnd,
        data_segments,
        delivered,
        delivery * 8,
        lost,
        "null" if min_rtt == netlink.NO_MIN_RTT else min_rtt / 1000,
        mss,
        "null" if pacing == netlink.NOT_PACED else pacing * 8,
        reord_seen,
        reordering,
        rto / 1000,
        rttvar / 1000,
        rwnd_limited / 1000,
        segments,
        retransmitted,
        snd_wnd,
        sndbuf_limited / 1000,
        srtt / 1000,
        "null" if ssthresh >= netlink.INFINITE_SSTHRESH else ssthresh,
        at_s,
        unacked,
    )
    if not marked:
        return row
    # Only a path that marks packets has this field, the last one before min_rtt_ms.
    head, name, tail = row.rpartition(', "min_rtt_ms"')
    return f'{head}, "marked_pkts": {marked}{name}{tail}'
