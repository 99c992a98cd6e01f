"""What a new user meets: sentences that say what to do, and nothing that surprises."""

import asyncio
import copy
import gc
import pickle
import threading
import time
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import Empty, LeaseLost, NoSuchQueue, QueueExists, StoreBusy, WrongLoop
from timing import in_vain

Queues = Any  # a cluster of either kind


# --- loops ----------------------------------------------------------------------------------------


def test_acks_of_a_thread_pool_after_the_loop_are_told_or_refused(queues: Queues) -> None:
    orders = queues.fifo("manners-late")
    orders.put_many([b"%d" % at for at in range(20)])
    ready = threading.Event()

    def work(item: snowmelt.Item) -> bytes:
        ready.wait(10)
        item.ack()
        return item.body

    with ThreadPoolExecutor(20) as pool:
        working = [pool.submit(work, item) for item in orders.consume(timeout=0)]
        ready.set()
        refused = [one for one in working if isinstance(one.exception(10), LeaseLost)]
    acknowledged = {one.result() for one in working if one not in refused}
    with orders.consume(timeout=0) as rest:
        again = {item.body for item in rest}
    assert not acknowledged & again
    assert len(acknowledged | again) == 20


def test_a_poison_job_is_set_aside_though_a_supervisor_starts_the_loop_anew(
    queues: Queues,
) -> None:
    jobs = queues.fifo("manners-poison", max_deliveries=3)
    jobs.put_many([b"poison", b"fine"])
    done: list[bytes] = []

    def work(timeout: float) -> None:
        for job in jobs.consume(timeout=timeout):
            if job.body == b"poison":
                raise ValueError("can't be read")
            done.append(job.body)
            job.ack()

    for _ in range(3):
        gc.collect()  # what else was raised of late would hide which error ended the loop
        with pytest.raises(ValueError, match="can't be read"):
            work(5)  # what went back is there a moment later
    work(0.5)
    (dead,) = jobs.peek(dead=True)
    assert (dead.body, dead.failures, dead.reason) == (b"poison", 3, "ValueError: can't be read")
    assert done == [b"fine"]


def test_how_a_loop_was_left_is_known(queues: Queues) -> None:
    orders = queues.fifo("manners-left")
    orders.put(b"one")

    def left_by_break() -> None:
        for _ in orders.consume(timeout=5):
            break

    def left_by_return() -> object:
        for number, item in enumerate(orders.consume(timeout=5)):
            return number, item
        return None

    def left_in_a_generator() -> None:
        for _ in (item for item in orders.consume(timeout=5)):
            raise KeyError("within")

    def left_by_interrupt() -> None:
        with orders.consume(timeout=5) as loop:
            for _ in loop:
                raise KeyboardInterrupt

    def caught_before() -> None:
        for item in orders.consume(timeout=5):
            try:
                int(item.body)
            except ValueError:
                break

    def failures() -> int:
        with orders.get(timeout=5) as item:
            orders.put(b"one")
            return item.failures

    for leave in (left_by_break, left_by_return, caught_before):
        leave()
        assert failures() == 0
    with pytest.raises(KeyboardInterrupt):
        left_by_interrupt()
    assert failures() == 0
    with pytest.raises(KeyError):
        left_in_a_generator()
    assert failures() == 1


def test_workers_share_what_takes_long(queues: Queues) -> None:
    jobs = queues.fifo("manners-fair")
    jobs.put_many([b"%d" % at for at in range(22)])
    start = threading.Barrier(3)

    def work() -> int:
        start.wait(10)
        count = 0
        for job in jobs.consume(timeout=0):
            time.sleep(0.05)  # the work
            job.ack()
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        shares = [one.result(30) for one in [pool.submit(work) for _ in range(3)]]
    assert sum(shares) == 22
    assert max(shares) <= 12


# --- bodies ---------------------------------------------------------------------------------------


def test_whatever_lies_in_one_piece_is_a_body(queues: Queues) -> None:
    orders = queues.fifo("manners-bodies")
    table = np.arange(6, dtype=np.int16).reshape(2, 3)
    orders.put(table)
    orders.put(pa.py_buffer(b"arrow"))
    orders.put_many([array("d", [1.0]), np.zeros((3, 0)), memoryview(b"view"), pa.py_buffer(b"x")])
    with orders.get_many() as items:
        told = [bytes(body) for body in items.batch]
    assert told == [table.tobytes(), b"arrow", array("d", [1.0]).tobytes(), b"", b"view", b"x"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (np.arange(6).reshape(2, 3).T, "does not lie in memory in one piece; copy it first"),
        (np.array([object()]), "holds objects, not their bytes"),
        (np.array(["2026-01-01"], dtype="datetime64[D]"), "a body is bytes, not ndarray; encode"),
        (7, "a body is bytes, not int; encode it, or name a codec, as codec='json'"),
    ],
)
def test_what_does_not_is_refused_with_the_way_out(queues: Queues, body: object, told: str) -> None:
    orders = queues.fifo("manners-refused")
    for put in (lambda: orders.put(body), lambda: orders.put_many([b"x", body])):
        with pytest.raises(TypeError, match=told):
            put()


# --- words ----------------------------------------------------------------------------------------


def test_what_stays_here_says_what_to_send_instead(queues: Queues) -> None:
    orders = queues.fifo("manners-pickle")
    orders.put(b"one")
    items = orders.get_many()
    (item,) = items
    for one, told in ((item, "send item.body"), (items, "send its bodies"), (orders, "the URL")):
        with pytest.raises(TypeError, match=f"can't be pickled or copied.*{told}"):
            pickle.dumps(one)
    with pytest.raises(TypeError, match="belongs to this process"):
        copy.copy(queues)
    items.release()


def test_a_queue_with_other_settings_says_which_option_differs(queues: Queues) -> None:
    queues.fifo("manners-settings", lease=60, max_items=5).put(b"one")
    with pytest.raises(QueueExists) as raised:
        queues.fifo("manners-settings", lease=30, flush=0.5, max_items=5).put(b"two")
    assert str(raised.value) == (
        "queue 'manners-settings' is there with other settings: "
        'flush="always", asked 0.5; lease=60, asked 30; leave them out to take it as it is, or '
        "alter it: snowmelt alter manners-settings --flush 0.5 --lease 30"
    )


def test_all_errors_a_person_can_meet_are_to_be_had_at_the_top() -> None:
    assert issubclass(snowmelt.LeaseLost, snowmelt.CallerError)
    assert issubclass(snowmelt.Empty, snowmelt.StateError)
    assert issubclass(snowmelt.DiskFull, snowmelt.MachineError)


def test_reading_makes_no_queue(queues: Queues) -> None:
    orders = queues.fifo("manners-mispelled")
    with pytest.raises(Empty, match="no such queue yet"):
        orders.get(timeout=0)
    in_vain(Empty, lambda: orders.get_many(timeout=0.1))
    assert list(orders.consume(timeout=0)) == []
    with pytest.raises(NoSuchQueue):
        orders.stats()
    assert "manners-mispelled" not in queues.queues()
    with pytest.raises(Empty):
        queues.fifo("manners-made", lease=5).get(timeout=0)
    assert "manners-made" in queues.queues(), "settings make it"


def test_who_reads_first_waits_for_the_first_put(queues: Queues) -> None:
    orders = queues.fifo("manners-early")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(orders.get, timeout=20)
        time.sleep(0.1)  # so that it waits
        queues.fifo("manners-early").put(b"one")
        assert waiting.result(5).body == b"one"


# --- async ----------------------------------------------------------------------------------------


def test_what_a_cancelled_get_brought_goes_back_though_the_program_ends(node: LocalNode) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            orders = cluster.fifo("manners-cancelled", lease=60)
            await orders.put(b"one")
            await orders.stats()
            waiting = asyncio.ensure_future(orders.get(timeout=20))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())
    with snowmelt.connect(node.url) as cluster, cluster.fifo("manners-cancelled").get() as item:
        assert (item.body, item.failures) == (b"one", 0)


def test_a_cluster_of_one_loop_is_refused_in_another(node: LocalNode) -> None:
    with asyncio.Runner() as first, asyncio.Runner() as second:

        async def made() -> snowmelt.aio.Cluster:
            cluster = snowmelt.aio.connect(node.url)
            await cluster.ping()
            return cluster

        cluster = first.run(made())
        begin = time.monotonic()
        with pytest.raises(WrongLoop, match="connect within the loop that uses it"):
            second.run(cluster.ping())
        assert time.monotonic() - begin < 5
        first.run(cluster.close())


@pytest.mark.parametrize("word", ["__anext__", "aclose"])
def test_a_loop_over_a_queue_goes_on_though_another_event_loop_used_it(
    node: LocalNode, word: str
) -> None:
    async def scene() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            orders = cluster.fifo(f"manners-loops-{word}")
            await orders.put_many([b"1", b"2"])
            async with orders.consume(1) as loop:
                await (await anext(loop)).ack()
                with pytest.raises(WrongLoop):
                    await asyncio.to_thread(asyncio.run, getattr(loop, word)())
                await (await anext(loop)).ack()
            stats = await orders.stats()
            assert (stats.ready, stats.leased) == (0, 0)

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_a_baton_stays_with_its_holder_though_another_event_loop_released_it(
    node: LocalNode,
) -> None:
    async def scene() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            async with cluster.baton("manners-loops") as held:
                with pytest.raises(WrongLoop):
                    await asyncio.to_thread(asyncio.run, held.release())
                await held.save(b"mine")
            async with cluster.baton("manners-loops") as held:
                assert held.value == b"mine"

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_async_loops_count_what_they_failed_at(tmp_path: Path) -> None:
    async def failing(orders: snowmelt.aio.Fifo) -> None:
        async for item in orders.consume(timeout=0):
            await asyncio.sleep(0)
            raise ValueError(item.body.decode())

    async def failing_within(orders: snowmelt.aio.Fifo) -> None:
        async with orders.consume(timeout=0) as loop:
            async for item in loop:
                raise ValueError(item.body.decode())

    async def broken_off(orders: snowmelt.aio.Fifo) -> None:
        async for _ in orders.consume(timeout=0):
            break

    async def main() -> None:
        async with snowmelt.aio.open(tmp_path) as cluster:
            orders = cluster.fifo("orders")
            await orders.put(b"bad")
            for count, work in enumerate((failing, failing_within), start=1):
                with pytest.raises(ValueError, match="bad"):
                    await work(orders)
                item = await orders.get(timeout=5)
                assert (item.failures, item.reason) == (count, "ValueError: bad")
                await item.release()
            await broken_off(orders)
            assert (await orders.get(timeout=5)).failures == 2

    asyncio.run(asyncio.wait_for(main(), 30))


def test_queues_in_a_folder_with_await(tmp_path: Path) -> None:
    async def main() -> None:
        async with snowmelt.aio.open(tmp_path) as cluster:
            orders = cluster.fifo("orders")
            getting = [asyncio.ensure_future(orders.get(timeout=20)) for _ in range(20)]
            await asyncio.sleep(0.05)  # so that they wait
            await asyncio.gather(*(orders.put(b"%d" % at) for at in range(25)))
            got = await asyncio.gather(*getting)
            assert sorted(item.position for item in got) == list(range(20))
            await asyncio.gather(*(item.ack() for item in got))
            assert (await orders.stats()).ready == 5
            with pytest.raises(StoreBusy):
                async with snowmelt.aio.open(tmp_path, timeout=0.1):
                    pass
            waiting = asyncio.ensure_future(cluster.fifo("other").get(timeout=20))
            await asyncio.sleep(0.05)  # so that it waits
        with pytest.raises(snowmelt.SnowmeltError, match="closed"):
            await waiting
        with pytest.raises(snowmelt.Closed):
            await orders.put(b"x")

    asyncio.run(asyncio.wait_for(main(), 60))
    with snowmelt.open(tmp_path) as cluster:
        assert len(cluster.fifo("orders").get_many()) == 5
