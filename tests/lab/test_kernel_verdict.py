"""What a run on another kernel says of it."""

from __future__ import annotations

from gostlab.ask.resolve import single_run
from gostlab.ask.run_description import RunDescription
from gostlab.guest.watch.fidelity import check_kernel


def run_on(**overrides: str) -> RunDescription:
    return single_run(
        profile="la-hamina", cc="cubic", machine="sandbox", clock="virtual", overrides=overrides
    )


def test_a_run_says_what_its_kernel_lacks_and_is_degraded_where_that_decides() -> None:
    run = run_on(kernel="5.10")
    known = {"version": "5.10.262", "lacks": ["host memory", "netem seed", "idle"]}
    kernel, lacks = check_kernel(run, known, "5.10.262")
    assert (kernel.verdict, lacks.verdict) == ("ok", "ok")
    assert lacks.reason.startswith("what this kernel lacks: no TCP memory of each host's own")
    assert "wake-ups" not in lacks.reason  # that is the real clock's
    assert check_kernel(run, {**known, "lacks": ["seeds"]}, "5.10.262")[1].verdict == "degraded"
    assert check_kernel(run, known, "7.3.4")[0].verdict == "invalid"
    assert check_kernel(run_on(), None, "7.3.4") == []
