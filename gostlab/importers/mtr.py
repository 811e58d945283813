# SPDX-License-Identifier: MIT
"""Parse `mtr --json`: the least RTT and the loss of its last hop."""

from typing import Any

from gostlab.importers.base import Evidence, PathRecording, UnreadableRecording, json_format
from gostlab.spec.profile import share_text


def read(document: Any) -> PathRecording:
    """Return the RTT and the loss of the last hop. Raises UnreadableRecording."""
    hubs = document["report"]["hubs"]
    if not hubs:
        raise UnreadableRecording("no hop in it")
    last = hubs[-1]
    sent, loss_share = int(last["Snt"]), float(last["Loss%"]) / 100
    if str(last["host"]) == "???" or loss_share >= 1 or not float(last["Best"]):
        raise UnreadableRecording(
            f"hop {last['count']}, the last, never answered: mtr did not reach its destination"
        )
    host = f"hubs[{len(hubs) - 1}]"
    return PathRecording(
        0.0,
        rtt_ms=float(last["Best"]),
        loss_share=loss_share,
        evidence=(
            Evidence(f"RTT {float(last['Best']):g} ms", f"{host}.Best", "round trip", "the least"),
            Evidence(f"loss {share_text(loss_share)} of {sent}", f"{host}.Loss%", "round trip"),
        ),
        left_out=(
            "Avg, Wrst and StDev of the last hop (without times: no path over time)",
            *([f"the {len(hubs) - 1} hops before it"] if len(hubs) > 1 else []),
        ),
    )


DESCRIPTION = "`mtr --json`: RTT and loss of the last hop"
FORMAT = json_format("mtr", DESCRIPTION, "what `mtr --json` writes", ["report", "hubs"], read)
