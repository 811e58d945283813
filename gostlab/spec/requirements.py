# SPDX-License-Identifier: MIT
"""Determine the installed parts that some runs need.

`python3 -m gostlab.spec.requirements EXPERIMENT [--quick]` prints them for an experiment, as JSON:
the installation calls it, because it does not read YAML.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from gostlab.errors import BadInput
from gostlab.registry.iperf3_versions import OWN
from gostlab.registry.run_requirements import RunRequirements
from gostlab.registry.traffic_programs import NGINX
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.run_spec import RunSpec


def requirements_of(runs: Iterable[RunSpec]) -> RunRequirements:
    runs = list(runs)
    flows = [flow.traffic for run in runs for flow in run.flows]
    by_iperf3 = [run.iperf3 for run in runs if any(flow.traffic.by_iperf3 for flow in run.flows)]
    tunnels = [(tunnel_kind(run.tunnel), run.gost_program) for run in runs]
    return RunRequirements(
        kernels=unique(run.kernel for run in runs if run.machine == "sandbox"),
        iperf3s=unique(version for version in by_iperf3 if version in OWN),
        gosts=unique(gost for tunnel, gost in tunnels if tunnel.program == GOST),
        tunnels=unique(tunnel.name for tunnel, _ in tunnels if tunnel.unpacked),
        programs=unique(NGINX for traffic in flows if traffic.by_nginx),
        root=any(run.machine == "sandbox" and not run.needs_host_files for run in runs),
        iproute2=any(run.machine == "sandbox" and run.needs_host_files for run in runs),
    )


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct names in their order."""
    return tuple(dict.fromkeys(names))


def main(args: Sequence[str]) -> int:
    name, *options = args
    try:
        runs = expand(load_experiment(name), quick="--quick" in options)
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(asdict(requirements_of(runs))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
