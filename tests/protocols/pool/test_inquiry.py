"""A consumer that has waited asks all, and does not wait for those that are silent (rule 18)."""

import pytest
from pool_bench import PoolBench, bodies_of

from snowmelt.core.instant import seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.core.node import Announced, Received
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.introductions import Acquaintance
from snowmelt.protocols.pool.messages import (
    Cancel,
    Inquire,
    ObjectsLent,
    Request,
    SettleLoan,
    Stocked,
)
from snowmelt.protocols.pool.settings import HOPS_MAX, Access, AccessKind

UNIFORM = Access(AccessKind.UNIFORM)
NOBODY = "no producer of this pool answers"


class Street:
    """Producers, of which some stand still, and one consumer that knows them all."""

    def __init__(self, count, **settings):
        self.bench = PoolBench()
        self.makers = [self.bench.add(f"p{n}") for n in range(count)]
        settings = {"wait": seconds(1), "max_hops": 1, "access": UNIFORM} | settings
        self.consumer = self.bench.add("c", **settings)
        self.bench.meet(*self.makers)
        self.still = []
        """What comes to these waits for them."""
        self.lost = ()
        """What is dropped."""

    def deliver(self):
        post, who = self.bench.post, self.bench.processes
        while letters := [one for one in post if who[one.target] not in self.still]:
            for letter in letters:
                post.remove(letter)
                if not isinstance(letter.message, self.lost):
                    self.bench.hand(letter)

    def fetch(self):
        call = self.consumer.get()
        self.deliver()
        return self.consumer.told[call]

    def wait(self, span):
        """Time passes for those that do not stand still."""
        self.bench.wait(span, self.deliver)

    def stop(self, *makers):
        self.still += makers

    def go_on(self, *makers):
        for one in makers:
            self.still.remove(one)

    def sent(self, sort):
        """What of this sort is in the post now, by whom it is for."""
        return [one.target for one in self.bench.post if isinstance(one.message, sort)]

    def in_line(self):
        return [one for one in self.makers if one.statistics.in_line]


def test_nobody_is_idle_beside_a_full_producer_for_much_longer_than_wait():
    for last in range(10):
        street = Street(10)
        full = street.makers.pop(last)
        full.put(b"a", b"b", b"c")
        street.stop(*street.makers)
        call = street.consumer.get()
        street.wait(1.11)
        assert bodies_of(street.consumer.told[call]) == [b"a"]
        if street.consumer.statistics.tried_again:  # it is known by now who is silent
            assert [bodies_of(street.fetch()) for _ in "bc"] == [[b"b"], [b"c"]]


def test_the_second_time_those_that_are_silent_are_not_waited_for():
    street = Street(5)
    street.stop(*street.makers[1:])
    street.consumer.get()
    street.wait(1.05)
    assert street.in_line() == []
    street.wait(0.1)
    assert street.in_line() == street.makers[:1]
    street.wait(1.0)
    assert street.consumer.statistics.tried_again == 2
    assert street.in_line() == street.makers[:1]


def test_while_it_asks_it_is_nowhere_and_then_in_one_line():
    street = Street(5)
    street.consumer.get()
    street.deliver()
    assert len(street.in_line()) == 1
    street.lost = Stocked
    street.wait(1.05)
    assert street.in_line() == []
    street.lost = ()
    street.wait(1.2)
    assert len(street.in_line()) == 1


def test_it_goes_past_all_that_have_something():
    street = Street(5)
    street.consumer.get()
    street.deliver()
    (place,) = street.in_line()
    full = [one for one in street.makers if one is not place][:3]
    for one in full:
        one.put(b"a")
    street.bench.wait(1.0, lambda: street.bench.deliver((Cancel, Inquire, Stocked)))
    (letter,) = street.bench.take(Request)
    way = [letter.target, *letter.message.route]
    assert {*way[:3]} == {one.name for one in full}
    assert len(way) == 4, "and ends where it may wait in line"


def test_one_inquiry_serves_all_that_is_wanted():
    street = Street(5)
    for _ in range(16):
        street.consumer.get()
    street.deliver()
    street.bench.wait(1.0, lambda: None)
    assert sorted(street.sent(Inquire)) == [one.name for one in street.makers]
    street.deliver()
    assert sum(one.statistics.in_line for one in street.makers) == 16


def test_an_answer_that_comes_late_is_as_good():
    street = Street(3)
    street.makers[0].put(b"a")
    street.stop(*street.makers)
    call = street.consumer.get()
    street.wait(1.5)
    assert street.consumer.statistics.tried_again == 1
    street.go_on(street.makers[0])
    street.deliver()
    assert bodies_of(street.consumer.told[call]) == [b"a"]


def test_one_that_has_nothing_and_answers_late_has_it_wait_in_line():
    street = Street(3)
    street.stop(*street.makers)
    street.consumer.get()
    street.wait(1.5)
    street.go_on(street.makers[1])
    street.deliver()
    assert street.in_line() == [street.makers[1]]


def test_what_waits_in_line_in_vain_goes_to_one_that_answers_late_that_it_has_something():
    street = Street(3)
    slow = street.makers[0]
    slow.put(b"a")
    street.stop(slow)
    call = street.consumer.get()
    street.wait(1.5)
    assert call not in street.consumer.told
    assert len(street.in_line()) == 1
    street.go_on(slow)
    street.deliver()
    assert bodies_of(street.consumer.told[call]) == [b"a"]
    assert street.in_line() == []


def test_what_is_on_its_way_in_pieces_is_waited_for_whoever_answers_late():
    street = Street(2)
    late, maker = street.makers
    late.put(b"b")
    street.stop(late)
    call = street.consumer.get()
    street.wait(1.5)
    maker.put(b"large")
    (letter,) = street.bench.take(ObjectsLent)
    found = letter.message
    coming = calls.Coming(letter.source, found.number, found.attempt, found.token)
    street.consumer.hear(Announced(coming))
    street.go_on(late)
    street.deliver()
    assert call not in street.consumer.told
    street.bench.hand(letter)
    assert bodies_of(street.consumer.told[call]) == [b"large"]


def test_where_nobody_answers_it_asks_anew_after_each_wait_and_says_so_in_the_end():
    street = Street(3)
    street.stop(*street.makers)
    call = street.consumer.get(patience=seconds(4.5))
    street.wait(4.4)
    assert len(street.sent(Inquire)) == 4 * 3
    street.wait(0.2)
    told = street.consumer.told[call]
    assert (told.error, told.text) == ("Empty", NOBODY)
    call = street.consumer.get()
    assert len(street.sent(Inquire)) == 5 * 3, "who wants something then asks at once"
    street.makers[0].put(b"a")
    street.go_on(street.makers[0])
    street.deliver()
    assert bodies_of(street.consumer.told[call]) == [b"a"]


def test_who_was_silent_is_asked_again_so_that_a_lost_answer_keeps_nobody_out():
    street = Street(3)
    quiet = street.makers[2]
    street.consumer.get()
    street.stop(quiet)
    street.wait(1.2)
    street.bench.post.clear()  # the question was lost
    street.go_on(quiet)
    street.makers[0].put(b"a")
    street.makers[1].put(b"a")
    street.deliver()
    assert street.consumer.statistics.got == 1, "nothing is wanted any more"
    assert known(street.consumer, quiet).weight == 0
    street.wait(1.2)
    assert known(street.consumer, quiet).weight > 0


def test_whatever_a_silent_one_says_shows_that_it_lives():
    street = Street(2)
    street.stop(street.makers[0])
    street.consumer.get()
    street.wait(1.2)
    assert known(street.consumer, street.makers[0]).weight == 0
    street.consumer.hear(Received(street.makers[0].name, SettleLoan(0, 1)))
    assert known(street.consumer, street.makers[0]).weight > 0


def test_a_consumer_that_stood_still_does_not_take_all_for_silent():
    street = Street(3)
    call = street.consumer.get()
    street.deliver()
    street.bench.wait(1.0, lambda: street.bench.deliver((Cancel, Inquire)))  # the answers are there
    street.bench.now += seconds(30)
    street.bench.wait(0, lambda: None)  # it looks at the clock first
    assert call not in street.consumer.told
    assert all(one.weight == 0 for one in street.consumer.statistics.producers)
    street.deliver()
    assert all(one.weight > 0 for one in street.consumer.statistics.producers)
    assert len(street.in_line()) == 1


def test_of_one_whose_way_has_ended_no_answer_is_waited_for():
    street = Street(2)
    full, gone = street.makers
    full.put(b"a")
    street.lost = Request
    call = street.consumer.get()
    street.stop(gone)
    street.wait(1.0)
    street.lost = ()
    assert call not in street.consumer.told
    street.consumer.lost(gone)
    street.deliver()
    assert bodies_of(street.consumer.told[call]) == [b"a"]


def test_a_process_answers_itself_within():
    bench = PoolBench()
    both, other = bench.add("p", wait=seconds(1)), bench.add("q")
    bench.meet(both, other)
    both.put(b"own")
    both.fetch()
    call = both.get()
    bench.deliver()
    bench.wait(1.0, lambda: None)
    assert [one.target for one in bench.post if isinstance(one.message, Inquire)] == [other.name]
    both.put(b"again")
    bench.deliver()
    assert bodies_of(both.told[call]) == [b"again"]


def test_who_gets_for_a_moment_again_and_again_has_waited_as_well():
    street = Street(10)
    full = street.makers.pop()
    full.put(b"a")
    street.stop(*street.makers)
    begun, calls_ = street.bench.now, []
    while street.bench.now < begun + seconds(1.3):
        calls_.append(street.consumer.get(patience=seconds(0.3)))
        street.wait(0.3)
    told = [street.consumer.told[call] for call in calls_]
    assert any(isinstance(one, calls.Got) for one in told)


@pytest.mark.parametrize("begun", [1.05, 1.5])
def test_whoever_leaves_asks_nobody_any_more(begun):
    street = Street(3)
    street.stop(*street.makers)
    street.consumer.get()
    street.wait(begun)
    street.consumer.stop()
    street.bench.post.clear()
    street.wait(5)
    assert not street.sent(Inquire)


def test_where_requests_wait_for_ever_nobody_is_asked():
    street = Street(3, wait=seconds(0))
    street.stop(*street.makers)
    street.consumer.get()
    street.wait(100)
    assert street.sent(Inquire) == []


def test_of_very_many_as_many_are_asked_as_a_way_may_have():
    street = Street(3)
    ids = [NodeId(f"c-{n}") for n in range(HOPS_MAX + 50)]
    many = tuple(Acquaintance(one, one, Address("127.0.0.1", 1)) for one in ids)
    street.consumer.hear(Announced(calls.PoolMembers(many, tuple(ids))))
    street.consumer.get()
    street.bench.wait(1.05, lambda: None)
    asked = street.sent(Inquire)
    assert len(asked) == len(set(asked)) == HOPS_MAX


@pytest.mark.parametrize("count", [0, 1, 1 << 62])
def test_whoever_is_not_known_is_not_asked_for_what_it_says_it_has(count):
    street = Street(1)
    call = street.consumer.get()
    street.deliver()
    street.wait(1.05)
    stranger = street.bench.add("x")
    street.consumer.hear(Received(stranger.name, Stocked(count)))
    street.wait(2.0)
    assert call not in street.consumer.told
    assert not street.sent(Request)
    assert street.in_line() == street.makers


def known(consumer, producer):
    """What the one knows of the other."""
    return next(one for one in consumer.statistics.producers if one.id == producer.name)
