# SPDX-License-Identifier: MIT
"""The lab's own pings are ping's."""

import struct

from gostlab.guest.icmp_echo import echo_request


def test_a_request_is_as_long_as_ping_s_and_its_checksum_is_right() -> None:
    for number in (1, 2, 0x93FF):
        request = echo_request(number)
        total = sum(struct.unpack("!32H", request))

        assert len(request) == 64
        assert (total & 0xFFFF) + (total >> 16) == 0xFFFF  # RFC 1071: so a receiver checks it
