"""The life of elements on whole nodes: most urgent first, leased, settled, copied, repaired."""

from random import Random

import pytest
from priority_bench import CLIENT, Nodes, bodies, receipt

from snowmelt.core.instant import seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced
from snowmelt.protocols.calling import Declined, Elsewhere, Gone
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Inquired
from snowmelt.sim.disk import Disk

SMALL = Limits(block=2, deal=0, arity=2)
RING = Limits(block=2, deal=0, flat=False)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("limits", [SMALL, RING], ids=["flat", "ring"])
def test_the_most_urgent_comes_first_from_whatever_node(count: int, limits: Limits) -> None:
    nodes = Nodes(count, limits)
    names = list(nodes.members)
    nodes.open(names[0], replicas=2)
    for number in range(12):
        nodes.put(names[number % count], (number % 3, b"%d" % number))
    got = [bodies(nodes.get(names[number % count]))[0] for number in range(12)]
    assert [int(body) % 3 for body in got] == [0] * 4 + [1] * 4 + [2] * 4
    assert [int(body) for body in got[:4]] == [0, 3, 6, 9]
    assert bodies(nodes.get(names[0])) == []


def test_largest_first_when_it_was_made_so() -> None:
    nodes = Nodes(1)
    nodes.open("n1", largest_first=True)
    nodes.put("n1", (0, b"low"), (3, b"high"))
    assert bodies(nodes.get("n1", 2)) == [b"high", b"low"]


def test_what_is_acknowledged_is_gone_and_what_is_given_back_comes_first_again() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=3)
    nodes.put("n1", (1, b"a"), (1, b"b"), (1, b"c"))
    first, second = nodes.get("n2"), nodes.get("n3")
    assert nodes.settle("n1", done=(receipt(first),)) == calls.Settled()
    assert nodes.settle("n2", back=(receipt(second),), reason="no") == calls.Settled()
    again = nodes.get("n3", 5)
    assert bodies(again) == [b"b", b"c"]
    assert [piece.failures for piece in again.pieces] == [1, 0]
    late = nodes.settle("n1", done=(receipt(second),))
    assert late.lost == (receipt(second),)


def test_a_lease_that_ends_gives_the_element_to_the_next() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1", lease=seconds(5))
    nodes.put("n1", (0, b"a"))
    first = nodes.get("n2")
    assert bodies(nodes.get("n1")) == []
    nodes.pass_time(6)
    second = nodes.get("n1")
    assert bodies(second) == [b"a"]
    assert second.token > first.token


def test_a_get_waits_for_an_element() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1")
    number = nodes.ask("n2", nodes.get_call("n2", patience=30))
    nodes.pass_time(3)
    assert nodes.told(number) is None
    nodes.put("n3", (2, b"late"))
    nodes.pass_time(0.1)
    assert bodies(nodes.told(number)) == [b"late"]


def test_what_is_delayed_comes_when_it_is_due() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1")
    nodes.put("n1", (0, b"later"), delay=seconds(10))
    nodes.put("n1", (3, b"now"))
    assert bodies(nodes.get("n2", 2)) == [b"now"]
    nodes.pass_time(11)
    assert bodies(nodes.get("n2", 2)) == [b"later"]


def test_a_full_queue_takes_nothing_until_there_is_room() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1", items_max=2)
    nodes.put("n1", (0, b"a"), (0, b"b"))
    full = nodes.call("n2", nodes.put_call("n2", (0, b"c")))
    assert full.error == "Full"
    number = nodes.ask("n2", nodes.put_call("n2", (0, b"d"), patience=seconds(30)))
    nodes.settle("n1", done=(receipt(nodes.get("n1")),))
    nodes.pass_time(3)
    assert isinstance(nodes.told(number), calls.PutDone)
    assert bodies(nodes.get("n1", 5)) == [b"b", b"d"]


@pytest.mark.parametrize("riding", [False, True], ids=["waiting", "in a batch"])
def test_a_put_without_room_is_forgotten_with_its_client(riding: bool) -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", items_max=1)
    nodes.put("n1", (0, b"a"))
    door = next(name for name in ("n2", "n3") if name != nodes.anchor("n1"))
    nodes.lost = lambda _from, _to, one: riding and type(one).__name__ in ("Climb", "Granted")
    put = nodes.put_call(door, (0, b"b"), patience=seconds(1_000))
    number = nodes.ask(door, put)
    nodes.give(door, Announced(Gone(CLIENT)))
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    nodes.settle("n1", done=(receipt(nodes.get("n1")),))
    nodes.pass_time(5)
    assert nodes.get("n1").pieces == ()
    nodes.ask(door, put, number)  # it lives on after all
    nodes.pass_time(1)
    assert isinstance(nodes.told(number), calls.PutDone)
    assert bodies(nodes.get("n1")) == [b"b"]


def test_what_fails_too_often_is_dead_until_it_is_redriven() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1", deliveries_max=2)
    nodes.put("n1", (0, b"bad"))
    for _ in range(2):
        nodes.settle("n1", back=(receipt(nodes.get("n2")),), reason="broken")
    assert bodies(nodes.get("n1")) == []
    status = nodes.call("n2", calls.Statistics("jobs"))
    assert (status.ready, status.dead) == ((), 1)
    assert bodies(nodes.call("n2", calls.Peek("jobs", 5, dead=True))) == [b"bad"]
    assert nodes.call("n1", calls.Redrive("jobs", nodes.via("n1"))) == calls.Counted(1)
    assert bodies(nodes.get("n1")) == [b"bad"]


def test_a_peek_takes_nothing_and_a_purge_takes_all_that_is_ready() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    nodes.put("n1", *[(number % 4, b"%d" % number) for number in range(9)])
    held = nodes.get("n2")
    assert bodies(nodes.call("n3", calls.Peek("jobs", 3))) == [b"4", b"8", b"1"]
    assert nodes.call("n3", calls.Purge("jobs", nodes.via("n3"))) == calls.Counted(8)
    assert bodies(nodes.get("n2", 9)) == []
    assert nodes.settle("n2", done=(receipt(held),)) == calls.Settled()


@pytest.mark.parametrize("gone", ["n1", "n2", "n3"])
@pytest.mark.parametrize("limits", [SMALL, RING], ids=["flat", "ring"])
def test_any_node_may_be_lost_when_there_are_copies(gone: str, limits: Limits) -> None:
    nodes = Nodes(3, limits)
    nodes.open("n1", replicas=2)
    nodes.put("n1", *[(number % 2, b"%d" % number) for number in range(20)])
    left = [name for name in nodes.members if name != gone]
    held = nodes.get(left[0], 2)
    nodes.settle(left[1], done=(receipt(nodes.get(left[1])),))
    nodes.stop(gone)
    nodes.view(*left)
    nodes.pass_time(2)
    got = bodies(nodes.get(left[1], 50))
    assert len(got) == 17
    assert [int(body) % 2 for body in got] == sorted(int(body) % 2 for body in got)
    assert nodes.settle(left[0], done=(receipt(held),)) == calls.Settled()


def test_a_restart_of_all_forgets_nothing() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2, lease=seconds(60))
    nodes.put("n1", *[(1, b"%d" % number) for number in range(10)])
    held = nodes.get("n2", 3)
    nodes.settle("n3", done=(receipt(nodes.get("n2", 2)),))
    for name in list(nodes.members):
        nodes.restart(name)
    nodes.view(*nodes.members)
    assert bodies(nodes.get("n1", 50)) == [b"%d" % number for number in range(5, 10)]
    assert nodes.settle("n3", done=(receipt(held),)) == calls.Settled()


def test_who_was_away_brings_nothing_back() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=3)
    nodes.put("n1", *[(1, b"%d" % number) for number in range(6)])
    nodes.stop("n3")
    nodes.view("n1", "n2")
    nodes.settle("n1", done=(receipt(nodes.get("n1", 4)),))
    nodes.restart("n3")
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(1)
    assert bodies(nodes.get("n3", 50)) == [b"4", b"5"]


def test_a_new_node_is_given_its_arcs() -> None:
    nodes = Nodes(4, SMALL)
    nodes.view("n1")
    nodes.open("n1")
    nodes.put("n1", *[(1, b"%d" % number) for number in range(64)])
    nodes.view(*nodes.members)
    nodes.pass_time(3)
    nodes.stop("n1")
    nodes.view("n2", "n3", "n4")
    nodes.pass_time(1)
    kept = bodies(nodes.get("n2", 64))
    assert 16 <= len(kept) < 64  # the rest was n1's own share
    nodes.restart("n1")
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    assert len(bodies(nodes.get("n2", 64))) == 64 - len(kept)


@pytest.mark.parametrize("twice", [False, True], ids=["one view", "another view meanwhile"])
def test_nobody_erases_what_the_new_home_has_not_flushed(twice: bool) -> None:
    nodes = Nodes(2, SMALL)
    nodes.view("n1")
    nodes.open("n1")
    nodes.put("n1", *[(1, b"%d" % number) for number in range(64)])
    nodes.hanging.add("n2")
    nodes.view("n1", "n2")
    nodes.pass_time(1)
    if twice:
        nodes.view("n1", "n2")
        nodes.pass_time(1)
    nodes.stop("n2")
    nodes.hanging.clear()
    nodes.restart("n2")
    nodes.view("n1", "n2")
    nodes.pass_time(1)
    assert len(bodies(nodes.get("n1", 64))) == 64


def test_nobody_erases_what_those_who_keep_copies_have_not_flushed() -> None:
    nodes = Nodes(4, SMALL)
    nodes.view("n1")
    nodes.open("n1", replicas=2)
    nodes.put("n1", *[(1, b"%d" % number) for number in range(64)])
    nodes.hanging |= {"n2", "n3", "n4"}
    for _ in range(2):
        nodes.view(*nodes.members)
        nodes.pass_time(3)
    for name in ("n2", "n3", "n4"):
        nodes.stop(name)
    nodes.hanging.clear()
    for name in ("n2", "n3", "n4"):
        nodes.restart(name)
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    assert len(bodies(nodes.get("n1", 64))) == 64


def test_a_put_that_is_asked_again_of_another_door_is_the_same_put() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    call = nodes.put_call("n1", (0, b"once"), (1, b"twice"), (1, b"thrice"))
    number = nodes.ask("n1", call)
    first = nodes.told(number)
    nodes.stop("n1")
    nodes.view("n2", "n3")
    nodes.ask("n2", call, number)
    nodes.pass_time(1)
    assert nodes.told(number).shares == first.shares
    assert bodies(nodes.get("n3", 9)) == [b"once", b"twice", b"thrice"]


def test_what_an_earlier_attempt_left_with_one_who_was_away_does_not_count() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    call = nodes.put_call("n1", *[(0, b"%d" % number) for number in range(8)])
    nodes.lost = lambda *word: type(word[2]).__name__ == "Follow"
    number = nodes.ask("n1", call)
    assert nodes.told(number) is None
    nodes.stop("n1")
    nodes.lost = lambda *_: False
    nodes.view("n2", "n3")
    nodes.ask("n2", call, number)
    nodes.pass_time(1)
    assert isinstance(nodes.told(number), calls.PutDone)
    nodes.restart("n1")
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    assert sorted(bodies(nodes.get("n3", 50))) == sorted(b"%d" % number for number in range(8))


def test_a_get_that_comes_again_gets_what_it_got_or_nothing() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1")
    nodes.put("n1", (0, b"a"), (0, b"b"))
    call = nodes.get_call("n2")
    number = nodes.ask("n2", call)
    first = nodes.told(number)
    nodes.ask("n2", call, number)
    assert nodes.told(number) == first
    nodes.settle("n1", done=(receipt(first),))
    nodes.ask("n2", call, number)
    assert bodies(nodes.told(number)) == []
    assert bodies(nodes.get("n1")) == [b"b"]


def test_what_another_door_took_over_is_asked_after_though_it_came_here_first() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    call = nodes.put_call("n1", (0, b"once"))
    number = nodes.ask("n2", call)  # the first word, to n1, is late
    nodes.pass_time(1)
    assert isinstance(nodes.told(number), calls.PutDone)
    nodes.stop("n2")
    nodes.view("n1", "n3")
    nodes.ask("n1", call, number)
    nodes.pass_time(1)
    assert bodies(nodes.get("n3", 9)) == [b"once"]


@pytest.mark.parametrize("door", ["n1", "n2", "n3"])
@pytest.mark.parametrize("what", ["put", "get"])
def test_what_another_door_did_in_a_view_without_this_one_is_not_done_again(
    door: str, what: str
) -> None:
    nodes = Nodes(3, SMALL)
    nodes.open(door, replicas=2)
    left = [name for name in nodes.members if name != door]
    nodes.lost = lambda source, target, _: source != target and door in (source, target)
    call = nodes.get_call(door, 1, 9) if what == "get" else nodes.put_call(door, (0, b"once"))
    number = nodes.ask(door, call)  # it stands still, and is missed
    nodes.view(*left)
    nodes.pass_time(1)
    if what == "get":
        nodes.put(left[0], (0, b"once"), (1, b"other"))
    nodes.ask(left[0], call, number)
    nodes.pass_time(2)
    assert isinstance(nodes.told(number), calls.PutDone | calls.Leased)
    nodes.lost = lambda *_: False
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    assert bodies(nodes.get(left[1], 9)) == [b"other" if what == "get" else b"once"]


@pytest.mark.parametrize("door", ["n1", "n2", "n3"])
def test_who_only_asked_after_anothers_put_does_not_do_it_when_a_view_ends(door: str) -> None:
    nodes = Nodes(3, SMALL)
    nodes.open(door)
    call = nodes.put_call(door, (0, b"once"))
    number = nodes.ask(door, call)
    nodes.pass_time(1)
    other, third = [name for name in nodes.members if name != door]
    nodes.lost = lambda _source, _target, message: type(message) is Inquired
    nodes.ask(other, call, number)  # a late word: its client has the answer
    nodes.settle(third, done=(receipt(nodes.get(third)),))
    nodes.lost = lambda *_: False
    nodes.stop(door)  # with the only copy, if it is its home
    nodes.view(other, third)
    nodes.pass_time(2)
    assert bodies(nodes.get(third)) == []


def test_who_waits_for_a_door_that_asks_after_its_put_is_told_when_a_view_ends() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1")
    call = nodes.put_call("n1", (0, b"once"))
    nodes.lost = lambda _source, _target, message: type(message) is Inquired
    number = nodes.ask("n2", call)  # the first word, to n1, never came
    nodes.pass_time(1)
    nodes.lost = lambda *_: False
    nodes.stop("n1")
    nodes.view("n2", "n3")
    nodes.pass_time(1)
    assert isinstance(nodes.told(number), Elsewhere)
    nodes.ask("n2", call, number)
    nodes.pass_time(1)
    assert isinstance(nodes.told(number), calls.PutDone)
    assert bodies(nodes.get("n3")) == [b"once"]


def test_an_epoch_whose_number_is_given_again_gives_no_position_again() -> None:
    nodes = Nodes(2, SMALL)
    nodes.open("n1", replicas=2)
    first = nodes.put("n1", (0, b"a"))
    got = nodes.get("n2")
    nodes.settle("n1", done=(receipt(got),))
    nodes.again = True  # the coordinator is on an older copy of its disk
    nodes.view("n1", "n2")
    second = nodes.put("n2", (0, b"b"))
    assert first.shares[0].intervals[0].stop <= second.shares[0].intervals[0].start
    later = nodes.get("n1")
    assert bodies(later) == [b"b"]
    assert later.token > got.token


def test_a_get_brings_what_one_answer_holds_and_the_rest_is_next() -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2)
    wanted = [(priority, bytes([65 + number]) * 100) for priority in (0, 1) for number in range(12)]
    nodes.put("n1", *wanted)
    got: list[bytes] = []
    while len(got) < len(wanted):
        leased = nodes.call(
            "n2", calls.Get("jobs", nodes.via("n2"), 100, seconds(0), None, bytes_max=700)
        )
        some = bodies(leased)
        assert 1 <= len(some) <= 7
        got += some
        assert nodes.settle("n2", done=(receipt(leased),)).lost == ()
    assert got == [body for _, body in wanted]
    assert nodes.call("n1", calls.Statistics("jobs")).ready == ()


def test_one_is_handed_out_whatever_it_weighs_and_none_failed_by_what_was_too_much() -> None:
    nodes = Nodes(1)
    nodes.open("n1")
    nodes.put("n1", (0, bytes(1000)), (1, bytes(1000)))
    get = calls.Get("jobs", nodes.via("n1"), 10, seconds(0), None, bytes_max=1)
    assert bodies(nodes.call("n1", get)) == [bytes(1000)]
    leased = nodes.get("n1")
    assert [(one.priority, one.failures) for one in leased.pieces] == [(1, 0)]


def test_who_comes_back_with_copies_of_what_is_gone_is_rid_of_them() -> None:
    nodes = Nodes(6, SMALL)
    nodes.view("n1", "n2", "n6")
    nodes.open("n1", replicas=2)
    nodes.put("n1", *[(1, b"%d" % number) for number in range(24)])
    nodes.stop("n6")
    others = ("n1", "n2", "n3", "n4", "n5")
    nodes.view(*others)
    nodes.pass_time(1)
    nodes.settle("n2", done=(receipt(nodes.get("n1", 24)),))
    nodes.restart("n6")
    nodes.view(*others, "n6")
    nodes.pass_time(1)
    for name in others:  # all who knew are away, and it is home to all there is
        nodes.stop(name)
    nodes.restart("n6")
    nodes.view("n6")
    nodes.pass_time(1)
    assert bodies(nodes.get("n6", 50)) == []


@pytest.mark.parametrize("largest_first", [False, True])
def test_any_rank_is_shown_and_stays(largest_first: bool) -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=2, largest_first=largest_first)
    for at in range(40):
        nodes.put(f"n{at % 3 + 1}", (at % 4, b"%d" % at))
    nodes.get("n2", 8)  # the most urgent are leased: they have no rank
    order = sorted(range(40), key=lambda at: (3 - at % 4 if largest_first else at % 4, at))[8:]
    for rank in (1, 2, 3, 20, 31, 32):
        assert bodies(nodes.call("n3", calls.Select("jobs", rank))) == [b"%d" % order[rank - 1]]
    assert not nodes.call("n3", calls.Select("jobs", 33)).pieces
    shares = {0.0: 1, 0.5: 16, 0.99: 32, 1.0: 32}
    for share, rank in shares.items():
        told = nodes.call("n1", calls.Select("jobs", 0, share))
        assert bodies(told) == [b"%d" % order[rank - 1]]
    assert bodies(nodes.get("n1", 50)) == [b"%d" % at for at in order]
    assert not nodes.call("n1", calls.Select("jobs", 0, 0.5)).pieces


def test_where_everybody_keeps_everything_a_client_hears_with_whom_all_of_it_lies() -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3)
    homes = {name: nodes.call(name, calls.Open("jobs")).home for name in nodes.members}
    home = nodes.anchor("n1")
    expected = dict.fromkeys(nodes.members, nodes.members[home].address)
    assert homes == {**expected, home: None}


def test_where_each_keeps_a_part_any_node_is_as_good_as_another() -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=2)
    assert [nodes.call(name, calls.Open("jobs")).home for name in nodes.members] == [None] * 3


def test_who_has_not_heard_of_all_queues_says_of_none_that_it_is_not_there() -> None:
    nodes = Nodes(3)
    nodes.open("n1")
    nodes.stop("n3")
    nodes.disks[NodeId("n3")] = Disk(Random(1))
    nodes.restart("n3")
    nodes.lost = lambda *_: True  # it hears nothing in the view that comes
    nodes.view(*nodes.members)
    for call in (calls.Open("jobs", None, make=False), calls.Queues(), calls.Peek("jobs", 1)):
        told = nodes.call("n3", call)
        assert (type(told), told.error) == (Declined, "Unavailable"), call
