"""What is taken, put and acknowledged in one step, by a client of real nodes and in a folder."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import BadOption, Closed, Empty, LeaseLost, QueueExists


@pytest.fixture(params=["folder", "node"])
def cluster(request: Any, tmp_path: Path) -> Iterator[Any]:
    if request.param == "folder":
        with snowmelt.open(tmp_path) as cluster:
            yield cluster
    else:
        node: LocalNode = request.getfixturevalue("own_node")
        with snowmelt.connect(node.url) as cluster:
            yield cluster


def bodies(queue: Any) -> list[bytes]:
    return [bytes(one.body) for one in queue.peek(100)]


def test_all_of_it_happens_at_its_end(cluster: Any) -> None:
    orders, more = cluster.fifo("orders"), cluster.fifo("more")
    bills, urgent = cluster.fifo("bills", codec="json"), cluster.priority("urgent", priorities=3)
    orders.put_many([b"one", b"two", b"three"])
    more.put(b"x")
    with cluster.step() as step:
        items, other = step.get_many(orders, 2), step.get(more)
        step.put(bills, {"of": bytes(items.batch[0]).decode()}, headers={"kind": "bill"})
        step.put(bills, {"of": other.body.decode()}, delay=60)
        step.put(urgent, b"late", priority=2)
        step.put(urgent, b"soon", priority=0, key="tenant")
        step.put(orders, b"four")
        assert bodies(orders) == [b"three"]
    assert step.waiting == 0
    assert bodies(orders) == [b"three", b"four"]
    assert (orders.stats().done, more.stats().done, bills.stats().delayed) == (2, 1, 1)
    bill, soon = bills.get(), urgent.get()
    assert (bill.value, bill.headers) == ({"of": "one"}, {"kind": "bill"})
    assert (bytes(soon.body), soon.key) == (b"soon", b"tenant")


def take_step(cluster: Any, *acts: Callable[[Any], object]) -> None:
    """One, in which all of that is done."""
    with cluster.step() as step:
        for act in acts:
            act(step)


def fail(_: Any) -> None:
    raise ZeroDivisionError("bad luck")


def test_nothing_happens_when_it_fails(cluster: Any) -> None:
    orders, bills = cluster.fifo("orders"), cluster.fifo("bills")
    orders.put(b"one")
    acts = [lambda step: step.get(orders), lambda step: step.put(bills, b"never"), fail]
    with pytest.raises(ZeroDivisionError):
        take_step(cluster, *acts)
    seen = orders.get(timeout=1)
    assert (seen.failures, seen.reason) == (1, "ZeroDivisionError: bad luck")
    with pytest.raises(Empty):
        bills.get(timeout=0)


def test_a_lease_that_was_lost_undoes_all_of_it(cluster: Any) -> None:
    orders, bills = cluster.fifo("orders", lease=1), cluster.fifo("bills")
    more = cluster.fifo("more")
    orders.put(b"one")
    more.put(b"x")
    with pytest.raises(LeaseLost):
        take_step(
            cluster,
            lambda step: step.get(more),
            lambda step: step.get(orders),
            lambda step: step.put(bills, b"never"),
            lambda _: orders.get(timeout=5),  # whose lease is another's now
        )
    with pytest.raises(Empty):
        bills.get(timeout=0)
    assert more.get(timeout=10).body == b"x"


def test_what_was_taken_elsewhere_is_acknowledged_with_it(cluster: Any) -> None:
    orders, bills = cluster.fifo("orders"), cluster.fifo("bills")
    orders.put_many([b"one", b"two"])
    item, other = orders.get(), orders.get()
    with cluster.step() as step:
        step.ack(item)
        step.put(bills, b"bill")
    item.ack()  # it is done, which is no news
    other.ack()
    assert (orders.stats().done, bodies(bills)) == (2, [b"bill"])
    with pytest.raises(LeaseLost):
        take_step(cluster, lambda again: again.ack(item))
    with pytest.raises(BadOption, match="one that has not ended"):
        step.put(bills, b"late")


def test_an_item_acknowledges_nothing_before_its_step_ends(cluster: Any) -> None:
    orders, bills = cluster.fifo("orders"), cluster.fifo("bills")
    orders.put_many([b"one", b"two", b"three"])
    with cluster.step() as step:
        with step.get(orders) as item:
            step.put(bills, item.body)
        step.get(orders).release()
        items = step.get_many(orders, 1)
        items.ack()
        assert orders.stats().done == 0
    assert (orders.stats().done, bodies(orders), bodies(bills)) == (2, [b"three"], [b"one"])


def test_in_a_loop(cluster: Any) -> None:
    orders, bills = cluster.fifo("orders"), cluster.fifo("bills")
    orders.put_many([b"%d" % at for at in range(20)])
    for item in orders.consume(timeout=0.2):
        with cluster.step() as step:
            step.ack(item)
            step.put(bills, item.body)
    assert (orders.stats().done, len(bodies(bills))) == (20, 20)


def test_a_worker_whose_handlers_are_steps(cluster: Any) -> None:
    orders, bills = cluster.fifo("orders"), cluster.fifo("bills")
    orders.put_many([b"%d" % at for at in range(20)])
    failed: set[bytes] = set()

    def handle(item: Any, step: snowmelt.Step) -> None:
        item.ack()  # with the step
        step.put(bills, b"bill " + item.body)
        if item.body not in failed:
            failed.add(item.body)
            raise ZeroDivisionError

    retry = snowmelt.Retry(first=0.01)
    snowmelt.Worker(orders, handle, step=True, threads=3, retry=retry).run(timeout=1)
    assert sorted(bodies(bills)) == sorted(b"bill %d" % at for at in range(20))
    assert (orders.stats().done, orders.stats().failed) == (20, 20)


def test_with_await(tmp_path: Path) -> None:
    async def main() -> None:
        async with snowmelt.aio.open(tmp_path) as cluster:
            orders, bills = cluster.fifo("orders"), cluster.fifo("bills")
            await orders.put_many([b"one", b"two", b"three"])
            async with cluster.step() as step:
                item = await step.get(orders)
                step.put(bills, item.body)

            async def handle(item: Any, step: snowmelt.aio.Step) -> None:
                step.put(bills, item.body)

            await snowmelt.aio.Worker(orders, handle, step=True, tasks=2).run(timeout=0.3)
            seen = [bytes(one.body) for one in await bills.peek(10)]
            assert sorted(seen) == [b"one", b"three", b"two"]
            assert (await orders.stats()).done == 3
            await orders.put(b"four")

            async def cancelled() -> None:
                async with cluster.step() as step:
                    await step.get(orders)
                    raise asyncio.CancelledError

            with pytest.raises(asyncio.CancelledError):
                await cancelled()
            assert (await orders.get(timeout=1)).failures == 0

    asyncio.run(main())


def test_many_threads_take_steps_at_once(cluster: Any) -> None:
    orders, bills = cluster.fifo("orders"), cluster.fifo("bills")
    orders.put_many([b"%d" % at for at in range(60)])

    def work() -> None:
        while True:
            try:
                with cluster.step() as step:
                    item = step.get(orders, timeout=0.3)
                    step.put(bills, item.body)
            except Empty:
                return

    threads = [threading.Thread(target=work) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(bodies(bills)) == sorted(b"%d" % at for at in range(60))
    assert orders.stats().done == 60


def test_a_queue_in_several_hands_is_one(cluster: Any) -> None:
    cluster.fifo("orders", lease=30).put_many([b"one", b"two"])
    with cluster.step() as step:
        for hand in (cluster.fifo("orders", producer="me"), cluster.fifo("orders", lease=30)):
            step.put(hand, b"of " + step.get(hand).body)
    for number in range(2):  # whose first queue has a producer with a name
        with cluster.step() as step:
            step.put(cluster.fifo("bills", producer="me"), b"%d" % number)
            step.put(cluster.fifo("orders"), b"%d" % number)
    assert bodies(cluster.fifo("orders")) == [b"of one", b"of two", b"0", b"1"]
    assert bodies(cluster.fifo("bills")) == [b"0", b"1"]


def test_what_a_step_does_not_take(cluster: Any, tmp_path: Path) -> None:
    orders = cluster.fifo("orders")
    with snowmelt.open(tmp_path / "other") as other:
        foreign = other.fifo("orders")
        foreign.put(b"x")
        with pytest.raises(BadOption, match="of the cluster whose step this is"):
            take_step(cluster, lambda step: step.put(foreign, b"y"))
        with pytest.raises(BadOption, match="of the cluster whose step this is"):
            take_step(cluster, lambda step: step.ack(foreign.get()))
    with pytest.raises(BadOption, match="a queue of this cluster"):
        take_step(cluster, lambda step: step.put("orders", b"y"))
    with pytest.raises(BadOption, match="priority"):
        take_step(cluster, lambda step: step.put(orders, b"y", priority=3))
    with pytest.raises(TypeError):
        take_step(cluster, lambda step: step.put(orders, 5))
    with pytest.raises(BadOption, match="step is 'yes'"):
        snowmelt.Worker(orders, print, step="yes")  # type: ignore[arg-type]


def test_queues_of_several_partitions_have_parts_as_others(own_node: LocalNode) -> None:
    with snowmelt.connect(own_node.url) as cluster:
        many, orders = cluster.fifo("many", partitions=3), cluster.fifo("orders")
        more = cluster.priority("more", partitions=2)
        for at in range(6):
            many.put(b"%d" % at)
        orders.put(b"one")
        with cluster.step() as step:
            step.put(cluster.fifo("many"), b"6")
            items, one = step.get_many(many, 4), step.get(orders)
            for item in items:
                step.put(more, item.body, priority=2)
            step.put(more, one.body, priority=1)
            next(iter(items)).release()
        assert (step.waiting, many.stats().done, orders.stats().done) == (0, 3, 1)
        assert [bytes(more.get(timeout=1).body) for _ in range(5)] == [
            b"one",
            b"0",
            b"1",
            b"2",
            b"3",
        ]
        assert [bytes(many.get(timeout=1).body) for _ in range(4)] == [b"0", b"4", b"5", b"6"]
        with cluster.step() as alone:
            alone.put(more, b"alone")
        assert more.get(timeout=1).body == b"alone"


def test_what_a_step_puts_lies_where_its_key_lives(own_node: LocalNode) -> None:
    with snowmelt.connect(own_node.url) as cluster:
        many = cluster.fifo("many", partitions=3, in_order_by_key=True)
        many.put(b"before", key="t1")
        with cluster.step() as step:
            for at in range(9):
                step.put(many, b"%d" % at, key=f"t{at}")
            step.put(many, b"without")
        assert (step.waiting, many.stats().ready) == (0, 11)
        items = many.get_many(99, timeout=5)
        assert sorted(item.body for item in items) == sorted(
            [b"before", b"without", *[b"%d" % at for at in range(9) if at != 1]]
        )
        items.ack()
        assert [item.body for item in many.get_many(99, timeout=5)] == [b"1"]


def test_of_a_step_that_fails_partitions_have_nothing(own_node: LocalNode) -> None:
    with snowmelt.connect(own_node.url) as cluster:
        many, orders = cluster.fifo("many", partitions=2, lease=1), cluster.fifo("orders")
        many.put_many([b"x"])
        many.put_many([b"y"])
        with pytest.raises(LeaseLost):
            take_step(
                cluster,
                lambda step: step.get_many(many, 2),
                lambda step: step.put(orders, b"never"),
                lambda step: step.put(many, b"never"),
                lambda _: many.get_many(2, timeout=5),  # whose lease is another's now
            )
        assert (orders.stats().ready, many.stats().leased, many.stats().ready) == (0, 2, 0)


def test_a_queue_of_another_kind_undoes_all_of_it(cluster: Any) -> None:
    orders = cluster.fifo("orders")
    orders.put(b"one")
    cluster.priority("urgent", priorities=3).create()
    urgent = cluster.fifo("urgent")
    with pytest.raises(QueueExists):
        take_step(cluster, lambda step: step.get(orders), lambda step: step.put(urgent, b"y"))
    assert orders.get(timeout=5).failures == 0


def test_one_is_begun_once_and_ends_once(cluster: Any) -> None:
    bills = cluster.fifo("bills")
    with cluster.step() as step:
        step.put(bills, b"once")
    with pytest.raises(BadOption, match="begun already"), step:
        pass
    with pytest.raises(BadOption, match="has not ended"):
        step.put(bills, b"too late")
    inner = cluster.step()
    with pytest.raises(BadOption, match="begun already"), inner as outer, inner:
        outer.put(bills, b"of the inner block")
    failed = cluster.step()
    with suppress(ZeroDivisionError), failed:
        failed.put(bills, b"of one that failed")
        raise ZeroDivisionError
    with pytest.raises(BadOption, match="begun already"), failed:
        pass
    assert bills.stats().ready == 1


def test_what_another_thread_adds_as_it_ends_is_in_it_or_is_refused(cluster: Any) -> None:
    bills, added = cluster.fifo("bills"), list[int]()

    def adds(step: Any) -> None:
        with suppress(BadOption):
            for _ in range(3_000):
                step.put(bills, b"bill")
                added.append(1)

    for _ in range(30):
        with cluster.step() as step:
            thread = threading.Thread(target=adds, args=(step,))
            thread.start()
            step.put(bills, b"own")
            added.append(1)
        thread.join()
    assert bills.stats().ready == len(added)


def test_a_child_of_a_fork_ends_nothing_of_it(cluster: Any) -> None:
    bills = cluster.fifo("bills")
    with cluster.step() as step:
        step.put(bills, b"bill")
        child = os.fork()
        if not child:
            code = 1
            with suppress(Closed):
                step.__exit__(None, None, None)
                code = 2
            with suppress(Closed):
                step.put(bills, b"bill")
                code = 3
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert bills.stats().ready == 1
