# SPDX-License-Identifier: MIT
"""What settings say of a path, put into a profile's directions."""

from typing import Any

import pytest

from gostlab.profile_import.profile_writer import apply_settings


@pytest.mark.parametrize(
    ("settings", "forward", "reverse"),
    [
        ({"rtt": "30ms"}, {"delay": "15ms"}, {"delay": "15ms"}),
        ({"rtt": "25ms"}, {"delay": "12.5ms"}, {"delay": "12.5ms"}),
        ({"loss": "1%", "cc": "bbr"}, {"loss": "1%"}, {"loss": "1%"}),
        ({"reverse.rate": "5mbit"}, {}, {"rate": "5mbit"}),
        # What is said of one direction holds, wherever it stands.
        ({"reverse.loss": "2%", "loss": "1%"}, {"loss": "1%"}, {"loss": "2%"}),
        ({"forward.delay": "3ms", "rtt": "30ms"}, {"delay": "3ms"}, {"delay": "15ms"}),
        ({"ordered": "on"}, {"ordered": True}, {"ordered": True}),
    ],
)
def test_a_setting_is_both_directions_and_one_that_names_its_direction_is_stronger(
    settings: dict[str, Any], forward: dict[str, Any], reverse: dict[str, Any]
) -> None:
    ways: dict[str, dict[str, Any]] = {"forward": {}, "reverse": {}}
    apply_settings(ways, settings)
    assert ways == {"forward": forward, "reverse": reverse}
