# SPDX-License-Identifier: MIT
"""A socket's rows, and what a glance at its message tells."""

import json
import socket
import struct
import time
from operator import or_
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gostlab.guest.probes import netlink, sampler
from gostlab.guest.tunnel_context import Tunnel, TunnelLeg
from tests.sandboxed import describe, flow

BBR_ATTRIBUTE = struct.pack("=5I", 1_250_000, 0, 100, 2 * netlink.BBR_UNIT, 512)
MARKED = netlink.TCP_INFO.pack(*(3 * (n == "marked_pkts") for n in netlink.TCP_INFO_NAMES))


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
        return next(each for each in netlink.read_tcp_sockets(link) if each.ports[1] == port)


@pytest.mark.parametrize("marks", [False, True], ids=["unmarked", "marked"])
@pytest.mark.parametrize("bbr", [False, True], ids=["no model", "a model"])
@pytest.mark.parametrize("known", [False, True], ids=["nothing", "what the kernel says"])
def test_a_row_is_the_json_of_what_the_kernel_said(
    message: netlink.SocketMessage, known: bool, bbr: bool, marks: bool
) -> None:
    info = message.attributes[netlink.INET_DIAG_INFO] if known else b"\xff" * 64
    if marks:
        info = bytes(map(or_, info.ljust(len(MARKED), b"\0"), MARKED))
    attributes = message.attributes | {netlink.INET_DIAG_INFO: info}
    attributes.pop(netlink.INET_DIAG_BBRINFO, None)  # this machine may have BBR
    if bbr:
        attributes[netlink.INET_DIAG_BBRINFO] = BBR_ATTRIBUTE
    message = netlink.SocketMessage(message.body, attributes)
    tcp = netlink.parse_tcp_socket(message)
    leg = TunnelLeg("wan", "client", "target", 80, flow='a 10% "flow" of zürich')
    texts = sampler.socket_texts("client", leg, "near", tcp) | {"cc": json.dumps(tcp["cc"])}

    line = sampler.fill_row(sampler.row_template(texts), message, "1.5")

    row = json.loads(line)
    assert line == json.dumps(row, sort_keys=True) + "\n"
    own = {"t_s": 1.5, "host": "client", "flow": leg.flow, "leg": "wan", "end": "near"}
    assert {"marked_pkts": 0, **row} == tcp | own
    assert ("marked_pkts" in row) == bool(tcp["marked_pkts"]) and (tcp["bbr"] is not None) == bbr
    assert not marks or tcp["marked_pkts"]


def test_messages_of_several_layouts_are_read_alike(message: netlink.SocketMessage) -> None:
    """Of one length, too: a dump has sockets with different attributes."""

    def body(*attributes: tuple[int, bytes]) -> bytes:
        packed = (struct.pack("=HH", 4 + len(data), kind) + data for kind, data in attributes)
        return message.body[:72] + b"".join(
            part.ljust(-len(part) % 4 + len(part), b"\0") for part in packed
        )

    info = netlink.INET_DIAG_INFO, message.attributes[netlink.INET_DIAG_INFO]
    cubic, vegas = (netlink.INET_DIAG_CONG, b"cubic\0"), (netlink.INET_DIAG_CONG, b"vegas\0")
    bodies = [body((8, b"\0"), info, cubic), body((8, b"\0"), cubic, info), body(info, vegas)]
    bodies += [*bodies[::-1], body((8, b"\0"), vegas)]

    seen = [(each.cc, each.attributes[2]) for each in netlink.socket_messages(bodies)]

    names = ["cubic", "cubic", "vegas", "vegas", "cubic", "cubic"]
    assert seen == [(name, info[1]) for name in names]


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


def test_hosts_that_only_receive_are_read_now_and_then() -> None:
    """Only of iperf3's flows is it known that nothing but control data comes back."""
    legs = [TunnelLeg("wan", f"s{n}", f"r{n}", 80 + n, flow=name) for n, name in enumerate("ab")]

    def receivers(**fields: object) -> sampler.Receivers:
        flows = [flow(name="a"), flow(name="b", **fields)]
        return sampler.Receivers.of(describe(flows=flows), legs)

    read = receivers()
    assert read.hosts == {"r0", "r1"}
    left_out = [bool(read.left_out(at_s)) for at_s in (0.1, 0.2, 1.05, 1.1, 1.2)]
    assert left_out == [False, True, True, False, True]
    assert receivers(direction="download").hosts == {"r0", "s1"}
    assert receivers(kind="command").hosts == {"r0"}
    assert receivers(kind="transfer", size_bytes=1_000_000).hosts == {"r0"}
    assert receivers(start_s=2.0, duration_s=0.5).interval_s == 0.25
