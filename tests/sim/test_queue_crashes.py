"""A node with queues crashes at each of its writes in turn, once before it and once after it.

The scenario is small and the same each time, with no other fault: one queue, one producer, one
consumer who does all that consumers do, and the drain at the end. First it is lived undisturbed, to
count how often the node writes; then once for each of these writes and each ending: the write lost,
or done and not yet answered. So there is no instant between two writes that is not tried. Where
there are more nodes or words, `make test` tries each third blow: lost and done take turns.

A second scenario has a group's reader with its checkpoint, and one who stages and publishes.
"""

from random import Random

import pytest
from anvil import Anvil, struck

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId, contact
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt_world.families.fifo_actors import Listened, Stage
from snowmelt_world.families.fifo_clients import Consumer, Producer
from snowmelt_world.families.fifo_groups import Reader, Stager
from snowmelt_world.families.fifo_load import Load
from snowmelt_world.families.fifo_steward import Steward
from snowmelt_world.families.fifo_words import Ledger
from snowmelt_world.families.membership import address
from snowmelt_world.families.queue import process
from snowmelt_world.judge.positions_end import judge
from snowmelt_world.world import Observer
from wide import wide

LOAD = seconds(6)
EVERY = pytest.mark.parametrize("every", [5, *wide(1)])
SETTLED_WITHIN = seconds(60)


class Smithy(Observer):
    """The scenario."""

    def __init__(self, count, batches, blow=None, **settings):
        self.nodes = [NodeId(f"n{number}") for number in range(1, count + 1)]
        self.world = world = Anvil(self, blow)
        targets = [contact(address(node)) for node in self.nodes]
        self.stage = Stage(world, targets, duplicates=False, actors={})
        for node in self.nodes:
            self._add_node(node)
        settings = QueueSettings(**{"replicas": count, "lease": seconds(2), **settings})
        self.ledger = Ledger("q1", settings)
        times = [Instant(seconds(1) + LOAD * number // batches) for number in range(batches)]
        putters = self._cast(times)
        self.steward = Steward(self.stage, Random("steward"), [self.ledger], putters)
        world.at(Instant(seconds(1) + LOAD), self.steward.rest)

    def _cast(self, times):
        """Who uses the queue; returns those who put."""
        self.producer = Producer(self.stage, "p1", Random("p1"), self.ledger, times)
        self.producer.items_max = 6
        self.consumer = Consumer(self.stage, "k1", Random("k1"), self.ledger)
        self.world.at(Instant(seconds(0.7)), self.producer.begin)
        self.world.at(Instant(seconds(0.8)), self.consumer.begin)
        return [self.producer]

    def _add_node(self, node):
        def build(chance):
            machine = process(node, self.nodes[0], chance)
            return Listened(machine, self.stage.said, lambda: self.world.now)

        self.world.add(node, build, address(node))
        begin = 0 if node == self.nodes[0] else seconds(0.1)
        self.world.at(Instant(begin), self.world.start, node)

    def replied(self, at, node, effect):
        self.stage.actors[node].answered(effect.operation, effect.message, at)

    def live(self):
        """To its end; raises `Broken` when something was seen that may not be."""
        end = later(self.world.now, SETTLED_WITHIN)
        while self._unsettled():
            assert self.world.now < end, self._unsettled()
            self.world.run(later(self.world.now, seconds(0.5)))
        judge(self.ledger)
        return self

    def _unsettled(self):
        waiting = [actor.waiting for actor in self.stage.actors.values()]
        return self.steward.unfinished or next(filter(None, waiting), "")


class GroupSmithy(Smithy):
    """The same with a group, and with batches that are staged and published."""

    def _cast(self, times):
        self.stager = Stager(self.stage, "t1", Random("t1"), self.ledger, times)
        self.producer = Producer(self.stage, "p1", Random("p1"), self.ledger, times[::3])
        self.producer.items_max = 3
        self.reader = self.consumer = Reader(self.stage, "g1", Random("g1"), self.ledger)
        self.world.at(Instant(seconds(0.7)), self.stager.begin)
        self.world.at(Instant(seconds(0.7)), self.producer.begin)
        self.world.at(Instant(seconds(0.8)), self.reader.begin)
        return [self.stager, self.producer]


class CrowdSmithy(Smithy):
    """A queue of two items, and a crowd that waits for room for longer than a restart takes."""

    def _cast(self, times):
        load = Load(theme="bounded", patience=seconds(15), waits=1.0, items=1, work=seconds(0.6))
        self.consumer = Consumer(self.stage, "k1", Random("k1"), self.ledger, load)
        self.world.at(Instant(seconds(0.8)), self.consumer.begin)
        crowd = []
        for number in range(6):
            name = f"p{number}"
            one = Producer(self.stage, name, Random(name), self.ledger, times[:2], load)
            self.world.at(Instant(seconds(0.7)), one.begin)
            crowd.append(one)
        return crowd


def strike(count, batches, node, least, settings=None, smithy=Smithy, every=1, **away):
    """Every blow there is upon one node, or every so many-th."""
    settings = settings or {}

    def lived(blow):
        return smithy(count, batches, blow, **settings).live().world

    struck(lived, node, least, every, **away)


def master(count, smithy=Smithy):
    """Who is the queue's master, as `Opened` told."""
    return smithy(count, 2).live().producer.master.node


def a_keeper(first):
    """One of three that is not the queue's master, nor the first of the cluster."""
    return next(node for node in (NodeId("n2"), NodeId("n3")) if node != first)


def test_one_node_crashes_at_each_of_its_writes():
    strike(1, 14, NodeId("n1"), least=30)


@EVERY
@pytest.mark.parametrize("role", ["master", "keeper"])
def test_of_three_nodes_one_crashes_at_its_writes(role, every):
    first = master(3)
    strike(3, 10, first if role == "master" else a_keeper(first), least=30, every=every)


def test_the_scenario_with_groups_shows_all_that_groups_do():
    calm = GroupSmithy(1, 10).live()
    assert calm.reader.done >= 10
    assert calm.stager._sequence >= 5
    assert not calm.stager.unfinished


@EVERY
def test_one_node_with_groups_and_publications_crashes_at_its_writes(every):
    strike(1, 10, NodeId("n1"), least=50, smithy=GroupSmithy, every=every)


@EVERY
@pytest.mark.parametrize("role", ["master", "keeper"])
def test_of_three_nodes_with_groups_and_publications_one_crashes_at_its_writes(role, every):
    first = master(3, GroupSmithy)
    victim = first if role == "master" else a_keeper(first)
    strike(3, 6, victim, least=30, smithy=GroupSmithy, every=every)


@EVERY
@pytest.mark.parametrize(
    ("smithy", "batches", "priorities"), [(Smithy, 10, 3), (GroupSmithy, 6, 3), (Smithy, 10, ANY)]
)
def test_with_priorities_one_of_three_nodes_crashes_at_its_writes(
    smithy, batches, priorities, every
):
    settings = {"priorities": priorities, "replicas": 3}
    first = master(3, smithy)
    strike(3, batches, first, 30, settings=settings, smithy=smithy, every=every)


@EVERY
def test_with_keys_who_follows_crashes_at_its_writes(every):
    settings = {"priorities": ANY, "replicas": 3}
    strike(3, 4, a_keeper(master(3)), 10, settings=settings, every=every)


def test_while_a_crowd_waits_for_room_a_node_restarts_quickly_at_many_of_its_writes():
    # What waits at the master is on no list of what is kept; its node begins anew meanwhile.
    settings = {"replicas": 3, "items_max": 2}
    away = seconds(0.2)
    strike(4, 6, NodeId("n3"), 20, settings=settings, smithy=CrowdSmithy, every=5, away=away)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("away", [seconds(1), seconds(14)])
@pytest.mark.parametrize("node", ["n1", "n2", "n3"])
def test_of_three_nodes_each_crashes_at_each_of_its_writes_and_may_stay_away(node, away):
    strike(3, 28, NodeId(node), least=60, away=away)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "settings",
    [
        {"durable_copies": 3},
        {"items_max": 8},
        {"bytes_max": 300},
        {"priorities": 3, "items_max": 8},
    ],
)
def test_the_same_with_other_settings(settings):
    for node in ("n1", "n2", "n3"):
        strike(3, 8, NodeId(node), least=25, settings=settings)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("settings", [{}, {"durable_copies": 3}, {"items_max": 8}])
def test_groups_and_publications_when_a_node_stays_away(settings):
    for node in ("n1", "n2", "n3"):
        strike(3, 8, NodeId(node), 30, settings=settings, smithy=GroupSmithy, away=seconds(14))


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("smithy", [Smithy, GroupSmithy])
@pytest.mark.parametrize("priorities", [3, ANY])
@pytest.mark.parametrize("node", ["n1", "n2", "n3"])
def test_with_priorities_each_of_three_nodes_crashes_and_stays_away(smithy, priorities, node):
    if smithy is GroupSmithy and priorities == ANY:
        pytest.skip("groups have positions, and no keys")
    settings = {"priorities": priorities, "replicas": 3}
    strike(3, 8, NodeId(node), 25, settings=settings, smithy=smithy, away=seconds(14))


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("smithy", [Smithy, GroupSmithy])
def test_one_node_crashes_at_each_of_many_writes(smithy):
    strike(1, 40, NodeId("n1"), least=70, smithy=smithy)
