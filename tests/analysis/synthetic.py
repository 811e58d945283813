"""Made-up result folders, to the letter of the contract between measuring and analysing.

Their numbers are round on purpose and env.json says lab version "fixture": nothing here was
measured.

    python3 tests/analysis/synthetic.py        writes tests/analysis/fixture again
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from analysis.draw.registry import Drawn, Sheet, Sweep, draw_matrix, drawing_of
from analysis.judge.cells import to_matrices
from analysis.read.runs import load_results
from analysis.read.study import Study
from gostlab.describe.file.experiment import Published
from gostlab.describe.resolve.expand import single_run
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.results.format import SCHEMA

FIXTURE = Path(__file__).resolve().parent / "fixture"
FOOTER = (
    "FIXTURE, NOT MEASURED · no tunnel · Linux 0.0.0-fixture (HZ 250) · virtual clock, 5 µs per"
    " system call · lab fixture"
)
BDP_PKTS = 27538  # 1967 Mbit/s for 168 ms in packets of 1500 bytes

# The thesis's receiver rates (sections 4.2, 4.3), Mbit/s, and its Retr.
THESIS = {
    ("gost+ws", "cubic"): {1: (144, 63), 4: (548, 210), 16: (1430, 807), 128: (470, 22894)},
    ("gost+ws", "bbr"): {1: (136, 58), 4: (544, 219), 16: (1830, 927), 128: (376, 20606)},
    ("gost+wss", "cubic"): {1: (142, 47), 4: (570, 221), 16: (1490, 761), 128: (478, 23343)},
    ("gost+wss", "bbr"): {1: (141, 54), 4: (549, 258), 16: (1820, 933), 128: (467, 19292)},
}


def published(matrix: str = "main") -> tuple[Published, ...]:
    """The thesis's values as an experiment's file gives them."""
    return tuple(
        Published(
            matrix,
            (("cc", cc), ("streams", float(streams)), ("tunnel", tunnel)),
            float(goodput),
            float(retr),
            source="thesis, sections 4.2 and 4.3",
        )
        for (tunnel, cc), rows in THESIS.items()
        for streams, (goodput, retr) in rows.items()
    )


STUDY = Study(
    "made-up",
    "Made-up tunnel matrix",
    "Does BBR carry more than CUBIC through a tunnel?",
    "Nothing here was measured.",
    (("main", "The matrix"), ("cpu", "The CPU"), ("buffer", "The buffer")),
    published=published(),
    called="thesis",
    matrix_draws=(
        ("main", ("goodput", "ratio", "retransmissions", "series")),
        ("cpu", ("cpu",)),
        ("real-clock", ("cpu",)),
        ("buffer", ("buffer",)),
    ),
)


PLAIN = single_run(
    profile="la-hamina",
    cc="cubic",
    machine="sandbox",
    clock="virtual",
    overrides={"tunnel": "gost+ws", "duration": "30s", "buffers": "debian", "offloads": "off"},
)


def description(**changes: Any) -> dict[str, Any]:
    """run.json, as a RunDescription writes it; `buffer_pkts`, `rate_bps`, `rtt_ms` and `loss` are
    the forward direction's.
    """
    run = PLAIN.to_json() | {
        "experiment": "made-up",
        "matrix": "main",
        "seed": 1001,
        "memory_mib": 1024,
        "tcp_memory_mib": 512,
    }
    forward = run["path"]["forward"] | {
        "rate_bps": changes.pop("rate_bps", 1967000000),
        "delay_ms": changes.pop("rtt_ms", 168.0) / 2,
        "loss": changes.pop("loss", {"model": "random", "p": 0.0}),
        "buffer_pkts": changes.pop("buffer_pkts", BDP_PKTS),
    }
    run["path"] = {"forward": forward, "reverse": {**forward, "buffer_pkts": BDP_PKTS}}
    del run["flows"]
    run.update(changes)
    run.setdefault("flows", [flow("flow1", run)])
    return RunDescription.from_json(run).to_json()


def flow(name: str, run: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """One entry of run.json's flows: the run's own values but for what changes."""
    of = run or description()
    return PLAIN.to_json()["flows"][0] | {
        "name": name,
        **{key: of[key] for key in ("cc", "streams", "direction", "duration_s", "buffers")},
        "rtt_ms": 2 * of["path"]["forward"]["delay_ms"],
        **changes,
    }


def old(run: Mapping[str, Any]) -> dict[str, Any]:
    """The same run as an older lab described it (schema 1)."""
    kept = {
        key: value for key, value in run.items() if key not in ("flows", "changes", "sites", "acks")
    }
    path = {
        name: {
            key: value for key, value in direction.items() if key not in ("ordered", "distribution")
        }
        for name, direction in run["path"].items()
    }
    return {**kept, "schema": 1, "path": path}


def run_name(run: Mapping[str, Any]) -> str:
    """A folder's name, unique within the made-up experiment."""
    cost = "real" if run["clock"] == "real" else f"{run['syscall_cost_us']:g}us"
    return (
        f"{run['matrix']}-{run['tunnel']}-{run['cc']}-{run['streams']}-{cost}-"
        f"{run['path']['forward']['buffer_pkts']}-{run['duration_s']:g}s-r{run['repetition']}-0000fade"
    )


def write_run(
    results: Path,
    run: Mapping[str, Any],
    *,
    goodput_mbit: float = 100.0,
    retr: int = 10,
    wan: int = 0,
    idle: float = 0.5,
    verdict: str = "ok",
    reason: str = "",
    outcome: str | None = "ok",
    error: str | None = None,
    log: str = "fixture: nothing ran\n",
    name: str | None = None,
    program: str = "fixture relay 0",
    seconds: int = 4,
    env: Mapping[str, Any] | None = None,
) -> Path:
    """A run's folder. `outcome` None: no status.json."""
    folder = results / str(run["experiment"]) / (name or run_name(run))
    folder.mkdir(parents=True)
    put(folder, "run.json", run)
    (folder / "commands.sh").write_text(
        "#!/bin/sh\n# fixture: what the lab would have run\nip netns add client\n"
        "iperf3 -c 127.0.0.1 -p 443 -t 30 -P 1 -i 1 -J\n"
    )
    (folder / "log.txt").write_text(log)
    if outcome == "ok" and "flows" in run:
        share = goodput_mbit / max(1, sum(each["kind"] != "udp" for each in run["flows"]))
        put(
            folder,
            "flows.json",
            {
                "flows": [
                    measured_flow(
                        each,
                        share,
                        (
                            None
                            if each["kind"] != "tcp"
                            else wan
                            if run["tunnel"] == "direct"
                            else retr
                        ),
                    )
                    for each in run["flows"]
                ]
            },
        )
    if outcome == "ok":
        write_measured(
            folder, run, goodput_mbit, retr, wan, idle, verdict, reason, program, seconds, env or {}
        )
    if outcome is not None:
        put(
            folder,
            "status.json",
            {
                "schema": SCHEMA,
                "epoch": 1,
                "outcome": outcome,
                "error": error,
                "wall_s": 11.0,
                "guest_s": 33.0,
                "finished": "2001-01-01T00:00:00Z",
            },
        )
    return folder


def measured_flow(
    asked: Mapping[str, Any], goodput_mbit: float, retransmits: int | None
) -> dict[str, Any]:
    """One entry of flows.json; UDP has the rate it was told."""
    bps = asked["rate_bps"] if asked["kind"] == "udp" else goodput_mbit * 1e6
    return {
        "name": asked["name"],
        "kind": asked["kind"],
        "started_s": asked["start_s"],
        "ended_s": asked["start_s"] + asked["duration_s"],
        "goodput_bps": bps,
        "bytes": int(bps * asked["duration_s"] / 8),
        "seconds": asked["duration_s"],
        "retransmits": retransmits,
        "lost_datagrams": 0 if asked["kind"] == "udp" else None,
        "sent_datagrams": int(bps * asked["duration_s"] / 8 / 1448)
        if asked["kind"] == "udp"
        else None,
    }


def write_measured(
    folder: Path,
    run: Mapping[str, Any],
    goodput_mbit: float,
    retr: int,
    wan: int,
    idle: float,
    verdict: str,
    reason: str,
    program: str,
    seconds: int,
    env: Mapping[str, Any],
) -> None:
    """What a run that ended well leaves."""
    bps, direct, streams = goodput_mbit * 1e6, run["tunnel"] == "direct", run["streams"]
    end = float(run["duration_s"])
    put(
        folder,
        "iperf3.json",
        {
            "start": {
                "version": "iperf 3.12",
                "test_start": {"protocol": "TCP", "num_streams": streams, "duration": int(end)},
            },
            "intervals": [
                {
                    "streams": [],
                    "sum": {
                        "start": t,
                        "end": t + 1,
                        "seconds": 1,
                        "bytes": int(bps / 8),
                        "bits_per_second": bps * (0.3 if t == 0 else 1.0),
                        "retransmits": 0,
                        "omitted": False,
                        "sender": True,
                    },
                }
                for t in range(seconds)
            ],
            "end": {
                "streams": [],
                "sum_sent": {
                    "start": 0,
                    "end": end,
                    "seconds": end,
                    "bytes": int(bps * end / 8),
                    "bits_per_second": bps * 1.02,
                    "retransmits": wan if direct else retr,
                    "sender": True,
                },
                "sum_received": {
                    "start": 0,
                    "end": end + 0.168,
                    "seconds": end + 0.168,
                    "bytes": int(bps * end / 8),
                    "bits_per_second": bps,
                    "sender": True,
                },
            },
        },
    )
    put(folder, "iperf3-server.json", {"start": {}, "intervals": [], "end": {}})
    sent = max(1, int(bps * end / 8 / 1448))
    legs = (
        [("wan", "client", wan)]
        if direct
        else [("app", "client", retr), ("wan", "client", wan), ("exit", "target", 0)]
    )
    put(
        folder,
        "legs.json",
        {
            "legs": [
                {
                    "leg": leg,
                    "flow": "flow1",
                    "sender": sender,
                    "loopback": leg != "wan",
                    "sockets": streams,
                    "cc": [run["cc"]],
                    "segments_out": sent,
                    "data_segments_out": sent,
                    "segments_retransmitted": again,
                    "bytes_acked": sent * 1448,
                    "busy_ms": 1000.0,
                    "rwnd_limited_ms": 0.0,
                    "sndbuf_limited_ms": 0.0,
                }
                for leg, sender, again in legs
            ],
            "nstat": {
                "client": {
                    "TcpRetransSegs": sum(again for _, _, again in legs),
                    "TcpOutSegs": sent,
                    "TcpInSegs": sent // 2,
                    "TcpExtTCPOFOQueue": 0,
                    "TcpExtTCPDSACKRecv": 0,
                    "TcpExtTCPDSACKOfoRecv": 0,
                },
                "target": {
                    "TcpRetransSegs": 0,
                    "TcpOutSegs": sent,
                    "TcpInSegs": sent,
                    "TcpExtTCPOFOQueue": 3 * wan,
                    "TcpExtTCPDSACKRecv": 0,
                    "TcpExtTCPDSACKOfoRecv": 0,
                },
            },
            "closed_sockets_missed": False,
        },
    )
    put_lines(
        folder,
        "sockets",
        [
            {
                "t_s": float(t + 1),
                "host": "client",
                "leg": "wan",
                "flow": "flow1",
                "end": "near",
                "local": f"10.0.1.1:{40000 + s}",
                "peer": "10.0.4.2:443",
                "cc": run["cc"],
                "cwnd_pkts": 100 * (t + 1) + 10 * s,
                "ssthresh_pkts": None,
                "srtt_ms": 168.0 + 2 * t,
                "rttvar_ms": 1.0,
                "min_rtt_ms": 168.0,
                "rto_ms": 372.0,
                "unacked_pkts": 100,
                "bytes_received": 0,
                "data_segments_out": 1000 * (t + 1),
                "lost_pkts": 0,
                "reordering": 3,
                "reord_seen": 0,
                "snd_wnd_bytes": 3145728,
                "pacing_rate_bps": int(bps),
                "delivery_rate_bps": int(bps),
                "bytes_acked": 1448 * 1000 * (t + 1),
                "delivered_pkts": 1000 * (t + 1),
                "mss": 1448,
                "segments_out": 1000 * (t + 1),
                "segments_retransmitted": 0,
                "rwnd_limited_ms": 0.0,
                "sndbuf_limited_ms": 0.0,
                "busy_ms": 1000.0 * t,
                "bbr": None,
            }
            for t in range(seconds)
            for s in range(min(streams, 3))
        ],
    )
    put_lines(
        folder,
        "queues",
        [
            {
                "t_s": float(t + 1),
                "node": "wan_a",
                "dev": "wan_a-eth1",
                "role": "bottleneck",
                "direction": "forward",
                "backlog_pkts": 50 * t,
                "backlog_bytes": 75000 * t,
                "drops": 0,
                "sent_pkts": 1000 * t,
                "sent_bytes": int(bps / 8 * 1514 / 1448) * t,
            }
            for t in range(seconds)
        ],
    )
    put_lines(folder, "changes", [])
    put_lines(
        folder,
        "hosts",
        [
            {
                "t_s": float(t + 1),
                "cpu_busy_s": round((1 - idle) * (t + 1), 4),
                "cpu_idle_s": round(idle * (t + 1), 4),
                "tcp_memory_mib": 1.0,
            }
            for t in range(seconds)
        ],
    )
    starved = idle < 0.05
    checks = [
        {
            "name": "idle_rtt_before",
            "verdict": "invalid" if verdict == "invalid" else "ok",
            "asked": 168.0,
            "got": 999.0 if verdict == "invalid" else 168.0,
            "unit": "ms",
            "reason": (
                reason or "the idle path is +831.000 ms off its configured round trip"
                if verdict == "invalid"
                else ""
            ),
        },
        {
            "name": "cc_on_wan_sockets",
            "verdict": "ok",
            "asked": run["cc"],
            "got": [run["cc"]],
            "unit": "name",
            "reason": "",
        },
        {
            "name": "cpu_idle_share",
            "verdict": "degraded" if starved else "ok",
            "asked": 0.05,
            "got": idle,
            "unit": "share",
            "reason": f"the CPU was idle for only {idle:.1%} of the load" if starved else "",
        },
    ]
    if verdict == "degraded" and not starved:
        checks.append(
            {
                "name": "run_length",
                "verdict": "degraded",
                "asked": 30.0,
                "got": 3.0,
                "unit": "s",
                "reason": reason or "3 s is less than 20 round trips of 168 ms",
            }
        )
    put(
        folder,
        "fidelity.json",
        {"verdict": "degraded" if starved and verdict == "ok" else verdict, "checks": checks},
    )
    put(
        folder,
        "env.json",
        {
            "kernel": "0.0.0-fixture",
            "kernel_build": "#0 fixture",
            "hz": 250,
            "machine": run["machine"],
            "clock": run["clock"],
            "syscall_cost_us": run["syscall_cost_us"],
            "lab": {"version": "fixture", "commit": None},
            "iproute2": "0.0",
            "iperf3": "3.12",
            "mininet": "2.3.0",
            "python": "3.11.2",
            "cc": {"client": run["cc"], "gost": run["cc"], "target": run["cc"]},
            "tunnel": (
                None
                if direct
                else {
                    "kind": "relay",
                    "version": program,
                    "path": "/nowhere/relay",
                    "sha256": "0f" * 32,
                }
            ),
            "tcp_mem_pages": ["1", "2", "3"],
            "sysctls": {},
            "offloads": {},
            "qdiscs_before": {},
            "qdiscs_after": {},
            "acks": None,
            "host": {"kernel": "0.0.0-fixture", "cpu": "none"},
            **env,
        },
    )


def write_over_time(
    folder: Path,
    run: Mapping[str, Any],
    rates: Mapping[str, Callable[[float], float]],
    *,
    windows: Mapping[str, Callable[[float], int]] = MappingProxyType({}),
    sample_s: float = 0.1,
) -> None:
    """sockets.jsonl of flows that go at given rates (Mbit/s at a time), one row per socket and
    sample, evenly over its sockets.

    A UDP flow's rate goes into its receiver's report.
    """
    rows = []
    for each in run["flows"]:
        rate, start, end = (
            rates[each["name"]],
            each["start_s"],
            each["start_s"] + each["duration_s"],
        )
        if each["kind"] == "udp":
            put(
                folder,
                f"iperf3-{each['name']}-server.json",
                {
                    "intervals": [
                        {
                            "sum": {
                                "start": float(t),
                                "end": t + 1.0,
                                "seconds": 1.0,
                                "bits_per_second": rate(start + t) * 1e6,
                                "lost_packets": 0,
                            }
                        }
                        for t in range(int(each["duration_s"]))
                    ]
                },
            )
            continue
        delivered, t_s = 0.0, start
        while t_s < end - sample_s / 2:
            delivered += rate(t_s + sample_s / 2) * 1e6 / 8 * sample_s / each["streams"] / 1000
            t_s = round(t_s + sample_s, 6)
            cwnd = windows.get(each["name"], lambda at: 100)(t_s)
            rows += [
                {
                    "t_s": t_s,
                    "host": each["sender"],
                    "leg": "wan",
                    "flow": each["name"],
                    "local": f"10.0.0.1:{stream}",
                    "peer": f"10.0.1.1:{each['name']}",
                    "cc": each["cc"],
                    "cwnd_pkts": cwnd,
                    "ssthresh_pkts": None,
                    "srtt_ms": 10.0 + stream,
                    "delivered_pkts": delivered,
                    "mss": 1000,
                    "bbr": None,
                }
                for stream in range(each["streams"])
            ]
    put_lines(folder, "sockets", sorted(rows, key=lambda row: row["t_s"]))


def write_acks(
    folder: Path, rows: Iterable[tuple[Any, ...]], ssthresh: str = "snd_ssthresh_pkts"
) -> None:
    """acks.csv.gz from (t_s, flow, cwnd, ssthresh or ""); `ssthresh` is its column's name."""
    lines = [
        f"t_s,flow,cwnd_pkts,{ssthresh},srtt_ms,snd_wnd_bytes,inflight_bytes",
        *(
            f"{t_s},{name},{cwnd},{threshold},10.0,65536,{cwnd * 1000}"
            for t_s, name, cwnd, threshold in rows
        ),
    ]
    (folder / "acks.csv.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


def write_states(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """cc_state.jsonl.gz: what a congestion control said of itself."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "cc_state.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))


def several(*flows: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """run.json of a dumbbell: flows over 100 Mbit/s and 10 ms, each as `flow` takes it; the first
    one is flow1.
    """
    base = description(
        **{
            "topology": "dumbbell",
            "tunnel": "direct",
            "rate_bps": 100_000_000,
            "rtt_ms": 10.0,
            "sample_ms": 100.0,
            "matrix": "fair",
            "duration_s": 60.0,
            **changes,
        }
    )
    asked = [
        flow(f"flow{index}", base, sender=f"s{index}", receiver="r1", **each)
        for index, each in enumerate(flows, 1)
    ]
    return {**base, "flows": asked}


def put(folder: Path, name: str, value: Any) -> None:
    """A JSON file as the lab writes it."""
    said = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    (folder / name).write_bytes(said.encode("utf-8", "surrogatepass"))


def put_lines(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """A series as the lab writes it."""
    (folder / f"{name}.jsonl").write_text(
        "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
    )


def cell(
    cc: str, streams: int, tunnel: str = "gost+ws", repetition: int = 1, **changes: Any
) -> dict[str, Any]:
    """run.json of one cell of the streams matrix."""
    return description(
        cc=cc,
        streams=streams,
        tunnel=tunnel,
        repetition=repetition,
        seed=1000 + repetition,
        factors={"cc": cc, "streams": streams, "tunnel": tunnel},
        **changes,
    )


def write_matrix(results: Path, repetitions: int = 6) -> None:
    """{cubic, bbr} × three tunnels × {1, 4, 16, 128}: round numbers, 128 streams starved of CPU,
    one run invalid, one failed.
    """
    rates = {1: 100, 4: 400, 16: 1600, 128: 500}
    for tunnel in ("direct", "gost+ws", "gost+wss"):
        for cc, gain in (("cubic", 1.0), ("bbr", 1.1)):
            for streams, rate in rates.items():
                for repetition in range(1, repetitions + 1):
                    run = cell(cc, streams, tunnel, repetition)
                    if (tunnel, cc, streams, repetition) == ("gost+wss", "bbr", 4, 1):
                        write_run(
                            results,
                            run,
                            outcome="failed",
                            error="the tunnel's end on client died (exit status 9)",
                            log="fixture line 1\nfixture: panic at the last line\n",
                        )
                        continue
                    bad = (tunnel, cc, streams, repetition) == ("gost+ws", "cubic", 4, 1)
                    write_run(
                        results,
                        run,
                        goodput_mbit=9999.0 if bad else rate * gain + 5 * (repetition - 1),
                        retr=0 if tunnel == "direct" else 50 * streams,
                        wan=0 if cc == "cubic" else 10 * repetition,
                        idle=0.01 if streams == 128 else 0.5,
                        verdict="invalid" if bad else "ok",
                        seconds=8,
                    )


def write_cpu(results: Path, repetitions: int = 3) -> None:
    """A sweep of the system call's cost at 16 and 128 streams, and the real clock."""
    for cc, gain in (("cubic", 1.0), ("bbr", 1.1)):
        for streams in (16, 128):
            for repetition in range(1, repetitions + 1):
                for cost in (0.0, 2.0, 5.0, 20.0):
                    idle = 0.9 - cost * streams / 200
                    write_run(
                        results,
                        description(
                            matrix="cpu",
                            cc=cc,
                            streams=streams,
                            repetition=repetition,
                            seed=1000 + repetition,
                            syscall_cost_us=cost,
                            factors={"cc": cc, "streams": streams, "syscall_cost": f"{cost:g}us"},
                        ),
                        goodput_mbit=(1800 if idle > 0 else 600) * gain + repetition * 10,
                        idle=max(idle, 0.0),
                    )
                write_run(
                    results,
                    description(
                        matrix="real-clock",
                        cc=cc,
                        streams=streams,
                        repetition=repetition,
                        seed=1000 + repetition,
                        clock="real",
                        syscall_cost_us=0.0,
                        factors={"cc": cc, "streams": streams},
                    ),
                    goodput_mbit=700 * gain + repetition * 40,
                    idle=0.02,
                )


def write_buffer(results: Path, repetitions: int = 6) -> None:
    """A sweep of the bottleneck's buffer at 16 streams; cubic climbs with it, bbr does not."""
    for level in (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0):
        for cc in ("cubic", "bbr"):
            for repetition in range(1, repetitions + 1):
                goodput = 600 + 450 * (2 + min(0.0, level - 1)) if cc == "cubic" else 1800.0
                write_run(
                    results,
                    description(
                        matrix="buffer",
                        cc=cc,
                        streams=16,
                        repetition=repetition,
                        seed=1000 + repetition,
                        buffer_pkts=int(level * BDP_PKTS),
                        factors={"cc": cc, "buffer": f"{level:g}bdp"},
                    ),
                    goodput_mbit=goodput + 12 * repetition,
                    wan=int(200 / level) * (1 if cc == "cubic" else 5),
                )


def write_everything(results: Path) -> None:
    """All matrices, as a finished experiment."""
    write_matrix(results)
    write_cpu(results)
    write_buffer(results)


def figure_of(word: str, table: Any, **study: Any) -> Figure:
    """The first figure that a drawing makes of a table of cells of matrix m."""
    sweep = Sweep(SimpleNamespace(name="m"), (), Study("made-up", "Made up", **study), FOOTER)  # type: ignore[arg-type]
    return next(iter(drawing_of(word).draw(Sheet(sweep, table)))).figure


def drawn(results: Path, word: str) -> Drawn:
    """What a drawing makes of the first matrix of made-up results."""
    matrices = to_matrices(load_results(results, "made-up").runs)
    sweep = Sweep(matrices[0], matrices, Study("made-up", "Made up"), "fixture")
    return draw_matrix(drawing_of(word), sweep, "made-up")


def labelled(figure: Figure, label: str, panel: int = 0) -> list[Any]:
    """The lines of a panel that are called so."""
    return [line for line in figure.axes[panel].lines if line.get_label() == label]


def check_texts(figure: Figure) -> set[int]:
    """That no text is small or outside of the figure; the ticks beyond an axis's ends, which nobody
    sees.
    """
    figure.canvas.draw()
    renderer, page = figure.canvas.get_renderer(), figure.bbox  # type: ignore[attr-defined]
    unseen = {
        id(tick.label1)
        for ax in figure.axes
        for axis in (ax.xaxis, ax.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    for text in figure.findobj(lambda artist: hasattr(artist, "get_fontsize")):
        if text.get_text() and text.get_visible() and id(text) not in unseen:
            box = text.get_window_extent(renderer)
            assert text.get_fontsize() >= 8, text
            assert page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1, text
            assert page.y0 - 1 <= box.y0 and box.y1 <= page.y1 + 1, text
    return unseen


def write_fixture(results: Path) -> None:
    """The small fixture that is checked in: one folder of every kind."""
    write_run(results, cell("cubic", 1, "direct"), goodput_mbit=111.0, wan=7, name="ok-direct")
    write_run(results, cell("cubic", 16), goodput_mbit=1111.0, retr=800, name="ok-tunnel-cubic")
    write_run(results, cell("bbr", 16), goodput_mbit=2222.0, retr=900, wan=44, name="ok-tunnel-bbr")
    write_run(results, cell("bbr", 128), goodput_mbit=333.0, retr=20000, idle=0.01, name="degraded")
    write_run(
        results, cell("cubic", 128), goodput_mbit=9999.0, retr=1, verdict="invalid", name="invalid"
    )
    write_run(
        results,
        cell("cubic", 4),
        outcome="failed",
        error="the tunnel's end on client died (exit status 9)",
        log="fixture line 1\nfixture: the last line before the end\n",
        name="failed",
    )
    write_run(
        results,
        cell("bbr", 4),
        outcome="unsupported",
        error="congestion control bbr: this kernel has reno, cubic",
        name="unsupported",
    )
    write_run(results, cell("bbr", 1), outcome=None, name="unfinished")
    folder = write_run(results, cell("cubic", 1), name="corrupt-flows")
    (folder / "flows.json").write_text('{"flows": [{"bytes":')
    folder = write_run(results, cell("cubic", 1, "gost+wss"), name="corrupt-run")
    (folder / "run.json").write_text("")


if __name__ == "__main__":
    shutil.rmtree(FIXTURE, ignore_errors=True)
    write_fixture(FIXTURE)
