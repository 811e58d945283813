#!/usr/bin/env python3
"""Short downloads one after another, each over a connection of its own: what a short flow runs.

    fetches.py [--every=S] ADDRESS PORT DURATION_S SIZE...

Fetches /SIZE from a web server for each size in turn, over and over, until the time is up; at least
one of each. They begin S seconds apart, or when the one before is over. Prints a line of JSON per
download: when it began, counted from the first, its size, and how long it took from before the
connection to the last byte. Python's own library alone, no import of the lab: it runs on a node,
and by hand from commands.sh.
"""

import itertools
import json
import sys
import time
from http.client import HTTPConnection, HTTPException

TIMEOUT_S = 60.0


def fetch(address: str, port: int, size: int) -> float:
    """Return a download's duration, seconds. Raises OSError or HTTPException."""
    began_s = time.monotonic()
    connection = HTTPConnection(address, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"/{size}", headers={"Connection": "close"})
        answer = connection.getresponse()
        got = 0
        while piece := answer.read(65536):
            got += len(piece)
        ended_s = time.monotonic()
    finally:
        connection.close()
    if (answer.status, got) != (200, size):
        raise HTTPException(f"/{size}: status {answer.status}, {got} bytes")
    return ended_s - began_s


def main(argv: list[str]) -> None:
    """Fetch until the time is up."""
    every_s = float(argv.pop(1).partition("=")[2]) if argv[1].startswith("--every=") else 0.0
    address, port, duration_s, *sizes = argv[1:]
    began_s = time.monotonic()
    for number, size in enumerate(itertools.cycle(sizes)):
        at_s = time.monotonic() - began_s
        if at_s >= float(duration_s) and number >= len(sizes):
            break
        seconds = fetch(address, int(port), int(size))
        line = {"at_s": round(at_s, 6), "size_bytes": int(size), "seconds": round(seconds, 6)}
        print(json.dumps(line), flush=True)
        time.sleep(max(0.0, at_s + every_s - (time.monotonic() - began_s)))


if __name__ == "__main__":
    try:
        main(sys.argv)
    except (OSError, HTTPException) as error:
        sys.exit(f"fetches: {error}")
