"""What processes that begin again may not undo, on a bench of real machines."""

import pytest
from baton_bench import NAME, Bench

from snowmelt.core.instant import milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Received
from snowmelt.protocols.arrow import Place
from snowmelt.protocols.baton.messages import Arrived, Complaint, Follow, Pass

BEAT = milliseconds(500)


@pytest.fixture
def bench():
    return Bench(4)


def test_rule_8_a_pass_that_is_sent_again_revives_nothing_at_a_process_that_began_since(bench):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    bench.run()
    third = bench.want("c3", "n4", 3)
    bench.run()
    bench.release("c1", 1, first, b"old")
    bench.run(but=(Arrived,))
    bench.release("c2", 2, bench.answer(second), b"new")
    bench.run(but=(Arrived,))
    assert bench.answer(third).value == b"new"
    bench.words.clear()  # n2 is never told that what it sent has come
    bench.start("n3")
    bench.view("n1", "n2", "n3", "n4", unheard="n2")
    bench.pass_time(BEAT, but=(Pass,))
    assert [target for _, target, word in bench.words if isinstance(word, Pass)] == ["n3"]
    bench.run()
    assert set(bench.states()) == {"n2", "n4"}
    bench.view("n1", "n2", "n3", "n4")
    assert bench.states() == {"n4": "held"}
    assert bench.baton("n3").relay.fence == 0


def test_rule_3_a_node_that_comes_back_with_an_empty_disk_is_heard(bench):
    for _ in range(3):
        bench.start("n3")
        bench.view("n1", "n2", "n3", "n4")
        bench.pass_time(seconds(3))
    for ticket, node in enumerate(("n3", "n2"), 1):
        bench.release("c1", ticket, bench.held("c1", node, ticket))
        bench.run()
    bench.start("n3", empty=True)  # forgotten and joined again: n1 has not seen it leave
    bench.view("n1", "n2", "n3", "n4")
    bench.pass_time(seconds(8))
    for ticket in range(3, 9):
        held = bench.held(f"c{ticket}", ("n2", "n3", "n4")[ticket % 3], ticket)
        bench.release(f"c{ticket}", ticket, held)
        bench.run()
    assert not any(bench.machine(node)._ways.late for node in ("n1", "n2", "n3", "n4"))


def test_rule_11_a_baton_is_not_sent_to_who_has_left_since_it_complained(bench):
    first = bench.held("c1", "n2", 1)
    bench.release("c1", 1, first)
    bench.run()
    place = Place(NodeId("n4"), OperationId(NodeId("n4"), 1))
    bench.give(NodeId("n1"), Received(NodeId("n4"), Complaint(NAME, place, orphan=True)))
    bench.view("n1", "n2", "n3")
    bench.run()
    assert bench.states() == {"n2": "idle"}
    bench.give(NodeId("n2"), Received(NodeId("n1"), Follow(NAME, first.fence, place)))
    assert bench.states() == {"n2": "idle"}
