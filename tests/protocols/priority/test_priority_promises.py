"""Promises of a priority queue, tried by whoever wanted to break them."""

from random import Random

import pytest
from priority_bench import CLIENT, Nodes, bodies, part, receipt
from test_priority_failures import SMALL, holders

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Elsewhere
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.anchor import first_of
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.hand import PIECES_REMEMBERED, Memory
from snowmelt.protocols.priority.limits import LIMITS
from snowmelt.protocols.priority.messages import (
    Climb,
    End,
    Ended,
    Fetched,
    Follow,
    Inquired,
    Stored,
)
from snowmelt.sim.disk import Disk


def test_who_was_away_brings_nothing_back_of_very_many() -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3)
    away = nodes.anchor("n1")  # who is the home of all when it is back
    here, other = [name for name in nodes.members if name != away]
    many = part(0, [b"%d" % number for number in range(9_000)])
    nodes.call(here, calls.Put("jobs", nodes.via(here), (many,)))
    nodes.stop(away)
    nodes.view(here, other)
    nodes.settle(here, done=(receipt(nodes.get(here, 9_000)),))
    nodes.stop(here)
    nodes.stop(other)
    for name in nodes.members:
        nodes.restart(name)
    nodes.view(*nodes.members)
    assert bodies(nodes.get(here, 9_000)) == []


def test_new_nodes_in_the_place_of_all_others_know_what_is_gone() -> None:
    nodes = Nodes(4, SMALL)
    nodes.open("n1", replicas=2)
    nodes.put("n1", *[(0, b"%d" % number) for number in range(64)])
    nodes.stop("n4")
    others = ("n1", "n2", "n3")
    nodes.view(*others)
    nodes.pass_time(3)
    held = nodes.get("n1", 64)
    assert len(bodies(held)) == 64
    nodes.settle("n1", done=(receipt(held),))
    for name in others:  # one after the other
        nodes.stop(name)
        nodes.view(*[one for one in others if one != name])
        nodes.disks[NodeId(name)] = Disk(Random(1))
        nodes.restart(name)
        nodes.view(*others)
        nodes.pass_time(3)
    nodes.restart("n4")
    nodes.view(*nodes.members)
    nodes.pass_time(3)
    assert bodies(nodes.get("n1", 64)) == []


def test_what_is_held_back_is_nobodys_though_the_word_of_it_was_lost_beside_its_copy() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    some = [(0, b"%d" % number) for number in range(32)]
    nodes.call("n1", nodes.put_call("n1", *some, delay=seconds(3600)))
    nodes.stop("n3")
    nodes.lost = lambda _source, _target, message: (
        type(message) is Follow and bool(message.marks) and not message.elements
    )
    nodes.view("n1", "n2")
    home, copy = holders(nodes, 0, 2, "n1", "n2")
    nodes.lost = lambda *_: False
    nodes.stop(home)
    nodes.view(copy)
    nodes.pass_time(1)
    assert bodies(nodes.get(copy, 64)) == []


def test_no_get_waits_for_what_lies_with_who_is_away() -> None:
    nodes = Nodes(2, SMALL)
    nodes.view("n1")
    nodes.open("n1")
    some = [(0, b"%d" % number) for number in range(16)]
    nodes.put("n1", *some)
    held = nodes.get("n1", 16)
    nodes.lost = lambda _source, _target, message: type(message) is Fetched
    nodes.view("n1", "n2")  # which hears what became of them before it has any
    nodes.stop("n1")
    nodes.lost = lambda *_: False
    nodes.view("n2")
    (unknown,) = nodes.settle("n2", back=(receipt(held),)).lost  # what is n1's own to keep
    nodes.put("n2", (1, b"less urgent, and here"))
    number = nodes.ask("n2", nodes.get_call("n2", patience=1))
    nodes.pass_time(3)
    assert bodies(nodes.told(number)) == [b"less urgent, and here"]
    nodes.restart("n1")
    nodes.view("n1", "n2")
    nodes.pass_time(3)
    assert len(bodies(nodes.get("n2", 64))) == 16 - sum(one.total for one in unknown.shares) > 0


def test_a_put_for_which_there_was_no_room_is_known_to_have_been_begun() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", items_max=1)
    home = holders(nodes, first_of(1), 1, *nodes.members)[0]
    door, other = [name for name in nodes.members if name != home]
    call = nodes.put_call(door, (0, b"first"))
    nodes.lost = lambda _source, _target, message: type(message) is Stored
    number = nodes.ask(door, call)
    nodes.stop(home)  # which has it
    nodes.lost = lambda _source, _target, message: type(message) is Inquired
    nodes.view(other, door)
    nodes.put(other, (0, b"second"))
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert nodes.told(number) is None  # there is no room for it now
    nodes.settle(other, done=(receipt(nodes.get(other)),))
    nodes.ask(door, call, number)
    nodes.pass_time(1)
    assert isinstance(nodes.told(number), calls.PutDone)
    nodes.restart(home)
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    assert bodies(nodes.get(other, 9)) == [b"first"]


def test_a_put_that_may_have_been_begun_is_not_said_to_find_a_full_disk() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1")
    home = holders(nodes, first_of(1), 1, *nodes.members)[0]
    door, other = [name for name in nodes.members if name != home]
    nodes.lost = lambda _source, _target, message: type(message) is Stored
    number = nodes.ask(door, nodes.put_call(door, (0, b"there already")))
    nodes.stop(home)
    nodes.lost = lambda *_: False
    nodes.full |= {door, other}
    nodes.view(other, door)
    nodes.pass_time(3)
    assert nodes.told(number) is None
    nodes.full.clear()
    nodes.restart(home)
    nodes.view(*nodes.members)
    nodes.pass_time(3)
    assert bodies(nodes.get(other)) == [b"there already"]


def test_a_purge_that_is_asked_for_twice_leaves_what_is_put_after_its_answer() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1")
    near = nodes.anchor("n1")
    far = next(name for name in nodes.members if name != near)
    nodes.put(near, (0, b"before"))
    purge = calls.Purge("jobs", nodes.via(near))
    nodes.lost = lambda _source, _target, message: type(message) is Ended
    number = nodes.ask(near, purge)
    nodes.lost = lambda _source, _target, message: type(message) in (Climb, Ended)
    nodes.ask(far, purge, number)  # since the first is slow
    first = nodes.told(number)
    assert first is None or isinstance(first, Elsewhere)
    nodes.lost = lambda _source, _target, message: type(message) is Climb
    nodes.pass_time(1)
    assert nodes.call(near, purge) == calls.Counted(0)
    nodes.put(near, (0, b"after"))
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert bodies(nodes.get(near)) == [b"after"]


@pytest.mark.parametrize("runs", [2, 600])
def test_a_put_that_finds_no_room_is_refused_however_often_it_changes_its_priority(
    runs: int,
) -> None:
    nodes = Nodes(2, LIMITS)
    nodes.open("n1", replicas=2)
    nodes.full |= {"n1", "n2"}
    number = nodes.ask("n1", nodes.put_call("n1", *[(at % 2, b"some") for at in range(runs)]))
    nodes.pass_time(1)
    assert nodes.told(number).error == "DiskFull"


@pytest.mark.parametrize("over", [False, True], ids=["one view", "another view meanwhile"])
def test_a_home_without_room_for_what_it_lacks_goes_on_with_what_it_has(over: bool) -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    nodes.put("n1", *[(0, b"%d" % number) for number in range(24)])
    home, other = holders(nodes, 0, 2, "n1", "n2")
    nodes.stop("n3")
    nodes.full.add(home)
    nodes.view("n1", "n2")
    nodes.pass_time(1)
    if over:
        nodes.view("n1", "n2")
        nodes.pass_time(1)
    done: list[bytes] = []
    for _ in range(24):  # those who are granted what it lacks wait for room
        number = nodes.ask(other, nodes.get_call(other))
        nodes.pass_time(0.25)
        got = nodes.told(number)
        if got is not None:
            assert nodes.settle(other, done=(receipt(got),)) == calls.Settled()
            done += bodies(got)
    assert 0 < len(done) < 24
    nodes.full.clear()
    nodes.pass_time(60)
    assert sorted(done + bodies(nodes.get(other, 24))) == sorted(b"%d" % one for one in range(24))


def test_what_is_remembered_is_bounded_by_its_pieces_too() -> None:
    memory, now = Memory(), Instant(0)
    for number in range(9):
        memory.keep(OperationId(CLIENT, number), number, now, PIECES_REMEMBERED // 4)
    memory.keep(OperationId(CLIENT, 8), "again", now)
    left = [memory.get(OperationId(CLIENT, number)) for number in range(9)]
    assert left == [None] * 5 + [5, 6, 7, "again"]


def test_what_is_too_much_for_one_answer_is_what_is_got_next() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1", replicas=2)
    door = next(name for name in nodes.members if name != nodes.anchor("n1"))
    nodes.put(door, *[(0, b"%d" % number + bytes(1_000)) for number in range(8)])
    call = calls.Get("jobs", nodes.via(door), 4, seconds(0), None, 2_500)
    slow = nodes.now + seconds(1)
    nodes.lost = lambda _source, _target, message: type(message) is End and nodes.now < slow
    got: list[bytes] = []
    for _ in range(4):
        leased = nodes.call(door, call)
        got += [body.rstrip(b"\0") for body in bodies(leased)]
    assert got == [b"%d" % number for number in range(8)]


@pytest.mark.parametrize("reason", ["", "it failed"], ids=["released", "failed"])
def test_what_a_client_gave_back_is_what_it_gets_next(reason: str) -> None:
    nodes = Nodes(4, SMALL)
    nodes.open("n1")
    nodes.put("n1", *[(0, b"%d" % number) for number in range(16)], (1, b"second"))
    homes = [holders(nodes, first_of(1) + at, 1, *nodes.members)[0] for at in range(16)]
    at, home = next((at, one) for at, one in enumerate(homes) if one != nodes.anchor("n1"))
    door = next(name for name in nodes.members if name not in (home, nodes.anchor("n1")))
    held = nodes.get(door, 16)
    slow = nodes.now + seconds(1)
    nodes.lost = lambda source, _target, message: (
        type(message) is Climb and source == home and nodes.now < slow
    )
    first = Interval(first_of(1) + at, first_of(1) + at + 1)
    one = calls.Receipt(held.token, (Share(0, (first,)),))
    assert nodes.settle(door, back=(one,), reason=reason) == calls.Settled()
    assert bodies(nodes.get(door)) == [b"%d" % at]


def test_what_is_done_and_lies_with_who_is_away_makes_no_room_here() -> None:
    nodes = Nodes(2, SMALL)
    nodes.view("n1")
    nodes.open("n1", items_max=16)
    nodes.put("n1", *[(0, b"%d" % number) for number in range(16)])
    held = nodes.get("n1", 16)
    nodes.lost = lambda _source, _target, message: type(message) is Fetched
    nodes.view("n1", "n2")
    nodes.stop("n1")
    nodes.lost = lambda *_: False
    nodes.view("n2")
    (unknown,) = nodes.settle("n2", done=(receipt(held),)).lost
    assert sum(one.total for one in unknown.shares) < 16
    nodes.put("n2", *[(0, b"%d" % number) for number in range(16)])
    assert nodes.call("n2", nodes.put_call("n2", (0, b"too much"))).error == "Full"


def test_who_made_room_in_a_full_queue_has_it() -> None:
    nodes = Nodes(4, SMALL)
    nodes.open("n1", items_max=16)
    nodes.put("n1", *[(0, b"%d" % number) for number in range(16)])
    homes = [holders(nodes, first_of(1) + at, 1, *nodes.members)[0] for at in range(16)]
    at, home = next((at, one) for at, one in enumerate(homes) if one != nodes.anchor("n1"))
    door = next(name for name in nodes.members if name not in (home, nodes.anchor("n1")))
    held = nodes.get(door, 16)
    slow = nodes.now + seconds(1)
    nodes.lost = lambda source, _target, message: (
        type(message) is Climb and source == home and nodes.now < slow
    )
    first = Interval(first_of(1) + at, first_of(1) + at + 1)
    one = calls.Receipt(held.token, (Share(0, (first,)),))
    assert nodes.settle(door, done=(one,)) == calls.Settled()
    nodes.put(door, (0, b"one more"))
    assert nodes.call(door, nodes.put_call(door, (0, b"too much"))).error == "Full"
    nodes.pass_time(2)
    assert nodes.call(door, nodes.put_call(door, (0, b"too much"))).error == "Full"
