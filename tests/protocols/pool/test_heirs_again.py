"""Whoever lives again answers for what its former life was given (rule 16)."""

import msgspec
import pytest
from pool_bench import PoolBench, bodies_of

from snowmelt.core.errors import StoreVersion
from snowmelt.core.instant import seconds
from snowmelt.protocols.pool import adopting, calls
from snowmelt.protocols.pool.messages import (
    Cancel,
    GiveBack,
    Invite,
    ObjectsLent,
    Request,
    SettleLoan,
)


def left_to_an_heir(*, spill, count=1, patience=60, given=True):
    """A leaver has given what it has to its heir, and nothing is heard of it yet."""
    bench = PoolBench()
    leaver = bench.add("p", lease=seconds(1))
    heir, consumer = bench.add("q", spill=spill), bench.add("c", wait=seconds(1))
    bench.meet(leaver, heir)
    for number in range(count):
        leaver.put(b"%d" % number)
    stopped = leaver.stop(patience=seconds(patience))
    bench.deliver((Invite, Request, ObjectsLent) if given else (Invite, Request))
    heir.flush()
    return bench, leaver, heir, consumer, stopped


def apart(bench, leaver):
    """Delivers what is no word of the heir's to the one who leaves."""

    def deliver():
        while letters := bench.take(object):
            for letter in letters:
                if letter.source == "c" or letter.target == "c":
                    bench.hand(letter)
        assert leaver.name in bench.processes

    return deliver


def used(bench, leaver, heir, consumer):
    """A consumer gets all that the heir has, and its end is confirmed."""
    bench.meet(heir)
    call = consumer.get(9)
    bench.wait(0, between=apart(bench, leaver))
    got = consumer.told[call]
    acked = consumer.ack(got)
    bench.wait(0, between=apart(bench, leaver))
    heir.flush()
    bench.wait(0, between=apart(bench, leaver))
    assert consumer.told[acked] == calls.Acked()
    return bodies_of(got)


def live_again(bench, leaver, under=""):
    heir = bench.restart("q", under)
    heir.flush()
    bench.meet(leaver, heir)
    return heir


def deaf(bench):
    """Only what the leaver says comes, and what its heir gives back."""
    while bench.deliver((ObjectsLent, GiveBack, Cancel)):
        pass
    bench.take(SettleLoan)


def comes_to(consumer, *producers):
    consumer.bench.meet(*producers)
    call = consumer.get(9, patience=seconds(3))
    consumer.bench.wait(4)
    told = consumer.told[call]
    return bodies_of(told) if isinstance(told, calls.Got) else []


def test_an_heir_that_lives_again_knows_what_it_took_over():
    bench, leaver, _, consumer, stopped = left_to_an_heir(spill=True)
    heir = live_again(bench, leaver)
    bench.wait(3, between=lambda: deaf(bench))
    assert leaver.statistics.stock == 0, "nothing is given back"
    bench.wait(2)
    assert leaver.told[stopped] == calls.Stopped(0)
    assert comes_to(consumer, leaver, heir) == [b"0"]


def test_it_knows_it_too_when_all_of_it_is_done_and_forgets_it_when_it_is_heard():
    bench, leaver, heir, consumer, stopped = left_to_an_heir(spill=True)
    assert used(bench, leaver, heir, consumer) == [b"0"]
    heir = live_again(bench, leaver)
    assert heir.statistics.stock == 0
    bench.wait(3, between=lambda: deaf(bench))
    assert leaver.statistics.stock == 0, "what is done is not taken back"
    assert heir.disk, "it would know it in one more life"
    bench.wait(2)
    assert leaver.told[stopped] == calls.Stopped(0)
    heir.flush()
    assert not heir.disk, "nothing is kept of it once it was heard"
    assert comes_to(consumer, leaver, heir) == []


def test_it_forgets_what_nobody_asked_about_for_long():
    bench, leaver, heir, consumer, _ = left_to_an_heir(spill=True)
    used(bench, leaver, heir, consumer)
    heir = live_again(bench, leaver)
    del bench.processes["p"]
    bench.meet(heir)
    bench.wait(601)
    heir.flush()
    assert not heir.disk


@pytest.mark.parametrize("heard", [True, False])
def test_what_is_heard_before_it_is_done_is_not_written_again(heard):
    bench, leaver, heir, consumer, _ = left_to_an_heir(spill=True)
    if heard:
        bench.deliver()
    used(bench, leaver, heir, consumer)
    assert bool(heir.disk) != heard


def test_an_heir_with_another_name_in_its_next_life_tells_that_it_has_it():
    bench, leaver, _, consumer, stopped = left_to_an_heir(spill=True)
    bench.take(SettleLoan)
    heir = live_again(bench, leaver, under="r")
    bench.wait(2)
    assert leaver.told[stopped] == calls.Stopped(0), "nothing is told as left behind"
    assert comes_to(consumer, leaver, heir) == [b"0"]


def test_an_heir_that_was_killed_before_it_had_anything_gives_it_back():
    bench, leaver, _, consumer, stopped = left_to_an_heir(spill=True, given=False)
    heir = bench.restart("q")
    bench.meet(leaver, heir)
    for _ in range(4):
        bench.wait(0.5)
        heir.flush()
    assert leaver.told[stopped] == calls.Stopped(0)
    assert comes_to(consumer, leaver, heir) == [b"0"]


def test_an_heir_without_a_disk_that_lives_again_does_not_know_what_was_done():
    bench, leaver, heir, consumer, stopped = left_to_an_heir(spill=False, patience=20)
    assert used(bench, leaver, heir, consumer) == [b"0"]
    heir = live_again(bench, leaver)
    bench.wait(5)
    assert comes_to(consumer, leaver, heir) == [], "what is done comes to nobody"
    bench.wait(20)
    assert leaver.told[stopped] == calls.Stopped(1), "it says that it does not know"


def test_what_an_heir_may_have_forgotten_is_not_taken_back():
    bench, leaver, heir, consumer, _ = left_to_an_heir(spill=True, patience=3600)
    assert used(bench, leaver, heir, consumer) == [b"0"]
    bench.wait(650, between=lambda: bench.take(object))
    for _ in range(3):
        bench.wait(2)
        heir.flush()
    assert comes_to(consumer, leaver, heir) == [], "what is done comes to nobody"


def test_who_remembers_as_much_as_it_may_takes_over_nothing_more(monkeypatch):
    monkeypatch.setattr(adopting, "TAKEN_MAX", 1)
    bench, _leaver, heir, _, _ = left_to_an_heir(spill=True)
    other = bench.add("o")
    bench.meet(other, heir)
    other.put(b"x")
    other.stop()
    bench.wait(
        3, between=lambda: bench.deliver((Invite, Request, ObjectsLent)) and bench.take(SettleLoan)
    )
    assert other.statistics.stock == 1, "it is asked elsewhere, or later"


def test_a_folder_of_before_is_read():
    bench = PoolBench()
    producer = bench.add("p", spill=True)
    consumer = bench.add("c")
    bench.meet(producer)
    producer.put(b"a", b"b")
    producer.flush()
    (small,) = (key for key in producer.disk if key.startswith(b"parcel/"))
    count, settled, *_ = msgspec.msgpack.decode(producer.disk[small])
    producer.disk[small] = msgspec.msgpack.encode((count, settled))
    producer = bench.restart("p")
    producer.flush()
    bench.meet(producer)
    assert bodies_of(consumer.fetch(9)) == [b"a", b"b"]


@pytest.mark.parametrize("key", [b"parcel/", b"taken/"])
@pytest.mark.parametrize("value", ["text", ("p", -1, 1)])
def test_a_folder_that_does_not_read_is_refused_with_a_way_out(key, value):
    bench = PoolBench()
    producer = bench.add("p", spill=True)
    producer.disk[key + bytes(8)] = msgspec.msgpack.encode(value)
    with pytest.raises(StoreVersion, match="spill into another folder"):
        bench.restart("p")
