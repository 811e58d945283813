"""Networks of n nodes: their links, and which a flow crosses: shortest ways, alike both ways."""

import itertools

CHAIN, RING, MESH = "chain", "ring", "mesh"
SHAPES = (CHAIN, RING, MESH)
Link = tuple[int, int]  # from the node with the first number to that with the second: forward


def links(shape: str, nodes: int) -> list[Link]:
    """The links of a shape, each once, in the direction that counts as forward."""
    if shape == MESH:
        return [(one, two) for one in range(1, nodes + 1) for two in range(one + 1, nodes + 1)]
    row = [(number, number + 1) for number in range(1, nodes)]
    return [*row, (nodes, 1)] if shape == RING else row


def way(shape: str, nodes: int, start: int, end: int) -> list[Link]:
    """The steps from one node to another, each as (from, to). In a ring the shorter way round; of
    two as long, the one of rising numbers from the smaller number.
    """
    if start > end:
        return [(after, before) for before, after in reversed(way(shape, nodes, end, start))]
    if shape == MESH:
        return [(start, end)] if start != end else []
    rising = [(number, number + 1) for number in range(start, end)]
    if shape != RING or end - start <= nodes - (end - start):
        return rising
    falling = [start, *range(start - 1, 0, -1), *range(nodes, end - 1, -1)]
    return list(itertools.pairwise(falling))
