"""Arrow's order against the best there is: all requests made at once, by few enough to try all.

Whoever knew all requests would put each behind a near one: the shortest way from the end of the
queue through all of them, in the graph. Arrow knows nothing and goes by the tree: when messages
take one step an edge, always to the nearest that is left. (Herlihy, Tirthapura and Wattenhofer;
from that, and what is known of such ways, follows O(s log R) times the best, with s the stretch.)
"""

from collections.abc import Sequence
from math import inf
from random import Random

import msgspec
from benchmarks.arrow_directory_parts.tree_metric import TreeMetric

from snowmelt_lab.arrow.contest import Contest, ContestOptions, Rival
from snowmelt_lab.arrow.metric import Graph, distances_from
from snowmelt_lab.arrow.options import Arrivals, TreeKind
from snowmelt_lab.arrow.plan import number_of


class OneShot(msgspec.Struct, frozen=True):
    """What placing all requests took: steps, over all requests."""

    path: tuple[int, ...]
    """The nodes in arrow's order, from the end of the queue before."""
    arrow: float
    best: int
    """By the shortest ways in the graph."""
    best_direct: int
    """When everybody is one step from everybody."""
    stretch: int
    """Of the tree, in the graph."""
    stretch_direct: int
    """When everybody is one step from everybody: the tree's diameter."""


def one_shot(tree: TreeKind, nodes: int, requests: int, seed: int, work: float = 0.0) -> OneShot:
    """Lets so many nodes ask at once, with the queue's end at any node before.

    >>> told = one_shot(TreeKind.PATH, 9, 3, seed=4)
    >>> told.path, told.arrow, told.best
    ((3, 3, 4, 0), 5.0, 5)
    """
    options = ContestOptions(
        nodes=nodes,
        tree=tree,
        requests=requests,
        arrivals=Arrivals.ONE_SHOT,
        seed=seed,
        work=work,
        begin=Random(seed).randrange(nodes),
    )
    contest = Contest(options, Rival.ARROW)
    contest.run()
    after = {fact.place: fact.by for fact in contest.followed}
    place = next(place for place in after if place.filler)
    path = [options.begin]
    while place in after:
        place = after[place]
        path.append(number_of(place.node))
    metric = TreeMetric(contest.plan)
    return OneShot(
        path=tuple(path),
        arrow=contest.score.latency * requests,
        best=shortest_path(distance_table(contest.plan.graph, path)),
        best_direct=len(dict.fromkeys(path)) - 1,
        stretch=metric.stretch,
        stretch_direct=metric.diameter,
    )


def distance_table(graph: Graph, stops: Sequence[int]) -> list[list[int]]:
    """How far these nodes are from each other.

    >>> distance_table([[1], [0, 2], [1]], [0, 2, 2])
    [[0, 2, 2], [2, 0, 0], [2, 0, 0]]
    """
    rows = [distances_from(graph, one) for one in stops]
    return [[row[other] for other in stops] for row in rows]


def shortest_path(table: Sequence[Sequence[int]]) -> int:
    """The shortest way from point 0 through all others, in any order: the travelling salesman's.

    It remembers the shortest way for each set of points and its last one (Held and Karp), so it
    takes 2^n n^2 steps for n points.

    >>> shortest_path([[0, 2, 1], [2, 0, 3], [1, 3, 0]])
    4
    """
    stops = range(1, len(table))
    least: dict[tuple[int, int], float] = {(1 << stop, stop): table[0][stop] for stop in stops}
    whole = (1 << len(table)) - 2
    for seen in range(2, whole + 1, 2):
        for last in stops:
            so_far = least.get((seen, last))
            if so_far is None:
                continue
            for stop in stops:
                if not seen >> stop & 1:
                    key = (seen | 1 << stop, stop)
                    least[key] = min(least.get(key, inf), so_far + table[last][stop])
    return int(min((least[whole, last] for last in stops), default=0))
