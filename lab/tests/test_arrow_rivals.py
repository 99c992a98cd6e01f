"""Arrow beside its rival and beside the best order; and the graphs its trees grow on.

The theorem that is checked: when all ask at once and messages take a step an edge, arrow's order
goes to the nearest that is left. Elsewhere it need not, so the check can fail.
"""

import doctest
import json
from functools import partial
from itertools import pairwise, permutations
from math import log2
from random import Random
from typing import Any

import pytest
from benchmarks.arrow_directory_parts import graphs, offline, tree_metric
from benchmarks.arrow_directory_parts.graphs import GraphKind, grown_on, worth
from benchmarks.arrow_directory_parts.offline import (
    OneShot,
    distance_table,
    one_shot,
    shortest_path,
)
from benchmarks.arrow_directory_parts.tree_metric import TreeMetric

import commands
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announce, Announced, Received, Send
from snowmelt.protocols.arrow import Followed, OrderPlace, RequestPlace
from snowmelt_lab.arrow.contest import (
    Contest,
    ContestOptions,
    Enlist,
    HomeNode,
    Precede,
    Rival,
    Score,
)
from snowmelt_lab.arrow.metric import distances_from, median_of
from snowmelt_lab.arrow.options import Arrivals, TreeKind
from snowmelt_lab.arrow.plan import Plan, plan_of, planned


def is_nearest_neighbour_path(table: list[list[int]]) -> bool:
    """Whether each point that is gone to is the nearest of those that are left."""
    return all(row[step] == min(row[step:]) for step, row in enumerate(table[:-1], 1))


def scored(rival: Rival, **changed: Any) -> Score:
    contest = Contest(ContestOptions(**changed), rival)
    contest.run()
    return contest.score


def tree_table(tree: TreeKind, nodes: int, seed: int, told: OneShot) -> list[list[int]]:
    plan = planned(tree, nodes, Random(seed))
    return distance_table(plan_of(list(plan.parents)).graph, told.path)


# --- the contest ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tree", list(TreeKind))
@pytest.mark.parametrize("arrivals", list(Arrivals))
def test_every_rival_makes_one_order(tree: TreeKind, arrivals: Arrivals) -> None:
    for rival in Rival:
        for seed in range(4):
            options = ContestOptions(
                nodes=17,
                tree=tree,
                requests=50,
                arrivals=arrivals,
                work=0.3 * (seed % 2),
                begin=seed,
                seed=seed,
            )
            contest = Contest(options, rival)
            contest.run()
            assert contest.score.wrong is None
            assert len(contest.followed) == 50


def test_rivals_are_asked_the_same_at_the_same_time() -> None:
    options = ContestOptions(nodes=9, arrivals=Arrivals.POISSON, requests=40, work=0.1)
    contests = [Contest(options, rival) for rival in Rival]
    for contest in contests:
        contest.run()
    assert contests[0]._asked == contests[1]._asked == contests[2]._asked
    assert len(dict.fromkeys(contests[0]._asked.values())) > 30


def test_a_broken_order_is_told() -> None:
    contest = Contest(ContestOptions(nodes=9, requests=20), Rival.ARROW)
    contest.run()
    contest.followed.append(contest.followed[3])
    assert contest.score.wrong is not None


def test_one_after_another_the_hops_are_the_distances() -> None:
    """With arrow those in the tree; with a home there and back."""
    options = ContestOptions(nodes=30, tree=TreeKind.OVERLAY, requests=80, seed=5, begin=7)
    plan = planned(TreeKind.OVERLAY, 30, Random(5))
    metric, home = TreeMetric(plan), median_of(plan.graph)
    away = distances_from(plan.graph, home)
    arrow, directory = (Contest(options, rival) for rival in (Rival.ARROW, Rival.HOME))
    arrow.run()
    directory.run()
    ways = [(number(fact.by), number(fact.place)) for fact in arrow.followed]
    assert number(arrow.followed[0].place) == 7
    assert arrow.score.hops == pytest.approx(sum(metric.between(*way) for way in ways) / 80)
    assert arrow.score.latency == arrow.score.hops
    ways = [(number(fact.by), number(fact.place)) for fact in directory.followed]
    assert number(directory.followed[0].place) == 7
    there_and_back = sum(away[one] + away[other] for one, other in ways)
    assert directory.score.hops == pytest.approx(there_and_back / 80)


def number(place: OrderPlace) -> int:
    return int(place.node[1:])


def test_a_home_is_full_where_arrow_is_not() -> None:
    """Every request costs the home a tenth of a step: at twenty in a step it falls behind."""
    for rival, is_full in ((Rival.ARROW, False), (Rival.HOME, True), (Rival.DIRECT, True)):
        few, many = (
            scored(rival, arrivals=Arrivals.POISSON, rate=rate, work=0.1) for rate in (2, 20)
        )
        assert (many.latency > 3 * few.latency) == is_full, rival
        assert (many.busiest > 0.3) == is_full, rival


def test_work_at_a_node_is_done_one_after_the_other() -> None:
    """Four leaves of a star ask a home that needs a step for each: the last waits for all."""
    told = scored(
        Rival.HOME,
        nodes=5,
        tree=TreeKind.STAR,
        requests=5,
        arrivals=Arrivals.ONE_SHOT,
        work=1.0,
    )
    # Its own work, over the edge at 2, at the home from then or when it is free, at most until 6;
    # back at 7, and a step of work there.
    assert told.latency_max == 8


def test_the_home_tells_the_one_before() -> None:
    a, b, c = (NodeId(name) for name in "abc")
    home, other = HomeNode(a, a), HomeNode(b, a)
    first, second = (OrderPlace(one, OperationId(one, 1)) for one in (b, c))
    now = Instant(0)
    assert other.handle(Announced(RequestPlace(first.name)), now) == [Send(a, Enlist(first))]
    begun = home.handle(Received(b, Enlist(first)), now)
    assert [type(effect) for effect in begun] == [Announce]  # the first place was the home's own
    told = home.handle(Received(c, Enlist(second)), now)
    followed = Followed(first, second)
    assert told == [Send(b, Precede(followed))]
    assert other.handle(Received(a, Precede(followed)), now) == [Announce(followed)]


# --- all at once, beside the best -----------------------------------------------------------------


@pytest.mark.parametrize("tree", list(TreeKind))
def test_all_at_once_arrow_goes_to_the_nearest_that_is_left(tree: TreeKind) -> None:
    for seed in range(60):
        nodes = 2 + seed
        told = one_shot(tree, nodes, min(nodes, 8), seed)
        assert is_nearest_neighbour_path(tree_table(tree, nodes, seed, told))


def test_all_nodes_at_once_too() -> None:
    for tree in TreeKind:
        told = one_shot(tree, 12, 12, seed=3)
        assert is_nearest_neighbour_path(tree_table(tree, 12, 3, told))


def test_where_nodes_are_slow_it_need_not() -> None:
    def holds(seed: int) -> bool:
        told = one_shot(TreeKind.RANDOM, 30, 8, seed, work=2.0)
        return is_nearest_neighbour_path(tree_table(TreeKind.RANDOM, 30, seed, told))

    assert not all(holds(seed) for seed in range(60))


@pytest.mark.parametrize("tree", list(TreeKind))
def test_arrow_is_within_the_bound_of_the_best(tree: TreeKind) -> None:
    for seed in range(30):
        requests = 2 + seed % 6
        told = one_shot(tree, 31, requests, seed)
        assert told.best <= told.arrow <= told.best * told.stretch * log2(requests)
        assert told.arrow <= told.best_direct * told.stretch_direct * log2(requests)


def test_the_shortest_path_is_that_of_all_orders() -> None:
    chance = Random(2)
    for _ in range(20):
        graph = planned(TreeKind.OVERLAY, 20, chance).graph
        table = distance_table(graph, chance.sample(range(20), 6))
        lengths = (length(table, (0, *rest)) for rest in permutations(range(1, 6)))
        assert shortest_path(table) == min(lengths)


def length(table: list[list[int]], path: tuple[int, ...]) -> int:
    return sum(table[one][other] for one, other in pairwise(path))


# --- trees and graphs -----------------------------------------------------------------------------


def test_the_tree_is_measured_as_all_pairs_say() -> None:
    for seed in range(10):
        plan = planned(TreeKind.OVERLAY, 25, Random(seed))
        metric = TreeMetric(plan)
        pairs = [(one, other) for one in range(25) for other in range(one)]
        rows = [distances_from(plan.graph, one) for one in range(25)]
        ways = [metric.between(*pair) for pair in pairs]
        assert metric.diameter == max(ways)
        assert metric.mean == pytest.approx(sum(ways) / len(ways))
        ratios = [way / rows[one][other] for way, (one, other) in zip(ways, pairs, strict=True)]
        assert metric.stretch == max(ratios)
        assert metric.depth == plan.depth


def test_rings_keep_their_degree_and_hang_together_when_someone_leaves() -> None:
    for nodes in (2, 3, 10, 200):
        plan = grown_on(GraphKind.RINGS, range(nodes), 8)
        assert max(len(near) for near in plan.graph) <= 8
        assert is_whole(plan)
    assert is_whole(grown_on(GraphKind.RINGS, [one for one in range(50) if one != 7], 8))


def is_whole(plan: Plan) -> bool:
    return min(distances_from(plan.graph, 0)) == 0


def test_a_graph_is_known_by_the_names_alone() -> None:
    assert grown_on(GraphKind.RINGS, [1, 2, 3, 4, 9], 4) == grown_on(
        GraphKind.RINGS, [1, 2, 3, 4, 9], 4
    )
    assert grown_on(GraphKind.CHORDS, range(40), 8, 1) != grown_on(
        GraphKind.CHORDS, range(40), 8, 2
    )


def test_why_rings_were_chosen() -> None:
    rings, chords, heap = (worth(kind, 200, 8) for kind in GraphKind)
    assert heap.mean < rings.mean < 1.2 * heap.mean
    assert rings.degree_max == 8 < chords.degree_max
    assert 3 * rings.moved < heap.moved
    assert worth(GraphKind.RINGS, 200, 4).mean > 1.3 * rings.mean


# --- the command ----------------------------------------------------------------------------------


ran = partial(commands.ran, "arrow-compare")


def test_it_tells_how_the_rivals_did() -> None:
    arguments = ("--nodes", "20", "--tree", "star", "--requests", "100")
    told = json.loads(ran(*arguments, "--json"))
    assert list(told) == ["arrow", "home", "direct"]
    assert told["home"] == {**told["direct"], "rival": "home"}
    assert told["arrow"]["wrong"] is None
    assert f"{told['arrow']['latency']:.2f}" in ran(*arguments)


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("--nodes 1", "--nodes"),
        ("--tree bush", "--tree"),
        ("--requests 0", "--requests"),
        ("--rate 0", "--rate"),
        ("--work nan", "--work"),
        ("--arrivals never", "--arrivals"),
    ],
)
def test_a_wrong_option_is_refused_by_name(arguments: str, option: str) -> None:
    with pytest.raises(BadOption) as caught:
        ran(*arguments.split())
    assert caught.value.option == option


@pytest.mark.parametrize("module", [graphs, offline, tree_metric], ids=lambda one: one.__name__)
def test_the_examples_beside_the_benchmark_hold(module: Any) -> None:
    told = doctest.testmod(module)
    assert told.attempted
    assert told.failed == 0
