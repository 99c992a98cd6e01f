"""Arrow's order against the best there is: all requests made at once, by few enough to try all.

Whoever knew all requests would put each behind a near one: the shortest way from the end of the
queue through all of them, in the graph. Arrow knows nothing and goes by the tree: when messages
take one step an edge, always to the nearest that is left. (Herlihy, Tirthapura and Wattenhofer;
from that, and what is known of such ways, follows O(s log R) times the best, with s the stretch.)
"""

from random import Random

import msgspec

from snowmelt.lab.arrow.contest import Contest, ContestOptions, Rival
from snowmelt.lab.arrow.metric import TreeMetric, distance_table, shortest_path
from snowmelt.lab.arrow.options import Arrivals, TreeKind
from snowmelt.lab.arrow.plan import number_of


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
