# SPDX-License-Identifier: MIT
"""The lab's own pings are ping's."""

import socket
import struct
from typing import Any, cast

from gostlab.guest.icmp_echo import (
    ECHO,
    ECHO_REPLY,
    SO_TIMESTAMPNS,
    TIMESPEC,
    echo_request,
    receive,
)


def test_a_request_is_as_long_as_ping_s_and_its_checksum_is_right() -> None:
    for number in (1, 2, 0x93FF):
        request = echo_request(7, number)
        total = sum(struct.unpack("!32H", request))

        assert len(request) == 64
        assert (total & 0xFFFF) + (total >> 16) == 0xFFFF  # RFC 1071: so a receiver checks it


class EchoSocket:
    """A socket to which one answer has come, a second after its request."""

    def __init__(self, identifier: int) -> None:
        self.answer = b"\x45" + bytes(19) + ECHO.pack(ECHO_REPLY, 0, 0, identifier, 1)

    def settimeout(self, _max_s: float) -> None:
        pass

    def recvmsg(self, _max_bytes: int, _ancillary_bytes: int) -> tuple[Any, ...]:
        came = TIMESPEC.pack(2, 0)
        return self.answer, [(socket.SOL_SOCKET, SO_TIMESTAMPNS, came)], 0, None


def test_an_answer_to_an_earlier_measurement_is_not_taken_for_one_to_this() -> None:
    rtts_ms: dict[int, float] = {}
    for identifier in (6, 7):
        echo = cast(socket.socket, EchoSocket(identifier))
        receive(echo, 7, 1.0, {1: 1_000_000_000}, rtts_ms)
        assert rtts_ms == ({} if identifier == 6 else {1: 1000.0})
