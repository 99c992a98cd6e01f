"""What can't be delivered comes to somebody all the same, and soon (rules 6 and 15)."""

import pytest
from pool_bench import Envelope, PoolBench, bodies_of

from snowmelt.core.instant import seconds
from snowmelt.core.node import Announced
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.messages import Cancel, GiveBack, Invite, ObjectsLent, Request
from snowmelt.protocols.pool.settings import Delivery

ONCE = pytest.mark.parametrize("delivery", list(Delivery))


def passed_on(delivery):
    """A consumer's request has passed two empty producers and has found an object at the third."""
    bench = PoolBench()
    makers = [bench.add(f"p{n}", delivery=delivery) for n in range(4)]
    consumer = bench.add("c", delivery=delivery, wait=seconds(1))
    bench.meet(*makers)
    call = consumer.get()
    (letter,) = bench.take(Request)
    way = [letter.target, *letter.message.route]
    has, last = bench.processes[way[1]], bench.processes[way[2]]
    has.put(b"a")
    bench.hand(letter)
    bench.deliver(Request)
    return bench, has, last, consumer, call


@ONCE
def test_what_found_its_consumer_unreachable_is_there_for_its_next_attempt(delivery):
    bench, has, _, consumer, call = passed_on(delivery)
    bench.take(ObjectsLent)  # there was no link, and nobody was told
    assert has.statistics.on_loan == 1
    bench.wait(1.1)
    assert bodies_of(consumer.told[call]) == [b"a"], "its attempt was cancelled there too"


@ONCE
def test_what_could_not_be_sent_is_taken_back_at_once(delivery):
    bench, has, _, consumer, _ = passed_on(delivery)
    (letter,) = bench.take(ObjectsLent)
    has.hear(Announced(calls.Unsent(consumer.name, letter.message)))
    assert (has.statistics.stock, has.statistics.on_loan) == (1, 0)


def test_what_was_told_before_is_not_taken_back_when_it_can_not_be_told_again():
    bench = PoolBench()
    leaver, heir = bench.add("p", lease=seconds(1)), bench.add("q")
    bench.meet(leaver, heir)
    leaver.put(b"a")
    leaver.stop()
    bench.deliver((Invite, Request, ObjectsLent))  # it is the heir's; its word is on its way
    again = []
    bench.wait(1.1, between=lambda: again.extend(bench.take(ObjectsLent)))
    for letter in again:
        leaver.hear(Announced(calls.Unsent(heir.name, letter.message)))
    assert len(again) == 1
    assert (leaver.statistics.stock, heir.statistics.stock) == (0, 1)


def test_a_request_that_could_not_be_passed_on_goes_to_the_next_of_its_way():
    bench = PoolBench()
    makers = [bench.add(f"p{n}") for n in range(3)]
    consumer = bench.add("c", wait=seconds(0))
    bench.meet(*makers)
    call = consumer.get()
    (letter,) = bench.take(Request)
    way = [letter.target, *letter.message.route]
    bench.hand(letter)
    (onward,) = bench.take(Request)
    bench.processes[way[2]].put(b"a")
    bench.processes[way[0]].hear(Announced(calls.Unsent(onward.target, onward.message)))
    bench.deliver()
    assert bodies_of(consumer.told[call]) == [b"a"]


def test_a_request_that_could_not_be_sent_is_tried_again_soon():
    bench = PoolBench()
    maker, consumer = bench.add("p"), bench.add("c", wait=seconds(0))
    bench.meet(maker)
    maker.put(b"a")
    call = consumer.get()
    (letter,) = bench.take(Request)
    consumer.hear(Announced(calls.Unsent(letter.target, letter.message)))
    bench.wait(0.3)
    assert bodies_of(consumer.told[call]) == [b"a"]


def test_what_there_was_no_room_for_goes_back_and_is_asked_for_again():
    bench = PoolBench()
    maker, consumer = bench.add("p"), bench.add("c", wait=seconds(0))
    bench.meet(maker)
    maker.put(b"a")
    call = consumer.get()
    bench.deliver(Request)
    (letter,) = bench.take(ObjectsLent)
    found = letter.message
    consumer.hear(Announced(calls.Coming(maker.name, found.number, 1, found.token, found.lease)))
    consumer.hear(Announced(calls.NotReceived(maker.name, found.number, 1, found.token)))
    assert bench.deliver(GiveBack) == 1
    assert maker.statistics.stock == 1
    bench.wait(0.3)
    assert bodies_of(consumer.told[call]) == [b"a"]


def test_a_request_that_comes_after_the_word_that_it_is_over_is_given_nothing():
    bench, _, last, consumer, call = passed_on(Delivery.AT_MOST_ONCE)
    bench.take(object)
    late = Request(consumer.name, 1, 1, 1, ())
    bench.hand(_letter(consumer, last, Cancel(1, 1)))
    last.put(b"b")
    bench.hand(_letter(consumer, last, late))
    assert not bench.take(ObjectsLent)
    assert last.statistics.stock == 1
    bench.hand(_letter(consumer, last, Request(consumer.name, 1, 2, 1, ())))
    assert len(bench.take(ObjectsLent)) == 1, "a later attempt is another"
    assert call not in consumer.told


def _letter(source, target, message):
    return Envelope(source.name, target.name, message)
