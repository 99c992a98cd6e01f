"""Objects that are on the producer's disk (rule 13), also when that refuses."""

import pytest
from pool_bench import PoolBench, bodies_of

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.messages import LoanSettled

FULL = "the disk is full"


def spilling(**settings):
    bench = PoolBench()
    producer = bench.add("p", spill=True, **settings)
    consumer = bench.add("c", wait=seconds(1))
    bench.meet(producer)
    return bench, producer, consumer


def again(bench):
    """The producer was killed and lives again."""
    producer = bench.restart("p")
    producer.flush()
    bench.meet(producer)
    return producer


def test_a_put_is_answered_when_its_objects_are_on_the_disk():
    bench, producer, consumer = spilling()
    call = producer.put(b"a")
    consumer.get()
    bench.deliver()
    assert (call in producer.told, producer.statistics.stock) == (False, 0)
    producer.flush()
    assert producer.told[call] == calls.PoolReceipt(1, Interval(0, 1))
    assert bench.deliver() == 1, "who waited in line has it"


def test_what_is_on_its_way_to_the_disk_takes_room():
    _, producer, _ = spilling(buffers=2)
    producer.put(b"a", b"b")
    later = producer.put(b"c")
    producer.flush()
    assert later not in producer.told
    assert not producer.asked


def test_a_put_that_the_disk_refuses_is_declined_and_nothing_of_it_comes():
    bench, producer, consumer = spilling()
    call = producer.put(b"a")
    producer.flush(FULL)
    assert producer.told[call].error == "DiskFull"
    kept = producer.put(b"b")
    producer.flush()
    assert kept in producer.told
    assert bodies_of(consumer.fetch(9)) == [b"b"]
    again(bench)
    assert bodies_of(consumer.fetch(9)) == [b"b"]


def test_who_starts_again_offers_all_that_was_not_settled():
    bench, producer, consumer = spilling()
    producer.put(b"a", b"b", b"c")
    producer.flush()
    got = consumer.fetch(2)
    consumer.ack(got, Interval(0, 1))
    bench.deliver()
    producer.flush()
    bench.deliver()
    producer = again(bench)
    assert producer.statistics.stock == 2
    assert bodies_of(consumer.fetch(9)) == [b"b", b"c"]
    producer.put(b"new")
    producer.flush()
    assert bodies_of(consumer.fetch(9)) == [b"new"]


def test_a_settlement_is_confirmed_when_the_disk_knows():
    bench, producer, consumer = spilling()
    producer.put(b"a")
    producer.flush()
    call = consumer.ack(consumer.fetch())
    bench.deliver()
    assert call not in consumer.told
    producer.flush()
    bench.deliver()
    assert consumer.told[call] == calls.Acked()
    assert not producer.disk
    assert again(bench).statistics.stock == 0


@pytest.mark.parametrize("parts", [(), (Interval(0, 1),)])
def test_a_settlement_that_the_disk_refuses_is_asked_again(parts):
    bench, producer, consumer = spilling()
    producer.put(b"a", b"b")
    producer.put(b"c")
    producer.flush()
    call = consumer.ack(consumer.fetch(2), *parts)
    bench.deliver()
    producer.flush(FULL)
    assert call not in consumer.told
    bench.wait(1)
    producer.flush()
    bench.deliver()
    assert consumer.told[call] == calls.Acked()
    left = again(bench).statistics.stock
    assert left == (2 if parts else 1)


def test_parts_of_one_loan_are_settled_side_by_side():
    bench, producer, consumer = spilling()
    producer.put(b"a", b"b", b"c")
    producer.flush()
    got = consumer.fetch(3)
    told = [consumer.ack(got, Interval(n, n + 1)) for n in range(2)]
    bench.deliver()
    consumer.nack(got, Interval(2, 3))
    bench.deliver()
    assert (producer.statistics.stock, producer.statistics.on_loan) == (1, 2)
    producer.flush()
    bench.deliver()
    assert all(consumer.told[call] == calls.Acked() for call in told)
    assert again(bench).statistics.stock == 1


def test_a_settlement_asked_again_while_the_disk_is_told_is_done_once():
    bench, producer, consumer = spilling()
    producer.put(b"a")
    producer.flush()
    call = consumer.ack(consumer.fetch())
    bench.wait(3)
    assert (len(producer.asked), call in consumer.told) == (1, False)
    producer.flush()
    assert len(bench.take(LoanSettled)) == 1
    bench.wait(1)
    assert consumer.told[call] == calls.Acked()


def test_a_loan_does_not_expire_while_its_settlement_goes_to_the_disk():
    bench, producer, consumer = spilling(lease=seconds(2))
    producer.put(b"a")
    producer.flush()
    consumer.ack(consumer.fetch(), patience=0)
    bench.wait(30)
    assert (producer.statistics.expired, producer.statistics.on_loan) == (0, 1)
    producer.flush()
    assert (producer.statistics.settled, producer.statistics.on_loan) == (1, 0)


def test_when_the_disk_refused_and_the_consumer_is_gone_it_is_offered_again():
    bench, producer, consumer = spilling(lease=seconds(2))
    producer.put(b"a")
    producer.flush()
    consumer.ack(consumer.fetch(), patience=0)
    bench.deliver()
    producer.flush(FULL)
    bench.wait(3)
    assert (producer.statistics.stock, again(bench).statistics.stock) == (1, 1)


def test_who_leaves_with_a_disk_leaves_its_objects_there():
    bench, producer, _ = spilling()
    heir = bench.add("q")
    bench.meet(producer, heir)
    producer.put(b"a")
    producer.flush()
    call = producer.stop()
    bench.deliver()
    assert producer.told[call] == calls.Stopped(1)
    assert again(bench).statistics.stock == 1
