"""A node that leaves in order: what it has is elsewhere before it goes, or it is refused to go."""

import pytest
from quiet import QUEUE, Quiet

from snowmelt.core.instant import later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.membership import Depart
from snowmelt_world.faults import Partition

N1, N2, N3, N4 = [NodeId(f"n{number}") for number in range(1, 5)]


class World(Quiet):
    """Some nodes, one queue with twenty items, and what who may not leave is told."""

    def __init__(self, count, queue="q1", **settings):
        self.refused, self.queue = [], queue
        super().__init__(QUEUE, 0, count, **settings)
        self.asks = self.client("c", N1, queue=queue)
        self.live((self.asks, self.fills()))

    def fills(self):
        for number in range(20):
            yield from self.asks.put([f"a{number}"], None, 10.0)

    def replied(self, at, node, effect):
        if isinstance(effect.message, Declined) and node not in self.clients:
            self.refused.append(effect.message.text)
        super().replied(at, node, effect)

    @property
    def told(self):
        [found] = self.live((self.asks, self.asks.steps.stats(5.0)))
        return found

    def back(self, node):
        del self.left[node]
        self.world.wake(node)
        self.rest(10)

    def all_is_there(self):
        last = self.client("last", N1, queue=self.queue)
        self.live((last, last.drain()))
        return self.judge()


@pytest.mark.parametrize("leaver", [N2, N3])
def test_a_leader_or_a_follower_goes_and_comes_back(leaver):
    world = World(3, replicas=3)
    assert world.told.leader == N3
    world.leave(leaver)
    world.rest(3)
    told = world.told
    assert sorted((told.leader, *told.followers)) == [one for one in world.nodes if one != leaver]
    assert told.short_of_copies == 20
    assert not world.refused
    world.back(leaver)
    told = world.told
    assert sorted((told.leader, *told.followers)) == world.nodes
    assert told.leader != leaver
    assert told.short_of_copies == 0
    assert world.all_is_there() == []


def test_another_takes_the_place_of_who_leaves():
    world = World(4, replicas=3)
    leaver = world.told.followers[0]
    assert leaver != N1
    world.leave(leaver)
    world.rest(3)
    told = world.told
    assert {told.leader, *told.followers} == {N1, N2, N3, N4} - {leaver}
    assert told.short_of_copies == 0
    assert world.all_is_there() == []


def test_the_only_copy_goes_to_another_node_and_the_disk_may_go():
    world = World(3, "q2", replicas=1)
    leaver = world.told.leader
    assert leaver != N1
    world.leave(leaver)
    world.rest(3)
    assert world.told.leader != leaver
    assert leaver in world.left
    world.world.replace_disk(leaver)
    assert world.all_is_there() == []


def test_who_is_needed_is_told_how_many_items_that_is_for():
    world = World(2, replicas=2)
    world.leave(N2)
    world.rest(3)
    [text] = world.refused
    assert text == (
        "n2 has 20 items of 1 queue (q1) that need as many nodes as there are: start another "
        "first, or stop it as it is, and start it again on its folder"
    )
    assert world.all_is_there() == []


def test_what_takes_too_long_is_refused_and_goes_on():
    world = World(3, "q2", replicas=1)
    leaver = world.told.leader
    now = world.world.now
    cut = Partition(now, later(now, seconds(60)), "one", (leaver,))
    world.world.network.begin(cut)
    world.world.request(leaver, OperationId(leaver, 1), Depart())
    world.rest(6)
    [text] = world.refused
    assert "20 items of 1 queue (q2)" in text
    assert "nobody who decides answered" in text
