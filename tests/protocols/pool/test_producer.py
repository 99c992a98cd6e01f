"""A producer's rules, one at a time: probe, line, room, loans, settling."""

from pool_bench import PoolBench, batch_of, bodies_of

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.node import Received
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.messages import (
    Cancel,
    GiveBack,
    Hold,
    LoanSettled,
    ObjectsLent,
    Over,
    Request,
    SettleLoan,
)
from snowmelt.protocols.pool.settings import Delivery


def pair(**settings):
    """A producer and a consumer that knows it."""
    bench = PoolBench()
    producer, consumer = bench.add("p", **settings), bench.add("c", **settings)
    bench.meet(producer)
    return bench, producer, consumer


def messages(letters):
    return [letter.message for letter in letters]


# --- rules 1 to 3 ---------------------------------------------------------------------------------


def test_an_object_crosses_the_network_once():
    bench, producer, consumer = pair()
    producer.put(b"frame")
    assert not bench.post
    call = consumer.get()
    assert bench.deliver() == 2
    got = consumer.told[call]
    assert (bodies_of(got), got.producer, got.hops) == ([b"frame"], "p", 1)


def test_an_empty_producer_passes_a_request_on():
    bench = PoolBench()
    makers = [bench.add(f"p{n}") for n in range(3)]
    consumer = bench.add("c", max_hops=3)
    bench.meet(*makers)
    makers[1].put(b"here")
    got = consumer.fetch()
    assert bodies_of(got) == [b"here"]
    assert sum(one.statistics.probes_met for one in makers) == got.hops


def test_the_last_producer_of_its_way_keeps_a_request_in_line():
    bench = PoolBench()
    makers = [bench.add(f"p{n}") for n in range(4)]
    consumer = bench.add("c", max_hops=2)
    bench.meet(*makers)
    consumer.get()
    bench.deliver()
    assert [one.statistics.probes_met for one in makers].count(1) == 2
    assert sum(one.statistics.in_line for one in makers) == 1


def test_who_waited_longest_is_served_first():
    bench, producer, _ = pair()
    others = [bench.add(f"c{n}") for n in range(3)]
    bench.meet(producer)
    asked = []
    for one in others:
        asked.append(one.get())
        bench.deliver()
    producer.put(b"0", b"1", b"2")
    bench.deliver()
    told = [one.told[call] for one, call in zip(others, asked, strict=True)]
    assert [bodies_of(got) for got in told] == [[b"0"], [b"1"], [b"2"]]


def test_a_request_in_line_is_dropped_when_its_consumer_is_elsewhere():
    bench, producer, _ = pair(wait=seconds(1))
    producer.hear(Received("c", Request("c", 1, 1, 1, (), wait=seconds(1))))
    assert producer.statistics.in_line == 1
    bench.now += seconds(2)
    producer.put(b"kept")
    assert not bench.take(ObjectsLent)
    assert (producer.statistics.stock, producer.statistics.in_line) == (1, 0)


def test_a_full_producer_waits_until_an_object_leaves():
    _bench, producer, consumer = pair(buffers=2)
    first = producer.put(b"a", b"b")
    second = producer.put(b"c")
    assert producer.told[first] == calls.PoolReceipt(2, Interval(0, 2))
    assert second not in producer.told
    consumer.fetch()
    assert producer.told[second] == calls.PoolReceipt(1, Interval(2, 3))


def test_bytes_are_bounded_too_with_those_on_loan():
    bench, producer, consumer = pair(bytes_max=10)
    producer.put(b"x" * 8)
    second = producer.put(b"y" * 8)
    got = consumer.fetch()
    assert second not in producer.told, "the first is with a consumer, and may come back"
    consumer.ack(got)
    bench.deliver()
    assert producer.told[second].count == 1


def test_a_put_whose_time_is_over_tells_how_many_are_in():
    bench, producer, _ = pair(buffers=2)
    call = producer.put(b"a", b"b", b"c", patience=seconds(1))
    bench.wait(2)
    assert producer.told[call] == calls.PoolReceipt(2, Interval(0, 2))
    assert producer.statistics.stock == 2


def test_await_room_is_answered_when_a_put_will_find_room():
    _bench, producer, consumer = pair(buffers=1)
    assert producer.told[producer.ask(calls.AwaitRoom(seconds(9)))] == calls.HasRoom()
    producer.put(b"a")
    call = producer.ask(calls.AwaitRoom(seconds(9)))
    assert call not in producer.told
    consumer.fetch()
    assert producer.told[call] == calls.HasRoom()
    assert producer.put(b"b") in producer.told


def asking(producer, asker):
    return producer.ask(calls.AwaitRoom(seconds(60), asker))


def put_by(producer, asker, body=b"x"):
    return producer.ask(calls.PoolPut(*batch_of(body), seconds(60), asker))


def test_one_buffer_is_told_of_to_one_of_three_threads():
    _, producer, _ = pair(buffers=2)
    producer.put(b"a")
    first, second, third = (asking(producer, asker) for asker in (1, 2, 3))
    assert producer.told[first] == calls.HasRoom()
    assert second not in producer.told
    assert third not in producer.told
    put = put_by(producer, 1)
    assert producer.told[put].count == 1, "a put by who was told of room does not wait"


def test_as_many_are_told_of_room_as_objects_have_left():
    _, producer, consumer = pair(buffers=2)
    producer.put(b"a", b"b")
    asked = [asking(producer, asker) for asker in (1, 2, 3)]
    consumer.ack(consumer.fetch())
    consumer.bench.deliver()
    assert [call in producer.told for call in asked] == [True, False, False]
    consumer.fetch()
    assert [call in producer.told for call in asked] == [True, True, False]
    assert producer.told[put_by(producer, 2)].count == producer.told[put_by(producer, 1)].count == 1


def test_who_was_told_of_room_and_asks_again_is_told_again():
    _, producer, _ = pair(buffers=1)
    for _ in range(3):
        assert producer.told[asking(producer, 1)] == calls.HasRoom()


def test_who_was_told_of_room_and_makes_nothing_keeps_others_out_for_a_while_only():
    bench, producer, _ = pair(buffers=1)
    asking(producer, 1)
    second = asking(producer, 2)
    bench.wait(9.9)
    assert second not in producer.told
    bench.wait(0.2)
    assert producer.told[second] == calls.HasRoom()


def test_await_room_is_declined_when_its_time_is_over():
    bench, producer, _ = pair(buffers=1)
    producer.put(b"a")
    call = producer.ask(calls.AwaitRoom(seconds(1)))
    bench.wait(2)
    assert producer.told[call].error == "Full"


def test_an_object_too_large_for_its_producer_is_declined():
    _, producer, _ = pair(bytes_max=10)
    declined = producer.told[producer.put(b"x" * 11)]
    assert declined == Declined(
        "TooLarge", "an object of 11 bytes; max_bytes of this producer is 10"
    )


def test_an_object_too_large_is_declined_among_others_too_and_none_of_them_is_in():
    _, producer, _ = pair(bytes_max=10)
    for bodies in ((b"x" * 60, b"y"), (b"y", b"x" * 60), (b"x" * 60,) * 3):
        declined = producer.told[producer.put(*bodies)]
        assert declined == Declined(
            "TooLarge", "an object of 60 bytes; max_bytes of this producer is 10"
        )
    assert producer.statistics.stock_bytes == 0
    producer.put(b"x" * 10)
    assert producer.statistics.stock_bytes == 10


def test_of_several_objects_as_many_come_in_as_there_is_room_for():
    bench, producer, consumer = pair(bytes_max=10, buffers=100)
    call = producer.put(*(b"xxx" for _ in range(8)))
    for first in (0, 3, 6):
        assert producer.statistics.stock_bytes <= 10
        got = consumer.fetch(100)
        assert got.spans[0].interval.start == first
        consumer.ack(got)
        bench.deliver()
    assert producer.told[call] == calls.PoolReceipt(8, Interval(0, 8))


# --- rules 4 and 5 --------------------------------------------------------------------------------


def test_what_is_not_heard_of_for_a_lease_comes_to_another():
    bench, producer, consumer = pair(lease=seconds(3))
    other = bench.add("d")
    bench.meet(producer)
    producer.put(b"a", b"b")
    got = consumer.fetch()
    del bench.processes["c"]
    bench.wait(4)
    assert producer.statistics.expired == 1
    again = other.fetch()
    assert (bodies_of(got), bodies_of(again)) == ([b"a"], [b"a"]), "to the front of the buffer"


def test_a_consumer_that_lives_keeps_what_it_has():
    bench, producer, consumer = pair(lease=seconds(3))
    producer.put(b"a")
    got = consumer.fetch()
    bench.wait(60)
    assert producer.statistics.expired == 0
    call = consumer.ack(got)
    bench.deliver()
    assert consumer.told[call] == calls.Acked()


def test_when_the_way_has_ended_a_loan_has_a_grace_and_a_word_in_it_saves_it():
    for back in (False, True):
        bench, producer, consumer = pair(lease=seconds(30), grace=seconds(2))
        producer.put(b"a")
        consumer.fetch()
        producer.lost(consumer)
        if back:
            consumer.reached(producer)
            bench.deliver()
        bench.wait(3, between=lambda bench=bench: bench.take(Hold))
        assert producer.statistics.on_loan == back


def test_at_most_once_what_is_not_heard_of_is_dropped():
    bench, producer, consumer = pair(delivery=Delivery.AT_MOST_ONCE, lease=seconds(3))
    producer.put(b"a")
    call = consumer.get()
    bench.deliver(Request)
    bench.take(ObjectsLent)
    consumer.ask(calls.Withdraw(call))
    bench.take(Cancel)
    bench.wait(4)
    statistics = producer.statistics
    assert (statistics.stock, statistics.on_loan, statistics.expired) == (0, 0, 1)


def test_at_most_once_nobody_waits_for_the_settlement():
    bench, producer, consumer = pair(delivery=Delivery.AT_MOST_ONCE)
    producer.put(b"a")
    got = consumer.fetch()
    assert got.token == 0
    assert not bench.take(SettleLoan)
    bench.wait(0.01)
    bench.deliver(SettleLoan)
    assert producer.statistics.settled == 1


def test_at_most_once_the_settlement_travels_with_the_next_request():
    bench, producer, consumer = pair(delivery=Delivery.AT_MOST_ONCE)
    producer.put(b"a")
    consumer.fetch()
    consumer.get()
    assert bench.take(SettleLoan)


def test_a_settlement_is_confirmed_again_when_it_is_asked_again():
    bench, producer, consumer = pair()
    producer.put(b"a")
    call = consumer.ack(consumer.fetch())
    bench.deliver(SettleLoan)
    assert len(bench.take(LoanSettled)) == 1
    bench.wait(1)
    assert consumer.told[call] == calls.Acked()
    assert producer.statistics.settled == 1


def test_a_settlement_after_the_loan_is_over_is_refused():
    bench, producer, consumer = pair(lease=seconds(3))
    producer.put(b"a")
    got = consumer.fetch()
    bench.wait(4, between=lambda: bench.take((Hold, Over)))
    call = consumer.ack(got)
    bench.deliver()
    assert consumer.told[call].error == "LeaseLost"
    assert producer.statistics.stock == 1


def test_a_confirmation_is_repeated_after_the_rest_of_the_loan_went_back():
    bench, producer, consumer = pair()
    producer.put(b"a", b"b", b"c")
    got = consumer.fetch(3)
    call = consumer.ack(got, Interval(0, 1))
    bench.deliver(SettleLoan)
    bench.take(LoanSettled)
    consumer.nack(got, Interval(1, 3))
    bench.wait(1)
    assert consumer.told[call] == calls.Acked()
    assert producer.statistics.stock == 2


def test_of_a_loan_that_is_over_only_what_was_settled_is_confirmed():
    bench, producer, consumer = pair()
    producer.put(b"a", b"b")
    got = consumer.fetch(2)
    consumer.ack(got, Interval(0, 1))
    bench.deliver()
    producer.hear(Received("c", GiveBack(got.token)))
    for intervals in ((Interval(0, 1),), (Interval(1, 2),), (Interval(0, 2),), ()):
        producer.hear(Received("c", SettleLoan(9, got.token, intervals)))
    told = messages(bench.take(LoanSettled))
    assert [one.lost for one in told] == [False, True, True, True]
    assert producer.statistics.stock == 1


def test_what_was_given_back_is_not_confirmed_as_settled():
    bench, producer, consumer = pair()
    producer.put(b"a", b"b")
    got = consumer.fetch(2)
    consumer.nack(got, Interval(0, 1))
    bench.deliver()
    for intervals in ((Interval(0, 1),), ()):
        producer.hear(Received("c", SettleLoan(9, got.token, intervals)))
    told = messages(bench.take(LoanSettled))
    assert told == [LoanSettled(9, lost=True), LoanSettled(9, lost=False)]
    producer.hear(Received("c", SettleLoan(9, got.token, (Interval(0, 1),))))
    assert producer.statistics.stock == 1


# --- rule 6 ---------------------------------------------------------------------------------------


def test_what_is_given_for_a_cancelled_attempt_is_taken_back():
    bench, producer, consumer = pair()
    producer.put(b"a")
    call = consumer.get()
    bench.deliver(Request)
    consumer.ask(calls.Withdraw(call))
    bench.deliver(Cancel)
    assert (producer.statistics.stock, producer.statistics.on_loan) == (1, 0)
    bench.deliver()
    assert producer.statistics.stock == 1
    assert consumer.told[call].error == "Empty"


def test_a_request_that_its_cancel_has_overtaken_is_given_nothing():
    bench, producer, consumer = pair()
    producer.put(b"a")
    consumer.ask(calls.Withdraw(consumer.get()))
    bench.deliver(Cancel)
    bench.deliver()
    assert (producer.statistics.given, consumer.statistics.refused) == (0, 0)
    assert (producer.statistics.stock, producer.statistics.on_loan) == (1, 0)


def test_a_request_said_twice_is_answered_once():
    bench, producer, consumer = pair()
    producer.put(b"a", b"b")
    consumer.get()
    bench.double()
    assert bench.deliver(Request) == 2
    assert len(bench.take(ObjectsLent)) == 1


def test_everything_said_twice_gives_each_object_once():
    bench, producer, consumer = pair()
    producer.put(b"a", b"b", b"c")
    bodies = []
    for _ in range(3):
        call = consumer.get()
        while bench.post:
            bench.double()
            for letter in bench.take(object):
                bench.hand(letter)
        got = consumer.told[call]
        bodies += bodies_of(got)
        consumer.ack(got)
        while bench.post:
            bench.double()
            for letter in bench.take(object):
                bench.hand(letter)
    assert bodies == [b"a", b"b", b"c"]
    statistics = producer.statistics
    assert (statistics.stock, statistics.on_loan, statistics.settled) == (0, 0, 3)


def test_get_many_crosses_parcels_and_each_is_settled_for_itself():
    bench, producer, consumer = pair(buffers=9)
    producer.put(b"a", b"b")
    producer.put(b"c", b"d")
    got = consumer.fetch(3)
    assert bodies_of(got) == [b"a", b"b", b"c"]
    assert [span.interval for span in got.spans] == [Interval(0, 2), Interval(2, 3)]
    consumer.ack(got, Interval(1, 3))
    consumer.nack(got)
    bench.deliver()
    assert bodies_of(consumer.fetch(9)) == [b"a", b"d"]


def test_another_consumers_word_about_a_loan_changes_nothing():
    bench, producer, consumer = pair()
    producer.put(b"a")
    got = consumer.fetch()
    for word in (SettleLoan(5, got.token), GiveBack(got.token), Cancel(1, 1), Hold((got.token,))):
        producer.hear(Received("thief", word))
    assert producer.statistics.on_loan == 1
    told = [letter.message for letter in bench.post if letter.target == "thief"]
    assert told == [LoanSettled(5, lost=True), Over((got.token,))]
