# SPDX-License-Identifier: MIT
"""A tunnel and a topology are one declaration each; half of one is a line before anything runs."""

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gostlab import sandbox
from gostlab.install.locate import Iproute2, MissingPart, OwnProgram, Parts, TunnelBinary
from gostlab.registry.folders import ROOT
from gostlab.registry.kernels import declared_kernels
from gostlab.registry.qdiscs import qdisc_kinds, qdisc_names
from gostlab.registry.topologies import topologies, topology_of
from gostlab.registry.traffic import traffic_kinds
from gostlab.registry.tunnels import GOST, TunnelKind, tunnel_kind, tunnel_kinds
from gostlab.sandbox import build_parts_json, require_programs
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput
from tests.asked import refusal, run_of, runs_of

TUNNEL_KIND = "from gostlab.registry.tunnels import TunnelKind\n"
DECLARATION = TUNNEL_KIND + 'TUNNEL = TunnelKind(name="mine", says="a pipe", program="socat")\n'
START = "def start(launch):\n    return None\n"
TOPO = "class Topo: ...\n"
RING = """class RingTopo(Topo):
    name = "ring"
    says = "three routers in a ring"
    sender = "h{}"
    receiver = "h{}"

    def build(self):
        pass
"""


QDISC = (
    "from gostlab.registry.qdiscs import QdiscKind\n"
    'QDISC = QdiscKind(name="red", says="x"{})\n\ndef build(direction, seed):\n    pass\n'
)
MARKS = QDISC.format(', option="NET_SCH_RED", marks{}')
TRAFFIC = (
    "from gostlab.registry.traffic import TrafficKind\n"
    'TRAFFIC = TrafficKind(name="x", says="x"{})\n'
)
SAYS_PIPE = DECLARATION.replace('says="a pipe"', 'says="a pipe", {}') + START


def read(what: Callable[[Path], object], folder: Path, text: str) -> Any:
    """What a file of declarations says."""
    file = folder / ("topo.py" if what is topologies else "mine.py")
    file.write_text(TOPO + text if what is topologies else text)
    return what(file if what is topologies else folder)


@pytest.mark.parametrize(
    ("what", "text", "says"),
    [
        (tunnel_kinds, DECLARATION, r"mine\.py: TUNNEL without a function start\(\)"),
        (tunnel_kinds, START, r"mine\.py: start\(\) without TUNNEL"),
        (tunnel_kinds, TUNNEL_KIND + 'TUNNEL = TunnelKind(name="mine")\n', r"mine\.py:2: .*'says'"),
        (tunnel_kinds, SAYS_PIPE.format('colour="red"'), r"mine\.py:2: .*'colour'"),
        (tunnel_kinds, DECLARATION.replace('"mine"', "1"), r"mine\.py:2: name: 1 is not a str"),
        (tunnel_kinds, DECLARATION.replace('"mine"', '""'), r"mine\.py:2: name is empty"),
        (tunnel_kinds, SAYS_PIPE.format("over=made_up()"), r"mine\.py:2: NameError: .*made_up"),
        (tunnel_kinds, "import sys\n\nsys.exit(3)\n", r"mine\.py:3: SystemExit: 3"),
        (tunnel_kinds, "import no_such_module\n", r"mine\.py:1: ModuleNotFoundError: .*no_such"),
        (tunnel_kinds, SAYS_PIPE.format('legs=("app", "outer")'), "legs: 'outer' is none of app,"),
        (tunnel_kinds, SAYS_PIPE.format('over="icmp"'), "over: 'icmp' is neither tcp nor udp"),
        (tunnel_kinds, SAYS_PIPE.format('legs=("inner",)'), "it runs over tcp, and has no leg wan"),
        (tunnel_kinds, "TUNNEL = 3\n" + START, "TUNNEL is not TunnelKind"),
        (tunnel_kinds, "TUNNEL = (\n", r"mine\.py:1: SyntaxError: '\(' was never closed"),
        (topologies, RING.replace('    name = "ring"\n', ""), "RingTopo: .*'name'"),
        (topologies, RING.replace('    sender = "h{}"\n', ""), "RingTopo: .*'sender'"),
        (topologies, RING.replace("def build", "def bild"), "RingTopo: no function build"),
        (topologies, RING + "    colour = 1\n", "RingTopo: .*'colour'"),
        (topologies, RING + '    size = ("rings",)\n', "size: 'rings' is none of"),
        (topologies, RING + '    tunnel_near = "h1"\n', "belong together"),
        (topologies, RING.replace('"ring"', '"ri" + x'), r"topo\.py:3: NameError: .*'x'"),
        (topologies, RING + RING.replace("RingTopo", "Other"), "two topologies are called ring"),
        (
            qdisc_kinds,
            QDISC.partition("def")[0].format(', option="X"'),
            r"mine\.py: QDISC without a function",
        ),
        (qdisc_kinds, "def build(direction, seed): ...\n", r"mine\.py: build\(\) without QDISC"),
        (qdisc_kinds, QDISC.format(""), r"mine\.py:2: option is missing: .*kconfig\.fragment"),
        (qdisc_kinds, MARKS.format("=True"), r"mine\.py:2: .*marks_at=.*pkt_sched\.h"),
        (qdisc_kinds, MARKS.format("_at=12"), r"mine\.py:2: .*needs marks=True"),
        (qdisc_kinds, QDISC.format(', option="X", use="q"'), r"mine\.py:2: use: 'q' is neither"),
        (traffic_kinds, TRAFFIC.format(', program="x"'), "without a function client_command"),
        (
            traffic_kinds,
            "def client_command(order, flow): ...\n",
            r"client_command\(\) without TRAFFIC",
        ),
        (traffic_kinds, TRAFFIC.format("") + "def client_command(order, flow): ...\n", "'program'"),
    ],
)
def test_half_a_declaration_is_one_line_that_names_its_place(
    tmp_path: Path, what: Callable[[Path], object], text: str, says: str
) -> None:
    assert re.search(says, refusal(lambda: read(what, tmp_path, text)))


def kinds(folder: Path, **files: str) -> dict[str, TunnelKind]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return tunnel_kinds(folder)


# -- tunnels


def test_no_tunnel_comes_first_and_gosts_own_names_beside_the_thesiss() -> None:
    names = tuple(tunnel_kinds())
    assert names[0] == "direct"
    at = names.index("gost+ws")
    assert names[at : at + 4] == ("gost+ws", "relay+ws", "gost+wss", "relay+wss")
    assert tunnel_kind("relay+wss") is tunnel_kind("gost+wss")
    assert tunnel_kind("gost+ws").program == GOST and tunnel_kind("direct").is_direct


def test_a_file_in_the_folder_is_a_tunnel(tmp_path: Path) -> None:
    found = kinds(tmp_path, mine=DECLARATION + START, helper="def start_both():\n    pass\n")

    assert list(found) == ["mine"]
    mine = found["mine"]
    assert (mine.module, mine.program, len(mine.legs)) == ("mine", "socat", 3)


def test_two_tunnels_of_one_name_are_refused(tmp_path: Path) -> None:
    spelled = DECLARATION.replace("mine", "other").replace(")", ', spellings=("mine",))')

    with pytest.raises(BadInput, match=r"other\.py and mine\.py are both called mine"):
        kinds(tmp_path, mine=DECLARATION + START, other=spelled + START)


def test_a_run_keeps_the_name_by_which_its_tunnel_was_asked_for() -> None:
    asked = {name: run_of(tunnel=name) for name in ("gost+wss", "relay+wss")}

    assert [run.tunnel for run in asked.values()] == ["gost+wss", "relay+wss"]
    assert asked["relay+wss"].tcp_memory_mib == asked["gost+wss"].tcp_memory_mib


# -- topologies


def test_the_topologies_are_topo_pys_classes_in_their_order() -> None:
    shaped = ("parking-lot", "ring", "mesh")
    assert tuple(topologies()) == ("tunnel", "dumbbell", "router", "star", *shaped)
    assert topology_of("star").path_per_site and topology_of("dumbbell").own_rtts
    with_tunnels = [name for name in topologies() if topology_of(name).tunnel_near]
    assert with_tunnels == ["tunnel", "dumbbell", *shaped]


def test_a_class_is_a_topology(tmp_path: Path) -> None:
    ring = read(topologies, tmp_path, RING)["ring"]

    assert (ring.sender, ring.numbers_hosts) == ("h{}", True)


def test_no_other_module_knows_a_topology_by_name() -> None:
    """A comparison with a topology's name would have to be found by whoever adds one."""
    comparison = re.compile(  # `tunnel` is a setting's name too
        r"""topology\S* [!=]= *["']tunnel["']|[!=]= *["'](?:dumbbell|router|star)["']"""
    )
    for file in (*(ROOT / "gostlab").rglob("*.py"), *(ROOT / "analysis").rglob("*.py")):
        found = comparison.search(file.read_text(encoding="utf-8"))
        assert found is None, f"{file.relative_to(ROOT)}: {found[0]}"


def test_a_flow_runs_between_the_hosts_that_its_topology_names() -> None:
    text = """
name: mine
title: mine
settings: {profile: plain-100ms, duration: 5s}
matrices:
  - {name: one, factors: {topology: [tunnel, dumbbell]}}
  - {name: two, settings: {topology: star, sites: [plain-100ms, la-hamina]}}
"""
    receivers = {run.topology: run.flows[0].receiver for run in runs_of(text)}

    assert receivers == {"dumbbell": "r1", "star": "site1", "tunnel": "target"}


# -- queueing disciplines


def test_a_bottleneck_is_netem_or_a_token_bucket_over_a_queue() -> None:
    assert set(qdisc_names("bottleneck")) >= {"netem", "tbf", "htb"}
    assert set(qdisc_names("queue")) >= {"fifo", "codel", "fq_codel"}
    assert not set(qdisc_names("bottleneck")) & set(qdisc_names("queue"))


def test_the_kernel_is_built_with_every_queueing_discipline_and_no_older_one_promises_it() -> None:
    options = (ROOT / "kernel/kconfig.fragment").read_text(encoding="utf-8").splitlines()
    for kind in qdisc_kinds().values():
        assert f"CONFIG_{kind.option}=y" in options, (
            f"{kind.module}.py: kernel/kconfig.fragment lacks {kind.option}"
        )
        for kernel in declared_kernels().values():
            missing = kernel.version < kind.since
            assert missing == (kind.option in kernel.may_be_missing), (kind.name, kernel.name)


# -- what a tunnel needs

NOTHING = Parts(None, None, Iproute2(None), None, None, None)
WITH_IPERF3 = replace(NOTHING, iperf3={"3.18": OwnProgram(Path("iperf3"), "3.18-1", "0123")})


OF_NOTHING = hashlib.sha256().hexdigest()


def with_gosts(*versions: str, sha256: str = OF_NOTHING) -> Parts:
    """Parts with GOSTs of some versions, empty files, and the lab's relay."""
    binaries = {
        each: TunnelBinary(Path(os.devnull), GOST, f"gost {each}, go1.26.8", sha256)
        for each in versions
    }
    return replace(WITH_IPERF3, gosts=binaries, relay=Path("/opt/relay"))


OLD_GOST = "3.0.0-rc8"


@pytest.mark.parametrize(
    ("asked", "there", "says"),
    [
        ({}, WITH_IPERF3, ""),
        ({"tunnel": "relay+wss"}, WITH_IPERF3, "neither GOST nor the lab's relay"),
        ({}, NOTHING, "iperf3: 3.18: the lab's own is not there: run ./lab setup"),
        (
            {"iperf3": "system"},
            NOTHING,
            "no iperf3 is installed: install it, or ask for one of the",
        ),
        # a transport, or a switch, that a GOST lacks
        (
            {"tunnel": "gost+wt", "gost": OLD_GOST},
            with_gosts(OLD_GOST, "3.2.6"),
            "gost+wt: GOST has it from 3.0.0 on: take gost: 3.2.6",
        ),
        (
            {"tunnel": "gost+wt", "gost": OLD_GOST},
            with_gosts(OLD_GOST),
            "from 3.0.0 on: ./lab gost add FILE brings one",
        ),
        ({"tunnel": "gost+quic", "gost": OLD_GOST}, with_gosts(OLD_GOST, "3.3.0"), ""),
        ({"tunnel": "gost+ws", "gost": OLD_GOST}, with_gosts(OLD_GOST, "2.11.5"), ""),
        (
            {"tunnel": "gost+ws", "gost": OLD_GOST},
            with_gosts(OLD_GOST, sha256="0" * 64),
            "gost: 3.0.0-rc8: /dev/null is not what was added: ./lab gost add it again",
        ),
        (
            {"tunnel": "gost+ws", "nagle": "on", "gost": "3.2.6"},
            with_gosts("3.2.6"),
            "nagle: gost 3.2.6, go1.26.8 has no switch for TCP_NODELAY: take gost: relay",
        ),
    ],
)
def test_a_program_that_is_missing_or_cannot_is_named_before_anything_runs(
    asked: dict[str, str], there: Parts, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "root_of_run", lambda _: None)  # the lab's root brings an iperf3
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    runs = [run_of(), run_of(**asked)] if there != NOTHING else [run_of(**asked)]
    if says:
        assert says in refusal(lambda: require_programs(runs, there), MissingPart)
    else:
        require_programs(runs, there)


def test_only_a_run_through_a_tunnel_is_handed_its_program() -> None:
    assert build_parts_json(WITH_IPERF3)["tunnel"] is None


def test_a_run_of_http_alone_needs_no_iperf3() -> None:
    run = replace(run_of(), flows=[replace(run_of().flows[0], traffic_type="http", size_bytes=1)])

    require_programs([run], NOTHING)


def test_a_run_from_before_the_setting_had_the_systems_iperf3() -> None:
    values = {key: value for key, value in run_of().to_json().items() if key != "iperf3"}

    assert RunSpec.from_json(values).iperf3 == "system"


def test_a_vpn_over_udp_meets_the_path_with_the_connection_inside(tmp_path: Path) -> None:
    said = SAYS_PIPE.format('legs=("inner",), over="udp"')
    found = kinds(tmp_path, mine=said)["mine"]

    assert found.is_vpn and found.path_leg == "inner" and len(found.legs) == 1
    assert tunnel_kind("gost+ws").path_leg == "wan" and not tunnel_kind("gost+ws").is_vpn
