"""What is used wrongly: sent to another process, after its end, half of it, with odd numbers."""

import asyncio
import copy
import pickle
import re
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import BadOption, Closed, Empty, Full, in_short


def test_what_belongs_to_a_process_says_so_when_it_is_sent_or_copied(
    node: LocalNode, name: str
) -> None:
    with snowmelt.connect(node.url) as cluster:
        pool = cluster.pool(name)
        pool.put_many([b"one", b"two"])
        with pool.get() as one, pool.get_many() as more, cluster.baton(name) as held:
            topic = cluster.multicast(name)
            counter = cluster.counter(name)
            for given in (pool, one, more, held, topic, topic.subscribe(), counter):
                for send in (pickle.dumps, copy.copy, copy.deepcopy):
                    what = type(given).__name__
                    with pytest.raises(TypeError, match=f"{what} can't be pickled or copied: .*;"):
                        send(given)


async def test_with_await_the_same(node: LocalNode, name: str) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        pool = cluster.pool(name)
        await pool.put_many([b"one", b"two"])
        topic = cluster.multicast(name)
        listener = await topic.subscribe()
        async with await pool.get() as one, await pool.get_many() as more:
            for given in (pool, one, more, topic, listener, cluster.counter(name)):
                for send in (pickle.dumps, copy.copy):
                    with pytest.raises(TypeError, match="can't be pickled or copied"):
                        send(given)


def some_and_then(count: int, body: bytes) -> Iterator[bytes]:
    yield from [body] * count
    raise ZeroDivisionError


LARGE = bytes(70_000)


def test_bodies_that_end_in_an_error_leave_no_doubt_about_those_before(
    node: LocalNode, name: str
) -> None:
    with snowmelt.connect(node.url) as cluster:
        pool = cluster.pool(name)
        with pytest.raises(ZeroDivisionError) as raised:
            pool.put_many(some_and_then(2, LARGE))
        assert raised.value.__notes__ == ["the first 2 are in the pool"]
        with pytest.raises(TypeError) as wrong:
            pool.put_many([LARGE, None])  # type: ignore[list-item]
        assert wrong.value.__notes__ == ["the first 1 are in the pool"]
        assert len(list(pool.consume(timeout=0))) == 3

        with cluster.multicast(name).subscribe(timeout=0.1) as heard:
            with pytest.raises(ZeroDivisionError) as raised:
                cluster.multicast(name).publish_many(some_and_then(5000, b"a"))
            assert raised.value.__notes__ == ["the first 4096 were published"]
            assert len(list(heard)) == 4096

        queue = cluster.fifo(name)
        with pytest.raises(ZeroDivisionError) as raised:
            queue.put_many(some_and_then(70_000, b"a"))
        assert queue.stats().ready == 65_536
        assert raised.value.__notes__ == ["the first 65536 bodies are in the queue, in [0, 65536)"]

        jobs = cluster.priority(f"{name}-jobs")
        with pytest.raises(ZeroDivisionError) as raised:
            jobs.put_many(some_and_then(70_000, b"a"))
        assert jobs.stats().ready == 65_536
        assert raised.value.__notes__ == ["the first 65536 bodies are in the queue, in [0, 65536)"]


async def test_a_put_of_many_that_is_cancelled_says_what_it_knows(
    node: LocalNode, name: str
) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        pool = cluster.pool(name, buffers=2)
        task = asyncio.ensure_future(pool.put_many([LARGE] * 3))
        while (await pool.stats()).stock < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert raised.value.__notes__ == [
            "the first 2 are in the pool, and perhaps some after them"
        ]
        assert len([one async for one in pool.consume(timeout=0)]) == 2


@pytest.mark.parametrize("kind", ["fifo", "priority"])
async def test_a_put_of_several_calls_that_is_cancelled_says_what_it_knows(
    node: LocalNode, name: str, kind: str
) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        queue: Any = getattr(cluster, kind)(name)
        await queue.put(b"first")
        task = asyncio.ensure_future(queue.put_many([LARGE] * 600))
        while (await queue.stats()).ready < 200:  # more than goes in one call
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        (note,) = raised.value.__notes__
        found = re.fullmatch(r"the first (\d+) bodies are in the queue.*, and perhaps .*", note)
        assert found is not None
        told, there = int(found[1]), (await queue.stats()).ready - 1
        assert 0 < told <= there < 600


@pytest.mark.parametrize("kind", ["fifo", "priority"])
async def test_a_put_of_many_says_what_it_knows_of_its_first_call_too(
    node: LocalNode, name: str, kind: str
) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        queue: Any = getattr(cluster, kind)(name, max_items=2)
        await queue.put_many([b"a", b"b"])
        task = asyncio.ensure_future(queue.put_many([b"c", b"d"], timeout=30))
        await asyncio.sleep(0.1)  # it waits for room
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        none = "the first 0 bodies are in the queue"
        assert raised.value.__notes__ == [f"{none}, and perhaps some after them"]
        with pytest.raises(Full) as full:
            await queue.put_many([b"c", b"d"], timeout=0)
        assert full.value.__notes__ == [none]


def test_threads_that_ask_a_folder_for_one_pool_at_once_share_it(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with snowmelt.open(tmp_path) as cluster:
            for number in range(10):
                line, found = threading.Barrier(8), list[Any]()

                def ask(line: Any = line, found: Any = found, number: int = number) -> None:
                    line.wait()
                    found.append(cluster.pool(f"p{number}"))

                threads = [threading.Thread(target=ask) for _ in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert len({one.id for one in found}) == 1
                found[0].put(b"one")
                found[-1].get(timeout=0).ack()
    finally:
        sys.setswitchinterval(before)


def test_a_closed_cluster_makes_no_pool_that_nobody_would_close(
    node: LocalNode, name: str, tmp_path: Path
) -> None:
    for cluster in (snowmelt.connect(node.url), snowmelt.open(tmp_path)):
        pool = cluster.pool(name)
        cluster.close()
        with pytest.raises(Closed, match="this pool is closed"):
            pool.put(b"one")
        with pytest.raises(Closed, match="this cluster is closed"):
            cluster.pool(name)


def test_a_time_out_may_be_any_number(node: LocalNode, name: str) -> None:
    moment: Any
    for moment in (Fraction(1, 100), True, -1, float("-inf")):
        with snowmelt.connect(node.url) as cluster:
            pool = cluster.pool(name, buffers=1)
            assert cluster.ping(b"x", timeout=abs(moment) if moment == 1 else 1) == b"x"
            with pytest.raises(Empty):
                pool.get(timeout=moment)
            pool.put(b"one", timeout=moment)
            with pytest.raises(Full):
                pool.put(b"one", timeout=moment)
            with pytest.raises(Full):
                pool.put_many([b"one"], timeout=moment)
            pool.get().ack()
            with cluster.baton(name), pytest.raises(snowmelt.NotGranted):
                cluster.baton(name).acquire(timeout=moment)
            cluster.ping(timeout=Fraction(9))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "moment",
    [None, "1", float("nan"), float("inf"), 10**5000],
    ids=["none", "text", "nan", "inf", "huge"],
)
def test_what_is_no_time_out_is_named(node: LocalNode, name: str, moment: Any) -> None:
    with snowmelt.connect(node.url) as cluster, cluster.pool(name) as pool:
        topic, held = cluster.multicast(name), cluster.baton(name).acquire()
        calls: list[Any] = [pool.get, pool.await_room, pool.stats, cluster.ping, cluster.pools]
        calls += [lambda timeout: pool.put(b"", timeout=timeout)]
        calls += [lambda timeout: pool.put_many([b""], timeout=timeout)]
        calls += [lambda timeout: topic.publish(b"", timeout=timeout)]
        calls += [lambda timeout: held.save(b"", timeout=timeout)]
        for call in calls:
            with pytest.raises(BadOption, match=r"timeout is .*; allowed: seconds") as raised:
                call(timeout=moment)
            assert len(str(raised.value)) < 600
        held.release()


def test_a_value_of_any_size_is_named_in_short() -> None:
    assert len(in_short([b"many"] * 1_000_000)) < 300
    assert in_short(10**5000) == "a whole number of 16610 bits"
    assert in_short([1, None]) == "[1, None]"
