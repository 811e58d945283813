# SPDX-License-Identifier: MIT
"""Compute the links of networks of n nodes, and the shortest paths of flows.

A path is equal in both directions.
"""

import itertools

CHAIN, RING, MESH = "chain", "ring", "mesh"
SHAPES = (CHAIN, RING, MESH)
Link = tuple[int, int]  # A link is forward from the first node to the second.


def links(shape: str, nodes: int) -> list[Link]:
    """Return the links of a shape, each in the direction that counts as forward."""
    if shape == MESH:
        return [
            (first, second)
            for first in range(1, nodes + 1)
            for second in range(first + 1, nodes + 1)
        ]
    chain = [(node, node + 1) for node in range(1, nodes)]
    return [*chain, (nodes, 1)] if shape == RING else chain


def shortest_path(shape: str, nodes: int, start: int, end: int) -> list[Link]:
    """Return the steps from one node to another, each as (from, to).

    In a ring they are the shorter of both paths; of two equal ones, the path of increasing numbers
    from the smaller number.
    """
    if start > end:
        return [
            (after, before) for before, after in reversed(shortest_path(shape, nodes, end, start))
        ]
    if shape == MESH:
        return [(start, end)] if start != end else []
    rising = [(node, node + 1) for node in range(start, end)]
    if shape != RING or end - start <= nodes - (end - start):
        return rising
    falling = [start, *range(start - 1, 0, -1), *range(nodes, end - 1, -1)]
    return list(itertools.pairwise(falling))
