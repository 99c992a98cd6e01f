"""What a consumer holds, says so, and settles (rules 4, 5), through lost and late words."""

import pytest
from pool_bench import PoolBench, bodies_of

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.node import Received
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.messages import GiveBack, Hold, LoanSettled, Over, SettleLoan


def lent(count, **settings):
    """A consumer that got so many objects in one loan."""
    bench = PoolBench()
    producer, consumer = bench.add("p", buffers=100, **settings), bench.add("c", **settings)
    bench.meet(producer)
    producer.put(*(b"%d" % number for number in range(count)))
    return bench, producer, consumer, consumer.fetch(count)


def test_an_ack_is_told_when_the_producer_has_confirmed_it():
    bench, _, consumer, got = lent(1)
    call = consumer.ack(got)
    assert call not in consumer.told
    bench.deliver()
    assert consumer.told[call] == calls.Acked()


def test_an_ack_without_patience_is_told_at_once():
    bench, producer, consumer, got = lent(1)
    assert consumer.told[consumer.ack(got, patience=0)] == calls.Acked()
    bench.deliver()
    assert producer.statistics.settled == 1


@pytest.mark.parametrize("word", [SettleLoan, LoanSettled])
def test_an_ack_whose_word_is_lost_is_asked_again(word):
    bench, producer, consumer, got = lent(1)
    call = consumer.ack(got)
    if word is LoanSettled:
        bench.deliver(SettleLoan)
    bench.take(word)
    bench.wait(1)
    assert consumer.told[call] == calls.Acked()
    assert producer.statistics.settled == 1


def test_an_ack_that_nobody_confirms_ends_as_unknown():
    bench, _, consumer, got = lent(1)
    del bench.processes["p"]
    call = consumer.ack(got, patience=seconds(5))
    bench.wait(6)
    assert consumer.told[call].error == "OutcomeUnknown"


def test_when_the_way_ends_a_producer_has_a_grace_to_confirm():
    bench, producer, consumer, got = lent(1, grace=seconds(2))
    call = consumer.ack(got)
    consumer.lost(producer)
    bench.wait(2.1, between=lambda: bench.take(SettleLoan))
    assert consumer.told[call].error == "OutcomeUnknown"


def test_what_goes_back_comes_again():
    bench, _, consumer, got = lent(2)
    assert consumer.told[consumer.nack(got, Interval(0, 1))] == calls.Acked()
    bench.deliver()
    assert bodies_of(consumer.fetch(9)) == [b"0"]


def test_an_ack_of_the_rest_does_not_reach_what_went_back():
    bench, producer, consumer, got = lent(3, lease=seconds(3))
    consumer.nack(got, Interval(1, 2))
    bench.take(GiveBack)  # lost
    call = consumer.ack(got)
    bench.deliver()
    assert consumer.told[call] == calls.Acked()
    bench.wait(4)
    assert (producer.statistics.settled, producer.statistics.stock) == (2, 1)
    assert bodies_of(consumer.fetch(9)) == [b"1"]


def test_giving_back_the_rest_does_not_reach_what_is_done():
    bench, producer, consumer, got = lent(3)
    consumer.ack(got, Interval(0, 1), patience=0)
    settle = bench.take(SettleLoan)
    consumer.nack(got)
    bench.deliver()
    for letter in settle:  # it was overtaken
        bench.hand(letter)
    assert (producer.statistics.settled, producer.statistics.stock) == (1, 2)


def test_what_is_not_held_any_more_cannot_be_done():
    bench, _, consumer, got = lent(3)
    consumer.nack(got, Interval(0, 1))
    for named in (Interval(0, 1), Interval(0, 3), Interval(2, 9), Interval(-4, -1)):
        declined = consumer.told[consumer.ack(got, named)]
        assert declined.error == "LeaseLost"
    assert not bench.take(SettleLoan)
    call = consumer.ack(got, Interval(1, 3))
    bench.deliver()
    assert consumer.told[call] == calls.Acked()


def test_parts_are_done_one_by_one_in_any_order():
    bench, producer, consumer, got = lent(4)
    told = [consumer.ack(got, Interval(n, n + 1)) for n in (2, 0, 3, 1)]
    bench.post.reverse()
    bench.deliver()
    assert all(consumer.told[call] == calls.Acked() for call in told)
    assert (producer.statistics.settled, producer.statistics.on_loan) == (4, 0)


def test_a_loan_that_is_over_is_not_done_any_more():
    _bench, _, consumer, got = lent(1)
    consumer.hear(Received("p", Over((got.token,))))
    assert consumer.told[consumer.ack(got)].error == "LeaseLost"
    assert consumer.statistics.late == 1


def test_another_cannot_end_a_loan():
    bench, _, consumer, got = lent(1)
    consumer.hear(Received("thief", Over((got.token, 0, -1))))
    call = consumer.ack(got)
    bench.deliver()
    assert consumer.told[call] == calls.Acked()


def test_a_producer_that_was_killed_knows_no_loan_of_its_earlier_life():
    bench, _, consumer, got = lent(1, lease=seconds(3))
    producer = bench.restart("p")
    bench.wait(2)
    assert consumer.told[consumer.ack(got)].error == "LeaseLost"
    assert producer.statistics.settled == 0


def test_a_shorter_lease_is_renewed_in_its_own_time():
    bench, producer, consumer, _ = lent(1, lease=seconds(600))
    hasty = bench.add("h", lease=seconds(3))
    bench.meet(hasty)
    hasty.put(b"a")
    consumer.fetch()
    bench.wait(30)
    assert (hasty.statistics.expired, producer.statistics.expired) == (0, 0)


def test_one_word_tells_of_all_that_is_held_there():
    bench, _, consumer, got = lent(3, lease=seconds(3))
    producer = bench.processes["p"]
    producer.put(b"x")
    other = consumer.fetch()
    held = []
    bench.wait(1.1, between=lambda: held.extend(bench.take(Hold)))
    assert [letter.message for letter in held] == [Hold((got.token, other.token))]


def test_a_process_that_leaves_gives_back_what_it_holds_but_not_what_it_is_settling():
    bench, producer, consumer, got = lent(3)
    producer.put(b"x")
    consumer.fetch()
    call = consumer.ack(got)
    consumer.stop()
    bench.deliver()
    assert consumer.told[call] == calls.Acked()
    assert (producer.statistics.settled, producer.statistics.stock) == (3, 1)
