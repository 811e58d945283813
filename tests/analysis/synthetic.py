# SPDX-License-Identifier: MIT
"""Made-up result folders, to the letter of the contract between measuring and analysing.

Their numbers are round on purpose and env.json says lab version "fixture": nothing here was
measured.

    python3 tests/analysis/synthetic.py        writes tests/analysis/fixture again
"""

import gzip
import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, TypeVar

import yaml
from matplotlib.figure import Figure
from matplotlib.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gostlab.analysis.load.run_folder import RunFolder, load_run
from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import Study
from gostlab.analysis.plotting.plot_registry import (
    FigureInput,
    MatrixInput,
    PlotResult,
    draw_matrix,
    find_drawing,
)
from gostlab.analysis.stats.cells import MatrixResults, to_matrices
from gostlab.results import EPOCH
from gostlab.results.format import SCHEMA
from gostlab.spec.expand import single_run
from gostlab.spec.experiment import load_experiment
from gostlab.spec.run_spec import RunSpec

FIXTURE = Path(__file__).resolve().parent / "fixture"
FOOTER = (
    "FIXTURE, NOT MEASURED · no tunnel · Linux 0.0.0-fixture (HZ 250) · virtual clock, 5 µs per"
    " system call · lab fixture"
)
BDP_PKTS = 27538  # 1967 Mbit/s for 168 ms in packets of 1500 bytes

# The thesis's receiver rates and its Retr, as its experiment's file gives them.
PUBLISHED = tuple(replace(each, why="") for each in load_experiment("thesis-tunnel").published)

STUDY = Study(
    "made-up",
    "Made-up tunnel matrix",
    "Does BBR carry more than CUBIC through a tunnel?",
    "Nothing here was measured.",
    (("main", "The matrix"), ("cpu", "The CPU"), ("buffer", "The buffer")),
    published=PUBLISHED,
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
    """run.json, as a RunSpec writes it; `buffer_pkts`, `rate_bps`, `rtt_ms` and `loss` are
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
    return RunSpec.from_json(run).to_json()


def flow(name: str, run: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """One entry of run.json's flows: the run's own values but for what changes."""
    of = run or description()
    return PLAIN.to_json()["flows"][0] | {
        "name": name,
        **{key: of[key] for key in ("cc", "streams", "direction", "duration_s", "buffers")},
        "rtt_ms": 2 * of["path"]["forward"]["delay_ms"],
        **changes,
    }


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
    outcome: str | None = "ok",
    error: str | None = None,
    log: str = "fixture: nothing ran\n",
    name: str | None = None,
    **measured: Any,
) -> Path:
    """A run's folder. `outcome` None: no status.json; measured: as write_measured takes it."""
    folder = results / str(run["experiment"]) / (name or run_name(run))
    folder.mkdir(parents=True)
    put(folder, "run.json", run)
    (folder / "commands.sh").write_text(
        "#!/bin/sh\n# fixture: what the lab would have run\nip netns add client\n"
        "iperf3 -c 127.0.0.1 -p 443 -t 30 -P 1 -i 1 -J\n"
    )
    (folder / "log.txt").write_text(log)
    if outcome == "ok":
        write_measured(folder, run, **measured)
    if outcome is not None:
        ended = {"schema": SCHEMA, "epoch": EPOCH, "outcome": outcome, "error": error}
        took = {"wall_s": 11.0, "guest_s": 33.0, "finished": "2001-01-01T00:00:00Z"}
        put(folder, "status.json", ended | took)
    return folder


def write_repetitions(results: Path, cc: str, *goodputs_mbit: float, **measured: Any) -> None:
    """Runs of a cell of 16 streams, named like bbr-1; each has its own goodput."""
    for repetition, goodput_mbit in enumerate(goodputs_mbit, 1):
        run = cell(cc, 16, repetition=repetition)
        write_run(results, run, goodput_mbit=goodput_mbit, name=f"{cc}-{repetition}", **measured)


def measured_flow(
    asked: Mapping[str, Any], goodput_mbit: float, retransmits: int | None
) -> dict[str, Any]:
    """One entry of flows.json; UDP has the rate it was told."""
    udp = asked["kind"] == "udp"
    bps = asked["rate_bps"] if udp else goodput_mbit * 1e6
    size = int(bps * asked["duration_s"] / 8)
    return {
        **{key: asked[key] for key in ("name", "kind")},
        "started_s": asked["start_s"],
        "ended_s": asked["start_s"] + asked["duration_s"],
        "goodput_bps": bps,
        "bytes": size,
        "seconds": asked["duration_s"],
        "retransmits": retransmits,
        "lost_datagrams": 0 if udp else None,
        "sent_datagrams": int(bps * asked["duration_s"] / 8 / 1448) if udp else None,
    }


# What stays the same in every sample and record.
LEG = yaml.safe_load("{flow: flow1, busy_ms: 1000.0, rwnd_limited_ms: 0.0, sndbuf_limited_ms: 0.0}")
NSTAT = yaml.safe_load("{TcpExtTCPOFOQueue: 0, TcpExtTCPDSACKRecv: 0, TcpExtTCPDSACKOfoRecv: 0}")
SOCKET = yaml.safe_load("""{host: client, leg: wan, flow: flow1, end: near, peer: "10.0.4.2:443", ssthresh_pkts: null,
 rttvar_ms: 1.0, min_rtt_ms: 168.0, rto_ms: 372.0, unacked_pkts: 100, bytes_received: 0, lost_pkts: 0,
 reordering: 3, reord_seen: 0, snd_wnd_bytes: 3145728, mss: 1448, segments_retransmitted: 0,
 rwnd_limited_ms: 0.0, sndbuf_limited_ms: 0.0, bbr: null}""")
QUEUE = yaml.safe_load(
    "{node: wan_a, dev: wan_a-eth1, role: bottleneck, direction: forward, drops: 0}"
)
ENV = yaml.safe_load("""{kernel: 0.0.0-fixture, kernel_build: "#0 fixture", hz: 250, iproute2: "0.0", iperf3: "3.12",
 lab: {version: fixture, commit: null}, mininet: 2.3.0, python: 3.11.2, tcp_mem_pages: ["1", "2", "3"],
 sysctls: {}, offloads: {}, qdiscs_before: {}, qdiscs_after: {}, acks: null,
 host: {kernel: 0.0.0-fixture, cpu: none}}""")


def check_of(name: str, verdict: str, asked: Any, got: Any, unit: str, reason: str) -> Any:
    """One check of fidelity.json; only one that is not good has its reason."""
    values = {"name": name, "verdict": verdict, "asked": asked, "got": got, "unit": unit}
    return values | {"reason": "" if verdict == "ok" else reason}


def write_measured(
    folder: Path,
    run: Mapping[str, Any],
    *,
    goodput_mbit: float = 100.0,
    retr: int = 10,
    wan: int = 0,
    idle: float = 0.5,
    verdict: str = "ok",
    reason: str = "",
    program: str = "fixture relay 0",
    seconds: int = 4,
    env: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """What a run that ended well leaves."""
    bps, direct, streams = goodput_mbit * 1e6, run["tunnel"] == "direct", run["streams"]
    if "flows" in run:
        share = goodput_mbit / max(1, sum(each["kind"] != "udp" for each in run["flows"]))
        again = wan if direct else retr
        flows = [
            measured_flow(each, share, again if each["kind"] == "tcp" else None)
            for each in run["flows"]
        ]
        put(folder, "flows.json", {"flows": flows})
    cc = run["cc"]
    sent = {"bits_per_second": bps * 1.02, "retransmits": wan if direct else retr}
    report = {"end": {"sum_sent": sent, "sum_received": {"bits_per_second": bps}}}
    put(folder, "iperf3.json", report)
    put(folder, "iperf3-server.json", {"start": {}, "intervals": [], "end": {}})
    segments = max(1, int(bps * run["duration_s"] / 8 / 1448))
    legs = [("wan", "client", wan)]
    if not direct:
        legs = [("app", "client", retr), *legs, ("exit", "target", 0)]
    out = {"segments_out": segments, "data_segments_out": segments, "bytes_acked": segments * 1448}
    out |= {"sockets": streams, "cc": [cc]}
    counted = [
        LEG
        | {"leg": leg, "sender": sender, "loopback": leg != "wan", **out}
        | {"segments_retransmitted": again}
        for leg, sender, again in legs
    ]
    ends = {
        host: NSTAT
        | {"TcpRetransSegs": again, "TcpOutSegs": segments, "TcpInSegs": heard, **queued}
        for host, again, heard, queued in (
            ("client", sum(again for *_, again in legs), segments // 2, {}),
            ("target", 0, segments, {"TcpExtTCPOFOQueue": 3 * wan}),
        )
    }
    put(folder, "legs.json", {"legs": counted, "nstat": ends, "closed_sockets_missed": False})
    sockets = [
        SOCKET
        | dict.fromkeys(("data_segments_out", "delivered_pkts", "segments_out"), 1000 * t)
        | dict.fromkeys(("pacing_rate_bps", "delivery_rate_bps"), int(bps))
        | {"t_s": float(t), "local": f"10.0.1.1:{40000 + s}", "cc": cc, "bytes_acked": 1448000 * t}
        | {"cwnd_pkts": 100 * t + 10 * s, "srtt_ms": 166.0 + 2 * t, "busy_ms": 1000.0 * (t - 1)}
        | {"delivered_pkts": 1000 * t + run["seed"]}  # runs of two seeds are no copies
        for t in range(1, seconds + 1)
        for s in range(min(streams, 3))
    ]
    put_lines(folder, "sockets", sockets)
    on_wire = int(bps / 8 * 1514 / 1448)
    queues = [
        QUEUE
        | {"t_s": t + 1.0, "backlog_pkts": 50 * t, "backlog_bytes": 75000 * t}
        | {"sent_pkts": 1000 * t, "sent_bytes": on_wire * t}
        for t in range(seconds)
    ]
    put_lines(folder, "queues", queues)
    put_lines(folder, "changes", [])
    hosts = [
        {"t_s": float(t), "tcp_memory_mib": 1.0}
        | {"cpu_busy_s": round((1 - idle) * t, 4), "cpu_idle_s": round(idle * t, 4)}
        for t in range(1, seconds + 1)
    ]
    put_lines(folder, "hosts", hosts)
    starved, invalid = idle < 0.05, verdict == "invalid"
    far = reason or "the idle path is +831.000 ms off its configured round trip"
    rtt = ("invalid", 168.0, 999.0) if invalid else ("ok", 168.0, 168.0)
    busy = ("degraded" if starved else "ok", 0.05, idle, "share")
    checks = [
        check_of("idle_rtt_before", *rtt, "ms", far),
        check_of("cc_on_wan_sockets", "ok", cc, [cc], "name", ""),
        check_of("cpu_idle_share", *busy, f"the CPU was idle for only {idle:.1%} of the load"),
    ]
    if verdict == "degraded" and not starved:
        short = reason or "3 s is less than 20 round trips of 168 ms"
        checks.append(check_of("run_length", "degraded", 30.0, 3.0, "s", short))
    judged = "degraded" if starved and verdict == "ok" else verdict
    put(folder, "fidelity.json", {"verdict": judged, "checks": checks})
    tunnel = {"kind": "relay", "version": program, "path": "/nowhere/relay", "sha256": "0f" * 32}
    as_asked = {key: run[key] for key in ("machine", "clock", "syscall_cost_us")}
    made = {"cc": dict.fromkeys(("client", "gost", "target"), cc)}
    made |= {"tunnel": None if direct else tunnel}
    put(folder, "env.json", {**ENV, **as_asked, **made, **env})


N = TypeVar("N", int, float)
Over = Callable[[float], N] | N


def over_time(value: Over[N]) -> Callable[[float], N]:
    return value if callable(value) else lambda t: value


def write_over_time(
    folder: Path,
    run: Mapping[str, Any],
    rates: Mapping[str, Over[float]],
    *,
    windows: Mapping[str, Over[int]] = MappingProxyType({}),
    sample_s: float = 0.1,
) -> None:
    """sockets.jsonl of flows that go at given rates (Mbit/s, or what it is at a time), one row per
    socket and sample, evenly over its sockets.

    A UDP flow's rate goes into its receiver's report.
    """
    rows = []
    for each in run["flows"]:
        rate, start = over_time(rates[each["name"]]), each["start_s"]
        window = over_time(windows.get(each["name"], 100))
        if each["kind"] == "udp":
            sums = [
                {"start": float(t), "end": t + 1.0, "seconds": 1.0, "lost_packets": 0}
                | {"bits_per_second": rate(start + t) * 1e6}
                for t in range(int(each["duration_s"]))
            ]
            report = {"intervals": [{"sum": each_sum} for each_sum in sums]}
            receiver = "-server" if each["direction"] == "upload" else ""
            put(folder, f"iperf3-{each['name']}{receiver}.json", report)
            continue
        delivered, t_s = 0.0, start
        while t_s < start + each["duration_s"] - sample_s / 2:
            delivered += rate(t_s + sample_s / 2) * 1e6 / 8 * sample_s / each["streams"] / 1000
            t_s = round(t_s + sample_s, 6)
            cwnd = window(t_s)
            rows += [
                {"t_s": t_s, "host": each["sender"], "leg": "wan", "flow": each["name"]}
                | {"local": f"10.0.0.1:{stream}", "peer": f"10.0.1.1:{each['name']}"}
                | {"cc": each["cc"], "cwnd_pkts": cwnd, "ssthresh_pkts": None, "bbr": None}
                | {"srtt_ms": 10.0 + stream, "delivered_pkts": delivered, "mss": 1000}
                for stream in range(each["streams"])
            ]
    put_lines(folder, "sockets", sorted(rows, key=lambda row: row["t_s"]))


def write_acks(
    folder: Path, rows: Iterable[tuple[Any, ...]], ssthresh: str = "snd_ssthresh_pkts"
) -> None:
    """acks.csv.gz from (t_s, flow, cwnd, ssthresh or ""); `ssthresh` is its column's name."""
    lines = [
        f"t_s,flow,cwnd_pkts,{ssthresh},srtt_ms,snd_wnd_bytes,inflight_bytes,acked_bytes",
        *(
            f"{t_s},{name},{cwnd},{threshold},10.0,65536,{cwnd * 1000},{round(1e6 * float(t_s))}"
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
    plain = {"topology": "dumbbell", "tunnel": "direct", "rate_bps": 100_000_000, "rtt_ms": 10.0}
    plain |= {"sample_ms": 100.0, "matrix": "fair", "duration_s": 60.0}
    base = description(**plain | changes)
    asked = [
        flow(f"flow{index}", base, sender=f"s{index}", receiver="r1", **each)
        for index, each in enumerate(flows, 1)
    ]
    return {**base, "flows": asked}


def put(folder: Path, name: str, value: Any, indent: int | None = None) -> None:
    """A JSON file as the lab writes it, but in one line: json indents in Python, not in C."""
    said = json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False) + "\n"
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
    factors = {"cc": cc, "streams": streams, "tunnel": tunnel}
    return description(**factors, **repeated(repetition), factors=factors, **changes)


def repeated(repetition: int) -> dict[str, int]:
    """A repetition, and its seed."""
    return {"repetition": repetition, "seed": 1000 + repetition}


def write_at(
    results: Path,
    levels: Mapping[str, Any],
    repetition: int = 1,
    asked: Mapping[str, Any] = MappingProxyType({}),
    **measured: Any,
) -> Path:
    """The folder of a run at these levels of its factors; `asked`: what it asks for besides."""
    own = {name: levels[name] for name in ("cc", "streams", "tunnel") if name in levels}
    if str(levels.get("loss")).endswith("%"):
        own["loss"] = {"model": "random", "p": float(levels["loss"][:-1]) / 100}
    if "rtt" in levels:
        own["rtt_ms"] = float(levels["rtt"].removesuffix("ms"))
    run = description(**own, **repeated(repetition), factors=dict(levels), **asked)
    name = "-".join([*map(str, levels.values()), f"r{repetition}"])
    return write_run(results, run, name=name, **measured)


def write_matrix(results: Path, repetitions: int = 6) -> None:
    """{cubic, bbr} × three tunnels × {1, 4, 16, 128}: round numbers, 128 streams starved of CPU,
    one run invalid, one failed.
    """
    rates = {1: 100, 4: 400, 16: 1600, 128: 500}
    died = {"outcome": "failed", "error": "the tunnel's end on client died (exit status 9)"}
    died["log"] = "fixture line 1\nfixture: panic at the last line\n"
    for tunnel, (cc, gain), (streams, rate), repetition in itertools.product(
        ("direct", "gost+ws", "gost+wss"),
        (("cubic", 1.0), ("bbr", 1.1)),
        rates.items(),
        range(1, repetitions + 1),
    ):
        run = cell(cc, streams, tunnel, repetition)
        if (tunnel, cc, streams, repetition) == ("gost+wss", "bbr", 4, 1):
            write_run(results, run, **died)
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
    for (cc, gain), streams, repetition in itertools.product(
        (("cubic", 1.0), ("bbr", 1.1)), (16, 128), range(1, repetitions + 1)
    ):
        factors = {"cc": cc, "streams": streams}
        asked = {**factors, **repeated(repetition)}
        for cost in (0.0, 2.0, 5.0, 20.0):
            idle = 0.9 - cost * streams / 200
            levels = {**factors, "syscall_cost": f"{cost:g}us"}
            run = description(matrix="cpu", syscall_cost_us=cost, factors=levels, **asked)
            goodput_mbit = (1800 if idle > 0 else 600) * gain + repetition * 10
            write_run(results, run, goodput_mbit=goodput_mbit, idle=max(idle, 0.0))
        real = {"matrix": "real-clock", "clock": "real", "syscall_cost_us": 0.0}
        run = description(**real, factors=factors, **asked)
        write_run(results, run, goodput_mbit=700 * gain + repetition * 40, idle=0.02)


def write_buffer(results: Path, repetitions: int = 6) -> None:
    """A sweep of the bottleneck's buffer at 16 streams; cubic climbs with it, bbr does not."""
    for level, cc, repetition in itertools.product(
        (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0), ("cubic", "bbr"), range(1, repetitions + 1)
    ):
        goodput = 600 + 450 * (2 + min(0.0, level - 1)) if cc == "cubic" else 1800.0
        asked = {"matrix": "buffer", "cc": cc, "streams": 16, **repeated(repetition)}
        asked |= {"buffer_pkts": int(level * BDP_PKTS)}
        run = description(**asked, factors={"cc": cc, "buffer": f"{level:g}bdp"})
        wan = int(200 / level) * (1 if cc == "cubic" else 5)
        write_run(results, run, goodput_mbit=goodput + 12 * repetition, wan=wan)


def write_everything(results: Path) -> None:
    """All matrices, as a finished experiment."""
    write_matrix(results)
    write_cpu(results)
    write_buffer(results)


def figure_of(word: str, table: Any, **study: Any) -> Figure:
    """The first figure that a drawing makes of a table of cells of matrix m."""
    sweep = MatrixInput(SimpleNamespace(name="m"), (), Study("made-up", "Made up", **study), FOOTER)  # type: ignore[arg-type]
    return next(iter(find_drawing(word).draw(FigureInput(sweep, table)))).figure


def loaded(folder: Path) -> RunFolder:
    """A run that ended well, read."""
    run = load_run(folder)
    assert isinstance(run, RunFolder) and run.state == "ok", run
    return run


def matrices_of(results: Path, experiment: str = "made-up") -> list[MatrixResults]:
    """The matrices of an experiment's results."""
    return to_matrices(load_results(results, experiment).runs)


def drawn(results: Path, word: str, experiment: str = "made-up", **study: Any) -> PlotResult:
    """What a drawing makes of the first matrix of an experiment's results."""
    matrices = matrices_of(results, experiment)
    sweep = MatrixInput(matrices[0], matrices, Study(experiment, "Made up", **study), "fixture")
    return draw_matrix(find_drawing(word), sweep, experiment)


def labelled(figure: Figure, label: str, panel: int | None = 0) -> list[Any]:
    """The lines of a panel, or of all of them, that are called so."""
    axes = figure.axes if panel is None else [figure.axes[panel]]
    return [line for ax in axes for line in ax.lines if line.get_label() == label]


def words_on(figure: Figure) -> list[str]:
    """Each text on a figure that says something."""
    found = [text.get_text() for text in figure.findobj(Text)]
    return [text for text in found if text]


def titles_of(figure: Figure) -> list[str]:
    """What stands above each panel, at its left."""
    return [ax.get_title(loc="left") for ax in figure.axes]


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


def write_contract(results: Path) -> Path:
    """The folder that is checked in, for people: what measuring writes and analysing reads."""
    measured = {"goodput_mbit": 2222.0, "retr": 900, "wan": 44}
    folder = write_run(results, cell("bbr", 16), name="ok-tunnel-bbr", **measured)
    for path in folder.glob("*.json"):
        put(folder, path.name, json.loads(path.read_text()), indent=1)
    return folder


def write_kinds(results: Path) -> None:
    """One folder of every kind."""
    write_contract(results)
    write_run(results, cell("cubic", 1, "direct"), goodput_mbit=111.0, wan=7, name="ok-direct")
    write_run(results, cell("cubic", 16), goodput_mbit=1111.0, retr=800, name="ok-tunnel-cubic")
    for name, cc, streams, measured in (
        ("degraded", "bbr", 128, {"goodput_mbit": 333.0, "retr": 20000, "idle": 0.01}),
        ("invalid", "cubic", 128, {"goodput_mbit": 9999.0, "retr": 1, "verdict": "invalid"}),
        ("failed", "cubic", 4, {"error": "the tunnel's end on client died (exit status 9)"}),
        ("unsupported", "bbr", 4, {"error": "congestion control bbr: this kernel has reno, cubic"}),
        ("unfinished", "bbr", 1, {"outcome": None}),
    ):
        ended: dict[str, Any] = {"outcome": name} if "error" in measured else {}
        if name == "failed":
            ended["log"] = "fixture line 1\nfixture: the last line before the end\n"
        write_run(results, cell(cc, streams), name=name, **ended, **measured)
    folder = write_run(results, cell("cubic", 1), name="corrupt-flows")
    (folder / "flows.json").write_text('{"flows": [{"bytes":')
    folder = write_run(results, cell("cubic", 1, "gost+wss"), name="corrupt-run")
    (folder / "run.json").write_text("")


if __name__ == "__main__":
    shutil.rmtree(FIXTURE, ignore_errors=True)
    write_contract(FIXTURE)
