"""A socket's rows, and what a glance at its message tells."""

import json
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gostlab.guest.probes import netlink, sampler
from gostlab.guest.tunnel_context import Tunnel, TunnelLeg
from tests.sandboxed import describe

PLAIN = {"ssthresh_pkts": None, "min_rtt_ms": None, "pacing_rate_bps": None, "cc": None}
BBR = {"cc": "bbr", "bbr": {"bw_bps": 10**7, "min_rtt_ms": 0.1}}


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
        return next(each for each in netlink.tcp_sockets(link) if each.ports[1] == port)


@pytest.mark.parametrize("marks", [{}, {"marked_pkts": 3}], ids=["unmarked", "marked"])
@pytest.mark.parametrize("known", [PLAIN, BBR], ids=["little", "a model"])
def test_a_row_is_the_json_of_what_the_kernel_said(
    message: netlink.SocketMessage, known: dict[str, object], marks: dict[str, object]
) -> None:
    tcp = netlink.parse_tcp_socket(message) | known | marks
    leg = TunnelLeg("wan", "client", "target", 80, flow='a "flow" of zürich')
    texts = sampler.socket_texts("client", leg, "near", tcp)

    line = sampler.socket_row(tcp, {**texts, "t_s": "1.5", "cc": json.dumps(tcp["cc"])})

    row = json.loads(line)
    assert line == json.dumps(row, sort_keys=True) + "\n"
    own = {"t_s": 1.5, "host": "client", "flow": leg.flow, "leg": "wan", "end": "near"}
    assert {"marked_pkts": 0, **row} == tcp | own
    assert ("marked_pkts" in row) == bool(marks)


def test_a_glance_at_a_message_tells_what_all_of_it_does(message: netlink.SocketMessage) -> None:
    tcp, sending = netlink.parse_tcp_socket(message), message.sending

    assert sending.bytes_out == tcp["bytes_acked"] + tcp["unacked_pkts"] * tcp["mss"] >= 100_000
    assert sending.data_segments_out > 0 and 0 <= sending.since_sent_ms < 10_000
    for name in ("mss", "bytes_acked", "data_segments_out"):
        assert getattr(sending, name) == tcp[name]
    for name in ("srtt", "min_rtt", "busy"):
        assert getattr(sending, f"{name}_us") / 1000 == tcp[f"{name}_ms"]


def test_what_breaks_the_sampler_is_raised_when_the_load_has_ended(tmp_path: Path) -> None:
    """A disk that is full by then."""
    (tmp_path / "hosts.jsonl").symlink_to("/dev/full")
    no_nodes: Any = SimpleNamespace(nodes=[], interfaces=[])
    sampling = sampler.Probes(describe(), no_nodes, Tunnel({}, ()), [], tmp_path, 0.01)

    sampling.start()
    time.sleep(0.1)

    with pytest.raises(OSError, match="No space left"):
        sampling.end()
