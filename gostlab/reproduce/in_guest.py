# SPDX-License-Identifier: MIT
"""Replay a run's commands.sh in a sandbox and record the result.

    python3 -m gostlab.reproduce.in_guest FOLDER

FOLDER holds run.json, env.json and commands.sh. The script's reports go to FOLDER/replayed.
replay.json has the results of the reports in the format of flows.json and env.json, or an error.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from gostlab import results
from gostlab.guest.flow_result import TrafficError
from gostlab.guest.host_config import Unsupported, set_kernel_wide_settings
from gostlab.guest.reset_clock import reset_virtual_clock
from gostlab.guest.traffic_plugins import report_name, result_of
from gostlab.spec.run_spec import RunSpec

FOLDER = "replayed"
# The guest's clock starts at zero, and the run's certificates are not valid before their creation.
CLOCK_OFFSET_S = 86_400.0


def main(argv: list[str]) -> int:
    """Replay a run; return 1 if the script did not finish."""
    folder = Path(argv[1])
    run = RunSpec.from_json(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    try:
        # Settings of the whole machine are not part of the script.
        set_kernel_wide_settings(run, "sandbox")
        time.clock_settime(time.CLOCK_REALTIME, time.time() + CLOCK_OFFSET_S)
        reset_virtual_clock(run.clock, run.seed)
        error = run_script(folder)
        result: dict[str, object] = (
            {"error": error} if error else read_reports(run, folder / FOLDER)
        )
    except (Unsupported, TrafficError, OSError) as failure:
        result = {"error": str(failure)}
    results.write_json(folder / "replay.json", result)
    return 1 if "error" in result else 0


def run_script(folder: Path) -> str | None:
    """Run the script; return an error message or None."""
    argv = ["sh", str(folder / "commands.sh"), str(folder / FOLDER)]
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    print(done.stdout, flush=True)
    if done.returncode == 0:
        return None
    message = done.stdout.strip().splitlines()[-1:] or ["it said nothing"]
    return f"commands.sh ended with exit status {done.returncode}: {message[0]}"


def read_reports(run: RunSpec, folder: Path) -> dict[str, object]:
    """Return the results in the script's reports. Raises TrafficError or OSError."""
    ran_s = times(folder)
    flows = []
    for flow in run.flows:
        if flow.name not in ran_s:
            raise TrafficError(f"{flow.name}: commands.sh did not run it to its end")
        flows.append(result_of(flow, folder / report_name(run, flow), ran_s[flow.name]))
    return {
        "flows": [flow.to_json() for flow in flows],
        "qdiscs_before": qdiscs(folder, "before"),
        "qdiscs_after": qdiscs(folder, "after"),
    }


def times(folder: Path) -> dict[str, tuple[float, float]]:
    """Return the start and end of each finished flow, in seconds of the load."""
    path = folder / "flows.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {
        name: (float(began_s), float(ended_s))
        for name, began_s, ended_s, _status in map(str.split, lines)
    }


def qdiscs(folder: Path, when: str) -> dict[str, str]:
    """Return tc's output for every device of the path and for its class, if any."""
    outputs: dict[str, str] = {}
    for start in (f"qdisc-{when}-", f"class-{when}-"):
        for file in sorted(folder.glob(f"{start}*.txt")):
            device = file.stem.removeprefix(start)
            outputs[device] = outputs.get(device, "") + file.read_text(encoding="utf-8")
    return outputs


if __name__ == "__main__":
    sys.exit(main(sys.argv))
