# SPDX-License-Identifier: MIT
"""Hand-ins for tests: folders as `./lab lab` leaves them, with made-up runs whose files agree.

Nothing is run. A made-up run is a steady flow; what it says is what its maker was told.
"""

import json
import math
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gostlab.atomic_write import write_json
from gostlab.classroom.answers import SEALED, Answers, seal, sheet_of
from gostlab.classroom.expressions import Value
from gostlab.classroom.grading import RESULTS, StudentRuns, collect_values
from gostlab.classroom.lab import ANSWERS, CourseLab, load_lab
from gostlab.classroom.raw_metrics import RawRecords
from gostlab.classroom.student_assignment import PUBLIC_COURSE, Assignment, assignment_in_course
from gostlab.results import EPOCH
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec
from tools.answer_sharing import right_answers

NOW = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)
MSS = 1448
# What stays the same in every row.
FLOW = {"kind": "tcp", "lost_datagrams": None, "sent_datagrams": None}
SOCKET = {"leg": "wan", "end": "near", "ssthresh_pkts": 20, "bbr": None}
QUEUE = {"node": "wan_a", "dev": "wan_a-eth1", "role": "bottleneck", "direction": "forward"}


@dataclass(frozen=True)
class Steady:
    """What a made-up run's flows did."""

    mbit: float
    cwnd_pkts: int = 40
    srtt_ms: float = 60.0
    backlog_bytes: int = 15140
    again: int = 12


def full_link(run: RunSpec) -> Steady:
    """A run that fills its link."""
    return Steady(run.path.forward.rate_bps * 1448 / 1514 / 1e6 * 0.97)


def zipped(files: dict[str, bytes], to: Path) -> Path:
    """A zip of these files."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return to


def rewrite(file: Path, pattern: str, text: str) -> None:
    """Put a text in place of what fits a pattern, which must be there."""
    changed, count = re.subn(pattern, lambda _: text, file.read_text("utf-8"), flags=re.MULTILINE)
    assert count, (file, pattern)
    file.write_text(changed, encoding="utf-8")


def asked_of(lab: CourseLab, student: str = "alice", secret: bytes | None = None) -> Assignment:
    """A student's assignment."""
    return assignment_in_course(lab, student, PUBLIC_COURSE, secret)


def shortened(folder: Path) -> CourseLab:
    """Lab 0 with few samples, so that it is read in no time."""
    shutil.copytree(load_lab("0").folder, folder)
    rewrite(folder / "experiment.yaml", "duration: 20s", "duration: 5s")
    rewrite(folder / "experiment.yaml", "sample: 100ms", "sample: 1s")
    return load_lab(str(folder))


def make_run(results: Path, run: RunSpec, did: Steady, finished: datetime = NOW) -> Path:
    """A run's folder."""
    folder = results / run.experiment / run.name
    folder.mkdir(parents=True)
    write_json(folder / "run.json", run.to_json())
    flows, legs, sockets = [], [], []
    step_s = run.sample_ms / 1000
    instants = [round(step_s * n, 6) for n in range(1, math.floor(run.length_s / step_s) + 1)]
    passed, pings = 0.0, list[dict[str, Any]]()
    for number, flow in enumerate(run.flows):
        if not flow.is_tcp:
            flows.append(make_pings(folder, run, flow, did, pings))
            continue
        total = int(did.mbit * 1e6 / 8 / len(run.flows) * flow.duration_s) // MSS * MSS
        passed += total
        report = iperf3(flow.duration_s, flow.streams, total, did.again, f"cookie{number}")
        for end in ("", "-server"):
            write_json(folder / RawRecords(folder, run).report_name(flow, end), report)
        flows.append(
            FLOW
            | {"name": flow.name, "started_s": flow.start_s, "ended_s": flow.end_s}
            | {"bytes": total, "seconds": flow.duration_s, "retransmits": did.again}
            | {"goodput_bps": 8 * total / flow.duration_s}
        )
        legs.append(
            {"leg": "wan", "flow": flow.name, "sender": flow.sender, "bytes_acked": total + 400}
            | {"segments_retransmitted": did.again}
        )
        for at in instants:
            share = min(1.0, max(0.0, (at - flow.start_s) / flow.duration_s))
            acked = int(total * share)
            sockets.append(
                SOCKET
                | {"t_s": at, "flow": flow.name, "host": flow.sender, "mss": MSS}
                | {"local": f"10.0.0.{number}:1", "peer": "10.1.0.1:5201"}
                | {"cwnd_pkts": did.cwnd_pkts, "srtt_ms": did.srtt_ms, "bytes_acked": acked}
                | {"delivered_pkts": acked // MSS}
                | {"segments_retransmitted": int(did.again * share)}
            )
    sent = passed * 1514 / MSS
    queues = [
        QUEUE
        | {"t_s": at, "backlog_bytes": did.backlog_bytes, "backlog_pkts": 10}
        | {"sent_bytes": int(sent * min(1.0, at / run.length_s))}
        for at in instants
    ]
    hosts = [{"t_s": at, "cpu_busy_s": 0.1 * at, "cpu_idle_s": 0.9 * at} for at in instants]
    rtt_ms = sum(run.path[way].delay_ms for way in ("forward", "reverse"))
    asked = {"idle_rtt_before": rtt_ms, "cpu_idle_share": 0.9, "run_length": 1.0}
    good = {"verdict": "ok", "unit": "", "reason": ""}
    checks = [{**good, "name": name, "asked": got, "got": got} for name, got in asked.items()]
    write_json(folder / "flows.json", {"flows": flows})
    write_json(folder / "legs.json", {"legs": legs, "nstat": {}})
    write_json(folder / "env.json", {"kernel": "7.3.4", "host": {"cpu": "test"}})
    write_json(folder / "fidelity.json", {"verdict": "ok", "checks": checks})
    series = {"sockets": sockets, "queues": queues, "hosts": hosts} | (
        {"pings": pings} if pings else {}
    )
    for name, rows in series.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    finish(folder, finished)
    return folder


def make_pings(
    folder: Path, run: RunSpec, flow: FlowSpec, did: Steady, pings: list[dict[str, Any]]
) -> dict[str, Any]:
    """The report of a ping flow, its rows among `pings`, and what flows.json says of it."""
    step_s = flow.interval_ms / 1000
    count = math.floor(flow.duration_s / step_s)
    sent = [{"at_s": round(step_s * number, 6), "rtt_ms": did.srtt_ms} for number in range(count)]
    report = {"program": "echo", "over": "udp", "round_trips": sent}
    write_json(folder / RawRecords(folder, run).report_name(flow), report)
    pings += [{"t_s": ping["at_s"], "flow": flow.name, "rtt_ms": ping["rtt_ms"]} for ping in sent]
    round_trips = {"median_ms": did.srtt_ms, "p95_ms": did.srtt_ms, "sent": count, "lost": 0}
    return (
        FLOW
        | {"name": flow.name, "kind": "ping", "started_s": flow.start_s, "ended_s": flow.end_s}
        | {"bytes": 64 * count, "seconds": flow.duration_s, "retransmits": None}
        | {"goodput_bps": 64 * 8 * count / flow.duration_s, "round_trips": round_trips}
    )


def iperf3(duration_s: float, streams: int, total: int, again: int, cookie: str) -> dict[str, Any]:
    """iperf3's report, as far as it is read."""
    rate = 8 * total / duration_s
    return {
        "start": {"cookie": cookie, "test_start": {"duration": duration_s, "num_streams": streams}},
        "intervals": [{"sum": {"bytes": total}}],
        "end": {
            "sum_sent": {"bytes": total, "retransmits": again},
            "sum_received": {"bytes": total, "seconds": duration_s, "bits_per_second": rate},
        },
    }


def finish(folder: Path, finished: datetime = NOW) -> None:
    """status.json of a folder as it is now."""
    (folder / "status.json").unlink(missing_ok=True)
    lengths = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    status = {"outcome": "ok", "error": None, "epoch": EPOCH, "schema": 3, "files": lengths}
    took = {"wall_s": 5.0, "guest_s": 20.0, "finished": finished.strftime("%Y-%m-%dT%H:%M:%SZ")}
    write_json(folder / "status.json", status | took)


def make_hand_in(
    folder: Path,
    assignment: Assignment,
    wrong: Mapping[str, str] = {},
    sealed: datetime = NOW - timedelta(hours=1),
) -> Path:
    """A whole hand-in of runs that fill their links, whose predictions and answers are what is
    expected, but for those of `wrong` (by the point's name).
    """
    lab, student = assignment.lab, assignment.student

    def told(names: Mapping[str, Value]) -> Answers:
        # what hangs on the runs is guessed before them; the runs hang on the guess
        right = right_answers(lab, names, lambda point: "words" if point.by_hand else "1", student)
        for point in lab.points:
            if point.answer and point.name in wrong:
                section, key = point.answer
                getattr(right, section)[key] = wrong[point.name]
        return right

    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "assignment.json", assignment.to_json())
    predictions = told(assignment.values).predictions
    write_json(folder / SEALED, seal(predictions, lab, student, sealed))
    found = StudentRuns()
    for run in assignment.runs(assignment.seed(predictions)):
        made = make_run(folder / RESULTS, run, full_link(run))
        found.records.append(RawRecords(made, run))
    answers = replace(told(collect_values(assignment, found)[0]), predictions=predictions)
    (folder / ANSWERS).write_text(sheet_of(answers), encoding="utf-8")
    return folder
