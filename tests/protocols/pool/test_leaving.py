"""A producer that leaves in order hands over, and no object is ever with two (rule 12)."""

import pytest
from pool_bench import PoolBench, bodies_of

from snowmelt.core.instant import seconds
from snowmelt.core.node import Announced
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.messages import (
    Cancel,
    GiveBack,
    Invite,
    LoanSettled,
    ObjectsLent,
    Request,
    SettleLoan,
)


def company(*, heirs=1, count=5, **settings):
    """One that has objects and will leave, its heirs, and a consumer."""
    bench = PoolBench()
    leaver = bench.add("p", buffers=100, **settings)
    others = [bench.add(f"q{n}", **settings) for n in range(heirs)]
    consumer = bench.add("c", wait=seconds(1))
    bench.meet(leaver, *others)
    if count:
        leaver.put(*(b"%d" % number for number in range(count)))
    return bench, leaver, others, consumer


def all_of(consumer):
    bodies = []
    while True:
        call = consumer.get(100, patience=seconds(3))
        consumer.bench.wait(4)
        told = consumer.told[call]
        if not isinstance(told, calls.Got):
            return sorted(bodies)
        bodies += bodies_of(told)
        consumer.ack(told)
        consumer.bench.deliver()


def test_what_is_left_is_handed_over():
    bench, leaver, (heir,), consumer = company()
    call = leaver.stop()
    bench.deliver()
    bench.wait(1)
    assert leaver.told[call] == calls.Stopped(0)
    assert heir.statistics.stock == 5, "even above its bounds"
    bench.meet(heir)
    assert all_of(consumer) == [b"0", b"1", b"2", b"3", b"4"]


def test_others_are_invited_in_turn():
    bench, leaver, heirs, _ = company(heirs=3)
    leaver.stop()
    invited = []
    bench.wait(1, between=lambda: invited.extend(bench.take(Invite)))
    assert {letter.target for letter in invited} == {one.name for one in heirs}


def test_with_nobody_to_take_over_it_stops_when_its_time_is_over():
    bench, leaver, _, _ = company(heirs=0)
    call = leaver.stop(patience=seconds(3))
    bench.wait(2.9)
    assert call not in leaver.told
    bench.wait(0.2)
    assert leaver.told[call] == calls.Stopped(5)


def test_whoever_asks_it_to_leave_again_hears_the_same():
    bench, leaver, _, _ = company(heirs=0)
    calls_ = [leaver.stop(patience=seconds(3)), leaver.stop(patience=seconds(1))]
    bench.wait(2.9)
    assert not any(call in leaver.told for call in calls_)
    bench.wait(0.2)
    calls_.append(leaver.stop())
    assert [leaver.told[call] for call in calls_] == [calls.Stopped(5)] * 3


def test_it_takes_no_more_puts_and_wants_nothing_more():
    _bench, leaver, _, _ = company(heirs=0, count=0)
    waiting = leaver.get()
    leaver.stop(patience=seconds(3))
    assert leaver.told[waiting].error == "Closed"
    asked = leaver.put(b"x"), leaver.get(), leaver.ask(calls.AwaitRoom(seconds(1)))
    assert {leaver.told[call].error for call in asked} == {"Closed"}


def test_a_put_that_waits_for_room_is_answered_with_what_is_in():
    bench, _leaver, _, _ = company(heirs=0, count=0)
    one = bench.add("full", buffers=1)
    one.put(b"in")
    room = one.ask(calls.AwaitRoom(seconds(9)))
    call = one.put(b"out")
    one.stop(patience=seconds(1))
    assert one.told[call].count == 0
    assert one.told[room].error == "Closed"


def test_it_waits_for_those_that_hold_its_objects():
    bench, leaver, _, consumer = company(heirs=0, count=1)
    got = consumer.fetch()
    call = leaver.stop()
    bench.wait(20)
    assert call not in leaver.told
    consumer.ack(got)
    bench.wait(1)
    assert leaver.told[call] == calls.Stopped(0)


def test_a_lost_word_costs_time_and_no_object():
    for word in (Invite, Request, ObjectsLent, SettleLoan, LoanSettled):
        bench, leaver, (heir,), _ = company()
        call = leaver.stop()
        dropped = []

        def lossy(bench=bench, word=word, dropped=dropped):
            while bench.post:
                lost = [] if dropped else bench.take(word)[:1]
                dropped.extend(lost)
                for letter in bench.take(object):
                    bench.hand(letter)

        bench.wait(30, between=lossy)
        assert len(dropped) == 1
        assert leaver.told[call] == calls.Stopped(0), word
        assert heir.statistics.stock == 5, word


def test_everything_said_twice_is_with_one():
    bench, leaver, (heir,), consumer = company()
    call = leaver.stop()

    def doubled():
        while bench.post:
            bench.double()
            for letter in bench.take(object):
                bench.hand(letter)

    bench.wait(5, between=doubled)
    assert leaver.told[call] == calls.Stopped(0)
    assert heir.statistics.stock == 5
    bench.meet(heir)
    assert len(all_of(consumer)) == 5


def handed_over_without_confirmation(**settings):
    """The heir has the objects and has asked for the confirmation, which does not come."""
    bench, leaver, (heir,), consumer = company(count=1, **settings)
    leaver.stop(patience=seconds(60))
    bench.deliver((Invite, Request, ObjectsLent))
    return bench, leaver, heir, consumer


def test_what_an_heir_was_given_is_its_own_though_nobody_hears_of_it():
    bench, _, heir, consumer = handed_over_without_confirmation()
    del bench.processes["p"]
    bench.meet(heir)
    assert all_of(consumer) == [b"0"]


def test_the_loan_of_an_heir_does_not_end_by_itself():
    bench, leaver, heir, consumer = handed_over_without_confirmation(lease=seconds(1))
    leaver.lost(heir)
    bench.wait(20, between=lambda: bench.take(SettleLoan))
    assert (leaver.statistics.stock, leaver.statistics.on_loan) == (0, 1)
    bench.deliver()
    bench.wait(1)
    assert (leaver.statistics.on_loan, heir.statistics.stock) == (0, 1)
    bench.meet(heir)
    assert all_of(consumer) == [b"0"]


def test_who_leaves_too_takes_nothing_over():
    bench, leaver, (heir,), _ = company()
    heir.stop(patience=seconds(5))
    leaver.stop(patience=seconds(5))
    bench.wait(1)
    assert (leaver.statistics.stock, heir.statistics.stock) == (5, 0)


@pytest.mark.parametrize("heard", [(Cancel, GiveBack), (GiveBack,), (Cancel,)])
def test_what_an_heir_asked_for_before_it_left_too_is_not_adopted_by_the_dead(heard):
    """Its program has ended when the answer comes; only its last bytes are still being sent."""
    bench, leaver, (heir,), _ = company(count=1)
    stopped = leaver.stop(patience=seconds(20))
    bench.deliver((Invite, Request))
    left = heir.stop(patience=0)
    assert heir.told[left] == calls.Stopped(0)
    for word in {Cancel, GiveBack} - set(heard):
        bench.take(word)
    bench.deliver((ObjectsLent, *heard))
    assert (leaver.statistics.stock, heir.statistics.stock) == (1, 0)
    bench.take(object)
    bench.wait(21, between=lambda: bench.take(object))
    assert leaver.told[stopped] == calls.Stopped(1), "it says what was left behind"


def test_who_has_left_gives_nothing_more():
    bench, leaver, _, consumer = company(heirs=0, count=1)
    call = consumer.get()
    left = leaver.stop(patience=0)
    assert leaver.told[left] == calls.Stopped(1)
    bench.deliver()
    assert call not in consumer.told


def handed_over_slowly():
    """An heir hears that what it asked for begins to come."""
    bench, leaver, (heir,), _ = company(count=1, lease=seconds(1))
    stopped = leaver.stop(patience=seconds(60))
    bench.deliver((Invite, Request))
    (letter,) = bench.take(ObjectsLent)
    found = letter.message
    coming = calls.Coming(leaver.name, found.number, found.attempt, found.token, found.lease)
    heir.hear(Announced(coming))
    return bench, leaver, heir, stopped, letter, coming


def test_a_handover_may_take_as_long_as_its_way_is_slow():
    bench, leaver, heir, stopped, letter, _ = handed_over_slowly()
    bench.wait(20)
    assert leaver.statistics.on_loan == 1, "it is held, and neither cancelled nor given again"
    assert heir.statistics.stock == 0
    bench.hand(letter)
    bench.wait(1)
    assert leaver.told[stopped] == calls.Stopped(0)
    assert heir.statistics.stock == 1


def test_a_handover_whose_way_ends_is_begun_anew():
    bench, leaver, heir, stopped, _, _ = handed_over_slowly()
    heir.lost(leaver)
    bench.wait(2)
    assert leaver.told[stopped] == calls.Stopped(0)
    assert heir.statistics.stock == 1


def test_a_handover_for_which_there_was_no_room_is_begun_anew():
    bench, leaver, heir, stopped, _, coming = handed_over_slowly()
    heir.hear(Announced(calls.NotReceived(coming.source, coming.number, 1, coming.token)))
    bench.wait(2)
    assert leaver.told[stopped] == calls.Stopped(0)
    assert heir.statistics.stock == 1
