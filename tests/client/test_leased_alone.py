"""Items leased together for a time of their own, and one of them extended alone, as programs do."""

from typing import Any

import pytest

from snowmelt.core.errors import BadOption, Empty, LeaseLost

Queues = Any  # a cluster of either kind


def test_several_are_leased_for_a_time_of_their_own(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, lease=30)
    jobs.put_many([b"one", b"two", b"three"])
    first, second, third = jobs.get_many(9, lease=60)
    second.extend(lease=0.2, alone=True)
    assert jobs.get(timeout=20).body == b"two"
    with pytest.raises(LeaseLost):
        second.extend(lease=30, alone=True)
    third.ack()
    first.ack()
    assert jobs.stats().done == 2


def test_one_that_was_extended_alone_outlives_those_it_came_with(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, lease=30)
    jobs.put_many([b"one", b"two"])
    first, second = jobs.get_many(9, lease=2)
    first.extend(lease=60, alone=True)
    assert jobs.get(timeout=20).body == b"two"
    with pytest.raises(LeaseLost):
        second.extend(lease=60, alone=True)
    first.ack(wait=True)


def test_a_word_about_the_rest_that_came_too_late_leaves_it_held(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, lease=30)
    jobs.put_many([b"one", b"two", b"three"])
    first, second, third = jobs.get_many(9, lease=2)
    first.extend(lease=60, alone=True)
    assert [jobs.get(timeout=20).body for _ in range(2)] == [b"two", b"three"]
    with pytest.raises(LeaseLost):
        second.ack(wait=True)
    with pytest.raises(LeaseLost):
        third.release()
    first.ack(wait=True)
    assert jobs.stats().done == 1


def test_one_alone_needs_to_know_for_how_long(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name)
    jobs.put(b"one")
    item = jobs.get()
    with pytest.raises(BadOption, match="alone"):
        item.extend(alone=True)
    item.extend(lease=9, alone=True)
    item.ack()


def test_a_queue_of_several_partitions_has_one_time_for_all(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, partitions=2)
    jobs.put(b"one")
    with pytest.raises(BadOption, match="several partitions"):
        jobs.get_many(9, lease=1)
    item = jobs.get(timeout=5)
    with pytest.raises(BadOption, match="several partitions"):
        item.extend(lease=9, alone=True)


def test_several_of_a_key_come_together(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, in_order_by_key=True)
    jobs.put_many([b"a1", b"b1", b"a2", b"a3"], key=["a", "b", "a", "a"])
    items = jobs.get_many(3, together=True)
    assert [one.body for one in items] == [b"a1", b"a2", b"a3"]
    assert jobs.get(timeout=5).body == b"b1"
    jobs.put(b"a4", key="a")
    one, *others = items
    for other in others:
        other.ack()
    with pytest.raises(Empty):
        jobs.get(timeout=0)
    one.nack(reason="no")
    assert [each.body for each in jobs.get_many(9, together=True, timeout=5)] == [b"a1", b"a4"]


def test_purging_what_is_leased_leaves_nobody_anything(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name)
    jobs.put_many([b"one", b"two", b"three"])
    held = jobs.get()
    assert jobs.purge() == 2
    jobs.put(b"four")
    assert jobs.purge(leased=True) == 2
    held.ack()
    status = jobs.stats()
    assert (status.ready, status.leased, status.done) == (0, 0, 0)
