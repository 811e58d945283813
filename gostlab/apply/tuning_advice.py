# SPDX-License-Identifier: MIT
"""Choose the best cell of some results, and say what makes real machines like it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab import api
from gostlab.analysis.stats.cells import Cell
from gostlab.analysis.stats.statistics import Summary
from gostlab.apply.tunnel_files import LOCAL_PORT, SERVER, TARGET, tunnel_files
from gostlab.errors import BadInput
from gostlab.registry.congestion_controls import IN_LINUX, parse_control
from gostlab.registry.tunnels import tunnel_kind
from gostlab.results import read_object
from gostlab.spec import units
from gostlab.spec.run_spec import RunSpec

SYSCTL_FILE = "/etc/sysctl.d/90-gostlab.conf"
MODULES_FILE = "/etc/modules-load.d/gostlab.conf"
APPLIED_SYSCTLS = ("congestion_control", "rmem", "wmem", "ecn")
DEFAULT_ECN = "2"
BY_DUPLICATE_ACKS = ("tcp_recovery = 0", "tcp_early_retrans = 0", "tcp_max_reordering = 127")
# Cells within this share of the fastest are as fast: then the shorter delay decides.
AS_FAST = 0.95
MAX_LISTED = 8


@dataclass(frozen=True)
class BestCell:
    """The cell to apply, with one of its runs, and why it was chosen."""

    cell: Cell
    run: RunSpec
    folder: Path
    reason: str


# -- the choice


def choose_cell(name: str, results: Path, where: Mapping[str, str] | None = None) -> BestCell:
    """Return a run's cell, or the best cell of an experiment or question.

    `where` has the levels that the cells must have. Raises BadInput.
    """
    folder = next((path for path in (Path(name), results / name) if path.is_dir()), None)
    if folder is None:
        runs = sorted(results.glob(f"*/{name}/run.json")) if name.isprintable() and name else []
        if len(runs) != 1:
            raise BadInput(
                f"{name}: no run, results folder or question (./lab try prints one: try-1a2b3c4d)"
            )
        folder = runs[0].parent
    is_run = (folder / "run.json").is_file()
    loaded = api.load(folder.parent if is_run else folder)
    cells = [cell for matrix in loaded.matrices for cell in matrix.cells if cell.counted]
    if where and cells:
        narrowed = [cell for cell in cells if matches_levels(cell, where)]
        if not narrowed:
            levels = "; ".join(cell.label for cell in cells[:MAX_LISTED])
            raise BadInput(
                f"--where {' '.join(where.values())}: no cell is so (there are: {levels})"
            )
        cells = narrowed
    if is_run:
        cells = [
            cell
            for cell in cells
            if folder.resolve() in [run.folder.resolve() for run in cell.runs]
        ]
    if not cells:
        raise no_cell_error(folder)
    best = best_cell(cells)
    example = best.counted[0].folder
    run = RunSpec.from_json(read_object(example / "run.json") or {})
    reason = "the run's own cell" if is_run else choice_reason(best, cells)
    return BestCell(best, run, example, reason)


def no_cell_error(folder: Path) -> BadInput:
    """Say why a results folder has no cell: it holds several results, or no run that counts."""
    inner = sorted({run.parent.parent.name for run in folder.glob("*/*/run.json")})
    if not inner or any(folder.glob("*/run.json")):
        return BadInput(f"{folder}: no run there counts (./lab report says why)")
    names = ", ".join(inner[:MAX_LISTED]) + (", …" if len(inner) > MAX_LISTED else "")
    return BadInput(f"{folder}: holds results, it is none: name one ({names})")


def matches_levels(cell: Cell, where: Mapping[str, str]) -> bool:
    levels = {name: str(value) for name, value in cell.factors}
    return all(levels.get(name) == value for name, value in where.items())


def distinct_paths(cells: Sequence[Cell]) -> set[tuple[object, ...]]:
    """Return the different paths of some cells."""
    runs = [cell.example for cell in cells]
    return {(run.profile, run.rate_mbit, run.rtt_ms, run.loss_p, run.buffer_pkts) for run in runs}


def best_cell(cells: Sequence[Cell]) -> Cell:
    """Return the fastest cell, or among those as fast the one with the shortest delay."""
    fastest = max(goodput(cell) for cell in cells)
    near = [cell for cell in cells if goodput(cell) >= AS_FAST * fastest]
    return min(near, key=lambda cell: (delay_ms(cell), -goodput(cell)))


def goodput(cell: Cell) -> float:
    summary = cell.summary("goodput")
    return summary.median if summary else 0.0


def delay_ms(cell: Cell) -> float:
    summary = cell.summary("srtt_p95_ms") or cell.summary("queue_delay_p95_ms")
    return summary.median if summary else float("inf")


def choice_reason(best: Cell, cells: Sequence[Cell]) -> str:
    """Return what the cell was compared with."""
    others = sorted((cell for cell in cells if cell is not best), key=goodput, reverse=True)
    if not others:
        return "the only cell"
    rival = others[0]
    paths = len(distinct_paths(cells))
    beware = f"; of {paths} different paths: --where FACTOR=LEVEL narrows" if paths > 1 else ""
    compared = f"{rival.label}: {goodput(rival):.4g} Mbit/s"
    if goodput(rival) >= AS_FAST * goodput(best):
        return f"as fast as the fastest, and the shortest delay of those ({compared}){beware}"
    return f"the fastest of {len(cells)} cells (next {compared}){beware}"


# -- the lines


def advice_lines(best: BestCell) -> Iterator[str]:
    """Yield what to type, by machine, with comments."""
    run, cell = best.run, best.cell
    speed = cell.summary("goodput")
    yield f"# {cell.label}: {describe_speed(speed)}; {best.reason}"
    yield f"# path: {describe_path(run)}"
    yield from sysctl_lines(best)
    yield from route_lines(run)
    tunnel = tunnel_files(run)
    if tunnel.lines:
        yield ""
        yield from tunnel.lines
    yield ""
    yield from verification_lines(run, tunnel.address, tunnel.port, best)
    yield ""
    yield from difference_lines(best)


def describe_speed(speed: Summary | None) -> str:
    if speed is None:
        return "no goodput"
    interval = (
        f", 95 % interval {speed.interval.low:.4g} – {speed.interval.high:.4g}"
        if speed.interval
        else ""
    )
    return f"{speed.median:.4g} Mbit/s (n = {speed.n}{interval})"


def describe_path(run: RunSpec) -> str:
    rtt_ms = run.path.forward.delay_ms + run.path.reverse.delay_ms
    rate = units.show_rate(run.path.forward.rate_bps)
    return f"{run.profile}, {rate}, {rtt_ms:g} ms ({run.direction}); as tc lines: --tc"


def sysctl_lines(best: BestCell) -> Iterator[str]:
    """Yield the sysctls of each machine as the run's kernel had them, and the file for them."""
    run = best.run
    installed = (read_object(best.folder / "env.json") or {}).get("sysctls") or {}
    by_text: dict[str, list[str]] = {}
    for host, values in installed.items():
        if host not in ("client", "target", "gost", "gost2", *run.hosts):
            continue
        if host.startswith("gost") and run.placement == "endpoint" and run.hops == 1:
            continue
        lines = [
            f"net.ipv4.tcp_{name} = {values[f'net.ipv4.tcp_{name}']}"
            for name in APPLIED_SYSCTLS
            if f"net.ipv4.tcp_{name}" in values
            and (name, values[f"net.ipv4.tcp_{name}"]) != ("ecn", DEFAULT_ECN)
        ]
        lines += [
            f"net.ipv4.{line}" for line in BY_DUPLICATE_ACKS if run.loss_detection == "dupacks"
        ]
        if run.pacing == "fq":
            lines.append("net.core.default_qdisc = fq")
        by_text.setdefault("\n".join(lines), []).append(host)
    for text, hosts in by_text.items():
        yield ""
        yield f"# {' and '.join(hosts)}: {SYSCTL_FILE}"
        yield from text.splitlines()
    modules = [control_module(cc) for cc in run.congestion_controls]
    built_in = [cc for cc in modules if cc in IN_LINUX and cc not in ("cubic", "reno")]
    if built_in:
        yield f"# {MODULES_FILE}: {', '.join(f'tcp_{cc}' for cc in built_in)}"
    load = "".join(f"modprobe tcp_{cc}; " for cc in built_in)
    yield f"# now: {load}sysctl --system"
    for cc in run.congestion_controls:
        if control_module(cc) not in IN_LINUX:
            yield f"# {cc} is not in Linux: build cc/{control_module(cc)}.c for your kernel"
        elif "(" in cc:
            yield f"# {cc}: its parameters are the lab's; Linux's module has none"


def control_module(cc: str) -> str:
    return parse_control(cc).name


def route_lines(run: RunSpec) -> Iterator[str]:
    """Yield the routes that give one destination its congestion control, as an alternative."""
    cc = control_module(run.cc)
    yield "# or for this path alone, on the machine that sends the data:"
    for leg, other in run.cc_by_end.items():
        yield f"#   {leg} has {other} of its own"
    peer = TARGET if tunnel_kind(run.tunnel).is_direct else SERVER
    yield f"# ip route replace {peer}/32 via GATEWAY dev DEVICE congctl {cc} # ip route get {peer}"


def verification_lines(run: RunSpec, address: str, port: int, best: BestCell) -> Iterator[str]:
    """Yield iperf3's commands that repeat the load, and the comparison with the lab."""
    flow = next((flow for flow in run.flows if flow.is_tcp), run.flows[0])
    yield "# check: iperf3 -s on the target; on the client"
    argv = [f"iperf3 -c {address}"] + ([f"-p {port}"] if port == LOCAL_PORT else [])
    skipped_s = run.measure_from_s if not run.measure_to_s else 0.0
    argv += [f"-t {flow.duration_s - skipped_s:g}"]
    argv += [f"-O {skipped_s:g}"] if skipped_s else []
    argv += [f"-P {flow.streams}"] if flow.streams > 1 else []
    argv += ["-R"] if flow.direction == "download" else []
    yield f"{' '.join(argv)} -i 1 -J > mine.json"
    yield f"./lab compare {best.folder.parent} mine.json"


def difference_lines(best: BestCell) -> Iterator[str]:
    """Yield what may be otherwise on real machines."""
    run, environment = best.run, read_object(best.folder / "env.json") or {}
    yield "# what may differ:"
    yield f"#   kernel: Linux {environment.get('kernel', '?')} here; yours: uname -r"
    yield (
        f"#   qdisc: the lab's hosts pace by {'fq' if run.pacing == 'fq' else 'TCP itself'}; yours:"
        " tc qdisc show (fq paces every sender, fq_codel and pfifo_fast leave it to TCP)"
    )
    yield f"#   super-packets: {'on' if run.offloads else 'off'} here; yours: ethtool -k DEVICE"
    yield (
        "#   memory: TCP had"
        f" {run.host_tcp_memory_mib or run.tcp_memory_mib} MiB here; yours: sysctl net.ipv4.tcp_mem"
    )
    yield f"#   iperf3 {environment.get('iperf3', '?')} here; yours: iperf3 --version"
    if run.measures_part:
        yield f"#   only {run.window_s[0]:g} s to {run.window_s[1]:g} s of the load count here"
    if run.changes:
        yield f"#   the path changed {len(run.changes)} times (./lab replay); tc lines do not"
