"""What the overlay costs for a number of nodes: heights, hops, shares; and against that number."""

from typing import Final

import msgspec
import numpy as np

from snowmelt_lab.overlay.arrays import Circle, keys_drawn, spread, uneven

ARITIES: Final = (4, 16, 64)
POINTS: Final = (1, 3, 10, 30, 100)
NODES_UNEVEN: Final = 1_000
"""As many nodes at most are drawn to compare numbers of points."""

PAPERS: Final = {
    10: (12, 7, None, None),
    100: (28, 21, 25, 37),
    1_000: (54, 44, 35, 55),
    10_000: (76, 62, 49, 70),
    100_000: (104, 86, 59, 80),
}
"""Measured before by another program, which looked for middle nodes in another way: height of the
tree, that in hops between nodes, routing hops in the mean and at the 99th percentile."""


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    salt: str
    tree_height: int
    """In virtual nodes."""
    tree_height_hops: int
    """In hops from node to node."""
    tree_depth_hops_mean: float
    """From the left virtual nodes, where operations begin."""
    flat_tree_height: dict[str, int]
    """By arity."""
    routes: int
    routing_hops_mean: float
    routing_hops_p99: int
    routing_hops_max: int
    routing_hops_mean_between_nodes: float
    share: dict[str, float]
    """Of the circle, and so of all keys, per node; the mean is 1."""
    share_by_points: dict[str, dict[str, float]]
    """The same if each node had so many independent points on the circle."""


def measured(nodes: int, salt: str, routes: int, seed: int, *, shares: bool = True) -> Overlay:
    circle, chance = Circle(nodes, salt), np.random.default_rng(seed)
    hops_up = circle.depths(within=False)
    starts = chance.integers(0, nodes, routes)
    ends, hops, away = circle.routes(starts, keys_drawn(chance, routes))
    assert len(ends) == routes
    compared = min(nodes, NODES_UNEVEN)
    return Overlay(
        nodes=nodes,
        salt=salt,
        tree_height=int(circle.depths().max()),
        tree_height_hops=int(hops_up.max()),
        tree_depth_hops_mean=round(float(hops_up[circle.places[0]].mean()), 2),
        flat_tree_height={str(arity): flat_height(nodes, arity) for arity in ARITIES},
        routes=routes,
        routing_hops_mean=round(float(hops.mean()), 2),
        routing_hops_p99=int(np.quantile(hops, 0.99)),
        routing_hops_max=int(hops.max()),
        routing_hops_mean_between_nodes=round(float(away.mean()), 2),
        share=spread(circle.shares()),
        share_by_points={str(points): uneven(chance, compared, points, 20) for points in POINTS}
        if shares
        else {},
    )


def sizes_up_to(nodes: int) -> list[int]:
    """Numbers of nodes for a curve: three a decade.

    >>> sizes_up_to(100)
    [10, 22, 46, 100]
    """
    sizes = [round(10 ** (1 + third / 3)) for third in range(13)]
    return [size for size in sizes if size <= nodes]


def flat_height(nodes: int, arity: int) -> int:
    """The height of a tree of so many nodes in which each has so many children.

    >>> flat_height(1, arity=16), flat_height(17, arity=16), flat_height(18, arity=16)
    (0, 1, 2)
    """
    at, height = nodes - 1, 0
    while at:
        at, height = (at - 1) // arity, height + 1
    return height
