"""What the exam of a priority queue takes for lost, of what nobody was told.

Method: disks and a ledger by hand.
"""

import pytest

from snowmelt.check.history import Ended
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Persist
from snowmelt.core.record import BULK, Write
from snowmelt.protocols.echo import EchoNode
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.messages import Elements, Origin
from snowmelt.protocols.priority.queue import prefix_of
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.sim.families.priority_exam import Exam
from snowmelt.sim.families.priority_words import Ledger
from snowmelt.sim.judge.copies import Excuses
from snowmelt.sim.judge.values import Place, Put
from snowmelt.sim.scenario import drawn
from snowmelt.sim.world import World

NODES = (NodeId("n1"), NodeId("n2"))


def at(second):
    return Instant(seconds(second))


def keep(world, node, values):
    """Its disk has these, in one lot."""
    shelf, bodies = Shelf(prefix_of("q1")), Batch.of([value.encode() for value in values])
    where = (Share(0, (Interval(0, len(values)),)),)
    origin = Origin(OperationId(NodeId("p1"), 1), 0, len(values))
    shelf.store(Elements(where, (origin,), bytes(bodies.offsets), bytes(bodies.blob)))
    changes = []
    for one in shelf.changes(0):
        large, key = one.key.startswith(BULK), one.key.removeprefix(BULK)
        changes.append(Write((BULK if large else b"") + b"priority/" + key, one.value))
    world.slots[node].disk.ask(Persist(1, tuple(changes)))
    world.slots[node].disk.flush()


@pytest.fixture
def world():
    world = World(1)
    for node in NODES:
        world.add(node, lambda _: EchoNode())
    return world


@pytest.fixture
def ledger():
    """One is told, and of two more nobody knows."""
    ledger = Ledger(QueueSettings(queue="q1", priorities=1, replicas=2), Excuses(NODES), 1)
    for value in ("told", "untold", "never"):
        put = Put("p1", (value,), b"", at(1), priorities=(0,), sent=True)
        ledger.asked(put)
        if value == "told":
            put.ended, put.returned, put.places = Ended.SUCCEEDED, at(2), (Place(0, 0),)
    return ledger


def untold(world, ledger):
    scenario = drawn("priority", 1, ())
    exam = Exam(scenario, ledger.excuses, [ledger])
    exam._nodes = NODES
    return exam._untold(world, ledger)


def test_what_nobody_was_told_of_may_be_lost_with_its_one_copy(world, ledger):
    for node in NODES:
        keep(world, node, ["told"])
    assert untold(world, ledger) == 0
    ledger.excuses.hurt(NODES[0], at(3), "record damaged")
    assert untold(world, ledger) == 2


def test_it_is_not_when_it_was_asked_for_after_that(world, ledger):
    for node in NODES:
        keep(world, node, ["told"])
    ledger.excuses.hurt(NODES[0], at(0.5), "record damaged")
    assert untold(world, ledger) == 0


@pytest.mark.parametrize("thin", ["told", "untold"])
def test_nothing_is_while_what_a_disk_has_is_not_on_the_other(world, ledger, thin):
    ledger.excuses.hurt(NODES[0], at(3), "record damaged")
    keep(world, NODES[0], ["told", "untold"])
    keep(world, NODES[1], [one for one in ("told", "untold") if one != thin])
    assert untold(world, ledger) == 0


def test_what_can_not_be_read_is_on_no_disk(world, ledger):
    ledger.excuses.hurt(NODES[0], at(3), "record damaged")
    keep(world, NODES[0], ["untold"])
    ledger.puts[0].ended = Ended.FAILED
    assert untold(world, ledger) == 0
    values = world.slots[NODES[0]].disk._values
    (large,) = [key for key in values if key.startswith(BULK)]
    values[large] = b"spoiled", values[large][1]
    assert untold(world, ledger) == 2
