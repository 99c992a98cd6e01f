"""A node with a priority queue crashes at each of its writes in turn, before it and after it.

The scenario is small and the same each time, with no other fault: one queue of two priorities, a
producer, a consumer who does all that consumers do, one who looks, and the drain at the end. First
it is lived undisturbed, to count how often the node writes; then once for each of these writes and
each ending: the write lost, or done and not yet answered. So there is no instant between two writes
that is not tried. The whole history is judged each time, by those who judge the lives.
"""

from random import Random

import pytest
from anvil import Anvil, struck

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, contact
from snowmelt.protocols.membership import View
from snowmelt.protocols.priority import bundles
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.settings import ANY, QueueSettings
from snowmelt.sim.families.fifo_actors import Stage
from snowmelt.sim.families.membership import address
from snowmelt.sim.families.priority import process
from snowmelt.sim.families.priority_clients import Consumer, Producer
from snowmelt.sim.families.priority_load import Load
from snowmelt.sim.families.priority_planted import machine
from snowmelt.sim.families.priority_steward import Looker, Steward
from snowmelt.sim.families.priority_words import Ledger
from snowmelt.sim.judge.copies import Excuses
from snowmelt.sim.judge.urgency_end import judge
from snowmelt.sim.planted import Bug, planted
from snowmelt.sim.world import Observer

LOAD = seconds(5)
SETTLED_WITHIN = seconds(70)
LIMITS = Limits(block=2, deal=0)
ONE_OF_MANY = {"priorities": ANY, "comes": 4}
"""Any priorities; the consumer comes late, so that there is something to choose from."""
SELECTING = {**ONE_OF_MANY, "replicas": 2, "limits": Limits(block=2, deal=0, least=0, sample=8)}
"""With several homes, and phases that show nothing: they have to select."""


class Smithy(Observer):
    """The scenario."""

    def __init__(self, count, puts, blow=None, bug=None, limits=LIMITS, comes=0.8, **settings):
        self.bug = bug
        self.limits = limits
        self.nodes = [NodeId(f"n{number}") for number in range(1, count + 1)]
        self.world = world = Anvil(self, blow)
        targets = [contact(address(node)) for node in self.nodes]
        self.stage = stage = Stage(world, targets, duplicates=False, actors={})
        self.excuses = Excuses(self.nodes)
        for node in self.nodes:
            self._add_node(node)
        settings = {"replicas": count, "lease": seconds(2), "priorities": 2, **settings}
        self.ledger = ledger = Ledger(
            QueueSettings(queue="q1", **settings), self.excuses, self.limits.block
        )
        load = Load(theme="crashes", items=3, patience=seconds(2), work=milliseconds(300))
        times = [Instant(seconds(1) + LOAD * number // puts) for number in range(puts)]
        producer = Producer(stage, "p1", Random("p1"), ledger, load, times)
        consumer = Consumer(stage, "k1", Random("k1"), ledger, load)
        looker = Looker(stage, "l1", Random("l1"), ledger, load)
        self.steward = Steward(stage, "s1", Random("s1"), ledger, load)
        self.steward.producers = [producer]
        world.at(Instant(seconds(0.7)), producer.begin)
        world.at(Instant(seconds(comes)), consumer.begin)
        world.at(Instant(seconds(0.9)), looker.begin, times[::4])
        world.at(Instant(seconds(1) + LOAD), self.steward.rest)

    def _add_node(self, node):
        def build(chance):
            queues = machine(self.bug, node, chance, self.limits)
            return planted(self.bug, process(node, self.nodes[0], chance, queues))

        self.world.add(node, build, address(node))
        begin = 0 if node == self.nodes[0] else seconds(0.1)
        self.world.at(Instant(begin), self.world.start, node)

    def announced(self, at, node, effect):
        if isinstance(effect.fact, View):
            members = tuple(one.id for one in effect.fact.members)
            self.excuses.viewed(at, node, effect.fact.epoch, members)

    def replied(self, at, node, effect):
        self.stage.actors[node].answered(effect.operation, effect.message, at)

    def live(self):
        """To its end; raises `Broken` when something was seen that may not be."""
        end = later(self.world.now, SETTLED_WITHIN)
        while self._unsettled():
            assert self.world.now < end, self._unsettled()
            self.world.run(later(self.world.now, seconds(0.5)))
        judge(self.ledger)
        return self.world

    def _unsettled(self):
        if self.ledger.drained is None:
            return "it is not empty"
        return next((one.waiting for one in self.stage.actors.values() if one.waiting), "")


def strike(count, puts, node, least, every=1, settings=None, **away):
    def lived(blow):
        return Smithy(count, puts, blow, **(settings or {})).live()

    struck(lived, NodeId(node), least, every, **away)


def test_the_scenario_has_in_it_all_that_is_done():
    smithy = Smithy(1, 14)
    smithy.live()
    ledger = smithy.ledger
    assert len(ledger.puts) == 14
    assert ledger.acks
    assert ledger.backs
    assert {priority for put in ledger.puts for priority in put.priorities} == {0, 1}


def test_one_node_crashes_at_each_of_its_writes():
    strike(1, 9, "n1", least=30)


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_of_three_nodes_one_crashes_at_many_of_its_writes(node):
    strike(3, 8, node, least=30, every=5)


def test_one_node_with_any_priorities_crashes_at_each_of_its_writes():
    strike(1, 5, "n1", least=15, settings=ONE_OF_MANY)


def test_one_node_crashes_at_each_of_its_writes_where_every_standing_is_a_bundle(monkeypatch):
    monkeypatch.setattr(bundles, "FOLDED", 4)
    folding = {**ONE_OF_MANY, "limits": Limits(block=2, deal=0, few=1)}
    strike(1, 5, "n1", least=15, settings=folding)


def test_of_three_nodes_with_any_priorities_the_anchors_crashes_at_many_of_its_writes():
    strike(3, 8, "n1", least=20, every=7, settings=SELECTING)


def test_who_tells_before_it_has_flushed_is_found():
    with pytest.raises(AssertionError, match="Blow"):
        strike(1, 9, "n1", least=30, settings={"bug": Bug.REPLY_BEFORE_PERSISTED})


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("away", [seconds(0.2), seconds(1), seconds(14)])
@pytest.mark.parametrize("node", ["n1", "n2", "n3"])
def test_of_three_nodes_each_crashes_at_each_of_its_writes_and_may_stay_away(node, away):
    strike(3, 14, node, least=40, away=away)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("away", [seconds(0.2), seconds(1), seconds(14)])
@pytest.mark.parametrize("node", ["n1", "n2", "n3"])
def test_of_three_nodes_with_any_priorities_each_crashes_at_each_of_its_writes(node, away):
    strike(3, 14, node, least=15, away=away, settings=SELECTING)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "settings", [{"replicas": 2}, {"items_max": 4}, {"deliveries_max": 2}, {"largest_first": True}]
)
def test_the_same_with_other_settings(settings):
    for node in ("n1", "n2", "n3"):
        strike(3, 8, node, least=15, settings=settings)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("settings", [{}, ONE_OF_MANY])
def test_one_node_crashes_at_each_of_many_writes(settings):
    strike(1, 40, "n1", least=70, settings=settings)
