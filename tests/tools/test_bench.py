# SPDX-License-Identifier: MIT
"""The benchmark's parts. Nothing is timed."""

import re
import sys
from pathlib import Path

import pytest

from tests.lab_command import said_by
from tools.bench import __main__ as bench
from tools.bench import compare_commits, packet_cost, warm_lab
from tools.bench.metrics import BenchMetric, meets

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "target", "met"),
    [
        (0.36, "≤ 0.36", True),
        (0.37, "≤ 0.36", False),
        (2.6, "≥ 2.6", True),
        (1.2, "0.8 – 1.2", True),
        (1.3, "0.8 – 1.2", False),
    ],
)
def test_a_metric_is_judged_by_its_median(value: float, target: str, met: bool) -> None:
    assert meets(value, target) is met
    judged = BenchMetric("one", "×", target, [0.0, value, 99.0])
    assert judged.verdict == ("pass" if met else "FAIL")


def test_a_metric_without_target_or_values_is_not_judged() -> None:
    assert BenchMetric("one", "×", "", [1.0]).verdict == ""
    assert BenchMetric("one", "×", "≤ 1", failed="no").verdict == ""


def test_a_part_that_fails_is_a_row_and_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_bench: bench.Bench) -> list[BenchMetric]:
        raise OSError("no such program")

    monkeypatch.setattr(bench, "PARTS", {"one": none})
    [failed] = bench.measure_part("one", None)  # type: ignore[arg-type]
    assert "the part one" in failed.row and "no such program" in failed.row


def test_a_packets_cost_is_the_slope_between_a_short_and_a_long_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = compare_commits.TimedLoad("full", "bbr", "rate: 1gbit", 4, 10)
    took = {"short0": (2.0, 100_000), "long0": (5.0, 400_000)}
    monkeypatch.setattr(
        compare_commits.Version, "run", lambda _self, matrix, _scratch: took[matrix]
    )
    slope = compare_commits.Version(tmp_path, {}).slope(load, 0, tmp_path)
    assert (slope.packet_us, slope.times_real) == (pytest.approx(10.0), pytest.approx(2.0))


@pytest.mark.slow
def test_a_version_plans_its_own_runs_of_the_loads(tmp_path: Path) -> None:
    loads = bench.COMPARED
    mine = compare_commits.compile_version(ROOT, loads, tmp_path)

    assert len(mine.tasks) == 2 * len(loads)
    first = mine.tasks["long0"]["run"]
    assert first["flows"][0]["duration_s"] == loads[0].long_s
    assert first["path"]["forward"]["rate_bps"] == 1e9
    assert first["offloads"] is False and first["clock"] == "virtual"


def test_an_unknown_commit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path))
    with pytest.raises(RuntimeError, match="no-such-commit: git does not have it"):
        compare_commits.check_out("no-such-commit")
    assert not (tmp_path / "versions" / "no-such-commit").exists()


def test_one_run_has_the_class_the_cluster_and_the_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"lab", "page", "class", "dask"} <= set(bench.PARTS)
    part = {"one": lambda _bench: [BenchMetric("a load", "×", "≤ 1.5", [1.0])]}
    monkeypatch.setattr(bench, "PARTS", part)
    monkeypatch.setattr(sys, "argv", ["tools.bench", "--repeat", "1"])
    assert bench.main() == 0
    first, _, head, *_ = capsys.readouterr().out.splitlines()
    assert bench.machine_label() in first and head.startswith("| what |")


def test_a_first_sample_is_that_of_the_file_which_is_flushed_at_each(tmp_path: Path) -> None:
    sampler = (ROOT / "gostlab/guest/probes/sampler.py").read_text("utf-8")
    assert f'self._files["{Path(warm_lab.SAMPLES).stem}"].flush()' in sampler


def test_the_page_has_every_row_and_counts_the_targets() -> None:
    metrics = [BenchMetric(f"load {n}", "µs", "≤ 1.5", [1.0, 2.0]) for n in range(14)]
    page = bench.to_page(metrics, "0.2.0", 0.0)
    assert all(metric.row in page for metric in metrics)
    assert re.search(r"14 of 14\s+targets are met", page)


def test_nodes_in_a_row_forward_and_route_to_each_other() -> None:
    lines = packet_cost.script(("a", "b", "c"), "iperf3", "-t 3").splitlines()
    assert "nsenter -n -t $b sysctl -qw net.ipv4.ip_forward=1" in lines
    assert "nsenter -n -t $a ip route add 10.9.2.0/24 via 10.9.1.2" in lines
    assert "nsenter -n -t $c ip route add 10.9.1.0/24 via 10.9.2.1" in lines
    assert "nsenter -n -t $a iperf3 -c 10.9.2.2 -p 5201 -J -t 3" in lines


def test_packets_are_counted_at_both_ends_and_a_failure_is_reported() -> None:
    device = "  {name}: 999 {packets} 0 0\n"
    report = '{"end": {"sum_received": {"seconds": 2.0, "bytes": 144800}}}\n'
    output = report + device.format(name="left1", packets=100) + "lo: 1 5\n"
    output += device.format(name="right1", packets=40)

    def process(status: int, complaint: str = "") -> object:
        done = type("Done", (), {"returncode": status})()
        done.communicate = lambda: (output, complaint)
        return done

    assert packet_cost.received(process(0)) == (2.0, 100.0, 140)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="no such device"):
        packet_cost.received(process(1, "no such device"))  # type: ignore[arg-type]


def test_the_tool_lists_its_parts() -> None:
    done = said_by(sys.executable, "-m", "tools.bench", "--help")
    assert done.returncode == 0 and "loopback" in done.stdout, done.stderr
