# SPDX-License-Identifier: MIT
"""The trace of ACKs: a line of the kernel's tracepoint becomes a row, sockets that send no data
none.
"""

from pathlib import Path
from typing import Any

import pytest

from gostlab.guest.probes.tcp_probe import (
    AckTrace,
    parse_line,
    port_filter,
    sample_s,
    write_acks,
    write_samples,
)
from gostlab.guest.probes.trace_spool import Spool
from tests.sandboxed import Done, describe

LINE = (
    "          <idle>-0       [000] ..s2.  {t}: tcp_probe: family=AF_INET src=10.1.1.1:{port}"
    " dest=10.2.1.1:80 mark=0x0 data_len=0 snd_nxt=0x{nxt:x} snd_una=0x{una:x} snd_cwnd=12"
    " ssthresh={ssthresh} snd_wnd=65160 srtt=20480 rcv_wnd=64256 sock_cookie=1"
    " skbaddr=0000000000000000 skaddr=0000000000000000"
)
FORMAT = "\tfield:__u32 ssthresh;\toffset:88;\n{more}print fmt: ssthresh=%u snd_ssthresh\n"


def line(
    t: float = 1.5,
    port: int = 40000,
    una: int = 1000,
    nxt: int = 3896,
    ssthresh: int = 0x7FFFFFFF,
    own_ssthresh: int | None = 0x7FFFFFFF,
) -> str:
    """A line of the trace; `ssthresh` is tcp_current_ssthresh(), `own_ssthresh` the socket's."""
    shared = LINE.format(t=f"{t:.6f}", port=port, una=una, nxt=nxt, ssthresh=ssthresh)
    return shared + ("\n" if own_ssthresh is None else f" snd_ssthresh={own_ssthresh}\n")


SOCKET = ("10.1.1.1", 40000, "10.2.1.1", 80)


def parsed(shown: str) -> dict[str, Any]:
    """The ACK of a line of the one socket."""
    ack = parse_line(shown)
    assert ack is not None and ack[0] == SOCKET
    return ack[1]


def test_a_line_of_the_trace_is_an_ack() -> None:
    found = parsed(line(ssthresh=90, own_ssthresh=77))
    ours = {"t_s": 1.5, "cwnd_pkts": 12, "snd_ssthresh_pkts": 77, "srtt_ms": 20.48}
    assert found == ours | {"snd_wnd_bytes": 65160, "inflight_bytes": 2896, "una": 1000}


# An infinite one, and the larger of the threshold and three quarters of the window.
@pytest.mark.parametrize("shown", [line(), line(ssthresh=90, own_ssthresh=None)])
def test_what_is_no_threshold_is_none(shown: str) -> None:
    assert parsed(shown)["snd_ssthresh_pkts"] is None


@pytest.mark.parametrize("more", ["", "\tfield:__u32 snd_ssthresh;\toffset:128;\n"])
def test_a_kernel_says_by_its_events_fields_whether_it_has_the_sockets_own_ssthresh(
    tmp_path: Path, more: str
) -> None:
    event = tmp_path / "events/tcp/tcp_probe"
    event.mkdir(parents=True)
    (event / "format").write_text(FORMAT.format(more=more))
    assert AckTrace(tmp_path, Spool(tmp_path, [], "acks")).carries_ssthresh() == bool(more)


def test_without_the_sockets_own_ssthresh_there_is_no_column_of_it(tmp_path: Path) -> None:
    for with_ssthresh in (True, False):
        (tmp_path / "acks.raw").write_text(
            line(una=0, nxt=1, own_ssthresh=40) + line(una=900_000, nxt=900_001, own_ssthresh=40)
        )
        write_acks(tmp_path, 0.0, lambda _: "flow1", with_ssthresh)
        assert ("snd_ssthresh_pkts" in Done(tmp_path).acks[0]) is with_ssthresh
        assert Done(tmp_path).acks[0]["srtt_ms"] == "20.48"
        assert "ssthresh_pkts" not in Done(tmp_path).acks[0]


def test_a_dual_stack_servers_socket_is_read_as_the_ipv4_one_it_is() -> None:
    mapped = line().replace("AF_INET", "AF_INET6")
    for address in ("10.1.1.1:40000", "10.2.1.1:80"):
        mapped = mapped.replace(address, f"[::ffff:{address.replace(':', ']:')}")
    assert parsed(mapped) == parsed(line())


def test_other_lines_are_no_acks() -> None:
    assert parse_line("CPU:0 [LOST 12 EVENTS]\n") is None
    assert parse_line("") is None
    assert parse_line(line()[:90]) is None


def test_the_control_connection_is_left_out_and_times_are_the_loads(tmp_path: Path) -> None:
    trace = [line(t=10.0, port=40001, una=100, nxt=200)]
    trace += [line(t=10.5, port=40001, una=2000, nxt=2000)]
    for i in range(5):  # the data's sequence numbers pass 2^32 on their way
        una = 2**32 - 30_000 + 20_000 * i
        trace += [line(t=10.0 + i, port=40002, una=una % 2**32, nxt=(una + 2896) % 2**32)]
    (tmp_path / "acks.raw").write_text("".join(trace))

    count = write_acks(tmp_path, 9.0, lambda _: "flow1", True)

    found = Done(tmp_path).acks
    assert count == len(found) == 5
    assert [float(row["t_s"]) for row in found] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert {row["inflight_bytes"] for row in found} == {"2896"}
    assert [int(row["acked_bytes"]) for row in found] == [0, 20_000, 40_000, 60_000, 80_000]
    assert not (tmp_path / "acks.raw").exists()


def test_a_socket_of_no_flow_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "acks.raw").write_text(line(una=0, nxt=1) + line(una=900_000, nxt=900_001))
    assert write_acks(tmp_path, 0.0, lambda _: None, True) == 0


def test_samples_stand_in_where_there_is_no_tracepoint(tmp_path: Path) -> None:
    sample = {"t_s": 0.01, "flow": "a", "leg": "wan", "cwnd_pkts": 10, "ssthresh_pkts": None}
    sample |= {"srtt_ms": 20.0, "snd_wnd_bytes": 64000, "unacked_pkts": 3, "mss": 1448}
    sample |= {"bytes_acked": 90_000}
    assert write_samples(tmp_path, [sample, {**sample, "leg": "app"}]) == 1
    assert Done(tmp_path).acks[0]["inflight_bytes"] == "4344"
    assert Done(tmp_path).acks[0]["acked_bytes"] == "90000"


@pytest.mark.parametrize(("acks", "asked_ms", "then_s"), [(False, 50.0, 0.05), (True, 50.0, 0.01)])
def test_samples_are_as_far_apart_as_asked_and_closer_where_they_stand_in(
    acks: bool, asked_ms: float, then_s: float
) -> None:
    assert sample_s(describe(acks=acks, sample_ms=asked_ms), None) == then_s


def test_the_filter_names_each_port_once() -> None:
    assert port_filter(local=[80], peer=[81, 80, 81]) == "sport==80 || (dport>=80 && dport<=81)"
