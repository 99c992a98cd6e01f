"""A get that is served when its asker has given it up leaves what it has to others, at once."""

import msgspec
import pytest
from priority_bench import CLIENT, Nodes, bodies, receipt
from test_seap_nodes import numbers, opened, put

from snowmelt.core.instant import seconds
from snowmelt.core.node import Announced
from snowmelt.protocols.calling import Gone
from snowmelt.protocols.priority import calls


def standing(count: int) -> Nodes:
    """A queue with some elements, whose nodes flush nothing for now."""
    nodes = Nodes(count)
    nodes.open("n1", replicas=count)
    nodes.put("n1", (0, b"one"), (0, b"two"))
    return nodes


def impatient(nodes: Nodes, heard: float = 1) -> calls.Get:
    """A get whose answer is waited for so many seconds."""
    return msgspec.structs.replace(nodes.get_call("n1", 2, 0.5), heard=seconds(heard))


@pytest.mark.parametrize("count", [1, 3])
def test_what_comes_too_late_for_its_asker_goes_to_the_next(count: int) -> None:
    nodes = standing(count)
    nodes.hanging |= {"n1", "n2", "n3"}
    late = nodes.ask("n1", impatient(nodes))
    nodes.pass_time(2)
    nodes.flush()
    assert nodes.told(late) is None  # who gets it next has passed nothing that was said to be gone
    got = nodes.get("n1", 2)
    assert bodies(got) == [b"one", b"two"]
    assert [piece.failures for piece in got.pieces] == [0] * len(got.pieces)
    assert nodes.settle("n1", done=(receipt(got),)) == calls.Settled()


@pytest.mark.parametrize("count", [1, 3])
def test_so_it_is_with_any_priorities(count: int) -> None:
    nodes = opened(count, replicas=count)
    put(nodes, "n1", 7, 3, 5)
    nodes.hanging |= {"n1", "n2", "n3"}
    late = nodes.ask("n1", impatient(nodes))
    nodes.pass_time(2)
    nodes.flush()
    assert nodes.told(late) is None
    nodes.pass_time(1)
    assert numbers(nodes.get("n1", 3)) == [3, 5, 7]


def giving_back(nodes: Nodes, heard: float) -> tuple[str, calls.Get, int]:
    """A get that was served too late, or whose client has gone; its homes have not heard so."""
    home = nodes.anchor("n1")
    door = next(name for name in ("n2", "n3") if name != home)
    nodes.hanging.add(home)
    call = msgspec.structs.replace(impatient(nodes, heard), via=nodes.via(door))
    number = nodes.ask(door, call)
    nodes.pass_time(2)
    nodes.give(door, Announced(Gone(CLIENT)))
    nodes.lost = lambda _from, _to, one: type(one).__name__ == "End"
    nodes.flush()
    nodes.pass_time(1)
    nodes.lost = lambda *_: False
    return door, call, number


def test_what_a_late_get_gives_back_is_there_though_the_view_ends_before() -> None:
    nodes = standing(3)
    _, _, late = giving_back(nodes, heard=1)
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(1)
    got = nodes.get("n1", 2)
    assert bodies(got) == [b"one", b"two"]
    assert [piece.failures for piece in got.pieces] == [0] * len(got.pieces)
    assert nodes.told(late) is None


@pytest.mark.parametrize("ends", [False, True], ids=["in the view", "in the next"])
def test_who_asks_again_while_his_get_gives_back_is_served_then(ends: bool) -> None:
    nodes = standing(3)
    door, call, number = giving_back(nodes, heard=60)
    nodes.ask(door, call, number)
    if ends:
        nodes.view("n1", "n2", "n3")
    nodes.pass_time(3)
    assert bodies(nodes.told(number)) == [b"one", b"two"]


def test_who_waits_still_is_told_what_came() -> None:
    nodes = standing(1)
    nodes.hanging.add("n1")
    asked = [nodes.ask("n1", impatient(nodes, heard)) for heard in (0, 3)]
    nodes.pass_time(2)
    nodes.flush()
    assert bodies(nodes.told(asked[0])) == [b"one", b"two"]
    assert nodes.told(asked[1]).pieces == ()  # there was nothing else


def test_a_get_that_was_given_up_in_line_is_granted_nothing() -> None:
    nodes = standing(3)
    door = next(name for name in ("n2", "n3") if name != nodes.anchor("n1"))
    nodes.put("n1", (0, b"three"))
    held = nodes.get("n1")
    lost = "Climb", "Granted", "End"
    nodes.lost = lambda _from, _to, one: type(one).__name__ in lost
    first = nodes.ask(door, nodes.get_call(door, 1, 60))  # its batch is on its way for long
    call = msgspec.structs.replace(impatient(nodes), via=nodes.via(door))
    late = nodes.ask(door, call)
    settling = msgspec.structs.replace(call, settle=calls.Settle("jobs", done=(receipt(held),)))
    nodes.ask(door, settling)
    nodes.pass_time(2)
    nodes.lost = lambda *_: False
    nodes.sent.clear()
    nodes.pass_time(1)
    assert bodies(nodes.told(first)) == [b"two"]
    assert nodes.told(late) is None
    assert [len(one.wants) for _, _, one in nodes.sent_of("Take")] == [1]


@pytest.mark.parametrize("gone", [False, True], ids=["given up", "gone"])
def test_what_was_leased_before_is_not_taken_from_who_has_it(gone: bool) -> None:
    nodes = standing(3)
    door = next(name for name in ("n2", "n3") if name != nodes.anchor("n1"))
    call = msgspec.structs.replace(impatient(nodes, 60 if gone else 1), via=nodes.via(door))
    number = nodes.ask(door, call)
    held = nodes.told(number)
    assert bodies(held) == [b"one", b"two"]
    nodes.lost = lambda _from, _to, one: type(one).__name__ == "Taken"
    nodes.ask(door, call, number)  # the same call comes again, and is answered late
    nodes.pass_time(2)
    if gone:  # a connection breaks; whose it was lives on
        nodes.give(door, Announced(Gone(CLIENT)))
    nodes.lost = lambda *_: False
    nodes.pass_time(2)
    assert nodes.get("n1").pieces == ()
    assert nodes.settle("n1", done=(receipt(held),)) == calls.Settled()


def test_a_late_get_settles_what_it_was_to_settle_first() -> None:
    nodes = standing(1)
    held = nodes.get("n1")
    nodes.hanging.add("n1")
    settle = calls.Settle("jobs", done=(receipt(held),))
    late = nodes.ask("n1", msgspec.structs.replace(impatient(nodes), settle=settle))
    nodes.pass_time(2)
    nodes.flush()
    assert nodes.told(late) is None
    status = nodes.call("n1", calls.Statistics("jobs"))
    assert (sum(one.count for one in status.ready), status.leased) == (1, 0)
