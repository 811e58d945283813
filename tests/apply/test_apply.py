# SPDX-License-Identifier: MIT
"""What `apply` prints for real machines is the run's, and its files are read back as its tunnel."""

import re
from pathlib import Path

import pytest

from gostlab.apply.tc_text import tc_lines
from gostlab.apply.tuning_advice import advice_lines, choose_cell
from gostlab.apply.tunnel_files import tunnel_files
from gostlab.errors import BadInput
from gostlab.importers.base import Recording, SpecifiedPath
from gostlab.importers.tc_lines import FORMAT
from gostlab.spec.gost_config import read_gost_config
from tests.analysis.synthetic import write_repetitions as write
from tests.asked import run_of


def machines(lines: tuple[str, ...]) -> dict[str, str]:
    """GOST's file of each machine."""
    parts = re.split(r"^# (\w+): gost\.yml.*\n", "\n".join(lines), flags=re.MULTILINE)
    return {
        name: "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"tunnel": "gost+wss"},
        {"tunnel": "gost+quic"},
        {"tunnel": "gost+mws", "hops": "2"},
        {"tunnel": "gost+kcp", "kcp_mode": "fast3", "kcp_window": "512", "kcp_data": "5"},
    ],
)
def test_gosts_files_are_the_runs_tunnel(settings: dict[str, str], tmp_path: Path) -> None:
    lines = tunnel_files(run_of(**settings)).lines
    files = []
    for name, text in sorted(machines(lines).items()):  # the client comes first
        (tmp_path / f"{name}.yml").write_text(text)
        files.append(str(tmp_path / f"{name}.yml"))
    found = read_gost_config(",".join(files))
    assert settings.items() <= found.settings.items()
    assert found.left_out == ()
    # The command lines of GOST 2 name the same tunnel.
    commands = [line for line in lines if " gost -L" in line]
    (tmp_path / "lines").write_text("\n".join(line.partition(": ")[2] for line in commands))
    lines_found = read_gost_config(str(tmp_path / "lines"))
    assert lines_found.settings["tunnel"] == settings["tunnel"]


def test_wireguards_files_have_the_runs_mtu() -> None:
    files = tunnel_files(run_of(tunnel="wireguard", mtu="1400"))
    assert "MTU = 1320" in files.lines
    assert files.address == "10.9.0.2"


def test_a_runs_path_is_read_back_from_its_tc_lines() -> None:
    run = run_of(profile="la-hamina", rate="50mbit")
    path = FORMAT.read([Recording("tc.sh", "\n".join(tc_lines(run, "eth1")))])
    assert isinstance(path, SpecifiedPath)
    for name, direction in (("forward", path.forward), ("reverse", path.reverse)):
        expected = run.path[name]
        assert direction is not None
        assert direction.rate_bps == expected.rate_bps
        assert float(direction.delay_s * 1000) == expected.delay_ms
        assert direction.buffer == f"{expected.buffer_pkts}pkts"
        assert sum(map(float, direction.loss)) == expected.loss.p
    assert path.forward is not None
    assert path.reverse is not None
    assert (path.forward.device, path.reverse.device) == ("eth1", "ifb0")


def test_tc_lines_say_that_later_changes_are_not_in_them() -> None:
    run = run_of(profile="la-hamina", changes="[{at: 1s, delay: 80ms}]")
    assert any("changes (run.json)" in line for line in tc_lines(run, "eth0"))
    run = run_of(profile="la-hamina")
    assert not any("changes" in line for line in tc_lines(run, "eth0"))


def test_the_fastest_cell_is_chosen_and_a_run_is_its_own(tmp_path: Path) -> None:
    write(tmp_path, "bbr", 80.0, 82.0)
    write(tmp_path, "cubic", 40.0, 42.0)
    best = choose_cell("made-up", tmp_path)
    assert best.run.cc == "bbr"
    assert "CUBIC" in best.reason
    assert choose_cell("cubic-2", tmp_path).run.cc == "cubic"
    assert choose_cell(str(tmp_path / "made-up" / "cubic-1"), tmp_path).run.cc == "cubic"
    text = "\n".join(advice_lines(best))
    assert "81 Mbit/s (n = 2)" in text
    assert "iperf3 -c" in text and "-P 16" in text
    assert "congctl bbr" in text


def test_where_narrows_the_cells(tmp_path: Path) -> None:
    write(tmp_path, "bbr", 80.0)
    write(tmp_path, "cubic", 40.0)
    assert choose_cell("made-up", tmp_path, {"cc": "cubic"}).run.cc == "cubic"
    with pytest.raises(BadInput, match=r"--where reno: no cell is so \(there are: .*CUBIC"):
        choose_cell("made-up", tmp_path, {"cc": "reno"})


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere: no run, results folder or question"):
        choose_cell("nowhere", tmp_path)
