# SPDX-License-Identifier: MIT
"""Parse the JSON of speed tests: Ookla's `speedtest -f json`, and speedtest-cli's `--json`."""

import re
from typing import Any

from gostlab.importers.base import (
    DirectionRecording,
    Evidence,
    PathRecording,
    UnreadableRecording,
    json_format,
    parse_json,
    rate_evidence,
    wire_bps,
)
from gostlab.spec.profile import share_text


def read(document: Any) -> PathRecording:
    """Return each direction's rate, the idle RTT, and Ookla's loss. Raises UnreadableRecording."""
    if document.get("error"):
        raise UnreadableRecording(f"the speed test failed: {document['error']}")
    is_ookla = isinstance(document["download"], dict)
    if is_ookla:
        # Ookla's bandwidth is in bytes per second.
        down_bps, up_bps = (8 * float(document[n]["bandwidth"]) for n in ("download", "upload"))
        rtt_ms, rtt_field = float(document["ping"]["latency"]), "ping.latency"
        loss_share = float(document.get("packetLoss") or 0) / 100
        suffix = ".bandwidth"
        left_out = ["ping.jitter (idle)", "download.latency and upload.latency (queues)"]
        if "packetLoss" not in document:
            left_out = [*left_out, "loss (the server did not measure it)"]
    else:
        down_bps, up_bps = float(document["download"]), float(document["upload"])
        rtt_ms, rtt_field = float(document["ping"]), "ping"
        loss_share, suffix = 0.0, ""
        left_out = ["bytes_sent and bytes_received", "loss (the program does not measure it)"]
    if down_bps <= 0 and up_bps <= 0:
        raise UnreadableRecording("neither a download nor an upload in it")
    evidence, directions = [], {}
    for direction, name, rate_bps, end in (
        ("forward", "upload", up_bps, "sent by the client"),
        ("reverse", "download", down_bps, "received by the client"),
    ):
        directions[direction] = DirectionRecording()
        if rate_bps > 0:
            directions[direction] = DirectionRecording(rate_bps=wire_bps(rate_bps))
            evidence.append(rate_evidence(rate_bps, f"{name}{suffix}", direction, end))
    evidence.append(Evidence(f"RTT {rtt_ms:g} ms", rtt_field, "round trip"))
    if loss_share:
        evidence.append(Evidence(f"loss {share_text(loss_share)}", "packetLoss", "round trip"))
    return PathRecording(
        0.0,
        forward=directions["forward"],
        reverse=directions["reverse"],
        rtt_ms=rtt_ms,
        loss_share=loss_share,
        evidence=tuple(evidence),
        left_out=tuple(left_out),
        assumptions=(
            "The rate is what several TCP connections got: the path's own may be higher.",
        ),
    )


def parse_result(text: str) -> Any:
    """Return the document, or the result among the lines of `speedtest -f jsonl`."""
    results = [line for line in text.splitlines() if re.match(r'\{"type": ?"result"', line)]
    return parse_json(results[0] if len(results) == 1 else text)


DESCRIPTION = "JSON of Ookla's speedtest or speedtest-cli: a rate of each direction and an RTT"
KEYS = ["download", "upload", "ping"]
FORMAT = json_format("speedtest", DESCRIPTION, "a speed test's JSON", KEYS, read, parse_result)
