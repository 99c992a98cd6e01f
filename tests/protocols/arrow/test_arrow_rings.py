"""Who is whose neighbour: everybody finds it alone, and it is one sparse graph."""

from collections.abc import Sequence
from random import Random

import pytest

from snowmelt.core.names import NodeId
from snowmelt.protocols.arrow.rings import RINGS, neighbours, orders
from snowmelt_lab.arrow.options import TreeKind
from snowmelt_lab.arrow.plan import name_of, number_of, planned

Graph = dict[NodeId, tuple[NodeId, ...]]


def members(count: int) -> list[NodeId]:
    return [NodeId(f"rack{number % 7}-machine{number}") for number in range(count)]


def graph_of(nodes: Sequence[NodeId]) -> Graph:
    return {node: neighbours(node, nodes) for node in nodes}


def reached(graph: Graph) -> int:
    """How many can be reached from the first."""
    seen = dict.fromkeys([next(iter(graph))])
    waiting = list(seen)
    while waiting:
        for other in graph[waiting.pop()]:
            if other not in seen:
                seen[other] = None
                waiting.append(other)
    return len(seen)


def test_it_is_one_graph_of_few_edges_that_both_ends_know() -> None:
    for count in [*range(1, 50), *range(50, 201, 15)]:
        graph = graph_of(members(count))
        assert reached(graph) == count
        assert max(len(near) for near in graph.values()) <= 2 * RINGS == 8
        assert all(node not in near for node, near in graph.items())
        assert all(node in graph[other] for node, near in graph.items() for other in near)


def test_the_order_in_which_they_are_known_means_nothing() -> None:
    nodes = members(60)
    mixed = Random(4).sample(nodes, len(nodes))
    assert mixed != nodes
    assert graph_of(mixed) == graph_of(nodes)
    assert all(list(near) == sorted(near) for near in graph_of(mixed).values())


@pytest.mark.parametrize("count", [3, 20, 150])
def test_who_leaves_changes_the_neighbours_of_eight_at_most(count: int) -> None:
    nodes = members(count)
    before = graph_of(nodes)
    for leaver in nodes[:: max(1, count // 10)]:
        after = graph_of([node for node in nodes if node != leaver])
        changed = [node for node in after if after[node] != before[node]]
        assert len(changed) <= 2 * RINGS
        assert all(leaver in before[node] for node in changed)


def test_each_ring_has_an_order_of_its_own() -> None:
    rings = orders(members(40))
    assert len(rings) == RINGS
    assert all(sorted(ring) == sorted(members(40)) for ring in rings)
    assert len(dict.fromkeys(map(tuple, rings))) == RINGS


def test_more_than_a_hundred_are_a_few_steps_from_each_other() -> None:
    """One ring alone would be 75 wide."""
    assert planned(TreeKind.OVERLAY, 150, Random(1)).depth <= 5


@pytest.mark.parametrize("count", [2, 3, 17, 120])
def test_the_laboratory_tries_the_same_graph(count: int) -> None:
    names = [name_of(number) for number in range(count)]
    plan = planned(TreeKind.OVERLAY, count, Random(1))
    for name in names:
        near = plan.graph[number_of(name)]
        assert tuple(name_of(other) for other in near) == neighbours(name, names)
