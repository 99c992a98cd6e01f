"""The tree under the arrows: rule 13."""

import pytest

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announce, Announced, Expired, Received, Send, SetTimer
from snowmelt.protocols.arrow import Branch, Claim, Ground, TreeNode, TreeSettings
from snowmelt.protocols.arrow.tree import TreeAlarm

ROOT, A, B, C, ME = (NodeId(name) for name in ("root", "a", "b", "c", "me"))
NOW = Instant(0)
BEAT = Duration(10)


@pytest.fixture
def tree() -> TreeNode:
    made = TreeNode(ME, TreeSettings(BEAT))
    made.handle(Announced(Ground(ROOT, 5, (A, B, C))), NOW)
    return made


def heard(tree: TreeNode, source: NodeId, distance: int, parent: NodeId | None) -> list[object]:
    effects = tree.handle(Received(source, Claim(distance, parent)), NOW)
    tree.check()
    return effects


def test_who_has_heard_nothing_knows_no_way(tree):
    assert tree.claim == Claim(5, None)


def test_the_least_distance_is_the_parent_and_the_least_name_among_equals(tree):
    heard(tree, C, 1, ROOT)
    assert tree.claim == Claim(2, C)
    assert heard(tree, B, 1, ROOT) == [Announce(Branch(B, ()))]
    assert tree.claim == Claim(2, B)
    heard(tree, A, 2, B)
    assert tree.claim == Claim(2, B)
    heard(tree, A, 0, None)
    assert tree.claim == Claim(1, A)


def test_who_claims_this_node_is_a_child_unless_it_is_the_parent(tree):
    heard(tree, A, 1, ROOT)
    assert heard(tree, B, 3, ME) == [Announce(Branch(A, (B,)))]
    assert heard(tree, A, 1, ME) == []
    assert heard(tree, B, 3, A) == [Announce(Branch(A, ()))]


def test_a_distance_of_as_many_as_there_are_nodes_is_none(tree):
    heard(tree, A, 3, B)
    assert tree.claim == Claim(4, A)
    heard(tree, A, 4, B)
    assert tree.claim == Claim(5, None)
    heard(tree, A, -7, B)
    assert tree.claim == Claim(1, A)


def test_the_root_believes_nobody():
    root = TreeNode(ROOT, TreeSettings(BEAT))
    root.handle(Announced(Ground(ROOT, 5, (A,))), NOW)
    heard(root, A, 0, None)
    assert root.claim == Claim(0, None)


def test_claims_are_told_on_every_beat(tree):
    heard(tree, A, 0, None)
    assert tree.handle(Expired(TreeAlarm.BEAT), Instant(3)) == [
        *(Send(name, Claim(1, A)) for name in (A, B, C)),
        SetTimer(TreeAlarm.BEAT, Instant(13)),
    ]


def test_strangers_and_those_who_left_claim_nothing(tree):
    assert heard(tree, NodeId("stranger"), 0, None) == []
    heard(tree, A, 0, None)
    tree.handle(Announced(Ground(ROOT, 5, (B, C))), NOW)
    assert tree.claim == Claim(5, None)
    assert tree.branch == Branch(None, ())
