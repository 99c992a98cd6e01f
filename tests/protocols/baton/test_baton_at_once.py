"""A call that may not wait: granted where the baton is free, answered where it is taken."""

import pytest
from baton_bench import NAME, Bench

from snowmelt.core.instant import Duration, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced
from snowmelt.protocols.baton.calls import KNOWN, Acquire, Granted, Queued
from snowmelt.protocols.baton.messages import BatonGot, Drop, Predecessor, SeekBaton
from snowmelt.protocols.baton.settings import TOPICS

NOW = Duration(0)


@pytest.fixture
def bench():
    return Bench(4)


def at_once(bench, client, node, ticket, name=NAME):
    return bench.call(client, node, Acquire(name, ticket, NOW))


def test_a_free_baton_is_granted_wherever_it_rests(bench):
    for ticket, node in enumerate(["n3", "n1", "n4", "n4", "n2", "n3"], start=1):
        asked = at_once(bench, f"c{ticket}", node, ticket)
        bench.run()
        granted = bench.answer(asked)
        assert isinstance(granted, Granted)
        bench.release(f"c{ticket}", ticket, granted)
        bench.run()


@pytest.mark.parametrize("node", ["n2", "n3"])
def test_a_baton_that_is_held_is_refused_at_once_at_its_node_and_elsewhere(bench, node):
    bench.held("c1", "n2", 1)
    asked = at_once(bench, "c2", node, 2)
    bench.run()
    assert bench.answer(asked) == Queued()


@pytest.mark.parametrize("node", ["n2", "n3"])
def test_so_is_one_that_somebody_waits_for(bench, node):
    bench.held("c1", "n4", 1)
    bench.want("c2", "n2", 2)
    bench.run()
    asked = at_once(bench, "c3", node, 3)
    bench.run()
    assert bench.answer(asked) == Queued()


def test_who_hears_nothing_is_answered_all_the_same(bench):
    bench.held("c1", "n4", 1)
    asked = at_once(bench, "c2", "n2", 2)
    bench.pass_time(Duration(KNOWN - 1), but=(Predecessor,))
    assert bench.answer(asked) is None
    bench.pass_time(Duration(1), but=(Predecessor,))
    assert bench.answer(asked) == Queued()


def test_a_topic_leaves_nothing_on_a_disk(bench):
    node, name = NodeId("n3"), TOPICS + "prices"
    for ticket in (1, 2):
        bench.give(node, Announced(SeekBaton(name, ticket)))
        bench.run()
        got = [fact for _, fact in bench.facts if isinstance(fact, BatonGot)]
        assert [(one.name, one.ticket) for one in got][-1:] == [(name, ticket)]
        bench.give(node, Announced(Drop(name, ticket, b"%d" % ticket)))
        bench.run()
    bench.pass_time(seconds(300))  # the name is folded meanwhile
    assert len(bench.machine("n3")._names) == 0
    assert not [key for disk in bench.disk.values() for key in disk if name.encode() in key]
