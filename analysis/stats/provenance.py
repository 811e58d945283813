# SPDX-License-Identifier: MIT
"""Describe the software and the machine that produced some runs, in one line."""

from collections.abc import Callable, Mapping, Sequence

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.untrusted_json import Scalar, finite_number
from gostlab.analysis.stats.table_formats import pluralize

RECEIVING = ("an interrupt per packet", "interrupts moderated")  # [moderated]


def made_by_line(runs: Sequence[RunFolder]) -> str:
    """State the software that produced some runs, in one line."""
    environments = [run.environment for run in runs if run.environment is not None and run.counts]
    if not environments:
        return ""

    def named(head: str, values: set[str]) -> str:
        return f"{head}{' / '.join(sorted(values))}"

    synthetic = (
        "FIXTURE, NOT MEASURED · "
        if any(environment.synthetic for environment in environments)
        else ""
    )
    tunnels = {
        environment.tunnel for environment in environments if environment.tunnel_kind != "none"
    }
    plugins = {plugin for run in runs if run.counts for plugin in run.plugins}
    parts = [
        named("tunnel: ", tunnels) if tunnels else "no tunnel",
        named(
            "Linux ",
            {f"{environment.kernel} (HZ {environment.hz})" for environment in environments},
        ),
        ", ".join(
            [
                named("", {f"{environment.clock} clock" for environment in environments}),
                *describe_hosts(runs),
            ]
        ),
        named("iperf3 ", {environment.iperf3 for environment in environments}),
        named("lab ", {environment.lab for environment in environments}),
        *([named("plugins: ", plugins)] if plugins else []),
    ]
    return synthetic + " · ".join(parts)


def describe_hosts(runs: Sequence[RunFolder]) -> list[str]:
    """Describe hosts on the virtual clock: CPUs, cost of a system call and of a packet.

    The kind of interrupts follows. Requests that differ between runs are omitted.
    """
    counted = [run for run in runs if run.counts and run.clock == "virtual"]

    def of_all(words: Callable[[Mapping[str, Scalar]], str]) -> list[str]:
        texts = {words(dict(run.settings)) for run in counted}
        return list(texts - {""}) if len(texts) == 1 else []

    costs = {run.syscall_cost_us for run in counted}
    return [
        *of_all(format_host_cpus),
        *(f"{cost:g} µs per system call" for cost in costs if len(costs) == 1),
        *of_all(format_packet_costs),
        *of_all(lambda asked: RECEIVING[asked.get("receive") == "moderated"]),
    ]


def format_packet_costs(asked: Mapping[str, Scalar]) -> str:
    cost_ns = finite_number(asked.get("packet_cost_ns"))
    return f"{cost_ns / 1000:g} µs per packet" if cost_ns else ""


def format_host_cpus(asked: Mapping[str, Scalar]) -> str:
    count = int(finite_number(asked.get("host_cpus")) or 0)
    if not count:
        return "one CPU for all hosts"
    others = [
        f"{name.partition('.')[2]} {value}"
        for name, value in asked.items()
        if name.startswith("cpus_by_host.")
    ]
    text = f"{pluralize(count, 'CPU')} per host"
    if share := finite_number(asked.get("cpu_share_permille")):
        text += f" with the time of {share / 1000:g}"
    return f"{text} ({', '.join(others)})" if others else text
