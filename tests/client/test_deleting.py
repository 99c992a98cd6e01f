"""A queue is deleted: its name is free, and whoever has it in hand is told so at once."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.errors import QueueDeleted
from timing import until

SOON = 20.0
"""Far sooner than what is waited for."""


def told_later(do: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """What a call that waits ends with, in a thread of its own."""
    told: list[BaseException] = []

    def run() -> None:
        try:
            do()
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, told


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_it_is_gone_with_all_that_is_in_it_and_another_kind_has_its_name(
    queues: Any, name: str, kind: str
) -> None:
    orders = getattr(queues, kind)(name)
    orders.put_many([b"one", b"two", b"three"])
    orders.put(b"late", delay=100)
    orders.get()
    told = queues.delete(name)
    assert (told.counted, told.ready, told.leased, told.delayed, told.items) == (True, 2, 1, 1, 4)
    assert name not in queues.queues()
    with pytest.raises(snowmelt.NoSuchQueue, match="there is no queue"):
        queues.delete(name)
    other = queues.priority(name, priorities=3) if kind == "fifo" else queues.fifo(name, lease=7)
    other.put(b"new")
    with other.get() as item:
        assert (item.body, item.failures) == (b"new", 0)
    assert queues.delete(name, if_empty=True).items == 0


def test_a_queue_with_anything_in_it_stays_where_it_is_to_be_empty(queues: Any, name: str) -> None:
    orders = queues.fifo(name)
    orders.put(b"one")
    with pytest.raises(snowmelt.NotEmpty, match="1 ready"):
        queues.delete(name, if_empty=True)
    with orders.get() as item:
        assert item.body == b"one"


@pytest.mark.parametrize("anew", [False, True])
def test_who_has_it_in_hand_is_told_that_it_was_deleted(queues: Any, name: str, anew: bool) -> None:
    orders = queues.fifo(name)
    orders.put_many([b"one", b"two"])
    item = orders.get()
    receipts = orders.stage([b"staged"])
    group = orders.group("readers")
    assert queues.delete(name).staged == 1
    if anew:
        queues.fifo(name).put(b"new")
    for call in (
        lambda: orders.put(b"three"),
        lambda: orders.get(timeout=60),
        lambda: next(iter(orders.consume(timeout=60))),
        orders.stats,
        lambda: orders.publish(receipts),
        group.advance,
    ):
        with pytest.raises(QueueDeleted, match=f"{name}.*was deleted"):
            call()
    with pytest.raises(snowmelt.LeaseLost, match=f"{name}.*was deleted"):
        item.ack()
    if anew:
        assert queues.fifo(name).get().body == b"new"


def test_who_waits_for_it_is_told_at_once(queues: Any, name: str) -> None:
    orders = queues.fifo(name, max_items=1)
    orders.put(b"one")
    orders.get()

    waits = [
        told_later(lambda: orders.get(timeout=60)),
        told_later(lambda: orders.put(b"two", timeout=60)),
        told_later(lambda: next(iter(orders.consume(timeout=60)))),
    ]
    until(lambda: (orders.stats().waiting_gets, orders.stats().waiting_puts) == (2, 1))
    queues.delete(name)
    for thread, told in waits:
        thread.join(SOON)
        assert [type(one) for one in told] == [QueueDeleted]


def test_a_worker_ends_with_it(queues: Any, name: str) -> None:
    orders = queues.fifo(name)
    orders.put(b"one")
    done = threading.Event()

    def handler(_: Any) -> None:
        done.set()

    thread, told = told_later(lambda: snowmelt.Worker(orders, handler).run())
    assert done.wait(SOON)
    queues.delete(name)
    thread.join(SOON)
    assert [type(one) for one in told] == [QueueDeleted]


def test_another_client_is_told_too_and_goes_on_with_the_next(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as one, snowmelt.connect(node.url) as other:
        orders = other.fifo(name)
        orders.put(b"old")
        one.delete(name)
        one.fifo(name).put(b"new")
        with pytest.raises(QueueDeleted):
            other.fifo(name).get()
        assert other.fifo(name).get().body == b"new"


def test_the_face_with_await_does_the_same(node: LocalNode, name: str) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            orders = cluster.fifo(name)
            await orders.put(b"one")
            waits = asyncio.create_task(orders.get_many(10, timeout=60))
            assert len(await waits) == 1
            waits = asyncio.create_task(orders.get_many(10, timeout=60))
            while not (await orders.stats()).waiting_gets:
                await asyncio.sleep(0.01)
            assert (await cluster.delete(name)).leased == 1
            with pytest.raises(QueueDeleted):
                await asyncio.wait_for(waits, SOON)

    asyncio.run(main())


def test_a_node_that_was_away_brings_nothing_back(tmp_path: Any) -> None:
    with LocalCluster(3, tmp_path, 0.3) as nodes:
        nodes.start()
        with snowmelt.connect(nodes.nodes[0].url) as cluster:
            orders = cluster.fifo("orders")
            orders.put_many([bytes(1000)] * 100)
            away = next(one for one in nodes.nodes if one.name == "n3")
            away.kill()
            assert cluster.delete("orders", timeout=30).items == 100
            cluster.fifo("orders").put(b"new", timeout=30)
            away.start()
            items = cluster.fifo("orders").get_many(1000, timeout=30)
            assert [one.body for one in items] == [b"new"]
