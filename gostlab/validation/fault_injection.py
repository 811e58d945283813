"""Labs that are broken on purpose, to learn whether `./lab validate` would notice.

A broken lab does something else than its runs request, and says that it did what was
asked: the run's own checks (fidelity.json) are left out of this, only the targets speak.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gostlab.spec.run_spec import RunSpec

Path = Mapping[str, Any]


@dataclass(frozen=True)
class Fault:
    """One way to be broken: `do` turns what is asked into what is done."""

    name: str
    says: str
    do: Callable[[RunSpec], RunSpec]

    @property
    def experiment(self) -> str:
        """What its runs are filed under, apart from a correct lab's."""
        return f"broken-{self.name}"


def with_path(run: RunSpec, change: Callable[[Path], Path]) -> RunSpec:
    return replace(run, path={name: change(way) for name, way in run.path.items()})


def losing(factor: float) -> Callable[[RunSpec], RunSpec]:
    """Loses so many times what was asked."""

    def change(way: Path) -> Path:
        loss = {**way["loss"], "p": way["loss"]["p"] * factor}
        if "packets" in loss:
            loss["packets"] = round(loss["packets"] / factor)
        return {**way, "loss": loss}

    return lambda run: with_path(run, change)


def scaling(name: str, factor: float) -> Callable[[RunSpec], RunSpec]:
    """A number of the path is so many times what was asked."""
    whole = name != "delay_ms"

    def change(way: Path) -> Path:
        scaled = way[name] * factor
        return {**way, name: round(scaled) if whole else scaled}

    return lambda run: with_path(run, change)


def setting(**values: Any) -> Callable[[RunSpec], RunSpec]:
    """A number of the path is always this."""
    return lambda run: with_path(run, lambda way: {**way, **values})


def always(cc: str) -> Callable[[RunSpec], RunSpec]:
    def change(run: RunSpec) -> RunSpec:
        flows = [replace(flow, cc=cc) if flow.cc else flow for flow in run.flows]
        return replace(run, cc=cc, flows=flows)

    return change


BROKEN = (
    Fault("loss-doubled", "loses twice what was asked", losing(2.0)),
    Fault("loss-halved", "loses half of what was asked", losing(0.5)),
    Fault("delay-longer", "delays by 20 % more", scaling("delay_ms", 1.2)),
    Fault("delay-shorter", "delays by 20 % less", scaling("delay_ms", 0.8)),
    Fault("rate-lower", "is 10 % slower", scaling("rate_bps", 0.9)),
    Fault("all-cubic", "leaves every socket CUBIC", always("cubic")),
    Fault("all-reno", "leaves every socket Reno", always("reno")),
    Fault("offloads", "leaves offloads on", lambda run: replace(run, offloads=True)),
    Fault("no-buffer", "queues one packet at the bottleneck", setting(buffer_pkts=1)),
    Fault("deep-buffer", "queues 1000 packets at the bottleneck", setting(buffer_pkts=1000)),
    Fault("jitter", "jitters by 5 ms, which reorders", setting(jitter_ms=5.0)),
)


def broken_runs(runs: Sequence[RunSpec], repetitions: int) -> list[RunSpec]:
    """What the broken labs do otherwise than some runs, of the first so many repetitions."""
    found = []
    for run in sorted(runs, key=lambda each: each.repetition):
        if run.repetition <= repetitions:
            done = ((lab, lab.do(run)) for lab in BROKEN)
            found += [replace(does, experiment=lab.experiment) for lab, does in done if does != run]
    return found
