"""Convert a run's samples to tables whose column names carry units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load import series
from gostlab.analysis.load.run_folder import RunFolder, load_run
from gostlab.errors import BadInput
from gostlab.results import SAMPLES, read_series

if TYPE_CHECKING:
    import pandas as pd

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


def samples(folder: Path, of: str = "sockets") -> pd.DataFrame:
    """Return the samples of one type in a run's folder, one row each, by time.

    Empty without such samples. A column inside an object has a dot: bbr.bw_bps. Raises BadInput for
    an unknown type.
    """
    import pandas as pd

    if of not in SAMPLES:
        raise BadInput(f"samples {of!r:.40}: one of {', '.join(SAMPLES)}")
    if of == "acks":
        run = load_run(folder)
        table = series.acks(run) if isinstance(run, RunFolder) else pd.DataFrame()
    else:
        table = pd.json_normalize(read_series(folder, of, "at_s" if of == "changes" else "t_s"))
    # `bbr` is a null column for sockets with another congestion control
    return table.drop(columns="bbr", errors="ignore").rename(columns=WITH_UNITS)


def samples_of(runs: Iterable[RunFolder], of: str = "sockets") -> pd.DataFrame:
    """Return the samples of several runs, prefixed by run name, levels and repetition.

    Raises BadInput.
    """
    import pandas as pd

    tables = []
    for run in runs:
        table = samples(run.folder, of)
        about = {"run": run.name, **dict(run.factors), "repetition": run.repetition}
        for index, (name, value) in enumerate(about.items()):
            table.insert(index, f"factor:{name}" if name in table else name, [value] * len(table))
        tables.append(table)
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def to_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows)
