"""Who waits while his own process leaves the pool is told that, and not that his time is over."""

import pytest
from pool_bench import PoolBench

from snowmelt.client.pool import steps as pool_steps
from snowmelt.core.errors import Closed
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool import calls

CLOSED = Declined("Closed", "this pool is closed")


def test_a_get_that_waits_while_its_pool_is_closed_is_told_that() -> None:
    consumer = PoolBench().add("c")
    waits = consumer.get()
    consumer.stop()
    assert consumer.told[waits] == CLOSED
    assert consumer.told[consumer.get()] == CLOSED


def test_a_put_that_waits_while_its_pool_is_closed_is_told_that() -> None:
    producer = PoolBench().add("p", buffers=2)
    producer.put(b"one")
    many = producer.put(b"two", b"three")
    waits, room = producer.put(b"four"), producer.ask(calls.AwaitRoom(10**9))
    producer.stop()
    assert (producer.told[many].count, producer.told[many].closed) == (1, True)
    assert (producer.told[waits].count, producer.told[waits].closed) == (0, True)
    assert producer.told[room] == producer.told[producer.put(b"five")] == CLOSED
    with pytest.raises(Closed, match="this pool is closed"):
        pool_steps.check_kept(producer.told[waits], 60.0)
