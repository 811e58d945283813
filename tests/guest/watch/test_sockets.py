"""A socket's rows, and what a glance at its message tells."""

import json
import socket
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gostlab.guest.tunnels.launch import Leg, Tunnel
from gostlab.guest.watch import netlink, probes

PLAIN = {"ssthresh_pkts": None, "min_rtt_ms": None, "pacing_rate_bps": None, "cc": None}
BBR = {"cc": "bbr", "bbr_bw_bps": 10**7, "bbr_min_rtt_ms": 0.1}


@pytest.fixture(scope="module")
def message() -> netlink.SocketMessage:
    """What this machine's kernel says of a connection that has sent something."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sender,
        server.accept()[0] as taken,
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, netlink.NETLINK_SOCK_DIAG) as link,
    ):
        sender.sendall(bytes(100_000))
        taken.recv(100_000, socket.MSG_WAITALL)
        port = server.getsockname()[1]
        return next(
            each
            for each in netlink.tcp_sockets(link)
            if netlink.parse_tcp_socket(each).peer_port == port
        )


@pytest.mark.parametrize("marks", [{}, {"marked_pkts": 3}], ids=["unmarked", "marked"])
@pytest.mark.parametrize("known", [PLAIN, BBR], ids=["little", "a model"])
def test_a_row_is_the_json_of_what_the_kernel_said(
    message: netlink.SocketMessage, known: dict[str, object], marks: dict[str, object]
) -> None:
    said = {f"bbr_{name}": None for name in probes.BBR_MODEL} | known | marks
    tcp = replace(netlink.parse_tcp_socket(message), **said)  # type: ignore[arg-type]
    leg = Leg("wan", "client", "target", 80, flow='a "flow" of zürich')
    texts = probes.texts_of("client", leg, "near", tcp)

    line = probes.socket_row(tcp, {**texts, "t_s": "1.5", "cc": json.dumps(tcp.cc)})

    row = json.loads(line)
    assert line == json.dumps(row, sort_keys=True) + "\n"
    assert (row["flow"], row["local"], row["peer"]) == (leg.flow, tcp.local, tcp.peer)
    assert [row["t_s"], row["cc"], row["srtt_ms"]] == [1.5, tcp.cc, tcp.srtt_ms]
    assert row.get("marked_pkts", 0) == tcp.marked_pkts
    assert (row["bbr"] is None) == (tcp.bbr_bw_bps is None)
    assert row["bbr"] is None or row["bbr"]["min_rtt_ms"] == 0.1


def test_a_glance_at_a_message_tells_what_all_of_it_does(message: netlink.SocketMessage) -> None:
    tcp, sending = netlink.parse_tcp_socket(message), message.sending

    assert sending.bytes_out == tcp.bytes_acked + tcp.unacked_pkts * tcp.mss >= 100_000
    assert sending.data_segments_out == tcp.data_segments_out > 0
    assert (sending.mss, sending.since_sent_ms) == (tcp.mss, tcp.since_sent_ms)
    assert (sending.srtt_us / 1000, sending.min_rtt_us / 1000) == (tcp.srtt_ms, tcp.min_rtt_ms)
    assert sending.busy_us / 1000 == tcp.busy_ms


def test_what_breaks_the_sampler_is_raised_when_the_load_has_ended(tmp_path: Path) -> None:
    """A disk that is full by then."""
    (tmp_path / "hosts.jsonl").symlink_to("/dev/full")
    no_nodes: Any = SimpleNamespace(nodes=[], interfaces=[])
    sampling = probes.Probes(no_nodes, Tunnel({}, ()), [], tmp_path, interval_s=0.01)

    sampling.begin()
    time.sleep(0.1)

    with pytest.raises(OSError, match="No space left"):
        sampling.end()
