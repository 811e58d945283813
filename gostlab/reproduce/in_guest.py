"""A run's commands.sh, run once more on a machine of the lab's own, and what came of it.

    python3 -m gostlab.reproduce.in_guest FOLDER

FOLDER holds run.json, env.json and commands.sh. The script's reports go to FOLDER/replayed.
replay.json says what they and its nodes say, in the words of flows.json and env.json, or why there
is nothing to say.
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gostlab import lazy, results
from gostlab.guest.flow_result import TrafficError
from gostlab.guest.host_config import Unsupported, prepare_kernel
from gostlab.guest.reset_clock import reset_virtual_clock
from gostlab.guest.traffic_plugins import report_name, result_of
from gostlab.reproduce.node_snapshot import Nodes
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec

FOLDER = "replayed"
# The guest's clock begins anew, and the run's certificates are not valid before they were made.
LATER_S = 86_400.0
FINDING_S = 0.01


def main(argv: list[str]) -> int:
    """Replay; exit status 1 where the script did not come to its end."""
    lazy.read_all()
    folder = Path(argv[1])
    run = RunSpec.from_json(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    try:
        # what is one for the whole machine, and not the script's
        prepare_kernel(run, "sandbox")
        time.clock_settime(time.CLOCK_REALTIME, time.time() + LATER_S)
        recorded = results.read_object(folder / "env.json") or {}
        nodes = Nodes(recorded, run.congestion_controls)
        reset_virtual_clock(run.clock, run.seed)
        error = run_script(run, folder, nodes)
        found: dict[str, Any] = {"error": error} if error else replayed(run, folder / FOLDER)
        if not error:
            found |= {**nodes.read(), "senders": nodes.senders}
    except (Unsupported, TrafficError, OSError) as failure:
        found = {"error": str(failure)}
    results.write_json(folder / "replay.json", found)
    return 1 if "error" in found else 0


def run_script(run: RunSpec, folder: Path, nodes: Nodes) -> str | None:
    """Run it as a person would, and look at its nodes until its flows are over; its complaint if
    it fails.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        argv = ["sh", str(folder / "commands.sh"), str(folder / FOLDER)]
        script = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        while script.poll() is None and not nodes.find():
            time.sleep(FINDING_S)  # a load may be over before a second sample
        while script.poll() is None and len(times(folder / FOLDER)) < len(run.flows):
            nodes.look()
            time.sleep(run.sample_ms / 1000)
        script.wait()
        output.seek(0)
        printed = output.read()
    print(printed, flush=True)
    if script.returncode == 0:
        return None
    said = printed.strip().splitlines()[-1:] or ["it said nothing"]
    return f"commands.sh ended with exit status {script.returncode}: {said[0]}"


def replayed(run: RunSpec, folder: Path) -> dict[str, Any]:
    """What the script's reports say. Raises TrafficError or OSError."""
    ran_s = times(folder)
    flows = []
    for flow in run.flows:
        if flow.name not in ran_s:
            raise TrafficError(f"{flow.name}: commands.sh did not run it to its end")
        flows.append(result_of(flow, folder / report_name(run, flow), ran_s[flow.name]))
    return {
        "flows": [flow.to_json() for flow in flows],
        "uncertainty": {flow.name: uncertainty(run, flow, folder) for flow in run.flows},
        "qdiscs_before": qdiscs(folder, "before"),
        "qdiscs_after": qdiscs(folder, "after"),
    }


def times(folder: Path) -> dict[str, tuple[float, float]]:
    """From when to when each flow ran that is over, in seconds of the load."""
    told = folder / "flows.txt"
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    return {
        name: (float(began_s), float(ended_s))
        for name, began_s, ended_s, _status in map(str.split, lines)
    }


def uncertainty(run: RunSpec, flow: FlowSpec, folder: Path) -> float | None:
    """Standard error of a goodput's mean over its seconds, as a share; None below two seconds."""
    report = results.read_object(folder / report_name(run, flow)) or {}
    rates = [
        float(interval["sum"]["bits_per_second"])
        for interval in report.get("intervals", ())
        if interval["sum"]["seconds"] > 0.5
    ]
    if len(rates) < 2 or not any(rates):
        return None
    return statistics.stdev(rates) / math.sqrt(len(rates)) / statistics.mean(rates)


def qdiscs(folder: Path, when: str) -> dict[str, str]:
    """What tc said of every device of the path, and of its class if it has one."""
    found: dict[str, str] = {}
    for start in (f"qdisc-{when}-", f"class-{when}-"):
        for file in sorted(folder.glob(f"{start}*.txt")):
            device = file.stem.removeprefix(start)
            found[device] = found.get(device, "") + file.read_text(encoding="utf-8")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv))
