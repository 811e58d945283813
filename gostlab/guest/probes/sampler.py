"""Samplers: sockets, queues and the CPU at fixed instants, and the last word of every socket that
closes.

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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from operator import itemgetter, sub
from pathlib import Path
from socket import if_nametoindex
from typing import IO, Any, NamedTuple

from gostlab.guest.alarm import remove_timer_slack
from gostlab.guest.host_config import has_own_tcp_memory
from gostlab.guest.namespaces import inside
from gostlab.guest.network import Interface, Network
from gostlab.guest.probes import netlink
from gostlab.guest.probes.first_last_byte import FIRST_LEGS, DataTimes, Sent
from gostlab.guest.tunnel_context import Tunnel, TunnelLeg
from gostlab.registry.congestion_controls import kernel_name
from gostlab.results.metrics import SENDING_END
from gostlab.spec.run_spec import RunSpec

NSTAT_KEYS = (
    "TcpOutSegs TcpRetransSegs TcpExtTCPLostRetransmit TcpExtTCPTimeouts TcpExtTCPFastRetrans"
    " TcpExtTCPSpuriousRTOs TcpExtTCPDSACKRecv TcpExtTCPSACKReorder TcpExtTCPRcvQDrop"
    " TcpExtTCPBacklogDrop TcpExtPruneCalled TcpExtRcvPruned TcpExtTCPMemoryPressures"
    " TcpExtTCPLossProbes TcpExtTCPMemoryPressuresChrono TcpExtTCPAbortOnMemory TcpInSegs"
    " IpExtInCEPkts TcpExtTCPDeliveredCE TcpExtTCPOFOQueue TcpExtTCPDSACKOfoRecv"
    " TcpExtTCPDSACKIgnoredOld TcpExtTCPDSACKIgnoredNoUndo"
).split()
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20

# A socket with less than this is no sender of data: the other end's, or iperf3's control
# connection, whose report of 128 streams takes half of it.
CONTROL_BYTES = 50_000


# What a leg's sending sockets did, from their last tcp_info, in all.
COUNTED = ("segments_out", "data_segments_out", "segments_retransmitted", "bytes_acked")
MARKED = ("marked_pkts",)  # which stand where there were any
TIMED = ("busy_ms", "rwnd_limited_ms", "sndbuf_limited_ms")


@cache
def form_of(names: Sequence[str]) -> tuple[str, Callable[[Mapping[str, Any]], Sequence[Any]]]:
    """An object of some keys with gaps for what stands under them, and what that is."""
    ordered = sorted(names)
    return "{" + ", ".join(f'"{name}": %s' for name in ordered) + "}", itemgetter(*ordered)


def filled(said: Mapping[str, Any]) -> str:
    """An object whose texts are JSON already, as json.dumps(..., sort_keys=True) would write it: to
    fill in a text is quicker than to encode, and a run of many sockets writes thousands of rows.
    """
    text, values = form_of(tuple(said))
    return text % tuple(["null" if each is None else each for each in values(said)])


class HostFile:
    """A file of /proc/net of a process's host, kept open: to open it anew takes six calls."""

    def __init__(self, pid: int | str, name: str) -> None:
        self._descriptor = os.open(f"/proc/{pid}/net/{name}", os.O_RDONLY | os.O_CLOEXEC)

    def lines(self) -> list[bytes]:
        """What it says now."""
        return os.pread(self._descriptor, 1 << 14, 0).splitlines()

    def close(self) -> None:
        os.close(self._descriptor)


def cpu_seconds() -> tuple[float, float]:
    """(busy, idle) seconds of this machine's CPUs since boot, from /proc/stat."""
    with open("/proc/stat", encoding="ascii") as file:
        numbers = [int(word) for word in file.readline().split()[1:9]]
    ticks = os.sysconf("SC_CLK_TCK")
    idle = numbers[3] + numbers[4]
    return (sum(numbers) - idle) / ticks, idle / ticks


def host_cpu_use(pid: int) -> dict[str, int]:
    """What the host of a process has used of its CPUs so far. Raises OSError.

    docs/explanation/machine-model.md says what a host's CPUs are.
    """
    with closing(HostFile(pid, "host_cpu")) as file:
        return used_in(file)


def used_in(host_cpu: HostFile) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in map(bytes.split, host_cpu.lines())}


def program_cost_use(pid: int) -> dict[str, dict[str, int]]:
    """What programs with costs of their own have paid on the host of a process, with what they
    started: call_ns, byte_ps, calls, bytes and busy_ns by program. Raises OSError.
    """
    found: dict[str, dict[str, int]] = {}
    for line in Path(f"/proc/{pid}/net/program_cost").read_text(encoding="ascii").splitlines():
        program, *words = line.split()
        found[program] = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    return found


def host_cpu_time(host_cpu: HostFile) -> tuple[float, float]:
    """Seconds that a host's CPUs were busy so far, as a part of all that they may be (a
    cpu_share's, where the host has one), and those of them that they received packets. Raises
    OSError.
    """
    used = used_in(host_cpu)
    most_ns = min(1e9 * used["cpus"], 1e6 * used.get("share_permille", math.inf))
    return used["busy_ns"] / most_ns, used["packets_busy_ns"] / most_ns


def tcp_memory_pages(sockstat: HostFile) -> int:
    """Pages of TCP memory of a host now, or of this machine if that has no pool."""
    words = next(line for line in sockstat.lines() if line.startswith(b"TCP:")).split()
    return int(words[words.index(b"mem") + 1])


def nstat(pid: int) -> dict[str, int]:
    """The TCP counters of a process's network namespace, named as nstat names them."""
    found: dict[str, int] = {}
    for name in ("snmp", "netstat"):
        lines = Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii").splitlines()
        for head, values in zip(lines[::2], lines[1::2], strict=True):
            prefix, _, names = head.partition(":")
            for key, value in zip(names.split(), values.partition(":")[2].split(), strict=True):
                found[prefix + key] = int(value)
    return {key: found[key] for key in NSTAT_KEYS if key in found}


class Crossed(NamedTuple):
    """What a host's links have carried, each packet with its headers."""

    rx_bytes: int = 0
    rx_pkts: int = 0
    tx_bytes: int = 0
    tx_pkts: int = 0


def crossed_links(pid: int, devices: Collection[str]) -> Crossed:
    """What some devices of a process's host have carried together."""
    found = [0, 0, 0, 0]
    for line in Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines():
        name, colon, counts = line.partition(":")
        if colon and name.strip() in devices:
            words = counts.split()
            found = [sum_ + int(words[at]) for sum_, at in zip(found, (0, 1, 8, 9), strict=True)]
    return Crossed(*found)


SocketKey = tuple[str, bytes]  # its host, its ports and addresses


@dataclass(slots=True)
class SampledSocket:
    """A socket of a leg: where it is, what of it stands in each of its rows, and what it said last.

    told  its congestion control and whether it sends data, as noted last
    """

    leg: TunnelLeg
    end: str
    texts: dict[str, str]
    said: netlink.SocketMessage
    sent: Sent | None = None
    told: tuple[str | None, bool] | None = None


@dataclass(frozen=True)
class Counts:
    """What had been counted at an instant: every socket with its leg and end, and the hosts' own
    counters.
    """

    sockets: Mapping[SocketKey, tuple[TunnelLeg, str, netlink.SocketMessage]]
    nstat: Mapping[str, Mapping[str, int]]
    crossed: Mapping[str, Crossed]  # by host, of some

    def of(self, leg: TunnelLeg, end: str) -> list[SocketKey]:
        """The sockets of one end of a leg."""
        return [key for key, (of, its, _) in self.sockets.items() if (of, its) == (leg, end)]

    def sacked_bytes(self, leg: TunnelLeg, end: str) -> int:
        """What the peer has of one end's data, but not yet in order."""
        said = [self.sockets[key][2].sending for key in self.of(leg, end)]
        return sum(each.sacked_pkts * each.mss for each in said)

    def grown(
        self, keys: Iterable[SocketKey], names: Iterable[str], before: Counts, zero: float
    ) -> dict[str, float]:
        """By how much some counts of some sockets have grown together."""
        found = dict.fromkeys(names, zero)
        for key in keys:
            now = netlink.parse_tcp_socket(self.sockets[key][2])
            past = before.sockets.get(key)
            then = netlink.parse_tcp_socket(past[2]) if past else None
            for name in found:
                found[name] += now[name]
                found[name] -= then[name] if then else zero
        return found


def hosts_counted(run: RunSpec) -> list[str]:
    """The hosts whose links are counted."""
    flows = [flow for flow in run.flows if flow.traffic.is_counted]
    return list(dict.fromkeys(host for flow in flows for host in (flow.sender, flow.receiver)))


class Probes:
    """The samplers of one run, whose files and sockets are open until `close`. `queues`: the
    interfaces whose qdiscs are sampled.
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
        # by flow, and of all together (""): the part of the load that is measured
        parts = {"": run.measured_s(), **{each.name: run.measured_s(each) for each in run.flows}}
        self._parts = parts if run.measures_a_part else {}
        self._edges = sorted({at_s for part in self._parts.values() for at_s in part if at_s > 0})
        self._counts: dict[float, Counts] = {}  # what had been counted, by edge
        # the kernel's name of a congestion control -> the run's, where that differs
        self._cc_names = {
            name: cc for cc in run.congestion_controls if (name := kernel_name(cc)) != cc
        }
        self._legs = tunnel.legs
        # of each flow's connections the end that sends the data
        self._sending = {flow.name: SENDING_END[flow.direction] for flow in run.flows}
        self._places = places_of(tunnel.legs)
        self._hosts = sorted({node for leg in tunnel.legs for node in (leg.near, leg.far)})
        self._pids = {node: network.pid(node) for node in network.nodes}
        self._links = {
            host: {each.name for each in network.interfaces if each.node == host}
            for host in hosts_counted(run)
        }
        paying = self._hosts if run.host_cpus else []
        self._cpus = {node: HostFile(self._pids[node], "host_cpu") for node in paying}
        self._cpus_before = {node: host_cpu_time(file) for node, file in self._cpus.items()}
        pools = self._hosts if has_own_tcp_memory(run) else [""]
        self._pools = {host: HostFile(self._pids.get(host, "self"), "sockstat") for host in pools}
        self._diag = {
            node: netlink.open_in(self._pids[node], netlink.NETLINK_SOCK_DIAG)
            for node in self._hosts
        }
        self._closed = {
            node: netlink.watch_closed_sockets(self._pids[node]) for node in self._hosts
        }
        self._closes = select.epoll()  # which of them have something to say: one call for all
        self._node_by_closes = {link.fileno(): node for node, link in self._closed.items()}
        for descriptor in self._node_by_closes:
            self._closes.register(descriptor, select.EPOLLIN)
        self._route = {
            node: netlink.open_in(self._pids[node], netlink.NETLINK_ROUTE)
            for node in sorted({i.node for i in queues})
        }
        self._shaped = {
            (each.node, index_of(self._pids[each.node], each.name)): queue_texts(each)
            for each in queues
        }
        self._files: dict[str, IO[str]] = {
            name: (folder / f"{name}.jsonl").open("w", encoding="utf-8")
            for name in ("sockets", "queues", "hosts")
        }
        self._before = Counts({}, {}, {})
        self._sockets: dict[SocketKey, SampledSocket | None] = {}  # None: of no leg
        self._cc_seen: dict[tuple[TunnelLeg, str, bool], set[str]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.error: BaseException | None = None
        self.lateness_ms: list[float] = []
        self.longest_gap_s = 0.0
        self.missed_closes = False
        self._sampled_s = 0.0
        # by host; of all hosts together: ""
        self.tcp_memory_peak_pages = dict.fromkeys(self._pools, 0)
        self.cpu_at_start = (0.0, 0.0)
        self.started_s = 0.0

    def start(self) -> None:
        """Take the counters before the load and start sampling."""
        self._before = self._now()
        for link in self._closed.values():
            netlink.closed_sockets(link)  # what ended before the load is not the load's
        self.cpu_at_start = cpu_seconds()
        self.started_s = time.monotonic()
        self._thread = threading.Thread(
            target=self._sample_until_stopped, name="probes", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Stop sampling after one last sample. Raises what broke the sampler, if anything did."""
        if self._thread is not None and self._thread.is_alive():
            self._stop.set()
            self._thread.join()
        if self.error is not None:
            raise self.error

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
                self._sample(at_s)
                if self._edges[:1] == [at_s]:
                    self._edges.pop(0)
                    self._counts[at_s] = self._now()
                if at_s < count * self.interval_s:
                    continue  # an edge of what is measured, between two samples
                # An instant that has passed is left out, not made up for.
                count = max(
                    count + 1, int((time.monotonic() - self.started_s) / self.interval_s) + 1
                )
            self.longest_gap_s = max(self.longest_gap_s, time.monotonic() - last_s)
            self._sample(time.monotonic() - self.started_s)
        except BaseException as error:  # handed to end(), which raises it
            self.error = error

    def _sample(self, at_s: float) -> None:
        self._collect_closed()
        for node in self._hosts:
            self._sample_sockets(at_s, node)
        self._sampled_s = at_s
        at = {"t_s": repr(round(at_s, 6))}
        for node, link in self._route.items():
            for index, counts in netlink.qdiscs(link).items():
                texts = self._shaped.get((node, index))
                if texts is not None:
                    self._files["queues"].write(filled({**counts, **at, **texts}) + "\n")
        self._sample_machine(at_s)
        self._files["hosts"].flush()  # a reader sees how far the run is

    def _sample_sockets(self, at_s: float, node: str) -> None:
        """A row of every socket that sends data; what congestion control any of them has."""
        at = {"t_s": repr(round(at_s, 6))}
        for said in netlink.tcp_sockets(self._diag[node]):
            socket = self._watched(node, said)
            if socket is None:
                continue
            sending = said.sending
            sends_data = sending.bytes_out > CONTROL_BYTES
            cc = said.cc
            if socket.told != (cc, sends_data):
                socket.told = cc, sends_data
                named = self._cc_names.get(cc or "", cc)
                socket.texts["cc"] = json.dumps(named)
                if named:
                    seen = self._cc_seen.setdefault((socket.leg, socket.end, sends_data), set())
                    seen.add(named)
            if socket.sent is None:
                socket.sent = Sent.of(socket.end, sending)
            socket.sent.note(at_s, self._sampled_s, sending, sends_data=sends_data)
            if sends_data:
                tcp = netlink.parse_tcp_socket(said)
                self._files["sockets"].write(socket_row(tcp, at | socket.texts))

    def _watched(self, node: str, said: netlink.SocketMessage) -> SampledSocket | None:
        """The socket that says this, which is the last that it said; None: it is of no leg."""
        key = node, said.identity
        if key not in self._sockets:
            tcp = netlink.parse_tcp_socket(said)
            found = classify(self._places, node, tcp["local"], *said.ports)
            self._sockets[key] = (
                SampledSocket(*found, texts_of(node, *found, tcp), said) if found else None
            )
        socket = self._sockets[key]
        if socket is not None:
            socket.said = said
        return socket

    def _sample_machine(self, at_s: float) -> None:
        """A row of the CPU's time since the load began, and of what all TCP sockets hold."""
        busy, idle = cpu_seconds()
        pages = {host: tcp_memory_pages(file) for host, file in self._pools.items()}
        for host, held in pages.items():
            self.tcp_memory_peak_pages[host] = max(self.tcp_memory_peak_pages[host], held)
        memory_mib = {host: round(held * PAGE_MIB, 2) for host, held in pages.items()}
        row = {
            "t_s": round(at_s, 6),
            "cpu_busy_s": round(busy - self.cpu_at_start[0], 4),
            "cpu_idle_s": round(idle - self.cpu_at_start[1], 4),
            "tcp_memory_mib": max(memory_mib.values()),
            **({} if "" in memory_mib else {"host_tcp_memory_mib": memory_mib}),
            **self._work_of_hosts(),
        }
        self._files["hosts"].write(json.dumps(row, sort_keys=True) + "\n")

    def _work_of_hosts(self) -> dict[str, dict[str, float]]:
        """What each host's own CPUs have done since the load began."""
        busy, packets = {}, {}
        for node, before in self._cpus_before.items():
            busy_s, packets_s = host_cpu_time(self._cpus[node])
            busy[node] = round(busy_s - before[0], 6)
            packets[node] = round(packets_s - before[1], 6)
        return {
            **({"host_busy_s": busy} if busy else {}),
            **({"host_packets_s": packets} if any(packets.values()) else {}),
        }

    def _collect_closed(self) -> None:
        """What each socket said last that has closed since the last call."""
        for descriptor, _ in self._closes.poll(0):
            node = self._node_by_closes[descriptor]
            try:
                for said in netlink.closed_sockets(self._closed[node]):
                    self._watched(node, said)
            except OSError:
                # Then the last live sample of a socket stands for its end.
                self.missed_closes = True

    def _cc_of(self, leg: TunnelLeg, end: str) -> list[str]:
        """The congestion controls of a leg's data; of all its sockets if none surely sent data."""
        return sorted(
            self._cc_seen.get((leg, end, True)) or self._cc_seen.get((leg, end, False), set())
        )

    def _ends_of(self, leg: TunnelLeg) -> dict[str, Any]:
        """A leg and its two ends."""
        nodes, sending = vars(leg), self._sending[leg.flow]
        receiving = "far" if sending == "near" else "near"
        return {
            "leg": leg.name,
            "flow": leg.flow,
            "sender": nodes[sending],
            "loopback": leg.loopback,
            "cc": self._cc_of(leg, sending),
            "receiver": nodes[receiving],
            "receiver_cc": self._cc_of(leg, receiving),
        }

    def legs(self) -> dict[str, Any]:
        """legs.json: per leg what its sending sockets did, and the counters of every host."""
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

    def _leg(self, leg: TunnelLeg) -> dict[str, Any]:
        """Return what a leg's sending sockets did in the part of the load that is measured."""
        before, after = self._window(leg.flow)
        its = after.of(leg, self._sending[leg.flow])
        return {
            **self._ends_of(leg),
            "sockets": len(its),
            **after.grown(its, COUNTED, before, 0),
            **after.grown(its, TIMED, before, 0.0),
            **{name: n for name, n in after.grown(its, MARKED, before, 0).items() if n},
        }

    def counted(self, leg: TunnelLeg, end: str, name: str, *, whole: bool = False) -> int:
        """What the sockets of one end of a leg counted in the part of the load that is measured, or
        in the whole of it.
        """
        before, after = self._window(leg.flow, whole=whole)
        return int(after.grown(after.of(leg, end), [name], before, 0)[name])

    def bytes_arrived(self, leg: TunnelLeg, end: str, *, whole: bool = False) -> int:
        """Return the bytes of one end of a leg that its peer got: acknowledged, or by SACK. What
        arrives behind a lost segment arrives when it does, not all at once with its retransmission.
        """
        before, after = self._window(leg.flow, whole=whole)
        sacked = after.sacked_bytes(leg, end) - before.sacked_bytes(leg, end)
        return max(0, self.counted(leg, end, "bytes_acked", whole=whole) + sacked)

    def data_times(self, flow: str) -> DataTimes | None:
        """When a flow's data left; None where nothing sampled tells it."""
        sending = self._sending[flow]
        own = {leg.name for leg in self._legs if leg.flow == flow}
        first = next((name for name in FIRST_LEGS[sending] if name in own), None)
        place = flow, first, sending
        return DataTimes.of(
            each.sent
            for each in self._sockets.values()
            if each and each.sent and (each.leg.flow, each.leg.name, each.end) == place
        )

    def crossed(self, flow: str, host: str, *, whole: bool = False) -> Crossed:
        """What a host's links carried in the part of the load in which a flow is measured, or in
        the whole of it.
        """
        before, after = self._window(flow, whole=whole)
        return Crossed(*map(sub, after.crossed[host], before.crossed[host]))

    def _window(self, flow: str, *, whole: bool = False) -> tuple[Counts, Counts]:
        """The counts at both ends of what is measured of a flow, or of the whole load. A load that
        was over before an edge counted nothing more until then.
        """
        if whole or not self._parts:
            return self._before, self._now()
        from_s, to_s = self._parts[flow]
        before = self._before if from_s <= 0 else self._counts.get(from_s) or self._now()
        return before, self._counts.get(to_s) or self._now()

    def _now(self) -> Counts:
        sockets = {
            key: (each.leg, each.end, each.said) for key, each in self._sockets.items() if each
        }
        return Counts(sockets, self._nstat(), self._crossed())

    def _crossed(self) -> dict[str, Crossed]:
        return {
            host: crossed_links(self._pids[host], devices) for host, devices in self._links.items()
        }

    def _nstat(self) -> dict[str, dict[str, int]]:
        return {node: nstat(self._pids[node]) for node in self._hosts}

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for links in (self._diag, self._closed, self._route, self._cpus, self._pools, self._files):
            for each in links.values():
                each.close()
        self._closes.close()


def index_of(pid: int, device: str) -> int:
    """The index of an interface of a process's host."""
    with inside(pid):
        return if_nametoindex(device)


Place = tuple[str, bool, str, int]  # node, over loopback, end, the leg's port


def places_of(legs: Sequence[TunnelLeg]) -> dict[Place, TunnelLeg]:
    """Where the sockets of each leg are; of two legs at one place, the first."""
    places: dict[Place, TunnelLeg] = {}
    for leg in legs:
        places.setdefault((leg.near, leg.loopback, "near", leg.port), leg)
        places.setdefault((leg.far, leg.loopback, "far", leg.port), leg)
    return places


def classify(
    places: Mapping[Place, TunnelLeg], node: str, local: str, local_port: int, peer_port: int
) -> tuple[TunnelLeg, str] | None:
    """A socket's leg and its end of it ("near" connected, "far" accepted); None: neither."""
    on_loopback = local.startswith("127.")
    for end, port in (("near", peer_port), ("far", local_port)):
        leg = places.get((node, on_loopback, end, port))
        if leg is not None:
            return leg, end
    return None


def queue_texts(interface: Interface) -> dict[str, str]:
    """What stands in each of a queue's rows, as JSON."""
    names = {"node": interface.node, "dev": interface.name, "role": interface.role}
    names |= {"direction": interface.direction}
    names |= {"link": interface.link} if interface.link else {}
    return {key: json.dumps(name) for key, name in names.items()}


def texts_of(node: str, leg: TunnelLeg, end: str, tcp: Mapping[str, Any]) -> dict[str, str]:
    """What stands in each of a socket's rows, as JSON."""
    names = {"host": node, "flow": leg.flow, "leg": leg.name, "end": end}
    names |= {"local": tcp["local"], "peer": tcp["peer"]}
    return {key: json.dumps(name) for key, name in names.items()}


def socket_row(tcp: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """One line of sockets.jsonl. texts: what stands in it as JSON."""
    row = {**tcp, **texts, "bbr": tcp["bbr"] and filled(tcp["bbr"])}
    if not tcp["marked_pkts"]:
        del row["marked_pkts"]
    return filled(row) + "\n"
