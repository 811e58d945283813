# SPDX-License-Identifier: MIT
"""Check a type of traffic: its flow, its report, the fields that it needs."""

from pathlib import Path
from typing import Any

from gostlab.guest.flow_result import FlowResult, FlowRun, TrafficError
from gostlab.plugin_check.check_runs import (
    PluginBench,
    PluginFault,
    check_description,
    flows_of,
    reject_stray_files,
    require,
    require_identical_runs,
    require_ok_checks,
)
from gostlab.registry.traffic import DOWNLOAD, traffic_kinds

PATH = {
    "rate": "5mbit",
    "rtt": "20ms",
    "buffer": "50pkts",
    "cc": "cubic",
    "sample": "100ms",
    "duration": "2s",
}
DURATION_S, LATE_S = 2.0, 1.0
# A value of each field that some type needs.
VALUES: dict[str, object] = {
    "size": "300kB",
    "bytes": "1MB",
    "rate": "2mbit",
    "on": "500ms",
    "off": "200ms",
    "ladder": ["300kbit", "1mbit"],
    "segment": "500ms",
    "server": "exec iperf3 -s -1 -p $PORT",
    "client": "iperf3 -c $HOST -p $PORT -t $SECONDS",
}
# What no program reports.
HOSTILE = ("", "no report of anybody's", "{}", "[]", '{"end": null}', "\x00\xff", "[1/2] 1e999 nan")


def flow_of(bench: PluginBench, **more: object) -> dict[str, object]:
    declaration = bench.declared
    usual: dict[str, object] = {"direction": DOWNLOAD} if declaration.direction == DOWNLOAD else {}
    if "sizes" in declaration.may:  # the last download goes on to its end
        usual["sizes"] = ["10kB", "100kB"]
    needed = {field: VALUES[field] for field in declaration.must}
    return {"kind": bench.name, **usual, **needed, **more}


def load_of(bench: PluginBench) -> dict[str, Any]:
    return {**PATH, "flows": {"a": flow_of(bench)}}


def declares(bench: PluginBench) -> None:
    declaration = bench.declared
    check_description(bench, bench.name, declaration.says)
    functions = ("server_command", "client_command", "read")
    missing = [name for name in functions if not hasattr(bench.module, name)]
    require(not missing, f"no function {', '.join(missing)}")
    of_the_lab = bench.module.__name__.startswith("gostlab.")
    named = declaration.report[0].startswith("plugin-")
    require(
        of_the_lab or named,
        f'report: {declaration.report[0]!r}: write ("plugin-{declaration.name}", …)',
    )
    require(not declaration.rows or hasattr(bench.module, "rows"), "rows declared without rows()")
    unknown = [field for field in declaration.must if field not in VALUES]
    require(not unknown, f"must: {', '.join(unknown)}: no field of a flow that a type may need")


def starts(bench: PluginBench) -> None:
    run = bench.run(load_of(bench))
    stem, suffix = bench.declared.report
    require((run.folder / f"{stem}{suffix}").is_file(), f"no report {stem}{suffix}")
    [flow] = flows_of(run)
    require(flow["kind"] == bench.name, f"its flow is of kind {flow['kind']}")


def carries(bench: PluginBench) -> None:
    run = bench.run(load_of(bench))
    require_ok_checks(run)
    [flow] = flows_of(run)
    require(flow["bytes"] > 0, "its flow carried nothing")
    require(flow["goodput_bps"] < 5e6, f"{flow['goodput_bps']:.0f} bit/s through 5 Mbit/s")


def ends(bench: PluginBench) -> None:
    run = bench.run(load_of(bench))
    reject_stray_files(run)
    [flow] = flows_of(run)
    late = flow["ended_s"] - DURATION_S
    require(late < LATE_S, f"its flow ended {late:.1f} s after its time")


def refuses(bench: PluginBench) -> None:
    declaration = bench.declared
    for field in declaration.must:
        flow = {name: value for name, value in flow_of(bench).items() if name != field}
        bench.refuses(f"a flow without {field}", {**PATH, "flows": {"a": flow}})
    others = {field for other in traffic_kinds().values() for field in (*other.must, *other.may)}
    for field in sorted((others & VALUES.keys()) - {*declaration.must, *declaration.may}):
        flow = flow_of(bench, **{field: VALUES[field]})
        bench.refuses(f"a flow with {field}", {**PATH, "flows": {"a": flow}})
    [flow_spec] = bench.run(load_of(bench)).run.flows
    for number, text in enumerate(() if declaration.is_counted else HOSTILE):
        report = bench.folder / f"hostile-{number}"
        report.write_bytes(text.encode("utf-8", "replace"))
        ran = FlowRun("a", declaration.name, 0.0, DURATION_S, report=Path(report))
        try:
            result = bench.module.read(flow_spec, text, ran)
        except (TrafficError, LookupError, TypeError, ValueError, OSError) as error:
            require("\n" not in str(error), f"a bad report is told in more than a line: {error}")
        except Exception as error:
            raise PluginFault(f"report {text!r}: {type(error).__name__}: {error}") from error
        else:
            nothing = isinstance(result, FlowResult) and result.bytes == 0
            require(nothing, f"report {text!r} is read as a result")


def repeats(bench: PluginBench) -> None:
    require_identical_runs(bench.run(load_of(bench)), bench.run(load_of(bench), again=True))
