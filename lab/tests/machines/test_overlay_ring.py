"""The sorted cycle, keys and their holders, against the plainest way to find them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay import CIRCLE, Kind, Ring, Virtual, key, label

NAMES = st.lists(st.integers(0, 30).map("n{}".format), min_size=1, max_size=12)
POINTS = st.integers(min_value=0, max_value=CIRCLE - 1)


def names(count: int) -> list[NodeId]:
    return [NodeId(f"n{number}") for number in range(count)]


def test_labels_are_the_same_everywhere():
    assert label("jobs", NodeId("n1")) == 13077916295328481374
    assert key("jobs", 2, 17) == 4280107178382718562


@given(NAMES, POINTS)
@settings(max_examples=100, deadline=None)
def test_a_key_is_kept_by_the_last_virtual_node_that_is_not_behind_it(nodes, point):
    ring = Ring(nodes, "jobs")
    before = [one for one in ring.virtuals if one.label <= point]
    assert ring.predecessor(point) == (before or ring.virtuals)[-1]


@given(NAMES)
@settings(max_examples=50, deadline=None)
def test_the_cycle_is_sorted_and_closed(nodes):
    ring = Ring(nodes, "jobs")
    assert len(ring.virtuals) == 3 * len(set(nodes))
    assert ring.virtuals == sorted(ring.virtuals)
    assert all(ring.pred(ring.succ(one)) == one for one in ring.virtuals)
    assert ring.anchor.kind is Kind.LEFT
    assert ring.pred(ring.anchor).kind is Kind.RIGHT


def test_the_order_in_which_members_are_named_does_not_matter():
    assert Ring(names(9), "x").virtuals == Ring(names(9)[::-1] * 2, "x").virtuals


def test_equal_labels_are_told_apart():
    low, high = Virtual(5, Kind.LEFT, NodeId("b")), Virtual(5, Kind.MIDDLE, NodeId("a"))
    assert low < high
    assert Virtual(5, Kind.LEFT, NodeId("a")) < low


def test_a_ring_of_nobody_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Ring([], "jobs")
