# SPDX-License-Identifier: MIT
"""Read a run's samples as tables whose column names carry units."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab import safe_read
from gostlab.errors import BadInput
from gostlab.results import SAMPLES, read_run, read_series

if TYPE_CHECKING:
    import pandas as pd

MAX_UNZIPPED_BYTES = 1 << 30
ACK_COLUMNS = (
    *("t_s", "flow", "cwnd_pkts", "snd_ssthresh_pkts", "current_ssthresh_pkts"),
    *("srtt_ms", "snd_wnd_bytes", "inflight_bytes", "acked_bytes"),
)
# New names of the columns without a unit.
WITH_UNITS = {
    "mss": "mss_bytes",
    "segments_out": "sent_segments",
    "data_segments_out": "sent_data_segments",
    "segments_retransmitted": "retransmitted_segments",
    "reordering": "reordering_segments",
    "reord_seen": "reordering_events",
    "drops": "dropped_pkts",
    "marks": "marked_pkts",
    "bytes_acked": "acked_bytes",
    "bytes_received": "received_bytes",
    "seconds": "duration_s",
}


def read_samples(folder: Path, of: str = "sockets") -> pd.DataFrame:
    """Return the samples of one type in a run's folder, one row each, by time.

    Empty without such samples. A column inside an object has a dot: bbr.bw_bps. Raises BadInput for
    an unknown type.
    """
    import pandas as pd

    if of not in SAMPLES:
        raise BadInput(f"samples {of!r:.40}: one of {', '.join(SAMPLES)}")
    if of == "acks":
        table = pd.DataFrame() if read_run(folder) is None else read_acks(folder)
    else:
        table = pd.json_normalize(read_series(folder, of, "at_s" if of == "changes" else "t_s"))
    # `bbr` is a null column for sockets with another congestion control
    return table.drop(columns="bbr", errors="ignore").rename(columns=WITH_UNITS)


def read_acks(folder: Path, columns: Sequence[str] = ACK_COLUMNS) -> pd.DataFrame:
    """Return acks.csv.gz: one row per ACK received by a sending socket, by time.

    Without the file the table is empty but has its columns. An infinite ssthresh is NaN, and so is
    one that was not recorded (analysis.load.series.ssthresh_of distinguishes them). A truncated
    file yields its complete rows. columns: t_s, cwnd_pkts and any other of ACK_COLUMNS; a run may
    have 10^5 rows.
    """
    import pandas as pd

    nothing = pd.DataFrame(columns=list(columns), dtype=float)
    try:
        text = read_gzip(folder / "acks.csv.gz")
        # omit a truncated last line; a complete file ends with a newline
        table = pd.read_csv(
            io.BytesIO(text[: text.rfind(b"\n") + 1]),
            usecols=lambda name: name in columns,
            dtype={"flow": str},
            on_bad_lines="skip",
            encoding_errors="replace",
        )
    except (OSError, ValueError):
        return nothing
    if not {"t_s", "cwnd_pkts"} <= set(table.columns):
        return nothing
    table = table.reindex(columns=list(columns))
    for name in set(columns) - {"flow"}:
        table[name] = pd.to_numeric(table[name], errors="coerce")
    known = table.dropna(subset=["t_s", "cwnd_pkts"])
    return known.sort_values("t_s", kind="stable", ignore_index=True)


def read_gzip(path: Path) -> bytes:
    """Return a gzip file's content up to MAX_UNZIPPED_BYTES or its first error. Raises OSError."""
    data, content = safe_read.read_bytes(path), b""
    try:
        while data and len(content) < MAX_UNZIPPED_BYTES:
            part = zlib.decompressobj(wbits=31)
            content += part.decompress(data, MAX_UNZIPPED_BYTES - len(content))
            data = part.unused_data
    except zlib.error:
        return content
    return content
