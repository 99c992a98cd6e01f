"""A node that is drained: no home names it, and it is empty when nothing on its disk counts."""

from nodes_bench import Nodes

from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.drains import Drain, Drained
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages.words import SnapshotChunk

ONE = (b"\x00\x00\x00\x00\x03\x00\x00\x00", b"one")


def filled(nodes: Nodes, count: int = 9, **settings: int) -> None:
    for at in range(count):
        opened = nodes.ask(calls.Open(f"q{at}", QueueSettings(**settings)))
        nodes.ask(calls.Put(f"q{at}", "p", 1, *ONE), opened.master.node)


def keepers(nodes: Nodes, count: int = 9) -> set[str]:
    """All nodes that a queue is led or followed by."""
    found = set()
    for at in range(count):
        master = nodes.ask(calls.Open(f"q{at}")).master.node
        status = nodes.ask(calls.Describe(f"q{at}"), master)
        assert (status.ready, status.short_of_copies) == (1, 0)
        found |= {status.leader, *status.followers}
    return found


def drained(nodes: Nodes, name: str, *, undo: bool = False) -> Drained:
    told = nodes.ask(Drain(undo), name)
    assert isinstance(told, Drained)
    return told


def test_it_hands_all_over_and_is_given_nothing_more() -> None:
    nodes = Nodes(4)
    filled(nodes, replicas=1)
    first = drained(nodes, "n3")
    assert (first.node, first.drains, first.empty) == ("n3", True, False)
    assert first.queues == first.alone == first.items > 0
    nodes.pass_time(3)
    last = drained(nodes, "n3")
    assert (last.empty, last.queues, last.names, last.items, last.stuck) == (True, 0, (), 0, 0)
    assert keepers(nodes) == {"n1", "n2", "n4"}
    for at in range(9, 30):
        nodes.ask(calls.Open(f"q{at}", QueueSettings(replicas=2)))
    nodes.pass_time(10)
    assert drained(nodes, "n3").empty


def test_the_coordinator_is_drained_as_any_other() -> None:
    nodes = Nodes(3)
    filled(nodes, replicas=2)
    drained(nodes, "n1")
    nodes.pass_time(3)
    assert drained(nodes, "n1").empty
    assert keepers(nodes) == {"n2", "n3"}


def test_it_is_not_empty_before_others_have_what_it_has() -> None:
    nodes = Nodes(3)
    filled(nodes, replicas=1)
    nodes.lost = lambda _, target, message: isinstance(message, SnapshotChunk) and target != "n3"
    drained(nodes, "n3")
    nodes.pass_time(20)
    told = drained(nodes, "n3")
    assert (told.empty, told.items) == (False, told.queues)
    nodes.lost = lambda *_: False
    nodes.pass_time(20)
    assert drained(nodes, "n3").empty


def test_what_needs_as_many_nodes_as_there_are_is_stuck_and_the_rest_goes() -> None:
    nodes = Nodes(3)
    filled(nodes, 5, replicas=3)
    nodes.ask(calls.Open("small", QueueSettings(replicas=1)))
    for name in ("n2", "n3"):
        drained(nodes, name)
    nodes.pass_time(5)
    told = [drained(nodes, name) for name in ("n2", "n3")]
    assert [(one.empty, one.stuck, one.queues) for one in told] == [(False, 5, 5)] * 2
    drained(nodes, "n2", undo=True)
    nodes.pass_time(5)
    assert drained(nodes, "n3").empty


def test_undone_it_keeps_queues_again() -> None:
    nodes = Nodes(3)
    filled(nodes, replicas=2)
    drained(nodes, "n2")
    nodes.pass_time(3)
    assert not drained(nodes, "n2", undo=True).drains
    nodes.pass_time(5)
    nodes.ask(calls.Open("all", QueueSettings(replicas=3)))
    nodes.pass_time(1)
    assert drained(nodes, "n2", undo=True).queues == 1


def test_a_node_that_begins_anew_is_drained_no_more() -> None:
    nodes = Nodes(3)
    filled(nodes, replicas=2)
    drained(nodes, "n2")
    nodes.pass_time(3)
    nodes.restart("n2")
    assert isinstance(nodes.ask(Drain(), "n2"), Declined)  # it is in no view yet
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(5)
    assert not drained(nodes, "n2", undo=True).drains
