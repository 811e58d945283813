"""Record the sender's window at every ACK, from the tracepoint tcp:tcp_probe, as acks.csv.gz.

The tracepoint fires for every segment that an established socket receives; a filter keeps those
whose remote (or, for a download, local) port is a flow's sink, which leaves the ACKs that the
data's sender gets. It uses a separate trace instance, so that no other tracing is affected. If the
kernel has no such tracepoint, the socket samples replace it.

The tracepoint's own `ssthresh` is tcp_current_ssthresh(), which follows the window. The sandbox's
kernel adds the field `snd_ssthresh`, the socket's own; a kernel without it gives no such column.
"""

import csv
import gzip
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypedDict

from gostlab.guest.load_context import LoadContext
from gostlab.guest.probes.netlink import INFINITE_SSTHRESH
from gostlab.guest.probes.sampler import classify, legs_by_position
from gostlab.guest.probes.trace_spool import Spool
from gostlab.guest.tunnel_context import Tunnel, TunnelLeg
from gostlab.registry.traffic import CONTROL_BYTES
from gostlab.results import read_series
from gostlab.results.metrics import SENDING_END, path_leg
from gostlab.results.rows import SocketRow
from gostlab.spec.run_spec import RunSpec

TRACEFS = Path("/sys/kernel/tracing")
SSTHRESH_COLUMN = "snd_ssthresh_pkts"
HEADER = (
    *("t_s", "flow", "cwnd_pkts", SSTHRESH_COLUMN, "srtt_ms", "snd_wnd_bytes", "inflight_bytes"),
    "acked_bytes",
)
SSTHRESH_FIELD = "snd_ssthresh"
OWN_SSTHRESH = "the socket's own (tcp_sock's snd_ssthresh)"
NO_SSTHRESH = (
    "none: this kernel's tcp_probe has no field snd_ssthresh, and its ssthresh is"
    " tcp_current_ssthresh(); sockets.jsonl has the socket's own at every sample"
)
RING_KIB = 16_384
# Sampling interval if socket samples replace the tracepoint of every ACK.
ACK_SAMPLE_MS = 10.0
# A server that listens on both families shows IPv4 clients as ::ffff:10.0.1.1.
LINE = re.compile(
    r"\s(?P<t>\d+\.\d+): tcp_probe: .*?src=\[?(?:::ffff:)?(?P<local>[0-9.]+)\]?:(?P<local_port>\d+)"
    r" dest=\[?(?:::ffff:)?(?P<peer>[0-9.]+)\]?:(?P<peer_port>\d+).*? snd_nxt=(?P<nxt>0x[0-9a-f]+)"
    r" snd_una=(?P<una>0x[0-9a-f]+)"
    r" snd_cwnd=(?P<cwnd>\d+) .*?snd_wnd=(?P<window>\d+) srtt=(?P<srtt>\d+)"
    r"(?:.* snd_ssthresh=(?P<ssthresh>\d+))?"
)

Socket = tuple[str, int, str, int]  # local address and port, peer address and port


class AckRow(TypedDict):
    """An ACK, by HEADER's names, with the first unacknowledged byte."""

    t_s: float
    cwnd_pkts: int
    snd_ssthresh_pkts: int | None  # None: infinite, or not traced
    srtt_ms: float
    snd_wnd_bytes: int
    inflight_bytes: int
    una: int


class AcksRecord(TypedDict):
    """The entry of env.json about acks.csv.gz."""

    source: str
    ssthresh: str
    rows: int
    events_lost: int


def parse_line(line: str) -> tuple[Socket, AckRow] | None:
    """Parse an ACK from a line of the trace, by HEADER's names, with the first unacknowledged byte.

    Returns None for another line. The ssthresh is None if it is infinite or missing.
    """
    match = LINE.search(line)
    if match is None:
        return None
    ssthresh = int(match["ssthresh"] or INFINITE_SSTHRESH)
    una = int(match["una"], 16)
    return (
        (match["local"], int(match["local_port"]), match["peer"], int(match["peer_port"])),
        {
            "t_s": float(match["t"]),
            "cwnd_pkts": int(match["cwnd"]),
            "snd_ssthresh_pkts": None if ssthresh >= INFINITE_SSTHRESH else ssthresh,
            "srtt_ms": int(match["srtt"]) / 1000,
            "snd_wnd_bytes": int(match["window"]),
            "inflight_bytes": (int(match["nxt"], 16) - una) % 2**32,
            "una": una,
        },
    )


def port_filter(local: Iterable[int], peer: Iterable[int]) -> str:
    """Return the tracepoint's filter for sockets with one of these local or peer ports."""
    return " || ".join(
        f"{field}=={first}" if first == last else f"({field}>={first} && {field}<={last})"
        for field, ports in (("sport", local), ("dport", peer))
        for first, last in consecutive_ranges(ports)
    )


def consecutive_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


class AckTrace:
    """A trace instance of tcp_probe, read into a file until ended. `ports` is its filter."""

    def __init__(self, instance: Path, spool: Spool, ports: str = "") -> None:
        self._instance, self._spool, self._ports = instance, spool, ports
        self._event = instance / "events/tcp/tcp_probe"

    def carries_ssthresh(self) -> bool:
        """Return whether this kernel's tracepoint has the socket's own ssthresh."""
        return f" {SSTHRESH_FIELD};" in (self._event / "format").read_text(encoding="ascii")

    def start(self) -> None:
        """Begin to record. Raises OSError."""
        (self._instance / "trace_clock").write_text("mono")  # time.monotonic()'s clock
        (self._instance / "buffer_size_kb").write_text(str(RING_KIB))
        (self._event / "filter").write_text(self._ports)
        (self._event / "enable").write_text("1")
        self._spool.start()

    def end(self) -> int:
        """Stop recording, and return the number of events that the full ring lost."""
        (self._event / "enable").write_text("0")
        self._spool.end()
        lost = 0
        for stats in self._instance.glob("per_cpu/cpu*/stats"):
            lines = stats.read_text(encoding="ascii").splitlines()
            lost += sum(
                int(line.split()[-1]) for line in lines if line.startswith(("overrun", "dropped"))
            )
        return lost


@contextmanager
def tracing_acks(run: RunSpec, folder: Path, tunnel: Tunnel) -> Iterator[AckTrace | None]:
    """Open a trace instance for the run, or yield None without `acks` or tcp_probe."""
    if not run.acks or not (TRACEFS / "events/tcp/tcp_probe").is_dir():
        yield None
        return
    with trace_instance("acks") as instance:
        pipe = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        spool = Spool(folder / "acks.raw", [pipe], "acks")
        try:
            yield AckTrace(instance, spool, ack_filter(run, tunnel))
        finally:
            spool.end()
            os.close(pipe)


@contextmanager
def trace_instance(name: str) -> Iterator[Path]:
    """Make a trace instance, and remove it on leaving.

    Its clock must be set to that of time.monotonic(). Raises OSError.
    """
    instance = TRACEFS / "instances" / f"gostlab-{name}-{os.getpid()}"
    instance.mkdir()
    try:
        yield instance
    finally:
        with suppress(OSError):
            instance.rmdir()


def write_acks(
    folder: Path, started_s: float, flow_of: Callable[[Socket], str | None], with_ssthresh: bool
) -> int:
    """Convert the raw trace to acks.csv.gz, delete it, and return the number of rows.

    Sockets that sent little are left out: iperf3's control connection goes to the same port.
    """
    raw = folder / "acks.raw"
    with raw.open(encoding="ascii", errors="replace") as lines:
        acks = [ack for ack in map(parse_line, lines) if ack is not None]
    flows = {socket: flow_of(socket) for socket in data_sockets(acks)}
    first = {socket: row["una"] for socket, row in reversed(acks)}
    acked = dict.fromkeys(first, 0)  # bytes, beyond 2^32 too

    def rows() -> Iterator[dict[str, object]]:
        for socket, row in acks:
            if (flow := flows.get(socket)) is not None:
                acked[socket] += (row["una"] - first[socket] - acked[socket]) % 2**32
                t_s = f"{row['t_s'] - started_s:.6f}"
                yield {**row, "t_s": t_s, "flow": flow, "acked_bytes": acked[socket]}

    count = write_table(folder, rows(), with_ssthresh)
    raw.unlink()
    return count


def data_sockets(acks: Iterable[tuple[Socket, AckRow]]) -> list[Socket]:
    """Return the sockets that sent more than a control connection does."""
    ends: dict[Socket, list[int]] = {}
    for socket, row in acks:
        ends.setdefault(socket, [row["una"], 0])[1] = row["una"]
    return [
        socket for socket, (first, last) in ends.items() if (last - first) % 2**32 > CONTROL_BYTES
    ]


def write_samples(folder: Path, sockets: Iterable[SocketRow]) -> int:
    """Write acks.csv.gz from socket samples, without tracepoint; return the number of rows."""
    sockets = list(sockets)
    crossing = path_leg(row["leg"] for row in sockets)
    rows = (
        {
            **row,
            SSTHRESH_COLUMN: row["ssthresh_pkts"],
            "inflight_bytes": row["unacked_pkts"] * row["mss"],
            "acked_bytes": row.get("bytes_acked"),
        }
        for row in sockets
        if row["leg"] == crossing
    )
    return write_table(folder, rows, with_ssthresh=True)


def write_table(folder: Path, rows: Iterable[Mapping[str, object]], with_ssthresh: bool) -> int:
    """Write acks.csv.gz and return the number of rows.

    An empty ssthresh means infinite; so the column is left out if it is not known.
    """
    columns = [name for name in HEADER if with_ssthresh or name != SSTHRESH_COLUMN]
    count = 0
    with gzip.open(folder / "acks.csv.gz", "wt", encoding="ascii", newline="") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        for count, row in enumerate(rows, 1):  # noqa: B007
            table.writerow(row)
    return count


def sample_s(run: RunSpec, trace: AckTrace | None) -> float:
    """Return the samplers' interval, which is finer if samples replace the tracepoint."""
    replaces_trace = run.acks and trace is None
    return (min(run.sample_ms, ACK_SAMPLE_MS) if replaces_trace else run.sample_ms) / 1000


def crossing_legs(tunnel: Tunnel) -> list[TunnelLeg]:
    """Return the connections across the path."""
    crossing = path_leg(leg.name for leg in tunnel.legs)
    return [leg for leg in tunnel.legs if leg.name == crossing]


def ack_filter(run: RunSpec, tunnel: Tunnel) -> str:
    """Return the tracepoint's filter: the sockets that send the flows' data across the WAN."""
    uploads = {flow.name for flow in run.flows if flow.direction == "upload"}
    wan = crossing_legs(tunnel)
    return port_filter(
        local=[leg.port for leg in wan if leg.flow not in uploads],
        peer=[leg.port for leg in wan if leg.flow in uploads],
    )


def save_acks(context: LoadContext, trace: AckTrace | None, started_s: float) -> AcksRecord:
    """Write acks.csv.gz of the load that began at `started_s`; return its entry of env.json."""
    run, folder = context.run, context.folder
    if trace is None:
        rows = write_samples(folder, read_series(folder, "sockets"))
        return {
            "source": "socket samples: this kernel has no tcp_probe",
            "ssthresh": OWN_SSTHRESH,
            "rows": rows,
            "events_lost": 0,
        }
    lost = trace.end()
    hosts = {context.network.ip(host): host for host in run.hosts}
    leg_by_position = legs_by_position(crossing_legs(context.tunnel))
    sending = {flow.name: SENDING_END[flow.direction] for flow in run.flows}

    def flow_of(socket: Socket) -> str | None:
        local, local_port, _, peer_port = socket
        leg_end = classify(leg_by_position, hosts.get(local, ""), local, local_port, peer_port)
        return leg_end[0].flow if leg_end and leg_end[1] == sending[leg_end[0].flow] else None

    with_ssthresh = trace.carries_ssthresh()
    return {
        "source": "tracepoint tcp:tcp_probe",
        "ssthresh": OWN_SSTHRESH if with_ssthresh else NO_SSTHRESH,
        "rows": write_acks(folder, started_s, flow_of, with_ssthresh),
        "events_lost": lost,
    }
