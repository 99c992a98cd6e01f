"""Every route ends with the key's predecessor, is short, and keeps off the seam."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay import CIRCLE, Kind, Ring, Virtual
from snowmelt_lab.machines.overlay.routing import Route, begin, edge, keeps, point, step


def walk(ring: Ring, here: Virtual, key: int, nodes: int) -> list[Virtual]:
    """The virtual nodes on a route, the first one too; jumps within a node are on it."""
    return follow(ring, here, begin(here, point(key), nodes))


def follow(ring: Ring, here: Virtual, route: Route) -> list[Virtual]:
    """The same of any route."""
    met = [here]
    while True:
        to, route = step(here, ring.pred(here), ring.succ(here), route)
        if to is None:
            return met
        here = ring.virtual(here.node, to) if isinstance(to, Kind) else to
        met.append(here)


@given(
    count=st.integers(1, 60),
    key=st.one_of(
        st.integers(0, CIRCLE - 1), st.integers(0, 9), st.integers(CIRCLE - 9, CIRCLE - 1)
    ),
    start=st.integers(0, 179),
    guessed=st.integers(1, 10_000),
)
@settings(max_examples=200, deadline=None)
def test_a_route_ends_with_the_keys_predecessor_whatever_the_guess_of_nodes(
    count, key, start, guessed
):
    ring = Ring([NodeId(f"n{number}") for number in range(count)], "jobs")
    met = walk(ring, ring.virtuals[start % (3 * count)], key, guessed)
    assert met[-1] == ring.predecessor(key)
    first, last, hops = ring.virtuals[0], ring.virtuals[-1], list(pairwise(met))
    assert hops.count((first, last)) <= (key < first.label)
    assert (last, first) not in hops


@pytest.mark.parametrize(("nodes", "mean", "most"), [(100, 20, 60), (1000, 27, 80)])
def test_routes_grow_as_the_logarithm(nodes, mean, most):
    ring, chance = Ring([NodeId(f"n{number}") for number in range(nodes)], "jobs"), Random(1)
    lengths = []
    for _ in range(500):
        start = ring.virtual(chance.choice(ring.nodes), Kind.MIDDLE)
        met = walk(ring, start, chance.randrange(CIRCLE), nodes)
        lengths.append(sum(one.node != other.node for one, other in pairwise(met)))
    assert sum(lengths) / len(lengths) < mean
    assert max(lengths) < most


def test_an_edge_of_the_de_bruijn_graph_is_a_few_hops_and_no_walk_round_the_ring():
    nodes, chance = 1000, Random(1)
    ring = Ring([NodeId(f"n{number}") for number in range(nodes)], "jobs")
    first, last = ring.virtuals[0], ring.virtuals[-1]
    origins = [chance.randrange(CIRCLE) for _ in range(500)]
    origins += [chance.randrange(first.label) for _ in range(20)]  # the last one keeps these
    origins += [last.label + chance.randrange(CIRCLE - last.label) for _ in range(20)]
    lengths = []
    for origin in origins:
        here, bit = ring.predecessor(origin), chance.randrange(2)
        target = (origin + bit * CIRCLE) >> 1
        met = follow(ring, here, edge(here, point(target), origin, nodes))
        assert met[-1] == ring.predecessor(target)
        lengths.append(sum(one.node != other.node for one, other in pairwise(met)))
    assert sum(lengths) / len(lengths) < 8
    assert max(lengths) < 80


def test_a_target_that_is_a_virtual_node_is_told_from_others_of_its_label():
    here, succ = Virtual(5, Kind.LEFT, NodeId("b")), Virtual(5, Kind.MIDDLE, NodeId("b"))
    assert keeps(here, succ, Virtual(5, Kind.LEFT, NodeId("c")))
    assert not keeps(here, succ, Virtual(5, Kind.MIDDLE, NodeId("c")))
    assert not keeps(here, succ, point(5))
