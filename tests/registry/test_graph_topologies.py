# SPDX-License-Identifier: MIT
"""Networks of nodes: their links, and the ways across."""

import pytest

from gostlab.registry import graph_topologies


def test_a_ring_is_crossed_the_shorter_way_and_the_same_back() -> None:
    assert graph_topologies.shortest_path("ring", 5, 1, 3) == [(1, 2), (2, 3)]
    assert graph_topologies.shortest_path("ring", 5, 1, 4) == [(1, 5), (5, 4)]
    assert graph_topologies.shortest_path("ring", 4, 1, 3) == [(1, 2), (2, 3)]  # of two as long
    assert graph_topologies.shortest_path("ring", 4, 3, 1) == [(3, 2), (2, 1)]


@pytest.mark.parametrize("shape", graph_topologies.SHAPES)
@pytest.mark.parametrize("nodes", [3, 4, 5, 6])
def test_every_way_is_made_of_links_and_goes_on_as_from_where_it_is(shape: str, nodes: int) -> None:
    links = graph_topologies.links(shape, nodes)
    for start in range(1, nodes + 1):
        for end in range(1, nodes + 1):
            way = graph_topologies.shortest_path(shape, nodes, start, end)
            assert all(step in links or step[::-1] in links for step in way)
            if way:  # routers know only where a packet goes, not where it came from
                assert way[1:] == graph_topologies.shortest_path(shape, nodes, way[0][1], end)
