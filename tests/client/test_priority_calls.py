"""What goes in one call of a priority queue, and in which order."""

import random

import pytest

import snowmelt
from snowmelt.client.connection.waits import Wait
from snowmelt.client.priority.parts import by_priority, parts_of
from snowmelt.client.priority.steps import Door, PrioritySteps
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.calls import Via
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.runtime.clock import shown


@pytest.mark.parametrize("distinct", [200, 900])
def test_what_goes_in_one_call_lies_in_the_order_of_its_priorities(tmp_path, distinct):
    chance = random.Random(distinct)
    pairs = [(chance.randrange(distinct), b"%d" % at) for at in range(1_500)]
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.priority("jobs", priorities=int)
        assert jobs.put_many(pairs) == (Interval(0, len(pairs)),)
        places = [item.position for item in jobs.get_many(2_000, timeout=0)]
    assert places == list(range(places[0], places[0] + len(pairs)))


def test_each_of_many_who_put_at_once_is_told_where_its_own_item_lies():
    chance = random.Random(3)
    pairs = [
        (chance.choice((chance.randrange(3), chance.random())), b"%d" % at) for at in range(400)
    ]
    for some in (pairs[:1], pairs):
        went, order = by_priority(some)
        told = list(went.priorities)
        bodies = [bytes(one) for one in Batch(went.offsets, went.blob)]
        assert [(one, some[at][1]) for one, at in zip(told, order, strict=True)] == (
            list(zip(told, bodies, strict=True))
        )
        assert told == [some[at][0] for at in order] == sorted(told)


def test_a_call_is_one_part_of_any_priorities_and_one_of_each_that_has_a_number():
    some, _ = by_priority([(at % 3, b"%d" % at) for at in range(64)])
    (part,) = parts_of((some,), QueueSettings(queue="any"))
    parts = parts_of((some,), QueueSettings(queue="four", priorities=4))
    assert [len(Batch(one.offsets, one.blob)) for one in (part, *parts)] == [64, 22, 21, 21]
    assert [one.priority for one in parts] == [0, 1, 2]
    assert b"".join([one.blob for one in parts]) == part.blob


@pytest.mark.parametrize("timeout", [0.0, 0.3, 30.0])
def test_a_get_says_how_long_its_answer_is_waited_for(timeout):
    with shown(Instant(seconds(1_000))):
        steps = PrioritySteps("jobs", None)
        via, settings = Via(NodeId("n1"), 1), QueueSettings(queue="jobs", priorities=4)
        steps._door = Door(via, NodeId("n1"), settings, Instant(seconds(2_000)))
        asked = next(steps.ask_lease(5, 1_000, Wait(timeout), (), ahead=False, before=-1))
    assert asked.body.heard == seconds(asked.timeout) > asked.body.patience
