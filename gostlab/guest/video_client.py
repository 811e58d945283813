#!/usr/bin/env python3
"""A player of segmented video (DASH, HLS) without a screen: what a video flow runs.

    video_client.py ADDRESS PORT SECONDS SEGMENT_S BUFFER_S BIT/S...

Fetches /BIT/S, a segment of SEGMENT_S seconds at one of the ladder's bit rates, again and again
over one connection, until the time is up. The first segment is the lowest rung's. Each next one is
of the highest rung that is at most 0.85 of the harmonic mean of the last five segments' throughputs
(Jiang, Sekar, Zhang, CoNEXT 2012, sections 4.2 and 5; five as in Yin et al., SIGCOMM 2015). The
player waits while its buffer has no room for a segment. It plays from its first segment on, stalls
when its buffer is empty, and goes on with the next segment. A segment is never given up.

Prints a line of JSON per segment, and one at the end. Python's own library alone, no import of the
lab: it runs on a node, and by hand from commands.sh.
"""

import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from statistics import harmonic_mean

SAFETY, SEGMENTS_KNOWN = 0.85, 5
READ_BYTES = 65536


class Player:
    """The playback buffer: how much is to be played, and how long playing has stalled."""

    def __init__(self) -> None:
        self.buffer_s = 0.0
        self.is_playing = False
        self._at_s = 0.0

    def advance(self, at_s: float) -> float:
        """Play until an instant, and return for how long it stalled meanwhile."""
        passed_s, self._at_s = at_s - self._at_s, at_s
        if not self.is_playing:
            return 0.0
        stalled_s = max(0.0, passed_s - self.buffer_s)
        self.buffer_s = max(0.0, self.buffer_s - passed_s)
        return stalled_s

    def add(self, seconds: float) -> None:
        self.buffer_s += seconds
        self.is_playing = True


def choose(ladder_bps: Sequence[int], throughputs_bps: Sequence[float]) -> int:
    """Return the bit rate of the next segment, of a ladder in rising order."""
    if not throughputs_bps:
        return ladder_bps[0]
    allowed_bps = SAFETY * harmonic_mean(throughputs_bps)
    return max((rate for rate in ladder_bps if rate <= allowed_bps), default=ladder_bps[0])


def fetch(connection: HTTPConnection, rate_bps: int, size: int, until_s: float) -> int:
    """Return the bytes of a segment that arrived before the time was up."""
    got = 0
    try:
        if connection.sock is None:
            connection.timeout = max(0.001, until_s - time.monotonic())
            connection.connect()
        connection.request("GET", f"/{rate_bps}")
        set_timeout(connection, until_s)
        answer = connection.getresponse()
        if answer.status != 200:
            raise HTTPException(f"/{rate_bps}: status {answer.status}")
        while got < size:
            set_timeout(connection, until_s)
            piece = answer.read1(READ_BYTES)
            if not piece:
                raise HTTPException(f"/{rate_bps}: {got} bytes of {size}")
            got += len(piece)
        answer.read()  # nothing is left: it closes the answer, and keeps the connection
    except TimeoutError:
        pass
    return got


def set_timeout(connection: HTTPConnection, until_s: float) -> None:
    """Set how long the connection's calls may wait. Raises TimeoutError if the time is up."""
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    connection.sock.settimeout(left_s)


def play(
    address: str, port: int, seconds: float, segment_s: float, max_s: float, ladder: Sequence[int]
) -> None:
    """Fetch and play until the time is up, and print every segment."""
    began_s = time.monotonic()
    until_s = began_s + seconds
    player, throughputs = Player(), deque[float](maxlen=SEGMENTS_KNOWN)
    connection = HTTPConnection(address, port)
    while True:
        player.advance(time.monotonic() - began_s)
        # A buffer that has room again is not empty: nothing stalls in this wait.
        wait_s = max(0.0, player.buffer_s + segment_s - max_s)
        time.sleep(max(0.0, min(wait_s, until_s - time.monotonic())))
        at_s = time.monotonic() - began_s
        player.advance(at_s)
        if at_s >= seconds:
            print(json.dumps({"ended_s": round(at_s, 6), "bytes": 0, "stalled_s": 0.0}))
            return
        rate_bps = choose(ladder, throughputs)
        size = round(rate_bps * segment_s / 8)
        got = fetch(connection, rate_bps, size, until_s)
        ended_s = time.monotonic() - began_s
        stalled_s = round(player.advance(ended_s), 6)
        if got < size:
            print(json.dumps({"ended_s": round(ended_s, 6), "bytes": got, "stalled_s": stalled_s}))
            return
        player.add(segment_s)
        throughputs.append(8 * size / (ended_s - at_s))
        line = {
            "at_s": round(at_s, 6),
            "bitrate_bps": rate_bps,
            "size_bytes": size,
            "seconds": round(ended_s - at_s, 6),
            "stalled_s": stalled_s,
            "buffer_s": round(player.buffer_s, 6),
        }
        print(json.dumps(line), flush=True)


def main(argv: list[str]) -> None:
    """Play what the command line names."""
    seconds, segment_s, max_s = map(float, argv[3:6])
    play(argv[1], int(argv[2]), seconds, segment_s, max_s, [int(rate) for rate in argv[6:]])


if __name__ == "__main__":
    try:
        main(sys.argv)
    except (OSError, HTTPException) as error:
        sys.exit(f"video: {error}")
