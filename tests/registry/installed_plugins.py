# SPDX-License-Identifier: MIT
"""A package of a stranger's with a plugin of each type, as pip would install it."""

from pathlib import Path

from tests.registry.contributed import FORWARDER, PAIRS

TRAFFIC = '''"""burst: iperf3 once more."""

from gostlab.registry.traffic import TrafficKind
from gostlab.traffic._iperf3 import client_argv, server_argv
from gostlab.traffic.tcp import read as read

TRAFFIC = TrafficKind(
    name="burst",
    says="iperf3 once more",
    program="iperf3",
    report=("plugin-burst", ".json"),
    has_streams=True,
    by_iperf3=True,
    server_ends=True,
    charged=("iperf3/sender", "iperf3/receiver"),
)
server_command = server_argv


def client_command(context, flow):
    return client_argv(context, flow)
'''
QDISC = '''"""short: the kernel's pfifo."""

from gostlab.qdiscs.base import Queue, queue_pkts
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(name="short", says="a pfifo", option="NET_SCHED", kernel_name="pfifo")


def build(kind, direction, seed):
    return Queue("pfifo", queue_pkts(direction))
'''
IMPORTER = '''"""Read a rate and a round trip from a line."""

import re

from gostlab.importers.base import (
    DirectionRecording, Evidence, ImportFormat, PathRecording, UnreadableRecording
)


def read(recordings):
    match = re.fullmatch(r"(\\d+) Mbit/s, (\\d+) ms\\s*", recordings[0].text)
    if match is None:
        raise UnreadableRecording(f"{recordings[0].label}: no line like 5 Mbit/s, 20 ms")
    rate, rtt = map(int, match.groups())
    return PathRecording(
        length_s=1.0,
        forward=DirectionRecording(rate_bps=rate * 1_000_000),
        reverse=DirectionRecording(rate_bps=rate * 1_000_000),
        rtt_ms=float(rtt),
        evidence=(
            Evidence(f"rate {rate} Mbit/s", "line 1", "forward"),
            Evidence(f"round trip {rtt} ms", "line 1", "round trip"),
        ),
    )


FORMAT = ImportFormat(
    "memo", "a rate and a round trip", ("the memo",), lambda text: "Mbit/s, " in text, read
)
'''
PLOT = '''"""pies: goodput as a pie."""

from gostlab.analysis.plotting.plot_registry import Drawing, ReportFigure, rows_with_runs
from gostlab.analysis.plotting.style import new_figure, in_report_style


@in_report_style
def plot_pies(table):
    figure, axes = new_figure(3)
    axes[0, 0].pie(table["goodput"])
    return figure


DRAWING = Drawing(
    "pies",
    caption="Pies of goodput, of all things.",
    draw=lambda sheet: [ReportFigure(plot_pies(sheet.rows))],
    shows=("cc",),
)
'''
PARTS = "from gostlab.registry.topology_parts import Topo, add_end, add_router, join\n\n\n"
# The modules of the package by their entry point's group.
MODULES = {
    "tunnels": ("forwarder", FORWARDER),
    "qdiscs": ("short", QDISC),
    "traffic": ("burst", TRAFFIC),
    "topologies": ("pairs", f'"""Pairs of hosts."""\n\n{PARTS}{PAIRS}'),
    "importers": ("memo", IMPORTER),
    "plots": ("pies", PLOT),
}


def install(site: Path, version: str = "1.2", package: str = "stranger", **modules: str) -> Path:
    """Install the package in a folder for PYTHONPATH; `modules` replace the text of a group's."""
    (site / package).mkdir(parents=True, exist_ok=True)
    (site / package / "__init__.py").write_text("")
    lines = []
    for group, (name, text) in MODULES.items():
        if modules and group not in modules:
            continue
        (site / package / f"{name}.py").write_text(modules.get(group, text))
        lines += [f"[gostlab.{group}]", f"{name} = {package}.{name}"]
    info = site / f"{package}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: gostlab-{package}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return site
