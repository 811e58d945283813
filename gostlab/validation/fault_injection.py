"""Inject faults into the lab to learn whether `./lab validate` notices them.

A faulty lab differs from the requested runs but reports the requested values. The runs' own checks
(fidelity.json) are ignored; only the targets judge.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gostlab.spec.run_spec import RunSpec

Path = Mapping[str, Any]


@dataclass(frozen=True)
class Fault:
    """A fault: `do` maps a requested run to the run that is made instead."""

    name: str
    says: str
    do: Callable[[RunSpec], RunSpec]

    @property
    def experiment(self) -> str:
        """Return the experiment's name, which differs from the correct lab's."""
        return f"broken-{self.name}"


def with_path(run: RunSpec, change: Callable[[Path], Path]) -> RunSpec:
    return replace(run, path={name: change(path) for name, path in run.path.items()})


def scale_loss(factor: float) -> Callable[[RunSpec], RunSpec]:
    """Return a fault that multiplies the requested loss."""

    def change(path: Path) -> Path:
        loss = {**path["loss"], "p": path["loss"]["p"] * factor}
        if "packets" in loss:
            loss["packets"] = round(loss["packets"] / factor)
        return {**path, "loss": loss}

    return lambda run: with_path(run, change)


def scale_parameter(name: str, factor: float) -> Callable[[RunSpec], RunSpec]:
    """Return a fault that multiplies a number of the path."""
    is_whole = name != "delay_ms"

    def change(path: Path) -> Path:
        scaled = path[name] * factor
        return {**path, name: round(scaled) if is_whole else scaled}

    return lambda run: with_path(run, change)


def fix_parameters(**values: Any) -> Callable[[RunSpec], RunSpec]:
    """Return a fault that fixes numbers of the path."""
    return lambda run: with_path(run, lambda path: {**path, **values})


def always(cc: str) -> Callable[[RunSpec], RunSpec]:
    def change(run: RunSpec) -> RunSpec:
        flows = [replace(flow, cc=cc) if flow.cc else flow for flow in run.flows]
        return replace(run, cc=cc, flows=flows)

    return change


BROKEN = (
    Fault("loss-doubled", "loses twice what was asked", scale_loss(2.0)),
    Fault("loss-halved", "loses half of what was asked", scale_loss(0.5)),
    Fault("delay-longer", "delays by 20 % more", scale_parameter("delay_ms", 1.2)),
    Fault("delay-shorter", "delays by 20 % less", scale_parameter("delay_ms", 0.8)),
    Fault("rate-lower", "is 10 % slower", scale_parameter("rate_bps", 0.9)),
    Fault("all-cubic", "leaves every socket CUBIC", always("cubic")),
    Fault("all-reno", "leaves every socket Reno", always("reno")),
    Fault("offloads", "leaves offloads on", lambda run: replace(run, offloads=True)),
    Fault("no-buffer", "queues one packet at the bottleneck", fix_parameters(buffer_pkts=1)),
    Fault("deep-buffer", "queues 1000 packets at the bottleneck", fix_parameters(buffer_pkts=1000)),
    Fault("jitter", "jitters by 5 ms, which reorders", fix_parameters(jitter_ms=5.0)),
)


def faulty_runs(runs: Sequence[RunSpec], repetitions: int) -> list[RunSpec]:
    """Return the runs that faulty labs make differently, of the first repetitions."""
    runs_made = []
    for run in sorted(runs, key=lambda each: each.repetition):
        if run.repetition <= repetitions:
            done = ((lab, lab.do(run)) for lab in BROKEN)
            runs_made += [
                replace(does, experiment=lab.experiment) for lab, does in done if does != run
            ]
    return runs_made
