# SPDX-License-Identifier: MIT
"""Routes that the kernel remembers: packets go where they would without, whatever changes."""

from shlex import quote

import pytest

from gostlab.registry.kernels import SHIPPED
from tests.kernel import route_probe
from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize("kernel", [SHIPPED, "5.10"])
def test_packets_go_where_the_routes_of_the_moment_send_them(lab: Lab, kernel: str) -> None:
    probe = f"python3 -S {quote(route_probe.__file__)}"
    on, off = (lab.command(f"{probe} {word}", kernel=kernel).printed[0] for word in ("Y", "N"))

    assert (on["known"] > 80, off["known"]) == (True, 0)
    assert on["cases"] == off["cases"]  # to the nanosecond
    gone, anew = on["cases"].pop("namespace gone"), on["cases"].pop("anew")
    assert (gone, anew[:2]) == ([0], [0, 6])
    assert {name: got[:2] for name, got in on["cases"].items()} == {
        name: exits for name, exits, _, _ in route_probe.CASES
    }
