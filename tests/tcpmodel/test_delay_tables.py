# SPDX-License-Identifier: MIT
"""The delay tables that tc knows by name are computed, and equal iproute2's files."""

import pytest

from gostlab.profile_import.write_specified import find_table
from gostlab.spec.profile import load_distribution
from gostlab.tcpmodel.delay_tables import TABLE_NAMES, delay_table, table_name_of


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_a_table_is_iproute2s(name: str) -> None:
    file = find_table(name)
    if file is None:
        pytest.skip("no tc")
    assert delay_table(name) == load_distribution(file)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_a_table_is_known_by_its_entries(name: str) -> None:
    assert table_name_of(delay_table(name)) == name
    assert table_name_of(delay_table(name)[1:]) is None
