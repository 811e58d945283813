# SPDX-License-Identifier: MIT
"""A run gets what the description says its socket buffers allow, on kernels of both rules."""

from dataclasses import astuple

import pytest

from gostlab.spec.preflight import guards
from gostlab.spec.tcp_windows import flow_windows
from gostlab.tcpmodel.response_functions import window_limit_bps
from tests.sandboxed import Lab, written

pytestmark = pytest.mark.sandbox

FAR = "rate: 200mbit, rtt: 200ms, duration: 8s, measure: 4s..8s, cc: {cc}, kernel: {kernel}"
RECEIVE_BOUND = "{rmem: [4KiB, 128KiB, 1MiB], wmem: [4KiB, 16KiB, 8MiB]}"
SEND_BOUND = "{rmem: [4KiB, 128KiB, 16MiB], wmem: [4KiB, 16KiB, 2MiB]}"


@pytest.mark.parametrize("kernel", ["shipped", "'5.10'", "'6.12'"])
@pytest.mark.parametrize("offloads", ["on", "off"])
def test_a_receive_buffer_allows_the_kernels_share_of_it(
    lab: Lab, kernel: str, offloads: str
) -> None:
    far = FAR.format(cc="cubic", kernel=kernel)
    run = written(f"{{{far}, offloads: {offloads}, buffers: {RECEIVE_BOUND}}}")
    done = lab.run(run)

    [flow] = run.flows
    window = flow_windows(run, flow)
    assert window.min_bytes == window.max_bytes
    allowed_bps = window_limit_bps(window.max_bytes, 0.2)
    assert done.flows["flow1"]["goodput_bps"] == pytest.approx(allowed_bps, rel=0.1)
    advertised = max(
        row["snd_wnd_bytes"] for row in done.lines("sockets.jsonl") if row["end"] == "near"
    )
    assert advertised == pytest.approx(window.max_bytes, rel=0.01)


@pytest.mark.parametrize("kernel", ["shipped", "'5.10'"])
def test_a_paced_sender_has_three_fifths_of_its_send_buffer_in_flight(
    lab: Lab, kernel: str
) -> None:
    far = FAR.format(cc="bbr", kernel=kernel)
    run = written(f"{{{far}, buffers: {SEND_BOUND}}}")
    done = lab.run(run)

    allowed_bps = window_limit_bps(flow_windows(run, run.flows[0]).min_bytes, 0.2)
    assert done.flows["flow1"]["goodput_bps"] == pytest.approx(allowed_bps, rel=0.1)


@pytest.mark.parametrize("cc", ["cubic", "bbr"])
def test_debians_buffers_give_a_rate_within_what_the_warning_says(lab: Lab, cc: str) -> None:
    run = written(f"{{{FAR.format(cc=cc, kernel='shipped')}, buffers: debian, offloads: auto}}")
    assert not run.offloads
    [warning] = [guard for guard in guards(run) if guard.name == "window_limit"]
    assert "by any congestion control" in warning.sentence

    done = lab.run(run)
    window = flow_windows(run, run.flows[0])
    low_bps, high_bps = (window_limit_bps(each, 0.2) for each in astuple(window))
    assert 0.9 * low_bps < done.flows["flow1"]["goodput_bps"] < 1.1 * high_bps


@pytest.mark.parametrize("loss", ["0%", "1%"])
def test_tcp_memory_holds_what_large_buffers_hold_after_losses(lab: Lab, loss: str) -> None:
    far = "rate: 144mbit, rtt: 600ms, jitter: 15ms, ordered: on, duration: 12s, cc: bbr"
    done = lab.run(written(f"{{{far}, loss: {loss}, buffers: bdp}}"))

    assert done.verdicts["tcp_memory"] == "ok", done.checks["tcp_memory"]


def test_a_guest_says_too_that_a_scalable_control_meets_no_marks(lab: Lab) -> None:
    done = lab.run(written("{duration: 2s, cc: prague}"))

    assert "as Reno does" in done.checks["guard_unmarked"]["reason"]
