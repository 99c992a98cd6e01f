"""A node that slept while its clock stood still, and takes a view that is over for the last."""

import pytest
from priority_bench import Nodes, bodies
from test_priority_failures import SMALL, holders
from test_seap_nodes import put

from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.settings import ANY


@pytest.mark.parametrize("priorities", [4, ANY])
def test_an_anchor_that_slept_does_not_say_that_there_is_nothing(priorities: int) -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3, priorities=priorities)
    asleep = nodes.anchor("n1")
    awake = [name for name in nodes.members if name != asleep]
    nodes.view(*awake)  # which it is not told of
    put(nodes, awake[0], 7) if priorities == ANY else nodes.put(awake[0], (1, b"7"))
    number = nodes.ask(asleep, nodes.get_call(asleep))
    nodes.pass_time(5)
    assert nodes.told(number) is None
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    assert bodies(nodes.told(number)) == [b"7"]


def test_nor_does_it_hand_out_what_it_alone_keeps() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=1)
    asleep = nodes.anchor("n1")
    nodes.put("n1", *[(2, b"%d" % number) for number in range(40)])
    while next_home(nodes, asleep) != asleep:
        nodes.get(asleep)
    (patient,) = bodies(nodes.call(asleep, calls.Peek("jobs", 1)))
    awake = [name for name in nodes.members if name != asleep]
    nodes.view(*awake)
    nodes.put(awake[0], (0, b"urgent"))
    number = nodes.ask(asleep, nodes.get_call(asleep))
    nodes.pass_time(5)
    assert nodes.told(number) is None
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    assert bodies(nodes.told(number)) == [b"urgent"]
    assert patient in bodies(nodes.get(asleep, 100))  # which went back before


def test_however_many_find_nothing_at_once_the_others_are_asked_once() -> None:
    nodes = Nodes(4)
    nodes.open("n1", replicas=4)
    anchor = nodes.anchor("n1")
    asked = nodes.at_once(anchor, [nodes.get_call(anchor)] * 50)
    assert [nodes.told(number).pieces for number in asked] == [()] * 50
    assert len(nodes.sent_of("Inquire")) <= 2 * 3  # those that came meanwhile wait for the next


@pytest.mark.parametrize("replicas", [1, 3, 5])
@pytest.mark.parametrize("priorities", [4, ANY])
def test_nor_does_a_door_that_slept_as_long_as_the_anchor(priorities: int, replicas: int) -> None:
    nodes = Nodes(5)
    nodes.open("n1", replicas=replicas, priorities=priorities)
    anchor = nodes.anchor("n1")
    door = next(name for name in nodes.members if name != anchor)
    awake = [name for name in nodes.members if name not in (anchor, door)]
    nodes.view(*awake)
    put(nodes, awake[0], 7) if priorities == ANY else nodes.put(awake[0], (1, b"7"))
    number = nodes.ask(door, nodes.get_call(door))
    nodes.pass_time(5)
    assert nodes.told(number) is None
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    assert bodies(nodes.told(number)) == [b"7"]


def test_what_others_have_flushed_is_handed_out_and_nobody_is_asked() -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3)
    nodes.put("n1", (1, b"7"))
    for node in nodes.members:
        nodes.put(node, (1, b"8"))
        assert nodes.get(node).pieces
    assert nodes.sent_of("Inquire") == []


def next_home(nodes: Nodes, node: str) -> str:
    (piece,) = nodes.call(node, calls.Peek("jobs", 1)).pieces
    return holders(nodes, piece.start, 1, *nodes.members, priority=piece.priority)[0]
