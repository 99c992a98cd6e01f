"""Calls that ask for much, or for what can't be: a clear answer, soon, and nobody else suffers."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from priority_bench import Nodes, bodies, part, receipt

from snowmelt.core.instant import Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.overlay.tree import FlatTree
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.calls import Leased, Receipt
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Food, Several, Spare
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.protocols.priority.stash import Stash

SOON = 15.0
"""Seconds, also on a busy machine; whoever looks at all for each takes minutes."""


def opened(count: int, items: int = 0) -> Nodes:
    """So many nodes, with a queue of so many items."""
    nodes = Nodes(count)
    nodes.open("n1")
    if items:
        nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (part(0, [b"x"] * items),)))
    return nodes


def every_other(leased: Leased, first: int) -> Receipt:
    """Of what was leased each second one."""
    places = [
        one
        for share in receipt(leased).shares
        for interval in share.intervals
        for one in range(interval.start + first, interval.stop, 2)
    ]
    return Receipt(leased.token, (Share(0, tuple([Interval(one, one + 1) for one in places])),))


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_settled_in_many_pieces_takes_time_by_the_piece(count: int) -> None:
    nodes = opened(count, 16_000)
    leased = nodes.get("n1", 16_000)
    began = time.process_time()
    assert nodes.settle("n1", done=(every_other(leased, 0),)) == calls.Settled()
    assert nodes.settle("n1", back=(every_other(leased, 1),)) == calls.Settled()
    assert len(bodies(nodes.get("n1", 16_000))) == 8_000
    nodes.view(*nodes.members)
    assert time.process_time() - began < SOON


FAR = (1 << 63) - 1
"""The greatest position that there can be."""
MOST = Duration((1 << 64) - 1)


def named(*edges: tuple[int, int], priority: int = 0, token: int = 1) -> Receipt:
    """A receipt that somebody made up."""
    return Receipt(token, (Share(priority, tuple([Interval(*one) for one in edges])),))


def got(nodes: Nodes, **settle: Any) -> calls.Get:
    """A get that settles something first."""
    told = calls.Settle(**{"queue": "jobs", **settle})
    return calls.Get("jobs", nodes.via("n1"), 1, Duration(0), told)


def put(nodes: Nodes, **options: Any) -> calls.Put:
    """A put of one."""
    return nodes.put_call("n1", (0, b"x"), **options)


SCATTERED = tuple((at * 999, at * 999 + 1) for at in range(65_537))
ABSURD: dict[str, tuple[Callable[[Nodes], Any], str]] = {
    "positions up to the greatest": (lambda _: settle(done=(named((0, FAR)),)), "TooLarge"),
    "positions beyond": (lambda _: settle(back=(named((0, FAR + 1)),)), "BadOption"),
    "positions below zero": (lambda _: settle(renew=(named((-5, 4)),)), "BadOption"),
    "too many intervals": (lambda _: settle(done=(named(*SCATTERED),)), "TooLarge"),
    "too many receipts": (lambda _: settle(done=(named((1, 2)),) * 4_097), "TooLarge"),
    "a priority there is not": (lambda _: settle(done=(named((1, 2), priority=4),)), "BadOption"),
    "with a get, far": (lambda nodes: got(nodes, done=(named((0, FAR)),)), "TooLarge"),
    "with a get, for ever": (lambda nodes: got(nodes, back=(), delay=MOST), "BadOption"),
    "with a get, before now": (lambda nodes: got(nodes, delay=Duration(-1)), "BadOption"),
    "with a get, of another queue": (lambda nodes: got(nodes, queue="other"), "BadOption"),
    "with a get, why, at length": (lambda nodes: got(nodes, reason="x" * 1_001), "TooLarge"),
    "headers that are none": (lambda nodes: put(nodes, headers=b"\xc1"), "BadOption"),
    "headers of numbers": (lambda nodes: put(nodes, headers=b"\x81\x01\x02"), "BadOption"),
    "headers that are labels": (
        lambda nodes: put(nodes, headers=b"\x93\x80\xc0\xc0"),
        "BadOption",
    ),
    "a delay for ever": (lambda nodes: put(nodes, delay=MOST), "BadOption"),
    "settings of another queue": (
        lambda _: calls.Open("other", QueueSettings(queue="another")),
        "BadOption",
    ),
    "priorities below zero": (
        lambda _: calls.Open("other", QueueSettings(queue="other", priorities=-1)),
        "BadOption",
    ),
}


def settle(**words: Any) -> calls.Settle:
    """What is said of leases."""
    return calls.Settle("jobs", **words)


@pytest.mark.parametrize("count", [1, 3])
def test_an_absurd_call_is_refused_and_changes_nothing(count: int) -> None:
    nodes = opened(count)
    nodes.put("n1", (1, b"a"), (0, b"b"))
    held = nodes.get("n1")
    before = nodes.call("n1", calls.Statistics("jobs"))
    for name, (make, error) in ABSURD.items():
        began = time.process_time()
        answer = nodes.call("n1", make(nodes))
        assert time.process_time() - began < SOON, name
        assert isinstance(answer, Declined), (name, answer)
        assert (answer.error, bool(answer.text)) == (error, True), (name, answer)
        assert nodes.call("n1", calls.Statistics("jobs")) == before, name
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    known = nodes.call("n1", calls.Queues())
    assert [one.queue for one in known.settings] == ["jobs"]
    assert nodes.settle("n1", done=(receipt(held),)) == calls.Settled()
    assert bodies(nodes.get("n1", 5)) == [b"a"]


def test_a_queue_for_which_there_is_no_room_is_refused_wherever_it_is_asked_for() -> None:
    nodes = Nodes(3, Limits(queues=4, opens=2))
    nodes.lost = lambda *_: True
    numbers = [
        nodes.ask(name, calls.Open(queue, QueueSettings(queue=queue, priorities=4)))
        for name in nodes.members
        for queue in (f"{name}-{at}" for at in range(6))
    ]
    nodes.lost = lambda *_: False
    nodes.pass_time(30)
    told = [nodes.told(number) for number in numbers]
    made = [one for one in told if isinstance(one, calls.Opened)]
    refused = [one.text for one in told if isinstance(one, Declined)]
    assert len(made) + len(refused) == len(told), "each has its answer"
    assert "there are 4 priority queues, or asked for; there is room for no more" in refused
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    for one in made:
        queue = one.settings.queue
        put = calls.Put(queue, nodes.via("n1"), (part(0, [b"x"]),))
        assert isinstance(nodes.call("n1", put), calls.PutDone)


def test_who_asks_again_for_a_queue_that_is_being_made_waits_once() -> None:
    nodes = Nodes(2, Limits(opens=2))
    nodes.lost = lambda *_: True
    members = tuple(nodes.members)
    names = [f"queue-{at}" for at in range(50)]
    name = next(one for one in names if FlatTree(members, one, 1).root.node != "n1")
    numbers = [nodes.ask("n1", calls.Open(name)) for _ in range(3)]
    nodes.ask("n1", calls.Open(name), numbers[0])
    assert nodes.told(numbers[2]).text == f"2 wait already until queue {name} is made; ask again"
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert isinstance(nodes.told(numbers[0]), calls.Opened)
    assert isinstance(nodes.told(numbers[1]), calls.Opened)


@pytest.mark.parametrize("count", [1, 3])
def test_a_put_of_priorities_in_turn_is_put_and_read_again_after_a_restart(count: int) -> None:
    nodes = opened(count)
    parts = tuple([part(at % 4, [b"%d" % at] * 32) for at in range(1_024)])
    done = nodes.call("n1", calls.Put("jobs", nodes.via("n1"), parts))
    assert isinstance(done, calls.PutDone)
    for name in list(nodes.members):
        nodes.stop(name)
        nodes.restart(name)
    nodes.view(*nodes.members)
    nodes.pass_time(1)
    found = bodies(nodes.get("n1", 32_768))
    assert found == [
        b"%d" % at for one in range(4) for at in range(one, 1_024, 4) for _ in range(32)
    ]


@pytest.mark.parametrize("door", ["n1", "n2"])
def test_many_puts_of_priorities_in_turn_come_together_at_whatever_door(door: str) -> None:
    nodes = opened(2)
    asked = [nodes.put_call(door, (at % 4, b"%d" % at)) for at in range(1_500)]
    numbers = nodes.at_once(door, asked)
    nodes.pass_time(2)
    assert all(isinstance(nodes.told(number), calls.PutDone) for number in numbers)
    found = bodies(nodes.get("n1", 1_500))
    assert sorted(found, key=int) == [b"%d" % at for at in range(1_500)]


@pytest.mark.parametrize("door", ["n1", "n2"])
def test_large_puts_that_come_together_go_home_in_messages_that_can_be_sent(door: str) -> None:
    nodes = Nodes(2)
    nodes.open("n1", replicas=2)
    body = bytes(30 << 20)
    numbers = nodes.at_once(door, [nodes.put_call(door, (0, body)) for _ in range(4)])
    nodes.pass_time(2)
    assert all(isinstance(nodes.told(number), calls.PutDone) for number in numbers)


def test_a_get_of_very_many_pieces_is_answered() -> None:
    nodes = Nodes(2, Limits(block=1 << 20))  # all with one home
    nodes.open("n1")
    for _ in range(2):
        nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (part(0, [b"x"] * 16_400),)))
    leased = nodes.get("n1", 32_800)
    for first, word in enumerate(("done", "back")):
        assert nodes.settle("n2", **{word: (every_other(leased, first),)}) == calls.Settled()
    for door in nodes.members:  # one of them is another than the home
        leased = nodes.get(door, 32_800)
        assert len(leased.pieces) == len(bodies(leased)) == 16_400
        assert nodes.settle(door, back=(receipt(leased),)) == calls.Settled()


def test_what_is_read_at_once_is_bounded_and_the_rest_stays_in_the_queue() -> None:
    nodes = Nodes(1, Limits(read=1_000))
    nodes.open("n1")
    for at in range(20):
        nodes.put("n1", (0, b"%d" % at + bytes(400)))
    nodes.stop("n1")
    nodes.restart("n1")  # so that all has to be read
    nodes.view("n1")
    assert len(bodies(nodes.call("n1", calls.Peek("jobs", 100)))) == 2
    found: list[bytes] = []
    while some := bodies(nodes.get("n1", 100)):
        assert len(some) == 2
        found += [body.rstrip(b"\0") for body in some]
    assert found == [b"%d" % at for at in range(20)]


def test_thousands_who_wait_for_ever_cost_little_and_each_is_served() -> None:
    nodes = Nodes(2)
    nodes.open("n1")
    forever = seconds(2**33)
    numbers = []
    for _ in range(3_000):  # each at an instant of its own
        nodes.pass_time(0.0003)
        numbers.append(nodes.ask("n2", calls.Get("jobs", nodes.via("n2"), 1, forever)))
    began = time.process_time()
    nodes.pass_time(3)
    assert time.process_time() - began < SOON
    nodes.lost = lambda _source, _target, message: word_of_food(message)
    nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (part(0, [b"x"] * 3_000),)))
    nodes.pass_time(4)  # word of them is lost: the clock tells, and one tells the others
    assert all(bodies(nodes.told(number)) == [b"x"] for number in numbers)


def word_of_food(message: Any) -> bool:
    """Whether it says that there are elements again."""
    return isinstance(message, Food) or (
        isinstance(message, Several) and any(isinstance(one, Food) for one in message.messages)
    )


def test_patience_that_ends_is_told_when_it_ends_however_many_wait() -> None:
    nodes = opened(1)
    numbers = [nodes.ask("n1", nodes.get_call("n1", patience=0.5 + at / 100)) for at in range(200)]
    nodes.pass_time(1.5)
    told = [nodes.told(number) for number in numbers]
    assert [one is not None for one in told] == [at <= 100 for at in range(200)]


def test_more_calls_than_may_wait_are_told_so_and_those_that_wait_go_on() -> None:
    nodes = Nodes(1, Limits(in_hand=3))
    nodes.open("n1")
    numbers = [nodes.ask("n1", nodes.get_call("n1", patience=100)) for _ in range(4)]
    refusal = nodes.told(numbers[3])
    assert (refusal.error, "3 calls of queue jobs wait here; ask again") == (
        "Unavailable",
        refusal.text,
    )
    assert nodes.call("n1", nodes.put_call("n1", (0, b"a"))).error == "Unavailable"
    nodes.ask("n1", nodes.get_call("n1", patience=100), numbers[0])
    assert nodes.told(numbers[0]) is None, "who waits may ask again"


def test_puts_that_wait_for_room_take_no_more_memory_than_they_may() -> None:
    nodes = Nodes(1, Limits(in_hand_bytes=1_000))
    for queue in ("jobs", "others"):
        made = QueueSettings(queue=queue, priorities=4, items_max=1)
        nodes.call("n1", calls.Open(queue, made))
        nodes.told(waiting(nodes, queue, 5))
    one, _ = waiting(nodes, "jobs", 492), waiting(nodes, "others", 492)  # and eight of offsets
    refusal = nodes.told(waiting(nodes, "jobs", 1))
    text = "1000 bytes of puts wait at this node already; ask again"
    assert (refusal.error, refusal.text) == ("Unavailable", text)
    nodes.settle("n1", done=(receipt(nodes.get("n1")),))
    nodes.pass_time(2)
    assert isinstance(nodes.told(one), calls.PutDone)
    again = waiting(nodes, "jobs", 492)
    assert nodes.told(again) is None, "what was put takes no room any more"


def test_one_put_is_taken_however_large_it_is() -> None:
    nodes = Nodes(1, Limits(in_hand_bytes=1_000))
    nodes.open("n1")
    assert isinstance(nodes.put("n1", (0, bytes(2_000))), calls.PutDone)


def waiting(nodes: Nodes, queue: str, size: int) -> int:
    """A put for which there is no room, of one who waits for it as long as can be said."""
    parts, patience = (part(0, [bytes(size)]),), Duration((1 << 63) - 1)
    return nodes.ask("n1", calls.Put(queue, nodes.via("n1"), parts, patience=patience))


def test_what_is_said_of_a_view_to_come_takes_no_more_memory_than_it_may() -> None:
    stash = Stash(Limits(stash_bytes=10_000))
    large, small = Spare(2, "x" * 4_000, ()), Spare(2, "jobs", ())
    for message in (small, large, large, large, small):
        stash.add(NodeId("n9"), message)
    assert [message for _, message in stash.taken()] == [large, large, small]
    stash.add(NodeId("n9"), Spare(2, "x" * 10_000, ()))
    stash.add(NodeId("n9"), small)
    assert [message for _, message in stash.taken()] == [small]


def test_calls_that_claim_to_have_begun_elsewhere_are_asked_after_together() -> None:
    nodes = opened(1, 32_000)
    leased = nodes.get("n1", 32_000)
    nodes.settle("n1", done=(every_other(leased, 0),))
    lies = [calls.Get("jobs", calls.Via(NodeId("n9"), at), 1, Duration(0)) for at in range(600)]
    began = time.process_time()
    numbers = nodes.at_once("n1", lies)
    assert time.process_time() - began < SOON
    assert all(isinstance(nodes.told(number), Leased) for number in numbers)
