"""Answers that take long: the same question gets the same answer, and none is told too late."""

from collections.abc import Callable
from typing import Any

import pytest
from node_bench import NodeBench

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import Announced, Reply
from snowmelt.protocols import membership, queue
from snowmelt.protocols.calling import Declined, Gone
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import Identity, MembershipSettings
from snowmelt.protocols.queue.api.calls import (
    Assign,
    Changed,
    Describe,
    Get,
    Leased,
    ListGroups,
    Locate,
    Open,
    Peek,
    Purge,
    Put,
    Redrive,
    Settle,
    Settled,
    Survey,
)
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import PeekHeld
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.messages import words
from snowmelt_world.families.membership import Founder
from snowmelt_world.world import Observer, World

ONE = Get("q", 1, 1 << 20, seconds(0))
TWO = Get("q", 2, 1 << 20, seconds(0))


def bench_with(items: int, **settings: Any) -> NodeBench:
    bench = NodeBench()
    bench.open(**settings)
    bench.put(items=items)
    return bench


def where(leased: Leased) -> list[int]:
    parts = [at for part in leased.parts for at in range(part.start, part.start + part.count)]
    return parts + [at for span in leased.spans for at in range(span.start, span.stop)]


# --- the same question gets the same answer -------------------------------------------------------


def test_what_ended_a_lease_is_good_when_the_next_leader_is_asked_again() -> None:
    """The answers of a leader end with it; that a settlement took effect is in the records."""
    bench = bench_with(4)
    token = bench.answer(TWO).token
    both = Settle("q", token, (Interval(0, 1),), (Interval(1, 2),), reason="it broke")
    ended = bench.ask(both)
    assert bench.told.pop(ended) == Settled(0)
    bench.crash()
    taken = bench.answer(TWO)
    assert where(taken) == [1, 2]
    bench.ask(Get("q", 1, 1 << 20, seconds(0), both), ended)
    assert not bench.told.pop(ended).refused
    bench.ask(both, ended)
    assert bench.told.pop(ended) == Settled(0)
    assert list(bench.state.leases[taken.token].left) == [Interval(1, 3)], "it went back once"
    assert bench.answer(both).error == "LeaseLost", "another call is another"


def test_what_a_get_gave_back_on_its_way_is_no_lost_lease_to_the_next_leader() -> None:
    bench = bench_with(2)
    token = bench.answer(TWO).token
    back = Get("q", 1, 1 << 20, seconds(0), Settle("q", token, (), (Interval(0, 2),)))
    number = bench.ask(back)
    given = bench.told.pop(number)
    bench.crash()
    bench.ask(back, number)
    again = bench.told[number]
    assert (again.token, again.refused) == (given.token, "")


def test_what_went_back_before_may_go_back_with_the_last_that_is_done() -> None:
    """A loop that ends says both, while what it said before is on its way."""
    bench = bench_with(2)
    token = bench.answer(TWO).token
    assert bench.answer(Settle("q", token, back=(Interval(1, 2),))) == Settled(1)
    last = Settle("q", token, (Interval(0, 1),), (Interval(1, 2),))
    ended = bench.ask(last)
    assert bench.told.pop(ended) == Settled(0)
    bench.crash()
    bench.ask(last, ended)
    assert bench.told.pop(ended) == Settled(0)
    assert where(bench.answer(TWO)) == [1]


def test_of_so_many_leases_it_is_kept_what_ended_them() -> None:
    bench = NodeBench(QueueLimits(enders=2))
    bench.open()
    bench.put(items=5)
    for _ in range(5):
        token = bench.answer(ONE).token
        bench.answer(Settle("q", token, back=(Interval(0, 1),)))  # the first one, again and again
        leader = bench.node._terms.leaders["q"]
        tokens = [int.from_bytes(key[1:]) for key in leader.copy.records if key[:1] == b"e"]
        assert tokens == list(bench.state.enders) == sorted(tokens)[-2:]
        assert tokens[-1] == token


def test_an_acknowledgement_asked_twice_is_good_though_something_went_back_before() -> None:
    bench = bench_with(2)
    token = bench.answer(TWO).token
    assert bench.answer(Settle("q", token, back=(Interval(0, 1),))) == Settled(1)
    bench.held = True
    done = Settle("q", token, done=(Interval(1, 2),))
    number = bench.ask(done)
    bench.ask(done, number)  # half a second later; the flush takes longer
    assert number not in bench.told
    bench.release()
    assert bench.told[number] == Settled(0)
    bench.ask(done, number)
    assert bench.told[number] == Settled(0)
    assert bench.answer(done) == Settled(0)  # another question, and it is so


def test_what_a_get_settles_is_settled_once_though_it_is_asked_anew() -> None:
    bench = bench_with(1)
    token = bench.answer(ONE).token
    back = Settle("q", token, back=(Interval(0, 1),), due=10**18 + 10**10)
    number = bench.ask(Get("q", 1, 1 << 20, seconds(20), back))
    bench.give(Announced(Gone(NodeId("c-1"))))  # it waits no more: nobody is connected
    bench.ask(Get("q", 1, 1 << 20, seconds(20), back), number)
    bench.pass_time(11)
    assert (where(bench.told[number]), bench.told[number].refused) == ([0], "")


def test_a_purge_that_is_asked_twice_takes_nothing_that_came_after_it() -> None:
    bench = bench_with(3)
    bench.held = True
    number = bench.ask(Purge("q"))
    bench.release()
    assert bench.told.pop(number) == Changed(3)
    bench.put(items=2, sequence=2)
    bench.ask(Purge("q"), number)
    assert bench.told[number] == Changed(3)
    assert bench.answer(Describe("q")).ready == 2


def test_a_redrive_that_is_asked_twice_tells_what_it_did() -> None:
    bench = bench_with(1, deliveries_max=1)
    token = bench.answer(ONE).token
    bench.answer(Settle("q", token, back=(Interval(0, 1),), reason="no"))
    number = bench.ask(Redrive("q"))
    bench.ask(Redrive("q"), number)
    assert bench.told[number] == Changed(1)


# --- a lease is told while it lasts ---------------------------------------------------------------


def test_a_flush_longer_than_the_lease_tells_no_two_consumers_that_they_hold_one_item() -> None:
    bench = bench_with(1, lease=seconds(1))
    bench.held = True
    first = bench.ask(ONE)
    bench.pass_time(3)
    second = bench.ask(ONE)
    bench.release()
    assert where(bench.told[first]) == [0]
    assert bench.told[first].lease == seconds(1)
    assert bench.told[second].token == 0
    bench.pass_time(0.9)
    assert bench.answer(ONE).token == 0
    bench.pass_time(0.2)
    again = bench.answer(ONE)
    assert (where(again), again.parts[0].failures) == ([0], 1)  # it was told once


def test_a_lease_that_is_told_again_is_told_with_the_time_that_is_left() -> None:
    bench = bench_with(1, lease=seconds(10))
    number = bench.ask(ONE)
    assert bench.told.pop(number).lease == seconds(10)
    bench.pass_time(7)
    bench.ask(ONE, number)
    assert (where(bench.told[number]), bench.told[number].lease) == ([0], seconds(3))


def test_who_still_asks_when_its_lease_is_over_was_never_told_and_gets_another() -> None:
    bench = bench_with(1, lease=milliseconds(200))
    number = bench.ask(ONE)
    bench.told.clear()  # the answer is lost
    bench.pass_time(0.5)
    bench.ask(ONE, number)
    assert where(bench.told[number]) == [0]
    assert bench.told[number].lease == milliseconds(200)


def test_a_lease_is_not_told_when_reading_its_items_took_longer_than_it_lasts() -> None:
    bench = bench_with(1, lease=seconds(1))
    bench.restart()  # so that what was put is read from the disk
    bench.hold_reads = True
    number = bench.ask(ONE)
    bench.pass_time(3)
    bench.release()
    assert number not in bench.told
    bench.ask(ONE, number)
    assert where(bench.told[number]) == [0]


# --- only who is current tells what changes nothing -----------------------------------------------


class Told(Observer):
    def __init__(self) -> None:
        self.answers: list[Any] = []

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        del at, node
        self.answers.append(effect.message)


def process(node: NodeId, chance: Any) -> Host:
    identity = Identity(id=node, address=Address("127.0.0.1", 4410))
    member = Founder(identity, MembershipSettings(), chance)
    return Host(
        node,
        [
            Family("queue", queue.QueueNode(node, chance), words.MESSAGES),
            Family("membership", member, membership.MESSAGES),
        ],
    )


QUESTIONS: dict[str, Callable[[int], Any]] = {
    "describe": lambda _: Describe("q"),
    "get": lambda _: ONE,
    "peek": lambda _: Peek("q", 1, 100),
    "peek held": lambda _: PeekHeld("q", 1, 100),
    "survey": lambda _: Survey("q", 0, 1),
    "groups": lambda _: ListGroups("q"),
    "assign": lambda lease: Assign("q", "g", lease, "reader", 0, 1, 1),
    "locate": lambda lease: Locate("q", "g", lease, 0, 1),
}
OF_GROUPS = ("groups", "assign", "locate")


@pytest.mark.parametrize("name", QUESTIONS)
def test_who_slept_past_its_currency_tells_nothing(name: str) -> None:
    told, node = Told(), NodeId("n1")
    world = World(1, observer=told)
    slot = world.add(node, lambda chance: process(node, chance))
    world.start(node)
    world.run(later(world.now, seconds(5)))
    put = Put("q", "p", 1, bytes(8), b"")  # there is something to be located, and nothing to get
    begin = [Open("q", QueueSettings()), put]
    begin += [Assign("q", "g", 0, "reader", 0, 1, 1)] if name in OF_GROUPS else [ONE]
    for number, call in enumerate(begin):
        world.request(node, OperationId(node, number), call)
        world.run(later(world.now, seconds(1)))
    question = QUESTIONS[name](told.answers[-1].lease)
    world.request(node, OperationId(node, 3), question)
    world.run(later(world.now, seconds(1)))
    assert not any(isinstance(one, Declined) for one in told.answers)
    told.answers.clear()
    slot.paused_until = later(world.now, seconds(17))
    world.request(node, OperationId(node, 4), question)  # the first thing that it hears again
    world.run(slot.paused_until)
    assert told.answers == []  # its masters are no more; another may have had their place
    world.run(later(world.now, seconds(5)))
    assert len(told.answers) == 1  # as the coordinator it is soon current again, in a later term
