"""The tree under the arrows: rule 13."""

from heapq import heappop, heappush
from itertools import count
from random import Random

import pytest

from snowmelt.core.instant import MILLISECOND, Duration, Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announce, Announced, Expired, Received, Send, SetTimer
from snowmelt.protocols.arrow import Branch, Claim, Ground, TreeNode, TreeSettings
from snowmelt.protocols.arrow.tree import TreeAlarm
from snowmelt_lab.arrow.options import TreeKind
from snowmelt_lab.arrow.plan import name_of, number_of, planned
from snowmelt_lab.arrow.world import branches_of

ROOT, A, B, C, ME = (NodeId(name) for name in ("root", "a", "b", "c", "me"))
NOW = Instant(0)
BEAT = Duration(10)

LONG_BEAT = 1_000 * MILLISECOND
TRANSIT = MILLISECOND


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


def test_a_claim_that_has_changed_is_told_a_tenth_of_a_beat_later(tree):
    heard = [Received(source, Claim(distance, ROOT)) for source, distance in ((C, 2), (B, 1))]
    assert tree.handle(heard[0], Instant(3))[1:] == [SetTimer(TreeAlarm.BEAT, Instant(4))]
    assert tree.handle(heard[1], Instant(3)) == [Announce(Branch(B, ()))]
    assert tree.handle(Expired(TreeAlarm.BEAT), Instant(4))[-1] == SetTimer(
        TreeAlarm.BEAT, Instant(14)
    )
    assert tree.handle(heard[1], Instant(5)) == []


def test_haste_never_puts_a_beat_off(tree):
    assert tree.handle(Received(A, Claim(1, ROOT)), Instant(9)) == [Announce(Branch(A, ()))]


def test_who_claims_more_than_this_node_could_give_is_answered_at_once(tree):
    heard(tree, A, 0, None)
    assert heard(tree, B, 2, C) == []
    assert heard(tree, B, 3, C) == [Send(B, Claim(1, A))]


def test_strangers_and_those_who_left_claim_nothing(tree):
    assert heard(tree, NodeId("stranger"), 0, None) == []
    heard(tree, A, 0, None)
    tree.handle(Announced(Ground(ROOT, 5, (B, C))), NOW)
    assert tree.claim == Claim(5, None)
    assert tree.branch == Branch(None, ())


# --- a cluster that begins ------------------------------------------------------------------------


class Yard:
    """Many nodes on the rings, each with its view in time; links take a thousandth of a beat."""

    def __init__(self, nodes: int) -> None:
        self.plan = planned(TreeKind.OVERLAY, nodes, Random(1))
        self.trees = [self.new(one) for one in range(nodes)]
        self.now = Instant(0)
        self.sent = [0] * nodes
        self._turns = count()
        self._heap = []
        self._alarms = {}

    def new(self, one: int) -> TreeNode:
        return TreeNode(name_of(one), TreeSettings(Duration(LONG_BEAT)))

    def view(self, one: int, at: int, root: int = 0) -> None:
        near = tuple(name_of(other) for other in self.plan.graph[one])
        self._plan(at, one, Announced(Ground(name_of(root), len(self.trees), near)))

    def run(self, until: int) -> None:
        while self._heap and self._heap[0][0] <= until:
            at, _, one, event = heappop(self._heap)
            if isinstance(event, Expired) and self._alarms.get(one) != at:
                continue
            self.now = Instant(at)
            for effect in self.trees[one].handle(event, self.now):
                self._carry_out(one, effect)
        self.now = Instant(until)

    @property
    def is_right(self) -> bool:
        return [tree.branch for tree in self.trees] == branches_of(self.plan)

    def _carry_out(self, one: int, effect: object) -> None:
        match effect:
            case Send(target, message):
                self.sent[one] += 1
                event = Received(name_of(one), message)
                self._plan(self.now + TRANSIT, number_of(target), event)
            case SetTimer(alarm, at):
                self._alarms[one] = at
                self._plan(at, one, Expired(alarm))

    def _plan(self, at: int, one: int, event: object) -> None:
        heappush(self._heap, (at, next(self._turns), one, event))


def begun(nodes: int, within: int) -> Yard:
    """All have their views by then, each at a time of its own."""
    yard = Yard(nodes)
    chance = Random(nodes)
    for one in range(nodes):
        yard.view(one, chance.randint(0, within))
    return yard


@pytest.mark.parametrize("nodes", [2, 10, 60, 200])
def test_a_cluster_has_its_tree_long_before_the_first_beat_though_views_come_late(nodes):
    spread = LONG_BEAT // 3
    yard = begun(nodes, spread)
    yard.run(spread + 2 * TRANSIT + yard.plan.depth * (LONG_BEAT // 10 + TRANSIT))
    assert yard.is_right
    assert yard.now < LONG_BEAT


def test_who_comes_back_without_a_memory_is_in_the_tree_again_before_the_next_beat():
    yard = begun(60, 0)
    yard.run(3 * LONG_BEAT)
    leaver = next(one for one, below in enumerate(yard.plan.children) if one and below)
    yard.trees[leaver] = yard.new(leaver)
    yard.view(leaver, yard.now + 1)
    yard.run(yard.now + 1)
    assert not yard.is_right
    yard.run(yard.now + 4 * LONG_BEAT // 10)
    assert yard.is_right


def test_on_a_tree_that_stands_claims_are_told_on_beats_alone():
    yard = begun(60, LONG_BEAT)
    yard.run(5 * LONG_BEAT)
    before = sum(yard.sent)
    yard.run(15 * LONG_BEAT)
    assert sum(yard.sent) - before == 10 * sum(len(near) for near in yard.plan.graph)


def test_without_a_root_claims_grow_until_they_are_none_and_no_faster_than_haste():
    yard = begun(60, 0)
    yard.run(2 * LONG_BEAT)
    yard.sent = [0] * 60
    for one in range(60):
        yard.view(one, yard.now, root=99)
    yard.run(yard.now + LONG_BEAT)
    for sent, near in zip(yard.sent, yard.plan.graph, strict=True):
        assert 5 <= sent / len(near) <= 11
    yard.run(yard.now + 6 * LONG_BEAT)
    assert [tree.claim for tree in yard.trees] == [Claim(60, None)] * 60
