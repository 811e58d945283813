"""A tunnel and a topology are one declaration each; half of one is a line before anything runs."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab.declared.folders import ROOT
from gostlab.declared.kernels import declared_kernels
from gostlab.declared.qdiscs import names_for, qdisc_kinds
from gostlab.declared.topologies import Topology, topologies, topology_of
from gostlab.declared.traffic import traffic_kinds
from gostlab.declared.tunnels import GOST, TunnelKind, tunnel_kind, tunnel_kinds
from gostlab.describe.file.document import BadInput, parse_document
from gostlab.describe.file.experiment import read_experiment
from gostlab.describe.resolve.expand import expand
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.machine import hand_over, require_programs
from gostlab.setup.parts import MissingPart, OwnProgram, Parts, TunnelBinary
from tests.asked import run_of

DECLARATION = 'TUNNEL = TunnelKind(name="mine", says="a pipe", program="socat")\n'
START = "def start(launch):\n    return None\n"
RING = """class RingTopo(Topo):
    name = "ring"
    says = "three routers in a ring"
    sender = "h{}"
    receiver = "h{}"

    def build(self):
        pass
"""


def kinds(folder: Path, **files: str) -> dict[str, TunnelKind]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return tunnel_kinds(folder)


def read_topologies(folder: Path, text: str) -> dict[str, Topology]:
    file = folder / "topo.py"
    file.write_text(text)
    return topologies(file)


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
    assert (found["mine"].module, found["mine"].program, len(found["mine"].legs)) == (
        "mine",
        "socat",
        3,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DECLARATION, r"mine\.py: TUNNEL without a function start\(\)"),
        (START, r"mine\.py: start\(\) without TUNNEL"),
        ('TUNNEL = TunnelKind(name="mine")\n' + START, "says is missing"),
        ('TUNNEL = TunnelKind(name="mine", says="x", colour="red")\n' + START, "colour: no such"),
        ('TUNNEL = TunnelKind(name=1, says="x")\n' + START, "name: 1 is not a str"),
        ('TUNNEL = TunnelKind(name=made_up(), says="x")\n' + START, r"mine\.py:1: name: not a lit"),
        ("TUNNEL = 3\n" + START, "TUNNEL is not TunnelKind"),
        ("TUNNEL = (\n", "cannot be read"),
    ],
)
def test_half_a_tunnel_is_one_line_that_names_its_file(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        kinds(tmp_path, mine=text)
    assert "\n" not in str(refused.value)


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
    assert [name for name in topologies() if topology_of(name).tunnel_near] == [
        "tunnel",
        "dumbbell",
        *shaped,
    ]


def test_a_class_is_a_topology(tmp_path: Path) -> None:
    ring = read_topologies(tmp_path, RING)["ring"]

    assert (ring.class_name, ring.sender, ring.numbers_hosts) == ("RingTopo", "h{}", True)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('    name = "ring"\n', "", "RingTopo: name is missing"),
        ('    sender = "h{}"\n', "", "RingTopo: sender is missing"),
        ("def build", "def bild", "RingTopo: no function build"),
        ('name = "ring"', 'name = "ring"\n    colour = 1', "RingTopo: colour: no such declaration"),
        ('name = "ring"', 'name = "ring"\n    size = ("rings",)', "size: 'rings' is none of"),
        ('name = "ring"', 'name = "ring"\n    tunnel_near = "h1"', "belong together"),
        ('name = "ring"', 'name = "ri" + made_up', r"topo\.py:2: RingTopo\.name: not a literal"),
    ],
)
def test_half_a_topology_is_one_line_that_names_its_class(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        read_topologies(tmp_path, RING.replace(old, new))
    assert "\n" not in str(refused.value)


def test_two_topologies_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="two topologies are called ring"):
        read_topologies(tmp_path, RING + RING.replace("RingTopo", "OtherTopo"))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"topology": "router", "tunnel": "gost+ws"}, "tunnels run in topology tunnel or dumbb"),
        ({"flows": "{a: {rtt: 10ms}}"}, "rtt belongs to topology dumbbell"),
        ({"flows": "{a: {sender: 2}}"}, "sender belongs to topology dumbbell"),
        ({"sites": "[plain-100ms]"}, "sites belong to topology star"),
        ({"topology": "star"}, "a star needs sites"),
        ({"topology": "torus"}, "torus"),
        ({"tunnel": "gost"}, r"did you mean gost\+w"),
    ],
)
def test_what_a_topology_does_not_declare_cannot_be_asked_of_it(
    settings: dict[str, str], says: str
) -> None:
    with pytest.raises(BadInput, match=says):
        run_of(**settings)


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
    runs = expand(read_experiment(parse_document(text, "mine.yaml"), Path("mine.yaml")))

    assert sorted((run.topology, run.flows[0].receiver) for run in runs) == [
        ("dumbbell", "r1"),
        ("star", "site1"),
        ("tunnel", "target"),
    ]


# -- queueing disciplines

RED = 'QDISC = QdiscKind(name="red", says="x"{})\n\ndef build(direction, seed):\n    pass\n'


def test_a_bottleneck_is_netem_or_a_token_bucket_over_a_queue() -> None:
    assert set(names_for("bottleneck")) >= {"netem", "tbf", "htb"}
    assert set(names_for("queue")) >= {"fifo", "codel", "fq_codel"}
    assert not set(names_for("bottleneck")) & set(names_for("queue"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('QDISC = QdiscKind(name="red", says="x")\n', r"red\.py: QDISC without a function build"),
        ("def build(direction, seed):\n    pass\n", r"red\.py: build\(\) without QDISC"),
        (RED.format(""), r"red\.py: option is missing: write option=.*kernel/options"),
        (RED.format(', option="NET_SCH_RED", marks=True'), r"red\.py: .*marks_at=.*pkt_sched\.h"),
        (RED.format(', option="NET_SCH_RED", marks_at=12'), r"red\.py: .*needs marks=True"),
        (RED.format(', option="NET_SCH_RED", use="q"'), r"red\.py: use: 'q' is neither"),
    ],
)
def test_half_a_queueing_discipline_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "red.py").write_text(text)

    with pytest.raises(BadInput, match=says):
        qdisc_kinds(tmp_path)


def test_the_kernel_is_built_with_every_queueing_discipline_and_no_older_one_promises_it() -> None:
    options = (ROOT / "kernel/options").read_text(encoding="utf-8").splitlines()
    for kind in qdisc_kinds().values():
        assert f"{kind.option}=y" in options, (
            f"{kind.module}.py: kernel/options lacks {kind.option}"
        )
        for kernel in declared_kernels().values():
            missing = kernel.kernel.version < kind.since
            assert missing == (kind.option in kernel.may_be_missing), (kind.name, kernel.name)


def test_another_bottleneck_is_another_run_and_todays_keeps_its_name() -> None:
    plain, same = run_of(), run_of(bottleneck="netem", queue="fifo")
    other = run_of(bottleneck="tbf", queue="fq_codel")

    assert "bottleneck" not in plain.to_json() and plain.name == same.name
    assert (other.to_json()["bottleneck"], other.to_json()["queue"]) == ("tbf", "fq_codel")
    assert RunDescription.from_json(other.to_json()) == other


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"queue": "fq_codel", "bottleneck": "netem"}, "it needs bottleneck: tbf"),
        ({"bottleneck": "hfsc"}, "htb.*netem.*tbf"),
        ({"bottleneck": "tbf", "rate": "unlimited", "clock": "real"}, "it needs a rate"),
        ({"bottleneck": "htb", "rate": "unlimited", "clock": "real"}, "it needs a rate"),
        ({"bottleneck": "htb", "mtu": "9000"}, "at most 1500 bytes"),
    ],
)
def test_a_queue_that_could_not_act_is_refused(settings: dict[str, str], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        run_of(**settings)


# -- traffic


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('TRAFFIC = TrafficKind(name="x", says="x", program="x")\n', "without a function ask"),
        ("def ask(order, flow):\n    pass\n", r"ask\(\) without TRAFFIC"),
        (
            'TRAFFIC = TrafficKind(name="x", says="x")\ndef ask(order, flow): ...\n',
            "program is miss",
        ),
    ],
)
def test_half_a_kind_of_traffic_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x.py").write_text(text)

    with pytest.raises(BadInput, match=says):
        traffic_kinds(tmp_path)


# -- what a tunnel needs


def test_only_a_run_through_a_tunnel_needs_its_program() -> None:
    nothing = Parts(None, None, (), None, None, None)
    nothing = replace(nothing, iperf3={"3.18": OwnProgram(Path("iperf3"), "3.18-1", "0123")})

    require_programs([run_of(tunnel="direct", iperf3="3.18")], nothing)
    assert hand_over(nothing)["tunnel"] is None
    with pytest.raises(MissingPart, match="neither GOST nor the lab's relay"):
        require_programs(
            [run_of(tunnel="direct", iperf3="3.18"), run_of(tunnel="relay+wss")], nothing
        )


# -- what carries the load


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("3.18", "iperf3: 3.18: the lab's own is not there: run ./lab setup"),
        ("system", "no iperf3 is installed: install it, or ask for one of the lab's own"),
    ],
)
def test_an_iperf3_that_is_missing_is_refused_before_anything_runs(
    asked: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSTLAB_ROOT", "host")  # the lab's own root brings an iperf3
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(MissingPart, match=says) as refused:
        require_programs([run_of(iperf3=asked)], Parts(None, None, (), None, None, None))
    assert "\n" not in str(refused.value)


def gost_of(version: str) -> TunnelBinary:
    return TunnelBinary(Path("/opt") / version, GOST, f"gost {version}, go1.26.8", "0" * 64)


@pytest.mark.parametrize(
    ("added", "tunnel", "says"),
    [
        (["3.0.0-rc8", "3.2.6"], "gost+wt", "gost+wt: GOST has it from 3.0.0 on: take gost: 3.2.6"),
        (["3.0.0-rc8"], "gost+wt", "from 3.0.0 on: ./lab gost add FILE brings one"),
        (["3.0.0-rc8", "3.3.0"], "gost+quic", ""),
        (["3.0.0-rc8", "2.11.5"], "gost+ws", ""),
    ],
)
def test_a_gost_without_a_transport_is_refused_before_anything_runs(
    added: list[str], tunnel: str, says: str
) -> None:
    gosts = {version: gost_of(version) for version in added}
    there = Parts(
        None,
        None,
        (),
        None,
        None,
        None,
        gosts=gosts,
        iperf3={"3.18": OwnProgram(Path("/i"), "3.18", "")},
    )
    run = run_of(tunnel=tunnel, gost=added[0])
    if not says:
        require_programs([run], there)
        return
    with pytest.raises(MissingPart, match=re.escape(says)) as refused:
        require_programs([run], there)
    assert "\n" not in str(refused.value)


def test_a_run_of_http_alone_needs_no_iperf3() -> None:
    run = replace(run_of(), flows=[replace(run_of().flows[0], kind="http", size_bytes=1)])

    require_programs([run], Parts(None, None, (), None, None, None))


def test_a_run_from_before_the_setting_had_the_systems_iperf3() -> None:
    values = {key: value for key, value in run_of().to_json().items() if key != "iperf3"}

    assert RunDescription.from_json(values).iperf3 == "system"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('legs=("app", "outer")', "legs: 'outer' is none of app, wan, join, wan2, exit, inner"),
        ('over="icmp"', "over: 'icmp' is neither tcp nor udp"),
        ('legs=("inner",)', "it runs over tcp, and has no leg wan"),
    ],
)
def test_legs_that_no_tunnel_has_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadInput, match=re.escape(says)):
        kinds(tmp_path, mine=DECLARATION.replace('says="a pipe"', f'says="a pipe", {text}') + START)


def test_a_vpn_over_udp_meets_the_path_with_the_connection_inside(tmp_path: Path) -> None:
    found = kinds(
        tmp_path,
        mine=DECLARATION.replace('says="a pipe"', 'says="x", legs=("inner",), over="udp"') + START,
    )["mine"]

    assert found.is_vpn and found.path_leg == "inner" and len(found.legs) == 1
    assert tunnel_kind("gost+ws").path_leg == "wan" and not tunnel_kind("gost+ws").is_vpn
