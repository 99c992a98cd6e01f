"""The tree is one, and what a place knows of itself agrees with the whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay import DeBruijnTree, Kind, Place, Ring, Virtual
from snowmelt_lab.machines.overlay.tree import local_children, local_parent


def names(count: int) -> list[NodeId]:
    return [NodeId(f"n{number}") for number in range(count)]


def all_places(tree: DeBruijnTree, nodes: list[NodeId]) -> list[Place]:
    return [place for node in nodes for place in tree.places(node)]


def depth(tree: DeBruijnTree, place: Place) -> int:
    above = tree.parent(place)
    return 0 if above is None else depth(tree, above) + 1


TREES = st.builds(
    lambda count, salt: (names(count), DeBruijnTree(Ring(names(count), salt))),
    st.integers(1, 40), st.sampled_from("abcdef"),
)  # fmt: skip


@given(TREES)
@settings(max_examples=150, deadline=None)
def test_parents_and_children_agree_and_all_hang_below_the_root(pair):
    nodes, tree = pair
    places = all_places(tree, nodes)
    assert [place for place in places if tree.parent(place) is None] == [tree.root]
    for place in places:
        assert all(tree.parent(child) == place for child in tree.children(place))
        above = tree.parent(place)
        assert above is None or place in tree.children(above)
    assert tree.height == max(depth(tree, place) for place in places)


@given(TREES)
@settings(max_examples=50, deadline=None)
def test_a_node_enters_at_its_place_nearest_to_the_root(pair):
    nodes, tree = pair
    for node in nodes:
        depths = [depth(tree, place) for place in tree.places(node)]
        assert depth(tree, tree.entry(node)) == min(depths)


def test_a_de_bruijn_tree_has_two_children_at_most():
    tree = DeBruijnTree(Ring(names(300), "jobs"))
    assert max(len(tree.children(place)) for place in all_places(tree, names(300))) == 2


def test_who_is_no_member_has_no_place():
    tree = DeBruijnTree(Ring(names(3), "jobs"))
    assert tree.places(NodeId("x")) == ()
    with pytest.raises(KeyError):
        tree.parent(Place(NodeId("x"), 0))


def test_nobody_has_a_parent_or_a_child_across_the_seam():
    first = Virtual(3, Kind.LEFT, NodeId("a"))
    last = Virtual(90, Kind.RIGHT, NodeId("b"))
    assert local_parent(first, pred=last) is None
    assert local_children(last, succ=first) == ()
