"""Theorem 4.1 on all states of small trees: the whole is legal if and only if every edge is.

Legal is meant as the paper defines it (3.1, 3.2), with nothing of edges in it: quiescent, or
reached from a quiescent state by requests and finds, which the protocol's own `Arrow` carries out.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.arrow.arrow import Arrow, Forward
from snowmelt.protocols.arrow.edge import ParentEdge
from snowmelt.protocols.arrow.messages import Find, OrderPlace
from snowmelt_lab.arrow.legality import EdgeState, whole_is_legal
from wide import wide

PATH, STAR, FORK = (0, 1, 2), (0, 0, 0), (0, 1, 1, 0)
TREES = {  # the parents of nodes 1, 2, ...; and how many finds there may be in each direction
    "two": ((0,), 3),
    "path of three": ((0, 1), 2),
    "path of four": (PATH, 2),
    "star of four": (STAR, 2),
    "path of five": ((*PATH, 3), 1),
    "star of five": ((*STAR, 0), 1),
    "fork of five": (FORK, 1),
    "path of six": ((*PATH, 3, 4), 1),
    "binary of six": ((0, 0, 1, 1, 2), 1),
    "star of six": ((0,) * 5, 1),
}
PLACE = OrderPlace(NodeId("x"), OperationId(NodeId("x"), 1))
FIND = Find(PLACE)


class State(NamedTuple):
    points_at: tuple[int, ...]
    finds: tuple[int, ...]  # on each way, in the order of `Tree.ways`


class Tree:
    def __init__(self, parents: tuple[int, ...]) -> None:
        self.edges = [(parent, child) for child, parent in enumerate(parents, 1)]
        self.ways = [*self.edges, *[(child, parent) for parent, child in self.edges]]
        self.near = [
            [other for one, other in self.ways if one == node] for node in range(len(parents) + 1)
        ]

    def states(self, finds_max: int) -> Iterator[State]:
        arrows = product(*([node, *near] for node, near in enumerate(self.near)))
        finds = list(product(range(finds_max + 1), repeat=len(self.ways)))
        return (State(points_at, counts) for points_at in arrows for counts in finds)

    def quiescent(self) -> Iterator[State]:
        """Definition 3.1: following the arrows from any node leads to one sink; no finds."""
        for state in self.states(0):
            if len({self.end_of(state.points_at, node) for node in range(len(self.near))}) == 1:
                yield state

    def end_of(self, points_at: tuple[int, ...], node: int) -> int:
        seen = []
        while points_at[node] != node:
            if node in seen:
                return -1 - len(seen) - 100 * node  # goes round for ever: nobody else's end
            seen.append(node)
            node = points_at[node]
        return node

    def transitions(self, state: State) -> Iterator[State]:
        for node in range(len(self.near)):
            yield self.step(state, node, None)
        for way, count in enumerate(state.finds):
            if count:
                yield self.step(state, self.ways[way][1], way)

    def step(self, state: State, node: int, way: int | None) -> State:
        """A node asks for a place, or takes a find that came this way."""
        arrow = Arrow(str(node), PLACE)
        arrow.points_at = str(state.points_at[node])
        finds = list(state.finds)
        if way is None:
            step = arrow.ask(PLACE)
        else:
            finds[way] -= 1
            step = arrow.take(PLACE, str(self.ways[way][0]))
        if isinstance(step, Forward):
            finds[self.ways.index((node, int(step.to)))] += 1
        points_at = list(state.points_at)
        points_at[node] = int(arrow.points_at)
        return State(tuple(points_at), tuple(finds))

    def legal(self) -> set[State]:
        """Definition 3.2."""
        waiting = list(self.quiescent())
        found = set(waiting)
        while waiting:
            for state in self.transitions(waiting.pop()):
                if state not in found:
                    assert sum(state.finds) < len(self.near), "more finds than edges"
                    found.add(state)
                    waiting.append(state)
        return found

    def every_edge_is_legal(self, state: State) -> bool:
        on = dict(zip(self.ways, state.finds, strict=True))
        return all(
            EdgeState(
                state.points_at[parent] == child,
                state.points_at[child] == parent,
                ParentEdge(),
                [FIND] * on[parent, child],
                [FIND] * on[child, parent],
            ).legal
            for parent, child in self.edges
        )


@pytest.mark.parametrize("name", [*list(TREES)[:-3], *wide(*list(TREES)[-3:])])
def test_a_state_is_legal_if_and_only_if_every_edge_is(name):
    parents, finds_max = TREES[name]
    tree = Tree(parents)
    legal = tree.legal()
    told = Counter()
    for state in tree.states(finds_max):
        assert tree.every_edge_is_legal(state) == (state in legal), state
        told[state in legal] += 1
    assert told[True] == len(legal) > 0
    assert told[False] > 0


@pytest.mark.parametrize("name", ["two", "path of three", "path of four", "fork of five"])
def test_the_world_that_sees_all_tells_the_legal_states(name):
    tree = Tree(TREES[name][0])
    legal = tree.legal()
    for state in tree.states(1):
        points_at = {NodeId(str(one)): NodeId(str(at)) for one, at in enumerate(state.points_at)}
        finds = [
            (NodeId(str(source)), NodeId(str(target)))
            for (source, target), count in zip(tree.ways, state.finds, strict=True)
            for _ in range(count)
        ]
        assert whole_is_legal(points_at, finds) == (state in legal), state


def test_two_nodes_have_the_four_legal_states_of_an_edge():
    assert sorted(Tree((0,)).legal()) == [
        ((0, 0), (0, 0)),  # the child points at the parent
        ((0, 1), (0, 1)),
        ((0, 1), (1, 0)),
        ((1, 1), (0, 0)),
    ]
