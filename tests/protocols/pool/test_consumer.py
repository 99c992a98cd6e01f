"""A consumer's rules, one at a time: attempts, what comes too late, large objects."""

import pytest
from pool_bench import PoolBench, bodies_of

from snowmelt.core.instant import seconds
from snowmelt.core.node import Announced, Received
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.messages import Cancel, GiveBack, ObjectsLent, Request
from snowmelt.protocols.pool.settings import Access, AccessKind, Delivery

UNIFORM = Access(AccessKind.UNIFORM)


def many(count, **settings):
    """So many producers, and a consumer that knows them."""
    bench = PoolBench()
    makers = [bench.add(f"p{n}", **settings) for n in range(count)]
    consumer = bench.add("c", **settings)
    bench.meet(*makers)
    return bench, makers, consumer


def test_with_nobody_a_get_waits_to_its_time_and_says_so():
    bench, _, consumer = many(0)
    call = consumer.get(patience=seconds(5))
    bench.wait(4.9)
    assert call not in consumer.told
    bench.wait(0.2)
    assert (consumer.told[call].error, consumer.told[call].text) == (
        "Empty",
        "nobody produces in this pool",
    )


def test_a_get_that_had_nobody_to_ask_asks_as_soon_as_somebody_is_known():
    bench, _, consumer = many(0)
    call = consumer.get()
    maker = bench.add("p")
    maker.put(b"a")
    bench.meet(maker)
    bench.deliver()
    assert bodies_of(consumer.told[call]) == [b"a"]


def test_a_get_that_could_reach_nobody_asks_as_soon_as_somebody_is_reached():
    bench, (maker,), consumer = many(1, wait=seconds(0))
    maker.put(b"a")
    consumer.lost(maker)
    call = consumer.get()
    assert not bench.post
    consumer.reached(maker)
    bench.deliver()
    assert bodies_of(consumer.told[call]) == [b"a"]


def test_after_a_wait_it_goes_round_all_producers():
    bench, makers, consumer = many(9, max_hops=1, wait=seconds(1))
    call = consumer.get()
    bench.deliver()
    for maker in makers:
        if not maker.statistics.in_line:
            maker.put(b"full")
    bench.wait(1.1)
    assert bodies_of(consumer.told[call]) == [b"full"]
    assert sum(one.statistics.in_line for one in makers) == 0, "nothing waits where it was before"


def test_a_lost_request_is_tried_again():
    bench, (maker,), consumer = many(1, wait=seconds(1))
    maker.put(b"a")
    call = consumer.get()
    bench.take(Request)
    bench.wait(1.1)
    assert bodies_of(consumer.told[call]) == [b"a"]
    assert consumer.statistics.tried_again == 1


def test_an_answer_that_was_lost_comes_anew():
    bench, (maker,), consumer = many(1, wait=seconds(1))
    maker.put(b"a")
    call = consumer.get()
    bench.deliver(Request)
    bench.take(ObjectsLent)
    bench.wait(1.1)
    assert bodies_of(consumer.told[call]) == [b"a"], "the cancel brought it back at once"
    assert maker.statistics.given == 2


def test_when_the_way_ends_it_asks_elsewhere_at_once():
    bench, makers, consumer = many(2, max_hops=1, wait=seconds(0))
    call = consumer.get()
    bench.deliver()
    (asked,) = [one for one in makers if one.statistics.in_line]
    (other,) = [one for one in makers if one is not asked]
    other.put(b"a")
    consumer.lost(asked)
    bench.deliver()
    assert bodies_of(consumer.told[call]) == [b"a"]


def test_what_comes_for_an_attempt_that_is_over_goes_back():
    bench, (maker,), consumer = many(1, wait=seconds(1))
    maker.put(b"a", b"b")
    call = consumer.get()
    bench.deliver(Request)
    late = bench.take(ObjectsLent)
    bench.wait(1.1, between=lambda: (bench.take(Cancel) and bench.deliver()) or bench.deliver())
    assert bodies_of(consumer.told[call])
    for letter in late:
        bench.hand(letter)
    assert (consumer.statistics.refused, consumer.statistics.got) == (1, 1)
    assert len([one for one in bench.post if isinstance(one.message, GiveBack)]) == 1


def test_a_loan_that_was_used_is_never_given_back():
    bench, (maker,), consumer = many(1)
    maker.put(b"a")
    consumer.get()
    bench.deliver(Request)
    (letter,) = bench.post
    bench.deliver()
    for _ in range(3):
        bench.hand(letter)
        bench.now += seconds(30)
    assert not bench.take(GiveBack)
    assert maker.statistics.on_loan == 1


def test_what_came_twice_along_two_ways_is_used_once():
    bench, makers, consumer = many(2, max_hops=1)
    for maker in makers:
        maker.put(b"one of two")
    consumer.get()
    (letter,) = bench.take(Request)
    for maker in makers:
        maker.hear(Received("c", letter.message))
    bench.deliver()
    assert consumer.statistics.got == 1
    assert sum(one.statistics.stock for one in makers) == 1


@pytest.mark.parametrize("delivery", list(Delivery))
def test_after_a_cancel_with_nobody_left_to_ask_nothing_of_that_attempt_is_used(delivery):
    bench, (maker,), consumer = many(1, delivery=delivery)
    maker.put(b"a")
    call = consumer.get()
    bench.deliver(Request)
    late = bench.take(ObjectsLent)
    consumer.lost(maker)  # the attempt is cancelled, and there is no other producer
    for letter in late:
        bench.hand(letter)
    assert call not in consumer.told, "the producer takes it back, and gives it to another"
    bench.deliver()
    assert (maker.statistics.stock, maker.statistics.on_loan) == (1, 0)


def test_what_is_on_its_way_in_pieces_is_waited_for():
    bench, makers, consumer = many(2, max_hops=1, wait=seconds(1))
    for maker in makers:
        maker.put(b"large")
    call = consumer.get()
    bench.deliver(Request)
    (letter,) = bench.take(ObjectsLent)
    found = letter.message
    coming = calls.Coming(letter.source, found.number, found.attempt, found.token)
    consumer.hear(Announced(coming))
    bench.wait(5)
    assert consumer.statistics.tried_again == 0
    bench.hand(letter)
    assert bodies_of(consumer.told[call]) == [b"large"]


def test_what_was_on_its_way_in_pieces_is_asked_for_elsewhere_when_the_way_ends():
    bench, makers, consumer = many(2, max_hops=1, wait=seconds(1))
    for maker in makers:
        maker.put(b"large")
    call = consumer.get()
    bench.deliver(Request)
    (letter,) = bench.take(ObjectsLent)
    found = letter.message
    consumer.hear(Announced(calls.Coming(letter.source, found.number, found.attempt, found.token)))
    consumer.lost(bench.processes[letter.source])
    bench.deliver()
    got = consumer.told[call]
    assert bodies_of(got) == [b"large"]
    assert got.producer != letter.source


def test_a_process_finds_its_own_objects_first():
    bench = PoolBench()
    both, other = bench.add("p"), bench.add("q")
    bench.meet(both, other)
    both.put(b"own")
    other.put(b"other")
    assert bodies_of(both.fetch()) == [b"own"]
    assert bodies_of(both.fetch()) == [b"other"]


def test_a_withdrawn_get_leaves_nothing_behind():
    bench, (maker,), consumer = many(1)
    call = consumer.get()
    bench.deliver()
    consumer.ask(calls.Withdraw(call))
    bench.deliver()
    assert consumer.told[call].error == "Empty"
    assert maker.statistics.in_line == 0


def test_a_loan_that_is_still_held_is_not_given_back_however_late_its_answer_comes_again():
    bench, (maker,), consumer = many(1)
    maker.put(b"a", b"b", b"c")
    consumer.get()
    bench.deliver(Request)
    (letter,) = bench.post
    bench.deliver()
    bench.wait(200)
    consumer.fetch()
    bench.hand(letter)
    assert not bench.take(GiveBack)
