"""The blocking fifo, on a real node and embedded: the same calls, the same things come of them."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest

from snowmelt.client.fifo.face import Fifo
from snowmelt.core.batch import Batch
from snowmelt.core.errors import (
    BadOption,
    Empty,
    Full,
    LeaseLost,
    NoSuchQueue,
    QueueExists,
    TooLarge,
    Unreachable,
)
from snowmelt.core.interval import Interval
from timing import in_vain, until

NEAR = timedelta(seconds=5)
"""Clocks may be put right while a node runs, which looked at its own when it began."""
Make = Callable[..., Fifo]
Queues = Any  # a cluster of either kind


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A queue of the test's own."""
    return "q-" + "".join(one if one.isalnum() else "." for one in request.node.name)[-90:]


@pytest.fixture
def fifo(queues: Queues, name: str) -> Make:
    return lambda **options: queues.fifo(name, **options)


def bodies(items: Any) -> list[bytes]:
    return [bytes(body) for body in items.batch]


def test_what_is_put_comes_out_in_order_once(fifo: Make) -> None:
    orders = fifo()
    assert orders.put(b"zero") == 0
    assert orders.put_many([b"%d" % at for at in range(1, 2000)]) == (Interval(1, 2000),)
    with orders.get() as item:
        assert (item.body, item.position, item.headers, item.failures) == (b"zero", 0, {}, 0)
    with orders.get_many(500) as items:
        assert bodies(items) == [b"%d" % at for at in range(1, 501)]
        assert items.positions == (Interval(1, 501),)
    came: list[bytes] = []
    for one in orders.consume(prefetch=700, timeout=0):
        came.append(one.body)
        one.ack()
    assert came == [b"%d" % at for at in range(501, 2000)]
    with pytest.raises(Empty):
        orders.get(timeout=0)
    assert orders.stats().ready == 0


@pytest.mark.parametrize("size", [0, 1, 100_000, 5 << 20, 40 << 20])
def test_bodies_of_any_size_come_out_as_they_were(fifo: Make, size: int) -> None:
    orders = fifo()
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    orders.put(body, headers={"größe": str(size), "hash": b"\xff\x00"}, timeout=30)
    with orders.get(timeout=30) as item:
        assert item.body == body
        assert item.headers == {"größe": str(size), "hash": b"\xff\x00"}


def test_a_body_above_the_limit_is_refused(fifo: Make) -> None:
    with pytest.raises(TooLarge):
        fifo().put(bytes((64 << 20) + 1))


def test_more_than_a_call_holds_is_put_in_several_and_all_of_it_comes_out(fifo: Make) -> None:
    orders = fifo()
    count = 70_000
    assert orders.put_many(b"%d" % at for at in range(count)) == (Interval(0, count),)
    seen = 0
    previous = None
    while seen < count:
        previous = orders.get_many(20_000, ack=previous)
        assert bodies(previous) == [b"%d" % at for at in range(seen, seen + len(previous))]
        seen += len(previous)
    previous.ack()
    assert orders.stats().done == count


def test_a_batch_goes_in_and_comes_out_as_one(fifo: Make) -> None:
    batch = Batch.of([b"one", b"", b"three"])
    orders = fifo()
    orders.put_many(batch)
    orders.put_many(batch.slice(1, 3))
    with orders.get_many() as items:
        assert bodies(items) == [b"one", b"", b"three", b"", b"three"]


def test_empty_and_full_are_those_of_queue_too(fifo: Make) -> None:
    orders = fifo(max_items=2)
    with pytest.raises(queue.Empty):
        orders.get(timeout=0)
    orders.put_many([b"one", b"two"])
    begin = time.monotonic()
    assert issubclass(Full, queue.Full)
    in_vain(Full, lambda: orders.put(b"three", timeout=0.3))
    assert 0.2 < time.monotonic() - begin < 20
    orders.get().ack()
    orders.put(b"three", timeout=0)


def test_a_get_waits_for_what_another_thread_puts(fifo: Make) -> None:
    orders = fifo()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(orders.get, timeout=20)
        time.sleep(0.2)  # so that it waits
        begin = time.monotonic()
        orders.put(b"late")
        item = waiting.result(10)
        assert time.monotonic() - begin < 5
    assert item.body == b"late"
    item.ack()


def test_a_put_waits_for_room_that_another_thread_makes(fifo: Make) -> None:
    orders = fifo(max_items=1)
    orders.put(b"one")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(orders.put, b"two", timeout=20)
        time.sleep(0.2)  # so that it waits
        orders.get().ack()
        assert waiting.result(10) == 1


def test_threads_share_a_fifo_and_none_waits_for_another(fifo: Make) -> None:
    orders = fifo()
    with ThreadPoolExecutor(9) as pool:
        held = pool.submit(orders.get, timeout=3)
        puts = [pool.submit(orders.put_many, [b"%d" % at] * 10) for at in range(50)]
        places = sorted(place for one in puts for place in one.result(20))
        held.result(5).release()
    assert [place.start for place in places] == list(range(0, 500, 10))


def test_what_failed_comes_again_at_its_place_and_says_why(fifo: Make) -> None:
    orders = fifo()
    orders.put_many([b"one", b"two"])
    with pytest.raises(ZeroDivisionError), orders.get():
        _ = 1 / 0
    item = orders.get()
    assert (item.body, item.position, item.failures) == (b"one", 0, 1)
    assert item.reason == "ZeroDivisionError: division by zero"
    item.nack(reason="too hot")
    item = orders.get()
    assert (item.failures, item.reason) == (2, "too hot")
    item.release()
    item = orders.get()
    assert (item.body, item.failures) == (b"one", 2)
    item.ack()


def test_an_item_says_when_it_was_put_however_often_it_comes(fifo: Make) -> None:
    orders = fifo()
    begin = datetime.now(UTC)
    for body in (b"one", b"two"):  # each a put of its own, though they come in one part
        orders.put(body)
    end = datetime.now(UTC)
    first, second = [seen.put_at for seen in orders.peek()]
    assert begin - NEAR < first <= second < end + NEAR
    with pytest.raises(ZeroDivisionError), orders.get():
        _ = 1 / 0
    items = orders.get_many()
    assert [item.put_at for item in items] == [first, second]
    items.release()
    with ThreadPoolExecutor(2) as threads:  # who asks at once may be given parts of one answer
        held = [threads.submit(orders.get, timeout=5) for _ in range(2)]
        assert {one.result().put_at for one in held} == {first, second}


def test_a_part_of_what_was_got_may_go_back(fifo: Make) -> None:
    orders = fifo()
    orders.put_many([b"%d" % at for at in range(10)])
    items = orders.get_many()
    for item in items:
        if int(item.body) % 2:
            item.ack()
    items.nack()
    with orders.get_many() as again:
        assert bodies(again) == [b"0", b"2", b"4", b"6", b"8"]
    assert orders.stats().done == 10


def test_a_delay_holds_back(fifo: Make) -> None:
    orders = fifo()
    orders.put(b"much later", delay=600)
    orders.put(b"now")
    with orders.get(timeout=0) as item:
        assert item.body == b"now"
    with pytest.raises(Empty):
        orders.get(timeout=0)
    begin = time.monotonic()
    orders.put(b"later", delay=0.7)
    item = orders.get(timeout=20)
    assert item.body == b"later"
    assert time.monotonic() - begin > 0.6
    item.nack(delay=600)
    with pytest.raises(Empty):
        orders.get(timeout=0)
    orders.put(b"again")
    orders.get().nack(delay=0.5)
    begin = time.monotonic()
    orders.get(timeout=20).ack()
    assert time.monotonic() - begin >= 0.4


def test_a_lease_that_ended_is_lost_and_its_items_come_again(fifo: Make) -> None:
    orders = fifo(lease=1)
    orders.put(b"one")
    item = orders.get()
    again = orders.get(timeout=5)
    assert (again.body, again.failures) == (b"one", 1)
    with pytest.raises(LeaseLost):
        item.ack()
    again.ack(wait=True)
    with pytest.raises(Empty):
        orders.get(timeout=0)


def test_a_lease_that_is_extended_lasts(fifo: Make) -> None:
    orders = fifo(lease=2.5)
    orders.put(b"one")
    item = orders.get()
    for _ in range(4):
        in_vain(Empty, lambda: orders.get(timeout=0.8))
        item.extend()
    item.ack()


def test_after_so_many_failures_an_item_is_dead_and_may_be_driven_back(fifo: Make) -> None:
    orders = fifo(max_deliveries=2)
    orders.put_many([b"bad", b"good"])
    for _ in range(2):
        orders.get(timeout=0).nack(reason="broken")
    assert orders.get(timeout=0).body == b"good"
    (dead,) = orders.peek(dead=True)
    assert (dead.body, dead.position, dead.failures, dead.reason) == (b"bad", 0, 2, "broken")
    assert orders.stats().dead == 1
    assert orders.redrive() == 1
    with orders.get(timeout=2) as item:
        assert item.body == b"bad"


def test_peek_shows_and_takes_nothing(fifo: Make) -> None:
    orders = fifo()
    orders.put_many([b"%d" % at for at in range(30)], headers={"kind": "number"})
    for _ in range(2):
        seen = orders.peek(20)
        assert [one.body for one in seen] == [b"%d" % at for at in range(20)]
        assert [one.position for one in seen] == list(range(20))
        assert seen[0].headers == {"kind": "number"}
    assert len(orders.peek(100)) == 30
    assert orders.stats().ready == 30


def test_purge_removes_what_waits(fifo: Make) -> None:
    orders = fifo()
    orders.put_many([b"x"] * 10)
    held = orders.get_many(3)
    assert orders.purge() == 7
    held.release()
    assert len(orders.get_many()) == 3


def test_a_paused_queue_takes_and_hands_nothing_out(fifo: Make) -> None:
    orders = fifo()
    orders.put(b"one")
    orders.pause()
    orders.put(b"two")
    assert orders.stats().paused
    with pytest.raises(Empty):
        orders.get(timeout=0)
    orders.resume()
    assert bodies(orders.get_many()) == [b"one", b"two"]


def test_a_name_and_a_number_are_one_put(queues: Queues, name: str) -> None:
    for _ in range(2):  # as a program that starts again
        loader = queues.fifo(name, producer="loader-7")
        assert loader.put(b"one", sequence=1) == 0
        assert loader.put_many([b"two", b"three"], sequence=2) == (Interval(1, 3),)
    for _ in range(2):
        counting = queues.fifo(name, producer="counter", sequence=10)
        assert [counting.put(b"x"), counting.put(b"y")] == [3, 4]
    assert queues.fifo(name).stats().ready == 5


def test_a_queue_is_what_it_was_made_as(queues: Queues, name: str) -> None:
    queues.fifo(name, lease=60, max_items=100).put(b"one")
    assert queues.fifo(name).get().body == b"one"
    queues.fifo(name, lease=60, max_items=100).put(b"two")
    with pytest.raises(QueueExists):
        queues.fifo(name, lease=61, max_items=100).put(b"three")
    assert queues.fifo(name).stats().settings.items_max == 100


def test_queues_are_listed_and_asking_about_one_makes_none(queues: Queues, name: str) -> None:
    for ask in (Fifo.stats, Fifo.purge, Fifo.peek, Fifo.pause):
        with pytest.raises(NoSuchQueue):
            ask(queues.fifo(name))
    assert name not in queues.queues()
    queues.fifo(name).put(b"one")
    assert name in queues.queues()


@pytest.mark.parametrize("wrong", ["", "a/b", "ä", "x" * 101, ".x"])
def test_a_name_that_is_none_is_told(queues: Queues, wrong: str) -> None:
    with pytest.raises(BadOption, match="queue is"):
        queues.fifo(wrong)


def test_a_closed_cluster_says_so(queues: Queues, name: str) -> None:
    orders = queues.fifo(name)
    orders.put(b"one")
    queues.close()
    queues.close()
    begin = time.monotonic()
    with pytest.raises(Unreachable, match="closed"):
        orders.put(b"two")
    assert time.monotonic() - begin < 5


# --- consume --------------------------------------------------------------------------------------


def test_a_loop_keeps_its_leases_as_long_as_it_works(fifo: Make) -> None:
    orders = fifo(lease=1.5)
    orders.put_many([b"%d" % at for at in range(4)])
    for item in orders.consume(timeout=0):
        time.sleep(0.6)  # the work
        assert item.failures == 0
        item.ack()
    assert orders.stats().done == 4


def test_a_loop_that_ends_gives_back_what_it_did_not_acknowledge(fifo: Make) -> None:
    orders = fifo()
    orders.put_many([b"%d" % at for at in range(100)])
    with orders.consume(timeout=5) as loop:
        for item in loop:
            if item.position == 10:
                break
            item.ack()
    with orders.get_many(timeout=0) as items:
        assert bodies(items) == [b"%d" % at for at in range(10, 100)]
        assert {item.failures for item in items} == {0}
    assert threading.active_count() < 20


def test_an_exception_in_a_loop_gives_back_too(fifo: Make) -> None:
    orders = fifo()
    orders.put_many([b"one", b"two"])
    loop = orders.consume(prefetch=2)
    with pytest.raises(KeyError), next(loop):
        raise KeyError
    next(loop).ack()
    loop.close()
    with orders.get(timeout=0) as item:
        assert (item.body, item.failures, item.reason) == (b"one", 1, "KeyError: ")


def test_acknowledgements_are_told_soon_though_the_loop_is_busy(fifo: Make) -> None:
    orders = fifo()
    orders.put_many([b"one", b"two"])
    loop = orders.consume()
    next(loop).ack()
    until(lambda: orders.stats().done == 1)
    loop.close()


def test_a_loop_waits_for_more_and_ends_when_none_came(fifo: Make) -> None:
    orders = fifo()
    came: list[bytes] = []

    def work() -> None:
        for item in orders.consume(timeout=2):
            came.append(item.body)
            item.ack()

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        for at in range(5):
            orders.put(b"%d" % at)
            until(lambda: len(came) > at)  # noqa: B023
        working.result(20)
    assert came == [b"%d" % at for at in range(5)]
    assert orders.stats().done == 5


def test_loops_side_by_side_share_a_queue(fifo: Make) -> None:
    orders = fifo()
    count = 5000
    orders.put_many([b"%d" % at for at in range(count)])

    def work() -> list[int]:
        mine: list[int] = []
        for item in orders.consume(prefetch=100, timeout=1):
            mine.append(int(item.body))
            item.ack()
        return mine

    with ThreadPoolExecutor(4) as pool:
        shares = [pool.submit(work) for _ in range(4)]
        got = [share.result(60) for share in shares]
    assert sorted(chain(*got)) == list(range(count))
    assert all(mine == sorted(mine) for mine in got)
    assert orders.stats().done == count
